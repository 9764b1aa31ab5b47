"""Exact selection: the exponential mechanism and permute-and-flip on integer utilities.

Utilities are integers ("levels") whose sensitivity S is an integer too, so nothing is ever rounded in a way
that depends on the data. Candidates of one level are interchangeable: the levels are counted, each gets an
integer weight, one level is drawn with integer arithmetic, then one of its candidates uniformly. Millions of
candidates cost one pass, and no floating-point number touches a probability.

Weights. Let b = B/2^P be the dyadic number next above e^(−ε'/(2S)), with ε' = ε(1 − 2⁻³⁰). A candidate whose
level lies j below the best has weight b^min(j, J), where J (from ε and S alone) is where b^j falls under 2⁻¹²⁰.

Proof (exponential mechanism). u = max(level, best − J) is a maximum of two functions of sensitivity S, so it
has sensitivity S; weights b^(best − u) ∝ b^(−u) are the exponential mechanism at some ε'' ≤ ε', whose privacy
loss has range at most ε'' and hence costs ε''²/8 in zCDP (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021).
Rounding up in the fixed-point powers changes each weight by a factor in [1, 1 + 2⁻⁸⁰], which the 2⁻³⁰ taken
off ε covers. ∎

Proof (many draws with replacement). Given the table, the draws are independent, each the exponential mechanism above on
the same levels; so k of them compose to k·ε²/8 in zCDP, and to k·ε in pure ε. Their weights are computed once. ∎

Proof (permute-and-flip). Visiting candidates in random order and stopping at the first heads is the same as
flipping all coins and choosing uniformly among the heads, as order and coins are independent. Coins of
probability b^(best − u) are McKenna & Sheldon's (2020) mechanism at ε'' ≤ ε', so the draw is ε-DP. ∎
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["PRECISION", "Bits", "Chooser", "exponential", "exponential_many", "permute_and_flip", "rungs"]

PRECISION = 256
"""P: weights are whole numbers of 2^−P."""
FLOOR_BITS = 120
_SHRINK = 1 - Fraction(1, 2**30)


class Bits(Protocol):
    """Where uniform randomness comes from."""

    def below(self, bound: int) -> int:
        """Uniform on 0, …, bound − 1, exactly, at any size."""
        ...

    def heads(self, coins: int) -> int:
        """How many of so many fair coins show heads."""
        ...


def exponential(levels: NDArray[np.int64], sensitivity: int, epsilon: float, bits: Bits) -> int:
    """One index, with probability ∝ exp(ε·level/(2·sensitivity)); costs ρ = ε²/8."""
    gaps, occupied, members, powers = rungs(levels, sensitivity, epsilon)
    weights = [c * w for c, w in zip(members, powers, strict=True)]
    return _member(gaps, occupied[_draw(weights, bits)], bits)


def exponential_many(
    levels: NDArray[np.int64], sensitivity: int, epsilon: float, draws: int, bits: Bits
) -> list[int]:
    """So many indices, drawn independently and with replacement as `exponential` draws one; each costs ρ = ε²/8."""
    gaps, occupied, members, powers = rungs(levels, sensitivity, epsilon)
    ends = list(accumulate(c * w for c, w in zip(members, powers, strict=True)))
    # The rung whose weights end above the draw, and the number of a candidate on it.
    drawn = [bisect_right(ends, bits.below(ends[-1])) for _ in range(draws)]
    numbers = [bits.below(members[rung]) for rung in drawn]
    return _numbered(gaps, [occupied[rung] for rung in drawn], numbers)


def permute_and_flip(levels: NDArray[np.int64], sensitivity: int, epsilon: float, bits: Bits) -> int:
    """One index by permute-and-flip at ε; costs ρ = ε·tanh(ε/2) (it is ε-DP)."""
    gaps, occupied, members, powers = rungs(levels, sensitivity, epsilon)
    heads = [
        c if j == 0 else _binomial(c, w, bits) for j, c, w in zip(occupied, members, powers, strict=True)
    ]
    return _member(gaps, occupied[_draw(heads, bits)], bits)


class Chooser:
    """The selections with one's own bits: whoever gives noise also chooses, so that all randomness is in one place."""

    def exponential(self: Bits, levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> int:
        """One index by the exponential mechanism."""
        return exponential(levels, sensitivity, epsilon, self)

    def exponential_many(
        self: Bits, levels: NDArray[np.int64], sensitivity: int, epsilon: float, draws: int
    ) -> list[int]:
        """So many indices by the exponential mechanism, with replacement."""
        return exponential_many(levels, sensitivity, epsilon, draws, self)

    def permute_and_flip(self: Bits, levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> int:
        """One index by permute-and-flip."""
        return permute_and_flip(levels, sensitivity, epsilon, self)


def rungs(
    levels: NDArray[np.int64], sensitivity: int, epsilon: float
) -> tuple[NDArray[np.int64], list[int], list[int], list[int]]:
    """Each candidate's distance below the best, the distances that occur, how often, and 2^P·b^j of each."""
    gaps, occupied, members = _group(levels, sensitivity, epsilon)
    return gaps, occupied, members, list(_powers(occupied, sensitivity, epsilon))


def _group(
    levels: NDArray[np.int64], sensitivity: int, epsilon: float
) -> tuple[NDArray[np.int64], list[int], list[int]]:
    """Each candidate's distance below the best (at most J), the distances that occur, and how often."""
    if len(levels) == 0 or sensitivity < 1 or not epsilon > 0:
        raise ValueError("selection needs candidates, a positive sensitivity and a positive epsilon")
    deepest = _deepest(sensitivity, epsilon)
    gaps = np.minimum(levels.max() - levels, deepest)
    if deepest < 4 * len(levels):  # counting is faster than sorting
        counts = np.bincount(gaps)
        occupied = np.flatnonzero(counts)
        return gaps, occupied.tolist(), counts[occupied].tolist()
    occupied, counts = np.unique(gaps, return_counts=True)
    return gaps, occupied.tolist(), counts.tolist()


def _deepest(sensitivity: int, epsilon: float) -> int:
    """J: how far below the best a level still counts; it depends on nothing private."""
    return max(1, min(math.floor(FLOOR_BITS * math.log(2) * 2 * sensitivity / epsilon), 1 << 48))


def _powers(gaps: list[int], sensitivity: int, epsilon: float) -> Iterator[int]:
    """2^P·b^j, rounded up, for increasing j."""
    base = _exp_negative(Fraction(epsilon) * _SHRINK / (2 * sensitivity))
    squares = [base]
    value, before = 1 << PRECISION, 0
    for gap in gaps:
        step, bit = gap - before, 0
        while step >> bit:
            if bit == len(squares):
                squares.append(_times(squares[-1], squares[-1]))
            if step >> bit & 1:
                value = _times(value, squares[bit])
            bit += 1
        before = gap
        yield value


def _times(a: int, b: int) -> int:
    return -((-a * b) >> PRECISION)


def _exp_negative(x: Fraction) -> int:
    """2^P·e^(−x), rounded up by less than four units: a Taylor series, after halving x until it is below ½."""
    guard = 64
    halvings = max(0, math.ceil(x).bit_length() + 1)
    one = 1 << (PRECISION + guard + 2 * halvings)
    y = -(x.numerator * one // (x.denominator << halvings))
    term = total = one
    k = 1
    while term:
        term = term * y // (one * k)
        if term == -1:  # floor division never reaches 0 from below
            break
        total += term
        k += 1
    for _ in range(halvings):
        total = total * total // one
    # Truncation and rounding above stay below 2^(k + halvings) units of the guarded precision, far less than
    # the one unit of P bits that is added here.
    return min((total >> (guard + 2 * halvings)) + 2, 1 << PRECISION)


def _draw(weights: list[int], bits: Bits) -> int:
    """A position, with probability exactly proportional to its integer weight."""
    u = bits.below(sum(weights))
    for position, weight in enumerate(weights):
        u -= weight
        if u < 0:
            return position
    raise AssertionError("a draw below the sum falls into one of the weights")


def _binomial(trials: int, numerator: int, bits: Bits) -> int:
    """How many of `trials` coins of probability numerator/2^P show heads, exactly.

    A coin compares a uniform binary fraction with the probability, bit by bit; all coins still undecided
    share one fair-coin draw per bit, and half of them are decided each time.
    """
    if numerator >> PRECISION:
        return trials
    heads, undecided = 0, trials
    for position in range(PRECISION - 1, -1, -1):
        if not undecided:
            break
        ones = bits.heads(undecided)
        if numerator >> position & 1:
            heads += undecided - ones
            undecided = ones
        else:
            undecided -= ones
    return heads


def _member(gaps: NDArray[np.int64], gap: int, bits: Bits) -> int:
    """One candidate of the drawn level, uniformly."""
    members = np.flatnonzero(gaps == gap)
    return int(members[bits.below(len(members))])


def _numbered(gaps: NDArray[np.int64], wanted: list[int], numbers: list[int]) -> list[int]:
    """For each wanted distance below the best, the candidate of that number among all who lie so far below it."""
    kept = np.flatnonzero(np.isin(gaps, wanted))
    kept = kept[np.argsort(gaps[kept], kind="stable")]
    starts = np.searchsorted(gaps[kept], wanted)
    return [int(i) for i in kept[starts + np.asarray(numbers, dtype=np.int64)]]
