#!/usr/bin/python3
"""Power failures under real file systems, at places of a recording of every device write.

An array of files serves ext4, xfs or btrfs; fsx, fio and a program that replaces files load it. All
that the array does to its devices is recorded. For each cut the devices are made as a power failure
at that place may leave them, the array is started again, the file system is mounted and checked by
its own tool, and the contents are compared with what each fsync before the cut promised.

    tests/filesystems/run.py --destage target/release/destage --cuts 2000

Exit 1 if a check failed, or if a planted fault was not found. docs/proof.md, "Real file systems".
"""

import argparse
import json
import multiprocessing
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from served import FILE_SYSTEMS, Failure, cannot, mount_apart
from session import Cuts, Session, shape_of
from stream import PLANTS

MIB = 1 << 20
HERE = Path(__file__).resolve().parent
CUTS_OF_A_RECORDING = 84
# Cuts of the first recording of a file system with each planted fault, and how often to try again
# while none of them finds it.
PLANTED_CUTS, PLANTED_TRIES = 10, 5
PROGRESS_CUTS = 21
# Deliberate faults of the array (served/src/defect.rs), and the most cuts that may miss one.
FAULTS = "AcknowledgesEarly ReleasesBeforeFlush"
FAULT_CUTS = 400
# Recordings of failed cuts that a run keeps.
KEPT = 6


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Task:
    """One recording with its cuts: runs in a process of its own, reports through a queue."""

    def __init__(self, options: argparse.Namespace, fs: str, number: int, cuts: int,
                 fault: str | None = None):
        self.options = options
        self.fs = fs
        self.number = number
        self.cuts = cuts
        self.fault = fault
        self.seed = random.Random(f"{options.seed}:{fs}:{number}:{fault}").randrange(1 << 31)

    @property
    def key(self) -> str:
        return f"{self.fs}-{self.fault or self.number}"

    def run(self, reports: multiprocessing.Queue) -> None:
        signal.signal(signal.SIGTERM, leave)
        folder = Path(tempfile.mkdtemp(prefix=f"destage-{self.key}-", dir=self.options.dir))
        result: dict = {"key": self.key, "fs": self.fs, "number": self.number,
                        "seed": self.seed,
                        "cuts": 0, "starts": 0, "lost_sectors": 0, "promises": 0, "failed": [],
                        "planted": {}}
        try:
            if self.fault is None:
                self.carry_out(folder, result, reports)
            else:
                result |= {"fault": self.fault, "found": None}
                self.find_fault(folder, result)
        except (Failure, OSError) as error:
            result["failed"].append({"kind": "recording", "problem": str(error)})
        except Exception:  # a fault of this program must show, not hang the run
            result["failed"].append({"kind": "program", "problem": traceback.format_exc()})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            reports.put(("done", result))

    def carry_out(self, folder: Path, result: dict, reports: multiprocessing.Queue) -> None:
        source = random.Random(self.seed)
        shape = shape_of(self.number, source)
        session = Session(folder, self.options.destage, self.fs, shape, self.seed)
        began = time.monotonic()
        session.record(self.options.load * MIB)
        recording = session.recording()
        result["array"] = shape.text()
        result["events"] = session.last - session.first
        result["recorded_mib"] = len(recording.data) // MIB
        result["record_seconds"] = round(time.monotonic() - began, 1)
        reports.put(("say", f"{self.key}: {shape.text()}; {result['events']} events, "
                            f"{result['recorded_mib']} MiB in {result['record_seconds']} s"))
        began = time.monotonic()
        cuts = Cuts(session, recording)
        for number, (place, how) in enumerate(session.draw_cuts(recording, self.cuts, source)):
            seed = f"{self.seed}-{number}"
            problem = cuts.cut(place, seed)
            result["cuts"] += 1
            result |= {"starts": cuts.starts, "lost_sectors": cuts.lost, "promises": cuts.checked}
            if problem:
                self.failed(session, result, reports, (place, seed, how), problem)
            if result["cuts"] % PROGRESS_CUTS == 0:
                reports.put(("say", f"{self.key}: {result['cuts']} of {self.cuts} cuts, "
                                    f"{len(result['failed'])} failed"))
        result["cut_seconds"] = round(time.monotonic() - began, 1)
        if self.number == 0 and not self.options.no_plants:
            for plant in PLANTS:
                result["planted"][plant] = self.planted(session, recording, plant)

    def find_fault(self, folder: Path, result: dict) -> None:
        """Records an array with a deliberate fault, and cuts until that shows. The array that
        starts after a cut has none."""
        source = random.Random(self.seed)
        session = Session(folder, self.options.destage, self.fs, shape_of(0, source), self.seed)
        session.faulty = (self.options.faulty, self.fault or "None")
        session.record(self.options.load * MIB)
        recording = session.recording()
        cuts = Cuts(session, recording)
        for number, (place, how) in enumerate(session.draw_cuts(recording, self.cuts, source)):
            result["cuts"] += 1
            problem = cuts.cut(place, f"{self.seed}-{number}")
            if problem:
                result["found"] = f"cut at {place} ({how}): {problem[0]}: {problem[1]}"
                result["again"] = self.again(session, place, f"{self.seed}-{number}")
                return

    def again(self, session: Session, place: int, seed: str) -> str:
        """Keeps the recording if there is room; the command that repeats a cut of it."""
        kept = self.options.out / "kept" / f"{self.options.seed}-{self.key}"
        if not kept.exists() and len(list(kept.parent.glob(f"{self.options.seed}-*"))) < KEPT:
            session.keep(kept)
        if not kept.exists():
            return f"not possible: {KEPT} recordings are kept in {kept.parent} already"
        return (f"{HERE / 'run.py'} --destage {self.options.destage} --repeat {kept} "
                f"--at {place}:{seed}")

    def failed(self, session: Session, result: dict, reports: multiprocessing.Queue, cut: tuple,
               problem: tuple[str, str]) -> None:
        place, seed, how = cut
        again = self.again(session, place, seed)
        result["failed"].append({"place": place, "seed": seed, "drawn": how, "kind": problem[0],
                                 "problem": problem[1], "again": again})
        reports.put(("say", f"{self.key}: FAILED at {place} ({how}): {problem[0]}: {problem[1]}\n"
                            f"  again: {again}"))

    def planted(self, session: Session, recording, plant: str) -> dict:
        """What the checks find of a planted fault, by kind."""
        source = random.Random(f"{self.seed}:{plant}")
        found: dict = {"cuts": 0}
        for _ in range(PLANTED_TRIES):
            cuts = Cuts(session, recording, plant)
            for place, _ in session.draw_cuts(recording, PLANTED_CUTS, source):
                problem = cuts.cut(place, f"{self.seed}-{plant}-{found['cuts']}")
                found["cuts"] += 1
                if problem:
                    found[problem[0]] = found.get(problem[0], 0) + 1
                    found.setdefault("first", f"{problem[0]}: {problem[1]}")
            if "first" in found:
                break
        return found


def leave(_signal: int, _frame: object) -> None:
    """SIGTERM ends the run as an exception does: what was started is stopped."""
    raise SystemExit(1)


def tasks_of(options: argparse.Namespace, systems: list[str]) -> list[Task]:
    """The recordings, of all file systems in turn."""
    share = -(-options.cuts // len(systems))
    recordings = -(-share // CUTS_OF_A_RECORDING)
    sizes = [share // recordings + (number < share % recordings) for number in range(recordings)]
    if options.faulty:
        return [Task(options, fs, 0, FAULT_CUTS, fault) for fault in options.faults.split()
                for fs in systems]
    return [Task(options, fs, number, sizes[number]) for number in range(recordings)
            for fs in systems]


class Run:
    """Recordings, two at a time, and what came out."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.results: dict[str, dict] = {}
        self.file = options.out / f"results-{options.seed}-{options.cuts}.jsonl"

    def resume(self) -> None:
        if self.options.resume and self.file.exists():
            for line in self.file.read_text().splitlines():
                result = json.loads(line)
                self.results[result["key"]] = result
        else:
            self.file.unlink(missing_ok=True)

    def carry_out(self, tasks: list[Task]) -> None:
        reports: multiprocessing.Queue = multiprocessing.Queue()
        waiting = [task for task in tasks if task.key not in self.results]
        running: dict[str, multiprocessing.Process] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.options.jobs:
                    task = waiting.pop(0)
                    process = multiprocessing.Process(target=task.run, args=(reports,))
                    process.start()
                    running[task.key] = process
                self.report(reports, running)
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.join(60)

    def report(self, reports: multiprocessing.Queue, running: dict) -> None:
        try:
            kind, what = reports.get(timeout=1)
        except queue.Empty:
            dead = [key for key, process in running.items() if not process.is_alive()]
            for key in dead:
                if reports.empty():
                    running.pop(key)
                    failed = [{"kind": "program", "problem": "the process ended early"}]
                    self.done({"key": key, "fs": key.split("-")[0], "cuts": 0, "starts": 0,
                               "lost_sectors": 0, "failed": failed, "planted": {}})
            return
        if kind == "say":
            say(what)
            return
        running.pop(what["key"]).join(60)
        self.done(what)

    def done(self, result: dict) -> None:
        self.results[result["key"]] = result
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        cuts = sum(one["cuts"] for one in self.results.values())
        say(f"{result['key']}: done, {len(result['failed'])} failed; {cuts} cuts in all")


def summary(options: argparse.Namespace, results: list[dict], skipped: dict,
            seconds: float) -> dict:
    rows = []
    for fs in options.fs:
        mine = [result for result in results if result["fs"] == fs and "fault" not in result]
        row = {"file_system": fs, "recordings": len(mine), "skipped": skipped.get(fs)}
        for figure in ("cuts", "starts", "lost_sectors", "promises", "events", "recorded_mib"):
            row[figure] = sum(result.get(figure, 0) for result in mine)
        row["failed"] = sum(len(result["failed"]) for result in mine)
        row["planted"] = next((result["planted"] for result in mine if result["planted"]), {})
        rows.append(row)
    failures = [failure | {"recording": result["key"]} for result in results
                for failure in result["failed"]]
    missed = [f"{row['file_system']}: {plant}" for row in rows
              for plant, found in row["planted"].items() if set(found) == {"cuts"}]
    faults = [result for result in results if "fault" in result]
    missed += [result["key"] for result in faults if not result["found"]]
    return {"seed": options.seed, "seconds": round(seconds), "file_systems": rows,
            "faults": faults, "failures": failures, "planted_not_found": missed,
            "passed": not failures and not missed and any(result["cuts"] for result in results)}


HEADINGS = ["file system", "recordings", "events", "MiB", "cuts", "starts", "sectors lost",
            "promises", "checks failed"]


def table(about: dict) -> str:
    lines = [HEADINGS]
    for row in about["file_systems"]:
        if row["skipped"]:
            lines.append([row["file_system"], f"SKIPPED: {row['skipped']}"] + [""] * 7)
            continue
        if not row["recordings"]:
            continue
        figures = ("recordings", "events", "recorded_mib", "cuts", "starts", "lost_sectors",
                   "promises", "failed")
        lines.append([row["file_system"]] + [f"{row[figure]:,}" for figure in figures])
    widths = [max(len(line[at]) for line in lines if not line[1].startswith("SKIPPED") or at == 0)
              for at in range(len(HEADINGS))]
    if len(lines) == 1:
        lines = []
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines]
    for row in about["file_systems"]:
        for plant, found in row["planted"].items():
            kinds = [f"{count} by the {kind}" for kind, count in found.items()
                     if kind not in ("cuts", "first")]
            text.append(f"planted in {row['file_system']}, {plant}: found in "
                        f"{', '.join(kinds) or 'none'} of {found['cuts']} cuts")
    for result in about["faults"]:
        text.append(f"{result['fault']} in the array under {result['fs']}: "
                    f"{result['cuts']} cuts, {result['found'] or 'not found'}")
        text += [f"  again: {result['again']}"] if result["found"] else []
    for failure in about["failures"]:
        text.append(f"FAILED {failure['recording']}: {failure['kind']}: {failure['problem']}")
        text.append(f"  again: {failure.get('again', 'the same seed')}")
    text += [f"NOT FOUND: the planted fault {missed}" for missed in about["planted_not_found"]]
    return "\n".join(text)


def repeat(options: argparse.Namespace) -> int:
    """One cut of a recording that was kept."""
    place, seed = options.at.split(":", 1)
    folder = Path(tempfile.mkdtemp(prefix="destage-cut-", dir=options.dir))
    try:
        session = Session.open(options.repeat, options.destage)
        recording = session.recording()
        session.keep(folder)
        session.folder = folder
        cuts = Cuts(session, recording, options.plant)
        problem = cuts.cut(int(place), seed)
        print(f"{session.fs}, {session.shape.text()}, cut at {place}, {cuts.lost} sectors lost: "
              + (f"{problem[0]}: {problem[1]}" if problem else "nothing is wrong"))
        return 1 if problem else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Cut the power under real file systems.")
    parser.add_argument("--destage", type=Path, default=HERE.parents[1] / "target/release/destage")
    parser.add_argument("--fs", default="ext4 xfs btrfs", help="file systems, e.g. 'ext4 xfs'")
    parser.add_argument("--cuts", type=int, default=2000, help="of all file systems together")
    parser.add_argument("--seed", type=int, help="default: any; always printed")
    parser.add_argument("--load", type=int, default=12, metavar="MIB",
                        help="what fsx and the replacing program write in a recording")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="recordings at the same time")
    parser.add_argument("--dir", type=Path, help="where the devices are [default: /dev/shm]")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "target/filesystems",
                        help="where results and recordings of failed cuts go")
    parser.add_argument("--resume", action="store_true", help="continue the run of this seed")
    parser.add_argument("--faulty", type=Path, metavar="PROGRAM",
                        help="instead: record arrays with deliberate faults, served by this "
                             "program (the example `faulty` of destage-server), and find them")
    parser.add_argument("--faults", default=FAULTS, help="with --faulty: which ones")
    parser.add_argument("--no-plants", action="store_true", help="without the planted faults")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--repeat", type=Path, metavar="DIR", help="a recording that was kept")
    parser.add_argument("--at", metavar="PLACE:SEED", help="the cut of it")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="with --repeat: a planted fault")
    options = parser.parse_args()
    options.fs = options.fs.split()
    unknown = [fs for fs in options.fs if fs not in FILE_SYSTEMS]
    if unknown or not options.fs or options.cuts < 1:
        parser.error(f"--fs {' '.join(unknown)}: known are {', '.join(FILE_SYSTEMS)}; "
                     f"--cuts is at least 1")
    if options.repeat and not options.at:
        parser.error("--repeat needs --at")
    options.destage = options.destage.resolve()
    if options.dir is None:
        options.dir = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    if options.seed is None:
        options.seed = random.randrange(1 << 31)
    return options


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, leave)
    if not options.destage.is_file():
        print(f"{options.destage}: no such program; `make build` makes it", file=sys.stderr)
        return 2
    if options.repeat:
        mount_apart()
        return repeat(options)
    skipped = {fs: reason for fs in options.fs if (reason := cannot(fs))}
    systems = [fs for fs in options.fs if fs not in skipped]
    for fs, reason in skipped.items():
        say(f"SKIPPED {fs}: {reason}")
    if not systems:
        about = summary(options, [], skipped, 0)
        print(json.dumps(about, indent=2) if options.format == "json" else table(about))
        return 0
    mount_apart()
    options.out.mkdir(parents=True, exist_ok=True)
    what = f"{options.faults}: up to {FAULT_CUTS}" if options.faulty else options.cuts
    say(f"{what} cuts of {', '.join(systems)}, seed {options.seed}")
    began, run = time.monotonic(), Run(options)
    run.resume()
    run.carry_out(tasks_of(options, systems))
    about = summary(options, list(run.results.values()), skipped, time.monotonic() - began)
    print(json.dumps(about, indent=2) if options.format == "json" else table(about))
    said = "passed" if about["passed"] else "FAILED"
    say(f"seed {options.seed}, {about['seconds']} s: {said}")
    return 0 if about["passed"] else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except Failure as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
