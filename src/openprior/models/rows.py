"""Rows whose marginals are as close as possible to given answers.

A distribution on weighted particles, rounded to whole rows, errs in every small cell by up to a row. Local search
takes a quarter to three fifths of that away: a row gives its place to the particle, among a few, that lowers the
discrepancy Σ|count − target| over all cells of all marginals most, until such exchanges become rare. The sum of
absolute differences is what is reported; squares do worse, also against the truth when the targets are a little
off (measured on ADULT).

The particles tried are near the row in an order that sorts them by their columns, shuffled anew every pass: what
agrees in the leading columns leaves more cells as they are, and is accepted about twice as often as a particle
drawn at random. Every row returned is a particle, so what no marginal sees looks as it does among these.
"""

from collections.abc import Mapping
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import RowCounter
from openprior.models.rounding import round_to_counts
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["choose_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_CELLS = 100_000_000
"""Cells whose differences are kept, in 4 bytes each; beyond, some marginals are left out at random."""
_LANES = 256
"""Rows judged at once: enough for vector instructions, few enough for their cell numbers to stay in the cache."""
_FEW, _MANY = 3, 15
"""Particles tried for a row while exchanges are frequent, and afterwards."""
_REACH = 5.0
"""How far a row looks for particles to try, in rows' weight to either side (measured: 1 to 5 alike, 50 worse)."""
_FREQUENT, _RARE = 1 / 8, 1 / 100
"""Exchanges per row and pass: below the first more particles are tried, below the second the search ends."""
_TINY, _ONE, _TWO, _ZERO = np.float32(1e-3), np.float32(1), np.float32(2), np.float32(0)


def choose_rows(
    particles: Table,
    weights: Floats,
    rows: int,
    targets: Mapping[Marginal, Floats],
    rng: np.random.Generator,
    *,
    effort: float = 4e9,
) -> Table:
    """So many of the particles, some of them several times, with marginals close to the targets; shuffled.

    `targets` are counts on any scale, flat in C order of the domain's columns. `effort` is the most cells that the
    search looks up, at about 4 ns each. Less effort is no prefix of more: the exchanges differ.
    """
    distinct, mass = _merge(particles, weights)
    counts = round_to_counts(mass, rows, rng)
    chosen = np.repeat(np.arange(distinct.n), counts)
    goals = _fitting(particles.domain, targets, rng)
    if goals and distinct.n > 1 and rows > 0:
        counter = RowCounter(distinct, goals)
        excess = counter.answers(counts.astype(np.float64)).astype(np.float32)
        for marginal, part in counter.cells.split(excess).items():
            goal = goals[marginal] * (rows / goals[marginal].sum())
            np.subtract(part, goal, out=part, casting="same_kind")
        _search(distinct, mass, chosen, counter.cells, excess, rng, effort)
    return distinct.take(rng.permutation(chosen))


def _merge(particles: Table, weights: Floats) -> tuple[Table, Floats]:
    """The distinct particles with positive weight, and what these sum to."""
    if len(weights) != particles.n or not np.isfinite(weights).all() or not (weights > 0).any():
        raise ValueError("particles need one finite weight each, and one of them positive")
    held = np.flatnonzero(weights > 0)
    words = particles.take(held).words()
    order = np.lexsort(words[::-1])
    new = np.ones(len(held), np.bool_)
    new[1:] = np.any([word[order[1:]] != word[order[:-1]] for word in words], axis=0)
    starts = np.flatnonzero(new)
    return particles.take(held[order[starts]]), np.add.reduceat(weights[held[order]], starts)


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


def _search(
    particles: Table,
    mass: Floats,
    chosen: Ints,
    cells: Cells,
    excess: NDArray[np.float32],
    rng: np.random.Generator,
    effort: float,
) -> None:
    """Exchange chosen rows, in place, until the effort is spent or few exchanges are left to find."""
    nodes, codes = _tree(cells), np.stack(particles.columns, axis=1).astype(np.uint32)
    tries, rows = _FEW, len(chosen)
    while True:
        near = _Near(particles, mass, rng)
        visits = accepted = 0
        while visits < max(rows, particles.n // 4):  # so many visits are worth a sort
            affordable = int(effort / ((tries + 1) * len(cells.marginals)))
            places = rng.permutation(rows)[:affordable]
            if not len(places):
                return
            offers = near.offers(chosen[places], tries, rows)
            accepted += exchange(nodes, codes, chosen, places, offers, excess)
            visits += len(places)
            effort -= len(places) * (tries + 1) * len(cells.marginals)
        if tries == _MANY and accepted < _RARE * visits:
            return
        if accepted < _FREQUENT * visits:
            tries = _MANY


def _tree(cells: Cells) -> Ints:
    """The marginals as a tree of columns, depth first: depth, column, its size, and where the cells begin or −1.

    A node's cell number is its parent's times the column's size plus the column's code; what marginals share in
    their leading columns is computed once.
    """
    position = {a: i for i, a in enumerate(cells.domain)}
    paths = [[position[a] for a in marginal] for marginal in cells.marginals]
    nodes: list[list[int]] = []
    last: list[int] = []
    for i in sorted(range(len(paths)), key=paths.__getitem__):
        path = paths[i]
        shared = next((k for k, (a, b) in enumerate(zip(last, path, strict=False)) if a != b), len(last))
        nodes += [
            [depth, path[depth], cells.domain.shape[path[depth]], -1] for depth in range(shared, len(path))
        ]
        nodes[-1][3] = int(cells.offsets[i])
        last = path
    return np.array(nodes, np.int64)


class _Near:
    """Particles in the order of their columns, these shuffled; draws by weight, near a given particle."""

    def __init__(self, particles: Table, mass: Floats, rng: np.random.Generator) -> None:
        names = [particles.domain.attributes[i] for i in rng.permutation(len(particles.domain))]
        sorted_by = Table(particles.domain.project(names), tuple(particles.column(a) for a in names))
        self._order = np.argsort(sorted_by.words()[0], kind="stable")  # 64 bits of leading columns are enough
        self._ends = np.cumsum(mass[self._order]) / mass.sum()
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(len(self._order))
        self._rng = rng

    def offers(self, chosen: Ints, tries: int, rows: int) -> NDArray[Any]:
        """For each chosen particle so many others, with at most a few rows' weight in between."""
        place = self._place[chosen][:, None]
        shape = (len(chosen), tries)
        distance = self._rng.random(shape) * (_REACH / rows)
        up = self._rng.random(shape) < 0.5
        before = np.where(place > 0, self._ends[place - 1], 0.0)
        mark = np.where(up, self._ends[place] + distance, before - distance) % 1.0
        return self._order[np.minimum(np.searchsorted(self._ends, mark), len(self._order) - 1)]


@nb.njit(cache=True, nogil=True, boundscheck=False)
def exchange(nodes, codes, chosen, places, offers, excess):  # type: ignore[no-untyped-def]
    """Try the offers at these places of `chosen`; keep `excess`, count minus target, current. Returns the exchanges.

    A block of places is judged at once against the same counts. The first exchange changes these, so later ones of
    the block are judged again, alone: none is made that raises the discrepancy.
    """
    tries = offers.shape[1]
    group = max(_LANES // (tries + 1), 1)
    lanes = group * (tries + 1)
    rows, change = np.empty(lanes, np.int64), np.empty(lanes, np.float32)
    pair = np.empty(2, np.int64)
    digits = np.empty((codes.shape[1], lanes), np.uint32)
    numbers = np.zeros((nodes[:, 0].max() + 2, lanes), np.uint32)
    accepted = 0
    for start in range(0, len(places), group):
        size = min(group, len(places) - start)
        for g in range(size):
            rows[g] = chosen[places[start + g]]
            for j in range(tries):
                rows[(j + 1) * size + g] = offers[start + g, j]
        _judge(nodes, codes, rows, size, tries, excess, digits, numbers, change)
        best = _best(change, size, tries)
        moved = False
        for g in range(size):
            if best[g] < 0:
                continue
            pair[0], pair[1] = rows[g], rows[best[g]]
            if moved:
                _judge(nodes, codes, pair, 1, 1, excess, digits, numbers, change)
                if change[1] > -_TINY:
                    continue
            _move(nodes, codes[pair[0]], excess, -_ONE, numbers)
            _move(nodes, codes[pair[1]], excess, _ONE, numbers)
            chosen[places[start + g]] = pair[1]
            moved = True
            accepted += 1
    return accepted


@nb.njit(cache=True, nogil=True, boundscheck=False, fastmath=True)
def _judge(nodes, codes, rows, size, tries, excess, digits, numbers, change):  # type: ignore[no-untyped-def]
    """What the discrepancy changes by if rows[g] becomes rows[j·size + g], into change[j·size + g]; j = 1..tries.

    Marginal by marginal, so that numbering the cells is vector instructions and a table stays in the cache. A row
    less in a cell with excess e changes |e| by 1 − 2e, one more by 1 + 2e, both cut to [−1, 1].
    """
    lanes = size * (tries + 1)
    for c in range(codes.shape[1]):
        for i in range(lanes):
            digits[c, i] = codes[rows[i], c]
    change[:lanes] = _ZERO
    less = np.empty(size, np.float32)
    for n in range(len(nodes)):
        depth, column, radix, start = nodes[n]
        above, here, digit = numbers[depth], numbers[depth + 1], digits[column]
        for i in range(lanes):
            here[i] = above[i] * np.uint32(radix) + digit[i]
        if start < 0:
            continue
        table = excess[start:]
        for g in range(size):
            less[g] = min(max(_ONE - _TWO * table[here[g]], -_ONE), _ONE)
        for j in range(1, tries + 1):
            there, total = here[j * size : (j + 1) * size], change[j * size : (j + 1) * size]
            for g in range(size):
                both = less[g] + min(max(_ONE + _TWO * table[there[g]], -_ONE), _ONE)
                total[g] += both if there[g] != here[g] else _ZERO


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _best(change, size, tries):  # type: ignore[no-untyped-def]
    """For each place the lane of the offer that lowers the discrepancy most; −1 if none does."""
    best = np.full(size, -1, np.int64)
    for g in range(size):
        lowest = -_TINY
        for i in range(size + g, size * (tries + 1), size):
            if change[i] < lowest:
                lowest, best[g] = change[i], i
    return best


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _move(nodes, row, excess, step, numbers):  # type: ignore[no-untyped-def]
    """Count a row once more, or once less, in its cell of every marginal."""
    for n in range(len(nodes)):
        depth, column, radix, start = nodes[n]
        cell = numbers[depth, 0] * np.uint32(radix) + np.uint32(row[column])
        numbers[depth + 1, 0] = cell
        if start >= 0:
            excess[start + np.int64(cell)] += step
