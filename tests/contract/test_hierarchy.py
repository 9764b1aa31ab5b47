"""The hierarchical release, believed by nobody: what it pays, what it looks at, and what it gives.

Small areas lie in states and states in regions. The source and the ledger write into one diary, so that their order can
be read off; noise can be left out, or made blind to the counts that it is added to.
"""

import dataclasses
import functools
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import openprior as op
from openprior.counting.engine import Threads
from openprior.counting.local import count_table
from openprior.errors import EncodeError, OpenPriorError, OptionError, PrivacyError, WorkloadError
from openprior.guidance.grid import described
from openprior.methods.hierarchy.group_priors import GroupPrior, group_priors
from openprior.methods.hierarchy.method import Hierarchy
from openprior.methods.hierarchy.tree import Tree
from openprior.methods.ide import Ide
from openprior.models.base import Model
from openprior.models.grouped import GroupedModel
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.events import Event, Noisy
from openprior.privacy.fake import NoNoise
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import Noise, SeededNoise
from openprior.privacy.pure_cost import pure_epsilon
from openprior.privacy.run import Budget
from openprior.privacy.session import Purpose, Session
from openprior.privacy.statistics import CellCount, Counts
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Workload, all_marginals
from openprior.releases.certificate import Certificate, certify
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.layout import Layout
from openprior.schema.levels import Hierarchy as Above
from openprior.tables.encode import Encoder, Table, encode_table
from tests.conftest import quiet, stopping
from tests.diary import DiaryLedger, DiarySource
from tests.formulas import epsilon_by_hand, pure_rho_by_hand, rho_by_hand

AREAS = ("10a", "10b", "20a", "20b", "20c", "30a")
YEARS = ("2018", "2019")
STATES = (("10", "north"), ("20", "south"), ("30", "south"))
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 3)]
TWO = (("state",), ("area", "year"))
THREE = (("region",), ("state",), ("area", "year"))
SHORT = (("state",), ("area",))
QUICK: dict[str, dict[str, Any]] = {
    "gem": {"batch": 8, "rounds": 6, "steps": 4},
    "gem-pub": {"batch": 8, "rounds": 2, "steps": 4},
    "tilt": {"particles": 2000, "rounds": 6},
}
"""Options of those that take long with their defaults: here only their budgets matter."""
units = pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)


def schema_of(areas: Sequence[str] = AREAS, years: Sequence[str] = YEARS, **area: Any) -> Schema:
    return Schema(
        (
            Categorical(name="area", values=tuple(areas), **area),
            Categorical(name="year", values=tuple(years)),
            Integer(name="x", low=0, high=3),
            Integer(name="y", low=0, high=2),
            Integer(name="z", low=0, high=1),
        ),
        hierarchies=(
            Above(name="state", column="area", prefix=2),
            Above(name="region", column="state", map=STATES),
        ),
    )


SCHEMA = schema_of()


def rows(n: int, seed: int, *, areas: Sequence[str] = AREAS, years: Sequence[str] = YEARS) -> pa.Table:
    """Dependent columns that differ from area to area."""
    rng = np.random.default_rng(seed)
    area, hidden = rng.integers(0, len(areas), n), rng.integers(0, 2, n)
    x = (rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]) + hidden + area * (rng.random(n) < 0.3)) % 4
    y = np.minimum(rng.integers(0, 3, n), 1 + hidden)
    z = hidden ^ (rng.random(n) < 0.2)
    names = {"area": np.array(areas)[area], "year": np.array(years)[rng.integers(0, len(years), n)]}
    return pa.table({**names, "x": x, "y": y, "z": z.astype(np.int64)})


PRIVATE = rows(2400, 1)
PUBLIC_ROWS = rows(1500, 2)
PUBLIC = encode_table(PUBLIC_ROWS, SCHEMA)
FEW = encode_table(rows(150, 2), SCHEMA)


class BlindNoise(NoNoise):
    """Noise that drowns the counts: what comes out depends on the shape and the order of the questions alone."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.asked: list[tuple[str, tuple[int, ...], float]] = []

    def gaussian(self, counts: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        """Other counts."""
        self.asked.append(("gaussian", counts.shape, sigma))
        return self._rng.integers(-3, 40, counts.shape)

    def laplace(self, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Other counts."""
        self.asked.append(("laplace", counts.shape, scale))
        return self._rng.integers(-3, 40, counts.shape)


@dataclasses.dataclass
class Run:
    """A curator with everything that a sceptic wants to see beside it."""

    curator: Curator
    account: Account
    ledger: Ledger
    budget: Budget
    unit: Unit
    schema: Schema
    diary: list[str]

    def certificate(self) -> Certificate:
        purpose = Purpose("hierarchy", {})
        return certify(
            Session(self.curator, self.unit, self.schema, purpose, self.budget, self.account, False, 0)
        )

    def check(self) -> None:
        """Every cost derived anew; exact sums within the budget; the ledger has them; the certificate rechecks."""
        pure = self.budget.delta == 0
        total = Fraction(0)
        for event in self.account.events:
            own = event.rho
            own = pure_epsilon(own) if pure else own
            by_hand = epsilon_by_hand if pure else rho_by_hand
            assert event.cost(self.unit, pure=pure) == pytest.approx(own, rel=1e-9)
            assert by_hand(event.to_dict(), self.unit.relation, self.unit.rows_per_person) == pytest.approx(
                own
            )
            total += Fraction(own if event.charged is None else event.charged)
        assert total == self.account.spent <= Fraction(self.budget.epsilon if pure else self.budget.rho)
        recorded = self.ledger.spent(self.account.run)
        assert recorded <= Fraction(self.budget.rho)
        if pure:
            due = float(pure_rho_by_hand(float(total)))
            assert recorded >= due * (1 - 1e-15)
            assert float(recorded) == pytest.approx(due, rel=1e-12)
        else:
            assert recorded == total
        self.certificate().recheck()

    def shares(self) -> list[float]:
        """What each event took of the budget, of ε where the run is pure."""
        if self.budget.delta == 0:
            return [pure_epsilon(e.rho) / self.budget.epsilon for e in self.account.events]
        return [e.rho / self.budget.rho for e in self.account.events]


@functools.cache
def rho_of(epsilon: float, delta: float) -> float:
    return budget_rho(epsilon, delta)


def made(
    private: pa.Table = PRIVATE,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-9,
    unit: Unit | None = None,
    noise: Noise | None = None,
    schema: Schema = SCHEMA,
) -> Run:
    """Like FakeCurator, with hierarchies and with δ = 0."""
    rho = rho_of(epsilon, delta)
    diary: list[str] = []
    ledger, unit = DiaryLedger(diary), unit or Unit()
    run = ledger.open_run("secret", rho=rho, epsilon=epsilon, delta=delta, details={})
    account = Account(ledger, run, rho=rho, epsilon=epsilon, delta=delta)
    vault = Vault(Encoder(schema, DiarySource(private, diary), private=True, levels=True))
    curator = Curator(vault, unit=unit, noise=noise or NoNoise(), account=account)
    return Run(curator, account, ledger, Budget("secret", epsilon, delta, rho, {}), unit, schema, diary)


def release_in(run: Run, mechanism: Any, public: Table | None = None, seed: int = 0) -> Model:
    public = encode_table(PUBLIC_ROWS, run.schema) if public is None else public
    workload = all_marginals(2).on(run.schema.domain)
    model: Model = mechanism.run(run.curator, public, workload, np.random.default_rng(seed), quiet)
    return model


def truth(private: pa.Table, marginal: Sequence[str], schema: Schema = SCHEMA) -> NDArray[np.int64]:
    return count_table(encode_table(private, schema), [tuple(marginal)])[tuple(marginal)]


def keys_of(event: Noisy, levels: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The keys of the level that an event measured."""
    named = {a for level in levels for a in level}
    return tuple(a for a in event.statistic.marginal if a in named)


# What it pays.

KINDS = [("gaussian", 1e-9), ("laplace", 1e-9), ("laplace", 0.0)]
CASES = [
    *((TWO, (), "laplace", 0.0, unit) for unit in UNITS),
    *((TWO, (), "gaussian", 1e-9, unit) for unit in UNITS),
    *((TWO, (1.0, 4.0), *kind, UNITS[i]) for i, kind in enumerate(KINDS)),
    *((THREE, (), *kind, UNITS[3 - i]) for i, kind in enumerate(KINDS)),
    (THREE, (2.0, 1.0, 1.0), "laplace", 0.0, UNITS[1]),
]


@pytest.mark.parametrize(
    ("levels", "split", "noise", "delta", "unit"),
    CASES,
    ids=lambda v: f"{v.relation}-{v.rows_per_person}" if isinstance(v, Unit) else None,
)
def test_every_level_is_one_event_a_marginal_and_the_sum_is_the_budget(
    levels: tuple[tuple[str, ...], ...], split: tuple[float, ...], noise: str, delta: float, unit: Unit
) -> None:
    run = made(epsilon=1.5, delta=delta, unit=unit, noise=SeededNoise(1))
    release_in(run, Hierarchy(levels=levels, split=split, noise=noise, own=False), FEW)
    run.check()
    events = run.account.events
    assert all(e.kind == noise and isinstance(e.statistic, Counts) and e.part is None for e in events)
    # One event for all groups of a level: none is asked twice, and each asks for whole marginals over the keys.
    asked = [e.statistic.marginal for e in events]
    assert len(set(asked)) == len(asked)
    # As one path meets every event, the sum over a path is the sum over all: the budget, and not more.
    assert float(run.account.spent) == pytest.approx(float(run.account.limit), rel=1e-8)
    default = {2: [0.1, 0.9], 3: [0.05, 0.05, 0.9]}[len(levels)]
    wanted = [s / sum(split) for s in split] if split else default
    shares = run.shares()
    for level, share in zip(levels, wanted, strict=True):
        mine = [i for i, e in enumerate(events) if keys_of(e, levels) == level]
        assert sum(shares[i] for i in mine) == pytest.approx(share, rel=1e-6)
        totals = [i for i in mine if asked[i] == level]
        assert [shares[i] for i in totals] == pytest.approx([0.05 * share], rel=1e-6)
        assert mine[0] == totals[0]
        assert len(mine) >= 2


@units
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_published_spends_four_quarters(unit: Unit, delta: float) -> None:
    """ε₀ = ε/4: Laplace(Δ/ε₀) for the totals, Laplace(‖W‖₁Δ/ε₀) for the workload, of each of two levels."""
    epsilon = 2.0
    run = made(epsilon=epsilon, delta=delta, unit=unit, noise=SeededNoise(2))
    with np.errstate(all="ignore"):
        release_in(run, Hierarchy.published(TWO), FEW)
    run.check()
    change = (2 if unit.relation is Relation.REPLACE_ONE else 1) * unit.rows_per_person
    for level in TWO:
        mine = [e for e in run.account.events if keys_of(e, TWO) == level]
        totals = [e for e in mine if e.statistic.marginal == level]
        workload = [e for e in mine if e not in totals]
        assert len(totals) == 1
        assert workload
        for group in (totals, workload):
            if delta == 0:
                assert sum(change / e.scale for e in group) == pytest.approx(epsilon / 4)
                for e in group:
                    assert e.scale == pytest.approx(len(group) * change / (epsilon / 4))
            else:
                assert sum(e.rho for e in group) == pytest.approx(run.budget.rho / 4)


def inside(name: str, levels: tuple[tuple[str, ...], ...] = TWO, **more: Any) -> Hierarchy:
    return Hierarchy(levels=levels, inner=op.mechanisms()[name](**QUICK.get(name, {})), **more)


def bent_by(way: str, levels: tuple[tuple[str, ...], ...] = TWO, **more: Any) -> Hierarchy:
    """By a way of updating, or by another mechanism inside the groups."""
    if way in op.mechanisms() and way != "ide":
        return inside(way, levels, **more)
    return Hierarchy(levels=levels, update=way, **more)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("mwem", UNITS[0]), ("mwem", UNITS[3]), *(("mst", unit) for unit in UNITS), ("pmw-pub", UNITS[1])],
    ids=lambda v: f"{v.relation}-{v.rows_per_person}" if isinstance(v, Unit) else None,
)
def test_another_mechanism_in_every_group_composes_in_parallel(name: str, unit: Unit) -> None:
    run = made(epsilon=1.5, unit=unit, noise=SeededNoise(3))
    model = release_in(run, inside(name, SHORT), FEW)
    run.check()
    within = [e for e in run.account.events if e.part is not None]
    own: dict[tuple[int, ...], Fraction] = {}
    for e in within:
        assert e.part.keys == ("area",)
        codes = e.part.codes
        own[codes] = own.get(codes, Fraction(0)) + Fraction(e.rho)
    assert set(own) == {(i,) for i in range(len(AREAS))}
    # The run pays the dearest part, which has the level's share less its totals.
    paid = sum((Fraction(e.charged) for e in within), Fraction(0))
    assert max(own.values()) <= paid
    assert float(paid) == pytest.approx(float(max(own.values())), rel=1e-9)
    assert paid <= Fraction(run.budget.rho) * Fraction(9 * 95, 1000) * (1 + Fraction(1, 10**8))
    assert isinstance(model, GroupedModel)


REFUSED_INSIDE = {
    "ide": op.Ide(queries=("prefixes(area)",)),
    "ide by strategies": op.Ide(queries=("marginal(x, year)",), answers="hdmm"),
    "hdmm": op.Hdmm(queries=("prefixes(area)",)),
    "hdmm, too large": op.Hdmm(strategy="residuals"),
    "mwem": op.Mwem(max_cells=2),
    "mwem, a key": op.Mwem(groups=(("x", "area"),)),
    "gem": op.Gem(),
    "gem-pub": op.GemPub(),
}


@pytest.mark.parametrize("inner", REFUSED_INSIDE.values(), ids=REFUSED_INSIDE)
def test_what_cannot_run_inside_is_refused_before_the_levels_are_charged(
    inner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # as if the extra were not there
    monkeypatch.setattr("openprior.methods.shared.linear_strategy.MOST_RESIDUAL_CELLS", 5)
    run = made()
    with pytest.raises(OpenPriorError):
        release_in(run, Hierarchy(levels=TWO, inner=inner))
    assert run.account.events == []


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, cls in op.mechanisms().items()
        if name not in ("hierarchy", "mst", "pmw-pub", "mwem") and not cls.needs_public_n
    ),
)
@pytest.mark.filterwarnings("ignore:Not measured")
def test_the_others_can_work_inside_the_groups_on_a_small_share(name: str) -> None:
    """Within a part a mechanism has the part's budget, not the run's: asking for more would break off half-way."""
    run = made(epsilon=1.0, noise=SeededNoise(4))
    model = release_in(run, inside(name, SHORT, split=(9, 1)), FEW)
    run.check()
    assert model.total == PRIVATE.num_rows


# Neighbours.


def change_of(
    left: NDArray[np.int64], entered: NDArray[np.int64], names: Sequence[str], schema: Schema
) -> NDArray[np.int64]:
    """How a marginal over columns and levels changes when some rows leave and others enter."""
    shape = [schema.full_domain[a] for a in names]

    def counted(table: NDArray[np.int64]) -> NDArray[np.int64]:
        columns = dict(zip(schema.names, table.T, strict=True))
        codes = [
            schema.levels[a].codes[columns[schema.levels[a].column]] if a in schema.levels else columns[a]
            for a in names
        ]
        cells = np.ravel_multi_index(codes, shape) if len(table) else np.zeros(0, np.int64)
        return np.bincount(cells, minlength=int(np.prod(shape)))

    return counted(entered) - counted(left)


def cost_for(event: Event, left: NDArray[np.int64], entered: NDArray[np.int64], run: Run) -> float:
    """What one event tells of this change at most: in ε where the run is pure, else in ρ."""
    if event.part is not None:
        keys = [run.schema.names.index(k) for k in event.part.keys]
        left, entered = (t[(t[:, keys] == event.part.codes).all(axis=1)] for t in (left, entered))
    moved = len(left) + len(entered)
    if event.kind in ("exponential", "permute-and-flip"):
        if event.candidates.over == "cells":
            share = max(len(left), len(entered)) / run.unit.rows_per_person
            in_parts = 2 if event.part is not None and run.unit.relation is Relation.REPLACE_ONE else 1
            return event.rho * share**2 / in_parts
        return event.rho * (moved / run.unit.l1) ** 2
    if event.statistic.marginal:
        change = change_of(left, entered, event.statistic.marginal, run.schema)
        if isinstance(event.statistic, CellCount):
            change = change[event.statistic.cell : event.statistic.cell + 1]
    else:
        change = np.array([len(entered) - len(left)])
    if event.kind == "gaussian":
        return float((change**2).sum()) / (2 * event.sigma**2)
    losses = np.abs(change) / event.scale
    return float((losses if run.budget.delta == 0 else pure_rho_by_hand(losses)).sum())


def moves(unit: Unit, seed: int, count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What one person's rows may become: at most Δ rows, of one group or many, which may all be alike."""
    rng = np.random.default_rng(seed)
    sizes = SCHEMA.domain.shape
    most = unit.rows_per_person

    def some(k: int) -> NDArray[np.int64]:
        drawn = np.stack([rng.integers(0, s, k) for s in sizes], axis=1)
        return drawn[np.zeros(k, np.intp)] if rng.random() < 0.5 else drawn

    for _ in range(count):
        if unit.relation is Relation.REPLACE_ONE:
            k = int(rng.integers(1, most + 1))
            yield some(k), some(k)
        else:
            one, none = some(int(rng.integers(1, most + 1))), np.zeros((0, len(sizes)), np.int64)
            yield (one, none) if rng.random() < 0.5 else (none, one)


MEASURES = [
    *((Hierarchy(levels=TWO, own=False), 1e-9, unit) for unit in UNITS),
    *((Hierarchy(levels=THREE, own=False, noise="laplace"), 0.0, unit) for unit in UNITS),
    *((inside("mst", SHORT), 1e-9, unit) for unit in UNITS[1::2]),
    *((inside("pmw-pub", SHORT), 1e-9, unit) for unit in UNITS[1::2]),
]


@pytest.mark.parametrize(
    ("mechanism", "delta", "unit"),
    MEASURES,
    ids=lambda v: (
        f"{v.relation}-{v.rows_per_person}"
        if isinstance(v, Unit)
        else described(v)
        if isinstance(v, Hierarchy)
        else str(v)
    ),
)
def test_no_neighbour_costs_more_than_the_budget(mechanism: Hierarchy, delta: float, unit: Unit) -> None:
    """A person may move from group to group, with Δ rows in as many groups; all events together stay within."""
    run = made(rows(400, 9), epsilon=1.0, delta=delta, unit=unit, noise=SeededNoise(5))
    release_in(run, mechanism, FEW)
    limit = float(run.account.limit)
    worst = 0.0
    for left, entered in moves(unit, 6, 30):
        worst = max(worst, sum(cost_for(e, left, entered, run) for e in run.account.events))
    assert worst <= limit * (1 + 1e-9)
    if mechanism.inner is None:
        # All Δ rows from one cell to another that differs in every column: just what was paid.
        first, last = np.zeros((unit.rows_per_person, 5), np.int64), np.array(SCHEMA.domain.shape)[None] - 1
        last = np.repeat(last, unit.rows_per_person, axis=0)
        entered = last if unit.relation is Relation.REPLACE_ONE else last[:0]
        total = sum(cost_for(e, first, entered, run) for e in run.account.events)
        assert total == pytest.approx(limit, rel=1e-8)


# What it looks at.


@pytest.mark.parametrize("way", ["shrink", "ide", "mst"])
def test_the_table_stays_shut_until_the_first_charge(way: str) -> None:
    mechanism = bent_by(way, SHORT, own=False)
    run = made(unit=Unit(Relation.ADD_REMOVE), noise=SeededNoise(1))
    with np.errstate(all="ignore"):
        release_in(run, mechanism, FEW)
    assert run.diary[0] == "charge"
    assert "read" in run.diary
    # Under replace-one the number of rows is public, and read first; then every pass follows its charge.
    known = made(noise=SeededNoise(1))
    assert known.curator.n == PRIVATE.num_rows
    del known.diary[:]
    with np.errstate(all="ignore"):
        release_in(known, mechanism, FEW)
    assert known.diary[0] == "charge"


@pytest.mark.parametrize(
    ("mechanism", "relation"),
    [
        (Hierarchy(levels=TWO), Relation.ADD_REMOVE),
        (Hierarchy(levels=SHORT, own=False), Relation.REPLACE_ONE),
        (Hierarchy(levels=((), ("area",)), update="ide", noise="laplace", own=False), Relation.ADD_REMOVE),
        (Hierarchy(choose="published", totals=0.3), Relation.REPLACE_ONE),
        *((Ide(choose="expected", queries=("prefixes(x)", "where(y=1, area=0-2)")), r) for r in Relation),
    ],
    ids=["two", "short", "ide", "declared", "flat", "flat"],
)
def test_only_what_noise_was_added_to_matters(mechanism: Any, relation: Relation) -> None:
    """With noise that drowns the counts nothing about the private table is left: not a group, a shape, a word."""
    first = rows(900, 1)
    other = rows(900, 5, areas=("20b",), years=("2018",))
    if relation is Relation.ADD_REMOVE:
        other = other.slice(0, 137)
    found = []
    for private in (first, other):
        noise = BlindNoise(7)
        run = made(private, unit=Unit(relation), noise=noise)
        said: list[object] = []
        workload = all_marginals(2).on(SCHEMA.domain)
        model = mechanism.run(
            run.curator, PUBLIC, workload, np.random.default_rng(0), lambda *facts: said.append(facts)
        )
        answers = model.answers(workload.marginals)
        drawn = model.sample(round(model.total), np.random.default_rng(1))
        found.append(
            (model.total, run.account.events, run.account.remarks, said, noise.asked, answers, drawn)
        )
    (*facts, answers, drawn), (*others, again, redrawn) = found
    assert facts == others
    for marginal, values in answers.items():
        np.testing.assert_array_equal(again[marginal], values)
    for column, same in zip(drawn.columns, redrawn.columns, strict=True):
        np.testing.assert_array_equal(column, same)


def test_priors_and_choices_see_public_rows_only() -> None:
    """A curator that answers nothing is enough for all that comes before the first measurement."""

    class Shut(Exception):
        pass

    def refuse(*_: object, **__: object) -> None:
        raise Shut

    run = made(unit=Unit(Relation.ADD_REMOVE))
    run.ledger.charge = refuse  # type: ignore[method-assign]
    with pytest.raises(Shut):
        release_in(run, Hierarchy(levels=TWO))
    assert run.diary == []
    assert run.account.events == []


@pytest.mark.parametrize("way", ["shrink", "ide"])
def test_the_number_of_rows_is_told_only_where_it_is_public(way: str) -> None:
    totals = set()
    for seed in range(3):
        run = made(epsilon=0.3, unit=Unit(Relation.ADD_REMOVE), noise=SeededNoise(seed))
        with np.errstate(all="ignore"):
            totals.add(release_in(run, bent_by(way, SHORT, own=False), FEW).total)
    assert len(totals) == 3
    assert PRIVATE.num_rows not in totals
    run = made(epsilon=0.3, noise=SeededNoise(1))
    with np.errstate(all="ignore"):
        model = release_in(run, bent_by(way, SHORT, own=False), FEW)
    assert model.total == model.sample(PRIVATE.num_rows, np.random.default_rng(0)).n == PRIVATE.num_rows


# Groups that are not there.


def shapes(private: pa.Table, schema: Schema = SCHEMA, **options: Any) -> tuple[Run, GroupedModel]:
    run = made(private, schema=schema)
    model = release_in(run, Hierarchy(levels=TWO, own=True, **options))
    assert isinstance(model, GroupedModel)
    return run, model


@pytest.mark.parametrize("way", ["shrink", "ide"])
def test_a_group_without_private_rows_gets_none(way: str) -> None:
    private = rows(1200, 3, areas=AREAS[:4])
    _, model = shapes(private, update=way)
    counts = model.answers([("area",)])[("area",)]
    np.testing.assert_allclose(counts, truth(private, ["area"]), atol=1e-6)
    assert counts[4:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("way", ["shrink", "ide", "mst"])
def test_a_group_that_only_the_private_table_has_gets_its_rows(way: str) -> None:
    public = encode_table(rows(900, 4, areas=AREAS[:2]), SCHEMA)
    run = made(PRIVATE)
    model = release_in(run, bent_by(way, TWO), public)
    keys = ("area", "year")
    np.testing.assert_allclose(model.answers([keys])[keys], truth(PRIVATE, keys), atol=1e-6)
    drawn = model.sample(PRIVATE.num_rows, np.random.default_rng(0))
    np.testing.assert_array_equal(count_table(drawn, [keys])[keys], truth(PRIVATE, keys))


@pytest.mark.parametrize("way", ["shrink", "ide"])
def test_whether_a_group_is_empty_shows_in_noisy_counts_alone(way: str) -> None:
    asked = []
    for areas in (AREAS, AREAS[1:]):
        noise = BlindNoise(1)
        run = made(rows(900, 3, areas=areas), noise=noise, unit=Unit(Relation.ADD_REMOVE))
        release_in(run, bent_by(way, TWO))
        asked.append((noise.asked, run.account.events))
    assert asked[0] == asked[1]


def test_parts_exist_whether_or_not_they_have_rows() -> None:
    seen = []
    for areas in (AREAS, AREAS[1:]):
        run = made(rows(600, 3, areas=areas), noise=SeededNoise(1))
        release_in(run, inside("mst"), FEW)
        seen.append({e.part.codes for e in run.account.events if e.part is not None})
    assert seen[0] == seen[1] == {(a, y) for a in range(6) for y in range(2)}


@pytest.mark.parametrize("mechanism", [Hierarchy(levels=SHORT), inside("mst", SHORT), Ide()], ids=repr)
def test_an_empty_table_is_like_any_other_where_n_is_private(mechanism: Any) -> None:
    """A table of one person has it for a neighbour, so nothing may tell them apart: no error, no other event."""
    events = []
    for n in (0, 1):
        run = made(PRIVATE.slice(0, n), unit=Unit(Relation.ADD_REMOVE), noise=SeededNoise(1))
        model = release_in(run, mechanism, FEW)
        run.check()
        assert model.total >= 1
        assert np.isfinite(model.answers([("area", "x")])[("area", "x")]).all()
        events.append([(e.kind, getattr(e, "statistic", None), e.rho) for e in run.account.events])
    if not isinstance(mechanism, Hierarchy) or mechanism.inner is None:
        assert events[0] == events[1]


@pytest.mark.parametrize("relation", list(Relation))
def test_an_unknown_key_is_refused_and_tells_nothing(relation: Relation, tmp_path: Path) -> None:
    odd = pa.concat_tables([PRIVATE, PRIVATE.slice(0, 1).set_column(0, "area", [["99-zebra"]])])
    with pytest.raises(EncodeError, match="'area' has values outside its list") as caught:
        op.release(
            odd,
            PUBLIC_ROWS,
            schema=SCHEMA,
            epsilon=1.0,
            delta=1e-9,
            relation=relation,
            mechanism=Hierarchy(),
            ledger=tmp_path / "budget.sqlite",
            dataset="odd",
        )
    assert "zebra" not in str(caught.value)
    (dataset,) = Ledger(tmp_path / "budget.sqlite").datasets()
    assert (dataset.committed, dataset.runs, dataset.refusals) == (0, (), 1)


def test_an_unknown_key_goes_to_other_where_the_schema_says_so() -> None:
    schema = schema_of(other=True, out_of_domain="other")
    odd = pa.concat_tables([PRIVATE, PRIVATE.slice(0, 30).set_column(0, "area", pa.array(["zebra"] * 30))])
    run = made(odd, schema=schema)
    model = release_in(run, Hierarchy(levels=TWO))
    assert schema.domain["area"] == 7
    np.testing.assert_allclose(model.answers([("area",)])[("area",)], truth(odd, ["area"], schema), atol=1e-6)
    assert model.answers([("area",)])[("area",)][6] == pytest.approx(30)


@pytest.mark.parametrize("levels", [TWO, THREE, ()], ids=str)
def test_missing_keys_are_a_group_of_their_own(levels: tuple[tuple[str, ...], ...]) -> None:
    schema = schema_of(missing=True)
    names = PRIVATE["area"].to_pylist()
    private = PRIVATE.set_column(
        0, "area", pa.array([None if i % 7 == 0 else a for i, a in enumerate(names)])
    )
    run = made(private, schema=schema)
    model = release_in(run, Hierarchy(levels=levels))
    wanted = truth(private, ["area"], schema)
    np.testing.assert_allclose(model.answers([("area",)])[("area",)], wanted, atol=1e-6)
    assert wanted[6] == private["area"].null_count > 0
    assert schema.levels["state"].labels == ("10", "20", "30", "missing")


# What the public table says of a group.


def marked(places: Sequence[tuple[str, str, int]], each: int, schema: Schema) -> Table:
    """Public rows of these areas and years, that say by x where they come from."""
    rng = np.random.default_rng(1)
    n = len(places) * each
    areas, years, marks = zip(*(p for p in places for _ in range(each)), strict=True)
    columns = {"area": areas, "year": years, "x": marks}
    return encode_table(pa.table({**columns, "y": rng.integers(0, 3, n), "z": rng.integers(0, 2, n)}), schema)


def priors_of(
    public: Table, schema: Schema, levels: Sequence[tuple[str, ...]]
) -> dict[tuple[int, ...], GroupPrior]:
    tree = Tree(Layout(schema.domain, schema.levels), levels)
    found = group_priors(tree, public, Threads(), np.random.default_rng(0), own=True)
    return dict(zip(tree.leaves, found, strict=True))


def shares_of(prior: GroupPrior, name: str = "x") -> NDArray[np.float64]:
    assert prior.weights.sum() == pytest.approx(1)
    assert (prior.weights > 0).all()
    return np.bincount(prior.rows.column(name), weights=prior.weights, minlength=prior.rows.domain[name])


def test_a_prior_comes_from_the_nearest_public_rows() -> None:
    """The group itself, else its area, else its state, else its year."""
    public = marked(
        [("10a", "2018", 0), ("20a", "2018", 1), ("20a", "2019", 2), ("20b", "2018", 3)], 400, SCHEMA
    )
    priors = priors_of(public, SCHEMA, TWO)
    assert shares_of(priors[0, 0])[0] > 0.95  # 10a 2018
    assert shares_of(priors[0, 1])[0] > 0.95  # 10a 2019: the same area
    assert shares_of(priors[1, 0])[0] > 0.95  # 10b: the state
    assert shares_of(priors[2, 0])[1] > 0.95
    assert shares_of(priors[2, 1])[2] > 0.95
    assert shares_of(priors[4, 0])[0] < 0.05  # 20c: the state, in equal parts
    np.testing.assert_allclose(shares_of(priors[4, 0])[1:], 1 / 3, atol=0.03)
    assert shares_of(priors[5, 1])[2] > 0.95  # 30a: neither area nor state, so the same year
    assert [priors[k].public for k in ((0, 0), (0, 1), (2, 1), (5, 1))] == [400, 0, 400, 0]
    assert priors[4, 0].rows is priors[4, 1].rows  # the same public rows make one prior


def test_a_small_group_borrows_and_a_large_one_does_not() -> None:
    public = marked([("10a", "2018", 0)] * 3 + [("10b", "2018", 1)] * 40, 10, SCHEMA)
    priors = priors_of(public, SCHEMA, SHORT)
    small, large = shares_of(priors[0,]), shares_of(priors[1,])
    assert small[0] > 0.6
    assert small[1] > 0.05
    assert large[1] > 0.98


@pytest.mark.parametrize("order", [("area", "year"), ("year", "area")], ids=str)
def test_a_new_year_starts_from_the_same_area(order: tuple[str, str]) -> None:
    """As many of its keys as possible, in whatever order the schema has its columns."""
    years = ("2018", "2019", "2020")
    plain = schema_of(years=years)
    columns = {c.name: c for c in plain.columns}
    schema = Schema(tuple(columns[a] for a in (*order, "x", "y", "z")), hierarchies=plain.hierarchies)
    places = [(a, y, i) for i, a in enumerate(AREAS[:4]) for y in years[:2]]
    priors = priors_of(marked(places, 250, schema), schema, (("state",), order))
    for i in range(4):
        leaf = (i, 2) if order[0] == "area" else (2, i)
        assert shares_of(priors[leaf])[i] > 0.95


@pytest.mark.parametrize("order", [("area", "year"), ("year", "area")], ids=str)
def test_a_new_area_without_a_state_starts_from_the_same_year(order: tuple[str, str]) -> None:
    columns = {c.name: c for c in SCHEMA.columns}
    schema = Schema(tuple(columns[a] for a in (*order, "x", "y", "z")))
    places = [(a, y, i) for a in AREAS[:3] for i, y in enumerate(YEARS)]
    priors = priors_of(marked(places, 250, schema), schema, (order,))
    for year in range(2):
        leaf = (4, year) if order[0] == "area" else (year, 4)
        assert shares_of(priors[leaf])[year] > 0.95


# What it gives, without noise.


@pytest.mark.parametrize(
    ("way", "levels"),
    [
        *(("shrink", levels) for levels in ((), THREE, (("area",),), ((),))),
        *(("ide", levels) for levels in (TWO, ((), ("area",)))),
    ],
    ids=str,
)
def test_totals_are_exact_without_noise(way: str, levels: tuple[tuple[str, ...], ...]) -> None:
    unit = Unit() if way == "shrink" else Unit(Relation.ADD_REMOVE)
    run = made(unit=unit)
    model = release_in(run, bent_by(way, levels))
    assert isinstance(model, GroupedModel)
    assert model.total == PRIVATE.num_rows
    keys = levels[-1] if levels else ("area",)
    assert model.keys == keys
    assert model.answers([("x", "z")])[("x", "z")].sum() == pytest.approx(PRIVATE.num_rows)
    if keys:
        np.testing.assert_allclose(model.answers([keys])[keys], truth(PRIVATE, keys), rtol=1e-9)
        drawn = model.sample(PRIVATE.num_rows, np.random.default_rng(1))
        np.testing.assert_array_equal(count_table(drawn, [keys])[keys], truth(PRIVATE, keys))


@pytest.mark.parametrize("levels", [(), TWO, THREE, ((), ("area",)), ((),)], ids=str)
@pytest.mark.parametrize("choose", ["expected", "published"])
def test_the_finest_levels_marginals_are_met(choose: str, levels: tuple[tuple[str, ...], ...]) -> None:
    run = made(epsilon=3.0)
    model = release_in(run, Hierarchy(levels=levels, update="ide", choose=choose))
    keys = levels[-1] if levels else ("area",)
    finest = [e.statistic.marginal for e in run.account.events if set(keys) <= set(e.statistic.marginal)]
    finest = [m for m in finest if not set(m) & {"state", "region"}]
    assert len(finest) >= 1 + bool(keys)
    for marginal, found in model.answers(finest).items():
        wanted = truth(PRIVATE, marginal)
        assert np.abs(found - wanted).sum() < 2e-3 * PRIVATE.num_rows, marginal


def lacking() -> pa.Table:
    """A private table of which one state has no z = 1, which it has in public; its areas differ in y."""
    area, y, z = (np.array(PRIVATE[c]) for c in ("area", "y", "z"))
    z = np.where(np.isin(area, AREAS[:2]), 0, z)
    y = np.where(area == "10a", 0, y)
    return PRIVATE.set_column(4, "z", pa.array(z)).set_column(3, "y", pa.array(y))


@pytest.mark.parametrize("mechanism", [Hierarchy(update="ide"), Hierarchy.published(SHORT)])
def test_what_a_state_has_not_is_no_trouble_to_its_areas(mechanism: Hierarchy) -> None:
    """IDE leaves points without mass; areas are still bent, and nothing is divided by it."""
    run = made(lacking())
    model = release_in(run, dataclasses.replace(mechanism, levels=SHORT, updates=None))
    finest = [e.statistic.marginal for e in run.account.events if "area" in e.statistic.marginal]
    for marginal, found in model.answers(finest).items():
        assert np.isfinite(found).all()
        assert np.abs(found - truth(lacking(), marginal)).sum() < 0.02 * PRIVATE.num_rows, marginal


def test_published_runs_at_small_budgets_too() -> None:
    """Noise makes cells of a state negative, so IDE sets them to none; that must not stop its areas."""
    for seed in range(3):
        run = made(epsilon=0.3, delta=0.0, noise=SeededNoise(seed))
        model = release_in(run, Hierarchy.published(TWO))
        for values in model.answers([("x", "y"), ("area", "year", "x")]).values():
            assert np.isfinite(values).all()
            assert values.sum() == pytest.approx(model.total)


def test_a_state_measured_badly_cannot_forbid_what_its_areas_measure_well() -> None:
    """Where noise left a state's points without mass, an area that asks for mass there gets it (Definition 3.1)."""
    run = made(epsilon=100.0, delta=0.0, noise=SeededNoise(2))
    release = Hierarchy(
        levels=SHORT, update="ide", choose="published", split=(1e-5, 1.0), own=False, noise="laplace"
    )
    model = release_in(run, release)
    measured = [e.statistic.marginal for e in run.account.events if "area" in e.statistic.marginal]
    for marginal, found in model.answers(measured).items():
        assert np.abs(found - truth(PRIVATE, marginal)).sum() < 0.02 * PRIVATE.num_rows, marginal


def test_the_finest_level_has_the_last_word_under_noise() -> None:
    """Published, with a budget that makes the noise small: areas are bent away from what their state says."""
    run = made(lacking(), epsilon=300.0, delta=0.0, noise=SeededNoise(1))
    with np.errstate(all="ignore"):
        model = release_in(run, Hierarchy.published(SHORT))
    measured = [e.statistic.marginal for e in run.account.events if "area" in e.statistic.marginal]
    for marginal, found in model.answers(measured).items():
        assert np.abs(found - truth(lacking(), marginal)).sum() < 0.03 * PRIVATE.num_rows, marginal


@pytest.mark.parametrize("way", ["shrink", "ide", "pmw-pub"])
def test_rows_carry_the_keys_of_their_group(way: str) -> None:
    """Every area has its own x, in public and in private: no row may get another's keys."""
    schema = schema_of(AREAS[:4])
    places = [(a, y, i) for i, a in enumerate(AREAS[:4]) for y in YEARS]
    public = marked(places, 120, schema)
    rng = np.random.default_rng(3)
    area = rng.integers(0, 4, 600)
    private = pa.table(
        {
            "area": np.array(AREAS)[area],
            "year": np.array(YEARS)[rng.integers(0, 2, 600)],
            "x": area,
            "y": rng.integers(0, 3, 600),
            "z": rng.integers(0, 2, 600),
        }
    )
    run = made(private, schema=schema, epsilon=3.0)
    model = release_in(run, bent_by(way, TWO), public)
    drawn = model.sample(600, np.random.default_rng(0))
    assert (drawn.column("area") == drawn.column("x")).mean() > 0.97
    assert drawn.domain == schema.domain


def test_levels_come_from_the_longest_hierarchy() -> None:
    run = made()
    release_in(run, Hierarchy())
    keys = [keys_of(e, (("region",), ("state",), ("area",))) for e in run.account.events]
    assert list(dict.fromkeys(keys)) == [("region",), ("state",), ("area",)]


def test_a_level_of_two_names_of_one_chain() -> None:
    """Region and state together are three groups and three that cannot be; as many as there are areas."""
    run = made()
    model = release_in(run, Hierarchy(levels=(("state", "region"), ("area",)), update="ide"))
    plain = made()
    same = release_in(plain, Hierarchy(levels=SHORT, update="ide"))
    keys = ("area", "x")
    found, wanted = model.answers([keys])[keys], same.answers([keys])[keys]
    assert np.abs(found - wanted).sum() < 0.1 * PRIVATE.num_rows
    # Where only the coarse level was measured well, what it says arrives at its own areas.
    coarse = {}
    for levels in ((("state", "region"), ("area",)), SHORT):
        again = made(lacking())
        far = Hierarchy(levels=levels, split=(1.0, 1e-6), choose="published", update="shrink")
        coarse[levels] = release_in(again, far).answers([("area", "z")])[("area", "z")].reshape(6, 2)
    first, second = coarse.values()
    np.testing.assert_allclose(first, second, atol=0.02 * PRIVATE.num_rows)


def test_the_order_of_columns_and_keys_does_not_matter() -> None:
    """Keys behind and between the attributes, levels with their keys in another order."""
    columns = {c.name: c for c in SCHEMA.columns}
    schema = Schema(
        tuple(columns[a] for a in ("x", "year", "y", "area", "z")), hierarchies=SCHEMA.hierarchies
    )
    run = made(schema=schema, epsilon=3.0)
    model = release_in(run, Hierarchy(levels=(("state", "year"), ("area", "year")), update="ide"))
    assert isinstance(model, GroupedModel)
    assert model.keys == ("year", "area")
    measured = [e.statistic.marginal for e in run.account.events if "area" in e.statistic.marginal]
    for marginal, found in model.answers(measured).items():
        wanted = truth(PRIVATE, marginal, schema)
        assert np.abs(found - wanted).sum() < 2e-3 * PRIVATE.num_rows, marginal


def test_weights_of_the_workload_are_kept() -> None:
    """What weighs more is what is measured: a pair that alone matters is among the chosen."""
    chosen = []
    for pair in (("x", "y"), ("y", "z")):
        run = made(epsilon=0.2)
        others = [m for m in (("x", "y"), ("x", "z"), ("y", "z")) if m != pair]
        workload = Workload([pair, *others], [1e6, 1.0, 1.0]).on(SCHEMA.domain)
        Hierarchy(levels=(("area",),)).run(run.curator, PUBLIC, workload, np.random.default_rng(0), quiet)
        chosen.append([e.statistic.marginal[1:] for e in run.account.events])
    assert chosen[0] != chosen[1]


def test_the_same_seed_gives_the_same_model() -> None:
    for mechanism in (Hierarchy(levels=SHORT), inside("mst", SHORT)):
        first, again = (
            release_in(made(noise=SeededNoise(3)), mechanism, FEW).answers([("x", "y"), ("area", "z")])
            for _ in range(2)
        )
        for marginal, values in first.items():
            np.testing.assert_allclose(again[marginal], values, rtol=1e-9, atol=1e-9)


# What is refused.


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"update": "nonsense"}, "update 'nonsense' must be one of"),
        ({"inner": "nonsense"}, "mechanism 'nonsense' is unknown"),
        ({"inner": 5}, "inner \\(5\\) must be a mechanism; give an instance"),
        ({"inner": op.Mst}, "must be a mechanism; give an instance"),
        ({"inner": Hierarchy()}, "cannot be inside a hierarchy"),
        ({"choose": "all"}, "choose 'all' must be one of"),
        ({"noise": "uniform"}, "noise 'uniform' must be one of"),
        ({"totals": 0.0}, "totals"),
        ({"totals": 1.0}, "totals"),
        ({"totals": float("nan")}, "totals"),
        ({"split": (1.0, 0.0)}, "split"),
        ({"split": (1.0, -1.0)}, "split"),
        ({"split": (1.0, float("nan"))}, "split"),
        ({"split": (1.0, float("inf"))}, "split"),
        ({"updates": 0}, "at least 1"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        Hierarchy(**options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"levels": (("county",), ("area",))}, "'county'.*area, year, x, y, z, state, region"),
        ({"levels": (("state",),)}, "'state'.*no column"),
        ({"levels": (("area",), ("state",))}, "'state'.*no column"),
        ({"levels": (("state",), ("year",))}, "'state' is not decided by the last level .*add 'area'"),
        ({"levels": (("x",), ("area",))}, "'x' is not decided by the last level .*add 'x'"),
        ({"levels": (("area",), ())}, "'area' is not decided"),
        ({"levels": (("area", "area"),)}, "twice"),
        ({"levels": (("area", "year", "x", "y", "z"),)}, "not a key"),
        ({"levels": TWO, "split": (1.0, 2.0, 3.0)}, "split has 3 numbers for 2 levels"),
        ({"levels": THREE, "split": (1.0, 2.0)}, "split has 2 numbers for 3 levels"),
    ],
    ids=str,
)
def test_levels_that_make_no_sense_are_refused_before_a_look(options: dict[str, Any], match: str) -> None:
    run = made()
    with pytest.raises((OptionError, WorkloadError), match=match):
        release_in(run, Hierarchy(**options))
    assert run.diary == []
    assert run.account.events == []


@pytest.mark.parametrize("levels", [("state", "area"), (("state",), "area")], ids=str)
def test_a_level_of_one_key_may_be_a_word(levels: Any) -> None:
    """Or else it is refused in words that help; 'area' is not four columns."""
    try:
        mechanism = Hierarchy(levels=levels)
    except OptionError as error:
        assert "area" in str(error)
        return
    assert mechanism.levels == SHORT


def test_too_many_groups_are_refused_before_a_look() -> None:
    many = Schema(
        (Integer(name="a", low=0, high=999), Integer(name="b", low=0, high=999), *SCHEMA.columns[2:])
    )
    n = 50
    table = pa.table({c.name: np.zeros(n, np.int64) for c in many.columns})
    run = made(table, schema=many)
    with pytest.raises(OptionError, match="1,000,000 groups"):
        release_in(run, Hierarchy(levels=(("a", "b"),)), encode_table(table, many))
    assert run.diary == []


def test_pure_is_promised_only_where_it_holds() -> None:
    assert Hierarchy(noise="laplace").is_pure
    assert Hierarchy(noise="laplace", update="ide").is_pure
    assert Hierarchy.published().is_pure
    assert not Hierarchy().is_pure
    assert not Hierarchy(noise="laplace", inner=op.Mst()).is_pure
    assert not Hierarchy(inner=Ide(noise="laplace")).is_pure
    assert Hierarchy(noise="laplace", inner=Ide(noise="laplace")).is_pure
    run = made(delta=0.0)
    with pytest.raises(PrivacyError, match="pure"):
        release_in(run, Hierarchy())
    assert run.account.events == []


# From end to end.


def released(tmp_path: Path, **more: Any) -> op.Release:
    options: dict[str, Any] = {"delta": 1e-9, "seed": 3}
    return op.release(
        PRIVATE,
        PUBLIC_ROWS,
        schema=SCHEMA,
        workload=op.all_marginals(2),
        epsilon=2.0,
        ledger=tmp_path / "budget.sqlite",
        dataset="survey",
        **{**options, **more},
    )


@pytest.mark.parametrize("relation", list(Relation))
def test_a_release_with_delta_0_is_pure(relation: Relation, tmp_path: Path) -> None:
    made = released(
        tmp_path,
        delta=0.0,
        relation=relation,
        out=tmp_path / "out",
        mechanism=Hierarchy(levels=TWO, noise="laplace"),
    )
    assert made.certificate.is_pure
    made.certificate.recheck()
    again = op.open_release(tmp_path / "out")
    again.certificate.recheck()
    assert again.certificate.options["levels"] == [["state"], ["area", "year"]]
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert float(run.spent) == pytest.approx(pure_rho_by_hand(2.0), rel=1e-6)
    assert set(made.synthetic["area"].to_pylist()) <= set(AREAS)
    first = made.model.answers([("area", "x")])[("area", "x")]
    np.testing.assert_allclose(again.model.answers([("area", "x")])[("area", "x")], first)
    assert (made.synthetic.num_rows == PRIVATE.num_rows) == (relation is Relation.REPLACE_ONE)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("way", ["shrink", "mst"])
def test_a_broken_run_resumes_without_paying_again(way: str, delta: float, tmp_path: Path) -> None:
    if way == "mst" and delta == 0:
        pytest.skip("mst is not pure")
    how = {"delta": delta, "mechanism": bent_by(way, SHORT, noise="laplace", own=False)}
    where = ("mst in every group", 2) if way == "mst" else ("estimating, level 2 of 2", 0)
    with stopping(*where, KeyboardInterrupt) as stop, pytest.raises(KeyboardInterrupt):
        released(tmp_path, out=tmp_path / "out", progress=stop, **how)
    book = Ledger(tmp_path / "budget.sqlite")
    assert book.datasets()[0].runs[0].events > 0
    again = released(tmp_path, out=tmp_path / "out", resume=True, **how)
    again.certificate.recheck()
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert float(run.spent) == pytest.approx(again.certificate.rho_spent, rel=1e-9)
    assert run.events == len(again.certificate.events)
