"""Our conversions against dp-accounting and OpenDP; certificates rechecked by dp-accounting from their events alone."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dp_accounting import dp_event as dpe
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import openprior as op
from openprior.errors import OptionError, ReleaseError
from openprior.methods.base import PublicTable
from openprior.privacy.calibrate import (
    delta_from_rho,
    epsilon_from_rho,
    exponential_epsilon,
    gaussian_rho,
    gaussian_sigma_squared,
    rho_from_epsilon_delta,
)
from openprior.privacy.events import Event, Gaussian, Laplace
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.pure_cost import pure_epsilon
from openprior.privacy.statistics import CellCount, Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.releases.certificate import Certificate
from tests.conftest import random_table
from tests.formulas import pure_rho_by_hand, rho_by_hand, sensitivity_by_hand

RHOS = [1e-4, 1e-3, 0.02, 0.5, 4.0, 60.0]
DELTAS = [1e-3, 1e-6, 1e-9, 1e-15]


def orders(rho: float, delta: float) -> list[float]:
    """Rényi orders close around the best one, so that their minimum is as tight as the formula."""
    best = 1 + np.sqrt(np.log(1 / delta) / rho)
    return sorted({1 + (best - 1) * f for f in np.geomspace(0.05, 5, 3001)})


def their_epsilon(event: dpe.DpEvent, rho: float, delta: float) -> float:
    return float(RdpAccountant(orders=orders(rho, delta)).compose(event).get_epsilon(delta))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
class TestConversion:
    def test_epsilon_is_that_of_rdp(self, rho: float, delta: float) -> None:
        """The same formula, so equal: neither smaller than theirs nor larger than need be."""
        ours = epsilon_from_rho(rho, delta)
        theirs = their_epsilon(dpe.ZCDpEvent(rho), rho, delta)
        assert ours >= theirs * (1 - 1e-6)
        assert ours <= theirs * (1 + 1e-4) + 1e-9
        composed = dpe.ComposedDpEvent(
            [dpe.GaussianDpEvent(np.sqrt(1 / (2 * share * rho))) for share in (0.5, 0.3, 0.2)]
        )
        assert ours >= their_epsilon(composed, rho, delta) * (1 - 1e-6)

    def test_epsilon_is_that_of_opendp(self, rho: float, delta: float) -> None:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        sigma = gaussian_sigma_squared(1, rho) ** 0.5
        approximate = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
        assert epsilon_from_rho(rho, delta) == pytest.approx(approximate.map(1.0).epsilon(delta), rel=1e-6)

    def test_rho_is_never_too_large(self, rho: float, delta: float) -> None:
        epsilon = their_epsilon(dpe.ZCDpEvent(rho), rho, delta)
        found = rho_from_epsilon_delta(epsilon, delta)
        assert found <= rho * (1 + 1e-4)
        assert their_epsilon(dpe.ZCDpEvent(found), found, delta) <= epsilon * (1 + 1e-6)
        assert delta_from_rho(found, epsilon) <= delta
        assert epsilon_from_rho(found, delta) <= epsilon * (1 + 1e-9)

    def test_there_and_back(self, rho: float, delta: float) -> None:
        assert rho_from_epsilon_delta(epsilon_from_rho(rho, delta), delta) == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize("rho", [1e-3, 0.02, 0.5, 4.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_the_gaussian_itself_needs_no_more(rho: float, delta: float) -> None:
    """The tight privacy loss distribution of one Gaussian: ours is above it, and not by much."""
    pld = PLDAccountant(value_discretization_interval=1e-4)
    pld.compose(dpe.GaussianDpEvent(gaussian_sigma_squared(1, rho) ** 0.5))
    tight = pld.get_epsilon(delta)
    assert tight * (1 - 1e-3) - 1e-3 <= epsilon_from_rho(rho, delta) <= 1.35 * tight + 0.01


def test_scales_and_costs() -> None:
    for rho in RHOS:
        assert gaussian_rho(2, gaussian_sigma_squared(2, rho) ** 0.5) == pytest.approx(rho, rel=1e-12)
        assert exponential_epsilon(rho) ** 2 / 8 == pytest.approx(rho, rel=1e-12)
        assert pure_rho_by_hand(pure_epsilon(rho)) == pytest.approx(rho, rel=1e-12)
    assert epsilon_from_rho(0.0, 1e-9) == 0.0
    assert delta_from_rho(0.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-9), (-1, 1e-9), (np.inf, 1e-9), (np.nan, 1e-9), (1, 0), (1, 1)]
)
def test_impossible_promises_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(OptionError):
        rho_from_epsilon_delta(epsilon, delta)


# Certificates.

SIZES = {"a": 3, "b": 2, "c": 2}


def rows(n: int, seed: int) -> pa.Table:
    table = random_table(SIZES, n, seed)
    return pa.table({a: table.column(a).astype(np.int64) for a in SIZES})


PRIVATE, PUBLIC = rows(300, 1), rows(200, 2)
RUNS: list[tuple[str, Mapping[str, Any]]] = [(name, {}) for name in sorted(op.mechanisms())]
RUNS += [("pmw-pub", {"selection": "permute-and-flip", "noise": "laplace", "rounds": 3})]
RUNS += [("mwem", {"selection": "permute-and-flip", "noise": "laplace", "rounds": 3})]
RUNS += [("pmw-pub", {"rounds": 3, "sharp": False})]
RUNS += [("mwem", {"noise": "laplace", "calibration": "advanced", "rounds": 3, "start_counts": 0.3})]
RUNS += [("mwem", {"support": 5, "rounds": 3})]
RUNS += [("hierarchy", {"levels": (("a",),), "noise": "laplace", "prior": "empirical", "rounding": "each"})]


def relations(name: str) -> list[Relation]:
    """Those under which it runs."""
    return [r for r in Relation if Unit(r).n_is_public or not op.mechanisms()[name].needs_public_n]


def released(name: str, options: Mapping[str, Any], relation: str, epsilon: float = 0.8) -> Certificate:
    mechanism = op.mechanisms()[name](**options)
    return op.release(
        PRIVATE,
        PUBLIC if mechanism.public_table is PublicTable.NEEDED else None,
        schema=op.Schema.from_sizes(SIZES),
        workload=op.all_marginals(2),
        epsilon=epsilon,
        delta=1e-6,
        mechanism=mechanism,
        relation=relation,
        seed=3,
    ).certificate


def their_event(event: Event, relation: str) -> dpe.DpEvent:
    """One of our events in dp-accounting's words, from its parameters and not from its charge."""
    written = event.to_dict()
    if isinstance(event, Gaussian):
        return dpe.GaussianDpEvent(event.sigma / np.sqrt(sensitivity_by_hand(written, relation)[1]))
    if isinstance(event, Laplace):
        return dpe.LaplaceDpEvent(event.scale / sensitivity_by_hand(written, relation)[0])
    return dpe.ZCDpEvent(rho_by_hand(written, relation))


def composed(events: Sequence[Event], relation: str) -> dpe.DpEvent:
    return dpe.ComposedDpEvent([their_event(e, relation) for e in events])


@pytest.mark.parametrize(
    ("name", "options", "relation"), [(n, o, r) for n, o in RUNS for r in relations(n)], ids=str
)
def test_certificates_hold_by_dp_accounting(name: str, options: Mapping[str, Any], relation: str) -> None:
    certificate = released(name, options, relation)
    certificate.recheck()
    assert not certificate.is_private  # it was seeded
    assert "NOT PRIVATE" in certificate.statement
    if not certificate.events:
        assert certificate.rho_spent == certificate.epsilon_spent == 0
        return
    theirs = their_epsilon(composed(certificate.events, relation), certificate.rho_spent, certificate.delta)
    assert theirs <= certificate.epsilon * (1 + 1e-6)
    assert theirs <= certificate.epsilon_spent * (1 + 1e-6)
    for event in certificate.events:
        by_hand = rho_by_hand(event.to_dict(), relation)
        assert event.cost(certificate.unit, pure=False) == pytest.approx(by_hand, rel=1e-12)
        assert by_hand == pytest.approx(event.rho, rel=1e-9)
    again = Certificate.from_json(certificate.to_json())
    assert again.events == certificate.events
    again.recheck()


def tampered(certificate: Certificate, kind: str, **factors: float) -> Certificate:
    """The certificate with some numbers of the first event of the kind multiplied."""
    events = list(certificate.events)
    place = next(i for i, e in enumerate(events) if e.kind == kind)
    changed = {field: getattr(events[place], field) * factor for field, factor in factors.items()}
    events[place] = dataclasses.replace(events[place], **changed)
    return dataclasses.replace(certificate, events=tuple(events))


@pytest.fixture(scope="module")
def certificates() -> dict[str, Certificate]:
    strict = {"selection": "permute-and-flip", "noise": "laplace", "rounds": 3}
    return {
        "gaussian": released("mwem", {"rounds": 3}, "replace-one"),
        "laplace": released("mwem", strict, "replace-one"),
    }


@pytest.mark.parametrize(
    ("which", "kind", "factors"),
    [
        ("gaussian", "gaussian", {"sigma": 0.99}),
        ("gaussian", "gaussian", {"rho": 0.99}),
        ("gaussian", "exponential", {"epsilon": 1.01}),
        ("gaussian", "exponential", {"rho": 0.99}),
        ("gaussian", "exponential", {"draws": 2}),
        ("laplace", "laplace", {"scale": 0.99}),
        ("laplace", "laplace", {"rho": 0.99}),
        ("laplace", "permute-and-flip", {"epsilon": 1.01}),
        ("laplace", "permute-and-flip", {"rho": 0.99}),
        # A dearer event that was charged for: then the sum is wrong.
        ("gaussian", "gaussian", {"sigma": 0.5, "rho": 4}),
        ("laplace", "permute-and-flip", {"epsilon": 2, "rho": 4}),
    ],
)
def test_a_tampered_event_is_seen(
    certificates: dict[str, Certificate], which: str, kind: str, factors: dict[str, float]
) -> None:
    certificate = certificates[which]
    certificate.recheck()
    with pytest.raises(ReleaseError):
        tampered(certificate, kind, **factors).recheck()


@pytest.mark.parametrize("change", [{"rho": 0.9}, {"rho": 1.1}, {"epsilon": 0.9}, {"delta": 0.1}])
def test_a_tampered_promise_is_seen(certificates: dict[str, Certificate], change: dict[str, float]) -> None:
    certificate = certificates["gaussian"]
    values = {field: getattr(certificate, field) * factor for field, factor in change.items()}
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, **values).recheck()


def test_an_unknown_event_costs_everything(certificates: dict[str, Certificate]) -> None:
    certificate = certificates["gaussian"]
    text = certificate.to_json()
    for odd in ('"magic"', "1", "null"):
        with pytest.raises(ReleaseError, match="event must be one of"):
            Certificate.from_json(text.replace('"event": "gaussian"', f'"event": {odd}', 1))
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, events=(*certificate.events, certificate.events[0])).recheck()


def test_a_missing_event_and_too_much_noise_are_seen_too(certificates: dict[str, Certificate]) -> None:
    certificate = certificates["gaussian"]
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, events=certificate.events[1:]).recheck()
    events = [
        dataclasses.replace(e, sigma=2 * e.sigma) if isinstance(e, Gaussian) else e
        for e in certificate.events
    ]
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, events=tuple(events)).recheck()


@pytest.mark.parametrize("field", ["rho_spent", "epsilon_spent"])
def test_a_tampered_sum_is_seen(certificates: dict[str, Certificate], field: str) -> None:
    certificate = certificates["gaussian"]
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, **{field: getattr(certificate, field) / 2}).recheck()


# Parts.


def of_parts(*, twice: bool = False) -> Certificate:
    unit = Unit()
    curator = FakeCurator(random_table(SIZES, 60, 4), unit=unit, noise=SeededNoise(1))
    budget = curator.rho
    curator.measure(Counts(("b",)), budget / 4)
    parts = curator.partition(["a"])
    parts[(0,)].measure(Counts(("b",)), budget / 4)
    parts[(1,)].measure(CellCount(("b", "c"), 1), budget / 2)
    parts[(2,)].measure(Total(), budget / 8, noise="laplace")
    if twice:
        curator.partition(["b"])[(0,)].measure(Counts(("c",)), budget / 8)
    spent = float(sum(Fraction(e.rho if e.charged is None else e.charged) for e in curator.events))
    return Certificate(
        epsilon=curator.epsilon * (1 + 1e-12),
        delta=curator.delta,
        rho=budget,
        relation=str(unit.relation),
        rows_per_person=1,
        epsilon_spent=epsilon_from_rho(spent, curator.delta),
        rho_spent=spent,
        noise="secure",
        mechanism="test",
        options={},
        dataset="test",
        run="",
        schema_hash="",
        created="",
        versions={},
        events=curator.events,
    )


def test_parts_are_paid_by_the_dearest() -> None:
    certificate = of_parts()
    certificate.recheck()
    alone, *parts = certificate.events
    # Two for a whole marginal under replace-one; two for a cell and a total, as a move touches two parts.
    assert [sensitivity_by_hand(e.to_dict(), "replace-one") for e in certificate.events] == [(2, 2)] * 4
    total = alone.rho + sum(e.charged for e in parts)
    assert total == pytest.approx(certificate.rho * 3 / 4, rel=1e-9)
    for part in parts:
        # A person in one part alone, by dp-accounting.
        theirs = their_epsilon(composed([alone, part], "replace-one"), certificate.rho, certificate.delta)
        assert theirs <= certificate.epsilon * (1 + 1e-6)
        assert part.cost(Unit(), pure=False) == pytest.approx(part.rho, rel=1e-9)


@pytest.mark.parametrize("position", [1, 2])
def test_a_part_that_was_charged_less_is_seen(position: int) -> None:
    certificate = of_parts()
    events = list(certificate.events)
    events[position] = dataclasses.replace(events[position], charged=0.9 * events[position].charged)
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, events=tuple(events)).recheck()


def test_a_second_partition_that_was_not_charged_is_seen() -> None:
    certificate = of_parts(twice=True)
    certificate.recheck()
    *events, last = certificate.events
    with pytest.raises(ReleaseError):
        free = dataclasses.replace(last, charged=0.0)
        dataclasses.replace(certificate, events=(*events, free)).recheck()
