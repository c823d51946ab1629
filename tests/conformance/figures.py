"""Values of several rounds, their medians, and tables of them."""

import statistics


class Figures:
    """Values by (measure, what was measured), one for each round."""

    def __init__(self):
        self.values = {}
        self.measures = []

    def add(self, measure, who, value):
        if measure not in self.measures:
            self.measures.append(measure)
        self.values.setdefault((measure, who), []).append(value)

    def median(self, measure, who):
        found = self.values.get((measure, who))
        return statistics.median(found) if found else None

    def who(self):
        return list(dict.fromkeys(who for _, who in self.values))

    def as_json(self):
        return [{"measure": measure, "server": who, "median": statistics.median(values),
                 "rounds": values} for (measure, who), values in self.values.items()]


def number(value):
    if value is None:
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def ratio(one, other):
    if not one or not other:
        return "-"
    return f"{one / other:.2f}" if one / other >= 0.01 else "under 0.01"


def rows(figures, others):
    """Medians of all, and of those that are not `others` the ratio to the best of these: above 1
    is better for rates, below 1 for times."""
    who = figures.who()
    others = [name for name in who if name in others]
    ours = [name for name in who if name not in others]
    other = "best other" if len(others) > 1 else "".join(others)
    table = [["median of rounds"] + who + [f"{name} / {other}" for name in ours if others]]
    for measure in figures.measures:
        medians = {name: figures.median(measure, name) for name in who}
        best = (max if measure.endswith("/s") else min)
        there = [medians[name] for name in others if medians[name]]
        row = [measure] + [number(medians[name]) for name in who]
        table.append(row + [ratio(medians[name], best(there, default=None))
                            for name in ours if others])
    return table


def text_table(figures, others):
    """The rows, aligned."""
    table = rows(figures, others)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def markdown(figures, others):
    """The rows as a table of a page."""
    table = rows(figures, others)
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|"] + lines[1:])
