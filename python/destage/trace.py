"""Traces in memory: one NumPy structured array, 32 bytes per request, shared with the simulator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from destage import _native
from destage._display import html_table, page, text_table
from destage._extras import need
from destage._options import OptionValue, given
from destage.errors import InputError, OptionError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

#: A request of a trace, as the ``.dtrc`` format has it: time in ns from the first request, offset
#: and length in bytes, device number, and 0 for a read, 1 for a write, 2 for not recorded.
TRACE_DTYPE = np.dtype(
    [
        ("time_ns", "<u8"),
        ("offset_bytes", "<u8"),
        ("length_bytes", "<u8"),
        ("device", "<u4"),
        ("op", "u1"),
        ("flags", "u1"),
        ("reserved", "<u2"),
    ]
)

_COLUMNS = ("time_ns", "offset_bytes", "length_bytes", "device", "op")

READ, WRITE, UNKNOWN = 0, 1, 2

#: Requests that a trace shows of itself.
REQUESTS_SHOWN = 10

Numbers: TypeAlias = "npt.ArrayLike"


@dataclass(frozen=True)
class TraceInfo:
    """Counts of a trace; shares are 0 to 1."""

    requests: int
    write_share: float
    #: Written 4 KiB blocks that were written before, of all block writes.
    overwrite_share: float
    #: Requests that begin where the previous one ended.
    sequential_share: float


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order of time. Made by :func:`read_trace` or :meth:`from_arrays`."""

    #: The requests, of :data:`TRACE_DTYPE`. Not writable: runs share it.
    records: npt.NDArray[np.void]
    #: Its name in messages and reports.
    name: str = "trace"
    _held: list[_native.TraceData] = field(default_factory=list, repr=False)

    @classmethod
    def from_arrays(
        cls,
        time_ns: Numbers,
        offset_bytes: Numbers,
        length_bytes: Numbers,
        op: Numbers,
        device: Numbers = 0,
        name: str = "arrays",
    ) -> Trace:
        """A trace from columns of equal length.

        ``time_ns`` must not fall; ``op`` is 0 for a read, 1 for a write, 2 for not recorded.
        It may also be the text ``"R"`` or ``"W"``, or a boolean that is true for a write.
        """
        times = _whole("time_ns", time_ns)
        records = np.zeros(len(times), TRACE_DTYPE)
        operations = np.asarray(op)
        if operations.dtype.kind in "UO":
            operations = np.where(np.char.upper(operations.astype("U")) == "W", WRITE, READ)
        columns = zip(_COLUMNS, (times, offset_bytes, length_bytes, device, operations))
        for column, numbers in columns:
            values = _whole(column, numbers)
            if values.ndim and len(values) != len(times):
                raise InputError(f"{column} has {len(values)} values, time_ns has {len(times)}")
            records[column] = values
        if len(records) == 0:
            raise InputError("a trace has one request at least")
        if np.any(np.diff(times.astype(np.int64)) < 0):
            raise InputError("time_ns falls: sort the requests by time")
        records["time_ns"] -= records["time_ns"][0]
        if np.any(records["op"] > UNKNOWN):
            raise InputError("op takes 0 for a read, 1 for a write, 2 for not recorded")
        records.flags.writeable = False
        return cls(records, name)

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame | pl.DataFrame | pa.Table, name: str = "frame"
    ) -> Trace:
        """A trace from a pandas or polars frame or an Arrow table.

        The frame has columns ``time_ns``, ``offset_bytes``, ``length_bytes``, ``op`` and
        optionally ``device``.
        """
        names = getattr(frame, "column_names", None)
        present = set(names if names is not None else frame.columns)
        missing = [c for c in _COLUMNS if c not in present and c != "device"]
        if missing:
            raise InputError(f"the frame has no column {', '.join(missing)}")
        columns: dict[str, Any] = {c: np.asarray(frame[c]) for c in _COLUMNS if c in present}
        return cls.from_arrays(**columns, name=name)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, which: slice | npt.NDArray[np.bool_]) -> Trace:
        """Requests by place, ``trace[1000:2000]``, or by a condition, ``trace[trace.op == 1]``.

        Times then count from the first of them.
        """
        if isinstance(which, slice):
            if which.step is not None and which.step < 1:
                raise InputError("a slice of a trace keeps its order: its step is 1 at least")
        elif not isinstance(which, np.ndarray) or which.dtype != np.bool_:
            raise InputError(
                f"a trace takes a slice as trace[10:20], or a condition as trace[trace.op == 1], "
                f"not {which!r}"
            )
        elif which.shape != self.records.shape:
            raise InputError(f"the condition has {which.size} values, the trace {len(self)}")
        return self._of(self.records[which].copy())

    def select(
        self,
        *,
        start: float | str | None = None,
        until: float | str | None = None,
        device: int | Iterable[int] | None = None,
        addresses: tuple[int, int] | str | None = None,
        sample: float | str | None = None,
    ) -> Trace:
        """A part by time, devices and addresses, or a sample: as the command line selects it.

        ``start`` and ``until`` are seconds from the first request, or text as ``"1.5h"``.
        ``device`` is a number or several. ``addresses`` are the first byte and the one past the
        last, or text as ``"0..10G"``; requests are cut there. ``sample`` is a share of the blocks
        of 1 MiB, or text as ``"1/10:seed=7"``.
        """
        options: dict[str, OptionValue] = {}
        for name, value in (("from", start), ("until", until), ("sample", sample)):
            if value is not None:
                options[f"trace-{name}"] = f"{value:.9f}" if isinstance(value, float) else value
        if device is not None:
            devices = [device] if isinstance(device, (int, np.integer)) else list(device)
            options["trace-device"] = "+".join(str(int(number)) for number in devices)
        if addresses is not None:
            text = addresses if isinstance(addresses, str) else f"{addresses[0]}..{addresses[1]}"
            options["trace-range"] = text
        return self._of(self.native().select(given(options)).view(TRACE_DTYPE))

    def _of(self, records: npt.NDArray[np.void]) -> Trace:
        """A trace of some of the requests."""
        if len(records) == 0:
            raise InputError(f"{self.name}: no request is selected of {len(self)}")
        records["time_ns"] -= records["time_ns"][0]
        records.flags.writeable = False
        return Trace(records, self.name)

    def __repr__(self) -> str:
        """The first requests, as a table."""
        return f"{self._said()}\n{text_table(self._cells())}"

    def _repr_html_(self) -> str:
        return page(self._said(), html_table(self._cells(), len(self)), [], [])

    def _said(self) -> str:
        writes = float(np.mean(self.op == WRITE))
        return (
            f"{self.name}: {len(self):,} requests in {self.duration_s:,.3f} s, "
            f"{writes:.1%} of them writes"
        )

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        head = ["time s", "device", "op", "offset", "length"]
        shown = self.records[:REQUESTS_SHOWN].tolist()
        lines = [
            [f"{time / 1e9:.6f}", str(device), ("read", "write", "?")[op], str(offset), str(length)]
            for time, offset, length, device, op, *_ in shown
        ]
        return head, lines

    @property
    def time_ns(self) -> npt.NDArray[np.uint64]:
        """Times in ns from the first request: a view, as the other columns."""
        return self.records["time_ns"]

    @property
    def offset_bytes(self) -> npt.NDArray[np.uint64]:
        """First byte on the device."""
        return self.records["offset_bytes"]

    @property
    def length_bytes(self) -> npt.NDArray[np.uint64]:
        """Length in bytes."""
        return self.records["length_bytes"]

    @property
    def device(self) -> npt.NDArray[np.uint32]:
        """Device number."""
        return self.records["device"]

    @property
    def op(self) -> npt.NDArray[np.uint8]:
        """0 a read, 1 a write, 2 not recorded."""
        return self.records["op"]

    @property
    def duration_s(self) -> float:
        """Seconds from the first request to the last."""
        return float(self.time_ns[-1]) / 1e9

    def info(self) -> TraceInfo:
        """Counts in one pass."""
        return TraceInfo(**json.loads(self.native().info()))

    def to_arrow(self) -> pa.Table:
        """An Arrow table of the columns; each is copied once, out of the records."""
        pa = need("pyarrow")
        return pa.table({c: np.ascontiguousarray(self.records[c]) for c in _COLUMNS})

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame of the columns."""
        frame: pd.DataFrame = need("pandas").DataFrame({c: self.records[c] for c in _COLUMNS})
        return frame

    def to_polars(self) -> pl.DataFrame:
        """A polars frame of the columns."""
        columns = {c: np.ascontiguousarray(self.records[c]) for c in _COLUMNS}
        frame: pl.DataFrame = need("polars").DataFrame(columns)
        return frame

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a ``.dtrc`` file, which the command line reads too."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            self.native().file_bytes().tofile(partial)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)

    def native(self) -> _native.TraceData:
        """As the simulator takes it; made once."""
        if not self._held:
            records = self.records.view(np.uint8).reshape(-1)
            self._held.append(_native.TraceData.from_records(records, self.name))
        return self._held[0]

    def __getstate__(self) -> tuple[bytes, str]:
        return self.records.tobytes(), self.name

    def __setstate__(self, state: tuple[bytes, str]) -> None:
        object.__setattr__(self, "records", np.frombuffer(state[0], TRACE_DTYPE))
        object.__setattr__(self, "name", state[1])
        object.__setattr__(self, "_held", [])


def _whole(column: str, values: Numbers) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise InputError(f"{column} takes whole numbers, not {array.dtype}")
    if array.size and array.min() < 0:
        raise InputError(f"{column} takes numbers from 0 upwards")
    return array


def read_trace(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: str | None = None,
    order: str = "auto",
    skip_bad: bool = False,
) -> Trace:
    """Reads a trace of any format the command line knows, plain, gzip, zstd or xz.

    ``format`` is detected from the contents unless given; :func:`destage.formats` lists them.
    ``columns`` describes those of any text, Parquet or Arrow file, as ``--trace-columns`` does:
    ``"time=ts:us, op=kind:read=R:write=W, offset=lba:sectors, size=len"``. ``order`` says what to
    do with times out of order (auto, lift, skip, sort); ``skip_bad`` leaves malformed lines out.
    """
    if format is not None and columns is not None:
        raise OptionError("columns describes the trace, and so does format: leave out one of them")
    records = _native.TraceData.read(os.fspath(path), format, order, skip_bad, columns)
    view = records.view(TRACE_DTYPE)
    view.flags.writeable = False
    return Trace(view, Path(path).name)
