"""What the public table says of every group before anything private is looked at.

A group's prior is half its own public rows and half draws from Bayesian networks fitted to them, which smooth what a
small sample shows by chance; or, as published, the distinct public rows as often as they occur. Where the public table
has no rows of a group (a new year, a new area), others stand in: those of the same area in other years, those of the
level above, those that share any key, at last all. Groups with the same public rows share one prior. All of it is
public, so it costs nothing and may run anywhere.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.engine import Executor
from openprior.methods.hierarchy.tree import Tree
from openprior.models.prior.prior import smooth_draws
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.tables.table import Table, join

__all__ = ["MOST_ROWS", "GroupPrior", "group_priors"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMOOTH = 0.5
"""The draws' share of the mass (measured on ACS areas: 0.25 to 0.75 alike, none worse by 6 %)."""
_FEW, _BORROWED = 200, 10
"""A group with fewer rows borrows from those above, as much as so many rows."""
MOST_ROWS = 20_000
"""Public rows that one group starts from."""


@dataclass(frozen=True, eq=False)
class GroupPrior:
    """Rows without the keys, weights that sum to 1, and how many public rows the group itself has."""

    rows: Table
    weights: Floats
    public: int


@dataclass(frozen=True, eq=False)
class _Task:
    own: Table
    borrowed: Table | None
    seed: np.random.SeedSequence
    empirical: bool


def group_priors(
    tree: Tree,
    public: Table,
    executor: Executor,
    rng: np.random.Generator,
    *,
    own: bool,
    empirical: bool = False,
) -> list[GroupPrior]:
    """A prior for every leaf; from its own public rows where there are some, or, without `own`, from those of all.

    An `empirical` one is all of these rows as they are: no draws, nothing borrowed, none left out.
    """
    table = tree.inside(public)
    wider = _wider(tree) if own else [()]
    row_codes = {a: public.column(a).astype(np.int64) for a in tree.keys}
    leaf_codes = {a: np.array([leaf[i] for leaf in tree.leaves], np.int64) for i, a in enumerate(tree.keys)}
    places = [_Rows(tree.number(keys, row_codes, public.n)) for keys in wider]
    at = [tree.number(keys, leaf_codes, len(tree.leaves)) for keys in wider]
    own_place = _Rows(tree.number(tree.keys, row_codes, public.n))
    own_number = tree.number(tree.keys, leaf_codes, len(tree.leaves))
    tasks: dict[tuple[int, int], _Task] = {}
    sources = []
    for i in range(len(tree.leaves)):
        nearest = next(w for w in range(len(wider)) if places[w].count(at[w][i]))
        source = (nearest, int(at[nearest][i]))
        sources.append(source)
        if source not in tasks:
            rows = places[nearest].take(source[1], rng, None if empirical else MOST_ROWS)
            borrowed = None
            if len(rows) < _FEW and nearest + 1 < len(wider) and not empirical:
                above = next(
                    w
                    for w in range(nearest + 1, len(wider))
                    if places[w].count(at[w][i]) > len(rows) or w == len(wider) - 1
                )
                borrowed = table.take(places[above].take(int(at[above][i]), rng, 1000))
            seed = np.random.SeedSequence(int(rng.integers(1 << 63)))
            tasks[source] = _Task(table.take(rows), borrowed, seed, empirical)
    with phase("learning from the public table", len(tasks)):
        priors = dict(zip(tasks, executor.each(_prior, list(tasks.values())), strict=True))
    return [
        GroupPrior(*priors[source], public=own_place.count(own_number[i])) for i, source in enumerate(sources)
    ]


def _wider(tree: Tree) -> list[Marginal]:
    """Where to look for a group's public rows: all its keys, fewer of them as long as the level above is decided by
    these, the levels above, then any of its keys, at last everywhere."""
    keys = tree.keys
    columns = {tree.column_of(key) for level in tree.levels[:-1] for key in level}
    fewer = [c for k in range(len(keys), 0, -1) for c in itertools.combinations(keys, k)]
    first = [c for c in fewer if columns and columns <= set(c)]
    return list(dict.fromkeys([keys, *first, *(m for m in tree.levels[-2::-1] if m), *fewer, ()]))


def _prior(task: _Task) -> tuple[Table, Floats]:
    """Own rows, borrowed rows, and smooth draws from both; or own rows alone."""
    if task.empirical:
        rows, counts = task.own.unique()
        return rows, counts / task.own.n
    rng = np.random.default_rng(task.seed)
    parts, shares = [task.own], [1.0]
    if task.borrowed is not None:
        parts.append(task.borrowed)
        shares = [task.own.n, float(_BORROWED)]
    learnt = task.own
    if task.borrowed is not None and task.own.n < 50:
        some = rng.choice(task.borrowed.n, min(_BORROWED, task.borrowed.n), replace=False)
        learnt = join([task.own, task.borrowed.take(some)])
    parts.append(smooth_draws(learnt, int(np.clip(4 * task.own.n, 500, 8000)), rng))
    shares = [s * (1 - _SMOOTH) / sum(shares) for s in shares] + [_SMOOTH]
    weights = np.concatenate([np.full(p.n, s / p.n) for p, s in zip(parts, shares, strict=True)])
    return join(parts), weights / weights.sum()


class _Rows:
    """The public rows of each of many places."""

    def __init__(self, number: Ints) -> None:
        self._order = np.argsort(number, kind="stable")
        self._numbers, starts = np.unique(number[self._order], return_index=True)
        self._ends = np.append(starts, len(number))

    def count(self, place: int) -> int:
        """How many rows a place has."""
        i = int(np.searchsorted(self._numbers, place))
        if i == len(self._numbers) or self._numbers[i] != place:
            return 0
        return int(self._ends[i + 1] - self._ends[i])

    def take(self, place: int, rng: np.random.Generator, most: int | None) -> NDArray[np.intp]:
        """Its rows, at most so many of them, or all."""
        i = int(np.searchsorted(self._numbers, place))
        rows = self._order[self._ends[i] : self._ends[i + 1]]
        return rows if most is None or len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
