"""JAM-PGM (Fuentes et al. 2024, Algorithm 2): each round chooses what to measure, and whether privately or publicly.

A private measurement is unbiased but noisy; the public table's answer is free and exact but biased. Both are
candidates of one selection, scored by how much the model's error is expected to shrink; a public choice gives its
measuring budget back to the rounds to come.
"""

import math

import numpy as np
from numpy.typing import NDArray

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
from openprior.methods.shared.loop import Candidate, select_measure_fit
from openprior.methods.shared.schedule import EvenRest, Share
from openprior.models.base import Model
from openprior.models.graphical.loss import alike
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal, Workload
from openprior.tables.table import Table

__all__ = ["JamPgm"]

_COLUMNS = 0.05
"""Share of the budget that counts single columns first, where rare values are to be merged."""
_RARE = 1.0
"""Standard deviations below which a value is merged: few, as the rounds are sharper than the first counts."""


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
    compress: bool = option(
        default=False,
        doc="count every column first, for a twentieth of the budget, and merge values that are too rare to be told "
        "from noise before marginals are measured; not as published",
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
        first: list[Measurement] = []
        if self.compress:
            singles = [m for m in closure if len(m) == 1]
            first = measured_one_by_one(curator, singles, _COLUMNS * curator.remaining / len(singles))
        values = Compression.told(curator, first, _RARE)
        for m in first:
            values = values.learnt(m).learnt(_sampled(m.marginal, public_counts[m.marginal], total))
        growing = GrowingModel(
            domain,
            total,
            rng,
            size_limit=self.size_limit,
            seconds=self.seconds,
            weigh=alike,
            compression=values,
        )
        merged = {m: values.merge(m, c) for m, c in public_counts.items()}
        proxy = {m: frozen(c.astype(np.float64) * (total / rows.n)) for m, c in merged.items()}
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
            candidates = [values.statistic(m) for m in marginals]
            candidates += [Measurement.of(m, proxy[m], sigma) for m in marginals]
            # Score = model error − predicted error; the public one looks at the private table twice: sensitivity 4.
            privately = [
                L1Score(m, ((1.0, model[m]),), 1.0, -expected_noise(sigma, len(model[m])), values.merging(m))
                for m in marginals
            ]
            publicly = [
                L1Score(m, ((1.0, model[m]), (-1.0, proxy[m])), merging=values.merging(m)) for m in marginals
            ]
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


def _sampled(column: Marginal, counts: NDArray[np.int64], total: float) -> Measurement:
    """Public counts of a column, scaled to the private table, with the noise of a sample as large as the public one:
    what they say of how rare values share a group, beside the noisy counts."""
    rows = float(counts.sum())
    return Measurement.of(
        column, counts.astype(np.float64) * (total / rows), total / rows * math.sqrt(rows / len(counts))
    )
