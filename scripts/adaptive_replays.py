#!/usr/bin/env python3
"""Replays traces with vdf-NAME and adaptive-NAME, and prints the first table of docs/readcache.md.

Usage: adaptive_replays.py DESTAGE TRACES (the folder of the traces)
"""

from __future__ import annotations

import csv
import subprocess
import sys
from itertools import product
from pathlib import Path

SIZES = "2048,8192,32768"
TRACES = {
    "OLTP": ("OLTP.lis.zst", SIZES),
    "P3": ("P3.lis.zst", SIZES),
    "P6": ("P6.lis.zst", "512," + SIZES),
    "CloudPhysics": ("cloudPhysicsIO.vscsi.gz", "512," + SIZES),
    "hplajw": ("ajw.1week.srt.gz", "256,1024,4096"),
    "DTRS": ("DTRS100M.trace.gz", "32768,65536,131072"),
}
POLICIES = ("lru", "lfu", "arc", "sieve")
DISKS = ("5", "8")
FAILED = ("0", "3")

# How much RGR of `paper` is above the plain policy's, of `adaptive` above that, and above
# `paper`, in per cent.
Case = tuple[float, float, float]


def replay(destage: str, trace: Path, policy: str, failed: str, sizes: str) -> dict[str, Case]:
    """Replays a trace with all sizes and numbers of disks; cases by their name."""
    forms = f"{policy},vdf-{policy},adaptive-{policy}"
    command = [destage, "readcache-trace", str(trace), "--policy", forms, "--blocks", sizes]
    command += ["--disks", ",".join(DISKS), "--failed", failed, "--format", "csv"]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rgr: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(out.splitlines()):
        name = f"{row['blocks']} blocks, {row['disks']} disks, disk {failed} failed"
        form = row["policy"].split("-")[0]
        form = form if form in ("vdf", "adaptive") else "plain"
        rgr.setdefault(name, {})[form] = float(row["rgr"])
    return {name: compared(of["plain"], of["vdf"], of["adaptive"]) for name, of in rgr.items()}


def compared(plain: float, paper: float, chosen: float) -> Case:
    """Turns three RGR into a case."""
    return over(paper, plain), over(chosen, plain), over(chosen, paper)


def over(rgr: float, other: float) -> float:
    """By how many per cent the first is above the second."""
    return 100 * (rgr / other - 1)


def summary(cases: list[Case]) -> str:
    """Mean and worst of both forms, and how many cases are no worse than `paper`."""
    paper, chosen, loss = zip(*cases)
    good = sum(value <= 0.05 for value in loss)
    means = (sum(paper) / len(cases), max(paper), sum(chosen) / len(cases), max(chosen))
    return " | ".join(f"{value:+.1f}" for value in means) + f" | {good} of {len(cases)}"


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(str(__doc__).strip())
    destage, folder = sys.argv[1], Path(sys.argv[2])
    print(
        "| trace | policy | `paper`, mean | worst | `adaptive`, mean | worst "
        "| no worse than `paper` |"
    )
    print("|---|---|---|---|---|---|---|")
    every: list[Case] = []
    losses = []
    for (trace, (file, sizes)), policy in product(TRACES.items(), POLICIES):
        if not (folder / file).exists():
            print(f"SKIPPED: {trace}: {folder / file} is not here")
            continue
        cases: dict[str, Case] = {}
        for failed in FAILED:
            cases |= replay(destage, folder / file, policy, failed, sizes)
        every += cases.values()
        print(f"| {trace} | {policy} | {summary(list(cases.values()))} |", flush=True)
        for name, (paper, chosen, loss) in cases.items():
            if max(chosen, loss) > 2:
                figures = f"{paper:+.1f}, {chosen:+.1f}, {loss:+.1f}"
                losses.append(f"{trace}, {policy}, {name}: {figures}")
    if every:
        print(f"| all | | {summary(every)} |")
        print(
            "`adaptive` over 2 % worse than the plain policy or `paper`, in %: `paper` to plain,",
            "`adaptive` to plain, `adaptive` to `paper`:",
            *losses,
            sep="\n  ",
        )


if __name__ == "__main__":
    main()
