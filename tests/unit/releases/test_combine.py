"""Analyses of replicates, put together: by hand, and what cannot be."""

import math
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.errors import OptionError
from openprior.releases.combine import _t95


def test_by_hand() -> None:
    found = op.combine([[1.0, 10.0], [3.0, 10.0], [5.0, 10.0]])
    assert found.estimate.tolist() == [3.0, 10.0]
    between = (1 + 1 / 3) * 4.0
    assert found.standard_error.tolist() == [math.sqrt(between), 0.0]
    assert found.high[0] - found.estimate[0] == pytest.approx(4.302652730 * math.sqrt(between))
    assert found.low[1] == found.high[1] == 10.0


def test_with_the_analysis_s_own_variances() -> None:
    found = op.combine([1.0, 2.0, 3.0, 4.0], [0.5, 0.5, 1.0, 1.0])
    between, within = 1.25 * 5 / 3, 0.75
    assert found.standard_error[0] == pytest.approx(math.sqrt(between + within))
    assert found.degrees[0] == pytest.approx(3 * (1 + within / between) ** 2)


def test_names_are_kept() -> None:
    found = op.combine([{"age": 1.0, "sex": 2.0}, {"age": 2.0, "sex": 2.5}])
    assert found.names == ("age", "sex")
    assert "age" in str(found)


@pytest.mark.parametrize(
    ("degrees", "point"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (5, 2.57058), (19, 2.09302), (200, 1.97190)],
)
def test_student(degrees: float, point: float) -> None:
    assert _t95(float(degrees)) == pytest.approx(point, abs=2e-3)
    assert _t95(degrees + 1e-9) == pytest.approx(_t95(float(degrees)), abs=2e-3)


@pytest.mark.parametrize(
    ("estimates", "variances", "said"),
    [
        ([], None, "no estimates"),
        ([1.0], None, "fewer than two replicates"),
        ([[1.0, 2.0], [1.0]], None, "as many for every replicate"),
        ([1.0, "x"], None, "give numbers"),
        ([1.0, float("nan")], None, "finite"),
        ([{"a": 1.0}, {"b": 1.0}], None, "different names"),
        ([1.0, 2.0], [1.0], "do not fit the estimates"),
        ([1.0, 2.0], [1.0, -1.0], "not negative"),
    ],
)
def test_what_cannot_be_combined(estimates: Any, variances: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        op.combine(estimates, variances)


def test_coverage_of_a_mean_that_varies_as_the_release_does() -> None:
    """Truth − release and replicate − release have one distribution: then 95 in 100 intervals hold."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        released = rng.normal()
        found = op.combine(list(released + rng.normal(size=20)))
        inside += found.low[0] <= 0.0 <= found.high[0]
    assert 0.935 <= inside / 2000 <= 0.965
