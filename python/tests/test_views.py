"""Frames, plots and HTML of results."""

from pathlib import Path
from typing import Any

import destage
import matplotlib as mpl
import pytest

mpl.use("Agg")

SHORT: dict[str, Any] = {"warmup": 2, "measure": 10}


@pytest.fixture(scope="module")
def comparison() -> destage.Comparison:
    return destage.compare(policies=["lrw", "stow"], sweep=("iops", [400, 800]), seeds=2, **SHORT)


def test_rows_as_frames(comparison: destage.Comparison) -> None:
    pandas, polars, arrow = comparison.to_pandas(), comparison.to_polars(), comparison.to_arrow()
    assert len(pandas) == polars.height == arrow.num_rows == 8
    assert list(pandas.columns) == polars.columns == arrow.column_names
    csv = comparison.native.render("csv").splitlines()
    assert csv[0].split(",") == list(pandas.columns)
    means = [point.iops.mean for point in comparison.points]
    assert pandas.groupby(["variant", "axis_value"], sort=False)["iops"].mean().tolist() == (
        pytest.approx(means)
    )


def test_series_share_memory_with_arrow() -> None:
    series = destage.simulate(**SHORT).series
    arrow = series.to_arrow()
    chunk = arrow["occupancy"].chunk(0)
    assert chunk.buffers()[1].address == series.occupancy.ctypes.data
    assert series.to_pandas()["time_s"].tolist() == series.time_s.tolist()
    assert series.to_polars().columns == arrow.column_names


def test_every_plot_of_the_report_is_drawn(comparison: destage.Comparison) -> None:
    import matplotlib.pyplot as plt

    specs = comparison.plot_specs()
    assert {"response", "occupancy", "hits", "distance", "disk-time"} <= set(specs)
    for name, spec in specs.items():
        axes = comparison.plot(name)
        assert axes.get_title() == spec["title"]
        assert axes.get_xlabel() == spec["x_label"] and axes.get_ylabel() == spec["y_label"]
        drawn = axes.get_legend_handles_labels()[1]
        marks = next(iter(spec["marks"].values()))
        wanted = marks["series"] if "series" in marks else marks
        assert [item["name"] for item in wanted] == drawn
        assert comparison.svg(name).startswith("<svg")
        plt.close(axes.figure)
    _, axes = plt.subplots()
    assert destage.plot_response(comparison, axes) is axes
    with pytest.raises(destage.OptionError, match="there are: response"):
        comparison.plot("respones")


def test_notebooks_show_results(comparison: destage.Comparison, tmp_path: Path) -> None:
    page = comparison._repr_html_()
    assert "<table>" in page and page.count("<svg") == 2 and "<script" not in page
    assert "stow" in destage.simulate(**SHORT)._repr_html_()
    comparison.save_html(tmp_path / "report.html")
    assert "plotly" in (tmp_path / "report.html").read_text()
    assert "stow" in str(comparison)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(destage.MissingExtraError, match=r"pip install 'destage\[frames\]'"):
        destage.simulate(**SHORT).to_polars()
