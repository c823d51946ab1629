#!/usr/bin/env python3
"""Computes every figure of `destage trace analyze --format json` again, in plain Python.

    destage trace convert TRACE copy.csv
    destage trace analyze TRACE --format json > found.json
    python3 tests/analysis/check.py copy.csv found.json [--device N]

Each definition of docs/traces.md is taken literally, without the algorithms of the program: reuse
distances are counted between two accesses of a page, and miss ratios are those of simulated LRU
caches. Prints what differs, and ends with 1 if anything does.
"""

import argparse
import csv
import json
import math
import sys
from bisect import bisect_left
from collections import Counter, OrderedDict, defaultdict

PAGE = 4096
# Nanoseconds.
SECOND = 10**9
LENGTHS = [10**7, 5 * 10**7, 10**8, 5 * 10**8] + [
    s * 10**9
    for s in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 12 * 3600)
    + tuple(86400 * d for d in (1, 10, 100, 1000))
]
WINDOWS = [s * 10**9 for s in (1, 10, 60, 600, 3600, 6 * 3600, 86400)]
HOTTEST = [1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000]
# Above this number of accesses, reuse distances are not counted one by one.
LITERAL = 20_000

FAULTS = []


def same(what, found, wanted):
    """Notes a difference; floats may differ by rounding."""
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        ok = math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
    elif isinstance(wanted, dict) and isinstance(found, dict):
        same(what + " keys", sorted(found), sorted(wanted))
        for key in set(found) & set(wanted):
            same(f"{what}.{key}", found[key], wanted[key])
        return
    elif isinstance(wanted, list) and isinstance(found, list):
        same(what + " length", len(found), len(wanted))
        for at, pair in enumerate(zip(found, wanted)):
            same(f"{what}[{at}]", *pair)
        return
    else:
        ok = found == wanted
    if not ok:
        FAULTS.append(f"{what}: the program says {found}, Python {wanted}")


class Request:
    def __init__(self, row, first_ns):
        self.time = int(row["time_ns"]) - first_ns
        self.device = int(row["device"])
        self.offset = int(row["offset_bytes"])
        self.bytes = int(row["length_bytes"])
        self.end = self.offset + self.bytes
        self.writes = row["op"].strip().upper().startswith("W")
        self.unknown = row["op"].strip().upper()[:1] not in ("R", "W")
        touched = range(self.offset // PAGE, -(-self.end // PAGE)) if self.bytes else ()
        self.pages = [(self.device, page) for page in touched]


def read(path, device):
    with open(path, newline="") as file:
        rows = [r for r in csv.DictReader(file) if device is None or int(r["device"]) == device]
    first = int(rows[0]["time_ns"])
    return [Request(row, first) for row in rows]


def totals(requests):
    reads = [r.bytes for r in requests if not r.writes]
    writes = [r.bytes for r in requests if r.writes]
    return {
        "reads": len(reads),
        "writes": len(writes),
        "read_bytes": sum(reads),
        "written_bytes": sum(writes),
    }


def distinct(requests):
    return {
        "all": len({page for r in requests for page in r.pages}),
        "read": len({page for r in requests if not r.writes for page in r.pages}),
        "written": len({page for r in requests if r.writes for page in r.pages}),
    }


def parts(requests, length):
    found = defaultdict(list)
    for request in requests:
        found[request.time // length].append(request)
    return found


def peak_second(requests, duration):
    if duration < SECOND:
        return None
    by_second = parts(requests, SECOND)
    most = max(len(part) for part in by_second.values())
    first = min(at for at, part in by_second.items() if len(part) == most)
    return {"start_s": float(first), "length_s": 1.0, "total": totals(by_second[first])}


def peak_minute(requests, duration):
    """Of every 60 consecutive seconds, those with the most requests."""
    if duration < 60 * SECOND:
        return {"start_s": 0.0, "length_s": duration / 1e9, "total": totals(requests)}
    times = [request.time for request in requests]
    most, busiest = 0, None
    for start in range(duration // SECOND - 59 + 1):
        inside = slice(
            bisect_left(times, start * SECOND), bisect_left(times, (start + 60) * SECOND)
        )
        if inside.stop - inside.start > most:
            most, busiest = inside.stop - inside.start, (start, inside)
    start, inside = busiest
    return {"start_s": float(start), "length_s": 60.0, "total": totals(requests[inside])}


def over_time(requests):
    duration = requests[-1].time
    if duration == 0:
        return None
    length = next(n for n in LENGTHS if duration // n + 1 <= 360)
    by_part = parts(requests, length)
    intervals, seen = [], set()
    for at in range(duration // length + 1):
        part = by_part.get(at, [])
        seen.update(page for r in part for page in r.pages)
        intervals.append(
            {"total": totals(part), "pages": distinct(part), "footprint_pages": len(seen)}
        )
    sets = []
    for window in (w for w in WINDOWS if w <= duration):
        count = duration // window + 1
        pages = [distinct(part) for part in parts(requests, window).values()]
        mean = {key: sum(p[key] for p in pages) / count for key in ("all", "read", "written")}
        sets.append({
            "window_s": window / 1e9,
            "windows": count,
            "pages_mean": mean["all"],
            "read_pages_mean": mean["read"],
            "written_pages_mean": mean["written"],
            "pages_max": {key: max(p[key] for p in pages) for key in ("all", "read", "written")},
        })
    total = totals(requests)
    return {
        "requests_per_s": len(requests) / (duration / 1e9),
        "bytes_per_s": (total["read_bytes"] + total["written_bytes"]) / (duration / 1e9),
        "peak_minute": peak_minute(requests, duration),
        "peak_second": peak_second(requests, duration),
        "interval_s": length / 1e9,
        "intervals": intervals,
        "hours": [
            {"hour": hour, "total": totals(part)}
            for hour, part in sorted(parts(requests, 3600 * 10**9).items())
        ],
        "working_sets": sets,
    }


def size_figures(sizes):
    if not sizes:
        return None
    sizes = sorted(sizes)
    at = {p: sizes[-(-p * len(sizes) // 100) - 1] for p in (50, 90, 99)}
    return {
        "mean_bytes": sum(sizes) / len(sizes),
        "p50_bytes": at[50],
        "p90_bytes": at[90],
        "p99_bytes": at[99],
        "max_bytes": sizes[-1],
    }


def sizes(requests):
    bounds = [0, 512]
    while bounds[-1] < max(r.bytes for r in requests):
        bounds.append(2 * bounds[-1])
    classes = []
    for at, bound in enumerate(bounds):
        inside = [r for r in requests if r.bytes <= bound and (at == 0 or r.bytes > bounds[at - 1])]
        count = totals(inside)
        classes.append({"to_bytes": bound, "reads": count["reads"], "writes": count["writes"]})
    while classes and not classes[0]["reads"] + classes[0]["writes"]:
        classes.pop(0)
    while classes and not classes[-1]["reads"] + classes[-1]["writes"]:
        classes.pop()
    return {
        "reads": size_figures([r.bytes for r in requests if not r.writes]),
        "writes": size_figures([r.bytes for r in requests if r.writes]),
        "classes": classes,
    }


def sequential(requests):
    found = Counter()
    ends = defaultdict(list)
    for request in requests:
        before = ends[request.device]
        name = "writes" if request.writes else "reads"
        found[name] += bool(before) and before[-1] == request.offset
        found[name + "_in_streams"] += request.offset in before[-32:]
        before.append(request.end)
    names = ("reads", "writes", "reads_in_streams", "writes_in_streams")
    return {"streams": 32, **{name: found[name] for name in names}}


def cache_sizes(pages):
    """1 to 8, then four for each power of two, up to the first that holds all pages."""
    found = list(range(1, 9))
    while found[-1] < pages:
        found += [found[-1] * quarter // 4 for quarter in (5, 6, 7, 8)]
    return found[: next(at for at, size in enumerate(found) if size >= pages) + 1]


def literal_distances(accesses):
    """Distinct other pages between two accesses of one page; None for a first access."""
    last = {}
    for at, page in enumerate(accesses):
        before = last.get(page)
        yield None if before is None else len(set(accesses[before + 1 : at]))
        last[page] = at


def lru_misses(accesses, size):
    cache, misses = OrderedDict(), 0
    for page in accesses:
        if page in cache:
            cache.move_to_end(page)
            continue
        misses += 1
        if len(cache) == size:
            cache.popitem(last=False)
        cache[page] = None
    return misses


def check_reuse(what, found, accesses):
    pages = len(set(accesses))
    same(what + ".accesses", found["accesses"], len(accesses))
    same(what + ".first_touches", found["first_touches"], pages)
    wanted = cache_sizes(pages) if accesses else []
    same(what + ".caches", [cache["pages"] for cache in found["caches"]], wanted)
    if [cache["pages"] for cache in found["caches"]] != wanted:
        return
    short = len(accesses) <= LITERAL
    reuses, misses = 0, len(accesses)
    for at, cache in enumerate(found["caches"]):
        misses -= cache["reuses"]
        reuses += cache["reuses"]
        ratio = misses / len(accesses)
        same(f"{what}.caches[{at}].miss_ratio", cache["miss_ratio"], ratio)
        # An LRU cache of some sizes, so that long traces take seconds.
        if short or at % 8 == 7:
            same(f"{what} misses of {cache['pages']} pages", misses, lru_misses(accesses, cache["pages"]))
    same(what + " reuses", reuses, len(accesses) - pages)
    if short:
        distances = [d for d in literal_distances(accesses) if d is not None]
        bounds = [0] + wanted
        for at, cache in enumerate(found["caches"]):
            inside = sum(bounds[at] <= d < bounds[at + 1] for d in distances)
            same(f"{what}.caches[{at}].reuses", cache["reuses"], inside)


def hottest(accesses):
    counts = sorted(Counter(accesses).values(), reverse=True)
    found = []
    for per_mille in HOTTEST if counts else ():
        pages = -(-len(counts) * per_mille // 1000)
        top = sum(counts[:pages])
        found.append({
            "pages_percent": per_mille / 10,
            "pages": pages,
            "accesses": top,
            "share": top / len(accesses),
        })
    return found


def heat(requests):
    reads = [page for r in requests if not r.writes for page in r.pages]
    writes = [page for r in requests if r.writes for page in r.pages]
    devices = []
    counts = Counter(device for device, _ in reads + writes)
    for device, accesses in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:8]:
        own_reads = [page for d, page in reads if d == device]
        own_writes = [page for d, page in writes if d == device]
        end = max(own_reads + own_writes) + 1
        part = -(-end // 128)
        by_read = Counter(page // part for page in own_reads)
        by_write = Counter(page // part for page in own_writes)
        by_pages = Counter(page // part for page in set(own_reads + own_writes))
        devices.append({
            "device": device,
            "accesses": accesses,
            "part_pages": part,
            "parts": [
                {"reads": by_read[at], "writes": by_write[at], "pages": by_pages[at]}
                for at in range(-(-end // part))
            ],
        })
    return {
        "all": hottest(reads + writes),
        "reads": hottest(reads),
        "writes": hottest(writes),
        "devices": devices,
    }


def check(found, requests):
    same("page_bytes", found["page_bytes"], PAGE)
    same("devices", found["devices"], len({r.device for r in requests}))
    same("total", found["total"], totals(requests))
    same("unknown", found["unknown"], sum(r.unknown for r in requests))
    same("pages", found["pages"], distinct(requests))
    if found["duration_s"] is not None:
        same("duration_s", found["duration_s"], requests[-1].time / 1e9)
    same("time", found["time"], over_time(requests))
    same("sizes", found["sizes"], sizes(requests))
    same("sequential", found["sequential"], sequential(requests))
    for name, writes in (("read_reuse", False), ("write_reuse", True)):
        accesses = [page for r in requests if r.writes == writes for page in r.pages]
        check_reuse(name, found[name], accesses)
    same("heat", found["heat"], heat(requests))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="plain CSV")
    parser.add_argument("analysis", help="JSON of one trace")
    parser.add_argument("--device", type=int)
    words = parser.parse_args()
    with open(words.analysis) as file:
        report = json.load(file)
    same("traces", len(report["traces"]), 1)
    requests = read(words.trace, words.device)
    check(report["traces"][0], requests)
    for fault in FAULTS[:20]:
        print(fault)
    print(f"{len(requests)} requests, {len(FAULTS)} differences")
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
