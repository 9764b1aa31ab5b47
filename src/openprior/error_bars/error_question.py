"""Asking how wrong a finished model is: which cells, in which strata, and what share of the budget.

The model is a function of what was released, so what is asked follows from released things and public ones. The step is
one measurement; its share was held back while the mechanism ran.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.error_bars.asked_tables import (
    CONTRASTS,
    Pair,
    factors_of,
    numbers_of_columns,
    shares_of,
    tables_by_columns,
)
from openprior.error_bars.bars import MOST_NOISE, MOST_NUMBER, ErrorBars
from openprior.error_bars.contrasts import contrasts_of
from openprior.error_bars.curve_prior import Beforehand, Own
from openprior.error_bars.model_answers import answers_of
from openprior.error_bars.strata import STRATA, Sizes, level_of, stratum_of
from openprior.error_bars.widening import MEAN_TO_SD
from openprior.models.base import Model
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.error_strata import ROW_STEPS, Apart, CellsApart, ErrorStrata
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.workload import Marginal, Workload
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Finished", "KnownWell", "default_share", "measure_errors"]

Floats = NDArray[np.float64]
KnownWell = Callable[[Marginal, Floats], NDArray[np.bool_] | None]
"""Told a marginal and the model's answers: which cells have an interval of their own in any case; None: none."""

SizesOf = Callable[[Mapping[Marginal, Floats]], Mapping[Marginal, Floats]]
"""Told answers: by what size of each cell errors go."""

_TELLING, _FIRST = 16, 2
"""Marginals, and the first stratum, in which a model's own standard errors are looked at."""
_PRECISE, _LEAST, _MOST_SHARE = 0.01, 0.01, 0.03
"""The sum of errors should be known to so much, for no less and no more of the budget than this."""
_TRIED, _TOGETHER = 32, 256
"""Marginals by which errors are guessed, and of which answers are held at once."""


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished model, and what follows from it and from what was measured."""

    model: Model
    sizes: SizesOf
    known: KnownWell


def measure_errors(
    curator: Curator,
    finished: Finished,
    workload: Workload,
    rho: float,
    known: Beforehand,
    rng: np.random.Generator,
) -> ErrorBars | None:
    """The errors of a model's answers to the workload and all it implies, for ρ; None if every cell is known anyway."""
    layout = curator.layout
    with phase("measuring the error"):
        groups = tables_by_columns(workload.marginals, layout.domain, rng)
        pairs = [pair for some in groups.values() for pair in some]
        contrasts, spread = contrasts_of(finished.model, pairs, layout.domain, layout.ordered, 0, rng)
        asked, of_group = [list[Apart](contrasts)], {CONTRASTS: spread}
        for columns, some in groups.items():
            cells, of_group[columns] = _stratified(finished, some, group=len(asked))
            asked.append(list(cells))
        if not any(len(sizes.size) for columns, sizes in of_group.items() if columns != CONTRASTS):
            return None
        if not contrasts:
            del of_group[CONTRASTS], asked[0]
            asked = [[replace(a, group=g) for a in some] for g, some in enumerate(asked)]
        factors = factors_of([len(some) for some in asked], contrasts=bool(contrasts))
        statistic = ErrorStrata.of(STRATA, factors, tuple(itertools.chain.from_iterable(asked)))
        noise = "laplace" if curator.is_pure else "gaussian"
        measured = curator.measure(statistic, rho, noise=noise)
    known = replace(known, own=_own_word(finished.model, groups[max(groups)], rng))
    values = tuple(min(max(int(v), -MOST_NUMBER), MOST_NUMBER) for v in measured.values)
    described = replace(statistic, asked=())
    sizes = tuple(of_group.values())
    return ErrorBars(described, measured.sigma, tuple(of_group), sizes, values, workload.marginals, known)


def _stratified(finished: Finished, pairs: Sequence[Pair], *, group: int) -> tuple[list[CellsApart], Sizes]:
    """Every cell's reference and stratum; and how many cells there are of which size."""
    cells: list[CellsApart] = []
    kept: list[tuple[Floats, Floats]] = []
    for (own, within), estimate, size in _answered(finished, pairs):
        stratum, keeps = stratum_of(size), finished.known(own, estimate)
        if keeps is not None:
            stratum[keeps] = -1
        steps = np.rint(estimate * ROW_STEPS).astype(np.int64)
        cells.append(CellsApart(own, group, steps, stratum, None if own == within else within))
        inside = size[stratum >= 0]
        kept.append((inside, np.ones(len(inside))))
    return cells, Sizes.of(kept, len(pairs))


def _answered(finished: Finished, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Floats, Floats]]:
    """The model's answers and sizes, some hundred marginals at a time."""
    for start in range(0, len(pairs), _TOGETHER):
        some = pairs[start : start + _TOGETHER]
        answers = answers_of(finished.model, [own for own, _ in some])
        sizes = finished.sizes(answers)
        for pair in some:
            yield pair, answers[pair[0]], sizes[pair[0]]


def _own_word(model: Model, pairs: Sequence[Pair], rng: np.random.Generator) -> Own | None:
    """What errors the model itself expects of its cells, by stratum."""
    some = [pairs[i][0] for i in rng.permutation(len(pairs))[:_TELLING]]
    answers, errors = model.estimates(some)
    if errors is None:
        return None
    estimate = np.concatenate([answers[m] for m in some])
    error, stratum = np.concatenate([errors[m] for m in some]), stratum_of(estimate)
    sizes, expected = [], []
    for s in range(_FIRST, STRATA):
        inside = stratum == s
        if inside.any() and error[inside].mean() > 0:
            sizes.append(float(np.exp(level_of(estimate[inside]).mean())))
            expected.append(float(error[inside].mean()) / MEAN_TO_SD)
    return Own(tuple(sizes), tuple(expected)) if sizes else None


def default_share(
    workload: Workload,
    public: Table | None,
    rows: int | None,
    unit: Unit,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> float:
    """What share of the budget makes the sum of a marginal's errors known to 1 %, from 1 to 3 %; none at all where even
    the most would leave more noise than there can be errors.

    How large the errors will be is guessed from public things: that a cell's is about the root of its count.
    """
    some = [workload.marginals[i] for i in rng.permutation(len(workload.marginals))[:_TRIED]]
    shares = shares_of(len(numbers_of_columns(workload.marginals)), contrasts=True)
    if delta == 0:
        whole, of_noise = epsilon, math.sqrt(2) * unit.l1 * sum(shares)

        def deviation(share: float) -> float:
            return of_noise / (share * whole)
    else:
        whole, of_noise = budget_rho(epsilon, delta), unit.l1 * math.sqrt(sum(s * s for s in shares) / 2)

        def deviation(share: float) -> float:
            return of_noise / math.sqrt(share * whole)

    n = rows if rows is not None else None if public is None else public.n
    if n is not None and deviation(_MOST_SHARE) * math.sqrt(STRATA / 2) > MOST_NOISE * n:
        return 0.0
    guessed = _guess(some, workload.domain, public, rows)
    if guessed is None:
        return _MOST_SHARE
    scale = deviation(1.0) / (_PRECISE * guessed)
    return min(max(scale if delta == 0 else scale**2, _LEAST), _MOST_SHARE)


def _guess(
    marginals: Sequence[Marginal], domain: Domain | None, public: Table | None, rows: int | None
) -> float | None:
    """The mean over some marginals of Σ|error|, in rows."""
    if public is not None and public.n:
        n = public.n if rows is None else rows
        shared = [m for m in marginals if set(m) <= set(public.domain)]
        counts = count_table(public, shared)
        if shared:
            return float(np.mean([np.sqrt(counts[m] * (n / public.n)).sum() for m in shared]))
    if rows is None or domain is None:
        return None
    return float(np.mean([math.sqrt(rows * min(domain.size(m), rows)) / 2 for m in marginals]))
