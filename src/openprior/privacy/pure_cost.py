"""What an ε-DP step costs in zCDP: ρ = ε·tanh(ε/2), and which ε a ρ buys.

Proof. Let P and Q be ε-indistinguishable. A = (e^ε·P − Q)/(e^ε − 1) and B = (e^ε·Q − P)/(e^ε − 1) are ≥ 0 and have mass
1, P = (e^ε·A + B)/(e^ε + 1) and Q = (A + e^ε·B)/(e^ε + 1): so they are a post-processing of randomised response's pair
(Kairouz, Oh & Viswanath 2015), and D_α is at most that pair's, log(cosh(uε)/cosh(ε/2))/(α−1) with u = α − ½.
g(s) = log cosh(ε√s) is concave in s ≥ 0, as g′ = ε²·tanh(x)/(2x) at x = ε√s, and tanh(x)/x falls. So g(u²) − g(¼) ≤
g′(¼)·(u² − ¼) = ε·tanh(ε/2)·α(α−1), and D_α ≤ ε·tanh(ε/2)·α; randomised response attains it as α → 1. ∎
It is below ε²/2 (Bun & Steinke 2016), and below ε.

Both directions are rounded to the safe side, and alike on every machine: doubles guess, and decimals of fifty digits,
whose exp is correctly rounded, decide. A certificate's sums are exact, so they may not hang on a library's tanh.
"""

import functools
import math
from decimal import Context, Decimal
from fractions import Fraction

from openprior.privacy.exact import up

__all__ = ["pure_epsilon", "pure_epsilon_above", "pure_rho"]

_DIGITS = Context(prec=50, Emin=-999999, Emax=999999)
_ROOM = Fraction(1, 10**25)
"""More than the decimals can be wrong, relatively: 1 − e^−ε loses twenty of fifty digits at most."""
_SMALL, _LARGE = Fraction(1, 10**20), 100


def _above(epsilon: Fraction) -> Fraction:
    """A number that is not below ε·tanh(ε/2), and above it by 10⁻²⁵ of it at most."""
    if epsilon <= _SMALL:
        return epsilon * epsilon / 2  # tanh(x) ≤ x, and above x − x³/3
    if epsilon >= _LARGE:
        return epsilon  # tanh ≤ 1, and above 1 − 2e^−ε
    x = _DIGITS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    y = _DIGITS.exp(_DIGITS.minus(x))
    tanh = _DIGITS.divide(_DIGITS.subtract(Decimal(1), y), _DIGITS.add(Decimal(1), y))
    return min(Fraction(_DIGITS.multiply(x, tanh)) * (1 + _ROOM), epsilon, epsilon * epsilon / 2)


def pure_rho(epsilon: float | Fraction) -> float:
    """What an ε-DP step costs, rounded up.

    >>> pure_rho(1.0)
    0.4621171572600098
    """
    return up(_above(Fraction(epsilon)))


@functools.lru_cache(maxsize=4096)
def pure_epsilon(rho: float) -> float:
    """ε of an ε-DP step that costs ρ: the largest double of which `pure_rho` is no more.

    >>> pure_epsilon(pure_rho(1.0)) >= 1.0 > pure_epsilon(math.nextafter(pure_rho(1.0), 0.0))
    True
    """
    if not 0 < rho < math.inf:
        return rho if rho >= 0 else 0.0
    # ε²/(2 + ε) ≤ ε·tanh(ε/2) ≤ min(ε²/2, ε), as tanh(x) ≥ x/(1 + x).
    low, high = max(math.sqrt(2 * rho), rho), (rho + math.sqrt(rho) * math.sqrt(rho + 8)) / 2
    while low < (middle := low + (high - low) / 2) < high:
        if middle * math.tanh(middle / 2) <= rho:
            low = middle
        else:
            high = middle
    exact = Fraction(rho)
    while _above(Fraction(low)) > exact:
        low = math.nextafter(low, 0.0)
    while _above(Fraction(above := math.nextafter(low, math.inf))) <= exact:
        low = above
    return low


def pure_epsilon_above(rho: float) -> float:
    """A double that no ε-DP step of at most ρ passes: the next above `pure_epsilon`; 0 for 0."""
    return math.nextafter(pure_epsilon(rho), math.inf) if rho > 0 else 0.0
