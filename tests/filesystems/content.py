"""What must be in a file system after a cut: what each load's fsyncs promised before it."""

import bisect
import json
from pathlib import Path

from fiofile import BLOCK, ZEROS, Blocks
from load import apply, content
from stream import Recording

SECTOR = 512
# fio logs milliseconds: a promise counts this much later than the log says.
FIO_MARGIN_NS = 2_000_000


def read(path: Path) -> bytes | None:
    """A file's bytes; None if it is not there. A file that cannot be read is an error."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def padded(state: bytes, begin: int, length: int) -> bytes:
    return bytes(state[begin:begin + length]).ljust(length, b"\0")


class FsxCheck:
    """Each byte of the file has the value that it had at the last fsync, or a later one."""

    def __init__(self, result: dict):
        self.path = result["path"]
        self.seed = result["seed"]
        self.operations = result["operations"]
        self.begins = [operation[3] for operation in self.operations]
        syncs = [number for number, operation in enumerate(self.operations)
                 if operation[0] in ("fsync", "fdatasync")]
        # Places of promises, with the operations that they cover.
        self.promises = [(self.operations[number][4], number) for number in syncs]
        self.state = bytearray()
        self.applied = 0
        # Promises that were compared so far: files, names, blocks.
        self.checked = 0

    def places(self) -> list[int]:
        return [place for place, _ in self.promises]

    def states(self, place: int) -> list[bytes]:
        """The contents from the last promise on to the last operation that began before a cut."""
        known = bisect.bisect_right(self.promises, (place, len(self.operations)))
        if known == 0:
            return []
        promised = self.promises[known - 1][1]
        last = bisect.bisect_right(self.begins, place) - 1
        if self.applied > promised + 1:
            self.state, self.applied = bytearray(), 0
        self.do(self.state, self.applied, promised)
        self.applied = promised + 1
        states = [bytes(self.state)]
        state = bytearray(self.state)
        for number in range(promised + 1, last + 1):
            if self.do(state, number, number):
                states.append(bytes(state))
        return states

    def do(self, state: bytearray, first: int, last: int) -> bool:
        changed = False
        for number in range(first, last + 1):
            kind, offset, length, *_ = self.operations[number]
            apply(state, self.seed, number, kind, offset, length)
            changed |= kind not in ("fsync", "fdatasync")
        return changed

    def check(self, root: Path, place: int) -> str | None:
        states = self.states(place)
        if not states:
            return None
        self.checked += 1
        found = read(root / self.path)
        if found is None:
            return f"{self.path} is not there"
        sizes = [len(state) for state in states]
        if not min(sizes) <= len(found) <= max(sizes):
            return f"{self.path} has {len(found)} bytes, {min(sizes)} to {max(sizes)} are allowed"
        if found in states:
            return None
        for at in range(0, len(found), SECTOR):
            block = found[at:at + SECTOR]
            allowed = {padded(state, at, len(block)) for state in states}
            if block not in allowed and not mixed(block, allowed):
                return f"{self.path}: wrong bytes in {at}+{len(block)} ({len(allowed)} contents)"
        return None


def mixed(block: bytes, allowed: set[bytes]) -> bool:
    """A page may be written out while it is changed: each byte is of one of the contents."""
    return len(allowed) > 1 and all(byte in values for byte, values
                                    in zip(block, zip(*allowed, strict=True), strict=True))


class NamesCheck:
    """Each name has the content that the last fsync promised, or a later one, completely."""

    def __init__(self, result: dict):
        self.path = result["path"]
        self.seed = result["seed"]
        self.begun = result["begun"]
        self.checked = 0
        self.operations = result["operations"]
        self.of_name: dict[str, list[list]] = {}
        for operation in self.operations:
            self.of_name.setdefault(operation[0], []).append(operation)

    def places(self) -> list[int]:
        return [operation[4] for operation in self.operations]

    def check(self, root: Path, place: int) -> str | None:
        if place < self.begun:
            return None
        folder = root / self.path
        if not folder.is_dir():
            return f"{self.path}/ is not there"
        strange = [path.name for path in folder.iterdir()
                   if path.name.removesuffix(".part") not in self.of_name]
        if strange:
            return f"{self.path}/ has {strange[:3]}, which were never made"
        for name, operations in self.of_name.items():
            problem = self.check_name(folder / name, operations, place)
            if problem:
                return problem
        return None

    def check_name(self, path: Path, operations: list[list], place: int) -> str | None:
        allowed: list[tuple[int | None, int]] = [(None, 0)]
        for _, number, length, begin, promise in operations:
            if promise <= place:
                allowed = []
            if begin <= place:
                allowed.append((number, length))
        self.checked += operations[0][4] <= place
        found = read(path)
        for number, length in allowed:
            wanted = None if number is None else content(self.seed, number, length)
            if found == wanted:
                return None
        what = "not there" if found is None else f"{len(found)} bytes of another content"
        return f"{self.path}/{path.name}: {what}, allowed: {allowed}"


class FioCheck:
    """Each block is intact and as new as the last fsync promised."""

    def __init__(self, result: dict, recording: Recording, blocks: Blocks):
        self.path = result["path"]
        self.direct = result["direct"]
        self.checked = 0
        self.blocks = blocks
        self.writes: list[tuple[int, int]] = result["writes"]
        every, ended = result["fsync"], result["ended"]
        times = [recording.at_time(time * 1_000_000 + FIO_MARGIN_NS) for time, _ in self.writes]
        # Of each write: from which cut on it is promised. fio syncs before every write whose
        # number is a multiple of `every`, so when the one after that is done it is behind us.
        self.promised = [times[(number // every + 2) * every]
                         if (number // every + 2) * every < len(times) else ended
                         for number in range(len(times))]
        self.of_block: dict[int, list[int]] = {}
        for number, (_, offset) in enumerate(self.writes):
            self.of_block.setdefault(offset, []).append(number)

    def places(self) -> list[int]:
        return self.promised

    def check(self, root: Path, place: int) -> str | None:
        found = read(root / self.path)
        for offset, numbers in self.of_block.items():
            promised = [number for number in numbers if self.promised[number] <= place]
            least = promised[-1] if promised else None
            self.checked += bool(promised)
            block = found[offset:offset + BLOCK] if found is not None else b""
            problem = self.check_block(block, offset, least, numbers[-1])
            if problem:
                return f"{self.path}: block at {offset}: {problem}"
        return None

    def check_block(self, block: bytes, offset: int, least: int | None, last: int) -> str | None:
        if least is None and block.strip(b"\0") == b"":
            return None
        if len(block) < BLOCK:
            return f"beyond the end, write {least} was promised"
        about = self.blocks.read(block)
        if about is None:
            if not self.direct and (least is None or least < last):
                # The page cache may have been written out while fio filled the page again.
                return None
            what = "zeros" if block == ZEROS else "no block of fio's"
            return f"{what}, write {least} was promised"
        if about[0] != offset or about[1] not in self.of_block[offset]:
            return f"has write {about[1]} of offset {about[0]}"
        if least is not None and about[1] < least:
            return f"has write {about[1]}, write {least} was promised"
        return None


def checks(recording: Recording, results: list[dict]) -> list:
    """The checks of all loads of a recording."""
    blocks = Blocks()
    made: list[FsxCheck | NamesCheck | FioCheck] = []
    for result in results:
        if result["kind"] == "fio":
            made.append(FioCheck(result, recording, blocks))
        else:
            made.append(FsxCheck(result) if result["kind"] == "fsx" else NamesCheck(result))
    return made


def load_results(folder: Path) -> list[dict]:
    return json.loads((folder / "loads.json").read_text())
