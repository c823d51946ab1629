"""Blocks that fio wrote with `verify=crc32c`, read without fio: a file of a crash has blocks of
several ages, and which of them are allowed only the promises say."""

import struct

BLOCK = 4096
MAGIC, CRC32C = 0xACCA, 5
# magic, type, length, seed, offset, seconds, nanoseconds, thread, number of the write, checksum.
HEADER = struct.Struct("<HHIQQIIHHI")
SUM = struct.Struct("<I")
DATA = HEADER.size + SUM.size
ZEROS = bytes(BLOCK)


def make_table() -> list[int]:
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = make_table()


def crc32c(data: bytes) -> int:
    """As fio has it: without the final inversion."""
    value, table = 0xFFFFFFFF, TABLE
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return value


class Blocks:
    """Judges blocks; remembers those that it knows, since cuts share most of theirs."""

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[int, int] | None] = {}

    def read(self, block: bytes) -> tuple[int, int] | None:
        """(offset, number of the write) of a block that is intact; None for any other."""
        if block not in self.known:
            self.known[block] = self.judge(block)
        return self.known[block]

    @staticmethod
    def judge(block: bytes) -> tuple[int, int] | None:
        fields = HEADER.unpack_from(block)
        magic, kind, length, _, offset, _, _, _, number, header_sum = fields
        if (magic, kind, length) != (MAGIC, CRC32C, BLOCK):
            return None
        if crc32c(block[:HEADER.size - 4]) != header_sum:
            return None
        (data_sum,) = SUM.unpack_from(block, HEADER.size)
        return (offset, number) if crc32c(block[DATA:]) == data_sum else None
