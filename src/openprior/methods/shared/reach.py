"""What a distribution on public rows cannot say, however large the budget is, in the words of whoever asked.

Two columns that were not counted together stay related as they are in the public table; and rows that the public table
has no like of have nowhere to go where only its rows may have mass. Both follow from what was asked, the public table
and noisy numbers: post-processing.
"""

import itertools
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal, Workload

__all__ = ["NOT_TOGETHER", "apart_words", "lack_words", "rows_without_a_like"]

Floats = NDArray[np.float64]

NOT_TOGETHER = "Not counted together"
"""How the remark on pairs of columns begins."""
_SHOWN = 4
"""So many are named; the rest are counted."""


def apart_words(workload: Workload, together: Iterable[Marginal]) -> str | None:
    """Which of the workload's pairs of columns no measured marginal has together; None if there are none."""
    counted = {frozenset(p) for m in together for p in itertools.combinations(m, 2)}
    asked = dict.fromkeys(p for m in workload.marginals for p in itertools.combinations(m, 2))
    apart = [" × ".join(p) for p in asked if frozenset(p) not in counted]
    if not apart:
        return None
    named = _named(apart, f"of {len(asked):,} pairs")
    return f"{NOT_TOGETHER}, so related as in the public table, whatever ε is: {named}."


def rows_without_a_like(counts: Floats, errors: Floats, held: NDArray[np.bool_]) -> float:
    """How many private rows lie in cells that hold no point, by noisy counts; 0 if that may well be noise alone."""
    rows, noise = float(counts[~held].sum()), float(np.linalg.norm(errors[~held]))
    return rows if rows > max(3 * noise, 1.0) else 0.0


def lack_words(lacks: Collection[tuple[Marginal, float]], total: float) -> str | None:
    """Where the public table has no row like some of the private ones; None if nothing tells of such rows."""
    found = sorted(((rows, m) for m, rows in lacks if rows > 0), reverse=True)
    if not found:
        return None
    words = [f"about {rows:,.0f} by {' × '.join(m)}" for rows, m in found]
    return (
        f"The public table has no row like some of the {total:,.0f} private rows: {_named(words, 'marginals')}. They "
        "are spread over rows that it has."
    )


def _named(words: Sequence[str], rest: str) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(words[:_SHOWN])
    more = len(words) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more {rest}"
