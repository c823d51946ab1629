#!/usr/bin/env python3
"""Replays a trace through caches in plain Python, and compares what `destage` found.

    destage readcache-trace TRACE --policy lru,slru,2q,w-tinylfu,opt --format csv > read.csv
    destage writecache-trace TRACE --policy lrw,cscan,lst,bound --format csv > written.csv
    python3 tests/analysis/caches.py TRACE read.csv written.csv [--until NS]

The trace is read by readers.py. Caches and bounds are those of docs/readcache.md, on level 5, and
docs/simulator.md. Of readcache-trace, each row is compared: hits, RGR, ceiling, and where a row has
a hash, every hit and every evicted block. A policy that this script does not know is an error, but
means over failed disks are passed over. Prints what differs, and ends with 1 if anything does.
"""

import argparse
import csv
import heapq
import itertools
import math
import sys
from collections import Counter, OrderedDict, defaultdict

import readers

PAGE = 4096
CHUNK = 16
NEVER = 1 << 62
MASK = (1 << 64) - 1

FAULTS = []


def same(what, found, wanted):
    """Notes a difference; floats may differ by rounding."""
    if isinstance(wanted, float):
        ok = math.isclose(float(found), wanted, rel_tol=1e-9, abs_tol=1e-12)
    else:
        ok = found == str(wanted)
    if not ok:
        FAULTS.append(f"{what}: the program says {found}, Python {wanted}")


class Trace:
    """Requests as runs of pages of one address space."""

    def __init__(self, path, until):
        rows = [row[1:] for row in readers.records(path) if until is None or row[0] < until]
        end = max(-(-(place + size) // PAGE) for _, place, size, _ in rows)
        self.stride = -(-end // CHUNK) * CHUNK + CHUNK
        self.devices = sorted({row[0] for row in rows})
        self.reads = [self.pages(row) for row in rows if row[3] != "W"]
        self.writes = [self.pages(row) for row in rows if row[3] == "W"]

    def pages(self, row):
        device, place, size, _ = row
        first = self.devices.index(device) * self.stride
        if not size:
            return range(0)
        return range(first + place // PAGE, first - (-(place + size) // PAGE))


def next_uses(stream):
    """For each request of a stream, when its block is asked for again."""
    again, last = [NEVER] * len(stream), {}
    for now in range(len(stream) - 1, -1, -1):
        again[now] = last.get(stream[now], NEVER)
        last[stream[now]] = now
    return again


# Caches: access() of a held block, evict() of a full cache for a block, and load().


class Lru:
    """Evicts the least recently used block."""

    def __init__(self, size):
        self.held = OrderedDict()

    def __contains__(self, block):
        return block in self.held

    def access(self, block):
        self.held.move_to_end(block)

    def load(self, block):
        self.held[block] = None

    def evict(self, _block):
        return self.held.popitem(last=False)[0]


class Slru:
    """Evicts the oldest block on probation; a block asked for again is protected."""

    def __init__(self, size, protected=80):
        self.most = size * protected // 100
        self.probation, self.protected = OrderedDict(), OrderedDict()

    def __contains__(self, block):
        return block in self.probation or block in self.protected

    def access(self, block):
        self.probation.pop(block, None)
        self.protected[block] = None
        self.protected.move_to_end(block)
        if len(self.protected) > self.most:
            self.load(self.protected.popitem(last=False)[0])

    def load(self, block):
        self.probation[block] = None

    def victim(self):
        return next(iter(self.probation), None)

    def evict(self, _block):
        return self.probation.popitem(last=False)[0]


class TwoQ:
    """New blocks queue in A1in; those asked for again while A1out remembers them are in Am."""

    def __init__(self, size, **share):
        self.most_in = max(1, size * share.get("in", 25) // 100)
        self.most_out = max(1, size * share.get("out", 50) // 100)
        self.new, self.out, self.main = OrderedDict(), OrderedDict(), OrderedDict()
        self.remembered = None

    def __contains__(self, block):
        return block in self.new or block in self.main

    def access(self, block):
        if block in self.main:
            self.main.move_to_end(block)

    def evict(self, block):
        if block in self.out:
            del self.out[block]
            self.remembered = block
        if len(self.new) <= self.most_in and self.main:
            return self.main.popitem(last=False)[0]
        victim, _ = self.new.popitem(last=False)
        self.out[victim] = None
        if len(self.out) > self.most_out:
            self.out.popitem(last=False)
        return victim

    def load(self, block):
        queue = self.main if block == self.remembered else self.new
        queue[block] = None
        self.remembered = None


class Sketch:
    """How often blocks were asked for: a count-min sketch of four rows."""

    def __init__(self, size):
        self.length = 1 << (4 * size - 1).bit_length()
        self.rows = [bytearray(self.length) for _ in range(4)]
        self.until_halved = self.period = 10 * size

    def places(self, block):
        first = splitmix(block)
        step = splitmix(first) | 1
        return [(row, (first + at * step) % self.length) for at, row in enumerate(self.rows)]

    def estimate(self, block):
        return min(row[at] for row, at in self.places(block))

    def add(self, block):
        places = self.places(block)
        least = min(row[at] for row, at in places)
        for row, at in places:
            if row[at] == least < 15:
                row[at] += 1
        self.until_halved -= 1
        if self.until_halved == 0:
            self.until_halved = self.period - self.period // 2
            half = bytes(count // 2 for count in range(256))
            self.rows = [row.translate(half) for row in self.rows]


def splitmix(state):
    """One step of splitmix64."""
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class WTinyLfu:
    """Evicts the less often asked for: the oldest of a window, or the victim of the rest."""

    def __init__(self, size, window=1, protected=80):
        self.share = max(1, size * window // 100)
        self.window, self.rest = OrderedDict(), Slru(size - self.share, protected)
        self.sketch = Sketch(size)

    def __contains__(self, block):
        return block in self.window or block in self.rest

    def access(self, block):
        if block in self.window:
            self.window.move_to_end(block)
        else:
            self.rest.access(block)
        self.sketch.add(block)

    def evict(self, block):
        new, old = next(iter(self.window)), self.rest.victim()
        if old is None or self.sketch.estimate(new) <= self.sketch.estimate(old):
            del self.window[new]
            return new
        return self.rest.evict(block)

    def load(self, block):
        self.sketch.add(block)
        self.window[block] = None
        while len(self.window) > self.share:
            self.rest.load(self.window.popitem(last=False)[0])


class VdfLru:
    """Evicts, of the oldest light and the oldest heavy block, that of the greater weight."""

    def __init__(self, penalty, heavy):
        self.penalty, self.heavy, self.clock = penalty, heavy, 1
        self.classes = {1: OrderedDict(), heavy: OrderedDict()}

    def of(self, block):
        return self.classes[self.penalty(block)]

    def __contains__(self, block):
        return block in self.of(block)

    def access(self, block):
        self.load(block)
        self.of(block).move_to_end(block)

    def load(self, block):
        self.of(block)[block] = self.clock
        self.clock += 1

    def weight(self, kind):
        """The age of the oldest block of a class; that of a light one counts times the penalty."""
        block, stamp = next(iter(self.classes[kind].items()))
        age = (self.clock - stamp) * (self.heavy if kind == 1 else 1)
        return age, -stamp, block

    def evict(self, _block):
        block = max(self.weight(kind) for kind, held in self.classes.items() if held)[2]
        del self.of(block)[block]
        return block


class Belady:
    """Evicts the block that is asked for latest again."""

    def __init__(self, stream):
        self.again, self.now = next_uses(stream), 0
        self.held, self.heap = {}, []

    def __contains__(self, block):
        return block in self.held

    def access(self, block):
        self.load(block)

    def load(self, block):
        self.held[block] = self.again[self.now]
        heapq.heappush(self.heap, (-self.again[self.now], block))
        self.now += 1

    def evict(self, _block):
        while True:
            at, block = heapq.heappop(self.heap)
            if self.held.get(block) == -at:
                del self.held[block]
                return block


class Replay:
    """What a cache does with a stream of blocks."""

    def __init__(self, cache, size, stream, penalty, hashed=False):
        self.hits = self.cost = self.warm = self.warm_cost = held = 0
        self.hash = 1469598103934665603
        for block in stream:
            full, hit, victim = held == size, block in cache, None
            if hit:
                cache.access(block)
            else:
                victim = cache.evict(block) if full else None
                cache.load(block)
                held += not full
            price = 0 if hit else penalty(block)
            self.hits += hit
            self.cost += price
            self.warm += full
            self.warm_cost += price * full
            if hashed:
                self.event(hit, MASK if victim is None else victim)

    def event(self, hit, victim):
        """FNV-1a."""
        for byte in bytes([hit]) + victim.to_bytes(8, "little"):
            self.hash = ((self.hash ^ byte) * 1099511628211) & MASK


def penalty_of(disks, failed):
    """How many requests a missed block of a left-symmetric RAID-5 array costs."""

    def penalty(block):
        stripe, place = divmod(block // CHUNK, disks - 1)
        parity = disks - 1 - stripe % disks
        return disks - 1 if (parity + 1 + place) % disks == failed else 1

    return penalty


def misses(stream, size):
    """Of Belady's optimum."""
    return len(stream) - Replay(Belady(stream), size, stream, lambda _: 1).hits


def full_from(stream, size):
    """The first request after which more different blocks than fit were asked for."""
    seen = set()
    for now, block in enumerate(stream):
        seen.add(block)
        if len(seen) > size:
            return now
    return len(stream)


def bound_by_price(stream, size, penalty):
    """Holds blocks for their next request: first those that save most per request held."""
    first = full_from(stream, size)
    total, gaps = 0, []
    for now, again in enumerate(next_uses(stream)):
        total += penalty(stream[now])
        if again != NEVER:
            priced = max(0, again - max(now + 1, first))
            gaps.append((penalty(stream[now]), priced))
    gaps.sort(key=lambda gap: gap[1] / gap[0])
    room = (size - 1) * (len(stream) - first)
    for saved, priced in gaps:
        if priced > room:
            return total - saved * room / priced
        room -= priced
        total -= saved
    return total


def read_bound(stream, size, penalty):
    """Hits that no cache exceeds, and requests to the disks that none undercuts."""
    lost = [block for block in stream if penalty(block) > 1]
    heavy = max(map(penalty, stream))
    least = misses(stream, size)
    by_misses = least + (heavy - 1) * misses(lost, size)
    by_price = math.ceil(bound_by_price(stream, size, penalty) - 1e-6)
    return len(stream) - least, max(by_misses, by_price)


def parameters(policy):
    name, _, rest = policy.partition(":")
    pairs = (part.split("=") for part in rest.split(",") if part)
    return name, {key: int(value) for key, value in pairs}


def cache_of(policy, size, stream, penalty, disks):
    name, values = parameters(policy)
    if name == "opt":
        return Belady(stream)
    if name == "vdf-lru":
        return VdfLru(penalty, disks - 1)
    return {"lru": Lru, "slru": Slru, "2q": TwoQ, "w-tinylfu": WTinyLfu}[name](size, **values)


def check_read(row, stream):
    size, disks, policy = int(row["blocks"]), int(row["disks"]), row["policy"]
    failed = None if row["failed"] == "none" else int(row["failed"])
    penalty = penalty_of(disks, failed)
    what = f"{policy}, {size} blocks, {disks} disks, failed {row['failed']}:"
    same(f"{what} requests", row["requests"], len(stream))
    more = 0 if failed is None else (disks - 2) / disks
    same(f"{what} ceiling", row["ceiling_percent"], 100 * more / (1 + more))
    if policy == "bound":
        hits, cost = read_bound(stream, size, penalty)
        same(f"{what} hit ratio", row["hit_ratio"], hits / len(stream))
        same(f"{what} RGR", row["rgr"], cost / len(stream))
        return
    # Which of several blocks the optimum evicts that are never asked for again is open.
    hashed = bool(row["hash"]) and policy != "opt"
    cache = cache_of(policy, size, stream, penalty, disks)
    replay = Replay(cache, size, stream, penalty, hashed)
    same(f"{what} hit ratio", row["hit_ratio"], replay.hits / len(stream))
    same(f"{what} RGR", row["rgr"], replay.cost / len(stream))
    if replay.warm:
        same(f"{what} RGR warm", row["rgr_warm"], replay.warm_cost / replay.warm)
    if hashed:
        same(f"{what} hash", row["hash"], f"{replay.hash:016x}")


class Nvs:
    """Groups with the pages that are dirty; a choice says which group is destaged next."""

    def __init__(self, size, group_pages, choice):
        self.size, self.group_pages, self.choose = size, group_pages, choice
        self.groups, self.held = OrderedDict(), 0
        self.destages = self.destaged = self.pointer = 0

    def write(self, pages):
        while self.missing(pages) > self.size - self.held:
            self.destage(self.choose(self))
        for page in pages:
            group = self.groups.setdefault(page // self.group_pages, set())
            self.held += page not in group
            group.add(page)
            self.groups.move_to_end(page // self.group_pages)

    def missing(self, pages):
        return sum(page not in self.groups.get(page // self.group_pages, ()) for page in pages)

    def destage(self, group):
        pages = len(self.groups.pop(group))
        self.held -= pages
        self.destages += 1
        self.destaged += pages


def lrw(nvs):
    return next(iter(nvs.groups))


def lst(nvs):
    return max(nvs.groups, key=lambda group: len(nvs.groups[group]))


def cscan(nvs):
    above = [group for group in nvs.groups if group >= nvs.pointer]
    group = min(above or nvs.groups)
    nvs.pointer = group + 1
    return group


def destage_all(nvs, writes):
    for pages in writes:
        nvs.write(pages)
    while nvs.groups:
        nvs.destage(nvs.choose(nvs))
    return nvs.destages, nvs.destaged


class Runs:
    """The cheapest way to destage one group at a price for each page held over a step.

    A run is what is held from one destage to the next. Of the runs that are open, those that began
    earlier hold more, so one is kept only while it costs less than all later ones. A cost comes
    with its destages, and with its pages held, summed over the steps that have a price.
    """

    def __init__(self, price, first):
        self.price, self.first = price, first
        # First write, cost, destages, pages held so far, and pages that it holds; newest first.
        self.open = []
        self.last, self.count, self.step = {}, 0, 0
        self.best = (0.0, 0, 0)

    def priced(self, begin, end):
        return max(0, end - max(begin, self.first))

    def write(self, page, step):
        before, steps = self.last.get(page, -1), self.priced(self.step, step)
        price = self.price * steps
        runs = [(self.count, *self.best, 1)]
        for begin, cost, destages, held, size in self.open:
            now = cost + price * size
            if now < runs[-1][1]:
                runs.append((begin, now, destages, held + size * steps, size + (before < begin)))
        self.last[page], self.step, self.open = self.count, step, runs
        self.count += 1
        # The page is held for a step at least.
        steps = self.priced(step, step + 1)
        price = self.price * steps
        self.best = min(
            (cost + price * size + 1, destages + 1, held + size * steps)
            for _, cost, destages, held, size in runs
        )


def cheapest(by_group, price, first):
    """Destages, and pages held over priced steps, of the cheapest choices at a price."""
    destages = held = 0
    for steps in by_group.values():
        runs = Runs(price, first)
        for step, page in steps:
            runs.write(page, step)
        destages += runs.best[1]
        held += runs.best[2]
    return destages, held


def fewest_destages(stream, size, group_pages):
    """The best bound by a price: the least sum less price x size per step, for the best price.

    As a function of the price it is concave, and each evaluation gives a line that is nowhere
    below it. The next price is where the lowest lines to the left and to the right cross.
    """
    by_group = defaultdict(list)
    for step, page in enumerate(stream):
        by_group[page // group_pages].append((step, page))
    first = full_from(stream, size)
    room = size * (len(stream) - first)
    left, right = cheapest(by_group, 0.0, first), (len(stream), len(stream) - first)
    while True:
        rise, fall = left[1] - room, right[1] - room
        if rise <= 0 or fall >= 0:
            return left[0]
        price = (right[0] - left[0]) / (rise - fall)
        most = left[0] + price * rise
        middle = cheapest(by_group, price, first)
        value = middle[0] + price * (middle[1] - room)
        if value > most - 1e-7:
            return math.ceil(value - 1e-6)
        if middle[1] > room:
            left = middle
        else:
            right = middle


def check_written(row, writes, group_pages, found):
    size, policy = int(row["nvs_pages"]), row["policy"]
    stream = list(itertools.chain(*writes))
    what = f"{policy}, an NVS of {size} pages:"
    same(f"{what} pages written", row["written_pages"], len(stream))
    if policy == "bound":
        destages, pages = fewest_destages(stream, size, group_pages), misses(stream, size)
    else:
        choice = {"lrw": lrw, "lst": lst, "cscan": cscan}[policy]
        destages, pages = destage_all(Nvs(size, group_pages, choice), writes)
    same(f"{what} destages", row["destages"], destages)
    same(f"{what} pages destaged", row["destaged_pages"], pages)
    found[policy] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("found", nargs="+", help="CSV of readcache-trace or writecache-trace")
    parser.add_argument("--until", type=int, help="only requests before this time in ns")
    parser.add_argument("--group-pages", type=int, default=64)
    words = parser.parse_args()
    trace = Trace(words.trace, words.until)
    stream, found = list(itertools.chain(*trace.reads)), Counter()
    for path in words.found:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if "nvs_pages" in row:
                check_written(row, trace.writes, words.group_pages, found)
            elif row["failed"] != "mean":
                check_read(row, stream)
                found[parameters(row["policy"])[0]] += 1
    for fault in FAULTS[:20]:
        print(fault)
    counts = ", ".join(f"{count} {name}" for name, count in found.items())
    print(f"rows: {counts}; {len(FAULTS)} differences")
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
