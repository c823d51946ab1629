"""The few words of the FUSE protocol that a folder of fixed files needs, and how it is mounted.

Numbers and layouts are those of linux/fuse.h, protocol 7.31.
"""

import ctypes
import errno
import os
import stat
import struct
from pathlib import Path

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS = 1, 2, 3, 4, 14, 15, 16, 17
RELEASE, FSYNC, INIT, OPENDIR, READDIR, RELEASEDIR = 18, 20, 26, 27, 28, 29
INTERRUPT, DESTROY, BATCH_FORGET, LSEEK = 36, 38, 42, 46

# A reply is sent to all but these.
UNANSWERED = frozenset([FORGET, BATCH_FORGET, INTERRUPT])

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
IN_OFFSET = struct.Struct("<QQIIQII")
IN_LSEEK = struct.Struct("<QQII")
IN_INIT = struct.Struct("<IIII")
OUT_INIT = struct.Struct("<IIIIHHIIHHI28x")
OUT_OPEN = struct.Struct("<QII")
OUT_WRITE = struct.Struct("<II")
OUT_LSEEK = struct.Struct("<Q")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
OUT_ATTRIBUTES = struct.Struct("<QII")
OUT_ENTRY = struct.Struct("<QQQQII")
OUT_STATFS = struct.Struct("<QQQQQIIII24x")

# No page cache in between: each write of the client is one request, with its flags.
OPEN_DIRECT = 1 << 0
OPEN_PARALLEL_WRITES = 1 << 6
INIT_FLAGS = 1 << 0 | 1 << 5 | 1 << 15 | 1 << 22  # async read, big writes, async direct, max pages
MAX_WRITE = 1 << 20
BUFFER_BYTES = MAX_WRITE + 4096
FOREVER = 1 << 20
ROOT = 1


def mount(target: Path) -> int:
    """Mounts on a folder; the descriptor that brings the kernel's requests."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"recorder", os.fsencode(target), b"fuse.recorder", 0, options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{target}: cannot mount: {os.strerror(code)}")
    return device


def init(body: memoryview) -> bytes:
    """The answer to INIT."""
    _, _, readahead, flags = IN_INIT.unpack_from(body)
    flags &= INIT_FLAGS
    return OUT_INIT.pack(7, 31, readahead, flags, 64, 48, MAX_WRITE, 1, MAX_WRITE >> 12, 0, 0)


def attributes(node: int, size: int, block: int) -> bytes:
    """`struct fuse_attr` of the folder (`ROOT`) or of a file."""
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o600
    return ATTRIBUTES.pack(node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0,
                           block, 0)


def entry(node: int, size: int, block: int) -> bytes:
    """The answer to LOOKUP."""
    return OUT_ENTRY.pack(node, 0, FOREVER, FOREVER, 0, 0) + attributes(node, size, block)


def reply(device: int, unique: int, *parts: bytes | memoryview, error: int = 0) -> None:
    """Answers a request. The kernel may have forgotten one that was interrupted."""
    length = OUT_HEADER.size + sum(len(part) for part in parts)
    try:
        os.writev(device, [OUT_HEADER.pack(length, -error, unique), *parts])
    except OSError as failed:
        if failed.errno != errno.ENOENT:
            raise
