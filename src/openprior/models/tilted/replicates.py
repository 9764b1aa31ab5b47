"""Replicates of a fit, which say how sure its answers are.

Particles thinned at random to what the prior is worth, with the measurements' noise drawn again, raked. If the model's
error in a cell has variance m/λ, it is worth λ·n rows: a random subset of so many particles strays from all of them by
just as much, and raking takes back what the measurements know. The noise drawn here protects nothing: what it is added
to was released before.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.local import RowCounter
from openprior.counting.passes import Plan
from openprior.models.tilted.blocks import Block, FlatBlocks
from openprior.tables.table import Table

__all__ = ["Replicates", "draw_replicates"]

Floats = NDArray[np.float64]

_REPLICATES = 24
_FEWEST, _MOST = 200, 20_000
"""Particles of one replicate."""
_PASSES = 4


@dataclass(frozen=True, eq=False)
class Replicates:
    """[replicate, place]: which particles, and their weights."""

    chosen: NDArray[np.int32]
    weights: NDArray[np.float32]

    def variances(self, particles: Table, cells: Cells) -> Floats:
        """How far the replicates' answers lie apart, in every cell. Their few particles are counted by a plan of their
        own, as what suits all would make tables larger than them."""
        counter = RowCounter(particles, Plan(cells, self.chosen.shape[1]))
        sums, squares = counter.moments(self.weights.astype(np.float64), self.chosen)
        count = len(self.chosen)
        squares -= np.square(sums, out=sums) / count
        return np.maximum(squares, 0.0, out=squares) / (count - 1)


def draw_replicates(
    weights: Floats,
    cells: NDArray[np.uint32],
    blocks: Sequence[Block],
    *,
    trust: float,
    total: float,
    rng: np.random.Generator,
) -> Replicates:
    """Replicates of particles with these weights, whose cells in every block are `cells` [block, particle]; each has a
    generator of its own, so that threads change nothing."""
    worth = int(np.clip(trust * total, _FEWEST, min(_MOST, len(weights))))
    ends = np.cumsum(weights)
    sigmas = np.concatenate([np.zeros(0), *(np.full(len(b.values), math.sqrt(b.variance)) for b in blocks)])
    seeds = rng.integers(0, 1 << 63, size=_REPLICATES)

    def one(seed: int) -> tuple[NDArray[np.int32], Floats]:
        own = np.random.default_rng(seed)
        marks = np.sort(own.random(worth)) * ends[-1]
        chosen = np.minimum(np.searchsorted(ends, marks, side="right"), len(ends) - 1)
        weight, thinned = np.full(worth, total / worth), np.ascontiguousarray(cells[:, chosen])
        noisy = FlatBlocks(blocks)
        noisy.before = noisy.theta.copy()
        noisy.values += own.normal(0.0, 1.0, len(sigmas)) * sigmas
        for _ in range(_PASSES if blocks else 0):
            noisy.rake(thinned, weight, total)
        return chosen.astype(np.int32), weight

    with ThreadPoolExecutor(workers()) as pool:
        made = list(pool.map(one, seeds))
    return Replicates(np.stack([c for c, _ in made]), np.stack([w for _, w in made]).astype(np.float32))
