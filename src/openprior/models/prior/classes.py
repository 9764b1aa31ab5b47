"""Two priors from a public table: classes and anchors, each able to reach every cell of the domain.

*Classes*: a latent-class mixture, products of categoricals learnt by expectation maximisation, each smoothed a little
towards the whole table's one-way marginals and those towards uniform. *Anchors*: a public row, each attribute kept with
probability 1 − h and else redrawn from the row's class; h → 0 is the public table itself, h = 1 is the classes. Both
read public rows only.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled
from openprior.counting.local import workers

__all__ = ["Classes", "fit_classes"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.uint16]

_SMOOTHING = 0.5
"""Rows' worth of the whole table's one-way marginals that every class starts with."""
_PIECES = 4
"""Rows are taken in so many pieces, whatever the number of threads, so that sums come out the same."""
_AT_ONCE = 1 << 15
"""Rows that a thread assigns to their classes before it takes others."""


@dataclass(frozen=True, eq=False)
class Classes:
    """A latent-class mixture."""

    shares: Floats
    values: NDArray[np.float32]
    """[class, start of the attribute + value]: the conditional distributions."""
    starts: Ints
    member: NDArray[np.int32]
    """The most probable class of every row it was fitted to."""
    likelihood: float
    """Mean log likelihood of those rows."""

    def assign(self, codes: Codes) -> "Classes":
        """The same classes with the members of another table."""
        member = np.empty(len(codes), np.int32)
        logs = np.log(np.ascontiguousarray(self.values.T))
        log_shares = np.log(self.shares).astype(np.float32)

        def some(begin: int) -> None:
            piece = slice(begin, begin + _AT_ONCE)
            _nearest(codes[piece], self.starts, member[piece], logs, log_shares)

        with ThreadPoolExecutor(workers()) as pool:
            list(pool.map(some, range(0, len(codes), _AT_ONCE)))
        return replace(self, member=member)


def fit_classes(
    codes: Codes, sizes: Ints, count: int, rng: np.random.Generator, *, steps: int = 60
) -> Classes:
    """Expectation maximisation from random memberships; `count` classes."""
    rows = len(codes)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cells = _flat(codes, starts)
    base = np.bincount(cells.reshape(-1), minlength=starts[-1]).astype(np.float64)
    base = (base + 0.5) / (rows + 0.5 * np.repeat(sizes, sizes))
    # At random, most of a row in one or two classes.
    member = rng.random((rows, count), np.float32) ** 10 + np.float32(1e-30)
    member /= member.sum(axis=1, keepdims=True)
    pieces = [slice(i, i + -(-rows // _PIECES)) for i in range(0, rows, -(-rows // _PIECES))]
    likelihood = -np.inf
    with ThreadPoolExecutor(workers()) as pool:

        def each(work: Callable[..., Any], *more: Any) -> Any:
            return sum(pool.map(lambda p: work(cells[p], member[p], *more), pieces))

        for _ in range(steps):
            sums = each(_sums, starts[-1])
            shares = (member.sum(axis=0, dtype=np.float64) + 0.1) / (rows + 0.1 * count)
            values = np.asarray(sums, np.float64) + _SMOOTHING * base[:, None]
            values /= np.repeat(np.add.reduceat(values, starts[:-1], axis=0), sizes, axis=0)
            before = likelihood
            likelihood = (
                each(_members, np.log(values).astype(np.float32), np.log(shares).astype(np.float32)) / rows
            )
            if likelihood - before < 1e-3:
                break
    return Classes(
        shares,
        np.ascontiguousarray(values.T).astype(np.float32),
        starts,
        member.argmax(axis=1).astype(np.int32),
        float(likelihood),
    )


def _flat(codes: Codes, starts: Ints) -> NDArray[np.int32]:
    """Every (attribute, value) as one number."""
    return (codes.astype(np.int64) + starts[:-1]).astype(np.int32)


@compiled()
def _sums(cells, member, total):  # type: ignore[no-untyped-def]
    """Membership per (attribute, value) and class."""
    out = np.zeros((total, member.shape[1]), np.float32)
    for r in range(len(cells)):
        for a in range(cells.shape[1]):
            row = out[cells[r, a]]
            for k in range(member.shape[1]):
                row[k] += member[r, k]
    return out


@compiled(fastmath=True)
def _members(cells, member, logs, log_shares):  # type: ignore[no-untyped-def]
    """The memberships of every row, in place; the log likelihood."""
    likelihood, classes = 0.0, len(log_shares)
    total = np.empty(classes, np.float32)
    for r in range(len(cells)):
        for k in range(classes):
            total[k] = log_shares[k]
        for a in range(cells.shape[1]):
            row = logs[cells[r, a]]
            for k in range(classes):
                total[k] += row[k]
        peak, mass = total[0], np.float32(0.0)
        for k in range(classes):
            peak = max(peak, total[k])
        for k in range(classes):
            member[r, k] = np.exp(total[k] - peak)
            mass += member[r, k]
        for k in range(classes):
            member[r, k] /= mass
        likelihood += np.log(mass) + peak
    return likelihood


@compiled(fastmath=True)
def _nearest(codes, starts, member, logs, log_shares):  # type: ignore[no-untyped-def]
    """The most probable class of every row, into member."""
    classes = len(log_shares)
    total = np.empty(classes, np.float32)
    for r in range(len(codes)):
        for k in range(classes):
            total[k] = log_shares[k]
        for a in range(codes.shape[1]):
            row = logs[starts[a] + codes[r, a]]
            for k in range(classes):
                total[k] += row[k]
        best = 0
        for k in range(classes):
            if total[k] > total[best]:
                best = k
        member[r] = best
