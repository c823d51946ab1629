"""The loads of a recording, each a process of its own that knows what its fsyncs promised.

    load.py KIND FOLDER COUNT OUT SEED BYTES

COUNT is the recorder's number of events. OUT gets JSON: each operation with that number before it
began, and after it came back. Thus an operation may be seen after a cut at or behind the first
number, and what an fsync promised must be there after a cut at or behind the second.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time
from pathlib import Path

KIB = 1 << 10
FILE_BYTES = 384 * KIB
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Wrong(Exception):
    """A read brought other bytes than were written."""


class Clock:
    """The recorder's number of events."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

    def now(self) -> int:
        return int.from_bytes(self.map[:8], "little")


def content(seed: int, number: int, length: int) -> bytes:
    """The bytes that an operation writes."""
    return random.Random(f"{seed}:{number}").randbytes(length)


def apply(state: bytearray, seed: int, number: int, kind: str, offset: int, length: int) -> None:
    """Does to a file's bytes what an operation does to the file."""
    if kind in ("write", "map"):
        if offset > len(state):
            state.extend(bytes(offset - len(state)))
        state[offset:offset + length] = content(seed, number, length)
    elif kind == "truncate":
        del state[length:]
        state.extend(bytes(length - len(state)))
    elif kind in ("punch", "zero"):
        last = min(offset + length, len(state))
        if offset < last:
            state[offset:last] = bytes(last - offset)


class Fsx:
    """Random operations on one file, as fsx does them, each read compared with what must be there.

    The program of that name is in no Debian package."""

    KINDS = ["write"] * 8 + ["append"] * 2 + ["map", "truncate", "punch", "zero"] + ["read"] * 3
    SYNCS = ["fsync"] * 3 + ["fdatasync"] * 2

    def __init__(self, folder: Path, clock: Clock, seed: int):
        self.path = folder / f"fsx-{seed}"
        self.clock = clock
        self.seed = seed
        self.source = random.Random(seed)
        self.state = bytearray()
        self.operations: list[list] = []
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fsync(self.file)
        sync_folder(folder)
        self.operations.append(["fsync", 0, 0, clock.now(), clock.now()])
        self.moved = 0

    def step(self) -> None:
        source = self.source
        burst = source.random() < 0.05
        kind = source.choice(self.SYNCS if source.random() < 0.15 else self.KINDS)
        length = source.choice([100, 512, 4096, 5000, 16 * KIB, 40 * KIB])
        offset = source.randrange(0, FILE_BYTES - length)
        if source.random() < 0.5:
            offset = offset // 4096 * 4096
        if kind == "append":
            kind, offset = "write", min(len(self.state), FILE_BYTES - length)
        elif kind == "truncate":
            offset, length = 0, source.randrange(len(self.state) // 2, FILE_BYTES)
        elif kind in ("map", "read"):
            offset = min(offset, max(0, len(self.state) - length))
            length = min(length, len(self.state) - offset)
        self.do(kind, offset, length)
        if burst:
            for _ in range(source.randrange(4, 12)):
                self.do("write", source.randrange(0, 64) * 4096, source.choice([512, 4096]))
                self.do("fsync", 0, 0)

    def do(self, kind: str, offset: int, length: int) -> None:
        if kind in ("map", "read", "write") and length == 0:
            return
        if kind == "read":
            found = os.pread(self.file, length, offset)
            if found != self.state[offset:offset + length]:
                raise Wrong(f"{self.path.name}: wrong bytes in {offset}+{length}")
            return
        number, begin = len(self.operations), self.clock.now()
        self.carry_out(number, kind, offset, length)
        self.operations.append([kind, offset, length, begin, self.clock.now()])
        apply(self.state, self.seed, number, kind, offset, length)

    def carry_out(self, number: int, kind: str, offset: int, length: int) -> None:
        if kind == "write":
            os.pwrite(self.file, content(self.seed, number, length), offset)
            self.moved += length
        elif kind == "map":
            with mmap.mmap(self.file, 0) as memory:
                memory[offset:offset + length] = content(self.seed, number, length)
            self.moved += length
        elif kind == "truncate":
            os.ftruncate(self.file, length)
        elif kind in ("punch", "zero"):
            mode = KEEP_SIZE | (PUNCH_HOLE if kind == "punch" else ZERO_RANGE)
            if LIBC.fallocate(self.file, mode, offset, length) != 0:
                code = ctypes.get_errno()
                raise OSError(code, f"fallocate: {os.strerror(code)}")
        elif kind == "fsync":
            os.fsync(self.file)
        else:
            os.fdatasync(self.file)

    def result(self) -> dict:
        return {"kind": "fsx", "path": self.path.name, "seed": self.seed,
                "operations": self.operations}


def sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class Names:
    """Files that are made, replaced, renamed and removed, each step with the fsyncs that make it
    durable. Of a replaced file either content is allowed in between, and nothing else."""

    FILES = 24

    def __init__(self, folder: Path, clock: Clock, seed: int):
        self.folder = folder / f"names-{seed}"
        self.folder.mkdir()
        sync_folder(folder)
        self.clock = clock
        self.seed = seed
        self.source = random.Random(seed)
        # [name, number of the content or None, bytes, begin, promise]
        self.operations: list[list] = []
        self.there: dict[str, int] = {}
        self.begun = clock.now()
        self.moved = 0

    def step(self) -> None:
        source = self.source
        name = f"f{source.randrange(self.FILES)}"
        begin = self.clock.now()
        number: int | None = len(self.operations)
        length = source.choice([0, 10, 600, 4096, 9000, 60 * KIB])
        if name in self.there and source.random() < 0.25:
            os.unlink(self.folder / name)
            del self.there[name]
            number, length = None, 0
        else:
            self.write(name, len(self.operations), length)
            self.there[name] = length
        sync_folder(self.folder)
        self.operations.append([name, number, length, begin, self.clock.now()])
        self.moved += length
        if source.random() < 0.2:
            time.sleep(source.uniform(0, 0.02))

    def write(self, name: str, number: int, length: int) -> None:
        part = self.folder / f"{name}.part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, content(self.seed, number, length))
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(part, self.folder / name)

    def result(self) -> dict:
        return {"kind": "names", "path": self.folder.name, "seed": self.seed,
                "begun": self.begun, "operations": self.operations}


LOADS: dict[str, type[Fsx] | type[Names]] = {"fsx": Fsx, "names": Names}


def main() -> int:
    kind, folder, count, out, seed, size = sys.argv[1:]
    load = LOADS[kind](Path(folder), Clock(count), int(seed))
    while load.moved < int(size):
        load.step()
    Path(out).write_text(json.dumps(load.result()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
