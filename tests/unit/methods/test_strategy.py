"""Which marginals are measured: mutual information by hand, cliques, roots, and the least expected error."""

import math

import numpy as np
import pytest

from openprior.methods.shared.dependence import Dependence
from openprior.methods.shared.strategy import cliques, expected_best, roots, variances, within
from openprior.privacy.fake import FakeCurator
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table


def table(columns: dict[str, np.ndarray]) -> Table:
    domain = Domain({a: int(c.max()) + 1 for a, c in columns.items()})
    return Table(domain, tuple(c.astype(np.uint8) for c in columns.values()))


def known(columns: dict[str, np.ndarray], rows: float = 1000.0) -> Dependence:
    return Dependence.of([table(columns)], [rows], np.random.default_rng(0))


def chain(n: int = 3000) -> dict[str, np.ndarray]:
    """a – b – c depend on each other, d on none; e is always the same."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, n)
    b = np.where(rng.random(n) < 0.9, a, rng.integers(0, 4, n))
    c = np.where(rng.random(n) < 0.9, b, rng.integers(0, 4, n))
    e = np.zeros(n, np.int64)
    e[0] = 1
    return {"a": a, "b": b, "c": c, "d": rng.integers(0, 3, n), "e": e}


def test_mutual_information_of_two_coins_by_hand() -> None:
    # (0,0) 3/8, (0,1) 1/8, (1,0) 1/8, (1,1) 3/8: I = log 2 − H(3/4) = 0.6931 − 0.5623, less 1/(2n) for chance.
    x = np.array([0, 0, 0, 0, 1, 1, 1, 1] * 100)
    y = np.array([0, 0, 0, 1, 0, 1, 1, 1] * 100)
    found = known({"x": x, "y": y}, rows=800)
    by_hand = math.log(2) + 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    assert found.information(("x", "y")) == pytest.approx(by_hand - 1 / 1600, abs=1e-12)
    assert found.entropy(("x",)) == pytest.approx(math.log(2))
    assert found.strength(("x", "y")) == pytest.approx((by_hand - 1 / 1600) / math.log(2))


def test_independent_columns_have_no_information() -> None:
    x, y = np.divmod(np.arange(600), 20)
    assert known({"x": x % 3, "y": y % 4}).information(("x", "y")) == pytest.approx(0, abs=1e-9)


def test_cliques_hold_every_attribute_and_join_what_depends() -> None:
    found = cliques(known(chain()))
    assert {a for m in found for a in m} == set("abcde")
    assert ("a", "b", "c") in found
    assert ("d",) in found
    assert ("e",) in found


def test_roots_are_nearly_independent() -> None:
    found = roots(known(chain()))
    assert ("d",) in found
    assert sum(m[0] in "abc" for m in found) == 1


def test_more_budget_buys_more_and_wider_marginals() -> None:
    dependence, work = known(chain()), all_marginals(2).on(table(chain()).domain)
    sets = []
    for variance in (1e6, 1e2, 1e-2):
        sets.append(expected_best(dependence, work, {k: k * variance for k in (1, 2, 3, 4, 6, 8)}))
    assert len(sets[0]) <= len(sets[1]) <= len(sets[2])
    assert any(len(m) == 2 for m in sets[2])
    again = expected_best(dependence, work, {k: k * 1e2 for k in (1, 2, 3, 4, 6, 8)})
    assert again == sets[1]


def test_a_workload_of_single_columns_measures_these() -> None:
    dependence = known(chain())
    work = Workload([("d",)]).on(table(chain()).domain)
    assert expected_best(dependence, work, {1: 10.0, 2: 20.0}) == [("d",)]


def test_within_drops_keys_and_adds_weights() -> None:
    domain = Domain({"k": 2, "a": 2, "b": 2})
    work = Workload([("k", "a"), ("a",), ("k",), ("a", "b")], [1.0, 2.0, 5.0, 3.0]).on(domain)
    found = within(work, ["a", "b"], domain)
    assert dict(zip(found.marginals, found.weights, strict=True)) == {("a",): 3.0, ("a", "b"): 3.0}
    only = within(Workload([("k",)]).on(domain), ["a", "b"], domain)
    assert set(only.marginals) == {("a",), ("b",)}


def noisy_copy(of: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The same values, but a share of them drawn anew."""
    return np.where(rng.random(len(of)) < share, rng.integers(0, of.max() + 1, len(of)), of)


def test_a_chain_is_not_a_triangle() -> None:
    """b hangs on a and c on b, both loosely: the ends have little to do with each other."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 4, 4000)
    b = noisy_copy(a, 0.5, rng)
    c = noisy_copy(b, 0.5, rng)
    found = known({"a": a, "b": b, "c": c}, 4000)
    assert found.strength(("a", "c")) < 0.1 < found.strength(("a", "b"))
    assert sorted(cliques(found)) == [("a", "b"), ("b", "c")]
    assert roots(found) in ([("a",), ("c",)], [("b",)])


def test_four_that_all_depend_are_covered_by_threes() -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 4, 4000)
    columns = {"a": a, **{name: noisy_copy(a, 0.2, rng) for name in "bcd"}}
    found = cliques(known(columns, 4000))
    assert {x for m in found for x in m} == set("abcd")
    assert max(map(len, found)) == 3
    assert len(roots(known(columns, 4000))) == 1


@pytest.mark.parametrize("private", [300.0, 3e3, 1e6])
def test_what_few_public_rows_show_by_chance_is_no_dependence(private: float) -> None:
    """Chance is a matter of the public rows that were looked at, not of how many private ones there are."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        columns = {name: rng.integers(0, 16, 300) for name in "abc"}
        found = known(columns, private)
        assert max(found.strength(p) for p in found.pairs) < 0.06
        assert sorted(cliques(found)) == sorted(roots(found)) == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("private", [40.0, 100.0, 1e5])
def test_what_many_public_rows_show_is_dependence_for_few_private_ones_too(private: float) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 12, 50_000)
    found = known({"a": a, "b": noisy_copy(a, 0.3, rng)}, private)
    assert found.strength(("a", "b")) > 0.4


def test_groups_are_averaged() -> None:
    x = np.array([0, 1] * 400)
    same, apart = table({"x": x, "y": x}), table({"x": x, "y": np.repeat([0, 1], 400)})
    found = Dependence.of([same, apart], [800, 800], np.random.default_rng(0))
    assert found.information(("x", "y")) == pytest.approx(math.log(2) / 2 - 1 / 1600)


def test_tiny_budgets_buy_single_columns() -> None:
    columns = chain()
    work = all_marginals(2).on(table(columns).domain)
    counts = (1, 2, 3, 4, 6, 8)
    assert all(len(m) == 1 for m in expected_best(known(columns), work, {k: k * 1e7 for k in counts}))
    rich = expected_best(known(columns), work, {k: k * 1e-3 for k in counts})
    assert sum(len(m) == 2 for m in rich) >= 4
    assert len(set(rich)) == len(rich)


def test_constant_columns_are_harmless() -> None:
    rng = np.random.default_rng(6)
    domain = Domain({"one": 1, "stuck": 5, "x": 3, "y": 3})
    zeros = np.zeros(500, np.uint8)
    x = rng.integers(0, 3, 500)
    rows = Table(domain, (zeros, zeros + 2, x, noisy_copy(x, 0.3, rng)))
    found = Dependence.of([rows], [500], rng)
    assert found.information(("one", "stuck")) == found.strength(("stuck", "x")) == 0
    assert sorted(cliques(found)) == [("one",), ("stuck",), ("x", "y")]
    assert roots(found) in ([("x",)], [("y",)])
    best = expected_best(found, all_marginals(2).on(domain), {k: k * 10.0 for k in (1, 2, 3, 4)})
    assert best
    assert not any({"one", "stuck"} & set(m) for m in best if len(m) > 1)
    # Nothing but constants: something is chosen all the same.
    dull = rows.take(np.zeros(30, np.intp))
    nothing = Dependence.of([dull], [500], rng)
    assert roots(nothing)
    assert {a for m in cliques(nothing) for a in m} == set(domain)
    assert expected_best(nothing, all_marginals(2).on(domain), {1: 1.0, 2: 2.0})


def test_choices_do_not_depend_on_the_stream_where_all_rows_are_used() -> None:
    columns = chain()
    rows, work = table(columns), all_marginals(2).on(table(columns).domain)
    for choose in (cliques, roots, lambda k: expected_best(k, work, {i: i * 30.0 for i in (1, 2, 4, 8)})):
        seen = {tuple(choose(Dependence.of([rows], [900], np.random.default_rng(seed)))) for seed in range(4)}
        assert len(seen) == 1


@pytest.mark.parametrize("unit", [Unit(relation, rows) for relation in Relation for rows in (1, 3)], ids=str)
def test_variances_are_what_the_curator_would_add(unit: Unit) -> None:
    for noise in ("gaussian", "laplace"):
        curator = FakeCurator(table(chain()), unit=unit)
        rho = curator.remaining / 2
        for count in (1, 4):
            found = curator.measure(Counts(("a",)), rho / count / 8, noise=noise)
            assert variances(unit, rho / 8, noise, pure=False)[count] == pytest.approx(found.sigma**2)
