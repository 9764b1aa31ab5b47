"""The parents of one attribute: added one by one, each the one with the highest leave-one-out likelihood.

Which parents are allowed depends on the order of the attributes; what a parent gains does not. So a list of parents is
looked at once, however many orders come to it, and each order only compares. One parent more is tried for those that
promised most one parent earlier, since a gain rarely grows where another parent is known already.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from openprior.models.prior.contexts import (
    STRENGTHS,
    Contexts,
    best_strength,
    divide,
    give_back,
    start,
    try_parents,
)

__all__ = ["CONTEXTS", "NUMBERS", "PARENTS", "ParentSearch"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PARENTS = 4
CONTEXTS = 1 << 18
"""Largest number of contexts of one attribute, seen or not."""
NUMBERS = 1 << 19
"""Largest number of probabilities of one attribute while parents are chosen."""
_GAIN = 1e-3
"""A parent must bring so much likelihood per row."""
_PROMISING = 8
"""Parents that are tried after the first one."""
_DIGITS = 6
"""Of a likelihood per row; what lies beyond is rounding, and must not decide between parents that are as good."""


@dataclass(eq=False)
class _Known:
    """A list of parents that some order came to."""

    contexts: Contexts
    likelihood: float
    possible: int
    """Contexts of these parents, seen or not."""
    values: Floats
    """[attribute]: the likelihood with it as one more parent; NaN where it was not tried."""
    strengths: Ints
    next: dict[int, "_Known"] = field(default_factory=dict)


class ParentSearch:
    """All that is known about the parents of one attribute."""

    def __init__(self, a: int, columns: NDArray[np.uint16], sizes: Ints, logs: Floats) -> None:
        self._a, self._columns, self._sizes, self._logs = a, columns, sizes, logs
        contexts = start(columns[a], sizes[a])
        likelihood, strength = best_strength(contexts, STRENGTHS)
        give_back(contexts, strength)
        self._by_value = contexts.order
        self._root = self._known(contexts, likelihood, 1)

    def best(self, allowed: Ints) -> tuple[list[int], float]:
        """The parents among these attributes, in the order they were added, and the likelihood per row with them."""
        known, likelihood, chosen = self._root, self._root.likelihood, list[int]()
        tried = allowed[self._sizes[allowed] > 1]
        while True:
            tried = tried[known.possible * self._sizes[tried] <= CONTEXTS]
            if not len(tried):
                return chosen, likelihood
            self._try(known, tried)
            values = known.values[tried]
            best = int(values.argmax())
            if values[best] <= likelihood + _GAIN:
                return chosen, likelihood
            b, likelihood = int(tried[best]), float(values[best])
            chosen.append(b)
            if len(chosen) == PARENTS:
                return chosen, likelihood
            if len(tried) > _PROMISING + 1:
                tried = tried[np.sort(np.argsort(-values, kind="stable")[: _PROMISING + 1])]
            tried = tried[tried != b]
            if b not in known.next:
                known.next[b] = self._with(known, b)
            known = known.next[b]

    def _known(self, contexts: Contexts, likelihood: float, possible: int) -> _Known:
        attributes = len(self._sizes)
        return _Known(
            contexts, likelihood, possible, np.full(attributes, np.nan), np.zeros(attributes, np.int64)
        )

    def _try(self, known: _Known, attributes: Ints) -> None:
        new = attributes[np.isnan(known.values[attributes])]
        if not len(new):
            return
        values, strengths = np.empty(len(new)), np.empty(len(new), np.int64)
        most = NUMBERS // self._sizes[self._a]
        try_parents(
            known.contexts, self._columns, self._sizes, new, STRENGTHS, self._logs, most, values, strengths
        )
        known.values[new], known.strengths[new] = np.round(values, _DIGITS), strengths

    def _with(self, known: _Known, b: int) -> _Known:
        contexts = divide(known.contexts, self._by_value, self._columns[b], self._sizes[b])
        give_back(contexts, STRENGTHS[known.strengths[b]])
        return self._known(contexts, float(known.values[b]), known.possible * int(self._sizes[b]))
