"""The search for rows: passes over all rows, in which each may give its place to a particle like it.

A pass sorts the particles by their columns, shuffled anew, and cuts this order into segments: what lies in one agrees
in the leading columns. A row looks at all particles of its segment. That is cheap, because what a row gains by leaving
and a particle by joining are sums over the cells of each, and only what the two share is estimated (measured on
ADULT: a correlation of 0.99 with the true change); a part of the marginals is enough. The most promising particle is
judged by all marginals, and what passes once more as counts are by then, so no exchange raises the discrepancy.

The offers of a batch of segments see the same counts and are made on all cores; the exchanges follow one by one. So
the outcome depends on the seed and not on the number of threads.
"""

import math
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.models.exchanges import exchange, judge, offer, promises
from openprior.tables.table import Table

__all__ = ["Search", "sorted_order"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Changes = NDArray[np.float32]

_ROWS, _PARTICLES = 8, 64
"""A segment has the weight of so many rows, and so many particles; the larger of the two."""
_BATCH, _BATCHES, _FEW = 2048, 16, 32
"""Most rows whose offers see the same counts; the fewest batches of a pass, unless their rows were too few."""
_SMALL = 1 << 18
"""Cells to look up that are not worth another thread."""
_GROUP = 64
"""Exchanges that are judged at once before the first of them is made."""
_FEWEST, _MOST = 64, 1000
"""Marginals by which particles are looked at, if there are so many."""
_CHURN = 8.0
"""How much of a cell changes in the meantime: its excess weighs 1/√(1 + 8·target) (measured: 3 to 25 alike)."""
_PASSES = 50
_LEAST, _MOST_ASKED, _DEAR = 0.002, 0.025, 6e7
"""A pass is the last if it gains less than a share of what all have gained, or of what is left if that is less: between
these two, and the more the more cells it looked up, up to the third."""
_NOTHING, _SMALL_PART, _WORTH = 5e-4, 0.1, 0.01
"""A discrepancy that is small enough, as a share of the rows, and as a part of the doubt; and what a dear pass must
take away of the rows' error for another to follow, which takes away about a third of that."""


def sorted_order(particles: Table, rng: np.random.Generator) -> Ints:
    """The particles sorted by their columns, these in random order: by as many as 32 bits hold, which is enough."""
    key, room = np.zeros(particles.n, np.uint32), 1 << 32
    for i in rng.permutation(len(particles.domain)):
        size = particles.domain.shape[i]
        if size > room:
            break
        key *= np.uint32(size)
        key += particles.columns[i]
        room //= size
    low = np.argsort(key.astype(np.uint16), kind="stable")  # of 16 bits: in linear time
    return low[np.argsort((key >> np.uint32(16)).astype(np.uint16)[low], kind="stable")]


class Search:
    """Exchanges between rows and particles, with the counts that these leave behind."""

    def __init__(
        self,
        particles: Table,
        mass: Floats,
        counts: Ints,
        cells: Cells,
        goal: Changes,
        found: Floats,
        rng: np.random.Generator,
    ) -> None:
        """`counts` says how often each particle is a row, and is changed in place; `found` are theirs in every cell."""
        self._particles, self._share, self._counts = particles, mass / mass.sum(), counts
        self._rng, self._rows, self._marginals = rng, int(counts.sum()), len(cells.marginals)
        self._excess = np.empty(len(goal), np.float32)
        np.subtract(found, goal, out=self._excess, casting="same_kind")
        self._ease = np.maximum(goal, np.float32(0)) * np.float32(_CHURN) + np.float32(1)
        np.reciprocal(np.sqrt(self._ease, out=self._ease), out=self._ease)
        self._codes = np.empty((particles.n, len(particles.columns)), np.uint32)
        for column, codes in zip(self._codes.T, particles.columns, strict=True):
            column[:] = codes
        self._overlap = _overlap(cells)
        self._tree = _tree(cells, range(self._marginals))
        self._parts = self._split(cells)
        self._turn = 0
        self._left = 0.0

    def run(self, effort: float, doubt: float) -> None:
        """Passes, until the effort is spent, little is gained, or the discrepancy is small beside the doubt: the rows'
        error is about √(doubt² + discrepancy²), so a pass that gains g takes g·discrepancy/(that)² of it away."""
        discrepancy = float(np.abs(self._excess).sum(dtype=np.float64))
        doubted = doubt * self._rows * self._marginals
        allowed = max(_NOTHING * self._rows * self._marginals, _SMALL_PART * doubted)
        self._left, gained = effort, 0.0
        with ThreadPoolExecutor(workers()) as pool:
            for _ in range(_PASSES):
                before = self._left
                if before <= 0 or discrepancy - gained <= allowed:
                    return
                more = self._pass(pool)
                gained += more
                left, dear = discrepancy - gained, min((before - self._left) / _DEAR, 1.0)
                asked = max(_LEAST, _MOST_ASKED * dear) * min(gained, left)
                if more <= max(asked, _WORTH * dear * (doubted**2 + left**2) / max(left, 1.0)):
                    return

    def _split(self, cells: Cells) -> list[Ints]:
        """Parts of the marginals, one of which a batch looks at: so many that looking takes half as long as judging."""
        held = np.count_nonzero(self._counts)
        look = np.clip(self._marginals * held / self._particles.n, _FEWEST, _MOST)
        parts = max(round(self._marginals / look), 1)
        order = self._rng.permutation(self._marginals)
        return [_tree(cells, order[i::parts]) for i in range(parts)] if parts > 1 else [self._tree]

    def _pass(self, pool: ThreadPoolExecutor) -> float:
        """Let every row look around once, batch by batch; returns what was gained."""
        order = sorted_order(self._particles, self._rng)
        weight = max(_ROWS, _PARTICLES * self._rows / len(order)) / self._rows
        marks = np.floor(np.cumsum(self._share[order]) / weight + self._rng.random())
        starts = np.concatenate([[0], np.flatnonzero(np.diff(marks)) + 1, [len(order)]])
        segments = self._rng.permutation(len(starts) - 1)
        batches = max(self._rows // _BATCH, min(_BATCHES, self._rows // _FEW), 1)
        gained = 0.0
        for batch in np.array_split(segments, min(batches, len(segments))):
            if self._left <= 0:
                break
            gained += self._batch(order, starts, batch, pool)
        return gained

    def _batch(self, order: Ints, starts: Ints, segments: Ints, pool: ThreadPoolExecutor) -> float:
        """Offers for the rows of these segments on all cores, then the exchanges; returns what was gained."""
        few = self._parts[self._turn % len(self._parts)]
        self._turn += 1

        def look(some: Ints) -> tuple[Ints, Changes]:
            sizes = starts[some + 1] - starts[some]
            ends = np.cumsum(sizes)
            rows = order[np.arange(sizes.sum()) + np.repeat(starts[some + 1] - ends, sizes)]
            join, leave = np.zeros(len(rows), np.float32), np.zeros(len(rows), np.float32)
            promises(few, self._codes, rows, self._excess, self._ease, join, leave)
            pairs = np.empty((len(rows), 2), np.int64)
            pairs = pairs[: offer(self._codes, rows, ends, self._overlap, self._counts, join, leave, pairs)]
            change = np.zeros(len(pairs), np.float32)
            judge(self._tree, self._codes, pairs, self._excess, change)
            return pairs, change

        looked = int((starts[segments + 1] - starts[segments]).sum()) * self._marginals / len(self._parts)
        threads = workers() if looked > _SMALL else 1
        parts = list(pool.map(look, np.array_split(segments, threads))) if threads > 1 else [look(segments)]
        pairs, change = (np.concatenate(p) for p in zip(*parts, strict=True))
        near = math.sqrt(self._marginals)  # what others' exchanges change a judgement by, about
        hopeful = np.flatnonzero(change < near)
        hopeful = hopeful[np.argsort(change[hopeful], kind="stable")]
        gained, again = 0.0, 0
        for first in range(0, len(hopeful), _GROUP):
            group = pairs[hopeful[first : first + _GROUP]]
            change = np.zeros(len(group), np.float32)
            judge(self._tree, self._codes, group, self._excess, change)
            group = group[change < 0]
            gained += exchange(self._tree, self._codes, group, self._counts, self._excess)[1]
            again += len(group)
        self._left -= looked + 2 * (len(pairs) + len(hopeful) + 3 * again) * self._marginals
        return gained


def _overlap(cells: Cells) -> Changes:
    """The share of all marginals that lie within 0, 1, … shared columns, if columns are alike."""
    columns = len(cells.domain)
    sizes = Counter(len(m) for m in cells.marginals)
    within = [
        sum(n * math.comb(shared, k) / math.comb(columns, k) for k, n in sizes.items())
        for shared in range(columns + 1)
    ]
    return np.array(within, np.float32) / np.float32(len(cells.marginals))


def _tree(cells: Cells, which: Iterable[int]) -> Ints:
    """Marginals as a tree of columns, depth first: depth, column, its size, and where the cells begin or −1.

    A node's cell number is its parent's times the column's size plus the column's code; what marginals share in
    their leading columns is computed once.
    """
    position = {a: i for i, a in enumerate(cells.domain)}
    paths = sorted(([position[a] for a in cells.marginals[i]], i) for i in which)
    nodes: list[list[int]] = []
    last: list[int] = []
    for path, i in paths:
        shared = next((k for k, (a, b) in enumerate(zip(last, path, strict=False)) if a != b), len(last))
        nodes += [
            [depth, path[depth], cells.domain.shape[path[depth]], -1] for depth in range(shared, len(path))
        ]
        nodes[-1][3] = int(cells.offsets[i])
        last = path
    return np.array(nodes, np.int64)
