"""Frames, plots and HTML of results."""

from pathlib import Path
from typing import Any

import destage
import matplotlib as mpl
import pytest
from destage import _native

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


def test_results_print_as_tables(comparison: destage.Comparison, tmp_path: Path) -> None:
    run = destage.simulate(**SHORT)
    assert repr(run) == str(run) == run.native.render("table").rstrip()
    assert repr(comparison).count("\n") > 8 and "lrw" in repr(comparison)
    grid: dict[str, Any] = {"policy": ["lrw", "wow"], "nvs": [1024, 2048, 4096]}
    swept = destage.sweep(grid, seeds=2, out=tmp_path, **SHORT)
    lines = repr(swept).splitlines()
    assert lines[0] == "12 points: 0 were there, 12 were run" and len(lines) == 14
    assert lines[1].split()[:3] == ["policy", "nvs", "seed"]
    assert {tuple(line.split()[:3]) for line in lines[2:]} == {
        (policy, str(nvs), str(seed))
        for policy in grid["policy"]
        for nvs in grid["nvs"]
        for seed in (1, 2)
    }
    place = lines[1].replace(" ms", "_ms").split().index("p95_ms")
    for row, line in zip(swept.rows(), lines[2:], strict=True):
        assert line.split()[place] == f"{row['response_p95_ms']:,.1f}"
    page = swept._repr_html_()
    assert "<th>p95 ms</th>" in page and "<th>p95 ms</th>" in comparison._repr_html_()
    assert page.count("<tr>") == 13 and page.count("<svg") == 1
    (series,) = (spec["marks"]["Lines"]["series"] for spec in swept.plot_specs().values())
    assert [line["name"] for line in series] == grid["policy"]
    frame = swept.to_pandas()
    for line in series:
        own = frame[frame["axis_policy"] == line["name"]]
        means = own.groupby("axis_nvs")["response_mean_ms"].mean()
        assert dict(line["points"]) == pytest.approx(dict(means))


def test_a_policy_has_one_colour_in_every_plot(
    comparison: destage.Comparison, tmp_path: Path
) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_hex

    swept = destage.sweep({"policy": ["stow", "wow"], "nvs": [1024, 4096]}, out=tmp_path, **SHORT)
    for report in (comparison, swept):
        axes = report.plot("response")
        for handle, label in zip(*axes.get_legend_handles_labels()):
            color = getattr(handle, "get_color", lambda h=handle: h.lines[0].get_color())()
            ((_, expected),) = _native.looks([label])
            assert to_hex(color) == expected and expected in report.svg("response")
        plt.close(axes.figure)


def test_advice_prints_and_displays() -> None:
    load = destage.Workload.spc1(iops=400)
    advice = destage.advise(
        load,
        goal="mean<60ms",
        policies="stow",
        thresholds="90/80",
        sizes=(4096, 8192),
        seeds=1,
        measure=20,
    )
    assert repr(advice).startswith("Goal mean<60ms\n") and "answer" in repr(advice)
    assert advice._repr_html_().count("<svg") == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(destage.MissingExtraError, match=r"pip install 'destage\[frames\]'"):
        destage.simulate(**SHORT).to_polars()
