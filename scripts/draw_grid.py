#!/usr/bin/env python3
"""Draws a grid for `destage tournament --grid` at random, so that no cell was chosen for a policy.

Usage: draw_grid.py SEED CELLS [SECONDS]   (prints it; SECONDS are measured, 120 by default)
"""

import argparse
import math
import random

DISKS = {
    "": 10,
    "wow-ref": 2,
    "ultrastar-7k4000": 3,
    "st2000dm006": 1,
    "exos-x20": 1,
    "exos-2x18-unit": 1,
    "st8000as0002": 1,
}
THRESHOLDS = ["99/97", "95/90", "90/80", "90/70", "80/60", "60/30", "50/20"]
LEVELS = {5: 9, 6: 3, 10: 4, 4: 1, 0: 1}
HEAD = """# Drawn by scripts/draw_grid.py {seed} {cells} {measure} (docs/tournament.md).

title = "Destage policies off the grid, draw {seed}"
seeds = 1
protocols = ["safe"]

[[settings]]
name = "128 in flight, reads first"
options = {{ queue-depth = 128, order = "reads-first" }}

[[settings]]
name = "20 in flight, as they come"
options = {{ queue-depth = 20, order = "arrival" }}

[options]
warmup = "auto"
measure = {measure}
"""


class Draw:
    """Random choices of a cell."""

    def __init__(self, seed):
        """Of this seed."""
        self.random = random.Random(seed)

    def one(self, weights):
        """One of the keys, by weight, or one of a list."""
        if isinstance(weights, dict):
            return self.random.choices(list(weights), list(weights.values()))[0]
        return self.random.choice(weights)

    def scaled(self, least, most):
        """A whole number whose logarithm is uniform."""
        return round(math.exp(self.random.uniform(math.log(least), math.log(most))))

    def share(self, digits=2):
        """A share between 0 and 1."""
        return round(self.random.random(), digits)

    def writes(self):
        """A share of writes: 1 in half of all cells."""
        return self.one([1, self.share(), 1, max(self.share(), 0.3)])

    def part(self):
        """The part of a load in a mix."""
        return max(self.share(1), 0.1)

    def closed(self):
        """A closed load and what it is called."""
        threads, pages = f"threads={self.scaled(1, 128)}", f"pages={self.scaled(1, 128)}"
        rest = f"{threads},iops=0,writes={self.writes()}"
        kind = self.one({"uniform": 5, "zipf": 4, "hot and cold": 3, "sequential": 4, "mix": 4})
        if kind == "uniform":
            return kind, f"random:{rest},{pages}"
        if kind == "zipf":
            return kind, f"zipf:{rest},{pages},theta={round(0.4 + self.share(1), 1)}"
        if kind == "hot and cold":
            space, accesses = self.one([0.001, 0.01, 0.1, 0.3]), max(self.share(), 0.5)
            return kind, f"hotcold:{rest},{pages},hot-space={space},hot-accesses={accesses}"
        if kind == "sequential":
            return kind, f"sequential:streams={self.scaled(1, 64)},{rest},{pages}"
        parts = [
            f"{self.part()}*random(writes={self.writes()},{pages})",
            f"{self.part()}*sequential(streams={self.scaled(1, 8)},writes={self.writes()})",
            f"{self.part()}*zipf(writes={self.writes()})",
        ]
        return kind, f"mix:parts={'+'.join(parts)},iops=0,{threads}"

    def array(self):
        """An array and what it is called."""
        level = self.one(LEVELS)
        disks = {5: [3, 4, 5, 7, 9], 6: [4, 6, 8], 10: [2, 4, 6, 8], 4: [5], 0: [4]}[level]
        count = self.one(disks)
        options = {"level": level, "disks": count, "nvs": self.scaled(1024, 131072)}
        options["window"] = self.scaled(1, 128)
        options["thresholds"] = self.one(THRESHOLDS)
        if self.random.random() < 0.4:
            options["disk-fraction"] = self.one([0.3, 0.1, 0.05, 0.02, 0.01, 0.003])
        if self.random.random() < 0.3:
            options["strip"] = self.one([4, 8, 32, 64])
        elif self.random.random() < 0.2:
            options["group-stripes"] = self.one([2, 4])
        disk = self.one(DISKS)
        if disk:
            options["disk"] = disk
        name = f"level {level} of {count} disks"
        if level != 0 and self.random.random() < 0.25:
            options["fail"] = f"disk={self.random.randrange(count)},at=1"
            name += ", degraded"
        return name, options

    def cell(self, number):
        """The text of a cell."""
        array, options = self.array()
        if self.random.random() < 0.15:
            load, kind, loads = "SPC-1-like", "open", {}
            fast = options.get("disk-fraction", 1) <= 0.1
            rates = [f'rates = "{"500..12000..250" if fast else "100..3000..50"}"']
        else:
            load, workload = self.closed()
            kind, loads, rates = "closed", {"workload": workload}, []
        lines = ["", "[[cells]]", f'name = "{number}: {load}, {array}"', f'kind = "{kind}"', *rates]
        lines.append("[cells.options]")
        for key, value in (loads | options).items():
            quote = '"' if isinstance(value, str) else ""
            lines.append(f"{key} = {quote}{value}{quote}")
        return "\n".join(lines) + "\n"


def main():
    """Prints a grid."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("cells", type=int)
    parser.add_argument("seconds", type=int, nargs="?", default=120)
    args = parser.parse_args()
    draw = Draw(args.seed)
    print(HEAD.format(seed=args.seed, cells=args.cells, measure=args.seconds), end="")
    for number in range(args.cells):
        print(draw.cell(number), end="")


if __name__ == "__main__":
    main()
