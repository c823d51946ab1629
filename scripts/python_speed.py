"""Measures what docs/python.md says of speed; run it by `make python-speed`."""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import destage
import numpy as np
from destage import _native
from destage.examples import Wow
from distributed import Client, LocalCluster


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def least_us(*works: Callable[[], object], times: int = 300) -> list[float]:
    """The least time of each, taken in turns: what other work on the machine adds is left out."""
    rounds = [[seconds(work) for work in works] for _ in range(times)]
    return [1e6 * min(taken) for taken in zip(*rounds)]


def calls() -> None:
    load = destage.Workload.uniform(iops=100)
    given = [("workload", load.text), ("requests", "1"), ("warmup", "0"), ("measure", "1")]
    for disk in ("stow-ref", "hp97560"):
        level: dict[str, Any] = {"level": "single", "disks": 1} if disk == "hp97560" else {}
        flags = [*given, ("disk", disk), *[(k, str(v)) for k, v in level.items()]]

        def whole(disk: str = disk, level: Any = level) -> None:
            destage.simulate(load, requests=1, warmup=0, measure=1, disk=disk, **level)

        native, total = least_us(partial(_native.simulate, flags), whole)
        print(
            f"call, {disk}: {total:.0f} us, of which the simulator {native:.0f} us, "
            f"Python {total - native:.0f} us"
        )


def long_trace(command: str, requests: int, rounds: int) -> None:
    draw = np.random.default_rng(3)
    pages = draw.integers(0, 2_000_000, requests)
    times = np.cumsum(draw.exponential(1.5e6, requests)).astype(np.uint64)
    trace = destage.Trace.from_arrays(
        times, pages * 4096, np.full(requests, 4096), draw.random(requests) < 0.5, name="long"
    )
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.dtrc"
        trace.save(path)
        flags = [command, "sim", "--trace", str(path), "--policy", "wow", "--format", "json"]
        destage.simulate(trace, policy="wow", requests=1000)
        for _ in range(rounds):
            here = seconds(lambda: destage.simulate(trace, policy="wow"))
            there = seconds(lambda: subprocess.run(flags, check=True, capture_output=True))
            ratios.append(here / there)
            print(f"{requests} requests: from NumPy {here:.2f} s, command line {there:.2f} s")
    print(f"from NumPy over the command line: median {statistics.median(ratios):.3f}")


def python_policy(rounds: int) -> None:
    load = destage.Workload.spc1(iops=800)
    speed: dict[str, list[float]] = {"built-in": [], "Python": []}
    pages = 0.0
    for _ in range(rounds):
        for name, policy in (("built-in", "wow"), ("Python", Wow)):
            start = time.perf_counter()
            run = destage.simulate(load, policy=policy, warmup=0)
            taken = time.perf_counter() - start
            pages = run.destage.pages + run.occupancy.max * 32768
            speed[name].append(pages / taken)
    built, ours = (statistics.median(speed[name]) for name in ("built-in", "Python"))
    print(
        f"wow, SPC-1-like at 800 I/O/s: built-in {built:,.0f} pages/s, in Python {ours:,.0f} "
        f"({100 * ours / built:.0f} %), {1e6 / ours - 1e6 / built:.2f} us more per page"
    )
    counts = {"on_write": 0, "pick": 0}
    spent = dict.fromkeys(counts, 0.0)

    class Timed(Wow):
        def on_write(self, write: destage.PageWrite) -> None:
            start = time.perf_counter()
            super().on_write(write)
            spent["on_write"] += time.perf_counter() - start
            counts["on_write"] += 1

        def pick(self, nvs: destage.Nvs) -> int:
            start = time.perf_counter()
            group = super().pick(nvs)
            spent["pick"] += time.perf_counter() - start
            counts["pick"] += 1
            return group

    destage.simulate(load, policy=Timed, warmup=0)
    for name, count in counts.items():
        print(f"  {name}: {count} calls, {1e6 * spent[name] / count:.2f} us each in Python")


SHORT: dict[str, Any] = {"warmup": 60, "measure": 60}
GRID: dict[str, Any] = {
    "policy": ["lrw", "cscan", "wow", "stow"],
    "nvs": [2048, 4096, 8192, 16384, 32768],
    "iops": list(range(500, 1000, 50)),
}


def rows(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def swept(folder: Path, workers: int, kill_at: int | None = None) -> float:
    folder.mkdir()
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(destage.tables.policies)

        def kill() -> None:
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline and len(rows(folder)) < (kill_at or 0):
                time.sleep(0.01)
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            print(f"  killed a worker at {len(rows(folder))} rows")

        killer = threading.Thread(target=kill, daemon=True)
        if kill_at is not None:
            killer.start()
        return seconds(lambda: destage.sweep(GRID, out=folder, client=client, **SHORT))


def clusters() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = seconds(lambda: destage.sweep(GRID, out=folder / "here", **SHORT))
        print(f"{len(rows(folder / 'here'))} points in-process: {here:.1f} s")
        one = swept(folder / "one", 1)
        two = swept(folder / "two", 2)
        print(f"Dask: one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast")
        killed = swept(folder / "killed", 2, kill_at=100)
        print(f"  with a worker killed: {killed:.1f} s")
        expected = rows(folder / "here")
        for kind in ("one", "two", "killed"):
            assert rows(folder / kind) == expected, kind
        print(f"all {len(expected)} rows the same bit for bit, four times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--destage", default="target/release/destage", help="the command line")
    parser.add_argument("--requests", type=int, default=5_000_000, help="of the long trace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["calls", "trace", "policy", "cluster"])
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "calls": calls,
        "policy": lambda: python_policy(arguments.rounds),
        "trace": lambda: long_trace(arguments.destage, arguments.requests, arguments.rounds),
        "cluster": clusters,
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            part()


if __name__ == "__main__":
    main()
