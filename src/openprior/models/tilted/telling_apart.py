"""How far the columns that were measured first tell the private table from the public one.

An anchor that hardly changes keeps what the public table knows of many columns at once, as nothing smoother does; but
it can hardly follow evidence away from that table. So anchors stay nearly as they are only while the noise hides any
difference, even that of two samples of the same people: then there is little to follow. (Measured on ACS 2018 to 2019,
pairs: the error is 4 % smaller with such anchors at ε = 0.03, and 4 % larger at ε = 10.) Measurements are released, and
rows and shares are public, so all of it is post-processing.
"""

from collections.abc import Iterable

import numpy as np

from openprior.models.prior.prior import Prior
from openprior.models.tilted.trust import Trust
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain

__all__ = ["agreement"]


def agreement(prior: Prior, domain: Domain, total: float, columns: Iterable[Measurement]) -> float:
    """What these one-way marginals leave of the trust in the public rows that their number would give them: about 1
    where noise hides any difference, a half where just that of two samples of the same people shows, less beyond."""
    guess = prior.worth(total)
    trust = Trust(guess)
    for measured in columns:
        (column,) = measured.marginal
        codes = prior.arrays.anchors[:, domain.position(column)]
        shares = np.bincount(codes, minlength=domain[column]) / np.float64(prior.rows)
        trust.hear(measured.values, total * shares, measured.sigma**2)
    return trust.value / guess
