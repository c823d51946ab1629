"""What nbdsh does for t_nbdsh.py: functions of a fresh handle `h`, the URI and a seed.

A case that the server's offer does not allow ends with status 77 and the feature's name.
"""

import errno
import random
import sys

import nbd

MIB = 1 << 20
ALLOCATION = nbd.CONTEXT_BASE_ALLOCATION


def lacks(feature):
    print(feature)
    sys.stdout.flush()
    sys.exit(77)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def opened(uri, strict=None, contexts=(), structured=True):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    for context in contexts:
        h.add_meta_context(context)
    h.set_uri_allow_local_file(True)
    h.connect_uri(uri)
    if strict is not None:
        h.set_strict_mode(strict)
    return h


def refused(call, *numbers):
    """The call must fail with one of the errnos."""
    try:
        call()
    except nbd.Error as error:
        names = [errno.errorcode[number] for number in numbers]
        expect(error.errnum in numbers, f"{error}, expected {' or '.join(names)}")
        return
    raise AssertionError("a request that must be refused was carried out")


def extents(h, count, offset, flags=0):
    found = {}

    def collect(context, at, entries, _error):
        found.setdefault(context, []).append((at, list(zip(entries[::2], entries[1::2]))))

    h.block_status(count, offset, collect, flags)
    return found


def structured(_h, uri, _seed):
    h = opened(uri)
    if not h.get_structured_replies_negotiated():
        lacks("structured replies")
    h.pwrite(b"s" * 70000, 1000)
    pieces = []
    data = h.pread_structured(70002, 999, lambda part, at, kind, _e: pieces.append((kind, part)))
    expect(bytes(data[1:70001]) == b"s" * 70000, "structured read returns other bytes")
    covered = sum(len(part) for kind, part in pieces if kind == nbd.READ_DATA)
    # What is not covered by data is a hole, and only the two bytes at the ends may be one.
    expect(70000 <= covered <= 70002, f"chunks with data cover {covered} of 70002")


def simple_replies(_h, uri, _seed):
    h = opened(uri, structured=False)
    expect(not h.get_structured_replies_negotiated(), "structured replies unasked")
    h.pwrite(b"x" * 513, 7)
    expect(bytes(h.pread(515, 6)[1:514]) == b"x" * 513, "read with simple replies")
    refused(lambda: opened(uri, 0, structured=False).pread(512, h.get_size()), errno.EINVAL)


def df(_h, uri, _seed):
    h = opened(uri)
    if not h.can_df():
        lacks("DF")
    h.pwrite(b"d" * 4096, 8192)
    chunks = []
    h.pread_structured(65536, 0, lambda part, at, kind, _e: chunks.append(kind), nbd.CMD_FLAG_DF)
    expect(len(chunks) == 1, f"{len(chunks)} chunks in spite of DF")


def contexts(_h, uri, _seed):
    names = []
    probe = nbd.NBD()
    probe.set_opt_mode(True)
    probe.add_meta_context("base:")
    probe.connect_uri(uri)
    if not probe.get_structured_replies_negotiated():
        lacks("structured replies")
    probe.clear_meta_contexts()
    probe.opt_list_meta_context(names.append)
    probe.opt_abort()
    if ALLOCATION not in names:
        lacks("base:allocation")
    h = opened(uri, contexts=names)
    for name in names:
        expect(h.can_meta_context(name), f"{name} is listed and not granted")
    whole = min(h.get_size(), 64 * MIB)
    found = extents(h, whole, 0)
    expect(set(found) == set(names), f"status of {set(found)}, asked for {set(names)}")
    for name, replies in found.items():
        for _, entries in replies:
            expect(entries and all(length > 0 for length, _ in entries), f"{name}: {entries}")
    one = extents(h, whole, 0, nbd.CMD_FLAG_REQ_ONE)
    for name, replies in one.items():
        expect(len(replies) == 1 and len(replies[0][1]) == 1, f"{name}: REQ_ONE gave {replies}")
        expect(replies[0][1][0][0] <= whole, f"{name}: REQ_ONE beyond the request")


def status_at(h, offset, count):
    """The allocation flags of every extent in the range."""
    flags, at = set(), offset
    while at < offset + count:
        entries = extents(h, offset + count - at, at)[ALLOCATION][0][1]
        for length, flag in entries:
            if at < offset + count:
                flags.add(flag)
            at += length
    return flags


def status_follows_writes(_h, uri, _seed):
    h = opened(uri, contexts=[ALLOCATION])
    if not h.can_meta_context(ALLOCATION):
        lacks("base:allocation")
    h.pwrite(b"a" * MIB, 4 * MIB)
    expect(status_at(h, 4 * MIB, MIB) == {0}, "written data is reported as a hole or as zero")
    h.zero(MIB, 4 * MIB)
    expect(bytes(h.pread(MIB, 4 * MIB)) == bytes(MIB), "zeroes read as something else")
    for flag in status_at(h, 4 * MIB, MIB):
        expect(flag in (0, 1, 2, 3), f"flags {flag}")
    h.pwrite(b"b", 4 * MIB + 5)
    first = extents(h, 4096, 4 * MIB)[ALLOCATION][0][1][0]
    expect(first[1] & nbd.STATE_ZERO == 0, "a page with data is reported as zero")


def fua(h, uri, _seed):
    h.connect_uri(uri)
    if not h.can_fua():
        lacks("FUA")
    h.pwrite(b"f" * 4096, 4096, nbd.CMD_FLAG_FUA)
    h.zero(4096, 8192, nbd.CMD_FLAG_FUA)
    if h.can_trim():
        h.trim(4096, 12288, nbd.CMD_FLAG_FUA)
    expect(bytes(h.pread(8192, 4096)) == b"f" * 4096 + bytes(4096), "FUA writes read wrongly")


def trim(h, uri, _seed):
    h.connect_uri(uri)
    if not h.can_trim():
        lacks("trim")
    h.pwrite(b"t" * (3 * MIB), 0)
    h.trim(MIB, MIB)
    expect(bytes(h.pread(MIB, 0)) == b"t" * MIB, "trim touched what is before it")
    expect(bytes(h.pread(MIB, 2 * MIB)) == b"t" * MIB, "trim touched what is behind it")
    h.trim(5001, 777)
    expect(bytes(h.pread(777, 0)) == b"t" * 777, "an unaligned trim touched what is before it")
    expect(bytes(h.pread(9, 5778)) == b"t" * 9, "an unaligned trim touched what is behind it")
    h.pwrite(b"u" * 512, MIB + 512)
    expect(bytes(h.pread(512, MIB + 512)) == b"u" * 512, "a write after trim is not there")


def zero(h, uri, seed):
    h.connect_uri(uri)
    if not h.can_zero():
        lacks("zero")
    source = random.Random(seed)
    model = bytearray(source.randbytes(2 * MIB))
    h.pwrite(bytes(model), MIB)
    for number in range(40):
        length = source.randrange(1, 200000)
        at = source.randrange(0, 2 * MIB - length)
        h.zero(length, MIB + at, nbd.CMD_FLAG_NO_HOLE if number % 2 else 0)
        model[at:at + length] = bytes(length)
    expect(bytes(h.pread(2 * MIB, MIB)) == bytes(model), "zeroes at odd places went wrong")


def fast_zero(h, uri, _seed):
    h.connect_uri(uri)
    if not h.can_fast_zero():
        lacks("fast zero")
    h.pwrite(b"z" * MIB, MIB)
    try:
        h.zero(MIB, MIB, nbd.CMD_FLAG_FAST_ZERO)
    except nbd.Error as error:
        expect(error.errnum in (errno.ENOTSUP, errno.EOPNOTSUPP), f"fast zero: {error}")
        expect(bytes(h.pread(MIB, MIB)) == b"z" * MIB, "a refused fast zero changed data")
        return
    expect(bytes(h.pread(MIB, MIB)) == bytes(MIB), "fast zero did not zero")


def cache(h, uri, _seed):
    h.connect_uri(uri)
    if not h.can_cache():
        lacks("cache")
    h.pwrite(b"c" * 8192, 4096)
    h.cache(MIB, 0)
    h.cache(1, 4097)
    expect(bytes(h.pread(8192, 4096)) == b"c" * 8192, "CACHE changed data")


def unaligned(h, uri, seed):
    h.connect_uri(uri)
    source = random.Random(seed)
    span = 256 * 1024
    at = MIB - 37
    model = bytearray(source.randbytes(span))
    h.pwrite(bytes(model), at)
    for _ in range(400):
        length = source.choice([1, 1, 1, 2, 3, 511, 512, 513, 4095, 4097, 20001])
        place = source.randrange(0, span - length)
        if source.random() < 0.5:
            model[place:place + length] = source.randbytes(length)
            h.pwrite(bytes(model[place:place + length]), at + place)
        else:
            found = bytes(h.pread(length, at + place))
            expect(found == model[place:place + length], f"{length} bytes at {at + place}")
    expect(bytes(h.pread(span, at)) == bytes(model), "unaligned writes went wrong")


def edges(h, uri, _seed):
    h.connect_uri(uri)
    end = h.get_size()
    for length in (1, 511, 4096, 65537):
        h.pwrite(b"e" * length, end - length)
        expect(bytes(h.pread(length, end - length)) == b"e" * length, f"last {length} bytes")
    h.pwrite(b"1", 0)
    expect(bytes(h.pread(1, 0)) == b"1", "the first byte")


def beyond_end(_h, uri, _seed):
    h = opened(uri, strict=0)
    end = h.get_size()
    # proto.md: a write beyond the end SHOULD be ENOSPC; reads EINVAL. EINVAL is allowed for all.
    refused(lambda: h.pread(512, end), errno.EINVAL)
    refused(lambda: h.pread(512, end - 511), errno.EINVAL)
    refused(lambda: h.pwrite(b"x" * 512, end - 1), errno.ENOSPC, errno.EINVAL)
    refused(lambda: h.pwrite(b"x" * 512, 1 << 62), errno.ENOSPC, errno.EINVAL)
    refused(lambda: h.pwrite(b"x", (1 << 63) - 1), errno.ENOSPC, errno.EINVAL)
    refused(lambda: h.zero(4096, end), errno.ENOSPC, errno.EINVAL)
    refused(lambda: h.trim(4096, end), errno.ENOSPC, errno.EINVAL)
    if h.can_cache():
        refused(lambda: h.cache(4096, end), errno.EINVAL, errno.ENOSPC)
    h.pwrite(b"alive", 100)
    expect(bytes(h.pread(5, 100)) == b"alive", "the connection is of no use any more")


def large(h, uri, length, seed):
    h.connect_uri(uri)
    data = random.Random(seed).randbytes(length)
    h.pwrite(data, 4096)
    expect(bytes(h.pread(length, 4096)) == data, f"{length} bytes")


def write_32m(h, uri, seed):
    large(h, uri, 32 * MIB, seed)


def write_64m(h, uri, seed):
    """As write_32m, or a clean refusal where the server says a smaller maximum."""
    h.connect_uri(uri)
    limit = h.get_block_size(nbd.SIZE_MAXIMUM)
    if 0 < limit < 64 * MIB:
        other = opened(uri, strict=0)
        refused(lambda: other.pread(64 * MIB, 0), errno.EINVAL, errno.EOVERFLOW, errno.ENOMEM)
        expect(len(other.pread(512, 0)) == 512, "dead after a request above the maximum")
        return
    large(nbd.NBD(), uri, 64 * MIB, seed)


def pipelined(h, uri, seed):
    h.connect_uri(uri)
    source = random.Random(seed)
    blocks = {at: source.randbytes(16384) for at in range(0, 16 * MIB, 65536)}
    waiting = []
    for at, data in blocks.items():
        waiting.append(h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), at))
        while len(waiting) > 64:
            settle(h, waiting)
    while waiting:
        settle(h, waiting)
    for at, data in blocks.items():
        expect(bytes(h.pread(16384, at)) == data, f"pipelined write at {at}")


def settle(h, waiting):
    h.poll(-1)
    waiting[:] = [cookie for cookie in waiting if not h.aio_command_completed(cookie)]


def flush_on_another(_h, uri, _seed):
    one, other = opened(uri), opened(uri)
    if not one.can_multi_conn():
        lacks("multi-conn")
    for number in range(50):
        data = bytes([number + 1]) * 4096
        one.pwrite(data, number * 4096)
        other.flush()
        expect(bytes(other.pread(4096, number * 4096)) == data, "flushed write not there")
    one.shutdown()
    other.shutdown()
    expect(bytes(opened(uri).pread(4096, 49 * 4096)) == bytes([50]) * 4096, "absent on a third")


def read_after_write_on_another(_h, uri, seed):
    handles = [opened(uri) for _ in range(4)]
    if not handles[0].can_multi_conn():
        lacks("multi-conn")
    source = random.Random(seed)
    for _ in range(300):
        writer, reader = source.sample(handles, 2)
        length = source.choice([1, 512, 4096, 10000])
        at = source.randrange(0, MIB)
        data = source.randbytes(length)
        writer.pwrite(data, at)
        expect(bytes(reader.pread(length, at)) == data, f"stale read of {length} at {at}")


def main(h, name, uri, seed):
    """Carries out one case; the last line says that it ended."""
    try:
        globals()[name](h, uri, seed)
    except (AssertionError, nbd.Error) as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    print("done")
