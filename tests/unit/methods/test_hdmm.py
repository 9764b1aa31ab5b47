"""HDMM from end to end: answers, intervals of cells and levels, reopening, refusals, a hundred columns."""

import math
from pathlib import Path

import numpy as np
import pytest

import openprior as op
from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.shared.linear_measuring import measure_linear, measured_by, put_together
from openprior.methods.shared.linear_strategy import plan_linear
from openprior.models.linear import LinearModel
from openprior.models.linear_rows import RowMaker, nearest_counts
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.together import Together
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload, all_marginals
from openprior.releases.intervals import known_by_model
from openprior.schema.columns import Categorical
from openprior.schema.domain import Domain
from openprior.schema.levels import Hierarchy as Above
from openprior.tables.table import Table
from tests.conftest import arrow, random_table

SIZES = {"a": 2, "b": 3, "c": 4}
DOMAIN = Domain(SIZES)
TABLE = random_table(SIZES, 500, 1, 0.6)
PAIRS = all_marginals(2).on(DOMAIN)
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]


def released(**more: object) -> op.Release:
    how = {
        "schema": op.Schema.from_sizes(SIZES),
        "workload": 2,
        "epsilon": 2.0,
        "delta": 1e-6,
        "seed": 5,
        **more,
    }
    return op.release(arrow(TABLE), mechanism=op.Hdmm(), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", UNITS[::3], ids=str)
@pytest.mark.parametrize(("noise", "delta"), [("gaussian", 1e-9), ("laplace", 1e-9), ("laplace", 0.0)])
def test_it_spends_all_and_its_errors_are_the_standard_errors(unit: Unit, noise: str, delta: float) -> None:
    """Over many seeds: the mean is the truth, the spread what is said; 0.7 or 1.3 times that would be seen."""
    truth = np.bincount(TABLE.column("b") * 4 + TABLE.column("c"), minlength=12)
    plan = plan_linear(PAIRS, DOMAIN, unit, np.random.default_rng(0), noise=noise, pure=delta == 0)
    errors = []
    for seed in range(40):
        curator = FakeCurator(TABLE, epsilon=20.0, delta=delta, unit=unit, noise=SeededNoise(seed))
        model = put_together(curator, PAIRS, measured_by(curator, plan, curator.remaining, noise), noise)
        assert curator.remaining <= 1e-9 * curator.rho
        said = model.standard_errors([("b", "c")])["b", "c"]
        errors.append((model.answers([("b", "c")])["b", "c"] - truth) / said)
    spread = float(np.sqrt(np.mean(np.square(errors))))
    assert spread == pytest.approx(1.0, abs=0.15)
    assert abs(np.mean(errors)) < 0.15
    assert (model.total == 500) == unit.n_is_public


def test_everything_is_one_event_unless_laplace_noise_adds_up_by_rho() -> None:
    curators = {}
    for noise, delta in (("gaussian", 1e-9), ("laplace", 0.0), ("laplace", 1e-9)):
        curator = FakeCurator(TABLE, delta=delta, unit=Unit(Relation.ADD_REMOVE), noise=SeededNoise(1))
        measure_linear(curator, PAIRS, curator.remaining / 4, np.random.default_rng(0), noise=noise)
        curators[noise, delta] = curator
        assert sum(e.rho for e in curator.events) == pytest.approx(curator.rho / 4, rel=1e-9)
    assert [len(c.events) for c in curators.values()][:2] == [1, 1]
    assert len(curators["laplace", 1e-9].events) == 3
    (event,) = curators["gaussian", 1e-9].events
    assert isinstance(event.statistic, Together)  # type: ignore[attr-defined]


def test_what_is_released_can_be_reopened_and_asked(tmp_path: Path) -> None:
    made = released(out=tmp_path / "r", ledger=tmp_path / "l.sqlite")
    again = op.open_release(tmp_path / "r")
    for columns in (["a", "b"], ["c"], ["c", "a"], ["a", "b", "c"]):
        assert again.answers(columns).equals(made.answers(columns))
    answers = made.answers(["b", "c"])
    assert set(answers["basis"].to_pylist()) == {"measured"}
    estimate, error, low, high = (
        answers[c].to_numpy() for c in ("estimate", "standard_error", "low", "high")
    )
    reach = 1.959963984540054 * error + 0.5
    assert low == pytest.approx(np.maximum(estimate - reach, 0))
    assert high == pytest.approx(np.maximum(estimate, 0) + reach)
    assert set(made.answers(["a", "b", "c"])["basis"].to_pylist()) == {"none"}
    assert made.synthetic.num_rows == 500
    assert again.rows(50, seed=1).num_rows == 50
    assert set(again.rows(where={"a": "1"}, seed=1)["a"].to_pylist()) == {1}


def test_sums_of_answers_to_levels_have_intervals() -> None:
    labels = ("n1", "n2", "s1")
    schema = op.Schema(
        (Categorical(name="area", values=labels), Categorical(name="kind", values=("x", "y"))),
        hierarchies=(Above(name="side", column="area", prefix=1),),
    )
    rows = [{"area": labels[i % 3], "kind": "xy"[i % 2]} for i in range(300)]
    made = op.release(
        rows,
        schema=schema,
        workload=2,
        epsilon=1.0,
        delta=1e-6,
        mechanism=op.Hdmm(),
        seed=1,
        relation="add-remove",
    )
    cells, sums = made.answers(["kind", "area"]), made.answers(["kind", "side"])
    by_hand = cells["estimate"].to_numpy().reshape(2, 3) @ np.array([[1, 0], [1, 0], [0, 1]])
    assert sums["side"].to_pylist() == ["n", "s"] * 2
    assert sums["estimate"].to_numpy() == pytest.approx(by_hand.reshape(-1))
    assert set(sums["basis"].to_pylist()) == {"measured"}
    one, two = sums["standard_error"].to_pylist()[1], sums["standard_error"].to_pylist()[0]
    assert one == pytest.approx(cells["standard_error"].to_pylist()[0])
    assert one < two < 2 * one


def test_laplace_intervals_hold_for_any_mixture_of_laplace_variables() -> None:
    """P(|Σ bᵢLᵢ| > x) = Σ e^{−x/bᵢ}·Π_{j≠i} bᵢ²/(bᵢ² − bⱼ²), for scales that differ."""
    model = LinearModel(
        Domain({"a": 2}), {(): np.array(9.0), ("a",): np.zeros(2)}, {(): 1.0, ("a",): 0.0}, noise="laplace",
        marginals=[("a",)],
    )  # fmt: skip
    known = known_by_model(model, ("a",), np.full(2, 1e6))
    assert known is not None
    factor = (known.high[0] - 1e6 - 0.5) / known.standard_error[0]
    rng = np.random.default_rng(2)
    for count in (1, 2, 2, 3, 4, 6):
        for _ in range(50):
            scales = np.sort(rng.uniform(0.02, 1, count)) + np.arange(count) * 0.02
            reach = factor * math.sqrt(2 * float((scales**2).sum()))
            others = [np.delete(scales, i) for i in range(count)]
            tail = sum(
                math.exp(-reach / b) * math.prod(b**2 / (b**2 - o**2) for o in rest)
                for b, rest in zip(scales, others, strict=True)
            )
            assert tail <= 0.05


def test_a_hundred_columns_are_no_table_of_the_domain() -> None:
    sizes = {f"c{i}": 2 for i in range(100)}
    rng = np.random.default_rng(0)
    table = Table(Domain(sizes), tuple(rng.integers(0, 2, 60).astype(np.uint8) for _ in sizes))
    curator = FakeCurator(table, noise=SeededNoise(1), unit=Unit(Relation.ADD_REMOVE))
    work = all_marginals(2).on(table.domain)
    model = measure_linear(curator, work, curator.remaining, np.random.default_rng(0))
    assert len(curator.events) == 1
    assert len(model.components) == 1 + 100 + 4950
    assert np.isfinite(model.standard_errors([("c3", "c77")])["c3", "c77"]).all()
    assert not RowMaker(model, work.marginals).is_whole


def test_rows_are_near_the_answers_where_no_model_holds_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = FakeCurator(TABLE, epsilon=20.0, noise=SeededNoise(1))
    model = measure_linear(curator, PAIRS, curator.remaining, np.random.default_rng(0))
    monkeypatch.setattr("openprior.models.linear_rows._MOST_CELLS", 20)  # a tree, and not all three pairs
    assert not model.can_restrict
    rows = model.sample(500, np.random.default_rng(1))
    counts = np.bincount(rows.column("b") * 4 + rows.column("c"), minlength=12)
    assert np.abs(counts - model.answers([("b", "c")])["b", "c"]).mean() < 3
    assert rows.n == 500


def test_nearest_counts_are_the_projection() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        answers = rng.normal(0, 5, 7)
        nearest = nearest_counts(answers, 10.0)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(10.0)
        for _ in range(20):  # no other point of the simplex is nearer
            other = rng.dirichlet(np.full(7, 0.3)) * 10
            assert np.linalg.norm(answers - nearest) <= np.linalg.norm(answers - other) + 1e-9


def test_a_table_of_constants_needs_no_measuring() -> None:
    schema = op.Schema.from_sizes({"one": 1, "two": 1})
    made = op.release(
        [{"one": 0, "two": 0}] * 200,
        schema=schema,
        workload=2,
        epsilon=1.0,
        delta=1e-6,
        mechanism=op.Hdmm(),
        seed=1,
    )
    assert made.certificate.events == ()
    assert made.answers(["one"])["estimate"].to_pylist() == [200.0]
    assert made.synthetic.num_rows == 200


def test_columns_outside_the_workload_are_told() -> None:
    with pytest.warns(OpenPriorWarning, match="Not measured, so uniform"):
        made = released(workload=[["a", "b"]])
    assert any(remark.startswith("Not measured") for remark in made.certificate.remarks)
    assert made.answers(["c"])["basis"].to_pylist() == ["none"] * 4


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(OptionError, match="strategy 'all' must be one of best, marginals, residuals"):
        op.Hdmm(strategy="all")
    with pytest.raises(OptionError, match="noise 'cauchy' must be one of"):
        op.Hdmm(noise="cauchy")
    with pytest.raises(OptionError, match="residuals is for Gaussian noise"):
        op.Hdmm(strategy="residuals", noise="laplace")
    with pytest.raises(OptionError, match="pure ε-DP"):
        released(delta=0.0)


def test_weights_are_used() -> None:
    work = Workload({("a", "b"): 1.0, ("b", "c"): 100.0}).on(DOMAIN)
    curator = FakeCurator(TABLE)
    model = measure_linear(curator, work, curator.remaining, np.random.default_rng(0))
    errors = model.standard_errors(work.marginals)
    assert errors["b", "c"][0] < errors["a", "b"][0]
