"""Checks of policies written in Python: a battery that every policy must pass.

>>> from destage.testing import check_policy
>>> from destage.examples import Wow
>>> check_policy(Wow).loads
12
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from destage import _native
from destage.errors import DestageError, PolicyError
from destage.policy import DestagePolicy, PolicyContext, ReadPolicy, name_of_policy
from destage.runs import simulate
from destage.workload import Workload


@dataclass(frozen=True)
class PolicyReport:
    """The result of a battery."""

    policy: str
    #: Loads replayed.
    loads: int
    #: Destages seen.
    destages: int
    #: Hash of the events of each load, by name.
    events: dict[str, str]


def loads(seed: int = 1) -> Iterator[tuple[str, int, str]]:
    """Event files: a name, the NVS in pages, and lines of ``W first pages`` and ``D``."""
    for name, pages, span, longest, share in (
        ("one group", 64, 64, 8, 0.2),
        ("a page of NVS", 1, 4096, 1, 0.3),
        ("small writes", 128, 4096, 4, 0.05),
        ("large writes", 256, 65_536, 200, 0.02),
        ("hot pages", 512, 2048, 2, 0.02),
        ("far apart", 512, 1 << 40, 8, 0.01),
    ):
        for sequential in (False, True):
            draw = random.Random(f"{name} {seed}")
            lines, at = [], 0
            for _ in range(3000):
                length = draw.randint(1, min(longest, pages))
                if sequential and draw.random() < 0.7:
                    first, at = at % span, at + length
                else:
                    first = draw.randrange(span)
                lines.append(f"W {first} {length}")
                if draw.random() < share:
                    lines.append("D")
            kind = "sequential" if sequential else "random"
            yield f"{name}, {kind}", pages, "\n".join([*lines, *["D"] * (pages + 1)])


def check_policy(
    policy: type[DestagePolicy] | Callable[[PolicyContext], DestagePolicy],
    *,
    same_as: str | None = None,
    seed: int = 1,
) -> PolicyReport:
    """Runs a policy through loads that find broken policies; raises if it fails.

    It must pick a held group whenever there is one, drain to empty, decide the same each time, and
    serve a run on simulated disks, where groups come back while they are in flight. With
    ``same_as`` every event must be the same as that of the built-in policy of this name.
    """
    name = name_of_policy(policy)
    events, destages = {}, 0
    for load, pages, text in loads(seed):
        try:
            output = _native.replay_policy(text, name, pages, own=policy)
            again = _native.replay_policy(text, name, pages, own=policy)
        except DestageError as error:
            raise PolicyError(f"{name}: {load}: {error}") from error
        if output != again:
            raise PolicyError(f"{name}: {load}: {_difference(output, again, 'the same again')}")
        if same_as is not None:
            expected = _native.replay_policy(text, same_as, pages)
            if output != expected:
                raise PolicyError(f"{name}: {load}: {_difference(output, expected, same_as)}")
        lines = output.splitlines()
        _check_drained(name, load, lines)
        destages += sum(line.startswith("D ") and line != "D -" for line in lines)
        events[load] = lines[-1]
    _check_on_disks(policy, name, same_as, seed)
    return PolicyReport(name, len(events), destages, events)


def _difference(ours: str, theirs: str, what: str) -> str:
    pairs = zip(ours.splitlines(), theirs.splitlines())
    for number, (a, b) in enumerate(pairs, 1):
        if a != b:
            return f"event {number} is `{a}`, but `{b}` by {what}"
    return f"another number of events than {what}"


def _check_drained(name: str, load: str, lines: list[str]) -> None:
    new = sum(int(line.split()[3]) for line in lines if line.startswith("W "))
    out = [line for line in lines if line.startswith("D ") and line != "D -"]
    gone = sum(int(line.split()[2]) for line in out)
    if new != gone:
        raise PolicyError(f"{name}: {load}: {new} pages came in, {gone} were destaged")


def _check_on_disks(
    policy: type[DestagePolicy] | Callable[[PolicyContext], DestagePolicy],
    name: str,
    same_as: str | None,
    seed: int,
) -> None:
    load = Workload.spc1(iops=900)
    settings = {"nvs": 1024, "warmup": 0, "measure": 5, "seed": seed}
    ours = [simulate(load, policy=policy, **settings).digest for _ in range(2)]  # type: ignore[arg-type]
    if ours[0] != ours[1]:
        raise PolicyError(f"{name}: two runs of the same seed differ: it decides by chance")
    if same_as is not None:
        theirs = simulate(load, policy=same_as, **settings)  # type: ignore[arg-type]
        if ours[0] != theirs.digest:
            raise PolicyError(f"{name}: on simulated disks it does not do what {same_as} does")


def check_read_policy(policy: type[ReadPolicy], *, same_as: str | None = None) -> dict[str, str]:
    """The same for a read policy: hashes of its events by load; raises if it fails."""
    from destage.runs import read_cache
    from destage.trace import Trace

    events = {}
    draw = random.Random(7)
    for load, span in (("all fit", 50), ("some fit", 400), ("few fit", 5000)):
        blocks = [int(span * draw.random() ** 2) for _ in range(4000)]
        offsets = [4096 * block for block in blocks]
        times = list(range(len(blocks)))
        trace = Trace.from_arrays(times, offsets, [4096] * len(blocks), [0] * len(blocks))
        for size in (1, 64, 256):
            results = [read_cache(trace, policy=policy, blocks=size).events for _ in range(2)]
            if same_as is not None:
                results.append(read_cache(trace, policy=same_as, blocks=size).events)
            if len(set(results)) > 1:
                what = "decides otherwise each time" if results[0] != results[1] else "differs"
                raise PolicyError(f"{policy.__name__}: {load}, {size} blocks: {what}")
            events[f"{load}, {size} blocks"] = results[0]
    return events
