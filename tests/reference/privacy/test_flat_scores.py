"""Flat scores against the objects that they stand for, one by one, and against all neighbours of small tables."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.tally import distance
from openprior.errors import PrivacyError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.flat_scores import MarginalScores, TableScore
from openprior.privacy.scores import L1Score, SumScore, levels
from openprior.privacy.unit import Relation, Unit
from openprior.schema.domain import Domain
from tests.reference.privacy.test_joint_scores import EVEN, as_table
from tests.reference.privacy.test_sensitivity import (
    DOMAIN,
    FAR,
    NEAR,
    UNITS,
    Histograms,
    check_levels,
    ids,
    neighbours,
    reference,
    tables,
)

MARGINALS = [("a",), ("b",), ("k", "b"), ("k", "a", "b")]
CELLS = Cells(DOMAIN, MARGINALS)
REACHED = np.concatenate([reference(DOMAIN.size(m), FAR, NEAR) for m in MARGINALS])
"""References that one row moves away from by all it can."""


def numbers(kind: str, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Numbers that are awkward to add up: tiny and large, of both signs, between two steps of the grid."""
    return {
        "plain": rng.uniform(0, 3, count),
        "wild": rng.normal(0, 1, count) * 2.0 ** rng.integers(-40, 30, count),
        "halves": (rng.integers(-40, 40, count) + 0.5) / 1024,
    }[kind]


def apart(scores: MarginalScores) -> list[L1Score]:
    """The same candidates as single objects."""
    parts = CELLS.split(np.asarray(scores.answers))
    both = zip(parts.items(), scores.weights.tolist(), scores.offsets.tolist(), strict=True)
    return [L1Score(m, ((1.0, x),), weight=w, offset=o) for (m, x), w, o in both]


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("kind", ["plain", "wild", "halves"])
def test_levels_are_those_of_single_scores_to_the_last_unit(kind: str, unit: Unit) -> None:
    rng = np.random.default_rng(5)
    for h in tables(unit.relation)[::23]:
        answers = numbers(kind, rng, len(CELLS))
        weights, offsets = numbers(kind, rng, len(MARGINALS)), numbers(kind, rng, len(MARGINALS))
        scores = MarginalScores(CELLS, answers, weights, offsets)
        found, expected = levels(scores, Histograms(h), unit), levels(apart(scores), Histograms(h), unit)
        assert found.sensitivity == expected.sensitivity
        assert found.values.tolist() == expected.values.tolist()
        assert scores.sensitivity(unit) == max(s.sensitivity(unit) for s in apart(scores))


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("kind", ["plain", "wild", "halves"])
def test_levels_of_single_scores_are_the_floor_of_the_exact_quotient(kind: str, unit: Unit) -> None:
    """By fractions, from the definition: whole numbers over whole numbers lose nothing on the way."""
    rng = np.random.default_rng(7)
    for h in tables(unit.relation)[::23]:
        counts = Histograms(h).counts(MARGINALS)
        scores, exact = [], []
        for m in MARGINALS:
            coefficients, (weight, offset) = numbers(kind, rng, 2), numbers(kind, rng, 2)
            references = [numbers(kind, rng, DOMAIN.size(m)) for _ in coefficients]
            scores.append(L1Score(m, tuple(zip(coefficients, references, strict=True)), weight, offset))
            rounded = [
                [Fraction(round(Fraction(r) * 1024), 1024) for r in ref.tolist()] for ref in references
            ]
            far = [sum(abs(int(x) - r) for x, r in zip(counts[m], ref, strict=True)) for ref in rounded]
            terms = sum(Fraction(c) * d for c, d in zip(coefficients.tolist(), far, strict=True))
            exact.append(Fraction(float(weight)) * (terms + Fraction(float(offset))))
        found = levels(scores, Histograms(h), unit)
        largest = max(s.sensitivity(unit) for s in scores)
        assert found.values.tolist() == [math.floor(e * found.sensitivity / largest) for e in exact]
        assert [s.evaluate(counts) for s in scores] == exact


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("stale", [False, True])
def test_no_neighbour_moves_a_level_by_more_whatever_the_answers(stale: bool, unit: Unit) -> None:
    """Answers of an older model, or of none, are references like any other."""
    answers = np.random.default_rng(1).uniform(0, 2, len(CELLS)) if stale else REACHED
    weights, offsets = np.array([3.0, 1.0, 0.3, 2.0]), np.array([0.0, -1.7, 40.0, 0.1])
    check_levels(MarginalScores(CELLS, answers, weights, offsets), unit, reached=not stale)


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_the_score_of_a_table_is_the_sum_of_its_parts(unit: Unit) -> None:
    rng = np.random.default_rng(2)
    weights = np.array([-0.5, -0.25, 0.3, -0.1])
    table = TableScore(CELLS, numbers("wild", rng, len(CELLS)), weights, 1.25)
    parts = CELLS.split(np.asarray(table.answers))
    single = [L1Score(m, ((1.0, x),), w) for (m, x), w in zip(parts.items(), weights.tolist(), strict=True)]
    whole = SumScore(tuple(single))
    assert table.sensitivity(unit) == whole.sensitivity(unit)
    for h in tables(unit.relation)[::17]:
        counts = Histograms(h).counts(MARGINALS)
        assert table.evaluate(counts) == whole.evaluate(counts) + Fraction(1.25)


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_a_neighbour_moves_the_score_of_a_table_by_its_sensitivity_and_no_more(unit: Unit) -> None:
    score = TableScore(CELLS, REACHED, np.array([1.0, 0.5, 2.0, 0.25]))
    found = [score.evaluate(Histograms(h).counts(MARGINALS)) for h in tables(unit.relation)]
    steps = np.array([int(f * 1024) for f in found])
    first, second = neighbours(unit)
    largest = Fraction(int(np.abs(steps[first] - steps[second]).max()), 1024)
    assert largest <= score.sensitivity(unit) == Fraction(15, 4) * unit.l1
    assert largest == score.sensitivity(unit) or unit.relation is Relation.REPLACE_ONE


def flat(**changed: object) -> MarginalScores:
    given = {
        "cells": CELLS,
        "answers": np.zeros(len(CELLS)),
        "weights": np.ones(len(MARGINALS)),
        "offsets": np.zeros(len(MARGINALS)),
    }
    return MarginalScores(**(given | changed))  # type: ignore[arg-type]


class Shifted(Cells):
    """Cells whose segments are not those of their marginals: the first would take in all that follow."""

    def __init__(self) -> None:
        super().__init__(DOMAIN, MARGINALS)
        self.offsets = np.array([0, 10, 11, 12, len(self)])


class Disordered(Cells):
    """Cells of a marginal in another order than the counts'."""

    def __init__(self) -> None:
        super().__init__(DOMAIN, MARGINALS)
        self.marginals = (*MARGINALS[:2], ("b", "k"), MARGINALS[3])


class Fractional(Cells):
    """Cells whose segments have the right numbers, in a type that no loop takes."""

    def __init__(self) -> None:
        super().__init__(DOMAIN, MARGINALS)
        self.offsets = self.offsets.astype(np.float64)  # type: ignore[assignment]


REFUSED: dict[str, Callable[[], Any]] = {
    "many candidates as one": lambda: [flat(), flat()],
    "no score": lambda: [None],
    "segments of another type": lambda: flat(cells=Fractional()),
    "an answer that is missing": lambda: flat(answers=np.zeros(len(CELLS) - 1)),
    "an answer that is no number": lambda: flat(answers=np.full(len(CELLS), np.nan)),
    "infinity": lambda: flat(answers=np.append(np.zeros(len(CELLS) - 1), -np.inf)),
    "an answer too large": lambda: flat(answers=np.append(np.zeros(len(CELLS) - 1), 2.0**41)),
    "answers of another kind": lambda: flat(answers=np.zeros(len(CELLS), complex)),
    "one weight for all": lambda: flat(weights=np.ones(1)),
    "a weight that is no number": lambda: flat(weights=np.array([1, 1, 1, np.nan])),
    "an offset too large": lambda: flat(offsets=np.array([0, 0, 0, 2.0**41])),
    "weights of zero": lambda: flat(weights=np.zeros(len(MARGINALS))),
    "segments that are not the marginals'": lambda: flat(cells=Shifted()),
    "columns in another order": lambda: flat(cells=Disordered()),
    "columns of another domain": lambda: flat(
        cells=Cells(Domain({"x": len(CELLS)}), [("x",)]), weights=np.ones(1), offsets=np.zeros(1)
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_fit_is_refused_before_any_charge(why: str) -> None:
    curator = FakeCurator(as_table(EVEN))
    with pytest.raises(PrivacyError):
        curator.select(REFUSED[why](), curator.rho)
    assert curator.events == ()


def test_what_was_checked_is_what_is_evaluated() -> None:
    answers, weights = np.zeros(len(CELLS)), np.ones(len(MARGINALS))
    scores = MarginalScores(CELLS, answers, weights, np.zeros(len(MARGINALS)))
    answers[:], weights[:] = 9.0, 1e6
    assert not scores.answers.any() and scores.weights.max() == 1.0


def test_the_curator_reads_the_same_counts_by_marginal_and_in_one_vector() -> None:
    """Also within a part, and for marginals in another order than the pass counted them in."""
    for order in (MARGINALS, MARGINALS[::-1]):
        curator = FakeCurator(as_table(EVEN), noise=None)
        curator.announce(MARGINALS)
        curator.look_ahead()
        part = FakeCurator(as_table(EVEN)).partition(["k"])[(0,)]
        inside = Cells(part.domain, [("b",), ("a", "b")])
        for asked, cells in ((curator, Cells(DOMAIN, order)), (part, inside)):
            far = len(cells.marginals) - 1
            answers = np.zeros(len(cells))
            answers[cells.offsets[far] :] = 50.0
            scores = MarginalScores(cells, answers, np.ones(far + 1), np.zeros(far + 1))
            assert asked.select(scores, asked.remaining / 4) == far


def test_the_distance_of_a_segment_is_the_distance_of_its_cells() -> None:
    rng = np.random.default_rng(0)
    counts, answers = rng.integers(0, 9, len(CELLS)), rng.uniform(0, 9, len(CELLS))
    pieces = zip(CELLS.split(counts).values(), CELLS.split(answers).values(), strict=True)
    scores = MarginalScores(CELLS, answers, np.ones(len(MARGINALS)), np.zeros(len(MARGINALS)))
    expected = [int(distance(c, x, 1024)) // 2 for c, x in pieces]
    assert scores.levels(counts, 1024, Unit()).tolist() == expected
