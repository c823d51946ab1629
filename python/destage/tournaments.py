"""Tournaments: policies over a grid of cells, on one score card (docs/tournament.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from destage import _native, _progress
from destage._options import threads_of
from destage.errors import OptionError
from destage.policy import PolicyLike, digest_of_policy, name_of_policy, policies_of
from destage.tables import policies as policy_table


@dataclass(frozen=True)
class ScoreCard:
    """What a tournament found. It prints as its tables."""

    #: Where it was written: ``index.html``, ``card.json``, ``card.csv``, ``card.txt``.
    directory: Path
    #: The card as ``destage tournament --format json`` prints it.
    data: dict[str, Any]
    _text: str = field(repr=False)

    def totals(self, protocol: str | None = None) -> dict[str, dict[str, Any]]:
        """Each policy's line over all cells; without a protocol those of the one that is judged."""
        cards = {card["protocol"]: card for card in self.data["protocols"]}
        if protocol is not None and protocol not in cards:
            raise OptionError(f"the card has no protocol {protocol}; it has: {', '.join(cards)}")
        card = cards[protocol] if protocol else self.data["protocols"][0]
        return {total["policy"]: total for total in card["totals"]}

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._text)}</pre>"


def tournament(
    policies: PolicyLike | Sequence[PolicyLike] = "ebb",
    *,
    out: str | os.PathLike[str],
    against: PolicyLike | Sequence[PolicyLike] = ("stow", "wow"),
    grid: str | os.PathLike[str] | None = None,
    cells: str | Sequence[str] = (),
    protocols: str | Sequence[str] = (),
    quick: bool = False,
    traces: str | os.PathLike[str] | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: bool = False,
) -> ScoreCard:
    """Plays policies over a grid of cells: ``destage tournament``.

    A policy may be a :class:`DestagePolicy`; its runs are kept by its source. ``out`` gets the
    card, and all runs: call again with the same one to resume. ``grid`` is another grid than the
    program's, ``traces`` the folder of its traces. ``cells`` plays only cells whose names have one
    of these texts in them, ``protocols`` only these of its protocols; the first is judged.
    """
    judged, references = policies_of(policies), policies_of(against)
    own = {name_of_policy(p): p for p in [*judged, *references] if not isinstance(p, str)}
    known = {entry.name for entry in policy_table()}
    if taken := sorted(known & own.keys()):
        raise OptionError(f"two policies have the name {taken[0]}")
    with _progress.counted(progress, " plays") as report:
        data, text = _native.tournament(
            [name_of_policy(policy) for policy in judged],
            [name_of_policy(policy) for policy in references],
            out,
            threads_of(threads),
            grid,
            quick,
            traces,
            seed,
            {name: policy for name, policy in own.items() if not isinstance(policy, str)},
            {name: digest_of_policy(policy) for name, policy in own.items()},
            report,
            [cells] if isinstance(cells, str) else list(cells),
            [protocols] if isinstance(protocols, str) else list(protocols),
        )
    return ScoreCard(Path(out), json.loads(data), text)
