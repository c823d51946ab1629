"""What a client was promised is there after a clean stop and after kill -9."""

import random

import wire
from harness import KIB, MIB, Skip, equal, expect, test


def connect(case):
    return wire.connect(case.server.socket, case.server.export)


def keeps_data(case):
    if not case.server.keeps_data:
        raise Skip(f"{case.server.name} keeps no data")


def blocks(case, count=64):
    """Places and contents, aligned and not."""
    source = random.Random(case.seed)
    made = []
    for number in range(count):
        length = source.choice([1, 512, 4096, 5000, 64 * KIB])
        made.append((number * 128 * KIB + source.choice([0, 1, 4095]), source.randbytes(length)))
    return made


def all_there(case, written, what):
    with connect(case) as connection:
        for offset, data in written:
            expect(connection.read(offset, len(data)) == data,
                   f"{what}: {len(data)} bytes at {offset} are others")


@test("restart-clean")
def clean(case):
    keeps_data(case)
    written = blocks(case)
    with connect(case) as connection:
        size = connection.size
        for offset, data in written:
            connection.write(offset, data)
        connection.send(wire.request(wire.DISC))
    case.server.stop()
    case.server.restart()
    with connect(case) as connection:
        equal(connection.size, size, "size after a restart")
    all_there(case, written, "after a clean stop")


@test("restart-kill9")
def killed(case):
    """With the default acknowledgement an answer is enough."""
    keeps_data(case)
    written = blocks(case)
    with connect(case) as connection:
        for offset, data in written:
            connection.write(offset, data)
        case.server.kill9()
    case.server.restart()
    all_there(case, written, "after kill -9")


@test("restart-kill9-twice")
def killed_again(case):
    """A kill soon after the restart, before or in what a recovery still does."""
    keeps_data(case)
    written = blocks(case)
    with connect(case) as connection:
        for offset, data in written:
            connection.write(offset, data)
    for _ in range(5):
        case.server.kill9()
        case.server.restart()
    all_there(case, written, "after six kills")


@test("restart-kill9-fua", ack="flush")
def killed_fua(case):
    """With acknowledgement by flush: what was written with FUA."""
    keeps_data(case)
    written = blocks(case)
    with connect(case) as connection:
        case.claim(connection.flags & wire.HAS_FUA, "FUA")
        for offset, data in written:
            connection.write(offset, data, wire.FUA)
        case.server.kill9()
    case.server.restart()
    all_there(case, written, "FUA, after kill -9")


@test("restart-kill9-flush-on-another", ack="flush")
def killed_flush_on_another(case):
    """A flush on one connection covers what was answered on others before it was sent."""
    keeps_data(case)
    written = blocks(case)
    with connect(case) as one, connect(case) as two, connect(case) as three:
        case.claim(one.flags & wire.HAS_MULTI_CONN, "multi-conn")
        for number, (offset, data) in enumerate(written):
            (one, two)[number % 2].write(offset, data)
        three.good(wire.FLUSH)
        case.server.kill9()
    case.server.restart()
    all_there(case, written, "flushed on another connection, after kill -9")


@test("restart-zeroes-kill9")
def killed_zeroes(case):
    keeps_data(case)
    with connect(case) as connection:
        case.claim(connection.flags & wire.HAS_ZEROES, "zero")
        connection.write(0, b"\xee" * (4 * MIB))
        connection.good(wire.WRITE_ZEROES, 5000, MIB, wire.FUA)
        case.server.kill9()
    case.server.restart()
    with connect(case) as connection:
        wanted = b"\xee" * 5000 + bytes(MIB) + b"\xee" * (3 * MIB - 5000)
        expect(connection.read(0, 4 * MIB) == wanted, "zeroes and their neighbours after kill -9")
