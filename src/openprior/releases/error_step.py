"""The last step of a release: how wrong the finished model is, for a share of the budget that was held back for it."""

import numpy as np

from openprior.error_bars.bars import UNSURE, ErrorBars
from openprior.error_bars.curve_prior import Beforehand
from openprior.error_bars.error_question import Finished, default_share, measure_errors
from openprior.error_bars.expected_bars import bluntness
from openprior.methods.base import Mechanism
from openprior.models.base import Flags, Model
from openprior.privacy.account import Account
from openprior.privacy.curator import Curator
from openprior.privacy.session import Session
from openprior.questions.workload import Marginal, Workload
from openprior.releases.answers import Floats, known_of
from openprior.releases.cell_sizes import CellSizes
from openprior.releases.intervals import measured_well
from openprior.releases.measurements import Measurements
from openprior.tables.table import Table

__all__ = ["LEAST_SHARE", "MOST_SHARE", "bars_of", "share_held_back"]

LEAST_SHARE, MOST_SHARE = 1e-6, 0.5
_HOPELESS = (
    "At this budget the errors of the answers could not be told from noise even if all answers were wrong"
)


def share_held_back(
    session: Session,
    mechanism: Mechanism,
    public: Table | None,
    work: Workload,
    asked: float | None,
    rng: np.random.Generator,
) -> float:
    """The share of the budget that is kept for it: what is asked for, or what the errors' size makes sensible."""
    if mechanism.has_exact_bars:
        if asked:
            session.curator.remark(
                f"The answers of {mechanism.name} have exact intervals, so no errors were measured."
            )
        return 0.0
    if asked is not None:
        return asked
    if not mechanism.spends:
        return 0.0
    rows = session.curator.n if session.unit.n_is_public else None
    budget = session.budget
    share = default_share(
        work, public, rows, session.unit, epsilon=budget.epsilon, delta=budget.delta, rng=rng
    )
    if not share:
        session.curator.remark(f"{_HOPELESS}, so nothing was spent on error bars.")
    return share


def bars_of(
    curator: Curator,
    account: Account,
    model: Model,
    work: Workload,
    held: float,
    rng: np.random.Generator,
    *,
    has_public: bool,
) -> ErrorBars | None:
    """The error bars, measured for what was held back; None if that is nothing. `has_public`: whether the model began
    with a public table."""
    if held <= 0:
        return None
    measurements = Measurements(curator.layout.full_domain, account.measurements)

    def known_well(marginal: Marginal, estimate: Floats) -> Flags | None:
        known = known_of(model, measurements, marginal, estimate)
        if known is None or not measured_well(known, estimate):
            return None
        return np.isfinite(known.standard_error)

    finished = Finished(model, CellSizes(model, measurements).of, known_well)
    known = Beforehand(has_public, bluntness(curator.rho, curator.unit))
    bars = measure_errors(curator, finished, work, min(held, curator.remaining), known, rng)
    if bars is None:
        curator.remark(
            "Every answer was measured well by itself, so what was kept for error bars was not spent."
        )
    if bars is not None and bars.says_nothing:
        curator.remark(f"{_HOPELESS}, so there are no error bars.")
    elif bars is not None and bars.unsure > UNSURE:
        curator.remark(
            "At this budget the errors of the answers cannot be told from noise (that of their measurement is "
            f"{bars.unsure:.2g} times as large as their sum): the error bars rest more on other tables than on this one"
            + (", and are too short if the public table is unlike the private one." if has_public else ".")
        )
    return bars
