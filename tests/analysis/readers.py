#!/usr/bin/env python3
"""Reads traces record by record in plain Python, and compares what `destage` reads.

    python3 tests/analysis/readers.py DESTAGE TRACE... [--most RECORDS]
    python3 tests/analysis/readers.py - TRACE --copy copy.csv

The program DESTAGE converts each trace to CSV, unless --copy names a CSV file that is there. Time,
device, address, size and operation of each record must be those that this script reads in the
trace itself. It knows SRT, VSCSI version 1, MSR, DiskSim's ascii and validation traces, ssdsim,
ARC and the program's CSV, plain or compressed. Times count from the first record, in nanoseconds:
fractions of these are cut off. Prints one line for each trace, and ends with 1 at the first
difference.
"""

import argparse
import gzip
import itertools
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from decimal import Decimal

HEADER = "time_ns,device,offset_bytes,length_bytes,op\n"
SECTOR = 512


class NoZstdError(Exception):
    """Python's standard library cannot read the file."""


def opened(path):
    """The bytes of a trace, without its compression."""
    if path.endswith(".gz"):
        return gzip.open(path)
    if path.endswith(".xz"):
        return lzma.open(path)
    if path.endswith(".zst"):
        if not shutil.which("zstd"):
            raise NoZstdError
        return subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE).stdout
    return open(path, "rb")


def cut(text, ns):
    """Whole nanoseconds of a decimal number of a unit that has this many."""
    return int(Decimal(text) * ns)


def read_or_write(reads):
    return "R" if reads else "W"


def srt(file, _path):
    """A text that ends with a form feed, then 14 big-endian integers of 32 bits for each record."""
    data = file.read()
    at = data.index(b"\f") + 1
    sizes = set(re.findall(rb"sectorsize\s*=\s*(\d+)", data[:at]))
    if len(sizes) != 1:
        raise ValueError(f"sectors of several sizes: {sizes}")
    sector = int(sizes.pop())
    while at < len(data):
        record = struct.unpack_from(">14i", data, at)
        size, _, sec, usec, _, _, count, place, device, _, _, flags = record[:12]
        yield (
            (sec * 10**6 + usec) * 1000,
            device >> 8 & 0xFF,
            place * sector,
            count,
            read_or_write(flags & 1),
        )
        at += size


def vscsi(file, _path):
    """Little-endian: number, bytes, parts, SCSI command, version, sector, microseconds."""
    reads = {0x28: True, 0x2A: False}
    while record := file.read(32):
        _, count, _, command, _, place, usec = struct.unpack("<IIIHHQQ", record)
        yield usec * 1000, 0, place * SECTOR, count, read_or_write(reads[command])


def msr(file, _path):
    """Ticks of 100 ns, perhaps after a line number; host, disk, type, offset, size, response."""
    for line in file:
        ticks, _, disk, kind, offset, size, _ = line.decode().split(",")
        yield int(ticks.split()[-1]) * 100, int(disk), int(offset), int(size), kind[0]


def ssdsim(file, _path):
    """Nanoseconds, device, sector, sectors, 0 for a write or 1 for a read."""
    for line in file:
        time, device, place, count, reads = map(int, line.split())
        yield time, device, place * SECTOR, count * SECTOR, read_or_write(reads)


def disksim(file, _path):
    """Milliseconds, device, block, blocks, flags of which bit 0 is set for a read."""
    for line in file:
        time, device, place, count, flags = line.decode().split()
        reads = int(flags, 16) & 1
        place, count = int(place) * SECTOR, int(count) * SECTOR
        yield cut(time, 10**6), int(device), place, count, read_or_write(reads)


def validation(file, _path):
    """R or W, a label, block, blocks, service and think time in us; one request at a time."""
    time = 0
    for line in file:
        kind, _, place, count, service, think = line.decode().split()
        yield time, 0, int(place) * SECTOR, int(count) * SECTOR, kind
        time += cut(service, 1000) + cut(think, 1000)


def arc(file, path):
    """First block, blocks, 0, number; pages in OLTP, sectors in P1 to P14. No times, all read."""
    unit = 4096 if os.path.basename(path).startswith("OLTP") else SECTOR
    for line in file:
        place, count = map(int, line.split()[:2])
        yield 0, 0, place * unit, count * unit, "?"


def plain(file, _path):
    """The program's own CSV."""
    for line in itertools.islice(file, 1, None):
        time, device, place, size, op = line.decode().strip().split(",")
        yield int(time), int(device), int(place), int(size), op


BY_NAME = {".srt": srt, ".vscsi": vscsi, ".lis": arc}
BY_LINE = {
    HEADER.strip(): plain,
    r"(\d+\s+)?\d{15,},\w+,\d+,(Read|Write),\d+,\d+,\d+": msr,
    r"[RW]\s+\S+\s+\d+\s+\d+\s+[\d.]+\s+[\d.]+": validation,
    r"\d+\s+\d+\s+\d+\s+\d+\s+[01]": ssdsim,
    r"\d+\.\d+\s+\d+\s+\d+\s+\d+\s+[\da-fA-F]+": disksim,
}


def format_of(path):
    """The function that reads a trace, by its name or its first line."""
    for end, reader in BY_NAME.items():
        if re.search(re.escape(end) + r"(\.\w+)?$", path):
            return reader
    with opened(path) as file:
        line = file.readline(200).decode("ascii", "replace").strip()
    for pattern, reader in BY_LINE.items():
        if re.fullmatch(pattern, line):
            return reader
    raise ValueError(f"{path}: a format that this script does not know")


def records(path):
    """Time, device, address, bytes and operation; times count from the first, and never fall."""
    first, latest = None, 0
    with opened(path) as file:
        for time, *rest in format_of(path)(file, path):
            first = time if first is None else first
            latest = max(latest, time - first)
            yield (latest, *rest)


def compare(path, copy, most):
    """How many records are the same, or where the first difference is."""
    mine = (f"{t},{d},{place},{size},{op}\n" for t, d, place, size, op in records(path))
    with open(copy) as file:
        if file.readline() != HEADER:
            return 0, "the copy has another first line"
        count = 0
        for ours, theirs in itertools.islice(itertools.zip_longest(mine, file), most):
            if ours != theirs:
                says = [str(line).strip() for line in (theirs, ours)]
                return count, f"record {count}: the program has {says[0]}, Python {says[1]}"
            count += 1
    return count, None


def convert(destage, path, folder):
    copy = os.path.join(folder, "copy.csv")
    words = [destage, "trace", "convert", path, copy, "--force"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return copy


def check(path, words, folder):
    """Whether all records of a trace are the same; prints one line."""
    name = os.path.basename(path)
    copy = words.copy or convert(words.destage, path, folder)
    try:
        reader = format_of(path).__name__
        count, fault = compare(path, copy, words.most)
    except NoZstdError:
        print(f"SKIPPED: {name}: Python has no zstd, and the program zstd is not installed")
        return True
    part = " (no more are compared)" if count == words.most else ""
    print(f"{name}: {reader}, {fault or f'{count} records are the same{part}'}")
    return fault is None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("destage", help="the program; - with --copy")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--copy", help="CSV copy of the trace")
    parser.add_argument("--most", type=int, default=1_000_000, help="records of each trace")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all(check(path, words, folder) for path in words.traces) else 1


if __name__ == "__main__":
    sys.exit(main())
