"""How results look as text and in notebooks: one table of columns for both, and charts that are
drawn as the HTML report draws them."""

from __future__ import annotations

import html as markup
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from destage import _native

#: Rows that are shown.
ROWS_SHOWN = 50

#: Columns of a row that are shown: heading and decimals.
_SHOWN: dict[str, tuple[str, int | None]] = {
    "variant": ("policy", None),
    "label": ("policy", None),
    "axis_value": ("at", None),
    "seed": ("seed", 0),
    "iops": ("I/O/s", 1),
    "response_mean_ms": ("mean ms", 2),
    "response_p95_ms": ("p95 ms", 1),
    "response_p99_ms": ("p99 ms", 1),
    "hit_write_page_share": ("page hits", 3),
    "stalled_write_share": ("stalled", 4),
    "time_full_share": ("time full", 4),
    "occupancy_mean_share": ("occupancy", 3),
}

Cells = tuple[list[str], list[list[str]]]


def cells_of_runs(rows: Sequence[Mapping[str, Any]], axes: Sequence[str] = ()) -> Cells:
    """Headings, and the cells of the first rows: the axes of a sweep, then what every run shows."""
    names = [name for name in _SHOWN if rows and rows[0].get(name, "") != ""]
    if "variant" in names or "policy" in axes:
        names.remove("label")
    if "seed" in axes:
        names.remove("seed")

    def cell(row: Mapping[str, Any], name: str) -> str:
        decimals = _SHOWN[name][1]
        if row[name] is None:
            return "-"
        return str(row[name]) if decimals is None else f"{row[name]:,.{decimals}f}"

    head = [*axes, *(_SHOWN[name][0] for name in names)]
    lines = [
        [*(str(row[f"axis_{axis}"]) for axis in axes), *(cell(row, name) for name in names)]
        for row in rows[:ROWS_SHOWN]
    ]
    return head, lines


def text_table(cells: Cells) -> str:
    """Columns of equal width; those of numbers are aligned to the right."""
    head, lines = cells
    widths = [max(map(len, column)) for column in zip(head, *lines)]

    def is_number(text: str) -> bool:
        return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()

    right = [all(is_number(line[at]) for line in lines) for at in range(len(head))]
    padded = (
        [f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(line, widths, right)]
        for line in [head, *lines]
    )
    return "\n".join("  ".join(line).rstrip() for line in padded)


def html_table(cells: Cells, rows: int = 0) -> str:
    """A table; ``rows`` is how many there are if not all are shown."""
    head, lines = cells
    top = "".join(f"<th>{markup.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{markup.escape(text)}</td>" for text in line) + "</tr>"
        for line in lines
    )
    more = f"<p>and {rows - len(lines):,} more</p>" if rows > len(lines) else ""
    return f"<table><tr>{top}</tr>{body}</table>{more}"


def page(title: str, table: str, notes: Iterable[str], plots: Iterable[str]) -> str:
    """What a notebook displays."""
    items = "".join(f"<li>{markup.escape(note)}</li>" for note in notes)
    listed = f"<ul>{items}</ul>" if items else ""
    drawn = "".join(f'<div style="max-width:700px">{plot}</div>' for plot in plots)
    return f"<h4>{markup.escape(title)}</h4>{table}{listed}{drawn}"


def svg_of(spec: Mapping[str, Any]) -> str:
    """A description of a plot, drawn."""
    return _native.draw(json.dumps(spec))


def sweep_chart(rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> dict[str, Any] | None:
    """The mean response time along the longest axis of numbers, with a line for each combination of
    the others; means over seeds. ``None`` if no axis has several numbers."""
    values = {axis: {row[f"axis_{axis}"] for row in rows} for axis in axes if axis != "seed"}
    numeric = [
        axis
        for axis, seen in values.items()
        if len(seen) > 1 and all(isinstance(value, (int, float)) for value in seen)
    ]
    if not numeric:
        return None
    along = max(numeric, key=lambda axis: len(values[axis]))
    others = [axis for axis in values if axis != along and len(values[axis]) > 1]
    # A policy comes first: its name gives the line its colour.
    others.sort(key=lambda axis: axis != "policy")
    lines: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        own = [
            str(row[f"axis_{a}"]) if a == "policy" else f"{a}={row[f'axis_{a}']}" for a in others
        ]
        line = lines.setdefault(" ".join(own) or "all", {})
        line.setdefault(row[f"axis_{along}"], []).append(row["response_mean_ms"])
    series = [
        {
            "name": name,
            "points": [[x, sum(ys) / len(ys)] for x, ys in sorted(line.items())],
            "half_widths": [],
        }
        for name, line in lines.items()
    ]
    return {
        "title": f"Response time by {along}",
        "x_label": along,
        "y_label": "Mean response time (ms)",
        "x_scale": "Linear",
        "y_scale": "Linear",
        "categories": [],
        "y_covers": None,
        "h_lines": [],
        "v_lines": [],
        "marks": {"Lines": {"series": series}},
    }
