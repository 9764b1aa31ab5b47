"""Contrasts: what means and shares within groups are made of, scaled so that one row moves them by one at most.

In a group with m rows, a column's values have codes aᵥ with mean μ, standard deviation s and largest distance
d = max|aᵥ − μ| in the model; the contrast is Σ (aᵥ − μ)/d · countᵥ, which the model says is 0. How far the truth is
from that, times d/s and over m, is how far the group's mean is off, in standard deviations. In these, errors grow with
m as those of cells do: they have a curve of their own, and a contrast's own error is expected to be s/d of what it
says.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.asked_tables import MOST_CONTRAST_CELLS, MOST_CONTRASTS, Pair, contrasts_within
from openprior.error_bars.model_answers import answers_of
from openprior.error_bars.strata import Sizes, stratum_of
from openprior.models.base import Model
from openprior.privacy.error_strata import ROW_STEPS, ContrastsApart
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["contrasts_of"]

Floats = NDArray[np.float64]

_FEWEST, _ALIKE = 0.5, 1e-3
"""Groups with fewer rows, or with values that are all alike, have no contrast."""


def contrasts_of(
    model: Model,
    pairs: Sequence[Pair],
    domain: Domain,
    ordered: Mapping[str, int],
    group: int,
    rng: np.random.Generator,
) -> tuple[tuple[ContrastsApart, ...], Sizes]:
    """Of every column within the groups that the others of its marginal make; of some, where there are many.

    `pairs` are marginals, each with one that it is counted in; `ordered` says of columns how many codes are in order.
    These are spaced evenly, those of other columns are 1 or −1 at random.
    """
    inside = dict(pairs)
    asked = [(own, inside[own], axis) for own, axis in contrasts_within(inside, domain)]
    codes = {a: _codes(domain[a], ordered.get(a, 0), rng) for a in domain}
    made, sizes = [], []
    for (own, within, axis), table in _answered(model, _some(asked, domain, rng)):
        groups = np.moveaxis(table.reshape([domain[a] for a in own]), axis, -1)
        groups = np.maximum(groups.reshape(-1, domain[own[axis]]), 0.0)
        rows = groups.sum(axis=1)
        weights, spread, part = _weights(groups, rows, codes[own[axis]])
        reference = np.rint((groups * weights).sum(axis=1)).astype(np.int64)
        stratum = stratum_of(rows)
        stratum[(rows < _FEWEST) | (spread < _ALIKE)] = -1
        made.append(
            ContrastsApart(
                own,
                group,
                reference,
                stratum,
                None if own == within else within,
                axis=axis,
                weights=weights,
            )
        )
        sizes.append((rows[stratum >= 0], part[stratum >= 0]))
    return tuple(made), Sizes.of(sizes, max(len(made), 1))


def _codes(size: int, ordered: int, rng: np.random.Generator) -> Floats:
    """Evenly spaced as far as they are in order, and 0 beyond; or signs of which both occur."""
    if ordered > 1:
        return np.append(np.linspace(-1.0, 1.0, ordered), np.zeros(size - ordered))
    signs = np.where(np.arange(size) % 2, 1.0, -1.0)
    return rng.permutation(signs)


def _weights(groups: Floats, rows: Floats, codes: Floats) -> tuple[NDArray[np.int16], Floats, Floats]:
    """The scaled codes in steps of a row; the standard deviations, and what part they are of the largest distances."""
    share = groups / np.maximum(rows, 1e-9)[:, None]
    centred = codes - (share @ codes)[:, None]
    spread = np.sqrt((share * centred**2).sum(axis=1))
    far = np.maximum(np.abs(centred).max(axis=1), _ALIKE)
    return np.rint(centred / far[:, None] * ROW_STEPS).astype(np.int16), spread, spread / far


def _some(
    asked: list[tuple[Marginal, Marginal, int]], domain: Domain, rng: np.random.Generator
) -> list[tuple[Marginal, Marginal, int]]:
    """As many as are looked at, drawn at random; at least one."""
    kept: list[int] = []
    left = MOST_CONTRAST_CELLS
    for i in rng.permutation(len(asked)):
        size = domain.size(asked[i][0])
        if len(kept) < MOST_CONTRASTS and (size <= left or not kept):
            kept.append(int(i))
            left -= size
    return [asked[i] for i in sorted(kept)]


def _answered(
    model: Model, asked: Sequence[tuple[Marginal, Marginal, int]]
) -> Iterator[tuple[tuple[Marginal, Marginal, int], Floats]]:
    answers = answers_of(model, list(dict.fromkeys(own for own, _, _ in asked)))
    for each in asked:
        yield each, answers[each[0]]
