"""IDE as a mechanism: queries are met, unseen values reached, pure ε-DP end to end, options from the command line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior import arguments
from openprior.data.domain import Domain
from openprior.data.encode import Table
from openprior.errors import OptionError, WorkloadError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.ledger import Ledger
from openprior.privacy.units import Relation, Unit
from openprior.queries import Queries
from openprior.workload import Workload
from tests.conftest import random_table

SIZES = {"age": 6, "sex": 2, "work": 4}
PRIVATE = random_table(SIZES, 900, 1)
PUBLIC = random_table(SIZES, 500, 2, skew=1.5)
DOMAIN = Domain(SIZES)
WORK = Workload([("age", "sex"), ("sex", "work")]).on(DOMAIN)


def quiet(done: int, of: int, what: str) -> None:
    assert 0 <= done <= of


def run(mechanism: op.Ide, public: Table = PUBLIC, **options: object) -> tuple[FakeCurator, object]:
    curator = FakeCurator(PRIVATE, **options)
    return curator, mechanism.run(curator, public, WORK, np.random.default_rng(0), quiet)


def arrow(table: Table) -> pa.Table:
    return pa.table({a: table.column(a) for a in table.domain})


@pytest.mark.parametrize("support", ["public", "domain"])
def test_marginals_and_queries_are_met_without_noise(support: str) -> None:
    texts = ("prefixes(age)", "ranges(age, 0-1, 2-3, 1-4)", "where(age=2-4, work=0|3)", "marginal(work)")
    curator, model = run(op.Ide(choose="workload", queries=texts, support=support))
    for marginal in WORK.marginals:
        truth = np.bincount(_cells(PRIVATE, marginal), minlength=DOMAIN.size(marginal))
        np.testing.assert_allclose(model.answers([marginal])[marginal], truth, atol=0.01)
    for text in texts:
        q = Queries.parse(text, DOMAIN)
        truth = q.answer(np.bincount(_cells(PRIVATE, q.marginal), minlength=DOMAIN.size(q.marginal)))
        estimate = model.answers([q.marginal])[q.marginal]
        np.testing.assert_allclose([estimate[m].sum() for m in q.members], truth, atol=0.01)
    assert [e["overlap"] for e in curator.events if "queries" in e] == [5, 2, 1, 1]


def _cells(table: Table, marginal: tuple[str, ...]) -> np.ndarray:
    return np.ravel_multi_index(
        [table.column(a).astype(np.int64) for a in marginal], [table.domain[a] for a in marginal]
    )


def test_values_that_the_public_table_lacks_are_reached_on_the_whole_domain() -> None:
    few = PUBLIC.take(np.flatnonzero(PUBLIC.column("age") < 3))
    truth = np.bincount(PRIVATE.column("age"), minlength=6)
    for support, reached in (("domain", True), ("auto", True), ("public", False)):
        _, model = run(op.Ide(choose="none", queries=("marginal(age)",), support=support), few)
        met = np.allclose(model.answers([("age",)])[("age",)], truth, atol=0.01)
        assert met == reached


def test_only_queries_are_measured_if_that_is_asked() -> None:
    curator, _ = run(op.Ide(choose="none", queries=("where(sex=1)",)))
    assert [e.get("queries") for e in curator.events] == ["where(sex=1)"]
    with pytest.raises(OptionError, match="give queries"):
        op.Ide(choose="none")


def test_published_updates_are_two_a_marginal() -> None:
    curator, _ = run(op.Ide(choose="workload", updates=2))
    assert "after 4 updates" in curator._Curator__purse.account.remarks[0]  # type: ignore[attr-defined]


def test_the_number_of_rows_is_measured_where_it_is_private() -> None:
    curator, model = run(op.Ide(), unit=Unit(Relation.ADD_REMOVE))
    assert curator.events[0]["marginal"] == []
    assert model.total == PRIVATE.n


def test_pure_privacy_from_end_to_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_budget("survey", rho=2.0, epsilon=2.0, delta=0.0)
    schema = op.Schema.from_sizes(SIZES)
    made = op.release(
        arrow(PRIVATE),
        arrow(PUBLIC),
        schema=schema,
        workload=WORK,
        epsilon=1.5,
        delta=0.0,
        mechanism=op.Ide(noise="laplace", queries=("prefixes(age)",)),
        ledger=ledger,
        dataset="survey",
        out=tmp_path / "release",
    )
    certificate = op.open_release(tmp_path / "release").certificate
    certificate.recheck()
    assert certificate.is_pure
    assert "δ = 0 (pure)" in made.certificate.statement
    assert certificate.epsilon_spent == pytest.approx(1.5)
    assert sum(float(e["epsilon"]) for e in certificate.events) == pytest.approx(1.5)
    assert all(e["kind"] == "laplace" for e in certificate.events)
    assert float(ledger.datasets()[0].committed) == pytest.approx(1.5**2 / 2, rel=1e-6)


@pytest.mark.parametrize("mechanism", [op.Tilt(), op.Ide(), op.Hierarchy(), op.Mst()], ids=lambda m: m.name)
def test_what_is_not_pure_is_refused_before_anything_is_reserved(mechanism: object) -> None:
    ledger = Ledger()
    with pytest.raises(OptionError, match="pure"):
        op.release(arrow(PRIVATE), arrow(PUBLIC), epsilon=1.0, delta=0.0, mechanism=mechanism, ledger=ledger)
    assert ledger.datasets() == []


def test_options_on_the_command_line() -> None:
    made = arguments.mechanism("ide", ["queries=prefixes(age); where(age=0-4, sex=1)", "noise=laplace"])
    assert made.queries == ("prefixes(age)", "where(age=0-4, sex=1)")
    grouped = arguments.mechanism("hierarchy", ["levels=STATE;PUMA,YEAR", "split=1,4", "updater=ide"])
    assert grouped.levels == (("STATE",), ("PUMA", "YEAR"))
    assert grouped.split == (1.0, 4.0)
    with pytest.raises(OptionError, match="numbers"):
        arguments.mechanism("hierarchy", ["split=1,x"])


@pytest.mark.parametrize(
    "text", ["prefixes(height)", "ranges(age, 0-9)", "where(age)", "age", "where(age=1, age=2)"]
)
def test_unclear_queries_cost_nothing(text: str) -> None:
    curator = FakeCurator(PRIVATE)
    with pytest.raises(WorkloadError):
        op.Ide(queries=(text,)).run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
    assert curator.events == ()
