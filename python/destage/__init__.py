"""The write cache for disk arrays: simulate, compare, sweep and plan destage policies.

>>> import destage
>>> result = destage.simulate(destage.Workload.spc1(iops=600), policy="wow", measure=20, warmup=5)
>>> result.response.all.count > 0
True

Sizes are in pages of 4 KiB, times in virtual seconds or milliseconds as their names say, shares
from 0 to 1. The command line ``destage`` gives the same results bit for bit.
"""

from destage._native import __version__
from destage.advice import Advice, AdvisedRun, CurvePoint, Needs, Prices, SizeResult, advise
from destage.errors import (
    DestageError,
    InputError,
    MissingExtraError,
    NoRequestsError,
    OptionError,
    PolicyError,
    RefusedError,
    RunError,
)
from destage.plot import (
    plot,
    plot_advice,
    plot_disk_time,
    plot_distance,
    plot_hits,
    plot_occupancy,
    plot_response,
    plot_throughput,
)
from destage.policy import DestagePolicy, Nvs, PageWrite, PolicyContext, PolicyLike, ReadPolicy
from destage.results import Comparison, Point, RunResult, Series, TimeBucket
from destage.runs import ReadCacheResult, compare, read_cache, simulate
from destage.sweeps import SweepPoint, SweepResult, sweep
from destage.tables import (
    Entry,
    Param,
    disk_bytes,
    disks,
    formats,
    levels,
    options,
    policies,
    rates,
    read_policies,
    workloads,
)
from destage.tournaments import ScoreCard, tournament
from destage.trace import TRACE_DTYPE, Trace, TraceInfo, read_trace
from destage.workload import Workload

__all__ = [
    "TRACE_DTYPE",
    "Advice",
    "AdvisedRun",
    "Comparison",
    "CurvePoint",
    "DestageError",
    "DestagePolicy",
    "Entry",
    "InputError",
    "MissingExtraError",
    "Needs",
    "NoRequestsError",
    "Nvs",
    "OptionError",
    "PageWrite",
    "Param",
    "Point",
    "PolicyContext",
    "PolicyError",
    "PolicyLike",
    "Prices",
    "ReadCacheResult",
    "ReadPolicy",
    "RefusedError",
    "RunError",
    "RunResult",
    "ScoreCard",
    "Series",
    "SizeResult",
    "SweepPoint",
    "SweepResult",
    "TimeBucket",
    "Trace",
    "TraceInfo",
    "Workload",
    "__version__",
    "advise",
    "compare",
    "disk_bytes",
    "disks",
    "formats",
    "levels",
    "options",
    "plot",
    "plot_advice",
    "plot_disk_time",
    "plot_distance",
    "plot_hits",
    "plot_occupancy",
    "plot_response",
    "plot_throughput",
    "policies",
    "rates",
    "read_cache",
    "read_policies",
    "read_trace",
    "simulate",
    "sweep",
    "tournament",
    "workloads",
]
