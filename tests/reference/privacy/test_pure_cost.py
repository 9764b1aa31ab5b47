"""What ε-DP steps and Laplace noise cost in ρ, against divergences that are summed up term by term.

Where a number moves by d, discrete Laplace noise of scale s has the losses d/s, (d − 2)/s, …, −d/s, with all outcomes
beyond either end in the first and the last: D_α is a sum of d + 1 terms, for which nothing of the privacy room is used.
"""

import dataclasses
import itertools
import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as dpe
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_discrete_laplace_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openprior.errors import ReleaseError
from openprior.privacy.calibrate import budget_rho, epsilon_from_rho, laplace_rho, laplace_scale
from openprior.privacy.events import Candidates, Event, Gaussian, Laplace, PermuteAndFlip
from openprior.privacy.pure_cost import pure_epsilon, pure_epsilon_above, pure_rho
from openprior.privacy.statistics import CellCount, Counts
from openprior.privacy.unit import Relation, Unit
from openprior.releases.certificate import FORMAT, Certificate

Floats = NDArray[np.float64]

ALPHAS = np.concatenate([1 + np.logspace(-4, 0, 40), np.logspace(0.31, 6, 80)])
UNITS = [1e-3, 0.03, 0.3, 1.0, 2.4, 5.0, 30.0]
"""1/scale."""


def losses(unit: float, d: int) -> tuple[Floats, Floats]:
    """Losses of noise of scale 1/unit on a number that moves by d, and the logarithms of their probabilities."""
    inside = np.arange(1, d)
    log_tail = -math.log1p(math.exp(-unit))
    log_peak = math.log(-math.expm1(-unit)) + log_tail
    values = np.array([d, *(d - 2 * inside), -d]) * unit
    return values, np.array([log_tail, *(log_peak - unit * inside), log_tail - unit * d])


def worst(*pairs: tuple[Floats, Floats]) -> float:
    """The largest D_α/α of independent pairs; at α = 1, the Kullback-Leibler divergence."""
    divergence = sum(float(np.exp(logs) @ values) for values, logs in pairs)
    total = np.zeros(len(ALPHAS))
    for values, logs in pairs:
        total += np.logaddexp.reduce(logs + np.multiply.outer(ALPHAS - 1, values), axis=1)
    return max(divergence, float(np.max((total - 1e-14) / (ALPHAS * (ALPHAS - 1)))))


def test_the_losses_are_those_of_the_outcomes() -> None:
    """Enumerated once outcome by outcome."""
    for unit, d in itertools.product((0.3, 1.0, 2.4), (1, 2, 5)):
        k = np.arange(-400, 401)
        p = np.exp(-unit * np.abs(k)) * -math.expm1(-unit) / (1 + math.exp(-unit))
        gap = unit * (np.abs(k - d) - np.abs(k))
        values, logs = losses(unit, d)
        assert np.exp(logs).sum() == pytest.approx(1, rel=1e-12)
        for power in (0.5, 1.0, 3.0):
            assert np.exp(logs + power * values).sum() == pytest.approx((p * np.exp(power * gap)).sum())


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_that_moves_by_one_costs_just_what_it_is_charged(unit: float) -> None:
    charged = laplace_rho(1, 1, 1 / unit)
    assert worst(losses(unit, 1)) <= charged * (1 + 1e-12)
    assert worst(losses(unit, 1)) == pytest.approx(charged, rel=1e-9)
    # Nine tenths would be too little, and so would the cost of continuous noise; ε²/2 was more than is due.
    assert worst(losses(unit, 1)) > 0.9 * charged
    assert charged <= unit**2 / 2


@pytest.mark.parametrize("unit", [0.3, 1.0, 2.4, 5.0])
def test_the_cost_of_continuous_noise_is_too_little_for_whole_numbers(unit: float) -> None:
    continuous = unit + math.exp(-unit) - 1
    assert worst(losses(unit, 1)) > 1.01 * continuous
    # Where a person moves a number by many scales and more, the two are alike.
    assert worst(losses(unit / 100, 100)) == pytest.approx(continuous, rel=1e-3)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("d", [2, 3, 7, 40])
def test_a_number_that_moves_by_more_costs_no_more_than_it_is_charged(unit: float, d: int) -> None:
    assert worst(losses(unit, d)) <= laplace_rho(d, d, 1 / unit) * (1 + 1e-12)


@pytest.mark.parametrize("unit", [0.01, 0.3, 1.0, 2.4, 6.0])
@pytest.mark.parametrize(("l1", "largest"), [(2, 1), (4, 2), (6, 3), (6, 2), (5, 5), (5, 2), (3, 1)])
def test_no_vector_within_the_sensitivity_costs_more(l1: int, largest: int, unit: float) -> None:
    """Every way to move some numbers by L1 in all, and none by more than L∞."""
    charged = laplace_rho(l1, largest, 1 / unit)
    ways = [v for v in itertools.product(range(largest + 1), repeat=l1) if 0 < sum(v) <= l1]
    costs = {tuple(sorted(v)): 0.0 for v in ways}
    for v in costs:
        costs[v] = worst(*(losses(unit, d) for d in v if d))
    assert max(costs.values()) <= charged * (1 + 1e-12)
    if largest == 1:  # then it is exact
        assert max(costs.values()) == pytest.approx(charged, rel=1e-9)
        assert charged == pytest.approx(l1 * unit * math.tanh(unit / 2), rel=1e-12)
        # A number that moves by all of L1 costs more than that: L∞ must be right.
        assert worst(losses(unit, l1)) > charged


def test_two_cells_of_a_marginal_cost_much_less_than_any_step_of_their_epsilon() -> None:
    for epsilon in (0.1, 1.0, 3.0):
        noise = Laplace(statistic=Counts(("a",)), scale=2 / epsilon, rho=1.0)
        assert noise.cost(Unit(), pure=True) == epsilon
        assert noise.cost(Unit(), pure=False) == pytest.approx(epsilon * math.tanh(epsilon / 4))
        assert noise.cost(Unit(), pure=False) < 0.56 * pure_rho(epsilon) or epsilon > 1
        many = dataclasses.replace(noise, scale=10 / epsilon).cost(Unit(rows_per_person=5), pure=False)
        assert many == pytest.approx(epsilon * math.tanh(epsilon / 4))


# Rounding.


def exactly(epsilon: float) -> Fraction:
    """ε·tanh(ε/2) to eighty digits, or more where e^ε is near 1."""
    with localcontext() as context:
        context.prec = 80 + 2 * max(0, -math.floor(math.log10(epsilon)))
        context.Emin, context.Emax = -(10**9), 10**9
        x = Decimal(epsilon)
        y = (-x).exp()
        return Fraction(x * (1 - y) / (1 + y))


AWKWARD = [5e-324, 1e-160, 1e-25, 0.9e-20, 1e-20, 1.1e-20, 1e-12, 1e-9, 2.4, 99.99, 100.0, 100.1, 500.0, 1e6]


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-30, 1e4))
def test_a_cost_is_rounded_up_by_no_more_than_the_last_bit(epsilon: float) -> None:
    cost = pure_rho(epsilon)
    assert Fraction(math.nextafter(cost, 0.0)) < exactly(epsilon) <= Fraction(cost)
    assert cost <= epsilon
    assert pure_rho(math.nextafter(epsilon, math.inf)) >= cost


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-60, 1e4))
def test_what_a_cost_buys_is_rounded_down_by_no_more_than_the_last_bit(rho: float) -> None:
    epsilon = pure_epsilon(rho)
    above = math.nextafter(epsilon, math.inf)
    assert exactly(epsilon) <= Fraction(rho) < exactly(above)
    assert above == pure_epsilon_above(rho)
    assert pure_epsilon(math.nextafter(rho, math.inf)) >= epsilon
    assert math.sqrt(2 * rho) <= above


@pytest.mark.parametrize("epsilon", AWKWARD)
def test_extremes(epsilon: float) -> None:
    cost = pure_rho(epsilon)
    assert 0 < cost <= max(epsilon, 5e-324)
    assert exactly(epsilon) <= Fraction(cost)
    assert pure_epsilon(cost) >= epsilon or cost == 5e-324
    assert exactly(pure_epsilon(epsilon)) <= Fraction(epsilon)


def test_nothing_costs_nothing() -> None:
    assert pure_rho(0.0) == pure_epsilon(0.0) == pure_epsilon_above(0.0) == 0.0
    assert pure_epsilon(math.inf) == math.inf


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(1e-6, 50), min_size=1, max_size=6))
def test_steps_together_cost_no_more_than_one_of_their_sum(epsilons: list[float]) -> None:
    """So runs of a pure budget, whose ε add up, also fit its ρ."""
    total = sum(map(Fraction, epsilons))
    assert sum(map(pure_rho, epsilons)) <= pure_rho(total) * (1 + 1e-14)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-12, 50), st.integers(1, 1000), st.integers(1, 1000))
def test_scales_and_costs_of_laplace_noise(rho: float, l1: int, largest: int) -> None:
    largest = min(l1, largest)
    scale = laplace_scale(l1, largest, rho)
    assert laplace_rho(l1, largest, scale) == pytest.approx(rho, rel=1e-13)
    # The sampler's scale is a hair larger (noise.py), which pays for all rounding here.
    used = scale * (1 + 2**-50)
    assert exactly(largest / used) * l1 / largest <= Fraction(rho) * (1 + Fraction(1, 2**52))
    assert scale <= laplace_scale(l1, l1, rho) * (1 + 1e-15)


# Others.


@pytest.mark.parametrize("times", [1, 5, 40])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_a_composed_run_is_not_understated(epsilon: float, times: int) -> None:
    """Beside the tight privacy loss distribution of so many steps of randomised response, by another library."""
    pld = PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-4)
    flip = 2 / (1 + math.exp(epsilon))  # of two buckets: keeps its own with e^ε/(1 + e^ε)
    pld.compose(dpe.RandomizedResponseDpEvent(flip, 2), times)
    for delta in (1e-3, 1e-6, 1e-9):
        tight = pld.get_epsilon(delta)
        ours = epsilon_from_rho(times * pure_rho(epsilon), delta)
        assert tight <= ours * (1 + 1e-3) + 1e-3
        assert ours < epsilon_from_rho(times * epsilon**2 / 2, delta)


@pytest.mark.parametrize("marginals", [1, 10, 60])
@pytest.mark.parametrize(("scale", "rows"), [(0.7, 1), (4.0, 1), (20.0, 1), (20.0, 5)])
def test_a_run_of_laplace_noise_is_not_understated(scale: float, rows: int, marginals: int) -> None:
    """The same of marginals: two cells move by one person's rows each."""
    cell = from_discrete_laplace_mechanism(1 / scale, sensitivity=rows, value_discretization_interval=1e-4)
    tight = cell.self_compose(2 * marginals)
    noise = Laplace(statistic=Counts(("a",)), scale=scale, rho=1.0)
    rho = marginals * noise.cost(Unit(rows_per_person=rows), pure=False)
    for delta in (1e-3, 1e-6, 1e-9):
        assert tight.get_epsilon_for_delta(delta) <= epsilon_from_rho(rho, delta) * (1 + 1e-3) + 1e-3
    # Half as much would be understated.
    if rows == 1 and marginals == 60:
        assert tight.get_epsilon_for_delta(1e-6) > epsilon_from_rho(rho / 2, 1e-6)


# Certificates.


def certificate(events: tuple[Event, ...], *, format: int = FORMAT, **more: float) -> Certificate:
    """Of a run with these events; what it says of sums is right unless told otherwise."""
    epsilon, delta = more.pop("epsilon", 9.0), more.pop("delta", 1e-9)
    spent = float(sum(Fraction(e.rho) for e in events))
    values = {
        "rho": budget_rho(epsilon, delta),
        "rho_spent": spent,
        "epsilon_spent": epsilon_from_rho(spent, delta) if delta else 0.0,
        **more,
    }
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        relation=str(Relation.REPLACE_ONE),
        rows_per_person=1,
        noise="secure",
        mechanism="test",
        options={},
        dataset="d",
        run="r",
        schema_hash="",
        created="2026-01-01T00:00:00+00:00",
        versions=dict.fromkeys(("python", "openprior", "opendp", "numpy", "pyarrow"), "0"),
        events=events,
        format=format,
        **values,
    )


def asked(former: bool) -> tuple[Event, ...]:
    """One of each kind of event at the cost of these versions, or of former ones."""
    bare: tuple[Event, ...] = (
        Laplace(statistic=Counts(("a",)), scale=4.0, rho=1.0),
        Laplace(statistic=CellCount(("a",), 0), scale=2.0, rho=1.0),
        PermuteAndFlip(candidates=Candidates(5, "cells"), epsilon=0.4, rho=1.0),
        Gaussian(statistic=Counts(("a",)), sigma=10.0, rho=1.0),
    )
    return tuple(dataclasses.replace(e, rho=e.cost(Unit(), pure=False, former=former)) for e in bare)


def test_a_certificate_of_a_former_version_still_checks() -> None:
    for format in (2, 3):
        old = certificate(asked(former=True), format=format)
        old.recheck()
        Certificate.from_json(old.to_json()).recheck()
    assert [e.rho for e in asked(former=True)] == pytest.approx([0.125, 0.125, 0.08, 0.01])
    assert sum(e.rho for e in asked(former=False)) < 0.81 * sum(e.rho for e in asked(former=True))


def test_costs_of_one_version_do_not_pass_for_another() -> None:
    certificate(asked(former=False)).recheck()
    for former, format in ((False, 2), (False, 3), (True, FORMAT)):
        with pytest.raises(ReleaseError, match="but was charged"):
            certificate(asked(former), format=format).recheck()
    # Nor do some of the one and some of the other.
    mixed = (*asked(former=True)[:1], *asked(former=False)[1:])
    for format in (3, FORMAT):
        with pytest.raises(ReleaseError, match="but was charged"):
            certificate(mixed, format=format).recheck()


@pytest.mark.parametrize("format", [3, FORMAT])
@pytest.mark.parametrize("number", range(3))
def test_an_understated_cost_is_seen(number: int, format: int) -> None:
    events = list(asked(former=format < FORMAT))
    for factor in (0.9, 0.999, 1 - 1e-8):
        low = dataclasses.replace(events[number], rho=events[number].rho * factor)
        forged = (*events[:number], low, *events[number + 1 :])
        with pytest.raises(ReleaseError, match="but was charged"):
            certificate(forged, format=format).recheck()
    with pytest.raises(ReleaseError, match="add up to"):
        certificate(tuple(events), format=format, rho_spent=0.9 * sum(e.rho for e in events)).recheck()
    # Less noise for the same cost.
    if isinstance(quiet := events[0], Laplace):
        less = (dataclasses.replace(quiet, scale=0.9 * quiet.scale), *events[1:])
        with pytest.raises(ReleaseError, match="but was charged"):
            certificate(less, format=format).recheck()


def test_pure_certificates_of_both_kinds() -> None:
    steps = (0.25, 0.5)
    for former in (False, True):
        cost = (lambda e: e * e / 2) if former else pure_rho
        events = tuple(Laplace(statistic=Counts(("a",)), scale=2 / e, rho=cost(e)) for e in steps)
        right = {
            "epsilon": 1.0,
            "delta": 0.0,
            "epsilon_spent": 0.75,
            "rho_spent": cost(0.75),
            "rho": cost(1.0),
        }
        form, other = (3, FORMAT) if former else (FORMAT, 3)
        made = certificate(events, format=form, **right)
        made.recheck()
        Certificate.from_json(made.to_json()).recheck()
        with pytest.raises(ReleaseError):
            certificate(events, format=other, **right).recheck()
        for wrong in ({"rho_spent": 0.9 * cost(0.75)}, {"rho": 0.9 * cost(1.0)}, {"epsilon_spent": 0.7}):
            with pytest.raises(ReleaseError):
                certificate(events, format=form, **{**right, **wrong}).recheck()


def test_the_format_of_a_certificate_cannot_be_changed_where_it_matters() -> None:
    values = json.loads(certificate(asked(former=False)).to_json())
    for format in (2, 3):
        text = json.dumps({**values, "format": format}, indent=1, ensure_ascii=False)
        with pytest.raises(ReleaseError):
            Certificate.from_json(text).recheck()
