"""Gradient-boosted trees on integer codes, compiled: the classifier that the quality measures share.

A round adds a tree (with more than two classes: one a class) fitted to the gradients of the logistic loss. At a node
the codes of a column are put in the order of their mean gradient, which makes the best cut into two sets of codes one
of the cuts of that order; the means of rare codes are drawn towards the node's, so that their noise decides little.
Of every cut's gain goes what noise would gain in it, which depends on how many cuts there were to choose from; a branch
that gains no more than that is cut off again, so that trees stop growing where there is nothing to learn. Gradients
are summed by code for the smaller child of every split, and the larger child is what is left over.
Columns with more than 256 codes are first cut into that many runs of neighbouring codes with about equally many rows.

>>> rng = np.random.default_rng(0)
>>> a, b = rng.integers(0, 2, 1000), rng.integers(0, 3, 1000)
>>> model = Booster(rounds=20).fit([a, b], [2, 3], (a + b) % 2, 2, rng)
>>> model.predict_proba([np.array([0, 1]), np.array([0, 0])]).argmax(axis=1).tolist()
[0, 1]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["Boosted", "Booster"]

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

_BINS = 256
"""Codes that a column has at most, one byte each."""
_EMPTY = 1e-7
"""A code with less hessian has no rows: one row has 1e-6 or more, and differences leave rounding behind."""


@dataclass(frozen=True)
class Boosted:
    """A fitted model: trees as heaps, node i's children at 2i + 1 and 2i + 2."""

    edges: tuple[NDArray[Any] | None, ...]
    """Where the runs of a wide column begin; None for the others."""
    base: Floats
    """The score that a class starts from."""
    owner: NDArray[np.int64]
    """The class of each tree."""
    column: NDArray[np.int16]
    """The column that a node asks about; −1 at a leaf."""
    right: Codes
    """Tree × inner node × code: 1 where the row goes right."""
    value: Floats
    """What a leaf adds to the score."""

    def predict_proba(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """The probability of each class, rows × classes."""
        codes = _narrow(columns, self.edges)
        scores = np.tile(self.base, (len(codes), 1))
        for t, owner in enumerate(self.owner):
            add_tree(codes, self.column[t], self.right[t], self.value[t], scores[:, owner])
        return _probabilities(scores)


@dataclass(frozen=True)
class Booster:
    """How to fit; the defaults suit tables of a thousand to a hundred thousand rows."""

    rounds: int = 80
    depth: int = 5
    rate: float = 0.2
    """Part of a tree's step that is taken."""
    share: float = 0.8
    """Rows that a round is fitted to, drawn anew each time."""
    ridge: float = 10.0
    """Added to a leaf's hessian."""
    smooth: float = 10.0
    """Hessian at which a code's mean gradient counts as much as the node's in the order of codes."""
    least: float = 2.0
    """Hessian that a leaf has at least; a row's is at most a quarter."""

    def fit(
        self,
        columns: Sequence[NDArray[Any]],
        sizes: Sequence[int],
        target: NDArray[Any],
        classes: int,
        rng: np.random.Generator,
    ) -> Boosted:
        """Learn the target's classes 0..classes-1 from columns with codes 0..size-1.

        A class that no row has keeps a small constant score. Without rows all classes are alike.
        """
        edges = tuple(_edges(c, size) for c, size in zip(columns, sizes, strict=True))
        widths = [min(size, _BINS) if e is None else len(e) + 1 for size, e in zip(sizes, edges, strict=True)]
        codes, truth = _narrow(columns, edges), np.asarray(target, np.int64)
        n, count = len(truth), np.bincount(truth, minlength=classes)
        base = np.log((count + 0.5) / (n + 0.5 * classes))
        present = np.flatnonzero(count)
        if len(present) < 2:
            learnt = present[:0]
        elif classes == 2:
            base, learnt = base - base[0], np.array([1])
        else:
            learnt = present
        offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        owner, inner = np.tile(learnt, self.rounds), 2**self.depth - 1
        column = np.full((len(owner), 2 * inner + 1), -1, np.int16)
        right = np.zeros((len(owner), inner, max(widths)), np.uint8)
        value = np.zeros((len(owner), 2 * inner + 1))
        scores = np.tile(base, (n, 1))
        options = float(self.ridge), float(self.smooth), float(self.least), float(self.rate)
        for t, c in enumerate(owner):
            if t % len(learnt) == 0:
                rows = np.flatnonzero(rng.random(n) < self.share).astype(np.int32)
                p = _probabilities(scores)
            gradient = (p[:, c] - (truth == c)).astype(np.float32)
            hessian = np.maximum(p[:, c] * (1.0 - p[:, c]), 1e-6).astype(np.float32)
            tree = column[t], right[t], value[t]
            grow(codes, rows.copy(), gradient, hessian, offsets, options, *tree)
            add_tree(codes, *tree, scores[:, c])
        return Boosted(edges, base, owner, column, right, value)


def _edges(column: NDArray[Any], size: int) -> NDArray[Any] | None:
    """Where the runs of a wide column begin, by the rows at hand."""
    if size <= _BINS:
        return None
    if not len(column):
        return np.zeros(0, np.int64)
    ordered = np.sort(column)
    return np.unique(ordered[np.arange(1, _BINS) * len(ordered) // _BINS])


def _narrow(columns: Sequence[NDArray[Any]], edges: Sequence[NDArray[Any] | None]) -> Codes:
    """Rows × columns of codes in one byte each."""
    codes = np.empty((len(columns[0]), len(columns)), np.uint8)
    for i, (column, edge) in enumerate(zip(columns, edges, strict=True)):
        codes[:, i] = column if edge is None else np.searchsorted(edge, column, side="right")
    return codes


def _probabilities(scores: Floats) -> Floats:
    weight: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


@nb.njit(cache=True, nogil=True, boundscheck=False)
def add_tree(codes, column, right, value, scores):  # type: ignore[no-untyped-def]
    """Add a tree's leaves to the rows' scores."""
    for r in range(len(codes)):
        node = 0
        while column[node] >= 0:
            node = 2 * node + 1 + right[node, codes[r, column[node]]]
        scores[r] += value[node]


@nb.njit(cache=True, nogil=True, boundscheck=False)
def grow(codes, rows, gradient, hessian, offsets, options, column, right, value):  # type: ignore[no-untyped-def]
    """Fit one tree to the gradients of these rows, level by level; `rows` is put in the order of the leaves.

    A branch stays if its splits together gain more than luck would: a split that gains little alone may lead to one
    that gains much, as with columns that matter only together.
    """
    ridge, smooth, least, rate = options
    inner = len(right)
    sums = np.zeros((inner, offsets[-1], 2))
    start, end = np.zeros(2 * inner + 1, np.int64), np.zeros(2 * inner + 1, np.int64)
    total = np.zeros((2 * inner + 1, 2))
    end[0] = len(rows)
    for r in rows:
        total[0, 0] += gradient[r]
        total[0, 1] += hessian[r]
    value[0] = -rate * total[0, 0] / (total[0, 1] + ridge)
    if inner:
        _sum(codes, rows, gradient, hessian, offsets, sums[0])
    spare, worth = np.empty(len(rows), np.int32), np.zeros(2 * inner + 1)
    for node in range(inner):
        if end[node] - start[node] < 2:
            continue
        chosen, gain = _split(sums[node], total[node], offsets, ridge, smooth, least, right[node])
        if chosen < 0:
            continue
        column[node], worth[node] = chosen, gain
        here = rows[start[node] : end[node]]
        left = _part(codes, here, spare, chosen, right[node])
        a, b = 2 * node + 1, 2 * node + 2
        start[a], end[a] = start[node], start[node] + left
        start[b], end[b] = end[a], end[node]
        for c in range(offsets[chosen], offsets[chosen + 1]):
            child = a + right[node, c - offsets[chosen]]
            total[child, 0] += sums[node, c, 0]
            total[child, 1] += sums[node, c, 1]
        value[a] = -rate * total[a, 0] / (total[a, 1] + ridge)
        value[b] = -rate * total[b, 0] / (total[b, 1] + ridge)
        if b < inner:
            small, large = (a, b) if 2 * left <= len(here) else (b, a)
            _sum(codes, rows[start[small] : end[small]], gradient, hessian, offsets, sums[small])
            for c in range(offsets[-1]):
                sums[large, c, 0] = sums[node, c, 0] - sums[small, c, 0]
                sums[large, c, 1] = sums[node, c, 1] - sums[small, c, 1]
    for node in range(inner - 1, -1, -1):
        if column[node] >= 0:
            worth[node] += worth[2 * node + 1] + worth[2 * node + 2]
            if worth[node] <= 0.0:
                column[node], worth[node] = -1, 0.0


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _sum(codes, rows, gradient, hessian, offsets, sums):  # type: ignore[no-untyped-def]
    """Gradients and hessians by column and code."""
    k = codes.shape[1]
    for r in rows:
        g, h = np.float64(gradient[r]), np.float64(hessian[r])
        for c in range(k):
            cell = offsets[c] + codes[r, c]
            sums[cell, 0] += g
            sums[cell, 1] += h


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _part(codes, rows, spare, column, right):  # type: ignore[no-untyped-def]
    """Rows that go left first, in place and in order; returns how many those are."""
    left = other = 0
    for r in rows:
        if right[codes[r, column]]:
            spare[other] = r
            other += 1
        else:
            rows[left] = r
            left += 1
    for i in range(other):
        rows[left + i] = spare[i]
    return left


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _split(sums, total, offsets, ridge, smooth, least, right):  # type: ignore[no-untyped-def]
    """The column whose codes are best cut in two, or −1, and the gain beyond luck; sets which codes go right.

    The codes are tried as they come and by mean gradient, each way's gain less about what noise would gain in it.
    Codes that the node has no rows of go with the heavier side.
    """
    best, chosen, cut, known, tried = -np.inf, -1, 0, 0, 0
    width = right.shape[0]
    met, order, ratio = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width)
    for c in range(len(offsets) - 1):
        part = sums[offsets[c] : offsets[c + 1]]
        k = 0
        for code in range(len(part)):
            if part[code, 1] > _EMPTY:
                met[k] = code
                k += 1
        if k < 2:
            continue
        tried += 1
        for sort in range(2 if k > 2 else 1):
            if sort:
                for i in range(k):
                    g = part[met[i], 0] + smooth * total[0] / total[1]
                    ratio[i] = g / (part[met[i], 1] + smooth)
                _sort(met, ratio, k)
            luck = 1.0 + (2.0 / np.pi * (k - 2) if sort else np.log(k - 1.0))
            gain, place = _cut(part, met[:k], total, ridge, least)
            if place and gain - luck > best:
                best, chosen, cut, known = gain - luck, c, place, k
                for i in range(k):
                    order[i] = met[i]
    if chosen >= 0:
        weight = 0.0
        for i in range(cut):
            weight += sums[offsets[chosen] + order[i], 1]
        for code in range(width):
            right[code] = 1 if 2.0 * weight < total[1] else 0
        for i in range(known):
            right[order[i]] = 0 if i < cut else 1
    return chosen, best - 2.0 * (1.0 + np.log(max(tried, 1)))


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _cut(sums, order, total, ridge, least):  # type: ignore[no-untyped-def]
    """The best gain of a cut in this order of codes, and how many codes are left of it; none if 0."""
    g = h = best = 0.0
    place = 0
    for i in range(len(order) - 1):
        g += sums[order[i], 0]
        h += sums[order[i], 1]
        if h >= least and total[1] - h >= least:
            rest = total[0] - g
            gain = g * g / (h + ridge) + rest * rest / (total[1] - h + ridge)
            if gain > best:
                best, place = gain, i + 1
    return best - total[0] * total[0] / (total[1] + ridge), place


@nb.njit(cache=True, nogil=True, boundscheck=False)
def _sort(codes, keys, k):  # type: ignore[no-untyped-def]
    """Sort the first k codes by their keys, in place: Shell's sort, quick to compile and enough for 256."""
    for gap in (57, 23, 10, 4, 1):
        for i in range(gap, k):
            code, key = codes[i], keys[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                codes[j], keys[j] = codes[j - gap], keys[j - gap]
                j -= gap
            codes[j], keys[j] = code, key
