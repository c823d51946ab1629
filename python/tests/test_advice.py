"""Advice: its answer and the step below it hold in full simulation."""

from pathlib import Path
from typing import Any

import destage
import numpy as np
import pytest

IOPS = 650
LOAD = destage.Workload.spc1(iops=IOPS)
LIMIT_MS = 70
SETTINGS: dict[str, Any] = {"warmup": "settled", "measure": 30}


def reaches(iops: float = IOPS, **options: Any) -> bool:
    """Whether ten windows with these options reach the goal, 2 % inside it."""
    settings = {**SETTINGS, "measure": 300, "as_": "served"}
    run = destage.simulate(destage.Workload.spc1(iops=iops), **settings, **options)
    return run.iops >= 0.97 * iops and run.response.all.p99_ms < 0.98 * LIMIT_MS


def test_the_answer_reaches_the_goal_and_one_step_below_misses_it() -> None:
    variants: dict[str, Any] = {"policies": ["cscan", "stow"], "thresholds": ["90/80", "70/40"]}
    advice = destage.advise(
        LOAD,
        goal=f"p99<{LIMIT_MS}ms",
        sizes=(256, 65_536),
        seeds=2,
        **variants,
        **SETTINGS,
    )
    answer, below = advice.answer, advice.below
    assert answer is not None and below is not None and advice.margin is not None
    assert 0 < advice.margin < 1 and advice.sure
    place = advice.sizes_pages.index(answer.nvs_pages)
    assert advice.sizes_pages[place - 1] == below.nvs_pages
    best: dict[str, Any] = {
        "policy": answer.policy,
        "thresholds": answer.thresholds,
        "nvs": answer.nvs_pages,
    }
    assert all(reaches(seed=seed, **best) for seed in (1, 2))
    assert reaches(iops=1.01 * IOPS, **best)
    assert not below.reached
    for policy in variants["policies"]:
        for thresholds in variants["thresholds"]:
            worse: dict[str, Any] = {"policy": policy, "thresholds": thresholds}
            worse["nvs"] = below.nvs_pages
            good = all(reaches(seed=seed, **worse) for seed in (1, 2))
            assert not (good and reaches(iops=1.01 * IOPS, **worse)), worse
    assert len([run for run in advice.runs if run.length == 1]) < advice.grid_runs
    assert advice.to_pandas()["reached"].any()
    assert advice.plot().get_title().startswith("How near the goal")
    assert "one size below" in advice._repr_html_()


def test_goals_that_cannot_be_reached() -> None:
    advice = destage.advise(
        LOAD, goal="p99<1us", sizes=(1024, 2048), policies=["wow"], rate="linear:70/40", **SETTINGS
    )
    assert advice.answer is None and advice.margin is None and advice.below is not None
    assert "largest size tried" in repr(advice) and advice.cost is None
    assert {run.thresholds for run in advice.runs} == {""}, "those of the rate"
    for goal in ("p98<1ms", "p99<30", "p99"):
        with pytest.raises(destage.OptionError, match="--goal takes"):
            destage.advise(LOAD, goal=goal)
    reads = destage.Trace.from_arrays([0, 1], [0, 4096], [4096, 4096], [0, 0])
    with pytest.raises(destage.InputError, match="no writes"):
        destage.advise(reads, goal="p99<1ms")


def calm_trace(requests: int) -> destage.Trace:
    """Fifty requests per second, every second one a write."""
    place = np.arange(requests)
    pages = place * 37 % 16_384
    return destage.Trace.from_arrays(
        place * 20_000_000, pages * 4096, np.full(requests, 4096), place % 2 == 0
    )


def test_advice_has_costs_warnings_and_a_page(tmp_path: Path) -> None:
    search: dict[str, Any] = {
        "goal": "p99<1s",
        "policies": ["wow"],
        "thresholds": ["70/40"],
        "sizes": (256, 512),
    }
    advice = destage.advise(calm_trace(500), prices={"nvs": 12, "memory": 4.5}, **search)
    assert advice.answer is not None and advice.needs is not None and advice.cost is not None
    assert advice.prices == destage.Prices(nvs_per_gib=12.0, memory_per_gib=4.5)
    needs = advice.needs
    cost = (12 * needs.device_bytes_4096 + 4.5 * needs.memory_bytes) / 2**30
    assert advice.cost == pytest.approx(cost) and f"costs {cost:.2f}" in repr(advice)
    assert [size.run.nvs_pages for size in advice.by_size] == sorted(
        {run.nvs_pages for run in advice.runs}
    )
    (warning,) = advice.warnings
    assert warning.startswith("the goal's p99 is of 500 requests only, and needs at least 1000")
    assert advice.answer.reads + advice.answer.writes == 500
    for shown in (repr(advice), advice._repr_html_()):
        assert "needs at least 1000: give a longer trace" in shown
    advice.save_html(tmp_path / "advice.html")
    page = (tmp_path / "advice.html").read_text()
    assert "needs at least 1000" in page and f"They cost {cost:.2f}" in page
    assert '"warnings"' in advice.to_json()
    plain = destage.advise(calm_trace(5000), **search)
    assert plain.warnings == [] and plain.prices is None and plain.cost is None


def test_questions_without_an_answer_are_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"goal": "full<200%"}, "at most 100 %"),
        ({"goal": "p99<1s", "write_cache": False}, "--write-cache off is an array without NVS"),
        ({"goal": "p99<1s", "prices": {"disk": 1}}, "--prices takes nvs=PRICE"),
        ({"goal": "p99<1s", "prices": {"nvs": -1}}, "--prices takes nvs=PRICE"),
        ({"goal": "p99<1s", "prices": "nvs=1"}, "prices takes a mapping, e.g."),
    ]
    for given, why in refused:
        with pytest.raises(destage.OptionError, match=why):
            destage.advise(LOAD, **given)
