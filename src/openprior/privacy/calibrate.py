"""Between (ε, δ), ρ and noise scales: pure functions, nothing else.

Accounting is zCDP (Bun & Steinke 2016). ρ-zCDP gives (ε, δ)-DP for
δ = min over α > 1 of exp((α−1)(αρ−ε))/(α−1)·(1−1/α)^α (Canonne, Kamath & Steinke 2020, Proposition 12).
Conversions round towards more privacy: a ρ obtained from (ε, δ) is never too large, an ε obtained from
(ρ, δ) never too small, up to the last bits of a double. Those at δ = 0 are in `pure_cost.py`, and given here, too.

>>> rho = rho_from_epsilon_delta(1.0, 1e-9)
>>> bool(epsilon_from_rho(rho, 1e-9) <= 1.0)
True
"""

import contextlib
import functools
import math

import numpy as np

from openprior.errors import OptionError
from openprior.given import shown
from openprior.privacy.pure_cost import pure_epsilon, pure_epsilon_above, pure_rho

__all__ = [
    "budget_rho",
    "check_epsilon_delta",
    "delta_from_rho",
    "epsilon_from_rho",
    "epsilon_spent",
    "epsilon_within",
    "exponential_epsilon",
    "exponential_rho",
    "gaussian_rho",
    "gaussian_sigma_squared",
    "laplace_rho",
    "laplace_scale",
    "plain_number",
    "pure_epsilon",
    "pure_rho",
    "rho_from_epsilon_delta",
]


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    """Raise unless ε > 0 and finite and 0 < δ < 1."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise OptionError(f"epsilon ({epsilon}) must be a positive number; 1.0 is a common choice")
    if not 0 < delta < 1:
        raise OptionError(
            f"delta ({delta}) must lie strictly between 0 and 1; choose it well below 1/n, e.g. 1e-9"
        )


def _log_delta(alpha: float, rho: float, epsilon: float) -> float:
    return (alpha - 1) * (alpha * rho - epsilon) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)


def delta_from_rho(rho: float, epsilon: float) -> float:
    """The smallest δ for which ρ-zCDP implies (ε, δ)-DP by the formula above."""
    if rho <= 0:
        return 0.0
    # With u = α−1 the derivative of log δ is (2u+1)ρ − ε + log(u/(1+u)), which rises with u: its zero is the minimum.
    # Any α gives a valid δ, so a zero that is not quite met can only err on the safe side.
    low, high = math.log(1e-6), math.log(max(1e3, 10 * (epsilon / rho + 1)))
    for _ in range(60):
        middle = (low + high) / 2
        u = math.exp(middle)
        if (2 * u + 1) * rho - epsilon - math.log1p(1 / u) < 0:
            low = middle
        else:
            high = middle
    best = min(_log_delta(1 + math.exp(x), rho, epsilon) for x in (low, high))
    return min(1.0, math.exp(min(best, 0.0)))


def rho_from_epsilon_delta(epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP implies (ε, δ)-DP, from below."""
    check_epsilon_delta(epsilon, delta)
    return _rho(float(epsilon), float(delta))


@functools.lru_cache(maxsize=1024)
def _rho(epsilon: float, delta: float) -> float:
    low, high = 0.0, epsilon + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if delta_from_rho(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def plain_number(name: str, value: float) -> float:
    """A double, as certificates and ledgers write it, from any kind of number; true and false are none.

    >>> plain_number("epsilon", 1), plain_number("delta", 0.5)
    (1.0, 0.5)
    """
    if not isinstance(value, bool | np.bool_ | str) and hasattr(value, "__float__"):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return float(value)
    example = "1e-9" if name == "delta" else "1.0"
    raise OptionError(f"{name} ({shown(value)}) must be a number, such as {example}")


def _reserved(epsilon: float) -> float:
    """The ρ that a pure ε-DP run reserves: what it costs, with room for rounding every charge up."""
    if not 1e-9 < epsilon < 1e6:
        raise OptionError(f"epsilon ({epsilon}) must be a positive number; 1.0 is a common choice")
    return pure_rho(epsilon) * (1 + 2**-30)


def budget_rho(epsilon: float, delta: float) -> float:
    """The budget in ρ; refuses what doubles cannot convert there and back."""
    epsilon, delta = plain_number("epsilon", epsilon), plain_number("delta", delta)
    if delta == 0:
        return _reserved(epsilon)
    rho = rho_from_epsilon_delta(epsilon, delta)
    if not rho > 0 or epsilon_from_rho(rho, delta) > epsilon * (1 + 1e-9):
        raise OptionError(
            f"epsilon ({epsilon:g}) with delta ({delta:g}) is too small to reckon with; raise them"
        )
    return rho


def epsilon_from_rho(rho: float, delta: float) -> float:
    """The smallest ε for which ρ-zCDP implies (ε, δ)-DP, from above."""
    if not 0 < delta < 1:
        raise OptionError(f"delta ({delta}) must lie strictly between 0 and 1")
    if math.isnan(rho):
        raise OptionError("rho is not a number; give one of at least 0")
    return 0.0 if rho <= 0 else _epsilon(float(rho), float(delta))


@functools.lru_cache(maxsize=1024)
def _epsilon(rho: float, delta: float) -> float:
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if delta_from_rho(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def epsilon_spent(rho: float, delta: float) -> float:
    """What ρ is worth at δ, from above; at δ = 0, the ε of one pure run that is charged ρ."""
    return pure_epsilon_above(rho) if delta == 0 else epsilon_from_rho(rho, delta)


def epsilon_within(rho: float, delta: float) -> float:
    """An ε of four digits, from below, that a run at δ could have of ρ; 0 if there is none.

    >>> epsilon_within(budget_rho(1.0, 1e-9), 1e-9), epsilon_within(budget_rho(2.0, 0.0), 0.0)
    (1.0, 2.0)
    >>> budget_rho(epsilon_within(0.01, 1e-9), 1e-9) <= 0.01
    True
    """
    if not rho > 0:
        return 0.0
    epsilon = pure_epsilon(rho) if delta == 0 else epsilon_from_rho(rho, delta)
    digit = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    for steps in range(3):  # the nearest, else the next below, else (after a carry) the one below that
        try:
            rounded = float(f"{epsilon - steps * digit:.4g}")
            if rounded > 0 and budget_rho(rounded, delta) <= rho:
                return rounded
        except OptionError:  # too small to reckon with
            return 0.0
    return 0.0


def gaussian_sigma_squared(l2_squared: float, rho: float) -> float:
    """σ² of Gaussian noise that costs ρ: ρ = Δ₂²/(2σ²), discrete Gaussian alike."""
    return l2_squared / (2 * rho)


def gaussian_rho(l2_squared: float, sigma: float) -> float:
    """What Gaussian noise of scale σ costs."""
    return l2_squared / (2 * sigma * sigma)


def laplace_scale(l1: float, largest: float, rho: float) -> float:
    """Scale of discrete Laplace noise that costs ρ; in a pure run, the L1 sensitivity is the largest number's, too."""
    return largest / pure_epsilon(rho * largest / l1)


def laplace_rho(l1: float, largest: float, scale: float) -> float:
    """What Laplace noise costs: Δ₁/s·tanh(Δ∞/(2s)), by the proof in noise.py."""
    return pure_rho(largest / scale) * l1 / largest


def exponential_epsilon(rho: float) -> float:
    """ε of an exponential mechanism (weights exp(ε·s/(2Δ))) that costs ρ = ε²/8, by bounded range."""
    return math.sqrt(8 * rho)


def exponential_rho(epsilon: float) -> float:
    """What an exponential mechanism (weights exp(ε·s/(2Δ))) costs."""
    return epsilon * epsilon / 8
