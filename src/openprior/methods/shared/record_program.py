"""The best record as an integer program, solved by HiGHS.

A variable x per column and value that some query asks for, at most one of them 1 in a column (exactly one if all of its
values are asked for), and a variable c per query. A query of weight w > 0 has c ≤ x for each value it asks for; one of
weight −w has c ≥ Σx − (K − 1) for its K values; Σ w·c is maximised. Where x is whole, so is c, so only x needs to be.

Limits. The number of nodes is what binds, as it depends on the program alone: the same draws give the same record on
any machine. A limit in seconds stands far behind it, and who reaches it is told.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.methods.shared.best_record import WeightedQueries

__all__ = ["Solved", "solved"]

_NODES = 200
_SECONDS = 120.0
_STOPPED = 1
"""SciPy's status of a program that reached one of its limits."""


@dataclass(frozen=True, eq=False)
class Solved:
    """What the program found, if it found anything."""

    values: dict[int, int] | None
    """The value of each column that is in the cell of some query; other columns have a value that none asks for."""
    by_the_clock: bool
    """Whether the limit in seconds stopped it, so that another machine may find another record."""


def solved(queries: WeightedQueries, sizes: tuple[int, ...]) -> Solved:
    """The best record within the limits."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    asked, place = np.unique(
        np.stack([queries.columns.ravel(), queries.codes.ravel()], axis=1), axis=0, return_inverse=True
    )
    place = place.reshape(queries.columns.shape)
    matrix, most, least = _conditions(queries, sizes, asked, place)
    values = len(asked)
    found = milp(
        np.concatenate([np.zeros(values), -queries.weights]),
        integrality=np.concatenate([np.ones(values), np.zeros(len(queries.weights))]),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, least, most),
        options={"node_limit": _NODES, "time_limit": _SECONDS},
    )
    by_the_clock = found.status == _STOPPED and (found.mip_node_count or 0) < _NODES
    if found.x is None:
        return Solved(None, by_the_clock)
    chosen = asked[found.x[:values] > 0.5]
    return Solved({int(column): int(code) for column, code in chosen}, by_the_clock)


def _conditions(
    queries: WeightedQueries, sizes: tuple[int, ...], asked: NDArray[np.int64], place: NDArray[np.int64]
) -> tuple[object, NDArray[np.float64], NDArray[np.float64]]:
    """The conditions as lines of a sparse matrix, with what each may be at most and at least."""
    from scipy.sparse import csr_array

    lines: list[tuple[list[int], list[float], float, float]] = []
    for column in np.unique(asked[:, 0]):
        mine = np.flatnonzero(asked[:, 0] == column).tolist()
        least = 1.0 if len(mine) == sizes[column] else -np.inf
        lines.append((mine, [1.0] * len(mine), 1.0, least))
    for i, weight in enumerate(queries.weights):
        mine, met = np.unique(place[i]).tolist(), len(asked) + i
        if weight > 0:
            lines += [([met, x], [1.0, -1.0], 0.0, -np.inf) for x in mine]
        else:
            lines.append(([met, *mine], [-1.0] + [1.0] * len(mine), len(mine) - 1.0, -np.inf))
    ends = np.cumsum([0, *(len(line[0]) for line in lines)])
    numbers = np.concatenate([line[0] for line in lines])
    factors = np.concatenate([line[1] for line in lines])
    matrix = csr_array((factors, numbers, ends), shape=(len(lines), len(asked) + len(queries.weights)))
    return matrix, np.array([line[2] for line in lines]), np.array([line[3] for line in lines])
