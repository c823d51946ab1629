#!/usr/bin/python3
"""The crash model against histories made by hand: what it must accept, and what it must not."""

import unittest

from crashmodel import Model

A, B, C = b"A" * 512, b"B" * 512, b"C" * 512


class CrashModel(unittest.TestCase):
    """A volume of eight sectors."""

    def setUp(self):
        self.model = Model(4096)
        self.disk = bytearray(4096)

    def wrong(self, in_flight=()):
        return self.model.verify(self.disk, in_flight).wrong_sectors

    def test_acknowledged_write_must_be_there(self):
        self.model.answered(512, A, True)
        self.assertEqual(self.wrong(), 1)

    def test_acknowledged_write_is_there(self):
        self.model.answered(512, A, True)
        self.disk[512:1024] = A
        self.assertEqual(self.wrong(), 0)

    def test_one_lost_byte_is_seen(self):
        self.model.answered(700, b"x", True)
        self.assertEqual(self.wrong(), 1)

    def test_a_stray_write_is_seen(self):
        self.disk[3000] = 1
        self.assertEqual(self.wrong(), 1)

    def test_older_data_is_seen(self):
        self.model.answered(0, A, True)
        self.model.answered(0, B, True)
        self.disk[0:512] = A
        self.assertEqual(self.wrong(), 1)

    def test_in_flight_is_old_or_new_by_sector(self):
        self.disk[512:1024] = A
        report = self.model.verify(self.disk, [(512, A + B)])
        self.assertEqual((report.wrong_sectors, report.torn), (0, 1))

    def test_in_flight_is_nothing_else(self):
        self.disk[512:1024] = C
        self.assertEqual(self.wrong([(512, A)]), 1)

    def test_half_a_sector_of_one_in_flight(self):
        self.disk[512:768] = A[:256]
        self.assertEqual(self.wrong([(512, A)]), 1)

    def test_unflushed_may_be_lost_or_there(self):
        self.model.answered(0, A, False)
        self.assertEqual(self.wrong(), 0)
        self.model.answered(0, B, False)
        self.disk[0:512] = B
        self.assertEqual(self.wrong(), 0)

    def test_flush_covers_what_was_answered_before(self):
        self.model.answered(0, A, False)
        self.model.answered(512, B, False)
        self.model.flushed(1)
        self.disk[0:512] = A
        self.assertEqual(self.wrong(), 0)

    def test_flushed_must_be_there(self):
        self.model.answered(0, A, False)
        self.model.flushed(1)
        self.assertEqual(self.wrong(), 1)

    def test_fua_over_unflushed(self):
        self.model.answered(0, A + B, False)
        self.model.answered(0, C, True)
        self.disk[0:512] = A
        self.assertEqual(self.wrong(), 1)

    def test_unflushed_next_to_fua_stays_open(self):
        self.model.answered(0, A + B, False)
        self.model.answered(0, C, True)
        self.disk[0:512] = C
        self.assertEqual(self.wrong(), 0)

    def test_trimmed_reads_as_anything_until_written(self):
        self.model.answered(0, A, True)
        self.model.forget(0, 512)
        self.disk[0:512] = C
        self.assertEqual(self.wrong(), 0)
        self.model.answered(0, B, True)
        self.assertEqual(self.wrong(), 1)

    def test_trim_leaves_its_neighbours(self):
        self.model.answered(0, A, True)
        self.model.forget(100, 50)
        self.assertEqual(self.wrong(), 1)

    def test_after_a_crash_what_was_read_stays(self):
        self.disk[512:1024] = A
        self.assertEqual(self.wrong([(512, A)]), 0)
        self.disk[512:1024] = bytes(512)
        self.assertEqual(self.wrong(), 1)


if __name__ == "__main__":
    unittest.main()
