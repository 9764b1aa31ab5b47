"""The hierarchy as published, Algorithm 2: its prior, its totals and its posteriors by hand."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from openprior.counting.engine import Threads
from openprior.counting.local import count_table
from openprior.methods.hierarchy.group_priors import group_priors
from openprior.methods.hierarchy.method import Hierarchy
from openprior.methods.hierarchy.totals import whole_each
from openprior.methods.hierarchy.tree import Tree
from openprior.methods.shared.dependence import Dependence
from openprior.methods.shared.strategy import cliques, roots
from openprior.models.grouped import GroupedModel
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.fake import NoNoise
from openprior.privacy.ledger import Ledger
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import all_marginals
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.layout import Layout
from openprior.schema.levels import Hierarchy as Above
from openprior.tables.encode import Encoder, Table, encode_table
from openprior.tables.source import open_source
from tests.conftest import quiet

AREAS = ("10a", "10b", "20a", "20b")
LEVELS = (("state",), ("area",))
SCHEMA = Schema(
    (
        Categorical(name="area", values=AREAS),
        Integer(name="x", low=0, high=3),
        Integer(name="y", low=0, high=3),
    ),
    hierarchies=(Above(name="state", column="area", prefix=2),),
)


def rows(n: int, seed: int, agree: float) -> pa.Table:
    """y is mostly x, so that both are a clique and x, which is the more uncertain, the only root."""
    rng = np.random.default_rng(seed)
    area, x = rng.integers(0, 4, n), rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2])
    x = np.where(rng.random(n) < 0.3, area, x)
    y = np.where(rng.random(n) < agree, np.minimum(x, 2), rng.integers(0, 3, n))
    return pa.table({"area": np.array(AREAS)[area], "x": x, "y": y})


PRIVATE, PUBLIC = rows(900, 1, 0.7), encode_table(rows(700, 2, 0.9), SCHEMA)
ADD_REMOVE = Unit(Relation.ADD_REMOVE)


class Less(NoNoise):
    """Noise that takes so much from every count."""

    def __init__(self, by: int) -> None:
        self._by = by

    def laplace(self, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """So much less."""
        return counts - self._by


def released(private: pa.Table = PRIVATE, *, less: int = 0) -> tuple[Curator, GroupedModel]:
    rho, ledger = budget_rho(1.0, 0.0), Ledger()
    run = ledger.open_run("test", rho=rho, epsilon=1.0, delta=0.0, details={})
    curator = Curator(
        Vault(Encoder(SCHEMA, open_source(private, SCHEMA), private=True, levels=True)),
        unit=ADD_REMOVE,
        noise=Less(less),
        account=Account(ledger, run, rho=rho, epsilon=1.0, delta=0.0),
    )
    work = all_marginals(2).on(SCHEMA.domain)
    model = Hierarchy.published(LEVELS).run(curator, PUBLIC, work, np.random.default_rng(0), quiet)
    assert isinstance(model, GroupedModel)
    return curator, model


def counts(table: Any, *marginal: str) -> NDArray[np.int64]:
    codes = table if isinstance(table, Table) else encode_table(table, SCHEMA)
    return count_table(codes, [marginal])[marginal].reshape([SCHEMA.domain[a] for a in marginal])


def test_algorithm_2_by_hand() -> None:
    """A state's joint counts are met exactly; an area has its own x, and of y given x what its state has.

    The public table has every combination that the private one has, so its support cuts off nothing.
    """
    curator, model = released()
    assert [e.statistic.marginal for e in curator.events] == [
        ("state",),
        ("x", "y", "state"),
        ("area",),
        ("area", "x"),
    ]
    joint = counts(PRIVATE, "area", "x", "y")
    assert (counts(PUBLIC, "x", "y")[joint.sum(axis=0) > 0] > 0).all()
    expected = np.zeros(joint.shape)
    for area in range(4):
        state = joint[[0, 1] if area < 2 else [2, 3]].sum(axis=0)
        own = joint[area].sum(axis=1)
        expected[area] = own[:, None] * state / state.sum(axis=1, keepdims=True)
    found = model.answers([("area", "x", "y")])[("area", "x", "y")].reshape(joint.shape)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.abs(expected - joint).sum() > 20  # areas do differ in what the finest level does not measure


def test_totals_are_floored_group_by_group() -> None:
    np.testing.assert_array_equal(whole_each(np.array([3.4, 3.6, -0.4, -7.0, 0.0])), [3, 4, 0, 0, 0])
    wanted = np.maximum(counts(PRIVATE, "area") - 230, 0)
    assert 0 < np.count_nonzero(wanted) < 4
    _, model = released(less=230)
    np.testing.assert_allclose(model.answers([("area",)])[("area",)], wanted, atol=1e-9)
    assert model.total == wanted.sum()
    drawn = model.sample(int(model.total), np.random.default_rng(0))
    np.testing.assert_array_equal(counts(drawn, "area"), wanted)


def test_if_every_total_is_0_one_row_stands_for_all() -> None:
    _, model = released(less=10_000)
    assert model.total == 1
    assert np.isfinite(model.answers([("x", "y")])[("x", "y")]).all()


def test_the_prior_is_the_public_tables_own_distribution_however_large() -> None:
    many = encode_table(rows(25_000, 3, 0.5), SCHEMA)
    tree = Tree(Layout(SCHEMA.domain, SCHEMA.levels), LEVELS)
    priors = group_priors(tree, many, Threads(), np.random.default_rng(0), own=False, empirical=True)
    assert len(priors) == 4
    assert len({(id(p.rows), id(p.weights)) for p in priors}) == 1
    prior = priors[0]
    wanted = counts(many, "x", "y")
    assert prior.rows.n == np.count_nonzero(wanted)
    np.testing.assert_allclose(
        prior.weights, wanted[prior.rows.column("x"), prior.rows.column("y")] / 25_000, rtol=1e-12
    )
    own = group_priors(tree, many, Threads(), np.random.default_rng(0), own=True, empirical=True)
    for area, prior in enumerate(own):
        wanted = counts(many, "area", "x", "y")[area]
        np.testing.assert_allclose(
            prior.weights, wanted[prior.rows.column("x"), prior.rows.column("y")] / wanted.sum(), rtol=1e-12
        )


def test_workloads_are_chosen_by_all_public_rows() -> None:
    many = encode_table(rows(9000, 4, 0.9), SCHEMA)
    tree = Tree(Layout(SCHEMA.domain, SCHEMA.levels), LEVELS)
    known = Dependence.of([tree.inside(many)], [900.0], np.random.default_rng(0), most=None)
    assert known.groups[0][1] == 9000
    assert (cliques(known), roots(known)) == ([("x", "y")], [("x",)])


def test_published_is_what_its_options_say() -> None:
    mechanism = Hierarchy.published(LEVELS)
    assert (mechanism.prior, mechanism.rounding, mechanism.own) == ("empirical", "each", False)
    assert (mechanism.updates, mechanism.totals, mechanism.split) == (2, 0.5, (1.0,))
    assert mechanism.is_pure


@pytest.mark.parametrize("n", [40, 400])
def test_rows_without_mass_are_left_out_of_a_group(n: int) -> None:
    """A value that no private row of a state has, has no mass in its areas, and no row in the model."""
    private = rows(n, 5, 0.7)
    private = private.set_column(1, "x", pa.array(np.minimum(np.array(private["x"]), 1)))
    _, model = released(private)
    for group in model.groups:
        assert (group.weights > 0).all()
        assert group.weights.sum() == pytest.approx(1)
        assert set(np.unique(group.rows.column("x")).tolist()) <= {0, 1}
