"""Raking: weights on particles that meet noisy marginals, as closely as their noise deserves.

For every measured marginal the block step minimises KL(p‖p₀) + Σ (y − m)²/(2c) over that marginal's θ alone, with the
total held: per cell m + c·(log(m/m₀) − κ) = y, where m₀ is the mass without the block's θ and κ keeps Σm = n. On fixed
particles this is exact coordinate ascent of a concave dual, so a pass can only improve the fit. Two things keep sparse
particles from being bent to the noise: a cell's θ may move by at most `reach` until the particles are drawn anew, and
the *stiffness* c of a cell is chosen when it is measured (see `stiffness`).

A cell that holds no particle cannot be weighted up. If its measurement stands out of the noise it gets θ as if it held
its share of the mass that Good and Turing's estimate gives to all unseen cells, so that moves can find it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["TRUSTS", "believed", "most_likely", "rake", "stiffness", "trust_evidence"]

Floats = NDArray[np.float64]

TRUSTS = np.exp(np.linspace(math.log(1e-5), math.log(30.0), 60))
"""The values of λ that are considered."""
_FEW_CELLS = 1 << 13
"""Of a block whose mass is added up in four sums at a time."""
_FAR = 10.0
"""The most that κ may be. Where noise is small, κ hardly moves what a cell should have, and what cells without
particles leave to the others is better shared out by their mass, which comes after the step."""


def trust_evidence(values: Floats, expected: Floats, variance: float) -> Floats:
    """For every λ in TRUSTS the log likelihood of a measurement, when the model expected something else.

    If the model's error in a cell has variance m/λ, the innovation y − m has variance σ² + m/λ. Where the noise hides
    everything, all λ are about as likely.
    """
    squares = (values - expected) ** 2
    spreads = (expected / trusted + variance for trusted in TRUSTS)  # one at a time: a marginal may be large
    return np.array([-0.5 * float((np.log(spread) + squares / spread).sum()) for spread in spreads])


def most_likely(evidence: Floats, centre: float, spread: float) -> float:
    """The λ of the highest likelihood times a log-normal prior around `centre`."""
    return float(TRUSTS[np.argmax(evidence - np.log(TRUSTS / centre) ** 2 / (2 * spread**2))])


def believed(
    values: Floats, expected: Floats, variance: float, trusted: float, least: float
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """What a careful reader makes of noisy counts, by what the model expected; which cells stand out of the noise, and
    which would have fallen below what noise can tell.

    A careful reader shrinks y towards the model by the ratio of their variances; believes what stands out by more than
    √(2 log cells) + 2 standard deviations, however small the mass there was; and lets noise take no cell below 0.3 σ,
    because noise of that size cannot tell it from zero. `least` is the smallest mass taken seriously.
    """
    sigma = math.sqrt(variance)
    start = np.maximum(expected, least)
    spread = start / trusted
    gain = spread / (spread + variance)
    beyond = values - start
    stands_out = beyond > (math.sqrt(2 * math.log(max(len(values), 2))) + 2) * sigma
    gain = np.where(stands_out, np.maximum(gain, 1 - 0.5 * sigma / np.maximum(beyond, sigma)), gain)
    shrunk = start + gain * beyond
    wished = np.maximum(shrunk, np.minimum(start, 0.3 * sigma))
    return wished, stands_out, wished > shrunk


def stiffness(
    values: Floats, expected: Floats, variance: float, trusted: float, least: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """c for every cell, such that the block step moves the expected mass where a careful reader would; and which cells
    stand out of the noise.

    Without this, the logarithm would let noise into thousands of cells that are nearly empty, and drive to e⁻⁵⁰ what
    noise happened to make negative.
    """
    wished, stands_out, floored = believed(values, expected, variance, trusted, least)
    moved = np.log(wished / np.maximum(expected, least))
    small = np.abs(moved) < 1e-6
    c = np.where(
        small, np.where(floored, 1e3, trusted) * variance, (values - wished) / np.where(small, 1.0, moved)
    )
    least_stiff = np.where(stands_out, 1e-3, max(trusted * variance, 1e-3))
    return np.clip(c, least_stiff, 1e3 * variance), stands_out


@compiled()
def _solve(right, c, t):  # type: ignore[no-untyped-def]
    """t with eᵗ + c·t = right, by Newton's method from a guess."""
    for _ in range(12):
        e = math.exp(t)
        step = min(max((e + c * t - right) / (e + c), -2.0), 2.0)
        t -= step
        if abs(step) < 1e-3:  # the error that is left is about its square
            break
    return max(t, -25.0)


@compiled()
def _unseen(mass, particle):  # type: ignore[no-untyped-def]
    """The log of the mass that one cell without particles gets."""
    once, none = 0, 0
    for m in mass:
        if m <= 0:
            none += 1
        elif m < 1.5 * particle:
            once += 1
    return math.log(min(particle * (once + 0.5) / max(none, 1), 0.3 * particle))


@compiled()
def rake(  # type: ignore[no-untyped-def]
    cells, weights, starts, values, c, stands_out, theta, before, reach, total, missing, kappa, gaps, held
):
    """One pass over all blocks, the newest first: θ and the weights move in place; `gaps` gets the mass that each block
    moved, `held` the mass that it would have moved beyond its reach.

    `cells` [block, particle] are cell numbers within the block; `before` is θ when the particles were drawn; `missing`
    is the mass that a block's cells without particles should have; `kappa` the multipliers, kept as a warm start. The
    weights by one block and the mass of the next are one loop over the particles.
    """
    blocks, largest = len(cells), 0
    for b in range(blocks):
        largest = max(largest, starts[b + 1] - starts[b])
    mass, ratio, lanes = (
        np.empty(largest),
        np.ones(largest),
        np.zeros(max(largest, 4 * min(largest, _FEW_CELLS))),
    )
    b = blocks - 1
    _move_on(weights, cells[b], ratio, cells[b], lanes, mass[: starts[b + 1] - starts[b]])
    for turn in range(blocks):
        b = blocks - 1 if turn == 0 else turn - 1
        s, k = starts[b], starts[b + 1] - starts[b]
        _step(
            b, mass[:k], ratio[:k], values[s : s + k], c[s : s + k], stands_out[s : s + k], theta[s : s + k],
            before[s : s + k], reach, total, total / len(weights), missing, kappa, gaps, held,
        )  # fmt: skip
        n = min(turn, blocks - 2) if blocks > 1 else 0
        _move_on(weights, cells[b], ratio, cells[n], lanes, mass[: starts[n + 1] - starts[n]])


@compiled()
def _move_on(weights, own, ratio, following, lanes, mass):  # type: ignore[no-untyped-def]
    """The weights by a block's ratios, and the mass of the cells of the next block.

    Neighbours often fall into the same cell, and a sum must wait for the one before: where cells are few, four sums
    take turns, and are added up in the end. `lanes` are zeros, and are left so.
    """
    n, few = len(weights), len(mass) <= _FEW_CELLS
    step = np.uint32(4 if few else 1)
    one, two, three = np.uint32(few), np.uint32(2 * few), np.uint32(3 * few)
    for q in range(n // 4):
        i = 4 * q
        w, x = weights[i] * ratio[own[i]], weights[i + 1] * ratio[own[i + 1]]
        y, z = weights[i + 2] * ratio[own[i + 2]], weights[i + 3] * ratio[own[i + 3]]
        weights[i], weights[i + 1], weights[i + 2], weights[i + 3] = w, x, y, z
        lanes[following[i] * step] += w
        lanes[following[i + 1] * step + one] += x
        lanes[following[i + 2] * step + two] += y
        lanes[following[i + 3] * step + three] += z
    for i in range(n - n % 4, n):
        weights[i] *= ratio[own[i]]
        lanes[following[i] * step] += weights[i]
    for j in range(len(mass)):
        first = j * step
        mass[j] = lanes[first]
        lanes[first] = 0.0
        if few:
            mass[j] += (lanes[first + 1] + lanes[first + 2]) + lanes[first + 3]
            lanes[first + 1] = lanes[first + 2] = lanes[first + 3] = 0.0


@compiled()
def _step(  # type: ignore[no-untyped-def]
    b, mass, ratio, values, c, stands_out, theta, before, reach, total, particle, missing, kappa, gaps, held
):
    """The block step: θ of a block's cells by their mass, and the ratio by which each cell's weights change."""
    k = len(mass)
    unseen, scale = _unseen(mass, particle), (total - missing[b]) / total
    active = np.empty(k, np.int64)
    base, now, new = np.empty(k), np.empty(k), np.empty(k)
    n = 0
    for j in range(k):
        if mass[j] > 0:
            now[j] = math.log(mass[j] * scale)
            base[j], new[j] = now[j] + theta[j], now[j]
        elif stands_out[j]:
            base[j], new[j] = unseen, unseen - theta[j]
        else:
            theta[j] = 0.0
            continue
        active[n] = j
        n += 1
    beyond = 0.0
    for _ in range(4):
        sum_, slope, beyond = 0.0, 0.0, 0.0
        for j in active[:n]:
            t = _solve(values[j] + c[j] * (base[j] + kappa[b]), c[j], new[j])
            wish = t
            if mass[j] > 0:
                middle = base[j] - before[j]
                t = min(max(t, middle - reach), middle + reach)
            if t != wish:
                beyond += abs(math.exp(wish) - math.exp(t))
            new[j], e = t, math.exp(t)
            sum_ += e
            slope += c[j] * e / (e + c[j])
        excess = sum_ - total
        if abs(excess) < 1e-5 * total:
            break
        kappa[b] = min(max(kappa[b] - min(max(excess / slope, -2.0), 2.0), -_FAR), _FAR)
    ratio[:], held[b] = 1.0, beyond
    gaps[b], missing[b], kept = 0.0, 0.0, 0.0
    for j in active[:n]:
        theta[j] = base[j] - new[j]
        if mass[j] > 0:
            gaps[b] += abs(math.exp(new[j]) - mass[j] * scale)
            ratio[j] = math.exp(new[j] - now[j])
            kept += mass[j] * ratio[j]
        else:
            missing[b] += math.exp(new[j])
    missing[b] = min(missing[b], 0.5 * total)
    for j in range(k):
        ratio[j] *= total / kept
