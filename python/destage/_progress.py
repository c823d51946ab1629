"""Progress bars by tqdm, where asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from destage._extras import need


@contextmanager
def counted(wanted: bool, unit: str) -> Iterator[Callable[[int, int], object] | None]:
    """A bar over ``(done, total)``, or none."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=unit)

    def told(done: int, total: int) -> None:
        # Threads may tell out of turn.
        bar.total = total
        bar.update(max(0, done - bar.n))

    try:
        yield told
    finally:
        bar.close()


@contextmanager
def requests(wanted: bool) -> Iterator[Callable[[int, float], object] | None]:
    """A bar over requests, with the virtual time reached; or none."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=" requests", unit_scale=True)

    def told(done: int, seconds: float) -> None:
        bar.set_postfix_str(f"at {seconds:.0f} s", refresh=False)
        bar.update(done - bar.n)

    try:
        yield told
    finally:
        bar.close()


@contextmanager
def steps(wanted: bool) -> Iterator[Callable[[str], object] | None]:
    """A line that says what is being done; or none."""
    if not wanted:
        yield None
        return
    bar = need("tqdm.auto").tqdm(unit=" steps")

    def told(step: str) -> None:
        bar.set_description(step)
        bar.update()

    try:
        yield told
    finally:
        bar.close()
