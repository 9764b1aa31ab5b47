"""Sums of a table down to some of its axes, products of tables over some of its axes, and the maps between cells."""

import math
from collections.abc import Sequence
from functools import lru_cache

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

    place = {a: i for i, a in enumerate(axes)}
    shape = tuple(domain[a] for a in axes)
    halves, link, block = _halves(shape, tuple(place[a] for a in target))
    sums = np.zeros(domain.size(target))
    project(table, sums, link, block, halves)
    return sums


@lru_cache(maxsize=1 << 12)
def _halves(
    shape: tuple[int, ...], target: tuple[int, ...]
) -> tuple[NDArray[np.int32], NDArray[np.int64], int]:
    """The two halves of the map from a table of this shape to some of its axes, how its inner one runs, and the cells
    of that."""
    split = _split(shape)
    strides = [0] * len(shape)
    stride = 1
    for axis in reversed(target):
        strides[axis] = stride
        stride *= shape[axis]
    outer, inner = _places(shape[:split], strides[:split]), _places(shape[split:], strides[split:])
    run, kind = _run(shape[split:], strides[split:])
    link = np.array((0, stride, 0, len(outer), run, kind), np.int64)
    return np.concatenate([outer, inner]), link, len(inner)


def multiplied(
    domain: Domain, axes: Sequence[str], parts: Sequence[tuple[Marginal, Floats]]
) -> tuple[Floats, float]:
    """The product of three flat tables, each over some of these axes, flat in their order; and its sum."""
    from openprior.models.graphical.table_sums import product_over

    place = {a: i for i, a in enumerate(axes)}
    shape = tuple(domain[a] for a in axes)
    maps = [_halves(shape, tuple(place[a] for a in m))[0] for m, _ in parts]
    table = np.empty(domain.size(axes))
    total = product_over(table, math.prod(shape[_split(shape) :]), *(values for _, values in parts), *maps)
    return table, float(total)


def offsets(domain: Domain, axes: Sequence[str], target: Sequence[str]) -> NDArray[np.int32]:
    """For every cell of a table with these axes, its place in the target as far as they tell it."""
    strides = {a: math.prod(domain[b] for b in target[i + 1 :]) for i, a in enumerate(target)}
    return _places([domain[a] for a in axes], [strides.get(a, 0) for a in axes])


def _places(shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.int32]:
    """The place of every cell of a table of this shape in another, by the other's stride along each axis."""
    places = np.zeros(1, np.int32)
    for size, stride in zip(shape, strides, strict=True):
        places = np.add.outer(places, np.arange(size, dtype=np.int32) * stride).reshape(-1)
    return places


def _split(shape: Sequence[int]) -> int:
    """Where the inner half of a table's maps begins: as many of the last axes as fit the cache, but one at least."""
    split, inner = len(shape) - 1, shape[-1]
    while split > 0 and inner * shape[split - 1] <= _INNER:
        split -= 1
        inner *= shape[split]
    return split


def _run(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """How many cells from the last axes on are all summed, or all side by side; and which of the two."""
    summed, run = strides[-1] == 0, 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != (0 if summed else run):
            break
        run *= size
    if run < _EVEN:
        return 1, SCATTERED
    return run, CONSTANT if summed else CONTIGUOUS
