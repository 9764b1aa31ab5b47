"""DualQuery (Gaboardi et al. 2014): a game between queries that are answered badly and records that mend it.

The query player keeps weights on all queries q (the cells of the workload) and on their negations. Round t draws s of
them, independently and with replacement, with weights exp(η·u), u = ±Σ_{τ<t}(q(D) − q(x^τ)); the data player answers
with the record x^t that meets most of the draws. The release is the T records, and no count is ever measured.

Cost. With hits = Σ_{τ<t} q(x^τ) and k = t − 1, u = ±(k/n)·(x_c − n·hits/k): a signed score of a cell, in rows, of
sensitivity Δ (signed_scores.py). So a draw is the exponential mechanism at ε_t = 2ηkΔ/n, and a round costs s·ε_t²/8 in
ρ: nothing for the first, and ρ = s·η²·Δ²·(T−1)T(2T−1)/(12n²) in all. T is the largest that fits. Where n is private it
is measured first and η/n has the measured n. What is charged is what is drawn with, so the promise does not rest on it.

Public start (the "pretraining" that Liu et al. 2021 propose). T₀ rounds are played against the public table E first,
for nothing. From then on u = ±(T₀·q(E) + k·q(D) − hits), where k counts the private rounds so far and hits all records:
the public answers stand in for the private ones in the rounds that were played with them. T₀·q(E) and hits are public
constants, so the score moves with the private table by k/n as before, and the price is that of T rounds, not of T₀ + T.
All T₀ + T records are released: they lean on E by T₀/(T₀ + T).

The record. A local search from random rows (public ones, if the start is) gives one, and an integer program says
whether there is a better one; `data_player.py` has figures on both.
"""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import RowCounter
from openprior.errors import OpenPriorWarning
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    leave_uniform,
    one_of,
    option,
    register,
)
from openprior.methods.shared.best_record import WeightedQueries
from openprior.methods.shared.data_player import SOLVERS, DataPlayer
from openprior.models.base import Model
from openprior.models.product import ProductModel
from openprior.models.support import SupportModel
from openprior.privacy.calibrate import exponential_rho
from openprior.privacy.curator import Curator
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Workload, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["DualQuery"]

STARTS = ("uniform", "public")
_ROUNDS = "rounds: drawing queries, answering with a record"
_FEWEST, _MOST = 5, 10_000
"""Rounds, if their number is not given. η is lowered if not even the fewest fit, because fewer records tell nothing;
more than the most would take hours."""
_DRAWS = 2_000
"""Most draws of a round: the search for a record compares all of them with each other."""
_FAR = 2.0**40
"""Rows beyond which scores take no reference."""
Floats = NDArray[np.float64]


@register("dual-query")
class DualQuery(Mechanism):
    """Draw queries that are answered badly; answer with records that meet them."""

    good_for = (
        "comparison with the published curves: a few dozen records that answer any number of columns roughly"
    )
    public_table = PublicTable.USED_IF_GIVEN

    samples: int = option(default=100, doc="queries drawn in each round, s")
    eta: float = option(default=2.0, doc="how sharply badly answered queries are preferred, η")
    rounds: int | None = option(
        default=None, doc="private rounds T, a record each; if not given, as many as the budget pays for"
    )
    start: str = option(
        default="uniform", doc="uniform | public: where the query weights start; public rounds cost nothing"
    )
    public_rounds: int | None = option(
        default=None,
        doc="rounds against the public table before the private ones; if not given, as many as those",
    )
    solver: str = option(
        default="program", doc="program | search: an integer program after a local search, or that alone"
    )

    def __post_init__(self) -> None:
        check(1 <= self.samples <= _DRAWS, f"samples ({self.samples}) must be between 1 and {_DRAWS:,}")
        check(1e-6 <= self.eta <= 1e6, f"eta ({self.eta}) must be between 1e-6 and 1e6")
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        one_of("start", self.start, STARTS)
        one_of("solver", self.solver, SOLVERS)
        check(
            self.public_rounds is None or (self.start == "public" and self.public_rounds >= 1),
            f"public_rounds ({self.public_rounds}) must be at least 1, and go with start = public",
        )

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Public rounds if asked for, private rounds while the budget lasts; the records of both."""
        pool = self._pool(public)
        cells = Cells(curator.domain, workload.marginals)
        curator.announce(cells.marginals)
        self._refuse_rounds(curator)
        total = known_total(curator)
        rounds, eta = self._plan(curator, total)
        early = 0 if pool is None else self.public_rounds or rounds
        game = _Game(cells, DataPlayer(curator.domain, pool, self.solver, rng))
        progress(0, early + rounds, _ROUNDS)
        shares = np.zeros(len(cells)) if pool is None else _shares(pool, cells)
        for done in range(early + 1):  # the last of these is the first private round, which costs nothing
            game.play(*_drawn(eta * (done * shares - game.hits), self.samples, rng))
            progress(done + 1, early + rounds, _ROUNDS)
        only = frozen(np.arange(len(cells)))  # once, and the vault gathers their counts once
        for k in range(1, rounds):
            reference = (game.hits - early * shares) * (total / k)
            scores = SignedCellScores(cells, only, np.clip(reference, -_FAR, _FAR))
            rho = min(self._price(eta, k, total, curator.unit), curator.remaining)
            game.play(*scores.queries(curator.select_many(scores, self.samples, rho, replace=True)))
            progress(early + k + 1, early + rounds, _ROUNDS)
        records = game.table(curator.domain)
        _remark(curator, records, early, game.player.by_the_clock)
        return _model(curator, records, cells, total, uniform=pool is None)

    def outlay(self, sizes: Sizes) -> Outlay:
        """Every round scores all cells and their negations, draws, and looks for a record: long, if draws are many."""
        rounds, _ = self._affordable(sizes.rho, float(max(sizes.rows, 1)), Unit())
        if self.start == "public" and sizes.public_rows:
            rounds += self.public_rounds or rounds
        draws, program = self.samples, self.solver == "program"
        record = 1e-4 * draws + 7e-8 * draws**2 + 2.5e-7 * draws**2.5 * program
        megabytes = 1.5e-4 * sizes.cells + 0.25 * draws * program
        return Outlay(0.05 + rounds * (0.003 + 1.1e-7 * sizes.cells + record), megabytes)

    def _pool(self, public: Table | None) -> Table | None:
        """The rows of the public start."""
        if self.start == "uniform":
            return None
        check(
            public is not None and public.n > 0,
            "start = public needs a public table with rows; give one, or say start = uniform",
        )
        return public

    def _price(self, eta: float, k: int, total: float, unit: Unit) -> float:
        """ρ of the round after k private ones: s draws, each at ε = 2ηkΔ/n."""
        epsilon = 2 * eta * k * unit.cell / total
        return self.samples * unit.parts_touched * exponential_rho(epsilon)

    def _affordable(self, rho: float, total: float, unit: Unit) -> tuple[int, float]:
        """How many rounds to play and with which η: as many as fit, or as were asked for, with a lower η if need be."""
        first = self._price(self.eta, 1, total, unit)
        fit = _rounds_within(rho / first)
        wanted = self.rounds or min(max(fit, _FEWEST), _MOST)
        if wanted <= fit:
            return wanted, self.eta
        return wanted, self.eta * math.sqrt(rho / (first * _squares(wanted)))

    def _refuse_rounds(self, curator: Curator) -> None:
        """Where n is public, say before any charge that so many rounds are too dear."""
        if self.rounds is None or not curator.unit.n_is_public:
            return
        fit = _rounds_within(
            curator.remaining / self._price(self.eta, 1, max(1.0, float(curator.n)), curator.unit)
        )
        check(
            self.rounds <= fit,
            f"rounds ({self.rounds}) cost more than the budget, which pays for {fit} with samples = {self.samples} "
            f"and eta = {self.eta:g}; lower one of them, or leave rounds out",
        )

    def _plan(self, curator: Curator, total: float) -> tuple[int, float]:
        """Rounds and η; says so if η had to be lowered."""
        rounds, eta = self._affordable(curator.remaining, total, curator.unit)
        if eta < self.eta:
            said = (
                f"eta was lowered from {self.eta:g} to {eta:.3g}, with which {rounds} rounds fit the budget."
            )
            curator.remark(said)
            warnings.warn(
                f"{said} Give fewer samples or rounds, or more epsilon; a small table is not for this method",
                OpenPriorWarning,
                2,
            )
        return rounds, eta


class _Game:
    """The records so far, and how many of them lie in each cell."""

    def __init__(self, cells: Cells, player: DataPlayer) -> None:
        self.player, self._cells = player, cells
        self.hits: Floats = np.zeros(len(cells))
        self._records: list[NDArray[np.int64]] = []
        domain = cells.domain
        self._strides = np.zeros((len(cells.marginals), len(domain)), np.int64)
        for line, marginal in enumerate(cells.marginals):
            stride = 1
            for a in reversed(marginal):
                self._strides[line, domain.position(a)] = stride
                stride *= domain[a]

    def play(self, numbers: NDArray[np.intp], signs: NDArray[np.int64]) -> None:
        """Answer drawn queries with one more record."""
        record = self.player.answer(WeightedQueries.of(self._cells, numbers, signs))
        self._records.append(record)
        np.add.at(self.hits, self._cells.offsets[:-1] + self._strides @ record, 1)

    def table(self, domain: Domain) -> Table:
        """The records."""
        return Table(domain, tuple(np.array(self._records).T))


def _shares(rows: Table, cells: Cells) -> Floats:
    """The share of the rows in each cell."""
    return RowCounter(rows, cells.marginals).answers(np.full(rows.n, 1 / rows.n))


def _drawn(
    logarithms: Floats, draws: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Cells and signs by public weights exp(±u): without the private table, doubles may decide."""
    both = np.concatenate([logarithms, -logarithms])
    ends = np.cumsum(np.exp(both - both.max()))
    # A product may round up to the end itself, which is nobody's.
    indices = np.minimum(np.searchsorted(ends, rng.random(draws) * ends[-1], side="right"), len(both) - 1)
    negated, numbers = np.divmod(indices, len(logarithms))
    return numbers, 1 - 2 * negated


def _squares(rounds: int) -> int:
    """1 + 4 + … + (T − 1)²: what T rounds cost, in units of the second."""
    return (rounds - 1) * rounds * (2 * rounds - 1) // 6


def _rounds_within(units: float) -> int:
    """The largest T whose cost is at most so many units.

    >>> [_rounds_within(units) for units in (0.9, 1, 4.9, 5, 30)]
    [1, 2, 2, 3, 5]
    """
    rounds = max(1, int((3 * units) ** (1 / 3)))
    while _squares(rounds + 1) <= units:
        rounds += 1
    while rounds > 1 and _squares(rounds) > units:
        rounds -= 1
    return rounds


def _remark(curator: Curator, records: Table, early: int, by_the_clock: int) -> None:
    """On how little the release rests."""
    public = f", {early} of them from rounds against the public table" if early else ""
    what = "One part of the release" if curator.unit.partitioned else "The release"
    curator.remark(
        f"{what} rests on {records.n} records{public}, {records.unique()[0].n} of them different: every answer is "
        f"a multiple of 1/{records.n} of the rows."
    )
    if records.n == early + 1:
        curator.remark(
            "With one round nothing of the private table is used: the first draws by public weights."
        )
    if by_the_clock:
        curator.remark(
            f"A limit in seconds stopped the search for {by_the_clock} records: another machine may find others."
        )


def _model(curator: Curator, records: Table, cells: Cells, total: float, *, uniform: bool) -> Model:
    """Weights on the records; columns that no query asks for are uniform, or as in the public rows."""
    asked = canonical({a for m in cells.marginals for a in m}, curator.domain)
    if not uniform or asked == curator.domain.attributes:
        distinct, counts = records.unique()
        return SupportModel(distinct, counts.astype(np.float64), total)
    leave_uniform(curator, cells.marginals, "Name them in the workload, or drop them")
    inside = Table(curator.domain.project(asked), tuple(records.column(a) for a in asked))
    distinct, counts = inside.unique()
    model = SupportModel(distinct, counts.astype(np.float64), total)
    return ProductModel(curator.domain, [model], total)
