#!/usr/bin/env python3
"""Plants faults into a copy of the code, one at a time, and lets random torture look for each.

A fault counts as found if a check fails within --crashes. One that is not found is tried with other
first seeds, and then with the test of crates/served that its entry names. Without a fault nothing
may fail. The copy and what is built of it stay in target/planted, so the next run is faster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
COPY = ROOT / "target/planted/tree"
BUILT = ROOT / "target/planted/target"
CONFIG = ["--config", "build.rustflags=['-Awarnings']", "--target-dir", str(BUILT)]
TIMEOUT = 1200
# Between the first seeds.
APART = 40_000


@dataclass
class Result:
    """What torture said of a fault."""

    name: str
    found: bool
    crashes: int
    said: str
    seed: int = 1


def refuse(why: str) -> None:
    sys.exit(f"planted: {why}")


def faults(only: list[str]) -> list[dict]:
    """The faults of the list, or only these."""
    listed = tomllib.loads(FAULTS.read_text())["fault"]
    unknown = set(only) - {fault["name"] for fault in listed}
    if unknown:
        refuse(f"no fault is called {', '.join(sorted(unknown))}. See {FAULTS.relative_to(ROOT)}")
    return [fault for fault in listed if not only or fault["name"] in only]


def copy_tree() -> None:
    """Brings the copy up to date. Files that are the same keep their times: they are built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for old in COPY.rglob("*"):
        if old.is_file() and str(old.relative_to(COPY)) not in names:
            old.unlink()
    for name in names:
        put(name, (ROOT / name).read_bytes())


def put(name: str, content: bytes) -> None:
    path = COPY / name
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def planted(fault: dict) -> dict[str, str]:
    """The files with the fault in them."""
    files: dict[str, str] = {}
    for edit in fault["edit"]:
        name = edit["file"]
        text = files.get(name) or (ROOT / name).read_text()
        if text.count(edit["old"]) != 1:
            refuse(f"{fault['name']}: what it replaces is not once in {name}")
        files[name] = text.replace(edit["old"], edit["new"])
    return files


def build(cargo: str, name: str, what: list[str]) -> None:
    """Builds this of the copy as it is now."""
    built = subprocess.run(
        [cargo, *what, "--locked", "-q", *CONFIG],
        cwd=COPY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode:
        refuse(f"{name} does not build:\n{built.stderr}")


def torture(args: argparse.Namespace, name: str, seed: int) -> Result:
    """Builds the copy as it is now, and looks for what is wrong with it."""
    build(args.cargo, name, ["build", "-p", "destage-torture", "--example", "random"])
    words = ["--crashes", args.crashes, "--seed", seed, "--threads", args.threads]
    program = [BUILT / "debug/examples/random", *map(str, words)]
    try:
        ran = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return Result(name, True, args.crashes, f"it does not end within {TIMEOUT} s", seed)
    said = ran.stdout.strip() or f"it ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"
    numbers = [word for word in said.split() if word.isdigit()]
    return Result(name, ran.returncode != 0, int(numbers[0]) if numbers else 0, said, seed)


def look_for(args: argparse.Namespace, fault: dict) -> Result:
    """Looks for a fault that is in the copy, with several first seeds and then by its test."""
    tries = 1 if "harmless" in fault else args.tries
    for seed in range(args.seed, args.seed + tries * APART, APART):
        result = torture(args, fault["name"], seed)
        if result.found:
            return result
    test = fault.get("test")
    if test:
        words = ["test", "-p", "destage-served", "--test", test]
        build(args.cargo, fault["name"], [*words, "--no-run"])
        ran = subprocess.run(
            [args.cargo, *words, "--locked", "-q", *CONFIG],
            cwd=COPY, capture_output=True, text=True, check=False, timeout=TIMEOUT,
        )  # fmt: skip
        if ran.returncode:
            return Result(fault["name"], True, 0, f"served/tests/{test}.rs fails", 0)
    return result


def show(result: Result, fault: dict | None) -> str:
    """A line of the table; whether it is as it should be."""
    if fault is None:
        return "FAILS" if result.found else "nothing"
    if not result.found:
        return "harmless" if "harmless" in fault else "NOT FOUND"
    if not result.seed:
        return "by its test"
    return f"after {result.crashes}" + ("" if result.seed == 1 else f", from {result.seed}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these faults")
    parser.add_argument("--crashes", type=int, default=5000, help="crashes for each fault")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--tries", type=int, default=4, help="first seeds, where one is not enough")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    args = parser.parse_args()
    chosen = faults(args.names)
    copy_tree()
    results = [(None, torture(args, "no fault", args.seed))]
    wide = max(len(fault["name"]) for fault in chosen)
    for fault in [None, *chosen]:
        if fault is not None:
            files = planted(fault)
            for name, text in files.items():
                put(name, text.encode())
            try:
                results.append((fault, look_for(args, fault)))
            finally:
                for name in files:
                    put(name, (ROOT / name).read_bytes())
        result = results[-1][1]
        line = f"{result.name:{wide}}  {show(result, fault):22}  {result.said}"
        print(line[:200], file=sys.stderr if args.format == "json" else sys.stdout, flush=True)
    if args.format == "json":
        print(json.dumps([asdict(result) for _, result in results], indent=1))
    verdicts = [show(result, fault) for fault, result in results]
    missed = verdicts.count("NOT FOUND")
    found = sum(verdict.startswith("after") for verdict in verdicts)
    first = sum(verdict.startswith("after") and "from" not in verdict for verdict in verdicts)
    print(f"{len(chosen)} faults: {found} found, {first} of them with the first seeds, "
          f"{verdicts.count('by its test')} by a test only, {missed} not found, "
          f"{verdicts.count('harmless')} harmless", file=sys.stderr)  # fmt: skip
    return 1 if missed or "FAILS" in verdicts else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
