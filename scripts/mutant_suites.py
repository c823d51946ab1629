"""Builds a copy of the tree with mutants, and runs the suites that should catch them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mutant_switches import SWITCH_FILE, Mutant, Written, mutated_text, with_switches

PACKAGES = ("engine", "nvslog", "served")
SUITES = {
    "nvslog": "nvslog tests",
    "served": "served tests",
    "engine": "engine tests",
    "torture": "torture scenarios",
}
# Examples of crates/torture that are suites, and their arguments.
EXAMPLES = {
    "random": ("random torture", ["--threads", "1", "--crashes", "3000"]),
    "exhaustive": ("exhaustive, short scope", ["--scope", "short", "--threads", "1"]),
}
# Tests that explore what an example explores too, or look for deliberate faults for long.
SKIPPED_BINARIES = ("torture/exhaustive",)
SKIPPED_TESTS = ("deliberate", "defect", "caught", "catches", "random_cases", "the_same_")
QUICK_SECONDS = 2.5
# What a verdict depends on, besides the sources.
CHOICE = repr((EXAMPLES, SKIPPED_BINARIES, SKIPPED_TESTS))
ENGINE_LIB = "crates/engine/src/lib.rs"
SWITCH = "crates/engine/src/mutant_switch.rs"
MEMORY_KIB = 6 << 20
# Programs that run in other threads end when this is set.
STOPPED = threading.Event()
# Errors of a mutant's own text: it does not compile alone either.
UNVIABLE = (
    "E0061 E0070 E0277 E0282 E0283 E0308 E0368 E0369 E0412 E0423 E0425 E0432 E0433 E0599 E0600 "
    "E0604 E0605 E0606 E0614"
)


def digest(content: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(content).hexdigest()[:16]


class BuildError(Exception):
    """The copy does not build, or its tests do not pass without a mutant."""


class Verdict(NamedTuple):
    """What the suites say of a mutant."""

    outcome: str
    suite: str
    test: str
    seconds: float
    reached: list[str]


@dataclass
class Binary:
    """A program of tests."""

    suite: str
    name: str
    path: Path
    folder: Path
    arguments: list[str]
    seconds: float = 0.0
    reached: str = ""
    # A hash of its bytes.
    content: str = ""

    def order(self) -> float:
        """The quickest first. Examples try many small cases, and end at the first that fails."""
        return self.seconds / 4 if self.path.name.split("-")[-1] in EXAMPLES else self.seconds


@dataclass
class Run:
    """How a run of a program ended."""

    ok: bool
    timed_out: bool
    seconds: float
    failed: str = ""
    output: str = ""


@dataclass
class Compiled:
    """What the compiler says: errors, and the programs of tests that it wrote."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    binaries: list[Binary] = field(default_factory=list)


@dataclass
class Switched:
    """Which mutants a build has, and which do not compile, alone or as a switch."""

    on: list[Mutant] = field(default_factory=list)
    alone: list[Mutant] = field(default_factory=list)
    unviable: list[Mutant] = field(default_factory=list)


def first_failure(output: str) -> str:
    """The name of the first test that failed, or the line that says what did."""
    lines = [line for line in output.splitlines() if line.strip()]
    for line in lines:
        if line.endswith("... FAILED") or " ... FAILED" in line:
            return line.removeprefix("test ").split(" ... ")[0]
    for at, line in enumerate(lines):
        if line.startswith("seed "):
            return line[:160]
        if line.startswith("Found after"):
            return lines[at - 1][:160]
        if "overflowed its stack" in line or "memory allocation" in line:
            return line.strip()[:160]
    return (lines[0] if lines else "no output")[:160]


def run_program(binary: Binary, environment: dict[str, str], limit: float, log: Path) -> Run:
    """Runs a program of tests until it ends, a test fails, or its processor time is over."""
    limits = f'ulimit -v {MEMORY_KIB}; ulimit -S -t {math.ceil(limit)}; exec "$0" "$@"'
    command = ["sh", "-c", limits, str(binary.path), *binary.arguments]
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            cwd=binary.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        failed, late, seen = False, False, 0
        try:
            while child.poll() is None and not failed and not late:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.05)
                # On a busy machine it gets only a part of a processor.
                late = STOPPED.is_set() or time.monotonic() - start > 20 * limit
                if log.stat().st_size > seen:
                    text = log.read_bytes()
                    failed, seen = b" ... FAILED" in text, len(text)
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    output = log.read_bytes().decode(errors="replace")
    ok = child.returncode == 0 and not failed and not late
    late |= child.returncode == -signal.SIGXCPU
    timed_out = late and not failed
    why = "" if ok else "no end" if timed_out else first_failure(output)
    return Run(ok, timed_out, spent, why, output)


def test_arguments() -> list[str]:
    """The arguments of a program of tests."""
    skips = [part for name in SKIPPED_TESTS for part in ("--skip", name)]
    return ["--test-threads=1", *skips]


def switch_of(file: str) -> Callable[[int], str]:
    """The expression that says whether a mutant is on, in a file."""
    root = "crate" if file.startswith("crates/engine/") else "::destage_engine"
    return lambda number: f"{root}::mutant_switch::on({number})"


class Tree:
    """A copy of the tree with a target folder of its own."""

    def __init__(self, top: Path, out: Path, cargo: str) -> None:
        """Copies what changed since the last time."""
        self.top, self.out, self.cargo = top, out, cargo
        self.tree = out / "tree"
        self.original: dict[str, str] = {}
        self.binaries: list[Binary] = []
        self.copy()

    def copy(self) -> None:
        """Makes the copy equal to the tree; files that did not change keep their times."""
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=self.top,
            check=True,
            capture_output=True,
        ).stdout.decode()
        names = {name for name in listed.split("\0") if name and (self.top / name).is_file()}
        if self.tree.exists():
            for path in [path for path in self.tree.rglob("*") if path.is_file()]:
                if str(path.relative_to(self.tree)) not in names:
                    path.unlink()
        for name in sorted(names):
            source, target = self.top / name, self.tree / name
            if not target.exists() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def text(self, file: str) -> str:
        """A file as it is in the tree."""
        if file not in self.original:
            self.original[file] = (self.top / file).read_text(encoding="utf-8")
        return self.original[file]

    def write(self, file: str, text: str) -> None:
        """Writes a file of the copy if it differs."""
        path = self.tree / file
        if path.read_text(encoding="utf-8") != text if path.exists() else True:
            path.write_text(text, encoding="utf-8")

    def restore(self) -> None:
        """Writes every source file as it was."""
        for file, text in self.original.items():
            self.write(file, text)

    def compile(self, *arguments: str) -> Compiled:
        """Runs cargo, which continues after errors."""
        command = [self.cargo, *arguments, "--locked", "--message-format=json"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.out / "build")}
        done = subprocess.run(
            command, cwd=self.tree, env=environment, capture_output=True, check=False
        )
        compiled = Compiled()
        for line in done.stdout.decode().splitlines():
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if message["reason"] == "compiler-message":
                if message["message"]["level"] == "error":
                    compiled.errors.append(message["message"])
            elif message["reason"] == "compiler-artifact" and message.get("executable"):
                compiled.binaries += self.binary_of(message)
        if done.returncode != 0 and not compiled.errors:
            raise BuildError(done.stderr.decode())
        return compiled

    def binary_of(self, artifact: dict[str, Any]) -> Iterator[Binary]:
        """The suite that a program of cargo belongs to."""
        folder = Path(artifact["manifest_path"]).parent
        package, target = folder.name, artifact["target"]["name"]
        path = Path(artifact["executable"])
        if "example" in artifact["target"]["kind"]:
            if target in EXAMPLES:
                suite, arguments = EXAMPLES[target]
                yield Binary(suite, f"{package}/{target}", path, folder, arguments)
        elif f"{package}/{target}" not in SKIPPED_BINARIES and package in SUITES:
            yield Binary(SUITES[package], f"{package}/{target}", path, folder, test_arguments())

    def check(self) -> Compiled:
        """Compiles the libraries, without code."""
        packages = [part for name in PACKAGES for part in ("-p", f"destage-{name}")]
        return self.compile("check", "--keep-going", "--lib", *packages)

    def build(self) -> Compiled:
        """Builds every program of tests."""
        packages = [part for name in (*PACKAGES, "torture") for part in ("-p", f"destage-{name}")]
        tests = self.compile("test", "--no-run", "--lib", "--tests", *packages)
        if tests.errors:
            return tests
        examples = self.compile("build", "--examples", "-p", "destage-torture")
        return Compiled(examples.errors, tests.binaries + examples.binaries)

    def keep(self, binaries: Iterable[Binary]) -> None:
        """Copies the programs to a folder where no later build changes them."""
        folder, noted = self.out / "programs", self.noted().get("binaries", [])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.binaries = list(binaries)
        for binary in self.binaries:
            kept = folder / binary.name.replace("/", "-")
            shutil.copy2(binary.path, kept)
            binary.path, binary.content = kept, digest(kept.read_bytes())
            for known in noted:
                same = ("name", "content", "arguments")
                if all(known.get(part) == getattr(binary, part) for part in same):
                    binary.seconds, binary.reached = known["seconds"], known["reached"]

    def noted(self) -> dict[str, Any]:
        """What is noted of the last programs."""
        path = self.out / "programs.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def keep_times(self, files: Iterable[str]) -> None:
        """Gives sources that are as they were in the last build their times of then, so that cargo
        builds only what changed. The times of now are noted for the next build."""
        path = self.out / "times.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        times = {}
        for file in files:
            source = self.tree / file
            content = digest(source.read_bytes())
            if known.get(file, [""])[0] == content:
                os.utime(source, ns=(known[file][1], known[file][1]))
            times[file] = content, source.stat().st_mtime_ns
        path.write_text(json.dumps(times), encoding="utf-8")

    def revision(self, mutants: Iterable[str]) -> str:
        """A hash of what the programs are made of."""
        hashed = hashlib.sha256("\n".join(mutants).encode())
        for path in sorted(self.tree.glob("crates/**/*")) + sorted(self.tree.glob("Cargo.*")):
            if path.is_file():
                hashed.update(str(path.relative_to(self.tree)).encode() + b"\0")
                hashed.update(path.read_bytes())
        return hashed.hexdigest()

    def save(self, revision: str, switched: Switched) -> None:
        """Notes which programs these are, for a run that continues."""
        noted = {
            "revision": revision,
            "switched": [
                [one.number for one in part]
                for part in (switched.on, switched.alone, switched.unviable)
            ],
            "binaries": [dataclasses.asdict(binary) for binary in self.binaries],
        }
        path = self.out / "programs.json"
        path.with_suffix(".tmp").write_text(json.dumps(noted, default=str), encoding="utf-8")
        path.with_suffix(".tmp").replace(path)

    def saved(self, revision: str, mutants: list[Mutant]) -> Switched | None:
        """The programs of an interrupted run, if nothing changed since."""
        noted = self.noted()
        if noted.get("revision") != revision:
            return None
        self.binaries = [
            Binary(**{**one, "path": Path(one["path"]), "folder": Path(one["folder"])})
            for one in noted["binaries"]
        ]
        for binary in self.binaries:
            example = EXAMPLES.get(binary.name.removeprefix("torture/"))
            arguments = example[1] if example else test_arguments()
            if binary.arguments != arguments:
                binary.arguments, binary.seconds = arguments, 0.0
        return Switched(*([mutants[number] for number in part] for part in noted["switched"]))

    def write_switches(self, by_file: dict[str, list[Mutant]], size: int) -> dict[str, Written]:
        """Writes the mutants as switches."""
        text = self.text(ENGINE_LIB).replace("#![forbid(unsafe_code)]", "")
        self.write(ENGINE_LIB, text + "\npub mod mutant_switch;\n")
        switch_file = SWITCH_FILE.replace("@MUTANTS@", str(size))
        self.write(SWITCH, switch_file)
        written = {}
        for file, mutants in by_file.items():
            written[file] = with_switches(self.text(file), mutants, switch_of(file))
            self.write(file, written[file].text)
        return written

    def build_with_switches(self, by_file: dict[str, list[Mutant]], size: int) -> Switched:
        """Builds the programs of tests with as many mutants as possible behind switches."""
        switched = Switched()
        wanted = {file: list(mutants) for file, mutants in by_file.items()}
        while True:
            written = self.write_switches(wanted, size)
            for file, one in written.items():
                switched.alone += one.left_out
                wanted[file] = one.mutants
            errors = self.check().errors
            if not errors:
                break
            blamed: dict[int, bool] = {}
            for error in errors:
                blamed.update(blame(error, written))
            hit = [one for mutants in wanted.values() for one in mutants if one.number in blamed]
            if not hit:
                raise BuildError("\n".join(error["rendered"] for error in errors))
            for mutant in hit:
                (switched.unviable if blamed[mutant.number] else switched.alone).append(mutant)
            for file, mutants in wanted.items():
                wanted[file] = [one for one in mutants if one.number not in blamed]
        self.keep_times(sorted([*written, ENGINE_LIB, SWITCH]))
        built = self.build()
        if built.errors:
            raise BuildError("\n".join(error["rendered"] for error in built.errors))
        switched.on = [mutant for mutants in wanted.values() for mutant in mutants]
        self.keep(built.binaries)
        self.forget_switches()
        return switched

    def forget_switches(self) -> None:
        """The sources are as they were: some tests read them."""
        self.restore()
        (self.tree / SWITCH).unlink(missing_ok=True)

    def environment(self, binary: Binary, **more: str) -> dict[str, str]:
        """What cargo would set for a test, and more."""
        return {
            **os.environ,
            "CARGO_MANIFEST_DIR": str(binary.folder),
            "RUST_BACKTRACE": "0",
            **more,
        }

    def measure(self, binary: Binary) -> None:
        """Runs a program without a mutant: it must pass. Notes its time and what it reaches."""
        reached = self.out / "reached"
        reached.unlink(missing_ok=True)
        more = {"DESTAGE_MUTANTS_REACHED": str(reached)}
        log = self.out / "program.log"
        run = run_program(binary, self.environment(binary, **more), 3600.0, log)
        if not run.ok:
            raise BuildError(f"{binary.name} fails without a mutant: {run.failed}\n{run.output}")
        binary.seconds = max(run.seconds, 0.001)
        binary.reached = reached.read_text() if reached.exists() else ""

    def prepare(self, by_file: dict[str, list[Mutant]], names: list[str]) -> Switched:
        """Builds and measures the programs, or continues where an interrupted run was."""
        mutants = sorted((one for part in by_file.values() for one in part), key=lambda one: one[0])
        revision = self.revision(names)
        switched = self.saved(revision, mutants)
        if switched is None:
            switched = self.build_with_switches(by_file, len(names))
            self.save(revision, switched)
        for binary in self.binaries:
            if not binary.seconds:
                self.measure(binary)
                self.save(revision, switched)
        self.binaries.sort(key=Binary.order)
        return switched

    def quick_binaries(self) -> list[Binary]:
        """The programs that take a moment, and the first tenth of the random crashes."""
        quick = [binary for binary in self.binaries if binary.seconds < QUICK_SECONDS]
        for binary in self.binaries:
            if binary.name == "torture/random":
                *others, crashes = binary.arguments
                fewer = [*others, str(int(crashes) // 10)]
                seconds = binary.seconds / 10
                quick.append(dataclasses.replace(binary, arguments=fewer, seconds=seconds))
        return sorted(quick, key=Binary.order)

    def judge(self, number: int, binaries: Iterable[Binary], alone: bool) -> Verdict:
        """Runs the programs that reach a mutant, quickest first, until one fails."""
        start = time.monotonic()
        reached = [
            binary for binary in binaries if alone or binary.reached[number : number + 1] == "1"
        ]
        names = [binary.name for binary in reached]
        for binary in reached:
            more = {} if alone else {"DESTAGE_MUTANT": str(number)}
            limit = 3 + 5 * binary.seconds
            environment = self.environment(binary, **more)
            with tempfile.NamedTemporaryFile(dir=self.out, suffix=".log") as log:
                run = run_program(binary, environment, limit, Path(log.name))
            if not run.ok:
                outcome = "timeout" if run.timed_out else "caught"
                test = f"{binary.name}: {run.failed}"
                return Verdict(outcome, binary.suite, test, time.monotonic() - start, names)
        outcome = "survived" if reached else "not reached"
        return Verdict(outcome, "", "", time.monotonic() - start, names)

    def judge_alone(self, file: str, mutant: Mutant) -> Verdict:
        """Builds a mutant alone, and runs every program."""
        start = time.monotonic()
        (self.out / "times.json").unlink(missing_ok=True)
        self.write(file, mutated_text(self.text(file), mutant))
        try:
            if self.check().errors:
                return Verdict("unviable", "", "", time.monotonic() - start, [])
            built = self.build()
            if built.errors:
                return Verdict("unviable", "", "", time.monotonic() - start, [])
        finally:
            self.restore()
        seconds = {binary.name: binary.seconds for binary in self.binaries}
        for binary in built.binaries:
            binary.seconds = seconds[binary.name]
        if not file.startswith("crates/engine/"):
            built.binaries = [one for one in built.binaries if one.suite != SUITES["engine"]]
        built.binaries.sort(key=Binary.order)
        return self.judge(mutant.number, built.binaries, alone=True)


def blame(error: dict[str, Any], written: dict[str, Written]) -> dict[int, bool]:
    """The mutants that an error is about, and whether they cannot compile alone either."""
    code = (error.get("code") or {}).get("code", "none")
    spans = sorted(error["spans"], key=lambda span: not span["is_primary"])
    spans = [span for span in spans if span["file_name"] in written]
    for span in spans:
        file = written[span["file_name"]]
        numbers = file.blame(span["byte_start"], span["byte_end"])
        if numbers:
            own = len(numbers) == 1 and span["is_primary"] and code in UNVIABLE
            return dict.fromkeys(numbers, own)
    for span in spans:
        numbers = written[span["file_name"]].blame_function(span["byte_start"])
        if numbers:
            return dict.fromkeys(numbers, False)
    return {}
