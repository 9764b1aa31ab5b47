"""The regression against all neighbours of small tables, against SciPy's minimum, and its proof step by step."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from openprior.errors import PrivacyError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.regression import (
    MembershipRegression,
    check_exactness,
    gradient_error,
    iterations,
)
from openprior.privacy.regression_steps import Pull, bits_for, places_of
from openprior.privacy.statistics import Ints
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from openprior.tables.table import Table
from tests.conftest import random_table

DOMAIN = Domain({"a": 2, "b": 3})
CELLS = DOMAIN.size()
ROWS = 4
REGULARISATIONS = (0.02, 0.5)
Floats = NDArray[np.float64]


def table_of(cells: tuple[int, ...]) -> Table:
    return Table(DOMAIN, np.unravel_index(np.array(cells), DOMAIN.shape))


PUBLICS = {
    "every row once": table_of(tuple(range(CELLS))),
    "one row": table_of((0, 0, 0)),
    "far": table_of((5, 5, 5, 5, 5, 4)),
}


class Rows:
    """A vault of one table."""

    def __init__(self, table: Table) -> None:
        self._table, self.rows = table, table.n

    def whole_rows(self) -> tuple[Table, Ints]:
        return self._table.unique()


def steps_of(table: Table, public: Table, regularisation: float) -> Ints:
    return MembershipRegression.of(public, regularisation).read(Rows(table), Unit())  # type: ignore[arg-type]


def neighbours(rows: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of tables that differ in so many rows of one person."""
    for stay in itertools.combinations_with_replacement(range(CELLS), ROWS - rows):
        changing = list(itertools.combinations_with_replacement(range(CELLS), rows))
        for one, other in itertools.combinations(changing, 2):
            yield tuple(sorted(stay + one)), tuple(sorted(stay + other))


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
@pytest.mark.parametrize("public", PUBLICS)
def test_no_neighbour_moves_it_further_than_it_says(public: str, regularisation: float) -> None:
    every = itertools.combinations_with_replacement(range(CELLS), ROWS)
    found = {cells: steps_of(table_of(cells), PUBLICS[public], regularisation) for cells in every}
    statistic = MembershipRegression(5, regularisation)
    for rows in (1, 2):
        declared = statistic.sensitivity(Unit(rows_per_person=rows))
        moved = np.array([found[one] - found[other] for one, other in neighbours(rows)])
        assert (moved**2).sum(axis=1).max() <= declared.l2_squared
        assert np.abs(moved).sum(axis=1).max() <= declared.l1
        # Not far below: at λ = 0.5 the Hessian takes some, and at β = 0 a pull is 1/2 and not 1.
        if regularisation == 0.5:
            assert (moved**2).sum(axis=1).max() > 0.09 * declared.l2_squared


def one_hot(table: Table) -> Floats:
    places = places_of(table)
    found = np.zeros((table.n, sum(table.domain.shape)))
    for row, where in enumerate(places):
        found[row, where] = 1 / math.sqrt(len(table.domain))
    return found


@pytest.mark.parametrize("regularisation", REGULARISATIONS)
def test_it_is_the_minimum_up_to_a_fifth_of_a_row(regularisation: float) -> None:
    private, public = (
        random_table({"a": 3, "b": 4, "c": 2}, 200, 1, 0.5),
        random_table({"a": 3, "b": 4, "c": 2}, 90, 2),
    )
    ours, theirs = one_hot(private), one_hot(public)

    def loss(beta: Floats) -> float:
        fits = np.logaddexp(0, -ours @ beta).mean() + np.logaddexp(0, theirs @ beta).mean()
        return float(fits + regularisation / 2 * beta @ beta)

    best = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-9}).x
    curator = FakeCurator(private, epsilon=2.0)
    found = curator.measure(MembershipRegression.of(public, regularisation), curator.remaining)
    row = 1 / (regularisation * private.n)
    assert np.linalg.norm(found.values - best) < 0.2 * row
    assert np.linalg.norm(best) > row  # so that this could fail
    assert found.sigma == pytest.approx(math.sqrt(2) * row / math.sqrt(2 * curator.rho), rel=0.01)


def test_a_step_brings_no_two_points_further_apart() -> None:
    """The first claim of the proof, at random points and at far ones."""
    private, public = random_table({"a": 3, "b": 4}, 50, 1), random_table({"a": 3, "b": 4}, 40, 2)
    pulls = [Pull(*t.unique(), upwards=up) for t, up in ((private, True), (public, False))]

    def step(beta: Floats) -> Floats:
        return beta - 4 * (pulls[1].mean(beta) - pulls[0].mean(beta))

    rng = np.random.default_rng(1)
    for size in (1e-3, 1.0, 30.0):
        for _ in range(200):
            one, other = rng.normal(0, size, (2, 7))
            assert np.linalg.norm(step(one) - step(other)) <= np.linalg.norm(one - other) + 1e-12


def test_one_row_moves_the_gradient_by_root_2_at_most_and_somewhere() -> None:
    """The second claim: rows that look most public pull with all they have, at right angles."""
    far = np.full(5, -60.0)
    for rows in (1, 2):
        one, other = (table_of((cell,) * rows) for cell in (0, 5))
        pulls = [Pull(*t.unique(), upwards=True).mean(far) * rows for t in (one, other)]
        assert np.linalg.norm(pulls[0] - pulls[1]) == pytest.approx(math.sqrt(2) * rows)


def test_doubles_err_by_less_than_the_proof_allows() -> None:
    table = random_table({"a": 7, "b": 30, "c": 2}, 4000, 3)
    rng = np.random.default_rng(2)
    features = one_hot(table).astype(np.longdouble)
    for size in (0.01, 1.0, 20.0):
        beta = rng.normal(0, size, 39)
        shares = 1 / (1 + np.exp(features @ beta.astype(np.longdouble)))
        exact = (shares[:, None] * features).mean(axis=0)
        error = np.linalg.norm((Pull(*table.unique(), upwards=True).mean(beta) - exact).astype(np.float64))
        assert error < gradient_error(table.n, table.n, 3, 0.005)
    assert bits_for(4000) == 50
    assert bits_for(10**7) == 38


def test_more_rows_than_doubles_can_tell_apart_are_refused() -> None:
    check_exactness(30_000_000, 30_000_000, 13, 0.005)
    with pytest.raises(PrivacyError, match="not exact enough"):
        check_exactness(300_000_000, 1000, 13, 0.005)
    with pytest.raises(PrivacyError, match="not exact enough"):
        check_exactness(30_000_000, 1000, 20_000, 0.001)
    assert iterations(10**6, 0.001) < 4000


def test_the_order_of_rows_and_how_they_lie_in_batches_do_not_matter() -> None:
    """Many enough for several threads: whole numbers add up to the same in every order."""
    sizes = {f"c{i}": 4 for i in range(16)}
    table, public = random_table(sizes, 40_000, 1), random_table(sizes, 50, 2)
    order = np.random.default_rng(3).permutation(table.n)
    statistic = MembershipRegression.of(public, 0.5)
    found = []
    for rows, size in ((table, 40_000), (table.take(order), 777)):
        frame = pa.table({a: rows.column(a) for a in sizes})
        batches = pa.Table.from_batches(frame.to_batches(max_chunksize=size))
        schema = Schema.from_sizes(sizes)
        vault = Vault(Encoder(schema, open_source(batches, schema), private=True, levels=True))
        found.append(statistic.read(vault, Unit()))
    np.testing.assert_array_equal(*found)
    one = Pull(*table.unique(), upwards=True)
    many = one.mean(np.ones(64))
    one._portion = table.n
    np.testing.assert_array_equal(many, one.mean(np.ones(64)))


def test_what_cannot_be_measured_is_refused_before_any_charge() -> None:
    public = PUBLICS["far"]
    statistic = MembershipRegression.of(public, 0.1)
    for unit in (Unit(Relation.ADD_REMOVE), Unit().part()):
        curator = FakeCurator(public, unit=unit)
        with pytest.raises(PrivacyError, match="which is private here"):
            curator.measure(statistic, curator.remaining)
        assert curator.events == ()
    curator = FakeCurator(random_table({"a": 2, "b": 2}, 9, 1))
    with pytest.raises(PrivacyError, match="5 coefficients does not fit the columns, which have 4 values"):
        curator.measure(statistic, curator.remaining)
    curator = FakeCurator(random_table({"b": 3, "a": 2}, 9, 1))
    with pytest.raises(PrivacyError, match="public rows with the private table's columns"):
        curator.measure(statistic, curator.remaining)
    assert curator.events == ()
    curator = FakeCurator(public)
    for wrong in (np.array([1.5, 2.5]), np.array([0, 5]), np.array([2**62, 2**62]), np.array([6])):
        with pytest.raises(PrivacyError, match="and a count of each"):
            curator.measure(replace(statistic, counts=wrong), curator.remaining)
    assert curator.events == ()
    with pytest.raises(PrivacyError, match=r"regularisation \(0\) must lie between"):
        MembershipRegression(5, 0.0)
