"""IDE: the distribution closest in relative entropy to a public prior among those that have the noisy answers.

A few marginals, chosen on public data, and any 0/1 linear queries are measured; then the prior is bent to the answers,
one partial workload after the other, until nothing moves (models/relative_entropy.py; models/two_stage.py is the exact
solution of small problems, to compare with). The prior is the public table, on its own rows, or on every cell of the
domain where that is small, so that values which the public table lacks can be reached.

Privacy: the private table is read by the curator's measurements alone, whose shares are fixed before the first of them;
with Laplace noise and δ = 0 their ε add up to the run's. Everything after is post-processing. ∎
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import cell_numbers
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    one_of,
    option,
    register,
)
from openprior.methods.shared.asked_queries import queries_option, with_codes
from openprior.methods.shared.dependence import Dependence
from openprior.methods.shared.linear_answers import LinearAnswers
from openprior.methods.shared.noisy_answers import answers_by_strategy, answers_one_by_one
from openprior.methods.shared.query_strategy import QueryPlan, as_asked, plan_queries
from openprior.methods.shared.reach import apart_words, lack_words, rows_without_a_like
from openprior.methods.shared.strategy import cliques, expected_best, variances
from openprior.models.base import Model
from openprior.models.relative_entropy import Convergence, Partial, ide
from openprior.models.support import SupportModel
from openprior.privacy.curator import Curator
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.queries import Queries
from openprior.questions.workload import Marginal, Workload
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Ide"]

Floats = NDArray[np.float64]

_SMALL = 1 << 16
"""Cells up to which the whole domain is the support."""


@register("ide")
class Ide(Mechanism):
    """A public prior, bent to noisy answers with the least relative entropy."""

    good_for = "a good public table and a few marginals or any 0/1 queries; pure ε-DP"
    public_table = PublicTable.NEEDED
    pure_options: ClassVar[Mapping[str, Any]] = {"noise": "laplace"}

    choose: str = option(
        default="published",
        doc="published: cliques of strong dependence | expected: least expected error | workload | none",
    )
    queries: tuple[str, ...] = queries_option()
    answers: str = option(
        default="measured",
        doc="measured: each by itself | hdmm: by strategies, least squares and their total",
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace, which can be pure (δ = 0)")
    support: str = option(
        default="auto", doc="auto | public | domain: where there may be mass; auto: the domain if it is small"
    )
    updates: int | None = option(
        default=None, doc="updates per marginal, 2 as published; to convergence if not given"
    )
    order: str = option(
        default="shuffled", doc="shuffled: each marginal once before any comes again | drawn, as published"
    )
    total: float = option(
        default=0.1, doc="share of the budget for the number of rows, where it is private; 0.5 as published"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        one_of("choose", self.choose, ("published", "expected", "workload", "none"))
        one_of("answers", self.answers, ("measured", "hdmm"))
        one_of("noise", self.noise, ("gaussian", "laplace"))
        one_of("support", self.support, ("auto", "public", "domain"))
        one_of("order", self.order, ("shuffled", "drawn"))
        check(0 < self.total < 1, f"total ({self.total}) must be between 0 and 1")
        check(self.updates is None or self.updates >= 1, f"updates ({self.updates}) must be at least 1")
        check(
            self.choose != "none" or bool(self.queries),
            "choose = none leaves nothing to measure; give queries",
        )

    @classmethod
    def published(cls, queries: Iterable[str] = ()) -> "Ide":
        """As the paper has it, for δ = 0 and add-remove: half of ε for the number of rows, half for the marginals,
        which share one Laplace scale; then two updates per marginal, each by one that is drawn at random.

        Under replace-one the number of rows is public, and all of ε is for the marginals. A number of rows below 1
        counts as 1; the paper would divide by 0.
        """
        return cls(
            queries=tuple(queries), noise="laplace", support="public", updates=2, order="drawn", total=0.5
        )

    @property
    def is_pure(self) -> bool:
        """Laplace noise alone is pure."""
        return self.noise == "laplace"

    def fitted(self, schema: Schema) -> "Ide":
        """With codes for the labels in queries."""
        return with_codes(self, schema)

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """Queries over a key, and those that no strategy is found for, are refused."""
        self._asked(domain)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Choose, measure, bend."""
        table = self.need_public(public)
        asked = self._asked(curator.domain)
        points, prior = self._support(table)
        with phase("choosing marginals by the public table"):
            chosen = self._choose(curator, table, workload, len(asked.asked), rng)
        curator.announce([*chosen, *(q.marginal for q in asked.asked)])
        if self.answers == "hdmm":
            with phase("measuring"):
                noisy = answers_by_strategy(curator, chosen, asked, rng, total=self.total)
        else:
            noisy = answers_one_by_one(curator, chosen, asked, total=self.total, tell=progress)
        partials, lacks = [], []
        for m, (counts, errors) in noisy.marginals.items():
            cells = cell_numbers(points, m)
            partials.append(Partial(cells, counts / noisy.total, covers=True))
            held = np.bincount(cells, minlength=len(counts)) > 0
            lacks.append((m, rows_without_a_like(counts, errors, held)))
        for answers in noisy.queries:
            partials += _partials(answers, points, noisy.total)
        updates = None if self.updates is None else self.updates * len(partials)
        with phase("estimating"):
            weights, report = ide(prior, partials, rng, updates=updates, drawn=self.order == "drawn")
        curator.remark(_words(report, everywhere=points.n == curator.domain.size()))
        together = [*chosen, *(q.marginal for q in asked.asked if len(q.members) == q.members.shape[1])]
        for remark in (apart_words(workload, together), lack_words(lacks, noisy.total)):
            if remark is not None:
                curator.remark(remark)
        return SupportModel(points, weights, noisy.total)

    def outlay(self, sizes: Sizes) -> Outlay:
        """A few marginals, bent on the public rows."""
        return Outlay(0.1 + 8e-6 * sizes.public_rows, 10.0)

    def _asked(self, domain: Domain) -> QueryPlan:
        parsed = [Queries.parse(text, domain) for text in self.queries]
        return (plan_queries if self.answers == "hdmm" else as_asked)(parsed, self.noise)

    def _support(self, table: Table) -> tuple[Table, Floats]:
        """The points that may have mass, and the prior's share of each."""
        domain = table.domain
        size = domain.size()
        whole = size <= _SMALL if self.support == "auto" else self.support == "domain"
        rows, counts = table.unique()
        if not whole:
            return rows, counts / table.n
        check(size <= 1 << 24, f"the domain has {size:,} cells, too many to list; use support = public")
        points = Table(domain, tuple(np.unravel_index(np.arange(size), domain.shape)))
        prior = np.zeros(size)
        prior[cell_numbers(rows, domain.attributes)] = counts / table.n
        return points, prior

    def _choose(
        self, curator: Curator, table: Table, workload: Workload, others: int, rng: np.random.Generator
    ) -> list[Marginal]:
        if self.choose == "none":
            return []
        if self.choose == "workload":
            return list(workload.marginals)
        n = float(curator.n) if curator.unit.n_is_public else float(table.n)
        known = Dependence.of([table], [n], rng)
        if self.choose == "published":
            return cliques(known)
        free = curator.shares([1.0, others])[0]
        return expected_best(known, workload, variances(curator.unit, free, self.noise, pure=curator.is_pure))


def _partials(answers: LinearAnswers, points: Table, total: float) -> list[Partial]:
    """Queries as partial workloads of disjoint ones."""
    queries = answers.queries
    cells = cell_numbers(points, queries.marginal)
    partials = []
    for group in queries.disjoint():
        labels = np.full(queries.members.shape[1], -1, np.int32)
        for i, q in enumerate(group):
            labels[queries.members[q]] = i
        shares = answers.values[group] / total
        partials.append(Partial(labels[cells], shares, covers=bool((labels >= 0).all())))
    return partials


def _words(report: Convergence, *, everywhere: bool) -> str:
    """The convergence report as a sentence; `everywhere`: the whole domain may have mass."""
    after = f"after {report.updates} updates"
    if report.converged:
        how = f"converged {after}"
    elif not report.cycling:
        how = f"stopped at its limit {after}"
    elif everywhere:
        how = f"stopped {after}, as the noisy answers contradict each other"
    else:
        how = f"stopped {after}, as no weights on the public rows have all the noisy answers"
    bent = (
        f"{report.divergence:.3g} nats" if math.isfinite(report.divergence) else "beyond the public support"
    )
    return (
        f"IDE {how}: L1 distance {report.loss:.3g} to the noisy answers, relative "
        f"entropy to the public prior {bent}."
    )
