"""What events cost, written down once more by hand and from their JSON alone: so that recheck does not check itself.

Nothing of the privacy room is used here. (L1, L2²) of each statistic for one person with Δ rows, under replace-one and
under add/remove, on the whole table and inside a partition:

    statistic      replace-one      add/remove    replace-one, in a part
    marginal       2Δ, 2Δ²          Δ, Δ²         2Δ, 2Δ²         (merged or not)
    cell           Δ, Δ²            Δ, Δ²         2Δ, 2Δ²
    total          (n is public)    Δ, Δ²         2Δ, 2Δ²
    queries        k times those of a marginal, k the most queries that one row is in
    weighted sums  those of a marginal times the largest sum, and sum of squares, of the weights that one cell has
    score          1024Δ, squared (over cells 4Δ); whole tables only
    best mixture   64Δ + 2, squared; whole tables under replace-one only
    regression     65536·√2Δ rounded up, and 512 for errors, and √k rounded up, and 1; L1 √k times that
    errors         per group S = factor·tables·steps·2Δ (Δ under add/remove): ΣS, ΣS²; whole tables only
    residuals      of columns with nᵢ values, γ = Πnᵢ: one row has a = γΠ(nᵢ−1) and L1 norm L = Π2(nᵢ−1); two rows that
                   differ in one column alone, that with fewest values n, are a + a/(n−1) apart, twice (L2²)
    together       the sum of its parts', each times its factor; squared for L2²

No number of a statistic moves by more than Δ (marginals, cells, totals, queries), Δ times the largest weight (weighted
sums), its largest part with its factor (together), the largest S (errors), or else the smaller of L1 and the root of
L2², rounded down (L∞).
Laplace noise of scale s costs Δ₁/s in ε and Δ₁/s·tanh(Δ∞/(2s)) in ρ; permute-and-flip at ε costs ε·tanh(ε/2).
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["epsilon_by_hand", "largest_by_hand", "pure_rho_by_hand", "rho_by_hand", "sensitivity_by_hand"]


def sensitivity_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> tuple[int, int]:
    """L1 and squared L2 of what a noisy event measured."""
    replace, part = relation == "replace-one", "part" in event
    twice = 2 if replace else 1
    kind = event["statistic"]
    if kind in ("marginal", "merged marginal", "queries"):
        k = event["overlap"] if kind == "queries" else 1
        return k * twice * rows, k * twice * rows**2
    if kind == "weighted sums":
        of_cell: dict[int, list[int]] = {}
        for first, *weights in event["weights"]:
            for cell, weight in enumerate(weights, first):
                of_cell.setdefault(cell, []).append(weight)
        most = max(sum(w) for w in of_cell.values())
        squares = max(sum(v * v for v in w) for w in of_cell.values())
        return most * twice * rows, squares * twice * rows**2
    if kind in ("cell", "total"):
        assert kind == "cell" or part or not replace
        moved = twice if part else 1
        return moved * rows, moved * rows**2
    if kind == "residuals":
        sizes = event["sizes"]
        row, length = (math.prod(n * (n - 1) for n in sizes), math.prod(2 * (n - 1) for n in sizes))
        if not replace:
            return length * rows, row * rows**2
        apart = 2 * length if part else max(_apart(sizes, other) for other in _cells(sizes))
        return apart * rows, 2 * (row + row // (min(sizes) - 1)) * rows**2
    if kind == "together":
        inside = {"part": event["part"]} if part else {}
        each = [sensitivity_by_hand({**fact, **inside}, relation, rows) for fact in event["parts"]]
        times = event["times"]
        return (
            sum(m * one for m, (one, _) in zip(times, each, strict=True)),
            sum(m**2 * two for m, (_, two) in zip(times, each, strict=True)),
        )
    assert not part
    if kind == "score":
        steps = (4 if event["over"] == "cells" else 1024) * rows
        return steps, steps**2
    if kind == "errors":
        moved = [twice * rows * step for step in _group_steps(event)]
        return sum(moved), sum(m**2 for m in moved)
    assert replace
    if kind == "regression":
        k = event["coefficients"]
        steps = math.floor(math.sqrt(2) * 65536 * rows) + 1 + 512 + math.floor(math.sqrt(k)) + 1 + 1
        return math.isqrt(k * steps**2), steps**2
    assert kind == "best mixture"
    return 64 * rows + 2, (64 * rows + 2) ** 2


def largest_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> int:
    """L∞ of what a noisy event measured."""
    kind = event["statistic"]
    if kind in ("marginal", "merged marginal", "queries", "cell", "total"):
        return rows
    if kind == "weighted sums":
        return rows * max(weight for _, *weights in event["weights"] for weight in weights)
    if kind == "errors":
        return (2 if relation == "replace-one" else 1) * rows * max(_group_steps(event))
    l1, l2_squared = sensitivity_by_hand(event, relation, rows)
    bounds = [l1, math.isqrt(l2_squared)]
    if kind == "together":
        inside = {"part": event["part"]} if "part" in event else {}
        each = [largest_by_hand({**fact, **inside}, relation, rows) for fact in event["parts"]]
        bounds.append(max(m * one for m, one in zip(event["times"], each, strict=True)))
    return min(bounds)


def rho_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> float:
    """The cost in ρ."""
    if event["event"] == "gaussian":
        return sensitivity_by_hand(event, relation, rows)[1] / (2 * event["sigma"] ** 2)
    if event["event"] == "laplace":
        largest = largest_by_hand(event, relation, rows)
        return epsilon_by_hand(event, relation, rows) * math.tanh(largest / (2 * event["scale"]))
    flips = event["event"] == "permute-and-flip"
    per_draw = pure_rho_by_hand(event["epsilon"]) if flips else event["epsilon"] ** 2 / 8
    return float(per_draw) * event["draws"] * _touched(event, relation)


def pure_rho_by_hand(epsilon: Any) -> Any:
    """What an ε-DP step costs in ρ, or each of many."""
    return epsilon * np.tanh(epsilon / 2)


def epsilon_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> float:
    """The cost in pure ε."""
    if event["event"] == "gaussian":
        return math.inf
    if event["event"] == "laplace":
        return sensitivity_by_hand(event, relation, rows)[0] / event["scale"]
    return event["epsilon"] * event["draws"] * _touched(event, relation)


def _group_steps(event: Mapping[str, Any]) -> list[int]:
    """How far one row, added or removed, moves each group of errors."""
    told = zip(event["factors"], event["tables"], event["steps"], strict=True)
    return [factor * tables * steps for factor, tables, steps in told]


def _cells(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in sizes))


def _apart(sizes: Sequence[int], other: tuple[int, ...]) -> int:
    """The L1 distance of the residuals of a row of zeros and of another row, cell by cell."""

    def value(row: tuple[int, ...], cell: tuple[int, ...]) -> int:
        return math.prod(n - 1 if r == c else -1 for n, r, c in zip(sizes, row, cell, strict=True))

    zeros = (0,) * len(sizes)
    return sum(abs(value(zeros, cell) - value(other, cell)) for cell in _cells(sizes))


def _touched(event: Mapping[str, Any], relation: str) -> int:
    return 2 if "part" in event and relation == "replace-one" and event["over"] == "cells" else 1
