"""DualQuery: its price by hand, its draws and its records against brute force, its public start."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.dual_query import DualQuery
from openprior.methods.shared import data_player
from openprior.methods.shared.best_record import WeightedQueries, climbed
from openprior.methods.shared.data_player import DataPlayer
from openprior.methods.shared.record_program import Solved, solved
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.statistics import Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import quiet

SIZES = {"a": 2, "b": 3, "c": 4}
DOMAIN = Domain(SIZES)
WORK = all_marginals(2).on(DOMAIN)
CELLS = Cells(DOMAIN, WORK.marginals)


def rows(n: int, seed: int) -> Table:
    """Skewed, dependent columns."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    columns = [np.minimum((rng.random(n) ** 2 * s + hidden).astype(int), s - 1) for s in SIZES.values()]
    return Table(DOMAIN, tuple(columns))


PRIVATE, PUBLIC = rows(3_000, 1), rows(500, 2)


def play(
    mechanism: DualQuery, table: Table = PRIVATE, public: Table | None = PUBLIC, seed: int = 4, **given: Any
) -> tuple[FakeCurator, Any]:
    curator = FakeCurator(table, noise=SeededNoise(seed), **given)
    return curator, mechanism.run(curator, public, WORK, np.random.default_rng(seed), quiet)


def remarks(curator: Any) -> list[str]:
    purse = vars(FakeCurator.__mro__[1])["_Curator__purse"].__get__(curator)
    return list(purse.account.remarks)


def flat(table: Table) -> NDArray[np.float64]:
    counts = count_table(table, WORK.marginals)
    return np.concatenate([counts[m] for m in CELLS.marginals]).astype(float)


# The price.


def test_seventy_rounds_on_adult() -> None:
    """n = 43,900, ρ = 0.0118, s = 100, η = 2."""
    assert DualQuery(samples=100, eta=2.0)._affordable(0.0118, 43_900.0, Unit()) == (70, 2.0)
    costs = [100 * 2**2 * (t - 1) * t * (2 * t - 1) / (12 * 43_900**2) for t in (70, 71)]
    assert costs[0] <= 0.0118 < costs[1]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("rows_per_person", [1, 2])
def test_every_draw_is_at_two_eta_k_rows_over_n(relation: Relation, rows_per_person: int) -> None:
    mechanism = DualQuery(samples=30, eta=1.5, solver="search")
    curator, model = play(mechanism, unit=Unit(relation, rows_per_person), epsilon=0.2)
    measured = [e for e in curator.events if e.kind == "gaussian"]
    drawn = [e for e in curator.events if e.kind == "exponential"]
    assert [e.statistic for e in measured] == ([] if relation is Relation.REPLACE_ONE else [Total()])
    n, rounds = model.total, len(drawn) + 1
    for k, event in enumerate(drawn, 1):
        assert (event.draws, event.with_replacement) == (30, True)
        assert event.candidates.count == 2 * len(CELLS)
        assert event.epsilon == pytest.approx(2 * 1.5 * k * rows_per_person / n, rel=1e-9)
    cost = sum(e.rho for e in drawn)
    by_formula = 30 * (1.5 * rows_per_person / n) ** 2 * (rounds - 1) * rounds * (2 * rounds - 1) / 12
    assert cost == pytest.approx(by_formula, rel=1e-9)
    another = 30 * (2 * 1.5 * rows_per_person * rounds / n) ** 2 / 8
    assert sum(e.rho for e in curator.events) <= curator.rho
    assert cost + another > curator.remaining + cost, "one more round would fit"
    assert curator.remaining > 0


def test_inside_a_part_the_draws_are_as_sharp_and_cost_twice() -> None:
    """Under replace-one a person may leave one part and enter another."""
    mechanism = DualQuery(samples=10, eta=0.5, solver="search")
    curator = FakeCurator(rows(4_000, 3), noise=SeededNoise(1))
    part = curator.partition(["a"])[(1,)]
    work = all_marginals(1).on(part.domain)
    total = mechanism.run(part, None, work, np.random.default_rng(0), quiet).total
    drawn = [e for e in curator.events if e.kind == "exponential"]
    assert len(drawn) > 5
    for k, event in enumerate(drawn, 1):
        assert event.epsilon == pytest.approx(2 * 0.5 * k / total, rel=1e-9)
        assert event.rho == pytest.approx(2 * 10 * event.epsilon**2 / 8, rel=1e-9)


def test_rounds_that_do_not_fit_are_refused_before_any_charge() -> None:
    fit = len(play(DualQuery(solver="search"), epsilon=2.0)[0].events) + 1
    curator, _ = play(DualQuery(rounds=fit, solver="search"), epsilon=2.0)
    assert len(curator.events) == fit - 1
    curator = FakeCurator(PRIVATE, epsilon=2.0)
    with pytest.raises(OptionError, match=rf"rounds \({fit + 1}\) cost more .* pays for {fit} with"):
        DualQuery(rounds=fit + 1).run(curator, None, WORK, np.random.default_rng(0), quiet)
    assert curator.events == ()


@pytest.mark.parametrize(
    ("mechanism", "unit"),
    [(DualQuery(rounds=40), Unit(Relation.ADD_REMOVE)), (DualQuery(samples=2000, eta=900.0), Unit())],
)
def test_eta_is_lowered_aloud(mechanism: DualQuery, unit: Unit) -> None:
    """Where n is private its rounds cannot be refused beforehand, and one round alone would tell nothing."""
    with pytest.warns(OpenPriorWarning, match="eta was lowered from"):
        rounds, eta = mechanism._plan(curator := FakeCurator(PRIVATE, unit=unit), 3000.0)
    assert rounds == (mechanism.rounds or 5)
    assert 0 < eta < mechanism.eta
    price = sum(mechanism._price(eta, k, 3000.0, unit) for k in range(1, rounds))
    assert price == pytest.approx(curator.remaining, rel=1e-9)
    assert remarks(curator)[0].startswith("eta was lowered from")


# The draws.


class Spy(FakeCurator):
    """Keeps the scores that it was asked with."""

    __slots__ = ("asked",)

    def select_many(self, scores: Any, k: int, rho: float, **how: Any) -> tuple[int, ...]:
        self.asked = [*getattr(self, "asked", []), scores]
        return super().select_many(scores, k, rho, **how)


@pytest.mark.parametrize("early", [0, 6])
def test_scores_are_those_of_the_records_so_far(early: int) -> None:
    """u = ±(T₀·q(E) + k·q(D) − hits), as k/n times a score in rows; the records are found again in the model."""
    more: dict[str, Any] = {"start": "public", "public_rounds": early} if early else {}
    curator = Spy(PRIVATE, noise=SeededNoise(4), epsilon=2.0)
    mechanism = DualQuery(rounds=8, samples=20, solver="search", **more)
    model = mechanism.run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
    n, shares = PRIVATE.n, flat(PUBLIC) / PUBLIC.n
    hits = [early * shares + k / n * s.answers for k, s in enumerate(curator.asked, 1)]
    assert len(hits) == 7
    for k, (before, after) in enumerate(itertools.pairwise(hits), early + 1):
        np.testing.assert_allclose(before, np.rint(before), atol=1e-9)
        assert before.sum() == pytest.approx(k * len(WORK.marginals))
        assert (np.rint(after - before) >= 0).all()
    answers = model.answers(WORK.marginals)
    final = np.concatenate([answers[m] for m in CELLS.marginals]) / n * (early + 8)
    np.testing.assert_allclose(final, np.rint(final), atol=1e-9)
    assert (np.rint(final - hits[-1]) >= 0).all()
    # The same rounds cost the same, whatever came before them for free.
    plain, _ = play(DualQuery(rounds=8, samples=20, solver="search"), epsilon=2.0)
    assert [e.rho for e in plain.events] == [e.rho for e in curator.events]


def test_without_noise_the_worst_query_is_mended() -> None:
    """All draws are the same then: the query that is furthest off, and the record lies in it, or outside if negated."""
    curator = Spy(PRIVATE, epsilon=2.0)
    DualQuery(rounds=6, samples=5).run(curator, None, WORK, np.random.default_rng(0), quiet)
    exact = flat(PRIVATE)
    for before, after in itertools.pairwise(enumerate(curator.asked, 1)):
        u = exact - before[1].answers
        worst = int(np.argmax(np.concatenate([u, -u]))) % len(CELLS)
        came_in = after[0] * after[1].answers[worst] - before[0] * before[1].answers[worst]
        assert round(came_in / PRIVATE.n) == (1 if u[worst] > 0 else 0)


def test_more_budget_brings_the_answers_closer() -> None:
    exact = flat(PRIVATE) / PRIVATE.n

    def error(epsilon: float, **more: Any) -> float:
        found = []
        for seed in range(2):
            model = play(DualQuery(solver="search", **more), epsilon=epsilon, seed=seed)[1]
            answers = model.answers(WORK.marginals)
            shares = np.concatenate([answers[m] for m in CELLS.marginals]) / PRIVATE.n
            found.append(np.abs(shares - exact).max())
        return float(np.mean(found))

    little, much = error(0.5), error(10.0)
    assert much < little / 2
    assert error(0.5, start="public", public_rounds=40) < little / 2


# The record.


def brute_force(queries: WeightedQueries, sizes: tuple[int, ...]) -> int:
    everything = np.array(list(itertools.product(*map(range, sizes))))
    return int(queries.worth(everything).max())


def random_queries(seed: int) -> tuple[WeightedQueries, Domain]:
    """Draws of single columns, pairs and triples with few values, so that they are in each other's way."""
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(1, 4)) for name in "abcde"})
    cells = Cells(domain, [("a",), ("b", "c"), ("a", "c", "d"), ("b", "d", "e"), ("c", "e")])
    draws = int(rng.integers(1, 60))
    return WeightedQueries.of(cells, rng.integers(len(cells), size=draws), rng.choice([-1, 1], draws)), domain


def test_the_program_and_the_player_find_the_best_record() -> None:
    missed = 0
    for seed in range(25):
        queries, domain = random_queries(seed)
        best = brute_force(queries, domain.shape)
        rng = np.random.default_rng(seed)
        start = np.zeros((1, 5), np.int64)
        record, worth = climbed(queries, domain.shape, start, rng)
        assert queries.worth(record[None])[0] == worth <= best
        assert (record >= 0).all() and (record < domain.shape).all()
        missed += worth < best
        if len(queries.weights):
            values = solved(queries, domain.shape).values
            assert values is not None
            other = DataPlayer(domain, None, "program", rng)._completed(values, queries)
            assert queries.worth(other[None])[0] == best
        answer = DataPlayer(domain, None, "program", rng).answer(queries)
        assert queries.worth(answer[None])[0] == best
    assert missed <= 4, "the search alone, from a single start"


def test_the_better_of_search_and_program_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, domain = random_queries(5)
    best = brute_force(queries, domain.shape)
    poor = np.array([0, 0, 0, 0, 0])
    assert queries.worth(poor[None])[0] < best < queries.weights[queries.wanted].sum()

    def answer(solver: str = "program") -> int:
        player = DataPlayer(domain, None, solver, np.random.default_rng(0))
        return int(queries.worth(player.answer(queries)[None])[0])

    with monkeypatch.context() as patched:
        patched.setattr(data_player, "climbed", lambda *_: (poor, int(queries.worth(poor[None])[0])))
        assert answer() == best
        assert answer("search") < best
    for found in (
        Solved(None, True),
        Solved(dict(enumerate(poor.tolist())), False),
    ):  # nothing, or a poor record
        monkeypatch.setattr(data_player, "solved", lambda *_, found=found: found)
        assert answer() == best


def test_a_clock_that_stops_the_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_player, "solved", lambda *_: Solved(None, True))
    curator, _ = play(DualQuery(rounds=3), epsilon=2.0)
    assert any("limit in seconds stopped the search for" in r for r in remarks(curator))


def test_free_columns_are_those_of_random_rows() -> None:
    """Of the whole domain, or of the public rows: what no query asks for is not the same in all records."""
    domain = Domain({"a": 2, "b": 50})
    queries = WeightedQueries.of(Cells(domain, [("a",)]), [1], [1])
    pool = Table(domain, (np.array([0, 0]), np.array([7, 31])))
    for given, allowed in ((None, set(range(50))), (pool, {7, 31})):
        player = DataPlayer(domain, given, "program", np.random.default_rng(0))
        records = np.array([player.answer(queries) for _ in range(20)])
        assert set(records[:, 0]) == {1}
        assert len(set(records[:, 1].tolist())) > 1
        assert set(records[:, 1].tolist()) <= allowed


# What is released.


def test_it_says_on_how_few_records_it_rests() -> None:
    curator, model = play(DualQuery(rounds=7, start="public", public_rounds=3, solver="search"), epsilon=2.0)
    (said,) = remarks(curator)
    assert f"rests on 10 records, 3 of them from rounds against the public table, {model.rows.n} of" in said
    curator, _ = play(DualQuery(rounds=1), epsilon=2.0)
    assert curator.events == ()
    assert "nothing of the private table is used" in remarks(curator)[1]


def test_columns_outside_the_workload_are_uniform_or_public() -> None:
    work = all_marginals(1).on(DOMAIN.project(["a", "c"]))
    curator = FakeCurator(PRIVATE, noise=SeededNoise(1))
    with pytest.warns(OpenPriorWarning, match="Not measured, so uniform in every answer and row: b"):
        model = DualQuery(solver="search").run(curator, None, work, np.random.default_rng(0), quiet)
    np.testing.assert_allclose(model.answers([("b",)])[("b",)], 1000.0)
    one = Table(DOMAIN, (np.array([0]), np.array([2]), np.array([0])))
    curator = FakeCurator(PRIVATE, noise=SeededNoise(1))
    model = DualQuery(start="public", solver="search").run(
        curator, one, work, np.random.default_rng(0), quiet
    )
    np.testing.assert_allclose(model.answers([("b",)])[("b",)], [0, 0, 3000])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": 0}, "samples"),
        ({"samples": 2001}, "samples"),
        ({"eta": 0.0}, "eta"),
        ({"eta": math.inf}, "eta"),
        ({"public_rounds": 4}, "start = public"),
        ({"start": "public", "public_rounds": 0}, "at least 1"),
        ({"solver": "guess"}, "program, search"),
    ],
)
def test_options_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        DualQuery(**options)


@pytest.mark.parametrize("public", [None, Table(DOMAIN, (np.zeros(0, int),) * 3)])
def test_a_public_start_needs_public_rows(public: Table | None) -> None:
    curator = FakeCurator(PRIVATE)
    with pytest.raises(OptionError, match="start = public needs a public table with rows"):
        DualQuery(start="public").run(curator, public, WORK, np.random.default_rng(0), quiet)
    assert curator.events == ()


def test_signed_scores_are_gathered_once() -> None:
    """Rounds share the array of candidates, which is how the vault knows that it has their counts."""
    curator = Spy(PRIVATE, noise=SeededNoise(4), epsilon=2.0)
    DualQuery(rounds=5, solver="search").run(curator, None, WORK, np.random.default_rng(0), quiet)
    assert all(type(s) is SignedCellScores for s in curator.asked)
    assert len({(id(s.cells), id(s.only)) for s in curator.asked}) == 1
