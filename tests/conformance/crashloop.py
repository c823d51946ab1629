#!/usr/bin/python3
"""kill -9 again and again: is every acknowledged write there afterwards?

Each round loads the server over one connection (16 requests in flight: writes of whole and part
sectors, zeroes, trims, with --ack flush also FUA and flushes), kills it at a random moment, starts
it again on the same data and reads everything back. What was promised must be there; of what was
in flight each 512-byte part is old or new. Exit 1 on any loss.

    python3 tests/conformance/crashloop.py --server destage --rounds 200
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import servers
import wire
from crashmodel import Model
from harness import KIB, Failure, Skip, end_on_sigterm, say

DEPTH = 16
SIZES = [4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB]
KILL_SECONDS = (0.05, 0.6)
QUICK_KILL_SECONDS = (0.01, 0.15)
READ_PIECE = 256 * KIB


class Request:
    """A request that was sent and not answered yet."""

    def __init__(self, kind, offset, length, data, fua):
        self.kind = kind
        self.offset = offset
        self.length = length
        self.data = data
        self.fua = fua
        # Of a flush: the writes answered before it was sent, which it covers.
        self.covers = 0

    def meets(self, offset, length):
        return self.offset < offset + length and offset < self.offset + self.length


class Load:
    """Random requests of a connection until it breaks; reports to the model what was answered."""

    def __init__(self, connection, model, source, volatile):
        self.connection = connection
        self.model = model
        self.source = source
        self.volatile = volatile
        self.waiting = {}
        self.answered = 0
        self.flags = connection.flags

    def run(self, killed):
        """Sends and receives until the server has gone, which it may only once it is killed."""
        try:
            while True:
                while len(self.waiting) < DEPTH:
                    self.send()
                self.receive()
        except (wire.Closed, ConnectionError, TimeoutError) as error:
            if not killed.is_set():
                raise Failure(f"the server broke off before it was killed: {error}") from error
        finally:
            self.connection.close()

    def kind(self):
        """Mostly writes; zeroes and trims where they are offered."""
        draw = self.source.random()
        if draw < 0.06 and self.flags & wire.HAS_ZEROES:
            return wire.WRITE_ZEROES
        if draw < 0.10 and self.flags & wire.HAS_TRIM:
            return wire.TRIM
        if draw < 0.14 and self.volatile:
            return wire.FLUSH
        return wire.WRITE

    def place(self):
        """Offset and length: one in six is not aligned to anything."""
        if self.source.random() < 1 / 6:
            length = self.source.randrange(1, 20000)
            return self.source.randrange(0, self.model.span - length), length
        length = self.source.choice(SIZES)
        return self.source.randrange(0, (self.model.span - length) // 4096 + 1) * 4096, length

    def free_place(self):
        """A place that meets nothing in flight: the order of two such is not defined."""
        while True:
            offset, length = self.place()
            if not any(request.meets(offset, length) for request in self.waiting.values()):
                return offset, length

    def send(self):
        kind = self.kind()
        if kind == wire.FLUSH:
            request = Request(kind, 0, 0, b"", False)
            request.covers = self.model.answers
            offset = length = flags = 0
        else:
            offset, length = self.free_place()
            data = self.source.randbytes(length) if kind == wire.WRITE else bytes(length)
            flags = wire.FUA if self.volatile and self.source.random() < 0.1 else 0
            request = Request(kind, offset, length, data, bool(flags))
            if kind == wire.TRIM:
                # From here on the range may read as anything.
                self.model.forget(offset, length)
        payload = request.data if kind == wire.WRITE else b""
        # Known before it is sent: part of it may arrive although sending fails.
        self.connection.cookie += 1
        self.connection.lengths[self.connection.cookie] = 0
        self.waiting[self.connection.cookie] = request
        self.connection.send(wire.request(kind, offset, length, flags, self.connection.cookie,
                                          payload))

    def receive(self):
        cookie, error, _ = self.connection.answer()
        request = self.waiting.pop(cookie)
        if error:
            raise Failure(f"request {request.kind} at {request.offset}+{request.length}: "
                          f"error {error}")
        if request.kind == wire.FLUSH:
            self.model.flushed(request.covers)
            return
        if request.kind == wire.TRIM:
            self.model.forget(request.offset, request.length)
            return
        self.answered += 1
        self.model.answered(request.offset, request.data, not self.volatile or request.fua)

    def in_flight(self):
        """(offset, data) of writes and zeroes that were not answered."""
        kinds = (wire.WRITE, wire.WRITE_ZEROES)
        return [(r.offset, r.data) for r in self.waiting.values() if r.kind in kinds]


class Loop:
    """The rounds, and what they add up to."""

    def __init__(self, options, folder):
        self.options = options
        self.source = random.Random(options.seed)
        create = [word for copy in range(1, options.nvs_devices)
                  for word in ("--nvs", f"{folder / f'nvs{copy}'},size=64M")]
        made = servers.Options(options.destage, options.size << 20, ack=options.ack, create=create)
        self.server = servers.SERVERS[options.server](folder, made)
        self.model = Model(options.span << 20)
        self.kills = self.acknowledged = self.lost_writes = self.wrong_sectors = self.torn = 0
        self.recoveries = []

    def connect(self):
        return wire.connect(self.server.socket, self.server.export, timeout=20)

    def fill(self):
        """Known contents to begin with, all of it flushed."""
        with self.connect() as connection:
            if connection.size < self.model.span:
                raise Failure(f"the export has {connection.size} bytes, {self.model.span} needed")
            for at in range(0, self.model.span, READ_PIECE):
                data = self.source.randbytes(READ_PIECE)
                connection.write(at, data)
                self.model.answered(at, data, True)
            connection.good(wire.FLUSH)

    def round(self, number):
        load = Load(self.connect(), self.model, self.source, self.options.ack == "flush")
        delay = self.source.uniform(*QUICK_KILL_SECONDS if self.options.quick else KILL_SECONDS)
        killed = threading.Event()

        def kill():
            killed.set()
            self.server.kill9()

        killer = threading.Timer(delay, kill)
        killer.start()
        try:
            load.run(killed)
        finally:
            killer.join()
        self.kills += 1
        self.acknowledged += load.answered
        began = time.monotonic()
        self.server.restart()
        self.recoveries.append(time.monotonic() - began)
        self.check(number, load)

    def check(self, number, load):
        found = self.read_all()
        report = self.model.verify(found, load.in_flight())
        self.lost_writes += report.lost_writes
        self.wrong_sectors += report.wrong_sectors
        self.torn += report.torn
        if report.wrong_sectors or self.options.verbose:
            say(f"round {number}: {load.answered} acknowledged, {len(load.waiting)} in flight, "
                f"{report.wrong_sectors} wrong sectors of {report.lost_writes} writes, "
                f"first {report.first}")

    def read_all(self):
        found = bytearray()
        with self.connect() as connection:
            for at in range(0, self.model.span, READ_PIECE):
                found += connection.read(at, READ_PIECE)
        return found

    def lose_member(self):
        """A member is gone for good: from now on the array is degraded."""
        self.server.stop()
        self.server.lose_member()
        self.server.restart()

    def run(self):
        self.server.start()
        try:
            self.fill()
            if self.options.degraded:
                self.lose_member()
            for number in range(self.options.rounds):
                self.round(number)
            if self.server.keeps_data:
                self.server.stop()
                self.server.restart()
                self.check("after a clean stop", Load(self.connect(), self.model, self.source,
                                                      False))
        finally:
            self.server.kill9()

    def failed(self):
        if self.options.must_lose:
            return not self.lost_writes
        atomic = "atomic writes" in self.server.claims
        return bool(self.wrong_sectors or (atomic and self.torn))

    def summary(self):
        slow = max(self.recoveries, default=0)
        return (f"{self.kills} kills, {self.acknowledged} acknowledged writes checked, "
                f"{self.lost_writes} lost ({self.wrong_sectors} sectors), {self.torn} requests in "
                f"flight found in part, slowest restart {slow:.2f} s, seed {self.options.seed}")


def arguments(words=None):
    parser = argparse.ArgumentParser(description="kill -9, restart, compare, again.")
    parser.add_argument("--server", choices=sorted(servers.SERVERS), default="destage")
    parser.add_argument("--destage", type=Path, metavar="PATH", help="destage's binary")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--ack", choices=["nvs", "flush"], default="nvs",
                        help="flush: only what was flushed or written with FUA must be there")
    parser.add_argument("--seed", type=int, help="default: any; always printed")
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="of the export")
    parser.add_argument("--span", type=int, default=8, metavar="MIB", help="what is written")
    parser.add_argument("--dir", type=Path, help="where the server's data is (default: a new one)")
    parser.add_argument("--nvs-devices", type=int, choices=[1, 2], default=1)
    parser.add_argument("--degraded", action="store_true", help="without a member")
    parser.add_argument("--quick", action="store_true",
                        help="kill after 0.01 to 0.15 s, not 0.05 to 0.6")
    parser.add_argument("--must-lose", action="store_true",
                        help="succeed only if writes were lost: shows that the check can fail")
    parser.add_argument("--verbose", action="store_true", help="a line a round")
    options = parser.parse_args(words)
    if (options.degraded or options.nvs_devices > 1) and options.server != "destage":
        parser.error("--degraded and --nvs-devices: only of destage")
    if options.seed is None:
        options.seed = random.randrange(1 << 32)
    return options


def crash(options):
    """Runs the loop in a folder of its own. Anything that goes wrong in it is a Failure."""
    folder = Path(tempfile.mkdtemp(prefix="nbd-crash-", dir=options.dir))
    try:
        loop = Loop(options, folder)
        loop.run()
    except (wire.Wrong, wire.Closed, OSError) as error:
        raise Failure(f"seed {options.seed}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return loop


def main():
    options = arguments()
    end_on_sigterm()
    say(f"server {options.server}, --ack {options.ack}, {options.rounds} rounds, "
        f"seed {options.seed}")
    try:
        loop = crash(options)
    except (Failure, Skip) as error:
        print(f"crashloop: {error}", file=sys.stderr)
        return 1
    say(loop.summary())
    return 1 if loop.failed() else 0


if __name__ == "__main__":
    raise SystemExit(main())
