"""What events cost, written down once more by hand and from their JSON alone: so that recheck does not check itself.

Nothing of the privacy room is used here. (L1, L2²) of each statistic for one person with Δ rows, under replace-one and
under add/remove, on the whole table and inside a partition:

    statistic      replace-one      add/remove    replace-one, in a part
    marginal       2Δ, 2Δ²          Δ, Δ²         2Δ, 2Δ²
    cell           Δ, Δ²            Δ, Δ²         2Δ, 2Δ²
    total          (n is public)    Δ, Δ²         2Δ, 2Δ²
    queries        k times those of a marginal, k the most queries that one row is in
    weighted sums  those of a marginal times the largest sum, and sum of squares, of the weights that one cell has
    score          1024Δ, squared (over cells 4Δ); whole tables only
    best mixture   64Δ + 2, squared; whole tables under replace-one only
    regression     65536·√2Δ rounded up, and 512 for errors, and √k rounded up, and 1; L1 √k times that
"""

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["epsilon_by_hand", "rho_by_hand", "sensitivity_by_hand"]


def sensitivity_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> tuple[int, int]:
    """L1 and squared L2 of what a noisy event measured."""
    replace, part = relation == "replace-one", "part" in event
    twice = 2 if replace else 1
    kind = event["statistic"]
    if kind in ("marginal", "queries"):
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
    assert not part
    if kind == "score":
        steps = (4 if event["over"] == "cells" else 1024) * rows
        return steps, steps**2
    assert replace
    if kind == "regression":
        k = event["coefficients"]
        steps = math.floor(math.sqrt(2) * 65536 * rows) + 1 + 512 + math.floor(math.sqrt(k)) + 1 + 1
        return math.isqrt(k * steps**2), steps**2
    assert kind == "best mixture"
    return 64 * rows + 2, (64 * rows + 2) ** 2


def rho_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> float:
    """The cost in ρ."""
    if event["event"] == "gaussian":
        return sensitivity_by_hand(event, relation, rows)[1] / (2 * event["sigma"] ** 2)
    if event["event"] == "laplace":
        return epsilon_by_hand(event, relation, rows) ** 2 / 2
    per_draw = event["epsilon"] ** 2 / {"exponential": 8, "permute-and-flip": 2}[event["event"]]
    return per_draw * event["draws"] * _touched(event, relation)


def epsilon_by_hand(event: Mapping[str, Any], relation: str, rows: int = 1) -> float:
    """The cost in pure ε."""
    if event["event"] == "gaussian":
        return math.inf
    if event["event"] == "laplace":
        return sensitivity_by_hand(event, relation, rows)[0] / event["scale"]
    return event["epsilon"] * event["draws"] * _touched(event, relation)


def _touched(event: Mapping[str, Any], relation: str) -> int:
    return 2 if "part" in event and relation == "replace-one" and event["over"] == "cells" else 1
