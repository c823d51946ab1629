"""Traces in memory: the same as files, whatever they are made of."""

import pickle
from pathlib import Path

import destage
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


def test_a_trace_in_memory_replays_as_its_file(trace: destage.Trace, tmp_path: Path) -> None:
    path = tmp_path / "small.dtrc"
    trace.save(path)
    in_memory = destage.simulate(trace, nvs=1024)
    assert in_memory.response.all.count == len(trace) == 5000
    assert in_memory.digest == destage.simulate(path, nvs=1024).digest
    back = destage.read_trace(path)
    assert np.array_equal(back.records, trace.records)
    assert destage.simulate(back, nvs=1024).digest == in_memory.digest
    assert not list(tmp_path.glob(".*"))
    closed = destage.simulate(trace, nvs=1024, trace_mode="closed:4")
    assert closed.digest != in_memory.digest and closed.options["trace"] == "small"


def test_frames_make_traces(trace: destage.Trace) -> None:
    for frame in (trace.to_pandas(), trace.to_polars(), trace.to_arrow()):
        made = destage.Trace.from_frame(frame)
        assert np.array_equal(made.records, trace.records)
    text = pd.DataFrame(
        {"time_ns": [0, 5], "offset_bytes": [0, 4096], "length_bytes": [512, 512], "op": ["w", "R"]}
    )
    assert destage.Trace.from_frame(text).op.tolist() == [1, 0]
    with pytest.raises(destage.InputError, match="no column offset_bytes"):
        destage.Trace.from_frame(pl.DataFrame({"time_ns": [0], "length_bytes": [1], "op": [1]}))
    assert isinstance(trace.to_arrow(), pa.Table)


def test_bad_arrays_are_refused() -> None:
    make = destage.Trace.from_arrays
    for times, offsets, ops, why in (
        ([], [], [], "one request"),
        ([2, 1], [0, 0], [1, 1], "time_ns falls"),
        ([0], [-1], [1], "from 0 upwards"),
        ([0], [0.5], [1], "whole numbers"),
        ([0], [0], [3], "op takes"),
        ([0, 1], [0, 1, 2], [1, 1], "has 3 values"),
    ):
        with pytest.raises(destage.InputError, match=why):
            whole = np.int64 if all(isinstance(o, int) for o in offsets) else np.float64
            make(np.array(times, np.int64), np.array(offsets, whole), 512, np.array(ops, np.int64))


def test_a_trace_cannot_change_under_a_run(trace: destage.Trace) -> None:
    with pytest.raises(ValueError, match="read-only"):
        trace.records["op"][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(trace)).records["op"][0] = 1
    assert destage.simulate(pickle.loads(pickle.dumps(trace))).digest == (
        destage.simulate(trace).digest
    )


def test_counts(trace: destage.Trace) -> None:
    info = trace.info()
    assert info.requests == 5000 and 0.55 < info.write_share < 0.65
    assert trace.duration_s == trace.time_ns[-1] / 1e9


def test_a_real_trace(real_traces: Path) -> None:
    path = real_traces / "cloudPhysicsIO.vscsi.gz"
    trace = destage.read_trace(path)
    assert len(trace) == 113_872
    assert destage.simulate(trace, nvs=4096).digest == destage.simulate(path, nvs=4096).digest
    with pytest.raises(destage.InputError, match="ticks,host"):
        destage.read_trace(path, format="msr")
