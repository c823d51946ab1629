"""Tests of scripts/torture_parts.py: what a record of several programs adds up to."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "scripts"))

import torture_parts  # noqa: E402


class Record(unittest.TestCase):
    """A record of the parts of several programs."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.record = self.top / "record.json"

    def parts(self, program: str, seeds: list[int]) -> Path:
        """A folder with a part of ten cases from each of these seeds."""
        folder = self.top / program
        folder.mkdir(exist_ok=True)
        for seed in seeds:
            counts = [("first seed", seed), ("cases", 10), ("crashes", 80)]
            lines = [{"counted": what, "number": number} for what, number in counts]
            part = {"program": program, "counts": lines}
            (folder / f"{seed}.json").write_text(json.dumps(part))
        return folder

    def test_programs_add_up_and_a_program_counts_once(self) -> None:
        one, other = self.parts("one", [5, 15]), self.parts("other", [25])
        total = torture_parts.recorded(self.record, one, "aaa")
        self.assertEqual(total, {"programs": 1, "parts": 2, "cases": 20, "crashes": 160})
        total = torture_parts.recorded(self.record, other, "bbb")
        self.assertEqual(total["crashes"], 240)
        self.parts("other", [35])
        total = torture_parts.recorded(self.record, other, "bbb")
        self.assertEqual((total["programs"], total["crashes"]), (2, 320))
        entries = json.loads(self.record.read_text())
        self.assertEqual([entry["commit"] for entry in entries], ["aaa", "bbb"])
        self.assertEqual([entry["seeds"] for entry in entries], [[5, 24], [25, 44]])

    def test_seeds_that_two_programs_have_run_are_refused(self) -> None:
        torture_parts.recorded(self.record, self.parts("one", [5, 15]), "aaa")
        before = self.record.read_text()
        with self.assertRaises(SystemExit):
            torture_parts.recorded(self.record, self.parts("other", [20]), "bbb")
        self.assertEqual(self.record.read_text(), before)


if __name__ == "__main__":
    unittest.main()
