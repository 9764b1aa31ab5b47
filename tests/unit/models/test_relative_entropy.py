"""The steps of Iterative Distribution Estimation: numbers worked out by hand, and properties that must always hold."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import linprog

from openprior.models.entropy_update import project, update
from openprior.models.relative_entropy import Partial, divergence, ide


def labels(*codes: int) -> np.ndarray:
    return np.array(codes, np.int32)


def check(found: np.ndarray, *expected: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


# Definition 3.1.


def test_a_query_with_mass_is_scaled() -> None:
    # Masses .1 + .3 = .4 and .6: .1·.5/.4 = .125, .3·.5/.4 = .375, .6·.5/.6 = .5.
    check(update(np.array([0.1, 0.3, 0.6]), labels(0, 0, 1), np.array([0.5, 0.5])), 0.125, 0.375, 0.5)


def test_a_query_without_mass_is_filled_evenly() -> None:
    # Query 0 has two points: .2/2 = .1 each. Query 1 has all mass: .4·.8/1 = .32, .6·.8/1 = .48.
    p = np.array([0.0, 0.0, 0.4, 0.6])
    check(update(p, labels(0, 0, 1, 1), np.array([0.2, 0.8])), 0.1, 0.1, 0.32, 0.48)


def test_points_outside_share_the_rest_by_their_mass() -> None:
    # The rest is 1 − .6 = .4, the mass outside .2 + .6 = .8: .2·.4/.8 = .1, .6·.4/.8 = .3.
    check(update(np.array([0.2, 0.2, 0.6]), labels(0, -1, -1), np.array([0.6])), 0.6, 0.1, 0.3)


def test_points_outside_without_mass_share_the_rest_evenly() -> None:
    # The rest is 1 − .3 − .5 = .2 for two points.
    p = np.array([0.5, 0.5, 0.0, 0.0])
    check(update(p, labels(0, 1, -1, -1), np.array([0.3, 0.5])), 0.3, 0.5, 0.1, 0.1)


def test_three_cases_at_once() -> None:
    # Query 0, mass .5: .2·.3/.5 = .12, .3·.3/.5 = .18. Query 1, none, three points: .3/3 = .1.
    # Outside, mass .5, the rest 1 − .6 = .4: .1·.4/.5 = .08, .4·.4/.5 = .32.
    p = np.array([0.2, 0.0, 0.3, 0.1, 0.0, 0.0, 0.4])
    found = update(p, labels(0, 1, 0, -1, 1, 1, -1), np.array([0.3, 0.3]))
    check(found, 0.12, 0.1, 0.18, 0.08, 0.1, 0.1, 0.32)


def test_no_mass_in_a_query_nor_outside() -> None:
    # Query 0 has all mass: 1·.5/1 = .5. Query 1 has none: .2. Outside none, four points: .3/4 = .075.
    p = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    check(update(p, labels(0, 1, -1, -1, -1, -1), np.array([0.5, 0.2])), 0.5, 0.2, 0.075, 0.075, 0.075, 0.075)


def test_a_point_without_mass_stays_so_beside_others() -> None:
    # .4·.7/.4 = .7; its neighbour in the query has 0·.7/.4 = 0. Outside: .6·.3/.6 = .3 and 0.
    p = np.array([0.4, 0.0, 0.6, 0.0])
    check(update(p, labels(0, 0, -1, -1), np.array([0.7])), 0.7, 0.0, 0.3, 0.0)


def test_an_answer_of_zero_empties_its_query() -> None:
    check(update(np.array([0.4, 0.6]), labels(0, 1), np.array([0.0, 1.0])), 0.0, 1.0)


def test_shares_below_one_are_scaled_if_no_point_can_take_the_rest() -> None:
    # .2 and .6 sum to .8; scaled they are .25 and .75. Query 2 has no point, so its .1 is nowhere.
    p = np.array([0.5, 0.25, 0.25])
    check(update(p, labels(0, 1, 1), np.array([0.2, 0.6, 0.1])), 0.25, 0.375, 0.375)
    check(update(p, labels(0, 1, 1), np.array([0.0, 0.0, 1.0])), *p)


@pytest.mark.parametrize("seed", range(30))
def test_an_update_is_a_distribution_with_the_asked_shares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 40)), int(rng.integers(1, 6))
    p = rng.dirichlet(np.full(n, 0.3)) * (rng.random(n) < 0.6)
    p[0] += 1e-9
    p /= p.sum()
    where = rng.integers(-1, k, n).astype(np.int32)
    where[:k], where[k : k + 1] = np.arange(k)[:n], -1
    alive = np.isin(np.arange(k), where)
    y = rng.dirichlet(np.ones(k + 1))[:k] * alive
    q = update(p, where, y if (where < 0).any() else y / y.sum())
    assert q.min() >= 0
    assert q.sum() == pytest.approx(1, abs=1e-13)
    found = np.array([q[where == i].sum() for i in range(k)])
    np.testing.assert_allclose(found, y if (where < 0).any() else y / y.sum(), atol=1e-13)


# Projection.


@pytest.mark.parametrize(
    ("answers", "mass", "expected"),
    [
        # Above 1: y = min(c, t·m). t = 1 gives (.5, .5), both below c.
        ((0.8, 0.6), (0.5, 0.5), (0.5, 0.5)),
        # The second is full at .6 (.9·t > .6), so .1·t = .4: t = 4.
        ((0.8, 0.6), (0.1, 0.9), (0.4, 0.6)),
        # A negative answer is 0. Σc = 1.2; the third is full at .5, so .3·t = .5: t = 5/3, and .5·t > .5.
        ((-0.4, 0.7, 0.5), (0.2, 0.3, 0.5), (0.0, 0.5, 0.5)),
        # Huge answers: all in one query, then in proportion to the masses.
        ((1e300, 0.2, -1e300), (0.5, 0.25, 0.25), (0.8, 0.2, 0.0)),
        ((1e300, 1e300, -1e300), (0.5, 0.25, 0.25), (2 / 3, 1 / 3, 0.0)),
    ],
)
def test_shares_above_one_are_cut(
    answers: tuple[float, ...], mass: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    """Cut alike whether or not the queries cover the domain: all of Σy = 1 is used."""
    for covers in (True, False):
        check(project(np.array(answers), np.array(mass), covers), *expected)


@pytest.mark.parametrize(
    ("answers", "mass", "expected"),
    [
        # Below 1: y = max(c, t·m). t = 1 gives (.5, .5), both above c.
        ((0.2, 0.3), (0.5, 0.5), (0.5, 0.5)),
        # .1·t stays below .2, so .9·t = .8.
        ((0.2, 0.3), (0.1, 0.9), (0.2, 0.8)),
        # c = (0, .3, .5): the third keeps .5, the others have .5 to share as 2 : 3, which gives .2 and .3.
        ((-0.9, 0.3, 0.5), (0.2, 0.3, 0.5), (0.2, 0.3, 0.5)),
        # As 3 : 1 for the first two (.45, .15) the second would fall below .3: .3 + .5 stay, .2 is left.
        ((-0.9, 0.3, 0.5), (0.6, 0.2, 0.2), (0.2, 0.3, 0.5)),
        # Nothing was said: the masses stay.
        ((-1.0, 0.0, -3.0), (0.2, 0.3, 0.5), (0.2, 0.3, 0.5)),
    ],
)
def test_shares_below_one_are_filled_if_the_queries_cover_the_domain(
    answers: tuple[float, ...], mass: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    check(project(np.array(answers), np.array(mass), True), *expected)
    check(project(np.array(answers), np.array(mass), False), *np.maximum(answers, 0))


def test_shares_that_are_right_stay() -> None:
    y = np.array([0.25, 0.0, 0.75])
    for covers in (True, False):
        check(project(y, np.array([0.1, 0.8, 0.1]), covers), *y)
    check(project(np.array([0.3, 0.6]), np.array([0.1, 0.1]), False), 0.3, 0.6)


@pytest.mark.parametrize(
    ("answers", "mass", "expected"),
    [
        # Below 1: no more than its answer for the one without mass.
        ((0.3, 0.2), (0.0, 1.0), (0.3, 0.7)),
        # Above 1: nothing for it if the other can take all; else what is left, 1 − .9.
        ((0.6, 1.4), (0.0, 1.0), (0.0, 1.0)),
        ((0.6, 0.9), (0.0, 1.0), (0.1, 0.9)),
        # .3 is left for two without mass, evenly: min(.05, t) + min(.6, t) = .3 at t = .25.
        ((0.05, 0.6, 0.7), (0.0, 0.0, 1.0), (0.05, 0.25, 0.7)),
        # A mass too small to divide by is none.
        ((0.6, 0.9), (1e-310, 1.0), (0.1, 0.9)),
        # A small one is not: min(.6, 1e-200·t) with t = 1e199 takes the .1 that is left.
        ((0.6, 0.9), (1e-200, 1.0), (0.1, 0.9)),
        ((0.6, 0.2), (1e-200, 0.5), (0.6, 0.4)),
    ],
)
def test_queries_without_mass_come_last(
    answers: tuple[float, ...], mass: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    check(project(np.array(answers), np.array(mass), True), *expected)


def test_queries_without_mass_share_by_their_points() -> None:
    # .3 is left: t + 3·t = .3 at t = .075.
    found = project(np.array([0.2, 0.6, 0.7]), np.array([0.0, 0.0, 1.0]), True, np.array([1, 3, 5]))
    check(found, 0.075, 0.225, 0.7)
    # No mass at all (no distribution has that): as if it were even over the points.
    check(project(np.array([0.1, 0.1]), np.zeros(2), True, np.array([1, 4])), 0.2, 0.8)


def test_queries_without_points_get_nothing() -> None:
    # Of .5, dead, .1: max(.5, .6·t) + max(.1, .4·t) = 1 at t = 1.
    found = project(np.array([0.5, 0.4, 0.1]), np.array([0.6, 0.0, 0.4]), True, np.array([1, 0, 2]))
    check(found, 0.6, 0.0, 0.4)
    # Cut: .9 and .6 are above 1 without the dead one; as 1 : 1, .5 each.
    found = project(np.array([0.9, 7.0, 0.6]), np.array([0.5, 0.0, 0.5]), False, np.array([1, 0, 2]))
    check(found, 0.5, 0.0, 0.5)


def least_l1(answers: np.ndarray, covers: bool) -> float:
    """min ‖y − answers‖₁ by linear programming, over (y, distance)."""
    k = len(answers)
    a_ub = np.vstack([np.hstack([np.eye(k), -np.eye(k)]), np.hstack([-np.eye(k), -np.eye(k)])])
    b_ub = np.concatenate([answers, -answers])
    total = np.concatenate([np.ones(k), np.zeros(k)])[None]
    cost = np.concatenate([np.zeros(k), np.ones(k)])
    if covers:
        return float(linprog(cost, A_ub=a_ub, b_ub=b_ub, A_eq=total, b_eq=[1.0]).fun)
    return float(linprog(cost, A_ub=np.vstack([a_ub, total]), b_ub=np.append(b_ub, 1.0)).fun)


def random_projection(seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 9))
    answers = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0]))) + rng.choice([0.0, 0.05, 0.7]) * rng.laplace(
        size=k
    )
    mass = rng.dirichlet(np.full(k, 0.5)) * (rng.random(k) < 0.8)
    mass = mass / mass.sum() if mass.sum() > 0 else np.full(k, 1 / k)
    return answers, mass, bool(rng.random() < 0.6)


@pytest.mark.parametrize("seed", range(60))
def test_a_projection_is_a_minimiser_and_the_nearest_one(seed: int) -> None:
    answers, mass, covers = random_projection(seed)
    if not covers:
        mass = mass * 0.8
    y = project(answers, mass, covers)
    assert y.min() >= 0
    assert y.sum() == pytest.approx(1, abs=1e-12) if covers else y.sum() <= 1 + 1e-12
    least = least_l1(answers, covers)
    assert np.abs(y - answers).sum() == pytest.approx(least, abs=1e-9)
    if y.sum() < 1 - 1e-12:
        return  # the only minimiser
    # Other minimisers: moves of mass between two queries that keep the distance, and projections for other masses.
    rng = np.random.default_rng(seed)
    ours = kl_to_mass(y, mass)
    for _ in range(50):
        other = project(answers, rng.dirichlet(np.ones(len(y))), covers)
        other = y + rng.choice([1e-3, 0.1, 1.0]) * (other - y)
        i, j = rng.integers(0, len(y), 2)
        move = min(other[j], 10.0 ** rng.uniform(-6, 0))
        moved = other.copy()
        moved[i] += move
        moved[j] -= move
        for z in (other, moved):
            if np.abs(z - answers).sum() <= least + 1e-12 and z.min() >= 0:
                assert kl_to_mass(z, mass) >= ours - 1e-9


def kl_to_mass(y: np.ndarray, mass: np.ndarray) -> float:
    """Relative entropy, with a small mass in place of none: how much is there comes first, then how evenly."""
    return divergence(y, np.where(mass > 0, mass, 1e-30))


# The iteration.

NEAR = Partial(labels(0, 0, 1, 1), np.array([0.3, 0.7]), True)
ACROSS = Partial(labels(0, 1, 0, 1), np.array([0.6, 0.4]), True)
AGAINST = Partial(labels(0, 0, 1, 1), np.array([0.5, 0.5]), True)
PRIOR = np.array([0.1, 0.2, 0.3, 0.4])


def test_one_marginal_is_done_at_once() -> None:
    # Masses .3 and .7 are the answers already; then .6 and .4 of the columns: .4 and .6 have to become that.
    q, report = ide(PRIOR, [NEAR], np.random.default_rng(0))
    check(q, *PRIOR)
    assert report.converged
    assert (report.updates, report.epochs, report.cycling, report.averaged) == (1, 1, False, False)
    q, report = ide(PRIOR, [ACROSS], np.random.default_rng(0))
    check(q, 0.15, 0.2 * 2 / 3, 0.45, 0.4 * 2 / 3)
    assert (report.updates, report.epochs, report.converged) == (2, 2, True)
    # .6·log(.6/.4) + .4·log(.4/.6)
    assert report.divergence == pytest.approx(0.2 * math.log(1.5))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 20])
def test_exactly_so_many_updates(count: int) -> None:
    """Each update is the projection and Definition 3.1 in the order that the generator gives."""
    rng = np.random.default_rng(5)
    partials = [NEAR, ACROSS, Partial(labels(0, -1, -1, -1), np.array([0.25]), False)]
    q, report = ide(PRIOR, partials, np.random.default_rng(5), updates=count)
    by_hand, order = PRIOR.copy(), []
    while len(order) < count:
        order += rng.permutation(3).tolist()
    for i in order[:count]:
        mass = np.array([by_hand[partials[i].labels == a].sum() for a in range(len(partials[i].answers))])
        y = project(partials[i].answers, mass, partials[i].covers)
        by_hand = update(by_hand, partials[i].labels, y)
    np.testing.assert_allclose(q, by_hand, rtol=1e-12)
    assert (report.updates, report.epochs) == (count, math.ceil(count / 3))
    assert not report.cycling
    assert not report.averaged


def loss_of(q: np.ndarray, partials: list[Partial]) -> float:
    return float(
        sum(
            abs(q[p.labels == i].sum() - answer)
            for p in partials
            for i, answer in enumerate(p.answers.tolist())
        )
    )


def test_convergence_is_said_when_it_is_true() -> None:
    partials = [NEAR, ACROSS]
    q, report = ide(PRIOR, partials, np.random.default_rng(0))
    assert report.converged
    assert not report.cycling
    assert report.moved < 1e-9
    assert report.loss == pytest.approx(loss_of(q, partials), abs=1e-12) == pytest.approx(0, abs=1e-8)
    assert len(report.losses) == report.epochs == report.updates // 2
    # With two answers that agree there is one more degree of freedom, the odds ratio, and it stays the prior's.
    assert q[0] * q[3] / (q[1] * q[2]) == pytest.approx(0.1 * 0.4 / (0.2 * 0.3), rel=1e-6)
    again, after = ide(q, partials, np.random.default_rng(1))
    assert after.epochs == 1
    np.testing.assert_allclose(again, q, atol=1e-8)


def test_too_few_epochs_are_neither() -> None:
    _, report = ide(PRIOR, [NEAR, ACROSS], np.random.default_rng(0), most_epochs=2)
    assert (report.epochs, report.converged, report.cycling) == (2, False, False)
    assert report.moved > 1e-9
    _, report = ide(PRIOR, [NEAR, ACROSS], np.random.default_rng(0), updates=3)
    assert not report.converged
    _, report = ide(PRIOR, [NEAR, ACROSS], np.random.default_rng(0), updates=300)
    assert report.converged


def test_cycling_is_said_when_answers_contradict_each_other() -> None:
    partials = [NEAR, AGAINST, ACROSS]
    q, report = ide(PRIOR, partials, np.random.default_rng(0))
    assert report.cycling
    assert not report.converged
    assert report.epochs < 200
    # Updates between (.3, .7) and (.5, .5) move .4 in L1, for ever.
    assert report.moved == pytest.approx(0.4, abs=0.05)
    assert report.loss == pytest.approx(loss_of(q, partials), abs=1e-12)
    # Everything between the two has a loss of .4; the mean of the iterates is between them.
    assert report.loss == pytest.approx(0.4, abs=0.02)
    assert q.sum() == pytest.approx(1)


def test_slow_convergence_is_not_called_cycling() -> None:
    """Answers that leave a point without mass though none of them is 0: one over the epochs is all the speed there is.

    Both columns' marginals agree with the single cell (0, 0) only if (0, 1) is empty.
    """
    corner = Partial(labels(0, -1, -1, -1), np.array([0.3]), False)
    for seed in range(5):
        _, report = ide(PRIOR, [NEAR, ACROSS, corner], np.random.default_rng(seed), most_epochs=400)
        assert not report.cycling
        assert report.losses[-1] < 0.1 * report.losses[5]


def test_the_mean_is_taken_only_if_it_is_better() -> None:
    better = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        where = [rng.integers(0, 5, 30).astype(np.int32) for _ in range(6)]
        partials = [Partial(w, rng.dirichlet(np.ones(5)), True) for w in where]
        q, report = ide(np.ones(30), partials, rng)
        assert report.loss <= report.losses[-1] + 1e-12
        assert report.averaged or report.loss == pytest.approx(report.losses[-1], abs=1e-12)
        assert not report.averaged or report.cycling
        assert report.loss == pytest.approx(loss_of(q, partials), abs=1e-12)
        better += report.loss < report.losses[-1] - 1e-3
    assert better > 5


# Traps.


def test_no_prior_mass_stays_none_where_the_query_has_some() -> None:
    prior = np.array([0.1, 0.0, 0.3, 0.6])
    q, report = ide(prior, [NEAR, ACROSS], np.random.default_rng(0))
    assert q[1] == 0
    assert report.converged
    # Column 1 then is point 3 alone: .4, and the rest follows: row 0 is point 0 alone.
    check(np.round(q, 8), 0.3, 0.0, 0.3, 0.4)
    assert math.isfinite(report.divergence)


def test_mass_appears_where_answers_ask_for_it_and_the_divergence_says_so() -> None:
    prior = np.array([0.0, 0.0, 0.5, 0.5])
    q, report = ide(prior, [NEAR], np.random.default_rng(0))
    check(q, 0.15, 0.15, 0.35, 0.35)
    assert report.divergence == math.inf


@pytest.mark.parametrize("tiny", [1e-12, 1e-160, 1e-305, 1e-310, 5e-324])
def test_tiny_masses(tiny: float) -> None:
    prior = np.array([tiny, tiny, 0.5, 0.5])
    q, report = ide(prior, [NEAR, ACROSS], np.random.default_rng(0))
    assert np.isfinite(q).all()
    assert q.sum() == pytest.approx(1, abs=1e-12)
    assert report.loss == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("answer", [-2.0, 0.0, 0.4, 1.0, 3.0, 1e300])
def test_a_single_query(answer: float) -> None:
    share = min(max(answer, 0.0), 1.0)
    q, report = ide(
        PRIOR, [Partial(labels(0, 0, -1, -1), np.array([answer]), False)], np.random.default_rng(0)
    )
    check(q, *(PRIOR * np.repeat([share / 0.3, (1 - share) / 0.7], 2)))
    assert report.converged
    assert report.loss == pytest.approx(abs(answer - share))
    # One query of everything can only say 1.
    q, report = ide(PRIOR, [Partial(labels(0, 0, 0, 0), np.array([answer]), True)], np.random.default_rng(0))
    check(q, *PRIOR)


def test_queries_that_hold_nothing_change_nothing() -> None:
    nothing = Partial(labels(-1, -1, -1, -1), np.array([0.3, -0.1]), False)
    q, report = ide(PRIOR, [nothing], np.random.default_rng(0))
    check(q, *PRIOR)
    assert report.converged
    assert report.loss == pytest.approx(0.4)
    q, report = ide(PRIOR, [], np.random.default_rng(0))
    check(q, *PRIOR)
    assert (report.updates, report.epochs, report.loss, report.converged) == (0, 0, 0.0, True)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6, 1e300])
def test_answers_that_say_nothing_or_too_much(scale: float) -> None:
    for sign in (-1, 1):
        partials = [Partial(p.labels, sign * scale * np.ones(2), True) for p in (NEAR, ACROSS)]
        q, report = ide(PRIOR, partials, np.random.default_rng(0))
        check(q, *PRIOR)  # equal answers are above or below by the same: the prior is as good as any
        assert report.converged


def test_a_partial_that_covers_the_points_but_not_the_domain() -> None:
    """Query 2 holds points that are not of the support: on the support the others must sum to 1."""
    partial = Partial(labels(0, 0, 1, 1), np.array([0.3, 0.5, 0.2]), False)
    q, report = ide(PRIOR, [partial], np.random.default_rng(0))
    check(q, *PRIOR)  # .3 and .7 are nearest to (.3, .5)
    assert report.loss == pytest.approx(0.4)


def test_what_makes_no_sense_is_refused() -> None:
    rng = np.random.default_rng(0)
    for prior in ([0.0, 0.0, 0.0, 0.0], [np.nan, 1, 1, 1], [-0.1, 1, 1, 1], [np.inf, 1, 1, 1]):
        with pytest.raises(ValueError, match="prior"):
            ide(np.array(prior), [NEAR], rng)
    for wrong, match in (
        (Partial(labels(0, 0, 1), np.array([0.3, 0.7]), True), "3 labels for 4 points"),
        (Partial(labels(0, 0, 1, 2), np.array([0.3, 0.7]), True), "label"),
        (Partial(labels(0, 0, 1, -2), np.array([0.3, 0.7]), False), "label"),
        (Partial(labels(0, 0, 1, 1), np.array([0.3, np.nan]), True), "finite"),
        (Partial(labels(0, 0, 1, -1), np.array([0.3, 0.7]), True), "covers"),
    ):
        with pytest.raises(ValueError, match=match):
            ide(PRIOR, [NEAR, wrong], rng)


def test_nothing_given_is_changed() -> None:
    prior, answers = PRIOR.copy(), ACROSS.answers.copy()
    ide(prior, [NEAR, ACROSS], np.random.default_rng(0))
    update(prior, ACROSS.labels, ACROSS.answers)
    project(answers, np.array([0.5, 0.5]), True)
    check(prior, *PRIOR)
    check(answers, *ACROSS.answers)


@pytest.mark.parametrize("updates", [1, 5, 6, 17])
def test_draws_are_independent_as_published(updates: int) -> None:
    """Algorithm 1 by hand: T times any of the partials, whatever came before."""
    rng = np.random.default_rng(5)
    prior = rng.dirichlet(np.ones(40))
    partials = [
        Partial(rng.integers(0, 4, 40).astype(np.int32), rng.dirichlet(np.ones(4)), True) for _ in range(3)
    ]
    q, report = ide(prior, partials, np.random.default_rng(9), updates=updates, drawn=True)
    again, by_hand = np.random.default_rng(9), prior / prior.sum()
    left, visits = updates, []
    while left > 0:
        visits += again.integers(3, size=3)[:left].tolist()
        left -= 3
    for i in visits:
        mass = np.bincount(partials[i].labels, by_hand, minlength=4)
        by_hand = update(by_hand, partials[i].labels, project(partials[i].answers, mass, True))
    np.testing.assert_allclose(q, by_hand, rtol=1e-9)
    assert (report.updates, report.converged) == (updates, False)
    if updates == 17:
        assert sorted(visits[:3]) != [0, 1, 2] or sorted(visits[3:6]) != [
            0,
            1,
            2,
        ]  # an order would have each once


def test_draws_converge_to_what_orders_converge_to() -> None:
    """And say so only when every partial was seen to move nothing."""
    for seed in range(6):
        drawn, report = ide(PRIOR, [NEAR, ACROSS], np.random.default_rng(seed), drawn=True)
        ordered, _ = ide(PRIOR, [NEAR, ACROSS], np.random.default_rng(seed))
        assert report.converged
        np.testing.assert_allclose(drawn, ordered, atol=1e-8)


def test_threads_change_nothing() -> None:
    """The same problems one after the other and side by side give the same bits."""

    def solve(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        prior = rng.dirichlet(np.ones(400))
        partials = []
        for _ in range(6):
            where = rng.integers(0, 12, 400).astype(np.int32)
            partials.append(Partial(where, rng.dirichlet(np.ones(12)) + 0.01 * rng.normal(size=12), True))
        return ide(prior, partials, rng)[0]

    alone = [solve(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(solve, range(12)))
    np.testing.assert_array_equal(alone, together)
