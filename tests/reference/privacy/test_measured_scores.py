"""What a score measures, against all neighbours of small tables: never beyond what it was charged for."""

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.error_statistics import ScoreValue
from openprior.privacy.events import event_from_dict
from openprior.privacy.fake import FakeCurator
from openprior.privacy.scores import CellScores, L1Score, Scores, SumScore
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal
from tests.conftest import random_table
from tests.formulas import rho_by_hand, sensitivity_by_hand
from tests.reference.privacy.test_sensitivity import (
    DOMAIN,
    UNITS,
    counts_of,
    curator,
    ids,
    neighbours,
    one_term,
    tables,
)

RHO = 0.05
PAIRS: list[Marginal] = [("k", "a"), ("a", "b")]
CELLS = Cells(DOMAIN, PAIRS)
SCORES: dict[str, Scores] = {
    "one": one_term(("k", "a")),
    "sum": SumScore(tuple(one_term(m, weight=w) for m, w in zip(PAIRS, (0.3, 0.7), strict=True))),
    "workload": SumScore(
        tuple(L1Score(m, ((1.0, np.full(4, 0.75)),), weight=0.5) for m in PAIRS),
    ),
    "cells": CellScores(CELLS, np.arange(len(CELLS)), np.linspace(0, 2, len(CELLS))),
}


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("name", SCORES)
def test_it_moves_by_no_more_than_its_charge_and_somewhere_by_all_of_it(name: str, unit: Unit) -> None:
    score = SCORES[name]
    read, event = [], None
    for h in tables(unit.relation):
        asked = curator(h, unit)
        read.append(float(asked.measure(ScoreValue.of(score), RHO, noise="laplace").values[0]))  # type: ignore[arg-type]
        (event,) = asked.events
    first, second = neighbours(unit)
    moved = np.abs(np.array(read)[first] - np.array(read)[second]).max()
    assert event is not None
    l1, _ = sensitivity_by_hand(event.to_dict(), unit.relation, unit.rows_per_person)
    rows_per_step = float(score.sensitivity(unit)) / l1  # type: ignore[union-attr]
    steps = round(moved / rows_per_step)
    assert steps <= l1
    assert steps >= 0.49 * l1  # a bound twice too large would be a waste
    assert event.cost(unit, pure=False) == pytest.approx(RHO)
    assert rho_by_hand(event.to_dict(), unit.relation, unit.rows_per_person) == pytest.approx(RHO)


def test_the_value_is_the_score() -> None:
    h = tables(UNITS[0].relation)[17]
    for name, score in SCORES.items():
        value = float(curator(h, UNITS[0]).measure(ScoreValue.of(score), RHO, noise="laplace").values[0])  # type: ignore[arg-type]
        if isinstance(score, CellScores):
            counts = np.concatenate([counts_of(h, m) for m in PAIRS])
            assert value == pytest.approx(np.abs(counts - score.answers).max(), abs=0.26), name
        else:
            parts = score.parts if isinstance(score, SumScore) else (score,)
            expected = sum(
                p.weight * sum(c * np.abs(counts_of(h, p.marginal) - r).sum() for c, r in p.terms)
                for p in parts
            )
            assert value == pytest.approx(expected, abs=0.02), name


def test_a_certificate_with_steps_that_cannot_be_is_refused() -> None:
    asked = curator(tables(UNITS[0].relation)[3], UNITS[0])
    asked.measure(Counts(("a",)), RHO)
    asked.measure(ScoreValue.of(SCORES["sum"]), RHO, noise="laplace")  # type: ignore[arg-type]
    plain, score = (e.to_dict() for e in asked.events)
    with pytest.raises(PrivacyError, match="must be one of"):
        event_from_dict({**plain, "statistic": "raw rows"})
    part = {"keys": ["k"], "number": 1, "codes": [0]}
    within = event_from_dict({**score, "part": part, "charged": 0.0})
    with pytest.raises(PrivacyError, match="whole table"):
        within.cost(UNITS[0], pure=False)
    del score["over"]
    mixture = event_from_dict({**score, "statistic": "best mixture"})
    with pytest.raises(PrivacyError, match="share of n"):
        mixture.cost(Unit(Relation.ADD_REMOVE), pure=False)


def test_a_certificate_that_says_less_is_refused() -> None:
    asked = curator(tables(UNITS[0].relation)[3], UNITS[0])
    asked.measure(ScoreValue.of(SCORES["sum"]), RHO, noise="laplace")  # type: ignore[arg-type]
    event = asked.events[0].to_dict()
    with pytest.raises(PrivacyError, match="unknown field"):
        event_from_dict({**event, "l1": 4})
    other = event_from_dict({**event, "over": "cells"})
    assert other.cost(UNITS[0], pure=False) < RHO / 1000
    with pytest.raises(PrivacyError, match="over is missing"):
        event_from_dict({k: v for k, v in event.items() if k != "over"})


def test_what_is_refused_before_anything_is_charged() -> None:
    table = random_table({"k": 2, "a": 2, "b": 2}, 50, 0)
    asked = FakeCurator(table)
    part = asked.partition(["k"])[(0,)]
    with pytest.raises(PrivacyError, match="whole table"):
        part.measure(ScoreValue.of(one_term(("a",))), RHO, noise="laplace")
    with pytest.raises(PrivacyError, match="weight 0"):
        asked.measure(ScoreValue.of(one_term(("a",), weight=0.0)), RHO, noise="laplace")
    with pytest.raises(PrivacyError, match="shape"):
        asked.measure(ScoreValue.of(L1Score(("a",), ((1.0, np.zeros(3)),))), RHO, noise="laplace")
    with pytest.raises(PrivacyError, match="order"):
        asked.measure(ScoreValue.of(L1Score(("b", "a"), ((1.0, np.zeros(4)),))), RHO, noise="laplace")
    with pytest.raises(PrivacyError, match="not finite"):
        L1Score(("a",), ((1e300, np.zeros(2)),), weight=1e300)
    with pytest.raises(PrivacyError, match="not finite"):
        L1Score(("a",), ((1.0, np.zeros(2, complex)),)).check(DOMAIN)
    with pytest.raises(PrivacyError, match="no cell"):
        asked.measure(ScoreValue.of(CellScores(CELLS, np.arange(0), np.zeros(0))), RHO, noise="laplace")
    with pytest.raises(BudgetExceeded):
        asked.measure(ScoreValue.of(one_term(("a",))), 2 * asked.rho, noise="laplace")
    assert not asked.events
