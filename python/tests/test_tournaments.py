"""Tournaments with a policy in Python."""

from __future__ import annotations

import subprocess
import sys
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
    part = destage.tournament(
        [Wow, "lrw"], against="wow", grid=grid, cells="closed", protocols=["papers"], out=out
    )
    assert part.totals() == card.totals("papers")
    again = destage.tournament([Wow, "lrw"], against="wow", grid=grid, out=out, threads=1)
    assert again.data == card.data and sorted((out / "rows").iterdir()) == rows


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "cup"
    with pytest.raises(destage.InputError, match=r"nosuch\.toml"):
        destage.tournament("ebb", grid=tmp_path / "nosuch.toml", out=out)
    with pytest.raises(destage.OptionError, match="unknown policy `eb`"):
        destage.tournament("eb", out=out)
    with pytest.raises(destage.OptionError, match="no cell is called `nosuch`"):
        destage.tournament("ebb", cells="nosuch", out=out)
    with pytest.raises(destage.OptionError, match="ebb is listed twice"):
        destage.tournament(["ebb", "ebb"], out=out)
    with pytest.raises(destage.OptionError, match="two policies have the name lrw"):
        lrw = type("lrw", (Wow,), {})
        destage.tournament(lrw, out=out)


def test_a_grid_is_drawn_by_a_seed_and_played(tmp_path: Path) -> None:
    def draw(*numbers: str) -> str:
        script = Path(__file__).parents[2] / "scripts/draw_grid.py"
        command = [sys.executable, str(script), *numbers]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    drawn = draw("7", "300")
    assert drawn == draw("7", "300") != draw("8", "300")
    names = [line for line in drawn.splitlines() if ": " in line and line.startswith("name = ")]
    assert len(set(names)) == 300
    assert {name.split("level ")[1].split(" ")[0] for name in names} == {"0", "4", "5", "6", "10"}
    grid = tmp_path / "grid.toml"
    grid.write_text(draw("7", "4", "1").replace('"auto"', "1"))
    card = destage.tournament("lrw", against="wow", grid=grid, out=tmp_path / "cup", threads=1)
    assert all(name.split('"')[1] in str(card) for name in names[:4])
