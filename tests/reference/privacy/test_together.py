"""Many counts as one vector: what one person moves is never more than declared, and what is read back is the same."""

import itertools
import json

import numpy as np
import pytest

from openprior.errors import PrivacyError
from openprior.privacy.events import Gaussian, Laplace, event_from_dict
from openprior.privacy.fake import FakeCurator
from openprior.privacy.measurement import Measurement
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import CellCount, Counts, Statistic, Total
from openprior.privacy.together import MOST_TIMES, Together
from openprior.privacy.unit import Relation, Unit
from openprior.schema.domain import Domain
from openprior.tables.table import Table

DOMAIN = Domain({"a": 2, "b": 3})
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]


def together(*, total: bool) -> Together:
    parts: list[Statistic] = [Counts(("a",)), Counts(("a", "b")), Residuals.of(("b",), DOMAIN)]
    return Together(
        (3, 1, 5)[: len(parts)] + ((7,) if total else ()), (*parts, Total()) if total else tuple(parts)
    )


def read(statistic: Statistic, cells: tuple[int, ...], unit: Unit) -> np.ndarray:
    """What is read of a table that has these cells as rows, through the real vault."""
    columns = np.unravel_index(np.array(cells), DOMAIN.shape)
    curator = FakeCurator(Table(DOMAIN, columns), unit=unit)
    return curator.measure(statistic, 0.01).values


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_all_neighbours(unit: Unit) -> None:
    """Of tables with one row more than a person has; what a person does to others is the same, as all is linear."""
    statistic = together(total=unit.relation is Relation.ADD_REMOVE)
    declared = statistic.sensitivity(unit)
    rows = unit.rows_per_person
    vectors = {
        cells: read(statistic, (0, *cells), unit)
        for k in {rows, 0 if unit.relation is Relation.ADD_REMOVE else rows}
        for cells in itertools.combinations_with_replacement(range(6), k)
    }
    l1 = squared = 0.0
    for one, other in itertools.product(vectors, repeat=2):
        if unit.relation is Relation.REPLACE_ONE or not one:
            moved = vectors[one] - vectors[other]
            l1, squared = max(l1, np.abs(moved).sum()), max(squared, (moved**2).sum())
    assert l1 <= declared.l1
    assert squared <= declared.l2_squared
    if unit.relation is Relation.ADD_REMOVE:  # every part is moved most by one and the same row
        assert (l1, squared) == (declared.l1, declared.l2_squared)


def test_a_part_within_a_partition_is_charged_as_its_parts_are() -> None:
    unit = Unit().part()
    declared = together(total=True).sensitivity(unit)
    each = [part.sensitivity(unit) for part in together(total=True).parts]
    assert declared.l2_squared == sum(m**2 * s.l2_squared for m, s in zip((3, 1, 5, 7), each, strict=True))
    assert each[-1].l2_squared == 2  # the total is private there, and a person can move between parts


def test_pieces_are_what_was_measured() -> None:
    statistic = together(total=False)
    values = read(statistic, (0, 0, 4, 5), Unit())
    first, second, third = Measurement(statistic, values, 15.0).pieces(DOMAIN)
    assert first.values.tolist() == [2, 2]
    assert first.sigma == 5
    assert second.values.tolist() == [2, 0, 0, 0, 1, 1]
    assert second.sigma == 15
    assert third.values.tolist() == [3 * 2 - 4, 3 - 4, 3 - 4]
    assert third.sigma == 3
    alone = Measurement(Total(), np.array([4.0]), 1.0)
    assert list(alone.pieces(DOMAIN)) == [alone]


@pytest.mark.parametrize(
    "event",
    [
        Gaussian.at(together(total=False), 0.01, Unit()),
        Laplace.at(together(total=False), 0.01, Unit(), pure=False),
    ],
)
def test_json_and_back(event: Gaussian | Laplace) -> None:
    again = event_from_dict(json.loads(json.dumps(event.to_dict())))
    assert again == event
    assert again.cost(Unit(), pure=False) == pytest.approx(0.01, rel=1e-12)


@pytest.mark.parametrize(
    "facts",
    [
        {"times": [3, 1]},
        {"times": [3, 1, 0]},
        {"times": [3, 1, 2.0]},
        {"times": [3, 1, MOST_TIMES]},
        {"parts": []},
        {"parts": [{"statistic": "marginal", "marginal": ["a"], "more": 1}], "times": [1]},
        {"parts": [{"statistic": "cell", "marginal": ["a"], "cell": 0}], "times": [1]},
    ],
)
def test_a_forged_one_is_refused(facts: dict[str, object]) -> None:
    event = Gaussian.at(together(total=False), 0.01, Unit())
    with pytest.raises(PrivacyError):
        event_from_dict({**event.to_dict(), **facts})


def test_only_counts_can_be_put_together() -> None:
    with pytest.raises(PrivacyError, match="measure it alone"):
        Together((1,), (CellCount(("a",), 0),))
    with pytest.raises(PrivacyError, match="measure it alone"):
        Together((1,), (together(total=False),))
