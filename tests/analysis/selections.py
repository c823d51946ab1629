#!/usr/bin/env python3
"""Slices, samples and merges traces as `destage trace convert` does, in plain Python.

    destage trace convert A copy_a.csv; destage trace convert B copy_b.csv
    destage trace convert A+B found.csv --trace-merge start --trace-sample 0.5
    python3 tests/analysis/selections.py found.csv copy_a.csv copy_b.csv --merge start --sample 0.5

The inputs are CSV copies, whose times begin at 0; --base gives the time at which each trace began
on its clock. Takes the definitions of docs/traces.md literally: whether a byte is kept is decided
for each block and each byte range. Prints what differs from the file FOUND, and ends with 1 if
anything does.
"""

import argparse
import csv
import sys

MASK = (1 << 64) - 1


def mix(value):
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def read(path):
    with open(path, newline="") as file:
        return [
            [int(row["time_ns"]), int(row["device"]), int(row["offset_bytes"]),
             int(row["length_bytes"]), row["op"]]
            for row in csv.DictReader(file)
        ]


def merged(traces, bases, how, devices):
    rows = []
    for number, trace in enumerate(traces):
        shift = bases[number] - min(bases) if how == "clock" else 0
        for place, (time, device, offset, length, op) in enumerate(trace):
            if devices == "apart":
                device += 65536 * number
            rows.append((time + shift, number, place, [time + shift, device, offset, length, op]))
    rows.sort(key=lambda row: row[:3])
    return [row[3] for row in rows]


def pieces(row, first, end, sample):
    """The runs of bytes of a request that are kept."""
    time, device, offset, length, op = row
    if first is not None:
        if length == 0 and not first <= offset < end:
            return
        if length and min(end, offset + length) <= max(first, offset):
            return
        stop = min(end, offset + length)
        offset = max(first, offset)
        length = stop - offset
    if sample is None:
        yield [time, device, offset, length, op]
        return
    share, block, seed = sample
    most = min(int(share * 2.0**64), MASK)
    # A request of 0 bytes is where it begins.
    blocks = range(offset // block, max(offset + length - 1, offset) // block + 1)
    run = None
    for number in blocks:
        kept = mix((mix(seed ^ device) + number) & MASK) <= most
        begin = max(offset, number * block)
        stop = min(offset + length, (number + 1) * block)
        if kept and run is None:
            run = [begin, stop]
        elif kept:
            run[1] = stop
        elif run is not None:
            yield [time, device, run[0], run[1] - run[0], op]
            run = None
    if run is not None:
        yield [time, device, run[0], run[1] - run[0], op]


def selected(rows, args):
    out = []
    for row in rows:
        time, device = row[:2]
        if args.start is not None and time < args.start:
            continue
        if args.until is not None and time >= args.until:
            continue
        if args.device and device not in args.device:
            continue
        first, end = args.range if args.range else (None, None)
        out.extend(pieces(row, first, end, args.sample_of))
    begin = out[0][0] if args.selects and out else 0
    return [[row[0] - begin, *row[1:]] for row in out]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("found")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--base", type=int, action="append")
    parser.add_argument("--merge", default="clock")
    parser.add_argument("--devices", default="apart")
    parser.add_argument("--from", dest="start", type=int, help="ns")
    parser.add_argument("--until", type=int, help="ns")
    parser.add_argument("--device", type=int, action="append")
    parser.add_argument("--range", type=int, nargs=2)
    parser.add_argument("--sample", type=float)
    parser.add_argument("--block", type=int, default=1 << 20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.sample_of = None if args.sample is None else (args.sample, args.block, args.seed)
    wanted = (args.start, args.until, args.device, args.range, args.sample)
    args.selects = any(value is not None for value in wanted)
    traces = [read(path) for path in args.traces]
    bases = args.base or [0] * len(traces)
    rows = traces[0] if len(traces) == 1 else merged(traces, bases, args.merge, args.devices)
    expected, found = selected(rows, args), read(args.found)
    if len(expected) != len(found):
        print(f"the program has {len(found)} requests, Python {len(expected)}")
    for number, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            print(f"request {number}: the program has {one}, Python {other}")
            break
    else:
        if len(expected) == len(found):
            print(f"{len(found)} of {len(rows)} requests are the same")
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
