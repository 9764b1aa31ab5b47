"""Importance weights: what they learn, which regularisation they take, and what they refuse."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.errors import OpenPriorWarning, OptionError, PrivacyError
from openprior.methods.importance import GRID, log_ratios
from openprior.models.support import SupportModel
from openprior.privacy.events import Gaussian, Laplace
from openprior.privacy.fake import FakeCurator
from openprior.privacy.regression import MembershipRegression
from openprior.questions.workload import all_marginals
from openprior.releases.folder import _check_event as check_event
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import quiet, random_table

SIZES = {"a": 3, "b": 4, "c": 2}


def run(
    private: Table, public: Table, epsilon: float = 1.0, delta: float = 1e-9, **options: Any
) -> tuple[Any, Any]:
    curator = FakeCurator(private, epsilon=epsilon, delta=delta)
    workload = all_marginals(2).on(private.domain)
    mechanism = op.ImportanceWeights(**options)
    return curator, mechanism.run(curator, public, workload, np.random.default_rng(1), quiet)


def test_without_noise_it_learns_the_shares_of_a_shifted_column() -> None:
    rng = np.random.default_rng(1)
    domain = Domain({"x": 2, "y": 2})

    def rows(n: int, ones: float) -> Table:
        x = (rng.random(n) < ones).astype(np.uint8)
        return Table(domain, (x, (rng.random(n) < 0.2 + 0.6 * x).astype(np.uint8)))

    private, public = rows(5000, 0.7), rows(3000, 0.3)
    curator, model = run(private, public, epsilon=50.0, regularisation=0.001)
    assert isinstance(model, SupportModel)
    assert model.total == 5000
    found = model.answers([("x",), ("x", "y")])
    assert found[("x",)][1] / 5000 == pytest.approx(0.7, abs=0.02)
    # The dependence is the public table's own.
    assert found[("x", "y")][3] / found[("x",)][1] == pytest.approx(0.8, abs=0.03)
    (event,) = curator.events
    assert isinstance(event, Gaussian)
    assert event.rho == pytest.approx(curator.rho)


def test_weights_are_those_of_the_coefficients() -> None:
    table = Table(Domain({"x": 2, "y": 3}), (np.array([0, 1, 1]), np.array([2, 0, 1])))
    logs = log_ratios(table, np.array([1.0, 2.0, 10.0, 20.0, 30.0]))
    np.testing.assert_allclose(logs, np.array([31.0, 12.0, 22.0]) / math.sqrt(2))


def test_much_noise_leaves_finite_weights() -> None:
    with pytest.warns(OpenPriorWarning, match="a larger budget"):
        curator, model = run(
            random_table(SIZES, 40, 1), random_table(SIZES, 50, 2), epsilon=1e-6, regularisation=0.001
        )
    assert "Noise alone" in curator._Curator__purse.account.remarks[0]
    assert np.isfinite(model.weights).all()
    assert model.weights.sum() == pytest.approx(1)


def test_the_certificate_says_what_the_weights_rest_on() -> None:
    curator, _ = run(random_table(SIZES, 40, 1), random_table(SIZES, 50, 2), epsilon=50.0)
    (said,) = curator._Curator__purse.account.remarks
    assert "λ = 0.1." in said and "Noise alone" in said and "hang together" in said


@pytest.mark.parametrize(("epsilon", "taken"), [(1e-3, 0.5), (0.02, 0.1), (0.5, 0.005), (50.0, 0.005)])
def test_the_regularisation_follows_from_sizes_and_budget(epsilon: float, taken: float) -> None:
    public = random_table(SIZES, 50, 2)
    events = []
    for seed in (1, 9):  # other rows, the same choice
        curator, _ = run(random_table(SIZES, 40_000, seed), public, epsilon=epsilon)
        events.append(curator.events[0].statistic)
    assert events == [MembershipRegression(9, taken)] * 2
    assert taken in GRID


def test_pure_noise_is_laplace_and_more_cautious() -> None:
    private, public = random_table(SIZES, 40_000, 1), random_table(SIZES, 50, 2)
    curator, _ = run(private, public, epsilon=0.1, delta=0.0, noise="laplace")
    (event,) = curator.events
    assert isinstance(event, Laplace)
    assert event.cost(curator.unit, pure=True) == pytest.approx(0.1)
    with pytest.raises(PrivacyError, match="never pure"):
        run(private, public, delta=0.0)


def test_what_it_refuses() -> None:
    for wrong in (0.0, 1e-9, 1e9):
        with pytest.raises(OptionError, match=r"must lie between 0\.001 and 100"):
            op.ImportanceWeights(regularisation=wrong)
    with pytest.raises(OptionError, match="must be one of"):
        op.ImportanceWeights(noise="uniform")


def test_a_table_that_gives_counts_only_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one on a cluster does."""
    public = random_table(SIZES, 50, 2)
    curator = FakeCurator(random_table(SIZES, 40, 1))
    vault = curator._Curator__vault  # type: ignore[attr-defined]

    class Counts:
        count = staticmethod(vault.engine.count)

    monkeypatch.setattr(vault, "engine", Counts())
    with pytest.raises(PrivacyError, match="looks at whole private rows"):
        op.ImportanceWeights().run(
            curator, public, all_marginals(2).on(public.domain), np.random.default_rng(1), quiet
        )
    assert curator.events == ()
    with pytest.raises(PrivacyError, match="looks at whole private rows"):
        vault.whole_rows()


def test_a_certificate_holds_and_a_forged_one_fails() -> None:
    frame = {a: random_table(SIZES, 300, 1).column(a) for a in SIZES}
    public = {a: random_table(SIZES, 200, 2).column(a) for a in SIZES}
    made = op.release(
        frame, public, schema=op.Schema.from_sizes(SIZES), workload=2, epsilon=1.0, delta=1e-6, mechanism="importance",
        error_bars=0, seed=1,
    )  # fmt: skip
    made.certificate.recheck()
    (event,) = made.certificate.events
    assert isinstance(event, Gaussian)
    assert isinstance(event.statistic, MembershipRegression)
    check_event(event, made.schema)
    smaller = Gaussian.at(replace(event.statistic, coefficients=4), event.rho, made.certificate.unit)
    assert smaller.sigma < event.sigma
    # Less noise costs more; as if there were fewer coefficients it would not, but then they do not fit the schema.
    with pytest.raises(op.OpenPriorError, match="costs"):
        replace(made.certificate, events=(replace(event, sigma=smaller.sigma),)).recheck()
    replace(made.certificate, events=(smaller,)).recheck()
    with pytest.raises(op.OpenPriorError, match="which have 9 values"):
        check_event(smaller, made.schema)
