"""A folder of files that records what is done to them: the devices of an array, and the moment at
which each of its writes and flushes was issued and completed.

The kernel brings each write of the server here as one request (FUSE without page cache), with
`O_DSYNC` if the server asked for a durable write (`RWF_DSYNC`). A write is applied when it is
issued and completed a drawn time later, so that many are in flight at once, as on a disk.

    recorder.py FOLDER MOUNTPOINT --device m0:67108864 --device n0:16777216

FOLDER gets `events` (records of `EVENT`), `data` (what was written) and `count`, the number of
events so far: 8 bytes that other programs map. Ends when the folder is unmounted.
"""

import argparse
import errno
import heapq
import mmap
import os
import random
import select
import struct
import time
from pathlib import Path

import fusewire as fuse

# kind, device, flags, bytes, offset, place in `data` or number of the issue, time (ns of 1970).
EVENT = struct.Struct("<BBHIQQQ")
WRITE, WRITTEN, FLUSH, FLUSHED = 1, 2, 3, 4
DURABLE = 1

# Least and most microseconds that an operation takes, times `--pace`.
PLAIN_US = (0, 200)
DURABLE_US = (50, 900)
FLUSH_US = (100, 1500)


class Recorder:
    """The files, and the operations in flight."""

    def __init__(self, options: argparse.Namespace):
        self.folder = Path(options.folder)
        self.sector = options.sector
        self.source = random.Random(options.seed)
        self.pace = options.pace
        self.names: dict[bytes, int] = {}
        self.images: list[mmap.mmap] = []
        self.files: list[int] = []
        for number, device in enumerate(options.device):
            name, size = device.split(":")
            self.names[name.encode()] = number
            self.files.append(self.file(f"{name}.recorded", int(size)))
            self.images.append(mmap.mmap(self.files[-1], int(size)))
        self.events = open(self.folder / "events", "wb", buffering=1 << 20)
        self.data = open(self.folder / "data", "wb", buffering=1 << 20)
        self.data_bytes = 0
        self.count = mmap.mmap(self.file("count", 4096), 4096)
        self.number = 0
        # (due, event number, unique, answer, event) of what is in flight.
        self.flying: list[tuple] = []
        self.device = fuse.mount(Path(options.mountpoint))

    def file(self, name: str, size: int) -> int:
        file = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(file, size)
        return file

    def event(self, kind: int, device: int, flags: int, length: int, offset: int, ref: int) -> int:
        """Records an event; its number."""
        self.events.write(EVENT.pack(kind, device, flags, length, offset, ref, time.time_ns()))
        self.number += 1
        self.count[:8] = self.number.to_bytes(8, "little")
        return self.number - 1

    def later(self, times: tuple[int, int], unique: int, answer: bytes, event: tuple) -> None:
        due = time.monotonic_ns() + 1000 * self.pace * self.source.randint(*times)
        heapq.heappush(self.flying, (due, self.number, unique, answer, event))

    def finish_due(self) -> float | None:
        """Completes what is due; seconds until the next is."""
        while self.flying:
            left = self.flying[0][0] - time.monotonic_ns()
            if left > 0:
                return left / 1e9
            _, _, unique, answer, event = heapq.heappop(self.flying)
            self.event(*event)
            fuse.reply(self.device, unique, answer)
        return None

    def run(self) -> None:
        buffer = bytearray(fuse.BUFFER_BYTES)
        view = memoryview(buffer)
        while True:
            ready, _, _ = select.select([self.device], [], [], self.finish_due())
            if not ready:
                continue
            try:
                length = os.readv(self.device, [buffer])
            except OSError as error:
                if error.errno == errno.ENODEV:
                    break
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                raise
            self.request(view[:length])
        self.events.close()
        self.data.close()

    def request(self, request: memoryview) -> None:
        _, opcode, unique, node, *_ = fuse.IN_HEADER.unpack_from(request)
        if opcode in fuse.UNANSWERED:
            return
        body = request[fuse.IN_HEADER.size:]
        do = self.ANSWERS.get(opcode)
        if do is None:
            fuse.reply(self.device, unique, error=errno.ENOSYS)
            return
        answer = do(self, unique, node, body)
        if isinstance(answer, int):
            fuse.reply(self.device, unique, error=answer)
        elif answer is not None:
            fuse.reply(self.device, unique, answer)

    def size(self, node: int) -> int:
        return 0 if node == fuse.ROOT else len(self.images[node - 2])

    def init(self, _unique, _node, body):
        return fuse.init(body)

    def lookup(self, _unique, _node, body):
        number = self.names.get(bytes(body).rstrip(b"\0"))
        if number is None:
            return errno.ENOENT
        return fuse.entry(number + 2, self.size(number + 2), self.sector)

    def attributes(self, _unique, node, _body):
        about = fuse.attributes(node, self.size(node), self.sector)
        return fuse.OUT_ATTRIBUTES.pack(fuse.FOREVER, 0, 0) + about

    def statfs(self, _unique, _node, _body):
        return fuse.OUT_STATFS.pack(1 << 30, 1 << 30, 1 << 30, 100, 100, 4096, 255, 4096, 0)

    def open(self, _unique, node, _body):
        flags = 0 if node == fuse.ROOT else fuse.OPEN_DIRECT | fuse.OPEN_PARALLEL_WRITES
        return fuse.OUT_OPEN.pack(0, flags, 0)

    def nothing(self, _unique, _node, _body):
        return b""

    def seek(self, _unique, node, body):
        _, offset, whence, _ = fuse.IN_LSEEK.unpack_from(body)
        try:
            return fuse.OUT_LSEEK.pack(os.lseek(self.files[node - 2], offset, whence))
        except OSError as error:
            return error.errno

    def unaligned(self, offset: int, length: int) -> bool:
        return bool((offset | length) % self.sector)

    def read(self, unique, node, body):
        _, offset, length, *_ = fuse.IN_OFFSET.unpack_from(body)
        if self.unaligned(offset, length):
            return errno.EINVAL
        with memoryview(self.images[node - 2]) as image, image[offset:offset + length] as part:
            fuse.reply(self.device, unique, part)
        return None

    def write(self, unique, node, body):
        _, offset, length, _, _, flags, _ = fuse.IN_OFFSET.unpack_from(body)
        if self.unaligned(offset, length):
            return errno.EINVAL
        bytes_of = body[fuse.IN_OFFSET.size:fuse.IN_OFFSET.size + length]
        self.images[node - 2][offset:offset + length] = bytes_of
        self.data.write(bytes_of)
        durable = DURABLE if flags & os.O_DSYNC else 0
        device = node - 2
        issue = self.event(WRITE, device, durable, length, offset, self.data_bytes)
        self.data_bytes += length
        self.later(DURABLE_US if durable else PLAIN_US, unique, fuse.OUT_WRITE.pack(length, 0),
                   (WRITTEN, device, durable, length, offset, issue))
        return None

    def flush(self, unique, node, _body):
        device = node - 2
        issue = self.event(FLUSH, device, 0, 0, 0, 0)
        self.later(FLUSH_US, unique, b"", (FLUSHED, device, 0, 0, 0, issue))

    ANSWERS = {
        fuse.INIT: init, fuse.LOOKUP: lookup, fuse.GETATTR: attributes, fuse.SETATTR: attributes,
        fuse.STATFS: statfs, fuse.OPEN: open, fuse.OPENDIR: open, fuse.RELEASE: nothing,
        fuse.RELEASEDIR: nothing, fuse.READDIR: nothing, fuse.DESTROY: nothing, fuse.LSEEK: seek,
        fuse.READ: read, fuse.WRITE: write, fuse.FSYNC: flush,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve files by FUSE and record their writes.")
    parser.add_argument("folder")
    parser.add_argument("mountpoint")
    parser.add_argument("--device", action="append", metavar="NAME:BYTES", required=True)
    parser.add_argument("--sector", type=int, choices=[512, 4096], default=512)
    parser.add_argument("--pace", type=int, default=1, help="how slow the devices are")
    parser.add_argument("--seed", type=int, default=1)
    Recorder(parser.parse_args()).run()


if __name__ == "__main__":
    main()
