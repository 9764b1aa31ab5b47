"""The curator's verbs without noise: what they read, and how draws without replacement number their candidates."""

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.scores import CellScores, L1Score, SumScore
from openprior.privacy.statistics import CellCount, Counts, Total
from openprior.privacy.unit import Relation, Unit
from tests.conftest import random_table

TABLE = random_table({"a": 3, "b": 4, "c": 2}, 300, 1)


def counts(marginal: tuple[str, ...]) -> np.ndarray:
    shape = [TABLE.domain[a] for a in marginal]
    cells = np.ravel_multi_index([TABLE.column(a).astype(int) for a in marginal], shape)
    return np.bincount(cells, minlength=int(np.prod(shape)))


def test_measurements_are_counts_in_the_domains_order() -> None:
    curator = FakeCurator(TABLE)
    rho = curator.rho / 10
    np.testing.assert_array_equal(curator.measure(Counts(("c", "a")), rho).values, counts(("a", "c")))
    np.testing.assert_array_equal(curator.measure(CellCount(("b",), 2), rho).values, counts(("b",))[2:3])
    assert curator.n == 300
    assert FakeCurator(TABLE, unit=Unit(Relation.ADD_REMOVE)).measure(Total(), 0.001).values == [300]


def test_select_many_draws_different_candidates_best_first() -> None:
    curator = FakeCurator(TABLE)
    answers = np.zeros(4)
    cells = Cells(TABLE.domain, [("b",)])
    scores = CellScores(cells, np.arange(4), answers)
    expected = np.argsort(-counts(("b",)))
    assert curator.select_many(scores, 4, curator.rho / 2) == tuple(expected)
    assert curator.select(scores, curator.rho / 4) == expected[0]
    only = np.array([3, 1])
    chosen = curator.select(CellScores(cells, only, answers[:2]), curator.rho / 8)
    assert only[chosen] == max(only, key=lambda i: counts(("b",))[i])
    with pytest.raises(PrivacyError, match="cannot draw 5 of 4"):
        curator.select_many(scores, 5, 0.001)


def test_many_draws_cost_what_one_was_given() -> None:
    curator = FakeCurator(TABLE, noise=SeededNoise(2))
    scores = CellScores(Cells(TABLE.domain, [("a",)]), np.arange(3), np.zeros(3))
    drawn = curator.select_many(scores, 3, curator.rho)
    assert sorted(drawn) == [0, 1, 2]
    event = curator.events[0]
    assert event.draws == 3
    assert 3 * float(event.epsilon) ** 2 / 8 == pytest.approx(curator.rho)


def test_scores_are_evaluated_as_written() -> None:
    curator = FakeCurator(TABLE)
    far, near = np.zeros(3), counts(("a",)).astype(float)
    scores = [L1Score(("a",), ((1.0, near),)), L1Score(("a",), ((1.0, far),))]
    assert curator.select(scores, curator.rho / 8) == 1
    assert curator.select([L1Score(("a",), ((1.0, near),), offset=1e6), scores[1]], curator.rho / 8) == 0
    assert curator.select([L1Score(("a",), ((1.0, far),), weight=-1.0), scores[0]], curator.rho / 8) == 1
    both = SumScore((scores[0], L1Score(("b",), ((1.0, np.zeros(4)),), weight=0.5)))
    assert curator.select([both, scores[1]], curator.rho / 8) == 1
    with pytest.raises(PrivacyError, match="not finite"):
        L1Score(("a",), ((1.0, np.array([0, np.nan, 1])),))
    with pytest.raises(PrivacyError, match="weight 0"):
        curator.select([L1Score(("a",), ((1.0, far),), weight=0.0)], curator.rho / 8)


def test_parts_see_their_own_rows_and_the_run_pays_the_largest() -> None:
    curator = FakeCurator(TABLE, unit=Unit(Relation.ADD_REMOVE))
    parts = curator.partition(["a"])
    assert len(parts) == 3
    rho = curator.rho / 10
    for (code,), part in parts.items():
        expected = counts(("a", "b")).reshape(3, 4)[code]
        np.testing.assert_array_equal(part.measure(Counts(("b",)), rho).values, expected)
    assert curator.remaining == pytest.approx(0.9 * curator.rho)
    parts[(0,)].measure(Counts(("c",)), 3 * rho)
    assert curator.remaining == pytest.approx(0.6 * curator.rho)
    parts[(1,)].measure(Counts(("c",)), 2 * rho)
    assert curator.remaining == pytest.approx(0.6 * curator.rho)
    assert parts[(1,)].remaining == pytest.approx(0.7 * curator.rho)
    with pytest.raises(BudgetExceeded):
        parts[(1,)].measure(Counts(("c",)), 0.71 * curator.rho)
    parts[(1,)].measure(Counts(("c",)), parts[(1,)].remaining)
    assert 0 <= curator.remaining < 1e-9 * curator.rho
    with pytest.raises(PrivacyError, match="again"):
        parts[(0,)].partition(["b"])


def test_what_is_unknown_or_impossible_is_refused_for_nothing() -> None:
    curator = FakeCurator(TABLE)
    before = curator.remaining
    for call in (
        lambda: curator.measure(Counts(("a",)), -1.0),
        lambda: curator.measure(Counts(("a",)), float("nan")),
        lambda: curator.measure(Counts(("a",)), 0.001, noise="uniform"),
        lambda: curator.measure(CellCount(("a",), 3), 0.001),
        lambda: curator.measure(Total(), 0.001),
        lambda: curator.select([], 0.001),
        lambda: curator.select([L1Score(("a",), ((1.0, np.zeros(3)),))], 0.001, how="greedy"),
        lambda: curator.partition(["a", "b", "c"]),
    ):
        with pytest.raises(PrivacyError):
            call()
    assert curator.remaining == before


def test_equal_parts_of_the_budget_always_fit() -> None:
    for rounds in (3, 7, 49, 300):
        curator = FakeCurator(TABLE, noise=SeededNoise(1))
        for _ in range(rounds):
            curator.measure(CellCount(("a",), 0), curator.rho / rounds)
        assert curator.remaining <= 1e-9 * curator.rho
