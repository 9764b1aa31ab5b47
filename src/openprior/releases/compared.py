"""Groups compared with one of them: which groups there are, which one is the reference, and how far apart they are.

What all groups together have is known far better than each of them: where one has too much, the others have too little.
So two groups are off in opposite directions, the more so the larger they are. If the errors of all groups added up to
nothing, and were otherwise apart, those of two groups with the shares p and q of the rows would have the correlation
−√(pq/((1 − p)(1 − q))): it is taken to be that. Noisy counts of the groups themselves are apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.models.base import Flags
from openprior.releases.quantities import CALIBRATED, EXACT, MEASURED, NONE, Found
from openprior.schema.base import Schema
from openprior.tables.conditions import marked_codes

__all__ = ["COMPARISONS", "compared", "possible", "reference"]

Floats = NDArray[np.float64]

COMPARISONS = ("difference", "ratio")


def possible(
    groups: Sequence[str], labels: Sequence[Sequence[str]], allowed: Mapping[str, Flags], schema: Schema
) -> Flags:
    """Which groups the conditions leave; groups are in C order of their labels."""
    left = np.ones((), np.bool_)
    for name, own in zip(groups, labels, strict=True):
        level = schema.levels.get(name)
        marked = allowed.get(name if level is None else level.column)
        if marked is None:
            inside = np.ones(len(own), np.bool_)
        else:
            inside = marked if level is None else np.bincount(level.codes, marked, len(own)) > 0
        left = np.logical_and.outer(left, inside)
    return left.reshape(-1)


def reference(
    against: Mapping[str, Any] | None,
    groups: Sequence[str],
    labels: Sequence[Sequence[str]],
    left: Flags,
    schema: Schema,
) -> int:
    """Which group the others are compared with: the first that is left, or the one that is named."""
    if against is None:
        return int(np.argmax(left))
    if not isinstance(against, Mapping) or set(against) != set(groups):
        raise WorkloadError(f"against names one group by its labels: one for each of {', '.join(groups)}")
    place = 0
    for name, own in zip(groups, labels, strict=True):
        label = str(against[name]) if not isinstance(against[name], bool) else str(against[name]).lower()
        if label not in own:
            column, marked = marked_codes(name, against[name], schema)
            if column != name or marked.sum() != 1:
                raise WorkloadError(f"against names no single group of '{name}'")
            label = own[int(np.flatnonzero(marked)[0])]
        place = place * len(own) + list(own).index(label)
    if not left[place]:
        raise WorkloadError("against names a group that the conditions leave out; name another")
    return place


def compared(found: Found, rows: Floats, place: int, each: int, how: str) -> Found:
    """Every group less the one in that place, or as a multiple of it, value by value where there are several to `each`;
    `rows` of each group."""
    parts = ("estimate", "error", "down", "up", "basis")
    own = {name: getattr(found, name).reshape(-1, each) for name in parts}
    other = {name: numbers[place] for name, numbers in own.items()}
    measured = (own["basis"] == MEASURED) & (other["basis"] == MEASURED)
    against = np.where(measured, 0.0, _against(rows, place)[:, None])
    opposite = (("error", "error"), ("down", "up"), ("up", "down"))
    if how == "difference":
        estimate = own["estimate"] - other["estimate"]
        error, down, up = (_together(own[a], other[b], against) for a, b in opposite)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = own["estimate"] / other["estimate"]
            error, down, up = (
                np.abs(estimate) * _together(own[a] / own["estimate"], other[b] / other["estimate"], against)
                for a, b in opposite
            )
    none = (own["basis"] == NONE) | (other["basis"] == NONE)
    basis = np.where(none, NONE, np.where(own["basis"] == other["basis"], own["basis"], CALIBRATED))
    basis[place] = np.where(none[place], NONE, EXACT)  # a group is just itself
    for numbers in (error, down, up):
        numbers[place] = 0.0
    estimate, error, down, up = (numbers.reshape(-1) for numbers in (estimate, error, down, up))
    return Found(estimate, error, down, up, basis.reshape(-1).astype(np.int8))


def _against(rows: Floats, place: int) -> Floats:
    """How strongly each group and the one in that place are off in opposite directions, from 0 to 1."""
    share = rows / max(float(rows.sum()), 1e-9)
    odds = share / np.maximum(1 - share, 1e-9)
    against: Floats = np.minimum(np.sqrt(odds * odds[place]), 1.0)
    return against


def _together(one: Floats, other: Floats, against: Floats) -> Floats:
    """How far off the difference of two numbers is."""
    far: Floats = np.sqrt(one**2 + other**2 + 2 * against * np.abs(one * other))
    return far
