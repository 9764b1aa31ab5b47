"""What is asked of a finished model's errors: what is refused before it is charged, and what cannot change after."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openprior.errors import OpenPriorError, PrivacyError
from openprior.privacy.error_strata import ROW_STEPS, Apart, CellsApart, ContrastsApart, ErrorStrata
from openprior.privacy.fake import FakeCurator
from openprior.privacy.unit import Relation, Unit
from openprior.schema.layout import Layout
from tests.conftest import random_table

TABLE = random_table({"a": 3, "b": 4, "c": 2}, 300, 1)
LAYOUT = Layout(TABLE.domain)
UNIT = Unit(Relation.ADD_REMOVE)
REFERENCE, STRATUM = np.arange(12) * 100, np.arange(12, dtype=np.int8) % 5 - 1
CELLS = CellsApart(("a", "b"), 0, REFERENCE, STRATUM)
WEIGHTS = np.array([[64, -64, 3, 0], [1, 2, 3, 4], [-128, 128, 0, 5]], np.int16)
CONTRASTS = ContrastsApart(
    ("a", "b"), 1, np.zeros(3, np.int64), np.zeros(3, np.int8), axis=1, weights=WEIGHTS, most=128
)


def strata(*asked: Apart, **stated: Any) -> ErrorStrata:
    """Of four strata, and two groups at most; what it states may be said otherwise."""
    groups = 1 + max(a.group for a in asked)
    return replace(ErrorStrata.of(4, (3, 5)[:groups], asked), **stated)


BOTH = strata(CELLS, CONTRASTS)


class Rows:
    """A vault with counts of its own."""

    def __init__(self, rows: int, *counts: int) -> None:
        self.rows, self.numbers = rows, np.array(counts)

    def counts(self, marginals: Any) -> Any:
        return dict.fromkeys(marginals, self.numbers)


def test_what_it_is() -> None:
    assert ErrorStrata(4, (3, 5), (1, 1), (64, 128)) == BOTH
    assert BOTH.fitted(LAYOUT) == BOTH
    assert BOTH.numbers(TABLE.domain) == 8
    assert BOTH.reads == (("a", "b"),) and strata(replace(CELLS, within=("a", "b", "c"))).reads == (
        ("a", "b", "c"),
    )
    assert BOTH.cells(TABLE.domain) is None and not BOTH.is_count
    assert BOTH.words == "how wrong the answers are"
    assert "reference" not in str(BOTH), "a certificate has no room for them"
    two = ErrorStrata.of(4, (3,), (CELLS, replace(CONTRASTS, group=0)))
    assert (two.tables, two.steps) == ((2,), (128,)), "the table that one row moves furthest counts for all"
    assert [u.l1 for u in (UNIT, Unit())] == [1, 2]
    for unit in (UNIT, Unit(), Unit(rows_per_person=3)):
        moved = BOTH.sensitivity(unit)
        s, t = 3 * 64 * unit.l1, 5 * 128 * unit.l1
        assert (moved.l1, moved.l2_squared, moved.one) == (s + t, s**2 + t**2, t)


def test_cells_and_contrasts_of_a_table() -> None:
    measured = FakeCurator(TABLE).measure(BOTH, 0.001).values.tolist()
    table = np.zeros((3, 4), int)
    np.add.at(table, (TABLE.column("a"), TABLE.column("b")), 1)
    apart = np.abs(64 * table.reshape(-1) - REFERENCE)
    cells = [3 * int(apart[s == STRATUM].sum()) for s in range(4)]
    assert measured == [*cells, 5 * int(np.abs((table * WEIGHTS).sum(axis=1)).sum()), 0, 0, 0]


WRONG: dict[str, tuple[Callable[[], ErrorStrata], str]] = {
    "references that are no whole numbers": (
        lambda: strata(replace(CELLS, reference=REFERENCE.astype(float))),
        "whole reference",
    ),
    "references of 32 bits": (lambda: strata(replace(CELLS, reference=REFERENCE.astype(np.int32))), "whole"),
    "references that are objects": (
        lambda: strata(replace(CELLS, reference=REFERENCE.astype(object))),
        "whole",
    ),
    "references in another order of bytes": (
        lambda: strata(replace(CELLS, reference=REFERENCE.astype(">i8"))),
        "whole reference",
    ),
    "too few references": (lambda: strata(replace(CELLS, reference=REFERENCE[1:])), "for every number"),
    "too many": (
        lambda: strata(replace(CELLS, reference=np.arange(13), stratum=np.zeros(13, np.int8))),
        "for every number",
    ),
    "references in a table": (
        lambda: strata(
            replace(CELLS, reference=REFERENCE.reshape(3, 4), stratum=STRATUM.reshape(3, 4)),
        ),
        "for every number",
    ),
    "no references": (
        lambda: strata(replace(CELLS, reference=REFERENCE[:0], stratum=STRATUM[:0])),
        "for every number",
    ),
    "strata of 64 bits": (lambda: strata(replace(CELLS, stratum=STRATUM.astype(np.int64))), "stratum"),
    "strata that are true or false": (lambda: strata(replace(CELLS, stratum=STRATUM > 1)), "stratum"),
    "too few strata": (lambda: strata(replace(CELLS, stratum=STRATUM[1:])), "for every number"),
    "a stratum too high": (
        lambda: strata(replace(CELLS, stratum=STRATUM + np.int8(1))),
        "stratum that is not",
    ),
    "a stratum too low": (
        lambda: strata(replace(CELLS, stratum=STRATUM - np.int8(1))),
        "stratum that is not",
    ),
    "huge references": (
        lambda: strata(replace(CELLS, reference=np.full(12, 1 << 58, np.int64))),
        "beyond any table",
    ),
    "the lowest reference of all, which has no absolute value": (
        lambda: strata(replace(CELLS, reference=np.append(REFERENCE[1:], -(1 << 63)))),
        "beyond any table",
    ),
    "columns in another order": (
        lambda: strata(replace(CELLS, marginal=("b", "a"))),
        "in the domain's order",
    ),
    "columns in a list": (lambda: strata(replace(CELLS, marginal=["a", "b"])), "in the domain's order"),
    "a column twice": (lambda: strata(replace(CELLS, marginal=("a", "a"))), "."),
    "a column that is not there": (lambda: strata(replace(CELLS, marginal=("a", "x"))), "x"),
    "no column": (
        lambda: strata(replace(CELLS, marginal=(), reference=REFERENCE[:1], stratum=STRATUM[:1])),
        ".",
    ),
    "sums of columns in another order": (
        lambda: strata(replace(CELLS, within=("b", "a", "c"))),
        "in the domain's order",
    ),
    "sums of columns in a list": (lambda: strata(replace(CELLS, within=["a", "b", "c"])), "domain's order"),
    "sums of other columns": (lambda: strata(replace(CELLS, within=("b", "c"))), "is no sum of"),
    "sums of fewer columns": (lambda: strata(replace(CELLS, within=("a",))), "is no sum of"),
    "a group that is not there": (
        lambda: ErrorStrata(4, (3,), (1,), (64,), (replace(CELLS, group=1),)),
        "group that is not there",
    ),
    "a group below 0": (
        lambda: ErrorStrata(4, (3,), (1,), (64,), (replace(CELLS, group=-1),)),
        "group that is not there",
    ),
    "a group that is true": (
        lambda: ErrorStrata(4, (3, 5), (1, 1), (64, 64), (CELLS, replace(CELLS, group=True))),
        "group that is not there",
    ),
    "a group by a number of NumPy's": (
        lambda: ErrorStrata(4, (3,), (1,), (64,), (replace(CELLS, group=np.int64(0)),)),
        "group that is not there",
    ),
    "fewer tables than there are": (lambda: strata(CELLS, CELLS, tables=(1,)), "other tables or steps"),
    "more tables": (lambda: strata(CELLS, tables=(2,)), "other tables or steps"),
    "fewer steps": (lambda: strata(CELLS, CONTRASTS, steps=(64, 64)), "other tables or steps"),
    "more steps": (lambda: strata(CELLS, steps=(65,)), "other tables or steps"),
    "weights beyond the bound": (lambda: strata(CELLS, replace(CONTRASTS, most=127)), "beyond the bound"),
    "a weight below minus the bound": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=WEIGHTS - np.int16(1))),
        "beyond the bound",
    ),
    "the lowest weight of all": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=np.full((3, 4), -(1 << 15), np.int16))),
        "beyond the bound",
    ),
    "weights of 64 bits": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=WEIGHTS.astype(np.int64))),
        "whole weight",
    ),
    "weights that are no whole numbers": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=WEIGHTS.astype(np.float16))),
        "whole weight",
    ),
    "weights of fewer groups": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=WEIGHTS[:2])),
        "whole weight",
    ),
    "weights the other way round": (
        lambda: strata(CELLS, replace(CONTRASTS, weights=WEIGHTS.T.copy())),
        "whole weight",
    ),
    "weights of another column": (lambda: strata(CELLS, replace(CONTRASTS, axis=0)), "whole weight"),
    "a column beyond the last": (lambda: strata(CELLS, replace(CONTRASTS, axis=2)), "no such column"),
    "a column before the first": (lambda: strata(CELLS, replace(CONTRASTS, axis=-1)), "no such column"),
    "a column that is true": (lambda: strata(CELLS, replace(CONTRASTS, axis=True)), "no such column"),
    "contrasts of columns in another order": (
        lambda: strata(CELLS, replace(CONTRASTS, marginal=("b", "a"), axis=0)),
        "in the domain's order",
    ),
    "contrasts of a column that is not there": (
        lambda: strata(CELLS, replace(CONTRASTS, marginal=("a", "x"))),
        "x",
    ),
    "read from a certificate": (lambda: ErrorStrata(4, (3, 5), (1, 1), (64, 128)), "read from a certificate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_before_it_is_charged(name: str) -> None:
    made, said = WRONG[name]
    curator = FakeCurator(TABLE)
    with pytest.raises(OpenPriorError, match=said) as caught:
        curator.measure(made(), curator.rho / 2)
    assert "\n" not in str(caught.value)
    assert curator.events == () and curator.remaining == curator.rho


@pytest.mark.parametrize("most", [0, -1, 4097, True, 128.0, None, np.int64(128)])
def test_a_bound_on_weights_is_a_whole_number_that_is_not_huge(most: Any) -> None:
    one = replace(CONTRASTS, group=0, most=most)
    curator = FakeCurator(TABLE)
    with pytest.raises(PrivacyError):
        curator.measure(ErrorStrata(4, (3,), (1,), (128,), (one,)), curator.rho / 2)
    assert curator.events == ()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ((0, (3,), (1,), (64,)), "need strata"),
        ((101, (3,), (1,), (64,)), "need strata"),
        ((True, (3,), (1,), (64,)), "need strata"),
        ((4, (), (), ()), "groups of tables"),
        ((4, (1,) * 1001, (1,) * 1001, (64,) * 1001), "groups of tables"),
        ((4, (3, 3), (1,), (64,)), "groups of tables"),
        ((4, (3,), (1, 1), (64,)), "groups of tables"),
        ((4, (3,), (1,), ()), "groups of tables"),
        ((4, (0,), (1,), (64,)), "whole factors"),
        ((4, ((1 << 20) + 1,), (1,), (64,)), "whole factors"),
        ((4, (1.0,), (1,), (64,)), "whole factors"),
        ((4, (np.int64(3),), (1,), (64,)), "whole factors"),
        ((4, (3,), (0,), (64,)), "a table in every group"),
        ((4, (3,), (True,), (64,)), "a table in every group"),
        ((4, (3,), (1,), (0,)), "steps from 1"),
        ((4, (3,), (1,), (4097,)), "steps from 1"),
        ((4, [3], (1,), (64,)), "as tuples"),
        ((4, (3,), [1], (64,)), "as tuples"),
        ((4, (3,), (1,), np.array([64])), "as tuples"),
        ((4, (3,), (1,), (64,), [CELLS]), "as tuples"),
    ],
)
def test_facts_that_cannot_be(facts: Any, said: str) -> None:
    with pytest.raises(PrivacyError, match=said):
        ErrorStrata(*facts)
    assert ErrorStrata(100, (1 << 20,) * 100, (1,) * 100, (4096,) * 100).numbers(TABLE.domain) == 10_000


def test_a_group_without_a_table_is_refused() -> None:
    with pytest.raises(PrivacyError, match="a table in every group"):
        ErrorStrata.of(4, (3, 5), (CELLS,))
    with pytest.raises(PrivacyError, match="a table in every group"):
        ErrorStrata.of(4, (3,), ())


def test_only_cells_and_contrasts_have_a_proof() -> None:
    """What it is asked of says how far one row moves it; another class could say that a row moves nothing."""

    class Lighter(CellsApart):
        @property
        def steps(self) -> int:
            return 1

    one = Lighter(("a", "b"), 0, REFERENCE, STRATUM)
    curator = FakeCurator(TABLE)
    for asked in ((one,), (CELLS, one), (None,), ("cells",)):
        with pytest.raises(PrivacyError, match="those of cells and of contrasts"):
            curator.measure(ErrorStrata(4, (3,), (len(asked),), (64,), asked), curator.rho / 2)
    assert curator.events == ()
    with pytest.raises(TypeError, match="with its proof"):
        type("Lighter", (ErrorStrata,), {"sensitivity": lambda self, unit: None})


def test_inside_a_partition_it_is_refused() -> None:
    curator = FakeCurator(TABLE)
    part = curator.partition(["c"])[(0,)]
    with pytest.raises(PrivacyError, match="on the whole table"):
        part.measure(BOTH, curator.rho / 2)
    assert curator.events == () and curator.remaining == curator.rho


def test_one_from_a_certificate_reads_nothing() -> None:
    with pytest.raises(PrivacyError, match="it can be rechecked, not measured"):
        replace(BOTH, asked=()).read(Rows(300), Unit())  # type: ignore[arg-type]


def test_what_is_asked_cannot_change_between_the_check_and_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, stratum, weights = REFERENCE.copy(), STRATUM.copy(), WEIGHTS.copy()
    cells = replace(CELLS, reference=reference, stratum=stratum)
    asked = strata(cells, replace(CONTRASTS, weights=weights))
    expected = FakeCurator(TABLE).measure(BOTH, 0.001).values
    read = ErrorStrata.read

    def meddled(self: ErrorStrata, *others: Any) -> Any:
        """At the moment of the charge, which is after the check."""
        reference[:], stratum[:], weights[:] = 1 << 60, 3, 1 << 14
        return read(self, *others)

    monkeypatch.setattr(ErrorStrata, "read", meddled)
    np.testing.assert_array_equal(FakeCurator(TABLE).measure(asked, 0.001).values, expected)
    assert weights[0, 0] == 1 << 14
    for kept in BOTH.fitted(LAYOUT).asked:
        arrays = [kept.reference, kept.stratum]
        for array in [*arrays, kept.weights] if isinstance(kept, ContrastsApart) else arrays:
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)


def test_numbers_that_would_leave_64_bits_stop_at_a_limit() -> None:
    """On either side of the limit a row moves no number further than it says."""

    def far(reference: int) -> CellsApart:
        return CellsApart(("c",), 0, np.array([reference, 0], np.int64), np.zeros(2, np.int8))

    def numbers(factor: int, *asked: Apart) -> list[int]:
        statistic = ErrorStrata.of(1, (factor,), asked).fitted(LAYOUT)
        return [int(statistic.read(Rows(k, 0, k), UNIT)[0]) for k in range(5)]  # type: ignore[arg-type]

    limit = 1 << 62
    assert numbers(1 << 20, far(1 << 60), far(1 << 60)) == [limit] * 5
    found = numbers(2, far((1 << 61) - 2 * ROW_STEPS))
    assert found == [limit - 256, limit - 128, limit, limit, limit]
    assert max(np.abs(np.diff(found))) == 2 * ROW_STEPS


def test_a_table_of_more_rows_than_fit_is_refused() -> None:
    statistic = strata(CELLS).fitted(LAYOUT)
    assert statistic.read(Rows(1 << 40, *[1 << 36] * 12), UNIT).min() > 0  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="64 bits"):
        statistic.read(Rows((1 << 40) + 1, *[1] * 12), UNIT)  # type: ignore[arg-type]
