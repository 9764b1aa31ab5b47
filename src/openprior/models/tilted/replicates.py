"""Replicates of a fit, which say how sure its answers are.

Particles thinned at random to what the prior is worth, with the measurements' noise drawn again, raked. If the model's
error in a cell has variance m/λ, it is worth λ·n rows: a random subset of so many particles strays from all of them by
just as much, and raking takes back what the measurements know. The noise drawn here protects nothing: what it is added
to was released before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.tilted.blocks import Block, FlatBlocks

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

    def variances(self, counter: RowCounter) -> Floats:
        """How far the replicates' answers lie apart, in every cell."""
        sums, squares = np.zeros(len(counter.cells)), np.zeros(len(counter.cells))
        for chosen, weights in zip(self.chosen, self.weights, strict=True):
            answers = counter.answers(weights.astype(np.float64), chosen.astype(np.intp))
            sums += answers
            squares += answers**2
        count = len(self.chosen)
        return np.maximum(squares - sums**2 / count, 0.0) / (count - 1)


def draw_replicates(
    weights: Floats,
    cells: NDArray[np.int32],
    blocks: Sequence[Block],
    *,
    trust: float,
    total: float,
    rng: np.random.Generator,
) -> Replicates:
    """Replicates of particles with these weights, whose cells in every block are `cells` [block, particle]."""
    worth = int(np.clip(trust * total, _FEWEST, min(_MOST, len(weights))))
    probabilities = weights / weights.sum()
    chosen = np.empty((_REPLICATES, worth), np.int32)
    raked = np.empty((_REPLICATES, worth), np.float32)
    for r in range(_REPLICATES):
        chosen[r] = rng.choice(len(weights), worth, p=probabilities)
        weight = np.full(worth, total / worth)
        flat = FlatBlocks(blocks)
        flat.before = flat.theta.copy()
        for s, block in zip(flat.starts, blocks, strict=False):
            noise = rng.normal(0.0, math.sqrt(block.variance), len(block.values))
            flat.values[s : s + len(noise)] += noise
        for _ in range(_PASSES if blocks else 0):
            flat.rake(np.ascontiguousarray(cells[:, chosen[r]]), weight, total)
        raked[r] = weight
    return Replicates(chosen, raked)
