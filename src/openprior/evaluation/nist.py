"""How far the k-way marginals of two tables are apart: total variation, and NIST's score. Everything is NOT PRIVATE.

The k-marginal score of NIST's synthetic-data challenges and of its SDNist tool: for a marginal m over k columns let
p_m and q_m be the shares of private and released rows in its cells, and d_m = Σ_cells |p_m − q_m|, from 0 (equal) to
2 (no cell in common). Over the marginals M that are looked at,

    score = 1000 · (1 − mean_{m ∈ M} d_m / 2),

so that 1000 is equality and 0 is nothing in common. NIST takes random marginals; here it is all of them, or a sample
of different ones drawn with a seed, always of k different columns, cut into cells as the schema says. (SDNist may
draw a column twice, bins numbers its own way, and scores groups of rows apart: `openprior.evaluate_groups` has those.)
The total variation of a marginal is d_m / 2, so the score is 1000 · (1 − mean total variation).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.errors import OptionError
from openprior.evaluation.copies import check_tables, number_rows
from openprior.questions.workload import Marginal, all_marginals, random_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

__all__ = ["Variation", "distances", "nist_score", "total_variation"]

Floats = NDArray[np.float64]

_DENSE = 1 << 20
"""A marginal with more cells is compared by sorting rows instead of counting every cell."""
_AT_ONCE = 1 << 22
"""Cells counted at once."""
_MANY_CELLS, _MANY_MARGINALS = 1 << 24, 5000
"""With more cells or marginals than this, a sample is looked at."""


@dataclass(frozen=True)
class Variation:
    """Total variation distances (0 to 1) of the marginals of one order. NOT PRIVATE."""

    mean: float
    largest: float
    worst: Marginal
    """The marginal with the largest distance."""
    marginals: int
    """How many were compared: all there are, or a random sample."""
    possible: int
    """How many there are."""

    @property
    def sampled(self) -> bool:
        """Whether a random sample stands for all marginals."""
        return self.marginals < self.possible


def nist_score(
    released: Table, private: Table, *, k: int = 3, marginals: int | None = None, seed: int = 0
) -> float:
    """NIST's k-marginal score, 0 to 1000. NOT PRIVATE.

    k           columns of a marginal, 1 to 4; all columns if there are fewer
    marginals   how many to draw at random with `seed`; all of them if None
    """
    if k not in (1, 2, 3, 4):
        raise OptionError(f"k = {k}; the k-marginal score takes 1, 2, 3 or 4 columns")
    if marginals is not None and marginals < 1:
        raise OptionError(f"marginals = {marginals}; compare at least one")
    check_tables(released, private)
    plan = all_marginals(k) if marginals is None else random_marginals(k, marginals, seed)
    of_marginals = distances(released, private, plan.on(private.domain).marginals)
    return 1000.0 * (1.0 - float(of_marginals.mean()) / 2.0)


def total_variation(
    released: Table, private: Table, *, orders: Iterable[int] = (1, 2, 3), sample: int = 300, seed: int = 0
) -> dict[int, Variation]:
    """Mean and largest total variation of the marginals of each order that the table has. NOT PRIVATE.

    Where the marginals of an order are too many or have too many cells, `sample` of them are drawn with `seed`.
    """
    check_tables(released, private)
    domain = private.domain
    by_order: dict[int, Variation] = {}
    for k in orders:
        if k > len(domain):
            continue
        possible = math.comb(len(domain), k)
        small = possible <= _MANY_MARGINALS and (k < 3 or _cells(domain, k) <= _MANY_CELLS)
        plan = all_marginals(k) if small else random_marginals(k, sample, seed)
        marginals = plan.on(domain).marginals
        halved = distances(released, private, marginals) / 2.0
        worst = int(halved.argmax())
        by_order[k] = Variation(
            float(halved.mean()), float(halved[worst]), marginals[worst], len(marginals), possible
        )
    return by_order


def distances(released: Table, private: Table, marginals: Sequence[Marginal]) -> Floats:
    """Σ|p − q| of the shares in each marginal's cells, 0 to 2. NOT PRIVATE."""
    out = np.empty(len(marginals))
    batch: list[int] = []
    room = _AT_ONCE
    for i, marginal in enumerate(marginals):
        cells = private.domain.size(marginal)
        if cells > _DENSE:
            out[i] = _by_rows(released, private, marginal)
            continue
        if cells > room:
            out[batch] = _by_cells(released, private, [marginals[j] for j in batch])
            batch, room = [], _AT_ONCE
        batch.append(i)
        room -= cells
    if batch:
        out[batch] = _by_cells(released, private, [marginals[j] for j in batch])
    return out


def _by_cells(released: Table, private: Table, marginals: Sequence[Marginal]) -> list[float]:
    q, p = count_table(released, marginals), count_table(private, marginals)
    return [float(np.abs(p[m] / private.n - q[m] / released.n).sum()) for m in marginals]


def _by_rows(released: Table, private: Table, marginal: Marginal) -> float:
    """The same from the cells that have rows, whatever the number of cells."""
    domain = private.domain.project(marginal)
    p, q = number_rows([Table(domain, tuple(t.column(a) for a in marginal)) for t in (private, released)])
    size = int(max(p.max(), q.max())) + 1
    shares = [np.bincount(rows, minlength=size) / len(rows) for rows in (p, q)]
    return float(np.abs(shares[0] - shares[1]).sum())


def _cells(domain: Domain, k: int) -> int:
    """Cells of all k-way marginals together: the k-th elementary symmetric polynomial of the sizes."""
    sums = [1] + [0] * k
    for size in domain.shape:
        for j in range(k, 0, -1):
            sums[j] += sums[j - 1] * size
    return sums[k]
