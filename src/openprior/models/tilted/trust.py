"""How far a model may be trusted: λ, learnt from what measurements showed of it.

A model's error in a cell of mass m has variance m/λ, about that of a sample of λ·n rows. Marginals differ: the λ of
each is log-normal around a common centre, so that one with thousands of cells, however clearly it shows its own λ, says
no more of the others than that. Every measurement's innovation tells how likely each λ is for its marginal, and so how
likely each centre is; a marginal's own λ is drawn towards the centre.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.models.tilted.raking import TRUSTS, most_likely, trust_evidence

__all__ = ["UNKNOWN", "Trust"]

Floats = NDArray[np.float64]

UNKNOWN = 0.01
"""λ of a model that knows nothing but what it was told of this table, before it is told."""
_SPREAD, _APART = 1.5, 1.0
"""How far, in log units, λ may be from what was guessed of it; and those of marginals from their centre."""
_FADE = 0.8
"""How fast earlier measurements are forgotten: the model that they spoke of was a worse one."""
_LOGS = np.log(TRUSTS)
_ALIKE = -((_LOGS[:, None] - _LOGS) ** 2) / (2 * _APART**2)
"""[centre, λ of one marginal]: log density, up to a constant."""


class Trust:
    """λ before and after measurements."""

    def __init__(self, guess: float) -> None:
        """`guess` is λ before anything is known: that of a public sample of so many rows for each private one."""
        self._guess, self._evidence = guess, np.zeros(len(TRUSTS))

    @property
    def value(self) -> float:
        """What the model may be trusted with about a marginal not measured yet, by what the others have shown."""
        return most_likely(self._evidence, self._guess, _SPREAD)

    def hear(self, values: Floats, expected: Floats, variance: float) -> float:
        """Learn from a measurement; what the model may be trusted with about this marginal."""
        evidence = trust_evidence(values, expected, variance)
        own = most_likely(evidence, self.value, _SPREAD)
        self._evidence = _FADE * self._evidence + np.logaddexp.reduce(evidence + _ALIKE, axis=1)
        return own
