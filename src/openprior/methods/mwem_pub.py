"""MWEM+PUB as published (Liu et al. 2020 workshop version, Algorithm 1).

ε₀ solves ε = √(2T·ln(1/δ))·ε₀ + T·ε₀·(e^ε₀ − 1); each round spends ε₀/2 on the exponential mechanism and ε₀/2 on
Laplace noise, of scale 2/(n·ε₀) on a query of sensitivity 1/n (the paper's Lap(ε₀/2) is a slip), and updates
without the ½, by the noisy answer as it is, also where that lies outside [0, 1]. Under this package's tighter
accounting it costs less than (ε, δ): the certificate says how much.
"""

import numpy as np

from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    one_of,
    option,
    register,
)
from openprior.methods.shared.advanced import advanced_rounds
from openprior.methods.shared.multiplicative import OUTPUTS, Rounds, run_rounds
from openprior.models.base import Model
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.privacy.curator import Curator
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["MwemPub"]


@register("mwem-pub")
class MwemPub(Mechanism):
    """PMW^Pub's predecessor, with the accounting and the noise of its paper."""

    good_for = "comparison with the published curves; pmw-pub gets more out of the same budget"
    public_table = PublicTable.NEEDED

    rounds: int = option(default=20, doc="number of rounds T")
    output: str = option(default="last", doc="last | average of all iterates")
    start: str = option(default="public", doc="public | uniform: where the weights on the public rows start")

    def __post_init__(self) -> None:
        check(self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        one_of("output", self.output, OUTPUTS)
        one_of("start", self.start, ("public", "uniform"))

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Algorithm 1."""
        support, frequencies = self.need_public(public).unique()
        schedule = advanced_rounds(curator, self.rounds)
        total = known_total(curator)
        start = frequencies.astype(np.float64) if self.start == "public" else np.ones(support.n)
        weights = MultiplicativeWeights(support, start, workload.marginals)
        how = Rounds(
            step=1.0,
            clip=False,
            replay=False,
            output=self.output,
            selection="exponential",
            noise="laplace",
            candidates="all",
        )
        (learnt,) = run_rounds(curator, [weights], total, schedule, how, rng, progress)
        return SupportModel(support, learnt, total)

    def outlay(self, sizes: Sizes) -> Outlay:
        """A pass over all cells per round, with a coin for each."""
        return Outlay(0.05 + self.rounds * (0.004 + 2.5e-8 * sizes.cells), 50e-6 * sizes.cells)
