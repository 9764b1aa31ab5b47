"""JAM-PGM (Fuentes et al. 2024, Algorithm 2): each round chooses what to measure, and whether privately or publicly.

A private measurement is unbiased but noisy; the public table's answer is free and exact but biased. Both are
candidates of one selection, scored by how much the model's error is expected to shrink; a public choice gives its
measuring budget back to the rounds to come.
"""

from typing import ClassVar

import numpy as np

from openprior.counting.local import count_table
from openprior.methods.base import (
    Progress,
    check,
    known_total,
    leave_uniform,
    need_public,
    option,
    register,
)
from openprior.methods.shared.growing import GrowingModel, check_size, expected_noise, noise_of, within_reach
from openprior.models.base import Model
from openprior.models.graphical.loss import alike
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score
from openprior.privacy.statistics import Counts
from openprior.questions.workload import Workload
from openprior.tables.encode import Table

__all__ = ["JamPgm"]


@register("jam-pgm")
class JamPgm:
    """Joint selection of private and public marginals for a graphical model."""

    name: ClassVar[str]
    good_for: ClassVar[str] = "a public table that is right about some columns and wrong about others"
    needs_public: ClassVar[bool] = True

    rounds: int = option(default=30, doc="number of rounds T")
    alpha: float = option(default=0.8, doc="share α of a round's budget that pays for measuring")
    size_limit: float = option(
        default=80.0, doc="largest model, in megabytes; grows in proportion to the budget used"
    )

    def __post_init__(self) -> None:
        check(self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        check(0 < self.alpha < 1, f"alpha ({self.alpha}) must be between 0 and 1")
        check(self.size_limit > 0, f"size_limit ({self.size_limit}) must be positive")

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Model:
        """Algorithm 2."""
        rows = need_public(public, "jam-pgm")
        domain, unit = curator.domain, curator.unit
        check_size(domain, self.size_limit)
        closure = within_reach(domain, workload.closure(), self.size_limit)
        curator.announce(closure)
        public_counts = count_table(rows, closure)
        total = known_total(curator)  # the first charge: everything that can be refused has been looked at
        growing = GrowingModel(domain, total, rng, size_limit=self.size_limit, weigh=alike)
        proxy = {m: c.astype(np.float64) * (total / rows.n) for m, c in public_counts.items()}
        for t in range(self.rounds):
            rho = curator.remaining / (self.rounds - t)
            select, measure = (1 - self.alpha) * rho, self.alpha * rho
            sigma = noise_of(unit, measure)
            candidates = growing.candidates(closure, 1 - (curator.remaining - rho) / curator.rho)
            model = growing.answers(candidates)
            # Score = model error − predicted error; the public one looks at the private table twice: sensitivity 4.
            private = [
                L1Score(m, ((1.0, model[m]),), offset=-expected_noise(sigma, domain.size(m)))
                for m in candidates
            ]
            publicly = [L1Score(m, ((1.0, model[m]), (-1.0, proxy[m]))) for m in candidates]
            chosen = curator.select([*private, *publicly], select)
            marginal = candidates[chosen % len(candidates)]
            by_private = chosen < len(candidates)
            values = curator.measure(Counts(marginal), measure).values if by_private else proxy[marginal]
            # A public answer was preferred because its error seemed smaller than this noise: fit neither more closely.
            growing.measured(Measurement.of(marginal, values, sigma))
            progress(t + 1, self.rounds, "rounds")
        chosen_at_all = [m.marginal for m in growing.measurements]
        leave_uniform(curator, chosen_at_all, "Name them in the workload, raise rounds, or drop them")
        return growing.finish()
