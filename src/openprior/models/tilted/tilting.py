"""A prior, tilted: p ∝ p₀·exp(−Θ), the distribution closest to the prior among those that explain the measurements.

`Tilting` is it while it is learnt: it takes noisy marginals in, decides how far the prior may be trusted about each
(raking.py), rakes the particles' weights, and draws and moves them anew when weights become uneven or θ reaches its
bound. `TiltedModel` is the finished distribution: many particles, and replicates that say how sure its answers are.
Nothing here sees the private table: measurements come in as they were released, so all of it is post-processing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.base import Model, register_model, write_arrays
from openprior.models.rows import choose_rows
from openprior.models.tilted.moves import TiltArrays
from openprior.models.tilted.particles import Particles
from openprior.models.tilted.prior import Prior
from openprior.models.tilted.raking import TRUSTS, most_likely, rake, stiffness, trust_evidence
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

__all__ = ["Diagnostics", "TiltedModel", "Tilting"]

Floats = NDArray[np.float64]

_REACH = 3.0
"""Log units that θ may move before the particles are drawn anew."""
_PASSES, _ATTEMPTS = 6, 3
_UNEVEN = 0.5
"""Effective share of the particles below which they are drawn anew."""
_SPREAD, _FADE = 1.5, 0.9
"""How far the trust in one marginal may be from that in others (log units), and how fast earlier ones are forgotten:
the model that they spoke of was a worse one."""
_ENOUGH = 0.3
"""Effective share of weighted fresh draws that is enough to go on with them."""
_REPLICATES = 24


@dataclass(eq=False)
class _Block:
    """One measured marginal: its values with all measurements merged, what they are trusted with, and its θ."""

    values: Floats
    variance: float
    trust: float
    c: Floats
    stands_out: NDArray[np.bool_]
    theta: Floats
    before: Floats
    missing: float = 0.0
    kappa: float = 0.0


@dataclass(frozen=True)
class Diagnostics:
    """How well the particles stand for the distribution."""

    effective: float
    """Effective sample size, as a share of the particles."""
    particles: int
    gaps: Mapping[Marginal, float]
    """For each measured marginal the root mean square of (measured − fitted), in standard deviations of its noise;
    about 1 or less where prior and particles can explain what was measured."""
    shares: tuple[float, float, float]
    """What is left of classes, anchors and networks."""


class Tilting:
    """The tilted prior while it is learnt."""

    def __init__(
        self, prior: Prior, domain: Domain, total: float, particles: int, rng: np.random.Generator
    ) -> None:
        self.domain, self.total, self.prior, self._rng = domain, total, prior, rng
        self.particles = Particles(prior.arrays, domain, total, particles, rng)
        self._blocks: dict[Marginal, _Block] = {}
        self._cells = np.zeros((0, particles), np.int32)
        self._guess = min(1.0, prior.rows / total) if prior.rows else 0.01
        self._evidence = np.zeros(len(TRUSTS))
        self.eased = 0

    @property
    def demands(self) -> int:
        """Cells that particles must answer for: those with mass or a measurement beyond their noise."""
        return sum(int(np.count_nonzero(b.values > 2 * math.sqrt(b.variance))) for b in self._blocks.values())

    @property
    def trust(self) -> float:
        """λ: what the model may be trusted with about a marginal not measured yet, by what the others have shown.

        Before anything was measured: that of a public sample of so many rows from the same population.
        """
        return most_likely(self._evidence, self._guess, _SPREAD)

    def answers(self, marginals: Iterable[Marginal]) -> dict[Marginal, Floats]:
        """Estimated counts."""
        return self.particles.answers(marginals)

    def measured(self, measurement: Measurement) -> None:
        """Take a measurement in; `fit` does the rest. Measurements of one marginal are merged by their precision."""
        marginal, values, variance = measurement.marginal, measurement.values, measurement.sigma**2
        expected = self.particles.mass(marginal)
        evidence = trust_evidence(values, expected, variance)
        trusted = most_likely(evidence, self.trust, _SPREAD)
        self._evidence = _FADE * self._evidence + evidence
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
            zeros = np.zeros(len(values))
            self._blocks[marginal] = _Block(values, variance, trusted, c, stands_out, zeros, zeros.copy())
            self._cells = np.concatenate([self._cells, self.particles.cells(marginal)[None]])

    def fit(self, *, epochs: int = 6, passes: int = _PASSES) -> None:
        """Rake; draw the particles anew while their weights are uneven or some θ wants to go beyond its reach.

        Uneven weights on particles that were just drawn anew mean that the measurements ask for more than so many
        particles can tell: then θ goes back to where it was, every cell becomes twice as stiff, and the fit is tried
        again, up to three times in all. Infinitely stiff is the prior, so the fits to come are calmer in any case.
        """
        before = {m: (b.theta.copy(), b.missing, b.kappa) for m, b in self._blocks.items()}
        cloud = self.particles.copy()
        for attempt in range(_ATTEMPTS):
            if self._settle(epochs, passes) or attempt == _ATTEMPTS - 1:
                return
            self.particles = cloud.copy()
            for marginal, block in self._blocks.items():
                block.theta, block.missing, block.kappa = before[marginal]
                block.theta = block.theta.copy()
                block.c = block.c * 2.0
            self.eased += 1
            self._renumber()

    def _settle(self, epochs: int, passes: int) -> bool:
        """Rake and renew until nothing asks for more; whether the weights came out even enough."""
        for epoch in range(epochs):
            held = self._rake(passes) > 0.005 * self.total
            uneven = self.particles.effective < _UNEVEN
            if not held and (not uneven or epoch >= 2):
                break
            if epoch < epochs - 1:
                self.renew(len(self.particles))
        return self.particles.effective >= _UNEVEN / 2

    def renew(self, count: int, *, sweeps: int = 1, fresh: int = 1) -> None:
        """Draw so many particles anew by their weights, and move them."""
        self.particles.resample(count)
        self.particles.move(self._tilt(), sweeps=sweeps, fresh=fresh)
        self._renumber()

    def _renumber(self) -> None:
        """The particles are new: so are their cells, and θ may move from where it is."""
        for block in self._blocks.values():
            block.before = block.theta.copy()
        cells = [self.particles.cells(m) for m in self._blocks]
        self._cells = np.array(cells, np.int32).reshape(-1, len(self.particles))

    def spread(self, count: int, *, sweeps: int) -> None:
        """Go over to so many particles: fresh draws from the prior weighted by exp(−Θ) if that leaves enough of them
        effective, which has no copies in it; else the old ones, drawn anew and moved."""
        fresh = Particles(self.prior.arrays, self.domain, self.total, count, self._rng)
        fresh.tilt(self._tilt())
        if fresh.effective < _ENOUGH:
            self.renew(count, sweeps=sweeps)
            return
        self.particles = fresh
        self._renumber()

    def finish(self, marginals: Iterable[Marginal], count: int, *, sweeps: int = 2) -> "TiltedModel":
        """The finished model, on so many particles; `marginals` are those that its rows should meet."""
        self.spread(count, sweeps=sweeps)
        self.fit(epochs=2, passes=3 * _PASSES)
        replicates = self._replicates(self._rng)
        return TiltedModel(
            self.particles.table,
            self.particles.weights,
            self.total,
            tuple(marginals),
            replicates,
            self.diagnostics(),
        )

    def diagnostics(self) -> Diagnostics:
        """How well the particles stand for the distribution now."""
        gaps = {
            m: float(np.sqrt(np.mean((b.values - self.particles.mass(m)) ** 2) / b.variance))
            for m, b in self._blocks.items()
        }
        return Diagnostics(self.particles.effective, len(self.particles), gaps, self.particles.shares)

    # Inside.

    def _rake(self, passes: int) -> float:
        """Up to so many passes, fewer when little moves; the mass that the reach holds back or no particle can take."""
        if not self._blocks:
            return 0.0
        blocks = list(self._blocks.values())
        flat = _Flat(blocks)
        for _ in range(passes):
            flat.rake(self._cells, self.particles.weights, self.total)
            if flat.gaps.max() < 2e-4 * self.total:
                break
        flat.put_back(blocks)
        return float((flat.held + flat.missing).max())

    def _tilt(self) -> TiltArrays:
        """Θ as the moves read it."""
        domain = self.domain
        widest = max((len(m) for m in self._blocks), default=1)
        attributes = np.full((len(self._blocks), widest), -1, np.int64)
        strides = np.zeros_like(attributes)
        of: list[list[tuple[int, int]]] = [[] for _ in domain]
        for b, marginal in enumerate(self._blocks):
            stride = 1
            for j in reversed(range(len(marginal))):
                a = domain.position(marginal[j])
                attributes[b, j], strides[b, j] = a, stride
                of[a].append((b, stride))
                stride *= domain[marginal[j]]
        most = max(1, *(len(blocks) for blocks in of))
        blocks_of, stride_of = (
            np.full((len(domain), most), -1, np.int64),
            np.zeros((len(domain), most), np.int64),
        )
        for a, own in enumerate(of):
            for j, (b, stride) in enumerate(own):
                blocks_of[a, j], stride_of[a, j] = b, stride
        thetas = [b.theta for b in self._blocks.values()]
        starts = np.cumsum([0, *(len(t) for t in thetas)])[:-1].astype(np.int64)
        theta = np.concatenate([*thetas, np.zeros(1)]).astype(np.float32)
        return TiltArrays(attributes, strides, starts, theta, blocks_of, stride_of)

    def _replicates(self, rng: np.random.Generator) -> "_Replicates":
        """Particles thinned at random to what the prior is worth, with the measurements' noise drawn again, raked.

        If the model's error in a cell has variance m/λ, it is worth λ·n rows: a random subset of so many particles
        strays from all of them by just as much, and raking takes back what the measurements know. The noise drawn here
        protects nothing: what it is added to was released before.
        """
        worth = int(np.clip(self.trust * self.total, 200, min(20_000, len(self.particles))))
        probabilities = self.particles.weights / self.particles.weights.sum()
        chosen = np.empty((_REPLICATES, worth), np.int32)
        weights = np.empty((_REPLICATES, worth), np.float32)
        blocks = list(self._blocks.values())
        for r in range(_REPLICATES):
            chosen[r] = rng.choice(len(self.particles), worth, p=probabilities)
            weight = np.full(worth, self.total / worth)
            flat = _Flat(blocks)
            flat.before = flat.theta.copy()
            for s, block in zip(flat.starts, blocks, strict=False):
                noise = rng.normal(0.0, math.sqrt(block.variance), len(block.values))
                flat.values[s : s + len(noise)] += noise
            for _ in range(4 if blocks else 0):
                flat.rake(np.ascontiguousarray(self._cells[:, chosen[r]]), weight, self.total)
            weights[r] = weight
        return _Replicates(chosen, weights)


class _Flat:
    """All blocks one after the other, as the compiled loop reads them."""

    def __init__(self, blocks: list[_Block]) -> None:
        self.starts = np.cumsum([0, *(len(b.values) for b in blocks)]).astype(np.int64)
        none = np.zeros(0)
        self.values = np.concatenate([none, *(b.values for b in blocks)])
        self.c = np.concatenate([none, *(b.c for b in blocks)])
        self.stands_out = np.concatenate([none > 0, *(b.stands_out for b in blocks)])
        self.theta = np.concatenate([none, *(b.theta for b in blocks)])
        self.before = np.concatenate([none, *(b.before for b in blocks)])
        self.missing, self.kappa = np.array([b.missing for b in blocks]), np.array([b.kappa for b in blocks])
        self.gaps, self.held = np.zeros(len(blocks)), np.zeros(len(blocks))

    def rake(self, cells: NDArray[np.int32], weights: Floats, total: float) -> None:
        """One pass."""
        rake(
            cells, weights, self.starts, self.values, self.c, self.stands_out, self.theta, self.before, _REACH,
            total, self.missing, self.kappa, self.gaps, self.held,
        )  # fmt: skip

    def put_back(self, blocks: list[_Block]) -> None:
        """θ and what belongs to it."""
        for b, block in enumerate(blocks):
            block.theta = self.theta[self.starts[b] : self.starts[b + 1]]
            block.missing, block.kappa = float(self.missing[b]), float(self.kappa[b])


@dataclass(frozen=True, eq=False)
class _Replicates:
    """[replicate, place]: which particles, and their weights."""

    chosen: NDArray[np.int32]
    weights: NDArray[np.float32]


class TiltedModel:
    """The finished distribution: weighted particles."""

    def __init__(
        self,
        particles: Table,
        weights: Floats,
        total: float,
        marginals: tuple[Marginal, ...],
        replicates: _Replicates,
        diagnostics: Diagnostics,
    ) -> None:
        self.particles, self.total = particles, float(total)
        self.weights: Floats = weights * (total / weights.sum())
        self.marginals, self.diagnostics = marginals, diagnostics
        self._replicates = replicates

    @property
    def domain(self) -> Domain:
        """The particles' domain."""
        return self.particles.domain

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Weighted counts of the particles."""
        counter = RowCounter(self.particles, [canonical(m, self.domain) for m in marginals])
        return counter.cells.split(counter.answers(self.weights))

    def standard_errors(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """From the replicates, which hold the measurements' noise and the prior's own uncertainty as far as the
        innovations show it, and from the number of particles. No one knows what the prior has wrong where nothing was
        measured."""
        wanted = [canonical(m, self.domain) for m in marginals]
        counter = RowCounter(self.particles, wanted)
        sums, squares = np.zeros(len(counter.cells)), np.zeros(len(counter.cells))
        for chosen, weights in zip(self._replicates.chosen, self._replicates.weights, strict=True):
            found = counter.answers(weights.astype(np.float64), chosen.astype(np.intp))
            sums += found
            squares += found**2
        count = len(self._replicates.chosen)
        spread = np.maximum(squares - sums**2 / count, 0.0) / (count - 1)
        # A cell that most replicates miss has too few of them to tell its spread; thinning alone gives it this much.
        estimate, particle = counter.answers(self.weights), self.total / self._replicates.chosen.shape[1]
        spread = np.where(estimate < particle, np.maximum(spread, estimate * particle), spread)
        carlo = counter.answers(self.weights**2)
        return counter.cells.split(np.sqrt(spread + carlo))

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """Particles chosen so that the rows' marginals are close to the model's answers."""
        return choose_rows(
            self.particles, self.weights, rows, self.answers(self.marginals), rng, effort=1.5e9
        )

    def save(self, folder: Path) -> None:
        """Particles, weights and replicates."""
        arrays: dict[str, NDArray[Any]] = {
            "weights": self.weights,
            "chosen": self._replicates.chosen,
            "replicate_weights": self._replicates.weights,
            **{f"column{i}": c for i, c in enumerate(self.particles.columns)},
        }
        found = self.diagnostics
        facts = {
            "total": self.total,
            "marginals": [list(m) for m in self.marginals],
            "effective": found.effective,
            "gaps": [[list(m), g] for m, g in found.gaps.items()],
            "shares": list(found.shares),
        }
        write_arrays(folder, "tilted", self.domain, facts, arrays)


@register_model("tilted")
def _load(header: dict[str, Any], arrays: dict[str, NDArray[Any]], folder: Path) -> Model:
    domain = Domain(header["domain"])
    table = Table(domain, tuple(arrays[f"column{i}"] for i in range(len(domain))))
    gaps = {tuple(m): float(g) for m, g in header["gaps"]}
    a, b, c = header["shares"]
    return TiltedModel(
        table,
        arrays["weights"],
        header["total"],
        tuple(tuple(m) for m in header["marginals"]),
        _Replicates(arrays["chosen"], arrays["replicate_weights"]),
        Diagnostics(header["effective"], table.n, gaps, (a, b, c)),
    )
