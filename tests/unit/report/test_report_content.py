"""What the report says, without a browser: right numbers, everything escaped, NOT PRIVATE where due and only there."""

import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.evaluation.metrics import evaluate
from openprior.privacy.events import Candidates, Event, Exponential, event_from_dict
from openprior.privacy.unit import Unit
from openprior.releases.certificate import Certificate
from openprior.releases.result import Release
from openprior.releases.view import view_of
from openprior.report import render
from openprior.report.budget import budget_of
from openprior.report.facts import gather
from openprior.report.origin import cover, sources_of
from openprior.report.pictures import Answer, picture_of
from openprior.report.promise import promise_of
from openprior.report.steps import steps_of, whole
from openprior.schema.base import Schema
from openprior.schema.columns import Categorical

HOSTILE = ("</script><img src=x onerror=boom()>", "\"'&<b>", "a" * 300, "🦊 e\u0301", "{{ c }}")


def table(n: int, seed: int, shift: float = 0.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.choice(HOSTILE, n, p=[0.4 - shift, 0.3, 0.1 + shift, 0.1, 0.1])
    return pa.table({"<i>a</i>": a.tolist(), "b": rng.integers(0, 30, n), "c": rng.integers(0, 2, n)})


SCHEMA = Schema(
    (
        Categorical(name="<i>a</i>", values=HOSTILE),
        *Schema.from_sizes({"b": 30, "c": 2}).columns,
    )
)
PUBLIC, PRIVATE = table(300, 1), table(300, 2, 0.2)


def make(mechanism: Any, *, public: Any = PUBLIC, **options: Any) -> Release:
    given = {"epsilon": 2.0, "delta": 1e-9, "workload": op.all_marginals(2), "schema": SCHEMA, **options}
    return op.release(PRIVATE, public, mechanism=mechanism, dataset="<u>people</u>", **given)


@pytest.fixture(scope="module")
def made() -> Release:
    return make(op.Mst())


@pytest.fixture(scope="module")
def page(made: Release) -> str:
    return render(made)


def events(*said: dict[str, Any]) -> tuple[Event, ...]:
    common = {"event": "gaussian", "statistic": "marginal", "sigma": 10.0, "rho": 0.01}
    return tuple(event_from_dict({**common, **s}) for s in said)


def with_certificate(made: Release, certificate: Certificate) -> Any:
    names = (
        "row_count",
        "counts",
        "synthetic",
        "model",
        "schema",
        "workload",
        "measurements",
        "public",
        "error_bars",
        "answers",
    )
    return SimpleNamespace(certificate=certificate, **{name: getattr(made, name) for name in names})


# Safe to open, safe to publish.


def test_labels_names_and_the_dataset_are_text(page: str) -> None:
    assert "<img" not in page and "<u>" not in page and "<i>a" not in page
    assert page.count("</script>") == page.count("<script>") == 1
    assert "&lt;/script&gt;&lt;img src=x onerror=boom()&gt;" in page
    assert "{{ c }}" in page, "a label that looks like a template is a label"


def test_the_page_names_no_host_and_loads_nothing(page: str) -> None:
    assert not re.search(r"https?:|//\w+\.|@import|url\(|<link|<iframe|<object|\bsrc=\"", page)
    assert set(re.findall(r'href="([^"]*)"', page)) == {
        f"#{id}"
        for id in (
            "main",
            "promise",
            "budget",
            "origin",
            "scope",
            "columns",
            "grades",
            "answers",
            "limits",
            "check",
        )
    }


def test_the_page_says_which_answers_lie_beside_it(made: Release, tmp_path: Path) -> None:
    for answers, said in (
        ("workload", "The file of answers has all"),
        ("measured", "The file of answers has only what was measured. The model of the release answers all"),
        ("none", "There is no file of answers. The model of the release answers all"),
    ):
        made.save(tmp_path / answers, answers=answers)
        assert said in (tmp_path / answers / "report.html").read_text(), answers
    assert "file of answers" not in render(made), "a page that lies elsewhere cannot tell"


def test_not_private_is_said_where_due_and_only_there(made: Release, page: str) -> None:
    assert "NOT PRIVATE" not in page and 'role="alert"' not in page
    found = evaluate(made, PRIVATE)
    truth = view_of(PRIVATE, made.codes, made.schema, private=True)
    quality = SimpleNamespace(summary=lambda: [("<b>", 0.5, "why")])
    for given in ({"evaluation": found}, {"truth": truth}, {"quality": quality}):
        assert 'role="alert"><p>NOT PRIVATE' in render(made, **given)
    seeded = render(make(op.PublicProxy(), seed=1))
    assert "NOT PRIVATE (seeded noise)" in seeded and "nothing is promised" in seeded
    estimate = SimpleNamespace(
        workload_error=0.1,
        low=0.05,
        high=0.15,
        max_error=0.01,
        epsilon=0.1,
        delta=0.0,
        statement="<b>said</b>",
        together="both",
        is_private=True,
    )
    told = render(made, estimate=estimate)
    estimate.is_private = False
    assert "NOT PRIVATE" in render(made, estimate=estimate)
    assert "NOT PRIVATE" not in told and "itself released privately" in told and "&lt;b&gt;said" in told


def test_private_figures_are_in_an_evaluation_only(made: Release, page: str) -> None:
    truth = view_of(PRIVATE, made.codes, made.schema, private=True)
    evaluated = render(made, truth=truth)
    assert 'class="priv"' in evaluated and 'class="priv"' not in page
    assert "private-pairs" in evaluated and "private-pairs" not in page
    assert all(v.private is None for p in gather(made, None, None, None, None).pictures for v in p.values)
    shown = gather(made, None, truth, None, None).pictures
    np.testing.assert_allclose([v.private for v in shown[0].values], truth.shares["<i>a</i>"])


# The promise.


def promise(epsilon: float, delta: float, rho: float) -> Any:
    said = SimpleNamespace(epsilon=epsilon, delta=delta, rho=rho, is_pure=delta == 0)
    return promise_of(said)  # type: ignore[arg-type]


def test_the_bound_on_a_bet_is_right() -> None:
    pure = promise(1.0, 0.0, 0.5)
    assert pure.guess == pytest.approx(math.e / (1 + math.e)) and pure.beyond == 0
    assert dict(pure.bets)[0.1] == pytest.approx(math.e / 9 / (1 + math.e / 9))
    with_slack = promise(1.0, 0.1, 0.2)
    assert with_slack.guess == pytest.approx((math.e + 0.1) / (1 + math.e))
    assert with_slack.beyond == pytest.approx(math.exp(-(0.8**2) / 0.8))
    assert promise(0.0, 0.0, 0.0).guess == 0.5 and promise(5000.0, 0.0, 1.0).guess == 1.0


def test_gaussian_noise_keeps_to_the_bound_on_exceptions() -> None:
    """The privacy loss of Gaussian noise is normal with mean ρ and variance 2ρ."""
    for epsilon, rho in ((1.0, 0.015), (0.5, 0.05), (3.0, 0.4)):
        passes = 0.5 * math.erfc((epsilon - rho) / math.sqrt(2 * rho) / math.sqrt(2))
        assert passes <= promise(epsilon, 1e-9, rho).beyond


# The budget.


@pytest.mark.parametrize("mechanism", [op.Mst(), op.PmwPub(), op.Ide(noise="laplace")])
def test_the_steps_add_up_to_what_was_spent(mechanism: Any) -> None:
    pure = mechanism.name == "ide"
    release = make(mechanism, delta=0 if pure else 1e-9)
    c = release.certificate
    budget = budget_of(c, steps_of(c, release.schema))
    assert budget.unit == ("ε" if pure else "ρ")
    assert budget.spent == pytest.approx(c.epsilon_spent if pure else c.rho_spent)
    assert sum(g.cost for g in budget.groups) == pytest.approx(budget.spent)
    assert sum(g.steps for g in budget.groups) == budget.steps == len(c.events)
    last = budget.segments[-1]
    assert last.start + last.width == pytest.approx(budget.spent / budget.limit)
    assert budget.left == pytest.approx(1 - budget.spent / budget.limit, abs=1e-12)


def test_thousands_of_steps_stay_readable(made: Release) -> None:
    many = tuple(
        Exponential(candidates=Candidates(9, "cells"), epsilon=0.01, rho=1e-6)
        if i % 2
        else events({"marginal": ["b"], "rho": 1e-6})[0]
        for i in range(4000)
    )
    c = dataclasses.replace(made.certificate, events=many, rho=0.004)
    budget = budget_of(c, steps_of(c, made.schema))
    assert len(budget.segments) <= 240 and len(budget.listed) == 400
    assert sum(s.width for s in budget.segments) == pytest.approx(1.0)
    small = with_certificate(made, c)
    assert len(render(small)) < 500_000


# Public or private.

FIVE = Schema.from_sizes(dict.fromkeys("abcde", 3))


def steps(*said: dict[str, Any], schema: Schema = FIVE) -> Any:
    c = SimpleNamespace(is_pure=False, epsilon=1.0, rho=1.0, unit=Unit(), events=events(*said))
    return steps_of(c, schema)  # type: ignore[arg-type]


def test_the_workload_is_sorted_by_what_it_rests_on() -> None:
    done = steps(
        {"marginal": ["a", "b"]},
        {"marginal": ["c"], "sigma": 4.0},
        {"statistic": "cell", "marginal": ["a", "d"], "cell": 2},
    )
    work = [("a",), ("b",), ("a", "b"), ("a", "c"), ("b", "d"), ("a", "d"), ("c", "e")]
    found = cover(work, done, FIVE)
    assert (found.measured, found.composed, found.partly, found.assumed) == (3, 1, 2, 1)
    assert found.never == ("e",) and found.total == 7
    assert [s.width for s in found.segments] == pytest.approx([3 / 7, 1 / 7, 2 / 7, 1 / 7])
    sources = {s.name: s for s in sources_of(done, FIVE, None, 200.0)}
    assert [sources[a].measurements for a in "abcde"] == [2, 1, 1, 1, 0]
    assert sources["c"].noise == pytest.approx(0.02) and sources["e"].noise is None


def test_queries_that_tell_all_cells_count_as_all_cells() -> None:
    done = steps(
        {"statistic": "queries", "marginal": ["a"], "queries": "prefixes(a)", "overlap": 2},
        {"statistic": "queries", "marginal": ["b"], "queries": "ranges(b, 0-1)", "overlap": 1},
    )
    assert whole(done) == {frozenset("a")}
    weights = [[0, 40], [1, 50, 7]]
    (sums,) = steps(
        {"statistic": "weighted sums", "marginal": ["a"], "queries": "prefixes(a)", "weights": weights}
    )
    assert whole([sums]) == {frozenset("a")}
    assert (sums.group, sums.what, sums.sigma) == ("sums", "weighted sums for prefixes(a)", None)
    assert sums.noise.endswith("weighted rows")  # such noise is no number of rows


def test_parts_count_once_all_of_them_are_there() -> None:
    part = [
        {"marginal": ["b"], "charged": 0.0, "part": {"keys": ["a"], "number": 1, "codes": [k]}}
        for k in range(3)
    ]
    assert whole(steps(*part[:2])) == set()
    assert whole(steps(*part)) == {frozenset("ab")}
    assert "where a = 1" in steps(*part)[1].what


def test_distances_are_those_of_the_rows(made: Release) -> None:
    facts = gather(made, None, None, None, None)
    shares = [np.bincount(t["c"].to_numpy(), minlength=2) / t.num_rows for t in (PUBLIC, made.synthetic)]
    assert facts.sources[2].moved == pytest.approx(np.abs(shares[0] - shares[1]).sum())
    assert f"{facts.sources[2].moved:.4f}" in render(made)
    pairs = facts.pairs(facts.public)  # type: ignore[arg-type]
    assert len(pairs) == 3 and pairs[0][1] == max(d for _, d in pairs)


def test_tables_that_were_counted_together_are_told_one_by_one() -> None:
    release = make(op.Hdmm(), public=None)
    facts, page = gather(release, None, None, None, None), render(release)
    assert facts.is_linear and facts.coverage.measured == 3 and not facts.learnt_by
    (event,) = release.certificate.events
    assert sum(len(columns) > 0 for columns, _ in steps_of(release.certificate, SCHEMA)[0].counted) == len(
        [part for part in event.statistic.parts if part.marginal]
    )
    errors = release.answers(["b", "c"])["standard_error"].to_numpy()
    two = next(b for b in facts.blurs if b.columns == 2)
    assert 0 < two.sigma <= errors.min() * 1.0001
    assert ("b", "c") in {t.columns for t in facts.answers}, "pairs that were counted are shown"
    assert "<b>below 0</b>" in page and "The only step" in page and "in 1 step." in page
    assert "No table was counted" not in page and "evens out noise" not in page


@pytest.mark.parametrize(
    ("mechanism", "learnt", "done"),
    [
        (op.ImportanceWeights(), "the regression", "Learning what tells private rows from public ones"),
        (op.DualQuery(samples=5), "the questions that were drawn", "Drawing questions"),
    ],
)
def test_a_release_without_counts_says_what_it_rests_on(mechanism: Any, learnt: str, done: str) -> None:
    page = render(make(mechanism, error_bars=0))
    assert f"it knows by <b>{learnt}</b>" in page and done in page
    assert "Measuring an error" not in page and "private counts moved" not in page.lower()
    assert "News about columns" not in page and "say nothing at all" not in page
    assert "say nothing at all" in render(make(op.PublicProxy()))


def test_without_a_public_table_it_says_so() -> None:
    page = render(make(op.Mst(), public=None))
    assert "There was no public table" in page and "public-pairs" not in page and 'class="pub"' not in page


# Columns and answers.


def picture(size: int, *, ordered: bool) -> Any:
    column = (
        Schema.from_sizes({"x": size})["x"]
        if ordered
        else Categorical(name="x", values=tuple(f"v{i}" for i in range(size)))
    )
    shares = np.arange(1, size + 1) / (size * (size + 1) / 2)
    answers = [Answer(str(i), 10.0 * s, 0.0, 1.0) for i, s in enumerate(shares)]
    return picture_of(column, shares, shares[::-1], None, answers, 10.0)


def test_many_values_are_the_most_frequent_and_the_others() -> None:
    found = picture(60, ordered=False)
    assert len(found.values) == 24 and not found.outline
    assert [v.label for v in found.values[:2]] == ["v37", "v38"] and found.values[-1].label == "37 others"
    for shares in ([v.released for v in found.values], [v.public for v in found.values]):
        assert sum(shares) == pytest.approx(1.0)
    assert found.values[-1].low is None, "the sum of intervals is no interval"
    assert found.values[0].high == pytest.approx(0.1)


def test_many_ordered_values_are_an_outline() -> None:
    assert not picture(24, ordered=True).outline and picture(25, ordered=True).outline
    found = picture(250, ordered=True)
    assert len(found.values) <= 100 and found.values[0].label == "0 to 2" and found.ends == ("0", "249")
    assert sum(v.released for v in found.values) == pytest.approx(1.0)


def test_intervals_are_shown_where_there_are_some(made: Release, page: str) -> None:
    known = made.answers(["c"]).to_pylist()[0]
    assert f"{known['low']:,.0f} to {known['high']:,.0f}" in page
    nothing = render(make(op.PublicProxy()))
    assert "no interval</td>" in nothing and "has <b>no intervals</b>" in nothing
    assert "Nothing was asked of the private table" in nothing


def test_the_statement_and_the_remarks_are_the_certificates_own(made: Release) -> None:
    c: Certificate = dataclasses.replace(made.certificate, remarks=("It was <raining>.",))
    page = render(with_certificate(made, c))
    assert (
        c.statement in page and "It was &lt;raining&gt;." in page and c.run in page and c.schema_hash in page
    )
