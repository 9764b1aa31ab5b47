"""Divergences between two tables: by hand on marginals, plausible on whole rows, and honest about both."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import EncodeError, OptionError
from openprior.guidance.bounds import public_sample_size
from openprior.guidance.divergences import Divergence, _of_odds

SCHEMA = op.Schema.from_sizes({"x": 3, "y": 2})


def table(x: list[int], y: list[int]) -> pa.Table:
    return pa.table({"x": x, "y": y})


def test_marginals_are_exact() -> None:
    first = table([0, 0, 0, 1], [0, 1, 0, 1])
    second = table([0, 1, 1, 1, 2], [0, 0, 1, 1, 1])
    found = op.divergences(first, second, schema=SCHEMA, workload=[("x",), ("y",), ("x", "y")])
    # x: 3/4 and 1/4 against 1/5, 3/5 and 1/5; y: 1/2 and 1/2 against 2/5 and 3/5
    x = found.by_marginal[("x",)]
    assert x.d2 == pytest.approx(math.log(0.75**2 / 0.2 + 0.25**2 / 0.6))
    assert x.d_inf == pytest.approx(math.log(0.75 / 0.2))
    assert found.by_marginal[("y",)].d_inf == pytest.approx(math.log(0.5 / 0.4))
    # One of four rows of the first has x = 0 and y = 1, which the second lacks.
    assert found.by_marginal[("x", "y")] == Divergence(math.inf, math.inf)
    assert found.lacking == {("x", "y"): 0.25}
    assert found.on_marginals == x
    assert "1 of 3 marginals are infinite" in str(found)
    assert "25 % of its rows in x × y" in str(found)
    assert "NOT PRIVATE" in str(found)
    assert "NOT PRIVATE" in found._repr_html_()
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["marginals"][2]["d2"] is None
    assert plain["private"] is False


def test_the_rows_that_are_asked_for_are_those_of_the_bound() -> None:
    asked = Divergence(math.log(1.5), math.log(4.0)).public_rows(1000, 0.1, 0.05)
    assert asked == pytest.approx(
        public_sample_size(queries=1000, alpha=0.1, largest_ratio=4.0, mean_square_ratio=1.5), abs=1
    )
    assert Divergence(math.inf, math.inf).public_rows(1000, 0.1, 0.05) is None


def sample(rows: int, seed: int, ones: float) -> Any:
    rng = np.random.default_rng(seed)
    x = (rng.random(rows) < ones).astype(int)
    return pa.table({"x": x, "y": (rng.random(rows) < 0.5).astype(int) ^ x ^ 1})


def test_whole_rows_are_estimated_near_the_truth_and_likes_near_chance() -> None:
    """x = 1 has 0.8 and 0.4: e^D₂ = 0.64/0.4 + 0.04/0.6 and e^D∞ = 2, whatever y does."""
    schema = op.Schema.from_sizes({"x": 2, "y": 2})
    far = op.divergences(sample(4000, 1, 0.8), sample(3000, 2, 0.4), schema=schema, workload=1)
    assert far.on_rows.d2 == pytest.approx(math.log(5 / 3), abs=0.1)
    assert far.on_rows.d_inf == pytest.approx(math.log(2), abs=0.15)
    assert far.by_chance.d2 < 0.02
    assert far.rows == (4000, 3000)
    again = op.divergences(sample(4000, 1, 0.8), sample(3000, 2, 0.4), schema=schema, workload=1)
    assert again.on_rows == far.on_rows


def test_odds_are_scaled_on_the_second_table() -> None:
    is_first = np.array([True, True, False, False])
    found = _of_odds(is_first, np.array([0.9, 0.5, 0.75, 0.5]))  # odds 9, 1, 3, 1; mean of the second 2
    assert found.d_inf == pytest.approx(math.log(4.5))
    assert found.d2 == pytest.approx(math.log((1.5**2 + 0.5**2) / 2))


def test_what_is_refused() -> None:
    one = table([0, 1, 2, 0], [0, 1, 0, 1])
    with pytest.raises(OptionError, match="both tables are the same"):
        op.divergences(one, one, schema=SCHEMA)
    other = table([0, 1], [0, 1])
    with pytest.raises(OptionError, match=r"alpha \(0\) must lie between 0 and 1"):
        op.divergences(one, other, schema=SCHEMA, alpha=0)
    with pytest.raises(OptionError, match="fewer than two rows"):
        op.divergences(one, table([0], [0]), schema=SCHEMA)


def test_no_refusal_quotes_the_first_table() -> None:
    """It stands in the place of the private one, and may be it."""
    schema = op.Schema.from_toml('columns.x = {kind = "categorical", values = ["a", "b"]}')
    known, canary = pa.table({"x": ["a", "b", "a"]}), pa.table({"x": ["a", "canary"]})
    with pytest.raises(EncodeError, match="outside its list") as refused:
        op.divergences(canary, known, schema=schema, workload=1)
    assert "canary" not in str(refused.value)
    with pytest.raises(EncodeError, match="canary"):
        op.divergences(known, canary, schema=schema, workload=1)


def test_a_person_id_is_not_needed() -> None:
    toml = (
        'person_id = "who"\nmax_rows_per_person = 1\ncolumns.x = {kind = "categorical", values = ["a", "b"]}'
    )
    schema = op.Schema.from_toml(toml)
    first, second = pa.table({"x": ["a", "a", "b"]}), pa.table({"x": ["b", "a"]})
    found = op.divergences(first, second, schema=schema, workload=1)
    assert found.rows == (3, 2)
