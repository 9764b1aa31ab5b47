"""Whether arrays are a prior: looked at from the outside, before a compiled loop reads them without looking.

A file can be damaged, or forged. The loops of moves.py follow every start, stride, parent and row as it is, so one
wrong number would read foreign memory. Here each array must have the kind and shape that it is declared with, every
index must stay inside what it points into, parents must come before their children in the order of drawing (else a draw
would look at a value that is not there yet), and every distribution must sum to 1. What is raised is a ValueError with
a few words; nothing is repaired.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.models.prior.draws import PriorArrays

__all__ = ["KINDS", "checked_arrays"]

KINDS: dict[str, tuple[type[np.generic], int]] = {
    "sizes": (np.int64, 1),
    "kinds": (np.float64, 1),
    "redraw": (np.float64, 0),
    "class_ends": (np.float64, 1),
    "values": (np.float32, 2),
    "starts": (np.int64, 1),
    "anchors": (np.uint16, 2),
    "member": (np.int32, 1),
    "order": (np.int64, 2),
    "parents": (np.int64, 3),
    "strides": (np.int64, 3),
    "index_start": (np.int64, 2),
    "table_start": (np.int64, 2),
    "row_of": (np.int32, 1),
    "table": (np.float32, 1),
    "children": (np.int64, 3),
}
"""The type and the number of dimensions of every array of a prior."""
_LARGEST = 1 << 16
"""Values of a column; codes have sixteen bits."""
_MOST_NETWORKS, _MOST_PARENTS = 1024, 64
_NEAR = 1e-3
"""How far a distribution may be from 1: thousands of numbers in single precision."""
_AGAIN = 16
"""How often networks may share parts of the index and the tables, at most: what is looked at is bounded by it."""

Ints = NDArray[np.int64]


def checked_arrays(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> PriorArrays:
    """The arrays as a prior over columns of these sizes; a ValueError if they are none."""
    _need(set(arrays) == set(KINDS) == set(PriorArrays._fields), "it has other arrays than a prior")
    fitted: dict[str, Any] = {}
    for name in PriorArrays._fields:
        kind, dimensions = KINDS[name]
        array = arrays[name]
        _need(array.dtype == np.dtype(kind) and array.ndim == dimensions, f"{name} is of another kind")
        fitted[name] = np.require(array, requirements=["C", "A", "W", "O"])
    fitted["redraw"] = float(fitted["redraw"])
    prior = PriorArrays(**fitted)
    _check_columns(prior, shape)
    _check_classes(prior)
    _check_anchors(prior)
    _check_networks(prior)
    return prior


def _need(condition: object, words: str) -> None:
    if not condition:
        raise ValueError(words)


def _within(array: NDArray[Any], first: int, end: int) -> bool:
    """Whether every number lies in first..end-1."""
    return array.size == 0 or bool(array.min() >= first and array.max() < end)


def _check_columns(p: PriorArrays, shape: tuple[int, ...]) -> None:
    _need(shape and tuple(p.sizes.tolist()) == shape, "its sizes are not those of its columns")
    _need(_within(p.sizes, 1, _LARGEST + 1), "a column has too many values")
    _need(_is_cumulative(p.kinds) and len(p.kinds) == 3, "its shares are none")
    _need(0 <= p.redraw <= 1, "redraw is no probability")  # NaN is none either


def _is_cumulative(ends: NDArray[np.float64]) -> bool:
    """Whether numbers rise from 0 to 1, as cumulative shares do; NaN fails every comparison."""
    if not len(ends) or not np.isfinite(ends).all():
        return False
    return bool(ends[0] >= 0 and (np.diff(ends) >= 0).all() and abs(ends[-1] - 1) <= _NEAR)


def _check_classes(p: PriorArrays) -> None:
    starts = np.concatenate([[0], np.cumsum(p.sizes)])
    _need(np.array_equal(p.starts, starts), "starts are not those of the columns")
    _need(_is_cumulative(p.class_ends), "its classes have no shares")
    _need(p.values.shape == (len(p.class_ends), starts[-1]), "values are of another shape")
    _need(_are_distributions(p.values, starts[:-1]), "a class has values that are no distribution")


def _are_distributions(numbers: NDArray[np.float32], starts: NDArray[Any]) -> bool:
    """Whether each stretch of a row, from one start to the next, is a distribution."""
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        return False
    sums = np.add.reduceat(numbers, starts, axis=-1, dtype=np.float64)
    return bool((np.abs(sums - 1) <= _NEAR).all())


def _check_anchors(p: PriorArrays) -> None:
    rows = len(p.anchors)
    _need(rows and p.anchors.shape[1] == len(p.sizes), "anchors are of another shape")
    _need((p.anchors.max(axis=0) < p.sizes).all(), "an anchor has a code outside its column")
    _need(p.member.shape == (rows,) and _within(p.member, 0, len(p.class_ends)), "a member has no class")


def _check_networks(p: PriorArrays) -> None:
    count, columns = len(p.order), len(p.sizes)
    _need(1 <= count <= _MOST_NETWORKS, "it has no networks, or too many")
    everything = np.broadcast_to(np.arange(columns), (count, columns))
    _need(np.array_equal(np.sort(p.order, axis=1), everything), "an order is no permutation of the columns")
    flat = all(a.shape == (count, columns) for a in (p.index_start, p.table_start))
    _need(flat and p.parents.shape[:2] == p.children.shape[:2] == (count, columns), "a network has no place")
    _need(p.parents.shape == p.strides.shape, "strides are of another shape")
    _need(p.parents.shape[2] <= _MOST_PARENTS, "a column has too many parents")
    for name, others in (("parents", p.parents), ("children", p.children)):
        _need(_within(others, -1, columns), f"{name} are no columns")
        gone = others < 0
        _need(not (gone[:, :, :-1] & ~gone[:, :, 1:]).any(), f"{name} have a gap")
    _check_family(p)
    _check_lookups(p)


def _check_family(p: PriorArrays) -> None:
    """Parents come before their children in the order of drawing, and each is told of its children, once."""
    columns = len(p.sizes)
    place = np.argsort(p.order, axis=1)
    k, a, j = np.nonzero(p.parents >= 0)
    of = p.parents[k, a, j]
    _need((place[k, of] < place[k, a]).all(), "a parent comes after its child")
    told, parent, i = np.nonzero(p.children >= 0)
    upward = np.sort((k * columns + of) * columns + a)
    downward = np.sort((told * columns + parent) * columns + p.children[told, parent, i])
    _need(np.array_equal(upward, downward), "children are not those of the parents")
    _need(len(np.unique(upward)) == len(upward), "a parent stands there twice")


def _check_lookups(p: PriorArrays) -> None:
    """Every context of the parents leads into the index, and every row of the index to a distribution."""
    _need(_within(p.strides, 0, len(p.row_of) + 1), "a stride leads outside the index")
    top = np.where(p.parents >= 0, p.sizes[p.parents] - 1, 0)
    contexts = 1 + (p.strides * top).sum(axis=2)  # at most 2^16 · len(row_of) · columns: no overflow
    _need(_within(p.index_start, 0, len(p.row_of)), "an index begins outside")
    _need((p.index_start + contexts <= len(p.row_of)).all(), "an index ends outside")
    _need(_within(p.table_start, 0, len(p.table)), "a table begins outside")
    _need(p.row_of.min() >= 0, "the index has rows that are none")
    stretches = np.stack(
        [p.index_start, contexts, p.table_start, np.broadcast_to(p.sizes, contexts.shape)], axis=-1
    )
    looked = 0
    for start, length, table, size in np.unique(stretches.reshape(-1, 4), axis=0).tolist():
        rows = int(p.row_of[start : start + length].max()) + 1
        looked += length + rows * size
        _need(looked <= _AGAIN * (len(p.row_of) + len(p.table)), "its networks share too much")
        _need(table + rows * size <= len(p.table), "a table ends outside")
        numbers = p.table[table : table + rows * size].reshape(rows, size)
        _need(_are_distributions(numbers, np.zeros(1, np.int64)), "a table has rows that are no distribution")
