"""Traces in memory: the same as files, whatever they are made of."""

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import destage
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather


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


def same(one: destage.Trace, other: destage.Trace) -> bool:
    return one.records.tobytes() == other.records.tobytes()


def test_slices_and_conditions(trace: destage.Trace) -> None:
    part = trace[100:300:2]
    assert len(part) == 100 and part.time_ns[0] == 0
    assert np.array_equal(part.offset_bytes, trace.offset_bytes[100:300:2])
    assert np.array_equal(part.time_ns, trace.time_ns[100:300:2] - trace.time_ns[100])
    writes = trace[trace.op == 1]
    assert np.all(writes.op == 1) and len(writes) == np.count_nonzero(trace.op)
    assert destage.simulate(part, nvs=1024).response.all.count > 0
    wrong: list[tuple[Any, str]] = [
        (5, "takes a slice"),
        (slice(None, None, -1), "keeps its order"),
        (slice(9, 9), "no request is selected of 5000"),
        (np.zeros(3, bool), "the condition has 3 values, the trace 5000"),
        (np.zeros(5000, bool), "no request is selected"),
    ]
    for which, why in wrong:
        with pytest.raises(destage.InputError, match=why):
            trace[which]


def test_a_part_is_selected_as_by_the_command_line(
    trace: destage.Trace, command_line: str, tmp_path: Path
) -> None:
    whole = tmp_path / "all.dtrc"
    trace.save(whole)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"start": 1.5, "until": "4s"}, ["--trace-from", "1.5", "--trace-until", "4s"]),
        ({"addresses": (4096, 8 << 20)}, ["--trace-range", "4096..8M"]),
        ({"sample": "1/4:seed=3"}, ["--trace-sample", "1/4:seed=3"]),
        ({"device": [0], "until": 2}, ["--device", "0", "--trace-until", "2"]),
    ]
    for keywords, flags in cases:
        out = tmp_path / "part.dtrc"
        command = [command_line, "trace", "convert", str(whole), str(out), "--force", *flags]
        subprocess.run(command, check=True, capture_output=True)
        part = trace.select(**keywords)
        assert 0 < len(part) < len(trace) or "device" in keywords
        assert same(part, destage.read_trace(out))
    before = trace.select(until=2.0)
    assert np.array_equal(before.time_ns, trace.time_ns[trace.time_ns < 2_000_000_000])
    with pytest.raises(destage.OptionError, match="is not before"):
        trace.select(start=2, until=1)
    with pytest.raises(destage.InputError, match="no request is for device 7"):
        trace.select(device=7)


def test_formats_are_those_of_the_command_line(command_line: str) -> None:
    listed = subprocess.run(
        [command_line, "trace", "formats", "--format", "json"], check=True, capture_output=True
    )
    names = [entry.name for entry in destage.formats()]
    assert names == [row["name"] for row in json.loads(listed.stdout)]
    assert {"csv", "parquet", "arrow", "tectonic", "cachelib-kv"} <= set(names)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
def test_files_that_pyarrow_wrote_are_read(
    trace: destage.Trace, compression: str, tmp_path: Path
) -> None:
    microseconds = (trace.time_ns // 1000).astype(np.int64)
    table = pa.table(
        {
            "when": pa.array(microseconds + 1_600_000_000_000_000, pa.timestamp("us")),
            "kind": pa.array(np.where(trace.op == 1, "PUT", "GET")).dictionary_encode(),
            "lba": pa.array(trace.offset_bytes // 512, pa.uint32()),
            "bytes": pa.array(trace.length_bytes.astype(np.float64)),
            "note": pa.array(["x"] * len(trace)),
        }
    )
    parquet, arrow = tmp_path / "a.parquet", tmp_path / "a.feather"
    pq.write_table(table, parquet, compression=compression, row_group_size=700)
    columns = "time=when, op=kind:read=GET:write=PUT, offset=lba:sectors, size=bytes"
    expected = destage.Trace.from_arrays(
        trace.time_ns // 1000 * 1000, trace.offset_bytes, trace.length_bytes, trace.op
    )
    files = [parquet]
    if compression in ("none", "zstd", "lz4"):
        how = None if compression == "none" else compression
        feather.write_feather(table, arrow, compression=how or "uncompressed", chunksize=900)
        files.append(arrow)
    for file in files:
        assert same(destage.read_trace(file, columns=columns), expected)


def test_what_is_converted_pyarrow_reads(
    trace: destage.Trace, command_line: str, tmp_path: Path
) -> None:
    trace.save(tmp_path / "a.dtrc")
    for name, read in (("a.parquet", pq.read_table), ("a.arrow", feather.read_table)):
        command = [command_line, "trace", "convert", str(tmp_path / "a.dtrc"), str(tmp_path / name)]
        subprocess.run(command, check=True, capture_output=True)
        table = read(tmp_path / name)
        names = ["time_ns", "device", "offset_bytes", "length_bytes", "op"]
        assert table.column_names == names
        for column in names[:-1]:
            assert np.array_equal(table[column].to_numpy(), getattr(trace, column)), column
        assert table["op"].to_pylist() == ["RW?"[op] for op in trace.op]
        assert same(destage.read_trace(tmp_path / name), trace)


def test_columns_and_objects_as_plain_python_has_them(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    header = "block_id io_offset io_size op_time op_name pipeline user_namespace user_name"
    rows = [
        (int(block) * 977, int(offset) * 4096, 8192, 7 + n / 8, 1 + n % 6)
        for n, (block, offset) in enumerate(draw.integers((1, 0), (40, 900), (2000, 2)))
    ]
    lines = [f"{block} {offset} {size} {time} {op} 0 1 2" for block, offset, size, time, op in rows]
    path = tmp_path / "a.trace"
    path.write_text("\n".join([header, *lines]))
    places: dict[int, int] = {}
    for block, *_ in rows:
        places.setdefault(block, len(places))
    trace = destage.read_trace(path)
    assert trace.offset_bytes.tolist() == [
        places[block] * (8 << 20) + offset for block, offset, *_ in rows
    ]
    assert trace.time_ns.tolist() == [int((time - 7) * 1e9) for *_, time, _ in rows]
    assert trace.op.tolist() == [0 if op in (1, 2, 5) else 1 for *_, op in rows]
    positions = "object=1:8M, offset=2, size=3, time=4:s, op=5:read=1|2|5:write=3|4|6, sep=space"
    assert same(trace, destage.read_trace(path, columns=positions))
    with pytest.raises(destage.OptionError, match="columns: time: the unit is s, ms"):
        destage.read_trace(path, columns="time=4:sec")
    with pytest.raises(destage.OptionError, match="leave out one of them"):
        destage.read_trace(path, columns=positions, format="tectonic")
    with pytest.raises(destage.InputError, match="line 1: no column is named ts; there are: block"):
        destage.read_trace(path, columns="time=ts:s,offset=2,size=3")


def test_a_trace_shows_its_first_requests(trace: destage.Trace) -> None:
    text = repr(trace)
    first, head, *rows = text.splitlines()
    assert first.startswith("small: 5,000 requests in ") and "of them writes" in first
    assert head.split() == ["time", "s", "device", "op", "offset", "length"] and len(rows) == 10
    assert trace._repr_html_().count("<tr>") == 11


def test_a_real_trace(real_traces: Path) -> None:
    path = real_traces / "cloudPhysicsIO.vscsi.gz"
    trace = destage.read_trace(path)
    assert len(trace) == 113_872
    assert destage.simulate(trace, nvs=4096).digest == destage.simulate(path, nvs=4096).digest
    with pytest.raises(destage.InputError, match="ticks,host"):
        destage.read_trace(path, format="msr")
