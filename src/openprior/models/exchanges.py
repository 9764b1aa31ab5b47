"""The compiled loops of the search for rows: offers for many rows at once, and the exchanges one by one.

State: `counts`, how often each particle is a row; `excess`, count minus target of every cell; `ease`, what a cell's
excess weighs when offers are looked for. Offers only read it, so parts of them run side by side with one outcome;
exchanges write it, one after the other.
"""

import numpy as np

from openprior.compiled import compiled

__all__ = ["exchange", "judge", "offer", "promises"]

_LANES = 512
"""Particles looked up at once: enough for vector instructions, few enough for their cells to stay in the cache."""
_TINY, _ONE, _TWO = np.float32(1e-3), np.float32(1), np.float32(2)


@compiled(fastmath=True)
def promises(nodes, codes, rows, excess, ease, join, leave):  # type: ignore[no-untyped-def]
    """Add what the discrepancy changes by if each of these particles is a row more, and a row less.

    One more in a cell with excess e changes |e| by 1 + 2e, one less by 1 − 2e, both cut to [−1, 1]. Other
    exchanges come in between; in a large cell they are many, so its excess of now counts for less: `ease`.
    """
    digits = np.empty((codes.shape[1], _LANES), np.uint32)
    numbers = np.zeros((codes.shape[1] + 1, _LANES), np.uint32)
    over, eases = np.empty(_LANES, np.float32), np.empty(_LANES, np.float32)
    for first in range(0, len(rows), _LANES):
        lanes = min(_LANES, len(rows) - first)
        for i in range(lanes):
            for c in range(codes.shape[1]):
                digits[c, i] = codes[rows[first + i], c]
        more, less = join[first : first + lanes], leave[first : first + lanes]
        for n in range(len(nodes)):
            depth, column, radix, start = nodes[n]
            above, here, digit = numbers[depth], numbers[depth + 1], digits[column]
            for i in range(lanes):
                here[i] = above[i] * np.uint32(radix) + digit[i]
            if start < 0:
                continue
            for i in range(lanes):
                over[i], eases[i] = excess[start + here[i]], ease[start + here[i]]
            for i in range(lanes):
                tilt = _TWO * eases[i] * over[i]
                more[i] += min(max(eases[i] + tilt, -_ONE), _ONE)
                less[i] += min(max(eases[i] - tilt, -_ONE), _ONE)


@compiled()
def offer(codes, rows, ends, overlap, counts, join, leave, pairs):  # type: ignore[no-untyped-def]
    """Offer the place of every row to the particle of its segment that promises most; returns how many were offered.

    `ends` says where segments end in `rows`. A promise is the row's of leaving and the particle's of joining, less what
    they share, which does not change: `overlap` has the part of all marginals that lie within so many columns. A
    particle that was offered a place is offered no other.
    """
    columns, found, begin = codes.shape[1], 0, 0
    for end in ends:
        for i in range(begin, end):
            if counts[rows[i]] == 0:
                continue
            own = join[i] + leave[i]
            lowest, best = np.float32(0), -1
            for j in range(begin, end):
                if leave[i] + join[j] - overlap[columns] * own >= lowest or j == i:
                    continue
                same = 0
                for c in range(columns):
                    same += codes[rows[i], c] == codes[rows[j], c]
                promise = leave[i] + join[j] - overlap[same] * own
                if promise < lowest:
                    lowest, best = promise, j
            if best >= 0:
                pairs[found, 0], pairs[found, 1] = rows[i], rows[best]
                join[best] = np.inf
                found += 1
        begin = end
    return found


@compiled(fastmath=True)
def judge(nodes, codes, pairs, excess, change):  # type: ignore[no-untyped-def]
    """Add to change[i] what the discrepancy changes by if pairs[i, 0] gives its place to pairs[i, 1]."""
    old, new = (
        np.empty((codes.shape[1], _LANES), np.uint32),
        np.empty((codes.shape[1], _LANES), np.uint32),
    )
    depths = codes.shape[1] + 1
    olds, news = np.zeros((depths, _LANES), np.uint32), np.zeros((depths, _LANES), np.uint32)
    less, more = np.empty(_LANES, np.float32), np.empty(_LANES, np.float32)
    for first in range(0, len(pairs), _LANES):
        lanes = min(_LANES, len(pairs) - first)
        for i in range(lanes):
            for c in range(codes.shape[1]):
                old[c, i], new[c, i] = codes[pairs[first + i, 0], c], codes[pairs[first + i, 1], c]
        total = change[first : first + lanes]
        for n in range(len(nodes)):
            depth, column, radix, start = nodes[n]
            _number(olds[depth], old[column], radix, olds[depth + 1], lanes)
            _number(news[depth], new[column], radix, news[depth + 1], lanes)
            if start < 0:
                continue
            here, there = olds[depth + 1], news[depth + 1]
            for i in range(lanes):
                less[i], more[i] = excess[start + here[i]], excess[start + there[i]]
            for i in range(lanes):
                both = min(max(_ONE - _TWO * less[i], -_ONE), _ONE)
                both += min(max(_ONE + _TWO * more[i], -_ONE), _ONE)
                total[i] += both if here[i] != there[i] else np.float32(0)


@compiled(inline="always")
def _number(above, digit, radix, here, lanes):  # type: ignore[no-untyped-def]
    for i in range(lanes):
        here[i] = above[i] * np.uint32(radix) + digit[i]


@compiled(fastmath=True)
def exchange(nodes, codes, pairs, counts, excess):  # type: ignore[no-untyped-def]
    """Make the exchanges that lower the discrepancy as it is by then; returns how many, and by how much."""
    depths = codes.shape[1] + 1
    olds, news = np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    less, more = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    made, gained = 0, 0.0
    for i in range(len(pairs)):
        old, new = codes[pairs[i, 0]], codes[pairs[i, 1]]
        if counts[pairs[i, 0]] == 0:
            continue
        cells = 0
        for n in range(len(nodes)):
            depth, column, radix, start = nodes[n]
            here, there = olds[depth] * radix + old[column], news[depth] * radix + new[column]
            olds[depth + 1], news[depth + 1] = here, there
            if start >= 0 and here != there:
                less[cells], more[cells] = start + here, start + there
                cells += 1
        change = np.float32(0)
        for k in range(cells):
            change += min(max(_ONE - _TWO * excess[less[k]], -_ONE), _ONE)
            change += min(max(_ONE + _TWO * excess[more[k]], -_ONE), _ONE)
        if change > -_TINY:
            continue
        for k in range(cells):
            excess[less[k]] -= _ONE
            excess[more[k]] += _ONE
        counts[pairs[i, 0]] -= 1
        counts[pairs[i, 1]] += 1
        made += 1
        gained -= float(change)
    return made, gained
