"""Scripts that print tables of the documents."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from pathlib import Path
from statistics import fmean

from conftest import TOP


def run(*command: str, code: int = 0) -> list[str]:
    """Runs a command that ends with this code, and returns its lines."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return (done.stderr if code else done.stdout).splitlines()


def test_adaptive_replays_prints_what_the_replays_say(tmp_path: Path, command_line: str) -> None:
    draw = random.Random(7)
    blocks = [int(draw.paretovariate(0.3)) % 40_000 for _ in range(20_000)]
    trace = tmp_path / "OLTP.lis.zst"
    trace.write_text("".join(f"{block} 1 0 {n}\n" for n, block in enumerate(blocks)))
    script = [sys.executable, str(TOP / "scripts/adaptive_replays.py"), command_line]
    lines = run(*script, str(tmp_path))
    assert sum(line.startswith("SKIPPED: ") for line in lines) == 5 * 4
    rows = [line.split(" | ") for line in lines if line.startswith("| OLTP | ")]
    assert [row[1] for row in rows] == ["lru", "lfu", "arc", "sieve"]
    assert any(line.startswith("| all | | ") and line.endswith(" of 48 |") for line in lines)

    worse: dict[str, list[float]] = {"vdf-lru": [], "adaptive-lru": []}
    replay = [command_line, "readcache-trace", str(trace), "--blocks", "2048,8192,32768"]
    replay += ["--policy", "lru,vdf-lru,adaptive-lru", "--disks", "5,8", "--format", "csv"]
    for failed in ("0", "3"):
        table = list(csv.DictReader(run(*replay, "--failed", failed)))
        rgr = {(row["policy"], row["blocks"], row["disks"]): float(row["rgr"]) for row in table}
        assert len(rgr) == 18
        for (policy, size, disks), value in rgr.items():
            if policy in worse:
                worse[policy].append(100 * (value / rgr["lru", size, disks] - 1))
    figures = [figure(cases) for cases in worse.values() for figure in (fmean, max)]
    assert rows[0][2:6] == [f"{figure:+.1f}" for figure in figures]
    assert min(worse["vdf-lru"]) < -1
    assert any("Usage: adaptive_replays.py" in line for line in run(*script, code=1))
