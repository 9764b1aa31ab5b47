"""What every registered mechanism must do; a new one gets these tests for free."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.errors import OptionError
from openprior.methods.base import Mechanism, PublicTable, Sizes
from openprior.models.base import load_model
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from openprior.tables.encode import Table
from tests.conftest import PRIVATE, PUBLIC, quiet

pytestmark = pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
MECHANISMS = sorted(op.mechanisms().items())
UNITS = [Unit(), Unit(rows_per_person=3), Unit(Relation.ADD_REMOVE), Unit(Relation.ADD_REMOVE, 2)]


def quick(cls: type) -> Any:
    """A mechanism with its defaults, but no more particles than it needs at least: most of its time, and no other way
    through its code."""
    has_particles = "particles" in {field.name for field in dataclasses.fields(cls)}
    return cls(particles=1000) if has_particles else cls()


def run(
    mechanism: Any, workload: Workload, unit: Unit, seed: int, **budget: float
) -> tuple[FakeCurator, Any]:
    curator = FakeCurator(PRIVATE, unit=unit, noise=SeededNoise(seed), **budget)
    # A mechanism that needs no public table must not mind one.
    return curator, mechanism.run(curator, PUBLIC, workload, np.random.default_rng(seed), quiet)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
class TestEvery:
    def test_spends_within_its_budget_and_answers(
        self, name: str, cls: type, unit: Unit, tmp_path: Path
    ) -> None:
        workload = all_marginals(2).on(PRIVATE.domain)
        curator, model = run(cls(), workload, unit, seed=3, epsilon=2.0)
        assert sum(e.rho for e in curator.events) <= curator.rho * (1 + 1e-12)
        assert model.domain == PRIVATE.domain
        answers = model.answers([*workload.marginals, ("a",), ("a", "b", "c", "d")])
        for marginal, counts in answers.items():
            assert counts.shape == (PRIVATE.domain.size(marginal),)
            assert np.isfinite(counts).all()
            # What is a sum of noisy counts and nothing else may be negative, and says so.
            assert (counts >= 0).all() or model.noise_alone(marginal) is not None
            assert counts.sum() == pytest.approx(model.total)
        rows = model.sample(123, np.random.default_rng(0))
        assert rows.n == 123
        assert rows.domain == PRIVATE.domain
        model.save(tmp_path)
        again = load_model(tmp_path).answers(workload.marginals)
        for marginal in workload.marginals:
            np.testing.assert_allclose(again[marginal], answers[marginal], atol=1e-9)

    def test_the_number_of_rows_is_exact_only_where_it_is_public(
        self, name: str, cls: type, unit: Unit
    ) -> None:
        totals = {
            run(quick(cls), all_marginals(1).on(PRIVATE.domain), unit, seed=s, epsilon=0.5)[1].total
            for s in range(2)
        }
        if unit.n_is_public:
            assert totals == {float(PRIVATE.n)}
        else:
            assert float(PRIVATE.n) not in totals

    def test_the_same_seed_gives_the_same_model(self, name: str, cls: type, unit: Unit) -> None:
        workload = all_marginals(2).on(PRIVATE.domain)
        first, again = (
            run(quick(cls), workload, unit, seed=5)[1].answers(workload.marginals) for _ in range(2)
        )
        for marginal in workload.marginals:
            np.testing.assert_allclose(again[marginal], first[marginal], rtol=1e-9, atol=1e-9)

    def test_odd_workloads_and_a_budget_that_buys_nothing(self, name: str, cls: type, unit: Unit) -> None:
        for marginals in ([("a",)], [("a", "b", "c", "d")], [("a", "b"), ("c",)]):
            curator, model = run(
                quick(cls), Workload(marginals).on(PRIVATE.domain), unit, seed=7, epsilon=1e-4
            )
            assert sum(e.rho for e in curator.events) <= curator.rho * (1 + 1e-12)
            assert np.isfinite(model.answers([("a", "d")])[("a", "d")]).all()


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_constant_and_unseen_values_do_no_harm(name: str, cls: type) -> None:
    domain = Domain({"constant": 3, "one": 1, "x": 4})
    rng = np.random.default_rng(0)
    public = Table(
        domain, (np.zeros(50, np.uint8), np.zeros(50, np.uint8), rng.integers(0, 2, 50).astype(np.uint8))
    )
    private = Table(
        domain, (np.ones(70, np.uint8), np.zeros(70, np.uint8), rng.integers(2, 4, 70).astype(np.uint8))
    )
    curator = FakeCurator(private, noise=SeededNoise(1))
    model = quick(cls).run(curator, public, all_marginals(2).on(domain), np.random.default_rng(1), quiet)
    assert np.isfinite(model.answers([("constant", "x")])[("constant", "x")]).all()


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_one_distinct_public_row_is_a_prior_too(name: str, cls: type) -> None:
    public = PUBLIC.take(np.zeros(20, np.intp))
    curator = FakeCurator(PRIVATE, noise=SeededNoise(1))
    model = quick(cls).run(
        curator, public, all_marginals(2).on(PRIVATE.domain), np.random.default_rng(1), quiet
    )
    assert np.isfinite(model.answers([("a", "d")])[("a", "d")]).all()


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_options_are_documented_frozen_keyword_only_and_checked(name: str, cls: type) -> None:
    assert issubclass(cls, Mechanism)
    assert cls.name == name
    assert cls.good_for
    assert cls.public_table in PublicTable
    assert cls.__doc__
    for field in dataclasses.fields(cls):
        assert field.kw_only
        assert field.metadata["doc"]
        assert field.default is not dataclasses.MISSING
        if "rounds" in field.name:
            with pytest.raises(OptionError, match="at least 1"):
                cls(**{field.name: 0})
        if field.type == "str" or field.type is str:
            with pytest.raises(OptionError, match="must be one of"):
                cls(**{field.name: "nonsense"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        cls().anything = 1


@pytest.mark.parametrize(
    ("name", "cls"), [m for m in MECHANISMS if m[1].public_table is not PublicTable.NEEDED]
)
def test_without_a_public_table_it_works_if_it_needs_none(name: str, cls: type) -> None:
    curator = FakeCurator(PRIVATE, noise=SeededNoise(1))
    model = quick(cls).run(
        curator, None, all_marginals(2).on(PRIVATE.domain), np.random.default_rng(1), quiet
    )
    assert model.answers([("a",)])[("a",)].sum() == pytest.approx(PRIVATE.n)


@pytest.mark.parametrize(("name", "cls"), [m for m in MECHANISMS if m[1].public_table is PublicTable.NEEDED])
def test_without_a_public_table_it_says_so(name: str, cls: type) -> None:
    with pytest.raises(OptionError, match="needs a public table"):
        cls().run(
            FakeCurator(PRIVATE), None, all_marginals(1).on(PRIVATE.domain), np.random.default_rng(0), quiet
        )


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_it_is_pure_with_the_options_that_it_names(name: str, cls: type) -> None:
    assert not cls().is_pure or cls.pure_options == {}
    if cls.pure_options is not None:
        assert cls(**cls.pure_options).is_pure


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_it_knows_what_it_takes(name: str, cls: type) -> None:
    workload = all_marginals(2).on(PRIVATE.domain)
    for rows, public_rows in ((800, 300), (10**6, 10**6), (10**6, 0)):
        outlay = cls().outlay(Sizes(Layout(PRIVATE.domain), workload, rows, public_rows, 1.0))
        assert 0 < outlay.seconds < 1e6
        assert 0 <= outlay.megabytes < 1e6


@pytest.mark.parametrize(("name", "cls"), MECHANISMS)
def test_its_options_are_plain_json(name: str, cls: type) -> None:
    assert set(json.loads(json.dumps(cls().options))) == {f.name for f in dataclasses.fields(cls)}
