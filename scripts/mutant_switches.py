"""Puts many mutants into a source file at once, each behind a switch, for mutants.py.

A compiled program then has all of them, and a number in its environment turns one on. An operator
keeps its operands: `a + b` becomes `(if on(7) { a - b } else { a + b })`, so this module finds
where operands begin and end. What it cannot express raises `CannotSwitchError`; such a mutant is
built alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class CannotSwitchError(Exception):
    """The mutant cannot be expressed as a switch."""


class Token(NamedTuple):
    """A token of Rust, without comments and spaces."""

    kind: str
    text: str
    start: int
    end: int


class Mutant(NamedTuple):
    """A change of a file's text: `text[start:end]` is replaced."""

    number: int
    genre: str
    start: int
    end: int
    replacement: str
    # Where the function around it is.
    function: tuple[int, int] = (0, 0)


KEYWORDS = re.split(
    " ",
    "as break const continue else enum extern fn for if impl in let loop match mod move mut pub "
    "ref return static struct trait type unsafe use where while dyn",
)
PUNCTUATION = re.split(
    " ", "<<= >>= ..= ... :: -> => == != <= >= && || += -= *= /= %= ^= &= |= << >> .."
)
TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<raw>b?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<string>b?"(?:\\.|[^"\\])*")
    | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
    | (?P<lifetime>'[A-Za-z_]\w*)
    | (?P<number>\d[0-9A-Za-z_]*(?:\.\d[0-9A-Za-z_]*)?)
    | (?P<ident>(?:r\#)?[A-Za-z_]\w*)
    | (?P<punct>"""
    + "|".join(re.escape(text) for text in PUNCTUATION)
    + r"""|.)
    """,
    re.VERBOSE | re.DOTALL,
)
LEVELS = (
    "as",
    "* / %",
    "+ -",
    "<< >>",
    "&",
    "^",
    "|",
    "== != < > <= >=",
    "&&",
    "||",
    ".. ..=",
    "= += -= *= /= %= ^= &= |= <<= >>=",
)
PRECEDENCE = {op: 12 - at for at, level in enumerate(LEVELS) for op in level.split()}
ASSIGNMENT = PRECEDENCE["="]
PREFIXES = frozenset(["-", "!", "*", "&", "&&"])
OPENING, CLOSING = "([{", ")]}"


def tokens(text: str) -> list[Token]:
    """The tokens of a source file."""
    found, at = [], 0
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise CannotSwitchError(f"no token at {at}")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
    return found


class Source:
    """A source file by its tokens, to find where expressions begin and end."""

    def __init__(self, text: str) -> None:
        """Reads a file's text."""
        self.text = text
        self.tokens = tokens(text)
        self.at_offset = {token.start: at for at, token in enumerate(self.tokens)}
        self.pair: dict[int, int] = {}
        opened = []
        for at, token in enumerate(self.tokens):
            if token.kind == "punct" and token.text in OPENING:
                opened.append(at)
            elif token.kind == "punct" and token.text in CLOSING:
                start = opened.pop()
                self.pair[start], self.pair[at] = at, start

    def is_text(self, at: int, *texts: str) -> bool:
        """Whether a token is one of these."""
        token = self.tokens[at]
        return token.text in texts and token.kind in ("punct", "ident")

    def ends_operand(self, at: int) -> bool:
        """Whether an operand may end with this token, so that an operator may come after it."""
        token = self.tokens[at]
        if token.kind == "ident":
            return token.text not in KEYWORDS
        if token.kind == "punct":
            return token.text in (")", "]", "}", "?")
        return token.kind != "lifetime"

    def generics_start(self, at: int) -> int:
        """The `<` of a `>`."""
        depth = 0
        while at > 0:
            text = self.tokens[at].text
            if text in (">", ">>"):
                depth += len(text)
            elif text in ("<", "<<"):
                depth -= len(text)
                if depth == 0:
                    return at
            elif text in (";", "{", "}"):
                break
            at -= 1
        raise CannotSwitchError("a `>` without its `<`")

    def generics_end(self, at: int) -> int:
        """The `>` of a `<`."""
        depth = 0
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text in ("<", "<<"):
                depth += len(text)
            elif text in (">", ">>"):
                depth -= len(text)
                if depth == 0:
                    return at
            elif text in (";", "{", "}"):
                break
            at += 1
        raise CannotSwitchError("a `<` without its `>`")

    def path_start(self, at: int) -> int | None:
        """Where the token before a segment of a path continues it, or None."""
        if self.is_text(at - 1, "."):
            return at - 2
        if not self.is_text(at - 1, "::"):
            return None
        if self.is_text(at - 2, ">", ">>"):
            start = self.generics_start(at - 2)
            if self.is_text(start - 1, "::"):
                return start - 2
            if self.tokens[start - 1].kind == "ident" and not self.is_text(start - 1, *KEYWORDS):
                return start - 1
            raise CannotSwitchError("a qualified path")
        if self.tokens[at - 2].kind == "ident":
            return at - 2
        raise CannotSwitchError("a path from the root")

    def call_start(self, at: int) -> int | None:
        """Where what is called or indexed ends, before a `(` or `[`; None if nothing is."""
        before = self.tokens[at - 1]
        if self.is_text(at - 1, ">", ">>"):
            try:
                start = self.generics_start(at - 1)
            except CannotSwitchError:
                # It compares or shifts.
                return None
            return start - 2 if self.is_text(start - 1, "::") else None
        if self.is_text(at - 1, "!") and self.tokens[at - 2].kind == "ident":
            return None if self.is_text(at - 2, *KEYWORDS) else at - 2
        if self.is_text(at - 1, "}"):
            return None
        if before.kind in ("ident", "number") or self.is_text(at - 1, ")", "]", "?"):
            return at - 1 if self.ends_operand(at - 1) else None
        return None

    def postfix_start(self, at: int) -> int:
        """The first token of the operand that ends here, without prefix operators."""
        while True:
            if self.is_text(at, ")", "]"):
                start = self.pair[at]
                called = self.call_start(start)
                if called is None:
                    return start
                at = called
            elif self.is_text(at, "?"):
                at -= 1
            elif self.tokens[at].kind == "punct" or self.is_text(at, *KEYWORDS):
                raise CannotSwitchError(f"an operand that ends with {self.tokens[at].text}")
            else:
                before = self.path_start(at)
                if before is None:
                    return at
                at = before

    def with_prefixes(self, at: int) -> int:
        """The first token of an operand, with its prefix operators."""
        while True:
            before = at - 1
            if self.is_text(before, "mut") and self.is_text(before - 1, "&"):
                before -= 1
            if not self.is_text(before, *PREFIXES):
                return at
            if self.ends_operand(before - 1) and not self.is_text(before - 1, "}"):
                return at
            at = before

    def is_closure_bar(self, at: int) -> bool:
        """Whether a `|` or `||` ends the parameters of a closure."""
        if self.is_text(at, "||"):
            return not self.ends_operand(at - 1)
        if not self.is_text(at, "|"):
            return False
        at -= 1
        while at > 0 and not self.is_text(at, "|"):
            if self.is_text(at, ";", "{", "}", "(", "[", "=>"):
                return False
            at = self.pair[at] - 1 if self.is_text(at, ")", "]") else at - 1
        return not self.ends_operand(at - 1)

    def is_let_condition(self, at: int) -> bool:
        """Whether a `=` is that of an `if let`, not of a statement."""
        at -= 1
        while at > 0 and not self.is_text(at, ";", "{", "(", "=>"):
            if self.is_text(at, "let"):
                return self.is_text(at - 1, "if", "while", "&&", "(")
            at = self.pair[at] - 1 if self.is_text(at, ")", "]", "}") else at - 1
        return False

    def left(self, op: int) -> int:
        """The first token of a binary operator's left operand."""
        binds = PRECEDENCE[self.tokens[op].text]
        least = binds + 1 if binds == ASSIGNMENT else binds
        at = op
        while True:
            at = self.with_prefixes(self.postfix_start(at - 1))
            before = at - 1
            text = self.tokens[before].text
            if self.tokens[before].kind not in ("punct", "ident") or self.is_closure_bar(before):
                return at
            if PRECEDENCE.get(text, 0) < least:
                logical = self.is_text(op, "&&", "||")
                if logical and text == "=" and self.is_let_condition(before):
                    raise CannotSwitchError("a condition with `let`")
                return at
            at = before

    def operand_end(self, at: int) -> int:
        """The last token of the operand that begins here."""
        while self.is_text(at, *PREFIXES) or self.is_text(at, "mut"):
            at += 1
        token = self.tokens[at]
        if token.kind == "punct" and token.text in "([":
            at = self.pair[at]
        elif token.kind in ("punct", "lifetime") or token.text in KEYWORDS:
            raise CannotSwitchError(f"an operand that begins with {token.text}")
        else:
            at = self.path_end(at)
            if self.is_text(at + 1, "!") and self.is_text(at + 2, "(", "[", "{"):
                at = self.pair[at + 2]
        while True:
            if self.is_text(at + 1, "(", "["):
                at = self.pair[at + 1]
            elif self.is_text(at + 1, "?"):
                at += 1
            elif self.is_text(at + 1, "."):
                at = self.path_end(at + 2)
            else:
                return at

    def path_end(self, at: int) -> int:
        """The last token of the path whose segment this is."""
        while self.is_text(at + 1, "::"):
            at = self.generics_end(at + 2) if self.is_text(at + 2, "<") else at + 2
        return at

    def right(self, op: int) -> int:
        """The last token of a binary operator's right operand."""
        binds = PRECEDENCE[self.tokens[op].text]
        least = binds if binds == ASSIGNMENT else binds + 1
        at = self.operand_end(op + 1)
        while True:
            after = self.tokens[at + 1]
            if after.kind not in ("punct", "ident") or PRECEDENCE.get(after.text, 0) < least:
                return at
            end = self.path_end if after.text == "as" else self.operand_end
            at = end(at + 2)

    def arm_arrow(self, start: int) -> int:
        """Where the pattern of the match arm that begins at this offset ends."""
        at = self.at_offset[start]
        while self.is_text(at, "#"):
            at = self.pair[at + 1] + 1
        while not self.is_text(at, "=>"):
            at = self.pair.get(at, at) + 1
        return self.tokens[at].start


@dataclass
class Node:
    """A part of the text that is written with switches: an expression, or a place to insert."""

    start: int
    end: int
    mutants: list[Mutant] = field(default_factory=list)
    # For an expression: its text with a mutant.
    mutated: list[str] = field(default_factory=list)
    inside: list[Node] = field(default_factory=list)


@dataclass
class Region:
    """A part of a written file, and the mutants to blame for an error in it."""

    start: int
    end: int
    numbers: list[int]


@dataclass
class Written:
    """A file with switches."""

    text: str
    # In bytes of the text.
    regions: list[Region]
    # Mutants without a switch.
    left_out: list[Mutant]
    # Those with one.
    mutants: list[Mutant]
    # Places of the text, in bytes, and where they are in the original.
    places: list[tuple[int, int]]

    def blame(self, start: int, end: int) -> list[int]:
        """The mutants that an error here is about: of the smallest region around it."""
        inside = [one for one in self.regions if one.start <= start and end <= one.end]
        if inside:
            return min(inside, key=lambda region: region.end - region.start).numbers
        within = [one for one in self.regions if start < one.end and one.start < end]
        return within[0].numbers if within else []

    def blame_function(self, start: int) -> list[int]:
        """The mutants of the function around this place: first those that change what it returns,
        or its matches."""
        written, original = max(place for place in self.places if place[0] <= start)
        at = original + start - written
        here = [one for one in self.mutants if one.function[0] <= at < one.function[1]]
        first = [one for one in here if one.genre in ("FnValue", "MatchArm")]
        return [one.number for one in first or here]


def expression(source: Source, mutant: Mutant) -> tuple[int, int, str]:
    """Where the expression of a mutant is, and its text with the mutant."""
    text = source.text
    if mutant.genre == "MatchArmGuard":
        return mutant.start, mutant.end, mutant.replacement
    at = source.at_offset.get(mutant.start)
    if at is None or source.tokens[at].end != mutant.end:
        raise CannotSwitchError("not an operator")
    if mutant.genre == "UnaryOperator":
        end = source.tokens[source.operand_end(at + 1)].end
        return mutant.start, end, text[mutant.end : end]
    if mutant.genre != "BinaryOperator":
        raise CannotSwitchError(mutant.genre)
    start, end = source.tokens[source.left(at)].start, source.tokens[source.right(at)].end
    left, right = text[start : mutant.start], text[mutant.end : end]
    # A replacement that binds more loosely or tightly keeps the operands.
    if PRECEDENCE[mutant.replacement] != PRECEDENCE[source.tokens[at].text]:
        left, right = f"({left.rstrip()}) ", f" ({right.lstrip()})"
    return start, end, left + mutant.replacement + right


def place(source: Source, mutant: Mutant) -> Node:
    """Where a mutant's switch goes."""
    if mutant.genre == "FnValue":
        return Node(mutant.start, mutant.start, [mutant])
    if mutant.genre == "MatchArm":
        at = source.arm_arrow(mutant.start)
        return Node(at, at, [mutant])
    start, end, mutated = expression(source, mutant)
    return Node(start, end, [mutant], [mutated])


def mutated_text(text: str, mutant: Mutant) -> str:
    """The text of a file with this mutant alone."""
    try:
        if mutant.genre in ("BinaryOperator", "UnaryOperator"):
            start, end, mutated = expression(Source(text), mutant)
            return text[:start] + mutated + text[end:]
    except CannotSwitchError:
        pass
    return text[: mutant.start] + mutant.replacement + text[mutant.end :]


def _nest(nodes: list[Node]) -> tuple[list[Node], list[Mutant]]:
    """Nodes by what contains them; and mutants whose nodes overlap others."""
    merged: dict[tuple[int, int, str], Node] = {}
    for node in nodes:
        kind = node.mutants[0].genre if node.start == node.end else ""
        known = merged.setdefault((node.start, node.end, kind), node)
        if known is not node:
            known.mutants += node.mutants
            known.mutated += node.mutated
    top: list[Node] = []
    open_nodes: list[Node] = []
    overlapping: list[Mutant] = []
    order = sorted(
        merged.values(), key=lambda node: (node.start, node.start != node.end, -node.end)
    )
    for node in order:
        while open_nodes and open_nodes[-1].end <= node.start:
            open_nodes.pop()
        if open_nodes and node.end > open_nodes[-1].end:
            overlapping += node.mutants
            continue
        (open_nodes[-1].inside if open_nodes else top).append(node)
        if node.end > node.start:
            open_nodes.append(node)
    return top, overlapping


class Writer:
    """Writes a file with its switches."""

    def __init__(self, text: str, switch: Callable[[int], str]) -> None:
        """`switch` is the expression that says whether a mutant is on."""
        self.text = text
        self.switch = switch
        self.parts: list[str] = []
        self.length = 0
        self.regions: list[Region] = []
        self.places: list[tuple[int, int]] = []

    def put_original(self, start: int, end: int) -> None:
        """Writes a part of the original."""
        self.places.append((self.length, start))
        self.put(self.text[start:end])

    def put(self, text: str) -> None:
        """Writes text."""
        self.parts.append(text)
        self.length += len(text.encode())

    def region(self, start: int, mutants: list[Mutant]) -> None:
        """Notes that what was written since then is of these mutants."""
        self.regions.append(Region(start, self.length, [mutant.number for mutant in mutants]))

    def write(self, start: int, end: int, nodes: list[Node]) -> None:
        """Writes a part of the text with the switches in it."""
        at = start
        for node in nodes:
            self.put_original(at, node.start)
            before = self.length
            if node.start == node.end:
                self.insert(node)
            else:
                self.branches(node)
                self.region(before, node.mutants)
            at = node.end
        self.put_original(at, end)

    def insert(self, node: Node) -> None:
        """Writes the start of a function, or the guard of a match arm."""
        if node.mutants[0].genre == "MatchArm":
            before = self.length
            self.put(f"if !{self.switch(node.mutants[0].number)} ")
            self.region(before, node.mutants)
            return
        for mutant in node.mutants:
            before = self.length
            self.put(f"if {self.switch(mutant.number)} {{ return {mutant.replacement}; }} ")
            self.region(before, [mutant])

    def branches(self, node: Node) -> None:
        """Writes an expression and what it is with each mutant."""
        self.put("(")
        for mutant, mutated in zip(node.mutants, node.mutated):
            before = self.length
            self.put(f"if {self.switch(mutant.number)} {{ {mutated} }} else ")
            self.region(before, [mutant])
        self.put("{ ")
        self.write(node.start, node.end, node.inside)
        self.put(" })")


def with_switches(text: str, mutants: list[Mutant], switch: Callable[[int], str]) -> Written:
    """The text with a switch for each mutant that can have one."""
    source = Source(text)
    nodes, left_out = [], []
    for mutant in mutants:
        try:
            nodes.append(place(source, mutant))
        except (CannotSwitchError, KeyError, IndexError):
            left_out.append(mutant)
    top, overlapping = _nest(nodes)
    left_out += overlapping
    writer = Writer(text, switch)
    writer.write(0, len(text), top)
    on = [mutant for mutant in mutants if mutant not in left_out]
    return Written("".join(writer.parts), writer.regions, left_out, on, writer.places)


SWITCH_FILE = """\
//! Which mutant is on, and which were reached: only in the copy of the tree that mutants.py makes.
#![allow(missing_docs, unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
const MUTANTS: usize = @MUTANTS@;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; MUTANTS] = [const { AtomicBool::new(false) }; MUTANTS];

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn atexit(callback: extern "C" fn()) -> c_int;
    fn creat(path: *const c_char, mode: u32) -> c_int;
    fn write(file: c_int, bytes: *const c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

#[inline]
pub fn on(number: u32) -> bool {
    let reached = &REACHED[number as usize];
    if !reached.load(Relaxed) {
        reached.store(true, Relaxed);
    }
    match ACTIVE.load(Relaxed) {
        UNKNOWN => read() == number,
        active => active == number,
    }
}

#[cold]
fn read() -> u32 {
    let mut active = NONE;
    unsafe {
        let mut at = getenv(c"DESTAGE_MUTANT".as_ptr());
        if !at.is_null() && *at != 0 {
            active = 0;
            while *at != 0 {
                active = active * 10 + (*at as u8 - b'0') as u32;
                at = at.add(1);
            }
        }
        if ACTIVE.swap(active, Relaxed) == UNKNOWN {
            atexit(report);
        }
    }
    active
}

extern "C" fn report() {
    unsafe {
        let path = getenv(c"DESTAGE_MUTANTS_REACHED".as_ptr());
        if path.is_null() {
            return;
        }
        let file = creat(path, 0o644);
        for reached in &REACHED {
            let byte = b'0' + reached.load(Relaxed) as u8;
            write(file, (&raw const byte).cast(), 1);
        }
        close(file);
    }
}
"""
