"""How much NVS, which policy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from destage import _native, _progress
from destage._display import html_table, page, svg_of, text_table
from destage._options import OptionValue, given, threads_of
from destage.errors import OptionError
from destage.policy import policies_of
from destage.results import _Plotted, _Rows
from destage.runs import load_of
from destage.trace import Trace
from destage.workload import Workload


@dataclass(frozen=True)
class AdvisedRun:
    """One full simulation, judged by the goal."""

    #: NVS in pages of 4 KiB.
    nvs_pages: int
    policy: str
    #: High/low in % of the NVS.
    thresholds: str
    seed: int
    #: Load, as a multiple of the given load.
    load: float
    #: What was measured, as a multiple of the given window.
    length: int
    #: What the load aimed at, in requests per second.
    target_iops: float | None
    #: The figure of the goal that is farthest from it, e.g. ``p99``.
    figure: str
    #: Its value, in ms or per cent as the goal has it.
    value: float | None
    #: The value over its limit: below 1 the goal is reached.
    ratio: float | None
    reached: bool
    why: str
    #: Reads and writes in the measured window.
    reads: int
    writes: int
    #: What keeps the run from better figures: ``disk time``, ``access time``, ``NVS`` or ``rate``.
    limit: str
    #: The figures by which that was judged, as a sentence.
    because: str
    #: Writes that waited for space, as a share of writes.
    stalled_share: float
    #: Share of time in which a write waited for space.
    full_share: float
    #: Share of time that the busiest disk was busy.
    disk_busy: float
    digest: str


@dataclass(frozen=True)
class CurvePoint:
    """A sampled replay of the writes, without time."""

    nvs_pages: int
    policy: str
    #: Share of the write groups that were replayed, 0 to 1.
    sampled_share: float
    #: Pages destaged for each page written, and its standard error.
    destaged_per_page: float
    error: float
    #: Disk operations for each page written.
    disk_ops_per_page: float
    #: Pages destaged for each page written when every group is replayed, with ``check_curve``.
    unsampled_per_page: float | None


@dataclass(frozen=True)
class Needs:
    """What a served array needs to hold as many dirty pages."""

    #: Bytes of an NVS device with sectors of 512 bytes.
    device_bytes_512: int
    #: Bytes of one with sectors of 4,096 bytes.
    device_bytes_4096: int
    #: Bytes of memory, where the dirty pages are too.
    memory_bytes: int


@dataclass(frozen=True)
class Prices:
    """What a GiB costs."""

    nvs_per_gib: float
    memory_per_gib: float


@dataclass(frozen=True)
class SizeResult:
    """The variant that comes nearest to the goal at a size."""

    #: The run that decides: the worst of the long ones where there are any.
    run: AdvisedRun
    #: What the size takes of a served array.
    needs: Needs
    #: What that costs, with ``prices``.
    cost: float | None


@dataclass(frozen=True)
class Advice(_Plotted, _Rows):
    """The result of a search."""

    goal: str
    #: Headroom: the answer also holds at this multiple of the load.
    load_factor: float
    #: Why the size below misses the goal, or the largest one tried if none reaches it.
    missed: str | None
    options: dict[str, str]
    #: Sizes that were considered.
    sizes_pages: list[int]
    #: The cheapest that reaches the goal, with its worst seed; ``None`` if no size does.
    answer: AdvisedRun | None
    #: What the answer takes of a served array.
    needs: Needs | None
    #: How far inside the goal it is, as a share of the limit.
    margin: float | None
    #: The greatest multiple of the load at which the answer still held.
    holds_to_load: float | None
    #: The best run one size below, which misses the goal, or of the largest size tried if none
    #: reaches it.
    below: AdvisedRun | None
    #: Prices that were given.
    prices: Prices | None
    #: The best variant of each size that was simulated.
    by_size: list[SizeResult]
    curve: list[CurvePoint]
    #: Every full simulation.
    runs: list[AdvisedRun]
    #: Simulations that the complete grid would have taken.
    grid_runs: int
    #: Warnings of the trace, of the disks, and of figures that rest on too few requests: read them
    #: before you trust the answer.
    warnings: list[str]
    #: How sure the answer is, in sentences.
    sure: list[str]
    plotted: dict[str, Any] = field(repr=False)
    text: str = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, plotted: str) -> Advice:
        """From JSON."""
        values = json.loads(text)
        for name in ("answer", "below"):
            values[name] = AdvisedRun(**values[name]) if values[name] else None
        values["needs"] = Needs(**values["needs"]) if values["needs"] else None
        values["curve"] = [CurvePoint(**point) for point in values["curve"]]
        values["runs"] = [AdvisedRun(**run) for run in values["runs"]]
        values["prices"] = Prices(**values["prices"]) if values["prices"] else None
        values["by_size"] = [
            SizeResult(AdvisedRun(**size["run"]), Needs(**size["needs"]), size["cost"])
            for size in values["by_size"]
        ]
        values.setdefault("warnings", [])
        names = {f.name for f in fields(cls)}
        values = {name: value for name, value in values.items() if name in names}
        return cls(**values, plotted=json.loads(plotted), text=text)

    @property
    def cost(self) -> float | None:
        """What the answer costs, with ``prices``."""
        answer = self.answer
        sizes = [size for size in self.by_size if answer and size.run.nvs_pages == answer.nvs_pages]
        return sizes[0].cost if sizes else None

    def to_json(self) -> str:
        """All of it, as ``destage advise --format json``."""
        return self.text

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the one-file HTML page of ``destage advise --out``, which works offline."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(_native.advice_html(self.text))

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per simulation."""
        return [vars(run) for run in self.runs]

    def plot_specs(self) -> dict[str, dict[str, Any]]:
        return {"advice": self.plotted}

    def plot(self, name: str = "advice", ax: Any = None) -> Any:
        return super().plot(name, ax)

    def svg(self, name: str = "advice") -> str:
        return svg_of(self.plot_specs()[name])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        def row(name: str, run: AdvisedRun | None) -> list[str]:
            if run is None:
                return [name, "none", "", "", ""]
            value = run.why or f"{run.figure} {run.value:.2f}"
            return [name, str(run.nvs_pages), run.policy, run.thresholds, value]

        head = ["", "NVS pages", "policy", "thresholds", "figure"]
        below = "one size below" if self.answer else "largest size tried"
        return head, [row("answer", self.answer), row(below, self.below)]

    def _notes(self) -> list[str]:
        cost = [] if self.cost is None else [f"the answer costs {self.cost:.2f}"]
        return [*cost, *(f"warning: {warning}" for warning in self.warnings), *self.sure]

    def __repr__(self) -> str:
        return "\n".join([f"Goal {self.goal}", text_table(self._cells()), *self._notes()])

    def _repr_html_(self) -> str:
        return page(f"Goal {self.goal}", html_table(self._cells()), self._notes(), [self.svg()])


def _names(policies: str | Sequence[str]) -> list[str]:
    """The policies of a search, all of the table."""
    names = [policy for policy in policies_of(policies) if isinstance(policy, str)]
    if len(names) < len(policies_of(policies)):
        raise OptionError("advise takes the names of policies, none in Python")
    return names


def _prices(prices: Mapping[str, float] | None) -> str | None:
    """Prices as the command line has them."""
    if prices is None:
        return None
    if not isinstance(prices, Mapping):
        raise OptionError(
            f"prices takes a mapping, e.g. {{'nvs': 12, 'memory': 4}}, not {prices!r}"
        )
    return ",".join(f"{name}={price}" for name, price in prices.items())


def advise(
    load: Workload | Trace | str | os.PathLike[str] | None = None,
    *,
    goal: str,
    policies: str | Sequence[str] = ("lrw", "cscan", "wow", "stow", "ebb"),
    thresholds: str | Sequence[str] | None = None,
    sizes: tuple[int, int] = (256, 1_048_576),
    seeds: int = 3,
    threads: int | None = None,
    check_curve: bool = False,
    sample_groups: int = 2048,
    load_factor: float = 1.0,
    prices: Mapping[str, float] | None = None,
    progress: bool = False,
    **options: OptionValue,
) -> Advice:
    """The cheapest NVS, policy and thresholds that reach a goal: ``destage advise``.

    ``goal`` is ``"p99<30ms"`` or several of these joined by commas: ``[reads.|writes.]mean``,
    ``p50``, ``p95``, ``p99``, ``p99.9`` or ``max`` in us, ms or s, or ``full`` in %. Without
    ``thresholds`` 90/80, 70/40 and 50/20 are considered, or those of ``rate``. ``sizes`` are
    the least and the largest NVS in pages of 4 KiB, with four steps per doubling between them.
    ``check_curve`` replays every write group too, and reports how far the sampled curve is from
    that; ``sample_groups`` is the least number of write groups in a sample. ``load_factor`` is
    headroom: the answer must also hold at this multiple of the load. ``prices`` are those of a GiB
    of NVS device and of memory, e.g. ``{"nvs": 12, "memory": 4}``: the answer and every size then
    have a cost.
    """
    trace = load_of(load, options)
    if thresholds is not None:
        thresholds = [thresholds] if isinstance(thresholds, str) else list(thresholds)
    with _progress.steps(progress) as report:
        text, plotted = _native.advise(
            given(options),
            goal,
            _names(policies),
            thresholds,
            sizes,
            seeds,
            threads_of(threads),
            check_curve,
            sample_groups,
            trace,
            report,
            load_factor,
            _prices(prices),
        )
    return Advice.of(text, plotted)
