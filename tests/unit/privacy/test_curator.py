"""The curator's verbs without noise: what they read, and how draws without replacement number their candidates."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.error_statistics import BestMixtureError, ScoreValue
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.scores import CellScores, L1Score, SumScore, levels
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers, Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.frozen import frozen
from openprior.questions.queries import Queries
from openprior.schema.layout import Layout
from openprior.tables.table import Table
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


def test_draws_with_replacement_are_independent_and_each_at_its_epsilon() -> None:
    scores = CellScores(Cells(TABLE.domain, [("a",)]), np.arange(3), np.zeros(3))
    exact = FakeCurator(TABLE)
    best = int(np.argmax(counts(("a",))))
    assert exact.select_many(scores, 7, exact.rho / 2, replace=True) == (best,) * 7
    curator = FakeCurator(TABLE, noise=SeededNoise(2))
    drawn = curator.select_many(scores, 60, curator.rho, replace=True)
    assert set(drawn) == {0, 1, 2}
    (event,) = curator.events
    assert (event.draws, event.with_replacement) == (60, True)
    assert 60 * float(event.epsilon) ** 2 / 8 == pytest.approx(curator.rho)


@pytest.mark.parametrize("more", [{"how": "permute-and-flip"}, {"replace": 1}, {"k": 0}, {"k": True}])
def test_what_cannot_be_drawn_with_replacement_costs_nothing(more: dict[str, Any]) -> None:
    curator = FakeCurator(TABLE)
    scores = CellScores(Cells(TABLE.domain, [("a",)]), np.arange(3), np.zeros(3))
    with pytest.raises(PrivacyError, match=r"does not draw with replacement|must be True|cannot draw"):
        curator.select_many(**{"scores": scores, "k": 5, "rho": 0.001, "replace": True, **more})
    nobody = CellScores(scores.cells, np.arange(0), np.zeros(0))
    with pytest.raises(PrivacyError, match="cannot draw 1 of 0"):
        curator.select_many(nobody, 1, 0.001, replace=True)
    assert curator.events == ()


def test_a_cell_and_its_negation_are_drawn_by_the_sign() -> None:
    """Without noise the best candidate is the cell that is furthest above its answer, or the negation of the one that
    is furthest below."""
    cells = Cells(TABLE.domain, [("a",)])
    for far, place in ((-500.0, 1), (900.0, 4)):
        answers = counts(("a",)).astype(float)
        answers[1] = far
        assert FakeCurator(TABLE).select(SignedCellScores(cells, np.arange(3), answers), 0.001) == place


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
        curator.select([L1Score(("a",), ((1.0, np.array([0, np.nan, 1])),))], curator.rho / 8)
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


# What may go wrong between a score and its charge.


def test_a_score_that_is_no_number_is_refused_before_it_is_charged() -> None:
    """A model that diverges must not make a level wrap around."""
    curator = FakeCurator(TABLE)
    cells = Cells(TABLE.domain, [("a",)])
    for bad in (np.nan, np.inf, 2.0**62):
        numbers = np.array([0.0, bad, 0.0])
        by_cell, by_marginal = CellScores(cells, np.arange(3), numbers), L1Score(("a",), ((1.0, numbers),))
        for ask in (
            lambda score=by_cell: curator.select(score, curator.rho / 8),
            lambda score=by_marginal: curator.select([score], curator.rho / 8),
            lambda score=by_cell: curator.measure(ScoreValue.of(score), curator.rho / 8),
            lambda score=by_marginal: curator.measure(ScoreValue.of(score), curator.rho / 8),
        ):
            with pytest.raises(PrivacyError, match="finite"):
                ask()
    assert curator.events == ()


def test_a_question_is_what_it_was_when_it_was_made() -> None:
    """Another thread that writes into its arrays, between the check and the reading, changes nothing."""
    cells = Cells(TABLE.domain, [("a",)])
    only, answers, reference = np.arange(3), np.zeros(3), np.zeros(3)
    weight, terms = np.array(1.0), [(1.0, reference)]
    members = np.tri(3, dtype=np.bool_)[:2]
    by_cell, by_marginal = CellScores(cells, only, answers), L1Score(["a"], terms, weight)  # type: ignore[arg-type]
    whole, queries = SumScore([by_marginal]), Queries("prefixes(a)", ("a",), members)  # type: ignore[arg-type]
    only[:], answers[:], reference[:], members[:], weight[...] = 99, np.nan, 2.0**62, True, 2.0**50
    terms.append((9.0, reference))
    assert by_cell.only.tolist() == [0, 1, 2]
    assert by_cell.answers.tolist() == [0, 0, 0]
    assert (by_marginal.weight, by_marginal.marginal, len(by_marginal.terms)) == (1.0, ("a",), 1)
    assert by_marginal.terms[0][1].tolist() == [0, 0, 0]
    assert whole.parts == (by_marginal,)
    assert queries.members.tolist() == [[True, False, False], [True, True, False]]
    for kept in (by_cell.only, by_cell.answers, by_marginal.terms[0][1], queries.members):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept.setflags(write=True)
    curator = FakeCurator(TABLE, noise=SeededNoise(1))
    for ask in (
        lambda: curator.select(by_cell, curator.rho / 8),
        lambda: curator.select([by_marginal, by_marginal], curator.rho / 8),
        lambda: curator.measure(ScoreValue.of(whole), curator.rho / 8),
        lambda: curator.measure(QueryAnswers.of(queries), curator.rho / 8),
    ):
        ask()
    assert len(curator.events) == 4


def test_candidates_and_public_rows_cannot_change_while_they_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = [L1Score(("a",), ((1.0, np.zeros(3)),))] * 2
    kept = []

    def meddle(found: Any, *others: Any) -> Any:
        """At the moment of the charge, which is after the check."""
        scores.append(L1Score(("a",), ((2.0**30, np.zeros(3)),)))
        kept.append(found)
        return levels(found, *others)

    monkeypatch.setattr("openprior.privacy.curator.levels", meddle)
    FakeCurator(TABLE).select(scores, 0.001)
    assert len(scores) == 3
    assert len(kept[0]) == 2
    mine = np.zeros(4, np.uint8)
    rows = Table(TABLE.domain, (mine, mine, mine))
    fitted = BestMixtureError(rows, (("a",),)).fitted(Layout(TABLE.domain))
    mine[:] = 1
    assert fitted.rows is not None
    assert [c.tolist() for c in fitted.rows.columns] == [[0] * 4] * 3


def test_frozen_slices_are_not_copied_again() -> None:
    kept = frozen(np.arange(6.0))
    assert frozen(kept) is kept
    assert np.shares_memory(frozen(kept[2:]), kept)
    locked = np.arange(6.0)
    locked.setflags(write=False)  # which whoever owns it can undo
    assert not np.shares_memory(frozen(locked), locked)
    assert type(frozen(np.ma.array([1.0, 2.0]))) is np.ndarray
    for odd in (
        np.zeros((0, 3), np.bool_),
        np.array(3.0),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(9)[::2],
    ):
        assert np.array_equal(frozen(odd), odd)
        assert frozen(odd).dtype == odd.dtype


def test_a_score_is_charged_for_what_it_is() -> None:
    score = L1Score(("a",), ((1.0, np.zeros(3)),))
    with pytest.raises(PrivacyError, match=r"use ScoreValue\.of"):
        ScoreValue("cells", score)
    with pytest.raises(PrivacyError, match=r"use ScoreValue\.of"):
        dataclasses.replace(ScoreValue.of(score), over="cells")
    with pytest.raises(PrivacyError, match=r"use ScoreValue\.of"):
        ScoreValue("rows", score)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, ">f8", np.longdouble])
def test_references_of_any_kind_of_number_are_read_alike(dtype: object) -> None:
    reference = np.array([3, 50, 7])
    values = [
        FakeCurator(TABLE)
        .measure(ScoreValue.of(L1Score(("a",), ((1.0, reference.astype(d)),))), 0.001)
        .values
        for d in (np.float64, dtype)
    ]
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize(
    "only", [np.array([0.0, 1.0]), np.array([True, False]), np.array([0, 1], object)], ids=str
)
def test_candidates_are_numbers_of_cells(only: np.ndarray) -> None:
    with pytest.raises(PrivacyError, match="by number"):
        CellScores(Cells(TABLE.domain, [("a",)]), only, np.zeros(2))


def test_the_total_of_a_part_needs_its_keys_only() -> None:
    """Even where the keys and another column have more cells than can be counted."""
    table = random_table({"wide": 1 << 14, "key": 1 << 12, "x": 2}, 50, 1)
    parts = FakeCurator(table, noise=None).partition(["key"])
    code = int(table.column("key")[0])
    expected = np.count_nonzero(table.column("key") == code)
    assert parts[(code,)].measure(Total(), 1e-4).values == [expected]


def test_only_whole_numbers_of_draws_and_only_statistics() -> None:
    curator = FakeCurator(TABLE)
    scores = [L1Score((a,), ((1.0, np.zeros(s)),)) for a, s in TABLE.domain.sizes().items()]
    for k in (1.0, True, np.int64(1), 0, 99):
        with pytest.raises(PrivacyError, match="cannot draw"):
            curator.select_many(scores, k, 0.001)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="is no statistic"):
        curator.measure(("a",), 0.001)  # type: ignore[arg-type]
    curator.measure(Counts(("a",)), np.float64(0.001))
    assert type(curator.events[0].rho) is float
