"""The finished distribution of a tilted prior: weighted particles, and replicates that say how sure its answers are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.base import Flags, Model, Saved
from openprior.models.parts import DrawPart, split_rows
from openprior.models.rounded_rows import rounded_rows
from openprior.models.rows import choose_rows
from openprior.models.tilted.replicates import Replicates
from openprior.questions.workload import Marginal, canonical
from openprior.tables.table import Table

__all__ = ["Diagnostics", "TiltedModel"]

Floats = NDArray[np.float64]

_EFFORT = 1.5e9
"""Cells looked up while rows are chosen."""
_NEAR = 1e-9
"""Weights that were scaled add up to the total within this share of it."""
_DOUBTED, _CAUTIOUS = 12, 0.25
"""Marginals that tell how large the answers' own error is: at least so much of their standard errors, as these are
cautious (measured on four pairs and three budgets: 0.24 to 1.2 of them, half in the middle)."""


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


class TiltedModel(Model):
    """Weighted particles."""

    kind: ClassVar[str] = "tilted"

    def __init__(
        self,
        particles: Table,
        weights: Floats,
        total: float,
        marginals: tuple[Marginal, ...],
        replicates: Replicates,
        diagnostics: Diagnostics,
    ) -> None:
        """`marginals` are those that the rows should meet."""
        super().__init__(particles.domain, total)
        self.particles = particles
        self.weights: Floats = weights * (total / weights.sum())
        self.marginals, self.diagnostics = marginals, diagnostics
        self._replicates = replicates

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Weighted counts of the particles."""
        counter = self._counter(marginals)
        return counter.cells.split(counter.answers(self.weights))

    knows_errors: ClassVar[bool] = True

    def standard_errors(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """From the replicates, which hold the measurements' noise and the prior's own uncertainty as far as the
        innovations show it, and from the number of particles. No one knows what the prior has wrong where nothing was
        measured."""
        return self.estimates(marginals)[1]

    def estimates(
        self, marginals: Iterable[Iterable[str]]
    ) -> tuple[dict[Marginal, Floats], dict[Marginal, Floats]]:
        """Both by one counter."""
        counter = self._counter(marginals)
        spread = self._replicates.variances(self.particles, counter.cells)
        # A cell that most replicates miss has too few of them to tell its spread; thinning alone gives it this much.
        estimate, particle = counter.answers(self.weights), self.total / self._replicates.chosen.shape[1]
        spread = np.where(estimate < particle, np.maximum(spread, estimate * particle), spread)
        carlo = counter.answers(self.weights**2)
        return counter.cells.split(estimate), counter.cells.split(np.sqrt(spread + carlo))

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """Particles chosen so that the rows' marginals are close to the model's answers."""
        counter = self._counter(self.marginals)
        targets = counter.cells.split(counter.answers(self.weights))
        return choose_rows(
            self.particles,
            self.weights,
            rows,
            targets,
            rng,
            effort=_EFFORT,
            doubt=self._doubt(rng),
            counter=counter,
        )

    def _doubt(self, rng: np.random.Generator) -> float:
        """The expected error of a marginal's answers, Σ|answer − truth| as a share of the rows; of a few marginals."""
        few = rng.permutation(len(self.marginals))[:_DOUBTED]
        errors = self.standard_errors([self.marginals[i] for i in few]) if self.total > 0 else {}
        return _CAUTIOUS * float(np.mean([e.sum() for e in errors.values()] or [0.0])) / max(self.total, 1.0)

    def sample_parts(self, rows: int, parts: int, rng: np.random.Generator) -> Sequence[DrawPart]:
        """Rounded once, with marginals close to the model's answers, then split."""
        table, counts = rounded_rows(self.particles, self.weights, rows, self.marginals, rng, effort=_EFFORT)
        return split_rows(table, counts, parts, rng)

    can_restrict: ClassVar[bool] = True

    def restricted(self, allowed: Mapping[str, Flags]) -> "TiltedModel | None":
        """The particles that are allowed, in the replicates, too."""
        inside = self.particles.inside(allowed)
        kept = np.where(inside, self.weights, 0.0)
        replicates = Replicates(
            self._replicates.chosen, self._replicates.weights * inside[self._replicates.chosen]
        )
        total = float(kept.sum())
        if total <= 0:
            return None
        return TiltedModel(self.particles, kept, total, self.marginals, replicates, self.diagnostics)

    def save(self, folder: Path) -> None:
        """Particles, weights and replicates."""
        arrays: dict[str, NDArray[Any]] = {
            "weights": self.weights,
            "chosen": self._replicates.chosen,
            "replicate_weights": self._replicates.weights,
            **{f"column{i}": c for i, c in enumerate(self.particles.columns)},
        }
        facts = {
            "total": self.total,
            "marginals": [list(m) for m in self.marginals],
            "effective": self.diagnostics.effective,
            "gaps": [[list(m), g] for m, g in self.diagnostics.gaps.items()],
            "shares": list(self.diagnostics.shares),
        }
        self._write(folder, facts, arrays)

    @classmethod
    def load(cls, saved: Saved) -> "TiltedModel":
        """Particles, weights and replicates."""
        facts, arrays = saved.facts, saved.arrays
        table = Table(saved.domain, tuple(arrays[f"column{i}"] for i in range(len(saved.domain))))
        gaps = {tuple(m): float(g) for m, g in facts["gaps"]}
        classes, anchors, networks = facts["shares"]
        weights, total = arrays["weights"], facts["total"]
        model = cls(
            table,
            weights,
            total,
            tuple(tuple(m) for m in facts["marginals"]),
            Replicates(arrays["chosen"], arrays["replicate_weights"]),
            Diagnostics(facts["effective"], table.n, gaps, (classes, anchors, networks)),
        )
        if abs(weights.sum() - total) < _NEAR * total:  # scaled by that again, they would not be the same
            model.weights = weights
        return model

    def _counter(self, marginals: Iterable[Iterable[str]]) -> RowCounter:
        return RowCounter(self.particles, [canonical(m, self.domain) for m in marginals])
