#!/usr/bin/python3
"""The durability rules of a recording, and the checks of contents, on histories made by hand: what
must be durable, what may be lost, and which contents are not allowed."""

import os
import random
import tempfile
import unittest
from pathlib import Path

from content import FioCheck, FsxCheck, NamesCheck
from fiofile import BLOCK, HEADER, SUM, Blocks, crc32c
from load import apply, content
from recorder import DURABLE, EVENT, FLUSH, FLUSHED, WRITE, WRITTEN
from served import mount_apart, run
from stream import Device, Media, Recording

A, B = b"A" * 512, b"B" * 512


class Durability(unittest.TestCase):
    """One device of eight sectors."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.events = bytearray()
        self.data = b""
        self.number = 0

    def event(self, kind, flags=0, length=0, offset=0, ref=0):
        self.events += EVENT.pack(kind, 0, flags, length, offset, ref, self.number)
        self.number += 1
        return self.number - 1

    def write(self, sector, data, flags=0):
        issue = self.event(WRITE, flags, len(data), 512 * sector, len(self.data))
        self.data += data
        return lambda: self.event(WRITTEN, flags, len(data), 512 * sector, issue)

    def flush(self):
        issue = self.event(FLUSH)
        return lambda: self.event(FLUSHED, ref=issue)

    def media(self, plant=None):
        (self.folder / "events").write_bytes(self.events)
        (self.folder / "data").write_bytes(self.data)
        recording = Recording(self.folder, [Device("n0", 4096)], 512)
        media = Media(recording, self.folder, plant)
        media.advance(self.number)
        return media

    def sector(self, number, plant=None):
        """What a sector may have after a power failure here."""
        media = self.media(plant)
        found = set()
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        for seed in range(60):
            media.leave(out, random.Random(seed))
            with open(out / "n0", "rb") as file:
                found.add(os.pread(file.fileno(), 512, 512 * number)[:1])
        return found

    def test_a_completed_write_may_be_lost(self):
        self.write(1, A)()
        self.assertEqual(self.sector(1), {b"\0", b"A"})

    def test_a_flush_makes_it_durable(self):
        self.write(1, A)()
        self.flush()()
        self.assertEqual(self.sector(1), {b"A"})

    def test_a_flush_in_flight_does_not(self):
        self.write(1, A)()
        self.flush()
        self.assertEqual(self.sector(1), {b"\0", b"A"})

    def test_a_flush_issued_before_the_completion_does_not(self):
        written = self.write(1, A)
        flushed = self.flush()
        written()
        flushed()
        self.assertEqual(self.sector(1), {b"\0", b"A"})

    def test_the_second_of_two_flushes_covers_it(self):
        first, written = self.flush(), self.write(1, A)
        written()
        second = self.flush()
        first()
        self.assertEqual(self.sector(1), {b"\0", b"A"})
        second()
        self.assertEqual(self.sector(1), {b"A"})

    def test_a_durable_write_is_durable_alone(self):
        self.write(1, A)()
        self.write(2, B, DURABLE)()
        self.assertEqual(self.sector(1), {b"\0", b"A"})
        self.assertEqual(self.sector(2), {b"B"})

    def test_a_durable_write_in_flight_is_not(self):
        self.write(2, B, DURABLE)
        self.assertEqual(self.sector(2), {b"\0", b"B"})

    def test_any_version_may_be_left(self):
        self.write(1, A)()
        self.write(1, B)()
        self.assertEqual(self.sector(1), {b"\0", b"A", b"B"})

    def test_a_durable_version_ends_the_earlier_ones(self):
        self.write(1, A)()
        self.write(1, B, DURABLE)()
        self.assertEqual(self.sector(1), {b"B"})

    def test_sectors_of_a_write_are_lost_each_for_itself(self):
        self.write(1, A + B)()
        media, out = self.media(), self.folder / "out"
        out.mkdir()
        found = set()
        for seed in range(60):
            media.leave(out, random.Random(seed))
            data = (out / "n0").read_bytes()
            found.add((data[512], data[1024]))
        self.assertEqual(found, {(0, 0), (65, 0), (0, 66), (65, 66)})

    def test_two_writes_of_a_sector_in_flight_are_seen(self):
        written = self.write(0, A + B)
        self.write(2, A)
        self.assertIsNone(self.media().recording.overlapping())
        written()
        self.write(1, A)
        self.assertIsNone(self.media().recording.overlapping())
        self.write(1, B)
        self.assertEqual(self.media().recording.overlapping(), self.number - 1)

    def test_the_planted_faults_lose_it(self):
        self.write(1, A, DURABLE)()
        self.flush()()
        self.assertEqual(self.sector(1), {b"A"})
        for plant in ("flushes", "nvs"):
            self.assertIn(b"\0", self.sector(1, plant))


class Contents(unittest.TestCase):
    """Files after a cut, right and wrong."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def fsx(self):
        operations = [["fsync", 0, 0, 0, 0], ["write", 0, 3000, 1, 2], ["fsync", 0, 0, 3, 5],
                      ["write", 1000, 3000, 6, 7], ["truncate", 0, 2000, 8, 9]]
        states, state = [b""], bytearray()
        for number, (kind, offset, length, *_) in enumerate(operations):
            apply(state, 1, number, kind, offset, length)
            states.append(bytes(state))
        return FsxCheck({"path": "f", "seed": 1, "operations": operations}), states

    def found(self, check, data, place):
        (self.root / "f").write_bytes(data)
        return check.check(self.root, place)

    def test_what_an_fsync_promised_must_be_there(self):
        check, states = self.fsx()
        self.assertIsNone(self.found(check, states[3], 5))
        self.assertIsNone(self.found(check, b"", 4))
        self.assertIn("allowed", self.found(check, b"", 5))
        wrong = states[3][:700] + b"?" + states[3][701:]
        self.assertIn("wrong bytes in 512", self.found(check, wrong, 5))

    def test_later_writes_may_be_there_once_begun(self):
        check, states = self.fsx()
        self.assertIsNotNone(self.found(check, states[4], 5))
        self.assertIsNone(self.found(check, states[4], 6))
        self.assertIsNone(self.found(check, states[5], 8))
        older = states[3][:1024] + states[4][1024:]
        self.assertIsNone(self.found(check, older, 8))

    def test_a_file_that_is_gone_is_wrong(self):
        check, _ = self.fsx()
        self.assertEqual(check.check(self.root, 5), "f is not there")

    def test_a_replaced_file_has_either_content(self):
        operations = [["a", 0, 10, 1, 3], ["a", 1, 10, 5, 8], ["a", None, 0, 9, 12]]
        check = NamesCheck({"path": "d", "seed": 1, "begun": 0, "operations": operations})
        (self.root / "d").mkdir()
        path = self.root / "d" / "a"
        self.assertIsNone(check.check(self.root, 2))
        self.assertIsNotNone(check.check(self.root, 3))
        path.write_bytes(content(1, 0, 10))
        self.assertIsNone(check.check(self.root, 7))
        self.assertIsNotNone(check.check(self.root, 8))
        path.write_bytes(content(1, 1, 10))
        self.assertIsNone(check.check(self.root, 11))
        self.assertIsNotNone(check.check(self.root, 12))
        path.unlink()
        self.assertIsNone(check.check(self.root, 12))

    def test_blocks_of_fio(self):
        def block(number):
            head = HEADER.pack(0xACCA, 5, BLOCK, 1, 0, 0, 0, 1, number, 0)[:-4]
            data = bytes([number + 1]) * (BLOCK - HEADER.size - SUM.size)
            return head + SUM.pack(crc32c(head)) + SUM.pack(crc32c(data)) + data

        class Times:
            """A recording whose events are a millisecond apart."""

            @staticmethod
            def at_time(nanoseconds):
                return nanoseconds // 1_000_000

        result = {"path": "f", "direct": True, "fsync": 1, "ended": 20,
                  "writes": [(number, 0) for number in range(4)]}
        check = FioCheck(result, Times(), Blocks())
        # Write 0 is promised when write 2 is done, at 2 ms and the margin of 2 ms.
        self.assertIsNone(self.found(check, bytes(BLOCK), 3))
        self.assertIn("zeros", self.found(check, bytes(BLOCK), 4))
        self.assertIsNone(self.found(check, block(0), 4))
        self.assertIn("write 1 was promised", self.found(check, block(0), 5))
        self.assertIsNone(self.found(check, block(3), 5))
        torn = block(1)[:2048] + block(2)[2048:]
        self.assertIn("no block of fio's", self.found(check, torn, 5))


class Mounts(unittest.TestCase):
    """A recording's mounts are its own."""

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED: mounting needs root")
    def test_no_other_program_sees_what_is_mounted(self):
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    mount_apart()
                    run("mount", "-t", "tmpfs", "tmpfs", folder)
                    status = 0 if os.path.ismount(folder) else 2
                    if folder in Path(f"/proc/{os.getppid()}/mounts").read_text():
                        status = 3
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main()
