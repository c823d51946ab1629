"""Policies of your own, in Python.

A :class:`DestagePolicy` says which write group is destaged next, a :class:`ReadPolicy` which block
a read cache evicts. Both run in the simulator in place of a built-in one;
:mod:`destage.testing` checks that they keep their contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from destage._native import Nvs, PageWrite, PolicyContext

__all__ = ["DestagePolicy", "Nvs", "PageWrite", "PolicyContext", "PolicyLike", "ReadPolicy"]


class DestagePolicy(ABC):
    """A destage order.

    The simulator makes one for each run, ``MyPolicy(context)``, and calls it from one thread. It
    must decide from its arguments alone: the same calls must give the same picks.
    """

    def __init__(self, context: PolicyContext) -> None:
        """``context`` has the sizes of NVS, volume and array, and the thresholds."""

    @abstractmethod
    def on_write(self, write: PageWrite) -> None:
        """A page was written. ``write.created`` if it made the group: from now on it is held."""

    @abstractmethod
    def pick(self, nvs: Nvs) -> int:
        """The group to destage now, which the policy forgets at once.

        It is called only while some group may be picked, and must return one for which
        ``nvs.may_pick(group)`` is true: one held of which no destage is in flight.
        """

    def on_destaged(self, group: int) -> None:
        """All pages of a destage of this group are on the disks."""

    def on_admitted(self, random: int, sequential: int, occupancy: int) -> None:
        """This many random and sequential write requests were admitted since the last call.

        ``occupancy`` is in pages. Called before each pick.
        """

    def candidate(self, nvs: Nvs) -> int | None:
        """The next candidate, as far as the policy knows without deciding.

        Only rates that look ahead ask, such as ``linear`` with WOW's rule.
        """
        return None


class ReadPolicy(ABC):
    """An order of eviction of a read cache of this many blocks of 4 KiB."""

    def __init__(self, blocks: int) -> None:
        """``blocks`` is the size of the cache."""

    @abstractmethod
    def on_hit(self, block: int) -> None:
        """A held block was requested."""

    @abstractmethod
    def on_load(self, block: int) -> None:
        """A block was loaded: from now on it is held."""

    @abstractmethod
    def pick(self) -> int:
        """The block to evict, which the policy forgets at once. The cache is full."""


#: What a run takes as its policy: a name with parameters, a class, or a function that makes one.
PolicyLike: TypeAlias = "str | type[DestagePolicy] | Callable[[PolicyContext], DestagePolicy]"


def name_of_policy(policy: PolicyLike) -> str:
    """What a policy is called in reports."""
    return policy if isinstance(policy, str) else getattr(policy, "__name__", "policy")
