"""The sensitivity of residuals against all that one person can do: never passed, and reached somewhere.

They are linear in the counts, so what moves them between neighbours is R(u − v): all rows u that a person can take and
all rows v that the person can bring, of every table, and over the parts of a partition.
"""

import itertools
import json
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.events import Gaussian, event_from_dict
from openprior.privacy.residual_statistics import MOST_RESIDUAL_CELLS, Residuals
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from tests.formulas import sensitivity_by_hand

Ints = NDArray[np.int64]
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]


class Table:
    """A vault of one histogram."""

    def __init__(self, counts: Ints) -> None:
        self._counts, self.rows = counts, int(counts.sum())

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, Ints]:
        return dict.fromkeys(marginals, self._counts)

    def gather(self, *_: object) -> Ints:
        raise AssertionError


def residuals(sizes: tuple[int, ...]) -> tuple[Residuals, Ints]:
    """The statistic and its matrix, one column per cell, as it is read."""
    names = [f"c{i}" for i in range(len(sizes))]
    statistic = Residuals.of(names, Domain(dict(zip(names, sizes, strict=True))))
    cells = int(np.prod(sizes))
    matrix = [statistic.read(Table(row), Unit()) for row in np.eye(cells, dtype=np.int64)]
    return statistic, np.stack(matrix, axis=1)


def taken(cells: int, rows: int) -> Iterator[Ints]:
    """All histograms of so many rows."""
    for chosen in itertools.combinations_with_replacement(range(cells), rows):
        yield np.bincount(chosen, minlength=cells) if chosen else np.zeros(cells, np.int64)


def changes(cells: int, unit: Unit) -> Ints:
    """All u − v, one per row."""
    pairs = []
    for rows in range(1, unit.rows_per_person + 1):
        for u in taken(cells, rows):
            if unit.relation is Relation.ADD_REMOVE:
                pairs.append(u)
            else:
                pairs += [u - v for v in taken(cells, rows)]
    return np.unique(pairs, axis=0)


def test_the_matrix_is_gamma_times_a_projection() -> None:
    statistic, matrix = residuals((2, 3))
    scale = statistic.scale
    by_hand = np.kron(2 * np.eye(2) - 1, 3 * np.eye(3) - 1)
    assert scale == 6
    assert np.array_equal(matrix, by_hand)
    assert np.array_equal(matrix @ matrix, scale * matrix)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("sizes", [(2,), (4,), (2, 2), (2, 3), (3, 4), (2, 2, 3), (3, 3, 2), (5, 3)])
def test_all_neighbours(sizes: tuple[int, ...], unit: Unit) -> None:
    statistic, matrix = residuals(sizes)
    declared = statistic.sensitivity(unit)
    moved = changes(int(np.prod(sizes)), unit) @ matrix
    assert np.abs(moved).sum(axis=1).max() == declared.l1
    assert (moved**2).sum(axis=1).max() == declared.l2_squared


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 3), (3, 3)])
def test_all_ways_across_two_parts(sizes: tuple[int, ...], unit: Unit) -> None:
    statistic, matrix = residuals(sizes)
    declared = statistic.sensitivity(unit.part())
    cells = int(np.prod(sizes))
    one, two = changes(2 * cells, unit).reshape(-1, 2, cells).transpose(1, 0, 2) @ matrix
    assert (np.abs(one).sum(axis=1) + np.abs(two).sum(axis=1)).max() == declared.l1
    assert ((one**2).sum(axis=1) + (two**2).sum(axis=1)).max() == declared.l2_squared


@pytest.mark.parametrize("unit", [*UNITS, *(unit.part() for unit in UNITS)], ids=str)
@pytest.mark.parametrize("sizes", [(2,), (2, 3), (5, 3), (3, 2, 4)])
def test_the_formulas_by_hand_are_the_same(sizes: tuple[int, ...], unit: Unit) -> None:
    statistic, _ = residuals(sizes)
    declared = statistic.sensitivity(unit)
    event = {**statistic.to_dict(), **({"part": {}} if unit.partitioned else {})}
    assert sensitivity_by_hand(event, unit.relation, unit.rows_per_person) == (
        declared.l1,
        declared.l2_squared,
    )


def test_a_sum_of_twice_the_squares_would_be_too_little_under_replace_one() -> None:
    """Of a marginal replace-one is twice add/remove; of residuals it is more, as two columns can point apart."""
    statistic, _ = residuals((2, 3))
    once, replaced = (statistic.sensitivity(Unit(r)) for r in (Relation.ADD_REMOVE, Relation.REPLACE_ONE))
    assert replaced.l2_squared == 4 * once.l2_squared


def test_more_columns_than_are_worked_out_are_safe() -> None:
    """Of nine columns with two values the two farthest columns are opposites, which the triangle inequality allows."""
    statistic, matrix = residuals((2,) * 9)
    assert np.abs(matrix[:, 0] - matrix[:, 1]).sum() == statistic.sensitivity(Unit()).l1


def test_it_costs_what_residual_planner_says() -> None:
    statistic = Residuals(("a", "b"), (3, 5))
    event = Gaussian.at(statistic, 0.01, Unit(Relation.ADD_REMOVE))
    sigma = event.sigma / statistic.scale
    assert pytest.approx((2 / 3) * (4 / 5) / (2 * sigma**2), rel=1e-12) == 0.01


def test_json_and_back() -> None:
    event = Gaussian.at(Residuals(("a", "b"), (3, 5)), 0.01, Unit())
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


@pytest.mark.parametrize("facts", [{"sizes": [3]}, {"sizes": [3, 1]}, {"marginal": []}, {"sizes": [3, 5.0]}])
def test_a_forged_one_is_refused(facts: dict[str, object]) -> None:
    event = Gaussian.at(Residuals(("a", "b"), (3, 5)), 0.01, Unit())
    with pytest.raises(PrivacyError):
        event_from_dict({**event.to_dict(), **facts})


def test_other_sizes_than_the_schema_has_are_refused() -> None:
    layout = Layout(Domain({"a": 3, "b": 5}))
    assert Residuals(("b", "a"), (5, 3)).fitted(layout) == Residuals(("a", "b"), (3, 5))
    with pytest.raises(PrivacyError, match="other sizes"):
        Residuals(("a", "b"), (3, 4)).fitted(layout)
    with pytest.raises(PrivacyError, match="one value only"):
        Residuals.of(["a"], Domain({"a": 1}))
    with pytest.raises(PrivacyError, match="64 bits"):
        Residuals.of(["a", "b"], Domain({"a": MOST_RESIDUAL_CELLS // 2, "b": 3}))


def test_numbers_beyond_64_bits_cannot_be() -> None:
    """The largest component of the largest table, all rows in one cell."""
    size = 1 << 11
    statistic = Residuals(("a", "b"), (size, size))
    rows = np.zeros(size * size, np.int64)
    rows[0] = 1 << 40
    read = statistic.read(Table(rows), Unit())
    assert int(read[0]) == (1 << 40) * (size - 1) ** 2
    assert int(read.astype(object).sum()) == 0
    rows[0] += 1
    with pytest.raises(PrivacyError, match="64 bits"):
        statistic.read(Table(rows), Unit())
