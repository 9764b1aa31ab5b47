"""AIM (McKenna et al. 2022): an adaptive and iterative mechanism for a graphical model; no public data.

All one-way marginals first, by which rare values are merged (compression.py, not in the paper); then rounds that
choose, by the exponential mechanism, the marginal whose error most exceeds the noise that measuring would add, weighted
by its overlap with the workload. When a new measurement moves the model by no more than its noise, σ is halved and ε
doubled. Under replace-one as the JAM-PGM paper runs it; the score is not monotone, so its sensitivity is that of an L1
distance under either relation.
"""

import math

import numpy as np
from numpy.typing import NDArray

from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    leave_uniform,
    measured_one_by_one,
    option,
    register,
)
from openprior.methods.shared.compression import Compression
from openprior.methods.shared.growing import (
    GrowingModel,
    check_size,
    clique_seconds,
    expected_noise,
    noise_of,
    within_reach,
)
from openprior.methods.shared.loop import select_measure_fit
from openprior.methods.shared.schedule import Annealed, Share
from openprior.models.base import Model
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score
from openprior.privacy.statistics import Statistic
from openprior.questions.workload import Marginal, Workload
from openprior.tables.table import Table

__all__ = ["Aim"]

_RARE = 1.0
"""Standard deviations below which a value is merged: few, as the rounds that find something are four times as sharp as
the first counts, and more. With 3 the errors are larger in 7 of 8 trials, by a fifth on FIRE at ε = 0.1."""


@register("aim")
class Aim(Mechanism):
    """Adaptive selection of private marginals for a graphical model."""

    good_for = "no public table, or one that cannot be trusted; many columns, any workload"
    public_table = PublicTable.NOT_USED

    rounds: int | None = option(
        default=None,
        doc="number T of equal rounds that the first noise is meant for; 16 per column if not given",
    )
    alpha: float = option(default=0.9, doc="share of a round's budget that pays for measuring")
    size_limit: float = option(
        default=80.0, doc="largest model, in megabytes; grows in proportion to the budget used"
    )
    seconds: float | None = option(
        default=30.0,
        doc="how long all fits together may take, foretold from the model's size; None: no limit, as published",
    )
    compress: bool = option(
        default=True,
        doc="merge values that are too rare to be told from noise before marginals are measured; not as published",
    )

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        check(0 < self.alpha < 1, f"alpha ({self.alpha}) must be between 0 and 1")
        check(self.size_limit > 0, f"size_limit ({self.size_limit}) must be positive")
        check(self.seconds is None or self.seconds > 0, f"seconds ({self.seconds}) must be positive, or None")

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Algorithm 4 of the AIM paper; the public table is not looked at."""
        domain, unit = curator.domain, curator.unit
        total = float(curator.n) if unit.n_is_public else None
        check_size(domain, self.size_limit)
        closure = within_reach(domain, workload.closure(), self.size_limit)
        curator.announce(closure)
        weights = workload.overlaps(closure)
        singles = [m for m in closure if len(m) == 1]
        rho = curator.remaining / max(self.rounds or 16 * len(domain), len(singles) + 1)
        first = measured_one_by_one(curator, singles, self.alpha * rho)
        values = Compression.told(curator, first, _RARE) if self.compress else Compression(domain)
        growing = GrowingModel(
            domain, total, rng, size_limit=self.size_limit, seconds=self.seconds, compression=values
        )
        growing.measured(*first)
        # ρ/T per round at first: half the σ and twice the ε, so four times the ρ, whenever a round finds nothing.
        schedule = Annealed(lambda: curator.remaining, rho, growth=4.0, alpha=self.alpha)
        model: dict[Marginal, NDArray[np.float64]] = {}

        def propose(share: Share) -> list[L1Score]:
            nonlocal model
            used = 1 - (curator.remaining - share.rho) / curator.rho
            rounds_to_come = curator.remaining / share.rho  # at most: shares never become smaller
            model = growing.answers(growing.candidates(closure, used, rounds_to_come))
            sigma = noise_of(unit, share.measure)
            return [
                L1Score(m, ((1.0, x),), weights[m], -expected_noise(sigma, len(x)), values.merging(m))
                for m, x in model.items()
            ]

        def candidate(index: int) -> Statistic:
            return values.statistic(list(model)[index])

        def fit(measured: Measurement) -> None:
            growing.measured(measured)
            after = growing.answer(measured.marginal)
            moved = float(np.abs(after - model[measured.marginal]).sum())
            schedule.heard(moved / expected_noise(measured.sigma, len(after)) > 1)

        select_measure_fit(curator, schedule, propose, candidate, fit, progress)
        leave_uniform(curator, singles, "Name them in the workload, or drop them")
        return growing.finish()

    def outlay(self, sizes: Sizes) -> Outlay:
        """The more rows and budget there are for a cell, the more rounds find something, and the larger the cliques."""
        signal = sizes.rows * sizes.epsilon * sizes.marginals / sizes.cells
        rounds = min(max(16 + 20 * math.log10(signal), 6.0), 40.0)
        each = 2e-4 * sizes.closure + 1e-8 * sizes.cells
        return Outlay(0.1 + rounds * each + clique_seconds(sizes, self.seconds), 30.0)
