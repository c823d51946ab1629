"""The native part of the package: what crates/python exports."""

from collections.abc import Callable
from os import PathLike
from typing import Any, final

import numpy as np
import numpy.typing as npt

__version__: str

_Given = list[tuple[str, str]]
_Point = tuple[_Given, str]

@final
class Run:
    def json(self, series: bool = True) -> str: ...
    @staticmethod
    def from_json(text: str) -> Run: ...
    def series(self, name: str) -> npt.NDArray[np.float64]: ...
    def row(self) -> str: ...
    def render(self, form: str) -> str: ...
    def parquet(self) -> bytes: ...
    def plots(self) -> str: ...
    def svg(self, name: str) -> str: ...

@final
class Compared:
    def json(self) -> str: ...
    def full_json(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> Compared: ...
    def runs(self) -> list[list[Run]]: ...
    def render(self, form: str) -> str: ...
    def parquet(self) -> bytes: ...
    def html(self) -> str: ...
    def plots(self) -> str: ...
    def svg(self, name: str) -> str: ...

@final
class TraceData:
    @staticmethod
    def from_records(records: npt.NDArray[np.uint8], name: str) -> TraceData: ...
    def file_bytes(self) -> npt.NDArray[np.uint8]: ...
    def digest(self) -> str: ...
    def info(self) -> str: ...
    def select(self, options: _Given) -> npt.NDArray[np.uint8]: ...
    @staticmethod
    def read(
        path: str | PathLike[str],
        format: str | None = None,
        order: str = "auto",
        skip_bad: bool = False,
        columns: str | None = None,
    ) -> npt.NDArray[np.uint8]: ...

@final
class PageWrite:
    """One page written into a write group."""

    @property
    def group(self) -> int:
        """The group's number."""
    @property
    def created(self) -> bool:
        """This page created the group."""
    @property
    def existed(self) -> bool:
        """The group existed before the request that the page belongs to."""
    @property
    def page_hit(self) -> bool:
        """The page was held already."""
    @property
    def sequential(self) -> bool:
        """The detector calls the page sequential."""
    @property
    def last_page(self) -> bool:
        """It is the last page of its group."""

@final
class PolicyContext:
    """What a policy may know when it is made."""

    @property
    def nvs_pages(self) -> int:
        """NVS size in pages of 4 KiB."""
    @property
    def groups(self) -> int:
        """Write groups in the volume."""
    @property
    def group_pages(self) -> int:
        """Pages of a write group."""
    @property
    def disks(self) -> int:
        """Disks in the array."""
    @property
    def queue_depth(self) -> int:
        """Greatest number of destage writes in flight."""
    @property
    def high(self) -> float:
        """High threshold in per cent of the NVS."""
    @property
    def low(self) -> float:
        """Low threshold in per cent of the NVS."""
    @property
    def mirrored(self) -> bool:
        """Whether the array is RAID-10."""

@final
class Nvs:
    """What the NVS holds. It answers only while ``pick`` or ``candidate`` is called."""

    def may_pick(self, group: int) -> bool:
        """Whether the group is held and may be picked now."""
    def pages(self, group: int) -> int:
        """Pages of the group that are held and not in flight."""
    def is_sequential(self, group: int) -> bool:
        """Whether the last page written to the group was sequential."""
    def groups(self) -> list[int]:
        """Groups held, ascending. This looks at all of them."""
    @property
    def held_pages(self) -> int:
        """Pages held and not in flight."""
    @property
    def occupancy(self) -> int:
        """Pages held, in flight and reserved."""
    @property
    def capacity(self) -> int:
        """NVS size in pages."""
    @property
    def pages_per_group(self) -> int:
        """Pages in a write group."""

def simulate(
    options: _Given,
    trace: TraceData | None = None,
    policy: tuple[Callable[[PolicyContext], Any], str] | None = None,
    progress: Callable[[int, float], object] | None = None,
) -> Run: ...
def compare(
    options: _Given,
    policies: list[str],
    own: dict[str, Callable[[PolicyContext], Any]],
    sweep: tuple[str, list[str]] | None,
    seeds: int,
    at_ms: list[float],
    threads: int,
    title: str | None = None,
    trace: TraceData | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Compared: ...
def replay_policy(
    text: str,
    policy: str,
    pages: int,
    group_pages: int = 64,
    disks: int = 5,
    queue_depth: int = 20,
    high: float = 90.0,
    low: float = 80.0,
    mirrored: bool = False,
    seq_threshold: int = 16,
    own: Callable[[PolicyContext], Any] | None = None,
) -> str: ...
def read_cache(
    policy: str,
    blocks: int,
    path: str | PathLike[str] | None = None,
    trace: TraceData | None = None,
    own: Callable[[int], Any] | None = None,
    disks: int = 5,
    failed: list[int] = ...,
) -> tuple[int, int, float, float | None, str]: ...
def sweep_points(
    options: _Given,
    axes: list[tuple[str, list[str]]],
    seeds: int,
    digests: dict[str, str],
    own: dict[str, str] = ...,
) -> list[_Point]: ...
def run_point(
    options: _Given,
    key: str,
    trace: TraceData | None = None,
    own: dict[str, Callable[[PolicyContext], Any]] = ...,
) -> bytes: ...
def sweep(
    points: list[_Point],
    directory: str | PathLike[str],
    threads: int,
    traces: dict[str, TraceData],
    progress: Callable[[int, int], object] | None = None,
    own: dict[str, Callable[[PolicyContext], Any]] = ...,
) -> tuple[int, int]: ...
def tournament(
    policies: list[str],
    against: list[str],
    out: str | PathLike[str],
    threads: int,
    grid: str | PathLike[str] | None = None,
    quick: bool = False,
    traces: str | PathLike[str] | None = None,
    seed: int = 1,
    own: dict[str, Callable[[PolicyContext], Any]] = ...,
    digests: dict[str, str] = ...,
    progress: Callable[[int, int], object] | None = None,
    cells: list[str] = ...,
    protocols: list[str] = ...,
) -> tuple[str, str]: ...
def advise(
    options: _Given,
    goal: str,
    policies: list[str],
    thresholds: list[str] | None,
    sizes: tuple[int, int],
    seeds: int,
    threads: int,
    check_curve: bool,
    sample_groups: int,
    trace: TraceData | None = None,
    progress: Callable[[str], object] | None = None,
    load_factor: float = 1.0,
    prices: str | None = None,
) -> tuple[str, str]: ...
def advice_html(advice: str) -> str: ...
def draw(spec: str) -> str: ...
def looks(names: list[str]) -> list[tuple[int, str]]: ...
def tables() -> str: ...
def disk(name: str) -> int: ...
