"""What runs report. Units are in the names: ms, s, pages; shares are 0 to 1."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from destage import _native
from destage._display import cells_of_runs, html_table, page
from destage._extras import need

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")


def _make(kind: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass, from the values for which it has fields."""
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True)
class Latency:
    """A distribution of response times."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


@dataclass(frozen=True)
class Responses:
    """Response times by class of request."""

    all: Latency
    reads: Latency
    writes: Latency


@dataclass(frozen=True)
class TimeBucket:
    """Requests with response times below a bound, and not below that of the bucket before."""

    below_ms: float
    reads: int
    writes: int


@dataclass(frozen=True)
class HostWait:
    """Waits at the host, from a request's scheduled arrival to its submission to the array."""

    #: Requests that waited.
    requests: int
    #: Mean over all requests, those that did not wait included.
    mean_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Hits:
    """Hit ratios of the measured window, 0 to 1."""

    #: Written pages that were in NVS, of pages written.
    write_page: float
    #: Written pages that fell into a group that was in NVS before the request.
    write_group: float
    #: Write requests all of whose pages were in NVS.
    write_request: float
    #: Read requests all of whose pages were in NVS.
    read_request: float


@dataclass(frozen=True)
class Occupancy:
    """NVS occupancy as a share of its size, 0 to 1."""

    mean: float
    min: float
    max: float


@dataclass(frozen=True)
class Balance:
    """What came into the NVS in the measured window, and what left it."""

    #: ``settled``, ``rising`` or ``falling``: which way the number of dirty pages goes;
    #: ``overloaded`` if it goes neither way because the array does not serve all of the load.
    state: str
    #: Dirty pages at the beginning of the window, and at its end.
    dirty_pages_first: int
    dirty_pages_last: int
    dirtied_pages_per_s: float
    destaged_pages_per_s: float
    #: If it rises below the high threshold: seconds until it is there, at this rate.
    full_speed_in_s: float | None
    #: If it rises above it, at full speed: seconds until the NVS is full.
    full_in_s: float | None


@dataclass(frozen=True)
class Destage:
    """Destages of the measured window."""

    groups: int
    pages: int
    runs: int
    pages_per_destage: float
    runs_per_destage: float
    #: Share of destaged stripes that needed no reads.
    full_stripe_share: float
    #: Mean distance in pages between the starts of consecutive destages.
    mean_distance_pages: float
    #: Flushes of disks.
    flushes: int
    #: Pages that were not read because the stripe memory had them.
    recalled_pages: int
    #: Groups whose destage began in idle time.
    idle_groups: int
    #: Commands of host reads that found one of such a destage at their disk.
    idle_delayed_reads: int


@dataclass(frozen=True)
class DiskUse:
    """One disk: commands completed, and shares of time that add up to ``utilisation``."""

    reads: int
    writes: int
    utilisation: float
    seek: float
    rotation: float
    transfer: float
    overhead: float


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its 95 % confidence interval."""

    mean: float
    half_width: float
    seeds: int


class _Plotted:
    """Results with plots, each by name, as the HTML report draws them."""

    native: Any

    def plot_specs(self) -> dict[str, dict[str, Any]]:
        """What each plot draws, by name."""
        return dict(json.loads(self.native.plots()))

    def svg(self, name: str) -> str:
        """A plot as SVG text, as the HTML report has it."""
        drawn: str = self.native.svg(name)
        return drawn

    def plot(self, name: str = "response", ax: Any = None) -> Any:
        """Draws a plot with matplotlib, into ``ax`` if given; returns the axes."""
        from destage.plot import plot

        return plot(self, name, ax)


class _Rows:
    """Results with rows, as frames."""

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per run, with the columns of the command line's CSV and Parquet."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """An Arrow table with one row per run."""
        table: pa.Table = need("pyarrow").Table.from_pylist(self.rows())
        return table

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame with one row per run."""
        frame: pd.DataFrame = need("pandas").DataFrame(self.rows())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """A polars frame with one row per run."""
        frame: pl.DataFrame = need("polars").DataFrame(self.rows())
        return frame


_SERIES = ("occupancy", "occupancy_max", "iops", "response_ms", "destaged_pages_per_s")


@dataclass(frozen=True)
class Series:
    """Samples over a run, warm-up included, as NumPy arrays of equal length."""

    #: Seconds between samples.
    interval_s: float
    #: Occupancy at the end of each interval, 0 to 1.
    occupancy: npt.NDArray[np.float64]
    #: Largest occupancy in each interval.
    occupancy_max: npt.NDArray[np.float64]
    #: Requests completed per second.
    iops: npt.NDArray[np.float64]
    #: Mean response time of requests completed in the interval; 0 if there was none.
    response_ms: npt.NDArray[np.float64]
    #: Pages destaged per second.
    destaged_pages_per_s: npt.NDArray[np.float64]

    @property
    def time_s(self) -> npt.NDArray[np.float64]:
        """End of each interval, in seconds from the start of the run."""
        return self.interval_s * np.arange(1, len(self.iops) + 1, dtype=np.float64)

    def columns(self) -> dict[str, npt.NDArray[np.float64]]:
        """Time and samples by name."""
        return {"time_s": self.time_s, **{name: getattr(self, name) for name in _SERIES}}

    def to_arrow(self) -> pa.Table:
        """An Arrow table that shares the arrays' memory."""
        pa = need("pyarrow")
        return pa.table({name: pa.array(values) for name, values in self.columns().items()})

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame."""
        frame: pd.DataFrame = need("pandas").DataFrame(self.columns())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """A polars frame."""
        frame: pl.DataFrame = need("polars").DataFrame(self.columns())
        return frame


@dataclass(frozen=True)
class RunResult(_Plotted, _Rows):
    """One run."""

    #: Short name: the policy.
    label: str
    #: Every option that shaped the run, defaults filled in, as on the command line.
    options: dict[str, str]
    seed: int
    #: Virtual seconds before measuring began.
    warmup_s: float
    #: Virtual seconds measured.
    measured_s: float
    #: What the load aimed at, in requests per second; ``None`` for closed loops and traces.
    target_iops: float | None
    #: Requests completed per second.
    iops: float
    #: From each request's submission to the array.
    response: Responses
    #: How many requests had which response time, from the shortest on; four buckets per doubling.
    histogram: list[TimeBucket]
    #: Before that.
    host_wait: HostWait
    hits: Hits
    #: Writes that waited for space.
    stalled_writes: int
    #: Their share of writes, 0 to 1; ``None`` without writes.
    stalled_share: float | None
    #: Share of time in which a write was waiting for space, 0 to 1.
    time_full: float
    occupancy: Occupancy
    #: Whether what was written was destaged.
    balance: Balance
    destage: Destage
    disks: list[DiskUse]
    #: Warnings: read them before you trust the run.
    warnings: list[str]
    #: Digest of all that happened: same inputs, same digest.
    digest: str
    #: Events the engine handled.
    events: int
    native: _native.Run = field(repr=False, compare=False)

    @classmethod
    def of(cls, native: _native.Run) -> RunResult:
        """From the native run."""
        values = json.loads(native.json(False))
        response = values["response"]
        values["response"] = Responses(**{k: Latency(**v) for k, v in response.items()})
        values["histogram"] = [TimeBucket(**bucket) for bucket in values.get("histogram", [])]
        values["host_wait"] = HostWait(**values["host_wait"])
        values["hits"] = Hits(**values["hits"])
        values["occupancy"] = Occupancy(**values["occupancy"])
        values["balance"] = Balance(
            **{"full_speed_in_s": None, "full_in_s": None, **values["balance"]}
        )
        values["destage"] = Destage(**values["destage"])
        values["disks"] = [DiskUse(**disk) for disk in values["disks"]]
        return _make(cls, {**values, "native": native})

    @property
    def series(self) -> Series:
        """Samples over the run."""
        interval_s = json.loads(self.native.json(False))["series"]["interval_s"]
        return Series(interval_s, **{name: self.native.series(name) for name in _SERIES})

    def rows(self) -> list[dict[str, Any]]:
        return [dict(json.loads(self.native.row()))]

    def to_json(self) -> str:
        """The whole report, as ``destage sim --format json``."""
        return self.native.json()

    def __repr__(self) -> str:
        return self.native.render("table").rstrip()

    def _repr_html_(self) -> str:
        title = f"{self.label}: {self.iops:.1f} I/O/s, mean {self.response.all.mean_ms:.2f} ms"
        table = html_table(cells_of_runs(self.rows()))
        return page(title, table, self.warnings, [self.svg("occupancy")])

    def __reduce__(self) -> tuple[Any, ...]:
        return _run_from_json, (self.native.json(),)


def _run_from_json(text: str) -> RunResult:
    return RunResult.of(_native.Run.from_json(text))


@dataclass(frozen=True)
class Point:
    """One policy at one value of the swept option, over all its seeds."""

    #: Policy.
    variant: str
    #: Value of the swept option; empty without a sweep.
    value: str
    iops: Estimate
    #: Mean response time in ms.
    response_ms: Estimate
    #: One run per seed.
    runs: list[RunResult]


@dataclass(frozen=True)
class Axis:
    """The swept option."""

    name: str
    unit: str
    values: list[str]


@dataclass(frozen=True)
class AtResponse:
    """Throughput where the mean response time crosses a level; ``None`` if it never does."""

    variant: str
    response_ms: float
    #: Interpolated; ``None`` also where the points on both sides are more than a tenth apart.
    iops: float | None
    #: The targets of these points.
    between_iops: list[float] | None = None
    #: The most of the sweep, if it stays below the level to its end.
    at_least_iops: float | None = None
    #: The least of the sweep, if it is above the level at every point.
    below_iops: float | None = None


@dataclass(frozen=True)
class Comparison(_Plotted, _Rows):
    """Several policies on identical input."""

    title: str
    #: Options common to all runs.
    options: dict[str, str]
    axis: Axis | None
    points: list[Point]
    at_response: list[AtResponse]
    #: What the figures mean, in sentences, and warnings.
    findings: list[str]
    native: _native.Compared = field(repr=False, compare=False)

    @classmethod
    def of(cls, native: _native.Compared) -> Comparison:
        """From the native comparison."""
        values = json.loads(native.json())
        axis = values["axis"]
        values["axis"] = Axis(**axis) if axis else None
        values["at_response"] = [AtResponse(**at) for at in values["at_response"]]
        values["points"] = [
            Point(
                point["variant"],
                point["value"],
                Estimate(**point["iops"]),
                Estimate(**point["response_ms"]),
                [RunResult.of(run) for run in runs],
            )
            for point, runs in zip(values["points"], native.runs(), strict=True)
        ]
        return _make(cls, {**values, "native": native})

    def rows(self) -> list[dict[str, Any]]:
        axis = self.axis or Axis("", "", [])
        column = f"option_{axis.name.replace('-', '_')}"
        rows = []
        for point in self.points:
            place = {"axis": axis.name, "axis_unit": axis.unit, "axis_value": point.value}
            option = {column: point.value} if self.axis else {}
            for run in point.runs:
                rows.append({"variant": point.variant, **place, **run.rows()[0], **option})
        return rows

    def to_json(self) -> str:
        """The whole report, as ``destage compare --format json``."""
        return self.native.full_json()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the one-file HTML report, which works offline."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.native.html())

    def __repr__(self) -> str:
        return self.native.render("table").rstrip()

    def _repr_html_(self) -> str:
        plots = [self.svg(name) for name in list(self.plot_specs())[:2]]
        rows = self.rows()
        return page(self.title, html_table(cells_of_runs(rows), len(rows)), self.findings, plots)

    def __reduce__(self) -> tuple[Any, ...]:
        return _compared_from_json, (self.native.full_json(),)


def _compared_from_json(text: str) -> Comparison:
    return Comparison.of(_native.Compared.from_json(text))
