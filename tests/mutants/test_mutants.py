"""Tests of scripts/mutants.py: what is drawn, what is kept, and what fails."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "scripts"))

import mutants  # noqa: E402
from mutant_suites import STOPPED, Binary, Verdict, run_program  # noqa: E402
from mutant_switches import Mutant  # noqa: E402

FILE = "crates/nvslog/src/space.rs"
SHARES = {"log": 500, "destage": 250, "volume": 199, "rebuild": 30, "mirror": 20, "superblocks": 1}


def some(shares: dict[str, int]) -> list[mutants.Listed]:
    """This many mutants of each module."""
    made = []
    for module, number in shares.items():
        for at in range(number):
            change = f"replace + with - in f{at}"
            name = f"{module} {at}"
            mutant = Mutant(0, "BinaryOperator", 0, 1, "-")
            made.append(
                mutants.Listed(module, FILE, change, "a + b", f"{FILE}:{at}:1", mutant, name, name)
            )
    return made


class Draw(unittest.TestCase):
    """Which mutants are drawn."""

    def test_modules_have_their_shares(self) -> None:
        every = some(SHARES)
        drawn = mutants.draw(every, 100, 1)
        of = Counter(one.module for one in drawn)
        self.assertEqual(len(drawn), 100)
        self.assertEqual([of["log"], of["destage"], of["volume"]], [50, 25, 20])
        self.assertEqual([one.mutant.number for one in drawn], list(range(100)))

    def test_a_seed_says_which(self) -> None:
        every = some(SHARES)
        keys = [{one.key for one in mutants.draw(every, 100, seed)} for seed in (1, 1, 2)]
        self.assertEqual(keys[0], keys[1])
        self.assertGreater(len(keys[0] - keys[2]), 50)

    def test_shards_are_a_partition(self) -> None:
        drawn = mutants.draw(some(SHARES), 100, 1)
        parts = [mutants.shard_of(drawn, f"{part}/3") for part in (1, 2, 3)]
        self.assertEqual(sorted(one.key for part in parts for one in part),
                         sorted(one.key for one in drawn))  # fmt: skip
        with self.assertRaises(SystemExit):
            mutants.shard_of(drawn, "4/3")

    def test_every_pattern_is_of_a_file(self) -> None:
        for _, pattern in mutants.MODULES:
            self.assertTrue(list(TOP.glob(pattern)), pattern)
        self.assertEqual(mutants.module_of("crates/served/src/log/mirror.rs"), "mirror")
        self.assertEqual(mutants.module_of("crates/served/src/log/mod.rs"), "log")
        self.assertEqual(mutants.module_of("crates/served/src/defect.rs"), "")
        self.assertEqual(mutants.module_of("crates/server/src/serve.rs"), "")


class Kept(unittest.TestCase):
    """Verdicts on file, and what is made of them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        self.mutants = some({"log": 10})

    def results(self, outcomes: list[str], shard: str = "1/1") -> mutants.Results:
        results = mutants.Results(self.out, shard)
        for one, outcome in zip(self.mutants, outcomes):
            suite = "nvslog tests" if outcome == "caught" else ""
            results.add(one, Verdict(outcome, suite, "", 1.0, []), "switch")
        return results

    def summary(self, results: mutants.Results, known: list[mutants.Explanation]) -> int:
        with contextlib.redirect_stdout(io.StringIO()):
            return mutants.print_summary(self.mutants, results, known)

    def test_a_run_continues_after_half_a_line(self) -> None:
        self.results(["caught", "timeout", "unviable"])
        with (self.out / "results.jsonl").open("a") as file:
            file.write('{"key": "log 3", "outc')
        again = mutants.Results(self.out, "1/1")
        self.assertEqual(sorted(again.known), ["log 0", "log 1", "log 2"])
        again.add(self.mutants[3], Verdict("caught", "", "", 1.0, []), "switch")
        self.assertEqual(len(mutants.Results(self.out, "1/1").known), 4)

    def test_shards_add_up(self) -> None:
        self.results(["caught", "caught"], "1/2")
        self.mutants.reverse()
        self.results(["caught"], "2/2")
        self.assertEqual(len(mutants.Results(self.out, "1/1").known), 3)

    def test_a_survivor_is_judged_again_by_other_suites(self) -> None:
        self.results(["caught", "survived", "not reached"])
        with mock.patch.object(mutants, "suites_revision", return_value="others"):
            again = mutants.Results(self.out, "1/1")
        self.assertEqual(sorted(again.known), ["log 0"])

    def test_the_score_counts_those_that_compile(self) -> None:
        results = self.results(["caught", "timeout", "unviable", "survived"])
        row = mutants.row(self.mutants, results)
        self.assertEqual((row.drawn, row.judged, row.survived), (10, 4, 1))
        self.assertEqual(row.score(), "66.7 %")

    def test_a_small_sample_fails_only_if_chance_does_not_explain_it(self) -> None:
        for caught, of, rare in [(7, 10, False), (4, 10, True), (76, 100, False), (75, 100, True)]:
            chance = mutants.chance_of_at_most(caught, of, 0.85)
            self.assertEqual(chance < mutants.RARE, rare, (caught, of, chance))
        self.assertAlmostEqual(mutants.chance_of_at_most(100, 100, 0.85), 1.0)

    def test_survivors_need_an_explanation_that_fits(self) -> None:
        results = self.results(["caught", "survived"])
        self.assertEqual(self.summary(results, []), 1)

        def wrong(change: str, why: str) -> list[str]:
            one = mutants.Explanation(FILE, change, "a + b", why)
            with mock.patch.object(mutants, "explanations", return_value=[one]):
                return [line.split(":")[0] for line in
                        mutants.wrong_explanations(self.mutants, results)]  # fmt: skip

        known = mutants.Explanation(FILE, "replace + with - in f1", "a + b", "Harmless.")
        self.assertEqual(self.summary(results, [known]), 0)
        self.assertEqual(wrong("replace + with - in f1", "Harmless."), [])
        self.assertEqual(
            wrong("replace + with - in f99", "Harmless."),
            ["explained, but there is no such mutant"],
        )
        self.assertEqual(
            wrong("replace + with - in f0", "Harmless."), ["explained, but a suite catches it"]
        )
        self.assertEqual(wrong("replace + with - in f1", " "), ["explained, but not in one line"])


class Programs(unittest.TestCase):
    """How runs of programs end."""

    def run_script(self, script: str, limit: float = 5.0) -> tuple[bool, bool, str]:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            binary = Binary("suite", "name", program, Path(folder), [])
            run = run_program(binary, {"PATH": "/usr/bin:/bin"}, limit, Path(folder) / "log")
        return run.ok, run.timed_out, run.failed

    def test_how_they_end(self) -> None:
        self.assertEqual(self.run_script("echo test a ... ok"), (True, False, ""))
        self.assertEqual(
            self.run_script("echo seed 7: wrong; exit 1"), (False, False, "seed 7: wrong")
        )
        self.assertEqual(self.run_script("while :; do :; done", 1.0), (False, True, "no end"))
        # The rest of the tests need not run.
        failing = "echo 'test a ... FAILED'; sleep 60; exit 0"
        self.assertEqual(self.run_script(failing), (False, False, "a"))
        self.assertEqual(self.run_script("kill -ABRT $$"), (False, False, "no output"))

    def test_a_run_that_ends_early_ends_its_programs(self) -> None:
        self.addCleanup(STOPPED.clear)
        verdicts = mutants.side_by_side(lambda _: None, some({"log": 2}))
        next(verdicts)
        verdicts.close()
        self.assertTrue(STOPPED.is_set())
        self.assertEqual(self.run_script("sleep 60"), (False, True, "no end"))

    def test_every_verdict_comes_with_its_mutant(self) -> None:
        def judged(mutant: mutants.Listed) -> Verdict:
            return Verdict("caught", "", mutant.change, 0.0, [])

        drawn = some({"log": 20})
        found = {one.key: said.test for one, said in mutants.side_by_side(judged, drawn) if said}
        self.assertEqual(found, {one.key: one.change for one in drawn})


if __name__ == "__main__":
    unittest.main()
