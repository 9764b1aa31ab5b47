"""Plans: noise by hand, what scales with what, and words for what is amiss."""

import inspect
import itertools
import json
import math
from typing import Any

import pytest

import openprior as op
from openprior.counting.cells import MAX_CELLS
from openprior.errors import OptionError, WorkloadError
from openprior.guidance.bounds import expected_noise, pmw_pub_error_bound, pmw_pub_rounds, public_sample_size
from openprior.guidance.plan import Plan, plan
from openprior.methods.base import PublicTable
from openprior.privacy.calibrate import rho_from_epsilon_delta
from openprior.schema.base import Schema

SMALL = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def with_persons(rows: int) -> Schema:
    return Schema(SMALL.columns, person_id="who", max_rows_per_person=rows)


def pairs(schema: Schema = SMALL, n: int = 1000, **options: Any) -> Plan:
    return plan(schema, n=n, workload=op.all_marginals(2), **{**BUDGET, **options})


def test_gaussian_noise_of_equal_shares_by_hand() -> None:
    made = pairs()
    rho = rho_from_epsilon_delta(1.0, 1e-6)
    assert made.rho == rho
    assert (made.noise, made.cells) == ("gaussian", 26)
    sigma = math.sqrt(3 / rho)  # three shares, and one row replaced moves a marginal by √2
    for m in made.marginals:
        assert m.every.rows == pytest.approx(sigma)
        assert m.every.share == pytest.approx(sigma / 1000)
        assert m.every.l1 == pytest.approx(m.cells * math.sqrt(2 / math.pi) * sigma / 1000)
        known = expected_noise(rho=rho / 3, cells=m.cells, n=1000)
        assert m.every.largest == pytest.approx(known.largest)
    assert made.orders[0].seen == pytest.approx(2 * sigma)
    assert made.orders[1].seen == pytest.approx(2 * sigma)
    assert made.orders[2].seen == pytest.approx(2 * sigma / math.sqrt(3))


def test_laplace_noise_where_delta_is_zero_by_hand() -> None:
    made = pairs(delta=0.0, epsilon=2.0)
    assert made.noise == "laplace"
    scale = 2 * 3 / 2.0  # L1 sensitivity 2, a third of ε = 2 each
    (a_b, *_) = made.marginals
    assert a_b.cells == 6
    assert a_b.every.rows == pytest.approx(math.sqrt(2) * scale)
    assert a_b.every.l1 == pytest.approx(6 * scale / 1000)
    assert a_b.every.largest == pytest.approx(scale * sum(1 / i for i in range(1, 7)) / 1000)
    pure = ["hdmm", "hierarchy", "ide", "importance"]
    assert [c.mechanism for c in pairs(delta=0.0, public_rows=100).costs] == pure
    unknown = pairs(delta=0.0, public_rows=100, relation="add-remove")
    assert [c.mechanism for c in unknown.costs] == pure[:-1]  # importance needs n
    for choice in ("hdmm with noise = laplace", "hierarchy with noise = laplace or ide with noise = laplace"):
        assert choice in " ".join(made.advice)


def test_noise_grows_with_the_rows_of_a_person_and_depends_on_the_relation() -> None:
    one = pairs().marginals[0].every.rows
    assert pairs(with_persons(1)).marginals[0].every.rows == pytest.approx(one)
    assert pairs(with_persons(4)).marginals[0].every.rows == pytest.approx(4 * one)
    assert pairs(relation="add-remove").marginals[0].every.rows == pytest.approx(one / math.sqrt(2))
    pure = pairs(delta=0.0).marginals[0].every.rows
    assert pairs(with_persons(4), delta=0.0).marginals[0].every.rows == pytest.approx(4 * pure)
    assert pairs(relation="add-remove", delta=0.0).marginals[0].every.rows == pytest.approx(pure / 2)


@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_so_many_marginals_are_affordable_and_not_one_more(delta: float) -> None:
    schema = Schema.from_sizes({f"c{i}": 3 for i in range(12)})
    made = plan(schema, n=3000, workload=op.all_marginals(2), epsilon=1.0, delta=delta)
    few, all_of_them = made.affordable, len(made.marginals)
    assert 1 < few < all_of_them
    some = made.marginals[0].some
    assert some.l1 <= made.level
    more = some.l1 * ((few + 1) / few if delta == 0 else math.sqrt((few + 1) / few))
    assert more > made.level


def test_the_share_for_measuring_is_that_of_the_mechanisms() -> None:
    from openprior.guidance import shares
    from openprior.methods import tilt

    assert op.JamPgm().alpha == shares._MEASURING == 1 - max(tilt._CHOOSING)


@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_a_larger_epsilon_buys_more(delta: float) -> None:
    schema = Schema.from_sizes({f"c{i}": 4 for i in range(8)})
    bought = plan(schema, n=5000, workload=op.all_marginals(2), epsilon=0.5, delta=delta).bought
    assert [b.epsilon for b in bought] == pytest.approx([0.05, 0.5 / 3, 0.5, 1.5, 5.0])
    for less, more in itertools.pairwise(bought):
        assert less.rho < more.rho
        assert less.l1 > more.l1
        assert less.seen > more.seen
        assert less.affordable <= more.affordable
    assert bought[-1].affordable > bought[0].affordable


def test_no_table_is_given_or_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a table was opened")

    for place in ("tables.source", "tables.encode", "releases.release"):
        monkeypatch.setattr(f"openprior.{place}.open_source", refuse, raising=False)
    assert set(inspect.signature(plan).parameters) == {
        "schema", "n", "workload", "epsilon", "delta", "relation", "public_rows",
    }  # fmt: skip
    assert plan(SMALL, n=1000, **BUDGET).cells == 24


def test_bounds_are_those_of_the_theory_at_the_best_number_of_rounds() -> None:
    made = pairs(n=1_000_000, public_rows=50_000)
    at: dict[str, Any] = {"n": 1_000_000, "m": 50_000, "queries": 26, "rho": made.rho}
    assert made.theory.rounds == pmw_pub_rounds(**at)
    assert made.theory.bound == pmw_pub_error_bound(rounds=made.theory.rounds, **at)
    assert made.theory.public_rows[0.1] == public_sample_size(queries=26, alpha=0.1)
    assert not any("says nothing" in a for a in made.advice)
    vacuous = pairs(n=100, public_rows=50)
    assert vacuous.theory.bound is not None
    assert vacuous.theory.bound > 1
    assert any("says nothing" in a for a in vacuous.advice)
    assert any("vacuous" in " ".join(row) for t in vacuous.tables() for row in t.rows)
    persons = pairs(with_persons(10), n=1_000_000, public_rows=50_000)
    assert persons.theory.bound == pairs(n=100_000, public_rows=50_000).theory.bound
    for other in (pairs(), pairs(public_rows=50, delta=0.0), pairs(public_rows=50, relation="add-remove")):
        assert other.theory.bound is None


def said(schema: Schema, **options: Any) -> str:
    return " ".join(plan(schema, **{**BUDGET, "n": 10_000, **options}).advice)


def test_advice_in_words() -> None:
    assert "above 1/n" in said(SMALL, delta=1e-3)
    assert "above 1/n" not in said(SMALL)
    assert "as many times as large" in said(with_persons(3))
    assert "n is private" in said(SMALL, relation="add-remove")
    assert "The marginal a × b × c has more cells than there are rows (20)" in said(SMALL, n=20)
    assert "enough to measure the whole workload" in said(SMALL, n=1_000_000)


def test_advice_on_large_domains() -> None:
    wide = Schema.from_sizes({"job": 5000, "a": 3, "b": 4, "c": 5})
    assert "job has 5,000 values" in said(wide)
    assert "coarser bins there help most" in said(wide)
    assert "Use 2-way marginals" in said(Schema.from_sizes({f"c{i}": 9 for i in range(6)}), n=5000)
    huge = Schema.from_sizes({"x": MAX_CELLS // 2, "y": 3, "z": 2})
    wanted = [("x", "y"), ("x", "y", "z")]
    assert "2 marginals (x × y × z first) have more than" in said(huge, workload=wanted)
    many = Schema.from_sizes({f"c{i}": 2000 for i in range(14)})
    assert "will be refused: use a smaller workload" in said(many, workload=op.all_marginals(2))


def test_as_json_and_as_tables() -> None:
    made = pairs(public_rows=500)
    again = json.loads(json.dumps(made.as_dict()))
    assert again["marginals"][0]["marginal"] == ["a", "b"]
    assert again["marginals"][0]["every"]["rows"] == made.marginals[0].every.rows
    assert set(again["theory"]["public_rows"]) == {"0.05", "0.1"}
    assert again["advice"] == list(made.advice)
    for table in made.tables():
        assert table.rows
        assert all(len(row) == len(table.headings) for row in table.rows)
    assert len(made.tables(2)[2].rows) == 2


def test_costs_are_of_known_mechanisms_and_grow() -> None:
    small, large = pairs(public_rows=1000), pairs(n=1_000_000, public_rows=1_000_000)
    assert {c.mechanism for c in small.costs} == set(op.mechanisms())
    without = {n for n, m in op.mechanisms().items() if m.public_table is not PublicTable.NEEDED}
    assert {c.mechanism for c in pairs().costs} == without
    for less, more in zip(small.costs, large.costs, strict=True):
        assert less.mechanism == more.mechanism
        assert less.seconds < more.seconds
        assert less.megabytes < more.megabytes


def test_what_would_be_refused_is_not_in_the_plan() -> None:
    wide = Schema.from_sizes({f"c{i}": 30 for i in range(6)})
    made = plan(wide, n=1000, workload=op.all_marginals(2), **BUDGET)
    assert "mwem" not in {c.mechanism for c in made.costs}
    apart = plan(wide, n=1000, workload=[("c0", "c1"), ("c2", "c3")], **BUDGET)
    assert "mwem" in {c.mechanism for c in apart.costs}


def test_the_largest_error_is_interpolated_closely_among_many_sizes() -> None:
    schema = Schema.from_sizes({f"c{i}": i + 2 for i in range(20)})
    made = plan(schema, n=10_000, workload=op.all_marginals(3), **BUDGET)
    assert len({m.cells for m in made.marginals}) > 64
    for m in made.marginals[:: len(made.marginals) // 5]:
        exact = expected_noise(rho=made.rho / len(made.marginals), cells=m.cells, n=10_000)
        assert m.every.largest == pytest.approx(exact.largest, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 1}, "n \\(1\\) must be a whole number of at least 2"),
        ({"n": 2.5}, "n \\(2.5\\) must be a whole number"),
        ({"public_rows": 0}, "public_rows \\(0\\)"),
        ({"epsilon": -1.0}, "epsilon \\(-1.0\\) must be a positive number"),
        ({"delta": 1.5}, "delta \\(1.5\\) must lie"),
        ({"relation": "neighbours"}, "relation 'neighbours' is unknown"),
    ],
)
def test_clumsy_input_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan(SMALL, **{**BUDGET, "n": 100, **options})
    with pytest.raises(WorkloadError, match="there is no column 'd'"):
        plan(SMALL, n=100, workload=[("a", "d")], **BUDGET)
