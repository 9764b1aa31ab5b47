"""IDE as a mechanism: queries are met, unseen values reached, pure ε-DP end to end, options from the command line."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import openprior as op
from openprior.command_line import arguments
from openprior.errors import OptionError, PrivacyError, WorkloadError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import QueryAnswers, Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.queries import Queries
from openprior.questions.workload import Workload
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import arrow, quiet, random_table
from tests.formulas import pure_rho_by_hand

SIZES = {"age": 6, "sex": 2, "work": 4}
PRIVATE = random_table(SIZES, 900, 1)
PUBLIC = random_table(SIZES, 500, 2, skew=1.5)
DOMAIN = Domain(SIZES)
WORK = Workload([("age", "sex"), ("sex", "work")]).on(DOMAIN)


def run(mechanism: op.Ide, public: Table = PUBLIC, **options: object) -> tuple[FakeCurator, object]:
    curator = FakeCurator(PRIVATE, **options)
    return curator, mechanism.run(curator, public, WORK, np.random.default_rng(0), quiet)


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
    assert [e.statistic.overlap for e in curator.events if isinstance(e.statistic, QueryAnswers)] == [
        5,
        2,
        1,
        1,
    ]


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
    assert [e.statistic.words for e in curator.events] == ["where(sex=1)"]
    with pytest.raises(OptionError, match="give queries"):
        op.Ide(choose="none")


def test_published_updates_are_two_a_marginal() -> None:
    curator, _ = run(op.Ide(choose="workload", updates=2))
    assert "after 4 updates" in curator._Curator__purse.account.remarks[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_published_is_the_papers_prior_update(delta: float) -> None:
    """Laplace(Δ/ε₀) for the total and Laplace(‖W‖₁Δ/ε₀) for a workload of marginals, ε₀ half of ε where δ = 0."""
    unit = Unit(Relation.ADD_REMOVE, 3)
    curator = FakeCurator(PRIVATE, epsilon=2.0, delta=delta, unit=unit)
    model = op.Ide.published().run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
    total, *marginals = curator.events
    assert total.statistic == Total() and model.total == PRIVATE.n
    scales = [e.scale for e in marginals]  # type: ignore[attr-defined]
    if delta == 0:
        assert total.scale == pytest.approx(3 / 1.0)  # type: ignore[attr-defined]
        assert scales == pytest.approx([len(marginals) * 3 / 1.0] * len(marginals))
    else:  # half of ρ, and again evenly
        assert total.rho == pytest.approx(curator.rho / 2)
        assert [e.rho for e in marginals] == pytest.approx(
            [curator.rho / 2 / len(marginals)] * len(marginals)
        )
    assert f"after {2 * len(marginals)} updates" in remarks(curator)[0]
    assert (model.rows.n, op.Ide.published().is_pure) == (PUBLIC.unique()[0].n, True)
    assert op.Ide.published(["where(sex=1)"]).queries == ("where(sex=1)",)
    public_n = FakeCurator(PRIVATE, epsilon=2.0, delta=0.0)
    op.Ide.published().run(public_n, PUBLIC, WORK, np.random.default_rng(0), quiet)
    assert all(e.statistic != Total() for e in public_n.events)


def test_the_number_of_rows_is_measured_where_it_is_private() -> None:
    curator, model = run(op.Ide(), unit=Unit(Relation.ADD_REMOVE))
    assert curator.events[0].statistic == Total()
    assert model.total == PRIVATE.n


def test_pure_privacy_from_end_to_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_budget("survey", epsilon=2.0, delta=0.0)
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
    assert sum(e.cost(certificate.unit, pure=True) for e in certificate.events) == pytest.approx(1.5)
    assert all(e.kind == "laplace" for e in certificate.events)
    assert float(ledger.datasets()[0].committed) == pytest.approx(pure_rho_by_hand(1.5), rel=1e-6)


@pytest.mark.parametrize("mechanism", [op.Tilt(), op.Ide(), op.Hierarchy(), op.Mst()], ids=lambda m: m.name)
def test_what_is_not_pure_is_refused_before_anything_is_reserved(mechanism: object) -> None:
    ledger = Ledger()
    with pytest.raises(OptionError, match="pure"):
        op.release(arrow(PRIVATE), arrow(PUBLIC), epsilon=1.0, delta=0.0, mechanism=mechanism, ledger=ledger)
    assert ledger.datasets() == []


def test_options_on_the_command_line() -> None:
    made = arguments.mechanism("ide", ["queries=prefixes(age); where(age=0-4, sex=1)", "noise=laplace"])
    assert made.queries == ("prefixes(age)", "where(age=0-4, sex=1)")
    grouped = arguments.mechanism("hierarchy", ["levels=STATE;PUMA,YEAR", "split=1,4", "update=ide"])
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


@pytest.mark.parametrize("unit", [Unit(relation, rows) for relation in Relation for rows in (1, 3)], ids=str)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_shares_are_even_and_add_up_to_the_budget(noise: str, unit: Unit) -> None:
    mechanism = op.Ide(choose="workload", queries=("prefixes(age)", "where(sex=1)"), noise=noise)
    curator, _ = run(mechanism, unit=unit, noise=SeededNoise(1))
    costs = [Fraction(e.rho) for e in curator.events]  # type: ignore[arg-type]
    assert sum(costs, Fraction(0)) <= Fraction(curator.rho)
    assert float(sum(costs, Fraction(0))) == pytest.approx(curator.rho)
    *total, first, second, third, fourth = [float(c) for c in costs]
    assert [second, third, fourth] == pytest.approx([first] * 3)
    assert total == ([] if unit.n_is_public else pytest.approx([0.1 * curator.rho]))
    assert all(e.kind == noise for e in curator.events)


def remarks(curator: FakeCurator) -> list[str]:
    return curator._Curator__purse.account.remarks  # type: ignore[attr-defined, no-any-return]


def test_the_certificate_is_told_how_it_ended() -> None:
    curator, _ = run(op.Ide(choose="workload", support="domain"))
    (said,) = remarks(curator)
    assert said.startswith("IDE converged after")
    assert "nats" in said
    # The same question twice has two noisy answers.
    twice = op.Ide(choose="none", queries=("where(sex=1)", "ranges(sex, 1)"))
    curator, _ = run(twice, noise=SeededNoise(3), epsilon=0.2)
    assert "contradict" in remarks(curator)[0]
    curator, _ = run(op.Ide(choose="workload", updates=1), noise=SeededNoise(3))
    assert "stopped at its limit after 2 updates" in remarks(curator)[0]
    # What the public table lacks is infinitely far from it.
    few = PUBLIC.take(np.flatnonzero(PUBLIC.column("age") < 3))
    curator, _ = run(op.Ide(choose="none", queries=("marginal(age)",)), few)
    assert "beyond the public support" in remarks(curator)[0]


def test_what_the_public_table_decides_alone_is_said() -> None:
    """However large ε is: columns that were not counted together, and rows that the public table has no like of."""
    pairs = Workload([("age", "sex"), ("age", "work"), ("sex", "work")]).on(DOMAIN)
    few = PUBLIC.take(np.flatnonzero(PUBLIC.column("age") < 3))
    curator = FakeCurator(PRIVATE, epsilon=1000)
    mechanism = op.Ide(
        choose="none", queries=("marginal(age, sex)", "where(sex=1, work=2)"), support="public"
    )
    mechanism.run(curator, few, pairs, np.random.default_rng(0), quiet)
    assert remarks(curator)[1:] == [
        "Not counted together, so related as in the public table, whatever ε is: age × work, sex × work."
    ]
    curator = FakeCurator(PRIVATE, epsilon=1000)
    op.Ide(choose="workload", support="public").run(curator, few, pairs, np.random.default_rng(0), quiet)
    beyond = int((PRIVATE.column("age") >= 3).sum())
    _, lacks = remarks(curator)
    assert f"some of the 900 private rows: about {beyond} by age × work, about {beyond} by age × sex" in lacks
    # On the whole domain they are reached, and nothing is lacking; nor is noise taken for rows.
    curator = FakeCurator(PRIVATE, epsilon=1000)
    op.Ide(choose="workload", support="domain").run(curator, few, pairs, np.random.default_rng(0), quiet)
    assert len(remarks(curator)) == 1
    same = FakeCurator(few, epsilon=0.3, noise=SeededNoise(1))
    op.Ide(choose="workload", support="public").run(same, few, pairs, np.random.default_rng(0), quiet)
    assert len(remarks(same)) == 1
    curator = FakeCurator(PRIVATE, epsilon=1000)
    scarce = PUBLIC.take(np.arange(40))
    op.Ide(choose="workload", support="public").run(curator, scarce, pairs, np.random.default_rng(0), quiet)
    assert "as no weights on the public rows have all the noisy answers" in remarks(curator)[0]


def test_updates_are_counted_by_partial_workloads_of_disjoint_queries() -> None:
    """Five prefixes overlap, so each is a partial workload of its own; two ranges that do not are one together."""
    curator, _ = run(op.Ide(choose="none", queries=("prefixes(age)", "ranges(age, 0-1, 4-5)"), updates=2))
    assert "after 12 updates" in remarks(curator)[0]


def test_a_domain_too_large_to_list_costs_nothing() -> None:
    large = {"a": 5000, "b": 5000, "c": 2}
    private, public = random_table(large, 50, 1), random_table(large, 40, 2)
    curator = FakeCurator(private)
    work = Workload([("c",)]).on(private.domain)
    with pytest.raises(OptionError, match="support = public"):
        op.Ide(choose="workload", support="domain").run(
            curator, public, work, np.random.default_rng(0), quiet
        )
    assert curator.events == ()
    model = op.Ide(choose="workload").run(curator, public, work, np.random.default_rng(0), quiet)
    truth = np.bincount(private.column("c"), minlength=2)
    np.testing.assert_allclose(model.answers([("c",)])[("c",)], truth, atol=1e-6)


def test_noise_that_is_not_pure_is_refused_by_the_curator_too() -> None:
    """Whoever goes past `release` is stopped by the curator, before a charge."""
    from openprior.privacy.account import Account
    from openprior.privacy.curator import Curator
    from openprior.privacy.vault import Vault
    from openprior.tables.encode import Encoder
    from openprior.tables.source import open_source

    ledger = Ledger()
    run = ledger.open_run("d", rho=0.4, epsilon=1.0, delta=0.0, details={})
    curator = Curator(
        Vault(Encoder(op.Schema.from_sizes(SIZES), open_source(arrow(PRIVATE)), private=True)),
        unit=Unit(),
        noise=SeededNoise(1),
        account=Account(ledger, run, rho=0.4, epsilon=1.0, delta=0.0),
    )
    with pytest.raises(PrivacyError, match="pure"):
        op.Ide().run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
    assert ledger.spent(run) == 0


@pytest.mark.parametrize("relation", list(Relation))
def test_two_pure_releases_share_a_budget_in_rho(relation: Relation, tmp_path: Path) -> None:
    """ε·tanh(ε/2) each: with room for one and a half, the second is refused and nothing of it is charged."""
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_budget("survey", rho=0.75, epsilon=9.0, delta=1e-9)

    def again() -> op.Release:
        return op.release(
            arrow(PRIVATE),
            arrow(PUBLIC),
            schema=op.Schema.from_sizes(SIZES),
            workload=WORK,
            epsilon=1.0,
            delta=0,
            relation=relation,
            mechanism=op.Ide(noise="laplace"),
            ledger=ledger,
            dataset="survey",
        )

    made, cost = again(), pure_rho_by_hand(1.0)
    made.certificate.recheck()
    assert made.certificate.rho_spent == pytest.approx(cost, rel=1e-6)
    assert float(ledger.datasets()[0].committed) == pytest.approx(cost, rel=1e-6)
    with pytest.raises(PrivacyError):
        again()
    assert float(ledger.datasets()[0].committed) == pytest.approx(cost, rel=1e-6)
    assert (made.synthetic.num_rows == PRIVATE.n) or relation is Relation.ADD_REMOVE


def test_more_budget_gives_less_error() -> None:
    truth = {m: np.bincount(_cells(PRIVATE, m), minlength=DOMAIN.size(m)) for m in WORK.marginals}

    def error(epsilon: float) -> float:
        found = []
        for seed in range(4):
            curator = FakeCurator(PRIVATE, epsilon=epsilon, noise=SeededNoise(seed))
            model = op.Ide(choose="expected").run(curator, PUBLIC, WORK, np.random.default_rng(seed), quiet)
            found.append(sum(np.abs(v - truth[m]).sum() for m, v in model.answers(WORK.marginals).items()))
        return math.fsum(found) / len(found)

    assert error(20.0) < 0.5 * error(2.0) < 0.5 * error(0.1)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("ide", ["choose=all"], "must be one of"),
        ("ide", ["noise=uniform"], "must be one of"),
        ("ide", ["support=everything"], "must be one of"),
        ("ide", ["updates=0"], "at least 1"),
        ("ide", ["order=random"], "must be one of shuffled, drawn"),
        ("ide", ["total=1"], "between 0 and 1"),
        ("ide", ["updates=two"], "a whole number"),
        ("ide", ["queries"], "no value"),
        ("ide", ["levels=a;b"], "unknown"),
        ("hierarchy", ["split=1,0"], "positive"),
        ("hierarchy", ["own=maybe"], "true or false"),
    ],
    ids=str,
)
def test_wrong_options_on_the_command_line_are_explained(name: str, options: list[str], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        arguments.mechanism(name, options)


def test_no_option_is_what_the_command_line_leaves_out() -> None:
    assert arguments.mechanism("ide", ["updates=none"]) == op.Ide()
    assert arguments.mechanism("hierarchy", []) == op.Hierarchy()
    assert arguments.mechanism("hierarchy", ["levels= STATE ; PUMA , YEAR"]).levels == (
        ("STATE",),
        ("PUMA", "YEAR"),
    )
