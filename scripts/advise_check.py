#!/usr/bin/env python3
"""Checks what `destage advise` recommends, by runs ten times as long.

Each load of LOADS, and each trace at hand, is asked about. The answer is simulated with `destage
sim` ten times as long, with each of three seeds that the search did not use; a trace is replayed
ten times in succession. Then every policy and threshold is simulated for as long two steps below
the answer: if one reaches the goal with every seed, the answer is more than one step larger than
needed. Where ten windows do not decide, a run of a hundred does: if dirty pages still rise at the
end of the ten, and before a smaller size counts as one that holds. What was done is kept, so that
an interrupted check continues.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TIMES = 10
LONGEST = 100
SEEDS = (9001, 9002, 9003)
# A run that serves less of its target does not sustain the load.
SERVED_LEAST = 0.97

# name, load, goal
LOADS = [
    ("spc1 400", ["--workload", "spc1", "--iops", "400"], "p99<60ms"),
    ("spc1 700", ["--workload", "spc1", "--iops", "700"], "p99<60ms"),
    ("spc1 900, mean", ["--workload", "spc1", "--iops", "900"], "mean<20ms"),
    ("spc1 1300, full", ["--workload", "spc1", "--iops", "1300"], "full<1%"),
    ("spc1 1700, overload", ["--workload", "spc1", "--iops", "1700"], "writes.p99<1ms,full<1%"),
    ("uniform 300", ["--workload", "uniform:iops=300"], "writes.p99<10ms"),
    ("uniform 1000, overload", ["--workload", "uniform:iops=1000"], "full<1%"),
    ("hot/cold 400", ["--workload", "hotcold:iops=400"], "p99<40ms"),
    ("hot/cold 800", ["--workload", "hotcold:iops=800"], "p95<30ms"),
    ("zipf 600", ["--workload", "zipf:iops=600"], "p99<60ms"),
    ("zipf 900, full", ["--workload", "zipf:iops=900"], "writes.mean<5ms,full<2%"),
    ("mix 600", ["--workload", "mix:0.7*hotcold+0.3*sequential,iops=600"], "p99<50ms"),
]

# file, goal, options
TRACES = [
    ("cloudPhysicsIO.vscsi.gz", "p99<30ms", []),
    ("ajw.1week.srt.gz", "p99<100ms", ["--trace-device", "0"]),
    ("DTRS100M.trace.gz", "p99<40ms", []),
    ("disksim_ascii.trace.gz", "p99<60ms", []),
    ("ssdsim_example_fin1_first10k.ascii", "p99<60ms", []),
    ("msr_hm_0_first899.csv", "p99<60ms", []),
]


class Check:
    """One question and its checks."""

    def __init__(self, args, name, load, goal, trace=None):
        """A load, by the options that make it, and the goal for it."""
        self.args, self.name, self.goal = args, name, goal
        # The trace ten times in succession, with the options that it is replayed with.
        self.trace = trace
        self.load = load if trace else [*load, "--measure", str(args.window)]

    def run(self, words):
        """Standard output of destage as JSON."""
        words = [str(self.args.destage), *words, "--format", "json"]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr.strip())
        return json.loads(ran.stdout)

    def advise(self):
        """What `destage advise` says of it."""
        words = ["advise", *self.load, "--goal", self.goal]
        words += [
            "--policies",
            ",".join(self.args.policies),
            "--try-thresholds",
            ",".join(self.args.thresholds),
        ]
        words += ["--sizes", self.args.sizes, "--threads", str(self.args.threads)]
        return self.run(words + ([] if self.trace else ["--seeds", "2"]))

    def simulate(self, pages, policy, thresholds, times, seed=None):
        """That many windows, or a trace that many times in succession."""
        words = ["sim", "--as", "served", "--policy", policy, "--nvs", str(pages)]
        words += ["--thresholds", thresholds]
        if self.trace:
            words += ["--trace", *self.trace, "--prefill", "on"]
        else:
            words += [*self.load[:-1], str(self.args.window * times), "--seed", str(seed)]
        return self.run(words)

    def longer(self, pages, policy, thresholds):
        """Ten times as long: why it does not hold, or nothing; and the worst figure."""
        worst = {"ratio": -1.0}
        high = float(thresholds.split("/")[0])
        for seed in SEEDS if not self.trace else [None]:
            variant = (pages, policy, thresholds)
            report = self.simulate(*variant, TIMES, seed)
            why, figure = judge(report, self.goal, pages, high)
            if not why and not self.trace and rises(report["balance"], report["measured_s"]):
                report = self.simulate(*variant, LONGEST, seed)
                why, figure = judge(report, self.goal, pages, high)
                why = f"{LONGEST} times: {why}" if why else ""
            if figure["ratio"] > worst["ratio"]:
                worst = figure
            if why:
                return why, worst
        return "", worst

    def result(self):
        """Its row of the table: the answer, and what longer runs say of it."""
        began = time.monotonic()
        advice = self.advise()
        answer = advice["answer"]
        row = {"name": self.name, "goal": self.goal, "answer": None, "below": None}
        sizes = advice["sizes_pages"]
        largest_run = max(run["nvs_pages"] for run in advice["runs"])
        if answer:
            why, figure = self.longer(answer["nvs_pages"], answer["policy"], answer["thresholds"])
            row["answer"] = {key: answer[key] for key in ("nvs_pages", "policy", "thresholds")}
            row["answer"] |= {"why": why, "figure": figure}
            at = sizes.index(answer["nvs_pages"]) - 2
        else:
            at = sizes.index(largest_run)
        if at >= 0:
            row["below"] = self.below(sizes[at])
        row["unsustainable"] = bool(answer) and bool(row["answer"]["why"])
        row["too_large"] = bool(row["below"] and row["below"]["reached_by"])
        row["seconds"] = round(time.monotonic() - began)
        return row

    def below(self, pages):
        """Whether some variant holds at this size, ten times as long."""
        nearest = None
        for policy in self.args.policies:
            for thresholds in self.args.thresholds:
                why, figure = self.longer(pages, policy, thresholds)
                variant = f"{policy} {thresholds}"
                if not why and not self.trace:
                    report = self.simulate(pages, policy, thresholds, LONGEST, SEEDS[0])
                    why, figure = judge(report, self.goal, pages, 0.0)
                    why = f"{LONGEST} times as long: {why}" if why else ""
                if not why:
                    return {"nvs_pages": pages, "reached_by": variant, "figure": figure}
                if nearest is None or figure["ratio"] < nearest[1]["ratio"]:
                    nearest = (variant, figure, why)
        return {
            "nvs_pages": pages,
            "reached_by": None,
            "nearest": nearest[0],
            "why": nearest[2],
            "figure": nearest[1],
        }


def rises(balance, seconds):
    """Whether dirty pages rise, by the fit or by a fiftieth of those dirtied."""
    more = balance["dirty_pages_last"] - balance["dirty_pages_first"]
    return balance["state"] == "rising" or more > balance["dirtied_pages_per_s"] * seconds / 50


def judge(report, goal, pages, high):
    """Judges a run by the goal, from its own figures: the rules are written here again."""
    worst = {"ratio": -1.0}
    for part in goal.split(","):
        name, limit = part.split("<")
        if name == "full":
            value, limit = 100.0 * report["time_full"], float(limit.removesuffix("%"))
        else:
            kind, figure = (
                name.split(".", 1) if name.startswith(("reads.", "writes.")) else ("all", name)
            )
            field = figure.replace("p99.9", "p999") + "_ms"
            value, limit = report["response"][kind][field], float(limit.removesuffix("ms"))
        if value / limit > worst["ratio"]:
            worst = {"name": name, "value": round(value, 3), "ratio": value / limit}
    target, balance = report["target_iops"], report["balance"]
    waited = report["host_wait"]["requests"] / max(1, report["response"]["all"]["count"])
    if target and report["iops"] < SERVED_LEAST * target:
        return f"{report['iops']:.0f} of {target:.0f} I/O/s served", worst
    first, last = balance["dirty_pages_first"], balance["dirty_pages_last"]
    # A trace may end in a burst if the disks had time for it.
    busy = max(disk["utilisation"] for disk in report["disks"])
    destaged = balance["destaged_pages_per_s"] * report["measured_s"]
    lasts = (last - first) * busy < destaged * (1 - busy)
    if not target and last > first and last > high / 100 * pages and not lasts:
        return f"ends with {last} dirty pages, and began with {first}", worst
    if waited > 0.01:
        return f"{100 * waited:.1f} % waited at the host", worst
    return (f"{worst['name']} {worst['value']}" if worst["ratio"] >= 1 else ""), worst


def repeated(args, source, into):
    """The trace ten times in succession, as a CSV file of destage's own columns."""
    if into.exists():
        return
    once = into.with_suffix(".once.csv")
    words = [str(args.destage), "trace", "convert", str(source), str(once), "--force"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip())
    with once.open(newline="") as file:
        rows = list(csv.reader(file))
    head, rows = rows[0], rows[1:]
    column = next(i for i, name in enumerate(head) if name.startswith("time"))
    number = float if "." in rows[-1][column] else int
    times = [number(row[column]) for row in rows]
    length = max(times) - min(times)
    length += length / len(times) if number is float else length // len(times)
    unfinished = into.with_suffix(".part")
    with unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        for turn in range(TIMES):
            for row, at in zip(rows, times):
                copy = list(row)
                copy[column] = at + turn * length
                writer.writerow(copy)
    unfinished.rename(into)
    once.unlink()


def checks(args):
    for name, load, goal in LOADS:
        yield name, lambda name=name, load=load, goal=goal: Check(args, name, load, goal)
    for name, goal, options in TRACES:
        source = args.traces / name

        def make(name=name, goal=goal, options=options, source=source):
            into = args.out / f"{name}.ten.csv"
            repeated(args, source, into)
            return Check(args, name, [str(source), *options], goal, trace=[str(into), *options])

        if source.exists():
            yield name, make
        else:
            print(f"SKIPPED {name}: {args.traces} does not have it", file=sys.stderr)


def table(rows):
    lines = [
        "| load | goal | answer | ten times as long | two steps below, nearest of all |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        answer, below = row["answer"], row["below"]
        if answer:
            first = f"{answer['nvs_pages']:,} pages, {answer['policy']}, {answer['thresholds']}"
            second = answer["why"] or f"{answer['figure']['name']} {answer['figure']['value']:.2f}"
            second = f"**{second}**" if row["unsustainable"] else second
        else:
            first, second = "none of the sizes", "-"
        third = "-"
        if below and below["reached_by"]:
            third = f"**{below['nvs_pages']:,}: {below['reached_by']} reaches it**"
        elif below:
            third = f"{below['nvs_pages']:,}: {below['nearest']}, {below['why']}"
        lines.append(f"| {row['name']} | `{row['goal']}` | {first} | {second} | {third} |")
    return "\n".join(lines)


def listed(text):
    return text.split(",")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--destage", type=Path, default=Path("target/release/destage"))
    parser.add_argument("--out", type=Path, default=Path("target/advise-check"))
    default = os.environ.get("DESTAGE_TRACES", "../shared/traces")
    parser.add_argument("--traces", type=Path, default=Path(default))
    parser.add_argument("--window", type=int, default=60, help="seconds that the search measures")
    parser.add_argument("--sizes", default="64..524288")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--policies", type=listed, default="wow,stow")
    parser.add_argument("--thresholds", type=listed, default="70/40")
    only = "names of the loads to ask about, joined by semicolons"
    parser.add_argument("--only", type=lambda text: text.split(";"), help=only)
    parser.add_argument("--minutes", type=float, help="begin no further load after this time")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    build = hashlib.sha256(args.destage.read_bytes()).hexdigest()[:16]
    began, rows, left = time.monotonic(), [], 0
    for name, make in checks(args):
        if args.only and name not in args.only:
            continue
        place = args.out / (hashlib.sha256(name.encode()).hexdigest()[:12] + ".json")
        key = [build, args.window, args.sizes, args.policies, args.thresholds, name]
        if place.exists() and (kept := json.loads(place.read_text()))["key"] == key:
            rows.append(kept["row"])
            continue
        if args.minutes is not None and time.monotonic() - began > 60 * args.minutes:
            left += 1
            continue
        try:
            row = make().result()
        except RuntimeError as why:
            sys.exit(f"advise_check: {name}: {why}")
        print(f"{name}: {row['seconds']} s", file=sys.stderr, flush=True)
        unfinished = place.with_suffix(".part")
        unfinished.write_text(json.dumps({"key": key, "row": row}, indent=1))
        unfinished.rename(place)
        rows.append(row)
    unsustainable = [row["name"] for row in rows if row["unsustainable"]]
    too_large = [row["name"] for row in rows if row["too_large"]]
    print(table(rows))
    bad = f"unsustainable: {'; '.join(unsustainable) or 'none'}"
    large = f"more than one step larger than needed: {'; '.join(too_large) or 'none'}"
    print(f"\n{len(rows)} checked, {left} left; {bad}; {large}")
    return 1 if unsustainable or too_large else 0


if __name__ == "__main__":
    sys.exit(main())
