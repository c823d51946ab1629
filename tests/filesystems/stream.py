"""A recording (recorder.py), and what a power failure at one place of it may leave on the devices.

A write is durable once it was completed with the durable flag, or a flush of its device was
completed that had been issued after the write's completion. Every sector of a write that is not
durable is on the medium or not, each for itself; one that was written several times has any of its
versions.
"""

import bisect
import mmap
import os
import random
from pathlib import Path
from typing import NamedTuple

from recorder import DURABLE, EVENT, FLUSH, FLUSHED, WRITE, WRITTEN

# Planted faults: what does not count as durable although the array asked for it.
PLANTS = {
    "flushes": "no flush and no durable flag counts, of any device",
    "members": "no flush of a member counts: the NVS is freed before the data is durable",
    "nvs": "a durable write of the NVS counts only 300 events after its completion: the array "
           "acknowledges early",
}
LATE_EVENTS = 300
COPY_BYTES = 1 << 24


class Event(NamedTuple):
    kind: int
    device: int
    flags: int
    length: int
    offset: int
    # Of an issued write: where its bytes are in `data`. Of a completion: the number of its issue.
    ref: int
    time: int


class Device(NamedTuple):
    name: str
    size: int

    @property
    def nvs(self) -> bool:
        return self.name.startswith("n")


class Recording:
    """The events of a recording and the bytes that were written."""

    def __init__(self, folder: Path, devices: list[Device], sector: int):
        self.folder = folder
        self.devices = devices
        self.sector = sector
        raw = (folder / "events").read_bytes()
        self.events = [Event(*fields) for fields in EVENT.iter_unpack(raw)]
        with open(folder / "data", "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def at_time(self, nanoseconds: int) -> int:
        """The first place all of whose events are later than this."""
        return bisect.bisect_left(self.events, nanoseconds, key=lambda event: event.time)

    def overlapping(self) -> int | None:
        """The first place at which a write begins that meets another in flight. Their order would
        not be defined, and arrays issue none."""
        flying: dict[int, set[int]] = {number: set() for number in range(len(self.devices))}
        for place, event in enumerate(self.events):
            sectors = range(event.offset // self.sector,
                            (event.offset + event.length) // self.sector)
            if event.kind == WRITE:
                if not flying[event.device].isdisjoint(sectors):
                    return place
                flying[event.device].update(sectors)
            elif event.kind == WRITTEN:
                flying[event.device].difference_update(sectors)
        return None

    def member_writes(self, first: int, last: int) -> list[int]:
        """Places of writes of members in a part of the recording."""
        return [place for place in range(first, last) if self.events[place].kind == WRITE
                and not self.devices[self.events[place].device].nvs]


class Medium:
    """One device: its durable bytes, and by sector the writes that are not durable, in order."""

    def __init__(self, recording: Recording, number: int, folder: Path):
        self.recording = recording
        self.device = recording.devices[number]
        self.path = folder / f"{self.device.name}.durable"
        with open(self.path, "wb") as file:
            file.truncate(self.device.size)
        with open(self.path, "r+b") as file:
            self.image = mmap.mmap(file.fileno(), self.device.size)
        self.volatile: dict[int, list[int]] = {}
        # Writes that are completed and not durable, and how many went out of this list before.
        self.completed: list[int] = []
        self.left = 0
        # Of flushes in flight: how many writes had been completed when each was issued.
        self.flushes: dict[int, int] = {}

    def issue(self, place: int, event: Event) -> None:
        sector = self.recording.sector
        for at in range(event.offset // sector, (event.offset + event.length) // sector):
            self.volatile.setdefault(at, []).append(place)

    def bytes_of(self, place: int, at: int) -> bytes:
        """What a write has for a sector."""
        event, sector = self.recording.events[place], self.recording.sector
        begin = event.ref + at * sector - event.offset
        return self.recording.data[begin:begin + sector]

    def harden(self, place: int) -> None:
        """Makes a write durable. It takes the place of earlier ones."""
        event, sector = self.recording.events[place], self.recording.sector
        for at in range(event.offset // sector, (event.offset + event.length) // sector):
            versions = self.volatile.get(at)
            if versions is None or place not in versions:
                continue
            self.image[at * sector:(at + 1) * sector] = self.bytes_of(place, at)
            del versions[:versions.index(place) + 1]
            if not versions:
                del self.volatile[at]

    def flushed(self, issue: int) -> None:
        covered = max(0, self.flushes.pop(issue) - self.left)
        for place in self.completed[:covered]:
            self.harden(place)
        del self.completed[:covered]
        self.left += covered

    def copy_to(self, path: Path) -> None:
        """Writes the durable bytes to a file, without the parts that were never written."""
        source = os.open(self.path, os.O_RDONLY)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(target, self.device.size)
            at = 0
            while at < self.device.size:
                try:
                    at = os.lseek(source, at, os.SEEK_DATA)
                except OSError:
                    break
                end = os.lseek(source, at, os.SEEK_HOLE)
                os.lseek(source, at, os.SEEK_SET)
                os.lseek(target, at, os.SEEK_SET)
                while at < end:
                    at += os.sendfile(target, source, None, min(end - at, COPY_BYTES))
        finally:
            os.close(source)
            os.close(target)


class Media:
    """All devices at one place of a recording, which only advances."""

    def __init__(self, recording: Recording, folder: Path, plant: str | None = None,
                 plant_from: int = 0):
        self.recording = recording
        self.media = [Medium(recording, number, folder)
                      for number in range(len(recording.devices))]
        self.place = 0
        self.plant = plant
        self.plant_from = plant_from
        # With the plant `nvs`: (when, device, write) of what becomes durable late.
        self.late: list[tuple[int, int, int]] = []

    def ignored(self, medium: Medium) -> bool:
        """Whether the planted fault takes away what this device is asked to make durable."""
        if self.place < self.plant_from:
            return False
        return self.plant == "flushes" or (self.plant == "members" and not medium.device.nvs)

    def advance(self, place: int) -> None:
        """Advances to a place: all events before it have happened."""
        while self.place < place:
            self.step(self.recording.events[self.place])
            self.place += 1
        while self.late and self.late[0][0] <= place:
            _, device, write = self.late.pop(0)
            self.media[device].harden(write)

    def step(self, event: Event) -> None:
        medium = self.media[event.device]
        if event.kind == WRITE:
            medium.issue(self.place, event)
        elif event.kind == FLUSH:
            medium.flushes[self.place] = medium.left + len(medium.completed)
        elif event.kind == FLUSHED:
            if self.ignored(medium):
                medium.flushes.pop(event.ref)
            else:
                medium.flushed(event.ref)
        elif event.kind == WRITTEN:
            self.written(medium, event)

    def written(self, medium: Medium, event: Event) -> None:
        if not event.flags & DURABLE or self.ignored(medium):
            medium.completed.append(event.ref)
        elif self.plant == "nvs" and medium.device.nvs and self.place >= self.plant_from:
            self.late.append((self.place + LATE_EVENTS, event.device, event.ref))
        else:
            medium.harden(event.ref)

    def volatile(self) -> int:
        """Sectors that a power failure here may lose."""
        return sum(len(medium.volatile) for medium in self.media)

    def leave(self, folder: Path, source: random.Random) -> int:
        """Writes to a folder what a power failure here leaves; the sectors that it lost."""
        chance = source.choice([0.0, 0.03, 0.5, 0.5, 0.97, 1.0])
        runs = source.random() < 0.3
        if self.plant == "nvs":
            # The log ends too early and nothing in it is damaged: only the contents can show it.
            chance = 0.0
        lost = 0
        for medium in self.media:
            path = folder / medium.device.name
            medium.copy_to(path)
            chosen = draw(medium, source, chance, runs)
            lost += len(medium.volatile) - len(chosen)
            file = os.open(path, os.O_WRONLY)
            try:
                for at, write in chosen:
                    os.pwrite(file, medium.bytes_of(write, at), at * self.recording.sector)
            finally:
                os.close(file)
        return lost


def draw(medium: Medium, source: random.Random, chance: float,
         runs: bool) -> list[tuple[int, int]]:
    """The sectors that reached the medium, each with the write it is of. `runs`: neighbours share
    their fate for a while."""
    chosen = []
    there = source.random() < chance
    for at in sorted(medium.volatile):
        if not runs or source.random() < 0.1:
            there = source.random() < chance
        if there:
            versions = medium.volatile[at]
            chosen.append((at, versions[-1] if chance == 1.0 else source.choice(versions)))
    return chosen
