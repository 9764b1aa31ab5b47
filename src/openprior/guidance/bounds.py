"""Error bounds with explicit constants: what a method promises before any data is touched.

Pure functions of sizes and budgets, so they cost no privacy. They hold in the worst case and are usually
several times what happens; use them to compare settings (more rounds? more public rows?), not to predict.
All logarithms are natural, all errors are fractions of the private table.
"""

import math
from dataclasses import dataclass

import numpy as np

from openprior.errors import OptionError

__all__ = [
    "NoiseSize",
    "expected_noise",
    "pmw_pub_error_bound",
    "pmw_pub_rounds",
    "private_sample_size",
    "public_sample_size",
]


def pmw_pub_error_bound(
    *,
    n: int,
    m: int,
    queries: int,
    rho: float,
    rounds: int,
    beta: float = 0.05,
    best_mixture_error: float = 0.0,
) -> float:
    """The largest query error of PMW^Pub, with probability 1 − β (Proposition A.1).

    With ε₀ = √(2ρ)/√(2T) = √(ρ/T), L = log(3/β) and α₀ the best mixture error, the proof ends with

        2α₀ + √( 4·log m/T + 2/(ε₀n)² + 2√(2L)·α₀/(ε₀n√T) ) + 2·log|Q|/(ε₀n) + √( L/(2T) ):

    the first root ends before the selection term. α₀ is kept in the cross term, which the statement of the
    proposition rounds up to 1. The bound is for the *average* iterate without replay, for measurements
    that are not clipped, and for permute-and-flip at ε₀; the exponential mechanism at 2ε₀ halves the
    selection term.
    m may be the number of distinct public rows if the start is uniform on them.

    Args:
        n: Private records.
        m: Public records.
        queries: How many queries the workload has (cells, not marginals).
        rho: The whole zCDP budget.
        rounds: T; the chi-square tail of the proof needs T ≥ 7·log(3/β).
        beta: The probability that the bound fails.
        best_mixture_error: α₀, or an upper bound on it.

    >>> at = dict(n=1_000_000, m=100_000, queries=10_000, rho=0.5)
    >>> round(pmw_pub_error_bound(rounds=100, **at), 3)
    0.822
    """
    _check_pmw(n=n, m=m, queries=queries, rho=rho, beta=beta, best_mixture_error=best_mixture_error)
    needed = _fewest_rounds(beta)
    if rounds < needed:
        raise OptionError(f"rounds ({rounds}) must be at least 7·log(3/β) = {needed} for β = {beta}")
    tail = math.log(3 / beta)
    unit = math.sqrt(rounds / rho) / n  # 1/(ε₀n): the standard deviation of one measurement
    cross = 2 * math.sqrt(2 * tail / rounds) * best_mixture_error * unit
    return (
        2 * best_mixture_error
        + math.sqrt(4 * math.log(m) / rounds + 2 * unit**2 + cross)
        + 2 * unit * math.log(queries)
        + math.sqrt(tail / (2 * rounds))
    )


def pmw_pub_rounds(
    *, n: int, m: int, queries: int, rho: float, beta: float = 0.05, best_mixture_error: float = 0.0
) -> int:
    """The number of rounds that minimises `pmw_pub_error_bound`.

    In u = √T the bound is a norm of (√(4·log m)/u, u·√(2/ρ)/n, constant) plus multiples of u and 1/u: convex,
    so it falls and then rises in T, and the turn is found by doubling and bisection. For large n that is far
    beyond what is worth computing: the bound is flat around its minimum, and practice needs tens to hundreds.

    >>> pmw_pub_rounds(n=1_000_000, m=100_000, queries=10_000, rho=0.5)
    312130
    """
    _check_pmw(n=n, m=m, queries=queries, rho=rho, beta=beta, best_mixture_error=best_mixture_error)

    def rises(rounds: int) -> bool:
        here, there = (
            pmw_pub_error_bound(
                n=n,
                m=m,
                queries=queries,
                rho=rho,
                rounds=t,
                beta=beta,
                best_mixture_error=best_mixture_error,
            )
            for t in (rounds, rounds + 1)
        )
        return there >= here

    low = high = _fewest_rounds(beta)
    while not rises(high):
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if rises(middle) else (middle + 1, high)
    return low


def private_sample_size(*, queries: int, alpha: float, beta: float = 0.05) -> int:
    """How many private records Proposition 4.3 asks for: 8/α²·log(4|Q|/β), by Hoeffding's inequality.

    >>> private_sample_size(queries=1000, alpha=0.1)
    9032
    """
    _check_sample(queries=queries, alpha=alpha, beta=beta)
    return math.ceil(8 / alpha**2 * math.log(4 * queries / beta))


def public_sample_size(
    *,
    queries: int,
    alpha: float,
    beta: float = 0.05,
    largest_ratio: float = 1.0,
    mean_square_ratio: float | None = None,
) -> int:
    """How many public records make the best mixture error at most α with probability 1 − β (Proposition 4.3).

    Assumes that private and public records are independent samples of distributions μ and ν with a bounded
    ratio g = μ/ν, and at least `private_sample_size` private records. The constants are the paper's:

        m ≥ ( 32·E_ν[g²]/α² + 8·max g/(3α) ) · log((4|Q| + 4)/β).

    They come from Bernstein's inequality for the public rows reweighted by g, with α/4 for each of: the
    private sample, the public sample, and the normalisation of g. The proposition writes e^{D₂} for
    E_ν[g²] and e^{D∞} for max g. If some private kind of record cannot occur in public, no size is enough.

    Args:
        queries: How many queries the workload has (cells, not marginals).
        alpha: The best mixture error to reach.
        beta: The probability of missing it.
        largest_ratio: max g, at least 1; 1 means that both tables come from the same distribution.
        mean_square_ratio: E_ν[g²], between 1 and max g; max g, its largest possible value, if not given.

    >>> public_sample_size(queries=1000, alpha=0.1)
    36432
    >>> public_sample_size(queries=1000, alpha=0.1, largest_ratio=4.0, mean_square_ratio=1.5)
    55401
    """
    _check_sample(queries=queries, alpha=alpha, beta=beta)
    if not 1 <= largest_ratio < math.inf:
        raise OptionError(f"largest_ratio ({largest_ratio}) must be at least 1 and finite")
    square = largest_ratio if mean_square_ratio is None else mean_square_ratio
    if not 1 <= square <= largest_ratio:
        raise OptionError(
            f"mean_square_ratio ({square}) must lie between 1 and largest_ratio ({largest_ratio})"
        )
    factor = 32 * square / alpha**2 + 8 * largest_ratio / (3 * alpha)
    return math.ceil(factor * math.log((4 * queries + 4) / beta))


@dataclass(frozen=True)
class NoiseSize:
    """What Gaussian noise does to a marginal, in expectation and as fractions of the table."""

    sigma: float
    """The standard deviation of one cell."""
    l1: float
    """E‖noise‖₁ = cells·σ·√(2/π)."""
    largest: float
    """E max |noise| over the cells."""


def expected_noise(*, rho: float, cells: int, n: int = 1, l2: float = math.sqrt(2)) -> NoiseSize:
    """The expected L1 and maximum error of a marginal measured with Gaussian noise at ρ, unprocessed.

    σ = l2/√(2ρ) counts per cell, divided by n. The discrete Gaussian of a release has these sizes too, up
    to far less than a thousandth once σ is above 1 count. Fitting a model to it usually shrinks both.

    Args:
        rho: The zCDP share of this measurement.
        cells: How many cells the marginal has.
        n: Private records; 1 leaves the errors in counts.
        l2: How far one person moves the counts in L2: √2 under replace-one, 1 under add/remove-one.

    >>> noise = expected_noise(rho=0.01, cells=100, n=10_000)
    >>> noise.sigma, round(noise.l1, 4), round(noise.largest, 5)
    (0.001, 0.0798, 0.00275)
    """
    from scipy.special import log_ndtr

    for name, value in (("rho", rho), ("l2", l2)):
        if not 0 < value < math.inf:
            raise OptionError(f"{name} ({value}) must be positive and finite")
    for name, count in (("cells", cells), ("n", n)):
        if count < 1:
            raise OptionError(f"{name} ({count}) must be at least 1")
    sigma = l2 / math.sqrt(2 * rho) / n
    # E max|Z| = ∫ 1 − P(|Z| ≤ x)^cells dx; the integrand is 0 in floats beyond x = 40.
    grid = np.linspace(0.0, 40.0, 40_001)
    outside = 2 * np.exp(log_ndtr(-grid))
    with np.errstate(divide="ignore"):
        inside = np.exp(cells * np.log1p(-np.minimum(outside, 1.0)))
    largest = float(np.trapezoid(1 - inside, grid))
    return NoiseSize(sigma, cells * sigma * math.sqrt(2 / math.pi), sigma * largest)


def _fewest_rounds(beta: float) -> int:
    return math.ceil(7 * math.log(3 / beta))


def _check_pmw(*, n: int, m: int, queries: int, rho: float, beta: float, best_mixture_error: float) -> None:
    for name, count in (("n", n), ("m", m), ("queries", queries)):
        if count < 1:
            raise OptionError(f"{name} ({count}) must be at least 1")
    if not 0 < rho < math.inf:
        raise OptionError(f"rho ({rho}) must be positive and finite")
    if not 0 < beta < 1:
        raise OptionError(f"beta ({beta}) must lie between 0 and 1")
    if not 0 <= best_mixture_error <= 1:
        raise OptionError(f"best_mixture_error ({best_mixture_error}) must lie between 0 and 1")


def _check_sample(*, queries: int, alpha: float, beta: float) -> None:
    if queries < 1:
        raise OptionError(f"queries ({queries}) must be at least 1")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value < 1:
            raise OptionError(f"{name} ({value}) must lie between 0 and 1")
