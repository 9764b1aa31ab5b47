"""JAM-PGM (Fuentes et al. 2024, Algorithm 2): each round chooses what to measure, and whether privately or publicly.

A private measurement is unbiased but noisy; the public table's answer is free and exact but biased. Both are
candidates of one selection, scored by how much the model's error is expected to shrink; a public choice gives its
measuring budget back to the rounds to come.
"""

import numpy as np

from openprior.counting.local import count_table
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    leave_uniform,
    option,
    register,
)
from openprior.methods.shared.growing import (
    GrowingModel,
    check_size,
    clique_seconds,
    expected_noise,
    noise_of,
    within_reach,
)
from openprior.methods.shared.loop import Candidate, select_measure_fit
from openprior.methods.shared.schedule import EvenRest, Share
from openprior.models.base import Model
from openprior.models.graphical.loss import alike
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score
from openprior.privacy.statistics import Counts
from openprior.questions.frozen import frozen
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["JamPgm"]


@register("jam-pgm")
class JamPgm(Mechanism):
    """Joint selection of private and public marginals for a graphical model."""

    good_for = "a public table that is right about some columns and wrong about others"
    public_table = PublicTable.NEEDED

    rounds: int = option(default=30, doc="number of rounds T")
    alpha: float = option(default=0.8, doc="share α of a round's budget that pays for measuring")
    size_limit: float = option(
        default=80.0, doc="largest model, in megabytes, times the share of the budget used before the round"
    )
    seconds: float | None = option(
        default=30.0,
        doc="how long all fits together may take, foretold from the model's size; None: no limit, as published",
    )

    def __post_init__(self) -> None:
        check(self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
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
        """Algorithm 2."""
        rows = self.need_public(public)
        domain, unit = curator.domain, curator.unit
        check_size(domain, self.size_limit)
        closure = within_reach(domain, workload.closure(), self.size_limit)
        curator.announce(closure)
        public_counts = count_table(rows, closure)
        total = known_total(curator)  # the first charge: everything that can be refused has been looked at
        growing = GrowingModel(
            domain, total, rng, size_limit=self.size_limit, seconds=self.seconds, weigh=alike
        )
        proxy = {m: frozen(c.astype(np.float64) * (total / rows.n)) for m, c in public_counts.items()}
        candidates: list[Candidate] = []
        sigma = 0.0
        least = 1 / self.rounds

        def propose(share: Share) -> list[L1Score]:
            nonlocal candidates, least, sigma
            sigma = noise_of(unit, share.measure)
            # The size limit grows with the budget used before the round; the first round has 1/T of it.
            used, least = max(1 - curator.remaining / curator.rho, least), 0.0
            marginals = growing.candidates(closure, used, curator.remaining / share.rho)
            # Two scores refer to each answer: they are frozen here, once.
            model = {m: frozen(answers) for m, answers in growing.answers(marginals).items()}
            # A public answer is preferred where its error seems smaller than this noise: fit neither more closely.
            candidates = [Counts(m) for m in marginals]
            candidates += [Measurement.of(m, proxy[m], sigma) for m in marginals]
            # Score = model error − predicted error; the public one looks at the private table twice: sensitivity 4.
            privately = [
                L1Score(m, ((1.0, model[m]),), offset=-expected_noise(sigma, domain.size(m)))
                for m in marginals
            ]
            publicly = [L1Score(m, ((1.0, model[m]), (-1.0, proxy[m]))) for m in marginals]
            return [*privately, *publicly]

        def fit(answer: Measurement) -> None:
            growing.measured(Measurement.of(answer.marginal, answer.values, sigma))

        select_measure_fit(
            curator,
            EvenRest(curator, self.rounds, self.alpha),
            propose,
            lambda index: candidates[index],
            fit,
            progress,
        )
        chosen_at_all = [m.marginal for m in growing.measurements]
        leave_uniform(curator, chosen_at_all, "Name them in the workload, raise rounds, or drop them")
        return growing.finish()

    def outlay(self, sizes: Sizes) -> Outlay:
        """Scores of all marginals in every round; and cliques, which grow up to their limits whatever the budget."""
        scoring = self.rounds * (3e-4 * sizes.closure + 1.5e-8 * sizes.cells)
        cliques = (
            min(6e-4 * sizes.cells / sizes.marginals, 10.0) * (self.rounds / 30) * (self.size_limit / 80)
        )
        fits = clique_seconds(sizes, self.seconds, cliques)
        return Outlay(scoring + fits, min(100 + 2e-4 * sizes.cells, 800))
