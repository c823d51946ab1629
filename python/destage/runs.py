"""Runs and comparisons."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from destage import _native, _progress
from destage._options import OptionValue, given, name_of, threads_of, values_of
from destage.errors import OptionError
from destage.policy import PolicyLike, ReadPolicy, name_of_policy, policies_of
from destage.results import Comparison, RunResult
from destage.trace import Trace
from destage.workload import Workload

#: What drives a run: a generated load, a trace in memory, or a trace file.
Load: TypeAlias = "Workload | Trace | str | os.PathLike[str]"


def load_of(load: Load | None, options: dict[str, OptionValue]) -> _native.TraceData | None:
    """Puts a load into the options; returns it if it is a trace in memory."""
    if load is None:
        return None
    if "trace" in options or "workload" in options:
        raise OptionError("give the load once: as the first argument, or as trace= or workload=")
    if isinstance(load, Trace):
        return load.native()
    if isinstance(load, Workload):
        options["workload"] = load.text
    else:
        options["trace"] = os.fspath(load)
    return None


def simulate(
    load: Load | None = None,
    *,
    policy: PolicyLike = "stow",
    progress: bool = False,
    **options: OptionValue,
) -> RunResult:
    """One run: ``destage sim``.

    ``load`` is a :class:`Workload`, a :class:`Trace` or the path of a trace file; the SPC-1-like
    load by default. ``policy`` is a name with parameters, e.g. ``"wow:initial-bit=1"``, or a
    :class:`DestagePolicy`. ``options`` are those of the command line with ``_`` for ``-``:
    ``nvs=32768`` (pages of 4 KiB, or text with K, M, G), ``rate="linear:90/80"`` (% of NVS),
    ``level=5``, ``disks=5``, ``disk="stow-ref"``, ``iops=800``, ``warmup=300`` and
    ``measure=300`` (virtual seconds), ``seed=1`` and so on: :func:`destage.options` lists them all
    with their units.

    Other threads continue, unless the policy is in Python; Ctrl-C stops the run.
    """
    trace = load_of(load, options)
    own = None
    if isinstance(policy, str):
        options["policy"] = policy
    else:
        own = (policy, name_of_policy(policy))
    with _progress.requests(progress) as report:
        return RunResult.of(_native.simulate(given(options), trace, own, report))


def compare(
    load: Load | None = None,
    *,
    policies: PolicyLike | Sequence[PolicyLike] = ("lrw", "cscan", "wow", "stow"),
    sweep: tuple[str, Iterable[OptionValue]] | Mapping[str, Iterable[OptionValue]] | None = None,
    seeds: int = 1,
    at_ms: Sequence[float] = (20.0,),
    threads: int | None = None,
    title: str | None = None,
    progress: bool = False,
    **options: OptionValue,
) -> Comparison:
    """Several policies on identical input: ``destage compare``.

    ``policies`` is one policy or several. ``sweep`` is an option with its values, e.g.
    ``("iops", range(300, 1200, 100))`` or ``{"iops": range(300, 1200, 100)}``. A sweep of
    ``iops`` also gives the throughput at which the mean response time crosses each of ``at_ms``.
    Everything else is as for :func:`simulate`. Runs use all processors unless ``threads`` says
    otherwise; the result is the same on any number.
    """
    trace = load_of(load, options)
    wanted = policies_of(policies)
    labels = [name_of_policy(policy) for policy in wanted]
    if len(set(labels)) < len(labels):
        raise OptionError("two policies have the same name")
    own = {name_of_policy(p): p for p in wanted if not isinstance(p, str)}
    axis = _axis(sweep)
    with _progress.counted(progress, " runs") as report:
        compared = _native.compare(
            given(options),
            labels,
            own,
            axis,
            seeds,
            [float(level) for level in at_ms],
            threads_of(threads),
            title,
            trace,
            report,
        )
    return Comparison.of(compared)


def _axis(
    sweep: tuple[str, Iterable[OptionValue]] | Mapping[str, Iterable[OptionValue]] | None,
) -> tuple[str, list[str]] | None:
    """The swept option and its values as text."""
    if not sweep:
        return None
    axes = list(sweep.items()) if isinstance(sweep, Mapping) else [sweep]
    pair = isinstance(axes[0], (tuple, list)) and len(axes[0]) == 2
    if len(axes) != 1 or not pair or not isinstance(axes[0][0], str):
        raise OptionError(
            f"sweep takes one option with a list of values, e.g. {{'iops': [500, 600]}}, not "
            f"{sweep!r}; destage.sweep takes several options"
        )
    name, values = axes[0]
    return name_of(name), values_of(name, values)


@dataclass(frozen=True)
class ReadCacheResult:
    """A read cache over the reads of a trace, on RAID-5."""

    policy: str
    blocks: int
    #: Block requests, and those found in the cache.
    requests: int
    hits: int
    #: Requests to surviving disks per block request: from a cold start, and once the cache is full.
    rgr: float
    rgr_warm: float | None
    #: Hash over every hit, miss and eviction.
    events: str

    @property
    def hit_ratio(self) -> float:
        """Hits of requests, 0 to 1."""
        return self.hits / self.requests


def read_cache(
    trace: Trace | str | os.PathLike[str],
    *,
    policy: str | type[ReadPolicy] = "lru",
    blocks: int = 16_384,
    disks: int = 5,
    failed: Sequence[int] = (),
) -> ReadCacheResult:
    """Replays the reads of a trace through a read cache of this many blocks of 4 KiB.

    ``policy`` is a name (:func:`destage.read_policies`) or a :class:`ReadPolicy`; ``failed`` are
    the failed disks, whose blocks a fault-aware policy keeps longer.
    """
    path = None if isinstance(trace, Trace) else os.fspath(trace)
    held = trace.native() if isinstance(trace, Trace) else None
    own = None if isinstance(policy, str) else policy
    name = policy if isinstance(policy, str) else policy.__name__
    figures = _native.read_cache(name, blocks, path, held, own, disks, list(failed))
    return ReadCacheResult(name, blocks, *figures)
