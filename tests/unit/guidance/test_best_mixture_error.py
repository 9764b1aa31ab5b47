"""The best mixture error of a public table, exact and private."""

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import BudgetExceeded, OptionError
from openprior.privacy.calibrate import rho_from_epsilon_delta
from openprior.privacy.ledger import Ledger
from tests.conftest import arrow, random_table

SIZES = {"a": 4, "b": 3, "c": 2}
SCHEMA = op.Schema.from_sizes(SIZES)
PRIVATE = arrow(random_table(SIZES, 2000, 1))
GOOD = PRIVATE.slice(0, 500)


def bad_rows() -> pa.Table:
    return GOOD.take(np.flatnonzero(GOOD["c"].to_numpy() == 0))


def test_exact_error_tells_a_fit_table_from_an_unfit_one() -> None:
    good = op.best_mixture_error(PRIVATE, GOOD, schema=SCHEMA)
    bad = op.best_mixture_error(PRIVATE, bad_rows(), schema=SCHEMA, workload=op.all_marginals(1))
    assert not good.is_private
    assert good.lower is not None
    assert good.lower <= good.error <= 1e-5
    share = float(np.mean(PRIVATE["c"].to_numpy() == 1))
    assert bad.error == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_private_error_is_the_exact_one_plus_noise_of_the_stated_size(noise: str) -> None:
    exact = op.best_mixture_error(PRIVATE, bad_rows(), schema=SCHEMA).error
    found = [
        op.best_mixture_error(
            PRIVATE, bad_rows(), schema=SCHEMA, epsilon=1.0, delta=1e-6, noise=noise, seed=s
        )
        for s in range(60)
    ]
    assert not any(f.is_private for f in found)  # seeded
    deviations = (np.array([f.error for f in found]) - exact) / found[0].sigma
    assert abs(deviations.mean()) < 0.6
    assert 0.6 < deviations.std() < 1.5
    assert found[0].sigma < 0.02


def test_it_is_charged_to_the_ledger_and_refused_beyond_it() -> None:
    ledger = Ledger()
    rho = rho_from_epsilon_delta(0.1, 1e-6)
    ledger.set_budget("survey", rho=rho, epsilon=0.1, delta=1e-6)
    op.best_mixture_error(
        PRIVATE, GOOD, schema=SCHEMA, epsilon=0.1, delta=1e-6, ledger=ledger, dataset="survey"
    )
    (status,) = ledger.datasets()
    assert status.name == "survey"
    assert float(status.committed) == pytest.approx(status.rho)
    with pytest.raises(BudgetExceeded):
        op.best_mixture_error(
            PRIVATE, GOOD, schema=SCHEMA, epsilon=0.1, delta=1e-6, ledger=ledger, dataset="survey"
        )


def test_secure_noise_is_private() -> None:
    assert op.best_mixture_error(PRIVATE, GOOD, schema=SCHEMA, epsilon=1.0, delta=1e-6).is_private


def test_half_a_guarantee_is_an_error() -> None:
    with pytest.raises(OptionError, match="give both"):
        op.best_mixture_error(PRIVATE, GOOD, schema=SCHEMA, epsilon=1.0)
