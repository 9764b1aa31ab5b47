"""What `measure_score` reads, against all neighbours of small tables: never beyond what it was charged for."""

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.scores import CellScores, L1Score, Scores, SumScore
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal
from openprior.releases.certificate import event_rho
from tests.conftest import random_table
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
    read, event = [], {}
    for h in tables(unit.relation):
        asked = curator(h, unit)
        read.append(float(asked.measure_score(score, RHO).values[0]))  # type: ignore[arg-type]
        (event,) = asked.events
    first, second = neighbours(unit)
    moved = np.abs(np.array(read)[first] - np.array(read)[second]).max()
    rows_a_step = float(score.sensitivity(unit)) / int(str(event["l1"]))  # type: ignore[union-attr]
    steps = round(moved / rows_a_step)
    assert steps <= int(str(event["l1"]))
    assert steps >= 0.49 * int(str(event["l1"]))  # a bound twice too large would be a waste
    assert event_rho(event, unit) == pytest.approx(RHO)
    assert (float(str(event["l1"])) / float(str(event["scale"]))) ** 2 / 2 == pytest.approx(RHO)


def test_the_value_is_the_score() -> None:
    h = tables(UNITS[0].relation)[17]
    for name, score in SCORES.items():
        value = float(curator(h, UNITS[0]).measure_score(score, RHO).values[0])  # type: ignore[arg-type]
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
    asked.measure(("a",), RHO)
    asked.measure_score(SCORES["sum"], RHO)  # type: ignore[arg-type]
    plain, score = asked.events
    assert event_rho({**plain, "kind": "raw rows gaussian"}, UNITS[0]) == np.inf
    part = {"keys": ["k"], "number": 1, "codes": [0]}
    assert event_rho({**score, "part": part}, UNITS[0]) == np.inf
    mixture = {**score, "kind": "best mixture laplace"}
    assert event_rho(mixture, Unit(Relation.ADD_REMOVE)) == np.inf


def test_a_certificate_that_says_less_is_refused() -> None:
    asked = curator(tables(UNITS[0].relation)[3], UNITS[0])
    asked.measure_score(SCORES["sum"], RHO)  # type: ignore[arg-type]
    (event,) = asked.events
    assert event_rho({**event, "l1": 4}, UNITS[0]) == np.inf
    assert event_rho({**event, "scores": "cells"}, UNITS[0]) == np.inf
    with pytest.raises(KeyError):
        event_rho({k: v for k, v in event.items() if k != "scores"}, UNITS[0])


def test_what_is_refused_before_anything_is_charged() -> None:
    table = random_table({"k": 2, "a": 2, "b": 2}, 50, 0)
    asked = FakeCurator(table)
    part = asked.partition(["k"])[(0,)]
    with pytest.raises(PrivacyError, match="whole table"):
        part.measure_score(one_term(("a",)), RHO)
    with pytest.raises(PrivacyError, match="weight 0"):
        asked.measure_score(one_term(("a",), weight=0.0), RHO)
    with pytest.raises(PrivacyError, match="shape"):
        asked.measure_score(L1Score(("a",), ((1.0, np.zeros(3)),)), RHO)
    with pytest.raises(PrivacyError, match="order"):
        asked.measure_score(L1Score(("b", "a"), ((1.0, np.zeros(4)),)), RHO)
    with pytest.raises(PrivacyError, match="not finite"):
        L1Score(("a",), ((1e300, np.zeros(2)),), weight=1e300)
    with pytest.raises(PrivacyError, match="not finite"):
        L1Score(("a",), ((1.0, np.zeros(2, complex)),))
    with pytest.raises(PrivacyError, match="no cell"):
        asked.measure_score(CellScores(CELLS, np.arange(0), np.zeros(0)), RHO)
    with pytest.raises(BudgetExceeded):
        asked.measure_score(one_term(("a",)), 2 * asked.rho)
    assert not asked.events
