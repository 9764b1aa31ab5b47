"""How far each look moved between two neighbours, and what that move costs.

Two ratios, both of which may not pass 1. *Movement*: what moved, in the norm of the noise, over the sensitivity that
the statistic declares (for a selection: the level that moved most, over the sensitivity that the draw was told).
*Cost*: the cost of just this move under the noise that was *in fact* asked for, over what was *in fact* charged; the
statistic's own sensitivity and the event's own cost do not enter, so a wrong one is seen.

Costs of a move. Gaussian: ‖d‖₂²/(2σ²) in ρ. Laplace: ‖d‖₁/scale in ε, and in ρ the sum of ε·tanh(ε/2) over the
numbers, with ε = |dⱼ|/scale of each. A selection: from the
probabilities of all candidates on both tables, which are those of the very integers that it draws with: the largest
log-ratio in ε, and sup over α of D_α/α, both ways, in ρ. Parts of a partition are paid by one charge, so theirs are
added up first.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from openprior.privacy.auditing.witness import Draw, Look, Witness
from openprior.privacy.events import Event, Exponential, Gaussian, Laplace, Noisy, Selection
from openprior.privacy.pure_cost import pure_rho
from openprior.privacy.selection import PRECISION, rungs
from openprior.privacy.unit import Unit

__all__ = ["Moved", "compare", "own_faults"]

Floats = NDArray[np.float64]
SLACK = 1e-9
"""Of ratios: scales are doubles."""
_ALPHAS = np.concatenate([1 + np.logspace(-3, 0, 25), 1 + np.logspace(0.1, 4, 40)])
_EXACT = 1000
"""Candidates of permute-and-flip up to which its probabilities are computed."""


@dataclass
class Moved:
    """The worst ratios of a pair of runs, and what is wrong with them."""

    movement: float = 0.0
    cost: float = 0.0
    faults: tuple[str, ...] = ()


def own_faults(looks: list[Look], witness: Witness) -> Iterator[str]:
    """What is wrong with a run whatever its neighbours are: noise below its event's, charges past the budget."""
    yield from witness.faults
    for number, look in enumerate(looks, 1):
        yield from _noise_faults(number, look)
    account = witness.account
    if [look.event for look in looks] != account.events:
        yield "charge: the account's events are not what was done"
    spent = sum((look.charge for look in looks), Fraction(0))
    if spent > account.limit:
        yield f"charge: {float(spent):.6g} was charged of a budget of {float(account.limit):.6g}"
    due = pure_rho(spent) if account.pure else float(spent)
    if float(witness.ledger.spent(account.run)) < due * (1 - SLACK):
        yield "charge: the ledger was charged less than the account"


def _noise_faults(number: int, look: Look) -> Iterator[str]:
    event, draws = look.event, look.draws
    wanted = event.draws if isinstance(event, Selection) else 1
    drawn = sum(draw.times for draw in draws)
    if drawn != wanted:
        yield f"noise: event {number} ({event.kind}) drew {drawn} times, not {wanted}"
    for draw in draws:
        if draw.kind != event.kind:
            yield f"noise: event {number} says {event.kind} and drew {draw.kind}"
        elif (ratio := _asked(event, draw)) > 1 + SLACK:
            yield f"noise: event {number} ({event.kind}) drew {1 / ratio:.3g} times the noise that it says"


def _asked(event: Event, draw: Draw) -> float:
    """By how much the noise is smaller than the event says."""
    if isinstance(event, Gaussian):
        return event.sigma / draw.scale
    if isinstance(event, Laplace):
        return event.scale / draw.scale
    assert isinstance(event, Selection)
    return draw.scale / event.epsilon


def compare(first: list[Look], second: list[Look], unit: Unit, *, pure: bool) -> Moved:
    """The looks of a recorded run beside those of its replay on a neighbour."""
    moved, faults = Moved(), []
    costs: dict[int, float] = defaultdict(float)
    charges: dict[int, float] = defaultdict(float)
    for number, (look, other) in enumerate(zip(first, second, strict=False), 1):
        if len(look.draws) != len(other.draws):
            continue  # a difference of the paths, which says so itself
        inside = unit if look.event.part is None else unit.part()
        movement, cost = _of_look(look, other, inside, pure=pure)
        if movement > 1 + SLACK:
            faults.append(f"sensitivity: event {number} ({_words(look)}) moved {movement:.3g} times its own")
        moved.movement = max(moved.movement, movement)
        # One charge pays for all parts of a partition; an event of the whole table is paid by itself.
        payer = -number if look.event.part is None else look.event.part.number
        costs[payer] += cost
        charges[payer] += float(look.charge)
    for payer, cost in costs.items():
        ratio = cost / charges[payer] if charges[payer] > 0 else math.inf if cost > 0 else 0.0
        if ratio > 1 + SLACK:
            what = f"event {-payer} ({_words(first[-payer - 1])})" if payer < 0 else f"partition {payer}"
            faults.append(f"cost: {what} costs {ratio:.3g} times its charge")
        moved.cost = max(moved.cost, ratio)
    moved.faults = tuple(faults)
    return moved


def _words(look: Look) -> str:
    event = look.event
    return f"{event.kind}, {event.statistic.words}" if isinstance(event, Noisy) else event.kind


def _of_look(look: Look, other: Look, unit: Unit, *, pure: bool) -> tuple[float, float]:
    movement = cost = 0.0
    for draw, second in zip(look.draws, other.draws, strict=True):
        if draw.exact.shape != second.exact.shape:
            return math.inf, math.inf
        far = np.abs(draw.exact - second.exact)
        scale = min(draw.scale, second.scale)
        if isinstance(look.event, Noisy) and not draw.sensitivity:
            declared = look.event.statistic.sensitivity(unit)
            l1, squared = float(far.sum()), float((far.astype(np.float64) ** 2).sum())
            gaussian = draw.kind == Gaussian.kind
            ratio = math.sqrt(squared / declared.l2_squared) if gaussian else l1 / declared.l1
            price = (
                (math.inf if squared else 0.0)
                if pure and gaussian
                else (squared / (2 * scale**2) if gaussian else _laplace(far / scale, pure))
            )
        else:
            ratio = float(far.max()) / draw.sensitivity
            price = draw.times * _selection(draw, second, pure)
        movement, cost = max(movement, ratio), cost + price
    return movement, cost


def _laplace(epsilons: Floats, pure: bool) -> float:
    """Of independent ε-DP steps, one per number."""
    return float(np.sum(epsilons if pure else epsilons * np.tanh(epsilons / 2)))


def _selection(draw: Draw, other: Draw, pure: bool) -> float:
    if draw.kind != Exponential.kind and len(draw.exact) > _EXACT:
        moved = np.abs(draw.exact - other.exact).max(keepdims=True) / draw.sensitivity
        return _laplace(moved * draw.scale, pure)
    log_p, log_q = (
        (_exponential_log if d.kind == Exponential.kind else _flip_log)(d.exact, d.sensitivity, d.scale)
        for d in (draw, other)
    )
    gap = log_p - log_q
    if pure:
        return float(np.abs(gap).max())
    return max(_divergence(log_p, gap), _divergence(log_q, -gap))


def _divergence(log_p: Floats, gap: Floats) -> float:
    """The largest D_α(p ‖ q)/α: log E_p[(p/q)^(α−1)] / (α(α−1)); at α = 1, E_p[log p/q]."""
    powers = log_p + np.multiply.outer(_ALPHAS - 1, gap)
    top = powers.max(axis=1)
    sums = top + np.log(np.exp(powers - top[:, None]).sum(axis=1))
    # Differences of a hair are those of doubles, and near α = 1 they would be divided by a hair.
    return float(max(np.sum(np.exp(log_p) * gap), np.max(sums / (_ALPHAS * (_ALPHAS - 1)) - 1e-12), 0.0))


def _log_weights(levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> Floats:
    """Of each candidate, 0 for the best: the logarithms of the integers that selections draw with."""
    gaps, occupied, _, weights = rungs(levels, sensitivity, epsilon)
    logs = [math.log(w) - PRECISION * math.log(2) for w in weights]
    return np.asarray(logs)[np.searchsorted(occupied, gaps)]


def _exponential_log(levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> Floats:
    logs = _log_weights(levels, sensitivity, epsilon)
    return logs - math.log(float(np.exp(logs).sum()))


def _flip_log(levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> Floats:
    """Permute-and-flip: candidates come at uniform times, and i is chosen if its coin shows heads and those of all who
    came before it show tails: q_i·∫₀¹ Π_{j≠i}(1 − t·q_j) dt, a polynomial that Gauss's rule integrates exactly."""
    logs = _log_weights(levels, sensitivity, epsilon)
    heads = np.exp(logs)
    points, weights = np.polynomial.legendre.leggauss(len(heads) // 2 + 1)
    tails = np.log1p(-np.multiply.outer((points + 1) / 2, heads))
    others = np.exp(tails.sum(axis=1, keepdims=True) - tails)
    return np.asarray(logs + np.log((weights / 2) @ others), dtype=np.float64)
