"""How far off answers will be, guessed before anything is spent: by size, budget and unit, and beside a run."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.error_bars.expected_bars import SIZES, expected_reaches
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.error_strata import ErrorStrata
from openprior.privacy.unit import Unit
from openprior.schema.base import Schema
from openprior.tables.simulate import demo_surveys

SMALL = Schema.from_sizes({"a": 3, "b": 4, "c": 5})


def reaches(rho: float, unit: Unit | None = None, *, public: bool = True) -> list[float]:
    found = expected_reaches(rho, unit or Unit(), 10**9, has_public=public)
    assert [r.rows for r in found] == list(SIZES)
    return [r.within for r in found]


@pytest.mark.parametrize("public", [True, False])
def test_larger_cells_reach_farther_and_a_larger_budget_less(public: bool) -> None:
    budgets = [budget_rho(e, 1e-9) for e in (0.1, 0.3, 1, 3, 10)]
    by_budget = np.array([reaches(rho, public=public) for rho in budgets])
    assert (np.diff(by_budget, axis=1) > 0).all()
    assert (np.diff(by_budget, axis=0) < 0).all()
    shares = by_budget / np.array(SIZES)
    assert (np.diff(shares, axis=1) < 0.2).all(), "as a share, large answers are not much farther off"


def test_the_unit_counts_as_a_smaller_budget() -> None:
    for rows in (2, 5):
        np.testing.assert_allclose(reaches(0.1, Unit(rows_per_person=rows)), reaches(0.1 / rows**2))
    np.testing.assert_allclose(reaches(0.1, Unit("add-remove")), reaches(0.2))  # type: ignore[arg-type]


def test_cells_that_do_not_fit_are_not_told_of_and_no_answer_is_farther_off_than_the_table() -> None:
    assert [r.rows for r in expected_reaches(0.01, Unit(), 500, has_public=False)] == [10, 100]
    assert all(r.within <= 100 for r in expected_reaches(1e-9, Unit(), 100, has_public=False))
    assert all(math.isfinite(w) and w > 0 for rho in (1e-12, 1e6) for w in reaches(rho))


def plan(**options: Any) -> Any:
    given = {"n": 2000, "workload": 2, "epsilon": 1.0, "delta": 1e-9, **options}
    return op.plan(SMALL, **given)


def test_plan_tells_it_by_epsilon_and_says_that_it_is_a_guess() -> None:
    made = plan()
    (table,) = [t for t in made.tables() if t.title.startswith("How far off")]
    assert table.title.endswith("a guess")
    assert table.headings[1:] == tuple(f"ε = {b.epsilon:.3g}" for b in made.bought)
    assert [row[0] for row in table.rows] == ["10 rows", "100 rows", "1,000 rows"]
    (now,) = [b for b in made.bought if b.epsilon == 1.0]
    assert table.rows[1][3] == f"±{math.ceil(now.reaches[1].within)}"
    again = json.loads(json.dumps(made.as_dict()))
    assert again["bought"][2]["reaches"][0]["rows"] == 10
    assert again["error_share"] == made.error_share
    assert plan(public_rows=500).bought[2].reaches[1].within < now.reaches[1].within


def test_nothing_is_guessed_for_pure_privacy() -> None:
    made = plan(delta=0.0)
    assert all(b.reaches == () for b in made.bought)
    assert not any(t.title.startswith("How far off") for t in made.tables())
    assert 0 < made.error_share <= 0.05


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_planned_share_is_what_a_release_takes(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    rows = {name: rng.integers(0, size, 2000) for name, size in zip("abc", (30, 40, 50), strict=True)}
    schema = Schema.from_sizes({"a": 30, "b": 40, "c": 50})
    given: dict[str, Any] = {"workload": 2, "epsilon": epsilon, "delta": 1e-9}
    made = op.release(pa.table(rows), schema=schema, mechanism=op.Mst(), seed=1, **given)
    spent = [e.rho for e in made.certificate.events if isinstance(getattr(e, "statistic", None), ErrorStrata)]
    planned = op.plan(schema, n=2000, **given).error_share
    assert spent == [pytest.approx(planned * made.certificate.rho, rel=0.01)]
    assert 0.005 <= planned <= 0.05


def test_a_run_comes_out_about_as_guessed() -> None:
    """Far from exact: a factor of three is left to it, and most runs are within half as much."""
    public, private = demo_surveys(3000, 3000)
    columns = ["region", "age", "sex", "employment", "tenure", "income"]
    public, private = public.select(columns), private.select(columns)
    for prior in (public, None):
        made = op.release(
            private, prior, schema=op.Schema.draft(public), workload=2, epsilon=1.0, delta=1e-9, seed=1,
            mechanism=op.Tilt(particles=2000),
        )  # fmt: skip
        assert made.error_bars is not None
        guessed = expected_reaches(made.certificate.rho, Unit(), 3000, has_public=prior is not None)
        sizes = np.array([float(r.rows) for r in guessed])
        found = made.error_bars.around(sizes, 2).high - sizes
        ratio = found / np.array([r.within for r in guessed])
        assert ((ratio > 1 / 3) & (ratio < 3)).all(), ratio


def test_the_command_says_it(tmp_path: Any) -> None:
    from tests.console import say

    SMALL.save(tmp_path / "s.toml")
    words = ("plan", str(tmp_path / "s.toml"), "--rows", "2000", "--workload", "2", "--epsilon", "1")
    said = say(*words, "--delta", "1e-9")
    assert said.code == 0 and "How far off 95 in 100 answers" in said.out
    assert "guessed from runs of tilt on other tables" in said.out and "% of the budget" in said.out
    assert "How far off" not in say(*words, "--delta", "0").out
