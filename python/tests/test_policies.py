"""Policies in Python: the same events as the built-in ones, and every breach is caught."""

import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import destage
import pytest
from destage.examples import Wow
from destage.testing import check_policy, check_read_policy


class Lrw(destage.DestagePolicy):
    """Least recently written group first."""

    def __init__(self, context: destage.PolicyContext) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()
        self.in_flight: set[int] = set()
        self.nvs_pages = context.nvs_pages

    def on_write(self, write: destage.PageWrite) -> None:
        self.order[write.group] = None
        self.order.move_to_end(write.group)

    def pick(self, nvs: destage.Nvs) -> int:
        assert nvs.capacity == self.nvs_pages >= nvs.occupancy >= nvs.held_pages > 0
        group = next(group for group in self.order if nvs.may_pick(group))
        assert nvs.pages(group) > 0 and group not in self.in_flight
        del self.order[group]
        self.in_flight.add(group)
        return group

    def on_destaged(self, group: int) -> None:
        self.in_flight.remove(group)


class Lru(destage.ReadPolicy):
    """Least recently used block first."""

    def __init__(self, blocks: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def on_hit(self, block: int) -> None:
        self.order.move_to_end(block)

    def on_load(self, block: int) -> None:
        self.order[block] = None

    def pick(self) -> int:
        return self.order.popitem(last=False)[0]


def test_wow_in_python_is_wow() -> None:
    report = check_policy(Wow, same_as="wow")
    assert report.loads == 12 and report.destages > 10_000
    with pytest.raises(destage.PolicyError, match="by cscan"):
        check_policy(Wow, same_as="cscan")


def test_wow_is_thirty_lines() -> None:
    source = Path(destage.__file__).with_name("examples.py").read_text().splitlines()
    start = next(i for i, line in enumerate(source) if line.startswith("class Wow"))
    assert len(source) - start <= 32


@pytest.mark.parametrize("level", ["5", "10", "single"])
def test_wow_in_python_runs_as_wow(level: str) -> None:
    settings: dict[str, Any] = {
        "iops": 500,
        "nvs": 2048,
        "warmup": 5,
        "measure": 20,
        "level": level,
    }
    settings |= {"disks": {"5": 5, "10": 4, "single": 1}[level]}
    ours = destage.simulate(policy=Wow, **settings)
    theirs = destage.simulate(policy="wow", **settings)
    assert ours.digest == theirs.digest and ours.response == theirs.response
    assert ours.label == "Wow"


def test_a_policy_that_hears_of_its_destages() -> None:
    check_policy(Lrw, same_as="lrw")


def test_compared_with_the_built_in_ones() -> None:
    settings: dict[str, Any] = {
        "sweep": ("iops", [500, 900]),
        "warmup": 2,
        "measure": 10,
        "nvs": 2048,
    }
    comparison = destage.compare(policies=["wow", Wow, Lrw], **settings)
    digests = {(p.variant, p.value): p.runs[0].digest for p in comparison.points}
    assert digests["wow", "900"] == digests["Wow", "900"] != digests["Lrw", "900"]
    with pytest.raises(destage.OptionError, match="same name"):
        destage.compare(policies=[Wow, Wow])


def broken(what: str) -> type[destage.DestagePolicy]:
    class Broken(Wow):
        def on_write(self, write: destage.PageWrite) -> None:
            if what == "raises" and len(self.ring) > 50:
                raise ZeroDivisionError("on purpose")
            super().on_write(write)
            self.nvs: destage.Nvs | None = None

        def pick(self, nvs: destage.Nvs) -> int:
            if what == "late" and self.nvs is not None:
                self.nvs.may_pick(1)
            self.nvs = nvs
            group = super().pick(nvs)
            if what == "none":
                return None  # type: ignore[return-value]
            if what == "unheld":
                return group + (1 << 60)
            if what == "negative":
                return -1
            return group

    return Broken


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("none", "returned None where some group may be picked"),
        ("unheld", "which is not held"),
        ("negative", "returned -1"),
    ],
)
def test_what_breaks_the_contract_is_named(what: str, why: str) -> None:
    with pytest.raises(destage.PolicyError, match=why):
        check_policy(broken(what))
    with pytest.raises(destage.PolicyError, match=why):
        destage.simulate(policy=broken(what), iops=900, nvs=1024, warmup=0, measure=20)


def test_chance_is_caught() -> None:
    class Chance(destage.DestagePolicy):
        def on_write(self, write: destage.PageWrite) -> None:
            pass

        def pick(self, nvs: destage.Nvs) -> int:
            return random.choice([group for group in nvs.groups() if nvs.may_pick(group)])

    with pytest.raises(destage.PolicyError, match="the same again"):
        check_policy(Chance)


def test_exceptions_come_through() -> None:
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        destage.simulate(policy=broken("raises"), iops=900, nvs=1024, warmup=0, measure=20)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        destage.compare(policies=["wow", broken("raises")], iops=900, warmup=0, measure=20)

    class Unmade(Wow):
        def __init__(self, context: destage.PolicyContext) -> None:
            raise LookupError("cannot be made")

    with pytest.raises(LookupError, match="cannot be made"):
        destage.simulate(policy=Unmade, warmup=0, measure=20)


def test_the_nvs_answers_only_in_a_pick() -> None:
    held: list[destage.Nvs] = []

    class Keeps(Wow):
        def pick(self, nvs: destage.Nvs) -> int:
            held.append(nvs)
            return super().pick(nvs)

    destage.simulate(policy=Keeps, iops=900, nvs=1024, warmup=0, measure=5)
    with pytest.raises(destage.PolicyError, match="only while"):
        held[0].may_pick(0)


def test_a_read_policy() -> None:
    assert len(check_read_policy(Lru, same_as="lru")) == 9
    with pytest.raises(destage.PolicyError, match="differs"):
        check_read_policy(Lru, same_as="clock")

    class Forgets(Lru):
        def pick(self) -> int:
            return 1 << 40

    with pytest.raises(destage.PolicyError, match="not held"):
        check_read_policy(Forgets)


def test_read_caches_of_the_table(trace: destage.Trace) -> None:
    plain = destage.read_cache(trace, policy="lru", blocks=512, failed=[0])
    aware = destage.read_cache(trace, policy="vdf-lru", blocks=512, failed=[0])
    assert plain.requests == aware.requests > 0 and aware.rgr != plain.rgr
    assert 0 < plain.hit_ratio < 1
    with pytest.raises(destage.OptionError, match="known"):
        destage.read_cache(trace, policy="lro")
