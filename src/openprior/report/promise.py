"""What ε and δ bound, in numbers that a lay reader can weigh."""

import math
from dataclasses import dataclass

from openprior.releases.certificate import Certificate

__all__ = ["Promise", "promise_of"]


@dataclass(frozen=True)
class Promise:
    """What one can learn about a person at most."""

    guess: float
    """How often the best guess between two equally likely stories A and B about a person can be right. Let it be right
    with probability a under A and b under B; then a ≤ e^ε(1 − b) + δ and b ≤ e^ε(1 − a) + δ, which add up to
    (a + b)/2 ≤ (e^ε + δ)/(1 + e^ε)."""
    bets: tuple[tuple[float, float], ...]
    """How sure one was before, and how sure one can be after: odds grow by a factor e^ε at most."""
    beyond: float
    """The probability that odds grow by more: under ρ-zCDP the privacy loss passes ε with probability
    exp(−(ε − ρ)²/4ρ) at most; never if δ = 0."""


def promise_of(certificate: Certificate) -> Promise:
    """From ε, δ and ρ."""
    c = certificate
    shrink = math.exp(-c.epsilon)
    bets = tuple((p, p / (p + (1 - p) * shrink)) for p in (0.01, 0.1, 0.5))
    beyond = 0.0 if c.is_pure else math.exp(-(max(c.epsilon - c.rho, 0.0) ** 2) / (4 * c.rho))
    return Promise((1 + c.delta * shrink) / (1 + shrink), bets, beyond)
