"""What a volume may hold after a crash, byte by byte, and whether it does.

`sure` is what must be there, `known` says for each byte whether anything is promised of it (a
trimmed one may read as anything until it is written again). Over that lie pending parts: writes
that were answered but not flushed, and, when it comes to a crash, those that were not answered.
Any of them may be there or not, each sector of each for itself.
"""

SECTOR = 512


class Report:
    """The result of a comparison."""

    def __init__(self):
        self.wrong_sectors = 0
        self.lost_writes = 0
        self.torn = 0
        self.first = None


class Part:
    """A write that may be there or not after a crash."""

    def __init__(self, offset, data, order):
        self.offset = offset
        self.data = data
        # Its place among the answers, None while there is none.
        self.order = order

    def sectors(self):
        return range(self.offset // SECTOR, (self.offset + len(self.data) - 1) // SECTOR + 1)

    def cut(self, sector):
        """(place in the sector, bytes) of what it writes there."""
        start = max(self.offset, sector * SECTOR)
        end = min(self.offset + len(self.data), (sector + 1) * SECTOR)
        return start - sector * SECTOR, self.data[start - self.offset:end - self.offset]


def put(state, place, data):
    """A sector's state (bytes, known) with a write on top."""
    old, known = state
    end = place + len(data)
    return (old[:place] + data + old[end:],
            known[:place] + b"\1" * len(data) + known[end:])


def fits(state, found):
    """Whether every byte that is promised is the one found."""
    wanted, known = state
    if wanted == found:
        return True
    return all(not k or w == f for w, k, f in zip(wanted, known, found))


class Model:
    """The expected contents of the first `span` bytes of a volume."""

    def __init__(self, span):
        self.span = span
        self.sure = bytearray(span)
        self.known = bytearray(b"\1" * span)
        # For each sector the last answered write that is sure: to count writes, not sectors.
        self.owner = [0] * (span // SECTOR)
        self.answers = 0
        self.pending = []

    def answered(self, offset, data, durable):
        """A write was answered; with `durable` it must survive from now on."""
        self.answers += 1
        part = Part(offset, data, self.answers)
        if durable:
            # What was pending below it: covered where they overlap, still open elsewhere.
            self.settle(part)
            self.pending = [p for part_of in self.pending for p in without(part_of, part)]
        else:
            self.pending.append(part)

    def flushed(self, upto):
        """A flush was answered that was sent when `upto` writes had been."""
        durable = [part for part in self.pending if part.order <= upto]
        self.pending = [part for part in self.pending if part.order > upto]
        for part in durable:
            self.settle(part)

    def settle(self, part):
        end = part.offset + len(part.data)
        self.sure[part.offset:end] = part.data
        self.known[part.offset:end] = b"\1" * len(part.data)
        for sector in part.sectors():
            self.owner[sector] = part.order

    def forget(self, offset, length):
        """The range may read as anything until it is written again."""
        self.known[offset:offset + length] = bytes(length)
        hole = Part(offset, bytes(length), 0)
        self.pending = [p for part in self.pending for p in without(part, hole)]

    def verify(self, found, in_flight):
        """Compares and continues from what was found."""
        report = Report()
        flying = [Part(offset, data, None) for offset, data in in_flight]
        touched = {}
        for part in self.pending + flying:
            for sector in part.sectors():
                touched.setdefault(sector, []).append(part)
        lost = set()
        for sector in range(self.span // SECTOR):
            if not self.sector_fits(sector, found, touched.get(sector, ())):
                lost.add(self.owner[sector])
                report.wrong_sectors += 1
                report.first = report.first if report.first is not None else sector * SECTOR
        report.lost_writes = len(lost)
        report.torn = sum(1 for part in flying if self.torn(part, found))
        self.adopt(found, touched)
        return report

    def state(self, sector):
        start = sector * SECTOR
        return (bytes(self.sure[start:start + SECTOR]), bytes(self.known[start:start + SECTOR]))

    def sector_fits(self, sector, found, parts):
        start = sector * SECTOR
        here = bytes(found[start:start + SECTOR])
        if not parts:
            return self.sure[start:start + SECTOR] == here or fits(self.state(sector), here)
        states = {self.state(sector)}
        for part in parts:
            states |= {put(state, *part.cut(sector)) for state in states}
        return any(fits(state, here) for state in states)

    def torn(self, part, found):
        """Whether a write in flight is there in some bytes that tell, and in others not."""
        old = self.sure[part.offset:part.offset + len(part.data)]
        known = self.known[part.offset:part.offset + len(part.data)]
        here = found[part.offset:part.offset + len(part.data)]
        if here == part.data or any(other_overlaps(part, other) for other in self.pending):
            return False
        return any(k and f != o for o, k, f in zip(old, known, here))

    def adopt(self, found, touched):
        """What was found is what must stay, but for what is promised of nothing."""
        for sector in range(self.span // SECTOR):
            start = sector * SECTOR
            self.sure[start:start + SECTOR] = found[start:start + SECTOR]
        for sector, parts in touched.items():
            for part in parts:
                self.uncertain(sector, part, found)
        self.pending = []

    def uncertain(self, sector, part, found):
        """Bytes that were open before and show the part's data are known from now on; but zeros
        and a few bytes may be there by another cause."""
        place, data = part.cut(sector)
        if len(data) < 8 or not any(data):
            return
        start = sector * SECTOR + place
        if found[start:start + len(data)] == data:
            self.known[start:start + len(data)] = b"\1" * len(data)


def other_overlaps(one, other):
    return (one.offset < other.offset + len(other.data)
            and other.offset < one.offset + len(one.data))


def without(part, cover):
    """What of a part is not under another: up to two pieces."""
    end, cover_end = part.offset + len(part.data), cover.offset + len(cover.data)
    if end <= cover.offset or cover_end <= part.offset:
        return [part]
    pieces = []
    if part.offset < cover.offset:
        pieces.append(Part(part.offset, part.data[:cover.offset - part.offset], part.order))
    if cover_end < end:
        pieces.append(Part(cover_end, part.data[cover_end - part.offset:], part.order))
    return pieces
