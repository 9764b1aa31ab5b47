"""Cautions: what is said of a large ε and of a small table, and where nothing may be said."""

import warnings
from typing import Any

import pytest

import openprior as op
from openprior.errors import OpenPriorWarning
from openprior.privacy.cautions import few_rows, large_epsilon
from openprior.releases.result import Release
from openprior.schema.base import Schema
from tests.conftest import SIZES, arrow, random_table

SCHEMA = Schema.from_sizes(SIZES)
PUBLIC = arrow(random_table(SIZES, 300, 2))


def released(rows: int, **more: Any) -> tuple[Release, list[str]]:
    """A release of so many rows, and what was said."""
    options = {
        "epsilon": 1.0,
        "delta": 1e-9,
        "workload": op.all_marginals(1),
        "mechanism": op.Mwem(rounds=2),
        "error_bars": 0,
        "seed": 1,
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = op.release(arrow(random_table(SIZES, rows, 1)), PUBLIC, schema=SCHEMA, **{**options, **more})
    return made, [str(w.message) for w in said if issubclass(w.category, OpenPriorWarning)]


def test_words() -> None:
    assert large_epsilon(20.0) is None and few_rows(100) is None
    assert "e^23.1 (about 10^10)" in str(large_epsilon(23.1))
    assert "fewer than 100 rows" in str(few_rows(99))


def test_an_ordinary_release_is_not_remarked_on() -> None:
    made, said = released(100)
    assert said == [] and made.certificate.remarks == ()


def test_a_large_epsilon_is_said_once_and_certified() -> None:
    made, said = released(200, epsilon=25.0)
    assert len(said) == 1 and "epsilon = 25 is above 20" in said[0]
    assert [r[:12] for r in made.certificate.remarks] == ["Epsilon = 25"]
    with pytest.warns(OpenPriorWarning, match="epsilon = 30 is above 20"):
        op.screen(arrow(random_table(SIZES, 200, 1)), [PUBLIC], schema=SCHEMA, epsilon=30.0, seed=1)
    planned = op.plan(SCHEMA, n=50, workload=op.all_marginals(1), epsilon=25.0, delta=1e-9)
    assert "above 20" in planned.advice[0] and "fewer than 100 rows" in planned.advice[1]


def test_a_small_table_is_said_before_the_first_charge_where_n_is_public() -> None:
    made, said = released(99)
    assert len(said) == 1 and "fewer than 100 rows" in said[0]
    assert [r[:22] for r in made.certificate.remarks] == ["The table has fewer th"]
    with pytest.warns(OpenPriorWarning, match="fewer than 100 rows"):
        op.screen(arrow(random_table(SIZES, 99, 1)), [PUBLIC], schema=SCHEMA, epsilon=1.0, seed=1)


def test_errors_that_cannot_be_told_from_noise_are_certified() -> None:
    for rows, epsilon, remarked in ((100, 1.0, True), (5000, 5.0, False)):
        made, said = released(rows, epsilon=epsilon, error_bars=None)
        assert said == []
        told = [r for r in made.certificate.remarks if "cannot be told from noise" in r]
        assert len(told) == len(made.certificate.remarks) == remarked
        assert made.error_bars is not None and (made.error_bars.unsure > 1.0) == remarked


def test_a_private_number_of_rows_says_nothing() -> None:
    """Under add-remove, whether it is said depends on the released number of rows, not on the true one."""
    heard = {}
    for rows in (90, 110):
        for seed in range(6):
            made, said = released(rows, relation="add-remove", epsilon=0.05, seed=seed)
            small = made.synthetic.num_rows < 100
            assert any("fewer than 100" in words for words in said) == small
            assert any("fewer than 100" in words for words in made.certificate.remarks) == small
            heard[rows, small] = True
    assert len(heard) == 4  # both tables were called small, and both were not
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = arrow(random_table(SIZES, 50, 1))
        op.screen(small, [PUBLIC], schema=SCHEMA, epsilon=1.0, relation="add-remove", seed=1)
