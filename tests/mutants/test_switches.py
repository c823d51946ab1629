"""Tests of scripts/mutant_switches.py: where operands begin and end, and what is written."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "scripts"))

from mutant_suites import blame, first_failure  # noqa: E402
from mutant_switches import (  # noqa: E402
    CannotSwitchError,
    Mutant,
    Source,
    expression,
    mutated_text,
    tokens,
    with_switches,
)

# Source with the operator between `<<` and `>>`, its replacement, and the expression with it.
BINARY = [
    ("if a «==» b {", "!=", "a != b"),
    ("let x = a - b «-» c * d;", "+", "a - b + c * d"),
    ("let x = a - b «+» c;", "*", "(a - b) * (c)"),
    ("x = y.len() as u64 «+» self.z(a, b)[1]?.w;", "-", "y.len() as u64 - self.z(a, b)[1]?.w"),
    ("f(|x| x.0 «>» 3, 4)", "<", "x.0 < 3"),
    ("f(|a, b: u8| a «<» b)", ">", "a > b"),
    ("f(move || a «&&» b)", "||", "(a) || (b)"),
    ("let x = a | b «|» c;", "^", "(a | b) ^ (c)"),
    ("if a | b «==» c {", "!=", "a | b != c"),
    ("*total «+=» match_it(x) + 1;", "-=", "*total -= match_it(x) + 1"),
    ("} *total «+=» 1;", "-=", "*total -= 1"),
    ("if let Some(x) = y «+» 1 && z {", "-", "y - 1"),
    ("return a «&&» !b || c;", "||", "(a) || (!b)"),
    ("Foo(x) if x «>» 3 => 1,", ">=", "x >= 3"),
    ("for i in 0..n «-» 1 {", "+", "n + 1"),
    (
        "let s = i.map(|a| a * 2).sum::<u64>() «*» size_of::<Vec<u8>>() ;",
        "+",
        "(i.map(|a| a * 2).sum::<u64>()) + (size_of::<Vec<u8>>())",
    ),
    ("let x = -a «/» &b;", "%", "-a % &b"),
    (
        "matches!(a, B | C) «&&» vec![1].is_empty()",
        "||",
        "(matches!(a, B | C)) || (vec![1].is_empty())",
    ),
    ("let c = a.b «<=» u64::MAX - c && d;", ">", "a.b > u64::MAX - c"),
    ("let x = mask «&» !(1 << k) | y;", "|", "(mask) | (!(1 << k))"),
    ("t[(w >> (8 * b) «&» 0xFF) as usize]", "|", "(w >> (8 * b)) | (0xFF)"),
    ("match a «%» b { 0 => 1 }", "/", "a / b"),
]
CANNOT = [
    "if let Some(x) = y «&&» z {",
    "if a «&&» let Some(x) = y {",
    "let x = match a { _ => 1 } «+» 1;",
    "let x = 1 «+» if a { 1 } else { 2 };",
]


def of(marked: str, replacement: str, genre: str = "BinaryOperator") -> tuple[str, Mutant]:
    """A text without its marks, and the mutant between them."""
    before, rest = marked.split("«")
    op, after = rest.split("»")
    start = len("fn f() { ") + len(before)
    text = "fn f() { " + before + op + after + " }}))"
    return text[: text.index(" }}))")], Mutant(0, genre, start, start + len(op), replacement)


class Switches(unittest.TestCase):
    """What the text is with switches."""

    def test_operands(self) -> None:
        for marked, replacement, wanted in BINARY:
            text, mutant = of(marked, replacement)
            source = unclosed(text)
            with self.subTest(marked):
                found = expression(source, mutant)[2]
                self.assertEqual(" ".join(found.split()), " ".join(wanted.split()))

    def test_what_has_no_switch(self) -> None:
        for marked in CANNOT:
            text, mutant = of(marked, "||")
            with self.subTest(marked), self.assertRaises(CannotSwitchError):
                expression(unclosed(text), mutant)

    def test_mutants_of_one_operator_and_within_each_other(self) -> None:
        text = "fn f() -> bool { !a + b < c }"
        at = text.index
        mutants = [
            Mutant(1, "BinaryOperator", at("<"), at("<") + 1, "=="),
            Mutant(2, "BinaryOperator", at("<"), at("<") + 1, ">"),
            Mutant(3, "BinaryOperator", at("+"), at("+") + 1, "-"),
            Mutant(4, "UnaryOperator", at("!"), at("!") + 1, ""),
            Mutant(5, "FnValue", at("!"), at(" }"), "true"),
            Mutant(6, "FnValue", at("!"), at(" }"), "false"),
        ]
        file = with_switches(text, mutants, lambda n: f"on({n})")
        written = file.text
        self.assertEqual(file.left_out, [])
        self.assertEqual(
            written,
            "fn f() -> bool { if on(5) { return true; } if on(6) { return false; } "
            "(if on(1) { !a + b == c } else if on(2) { !a + b > c } else { "
            "(if on(3) { !a - b } else { (if on(4) { a } else { !a }) + b }) < c }) }",
        )
        own = {written[region.start : region.end]: region.numbers for region in file.regions}
        self.assertEqual(own["if on(2) { !a + b > c } else "], [2])
        self.assertEqual(own["if on(6) { return false; } "], [6])

    def test_arms_and_guards(self) -> None:
        text = "fn f() { match a { A { b, .. } | C(b) => 1, D if x => 2, _ => 3 } }"
        start = text.index("A {")
        guard = text.index("x =>")
        mutants = [
            Mutant(1, "MatchArm", start, text.index(", D") + 1, ""),
            Mutant(2, "MatchArmGuard", guard, guard + 1, "false"),
        ]
        written = with_switches(text, mutants, lambda n: f"on({n})").text
        self.assertIn("A { b, .. } | C(b) if !on(1) => 1,", written)
        self.assertIn("D if (if on(2) { false } else { x }) => 2", written)
        self.assertEqual(mutated_text(text, mutants[0]).count("=>"), 2)

    def test_sources_of_the_tree_are_read(self) -> None:
        files = sorted(TOP.glob("crates/*/src/**/*.rs"))
        self.assertGreater(len(files), 200)
        for path in files:
            text = path.read_text(encoding="utf-8")
            with self.subTest(str(path)):
                self.assertTrue(Source(text).tokens)
                self.assertEqual(with_switches(text, [], str).text, text)

    def test_tokens(self) -> None:
        text = "/// \"a\n'a: b'x' '\\'' r#\"\"\"# 0..1.5 x.0 /* = */ <<="
        found = [token.text for token in tokens(text)]
        self.assertEqual(
            found,
            ["'a", ":", "b'x'", "'\\''", 'r#"""#', "0", "..", "1.5", "x", ".", "0", "<<="],
        )

    def test_an_error_is_blamed_on_the_smallest_region(self) -> None:
        text = "fn f() -> bool { g(); a + b < c }"
        plus, less = text.index("+"), text.index("<")
        function = (0, len(text))
        mutants = [
            Mutant(1, "BinaryOperator", less, less + 1, "==", function),
            Mutant(2, "BinaryOperator", plus, plus + 1, "-", function),
            Mutant(3, "FnValue", text.index("g"), text.index(" }"), "true", function),
        ]
        file = with_switches(text, mutants, lambda n: f"on({n})")

        def error(piece: str, code: str) -> dict[int, bool]:
            start = file.text.index(piece)
            span = {
                "is_primary": True,
                "byte_start": start,
                "byte_end": start + len(piece),
                "file_name": "f.rs",
            }
            return blame({"code": {"code": code}, "spans": [span]}, {"f.rs": file})

        self.assertEqual(error("a - b", "E0369"), {2: True})
        self.assertEqual(error("on(1)", "E0015"), {1: False})
        self.assertEqual(error("return true", "E0308"), {3: True})
        # In none of them: what changes the function's result is built alone.
        self.assertEqual(error("g()", "E0308"), {3: False})

    def test_the_failure_is_named(self) -> None:
        self.assertEqual(first_failure("running 2 tests\ntest a::b ... FAILED\n"), "a::b")
        self.assertEqual(first_failure("thread panicked\nseed 7: wrong\n"), "seed 7: wrong")


def unclosed(text: str) -> Source:
    """A source whose brackets need not match."""
    opened = [char for char in text if char in "([{"]
    closed = text.count(")") + text.count("]") + text.count("}")
    stack: list[str] = []
    for char in text:
        if char in "([{":
            stack.append(char)
        elif char in ")]}" and stack:
            stack.pop()
    assert len(opened) >= closed, text
    return Source(text + " " + "".join({"(": ")", "[": "]", "{": "}"}[c] for c in reversed(stack)))


if __name__ == "__main__":
    unittest.main()
