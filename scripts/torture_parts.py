#!/usr/bin/env python3
"""Runs many simulated crashes in parts, each with seeds of its own, and adds them up.

Parts that are there are not run again, so it continues after an interruption. Another program's
parts are not added to these, except in a record (--record), which names the commit of each program.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

CRASHES_OF_A_CASE = 8
NOT_ADDED = "first seed"


def program_of(destage: Path) -> str:
    """Distinguishes builds."""
    return hashlib.sha256(destage.read_bytes()).hexdigest()[:16]


def run_part(args: argparse.Namespace, seed: int, program: str, into: Path) -> None:
    """Runs a part. Only one in which every check held is kept."""
    words = [args.destage, "torture", "--seed", seed, "--crashes", args.part, "--format", "json"]
    if args.threads:
        words += ["--threads", args.threads]
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"torture_parts: of the seeds from {seed}: {ran.stderr.strip()}")
    part = {"program": program, "counts": json.loads(ran.stdout)}
    unfinished = into.with_suffix(".part")
    unfinished.write_text(json.dumps(part, indent=1))
    unfinished.rename(into)


def add_up(folder: Path, program: str | None) -> dict[str, int]:
    """The sum of all parts; refuses parts of several programs."""
    total: dict[str, int] = {"parts": 0}
    for path in sorted(folder.glob("*.json")):
        part = json.loads(path.read_text())
        program = program or part["program"]
        if part["program"] != program:
            sys.exit(f"torture_parts: {path} is of another build. Give another folder: --out DIR")
        total["parts"] += 1
        for line in part["counts"]:
            if line["counted"] != NOT_ADDED:
                total[line["counted"]] = total.get(line["counted"], 0) + line["number"]
    return total


def recorded(record: Path, folder: Path, commit: str) -> dict[str, int]:
    """Puts the sum of a folder into a record, in place of what it has of the same program, and
    returns the sum of all that it has. Refuses seeds that another program has run."""
    entries = json.loads(record.read_text()) if record.exists() else []
    paths = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    if paths:
        part = json.loads(paths[-1].read_text())
        cases = next(line["number"] for line in part["counts"] if line["counted"] == "cases")
        entry = {
            "program": part["program"],
            "commit": commit,
            "seeds": [int(paths[0].stem), int(paths[-1].stem) + cases - 1],
            "counts": add_up(folder, None),
        }
        entries = [one for one in entries if one["program"] != entry["program"]] + [entry]
    entries.sort(key=lambda one: one["seeds"])
    for before, after in itertools.pairwise(entries):
        if after["seeds"][0] <= before["seeds"][1]:
            sys.exit(f"torture_parts: {record}: two programs have run seed {after['seeds'][0]}")
    record.write_text(json.dumps(entries, indent=1) + "\n")
    total: dict[str, int] = {"programs": len(entries)}
    for one in entries:
        for what, number in one["counts"].items():
            total[what] = total.get(what, 0) + number
    return total


def head() -> str:
    """The commit of the tree."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--destage", type=Path, default=Path("target/release/destage"))
    parser.add_argument("--out", type=Path, default=Path("target/torture"), help="folder of parts")
    parser.add_argument("--crashes", type=int, default=1_000_000, help="in all")
    parser.add_argument("--part", type=int, default=20_000, help="crashes in a part")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of the first part")
    parser.add_argument("--threads", type=int, default=0, help="default: one per processor")
    parser.add_argument("--sum", action="store_true", help="only add up the parts that are there")
    parser.add_argument(
        "--record",
        type=Path,
        help="put the sum into this file, and print that of all programs there",
    )
    parser.add_argument("--commit", help="of the program, for the record [default: the tree's]")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.sum:
        program = program_of(args.destage)
        add_up(args.out, program)
        seeds = args.part // CRASHES_OF_A_CASE
        parts = -(-args.crashes // args.part)
        for number in range(parts):
            seed = args.seed + number * seeds
            into = args.out / f"{seed}.json"
            if not into.exists():
                run_part(args, seed, program, into)
                print(f"{number + 1} of {parts} parts", file=sys.stderr, flush=True)
    total = add_up(args.out, None)
    if args.record:
        total = recorded(args.record, args.out, args.commit or head())
    if not total["parts"]:
        sys.exit(f"torture_parts: {args.out} has no parts")
    if args.format == "json":
        print(json.dumps(total, indent=1))
    else:
        wide = max(map(len, total))
        print("\n".join(f"{what:{wide}}  {number:>13,}" for what, number in total.items()))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
