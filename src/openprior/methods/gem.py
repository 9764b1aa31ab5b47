"""GEM (Liu, Vietri & Wu 2021): a generator trained on the worst answers, without public data.

With ε₀ = √(2ρ/(T(α² + (1 − α)²))), each of T rounds selects with the exponential mechanism at 2αε₀, which costs
(αε₀)²/2, measures with Gaussian noise for ((1 − α)ε₀)²/2, and trains the generator on what was measured so far.
"""

import numpy as np

from openprior.counting.cells import Cells
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    leave_uniform,
    one_of,
    option,
    register,
)
from openprior.methods.shared.generative import VARIANTS, Training, finished, rounds_for, run_generator
from openprior.models.base import Model
from openprior.models.neural import Network, need_neural
from openprior.privacy.curator import Curator
from openprior.privacy.unit import Unit
from openprior.questions.workload import Workload
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Gem", "check_training", "training_outlay"]


def check_training(rounds: int | None, how: Training, batch: int, hidden: tuple[int, ...]) -> None:
    """Raise an OptionError for what no generator can be trained with."""
    check(rounds is None or rounds >= 1, f"rounds ({rounds}) must be at least 1")
    one_of("variant", how.variant, VARIANTS)
    check(0 < how.alpha < 1, f"alpha ({how.alpha}) must be between 0 and 1")
    check(1 <= batch <= 100_000, f"batch ({batch}) must be from 1 to 100000")
    check(all(1 <= h <= 100_000 for h in hidden), f"hidden ({hidden}) must be sizes from 1 to 100000")
    check(how.steps >= 1, f"steps ({how.steps}) must be at least 1")
    check(0 < how.rate <= 1, f"rate ({how.rate}) must be above 0 and at most 1")


def training_outlay(sizes: Sizes, how: Training, rounds: int, batch: int, hidden: tuple[int, ...]) -> Outlay:
    """A round answers all cells, and takes its steps, between which the known cells are answered: on average half of
    those that are known in the end, after every ten."""
    width, inputs, numbers = sum(sizes.layout.domain.shape), 128, 0
    for out in (*hidden, width) if hidden else ():
        numbers, inputs = numbers + inputs * out, inputs + out
    answer = 2e-4 * sizes.marginals + 4e-11 * sizes.cells * batch
    step = 3e-4 + batch * (2e-9 * width + 1e-10 * numbers + 3e-7)
    known = min(rounds, sizes.marginals) / sizes.marginals if how.variant == "marginals" else 0.0
    each = answer + how.steps * (step + 0.05 * known * answer)
    return Outlay(0.8 + rounds * each, 150 + 4e-5 * sizes.cells + 4e-5 * numbers + 3e-5 * batch * width)


@register("gem")
class Gem(Mechanism):
    """Train a generator on the worst answers, from nothing."""

    good_for = "comparison with the published curves; it needs no public table, and the extra `neural`"
    public_table = PublicTable.NOT_USED

    rounds: int | None = option(
        default=None, doc="number of rounds T; if not given, two per column up to 150, by the budget"
    )
    variant: str = option(
        default="marginals", doc="marginals | queries: whether a round measures a whole marginal or one cell"
    )
    alpha: float = option(default=0.4, doc="share of ε₀ that selects; 0.67 as published")
    batch: int = option(default=256, doc="product distributions in the mixture; 1000 as published")
    hidden: tuple[int, ...] = option(
        default=(),
        doc="sizes of hidden layers, 512,1024,1024 as published; without any the mixture itself is learnt",
    )
    steps: int = option(default=100, doc="most steps of Adam in a round")
    rate: float = option(default=0.01, doc="learning rate at the first step of a round; 0.0001 as published")

    def __post_init__(self) -> None:
        check_training(self.rounds, self._how, self.batch, self.hidden)

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """The extra must be there."""
        need_neural(self.name)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Algorithm 2 of the paper; the public table is not looked at."""
        need_neural(self.name)
        cells = Cells(curator.domain, workload.marginals)
        network = Network(curator.domain, self.batch, self.hidden, rng)
        total = known_total(curator)
        rho, how = curator.remaining, self._how
        rounds = self.rounds or rounds_for(_noise(total), rho, how, 2 * len(curator.domain))
        measured = run_generator(curator, network, cells, total, rho, rounds, how, progress)
        leave_uniform(curator, measured, "Name them in the workload, or give more budget or rounds")
        return finished(network, total, workload, {a for m in measured for a in m})

    def outlay(self, sizes: Sizes) -> Outlay:
        """By the number of rounds."""
        rounds = self.rounds or rounds_for(_noise(sizes.rows), sizes.rho, self._how, 2 * sizes.columns)
        return training_outlay(sizes, self._how, rounds, self.batch, self.hidden)

    @property
    def _how(self) -> Training:
        return Training(self.variant, self.alpha, self.steps, self.rate)


def _noise(total: float) -> float:
    """In rows, that the cells of a measured marginal may have: more than with a public table, as there is more to
    learn. With fewer rounds ADULT is far worse at ε = 0.5 (a mean error of 0.46, not 0.21), with more TITANIC is."""
    return float(0.034 * total**0.75)
