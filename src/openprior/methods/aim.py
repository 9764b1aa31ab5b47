"""AIM (McKenna et al. 2022): an adaptive and iterative mechanism for a graphical model; no public data.

All one-way marginals first; then rounds that choose, by the exponential mechanism, the marginal whose error most
exceeds the noise that measuring would add, weighted by its overlap with the workload. When a new measurement moves the
model by no more than its noise, σ is halved and ε doubled. Under replace-one as the JAM-PGM paper runs it; the score
is not monotone, so its sensitivity is that of an L1 distance under either relation.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.methods.base import Progress, check, leave_uniform, option, register
from openprior.methods.shared.growing import GrowingModel, expected_noise, noise_of, within_reach
from openprior.methods.shared.loop import select_measure_fit
from openprior.methods.shared.schedule import Share
from openprior.models.base import Model
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score
from openprior.privacy.statistics import Counts
from openprior.questions.workload import Marginal, Workload
from openprior.tables.encode import Table

__all__ = ["Aim"]


class _Annealing:
    """ρ/T a round at first, four times as much after every round that moved the model within its noise; the last round
    takes the rest, when that would not pay for two more."""

    def __init__(self, curator: Curator, rho: float, alpha: float) -> None:
        self._curator, self._rho, self._alpha = curator, rho, alpha

    def __iter__(self) -> Iterator[Share]:
        last = False
        while not last:
            last = self._curator.remaining < 2 * self._rho * (1 - 1e-9)
            rho = self._curator.remaining if last else self._rho
            yield Share((1 - self._alpha) * rho, self._alpha * rho)

    def heard(self, signal: float) -> bool:
        """The movement of the model in units of the expected noise."""
        if signal <= 1:
            self._rho *= 4
        return True


@register("aim")
class Aim:
    """Adaptive selection of private marginals for a graphical model."""

    name: ClassVar[str]
    good_for: ClassVar[str] = "no public table, or one that cannot be trusted; many columns, any workload"
    needs_public: ClassVar[bool] = False

    rounds: int | None = option(
        default=None,
        doc="number T of equal rounds that the first noise is meant for; 16 a column if not given",
    )
    alpha: float = option(default=0.9, doc="share of a round's budget that pays for measuring")
    size_limit: float = option(
        default=80.0, doc="largest model, in megabytes; grows in proportion to the budget used"
    )

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
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
        """Algorithm 4 of the AIM paper; the public table is not looked at."""
        domain, unit = curator.domain, curator.unit
        total = float(curator.n) if unit.n_is_public else None
        growing = GrowingModel(domain, total, rng, size_limit=self.size_limit)
        closure = within_reach(domain, workload.closure(), self.size_limit)
        curator.announce(closure)
        weights = workload.overlaps(closure)
        singles = [m for m in closure if len(m) == 1]
        rho = curator.remaining / max(self.rounds or 16 * len(domain), len(singles) + 1)
        growing.measured(*(curator.measure(Counts(m), self.alpha * rho) for m in singles))
        schedule = _Annealing(curator, rho, self.alpha)
        model: dict[Marginal, NDArray[np.float64]] = {}

        def propose(share: Share) -> list[L1Score]:
            spent = 1 - (curator.remaining - share.select - share.measure) / curator.rho
            sigma = noise_of(unit, share.measure)
            model.clear()
            model.update(growing.answers(growing.candidates(closure, spent)))
            return [
                L1Score(m, ((1.0, x),), weight=weights[m], offset=-expected_noise(sigma, len(x)))
                for m, x in model.items()
            ]

        def locate(index: int) -> tuple[Marginal, None]:
            return list(model)[index], None

        def fit(measured: Measurement) -> None:
            growing.measured(measured)
            after = growing.model.answers([measured.marginal])[measured.marginal]
            moved = float(np.abs(after - model[measured.marginal]).sum())
            schedule.heard(moved / expected_noise(measured.sigma, len(after)))

        select_measure_fit(curator, schedule, propose, locate, fit, progress)
        leave_uniform(curator, singles, "Name them in the workload, or drop them")
        return growing.finish()
