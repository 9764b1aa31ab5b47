"""The best mixture error: how well *any* reweighting of the public rows could answer the queries.

f(S) = min over probability weights μ on the public rows S of max over queries q of |q(D) − q(μ)|
(Definition 4.1 of the PMW^Pub paper). It is the floor under every method that only reweights public rows,
so a noisy f tells whether a public table is fit for use before the real budget is spent.

**Sensitivity** (Lemma 4.2). A replaced record moves every q(D) by at most 1/n, so for each fixed μ the inner
maximum moves by at most 1/n, and so does the minimum over μ, because S is public and does not move. A
person with Δ records moves f by at most Δ/n: go from D to D′ one record at a time.

**What may be released.** That proof is about f, not about what a solver stopped at: a value that is only
known to be an upper bound can jump by any amount between neighbours. A value v with f ≤ v ≤ f + tolerance
has v(D) ≤ f(D) + tolerance ≤ f(D′) + 1/n + tolerance ≤ v(D′) + 1/n + tolerance. So noise may be calibrated to
1/n + tolerance if, and only if, `BestMixture.exact` holds. Solve with `max_seconds=None` for a release:
whether a clock ran out is a fact about the private table too.

**Bounds.** `error` is recomputed from the returned weights. `lower` is recomputed from signed query weights λ
with ‖λ‖₁ ≤ 1: for every μ, max_q |q(μ) − q(D)| ≥ Σ λ_q (q(μ) − q(D)) ≥ min_x Σ λ_q q(x) − Σ λ_q q(D), x in S.
Both are therefore true up to float rounding, whatever a solver's own tolerances did.

**Method.** A query that no public row answers with 1 has a constant error q(D); the largest of these, the
*floor*, is often f itself. Small problems are one linear program (HiGHS). Larger ones start with an
accelerated first-order method on the smoothed maximum in the entropic geometry (Nesterov 2005, Tseng 2008):
it reaches the floor in a few hundred passes when the floor is the answer, and otherwise hands its weights
to a linear program that grows by violated queries and by rows of better reduced cost until the bounds meet.
Memory is about 12 bytes per distinct row and marginal.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openprior.errors import DataError, OptionError, WorkloadError
from openprior.privacy.unit import Unit

__all__ = ["MIXTURE_GRID", "BestMixture", "best_mixture", "mixture_steps"]

MIXTURE_GRID = 64
"""A released best mixture error is rounded to 1/64 of a row, and solved to that."""

Floats = NDArray[np.float64]

_WHOLE_LP = (
    60_000  # rows × marginals up to which the program with every query is solved at once (under 0.3 s)
)
_FIRST_COLUMNS = 2_000  # rows in the first linear program; the others enter by their reduced cost
_BATCH = 200  # queries or rows that enter a linear program at a time, at least
_STAGE = 150  # first-order passes per smoothing level; more of them gain less than a finer level does


@dataclass(frozen=True, eq=False)
class BestMixture:
    """Weights on the public rows and a bracket of the best mixture error. Not private: add noise first."""

    error: float
    """The largest query error of `weights`: an upper bound on f."""
    lower: float
    """A certified lower bound on f."""
    weights: Floats = field(repr=False)
    """One probability per public row, in the order given."""
    exact: bool
    """Whether error − lower ≤ tolerance."""


def mixture_steps(unit: Unit) -> int:
    """The sensitivity of a released best mixture error, in steps of the grid: Δ rows, the tolerance, the rounding."""
    return MIXTURE_GRID * unit.rows_per_person + 2


def best_mixture(
    rows: Sequence[NDArray[Any]],
    sizes: Sequence[int],
    marginals: Sequence[tuple[int, ...]],
    targets: Sequence[NDArray[Any]],
    *,
    tolerance: float = 1e-6,
    max_seconds: float | None = None,
    method: Literal["auto", "linear-program", "first-order"] = "auto",
) -> BestMixture:
    """Bracket the best mixture error of public rows for the cells of some marginals.

    Args:
        rows: The public rows by column: one array of codes per attribute.
        sizes: How many codes each attribute has.
        marginals: Attribute positions; every cell of every marginal is a query.
        targets: Per marginal the private frequencies, flat in C order, summing to 1.
        tolerance: Stop when error − lower is at most this.
        max_seconds: Stop then with the bounds reached; None runs until the tolerance is met (down to
            about 1e-9, where HiGHS ends).
        method: "auto" chooses by size; the others force one solver (for tests and timing).

    >>> a = np.array([0, 1, 1])
    >>> found = best_mixture([a], [3], [(0,)], [np.array([0.5, 0.3, 0.2])], tolerance=1e-9)
    >>> round(found.error, 6), found.exact  # code 2 is out of reach: its 0.2 cannot be answered
    (0.2, True)
    """
    if not tolerance > 0:
        raise OptionError(f"tolerance ({tolerance}) must be positive; 1e-6 is a good start")
    if method not in ("auto", "linear-program", "first-order"):
        raise OptionError(f"method ({method!r}) must be 'auto', 'linear-program' or 'first-order'")
    game, group = _game(rows, sizes, marginals, targets)
    search = _Search(game, tolerance, math.inf if max_seconds is None else time.monotonic() + max_seconds)
    whole = game.incidence.nnz <= _WHOLE_LP
    if method == "first-order" or (method == "auto" and not whole):
        _first_order(search, patient=method == "first-order")
    if method != "first-order" and not search.done:
        _linear_program(search, whole=whole)
    weights = (search.weights / np.bincount(group))[group]
    return BestMixture(search.error, search.lower, weights, search.error - search.lower <= tolerance)


@dataclass(frozen=True, eq=False)
class _Game:
    """The distinct public rows against the queries that they reach."""

    incidence: Any  # sparse 0/1, distinct rows × reached queries
    targets: Floats  # q(D) of the reached queries
    floor: float  # the largest q(D) of a query that no row reaches
    start: Floats  # public frequencies of the distinct rows

    def gaps(self, weights: Floats) -> Floats:
        """q(μ) − q(D) for every reached query."""
        return np.asarray(weights @ self.incidence - self.targets, dtype=np.float64)

    def error(self, gaps: Floats) -> float:
        """The largest query error, reached or not."""
        return max(float(np.abs(gaps).max()), self.floor)

    def bound(self, signed: Floats) -> float:
        """The lower bound that signed query weights certify; what they leave of 1 goes to the floor."""
        norm = float(np.abs(signed).sum())
        signed = signed / max(norm, 1.0)
        rest = max(1.0 - norm, 0.0)
        return float((self.incidence @ signed).min() - signed @ self.targets + rest * self.floor)


class _Search:
    """The best weights and the best bound found so far."""

    def __init__(self, game: _Game, tolerance: float, deadline: float) -> None:
        self.game, self.tolerance, self.deadline = game, tolerance, deadline
        self.weights = game.start
        self.gaps = game.gaps(game.start)
        self.error, self.lower = game.error(self.gaps), game.floor

    @property
    def done(self) -> bool:
        return self.error - self.lower <= self.tolerance or time.monotonic() >= self.deadline

    def offer(self, weights: Floats, gaps: Floats) -> None:
        """Keep weights if they are better; `gaps` may be updated ones, so the error is computed afresh."""
        if self.game.error(gaps) < self.error:
            weights = weights / weights.sum()
            gaps = self.game.gaps(weights)
            if (error := self.game.error(gaps)) < self.error:
                self.weights, self.gaps, self.error = weights, gaps, error

    def certify(self, signed: Floats) -> None:
        """Keep the bound of these query weights if it is better."""
        self.lower = min(max(self.lower, self.game.bound(signed)), self.error)


def _game(
    rows: Sequence[NDArray[Any]],
    sizes: Sequence[int],
    marginals: Sequence[tuple[int, ...]],
    targets: Sequence[NDArray[Any]],
) -> tuple[_Game, NDArray[np.intp]]:
    """The game, and for every row given the number of its distinct row."""
    from scipy.sparse import csr_array

    if len(rows) != len(sizes):
        raise DataError(f"{len(rows)} columns for {len(sizes)} sizes; give one size per column")
    if not marginals or len(marginals) != len(targets):
        raise WorkloadError(
            f"{len(targets)} targets for {len(marginals)} marginals; give one target per marginal"
        )
    if not rows or len(rows[0]) == 0:
        raise DataError("the public table has no rows; a mixture needs at least one")
    for position, (column, size) in enumerate(zip(rows, sizes, strict=True)):
        if len(column) != len(rows[0]) or int(column.min()) < 0 or int(column.max()) >= size:
            raise DataError(f"public column {position} needs {len(rows[0])} codes from 0 to {size - 1}")
    # Rows that agree wherever a marginal looks are one row of the game.
    used = sorted({a for marginal in marginals for a in marginal})
    table = np.stack([np.asarray(rows[a], dtype=np.int64) for a in used], axis=1)
    distinct, group, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    columns = dict(zip(used, distinct.T, strict=True))
    small = len(distinct) * len(marginals) < 2**31
    cells = np.empty((len(distinct), len(marginals)), dtype=np.int32 if small else np.int64)
    reached: list[Floats] = []
    floor, offset = 0.0, 0
    for k, (marginal, target) in enumerate(zip(marginals, targets, strict=True)):
        shape = tuple(sizes[a] for a in marginal)
        answers = np.array(target, dtype=np.float64).reshape(-1)
        if len(answers) != (size := math.prod(shape)):
            raise WorkloadError(f"marginal {marginal} has {size} cells; its target has {len(answers)}")
        if not abs(answers.sum() - 1.0) <= 1e-6:
            raise WorkloadError(f"the target of marginal {marginal} must be frequencies that sum to 1")
        codes = np.ravel_multi_index([columns[a] for a in marginal], shape)
        present, where = np.unique(codes, return_inverse=True)
        cells[:, k] = where.reshape(-1) + offset
        offset += len(present)
        reached.append(answers[present])
        answers[present] = 0.0
        floor = max(floor, float(answers.max()))
    pointers = np.arange(len(distinct) + 1, dtype=cells.dtype) * len(marginals)
    incidence = csr_array((np.ones(cells.size), cells.reshape(-1), pointers), shape=(len(distinct), offset))
    return _Game(incidence, np.concatenate(reached), floor, counts / counts.sum()), group


def _first_order(search: _Search, *, patient: bool) -> None:
    """Accelerated entropic descent on η·log Σ exp(|gap|/η), η halved from stage to stage.

    The smoothed maximum is 1/η-smooth in the L1 norm; steps try a far smaller constant first, because the
    worst case needs all rows to pull on one query. Its gradient weighs the queries, and those weights,
    averaged, are the certificate. `patient` goes on until the smoothing itself is below the tolerance.
    """
    game = search.game
    eta = search.error / 10
    spread = math.log(2 * len(game.targets) + 1)
    stalls = 0
    while not search.done and eta > search.tolerance / (4 * spread) and (patient or stalls < 3):
        before = search.error - search.lower
        _stage(search, eta)
        # Fine levels that gain nothing in a row: the rest is work for the linear program.
        stalls += eta < search.error / 50 and search.error - search.lower > 0.8 * before
        eta /= 2


def _stage(search: _Search, eta: float) -> None:
    game = search.game
    x = search.weights + 1e-9 * game.start  # a row at exactly 0 could never come back
    x /= x.sum()
    gap_x = game.gaps(x)
    v, gap_v = x, gap_x
    smoothness, theta = 0.02 / eta, 1.0
    average, total = np.zeros_like(gap_x), 0.0
    for k in range(_STAGE):
        y, gap_y = (1 - theta) * x + theta * v, (1 - theta) * gap_x + theta * gap_v
        value, signed = _soft_max(gap_y, eta, game.floor)
        pull = game.incidence @ signed
        while True:
            logits = np.log(np.maximum(v, 1e-300)) - pull / (smoothness * theta)
            new_v = np.exp(logits - logits.max())
            new_v /= new_v.sum()
            gap_new = game.gaps(new_v)
            new_x, gap_new_x = (1 - theta) * x + theta * new_v, (1 - theta) * gap_x + theta * gap_new
            step = new_x - y
            model = value + float(pull @ step) + smoothness / 2 * float(np.abs(step).sum()) ** 2
            if smoothness >= 1 / eta or _soft_max(gap_new_x, eta, game.floor)[0] <= model:
                break
            smoothness = min(2 * smoothness, 1 / eta)
        average += signed / theta
        total += 1 / theta
        x, gap_x, v, gap_v = new_x, gap_new_x, new_v, gap_new
        smoothness *= 0.95
        theta = 2 / (k + 3)
        search.offer(x, gap_x)
        if k % 20 == 19:
            search.certify(signed)
            search.certify(average / total)
        if search.done:
            return


def _soft_max(gaps: Floats, eta: float, floor: float) -> tuple[float, Floats]:
    """The smoothed maximum of |gaps| and the floor, and its gradient in the gaps."""
    size = np.abs(gaps)
    top = max(float(size.max()), floor)
    weight = np.exp((size - top) / eta)
    total = float(weight.sum()) + math.exp((floor - top) / eta)
    return top + eta * math.log(total), np.sign(gaps) * weight / total


def _linear_program(search: _Search, *, whole: bool) -> None:
    """Solve min t, |gap| ≤ t on some queries and some rows; add what is violated or priced in; repeat.

    A query enters when the solution violates it, a row when it would improve the dual solution. Either makes
    the program strictly larger, and when neither exists the bounds have met, so the loop ends.
    """
    game, (n_rows, n_queries) = search.game, search.game.incidence.shape
    by_query = game.incidence.T.tocsr()
    batch = max(_BATCH, n_rows // 4)
    rows = np.ones(n_rows, dtype=bool)
    cuts = np.ones((2, n_queries), dtype=bool)  # first q(μ) − q(D) ≤ t, then its negative
    if not whole:
        if n_rows > _FIRST_COLUMNS:
            rows = search.weights >= np.partition(search.weights, -_FIRST_COLUMNS)[-_FIRST_COLUMNS]
        cuts = np.stack([search.gaps, -search.gaps]) >= search.error / 2
    while not search.done:
        solved = _solve(search, by_query, rows, cuts)
        if solved is None:
            return
        weights, level, signed = solved
        search.certify(signed)
        gaps = game.gaps(weights)
        # Extreme solutions of a small program are poor; points between them and the best weights so far are
        # not, and the queries violated there matter more (in-out separation).
        best, best_gaps = search.weights, search.gaps
        between = (gaps + best_gaps) / 2
        for share in (1.0, 0.5, 0.2, 0.05):
            search.offer(share * weights + (1 - share) * best, share * gaps + (1 - share) * best_gaps)
        grown = _add_cuts(cuts, gaps, level + search.tolerance / 4, batch)
        grown |= _add_cuts(cuts, between, level + search.tolerance / 4, batch)
        grown |= _add_rows(rows, game.incidence @ signed, search.tolerance / 4, batch)
        if not grown:
            return


def _solve(
    search: _Search, by_query: Any, rows: NDArray[np.bool_], cuts: NDArray[np.bool_]
) -> tuple[Floats, float, Floats] | None:
    """The restricted program: weights on all rows, the level t, and the signed query weights of its dual."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    game = search.game
    columns = np.flatnonzero(rows)
    above, below = np.flatnonzero(cuts[0]), np.flatnonzero(cuts[1])
    # A tenth of HiGHS' usual tolerances, where it allows: the bounds are recomputed anyway, but have to meet.
    options: dict[str, Any] = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    if math.isfinite(search.deadline):
        options["time_limit"] = max(search.deadline - time.monotonic(), 0.01)
    chosen = by_query[:, columns]
    left = vstack([chosen[above], -chosen[below]], format="csr")
    answer = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_ub=hstack([left, csr_array(np.full((left.shape[0], 1), -1.0))], format="csr"),
        b_ub=np.concatenate([game.targets[above], -game.targets[below]]),
        A_eq=csr_array(np.append(np.ones(len(columns)), 0.0)[None, :]),
        b_eq=[1.0],
        bounds=np.column_stack(
            [np.append(np.zeros(len(columns)), game.floor), np.full(len(columns) + 1, np.inf)]
        ),
        method="highs",
        options=options,
    )
    if answer.status != 0:
        return None
    weights = np.zeros(len(rows))
    weights[columns] = np.maximum(answer.x[:-1], 0.0)
    weights /= weights.sum()
    dual = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0)
    signed = np.zeros(len(game.targets))
    signed[above] += dual[: len(above)]
    signed[below] -= dual[len(above) :]
    return weights, float(answer.x[-1]), signed


def _add_cuts(cuts: NDArray[np.bool_], gaps: Floats, level: float, batch: int) -> bool:
    """Add up to `batch` queries whose error passes `level` the most; whether there were any."""
    error = np.where(cuts, -np.inf, np.stack([gaps, -gaps])).reshape(-1)
    return _mark(cuts.reshape(-1), error, level, batch)


def _add_rows(rows: NDArray[np.bool_], pull: Floats, slack: float, batch: int) -> bool:
    """Add up to `batch` rows whose pull is below that of every row of the program; whether there were any."""
    return _mark(rows, np.where(rows, -np.inf, -pull), slack - float(pull[rows].min()), batch)


def _mark(marks: NDArray[np.bool_], score: Floats, threshold: float, batch: int) -> bool:
    over = np.flatnonzero(score > threshold)
    if len(over) > batch:
        over = over[np.argpartition(score[over], -batch)[-batch:]]
    marks[over] = True
    return len(over) > 0
