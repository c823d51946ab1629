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
from typing import TYPE_CHECKING, Any

from destage import _native, _progress
from destage._extras import need
from destage._options import Given, OptionValue, given, name_of, text_of, threads_of
from destage.errors import InputError, OptionError, RunError
from destage.results import _Rows
from destage.tables import options as option_table
from destage.trace import Trace
from destage.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from distributed import Client

#: Times that points are given to other workers after the one that ran them died.
RETRIES = 10
#: The most points of one task. A worker that dies loses its task.
TASK_POINTS = 8
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
        pa, pq = need("pyarrow"), need("pyarrow.parquet")
        files = [self.directory / f"{point.key}.parquet" for point in self.points]
        table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        for place, axis in enumerate(self.axes):
            values = [_number(point.options.get(axis, "")) for point in self.points]
            if not all(isinstance(value, (int, float)) for value in values):
                values = [point.options.get(axis, "") for point in self.points]
            table = table.add_column(place, f"axis_{axis}", pa.array(values))
        return table

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

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
    grid: Mapping[str, Iterable[OptionValue | Workload]],
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

    ``grid`` has options with their values: ``{"policy": ["wow", "stow"], "nvs": [4096, 8192]}``;
    ``options`` are common to all. ``out`` is the directory of the dataset: call again with the same
    one to resume a sweep. Without it the rows live as long as the result. Runs use all processors,
    or the workers of ``client``, a ``dask.distributed.Client``; the rows are the same bit for bit.
    """
    axes = [(name_of(name), [text_of(_plain(v)) for v in values]) for name, values in grid.items()]
    held: dict[str, _native.TraceData] = {}
    digests: dict[str, str] = {}
    if traces:
        names = [_name_of(trace, held, digests) for trace in traces]
        if len(set(names)) < len(names):
            raise OptionError("two traces have the same name")
        axes.insert(0, ("trace", names))
    for name, values in axes:
        if not values:
            raise OptionError(f"the grid has no values for {name}")
    points = _native.sweep_points(given(options), axes, seeds, digests)
    temporary = tempfile.TemporaryDirectory(prefix="destage-sweep-") if out is None else None
    directory = Path(temporary.name if temporary else os.fspath(out))  # type: ignore[arg-type]
    with _progress.counted(progress, " points") as report:
        if client is None:
            found, run = _native.sweep(points, directory, threads_of(threads), held, report)
        else:
            found, run = _on_cluster(client, points, directory, held, digests, report)
    defaults = {option.name: option.default for option in option_table() if option.default}
    named = [SweepPoint(key, defaults | dict(options)) for options, key in points]
    varying = [name for name, _ in axes] + (["seed"] if seeds > 1 else [])
    return SweepResult(directory, named, varying, found, run, temporary)


def _plain(value: OptionValue | Workload) -> OptionValue:
    return value.text if isinstance(value, Workload) else value


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


def _work(points: Sequence[tuple[Given, str]], records: Any, digest: str) -> list[bytes]:
    """On a worker: rows of points of one trace. If a point fails, the rows before it are returned;
    if it is the first, its error is raised."""
    name, data = _trace_of(points[0][0]), None
    if records is not None:
        data = _native.TraceData.from_records(records, name)
    elif name:
        digest = _digest_here(name)
    rows: list[bytes] = []
    for options, key in points:
        try:
            ((_, own_key),) = _native.sweep_points(options, [], 1, {name: digest} if name else {})
            if own_key != key:
                raise RunError(
                    "the worker makes another key of this point: it has another version of "
                    "destage, or another file of that name"
                )
            rows.append(_native.run_point(options, key, data))
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
) -> Any:
    """The future of a task's rows."""
    (options, key), *_ = task
    name = _trace_of(options)
    return client.submit(
        _work,
        task,
        records.get(name),
        digests.get(name, ""),
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
        futures = {_submit(client, task, records, digests): task for task in tasks}
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
                again = _submit(client, rest, records, digests)
                futures[again] = rest
                completed.add(again)
    raise RunError(
        f"{len(missing)} points were lost {RETRIES} times with the workers that ran them"
    )


def _records(data: _native.TraceData) -> Any:
    """The records of a trace, without the file's header of 16 bytes and end mark of 32."""
    return data.file_bytes()[16:-32]
