"""Tournaments with a policy in Python."""

from __future__ import annotations

from pathlib import Path

import destage
import pytest
from destage.examples import Wow

GRID = """
title = "Small"
seeds = 1
protocols = ["safe", "papers"]
settings = [{ name = "deep", options = { queue-depth = 64 } }]
[options]
warmup = 2
measure = 4
nvs = 256
[[cells]]
name = "closed"
kind = "closed"
options = { workload = "random:threads=4" }
"""


def test_a_policy_in_python_plays_like_the_one_that_it_is_written_after(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID)
    out = tmp_path / "cup"
    card = destage.tournament([Wow, "lrw"], against="wow", grid=grid, out=out, threads=1)
    totals = card.totals()
    assert list(totals) == ["Wow", "lrw", "wow"]
    assert totals["Wow"]["throughput"] == pytest.approx(1.0)
    assert totals["lrw"]["throughput"] < 1.0
    assert card.totals("papers").keys() == totals.keys()
    assert "Protocol safe, judged" in str(card) and "<pre>" in card._repr_html_()
    assert {"index.html", "card.json", "card.csv", "card.txt"} <= {p.name for p in out.iterdir()}
    rows = sorted((out / "rows").iterdir())
    again = destage.tournament([Wow, "lrw"], against="wow", grid=grid, out=out, threads=1)
    assert again.data == card.data and sorted((out / "rows").iterdir()) == rows


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "cup"
    with pytest.raises(destage.InputError, match=r"nosuch\.toml"):
        destage.tournament("ebb", grid=tmp_path / "nosuch.toml", out=out)
    with pytest.raises(destage.OptionError, match="unknown policy `eb`"):
        destage.tournament("eb", out=out)
    with pytest.raises(destage.OptionError, match="ebb is listed twice"):
        destage.tournament(["ebb", "ebb"], out=out)
    with pytest.raises(destage.OptionError, match="two policies have the name lrw"):
        lrw = type("lrw", (Wow,), {})
        destage.tournament(lrw, out=out)
