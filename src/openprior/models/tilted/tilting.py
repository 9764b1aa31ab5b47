"""A prior, tilted: p ∝ p₀·exp(−Θ), the distribution closest to the prior among those that explain the measurements.

`Tilting` is it while it is learnt: it takes noisy marginals in, decides how far the prior may be trusted about each
(raking.py), rakes the particles' weights, and draws and moves them anew when weights become uneven or θ reaches its
bound. What it ends in is a `TiltedModel` (tilted_model.py). Nothing here sees the private table: measurements come in
as they were released, so all of it is post-processing.
"""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.models.prior.prior import Prior
from openprior.models.tilted.blocks import Block, FlatBlocks, tilt_arrays
from openprior.models.tilted.independent import independent_prior
from openprior.models.tilted.moves import TiltArrays
from openprior.models.tilted.particles import Particles
from openprior.models.tilted.raking import stiffness
from openprior.models.tilted.remainder import left_after
from openprior.models.tilted.replicates import draw_replicates
from openprior.models.tilted.tilted_model import Diagnostics, TiltedModel
from openprior.models.tilted.trust import UNKNOWN, Trust
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Tilting"]

Floats = NDArray[np.float64]

_PASSES, _LAST_PASSES, _ATTEMPTS = 4, 8, 3
_UNEVEN = 0.5
"""Effective share of the particles below which they are drawn anew."""
_ENOUGH = 0.3
"""Effective share of weighted fresh draws that is enough to go on with them."""
_PILOT = 1 << 14
"""Of them, which are tried before all are drawn."""
_HELD, _LESS = 0.005, 0.8
"""Share of the mass that the reach of θ may hold back; and what must be left of it, at most, after drawing anew for
that to be done once more."""
_MANY = 1 << 14
"""Particles that are worth another thread."""
_TAKEN = 0.02
"""Share of the fresh draws that must be taken for them to be offered again."""


class Tilting:
    """The tilted prior while it is learnt."""

    def __init__(
        self,
        prior: Prior,
        domain: Domain,
        total: float,
        particles: int,
        rng: np.random.Generator,
        trust: Trust | None = None,
    ) -> None:
        """`trust` is what is known of the prior already; else it is worth its public rows."""
        self.domain, self.total, self.prior, self._rng = domain, total, prior, rng
        self.particles = Particles(prior.arrays, domain, total, particles, rng)
        self._blocks: dict[Marginal, Block] = {}
        self._room = np.empty((0, particles), np.uint32)
        """The particles' cells, block by block, with room for more blocks."""
        self._trust = trust or Trust(prior.worth(total) if prior.rows else UNKNOWN)
        self.eased, self.moved, self._fresh_helps = 0, 0, True
        self._stuck = 0.0
        """Mass that the last fit left held back, and a little more: drawing anew did not help against it."""

    @property
    def demands(self) -> int:
        """Cells that particles must answer for: those with mass or a measurement beyond their noise."""
        return sum(int(np.count_nonzero(b.values > 2 * math.sqrt(b.variance))) for b in self._blocks.values())

    @property
    def trust(self) -> float:
        """λ: what the model may be trusted with about a marginal not measured yet, by what the others have shown."""
        return self._trust.value

    def answers(self, marginals: Iterable[Marginal]) -> dict[Marginal, Floats]:
        """Estimated counts."""
        return self.particles.answers(marginals)

    def mass(self, marginal: Marginal) -> Floats:
        """The estimated counts of one marginal."""
        return self.particles.mass(marginal)

    def flat(self, cells: Cells) -> Floats:
        """Estimated counts of all cells, in one vector."""
        return self.particles.flat(cells)

    def without_prior(self, singles: Iterable[Measurement], cells: Cells) -> Floats:
        """What independent columns by these one-way marginals would answer, from as many particles."""
        count = len(self.particles)
        prior = independent_prior(self.domain, self.total, singles)
        return Particles(prior.arrays, self.domain, self.total, count, self._rng).flat(cells)

    def left_after(self, answers: Floats, offsets: NDArray[np.int64], sigma: float) -> Floats:
        """What is left of the error of every marginal, by the model's own answers, once it is measured with noise σ."""
        particle = self.total / len(self.particles)
        return left_after(answers, offsets, sigma=sigma, trust=self.trust, particle=particle)

    def measured(self, measurement: Measurement) -> None:
        """Take a measurement in; `fit` does the rest. Measurements of one marginal are merged by their precision."""
        marginal, values, variance = measurement.marginal, measurement.values, measurement.sigma**2
        expected = self.particles.mass(marginal)
        trusted = self._trust.hear(values, expected, variance)
        block = self._blocks.get(marginal)
        if block is not None:
            precision = 1 / block.variance + 1 / variance
            values = (block.values / block.variance + values / variance) / precision
            variance = 1 / precision
            # The block step starts from the mass without the block's own θ, so that is where c must be chosen.
            expected = expected * np.exp(np.clip(block.theta, -20.0, 20.0))
            expected *= self.total / expected.sum()
        least = 0.05 * self.total / len(self.particles)
        # No cell has more than all rows; what is measured beyond is noise.
        c, stands_out = stiffness(np.minimum(values, self.total), expected, variance, trusted, least)
        if block is not None:
            block.values, block.variance, block.trust = values, variance, trusted
            block.c, block.stands_out = c, stands_out
        else:
            self._add(marginal, Block.begun(values, variance, trusted, c, stands_out))

    def known(self, marginal: Marginal, mass: Floats, variance: float) -> None:
        """Hold a marginal, while others are measured, to what the prior has learnt of it with so much noise left."""
        c = np.full(len(mass), max(self.trust * variance, 1e-3))
        self._add(marginal, Block.begun(mass, variance, self.trust, c, np.zeros(len(mass), np.bool_)))

    def _add(self, marginal: Marginal, block: Block) -> None:
        self._blocks[marginal] = block
        self._number(marginal, len(self._blocks) - 1)

    def fit(self, *, epochs: int = 6, passes: int = _PASSES) -> None:
        """Rake; draw the particles anew while their weights are uneven or some θ wants to go beyond its reach.

        Uneven weights on particles that were just drawn anew mean that the measurements ask for more than so many
        particles can tell: then θ goes back to where it was, every cell becomes twice as stiff, and the fit is tried
        again, up to three times in all. Infinitely stiff is the prior, so the fits to come are calmer in any case.
        """
        before = {m: (b.theta.copy(), b.missing, b.kappa) for m, b in self._blocks.items()}
        cloud, fresh_helps, stuck = self.particles.copy(), self._fresh_helps, self._stuck
        for attempt in range(_ATTEMPTS):
            if self._settle(epochs, passes) or attempt == _ATTEMPTS - 1:
                return
            self.particles, self._fresh_helps, self._stuck = cloud.copy(), fresh_helps, stuck
            for marginal, block in self._blocks.items():
                block.theta, block.missing, block.kappa = before[marginal]
                block.theta = block.theta.copy()
                block.c = block.c * 2.0
            self.eased += 1
            self._renumber()

    def _settle(self, epochs: int, passes: int) -> bool:
        """Rake and renew until nothing asks for more; whether the weights came out even enough."""
        before = math.inf
        for epoch in range(epochs):
            held = self._rake(passes)
            wants = max(_HELD * self.total, self._stuck) < held < _LESS * before
            uneven = self.particles.effective < _UNEVEN
            if not wants and (not uneven or epoch >= 2):
                break
            if epoch < epochs - 1:
                before = held
                self.renew(len(self.particles))
        self._stuck = held / _LESS
        return self.particles.effective >= _UNEVEN / 2

    def renew(self, count: int, *, sweeps: int = 1) -> None:
        """Draw so many particles anew by their weights, and move them. Fresh draws are offered as long as they are
        taken: a distribution that has gone far from the prior takes hardly any."""
        self.particles.resample(count)
        taken = self.particles.move(self._tilt(), sweeps=sweeps, fresh=self._fresh_helps)
        self._fresh_helps &= taken >= _TAKEN
        self.moved += 1
        self._renumber()

    def _renumber(self) -> None:
        """The particles are new: so are their cells, and θ may move from where it is."""
        for block in self._blocks.values():
            block.before = block.theta.copy()
        self._room = np.empty((len(self._blocks), len(self.particles)), np.uint32)
        table = self.particles.table  # laid out before threads ask for it
        with ThreadPoolExecutor(workers() if table.n > _MANY else 1) as pool:
            list(pool.map(self._number, self._blocks, range(len(self._blocks))))

    def _number(self, marginal: Marginal, b: int) -> None:
        """Note which cells the particles have in a block."""
        if b == len(self._room):
            self._room = np.concatenate([self._room, np.empty((b + 16, len(self.particles)), np.uint32)])
        self._room[b] = self.particles.cells(marginal)

    @property
    def _cells(self) -> NDArray[np.uint32]:
        """[block, particle]"""
        return self._room[: len(self._blocks)]

    def spread(self, count: int, *, sweeps: int) -> None:
        """Go over to so many particles: fresh draws from the prior weighted by exp(−Θ) if that leaves enough of them
        effective, which has no copies in it; else the old ones, drawn anew and moved."""
        if self._fresh_helps:
            for many in sorted({min(count, _PILOT), count}):
                fresh = Particles(self.prior.arrays, self.domain, self.total, many, self._rng)
                fresh.tilt(self._tilt())
                if fresh.effective < _ENOUGH:
                    break
            else:
                self.particles = fresh
                self._renumber()
                return
        self.renew(count, sweeps=sweeps)

    def finish(self, marginals: Iterable[Marginal], count: int, *, sweeps: int = 2) -> TiltedModel:
        """The finished model, on so many particles; `marginals` are those that its rows should meet."""
        self.spread(count, sweeps=sweeps)
        self.fit(epochs=2, passes=_LAST_PASSES)
        weights, blocks = self.particles.weights, list(self._blocks.values())
        replicates = draw_replicates(
            weights, self._cells, blocks, trust=self.trust, total=self.total, rng=self._rng
        )
        table = self.particles.table
        return TiltedModel(table, weights, self.total, tuple(marginals), replicates, self.diagnostics())

    def diagnostics(self) -> Diagnostics:
        """How well the particles stand for the distribution now."""
        gaps = {}
        for (marginal, block), cells in zip(self._blocks.items(), self._cells, strict=True):
            mass = np.bincount(cells, self.particles.weights, minlength=len(block.values))
            gaps[marginal] = float(np.sqrt(np.mean((block.values - mass) ** 2) / block.variance))
        return Diagnostics(self.particles.effective, len(self.particles), gaps, self.particles.shares)

    # Inside.

    def _rake(self, passes: int) -> float:
        """Up to so many passes, fewer when little moves; the mass that the reach holds back or no particle can take."""
        if not self._blocks:
            return 0.0
        blocks = list(self._blocks.values())
        flat = FlatBlocks(blocks)
        for _ in range(passes):
            flat.rake(self._cells, self.particles.weights, self.total)
            if flat.gaps.max() < 2e-4 * self.total:
                break
        flat.put_back(blocks)
        return float((flat.held + flat.missing).max())

    def _tilt(self) -> TiltArrays:
        """Θ as the moves read it."""
        return tilt_arrays(self.domain, {m: b.theta for m, b in self._blocks.items()})
