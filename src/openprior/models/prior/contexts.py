"""Rows sorted by context, and what one more parent would say about them: the compiled loops behind the networks.

For one attribute and a list of parents, a *context* is a combination of the parents' values that occurs, and a *cell* a
context with a value of the attribute. The leave-one-out probability of a row is the same for all rows of its cell,
(n − 1 + s·q) / (N − 1 + s) with n the rows of the cell, N those of its context, and q the same one parent
earlier. So a likelihood is a sum over cells and a sum over contexts, Σ n·log(n − 1 + s·q) − Σ N·log(N − 1 + s), and a
cell of one row gives log s + log q without a logarithm of its own. Rows stand sorted by context and value, so a
further parent only divides runs of rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["STRENGTHS", "Contexts", "best_strength", "divide", "give_back", "logs_of", "start", "try_parents"]

STRENGTHS = np.array([0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
"""Rows' worth of the shorter context that a longer one starts with; one of them is chosen for each level."""
_ROUNDING = 1e-9
"""A gain per row that may be rounding: of strengths that are as good, the smallest is taken."""


class Contexts(NamedTuple):
    """The rows of a table by the contexts of one attribute."""

    order: NDArray[np.int32]
    """Rows, sorted by context and then by value."""
    context: NDArray[np.int32]
    """Of each row."""
    cell: NDArray[np.int32]
    """Of each row."""
    starts: NDArray[np.int32]
    """[cell]: where its rows begin in `order`; at last the number of rows."""
    firsts: NDArray[np.int32]
    """[context]: its first cell; at last the number of cells."""
    back: NDArray[np.float64]
    """[cell]: q, the leave-one-out probability of its rows."""


@compiled()
def _sort(order, key, size):  # type: ignore[no-untyped-def]
    """These rows by their keys, rows of one key as they stand."""
    ends = np.zeros(size + 1, np.int32)
    for r in order:
        ends[key[r] + 1] += 1
    for k in range(size):
        ends[k + 1] += ends[k]
    out = np.empty_like(order)
    for r in order:
        out[ends[key[r]]] = r
        ends[key[r]] += 1
    return out


@compiled()
def start(values, size):  # type: ignore[no-untyped-def]
    """One context with all rows, before any parent; q is uniform."""
    rows = len(values)
    order = np.empty(rows, np.int32)
    for i in range(rows):
        order[i] = i
    order = _sort(order, values, size)
    cell, starts = np.empty(rows, np.int32), np.empty(min(size, rows) + 1, np.int32)
    cells = 0
    for i in range(rows):
        if i == 0 or values[order[i]] != values[order[i - 1]]:
            starts[cells] = i
            cells += 1
        cell[order[i]] = cells - 1
    starts[cells] = rows
    firsts, back = np.zeros(2, np.int32), np.empty(cells)
    firsts[1] = cells
    for i in range(cells):
        back[i] = 1.0 / size
    return Contexts(order, np.zeros(rows, np.int32), cell, starts[: cells + 1].copy(), firsts, back)


@compiled()
def divide(c, by_value, parent, size):  # type: ignore[no-untyped-def]
    """The contexts with one more parent; q is still that of the shorter context."""
    rows = len(by_value)
    order = _sort(_sort(by_value, parent, size), c.context, len(c.firsts) - 1)
    context, cell = np.empty(rows, np.int32), np.empty(rows, np.int32)
    starts, firsts = np.empty(rows + 1, np.int32), np.empty(rows + 1, np.int32)
    back = np.empty(rows)
    contexts = cells = 0
    for i in range(rows):
        r = order[i]
        before = order[i - 1]
        another = i == 0 or c.context[r] != c.context[before] or parent[r] != parent[before]
        if another:
            firsts[contexts] = cells
            contexts += 1
        if another or c.cell[r] != c.cell[before]:
            starts[cells], back[cells] = i, c.back[c.cell[r]]
            cells += 1
        context[r], cell[r] = contexts - 1, cells - 1
    starts[cells], firsts[contexts] = rows, cells
    return Contexts(
        order, context, cell, starts[: cells + 1].copy(), firsts[: contexts + 1].copy(), back[:cells].copy()
    )


@compiled()
def best_strength(c, strengths):  # type: ignore[no-untyped-def]
    """The largest mean log of the leave-one-out probability, and its strength."""
    best, at = -np.inf, strengths[0]
    for s in strengths:
        total = 0.0
        for k in range(len(c.firsts) - 1):
            whole = c.starts[c.firsts[k + 1]] - c.starts[c.firsts[k]]
            total -= whole * np.log(whole - 1 + s)
        for i in range(len(c.back)):
            n = c.starts[i + 1] - c.starts[i]
            total += n * np.log(n - 1 + s * c.back[i])
        if total > best + _ROUNDING * len(c.order):
            best, at = total, s
    return best / max(len(c.order), 1), at


@compiled()
def give_back(c, s):  # type: ignore[no-untyped-def]
    """Put the leave-one-out probabilities of these contexts in place of those of the shorter ones."""
    for k in range(len(c.firsts) - 1):
        first, last = c.firsts[k], c.firsts[k + 1]
        whole = c.starts[last] - c.starts[first]
        for i in range(first, last):
            c.back[i] = (c.starts[i + 1] - c.starts[i] - 1 + s * c.back[i]) / (whole - 1 + s)


def logs_of(rows: int) -> NDArray[np.float64]:
    """[strength, N] N·log(N − 1 + s), for every N up to so many rows."""
    whole = np.arange(rows + 1.0)
    return np.asarray(whole * np.log(np.maximum(whole - 1, 0.0) + STRENGTHS[:, None]))


@compiled(fastmath=True)
def _sum_logs(times, back, count, s):  # type: ignore[no-untyped-def]
    """Σ n·log(n − 1 + s·q) in single precision, eight at a time: 2^e·m, and log m as a series in (m − 1)/(m + 1)."""
    numbers = np.empty(count, np.float32)
    bits = numbers.view(np.int32)
    strength = np.float32(s)
    for i in range(count):
        numbers[i] = times[i] - np.float32(1.0) + strength * back[i]
    total = 0.0
    powers = np.empty(count, np.float32)
    for i in range(count):
        power = (bits[i] - np.int32(0x3F3504F3)) >> np.int32(23)
        bits[i] -= power << np.int32(23)
        powers[i] = power
    for i in range(count):
        m = numbers[i]
        t = (m - np.float32(1.0)) / (m + np.float32(1.0))
        u = t * t
        series = np.float32(2.0) + u * (
            np.float32(0.6666667) + u * (np.float32(0.4) + u * np.float32(0.2857143))
        )
        total += times[i] * (powers[i] * np.float32(0.6931472) + t * series)
    return total


@compiled()
def try_parents(c, columns, sizes, parents, strengths, logs, most, values, chosen):  # type: ignore[no-untyped-def]
    """For each of these parents: the largest mean log of the leave-one-out probability and the place of its strength.

    A parent that would make more than `most` contexts has −∞.
    """
    rows = len(c.order)
    own = np.empty(rows, np.uint16)
    times, back = np.empty(rows, np.float32), np.empty(rows, np.float32)
    wholes = np.empty(rows, np.int32)
    widest = 0
    for b in parents:
        widest = max(widest, sizes[b])
    in_cell, in_context = np.zeros(widest, np.int32), np.zeros(widest, np.int32)
    log_back = np.empty(len(c.back))
    for i in range(len(c.back)):
        log_back[i] = np.log(c.back[i])
    for j in range(len(parents)):
        column = columns[parents[j]]
        for i in range(rows):
            own[i] = column[c.order[i]]
        size = sizes[parents[j]]
        singles, constant, several, contexts = 0, 0.0, 0, 0
        for k in range(len(c.firsts) - 1):
            for cell in range(c.firsts[k], c.firsts[k + 1]):
                low, high = c.starts[cell], c.starts[cell + 1]
                if high - low == 1:
                    in_context[own[low]] += 1
                    singles += 1
                    constant += log_back[cell]
                    continue
                for i in range(low, high):
                    in_cell[own[i]] += 1
                all_values = high - low > size
                for i in range(size if all_values else high - low):
                    v = i if all_values else np.int64(own[low + i])
                    n = in_cell[v]
                    if n == 0:
                        continue
                    in_cell[v] = 0
                    in_context[v] += n
                    if n == 1:
                        singles += 1
                        constant += log_back[cell]
                    else:
                        times[several], back[several] = n, c.back[cell]
                        several += 1
            low, high = c.starts[c.firsts[k]], c.starts[c.firsts[k + 1]]
            all_values = high - low > size
            for i in range(size if all_values else high - low):
                v = i if all_values else np.int64(own[low + i])
                n = in_context[v]
                if n > 0:
                    in_context[v] = 0
                    wholes[contexts] = n
                    contexts += 1
        values[j], chosen[j] = -np.inf, 0
        for k in range(len(strengths)):
            total = constant + singles * np.log(strengths[k]) + _sum_logs(times, back, several, strengths[k])
            for i in range(contexts):
                total -= logs[k, wholes[i]]
            if total > values[j] + _ROUNDING * rows:
                values[j], chosen[j] = total, k
        if contexts > most:
            values[j] = -np.inf
        values[j] /= max(rows, 1)
