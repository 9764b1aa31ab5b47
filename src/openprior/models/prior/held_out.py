"""How well kinds of priors predict rows that were left out, and the shares in which they do so best.

Judged by what will be asked: the squared error of marginals, each cell divided by its mass. For shares w that error is
w·P·w − 2·a·w and a constant, with P the products of the kinds' answers and a what they have in common with the rows
that were left out. Answers are those of draws. A cell's count squared would add the draws' own noise to P, so pairs of
draws are counted there, (c² − c) / (n² − n), and few draws do.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["agree", "on_simplex"]

Codes = NDArray[np.uint16]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SLOTS = 1 << 17
"""Cells that are counted in place; those of larger marginals are looked up."""


def agree(
    drawn: Sequence[Codes], rows: Codes, sizes: Ints, judges: Sequence[Sequence[int]], least: float
) -> tuple[Floats, Floats]:
    """P and a for these draws of each kind, rows left out and marginals; `least` is added to a cell's mass."""
    kinds = len(drawn)
    codes = np.ascontiguousarray(np.concatenate([*drawn, rows]).T)
    ends = np.cumsum([len(d) for d in [*drawn, rows]]).astype(np.int64)
    slots = max(_SLOTS, 1 << int(2 * ends[-1] - 1).bit_length())
    counts, keys = np.zeros((slots, kinds + 1), np.int32), np.full(slots, -1, np.int64)
    products, agreement = np.zeros((kinds, kinds)), np.zeros(kinds)
    for judge in judges:
        attributes = np.array(judge, np.int64)
        cells = float(np.prod(sizes[attributes].astype(np.float64)))
        _agree(codes, ends, sizes, attributes, cells <= slots, least, keys, counts, products, agreement)
    return products, agreement


@compiled()
def _agree(codes, ends, sizes, attributes, in_place, least, keys, counts, products, agreement):  # type: ignore[no-untyped-def]
    """Add what one marginal says to the products and the agreement; keys and counts are left empty."""
    kinds = len(agreement)
    mask = np.uint64(len(keys) - 1)
    slot_of = np.empty(codes.shape[1], np.int32)
    kind = 0
    for i in range(codes.shape[1]):
        while i >= ends[kind]:
            kind += 1
        key = np.int64(0)
        for a in attributes:
            key = key * sizes[a] + codes[a, i]
        slot = key
        if not in_place:
            mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
            slot = np.int64((mixed >> np.uint64(32)) & mask)
            while keys[slot] >= 0 and keys[slot] != key:
                slot = np.int64((np.uint64(slot) + np.uint64(1)) & mask)
            keys[slot] = key
        slot_of[i] = slot
        counts[slot, kind] += 1
    parts, many = np.empty(kinds), np.empty(kinds + 1)
    before = 0
    for k in range(kinds + 1):
        many[k] = ends[k] - before
        before = ends[k]
    for i in range(codes.shape[1]):
        own = counts[slot_of[i]]
        mass, seen = 0.0, 0
        for k in range(kinds):
            seen += own[k]
            parts[k] = own[k] / many[k]
            mass += parts[k]
        if seen > 0:
            scale = 1.0 / (mass / kinds + least)
            truth = own[kinds] / many[kinds]
            for k in range(kinds):
                agreement[k] += scale * parts[k] * truth
                products[k, k] += scale * parts[k] * (own[k] - 1) / max(many[k] - 1, 1)
                for other in range(k):
                    both = scale * parts[k] * parts[other]
                    products[k, other] += both
                    products[other, k] += both
        for k in range(kinds + 1):
            own[k] = 0
        keys[slot_of[i]] = -1


def on_simplex(products: Floats, agreement: Floats) -> Floats:
    """Shares w ≥ 0 that sum to 1 and minimise w·P·w/2 − a·w, by exponentiated gradients.

    >>> on_simplex(np.eye(2), np.array([0.75, 0.25])).round(3).tolist()
    [0.75, 0.25]
    """
    shares = np.full(len(agreement), 1 / len(agreement))
    _descend(products, agreement, 1 / max(float(np.abs(products).max()), 1e-300), shares)
    return shares


@compiled()
def _descend(products, agreement, rate, shares):  # type: ignore[no-untyped-def]
    kinds = len(agreement)
    slopes = np.empty(kinds)
    for _ in range(20_000):
        for k in range(kinds):
            slopes[k] = -agreement[k]
            for other in range(kinds):
                slopes[k] += products[k, other] * shares[other]
        total = 0.0
        for k in range(kinds):
            shares[k] *= np.exp(-rate * slopes[k])
            total += shares[k]
        for k in range(kinds):
            shares[k] /= total
