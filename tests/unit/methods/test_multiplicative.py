"""PMW^Pub, MWEM and MWEM+PUB: the rounds by hand, and that each option does what it says."""

import math
from fractions import Fraction

import numpy as np
import pytest

from openprior.errors import MarginalTooLarge, OpenPriorWarning, OptionError
from openprior.methods.mwem import Mwem, enumerate_domain
from openprior.methods.mwem_pub import MwemPub
from openprior.methods.pmw_pub import PmwPub
from openprior.methods.shared.advanced import per_round_epsilon
from openprior.methods.shared.guard import keep_better
from openprior.models.product import ProductModel
from openprior.models.support import SupportModel
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import CellCount, Counts
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import quiet, random_table
from tests.formulas import pure_rho_by_hand

SIZES = {"a": 3, "b": 2, "c": 4}
PRIVATE = random_table(SIZES, 500, 1)
PUBLIC = random_table(SIZES, 400, 2, skew=2.0)
WORK = all_marginals(2).on(PRIVATE.domain)


def fit(mechanism: object, *, noise: object = None, workload: Workload = WORK, **budget: float) -> tuple:
    curator = FakeCurator(PRIVATE, noise=noise, **budget)
    model = mechanism.run(curator, PUBLIC, workload, np.random.default_rng(4), quiet)
    return curator, model


def error(model: object) -> float:
    truth = FakeCurator(PRIVATE, epsilon=100.0)
    return float(
        np.mean(
            [
                np.abs(model.answers([m])[m] - truth.measure(Counts(m), 0.1).values).sum() / PRIVATE.n
                for m in WORK
            ]
        )
    )


def test_one_round_by_hand() -> None:
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint8)
    domain = Domain({"x": 2, "y": 2})

    def table(counts: list[int]) -> Table:
        return Table(domain, tuple(np.repeat(rows[:, i], counts) for i in (0, 1)))

    public, private = table([1, 1, 1, 1]), table([7, 1, 1, 1])
    work = Workload([("x", "y")]).on(domain)
    curator = FakeCurator(private)
    model = PmwPub(rounds=1, guard=0.0).run(curator, public, work, np.random.default_rng(0), quiet)
    # The worst query is (0, 0): q(A) = 0.25, a = 0.7, so its rows are multiplied by exp(0.45 / 2).
    up = 0.25 * math.exp(0.225)
    expected = np.array([up, 0.25, 0.25, 0.25]) / (0.75 + up)
    np.testing.assert_allclose(model.answers([("x", "y")])[("x", "y")] / 10, expected, rtol=1e-12)
    assert [e.kind for e in curator.events] == ["exponential", "gaussian"]
    assert curator.events[1].statistic == CellCount(("x", "y"), 0)


def test_costs_are_those_of_the_paper() -> None:
    curator, _ = fit(PmwPub(rounds=8, guard=0.0))
    epsilon0 = math.sqrt(2 * curator.rho) / math.sqrt(2 * 8)
    for event in curator.events:
        assert event.rho == pytest.approx(epsilon0**2 / 2)
    assert curator.events[0].epsilon == pytest.approx(2 * epsilon0)
    assert curator.events[1].sigma == pytest.approx(1 / epsilon0)
    curator, _ = fit(PmwPub(rounds=8, guard=0.0, selection="permute-and-flip", noise="laplace"))
    assert [e.kind for e in curator.events[:2]] == ["permute-and-flip", "laplace"]
    for epsilon in (curator.events[0].epsilon, 1 / curator.events[1].scale):
        assert pure_rho_by_hand(epsilon) == pytest.approx(epsilon0**2 / 2)
    assert curator.remaining == pytest.approx(0, abs=1e-12)


def test_learning_without_noise_approaches_the_truth() -> None:
    start = error(fit(PmwPub(rounds=1, guard=0.0), epsilon=10.0)[1])
    few = error(fit(PmwPub(rounds=10, guard=0.0), epsilon=10.0)[1])
    many = error(fit(PmwPub(rounds=80, guard=0.0), epsilon=10.0)[1])
    assert many < 0.6 * few < 0.6 * start


def test_average_is_the_mean_of_the_iterates_before_each_round() -> None:
    weights = [fit(PmwPub(rounds=t, guard=0.0, replay=False))[1].weights for t in (1, 2, 3)]
    _, counts = PUBLIC.unique()
    iterates = [counts / counts.sum(), weights[0], weights[1]]
    averaged = fit(PmwPub(rounds=3, guard=0.0, replay=False, output="average"))[1]
    np.testing.assert_allclose(averaged.weights, np.mean(iterates, axis=0), rtol=1e-9)
    assert not np.allclose(averaged.weights, weights[2])


def test_replay_applies_old_measurements_again_and_helps_without_noise() -> None:
    once, again = (fit(PmwPub(rounds=25, guard=0.0, replay=r), epsilon=10.0)[1] for r in (False, True))
    assert not np.allclose(once.weights, again.weights)
    assert error(again) < error(once)


def test_uniform_start_ignores_the_public_frequencies() -> None:
    support, counts = PUBLIC.unique()
    one = fit(PmwPub(rounds=1, guard=0.0, start="uniform"))[1]
    untouched = np.median(one.weights)
    assert np.isclose(one.weights, untouched).sum() > support.n / 2
    assert not np.allclose(one.weights, counts / counts.sum(), atol=1e-3)


def test_all_candidates_include_what_the_support_cannot_reach() -> None:
    only = PUBLIC.take(np.flatnonzero(PUBLIC.column("b") == 0))
    curators = {}
    for candidates in ("all", "reachable"):
        curators[candidates] = FakeCurator(PRIVATE)
        mechanism = PmwPub(rounds=3, guard=0.0, candidates=candidates)
        mechanism.run(curators[candidates], only, WORK, np.random.default_rng(0), quiet)
    assert curators["all"].events[0].candidates.count == WORK.cells
    assert curators["reachable"].events[0].candidates.count < WORK.cells


def test_the_guard_keeps_the_public_start_when_learning_went_wrong() -> None:
    """All public rows have b = 0, most private ones b = 1: fitting the joint cells spoils the rest."""
    domain = Domain({"a": 6, "b": 2})
    rng = np.random.default_rng(1)
    a = rng.choice(6, 4000, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]).astype(np.uint8)
    public = Table(domain, (a[:1000], np.zeros(1000, np.uint8)))
    private = Table(domain, (a, (rng.random(4000) < np.array([0.1, 0.9, 1, 1, 1, 1])[a]).astype(np.uint8)))
    work = all_marginals(2).on(domain)

    def loss(guard: float) -> float:
        curator = FakeCurator(private, epsilon=10.0)
        mechanism = PmwPub(rounds=40, guard=guard)
        model = mechanism.run(curator, public, work, np.random.default_rng(0), quiet)
        truth = FakeCurator(private, epsilon=100.0).measure(Counts(("a", "b")), 0.1).values
        return float(np.abs(model.answers([("a", "b")])[("a", "b")] - truth).sum())

    assert loss(guard=0.05) <= loss(guard=0.0)
    curator = FakeCurator(private)
    PmwPub(rounds=4).run(curator, public, work, np.random.default_rng(0), quiet)
    assert curator.events[-1].candidates.count == 2
    assert curator.events[-1].rho == pytest.approx(0.05 * curator.rho)


def test_mwem_pub_is_calibrated_as_published() -> None:
    epsilon0 = per_round_epsilon(1.0, 1e-6, 10)
    spent = math.sqrt(2 * 10 * math.log(1e6)) * epsilon0 + 10 * epsilon0 * math.expm1(epsilon0)
    assert spent == pytest.approx(1.0)
    curator, model = fit(MwemPub(rounds=10), epsilon=1.0, delta=1e-6)
    assert curator.events[0].epsilon == pytest.approx(epsilon0 / 2)
    assert curator.events[1].scale == pytest.approx(2 / epsilon0)  # in rows; 2/(n·ε₀) as a share
    assert len(curator.events) == 20
    assert curator.remaining > 0
    assert isinstance(model, SupportModel)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("rounds", [1, 5, 300])
def test_mwem_pub_never_needs_more_than_its_budget(epsilon: float, rounds: int) -> None:
    curator, _ = fit(MwemPub(rounds=rounds), noise=SeededNoise(1), epsilon=epsilon)
    assert len(curator.events) == 2 * rounds
    assert 0 < sum(Fraction(e.rho) for e in curator.events) <= Fraction(curator.rho)


def test_mwem_on_the_full_domain_learns_from_uniform() -> None:
    one = fit(Mwem(rounds=1), epsilon=10.0)[1]
    many = fit(Mwem(rounds=120), epsilon=10.0)[1]
    assert isinstance(many, SupportModel)
    assert many.rows.n == 24
    assert error(many) < 0.3 * error(one)


def test_mwem_factors_a_workload_of_disjoint_groups_and_named_groups() -> None:
    work = Workload([("a", "b"), ("c",)]).on(PRIVATE.domain)
    factored = fit(Mwem(rounds=60, max_cells=6), workload=work, epsilon=10.0)[1]
    assert isinstance(factored, ProductModel)
    whole = fit(Mwem(rounds=60), workload=work, epsilon=10.0)[1]
    for marginal in work:
        np.testing.assert_allclose(
            factored.answers([marginal])[marginal], whole.answers([marginal])[marginal], atol=25
        )
    named = fit(Mwem(rounds=10, groups=(("a", "c"), ("b",))), epsilon=10.0)[1]
    assert [tuple(f.domain) for f in named.factors] == [("a", "c"), ("b",)]


def test_mwem_refuses_what_it_cannot_enumerate_and_overlapping_groups() -> None:
    with pytest.raises(MarginalTooLarge, match=r"24 cells of a × b × c, more than max_cells = 10"):
        fit(Mwem(max_cells=10))
    with pytest.raises(OptionError, match="disjoint"):
        Mwem(groups=(("a", "b"), ("b",)))
    assert enumerate_domain(PRIVATE.domain, 24).unique()[0].n == 24


def test_permute_and_flip_and_exponential_draw_differently() -> None:
    drawn = {
        how: [
            fit(PmwPub(rounds=3, guard=0.0, selection=how), noise=SeededNoise(s))[0]
            .events[1]
            .statistic.marginal
            for s in range(6)
        ]
        for how in ("exponential", "permute-and-flip")
    }
    assert drawn["exponential"] != drawn["permute-and-flip"]


def test_the_guard_favours_what_was_learnt_by_a_factor_e() -> None:
    counts = np.bincount(PRIVATE.column("a"), minlength=3).astype(float)
    work = Workload([("a",)], [2.0]).on(PRIVATE.domain)
    off = np.array([30.0, -30.0, 0.0])
    tied = [{("a",): counts + off}, {("a",): counts - off}]
    chosen = []
    for seed in range(400):
        curator = FakeCurator(PRIVATE, noise=SeededNoise(seed))
        chosen.append(keep_better(curator, tied, work, curator.rho))
    share = chosen.count(0) / len(chosen)
    assert abs(share - math.e / (1 + math.e)) < 0.1
    better = [{("a",): counts + 5 * off}, {("a",): counts}]
    assert keep_better(FakeCurator(PRIVATE, epsilon=20.0, noise=SeededNoise(1)), better, work, 3.0) == 1


def test_annealed_rounds_are_many_when_much_is_wrong_and_few_when_nothing_is() -> None:
    wrong, _ = fit(PmwPub(guard=0.0), noise=SeededNoise(3), epsilon=30.0)
    right = FakeCurator(PRIVATE, noise=SeededNoise(3), epsilon=0.05)
    PmwPub(guard=0.0).run(right, PRIVATE, WORK, np.random.default_rng(0), quiet)
    assert len(wrong.events) > 2 * len(right.events)
    for curator in (wrong, right):
        assert curator.remaining <= 1e-9 * curator.rho
        rhos = [e.rho for e in curator.events[:-2]]
        assert rhos == sorted(rhos)


def test_the_guards_verdict_and_unmeasured_columns_are_remarked() -> None:
    curator, _ = fit(PmwPub(rounds=5))
    assert len(curator.events) == 11
    with pytest.warns(OpenPriorWarning, match="Not measured, so uniform in every answer and row: c"):
        fit(Mwem(rounds=2, groups=(("a", "b"),)))
