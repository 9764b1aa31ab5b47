"""Events and statistics as data: from JSON comes back what was written and nothing else; costs are those by hand."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openprior.errors import PrivacyError
from openprior.privacy.error_statistics import BestMixtureError, ScoreValue
from openprior.privacy.error_strata import ErrorStrata
from openprior.privacy.events import (
    Candidates,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Part,
    PermuteAndFlip,
    Selection,
    event_from_dict,
)
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.regression import MembershipRegression
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers, Statistic, Total
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.weighted_sums import MAX_WEIGHTS, WeightedSums
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from tests.formulas import epsilon_by_hand, pure_rho_by_hand, rho_by_hand, sensitivity_by_hand

ERRORS = ErrorStrata(12, (6, 16, 64), (4, 2, 1), (128, 64, 64))
SUMS = WeightedSums("prefixes(b)", ("b",), ((0, 3, 0, 1), (1, 2), (0, 7)))
STATISTICS: tuple[Statistic, ...] = (
    Counts(("a", "b")),
    MergedCounts(("a", "b"), Merging(((0, 1), (0, 1, 0, 1)))),
    CellCount(("b",), 2),
    Total(),
    QueryAnswers("prefixes(b)", ("b",), 3),
    SUMS,
    ScoreValue("marginals"),
    ScoreValue("cells"),
    BestMixtureError(),
    ERRORS,
    MembershipRegression(6, 0.1),
)
WHOLE_ONLY = (ScoreValue, BestMixtureError, ErrorStrata, MembershipRegression)
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 3)]
PART = Part(2, ("k",), (1,))
CANDIDATES = (Candidates(9, "marginals"), Candidates(9, "cells"))


def events(part: Part | None = None) -> list[Event]:
    """One of each kind."""
    more: dict[str, Any] = {} if part is None else {"part": part, "charged": 0.0}
    noisy = [s for s in STATISTICS if part is None or not isinstance(s, WHOLE_ONLY)]
    return [
        *(Gaussian(statistic=s, sigma=7.5, rho=0.01, **more) for s in noisy),
        *(Laplace(statistic=s, scale=3.25, rho=0.01, **more) for s in noisy),
        *(
            kind(candidates=c, epsilon=0.25, draws=draws, rho=0.01, **more)
            for kind in (Exponential, PermuteAndFlip)
            for c in CANDIDATES
            for draws in (1, 4)
        ),
        *(
            Exponential(candidates=c, epsilon=0.25, draws=12, with_replacement=True, rho=0.01, **more)
            for c in CANDIDATES
        ),
    ]


ALL = [*events(), *events(PART)]


@pytest.mark.parametrize("event", ALL, ids=str)
def test_an_event_survives_text(event: Event) -> None:
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("event", ALL, ids=str)
def test_costs_are_those_by_hand(event: Event, unit: Unit) -> None:
    written = event.to_dict()
    try:
        by_hand = [f(written, unit.relation, unit.rows_per_person) for f in (rho_by_hand, epsilon_by_hand)]
    except AssertionError:  # what cannot be: the total where n is public, the best mixture under add/remove
        with pytest.raises(PrivacyError):
            event.cost(unit, pure=False)
        return
    assert event.cost(unit, pure=False) == pytest.approx(by_hand[0], rel=1e-12)
    assert event.cost(unit, pure=True) == pytest.approx(by_hand[1], rel=1e-12)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("rho", [1e-9, 0.02, 3.0])
def test_calibrated_events_cost_what_was_asked(rho: float, unit: Unit) -> None:
    some = (Counts(("a",)), CellCount(("a",), 0), QueryAnswers("prefixes(b)", ("b",), 3), SUMS, ERRORS)
    for statistic in some:
        for event in (Gaussian.at(statistic, rho, unit), Laplace.at(statistic, rho, unit, pure=False)):
            assert rho_by_hand(event.to_dict(), unit.relation, unit.rows_per_person) == pytest.approx(rho)
        pure = Laplace.at(statistic, rho, unit, pure=True)
        epsilon = epsilon_by_hand(pure.to_dict(), unit.relation, unit.rows_per_person)
        assert pure_rho_by_hand(epsilon) == pytest.approx(rho)
    for chosen in (Exponential, PermuteAndFlip):
        for candidates in CANDIDATES:
            for draws in (1, 3):
                event = chosen.at(candidates, rho, unit, draws=draws, pure=False)
                assert rho_by_hand(event.to_dict(), unit.relation) == pytest.approx(rho)
                pure = chosen.at(candidates, rho, unit, draws=draws, pure=True)
                assert pure_rho_by_hand(epsilon_by_hand(pure.to_dict(), unit.relation)) == pytest.approx(rho)


def test_an_event_in_a_part_is_worth_what_a_move_between_parts_tells() -> None:
    alone, within = (
        Gaussian(statistic=CellCount(("a",), 0), sigma=2.0, rho=1.0, part=p) for p in (None, PART)
    )
    assert within.cost(Unit(), pure=False) == 2 * alone.cost(Unit(), pure=False)
    removed = Unit(Relation.ADD_REMOVE)
    assert within.cost(removed, pure=False) == alone.cost(removed, pure=False)


NOT_NUMBERS: tuple[Any, ...] = (True, False, "1", None, math.nan, math.inf, -math.inf, -1.0, [], {}, 0)
NOT_COUNTS: tuple[Any, ...] = (True, "1", 1.0, 1.9, None, -1, [], math.nan)
NOT_THREE: tuple[Any, ...] = (
    *([], [1], [1] * 4, [6, 16, 0], [6, 16, -1], [6, 16, True], [6, 16, 1.0], [6, 16, "1"], [6, 16, None]),
    *([6, 16, math.nan], [6, 16, [1]], [6, 16, 10**30], {"0": 6}, "6, 16, 64", None, 1, True),
)
"""What are no three whole numbers above 0."""
WRONG: dict[str, tuple[Any, ...]] = {
    "event": ("magic", "Gaussian", 1, None, True, ["gaussian"]),
    "statistic": ("rows", "", 1, None, True),
    "marginal": ("a", [], [1], ["a", "a"], [["a"]], None, {"a": 1}, ["a", None]),
    "cell": NOT_COUNTS,
    "queries": (1, None, True, ["prefixes(b)"]),
    "overlap": (*NOT_COUNTS, 0),
    "weights": (
        [],
        [[]],
        [[0]],
        [[0, 0]],
        [[0, 0, 1]],
        [[0, 1, 0]],
        [[0, True]],
        [[True, 1]],
        [[0, 1.0]],
        [[0, "1"]],
        [[0, -1]],
        [[-1, 1]],
        [[0, 2**20 + 1]],
        [[2**16, 1]],
        [0, 1],
        [None],
        {"0": 1},
        "1",
        None,
        1,
        [[0, 1], [0, math.nan]],
        [[0, *[1] * 2**15]] * 3,
    ),
    "groups": (
        [],
        [[]],
        [[0, 1]],
        [[0, 1], []],
        [[0, 1], [1, 0]],
        [[0, 1], [0, 2]],
        [[0, 1], [0, True]],
        [[0, 1], [False, 1]],
        [[0, 1], [0, 1.0]],
        [[0, 1], [0, "1"]],
        [[0, 1], [0, -1]],
        [[0, 1], [0, None]],
        [[0, 1], [0, [1]]],
        [[0, 1], {"0": 1}],
        [[0, 1], "01"],
        [[0, 1], None],
        [[0, 1], [0, math.nan]],
        [0, 1],
        {"a": [0, 1]},
        "01",
        None,
        1,
    ),
    "over": ("rows", 1, None, True),
    "strata": (*NOT_COUNTS, 0, 101),
    "factors": (*NOT_THREE, [6, 16, 2**20 + 1]),
    "tables": NOT_THREE,
    "steps": (*NOT_THREE, [128, 64, 2**12 + 1]),
    "sigma": NOT_NUMBERS,
    "scale": NOT_NUMBERS,
    "epsilon": NOT_NUMBERS,
    "rho": NOT_NUMBERS,
    "draws": (*NOT_COUNTS, 0),
    "with_replacement": (False, 1, "true", None, [], {}),
    "candidates": (*NOT_COUNTS, 0),
    "charged": (True, "1", None, math.nan, math.inf, -1.0, []),
    "part": (
        None,
        True,
        [],
        {},
        {"number": 1, "keys": [], "codes": []},
        {"number": 1, "keys": ["k"], "codes": []},
        {"number": 1, "keys": ["k", "k"], "codes": [0, 0]},
        {"number": 1, "keys": ["k"], "codes": [True]},
        {"number": 1, "keys": ["k"], "codes": [-1]},
        {"number": 0, "keys": ["k"], "codes": [0]},
        {"number": True, "keys": ["k"], "codes": [0]},
        {"number": 1, "keys": ["k"], "codes": [0], "more": 1},
        {"number": 1, "keys": "k", "codes": [0]},
    ),
}


@pytest.mark.parametrize("event", ALL, ids=str)
def test_nothing_but_what_an_event_writes_is_read(event: Event) -> None:
    written = event.to_dict()
    for name, wrong in WRONG.items():
        if name not in written:
            continue
        for value in wrong:
            with pytest.raises(PrivacyError):
                event_from_dict({**written, name: value})
    for name in written:
        with pytest.raises(PrivacyError):
            event_from_dict({k: v for k, v in written.items() if k != name})
    for extra in ("l1", "l2_squared", "note", "parts_touched"):
        with pytest.raises(PrivacyError, match="unknown field"):
            event_from_dict({**written, extra: 1})


@pytest.mark.parametrize("event", [e for e in ALL if isinstance(e, Selection)], ids=str)
def test_more_draws_than_candidates_are_read_only_with_replacement(event: Selection) -> None:
    plain = {k: v for k, v in event.to_dict().items() if k != "with_replacement"} | {"draws": 10}
    with pytest.raises(PrivacyError, match="10 draws of 9 candidates"):
        event_from_dict(plain)
    if isinstance(event, Exponential):
        again = event_from_dict({**plain, "with_replacement": True})
        assert again.cost(Unit(), pure=False) * event.draws == pytest.approx(
            10 * event.cost(Unit(), pure=False)
        )
    else:
        with pytest.raises(PrivacyError, match="unknown field 'with_replacement'"):
            event_from_dict({**plain, "with_replacement": True})


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    )
)
def test_anything_else_is_refused_and_never_breaks(value: Any) -> None:
    with pytest.raises(PrivacyError):
        event_from_dict(value)


def test_a_part_and_its_charge_belong_together() -> None:
    written = events(PART)[0].to_dict()
    for name in ("part", "charged"):
        with pytest.raises(PrivacyError, match="belong together"):
            event_from_dict({k: v for k, v in written.items() if k != name})


def test_a_statistic_from_a_certificate_cannot_be_measured() -> None:
    layout = Layout(Domain({"a": 2, "b": 4}))
    for statistic in (ScoreValue("cells"), ScoreValue("marginals"), BestMixtureError(), ERRORS):
        with pytest.raises(PrivacyError, match="read from a certificate"):
            statistic.fitted(layout)


def test_a_regression_from_a_certificate_must_fit_the_columns_and_cannot_be_measured() -> None:
    layout = Layout(Domain({"a": 2, "b": 4}))
    assert MembershipRegression(6, 0.1).fitted(layout) == MembershipRegression(6, 0.1)
    with pytest.raises(PrivacyError, match="does not fit the columns, which have 6 values"):
        MembershipRegression(5, 0.1).fitted(layout)
    with pytest.raises(PrivacyError, match="read from a certificate"):
        _ = MembershipRegression(6, 0.1).reads


def test_queries_from_a_certificate_must_be_those_of_their_text() -> None:
    layout = Layout(Domain({"a": 2, "b": 4}))
    assert QueryAnswers("prefixes(b)", ("b",), 3).fitted(layout).queries is not None
    for wrong in (QueryAnswers("prefixes(b)", ("b",), 1), QueryAnswers("prefixes(b)", ("a",), 3)):
        with pytest.raises(PrivacyError, match="not what their text says"):
            wrong.fitted(layout)


def test_groups_from_a_certificate_must_fit_the_columns() -> None:
    layout = Layout(Domain({"a": 2, "b": 4}))
    right = MergedCounts(("a", "b"), Merging(((0, 1), (0, 1, 0, 1))))
    assert right.fitted(layout) == right
    assert right.numbers(layout.domain) == 4
    assert right.words == "a × b, rare values merged"
    for columns, groups in (
        (("a", "b"), ((0, 1), (0, 1))),
        (("a", "b"), ((0, 1), (0, 1, 2, 3, 3))),
        (("a", "b"), ((0, 1, 1, 1), (0, 1, 0, 1))),
        (("b",), ((0, 0),)),
    ):
        with pytest.raises(PrivacyError, match="one group per code"):
            MergedCounts(columns, Merging(groups)).fitted(layout)
    with pytest.raises(PrivacyError, match="in the domain's order"):
        MergedCounts(("b", "a"), Merging(((0, 1, 0, 1), (0, 1)))).fitted(layout)
    for columns in ((), ("a",), ("a", "b", "c")):
        with pytest.raises(PrivacyError, match="the groups of each"):
            MergedCounts(columns, right.merging)
    for wrong in (((0, 1), (0, 1, 0, 1)), None, lambda table: table):
        with pytest.raises(PrivacyError, match="give a Merging"):
            MergedCounts(("a", "b"), wrong)  # type: ignore[arg-type]


def test_weights_from_a_certificate_must_fit_their_queries() -> None:
    layout = Layout(Domain({"a": 2, "b": 4}))
    assert SUMS.fitted(layout) == SUMS
    np.testing.assert_array_equal(SUMS.matrix(4), [[3, 0, 1, 0], [0, 2, 0, 0], [7, 0, 0, 0]])
    for text, columns, weights in (
        ("prefixes(b)", ("a",), ((0, 1),)),
        ("prefixes(a)", ("b",), ((0, 1),)),
        ("prefixes(a)", ("a",), ((0, 1, 1, 1),)),
        ("prefixes(a)", ("a",), ((2, 1),)),
    ):
        with pytest.raises(PrivacyError, match="beyond their"):
            WeightedSums(text, columns, weights).fitted(layout)
    assert WeightedSums("prefixes(b)", ("b",), ((0, *[1] * MAX_WEIGHTS),)).column_norms == (1, 1)
    with pytest.raises(PrivacyError, match="65,537 weights"):
        WeightedSums("prefixes(b)", ("b",), ((0, *[1] * MAX_WEIGHTS), (0, 1)))


def test_a_new_statistic_is_one_class() -> None:
    """It is measured, charged, written, read back and rechecked with no other edit."""
    from openprior.privacy import statistics
    from openprior.privacy.fake import FakeCurator
    from tests.conftest import random_table

    class Twice(Statistic):
        """Every row counted twice."""

        __module__ = "openprior.privacy.mine"
        kind = "twice"

        def sensitivity(self, unit: Unit) -> statistics.Sensitivity:
            return statistics.Sensitivity(2 * unit.rows_per_person, 4 * unit.rows_per_person**2)

        def read(self, vault: Any, unit: Unit) -> Any:
            return np.array([2 * vault.rows])

        def _facts(self) -> dict[str, object]:
            return {}

        @classmethod
        def _from_facts(cls, record: Any) -> "Twice":
            return cls()

    try:
        curator = FakeCurator(random_table({"a": 2}, 30, 0), unit=Unit(Relation.ADD_REMOVE))
        measured = curator.measure(Twice(), curator.rho / 2)
        assert measured.values == [60]
        (event,) = curator.events
        again = event_from_dict(event.to_dict())
        assert again.cost(curator.unit, pure=False) == pytest.approx(curator.rho / 2)
        for name, module in (("Other", "openprior.privacy.mine"), ("Twice", "openprior.privacy.yours")):
            with pytest.raises(TypeError, match="exists already"):
                type(name, (Statistic,), {"kind": "twice", "__module__": module})
        with pytest.raises(TypeError, match="with its proof"):
            type("Stranger", (Statistic,), {"kind": "strange"})
    finally:
        del statistics._KINDS["twice"]


def test_sensitivities_are_those_by_hand() -> None:
    for unit in UNITS:
        for event in ALL:
            if not isinstance(event, Gaussian | Laplace):
                continue
            seen = unit if event.part is None else unit.part()
            try:
                by_hand = sensitivity_by_hand(event.to_dict(), unit.relation, unit.rows_per_person)
            except AssertionError:
                continue
            derived = event.statistic.sensitivity(seen)
            assert (derived.l1, derived.l2_squared) == by_hand
