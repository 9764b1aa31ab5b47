"""Every model where some columns have only some values, against the whole joint by brute force."""

from collections.abc import Callable

import numpy as np
import pytest

from openprior.models.base import Model, _kinds
from openprior.models.components import Average
from openprior.models.generator import GeneratorModel
from openprior.models.linear import LinearModel
from openprior.models.product import ProductModel
from openprior.models.support import SupportModel
from openprior.models.tilted.replicates import Replicates
from openprior.models.tilted.tilted_model import Diagnostics, TiltedModel
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import random_table
from tests.unit.models.test_graphical_model import SHAPES, make_model
from tests.unit.models.test_grouped import model as grouped_model

SIZES = {"a": 3, "b": 2, "c": 4}


def support() -> SupportModel:
    rows, counts = random_table(SIZES, 60, 3).unique()
    return SupportModel(rows, counts.astype(float), 60.0)


def tilted() -> TiltedModel:
    rng = np.random.default_rng(1)
    particles = random_table(SIZES, 200, 4)
    replicates = Replicates(rng.integers(0, 200, (4, 50)).astype(np.int32), np.ones((4, 50), np.float32))
    return TiltedModel(
        particles,
        rng.random(200),
        90.0,
        (("a", "b"), ("c",)),
        replicates,
        Diagnostics(1.0, 200, {}, (1.0, 0.0, 0.0)),
    )


def product() -> ProductModel:
    one = SupportModel(Table(Domain({"c": 4}), (np.array([0, 1, 3]),)), np.array([1.0, 2.0, 3.0]), 7.0)
    two = random_table({"b": 2, "d": 3}, 20, 5)
    return ProductModel(
        Domain({"a": 3, "b": 2, "c": 4, "d": 3}), [one, SupportModel(two, np.ones(20), 20.0)], 50.0
    )


def rows_of_linear() -> Model:
    """The distribution that a linear model's rows are from, which is what it restricts: its answers are no joint."""
    average = Average(Domain(SIZES))
    rng = np.random.default_rng(2)
    for marginal in (("a", "b"), ("b", "c")):
        average.add_marginal(marginal, rng.uniform(5, 20, Domain(SIZES).size(marginal)), 4.0)
    model = LinearModel(
        Domain(SIZES), *average.components(), noise="gaussian", marginals=[("a", "b"), ("b", "c")]
    )
    assert model.can_restrict
    everything = model.restricted({})
    assert everything is not None
    assert everything.total == pytest.approx(model.total)
    return everything


def generator() -> GeneratorModel:
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.dirichlet(np.ones(n), 5) for n in SIZES.values()], axis=1)
    return GeneratorModel(Domain(SIZES), rng.dirichlet(np.ones(5)), values, 80.0)


MODELS: dict[str, Callable[[], Model]] = {
    "support": support,
    "tilted": tilted,
    "product": product,
    "grouped": grouped_model,
    "generator": generator,
    "linear, its rows": rows_of_linear,
    **{f"graphical, {name}": lambda name=name: make_model(name) for name in SHAPES},
    "graphical, zeros": lambda: make_model("cycle", zeros=0.4),
}


def test_every_kind_of_model_is_looked_at() -> None:
    assert {name.split(",")[0] for name in MODELS} >= {
        kind for kind, made in _kinds().items() if made.__module__.startswith("openprior.")
    }


@pytest.mark.parametrize("name", MODELS)
def test_restricted_models_are_the_joint_where_it_is_allowed(name: str) -> None:
    model = MODELS[name]()
    assert model.can_restrict
    domain = model.domain
    names = domain.attributes
    joint = model.answers([names])[names].reshape(domain.shape)
    rng = np.random.default_rng(7)
    seen = 0
    for _ in range(12):
        some = [a for a in names if rng.random() < 0.6] or [names[-1]]
        allowed = {a: rng.random(domain[a]) < 0.6 for a in some}
        mask = np.ones(domain.shape, bool)
        for a, marked in allowed.items():
            mask &= marked.reshape([-1 if b == a else 1 for b in names])
        kept = model.restricted(allowed)
        if not (joint * mask).sum() > 0:
            assert kept is None
            continue
        assert kept is not None
        seen += 1
        assert kept.total == pytest.approx((joint * mask).sum())
        np.testing.assert_allclose(
            kept.answers([names])[names], (joint * mask).reshape(-1), rtol=1e-9, atol=1e-12 * model.total
        )
        for marginal in ((names[0],), names[-2:]):
            np.testing.assert_allclose(kept.answers([marginal])[marginal].sum(), kept.total, rtol=1e-9)
        rows = kept.sample(37, np.random.default_rng(0))
        assert rows.n == 37
        assert rows.inside(allowed).all()
        counted = np.zeros(domain.shape)
        np.add.at(counted, tuple(c.astype(int) for c in rows.columns), 1)
        assert (counted[joint == 0] == 0).all()
    assert seen > 2
    nothing = {names[0]: np.zeros(domain[names[0]], bool)}
    assert model.restricted(nothing) is None


def test_many_rows_follow_the_restricted_model() -> None:
    model = make_model("cycle")
    kept = model.restricted({"a": np.array([True, False, True]), "d": np.array([False, True])})
    assert kept is not None
    names = model.domain.attributes
    rows = kept.sample(200_000, np.random.default_rng(1))
    counted = np.zeros(model.domain.shape)
    np.add.at(counted, tuple(c.astype(int) for c in rows.columns), 1)
    share = kept.answers([names])[names].reshape(model.domain.shape) / kept.total
    np.testing.assert_allclose(counted / 200_000, share, atol=0.002)
