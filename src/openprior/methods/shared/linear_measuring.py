"""Measure a linear strategy and put the answers together: what `hdmm` does, and what others can begin with."""

import numpy as np

from openprior.methods.shared.linear_strategy import Strategy, plan_linear
from openprior.models.components import Average
from openprior.models.linear import LinearModel
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import Counts
from openprior.privacy.together import MOST_TIMES, Together
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.workload import Workload

__all__ = ["measure_linear", "measured_by", "put_together"]

_FINE = 4096.0
"""The smallest factor, if there is room: shares are then met to a few parts in ten thousand."""


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

    rho        what it may cost: at most `curator.remaining`. In a pure run (δ = 0) it is the ε of it that is shared out
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
    """Everything that a strategy measures, for ρ in all; one pass over the private table.

    All of it is one event and one draw, but for Laplace noise where ρ adds up: as one vector that would be charged
    Σε·tanh(ε∞/2) with the largest ε∞ of all, so there each is measured, charged and written down by itself.
    """
    if not plan.statistics:
        return []
    curator.announce(m for statistic in plan.statistics for m in statistic.reads)
    if noise == "gaussian" or curator.is_pure:
        with phase("measuring"):
            measured = curator.measure(_together(plan, curator.unit, noise), rho, noise=noise)
        return list(measured.pieces(curator.domain))
    alone = []
    with phase("measuring", len(plan.statistics)) as work:
        for statistic, share in zip(plan.statistics, plan.shares, strict=True):
            alone.append(curator.measure(statistic, rho * float(share), noise=noise))
            work.advance()
    return alone


def _together(plan: Strategy, unit: Unit, noise: str) -> Together:
    """The statistics with factors that give each its share of the budget.

    Of one vector with Gaussian noise, part i costs the share m²Δ₂²/Σm²Δ₂² of ρ; with Laplace noise mΔ₁/ΣmΔ₁ of ε. The
    factors are rounded to whole numbers, of thousands where there is room; how noisy a part is follows from what they
    are, not from what they were meant to be.
    """
    each = [statistic.sensitivity(unit) for statistic in plan.statistics]
    if noise == "gaussian":
        wanted = np.sqrt(plan.shares / np.array([float(s.l2_squared) for s in each]))
    else:
        wanted = plan.shares / np.array([float(s.l1) for s in each])
    most = np.array([MOST_TIMES // (s.scale if isinstance(s, Residuals) else 1) for s in plan.statistics])
    scale = min(_FINE / wanted.min(), float((most / wanted).min()))
    times = np.clip(np.rint(wanted * scale), 1, most)
    return Together(tuple(int(m) for m in times), plan.statistics)


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
