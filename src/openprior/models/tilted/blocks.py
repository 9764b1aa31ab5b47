"""What was measured, block by block: one block per measured marginal, with its values, their stiffness and its θ.

The compiled loops read all blocks at once: `FlatBlocks` is how raking sees them (raking.py), `tilt_arrays` how the
moves do (moves.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.models.tilted.moves import TiltArrays
from openprior.models.tilted.raking import rake
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Block", "FlatBlocks", "tilt_arrays"]

Floats = NDArray[np.float64]

_REACH = 3.0
"""Log units that θ may move before the particles are drawn anew."""
_STEEPEST = 60.0
"""Of θ as a factor, whose products must fit a double."""


@dataclass(eq=False)
class Block:
    """One measured marginal: its values with all measurements merged, what they are trusted with, and its θ."""

    values: Floats
    variance: float
    trust: float
    c: Floats
    stands_out: NDArray[np.bool_]
    theta: Floats
    before: Floats
    """θ when the particles were drawn."""
    missing: float = 0.0
    kappa: float = 0.0

    @staticmethod
    def begun(
        values: Floats, variance: float, trust: float, c: Floats, stands_out: NDArray[np.bool_]
    ) -> "Block":
        """Before its first fit."""
        return Block(values, variance, trust, c, stands_out, np.zeros(len(values)), np.zeros(len(values)))


class FlatBlocks:
    """All blocks one after the other, as raking reads them."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.starts = np.cumsum([0, *(len(b.values) for b in blocks)]).astype(np.int64)
        none = np.zeros(0)
        self.values = np.concatenate([none, *(b.values for b in blocks)])
        self.c = np.concatenate([none, *(b.c for b in blocks)])
        self.stands_out = np.concatenate([none > 0, *(b.stands_out for b in blocks)])
        self.theta = np.concatenate([none, *(b.theta for b in blocks)])
        self.before = np.concatenate([none, *(b.before for b in blocks)])
        self.missing, self.kappa = np.array([b.missing for b in blocks]), np.array([b.kappa for b in blocks])
        self.gaps, self.held = np.zeros(len(blocks)), np.zeros(len(blocks))

    def rake(self, cells: NDArray[np.uint32], weights: Floats, total: float) -> None:
        """One pass."""
        rake(
            cells, weights, self.starts, self.values, self.c, self.stands_out, self.theta, self.before, _REACH,
            total, self.missing, self.kappa, self.gaps, self.held,
        )  # fmt: skip

    def put_back(self, blocks: Sequence[Block]) -> None:
        """θ and what belongs to it."""
        for b, block in enumerate(blocks):
            block.theta = self.theta[self.starts[b] : self.starts[b + 1]]
            block.missing, block.kappa = float(self.missing[b]), float(self.kappa[b])


def tilt_arrays(domain: Domain, thetas: Mapping[Marginal, Floats]) -> TiltArrays:
    """Θ as the moves read it."""
    widest = max((len(m) for m in thetas), default=1)
    attributes = np.zeros((len(thetas), widest), np.int64)
    strides = np.zeros_like(attributes)
    starts = np.cumsum([0, *(len(t) for t in thetas.values())])[:-1].astype(np.int64)
    of: list[list[list[int]]] = [[] for _ in domain]
    copies, begin = [np.ones(1, np.float32)], 1
    for b, (marginal, theta) in enumerate(thetas.items()):
        places = [domain.position(a) for a in marginal]
        attributes[b, : len(places)] = places
        strides[b, : len(places)] = [domain.size(marginal[j + 1 :]) for j in range(len(marginal))]
        factors = np.exp(-np.clip(theta, -_STEEPEST, _STEEPEST)).astype(np.float32)
        factors = factors.reshape([domain[a] for a in marginal])
        for j, a in enumerate(places):
            others = [k for k in range(len(places)) if k != j]
            copies.append(factors.transpose([*others, j]).ravel())
            steps = [domain.size([marginal[k] for k in [*others[i + 1 :], j]]) for i in range(len(others))]
            pairs = zip((places[k] for k in others), steps, strict=True)
            of[a].append([begin, *(number for pair in pairs for number in pair)])
            begin += len(theta)
    most = max(1, *(len(links) for links in of))
    links = np.zeros((len(domain), most, 2 * widest - 1), np.uint64)
    for a, own in enumerate(of):
        for j, link in enumerate(own):
            links[a, j, : len(link)] = link
    theta = np.concatenate([*thetas.values(), np.zeros(1)])
    degrees = np.array([len(own) for own in of], np.int64)
    return TiltArrays(
        attributes, strides, starts, theta.astype(np.float32), np.concatenate(copies), links, degrees
    )
