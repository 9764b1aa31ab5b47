"""Rounds as MWEM+PUB's paper calibrates them: advanced composition of steps that are ε-DP.

ε₀ solves ε = √(2T·ln(1/δ))·ε₀ + T·ε₀·(e^ε₀ − 1); of every round ε₀/2 selects and ε₀/2 measures.
"""

import math

from openprior.methods.shared.schedule import Even
from openprior.privacy.calibrate import epsilon_from_rho, exponential_rho, pure_rho
from openprior.privacy.curator import Curator

__all__ = ["advanced_rounds", "per_round_epsilon"]


def advanced_rounds(
    curator: Curator, rounds: int, *, selection: str = "exponential", share: float = 1.0
) -> Even:
    """T rounds within this share of the budget, in the ρ that their steps cost.

    In ρ they cost less than (ε, δ) is worth, about a third of it with the exponential mechanism and half with
    permute-and-flip, and whoever runs them spends no more: the rest goes back. What the curator charges is derived
    from the steps themselves, so no promise hangs on the formula above.
    """
    epsilon = curator.epsilon if share == 1 else epsilon_from_rho(share * curator.rho, curator.delta)
    half = per_round_epsilon(epsilon, curator.delta, rounds) / 2
    measure = pure_rho(half)
    select = exponential_rho(half) if selection == "exponential" else measure
    return Even(rounds * (select + measure), rounds, select / (select + measure))


def per_round_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    """ε₀ with √(2T·ln(1/δ))·ε₀ + T·ε₀·(e^ε₀ − 1) = ε, from below, by bisection."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        spent = math.sqrt(2 * rounds * math.log(1 / delta)) * middle + rounds * middle * math.expm1(
            min(middle, 700.0)
        )
        low, high = (middle, high) if spent <= epsilon else (low, middle)
    return low
