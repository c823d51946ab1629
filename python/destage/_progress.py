"""Progress bars by tqdm, if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from destage._extras import need


@contextmanager
def counted(wanted: bool, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """A bar over ``(done, total)``, or nothing."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=unit)

    def report(done: int, total: int) -> None:
        # Threads may report out of order.
        bar.total = total
        bar.update(max(0, done - bar.n))

    try:
        yield report
    finally:
        bar.close()


@contextmanager
def requests(wanted: bool) -> Iterator[Callable[[int, float], object] | None]:
    """A bar over requests, with the virtual time reached; or nothing."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=" requests", unit_scale=True)

    def report(done: int, seconds: float) -> None:
        bar.set_postfix_str(f"at {seconds:.0f} s", refresh=False)
        bar.update(done - bar.n)

    try:
        yield report
    finally:
        bar.close()


@contextmanager
def steps(wanted: bool) -> Iterator[Callable[[str], object] | None]:
    """A line that says what is being done, or nothing."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=" steps")

    def report(step: str) -> None:
        bar.set_description(step)
        bar.update()

    try:
        yield report
    finally:
        bar.close()
