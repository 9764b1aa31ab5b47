"""How far a model may be trusted: λ, learnt from what measurements showed of it.

A model's error in a cell of mass m has variance m/λ, about that of a sample of λ·n rows. Every measurement's innovation
tells how likely each λ is; a marginal's own λ is drawn towards that of the others.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.models.tilted.raking import TRUSTS, most_likely, trust_evidence

__all__ = ["UNKNOWN", "Trust"]

Floats = NDArray[np.float64]

UNKNOWN = 0.01
"""λ of a model that knows nothing but what it was told of this table, before it is told."""
_SPREAD, _FADE = 1.5, 0.9
"""How far the trust in one marginal may be from that in others (log units), and how fast earlier ones are forgotten:
the model that they spoke of was a worse one."""


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
        self._evidence = _FADE * self._evidence + evidence
        return own
