"""Rows whose marginals are as close as possible to given answers.

A distribution on weighted particles, rounded to whole rows, errs in every small cell by up to a row. Rounding goes
along an order that sorts the particles by their columns, so that each stretch of it gets the rows that it weighs; then
a local search takes a quarter to three fifths of what is left away: a row gives its place to a particle like it
wherever that lowers the discrepancy Σ|count − target| over all cells of all marginals. The sum of absolute differences
is what is reported; squares do worse, also against the truth when the targets are a little off (measured on ADULT).

Every row returned is a particle, so what no marginal sees looks as it does among these.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.row_search import Search, sorted_order
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["choose_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_CELLS = 60_000_000
"""Cells whose differences are kept, in 8 bytes each; beyond, some marginals are left out at random."""


def choose_rows(
    particles: Table,
    weights: Floats,
    rows: int,
    targets: Mapping[Marginal, Floats],
    rng: np.random.Generator,
    *,
    effort: float = 4e9,
    doubt: float = 0.0,
    counter: RowCounter | None = None,
) -> Table:
    """So many of the particles, some of them several times, with marginals close to the targets; shuffled.

    `targets` are counts on any scale, flat in C order of the domain's columns. `effort` is the most cells that the
    search looks up, at 1 to 2 ns each; it ends before where little is left to gain. `doubt` is the error that the
    targets have themselves, in the mean marginal and as a share of the rows: what is small beside it is not worth
    searching for. Time and memory are bounded by particles and cells; only the rows themselves grow with `rows`.
    `counter` counts the particles in the targets' marginals, where there is one already.
    """
    places, mass = _merge(particles, weights)
    distinct = particles.take(places)
    counts = _rounded(distinct, mass, rows, rng)
    goals = _fitting(particles.domain, targets, rng)
    if goals and distinct.n > 1 and rows > 0 and effort > 0:
        held = np.flatnonzero(counts)
        if counter is not None and counter.cells.marginals == tuple(goals):
            found = counter.answers(counts[held].astype(np.float64), places[held])
        else:
            counter = RowCounter(distinct.take(held), goals)
            found = counter.answers(counts[held].astype(np.float64))
        goal = np.empty(len(found), np.float32)
        for part, target in zip(counter.cells.split(goal).values(), goals.values(), strict=True):
            np.multiply(target, rows / target.sum(), out=part, casting="same_kind")
        Search(distinct, mass, counts, counter.cells, goal, found, rng).run(effort, doubt)
    chosen = np.repeat(np.arange(distinct.n, dtype=np.int32), counts)
    rng.shuffle(chosen)
    return distinct.take(chosen)


def _rounded(particles: Table, mass: Floats, rows: int, rng: np.random.Generator) -> Ints:
    """How often each particle is a row: its share, rounded up or down, in their sorted order and without bias.

    Systematic rounding: the whole parts stay, and one random offset decides which fractions are rounded up.
    """
    order = sorted_order(particles, rng)
    ends = np.cumsum(mass[order]) * (rows / mass.sum())
    ends[-1] = rows  # whatever the sum lost
    marks = np.minimum(np.floor(ends + rng.random()), rows)
    counts = np.empty(particles.n, np.int64)
    counts[order] = np.diff(marks, prepend=0.0).astype(np.int64)
    return counts


def _merge(particles: Table, weights: Floats) -> tuple[Ints, Floats]:
    """Where the distinct particles with positive weight are, one place for each, and what these weights sum to."""
    if len(weights) != particles.n or not np.isfinite(weights).all() or not (weights > 0).any():
        raise ValueError("particles need one finite weight each, and one of them positive")
    held = np.flatnonzero(weights > 0)
    words = particles.take(held).words()
    order = np.lexsort(words[::-1])
    new = np.ones(len(held), np.bool_)
    new[1:] = np.any([word[order[1:]] != word[order[:-1]] for word in words], axis=0)
    starts = np.flatnonzero(new)
    return held[order[starts]], np.add.reduceat(weights[held[order]], starts)


def _fitting(
    domain: Domain, targets: Mapping[Marginal, Floats], rng: np.random.Generator
) -> dict[Marginal, Floats]:
    """The targets that say anything; if their cells are too many, as many at random as fit."""
    telling = {canonical(m, domain): np.asarray(t, np.float64) for m, t in targets.items() if np.sum(t) > 0}
    for marginal, target in telling.items():
        if target.shape != (domain.size(marginal),) or not np.isfinite(target).all():
            raise ValueError(f"the target of {' × '.join(marginal)} is not one finite number per cell")
    names = list(telling)
    if sum(domain.size(m) for m in names) > _MOST_CELLS:
        order = rng.permutation(len(names))
        ends = np.cumsum([domain.size(names[i]) for i in order])
        names = [names[i] for i in np.sort(order[ends <= _MOST_CELLS])]
    return {m: telling[m] for m in names}
