"""A file system on the export (nbdfuse, a loop device, ext4), also over kill -9 of the server."""

import hashlib
import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

from harness import HERE, KIB, Failure, Skip, equal, expect, finish, need, run, test, wait_until


HANG_SECONDS = 60


def root_and_devices():
    need("nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "mount")
    if os.geteuid() != 0:
        raise Skip("loop devices and mounting need root")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not Path(device).exists():
            raise Skip(f"there is no {device}")


class Stack:
    """nbdfuse over the export, a loop device over its file, ext4 over that."""

    def __init__(self, case):
        root_and_devices()
        self.case = case
        self.fuse = case.folder / "fuse"
        self.root = case.folder / "root"
        self.fuse.mkdir()
        self.root.mkdir()
        self.nbdfuse = None
        self.watchdog = None
        self.loop = None

    @property
    def file(self):
        return self.fuse / "nbd"

    def attach(self):
        self.nbdfuse = subprocess.Popen(
            ["nbdfuse", f"{self.fuse}/nbd", self.case.uri], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Who waits for a file system whose server hangs gets errors once nbdfuse is gone.
        self.watchdog = threading.Timer(HANG_SECONDS, self.nbdfuse.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        if not wait_until(self.file.exists, 10):
            raise Failure("nbdfuse mounts nothing within 10 s")
        done = finish(["losetup", "--find", "--show", self.file], timeout=20, codes=None)
        if done.returncode != 0:
            raise Skip(f"losetup: {done.stderr.strip()}")
        self.loop = done.stdout.strip()

    def mount(self):
        run("mount", "-t", "ext4", self.loop, self.root)

    def unmount(self):
        run("umount", self.root, timeout=30)

    def check(self, *options, codes=(0,)):
        return run("e2fsck", *options, self.loop, codes=codes, timeout=60)

    def detach(self):
        """Takes all away, whatever is left of it; never raises."""
        if os.path.ismount(self.root):
            self.quiet("umount", self.root)
        if os.path.ismount(self.root):
            self.quiet("umount", "-l", self.root)
        if self.loop:
            self.quiet("losetup", "-d", self.loop)
            self.loop = None
        self.quiet("umount", self.fuse)
        if self.nbdfuse:
            try:
                self.nbdfuse.wait(5)
            except subprocess.TimeoutExpired:
                self.nbdfuse.kill()
                self.nbdfuse.wait()
                self.quiet("umount", "-l", self.fuse)
            self.watchdog.cancel()
            self.nbdfuse = None

    @staticmethod
    def quiet(*words):
        try:
            finish(words, timeout=30, codes=None)
        except Failure:
            pass


def on_stack(function):
    """Gives the test a stack and takes it away, however the test ends."""

    def around(case):
        stack = Stack(case)
        try:
            function(case, stack)
        finally:
            stack.detach()

    return around


def digests(folder):
    """What is in every file below a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def make_tree(case):
    """This folder and some made files of many sizes."""
    source = random.Random(case.seed)
    tree = case.folder / "tree"
    shutil.copytree(HERE, tree / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for number in range(300):
        place = tree / f"d{number % 17}" / f"e{number % 5}"
        place.mkdir(parents=True, exist_ok=True)
        size = source.choice([0, 1, 511, 4096, 4097, 60000, 300000])
        (place / f"f{number}").write_bytes(source.randbytes(size))
    return tree


@test("ext4-tree", 150)
@on_stack
def copied_tree(case, stack):
    tree = make_tree(case)
    wanted = digests(tree)
    stack.attach()
    run("mkfs.ext4", "-q", "-F", stack.loop, timeout=60)
    stack.mount()
    shutil.copytree(tree, stack.root / "tree")
    stack.unmount()
    stack.check("-f", "-n")
    stack.detach()
    stack.attach()
    stack.mount()
    equal(digests(stack.root / "tree"), wanted, "files of the tree")
    run("rm", "-r", stack.root / "tree" / "d0")
    run("fstrim", stack.root, codes=(0, 1))
    stack.unmount()
    stack.check("-f", "-n")
    case.note(f"{len(wanted)} files")


class Writer(threading.Thread):
    """Writes files and fsyncs each until an error; remembers those whose fsync came back."""

    def __init__(self, folder, seed):
        super().__init__(daemon=True)
        self.folder = folder
        self.source = random.Random(seed)
        self.synced = {}

    def run(self):
        number = 0
        try:
            while True:
                name = f"w{number}"
                self.synced[name] = self.write(name)
                number += 1
        except OSError:
            return

    def write(self, name):
        data = self.source.randbytes(self.source.choice([100, 4096, 20000, 200 * KIB]))
        path = os.path.join(self.folder, name)
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return hashlib.sha256(data).hexdigest()


def write_until_killed(case, stack, folder, seed):
    """Writes fsync'ed files until the server is killed; which were synced."""
    writer = Writer(folder, seed)
    writer.start()
    time.sleep(random.Random(seed).uniform(0.5, 1.5))
    case.server.kill9()
    writer.join(40)
    expect(not writer.is_alive(), "the writer hangs after the server's death")
    stack.detach()
    return dict(writer.synced)


@test("ext4-kill9", 240)
@on_stack
def killed(case, stack):
    """kill -9 under load, three times on the same file system."""
    if not case.server.keeps_data:
        raise Skip(f"{case.server.name} keeps no data")
    stack.attach()
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", stack.loop, timeout=60)
    total = 0
    for number in range(3):
        stack.mount()
        folder = stack.root / f"round{number}"
        folder.mkdir()
        synced = write_until_killed(case, stack, folder, case.seed + number)
        expect(synced, "nothing was synced before the kill")
        total += len(synced)
        case.server.restart()
        stack.attach()
        replayed(stack)
        stack.mount()
        found = digests(folder)
        lost = [name for name, digest in synced.items() if found.get(name) != digest]
        expect(not lost, f"{len(lost)} of {len(synced)} synced files lost: {lost[:5]}")
        stack.unmount()
    case.note(f"{total} synced files intact over 3 kills")


def replayed(stack):
    """Replays the journal; after that there is nothing to repair."""
    stack.check("-p", codes=(0, 1))
    stack.check("-f", "-n")
