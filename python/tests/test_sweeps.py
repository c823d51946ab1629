"""Sweeps: resumed, interrupted, on a cluster with workers that die, the same everywhere."""

import os
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import destage
import pytest
from destage import _native, sweeps
from destage.examples import Wow

HAS_DASK = find_spec("distributed") is not None
if HAS_DASK:
    from distributed import Client, LocalCluster

on_dask = pytest.mark.skipif(
    not HAS_DASK, reason="SKIPPED: no dask.distributed: pip install 'destage[sweep]'"
)

GRID: dict[str, Any] = {"policy": ["lrw", "wow"], "nvs": [1024, 4096, 8192], "iops": [500, 800]}
SHORT: dict[str, Any] = {"warmup": 1, "measure": 5}


def contents(directory: Path) -> dict[str, bytes]:
    """Rows by key."""
    return {path.name: path.read_bytes() for path in directory.glob("*.parquet")}


def test_a_sweep_runs_what_is_missing(tmp_path: Path) -> None:
    first = destage.sweep(GRID, out=tmp_path, **SHORT)
    assert (first.found, first.run, len(first.points)) == (0, 12, 12)
    rows = contents(tmp_path)
    again = destage.sweep(GRID, out=tmp_path, **SHORT)
    assert (again.found, again.run) == (12, 0)
    frame = again.to_pandas()
    assert list(frame["axis_nvs"].unique()) == [1024, 4096, 8192] and len(frame) == 12
    assert again.to_polars().shape[0] == 12
    # One row is gone, one was cut short, one is new.
    gone, cut = sorted(rows)[:2]
    (tmp_path / gone).unlink()
    (tmp_path / cut).write_bytes(rows[cut][:-4])
    wider = destage.sweep({**GRID, "iops": [500, 800, 900]}, out=tmp_path, threads=1, **SHORT)
    assert (wider.found, wider.run) == (10, 8)
    assert {name: contents(tmp_path)[name] for name in rows} == rows


def test_a_row_is_what_a_run_reports(tmp_path: Path) -> None:
    swept = destage.sweep({"policy": ["wow"]}, seeds=2, nvs=2048, out=tmp_path, **SHORT)
    for row, seed in zip(swept.rows(), (1, 2), strict=True):
        run = destage.simulate(policy="wow", nvs=2048, seed=seed, **SHORT)
        expected = run.rows()[0]
        assert {name: row[name] for name in expected} == expected
        assert row["axis_seed"] == seed


def test_the_command_line_fills_the_same_dataset(command_line: str, tmp_path: Path) -> None:
    flags = ["--grid", "policy=lrw,wow", "--grid", "nvs=1024,4096,8192", "--grid", "iops=500,800"]
    run = subprocess.run(
        [command_line, "sweep", *flags, "--warmup", "1", "--measure", "5", "--out", tmp_path],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "0 points were there, 12 were run" in run.stderr
    rows = contents(tmp_path)
    swept = destage.sweep(GRID, out=tmp_path, **SHORT)
    assert (swept.found, swept.run) == (12, 0)
    alone = destage.sweep(GRID, out=tmp_path / "alone", **SHORT)
    assert alone.run == 12 and contents(tmp_path / "alone") == rows


def test_keys_are_of_contents_not_names(trace: destage.Trace, tmp_path: Path) -> None:
    def keys(*traces: destage.Trace | Path, **options: Any) -> list[str]:
        swept = destage.sweep({"policy": ["wow"]}, traces, out=tmp_path / "rows", **options)
        return [point.key for point in swept.points]

    one, two = tmp_path / "one.dtrc", tmp_path / "two.dtrc"
    trace.save(one)
    trace.save(two)
    (key,) = keys(one)
    assert keys(two) == [key] == keys(trace)
    assert keys(one, nvs=2048) != [key]
    changed = bytearray(one.read_bytes())
    changed[16 + 8 + 1] ^= 16  # The second byte of the first request's offset.
    two.write_bytes(changed)
    assert keys(two) != [key]
    with pytest.raises(destage.OptionError, match="same name"):
        keys(trace, trace)


def test_bad_grids_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for grid, why in (
        ({"policy": ["wow", "wov"]}, "known: wow"),
        ({"policy": []}, "no values"),
        ({"nsv": [1]}, "unknown option"),
        ({"seed": range(2000), "iops": range(1, 1001)}, "1000000 points"),
    ):
        with pytest.raises(destage.OptionError, match=why):
            destage.sweep(grid, out=tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_ctrl_c_keeps_the_rows_there_are(tmp_path: Path) -> None:
    code = (
        "import destage, sys; print('go', flush=True)\n"
        "try: destage.sweep({'seed': range(1000)}, out=sys.argv[1], measure=60, warmup=0)\n"
        "except KeyboardInterrupt: sys.exit(7)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while len(contents(tmp_path)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        before = len(contents(tmp_path))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 7
    there = contents(tmp_path)
    # What was running may end; nothing else is begun.
    assert 3 <= before <= len(there) <= before + 300
    swept = destage.sweep({"seed": range(5)}, out=tmp_path, measure=60, warmup=0)
    assert swept.found >= 2


class Newest(destage.DestagePolicy):
    """The group that was made last."""

    def __init__(self, context: destage.PolicyContext) -> None:
        self.held: list[int] = []

    def on_write(self, write: destage.PageWrite) -> None:
        if write.created:
            self.held.append(write.group)

    def pick(self, nvs: destage.Nvs) -> int:
        group = next(group for group in reversed(self.held) if nvs.may_pick(group))
        self.held.remove(group)
        return group


def test_policies_in_python_are_swept(tmp_path: Path) -> None:
    grid: dict[str, Any] = {"policy": ["wow", Wow, Newest], "nvs": [1024, 2048]}
    swept = destage.sweep(grid, out=tmp_path, iops=700, **SHORT)
    assert (swept.found, swept.run) == (0, 6)
    rows = {(row["axis_policy"], row["axis_nvs"]): row for row in swept.rows()}
    for nvs in grid["nvs"]:
        assert rows["Wow", nvs]["digest"] == rows["wow", nvs]["digest"]
        own = destage.simulate(policy=Newest, nvs=nvs, iops=700, **SHORT)
        assert rows["Newest", nvs]["digest"] == own.digest != rows["wow", nvs]["digest"]
        assert rows["Newest", nvs]["label"] == "Newest"
    again = destage.sweep(grid, out=tmp_path, iops=700, **SHORT)
    assert (again.found, again.run) == (6, 0)

    class Changed(Newest):
        def on_destaged(self, group: int) -> None:
            self.last = group

    Changed.__name__ = "Newest"
    other = destage.sweep({**grid, "policy": [Changed]}, out=tmp_path, iops=700, **SHORT)
    assert (other.found, other.run) == (0, 2)
    space: dict[str, Any] = {}
    exec("import destage\nclass Own(destage.DestagePolicy):\n def on_write(self, w): pass", space)
    refused: list[tuple[Any, str]] = [
        ([Newest, Changed], "two policies have the name Newest"),
        ([type("wow", (Newest,), {})], "two policies have the name wow"),
        ([space["Own"]], "Own: a sweep keeps rows by the source of a policy"),
    ]
    for policies, why in refused:
        with pytest.raises(destage.OptionError, match=why):
            destage.sweep({"policy": policies}, out=tmp_path, **SHORT)


@on_dask
def test_policies_in_python_run_on_a_cluster(tmp_path: Path) -> None:
    grid: dict[str, Any] = {"policy": [Wow, Newest], "nvs": [1024, 2048]}
    here = destage.sweep(grid, out=tmp_path / "here", **SHORT)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        there = destage.sweep(grid, out=tmp_path / "there", client=client, **SHORT)
    assert (here.run, there.run) == (4, 4)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_cluster_gets_points_in_tasks_that_shrink() -> None:
    def points(count: int, trace: str = "") -> dict[str, Any]:
        return {f"{trace}{n}": [("seed", str(n)), ("trace", trace)] for n in range(count)}

    def sizes(missing: dict[str, Any], workers: int) -> list[int]:
        tasks = sweeps._tasks(missing, workers)
        assert [key for task in tasks for _, key in task] == list(missing)
        assert all(len({dict(options)["trace"] for options, _ in task}) == 1 for task in tasks)
        return [len(task) for task in tasks]

    assert sizes(points(40), 1) == [8, 8, 6, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    assert sizes(points(40), 64) == [1] * 40
    assert sizes(points(3, "a") | points(3, "b") | points(50, "c"), 1)[:3] == [3, 3, 8]
    assert sizes({}, 2) == []


def test_a_point_that_fails_leaves_the_rows_before_it() -> None:
    settings = [("measure", "10"), ("warmup", "0")]
    points = _native.sweep_points(settings, [("seed", ["1", "2", "3"])], 1, {})
    (_, first), (other, _), _ = points
    assert len(sweeps._work([points[0], (other, first), points[2]], None, "")) == 1
    with pytest.raises(destage.RunError, match="another key"):
        sweeps._work([(other, first), points[2]], None, "")
    assert len(sweeps._work(points, None, "")) == 3


@on_dask
def test_a_cluster_says_why_a_point_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = {"seed": range(40)}
    named = _native.sweep_points
    bad = "0" * 64

    def points(*given: Any) -> Any:
        made = named(*given)
        # The third point of the first task.
        return [(options, bad if n == 2 else key) for n, (options, key) in enumerate(made)]

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        monkeypatch.setattr(_native, "sweep_points", points)
        with pytest.raises(destage.RunError, match="another key"):
            destage.sweep(grid, out=tmp_path, client=client, **SHORT)
    there = contents(tmp_path)
    assert len(there) >= 2 and f"{bad}.parquet" not in there


@on_dask
def test_a_cluster_whose_worker_is_killed(trace: destage.Trace, tmp_path: Path) -> None:
    grid: dict[str, Any] = {
        "policy": ["lrw", "wow", "stow"],
        "nvs": [1024, 2048, 4096, 8192],
        "seed": range(5),
    }
    settings: dict[str, Any] = {"trace_mode": "rate:50"}
    here = destage.sweep(grid, [trace], out=tmp_path / "here", **settings)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        killed = threading.Event()

        def kill() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if len(contents(tmp_path / "there")) >= 20:
                    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
                    killed.set()
                    return
                time.sleep(0.002)

        (tmp_path / "there").mkdir()
        killer = threading.Thread(target=kill)
        killer.start()
        there = destage.sweep(grid, [trace], out=tmp_path / "there", client=client, **settings)
        killer.join()
        assert killed.is_set() and there.run == 60
        again = destage.sweep(grid, [trace], out=tmp_path / "there", client=client, **settings)
        assert (again.found, again.run) == (60, 0)
        with pytest.raises(destage.InputError, match=r"gone\.dtrc"):
            destage.sweep({"policy": ["wow"]}, [tmp_path / "gone.dtrc"], client=client)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert there.to_arrow().equals(here.to_arrow())
