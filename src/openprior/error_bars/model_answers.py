"""What a finished model answers, as far as a table could have it: errors are asked for of whole numbers of rows."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.models.base import Model
from openprior.questions.workload import Marginal

__all__ = ["answers_of"]

Floats = NDArray[np.float64]

_MOST_ROWS = 2.0**50
"""No table has more; what little budget makes of one may seem to, and still has to fit whole numbers."""


def answers_of(model: Model, marginals: Sequence[Marginal]) -> Mapping[Marginal, Floats]:
    """The answers, none beyond any table; raises if they are no numbers."""
    answers = model.answers(marginals)
    if any(np.isnan(answers[m]).any() for m in marginals):
        raise PrivacyError(f"a model of {type(model).__name__} gives answers that are no numbers")
    most = {m: _MOST_ROWS / len(answers[m]) for m in marginals}
    return {m: np.clip(answers[m], -most[m], most[m]) for m in marginals}
