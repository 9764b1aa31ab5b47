"""0/1 queries against all neighbours of small tables: no answer moves by more than was paid for; and how they are said.

A table is its histogram over the joint domain. Under replace-one, neighbours differ in at most Δ rows; under add/remove
one is the other with at most Δ rows more.
"""

import functools
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from openprior.errors import OpenPriorError, WorkloadError
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.fake import NoNoise
from openprior.privacy.ledger import Ledger
from openprior.privacy.statistics import QueryAnswers
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.queries import Queries
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from tests.formulas import largest_by_hand, pure_rho_by_hand, sensitivity_by_hand

SIZES = {"k": 2, "a": 3, "b": 2}
DOMAIN = Domain(SIZES)
CELLS = DOMAIN.size()
ROWS = 3
EPSILON = 0.5
RHO = float(pure_rho_by_hand(EPSILON))
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]
units = pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)

OVERLAPS = {
    "marginal(a)": 1,
    "marginal(a, b)": 1,
    "prefixes(a)": 2,
    "ranges(a, 0-1, 1-2)": 2,
    "ranges(a, 0-0, 0-0, 2-2, 2, 2)": 3,
    "ranges(a, 0-2, 0, 0-1)": 3,
    "where(a=0-1)": 1,
    "where(b=1, a=0|2)": 1,
}
"""Queries, and how many of them one row can be part of, counted by hand."""
ATTAINED = ("marginal(a)", "marginal(a, b)")
"""Where a row can leave as many queries as it enters others; elsewhere the bound is not reached under replace-one."""


@functools.cache
def tables(relation: Relation) -> NDArray[np.int64]:
    """All tables [table, cell]: of ROWS rows under replace-one, of 1 to ROWS rows under add/remove."""
    sizes = (ROWS,) if relation is Relation.REPLACE_ONE else range(1, ROWS + 1)
    chosen = [c for n in sizes for c in itertools.combinations_with_replacement(range(CELLS), n)]
    return np.array([np.bincount(c, minlength=CELLS) for c in chosen])


@functools.cache
def neighbours(unit: Unit) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of different neighbours."""
    h = tables(unit.relation)
    difference = h[:, None] - h[None]
    more, fewer = np.maximum(difference, 0).sum(axis=2), np.maximum(-difference, 0).sum(axis=2)
    if unit.relation is Relation.REPLACE_ONE:
        near = (more == fewer) & (more <= unit.rows_per_person)
    else:
        near = (fewer == 0) & (more <= unit.rows_per_person)
    return np.nonzero(near & (more + fewer > 0))


def curator(h: NDArray[np.int64], unit: Unit, *, delta: float = 1e-9) -> Curator:
    columns = np.unravel_index(np.repeat(np.arange(CELLS), h), DOMAIN.shape)
    rows = pa.table(dict(zip(DOMAIN.attributes, columns, strict=True)))
    epsilon, rho = (9.0, 9.0) if delta else (2.0, budget_rho(2.0, 0.0))
    ledger = Ledger()
    run = ledger.open_run("test", rho=rho, epsilon=epsilon, delta=delta, details={})
    return Curator(
        Vault(Encoder(Schema.from_sizes(SIZES), open_source(rows), private=True)),
        unit=unit,
        noise=NoNoise(),
        account=Account(ledger, run, rho=rho, epsilon=epsilon, delta=delta),
    )


@functools.cache
def answers(text: str, relation: Relation, parts: bool) -> NDArray[np.int64]:
    """Exact answers of every table: [table, part, query], straight from the histogram."""
    queries = Queries.parse(text, DOMAIN)
    axes = tuple(1 + DOMAIN.position(a) for a in DOMAIN if a not in queries.marginal)
    found = []
    for code in range(SIZES["k"]) if parts else [None]:
        h = tables(relation).reshape(-1, *DOMAIN.shape).copy()
        if code is not None:
            h[:, 1 - code] = 0
        counts = h.sum(axis=axes).reshape(len(h), -1)
        found.append(np.stack([queries.answer(c) for c in counts]))
    return np.stack(found, axis=1)


def event_of(text: str, unit: Unit, noise: str, *, part: bool, delta: float = 1e-9) -> dict[str, Any]:
    whole = curator(tables(unit.relation)[0], unit, delta=delta)
    asked = whole.partition(["k"])[(1,)] if part else whole
    asked.measure(QueryAnswers.of(Queries.parse(text, asked.domain)), RHO, noise=noise)
    (event,) = whole.events
    return event.to_dict()


@pytest.mark.parametrize("text", OVERLAPS)
def test_overlaps_by_hand(text: str) -> None:
    queries = Queries.parse(text, DOMAIN)
    assert queries.overlap == OVERLAPS[text]
    assert queries.members.shape[1] == DOMAIN.size(queries.marginal)


@units
@pytest.mark.parametrize("text", OVERLAPS)
def test_no_answer_moves_by_more_than_is_assumed(text: str, unit: Unit) -> None:
    first, second = neighbours(unit)
    read = answers(text, unit.relation, False)[:, 0]
    change = np.abs(read[first] - read[second])
    l1, l2_squared = change.sum(axis=1).max(), (change**2).sum(axis=1).max()
    k = OVERLAPS[text]
    gaussian = event_of(text, unit, "gaussian", part=False)
    laplace = event_of(text, unit, "laplace", part=False)
    assumed = sensitivity_by_hand(gaussian, unit.relation, unit.rows_per_person)
    assert assumed == (k * unit.l1, k * unit.l2_squared)
    assert l1 <= assumed[0]
    assert l2_squared <= assumed[1]
    if unit.relation is Relation.ADD_REMOVE or text in ATTAINED:
        assert (l1, l2_squared) == (k * unit.l1, k * unit.l2_squared)
    # The noise is right for that: the worst neighbour costs what was paid, in ρ and in ε.
    assert l2_squared / (2 * gaussian["sigma"] ** 2) <= RHO * (1 + 1e-12)
    assert pure_rho_by_hand(change / laplace["scale"]).sum(axis=1).max() <= RHO * (1 + 1e-12)
    assert change.max() == largest_by_hand(laplace, unit.relation, unit.rows_per_person)
    pure = event_of(text, unit, "laplace", part=False, delta=0.0)
    assert l1 / pure["scale"] <= EPSILON * (1 + 1e-12)


@units
@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("text", OVERLAPS)
def test_one_charge_pays_for_all_parts(text: str, delta: float, unit: Unit) -> None:
    """Rows can move between parts; every part asks the same and the run pays once: in ρ, and in ε where it is pure."""
    first, second = neighbours(unit)
    read = answers(text, unit.relation, True)
    change = np.abs(read[first] - read[second])  # [pair, part, query]
    laplace = event_of(text, unit, "laplace", part=True, delta=delta)
    pure = change.sum(axis=2) / laplace["scale"]  # ε of every part
    if delta == 0:
        worst = pure.sum(axis=1).max()
        assert worst <= EPSILON * (1 + 1e-12)
        if unit.relation is Relation.ADD_REMOVE or text in ATTAINED:
            assert worst == pytest.approx(EPSILON, rel=1e-12)
        return
    assert pure_rho_by_hand(change / laplace["scale"]).sum(axis=(1, 2)).max() <= RHO * (1 + 1e-12)
    gaussian = event_of(text, unit, "gaussian", part=True)
    worst = (change**2).sum(axis=(1, 2)).max() / (2 * gaussian["sigma"] ** 2)
    assert worst <= RHO * (1 + 1e-12)
    # A row can leave the most queries of one part and enter the most of another, so this is always reached.
    assert worst == pytest.approx(RHO, rel=1e-12)


def test_the_bound_is_reached_by_overlapping_queries_too() -> None:
    """A row that leaves two queries and enters two others moves the answers by 4 in L1 and in squared L2."""
    text = "ranges(a, 0, 0, 2, 2)"
    for rows in (1, 2):
        unit = Unit(rows_per_person=rows)
        first, second = neighbours(unit)
        read = answers(text, unit.relation, False)[:, 0]
        change = np.abs(read[first] - read[second])
        assert change.sum(axis=1).max() == 2 * unit.l1 == 4 * rows
        assert (change**2).sum(axis=1).max() == 2 * unit.l2_squared == 4 * rows**2


@pytest.mark.parametrize("text", OVERLAPS)
def test_the_curator_answers_from_the_table(text: str) -> None:
    for position in range(0, len(tables(Relation.REPLACE_ONE)), 61):
        h = tables(Relation.REPLACE_ONE)[position]
        whole = curator(h, Unit())
        found = whole.measure(QueryAnswers.of(Queries.parse(text, DOMAIN)), RHO, noise="laplace")
        np.testing.assert_array_equal(found.values, answers(text, Relation.REPLACE_ONE, False)[position, 0])
        for (code,), part in whole.partition(["k"]).items():
            seen = part.measure(QueryAnswers.of(Queries.parse(text, part.domain)), RHO)
            np.testing.assert_array_equal(
                seen.values, answers(text, Relation.REPLACE_ONE, True)[position, code]
            )


@pytest.mark.parametrize("text", OVERLAPS)
def test_groups_of_disjoint_queries(text: str) -> None:
    queries = Queries.parse(text, DOMAIN)
    groups = list(queries.disjoint())
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(queries.members)))
    for group in groups:
        assert queries.members[group].sum(axis=0).max() == 1
    assert len(groups) >= queries.overlap


# Queries made by hand.


@pytest.mark.parametrize("members", [[[0, 0, 1]], [[1, 1, 0], [0, 1, 1]], [[0.0, 1.0, 1.0]]], ids=str)
def test_a_matrix_of_numbers_is_refused_or_read_as_zeros_and_ones(members: list[list[float]]) -> None:
    """Used as an index, [0, 0, 1] would count cell 0 twice: a row in it would move the answer by 2, paid for as 1."""
    h = np.zeros(CELLS, np.int64)
    h[0], h[2], h[5] = 5, 7, 11  # 5, 7 and 11 rows with a = 0, 1 and 2
    asked = curator(h, Unit())
    try:
        found = asked.measure(QueryAnswers.of(Queries("mine", ("a",), np.array(members))), RHO)  # type: ignore[arg-type]
    except OpenPriorError:
        assert asked.events == ()
        return
    np.testing.assert_array_equal(found.values, np.array(members) @ [5, 7, 11])
    assert asked.events[0].to_dict()["overlap"] == np.array(members).sum(axis=0).max()


def test_weights_are_refused() -> None:
    asked = curator(np.ones(CELLS, np.int64), Unit())
    for members in ([[2, 0, 0]], [[0, -1, 1]], [[0.5, 0.5, 0.0]]):
        with pytest.raises(OpenPriorError):
            asked.measure(QueryAnswers.of(Queries("mine", ("a",), np.array(members))), RHO)  # type: ignore[arg-type]
    assert asked.events == ()


def test_columns_in_another_order_are_refused_or_read_rightly() -> None:
    h = np.arange(CELLS)
    a1b0 = int(h.reshape(DOMAIN.shape).sum(axis=0)[1, 0])
    members = np.zeros((1, 6), np.bool_)
    members[0, 0 * 3 + 1] = True  # b = 0, a = 1, as the columns are named
    asked = curator(h, Unit())
    try:
        found = asked.measure(QueryAnswers.of(Queries("mine", ("b", "a"), members)), RHO)
    except OpenPriorError:
        assert asked.events == ()
        return
    assert found.values.tolist() == [a1b0]


@pytest.mark.parametrize(
    "members",
    [
        np.zeros((1, 3), np.bool_),
        np.zeros((0, 3), np.bool_),
        np.ones((1, 2), np.bool_),
        np.ones((1, 4), np.bool_),
        np.ones((1, 3, 1), np.bool_),
        np.ones(3, np.bool_),
        np.ones((2, 0), np.bool_),
    ],
    ids=lambda m: "x".join(map(str, m.shape)) + (" of ones" if m.any() else ""),
)
def test_a_matrix_that_does_not_fit_is_refused_for_nothing(members: NDArray[np.bool_]) -> None:
    asked = curator(np.ones(CELLS, np.int64), Unit())
    with pytest.raises(OpenPriorError):
        asked.measure(QueryAnswers.of(Queries("mine", ("a",), members)), RHO)
    assert asked.events == ()


def test_a_part_does_not_answer_about_its_key() -> None:
    part = curator(np.ones(CELLS, np.int64), Unit()).partition(["k"])[(0,)]
    with pytest.raises(WorkloadError, match="'k'"):
        part.measure(QueryAnswers.of(Queries.parse("marginal(k)", DOMAIN)), RHO)


# What people write.


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not understood"),
        ("   ", "not understood"),
        ("a", "not understood"),
        ("marginal", "not understood"),
        ("marginal a", "not understood"),
        ("marginal(a", "not understood"),
        ("marginal a)", "not understood"),
        ("(a)", "not understood"),
        ("marginal()", "not understood"),
        ("marginal(a,)", "not understood"),
        ("marginal(,a)", "not understood"),
        ("marginals(a)", "not understood"),
        ("Marginal(a)", "not understood"),
        ("marginal(a) marginal(b)", r"not|domain|no column"),
        ("prefix(a)", "not understood"),
        ("prefixes(a, b)", "not understood"),
        ("prefixes()", "not understood"),
        ("ranges(a)", "not understood"),
        ("ranges(a, x-y)", "not understood"),
        ("ranges(a, 0-)", "not understood"),
        ("ranges(a, -1)", "not understood"),
        ("ranges(a, 0..1)", "not understood"),
        ("ranges(a, 0-1-2)", "not understood"),
        ("ranges(a, 0.5-1)", "not understood"),
        ("ranges(a, 0-1,, 2)", "not understood"),
        ("where()", "not understood"),
        ("where(a)", "not understood"),
        ("where(a=)", "not understood"),
        ("where(a=0|)", "not understood"),
        ("where(a==1)", "not understood"),
        ("where(a=1, a=2)", "not understood"),
        ("where(a>1)", "not understood"),
        ("where(a=low)", "not understood"),
        ("where(=1)", "''"),
        ("marginal(zzz)", "'zzz'.*k, a, b"),
        ("prefixes(zzz)", "'zzz'"),
        ("ranges(zzz, 0-1)", "'zzz'"),
        ("where(a=1, zzz=0)", "'zzz'"),
        ("marginal(A)", "'A'"),
        ("marginal(a, a)", "twice"),
        ("ranges(a, 0-3)", "outside the codes 0-2"),
        ("ranges(a, 3)", "outside the codes 0-2"),
        ("ranges(a, 2-1)", "outside the codes 0-2"),
        ("where(a=0|7)", "outside the codes 0-2"),
        ("where(b=2)", "outside the codes 0-1"),
        pytest.param(f"where(a={'9' * 5000})", r"outside|not understood", id="5000 digits"),
    ],
)
def test_what_is_not_understood_is_said(text: str, match: str) -> None:
    with pytest.raises(WorkloadError, match=match) as caught:
        Queries.parse(text, DOMAIN)
    if match == "not understood":
        assert "prefixes(a)" in str(caught.value)  # what could be written instead


def test_blanks_and_order_do_not_matter() -> None:
    plain = Queries.parse("where(a=0-1|2,b=1)", DOMAIN)
    for text in ("  where( a = 0-1 | 2 , b = 1 )  ", "where(b=1, a=0|1|2)", "where(\na=0-2,\nb=1-1)"):
        other = Queries.parse(text, DOMAIN)
        assert other.marginal == plain.marginal == ("a", "b")
        np.testing.assert_array_equal(other.members, plain.members)
    assert not plain.members.any(axis=0).all()
    assert Queries.parse("ranges(a, 0-1, 1-2)", DOMAIN).members.any(axis=0).all()


def test_a_column_of_one_value() -> None:
    one = Domain({"x": 1, "y": 2})
    assert Queries.parse("prefixes(x)", one).members.tolist() == [[True]]
    assert Queries.parse("marginal(x)", one).members.tolist() == [[True]]


def test_too_many_cells_are_refused_before_they_are_made() -> None:
    large = Domain({"x": 1 << 20, "y": 1 << 20})
    for text in ("marginal(x)", "prefixes(x)", "where(x=0, y=0)", f"ranges(x, {', '.join(['0'] * 100)})"):
        with pytest.raises(WorkloadError, match="too many"):
            Queries.parse(text, large)
    assert math.prod(Queries.parse("where(x=0-9)", large).members.shape) == 1 << 20


# Weights.

MATRICES = {
    "identity": np.eye(3),
    "one sum": np.array([[1, 5, 2]]),
    "strategy": np.array([[9, 0, 0], [0, 7, 0], [0, 0, 8], [2, 3, 0]]),
    "cells apart": np.array([[4, 0, 0], [4, 0, 0], [0, 3, 1], [0, 0, 6]]),
    "a cell without": np.array([[0, 3, 0], [0, 5, 0]]),
}
NORMS = {
    "identity": (1, 1),
    "one sum": (5, 25),
    "strategy": (11, 85),
    "cells apart": (8, 37),
    "a cell without": (8, 34),
}
"""The largest sum of a column and the largest sum of squares, by hand."""


def weighted(name: str) -> WeightedSums:
    return WeightedSums.of(Queries.parse("prefixes(a)", DOMAIN), MATRICES[name].astype(np.int64))


@units
@pytest.mark.parametrize("part", [False, True], ids=["whole", "parts"])
@pytest.mark.parametrize("name", MATRICES)
def test_no_weighted_sum_moves_by_more_than_is_assumed(name: str, part: bool, unit: Unit) -> None:
    """Over all neighbours; of all parts together, where rows can move between them and the run pays once."""
    first, second = neighbours(unit)
    counts = answers("marginal(a)", unit.relation, part)
    change = np.abs((counts[first] - counts[second]) @ MATRICES[name].astype(np.int64).T)  # [pair, part, sum]
    noisy = {}
    for noise in ("gaussian", "laplace"):
        whole = curator(tables(unit.relation)[0], unit)
        asked = whole.partition(["k"])[(1,)] if part else whole
        asked.measure(weighted(name), RHO, noise=noise)
        (event,) = whole.events
        noisy[noise] = event.to_dict()
    l1, squared = NORMS[name]
    assumed = (l1 * unit.l1, squared * unit.l2_squared)
    assert sensitivity_by_hand(noisy["gaussian"], unit.relation, unit.rows_per_person) == assumed
    worst = change.sum(axis=(1, 2)).max(), (change**2).sum(axis=(1, 2)).max()
    assert worst[0] <= assumed[0] and worst[1] <= assumed[1]
    if unit.relation is Relation.ADD_REMOVE or name == "identity":
        assert worst == assumed  # reached, so nothing is paid that is not needed
    elif part:
        assert worst[1] == assumed[1]  # the row with the largest column can go from part to part
    assert worst[1] / (2 * noisy["gaussian"]["sigma"] ** 2) <= RHO * (1 + 1e-12)
    assert pure_rho_by_hand(change / noisy["laplace"]["scale"]).sum(axis=(1, 2)).max() <= RHO * (1 + 1e-12)
    assert change.max() <= largest_by_hand(noisy["laplace"], unit.relation, unit.rows_per_person)


@pytest.mark.parametrize("name", MATRICES)
def test_weighted_sums_are_read_from_the_table(name: str) -> None:
    for position in range(0, len(tables(Relation.REPLACE_ONE)), 61):
        whole = curator(tables(Relation.REPLACE_ONE)[position], Unit())
        found = whole.measure(weighted(name), RHO)
        counts = answers("marginal(a)", Relation.REPLACE_ONE, False)[position, 0]
        np.testing.assert_array_equal(found.values, MATRICES[name] @ counts)


def test_a_matrix_of_weights_that_does_not_fit_is_refused_for_nothing() -> None:
    queries = Queries.parse("prefixes(a)", DOMAIN)
    asked = curator(np.ones(CELLS, np.int64), Unit())
    for wrong in (
        np.eye(3),
        np.eye(3, dtype=np.bool_),
        np.eye(2, dtype=np.int64),
        np.ones(3, np.int64),
        np.zeros((1, 3), np.int64),
        np.array([[1, 0, -1]]),
        np.array([[1, 0, 2**20 + 1]]),
        np.array([[1, 0, 1], [0, 0, 0]]),
        np.zeros((0, 3), np.int64),
    ):
        with pytest.raises(OpenPriorError):
            asked.measure(WeightedSums.of(queries, wrong), RHO)  # type: ignore[arg-type]
    for other in (
        WeightedSums("prefixes(a)", ("b",), ((0, 1),)),
        WeightedSums("prefixes(a)", ("a",), ((3, 1),)),
    ):
        with pytest.raises(OpenPriorError, match="beyond their 3"):
            asked.measure(other, RHO)
    assert asked.events == ()


def test_sums_that_would_leave_64_bits_are_not_read() -> None:
    class Crowd:
        def counts(self, marginals: object) -> dict[tuple[str, ...], NDArray[np.int64]]:
            return {("a",): np.array([2**41, 2**40, rows])}

    statistic = WeightedSums("prefixes(a)", ("a",), ((0, 2**20, 2**20, 2**20),))
    rows = 2**40 - 1
    assert statistic.read(Crowd(), Unit()).tolist() == [2**20 * (2**42 - 1)]  # type: ignore[arg-type]
    rows += 1
    with pytest.raises(OpenPriorError, match="64 bits"):
        statistic.read(Crowd(), Unit())  # type: ignore[arg-type]
