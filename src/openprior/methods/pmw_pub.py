"""PMW^Pub (Liu et al. 2021, Algorithm 1): multiplicative weights on the support of the public table.

A distribution A on the unique public rows starts at the public frequencies. With ε̃ = √(2ρ) and ε₀ = ε̃/√(2T), each
of T rounds selects a query by |q(A) − q(D)| at cost ε₀²/2, measures it with noise at cost ε₀²/2 and updates A.

Permute-and-flip of that cost runs at ε₀ and a hair more (pure_cost.py). The exponential mechanism of the same cost runs
at 2ε₀ (`sharp`); at ε₀, as Algorithm 1 has it, it costs ε₀²/8, so that T rounds spend 5/8 of ρ and leave the rest.
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
from openprior.methods.shared.guard import keep_better
from openprior.methods.shared.multiplicative import (
    CANDIDATES,
    NOISES,
    OUTPUTS,
    SELECTIONS,
    Rounds,
    rounds_if,
    run_rounds,
    spread,
)
from openprior.methods.shared.schedule import Even, Schedule
from openprior.models.base import Model
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.privacy.curator import Curator
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["PmwPub"]

STARTS = ("public", "uniform")
_CLOSE, _FAR = 0.01, 0.5
"""The largest error of a query, as a share of the table, with a public table that is close and one that is far."""
_VERDICTS = (
    "The guard kept what was learnt from the private table.",
    "The guard kept the start: learning did not seem to bring the answers closer to the private table.",
)


@register("pmw-pub")
class PmwPub(Mechanism):
    """Reweight the public rows until the worst answers are right."""

    good_for = "a large public table whose rows resemble the private ones; the largest error matters"
    public_table = PublicTable.NEEDED

    rounds: int | None = option(
        default=None,
        doc="number of rounds T; if not given, cheap ones first and dearer ones as errors sink into noise",
    )
    selection: str = option(
        default="exponential", doc="exponential | permute-and-flip, both at the same cost"
    )
    sharp: bool = option(
        default=True,
        doc="exponential mechanism at 2ε₀ for the share of a round; if not, at ε₀ for a quarter of it",
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace, both at the same cost")
    output: str = option(
        default="last", doc="last | average: the last iterate, or the theorem's average of all"
    )
    replay: bool = option(default=True, doc="apply earlier measurements again while they are still wrong")
    start: str = option(default="public", doc="public | uniform: where the weights on the public rows start")
    candidates: str = option(
        default="reachable", doc="reachable | all queries; the weights cannot move the others"
    )
    guard: float = option(
        default=0.05, doc="share of the budget for a last check that learning helped; 0 as published"
    )

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        one_of("selection", self.selection, SELECTIONS)
        one_of("noise", self.noise, NOISES)
        one_of("output", self.output, OUTPUTS)
        one_of("candidates", self.candidates, CANDIDATES)
        check(0 <= self.guard < 1, f"guard ({self.guard}) must be at least 0 and below 1")
        one_of("start", self.start, STARTS)
        check(
            self.sharp or (self.rounds is not None and self.selection == "exponential"),
            "sharp = False needs a number of rounds and selection = exponential; give both, or leave it out",
        )

    @classmethod
    def published(
        cls,
        rounds: int = 50,
        *,
        selection: str = "permute-and-flip",
        replay: bool = False,
        output: str = "average",
    ) -> "PmwPub":
        """Algorithm 1 as the theorem has it; the paper's experiments have `replay`, and also the last `output`."""
        return cls(
            rounds=rounds,
            selection=selection,
            sharp=selection != "exponential",
            replay=replay,
            output=output,
            candidates="all",
            guard=0.0,
        )

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Algorithm 1, and the guard."""
        support, frequencies = self.need_public(public).unique()
        total = known_total(curator)
        kept = self.guard * curator.remaining
        start = frequencies.astype(np.float64) if self.start == "public" else np.ones(support.n)
        weights = MultiplicativeWeights(support, start, workload.marginals)
        before = weights.answers
        rho = curator.remaining - kept
        how = Rounds(
            step=0.5,
            clip=True,
            replay=self.replay,
            output=self.output,
            selection=self.selection,
            noise=self.noise,
            candidates=self.candidates,
        )
        (learnt,) = run_rounds(curator, [weights], total, self._schedule(rho), how, rng, progress)
        candidates = [SupportModel(support, w, total) for w in (learnt, start)]
        if not kept:
            return candidates[0]
        answers = [candidates[0].answers(workload.marginals), weights.cells.split(before * total)]
        chosen = keep_better(curator, answers, workload, curator.remaining if self.sharp else kept)
        curator.remark(_VERDICTS[chosen])
        return candidates[chosen]

    def _schedule(self, rho: float) -> Schedule:
        if self.sharp or self.rounds is None:
            return spread(rho, self.rounds)
        # Of a round's ε₀², measuring costs 1/2 and the exponential mechanism at ε₀ costs 1/8.
        return Even(rho * (1 / 8 + 1 / 2), self.rounds, select=1 / 5)

    def outlay(self, sizes: Sizes) -> Outlay:
        """A pass over all cells per round; how many rounds there are depends on how much there is to correct."""
        each = 0.003 + 1e-5 * sizes.marginals + 2.5e-9 * sizes.cells
        rho = (1 - self.guard) * sizes.rho
        few, many = (self.rounds or rounds_if(error, sizes, rho) for error in (_CLOSE, _FAR))
        return Outlay(0.05 + each * few, 50e-6 * sizes.cells, at_most=0.05 + each * many)
