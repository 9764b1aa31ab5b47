"""How wrong a model is, stratum by stratum, against all neighbours of small tables: never beyond what was charged.

References of which counts are all above or all below show the bound attained: then every row that goes or comes moves
an error the same way.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.error_strata import ROW_STEPS, Apart, CellsApart, ContrastsApart, ErrorStrata
from openprior.privacy.events import Gaussian, event_from_dict
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal
from openprior.schema.layout import Layout
from tests.formulas import largest_by_hand, rho_by_hand, sensitivity_by_hand
from tests.reference.privacy.test_sensitivity import (
    DOMAIN,
    UNITS,
    Histogram,
    Histograms,
    curator,
    ids,
    neighbours,
    tables,
)

FAR = 9 * ROW_STEPS
"""A reference above every count; 0 is one below."""


def cells(marginal: Marginal, group: int = 0, within: Marginal | None = None) -> CellsApart:
    """All in one stratum, the first cell far below its reference and the others above theirs."""
    reference = np.zeros(DOMAIN.size(marginal), np.int64)
    reference[0] = FAR
    return CellsApart(marginal, group, reference, np.zeros(len(reference), np.int8), within)


def spread(marginal: Marginal, strata: list[int], *, away: float = 1.37) -> CellsApart:
    """References among the counts, in these strata; −1: not asked for."""
    reference = np.full(len(strata), round(away * ROW_STEPS), np.int64)
    return CellsApart(marginal, 0, reference, np.array(strata, np.int8))


def contrasts(
    marginal: Marginal, axis: int, weights: list[list[int]], group: int = 0, within: Marginal | None = None
) -> ContrastsApart:
    """In one stratum, all far below their references, with weights of at most two rows."""
    reference, stratum = np.full(len(weights), 4 * FAR, np.int64), np.zeros(len(weights), np.int8)
    most = 2 * ROW_STEPS
    return ContrastsApart(
        marginal, group, reference, stratum, within, axis=axis, weights=np.array(weights, np.int16), most=most
    )


WHOLE: Marginal = ("k", "a", "b")
WEIGHTS = [[-128, 128], [17, -64]]
ASKED: dict[str, tuple[tuple[int, ...], tuple[Apart, ...], bool]] = {
    # Factors, tables, and whether some neighbour surely moves the numbers by all that is declared.
    "cells": ((1,), (cells(("a", "b")),), True),
    "cells of one column": ((7,), (cells(("b",)),), True),
    "cells of two tables": ((3,), (cells(("a", "b")), cells(("k",))), True),
    "cells, of sums": ((2,), (cells(("a",), within=("k", "a")), cells(("k", "b"), within=WHOLE)), True),
    "cells in many strata": ((2,), (spread(("a", "b"), [0, 1, 2, 1]),), False),
    "cells that are not asked for": ((2,), (spread(("a", "b"), [0, -1, -1, 0]),), False),
    "no cell at all": ((2,), (spread(("k",), [-1, -1]),), False),
    "cells in a stratum, near their references": ((2,), (spread(WHOLE, [0] * 8, away=0.4),), False),
    "contrasts": ((1,), (contrasts(("a", "b"), 1, WEIGHTS),), True),
    "contrasts of the first column": ((5,), (contrasts(("a", "b"), 0, WEIGHTS),), True),
    "contrasts of a column in the middle": ((1,), (contrasts(WHOLE, 1, [*WEIGHTS, [0, 1], [5, 5]]),), True),
    "contrasts of no other column": ((1,), (contrasts(("b",), 0, [[-128, 128]]),), True),
    "contrasts, of sums": ((1,), (contrasts(("a", "b"), 1, WEIGHTS, within=WHOLE),), True),
    "contrasts with light weights": ((1,), (contrasts(("a", "b"), 1, [[1, 2], [-3, 4]]),), False),
    "cells and contrasts": ((3,), (cells(("k", "a")), contrasts(("a", "b"), 1, WEIGHTS)), False),
    "groups": (
        (5, 3, 2),
        (
            contrasts(("b",), 0, [[-128, 128]], group=0),
            cells(("a",), group=1),
            cells(("k",), group=2),
            cells(("k", "a"), group=2),
        ),
        True,
    ),
}
named = pytest.mark.parametrize("name", ASKED)
STRATA = 3


class Whole(Histograms):
    """The vault of one histogram, which knows how many rows it has."""

    @property
    def rows(self) -> int:
        return sum(self.h)


def asked(name: str) -> ErrorStrata:
    factors, parts, _ = ASKED[name]
    return ErrorStrata.of(STRATA, factors, parts).fitted(Layout(DOMAIN))


def read(name: str, h: Histogram, unit: Unit) -> NDArray[np.int64]:
    return asked(name).read(Whole(h), unit)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@named
def test_all_neighbours(name: str, unit: Unit) -> None:
    statistic, (_, _, attained) = asked(name), ASKED[name]
    declared = statistic.sensitivity(unit)
    first, second = neighbours(unit)
    found = np.array([statistic.read(Whole(h), unit) for h in tables(unit.relation)])  # type: ignore[arg-type]
    moved = np.abs(found[first] - found[second])
    l1, squared, one = moved.sum(axis=1).max(), (moved**2).sum(axis=1).max(), moved.max()
    assert l1 <= declared.l1
    assert squared <= declared.l2_squared
    assert one <= declared.largest
    if attained:
        assert (l1, squared, one) == (declared.l1, declared.l2_squared, declared.largest)
    facts = {"event": "laplace", **statistic.to_dict()}
    by_hand = unit.relation, unit.rows_per_person
    assert sensitivity_by_hand(facts, *by_hand) == (declared.l1, declared.l2_squared)
    assert largest_by_hand(facts, *by_hand) == declared.largest


def by_hand(part: Apart, h: Histogram, strata: int) -> list[int]:
    """The same, row by row and cell by cell."""
    numbers = [0] * len(part.reference)
    shape = [DOMAIN[a] for a in part.marginal]
    place = {a: DOMAIN.attributes.index(a) for a in part.marginal}
    for row in itertools.chain.from_iterable([codes] * n for codes, n in zip(CODES, h, strict=True)):
        own = [row[place[a]] for a in part.marginal]
        if isinstance(part, CellsApart):
            numbers[int(np.ravel_multi_index(own, shape))] += ROW_STEPS
        else:
            assert isinstance(part, ContrastsApart)
            value = own.pop(part.axis)
            others = shape[: part.axis] + shape[part.axis + 1 :]
            group = int(np.ravel_multi_index(own, others)) if own else 0
            numbers[group] += int(part.weights[group, value])
    told = zip(numbers, part.reference.tolist(), part.stratum.tolist(), strict=True)
    away = [(abs(number - g), s) for number, g, s in told]
    return [sum(far for far, s in away if s == stratum) for stratum in range(strata)]


CODES = list(itertools.product(range(2), repeat=3))


@named
def test_the_numbers_are_those_by_hand(name: str) -> None:
    factors, parts, _ = ASKED[name]
    for h in tables(Relation.REPLACE_ONE)[::11]:
        sums = np.zeros((len(factors), STRATA), int)
        for part in parts:
            sums[part.group] += factors[part.group] * np.array(by_hand(part, h, STRATA))
        assert read(name, h, Unit()).tolist() == sums.reshape(-1).tolist()


@named
def test_the_curator_reads_the_same_and_charges_for_it(name: str) -> None:
    h = tables(Relation.REPLACE_ONE)[17]
    for unit, noise in itertools.product(UNITS, ("gaussian", "laplace")):
        ask = curator(h, unit)
        statistic = ErrorStrata.of(STRATA, *ASKED[name][:2])
        np.testing.assert_array_equal(ask.measure(statistic, 0.05, noise=noise).values, read(name, h, unit))
        (event,) = ask.events
        written = event.to_dict()
        assert event_from_dict(written) == event
        assert event.cost(unit, pure=False) == pytest.approx(0.05)
        assert rho_by_hand(written, unit.relation, unit.rows_per_person) == pytest.approx(0.05)


LESS: dict[str, Callable[[ErrorStrata], tuple[int, ...]]] = {
    "one table of a group": lambda s: tuple(f * k for f, k in zip(s.factors, s.steps, strict=True)),
    "no factors": lambda s: tuple(t * k for t, k in zip(s.tables, s.steps, strict=True)),
    "steps of a row": lambda s: tuple(f * t * ROW_STEPS for f, t in zip(s.factors, s.tables, strict=True)),
}


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("less", LESS)
def test_a_bound_that_forgets_something_is_passed(less: str, unit: Unit) -> None:
    statistic = asked("groups")
    squared = sum((step * unit.l1) ** 2 for step in LESS[less](statistic))
    first, second = neighbours(unit)
    found = np.array([statistic.read(Whole(h), unit) for h in tables(unit.relation)])  # type: ignore[arg-type]
    assert ((found[first] - found[second]) ** 2).sum(axis=1).max() > squared


def test_a_certificate_cannot_say_less_than_was_measured() -> None:
    """Fewer tables, smaller factors or steps: then the same noise would have cost less than was charged."""
    ask = curator(tables(Relation.REPLACE_ONE)[3], Unit())
    ask.measure(ErrorStrata.of(STRATA, *ASKED["groups"][:2]), 0.05)
    event = ask.events[0].to_dict()
    assert isinstance(ask.events[0], Gaussian)
    for name in ("factors", "tables", "steps"):
        for place, number in enumerate(event[name]):  # type: ignore[arg-type]
            if number > 1:
                changed = [*event[name]]  # type: ignore[misc]
                changed[place] = number - 1
                assert event_from_dict({**event, name: changed}).cost(Unit(), pure=False) < 0.05 * (1 - 1e-6)
    part = {"keys": ["k"], "number": 1, "codes": [0]}
    with pytest.raises(PrivacyError, match="whole table"):
        event_from_dict({**event, "part": part, "charged": 0.0}).cost(Unit(), pure=False)
