"""HDMM (McKenna, Miklau, Hay & Machanavajjhala 2018): choose a strategy, measure it, reconstruct by least squares.

Nothing is chosen by the data and nothing is learnt: what to measure follows from the workload, the sizes and the unit
alone; the answers are sums of the measurements. So every answer is unbiased and has an exact standard error, and its
interval holds whatever the table is. Strategies are of marginals, as HDMM's, or of residual components, which is
ResidualPlanner's optimum for Gaussian noise (shared/linear_strategy.py); reconstruction never makes a table of the
domain (models/components.py).

Privacy: the private table is read by the curator's measurements alone, whose shares are fixed before the first of them
and sum to 1; with Laplace noise and δ = 0 their ε add up to the run's. Everything after is post-processing. ∎
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from openprior.display import how_many
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    leave_uniform,
    one_of,
    option,
    register,
)
from openprior.methods.shared.asked_queries import queries_option, with_codes
from openprior.methods.shared.linear_measuring import measured_by, put_together
from openprior.methods.shared.linear_strategy import STRATEGIES, Strategy, check_linear, plan_linear
from openprior.methods.shared.query_strategy import QueryPlan, measure_queries, plan_queries
from openprior.models.base import Model
from openprior.privacy.calibrate import pure_epsilon
from openprior.privacy.curator import Curator
from openprior.privacy.statistics import Counts, Total
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.queries import Queries
from openprior.questions.workload import Workload
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Hdmm"]


@register("hdmm")
class Hdmm(Mechanism):
    """The workload's marginals by least squares: unbiased, with exact intervals."""

    good_for = (
        "unbiased answers with exact 95 % intervals, of many marginals at once; no public table; pure ε-DP"
    )
    public_table = PublicTable.NOT_USED
    has_exact_bars = True
    pure_options: ClassVar[Mapping[str, Any]] = {"noise": "laplace", "strategy": "best"}

    strategy: str = option(
        default="best",
        doc="best: least expected error | marginals: of the workload's closure | residuals: their independent parts",
    )
    queries: tuple[str, ...] = queries_option()
    query_share: float = option(
        default=0.5, doc="share of the budget for the queries, if there are any; the rest is for the workload"
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace, which can be pure (δ = 0)")

    def __post_init__(self) -> None:
        one_of("strategy", self.strategy, STRATEGIES)
        one_of("noise", self.noise, ("gaussian", "laplace"))
        check_linear(self.strategy, self.noise)
        object.__setattr__(self, "queries", tuple(self.queries))
        check(0 < self.query_share < 1, f"query_share ({self.query_share}) must be between 0 and 1")

    @property
    def is_pure(self) -> bool:
        """Laplace noise alone is pure."""
        return self.noise == "laplace"

    def fitted(self, schema: Schema) -> "Hdmm":
        """With codes for the labels in queries."""
        return with_codes(self, schema)

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """What no strategy is found for is refused, and queries over a key."""
        self._asked(domain)
        self._plan(domain, workload, unit, np.random.default_rng(0), pure=self.is_pure)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Plan, measure, put together; the public table is not looked at.

        Questions that are not marginals are planned beside these, with a share of the budget that is fixed before the
        first measurement, too.
        """
        with phase("choosing what to measure"):
            plan = self._plan(curator.domain, workload, curator.unit, rng, pure=curator.is_pure)
        asked = self._asked(curator.domain)
        each = [self.query_share / len(self.queries) for _ in self.queries]
        rho, *rhos = curator.shares([1.0 - self.query_share if each else 1.0, *each])
        leave_uniform(curator, workload.marginals, "Name them in the workload to have them measured.")
        curator.remark(_words(plan, curator, workload, rho))
        measured = measured_by(curator, plan, rho, self.noise)
        measure_queries(curator, asked, rhos)
        with phase("reconstructing"):
            return put_together(curator, workload, measured, self.noise)

    def _plan(
        self, domain: Domain, workload: Workload, unit: Unit, rng: np.random.Generator, *, pure: bool
    ) -> Strategy:
        return plan_linear(workload, domain, unit, rng, noise=self.noise, strategy=self.strategy, pure=pure)

    def _asked(self, domain: Domain) -> QueryPlan:
        return plan_queries([Queries.parse(text, domain) for text in self.queries], self.noise)

    def outlay(self, sizes: Sizes) -> Outlay:
        """Noise on every cell, twice where marginals and components are both measured; then a search for rows, up to
        its limit. A hundred columns with all pairs: a dozen seconds."""
        noise, search = 2.2e-5 * sizes.cells, 7e-9 * min(30.0 * sizes.rows * sizes.marginals, 1.5e9)
        memory = 100 + 5e-4 * sizes.cells + 8e-5 * sizes.rows * sizes.columns
        return Outlay(0.5 + 8e-4 * sizes.closure + noise + search, memory)


def _words(plan: Strategy, curator: Curator, workload: Workload, rho: float) -> str:
    """The strategy in a sentence: how large an error it expects, which is public."""
    cells = sum(w * curator.domain.size(m) for m, w in zip(workload.marginals, workload.weights, strict=True))
    # The loss is per ρ, or per ε²/2 in a pure run; with Laplace noise and ρ it is a little less (linear_strategy.py).
    spent = pure_epsilon(rho) ** 2 / 2 if curator.is_pure else rho
    error = (plan.loss / spent / cells) ** 0.5
    counts = sum(isinstance(s, Counts | Total) for s in plan.statistics)
    parts = {"marginal": counts, "residual component": len(plan.statistics) - counts}
    measured = " and ".join(how_many(number, thing) for thing, number in parts.items() if number)
    return (
        f"HDMM measured {measured}. Answers to the workload have a standard error of {error:.3g} rows (root mean "
        "square over its cells, by weight); they are not clipped, so small ones may be negative. What the workload "
        "does not contain is taken as evenly spread, and has no interval."
    )
