"""Sums of a table down to some of its axes, products of tables over some of its axes, and the maps between cells."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["CONSTANT", "CONTIGUOUS", "SCATTERED", "layout", "multiplied", "offsets", "sum_down"]

Floats = NDArray[np.float64]

CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""What a map's inner half does: all in one cell, one cell each in a row, or anything."""
_INNER = 1024
"""Cells of a map's inner half, at most; two such tables stay in the first-level cache."""
_EVEN = 16
"""Cells that are summed together, or lie side by side, from which on a loop of their own is faster."""


def layout(clique: Marginal, separator: Marginal) -> Marginal:
    """The order of a clique's axes: the separator first, so that what is summed away lies together."""
    return (*separator, *(a for a in clique if a not in separator))


def sum_down(table: Floats, domain: Domain, axes: Sequence[str], target: Marginal) -> Floats:
    """The marginal of a flat table on some of its axes, in the target's order; one pass, whichever axes they are."""
    from openprior.models.graphical.table_sums import project

    pool: list[NDArray[np.int32]] = []
    link = np.array(_map(domain, axes, target, 0, pool), np.int64)
    sums = np.zeros(domain.size(target))
    project(table, sums, link, domain.size(axes[_split(domain, axes) :]), np.concatenate(pool))
    return sums


def multiplied(
    domain: Domain, axes: Sequence[str], parts: Sequence[tuple[Marginal, Floats]]
) -> tuple[Floats, float]:
    """The product of three flat tables, each over some of these axes, flat in their order; and its sum."""
    from openprior.models.graphical.table_sums import product_over

    split = _split(domain, axes)
    halves = (axes[:split], axes[split:])
    maps = [np.concatenate([offsets(domain, half, m) for half in halves]) for m, _ in parts]
    table = np.empty(domain.size(axes))
    total = product_over(table, domain.size(axes[split:]), *(values for _, values in parts), *maps)
    return table, float(total)


def _map(
    domain: Domain, axes: Sequence[str], target: Marginal, start: int, pool: list[NDArray[np.int32]]
) -> tuple[int, ...]:
    """Put the two halves of the map from a table to a smaller one in the pool; returns where they are."""
    split = _split(domain, axes)
    outer, inner = offsets(domain, axes[:split], target), offsets(domain, axes[split:], target)
    run, kind = _run(domain, axes[split:], _strides(domain, target))
    begin = sum(map(len, pool))
    pool += [outer, inner]
    return start, domain.size(target), begin, begin + len(outer), run, kind


def _split(domain: Domain, axes: Sequence[str]) -> int:
    """Where the inner half of a table's maps begins: as many of the last axes as fit the cache, but one at least."""
    split, inner = len(axes) - 1, domain[axes[-1]]
    while split > 0 and inner * domain[axes[split - 1]] <= _INNER:
        split -= 1
        inner *= domain[axes[split]]
    return split


def _run(domain: Domain, axes: Sequence[str], strides: dict[str, int]) -> tuple[int, int]:
    """How many cells from the last axes on are all summed, or all side by side; and which of the two."""
    summed, run, stride = axes[-1] not in strides, 1, 1
    for a in reversed(axes):
        if strides.get(a, 0) != (0 if summed else stride):
            break
        run *= domain[a]
        stride *= domain[a]
    if run < _EVEN:
        return 1, SCATTERED
    return run, CONSTANT if summed else CONTIGUOUS


def offsets(domain: Domain, axes: Sequence[str], target: Sequence[str]) -> NDArray[np.int32]:
    """For every cell of a table with these axes, its place in the target as far as they tell it."""
    strides = _strides(domain, target)
    places = np.zeros(1, np.int32)
    for a in axes:
        steps = np.arange(domain[a], dtype=np.int32) * strides.get(a, 0)
        places = np.add.outer(places, steps).reshape(-1)
    return places


def _strides(domain: Domain, target: Sequence[str]) -> dict[str, int]:
    return {a: math.prod(domain[b] for b in target[i + 1 :]) for i, a in enumerate(target)}
