"""Policies of your own, in Python.

A :class:`DestagePolicy` says which write group is destaged next, a :class:`ReadPolicy` which block
a read cache evicts. Both run in the simulator in place of a built-in one;
:mod:`destage.testing` checks that they keep their contract.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TypeAlias

from destage._native import Nvs, PageWrite, PolicyContext
from destage.errors import OptionError
from destage.tables import policies as table

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


def policies_of(policies: PolicyLike | Sequence[PolicyLike]) -> list[PolicyLike]:
    """One policy or several, as a list."""
    if isinstance(policies, str) and "," in policies:
        names = [name.strip() for name in policies.split(",")]
        known = {entry.name for entry in table()}
        if all(name.partition(":")[0] in known for name in names):
            raise OptionError(f"policies takes a list: {names!r}, not {policies!r}")
    if isinstance(policies, str) or callable(policies):
        return [policies]
    listed = list(policies) if isinstance(policies, Iterable) else [policies]
    for policy in listed:
        if not isinstance(policy, str) and not callable(policy):
            raise OptionError(
                f"a policy is a name or a subclass of DestagePolicy, not {policy!r}; "
                "destage.policies() lists the names"
            )
    if not listed:
        raise OptionError("policies is empty: name one policy at least")
    return listed


def name_of_policy(policy: PolicyLike) -> str:
    """What a policy is called in reports."""
    return policy if isinstance(policy, str) else getattr(policy, "__name__", "policy")


def digest_of_policy(policy: PolicyLike) -> str:
    """A digest of the source of a policy, with its bases up to :class:`DestagePolicy`: part of the
    keys of its rows."""
    digest = sha256()
    for part in _parts_of(policy):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _parts_of(policy: PolicyLike) -> Iterable[str]:
    """The source of what a policy is made of, by name."""
    if not isinstance(policy, type):
        yield _source(policy, policy)
        return
    for base in policy.__mro__:
        if base in (DestagePolicy, ABC, object):
            continue
        for name, value in sorted(vars(base).items()):
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if inspect.isfunction(function):
                yield f"{name} {_source(function, policy)}"
            elif not name.startswith("__") and not name.startswith("_abc_"):
                yield f"{name} = {value!r}"


def _source(function: object, policy: object) -> str:
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError) as error:
        name = getattr(policy, "__name__", repr(policy))
        raise OptionError(
            f"{name}: a sweep keeps rows by the source of a policy, and this one has none that "
            "can be read: define it in a file or a notebook"
        ) from error
