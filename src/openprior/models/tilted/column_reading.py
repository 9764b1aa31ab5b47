"""What a noisy one-way marginal says about its column: the expected count of every value.

Most values of a long column are rare, and neighbours of an ordered column are alike. How far that holds is for the
measurement itself to say. Before it is made, the logarithm of a value's count is normal around that of an even share,
with some spread; from one value to the next it stays within some width, or, now and then, is drawn anew. Both are
tried in several strengths, unordered columns among them, and each reading weighs what the noisy counts find likely.
So nobody has to say which columns are ordered, and rare values are merged as far as the noise cannot tell them apart.

Noise and spread are all that is used, so it is post-processing. The counts lie on a grid of levels, fine where the
noise is and coarser above; a count far above the noise stays what was measured.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "read_column"]

Floats = NDArray[np.float64]

_SPREADS = (1.0, 1.5, 2.2, 3.0, 4.0)
"""Of log counts around an even share."""
_NEIGHBOURS = ((0.6, 0.15), (0.85, 0.15), (0.95, 0.15), (0.6, 0.4), (0.85, 0.4), (0.95, 0.4))
"""How likely the next value is alike, and how alike (log units)."""
_CLEAR = 16.0
"""Standard deviations above which a count speaks for itself."""
_SAMPLE = 1024
"""Values of a longer column by which one reading is chosen for all."""
_LEAST = 1e-3
"""Of what it was expected to be, that a count keeps when counts are made to sum to the total."""


class Column(NamedTuple):
    """What is known of a column: the expected counts, which sum to the total, and how far off each may be."""

    counts: Floats
    variances: Floats

    @property
    def error(self) -> float:
        """The L1 error that is to be expected, in rows."""
        return math.sqrt(2 / math.pi) * float(np.sqrt(self.variances).sum())


def read_column(values: Floats, sigma: float, total: float) -> Column:
    """Expected counts that sum to the total."""
    if len(values) == 1:
        return Column(np.array([float(total)]), np.zeros(1))
    reading = _Reading(sigma, total, len(values))
    if len(values) <= _SAMPLE:
        mean, variance = reading.of(values, list(range(reading.settings)))
    else:
        middle = (len(values) - _SAMPLE) // 2
        evidence = reading.evidence(values[middle : middle + _SAMPLE])
        mean, variance = reading.of(values, [int(np.argmax(evidence))])
    clear = values > _CLEAR * sigma
    mean, variance = np.where(clear, values, mean), np.where(clear, sigma**2, variance)
    return Column(_summing_to(total, mean, variance), variance)


class _Reading:
    """The levels, and every setting's prior and transitions between them."""

    def __init__(self, sigma: float, total: float, size: int) -> None:
        self._levels, self._sigma = _levels(sigma, total, size), sigma
        log, steps = np.log(self._levels), np.gradient(self._levels)
        widths = steps / self._levels
        self._variances = sigma**2 + np.where(self._levels > _CLEAR * sigma, steps**2 / 4, 0.0)
        priors, moves = [], []
        near = {w: np.exp(-0.5 * ((log[:, None] - log) / w) ** 2) * widths for _, w in _NEIGHBOURS}
        near = {w: kernel / kernel.sum(axis=1, keepdims=True) for w, kernel in near.items()}
        for spread in _SPREADS:
            centre = math.log(total / size) - spread**2 / 2
            prior = np.exp(-0.5 * ((log - centre) / spread) ** 2) * widths + 1e-300
            prior /= prior.sum()
            moves += [np.broadcast_to(prior, (len(log), len(log)))]
            moves += [alike * near[width] + (1 - alike) * prior for alike, width in _NEIGHBOURS]
            priors += [prior] * (1 + len(_NEIGHBOURS))
        self._priors, self._moves = np.array(priors), np.array(moves)
        self.settings = len(priors)

    def evidence(self, values: Floats) -> Floats:
        """The log likelihood of noisy counts by every setting."""
        return self._forward(self._likelihood(values), list(range(self.settings)))[1]

    def of(self, values: Floats, settings: list[int]) -> tuple[Floats, Floats]:
        """The mean and the variance of every count by some of the settings, each weighing its likelihood."""
        likelihood = self._likelihood(values)
        forward, evidence = self._forward(likelihood, settings)
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        moves, back = self._moves[settings], np.ones((len(settings), len(self._levels)))
        means, squares = np.empty((2, len(values)))
        for i in range(len(values) - 1, -1, -1):
            here = forward[i] * back
            here *= (weights / here.sum(axis=1))[:, None]
            means[i] = (here @ self._levels).sum()
            squares[i] = (here @ self._levels**2).sum()
            back = np.matmul(moves, (back * likelihood[i])[:, :, None])[:, :, 0]
            back /= back.max(axis=1, keepdims=True)
        return means, np.maximum(squares - means**2, 0.0)

    def _likelihood(self, values: Floats) -> Floats:
        """[value, level], up to a factor of each value."""
        log = -0.5 * (values[:, None] - self._levels) ** 2 / self._variances - 0.5 * np.log(self._variances)
        return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))

    def _forward(self, likelihood: Floats, settings: list[int]) -> tuple[Floats, Floats]:
        """[value, setting, level] given the values so far, and the evidence of every setting."""
        moves, evidence = self._moves[settings], np.zeros(len(settings))
        found = np.empty((len(likelihood), len(settings), len(self._levels)))
        ahead = self._priors[settings]
        for i, likely in enumerate(likelihood):
            here = ahead * likely + 1e-300
            mass = here.sum(axis=1)
            evidence += np.log(mass)
            found[i] = here / mass[:, None]
            ahead = np.matmul(found[i][:, None, :], moves)[:, 0, :]
        return found, evidence


def _levels(sigma: float, total: float, size: int) -> Floats:
    """Counts that are told apart: half a σ where the noise is, finer in proportion below and coarser above; from well
    below an even share up to all rows."""
    least = math.log(0.01 * min(1.0, total / size / sigma))
    low = np.exp(np.arange(least, math.log(0.5) + 0.01, 0.4))
    middle = np.arange(1.0, _CLEAR + 0.1, 0.5)
    high = np.exp(np.arange(math.log(_CLEAR) + 0.12, math.log(max(total / sigma, 1.0)), 0.12))
    levels = np.concatenate([low, middle, high]) * sigma
    return np.concatenate([levels[levels < 0.95 * total], [total]])


def _summing_to(total: float, mean: Floats, variance: Floats) -> Floats:
    """The counts with the total that they must have: each gives or takes in proportion to how unsure it is."""
    for _ in range(30):
        gap = total - mean.sum()
        if abs(gap) < 1e-6 * total:
            break
        mean = np.maximum(mean + variance * (gap / max(variance.sum(), 1e-300)), _LEAST * mean)
    return np.asarray(mean * (total / mean.sum()))
