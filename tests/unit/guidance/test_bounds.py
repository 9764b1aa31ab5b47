"""Bounds against numbers worked out by hand, and the directions they must move in."""

import math

import numpy as np
import pytest

from openprior.errors import OptionError
from openprior.guidance.bounds import (
    expected_noise,
    pmw_pub_error_bound,
    pmw_pub_rounds,
    private_sample_size,
    public_sample_size,
)

# With these, log m = 4, log|Q| = 8 (up to rounding of the counts) and ε₀n = √(ρ/T)·n = 100.
N, T, RHO = 10_000, 100, 0.01
M, Q = round(math.e**4), round(math.e**8)
BETA = 3 / math.e**2  # log(3/β) = 2, so T ≥ 14


def bound(**changes: float) -> float:
    options = {"n": N, "m": M, "queries": Q, "rho": RHO, "rounds": T, "beta": BETA} | changes
    return pmw_pub_error_bound(**options)


def test_pmw_pub_bound_by_hand() -> None:
    # √(16/100 + 2/10⁴) + 2·8/100 + √(2/200) = √0.1602 + 0.16 + 0.1 = 0.4002499 + 0.26
    assert bound() == pytest.approx(0.66025, abs=1e-3)


def test_pmw_pub_bound_with_a_mixture_error_by_hand() -> None:
    # α₀ = 0.1: twice that, and the cross term 2·√(2·2)·0.1/(100·10) = 0.0004 joins the first root only
    expected = 0.2 + math.sqrt(0.16 + 0.0002 + 0.0004) + 0.16 + 0.1
    assert bound(best_mixture_error=0.1) == pytest.approx(expected, abs=1e-3)
    assert bound(best_mixture_error=0.1) - bound() == pytest.approx(
        0.2 + math.sqrt(0.1606) - math.sqrt(0.1602), abs=1e-5
    )


def test_pmw_pub_bound_is_the_statement_of_the_proposition_when_the_mixture_error_is_one() -> None:
    n, m, queries, rho, rounds, beta = 5_000, 700, 12_345, 0.3, 60, 0.05
    eps, tail = math.sqrt(2 * rho), math.log(3 / beta)
    stated = (
        2
        + math.sqrt(4 * math.log(m) / rounds + 4 * rounds / (eps * n) ** 2 + 4 * math.sqrt(tail) / (eps * n))
        + 2 * math.sqrt(2 * rounds) / (eps * n) * math.log(queries)
        + math.sqrt(tail / (2 * rounds))
    )
    ours = pmw_pub_error_bound(
        n=n, m=m, queries=queries, rho=rho, rounds=rounds, beta=beta, best_mixture_error=1.0
    )
    assert ours == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(
    ("option", "better", "worse"),
    [
        ("n", 20_000, 5_000),
        ("rho", 0.02, 0.005),
        ("m", 10, 1_000),
        ("queries", 10, 100_000),
        ("beta", 0.9, 0.01),
        ("best_mixture_error", 0.0, 0.2),
    ],
)
def test_pmw_pub_bound_moves_the_right_way(option: str, better: float, worse: float) -> None:
    assert bound(**{option: better}) < bound(**{option: worse})


def test_too_few_rounds_names_the_rounds_needed() -> None:
    with pytest.raises(OptionError, match=r"at least 7·log\(3/β\) = 29"):  # 7·log 60 = 28.66
        bound(rounds=28, beta=0.05)
    assert bound(rounds=29, beta=0.05) > 0


@pytest.mark.parametrize("n", [50, 3_000, 100_000])
@pytest.mark.parametrize("mixture", [0.0, 0.3])
def test_chosen_rounds_are_the_best_of_all(n: int, mixture: float) -> None:
    options = {"n": n, "m": 1_000, "queries": 5_000, "rho": 0.2, "beta": 0.1, "best_mixture_error": mixture}
    best = pmw_pub_rounds(**options)
    grid = np.unique(np.concatenate([np.arange(24, 2_000), np.geomspace(24, 1e7, 3_000).astype(int)]))
    chosen = pmw_pub_error_bound(rounds=best, **options)
    assert best >= 24  # 7·log 30 = 23.8
    assert chosen <= min(pmw_pub_error_bound(rounds=int(t), **options) for t in grid) + 1e-12


def test_chosen_rounds_grow_with_the_budget() -> None:
    few, many = (pmw_pub_rounds(n=50_000, m=1_000, queries=5_000, rho=rho) for rho in (0.01, 1.0))
    assert 29 <= few < many


def test_sample_sizes_by_hand() -> None:
    # queries and β such that log(4|Q|/β) = 6 and log((4|Q| + 4)/β) = 6 + log 1.01 = 6.00995
    beta = 400 / math.e**6
    with pytest.raises(OptionError, match="beta"):
        private_sample_size(queries=100, alpha=0.5, beta=1.0)
    assert private_sample_size(queries=100, alpha=0.5, beta=beta) == math.ceil(8 / 0.25 * 6 - 1e-9)
    # (32·2/0.25 + 8·3/1.5)·log(404·e⁶/400) = (256 + 16)·6.00995 = 1634.7
    assert (
        public_sample_size(queries=100, alpha=0.5, beta=beta, largest_ratio=3.0, mean_square_ratio=2.0)
        == 1635
    )


def test_public_sample_size_moves_the_right_way() -> None:
    base = public_sample_size(queries=1_000, alpha=0.1)
    assert public_sample_size(queries=1_000, alpha=0.05) > base
    assert public_sample_size(queries=9_000, alpha=0.1) > base
    assert public_sample_size(queries=1_000, alpha=0.1, beta=0.01) > base
    known = public_sample_size(queries=1_000, alpha=0.1, largest_ratio=5.0, mean_square_ratio=1.2)
    assert base < known < public_sample_size(queries=1_000, alpha=0.1, largest_ratio=5.0)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"alpha": 0.0}, "alpha"), ({"queries": 0}, "queries"), ({"largest_ratio": 0.5}, "largest_ratio")],
)
def test_sample_size_refuses_nonsense(options: dict[str, float], name: str) -> None:
    with pytest.raises(OptionError, match=name):
        public_sample_size(**({"queries": 10, "alpha": 0.1} | options))
    with pytest.raises(OptionError, match="between 1 and largest_ratio"):
        public_sample_size(queries=10, alpha=0.1, largest_ratio=2.0, mean_square_ratio=3.0)


def test_noise_of_one_and_two_cells_by_hand() -> None:
    one = expected_noise(rho=0.25, cells=1)  # σ = √2/√0.5 = 2
    assert one.sigma == pytest.approx(2)
    assert one.l1 == pytest.approx(2 * math.sqrt(2 / math.pi))
    assert one.largest == pytest.approx(one.l1, rel=1e-6)
    two = expected_noise(rho=0.5, cells=2, l2=1.0)  # σ = 1; E max(|X|, |Y|) = 2/√π
    assert two.sigma == pytest.approx(1)
    assert two.largest == pytest.approx(2 / math.sqrt(math.pi), rel=1e-6)


@pytest.mark.parametrize("cells", [7, 500])
def test_noise_matches_simulation(cells: int) -> None:
    rng = np.random.default_rng(1)
    expected = expected_noise(rho=0.02, cells=cells, n=1_000)
    draws = np.abs(rng.normal(0, expected.sigma, size=(4_000, cells)))
    assert draws.sum(axis=1).mean() == pytest.approx(expected.l1, rel=0.02)
    assert draws.max(axis=1).mean() == pytest.approx(expected.largest, rel=0.02)


def test_noise_shrinks_with_budget_and_records_and_survives_huge_marginals() -> None:
    base = expected_noise(rho=0.1, cells=50, n=1_000)
    for better in (expected_noise(rho=0.2, cells=50, n=1_000), expected_noise(rho=0.1, cells=50, n=2_000)):
        assert better.sigma < base.sigma
        assert better.l1 < base.l1
        assert better.largest < base.largest
    huge = expected_noise(rho=0.5, cells=10**9, l2=1.0)
    assert 6 < huge.largest < 7  # below √(2·log(2·10⁹)) = 6.55 and a little under it
    assert huge.largest < math.sqrt(2 * math.log(2e9))


@pytest.mark.parametrize(
    "options", [{"rho": 0.0}, {"rho": math.inf}, {"cells": 0}, {"n": 0}, {"l2": -1.0}], ids=str
)
def test_noise_refuses_nonsense(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        expected_noise(**({"rho": 0.1, "cells": 3} | options))


@pytest.mark.parametrize(
    "options",
    [{"n": 0}, {"m": 0}, {"queries": 0}, {"rho": 0.0}, {"beta": 1.5}, {"best_mixture_error": 2.0}],
    ids=str,
)
def test_pmw_pub_bound_refuses_nonsense(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        bound(**options)
