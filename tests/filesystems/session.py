"""One recording of a file system under load, and the cuts of it."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from content import checks, load_results
from load import Clock
from served import FILE_SYSTEMS, HANG_SECONDS, LOAD_SECONDS, NAME
from served import Array, Failure, Shape, Stack, end, quiet, wait_for
from stream import Media, Recording

HERE = Path(__file__).resolve().parent
KIB = 1 << 10
# fio: (name, direct, fsync after this many writes, blocks, times over)
FIO_JOBS = [("fio-direct", 1, 2, 192, 3), ("fio-cached", 0, 8, 384, 4)]
# After one cut in this many `destage recover` runs first, and at the end a scrub.
THOROUGH_EVERY = 12


def shape_of(number: int, source: random.Random) -> Shape:
    """The array of a recording: RAID-5 at first, then drawn."""
    if number == 0:
        return Shape("5", 3, 1, 10, 512, "flush", "64K", "stow", False, 1)
    if number == 1:
        return Shape("5", 3, 2, 10, 4096, "nvs", "16K", "stow", True, 3)
    level, members = source.choice([("5", 3), ("5", 5), ("6", 4), ("6", 5), ("10", 4), ("4", 3),
                                    ("0", 2), ("single", 1)])
    return Shape(level, members, source.choice([1, 2]), source.choice([8, 10, 14]),
                 source.choice([512, 512, 4096]), source.choice(["nvs", "flush", "flush"]),
                 source.choice(["4K", "16K", "64K"]),
                 source.choice(["stow", "lrw", "cscan", "wow"]), source.random() < 0.4,
                 source.choice([1, 1, 2, 4]))


class Session:
    """A recording in a folder. `live` has what the recording runs on, `work` what a cut does."""

    def __init__(self, folder: Path, destage: Path, fs: str, shape: Shape, seed: int):
        self.folder = folder
        self.destage = destage
        self.fs = fs
        self.shape = shape
        self.seed = seed
        self.devices = shape.devices(FILE_SYSTEMS[fs].mebibytes)
        self.stream = folder / "stream"
        self.mountpoint = folder / "devices"
        self.config = folder / "config"
        self.first = self.last = 0
        # Serves the array while it is recorded, with a deliberate fault.
        self.faulty: tuple[Path, str] | None = None

    @staticmethod
    def open(folder: Path, destage: Path) -> "Session":
        """A recording that was kept."""
        about = json.loads((folder / "about.json").read_text())
        session = Session(folder, destage, about["fs"], Shape(*about["shape"]), about["seed"])
        session.first, session.last = about["first"], about["last"]
        session.mountpoint = Path(about["mountpoint"])
        return session

    def record(self, size: int) -> None:
        """Serves a new array on recorded devices, makes the file system and loads it."""
        for place in (self.stream, self.mountpoint, self.config, self.folder / "live"):
            place.mkdir(parents=True)
        words = [sys.executable, "-B", str(HERE / "recorder.py"), str(self.stream),
                 str(self.mountpoint), "--sector", str(self.shape.sector), "--pace",
                 str(self.shape.pace), "--seed", str(self.seed)]
        for device in self.devices:
            words += ["--device", f"{device.name}:{device.size}"]
        log = open(self.folder / "recorder.log", "wb")
        recorder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            if not wait_for(lambda: self.mountpoint.is_mount() or recorder.poll() is not None, 20):
                raise Failure("the recorder does not mount within 20 s")
            if recorder.poll() is not None:
                raise Failure(f"recorder: {(self.folder / 'recorder.log').read_text()[-600:]}")
            self.serve_and_load(size)
            quiet("umount", self.mountpoint)
            if recorder.wait(30) != 0:
                raise Failure(f"recorder: {(self.folder / 'recorder.log').read_text()[-600:]}")
        finally:
            if self.mountpoint.is_mount():
                quiet("umount", "-l", self.mountpoint)
            end(recorder)
            log.close()
        about = {"fs": self.fs, "seed": self.seed, "shape": list(self.shape), "first": self.first,
                 "last": self.last, "mountpoint": str(self.mountpoint)}
        (self.folder / "about.json").write_text(json.dumps(about))

    def serve_and_load(self, size: int) -> None:
        array = Array(self.destage, self.folder / "live", self.config)
        array.create(self.shape, [self.mountpoint / device.name for device in self.devices])
        array.faulty = self.faulty
        stack = Stack(self.fs, array, self.shape.discard)
        clock = Clock(str(self.stream / "count"))
        try:
            array.start()
            stack.attach(LOAD_SECONDS + HANG_SECONDS)
            stack.make()
            stack.mount()
            self.first = clock.now()
            results = self.load(stack.root, clock, size)
            self.last = clock.now()
            (self.folder / "loads.json").write_text(json.dumps(results))
            stack.unmount()
            stack.check()
            stack.detach()
            array.stop()
        finally:
            stack.detach()
            array.kill()

    def load(self, root: Path, clock: Clock, size: int) -> list[dict]:
        """Runs all loads at once; what they promised."""
        kinds = [("fsx", 0.45), ("fsx", 0.3), ("names", 0.25)]
        folder = self.folder / "loads"
        folder.mkdir()
        running = []
        for number, (kind, part) in enumerate(kinds):
            words = [sys.executable, "-B", HERE / "load.py", kind, root, self.stream / "count",
                     folder / f"{number}.json", 10 * self.seed + number, int(part * size)]
            running.append((kind, start(words, folder / f"{number}.log")))
        for job in FIO_JOBS:
            running.append((job[0], start(fio_words(root, folder, job), folder / f"{job[0]}.log")))
        try:
            self.await_all(running, folder)
        finally:
            for _, process in running:
                end(process)
        results = [json.loads((folder / f"{number}.json").read_text())
                   for number in range(len(kinds))]
        return results + [fio_result(folder, job, clock.now()) for job in FIO_JOBS]

    @staticmethod
    def await_all(running: list, folder: Path) -> None:
        over = time.monotonic() + LOAD_SECONDS
        for name, process in running:
            try:
                status = process.wait(max(1, over - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise Failure(f"{name} did not end within {LOAD_SECONDS} s") from error
            if status != 0:
                said = " | ".join(path.read_text()[-300:] for path in folder.glob("*.log"))
                raise Failure(f"{name} failed on the running array: {said[-900:]}")

    def keep(self, folder: Path) -> None:
        """Copies what is needed to repeat a cut."""
        folder.mkdir(parents=True, exist_ok=True)
        for part in ("stream", "config"):
            skip = shutil.ignore_patterns("*.recorded")
            shutil.copytree(self.folder / part, folder / part, ignore=skip, dirs_exist_ok=True)
        for name in ("about.json", "loads.json"):
            shutil.copy(self.folder / name, folder / name)

    def recording(self) -> Recording:
        recording = Recording(self.stream, self.devices, self.shape.sector)
        place = recording.overlapping()
        if place is not None:
            raise Failure(f"the array writes a sector while a write of it is in flight: {place}, "
                          f"{recording.events[place]}")
        return recording

    def draw_cuts(self, recording: Recording, count: int, source: random.Random) -> list[tuple]:
        """(place, how it was drawn) of this many cuts, in order."""
        promises = [place for check in checks(recording, load_results(self.folder))
                    for place in check.places() if self.first <= place <= self.last]
        destages = recording.member_writes(self.first, self.last)
        cuts = []
        for number in range(count):
            how = ("anywhere", "fsync", "destage")[number % 3]
            if how == "fsync" and promises:
                place = source.choice(promises) + source.randint(-6, 2)
            elif how == "destage" and destages:
                place = source.choice(destages) + source.randint(0, 8)
            else:
                how, place = "anywhere", source.randint(self.first, self.last)
            cuts.append((min(max(place, self.first), self.last), how))
        return sorted(cuts)


class Cuts:
    """Cuts of one recording, one after the other. `plant`: with a fault in the recording."""

    def __init__(self, session: Session, recording: Recording, plant: str | None = None):
        self.session = session
        self.recording = recording
        self.work = session.folder / "work"
        self.work.mkdir(exist_ok=True)
        self.durable = session.folder / f"durable-{plant or 'none'}"
        self.durable.mkdir(exist_ok=True)
        self.media = Media(recording, self.durable, plant, session.first)
        self.checks = checks(recording, load_results(session.folder))
        self.starts = 0
        # Sectors that the cuts so far took away.
        self.lost = 0
        text = (session.config / f"{NAME}.toml").read_text()
        config = self.work / "config"
        config.mkdir(exist_ok=True)
        moved = text.replace(str(session.mountpoint), str(self.work))
        (config / f"{NAME}.toml").write_text(moved)
        self.config = config

    def cut(self, place: int, seed: str) -> tuple[str, str] | None:
        """A power failure at a place: (what kind, what) is wrong after the next start, if
        anything."""
        self.media.advance(place)
        source = random.Random(seed)
        self.lost += self.media.leave(self.work, source)
        thorough = source.randrange(THOROUGH_EVERY) == 0
        array = Array(self.session.destage, self.work, self.config)
        array.log.unlink(missing_ok=True)
        stack = Stack(self.session.fs, array, False)
        stage = "start"
        try:
            if thorough:
                array.recover()
            array.start()
            self.starts += 1
            stage = "file system"
            stack.attach()
            stack.mount()
            stage = "content"
            problem = self.problem(stack.root, place)
            stage = "file system"
            write_more(stack.root)
            stack.unmount()
            stack.check()
            stack.detach()
            stage = "array"
            if thorough and self.session.shape.level not in ("0", "single"):
                array.scrub()
            return ("content", problem) if problem else None
        except (Failure, OSError) as error:
            return stage, str(error)
        finally:
            stack.detach()
            array.kill()

    @property
    def checked(self) -> int:
        """Promises that were compared: files, names and blocks."""
        return sum(check.checked for check in self.checks)

    def problem(self, root: Path, place: int) -> str | None:
        """The first promise that was not kept."""
        found = (check.check(root, place) for check in self.checks)
        return next((problem for problem in found if problem), None)


def write_more(root: Path) -> None:
    """The file system takes writes after the cut."""
    with open(root / "after-the-cut", "wb") as file:
        file.write(random.randbytes(64 * KIB))
        os.fsync(file.fileno())


def start(words: list, log: Path) -> subprocess.Popen:
    with open(log, "wb") as file:
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                stdout=file, stderr=file, cwd=log.parent)


def fio_words(root: Path, folder: Path, job: tuple) -> list:
    name, direct, every, blocks, times = job
    return ["fio", f"--name={name}", f"--filename={root / name}", "--rw=randwrite", "--bs=4k",
            f"--size={4 * blocks}k", f"--loops={times}", "--ioengine=psync", f"--direct={direct}",
            f"--fsync={every}", "--end_fsync=1", "--verify=crc32c", "--do_verify=1",
            "--verify_fatal=1", "--verify_state_save=0", "--allow_file_create=1",
            f"--fallocate={'native' if direct else 'none'}",
            f"--write_lat_log={folder / name}", "--log_offset=1", "--log_unix_epoch=1"]


def fio_result(folder: Path, job: tuple, ended: int) -> dict:
    """What fio's log says of its writes: (milliseconds since 1970, offset) in their order."""
    name, direct, every, *_ = job
    writes = []
    for line in (folder / f"{name}_lat.1.log").read_text().splitlines():
        at, _, direction, _, offset, *_ = line.split(", ")
        if direction == "1":
            writes.append((int(at), int(offset)))
    if not writes:
        raise Failure(f"{name} has logged no writes")
    return {"kind": "fio", "path": name, "direct": bool(direct), "fsync": every, "ended": ended,
            "writes": writes}
