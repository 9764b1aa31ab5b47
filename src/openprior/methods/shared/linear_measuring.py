"""Measure a linear strategy and put the answers together: what `hdmm` does, and what others can begin with."""

import numpy as np

from openprior.methods.shared.linear_strategy import Strategy, plan_linear
from openprior.models.components import Average
from openprior.models.linear import LinearModel
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import Counts
from openprior.progress import phase
from openprior.questions.workload import Workload

__all__ = ["measure_linear", "measured_by", "put_together"]


def measure_linear(
    curator: Curator,
    workload: Workload,
    rho: float,
    rng: np.random.Generator,
    *,
    noise: str = "gaussian",
    strategy: str = "best",
) -> LinearModel:
    """The workload's marginals by least squares, for ρ in all: unbiased answers with exact standard errors.

    The one call for whoever wants good noisy answers of many marginals at once and will do something else with them:
    plan by public things alone, measure everything, put it together. `model.answers(marginals)` then gives counts that
    agree with each other and sum to one total, of every marginal inside one of the workload's; they may be negative.
    `model.standard_errors(marginals)` is how noisy each is, `model.total` the number of rows (public n, or the measured
    one, at least 1).

    rho        what it may cost: at most `curator.remaining`. In a pure run (δ = 0) it is ε = √(2ρ) that is shared out
    rng        public randomness for the planner's restarts: the same one plans the same, so a run can be resumed
    noise      "gaussian", or "laplace", which can be pure
    strategy   "best", "marginals" or "residuals" (linear_strategy.py)

    Privacy: shares are fixed before the first measurement and sum to 1; each is charged and measured by the curator. ∎
    """
    plan = plan_linear(
        workload,
        curator.domain,
        curator.unit,
        rng,
        noise=noise,
        strategy=strategy,
        pure=curator.is_pure,
    )
    return put_together(curator, workload, measured_by(curator, plan, rho, noise), noise)


def measured_by(curator: Curator, plan: Strategy, rho: float, noise: str) -> list[Measurement]:
    """Everything that a strategy measures, for ρ in all; one pass over the private table."""
    curator.announce(m for statistic in plan.statistics for m in statistic.reads)
    power = 2 if curator.is_pure else 1
    measured = []
    with phase("measuring", len(plan.statistics)) as work:
        for statistic, share in zip(plan.statistics, plan.shares, strict=True):
            measured.append(curator.measure(statistic, rho * float(share) ** power, noise=noise))
            work.advance()
    return measured


def put_together(
    curator: Curator, workload: Workload, measured: list[Measurement], noise: str
) -> LinearModel:
    """The least-squares answers to all measurements; the number of rows is exact where it is public."""
    average = Average(curator.domain)
    for item in measured:
        statistic = item.statistic
        if isinstance(statistic, Residuals):
            scale = float(statistic.scale)
            average.add_component(statistic.columns, item.values / scale, (item.sigma / scale) ** 2)
        else:
            columns = statistic.columns if isinstance(statistic, Counts) else ()
            average.add_marginal(columns, item.values, item.sigma**2)
    components, variances = average.components()
    if curator.unit.n_is_public:
        components[()], variances[()] = np.array(float(curator.n)), 0.0
    return LinearModel(curator.domain, components, variances, noise=noise, marginals=workload.marginals)
