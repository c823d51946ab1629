"""The tables behind the command line's lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from destage import _native


@dataclass(frozen=True)
class Param:
    """A parameter or option."""

    name: str
    #: Unit of the value, or ``-``.
    unit: str
    default: str
    #: Range or list of values.
    range: str
    help: str


@dataclass(frozen=True)
class Entry:
    """A row of a table."""

    name: str
    summary: str
    #: Paper and section, or where else it is from.
    source: str
    params: tuple[Param, ...]


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(_native.tables())
    return tables


def _entries(table: str) -> list[Entry]:
    return [
        Entry(row["name"], row["summary"], row["source"], tuple(Param(**p) for p in row["params"]))
        for row in _tables()[table]
    ]


def policies() -> list[Entry]:
    """Destage policies."""
    return _entries("policies")


def read_policies() -> list[Entry]:
    """Read-cache policies; ``vdf-NAME`` is the fault-aware form of NAME."""
    return _entries("read_policies")


def rates() -> list[Entry]:
    """Rate schemes: when to destage, and how many at once."""
    return _entries("rates")


def levels() -> list[Entry]:
    """RAID levels."""
    return _entries("levels")


def disks() -> list[Entry]:
    """Disk models."""
    return _entries("disks")


def disk_bytes(name: str) -> int:
    """Capacity of a disk model, or of a ``.toml`` spec, in bytes."""
    return _native.disk(name)


def workloads() -> list[Entry]:
    """Generated loads with their parameters."""
    return _entries("workloads")


def formats() -> list[Entry]:
    """Trace formats that :func:`read_trace` and runs detect, or that ``format=`` names."""
    return _entries("formats")


def options() -> list[Param]:
    """Options of a run with unit, default and range; write ``-`` as ``_`` in keywords."""
    return [Param(**row) for row in _tables()["options"]]
