"""Options of a run: keywords in Python, the command line's names in the native part."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from destage.errors import OptionError

#: A value of an option: text as on the command line, a number, on or off, or a path.
OptionValue: TypeAlias = "str | int | float | bool | os.PathLike[str]"

#: Options by name with their values as text.
Given: TypeAlias = list[tuple[str, str]]


def text_of(value: OptionValue) -> str:
    """A value as the command line would have it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(value)


def name_of(keyword: str) -> str:
    """``queue_depth`` as ``queue-depth``, and ``as_`` as ``as``, which Python keeps for itself."""
    return keyword.removesuffix("_").replace("_", "-")


def given(options: Mapping[str, OptionValue]) -> Given:
    """Keywords as options. Group and level come first: ``group=track`` sets level and disks."""
    pairs = [(name_of(name), text_of(value)) for name, value in options.items()]
    return sorted(pairs, key=lambda pair: pair[0] != "group")


def values_of(name: str, values: Iterable[OptionValue]) -> list[str]:
    """The values of a swept option as text."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise OptionError(f"{name} takes a list of values, e.g. [{values!r}], not {values!r}")
    texts = [text_of(value) for value in values]
    if not texts:
        raise OptionError(f"there are no values for {name}")
    return texts


def threads_of(threads: int | None) -> int:
    """Threads to use: by default one for each processor that this process may run on."""
    if threads is not None:
        return max(1, threads)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
