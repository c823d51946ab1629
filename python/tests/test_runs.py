"""Runs and comparisons: results, errors, interrupts, the same as the command line."""

import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import destage
import numpy as np
import pytest

SHORT: dict[str, Any] = {"warmup": 2, "measure": 10}


def test_a_run_reports_what_it_did() -> None:
    run = destage.simulate(destage.Workload.spc1(iops=600), policy="wow", nvs=4096, **SHORT)
    assert run.label == "wow" and run.options["nvs"] == "4096"
    assert run.response.all.count == run.response.reads.count + run.response.writes.count > 1000
    assert run.response.all.p50_ms <= run.response.all.p99_ms <= run.response.all.max_ms
    assert len(run.disks) == 5 and 0 < run.disks[0].utilisation <= 1
    assert abs(run.iops - run.response.all.count / run.measured_s) < 1e-6
    series = run.series
    assert len(series.time_s) == len(series.occupancy) == 12
    again = destage.simulate(destage.Workload.spc1(iops=600), policy="wow", nvs="16M", **SHORT)
    assert again.digest == run.digest and again.response == run.response
    other = destage.simulate(destage.Workload.spc1(iops=600), policy="wow", seed=2, **SHORT)
    assert other.digest != run.digest


def test_a_run_has_the_histogram_of_its_response_times() -> None:
    run = destage.simulate(destage.Workload.spc1(iops=600), policy="wow", nvs=4096, **SHORT)
    assert sum(bucket.reads for bucket in run.histogram) == run.response.reads.count > 0
    assert sum(bucket.writes for bucket in run.histogram) == run.response.writes.count > 0
    bounds = [bucket.below_ms for bucket in run.histogram]
    assert bounds == sorted(set(bounds)) and bounds[-1] > run.response.all.p999_ms
    assert isinstance(run.histogram[0], destage.TimeBucket)
    assert pickle.loads(pickle.dumps(run)).histogram == run.histogram


def test_results_travel() -> None:
    run = destage.simulate(**SHORT)
    assert pickle.loads(pickle.dumps(run)) == run
    comparison = destage.compare(policies=["lrw", "wow"], **SHORT)
    back = pickle.loads(pickle.dumps(comparison))
    assert back == comparison and back.to_json() == comparison.to_json()


def test_the_command_line_does_the_same(command_line: str, tmp_path: Path) -> None:
    flags = ["--iops", "700", "--policy", "stow", "--warmup", "2", "--measure", "10"]
    printed = subprocess.run(
        [command_line, "sim", *flags, "--format", "json"], check=True, capture_output=True
    )
    run = destage.simulate(iops=700, policy="stow", **SHORT)
    assert json.loads(printed.stdout) == json.loads(run.to_json())
    flags = ["--policies", "wow,stow", "--sweep", "nvs=2048,8192", "--warmup", "2"]
    printed = subprocess.run(
        [command_line, "compare", *flags, "--measure", "10", "--format", "csv"],
        check=True,
        capture_output=True,
    )
    comparison = destage.compare(policies=["wow", "stow"], sweep=("nvs", [2048, 8192]), **SHORT)
    assert comparison.native.render("csv") == printed.stdout.decode()
    path = tmp_path / "row.parquet"
    subprocess.run(
        [command_line, "sim", "--iops", "700", "--warmup", "2", "--measure", "10", "--out", path],
        check=True,
        capture_output=True,
    )
    assert destage.simulate(iops=700, **SHORT).native.parquet() == path.read_bytes()


def test_errors_are_a_tree_and_say_what_to_do(tmp_path: Path, trace: destage.Trace) -> None:
    with pytest.raises(destage.OptionError, match="known: wow"):
        destage.simulate(policy="wov")
    with pytest.raises(destage.OptionError, match="unknown option `nsv`"):
        destage.simulate(nsv=1)
    with pytest.raises(destage.OptionError, match="--level takes"):
        destage.simulate(level=7)
    with pytest.raises(destage.OptionError, match="load once"):
        destage.simulate(trace, trace="x")
    with pytest.raises(destage.InputError, match=r"missing\.csv"):
        destage.simulate(tmp_path / "missing.csv")
    with pytest.raises(destage.NoRequestsError):
        destage.simulate(destage.Workload.uniform(iops=0.001), warmup=0, measure=1)
    beyond = destage.Trace.from_arrays([0], [1 << 50], [4096], [1])
    with pytest.raises(destage.InputError, match="volume"):
        destage.simulate(beyond)
    large = destage.Trace.from_arrays([0], [0], [4096 * 100], [1])
    with pytest.raises(destage.RefusedError, match="larger than the NVS"):
        destage.simulate(large, nvs=64)
    for error in (destage.OptionError, destage.InputError, destage.RunError):
        assert issubclass(error, destage.DestageError)
    assert issubclass(destage.RefusedError, destage.RunError)
    assert issubclass(destage.OptionError, ValueError)


@pytest.mark.parametrize("policy", ["'stow'", "destage.examples.Wow"])
def test_ctrl_c_stops_a_run(policy: str) -> None:
    code = (
        "import destage, destage.examples, sys; print('go', flush=True)\n"
        "try: destage.simulate(iops=900, measure=1e8, policy=" + policy + ")\n"
        "except KeyboardInterrupt: sys.exit(7)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 7
        assert time.monotonic() - start < 5


def test_ctrl_c_stops_a_comparison() -> None:
    code = (
        "import destage, sys; print('go', flush=True)\n"
        "try: destage.compare(iops=900, measure=1e8, threads=3)\n"
        "except KeyboardInterrupt: sys.exit(7)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 7


def test_other_threads_run_during_a_run() -> None:
    seen, over = [], threading.Event()

    def run() -> None:
        destage.simulate(iops=800, measure=1000)
        over.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not over.wait(0.001):
        seen.append(time.monotonic())
    thread.join()
    gaps = np.diff(seen)
    # With the interpreter held there would be one gap as long as the run.
    assert len(seen) > 20 and gaps.max() < 0.5 * (seen[-1] - seen[0])


def test_comparisons_are_the_same_on_any_number_of_threads() -> None:
    sweep = ("iops", [400, 800])
    one = destage.compare(sweep=sweep, seeds=2, threads=1, **SHORT)
    assert one == destage.compare(sweep=sweep, seeds=2, threads=4, **SHORT)
    assert len(one.points) == 8 and len(one.points[0].runs) == 2
    assert one.axis is not None and one.axis.unit == "I/O/s"
    assert {at.variant for at in one.at_response} == {"lrw", "cscan", "wow", "stow"}
    assert one.findings


def test_progress_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    destage.simulate(iops=900, measure=400, progress=True)
    assert "requests" in capfd.readouterr().err
    destage.compare(policies=["lrw", "wow"], progress=True, **SHORT)
    assert "2/2" in capfd.readouterr().err


def test_tables_are_the_command_lines() -> None:
    assert {"lrw", "cscan", "wow", "stow"} <= {p.name for p in destage.policies()}
    assert any(p.name == "vdf-lru" for p in destage.read_policies())
    names = {d.name for d in destage.disks()}
    assert "stow-ref" in names and destage.disk_bytes("stow-ref") == 143_374_744 * 512
    assert destage.disk_bytes("hp-c2200a") == 1_309_896 * 256
    option = next(o for o in destage.options() if o.name == "nvs")
    assert option.unit == "pages" and option.default == "32768"
    assert destage.rates() and destage.levels() and destage.workloads()


def test_every_workload_helper_names_one_that_there_is() -> None:
    for load in (
        destage.Workload.spc1(300, style="v2"),
        destage.Workload.uniform(300),
        destage.Workload.zipf(300),
        destage.Workload.hotcold(300),
        destage.Workload.sequential(300),
        destage.Workload.random_write(),
        destage.Workload.named("mix:0.5*uniform+0.5*sequential,iops=300"),
    ):
        assert destage.simulate(load, warmup=0, measure=2).response.all.count > 0, load


def test_sizes_of_pages_do_not_depend_on_how_they_are_given() -> None:
    runs = [destage.simulate(nvs=nvs, **SHORT).digest for nvs in (8192, 8192.0, "8192", "32M")]
    assert len(set(runs)) == 1


def test_one_policy_and_a_sweep_as_a_mapping() -> None:
    one = destage.compare(policies="wow", sweep={"iops": [400, 500]}, **SHORT)
    assert one == destage.compare(policies=["wow"], sweep=("iops", [400, 500]), **SHORT)
    assert {point.variant for point in one.points} == {"wow"}


def test_what_is_not_a_list_is_refused_by_name() -> None:
    sweeps: list[tuple[Any, str]] = [
        ({"iops": [400], "nvs": [64]}, "one option with a list of values"),
        ("iops", "one option with a list of values, .* not 'iops'"),
        (["iops"], "one option with a list of values"),
        ({"iops": "400"}, r"iops takes a list of values, e.g. \['400'\], not '400'"),
        ({"iops": 400}, r"iops takes a list of values, e.g. \[400\], not 400"),
        ({"iops": []}, "there are no values for iops"),
    ]
    for sweep, why in sweeps:
        with pytest.raises(destage.OptionError, match=why):
            destage.compare(policies="wow", sweep=sweep, **SHORT)
    policies: list[tuple[Any, str]] = [
        ("wow,stow", r"policies takes a list: \['wow', 'stow'\], not 'wow,stow'"),
        ("wov", "known: wow"),
        (5, "a policy is a name or a subclass of DestagePolicy, not 5"),
        (["wow", None], "not None"),
        ([], "name one policy at least"),
    ]
    for given, why in policies:
        with pytest.raises(destage.OptionError, match=why):
            destage.compare(policies=given, **SHORT)
        with pytest.raises(destage.OptionError, match=why):
            destage.advise(policies=given, goal="p99<30ms")
    assert len(destage.compare(policies="wow:initial-bit=1,frequency=3", **SHORT).points) == 1
    grids: list[tuple[Any, str]] = [
        ("policy", "grid takes options with lists of values"),
        ({"policy": "wow"}, r"policy takes a list of values, e.g. \['wow'\]"),
        ({"nvs": 4096}, r"nvs takes a list of values, e.g. \[4096\]"),
    ]
    for grid, why in grids:
        with pytest.raises(destage.OptionError, match=why):
            destage.sweep(grid)


def test_an_array_is_simulated_as_it_will_be_served() -> None:
    run = destage.simulate(destage.Workload.uniform(iops=100), as_="served", **SHORT)
    assert (run.options["as"], run.options["protocol"]) == ("served", "safe")
    assert run.balance.state in ("settled", "rising", "falling", "overloaded")
    assert run.balance.dirty_pages_last > run.balance.dirty_pages_first
