"""Plots with matplotlib: what the HTML report draws, from the same description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from destage import _native
from destage._extras import need
from destage.errors import OptionError

if TYPE_CHECKING:
    from destage.advice import Advice
    from destage.results import Comparison, RunResult

_MARKERS = "os^DvP*X"
_DASHES = ("-", "--", "-.", ":")
_SCALES: Mapping[str, tuple[str, dict[str, int]]] = {
    "Linear": ("linear", {}),
    "Log10": ("log", {"base": 10}),
    "Log2": ("log", {"base": 2}),
}


def plot(report: Any, name: str = "response", ax: Any = None) -> Any:
    """Draws one plot of a run, comparison or advice; returns the axes."""
    specs = report.plot_specs()
    if name not in specs:
        raise OptionError(f"no plot `{name}`; there are: {', '.join(specs)}")
    return draw(specs[name], ax)


def plot_response(report: Comparison | RunResult, ax: Any = None) -> Any:
    """Response time along the sweep, by throughput where the load is swept."""
    return plot(report, "response", ax)


def plot_throughput(report: Comparison | RunResult, ax: Any = None) -> Any:
    """Throughput along the sweep, or a bar for each policy."""
    return plot(report, "throughput", ax)


def plot_occupancy(report: Comparison | RunResult, ax: Any = None) -> Any:
    """NVS occupancy over time."""
    return plot(report, "occupancy", ax)


def plot_hits(report: Comparison | RunResult, ax: Any = None) -> Any:
    """Hit ratios."""
    return plot(report, "hits", ax)


def plot_distance(report: Comparison | RunResult, ax: Any = None) -> Any:
    """Mean distance between destages."""
    return plot(report, "distance", ax)


def plot_disk_time(report: Comparison | RunResult, ax: Any = None) -> Any:
    """What the disks spend their time on."""
    return plot(report, "disk-time", ax)


def plot_advice(advice: Advice, ax: Any = None) -> Any:
    """How close each simulated size comes to the goal."""
    return plot(advice, "advice", ax)


def draw(spec: Mapping[str, Any], ax: Any = None) -> Any:
    """Draws a description of a plot."""
    if ax is None:
        _, ax = need("matplotlib.pyplot").subplots(figsize=(8, 4.5), layout="constrained")
    ((kind, marks),) = spec["marks"].items()
    if kind == "Lines":
        _lines(ax, marks)
    else:
        _bars(ax, marks, spec["categories"], stacked=kind == "Stack")
    if spec["categories"]:
        ax.set_xticks(range(len(spec["categories"])), spec["categories"])
    else:
        scale, settings = _SCALES[spec["x_scale"]]
        ax.set_xscale(scale, **settings)
    scale, settings = _SCALES[spec["y_scale"]]
    if scale == "linear" or ax.dataLim.y1 > 0:
        ax.set_yscale(scale, **settings)
    if spec["y_covers"]:
        low, high = spec["y_covers"]
        ax.set_ylim(min(low, ax.get_ylim()[0]), max(high, ax.get_ylim()[1]))
    for line in spec["h_lines"]:
        ax.axhline(line["value"], color="0.5", linewidth=0.8, linestyle=":")
        place = (1.0, line["value"])
        ax.annotate(line["label"], place, xycoords=("axes fraction", "data"), fontsize="small")
    for line in spec["v_lines"]:
        ax.axvline(line["value"], color="0.5", linewidth=0.8, linestyle=":")
    ax.set(title=spec["title"], xlabel=spec["x_label"], ylabel=spec["y_label"])
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    ax.grid(alpha=0.3)
    return ax


def _lines(ax: Any, marks: Mapping[str, Any]) -> None:
    # A policy looks the same in every plot.
    looks = _native.looks([series["name"] for series in marks["series"]])
    for (index, color), series in zip(looks, marks["series"]):
        # JSON has no NaN: a gap in a line is null.
        points = [[float("nan") if v is None else v for v in point] for point in series["points"]]
        x, y = zip(*points) if points else ((), ())
        many = len(points) > 60
        style = {
            "label": series["name"],
            "color": color,
            "marker": None if many else _MARKERS[index % len(_MARKERS)],
            "linestyle": _DASHES[index % len(_DASHES)],
        }
        errors = series["half_widths"]
        if errors and any(errors):
            ax.errorbar(x, y, yerr=errors, capsize=3, **style)
        else:
            ax.plot(x, y, **style)


def _bars(ax: Any, marks: Any, categories: list[str], stacked: bool) -> None:
    width = 0.7 if stacked else 0.8 / max(1, len(marks))
    floor = [0.0] * len(categories)
    looks = _native.looks([bars["name"] for bars in marks])
    for index, (bars, (_, color)) in enumerate(zip(marks, looks)):
        values = [0.0 if value is None else value for value in bars["values"]]
        shift = 0.0 if stacked else (index - (len(marks) - 1) / 2) * width
        places = [place + shift for place in range(len(values))]
        style = {"label": bars["name"], "color": None if stacked else color}
        ax.bar(places, values, width, bottom=floor if stacked else None, **style)
        if stacked:
            floor = [low + value for low, value in zip(floor, values)]
