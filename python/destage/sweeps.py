"""Sweeps: every combination of options and traces, in-process or on a Dask cluster.

Each finished point is a row in a dataset of Parquet files that is never computed twice; see
docs/sweeps.md for what a key is made of and what a crash leaves.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from destage import _native, _progress
from destage._display import (
    ROWS_SHOWN,
    cells_of_runs,
    html_table,
    page,
    svg_of,
    sweep_chart,
    text_table,
)
from destage._extras import need
from destage._options import Given, OptionValue, given, name_of, threads_of, values_of
from destage.errors import InputError, OptionError, RunError
from destage.plot import plot
from destage.policy import PolicyContext, PolicyLike, digest_of_policy, name_of_policy
from destage.results import _Rows
from destage.tables import options as option_table
from destage.tables import policies as policy_table
from destage.trace import Trace
from destage.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from distributed import Client

#: Times that points are given to other workers after the one that ran them died.
RETRIES = 10
#: The most points of one task. A worker that dies loses its task.
TASK_POINTS = 8
#: The most points that a plot shows.
POINTS_DRAWN = 2000
#: Workers assumed for a cluster that has none yet.
WORKERS_TO_COME = 64


@dataclass(frozen=True)
class SweepPoint:
    """One combination of options and a seed."""

    #: Digest of all that its result depends on: the name of its row.
    key: str
    #: Every option, defaults filled in.
    options: dict[str, str]


@dataclass(frozen=True)
class SweepResult(_Rows):
    """A finished sweep: its rows, in the order of its points."""

    #: Where the rows are.
    directory: Path
    points: list[SweepPoint]
    #: Options that vary.
    axes: list[str]
    #: Points whose rows were there before.
    found: int
    #: Points that were run.
    run: int
    _temporary: Any = field(default=None, repr=False, compare=False)

    def to_arrow(self) -> pa.Table:
        """An Arrow table: a column per axis, named ``axis_OPTION``, then the row's own columns."""
        return self._arrow(self.points)

    def _arrow(self, points: Sequence[SweepPoint]) -> pa.Table:
        """The rows of these points."""
        pa, pq = need("pyarrow"), need("pyarrow.parquet")
        files = [self.directory / f"{point.key}.parquet" for point in points]
        table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        for place, axis in enumerate(self.axes):
            values = [_number(point.options.get(axis, "")) for point in points]
            if not all(isinstance(value, (int, float)) for value in values):
                values = [point.options.get(axis, "") for point in points]
            table = table.add_column(place, f"axis_{axis}", pa.array(values))
        return table

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def plot_specs(self) -> dict[str, dict[str, Any]]:
        """What each plot draws, by name: the response time along the longest axis of numbers."""
        spec = sweep_chart(self._arrow(self.points[:POINTS_DRAWN]).to_pylist(), self.axes)
        return {"response": spec} if spec else {}

    def svg(self, name: str = "response") -> str:
        """A plot as SVG text."""
        return svg_of(self.plot_specs()[name])

    def plot(self, name: str = "response", ax: Any = None) -> Any:
        """Draws a plot with matplotlib, into ``ax`` if given; returns the axes."""
        return plot(self, name, ax)

    def _said(self) -> str:
        return f"{len(self.points):,} points: {self.found:,} were there, {self.run:,} were run"

    def __repr__(self) -> str:
        rows = self._arrow(self.points[:ROWS_SHOWN]).to_pylist()
        return f"{self._said()}\n{text_table(cells_of_runs(rows, self.axes))}"

    def _repr_html_(self) -> str:
        rows = self._arrow(self.points[:ROWS_SHOWN]).to_pylist()
        table = html_table(cells_of_runs(rows, self.axes), len(self.points))
        return page(self._said(), table, [], map(svg_of, self.plot_specs().values()))

    def to_pandas(self) -> Any:
        """A pandas frame with one row per point."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars frame with one row per point."""
        return need("polars").from_arrow(self.to_arrow())


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def sweep(
    grid: Mapping[str, Iterable[OptionValue | Workload | PolicyLike]],
    traces: Sequence[Trace | str | os.PathLike[str]] = (),
    *,
    out: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    seeds: int = 1,
    threads: int | None = None,
    progress: bool = False,
    **options: OptionValue,
) -> SweepResult:
    """Runs every combination of the grid's options and the traces: ``destage sweep``.

    ``grid`` has options with their values: ``{"policy": ["wow", MyPolicy], "nvs": [4096, 8192]}``.
    A policy may be a :class:`DestagePolicy`: its rows are kept by its source, and a cluster's
    workers get it from here, or import it if it is of a module. ``options`` are common to all.
    ``out`` is the directory of the dataset: call again with the same
    one to resume a sweep. Without it the rows live as long as the result. Runs use all processors,
    or the workers of ``client``, a ``dask.distributed.Client``; the rows are the same bit for bit.
    """
    if not isinstance(grid, Mapping):
        raise OptionError(
            f"grid takes options with lists of values, e.g. {{'nvs': [4096, 8192]}}, not {grid!r}"
        )
    own: dict[str, PolicyLike] = {}
    axes = [(name_of(name), _texts(name_of(name), values, own)) for name, values in grid.items()]
    known = {name: digest_of_policy(policy) for name, policy in own.items()}
    held: dict[str, _native.TraceData] = {}
    digests: dict[str, str] = {}
    if traces:
        names = [_name_of(trace, held, digests) for trace in traces]
        if len(set(names)) < len(names):
            raise OptionError("two traces have the same name")
        axes.insert(0, ("trace", names))
    points = _native.sweep_points(given(options), axes, seeds, digests, known)
    temporary = tempfile.TemporaryDirectory(prefix="destage-sweep-") if out is None else None
    directory = Path(temporary.name if temporary else os.fspath(out))  # type: ignore[arg-type]
    with _progress.counted(progress, " points") as report:
        if client is None:
            threads_used = threads_of(threads)
            found, run = _native.sweep(points, directory, threads_used, held, report, _made(own))
        else:
            own_known = {name: (policy, known[name]) for name, policy in own.items()}
            found, run = _on_cluster(client, points, directory, held, digests, report, own_known)
    defaults = {option.name: option.default for option in option_table() if option.default}
    named = [SweepPoint(key, defaults | dict(options)) for options, key in points]
    varying = [name for name, _ in axes] + (["seed"] if seeds > 1 else [])
    return SweepResult(directory, named, varying, found, run, temporary)


#: Policies in Python by name, each with the digest of its source.
_Own: TypeAlias = "dict[str, tuple[PolicyLike, str]]"


def _made(own: Mapping[str, PolicyLike]) -> dict[str, Callable[[PolicyContext], Any]]:
    """What makes each policy."""
    return {name: policy for name, policy in own.items() if not isinstance(policy, str)}


def _texts(
    name: str,
    values: Iterable[OptionValue | Workload | PolicyLike],
    own: dict[str, PolicyLike],
) -> list[str]:
    """The values of an axis as text; policies in Python are added to ``own``."""
    plain: list[OptionValue] = []
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        return values_of(name, values)
    for value in values:
        if isinstance(value, Workload):
            plain.append(value.text)
        elif name == "policy" and callable(value):
            label = name_of_policy(value)
            if label in own or label in {entry.name for entry in policy_table()}:
                raise OptionError(f"two policies have the name {label}")
            own[label] = value
            plain.append(label)
        else:
            plain.append(value)  # type: ignore[arg-type]
    return values_of(name, plain)


def _name_of(
    trace: Trace | str | os.PathLike[str],
    held: dict[str, _native.TraceData],
    digests: dict[str, str],
) -> str:
    """The trace's name in options; one in memory is kept, and its digest."""
    if not isinstance(trace, Trace):
        return os.fspath(trace)
    native = trace.native()
    held[trace.name] = native
    digests[trace.name] = native.digest()
    return trace.name


@lru_cache(maxsize=64)
def _digest_of_file(path: str, _size: int, _modified: int) -> str:
    with open(path, "rb") as file:
        digest = sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _trace_of(options: Given) -> str:
    return dict(options).get("trace", "")


def _work(
    points: Sequence[tuple[Given, str]], records: Any, digest: str, own: _Own | None = None
) -> list[bytes]:
    """On a worker: rows of points of one trace. If a point fails, the rows before it are returned;
    if it is the first, its error is raised."""
    name, data = _trace_of(points[0][0]), None
    if records is not None:
        data = _native.TraceData.from_records(records, name)
    elif name:
        digest = _digest_here(name)
    known = {name: source for name, (_, source) in (own or {}).items()}
    made = _made({name: policy for name, (policy, _) in (own or {}).items()})
    traces = {name: digest} if name else {}
    rows: list[bytes] = []
    for options, key in points:
        try:
            ((_, own_key),) = _native.sweep_points(options, [], 1, traces, known)
            if own_key != key:
                raise RunError(
                    "the worker makes another key of this point: it has another version of "
                    "destage, or another file of that name"
                )
            rows.append(_native.run_point(options, key, data, made))
        except Exception:
            if not rows:
                raise
            break
    return rows


def _digest_here(name: str) -> str:
    """A trace file's digest as this worker sees it."""
    try:
        state = os.stat(name)
    except OSError as error:
        raise InputError(f"{name}: the worker cannot read it: {error.strerror}") from error
    return _digest_of_file(name, state.st_size, state.st_mtime_ns)


def _tasks(missing: Mapping[str, Given], workers: int) -> list[list[tuple[Given, str]]]:
    """Points in tasks: several per task at first, one at the end, so that all workers end
    together. The points of a task have the same trace."""
    tasks: list[list[tuple[Given, str]]] = []
    left, most, trace = len(missing), 0, None
    for key, options in missing.items():
        its = _trace_of(options)
        if not tasks or len(tasks[-1]) >= most or its != trace:
            most = max(1, min(TASK_POINTS, left // (4 * workers)))
            trace = its
            tasks.append([])
        tasks[-1].append((options, key))
        left -= 1
    return tasks


def _rows_in(directory: Path) -> set[str]:
    """Keys that have a complete row."""
    directory.mkdir(parents=True, exist_ok=True)
    keys = set()
    for path in directory.glob("*.parquet"):
        with open(path, "rb") as file:
            content = file.read()
        if len(content) > 12 and content.startswith(b"PAR1") and content.endswith(b"PAR1"):
            keys.add(path.stem)
    return keys


def _put(directory: Path, key: str, row: bytes) -> None:
    """Writes a complete row under its final name."""
    handle, partial = tempfile.mkstemp(prefix=f".{key}.", suffix=".tmp", dir=directory)
    try:
        with open(handle, "wb") as file:
            file.write(row)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, directory / f"{key}.parquet")
    except BaseException:
        os.unlink(partial)
        raise


def _submit(
    client: Any,
    task: list[tuple[Given, str]],
    records: Mapping[str, Any],
    digests: Mapping[str, str],
    own: _Own,
) -> Any:
    """The future of a task's rows."""
    (options, key), *_ = task
    name = _trace_of(options)
    return client.submit(
        _work,
        task,
        records.get(name),
        digests.get(name, ""),
        own,
        pure=False,
        retries=RETRIES,
        key=f"destage-{key[:16]}-{os.urandom(4).hex()}",
    )


def _on_cluster(
    client: Any,
    points: list[tuple[Given, str]],
    directory: Path,
    held: dict[str, _native.TraceData],
    digests: dict[str, str],
    report: Callable[[int, int], object] | None,
    own: _Own,
) -> tuple[int, int]:
    """Runs what is missing on a cluster; rows are written here, as they come."""
    distributed = need("distributed")
    keys = _rows_in(directory)
    found = sum(key in keys for _, key in points)
    missing = {key: options for options, key in points if key not in keys}
    total, done = len(points), len(points) - len(missing)
    ran = len(missing)
    if report:
        report(done, total)
    lost = (distributed.KilledWorker, distributed.client.FutureCancelledError, OSError)
    for _ in range(RETRIES):
        if not missing:
            return found, ran
        # A trace in memory goes to a worker once, and again if that worker dies.
        records = {
            name: client.scatter(_records(data), broadcast=True) for name, data in held.items()
        }
        workers = sum(client.nthreads().values()) or WORKERS_TO_COME
        tasks = _tasks(missing, workers)
        futures = {_submit(client, task, records, digests, own): task for task in tasks}
        completed = distributed.as_completed(list(futures))
        for future in completed:
            task = futures.pop(future)
            try:
                rows = future.result()
            except lost:
                continue  # The next round runs them.
            except BaseException:
                client.cancel(list(futures))
                raise
            for (_, key), row in zip(task, rows):
                _put(directory, key, row)
                del missing[key]
                done += 1
                if report:
                    report(done, total)
            future.release()
            if rest := task[len(rows) :]:
                # Its first point failed: run it again, as any other task.
                again = _submit(client, rest, records, digests, own)
                futures[again] = rest
                completed.add(again)
    raise RunError(
        f"{len(missing)} points were lost {RETRIES} times with the workers that ran them"
    )


def _records(data: _native.TraceData) -> Any:
    """The records of a trace, without the file's header of 16 bytes and end mark of 32."""
    return data.file_bytes()[16:-32]
