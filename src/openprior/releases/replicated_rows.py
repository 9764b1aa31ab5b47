"""Replicates: synthetic tables that differ from the released one as much as that may differ from the private table.

Each is the released rows, reweighted at random and drawn anew. Two things are random. Every row has a weight of its own
(gamma, with mean 1), with a variance that makes means within groups stray as far as their error bars say. And every
value of every column has a factor that all its rows share (log-normal), because large cells may be off by more than
independent rows would make them: by what their bars say beyond that. Where two columns were asked for together, pairs
of their values have factors as well. So an analysis of one's own, made of each replicate, varies as the release is
uncertain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.bars import ErrorBars
from openprior.questions.workload import Marginal
from openprior.tables.table import Table

__all__ = ["Spread", "replicate_rows", "spread_of"]

Floats = NDArray[np.float64]

_SIZES = (30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Groups whose contrasts say how far rows are off by themselves: those do that are off furthest."""
_LEAST, _MOST = 1e-3, 60.0
"""Of the variance of a row's own weight."""
_MOST_FACTOR = 0.7
"""The standard deviation of a factor's logarithm, at most."""
_MOST_PAIRS = 120


@dataclass(frozen=True, eq=False)
class Spread:
    """How far replicates stray."""

    own: float
    """The variance of a row's own weight."""
    factors: Mapping[Marginal, Floats]
    """For columns and pairs of columns, the standard deviation of the logarithm of each cell's factor."""


def spread_of(bars: ErrorBars, rows: Table, workload: Sequence[Marginal], rng: np.random.Generator) -> Spread:
    """From the bars of cells by how many columns they have."""
    known = [c for c in bars.columns if c > 0]
    finest = max(known)
    sizes = np.array(_SIZES)
    strays = bars.contrast(sizes)[0] if bars.has_contrasts else bars.around(sizes, finest).standard_error
    own = float(np.clip((strays**2 / sizes).max(), _LEAST, _MOST))
    factors: dict[Marginal, Floats] = {}
    singles = [(a,) for a in rows.domain]
    if finest > 1 and 1 in known:
        for m in singles:
            factors[m] = _beyond(bars, rows, m, own, np.zeros(1))
    if finest > 2 and 2 in known:
        pairs = sorted({(a, b) for m in workload for i, a in enumerate(m) for b in m[i + 1 :]})
        for i in rng.permutation(len(pairs))[:_MOST_PAIRS]:
            a, b = pairs[i]
            both = np.add.outer(factors[a,] ** 2, factors[b,] ** 2).reshape(-1)
            factors[pairs[i]] = _beyond(bars, rows, pairs[i], own, both)
    return Spread(own, factors)


def _beyond(bars: ErrorBars, rows: Table, marginal: Marginal, own: float, others: Floats) -> Floats:
    """What the bars of a marginal's cells say beyond rows that are off by themselves, and beyond others' factors."""
    counts = np.bincount(_cells(rows, marginal), minlength=rows.domain.size(marginal)).astype(np.float64)
    some = np.maximum(counts, 1.0)
    variance = (bars.around(some, len(marginal)).standard_error / some) ** 2 - own / some - others
    return np.where(counts > 0, np.minimum(np.sqrt(np.maximum(variance, 0.0)), _MOST_FACTOR), 0.0)


def _cells(rows: Table, marginal: Marginal) -> NDArray[np.int64]:
    """The number of the cell that each row is in."""
    cell = np.zeros(rows.n, np.int64)
    for a in marginal:
        cell = cell * rows.domain[a] + rows.column(a)
    return cell


def replicate_rows(spread: Spread, rows: Table, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which of the released rows one replicate has, each as often as it is named; as many as there are."""
    log = np.zeros(rows.n)
    for marginal, deviations in spread.factors.items():
        log += (rng.normal(size=len(deviations)) * deviations)[_cells(rows, marginal)]
    weights = rng.gamma(1 / spread.own, spread.own, rows.n) * np.exp(log - log.max())
    order = rng.permutation(rows.n)
    ends = np.cumsum(weights[order])
    marks = (np.arange(rows.n) + rng.random()) * (ends[-1] / rows.n)
    chosen: NDArray[np.int64] = order[np.minimum(np.searchsorted(ends, marks, side="right"), rows.n - 1)]
    return chosen
