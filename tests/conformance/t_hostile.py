"""Hostile clients on plain sockets. Whatever they do: a good client is served within two seconds,
while they are there and after they have left, and memory and descriptors come back."""

import random
import select
import struct
import time

import procfs
import wire
from harness import KIB, MIB, Skip, expect, test, wait_until

GOOD_SECONDS = 2.0
SETTLE_SECONDS = 10.0
# What a server may keep: buffers it pools, memory its allocator does not give back.
# destage keeps 32 MiB of buffers to be used again, and some 10 MiB of the log's.
MEMORY_SLACK = 48 * MIB
DESCRIPTOR_SLACK = 2


def raw(case, timeout=5.0):
    return wire.Connection(case.server.socket, timeout)


def opened(case, timeout=5.0):
    return wire.connect(case.server.socket, case.server.export, timeout)


def good_client(case, when):
    """Open, write, read back, flush: all within the time."""
    began = time.monotonic()
    data = random.randbytes(4096)
    try:
        with opened(case, GOOD_SECONDS) as connection:
            connection.write(12345, data)
            expect(connection.read(12345, 4096) == data, f"{when}: a good client reads wrongly")
            connection.good(wire.FLUSH)
            connection.send(wire.request(wire.DISC))
    except (OSError, wire.Closed, wire.Wrong) as error:
        expect(False, f"{when}: a good client is not served: {type(error).__name__} {error}")
    took = time.monotonic() - began
    expect(took < GOOD_SECONDS, f"{when}: a good client took {took:.1f} s")


class Watch:
    """Compares the server's memory and descriptors with those before the attack."""

    def __init__(self, case):
        self.case = case
        for _ in range(3):
            good_client(case, "before the attack")
        time.sleep(0.1)
        self.memory = procfs.resident(case.server.pid)
        self.descriptors = procfs.descriptors(case.server.pid)
        expect(self.memory > 0 and self.descriptors > 0, "/proc has nothing about the server")

    def figures(self):
        leader = self.case.server.pid
        return procfs.resident(leader), procfs.descriptors(leader)

    def settled(self):
        memory, descriptors = self.figures()
        return (memory <= self.memory + MEMORY_SLACK
                and descriptors <= self.descriptors + DESCRIPTOR_SLACK)

    def finish(self):
        expect(self.case.server.alive(), "the attack ended the server")
        good_client(self.case, "after the attack")
        calm = wait_until(self.settled, SETTLE_SECONDS, step=0.1)
        memory, descriptors = self.figures()
        self.case.note(f"RSS {self.memory >> 20} -> {memory >> 20} MiB")
        self.case.note(f"fds {self.descriptors} -> {descriptors}")
        expect(calm, f"not given back: RSS {self.memory >> 20} -> {memory >> 20} MiB, "
                     f"fds {self.descriptors} -> {descriptors}")


def hostile(name, seconds=90):
    """Registers an attack: a function of the case that gives the connections it still holds."""

    def register(attack):
        @test("hostile-" + name, seconds)
        def around(case):
            watch = Watch(case)
            held = attack(case) or []
            good_client(case, "during the attack")
            for connection in held:
                connection.close()
            watch.finish()
        return around

    return register


def quietly(call, *arguments):
    """The server may hang up on an attacker at any time."""
    try:
        return call(*arguments)
    except (OSError, wire.Closed, wire.Wrong):
        return None


def before_flags(_case, connection):
    connection.exactly(18)


def before_options(_case, connection):
    connection.greet()


def inside_option(_case, connection):
    connection.greet()
    connection.send(struct.pack(">QII", wire.OPTION_MAGIC, wire.OPT_GO, 64))


def in_transmission(case, connection):
    connection.greet()
    connection.go(case.server.export)


def inside_write(case, connection):
    in_transmission(case, connection)
    connection.send(wire.request(wire.WRITE, 0, MIB, payload=b"h" * 1000))


PHASES = [lambda _case, _connection: None, before_flags, before_options, inside_option,
          in_transmission, inside_write]


def drain(connection, seconds=0.05):
    """Reads what comes for a while, or to the end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([connection.socket], [], [], 0.01)[0]:
            if not connection.socket.recv(65536):
                return


@hostile("random-bytes")
def random_bytes(case):
    source = random.Random(case.seed)
    for phase in PHASES:
        for _ in range(12):
            with raw(case) as connection:
                phase(case, connection)
                quietly(connection.send, source.randbytes(source.randrange(1, 5000)))
                quietly(drain, connection)


@hostile("random-requests")
def random_requests(case):
    """Right magic, random rest: commands next to the known ones, flags, places."""
    source = random.Random(case.seed)
    for _ in range(60):
        with opened(case) as connection:
            for _ in range(8):
                kind = source.choice([1, 3, 4, 5, 6, 7, 9, 100, 65535, source.randrange(65536)])
                flags = source.choice([0, 1, 2, 4, 8, 17, source.randrange(65536)])
                # FAST_ZERO has a test of its own, since it ends nbdkit.
                flags &= 0xFFEF
                length = source.choice([0, 1, 4096, 1 << 20, 1 << 31, (1 << 32) - 1])
                at = source.choice([0, 1 << 30, 1 << 63, (1 << 64) - 1, source.getrandbits(64)])
                payload = b"r" * min(length, 4096) if kind == wire.WRITE else b""
                quietly(connection.send, wire.request(kind, at, length, flags, 7, payload))
            quietly(drain, connection)


@hostile("half-then-silence")
def half_then_silence(case):
    held = []
    for phase in PHASES:
        for cut in (1, 9, 27):
            connection = raw(case)
            phase(case, connection)
            piece = wire.request(wire.WRITE, 0, 4096)[:cut]
            if phase in PHASES[:4]:
                piece = wire.option(wire.OPT_GO, wire.go_data("x"))[:min(cut, 15)]
            quietly(connection.send, piece)
            held.append(connection)
    return held


@hostile("absurd-lengths")
def absurd_lengths(case):
    huge = (1 << 32) - 1
    for kind in (wire.READ, wire.WRITE, wire.TRIM, wire.CACHE, wire.WRITE_ZEROES,
                 wire.BLOCK_STATUS):
        for at in (0, 1, case.server.options.size, 1 << 62, (1 << 63) - 1, (1 << 64) - 1):
            for length in (0, huge, 1 << 31):
                with opened(case) as connection:
                    quietly(connection.send, wire.request(kind, at, length))
                    quietly(drain, connection, 0.01)


@hostile("absurd-writes-begun")
def absurd_writes(case):
    """Writes of 4 GiB and of the largest allowed length, of which a little is sent: memory must
    not be taken for what is only announced."""
    held = []
    for number in range(40):
        connection = opened(case)
        length = (1 << 32) - 1 if number % 2 else 32 * MIB
        quietly(connection.send, wire.request(wire.WRITE, 0, length, payload=b"w" * 70000))
        held.append(connection)
    time.sleep(0.2)
    return held


@hostile("wrong-magics")
def wrong_magics(case):
    for flags in (0xFFFFFFFF, 0, 4, 0x80000003):
        with raw(case) as connection:
            quietly(connection.greet, flags)
            quietly(drain, connection)
    for magic in (0, wire.OPTION_MAGIC + 1, (1 << 64) - 1):
        with raw(case) as connection:
            connection.greet()
            quietly(connection.send, wire.option(wire.OPT_GO, b"x" * 100, magic=magic))
            quietly(drain, connection)
    for magic in (0, wire.REQUEST_MAGIC + 1, wire.REPLY_MAGIC, 0xFFFFFFFF):
        with opened(case) as connection:
            quietly(connection.send, wire.request(wire.READ, 0, 512, magic=magic))
            quietly(drain, connection)


@hostile("option-4gib")
def option_4gib(case):
    held = []
    for kind in (wire.OPT_EXPORT_NAME, wire.OPT_LIST, wire.OPT_GO, wire.OPT_INFO,
                 wire.OPT_SET_CONTEXT, wire.OPT_STARTTLS, 77):
        connection = raw(case)
        connection.greet()
        quietly(connection.send, wire.option(kind, b"x" * 1000, length=(1 << 32) - 1))
        for _ in range(32):
            if quietly(connection.send, b"y" * (64 * KIB)) is None and gone(connection):
                break
        held.append(connection)
    return held


def gone(connection):
    """Whether the server has hung up."""
    ready, _, _ = select.select([connection.socket], [], [], 0)
    if not ready:
        return False
    return not quietly(connection.socket.recv, 65536)


@hostile("malformed-options")
def malformed_options(case):
    """Options whose inner lengths lie; each must be answered with an error or a hang-up."""
    name = struct.pack(">I", 0xFFFFFFFF)
    bodies = [b"", b"\0", name, name + b"abc", struct.pack(">IH", 0, 0xFFFF),
              struct.pack(">I", 3) + b"\xff\xfe\xfd" + struct.pack(">H", 0),
              struct.pack(">II", 0, 0xFFFFFFFF), struct.pack(">II", 0, 1) + name]
    for kind in (wire.OPT_GO, wire.OPT_INFO, wire.OPT_SET_CONTEXT, wire.OPT_LIST_CONTEXT):
        for body in bodies:
            with raw(case, 1.0) as connection:
                connection.greet()
                connection.send(wire.option(wire.OPT_STRUCTURED))
                connection.option_reply()
                connection.send(wire.option(kind, body))
                expect(answered(connection), f"no answer to option {kind} with {body!r}")


def answered(connection):
    """Whether an option was answered to the end, or the connection ended; not silence."""
    try:
        while True:
            kind = connection.option_reply()[1]
            if kind == wire.REP_ACK or kind & wire.REP_ERROR:
                return True
    except TimeoutError:
        return False
    except (wire.Closed, ConnectionError):
        return True


@hostile("endless-options")
def endless_options(case):
    with raw(case, 2.0) as connection:
        connection.greet()
        for _ in range(20000):
            if quietly(connection.send, wire.option(wire.OPT_LIST)) is None and gone(connection):
                break


@hostile("vanish")
def vanish(case):
    """Leaves with replies pending or half sent."""
    for number in range(30):
        connection = opened(case)
        for place in range(8):
            connection.ask(wire.READ, place * MIB, 8 * MIB if number % 2 else 4096)
            connection.ask(wire.WRITE, place * 4096, 4096, payload=b"v" * 4096)
        if number % 3:
            quietly(connection.socket.recv, 1000)
        if number % 2:
            connection.reset()
        else:
            connection.close()


@hostile("never-reads")
def never_reads(case):
    """Asks for 64 MiB on each of ten connections and reads nothing; then writes until the server
    takes no more."""
    held = []
    for _ in range(10):
        connection = opened(case, timeout=0.5)
        for number in range(64):
            quietly(connection.ask, wire.READ, number * MIB, MIB)
        held.append(connection)
    for _ in range(4):
        connection = opened(case, timeout=0.2)
        for number in range(2000):
            payload = b"n" * 4096
            try:
                connection.ask(wire.WRITE, number * 4096, 4096, payload=payload)
            except (OSError, wire.Closed):
                break
        held.append(connection)
    memory = procfs.resident(case.server.pid)
    case.note(f"RSS {memory >> 20} MiB during")
    return held


@hostile("500-connections", 120)
def many_connections(case):
    """Opened and dropped at each stage, 500 of each; at the end 100 at once, idle."""
    for stage in (lambda: raw(case), lambda: greeted(case), lambda: opened(case)):
        for _ in range(500):
            connection = quietly(stage)
            if connection is not None:
                connection.close()
    held = [quietly(lambda: opened(case)) for _ in range(100)]
    case.note(f"{sum(1 for c in held if c)} of 100 idle ones")
    return [connection for connection in held if connection]


def greeted(case):
    connection = raw(case)
    connection.greet()
    return connection


@hostile("unknown-requests")
def unknown_requests(case):
    """Commands and flags that were not offered: EINVAL, and the connection stays open. (proto.md
    has the client's breach; that the connection lives is asked of destage, and of others only
    that they do.)"""
    with opened(case) as connection:
        for kind, flags in ((9, 0), (99, 0), (65535, 0), (wire.READ, 0x8000)):
            error, _ = connection.call(kind, 0, 512 if kind == wire.READ else 0, flags)
            expect(error == wire.EINVAL, f"command {kind} flags {flags:#x}: error {error}")
        connection.write(0, b"still here")
        expect(connection.read(0, 10) == b"still here", "the connection is of no use any more")


@hostile("fast-zero")
def fast_zero(case):
    """FAST_ZERO whether it is offered or not: an answer, and the server stays."""
    with opened(case) as connection:
        if not connection.flags & wire.HAS_ZEROES:
            raise Skip(f"{case.server.name} has no WRITE_ZEROES")
        error, _ = connection.call(wire.WRITE_ZEROES, 0, 4096, wire.FAST_ZERO)
        if not connection.flags & wire.HAS_FAST_ZERO:
            expect(error == wire.EINVAL, f"unadvertised FAST_ZERO: error {error}")


@hostile("slow-writer")
def slow_writer(case):
    """A request a byte at a time is a right request."""
    connection = opened(case)
    connection.cookie += 1
    connection.lengths[connection.cookie] = 0
    for byte in wire.request(wire.WRITE, 777, 40, 0, connection.cookie, b"s" * 40):
        connection.send(bytes([byte]))
        time.sleep(0.002)
    cookie, error, _ = connection.answer()
    expect((cookie, error) == (connection.cookie, 0), f"slow write: error {error}")
    expect(connection.read(777, 40) == b"s" * 40, "slow write reads wrongly")
    return [connection]
