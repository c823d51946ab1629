#!/usr/bin/env python3
"""Draws mutants of the crash-critical code, and finds out which suites catch them.

cargo-mutants lists the mutants. This program draws some by a seed, in proportion to the modules'
numbers, and judges them: it builds the suites once with all drawn mutants, each behind a switch
(mutant_switches.py), and runs them for each mutant, the quickest suite first, until one fails. A
mutant that cannot have a switch is built alone. Each verdict is kept in results*.jsonl, so a run
that is interrupted continues, and shards of several machines add up (`make mutants`).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import difflib
import fcntl
import fnmatch
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from mutant_suites import CHOICE, STOPPED, BuildError, Tree, Verdict
from mutant_switches import Mutant, mutated_text

TOP = Path(__file__).resolve().parent.parent
EXPLAINED = TOP / "tests/mutants/explained.toml"
# The first pattern that a file matches gives its module. Not here: deliberate faults.
MODULES = [
    ("", "crates/served/src/defect.rs"),
    ("superblocks", "crates/nvslog/src/superblock.rs"),
    ("superblocks", "crates/nvslog/src/anchor.rs"),
    ("superblocks", "crates/nvslog/src/member.rs"),
    ("superblocks", "crates/served/src/devices.rs"),
    ("superblocks", "crates/served/src/assemble.rs"),
    ("superblocks", "crates/served/src/superblock_repairs.rs"),
    ("mirror", "crates/served/src/log/mirror.rs"),
    ("rebuild", "crates/served/src/rebuilds.rs"),
    ("rebuild", "crates/served/src/records.rs"),
    ("rebuild", "crates/served/src/volume/repairs.rs"),
    ("rebuild", "crates/engine/src/rebuild.rs"),
    ("destage", "crates/served/src/destages.rs"),
    ("destage", "crates/served/src/volume/destaging.rs"),
    ("destage", "crates/engine/src/destage/*"),
    ("log", "crates/nvslog/src/*"),
    ("log", "crates/served/src/log/*"),
    ("volume", "crates/served/src/*"),
]
NAMES = ["log", "destage", "volume", "rebuild", "mirror", "superblocks"]
CAUGHT = ("caught", "timeout")
LEFT = ("survived", "not reached")
# A sample that is worse than all but one in a hundred is not explained by chance.
RARE = 0.01
# What a verdict that nothing caught depends on, besides the file of the mutant.
SUITE_FOLDERS = ["crates/*/tests", "crates/torture/src", "crates/torture/examples"]


class Listed(NamedTuple):
    """A mutant that cargo-mutants lists."""

    module: str
    file: str
    # Without line and column: `replace == with != in Contents::add`.
    change: str
    line: str
    location: str
    mutant: Mutant
    key: str
    identity: str

    def name(self) -> str:
        """As cargo-mutants names it."""
        return f"{self.location}: {self.change}"


class Explanation(NamedTuple):
    """Why a survivor is equivalent or harmless."""

    file: str
    mutant: str
    line: str
    why: str


def module_of(file: str) -> str:
    """The module of a file; empty if none."""
    return next((name for name, pattern in MODULES if fnmatch.fnmatch(file, pattern)), "")


def offset(starts: list[int], position: dict[str, int]) -> int:
    return starts[position["line"] - 1] + position["column"] - 1


def listed(cargo_mutants: str) -> list[Listed]:
    """Every mutant of the modules."""
    packages = [
        part for name in ("engine", "nvslog", "served") for part in ("-p", f"destage-{name}")
    ]
    command = [cargo_mutants, "mutants", "--list", "--json", *packages, "--dir", str(TOP)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: list[Listed] = []
    texts: dict[str, tuple[str, list[int], str]] = {}
    times: collections.Counter[str] = collections.Counter()
    for entry in json.loads(done.stdout):
        file = entry["file"]
        module = module_of(file)
        if not module:
            continue
        if file not in texts:
            text = (TOP / file).read_text(encoding="utf-8")
            starts = [0]
            for line in text.split("\n"):
                starts.append(starts[-1] + len(line) + 1)
            texts[file] = text, starts, hashlib.sha256(text.encode()).hexdigest()[:16]
        text, starts, revision = texts[file]
        location, change = entry["name"].split(": ", 1)
        span = entry["span"]
        line = text.split("\n")[span["start"]["line"] - 1].strip()
        start, end = offset(starts, span["start"]), offset(starts, span["end"])
        around = entry["function"]["span"] if entry["function"] else span
        function = offset(starts, around["start"]), offset(starts, around["end"])
        mutant = Mutant(0, entry["genre"], start, end, entry["replacement"], function)
        same = f"{file}: {change}: {line}"
        times[same] += 1
        key = f"{revision} {entry['name']}"
        identity = f"{same}: {times[same]}"
        found.append(Listed(module, file, change, line, location, mutant, key, identity))
    return found


def draw(mutants: list[Listed], count: int, seed: int) -> list[Listed]:
    """Some mutants of each module, in proportion to its number, by the hashes of their names.

    A larger count has those of a smaller one, and a change elsewhere leaves most as they were.
    """
    by_module: dict[str, list[tuple[bytes, Listed]]] = {name: [] for name in NAMES}
    for mutant in mutants:
        drawn = hashlib.sha256(f"{seed} {mutant.identity}".encode()).digest()
        by_module[mutant.module].append((drawn, mutant))
    count = min(count, len(mutants))
    shares = {name: count * len(of) / len(mutants) for name, of in by_module.items()}
    numbers = {name: int(share) for name, share in shares.items()}
    rest = sorted(NAMES, key=lambda name: numbers[name] - shares[name])
    for name in rest[: count - sum(numbers.values())]:
        numbers[name] += 1
    drawn_of = [sorted(of)[: numbers[name]] for name, of in by_module.items()]
    chosen = sorted((entry for of in drawn_of for entry in of), key=lambda entry: entry[0])
    return numbered([mutant for _, mutant in chosen])


def numbered(mutants: list[Listed]) -> list[Listed]:
    """The mutants with the numbers of their switches."""
    return [
        one._replace(mutant=one.mutant._replace(number=number))
        for number, one in enumerate(mutants)
    ]


def suites_revision() -> str:
    """A hash of the suites' sources: a survivor is judged again when they change."""
    hashed = hashlib.sha256(CHOICE.encode())
    for folder in SUITE_FOLDERS:
        for path in sorted(path for top in TOP.glob(folder) for path in top.rglob("*.rs")):
            hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


class Results:
    """The verdicts on file."""

    def __init__(self, out: Path, shard: str) -> None:
        """Reads every results*.jsonl of a folder."""
        part = "" if shard == "1/1" else "-" + shard.replace("/", "-of-")
        self.path = out / f"results{part}.jsonl"
        half = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        self.separator = "\n" if half else ""
        self.suites = suites_revision()
        self.known: dict[str, dict[str, Any]] = {}
        for path in sorted(out.glob("results*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                # An interrupted run may leave half a line.
                with contextlib.suppress(json.JSONDecodeError):
                    entry = json.loads(line)
                    if not self.is_stale(entry):
                        self.known[entry["key"]] = entry

    def is_stale(self, entry: dict[str, Any]) -> bool:
        """Whether a mutant survived other suites than these."""
        return entry["outcome"] in LEFT and entry["suites"] != self.suites

    def add(self, mutant: Listed, verdict: Verdict, how: str) -> None:
        """Keeps a verdict."""
        entry = {
            "key": mutant.key,
            "module": mutant.module,
            "mutant": mutant.name(),
            **verdict._asdict(),
            "seconds": round(verdict.seconds, 1),
            "how": how,
            "suites": self.suites,
        }
        if verdict.outcome in LEFT:
            entry["diff"] = diff(mutant)
        self.known[mutant.key] = entry
        with self.path.open("a", encoding="utf-8") as out:
            out.write(self.separator + json.dumps(entry) + "\n")
            self.separator = ""


def diff(mutant: Listed) -> str:
    """What a mutant changes."""
    text = (TOP / mutant.file).read_text(encoding="utf-8")
    after = mutated_text(text, mutant.mutant)
    lines = difflib.unified_diff(
        text.splitlines(), after.splitlines(), mutant.file, "mutant", n=3, lineterm=""
    )
    return "\n".join(lines)


def explanations() -> list[Explanation]:
    if not EXPLAINED.exists():
        return []
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    return [Explanation(**entry) for entry in entries]


def explains(explanation: Explanation, mutant: Listed) -> bool:
    where = (explanation.file, explanation.mutant, explanation.line)
    return where == (mutant.file, mutant.change, mutant.line)


def judge(
    chosen: list[Listed], results: Results, tree: Tree, seconds: float | None, quick: bool
) -> None:
    """Judges those that have no verdict, for these seconds from when the programs are built."""
    if all(mutant.key in results.known for mutant in chosen):
        return
    chosen = numbered(chosen)
    by_file: dict[str, list[Mutant]] = {}
    for mutant in chosen:
        by_file.setdefault(mutant.file, []).append(mutant.mutant)
    start = time.monotonic()
    switched = tree.prepare(by_file, [mutant.key for mutant in chosen])
    print(
        f"built in {time.monotonic() - start:.0f} s: {len(switched.on)} mutants behind switches, "
        f"{len(switched.unviable)} do not compile, {len(switched.alone)} are built alone"
    )
    for binary in tree.binaries:
        print(f"  {binary.seconds:6.1f} s  {binary.suite:24} {binary.name}", flush=True)
    end = time.monotonic() + seconds if seconds else float("inf")
    on = {one.number for one in switched.on}
    unviable = {one.number for one in switched.unviable}
    # Those that are built alone take longest: last.
    todo = [mutant for mutant in chosen if mutant.key not in results.known]
    todo.sort(key=lambda mutant: mutant.mutant.number not in on | unviable)
    binaries = tree.quick_binaries() if quick else tree.binaries

    def verdict_of(mutant: Listed) -> Verdict | None:
        """The verdict on a mutant that no build has to be made for; none if time is over."""
        if time.monotonic() > end:
            return None
        if mutant.mutant.number in unviable:
            return Verdict("unviable", "", "", 0.0, [])
        return tree.judge(mutant.mutant.number, binaries, alone=False)

    switches = [one for one in todo if one.mutant.number in on | unviable]
    for mutant, verdict in side_by_side(verdict_of, switches):
        if verdict and not (quick and verdict.outcome in LEFT):
            note(mutant, verdict, "switch", results)
    for mutant in [] if quick else todo:
        if mutant.mutant.number not in on | unviable and time.monotonic() < end:
            note(mutant, tree.judge_alone(mutant.file, mutant.mutant), "alone", results)


def side_by_side(
    judge_one: Callable[[Listed], Verdict | None], todo: list[Listed]
) -> Iterator[tuple[Listed, Verdict | None]]:
    """Judges one mutant on each processor, and gives the verdicts as they come. A run that ends
    early ends the programs."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        of = {threads.submit(judge_one, mutant): mutant for mutant in todo}
        try:
            for done in concurrent.futures.as_completed(of):
                yield of[done], done.result()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            STOPPED.set()
            raise


def note(mutant: Listed, verdict: Verdict, how: str, results: Results) -> None:
    """Keeps a verdict and prints it."""
    results.add(mutant, verdict, how)
    by = f"{verdict.suite} ({verdict.test})" if verdict.test else "-"
    print(f"{verdict.seconds:6.1f} s  {verdict.outcome:11}  {mutant.name()}: {by}", flush=True)


class Row(NamedTuple):
    """The figures of a module."""

    drawn: int
    judged: int
    unviable: int
    caught: int
    timeouts: int
    survived: int

    def score(self) -> str:
        """Those that were caught of those that compile."""
        viable = self.judged - self.unviable
        return f"{100 * (self.caught + self.timeouts) / viable:.1f} %" if viable else "-"


def row(drawn: list[Listed], results: Results) -> Row:
    found = [results.known[one.key]["outcome"] for one in drawn if one.key in results.known]
    number = collections.Counter(found)
    left = sum(number[outcome] for outcome in LEFT)
    return Row(
        len(drawn), len(found), number["unviable"], number["caught"], number["timeout"], left
    )


def survivors(chosen: list[Listed], results: Results) -> Iterator[tuple[Listed, dict[str, Any]]]:
    for mutant in chosen:
        entry = results.known.get(mutant.key)
        if entry and entry["outcome"] in LEFT:
            yield mutant, entry


def print_summary(chosen: list[Listed], results: Results, known: list[Explanation]) -> int:
    """Prints figures and survivors. Returns how many survivors are not explained."""
    print("\nmodule        drawn  judged  unviable  caught  timeout  survived    score")
    for name in [*NAMES, "all"]:
        of = row([one for one in chosen if name in (one.module, "all")], results)
        print(
            f"{name:12} {of.drawn:6} {of.judged:7} {of.unviable:9} {of.caught:7} "
            f"{of.timeouts:8} {of.survived:9} {of.score():>8}"
        )
    entries = [results.known[one.key] for one in chosen if one.key in results.known]
    by_suite = collections.Counter(
        entry["suite"] for entry in entries if entry["outcome"] in CAUGHT
    )
    print("\ncaught first by")
    for suite, number in by_suite.most_common():
        print(f"  {suite:26} {number:5}")
    spent = [entry["seconds"] for entry in entries]
    if spent:
        print(f"{sum(spent):.0f} s in all, {sum(spent) / len(spent):.1f} s per mutant")
    unexplained = 0
    for mutant, entry in survivors(chosen, results):
        why = next((one.why for one in known if explains(one, mutant)), "")
        unexplained += not why
        where = mutant.name()
        print(f"\n{entry['outcome']}: {where}: {why or 'NOT EXPLAINED'}")
        if not why:
            print(entry["diff"])
    return unexplained


def chance_of_at_most(caught: int, of: int, share: float) -> float:
    """How likely at most this many of some mutants are caught if this share of all is."""
    terms = (
        math.comb(of, number) * share**number * (1 - share) ** (of - number)
        for number in range(caught + 1)
    )
    return sum(terms)


def wrong_explanations(mutants: list[Listed], results: Results) -> list[str]:
    """Explanations of mutants that do not exist, or that a suite catches."""
    wrong = []
    for one in explanations():
        matching = [mutant for mutant in mutants if explains(one, mutant)]
        where = f"{one.file}: {one.mutant}: {one.line}"
        if not matching:
            wrong.append(f"explained, but there is no such mutant: {where}")
        outcomes = [results.known.get(mutant.key, {}).get("outcome") for mutant in matching]
        # What changes only the time may take too long.
        if outcomes and all(outcome == "caught" for outcome in outcomes):
            wrong.append(f"explained, but a suite catches it: {where}")
        if not one.why.strip() or "\n" in one.why:
            wrong.append(f"explained, but not in one line: {where}")
    return wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge mutants of the crash-critical code.")
    add = parser.add_argument
    add(
        "--count",
        type=int,
        help="how many are drawn [default: 400; 60 if --fresh, which has no time for more]",
    )
    add("--seed", default="1", help="a number, or `clock` [default: 1]")
    add("--shard", default="1/1", help="the part that this run judges, e.g. 2/4")
    add("--seconds", type=float, help="judge for this long once all is built [default: all]")
    add("--least", type=float, default=95.0, help="per cent to be caught [default: 95]")
    add("--quick", action="store_true", help="a first pass: only catches, by the quick suites")
    add("--summary", action="store_true", help="only add up what is on file")
    add(
        "--fresh",
        action="store_true",
        help="a sample: survivors need no explanation, and it "
        "fails only if so few are caught that chance does not explain it",
    )
    add("--only", help="the mutants whose name has this text, instead of a draw")
    add("--afresh", action="store_true", help="forget the verdicts on file")
    add("--out", type=Path, default=TOP / "target/mutants", help="where verdicts are kept")
    add("--cargo", default="cargo")
    add("--cargo-mutants", default=str(TOP / "target/cargo-mutants/bin/cargo-mutants"))
    return parser.parse_args()


def shard_of(chosen: list[Listed], shard: str) -> list[Listed]:
    part, of = (int(text) for text in shard.split("/"))
    if not 1 <= part <= of:
        raise SystemExit(f"--shard {shard}: expected K/N with K from 1 to N")
    return [mutant for number, mutant in enumerate(chosen) if number % of == part - 1]


def main() -> int:
    """Draws, judges and adds up; 1 if too few are caught or a survivor is not explained."""
    given = arguments()
    # The programs that it runs end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given.count = given.count or (60 if given.fresh else 400)
    given.out.mkdir(parents=True, exist_ok=True)
    if not Path(given.cargo_mutants).exists():
        print(f"SKIPPED: mutants: {given.cargo_mutants} could not be installed")
        return 0
    seed = int(time.time()) if given.seed == "clock" else int(given.seed)
    mutants = listed(given.cargo_mutants)
    chosen = draw(mutants, given.count, seed)
    if given.only:
        chosen = [one for one in mutants if given.only in one.name()]
    print(f"{len(mutants)} mutants, {len(chosen)} drawn with --seed {seed}, shard {given.shard}")
    if given.afresh:
        for path in given.out.glob("results*.jsonl"):
            path.unlink()
    results = Results(given.out, given.shard)
    if not given.summary:
        with (given.out / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                print(f"{given.out}: another run works there. Give this one another --out.")
                return 2
            try:
                tree = Tree(TOP, given.out, given.cargo)
                judge(shard_of(chosen, given.shard), results, tree, given.seconds, given.quick)
            except BuildError as error:
                print(error)
                return 2
    if not given.summary:
        chosen = shard_of(chosen, given.shard)
    unexplained = print_summary(chosen, results, explanations())
    wrong = wrong_explanations(mutants, results)
    print("\n".join(["", *wrong, ""]) if wrong else "")
    figures = row(chosen, results)
    viable = figures.judged - figures.unviable
    caught = figures.caught + figures.timeouts
    print(
        f"{viable} mutants that compile: {caught} caught ({figures.score()}), "
        f"{figures.survived} survived, {unexplained} of them not explained; "
        f"{figures.drawn - figures.judged} of {figures.drawn} not judged; --seed {seed}"
    )
    enough = viable > 0 and 100 * caught >= given.least * viable
    if given.fresh and viable > 0:
        chance = chance_of_at_most(caught, viable, given.least / 100)
        enough = chance >= RARE
        better = f"{100 * chance:.1f} % of such samples are no better"
        print(f"if {given.least:g} % are caught, {better}")
    if not enough:
        few = "far fewer" if given.fresh else "fewer"
        what = f"{few} than {given.least:g} % were caught"
        print(f"FAILED: {what}" if viable else "FAILED: no mutant was judged; give more --seconds")
    complete = figures.judged == figures.drawn
    if not complete:
        print("not complete: survivors take longest, so the score may be too high")
    ok = enough and (given.fresh or (complete and not wrong and unexplained == 0))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
