"""An array of files that destage serves, and a file system on it: nbdfuse makes a file of the
export, a loop device a disk of the file."""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

from stream import Device

MIB = 1 << 20
NAME = "fs"
START_SECONDS = 20
# After this a stack is taken apart by force: a program that waits for a server that hangs gets
# errors.
HANG_SECONDS = 120
LOAD_SECONDS = 300
# <linux/sched.h>, <linux/mount.h>.
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18


class Failure(Exception):
    """Something that should work did not; the text says what."""


class FileSystem(NamedTuple):
    """How a file system is made, mounted and checked."""

    programs: list[str]
    package: str
    mebibytes: int
    make: list[str]
    options: str
    check: list[str]


FILE_SYSTEMS = {
    "ext4": FileSystem(["mkfs.ext4", "e2fsck"], "e2fsprogs", 64,
                       ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0"],
                       "noatime", ["e2fsck", "-f", "-n"]),
    # A log and a file system smaller than mkfs.xfs makes for use: its log comes round often.
    "xfs": FileSystem(["mkfs.xfs", "xfs_repair"], "xfsprogs", 96,
                      ["mkfs.xfs", "-q", "-f", "-K", "--unsupported", "-l", "size=8m"],
                      "noatime,nouuid", ["xfs_repair", "-n"]),
    "btrfs": FileSystem(["mkfs.btrfs", "btrfs"], "btrfs-progs", 128,
                        ["mkfs.btrfs", "-q", "-f", "-K", "-m", "single"],
                        "noatime", ["btrfs", "check", "--readonly", "--check-data-csum"]),
}
COMMON_PROGRAMS = {"nbdfuse": "libnbd-bin", "losetup": "mount", "mount": "mount", "fio": "fio"}


def cannot(fs: str) -> str | None:
    """Why this file system cannot be tested here."""
    about = FILE_SYSTEMS[fs]
    needed = COMMON_PROGRAMS | {program: about.package for program in about.programs}
    for program, package in needed.items():
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: {package})"
    if os.geteuid() != 0:
        return "loop devices and mounting need root"
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not Path(device).exists():
            return f"there is no {device}"
    if shutil.which("modprobe"):
        quiet("modprobe", "-q", fs)
    known = Path("/proc/filesystems").read_text().split()
    return None if fs in known else f"the kernel has no {fs}"


class Shape(NamedTuple):
    """The array of a recording."""

    level: str
    members: int
    nvs: int
    nvs_mebibytes: int
    sector: int
    ack: str
    strip: str
    policy: str
    discard: bool
    # How slow the devices are: more is in flight.
    pace: int

    def devices(self, mebibytes: int) -> list[Device]:
        """The devices of an array that holds this much."""
        data = {"5": self.members - 1, "4": self.members - 1, "6": self.members - 2,
                "10": self.members // 2, "0": self.members, "single": 1}[self.level]
        member = (-(-mebibytes // data) + 3) * MIB
        return ([Device(f"m{number}", member) for number in range(self.members)]
                + [Device(f"n{number}", self.nvs_mebibytes * MIB) for number in range(self.nvs)])

    def text(self) -> str:
        return (f"level {self.level} of {self.members}, {self.nvs} NVS of {self.nvs_mebibytes} MiB,"
                f" sectors of {self.sector}, ack {self.ack}, strip {self.strip}, {self.policy},"
                f" pace {self.pace}"
                + (", discard" if self.discard else ""))


def mount_apart() -> None:
    """What this process and its children mount from now on is in no other mount namespace. Else a
    container that another program starts copies the mount of a file system: that then stays in use
    when it is unmounted here, and its disk is busy."""
    libc = ctypes.CDLL(None, use_errno=True)
    private = MS_REC | MS_PRIVATE
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, private, None):
        number = ctypes.get_errno()
        raise Failure(f"a mount namespace of its own: {os.strerror(number)}")


def run(*words: object, timeout: float = 60, codes: tuple[int, ...] | None = (0,)) -> str:
    """Runs a program; what it printed. Fails if it ends with another status."""
    listed = [str(word) for word in words]
    try:
        done = subprocess.run(listed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(listed)[:120]}: did not end within {timeout} s") from error
    if codes is not None and done.returncode not in codes:
        said = " | ".join(done.stdout.strip().splitlines()[-6:])
        raise Failure(f"{' '.join(listed)[:120]}: exit {done.returncode}: {said[-600:]}")
    return done.stdout


def quiet(*words: object) -> None:
    """Runs a program of which it does not matter how it ends."""
    try:
        run(*words, timeout=30, codes=None)
    except Failure:
        pass


def wait_for(condition, seconds: float, step: float = 0.004) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def end(process: subprocess.Popen) -> None:
    """Kills a process that still runs."""
    if process.poll() is None:
        process.kill()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass


class Array:
    """The server of an array whose devices are in a folder."""

    def __init__(self, destage: Path, folder: Path, config: Path):
        self.destage = destage
        self.folder = folder
        self.config = config
        self.socket = folder / "nbd.sock"
        self.log = folder / "server.log"
        self.process: subprocess.Popen | None = None
        # A program that serves it instead, with the name of a deliberate fault.
        self.faulty: tuple[Path, str] | None = None

    @property
    def uri(self) -> str:
        return f"nbd+unix:///{NAME}?socket={self.socket}"

    def words(self, command: str, *more: object) -> list[str]:
        places = ["--config-dir", self.config, "--run-dir", self.folder]
        return [str(word) for word in (self.destage, command, NAME, *more, *places)]

    def create(self, shape: Shape, paths: list[Path]) -> None:
        """Creates it on devices that are all zeros."""
        disks = [word for path in paths[:shape.members] for word in ("--disk", path)]
        nvs = [word for path in paths[shape.members:] for word in ("--nvs", path)]
        run(*self.words("create", "--level", shape.level, "--strip", shape.strip, "--policy",
                        shape.policy, "--ack", shape.ack, "--assume-clean", *disks, *nvs))

    def serve_words(self) -> list[str]:
        if self.faulty is None:
            return self.words("serve", "--nbd", f"unix:{self.socket}")
        program, fault = self.faulty
        return [str(word) for word in (program, fault, NAME, self.config, self.socket)]

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.serve_words(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        process = self.process

        def serves() -> bool:
            said = self.log.read_text(errors="replace")
            return process.poll() is not None or "serving on" in said

        if not wait_for(serves, START_SECONDS) or process.poll() is not None:
            said = " | ".join(self.log.read_text(errors="replace").strip().splitlines()[-4:])
            self.kill()
            raise Failure(f"the array does not start: {said[-600:]}")

    def stop(self) -> None:
        """A clean stop."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise Failure("the server did not stop within 30 s") from error
        if status != 0:
            raise Failure(f"the server stopped with status {status}")

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)

    def recover(self) -> None:
        """Destages everything without serving."""
        run(*self.words("recover"), timeout=120)

    def scrub(self) -> None:
        """Compares all rows; fails if one is inconsistent."""
        run(*self.words("scrub", "--check"), timeout=120)


class Stack:
    """nbdfuse over the export, a loop device over its file, a file system over that."""

    def __init__(self, fs: str, array: Array, discard: bool):
        self.about = FILE_SYSTEMS[fs]
        self.fs = fs
        self.array = array
        self.options = self.about.options + (",discard" if discard else "")
        self.fuse = array.folder / "fuse"
        self.root = array.folder / "root"
        self.fuse.mkdir(exist_ok=True)
        self.root.mkdir(exist_ok=True)
        self.nbdfuse: subprocess.Popen | None = None
        self.watchdog: threading.Timer | None = None
        self.loop: str | None = None
        self.mounted = False

    def attach(self, seconds: float = HANG_SECONDS) -> None:
        file = self.fuse / "disk"
        with open(self.array.log, "ab") as log:
            self.nbdfuse = subprocess.Popen(["nbdfuse", str(file), self.array.uri],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.watchdog = threading.Timer(seconds, self.nbdfuse.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        if not wait_for(file.exists, 20):
            raise Failure("nbdfuse mounts nothing within 20 s")
        self.loop = run("losetup", "--find", "--show", "--direct-io=on", file, timeout=20).strip()

    def make(self) -> None:
        run(*self.about.make, self.loop, timeout=120)

    def mount(self) -> None:
        run("mount", "-t", self.fs, "-o", self.options, self.loop, self.root)
        self.mounted = True

    def unmount(self) -> None:
        run("umount", self.root)
        self.mounted = False

    def check(self) -> None:
        """The file system's own tool must find nothing wrong."""
        run(*self.about.check, self.loop, timeout=120)

    def detach(self) -> None:
        """Takes all away, whatever is left of it; never raises."""
        if self.mounted:
            quiet("umount", self.root)
            if os.path.ismount(self.root):
                quiet("umount", "-l", self.root)
            self.mounted = False
        if self.loop:
            quiet("losetup", "-d", self.loop)
            if self.fs == "btrfs":
                # The next image of this file system must not be taken for a second device.
                quiet("btrfs", "device", "scan", "--forget", self.loop)
            self.loop = None
        if self.nbdfuse:
            quiet("umount", self.fuse)
            try:
                self.nbdfuse.wait(5)
            except subprocess.TimeoutExpired:
                end(self.nbdfuse)
                quiet("umount", "-l", self.fuse)
            self.nbdfuse = None
        if self.watchdog:
            self.watchdog.cancel()
