"""A minimal NBD client on plain sockets: what libraries would not let a test send or see.

Numbers are those of doc/proto.md of the NetworkBlockDevice project. Only simple replies: the
tests of structured ones use libnbd.
"""

import socket
import struct

INIT_MAGIC = 0x4E42444D41474943
OPTION_MAGIC = 0x49484156454F5054
OPTION_REPLY_MAGIC = 0x0003E889045565A9
REQUEST_MAGIC = 0x25609513
REPLY_MAGIC = 0x67446698

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO = 1, 2, 3, 5, 6, 7
OPT_STRUCTURED, OPT_LIST_CONTEXT, OPT_SET_CONTEXT = 8, 9, 10
REP_ACK, REP_INFO, REP_ERROR = 1, 3, 1 << 31
INFO_EXPORT = 0

READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO = 1, 2, 4, 8, 16

HAS_FLUSH, HAS_FUA, HAS_TRIM, HAS_ZEROES = 1 << 2, 1 << 3, 1 << 5, 1 << 6
HAS_MULTI_CONN, HAS_CACHE, HAS_FAST_ZERO = 1 << 8, 1 << 10, 1 << 11

EIO, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP = 5, 22, 28, 75, 95


class Closed(Exception):
    """The server ended the connection."""


class Wrong(Exception):
    """The server sent what the protocol does not allow."""


def go_data(export):
    """The data of OPT_GO: name, no information requests."""
    name = export.encode()
    return struct.pack(">I", len(name)) + name + struct.pack(">H", 0)


def option(kind, data=b"", length=None, magic=OPTION_MAGIC):
    """An option's bytes; `length` and `magic` may lie."""
    length = len(data) if length is None else length
    return struct.pack(">QII", magic, kind, length) + data


def request(kind, offset=0, length=0, flags=0, cookie=1, payload=b"", magic=REQUEST_MAGIC):
    """A request's bytes; the length need not be that of the payload."""
    return struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length) + payload


class Connection:
    """A connection, from the greeting on. Every wait is limited by `timeout` seconds."""

    def __init__(self, path, timeout=5.0):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.lengths = {}
        self.cookie = 0
        self.size = 0
        self.flags = 0
        try:
            self.socket.connect(str(path))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves without a word and without reading what is still to come."""
        linger = struct.pack("ii", 1, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def exactly(self, count):
        """That many bytes."""
        data = bytearray(count)
        view = memoryview(data)
        while view:
            try:
                got = self.socket.recv_into(view)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if got == 0:
                raise Closed("end of stream")
            view = view[got:]
        return bytes(data)

    def greet(self, flags=3):
        """Reads the greeting, sends the client's flags (fixed newstyle, no zeroes)."""
        magic, options, _ = struct.unpack(">QQH", self.exactly(18))
        if (magic, options) != (INIT_MAGIC, OPTION_MAGIC):
            raise Wrong(f"greeting {magic:#x} {options:#x}")
        self.send(struct.pack(">I", flags))

    def option_reply(self):
        """(option, type, data) of the next reply to an option."""
        magic, about, kind, length = struct.unpack(">QIII", self.exactly(20))
        if magic != OPTION_REPLY_MAGIC:
            raise Wrong(f"option reply {magic:#x}")
        return about, kind, self.exactly(length)

    def go(self, export=""):
        """Opens an export."""
        self.send(option(OPT_GO, go_data(export)))
        while True:
            _, kind, data = self.option_reply()
            if kind == REP_ACK:
                return self
            if kind & REP_ERROR:
                raise Wrong(f"GO refused: {kind:#x} {data[:80]!r}")
            if kind == REP_INFO and struct.unpack(">H", data[:2])[0] == INFO_EXPORT:
                self.size, self.flags = struct.unpack(">QH", data[2:12])

    def ask(self, kind, offset=0, length=0, flags=0, payload=b""):
        """Sends a request; its cookie."""
        self.cookie += 1
        self.lengths[self.cookie] = length if kind == READ else 0
        self.send(request(kind, offset, length, flags, self.cookie, payload))
        return self.cookie

    def answer(self):
        """(cookie, error, data) of the next simple reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.exactly(16))
        if magic != REPLY_MAGIC or cookie not in self.lengths:
            raise Wrong(f"reply {magic:#x}, cookie {cookie}")
        length = self.lengths.pop(cookie)
        return cookie, error, b"" if error else self.exactly(length)

    def call(self, kind, offset=0, length=0, flags=0, payload=b""):
        """One request and its answer: (error, data). Nothing else may be in flight."""
        cookie = self.ask(kind, offset, length, flags, payload)
        got, error, data = self.answer()
        if got != cookie:
            raise Wrong(f"reply to {got}, expected {cookie}")
        return error, data

    def good(self, kind, offset=0, length=0, flags=0, payload=b""):
        """One request that must succeed; its data."""
        error, data = self.call(kind, offset, length, flags, payload)
        if error:
            raise Wrong(f"request {kind} at {offset}+{length}: error {error}")
        return data

    def write(self, offset, payload, flags=0):
        self.good(WRITE, offset, len(payload), flags, payload)

    def read(self, offset, length):
        return self.good(READ, offset, length)


def connect(path, export="", timeout=5.0):
    """A connection with the export open."""
    connection = Connection(path, timeout)
    try:
        connection.greet()
        return connection.go(export)
    except BaseException:
        connection.close()
        raise


def serves(path, export="", seconds=2.0):
    """Whether a whole handshake succeeds within the time."""
    try:
        with connect(path, export, timeout=seconds) as connection:
            connection.send(request(DISC))
        return True
    except (OSError, Closed, Wrong):
        return False


def greets(path, seconds=2.0):
    """Whether the server's greeting comes, which goes before any TLS."""
    try:
        with Connection(path, seconds) as connection:
            connection.greet()
            connection.send(option(OPT_ABORT))
        return True
    except (OSError, Closed, Wrong):
        return False
