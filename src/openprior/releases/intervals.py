"""What measurements alone say about a marginal's true counts: values without bias, and 95 % intervals.

The noise of a measurement is known exactly, whatever became of it in a model. So where a marginal was measured, or is
the sum of cells that were, its true counts have a confidence interval that rests on nothing else: not on the public
table, not on the model, and not on why it was chosen, because noise is drawn after the choice. Where nothing was
measured there is none. True counts are those of the rows that were counted: where a person may have more rows than the
schema's limit, of the rows that are left.

One thing could spoil it: a mechanism that measures the same cell again *because* of what came out, until it likes the
mean. Repeats of the mechanisms here follow from how wrong the model is elsewhere, and coverage is tested for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.rows_known import among
from openprior.methods.shared.linear_answers import LAPLACE_KURTOSIS, LinearAnswers
from openprior.models.base import Model
from openprior.questions.workload import Marginal
from openprior.releases.measurements import Counted, Measurements
from openprior.schema.domain import Domain
from openprior.schema.levels import Level

__all__ = ["Known", "coarser", "known_about", "known_answers", "known_by_model", "measured_well"]

Floats = NDArray[np.float64]

_Z95 = 1.959963984540054
_TAIL = (_Z95**3 - 3 * _Z95) / 24
"""How much further the 97.5 % point lies, in standard deviations, per unit of excess kurtosis (Cornish and Fisher)."""
_HALF_ROW = 0.5
"""Counts and noise are whole numbers; so much more on either side, and rounding never takes coverage away."""


@dataclass(frozen=True, eq=False)
class Known:
    """What measurements alone say about the cells of a marginal; nan where they say nothing."""

    value: Floats
    """Without bias: the mean of all that tell it, by their precision."""
    standard_error: Floats
    low: Floats
    high: Floats
    """95 % interval of the true count, which is not negative: cut at 0 below, and a value below 0 counts as 0 above, so
    that an unlucky draw does not look like certainty."""

    def among(self, rows: int | None) -> "Known":
        """Where so many rows are known to be all."""
        low, high = among(rows, self.value, self.low, self.high)
        return replace(self, low=low, high=high)


def known_about(
    measurements: Measurements, marginal: Marginal, levels: Mapping[str, Level] | None = None
) -> Known | None:
    """What measurements say about a marginal of columns, or of levels above them; None if nothing.

    The value of a cell is Σ wᵢyᵢ/Σ wᵢ over the measurements that tell it, wᵢ = 1/(kᵢσᵢ²), kᵢ the cells that were
    added up for it. Its noise has mean 0 and variance 1/Σ wᵢ. It is a sum of Gaussian and Laplace noise; heavier
    tails than a Gaussian's are allowed for by their kurtosis. `levels` are the schema's, where the marginal has one.
    """
    domain = measurements.domain
    pieces = measurements.counted if levels else measurements.about(marginal)
    if not pieces:
        return None
    shape = tuple(domain[a] for a in marginal)
    precision, weighted, fourth = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for piece in pieces:
        told = _told(piece, marginal, domain, levels or {})
        if told is None:
            continue
        item, (place, table, cells) = piece.item, told
        variance = cells * item.sigma**2
        precision[place] += 1 / variance
        weighted[place] += table / variance
        if item.noise == "laplace":
            fourth[place] += LAPLACE_KURTOSIS / (cells * variance**2)
    if not precision.any():
        return None
    return _known(precision.reshape(-1), weighted.reshape(-1), fourth.reshape(-1))


def known_by_model(
    model: Model, marginal: Marginal, estimate: Floats, members: Mapping[str, Floats] | None = None
) -> Known | None:
    """What a model's own answers say, where they are sums of measurements and nothing else; None if they are not.

    They are the mean of all that was measured of a cell, so they say more than any measurement by itself; the noise of
    such a sum is known as exactly as that of each. Cells with something in them that was not measured have nan.
    """
    noise = model.noise_alone(marginal, members)
    if noise is None:
        return None
    return _within(estimate, noise.standard_error, noise.kurtosis)


def measured_well(known: Known, estimate: Floats) -> bool:
    """Whether the cells of a marginal that were measured are known to within the root of their count, on average:
    then nothing else has to be asked of them."""
    cells = np.isfinite(known.standard_error)
    if not cells.any():
        return False
    root = np.sqrt(np.maximum(estimate[cells], 0.0) + 1.0)
    return float(known.standard_error[cells].mean()) <= float(root.mean())


def known_answers(answers: LinearAnswers) -> Known:
    """What a measurement says about the queries that it was made for."""
    return _within(answers.values, answers.standard_errors, answers.kurtosis)


def _known(precision: Floats, weighted: Floats, fourth: Floats) -> Known:
    with np.errstate(invalid="ignore", divide="ignore"):
        value, error = weighted / precision, 1 / np.sqrt(precision)
        kurtosis = fourth / precision**2
        error[~np.isfinite(error)] = np.nan
    return _within(value, error, kurtosis)


def _within(value: Floats, error: Floats, kurtosis: Floats | float) -> Known:
    """The interval of values with these standard errors and excess kurtosis."""
    reach = (_Z95 + _TAIL * kurtosis) * error + _HALF_ROW
    return Known(value, error, np.maximum(value - reach, 0.0), np.maximum(value, 0.0) + reach)


def _told(
    piece: Counted, marginal: Marginal, domain: Domain, levels: Mapping[str, Level]
) -> tuple[tuple[int | slice, ...], Floats, Floats] | None:
    """Which of the marginal's cells a measurement tells, their sums, and how many cells each sum has; None if none.

    What the marginal lacks is summed away, and a column becomes the level that is asked for; neither may be fixed.
    """
    free, fixed = piece.free, piece.fixed
    columns, names, ups = set(marginal), list(free), {}
    if not fixed.keys() <= columns:
        return None
    for a in columns.difference(free, fixed):
        if a in levels:
            below = _below(a, names, levels)
            if below is not None:
                ups[names.index(below)] = _steps(a, below, levels)
                names[names.index(below)] = a
    if not columns <= fixed.keys() | set(names):
        return None
    table = piece.item.values.reshape([domain[a] for a in free])
    for axis, steps in ups.items():
        table = coarser(table, axis, steps, domain[names[axis]])
    order = [a for a in marginal if a in names]
    left = [a for a in names if a in marginal]
    summed = tuple(i for i, a in enumerate(names) if a not in marginal)
    table = table.sum(axis=summed).transpose([left.index(a) for a in order])
    cells = np.full([1] * len(order), float(prod(domain[names[i]] for i in summed)))
    for axis, steps in ups.items():
        children = np.bincount(steps, minlength=domain[names[axis]])
        cells = cells * children.reshape([-1 if a == names[axis] else 1 for a in order])
    return tuple(fixed.get(a, slice(None)) for a in marginal), table, cells


def _below(level: str, names: Sequence[str], levels: Mapping[str, Level]) -> str | None:
    """What was counted that a level can be summed from: its column, or a level in between."""
    column = levels[level].column
    for name in names:
        if name == column:
            return name
        under = levels.get(name)
        if under is not None and under.column == column and _is_above(levels[level], under):
            return name
    return None


def _is_above(level: Level, under: Level) -> bool:
    """Whether rows that a lower level has together are together in the higher one, too."""
    first = np.full(len(under.labels), -1)
    first[under.codes] = level.codes
    return bool((first[under.codes] == level.codes).all())


def _steps(level: str, below: str, levels: Mapping[str, Level]) -> NDArray[np.int64]:
    """The level's code of every code of what is below it."""
    if below not in levels:
        return np.asarray(levels[level].codes, np.int64)
    up = np.zeros(len(levels[below].labels), np.int64)
    up[levels[below].codes] = levels[level].codes
    return up


def coarser(table: Floats, axis: int, codes: NDArray[np.int64], size: int) -> Floats:
    """Sums of a table along one axis, by the code that each of its places has one level up."""
    moved = np.moveaxis(table, axis, 0)
    sums = np.zeros((size, *moved.shape[1:]))
    np.add.at(sums, codes, moved)
    return np.moveaxis(sums, 0, axis)
