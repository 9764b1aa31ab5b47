"""Which marginals are measured: mutual information by hand, cliques, roots, and the least expected error."""

import math

import numpy as np
import pytest

from openprior.data.domain import Domain
from openprior.data.encode import Table
from openprior.mechanisms.strategy import Dependence, cliques, expected_best, roots, within
from openprior.workload import Workload, all_marginals


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
