"""Calibrated bars hold 95 in 100 true counts in every stratum; bars that are shrunk do not, and this test sees it."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import openprior as op
from openprior.counting.local import count_table
from openprior.error_bars.bars import ErrorBars
from openprior.releases.answers import numbers_of
from openprior.tables.encode import encode_table
from tests.conftest import arrow, random_table

SIZES = {"a": 12, "b": 9, "c": 7, "d": 10, "e": 6, "f": 4}
SCHEMA = op.Schema.from_sizes(SIZES)
PRIVATE = arrow(random_table(SIZES, 8000, 1, 0.5))
PUBLIC = arrow(random_table(SIZES, 4000, 2, 0.6))
WORK = op.all_marginals(2)
MARGINALS = list(WORK.on(SCHEMA.domain).marginals)
TRUTH = np.concatenate(list(count_table(encode_table(PRIVATE, SCHEMA), MARGINALS).values()))
METHODS = {
    "tilt": op.Tilt(particles=3000, rounds=8),
    "mst": op.Mst(),
    "pmw-pub": op.PmwPub(rounds=20),
    "ide": op.Ide(),
}
EDGES = (0.5, 60.0, 120.0)
SEEDS = 6


@cache
def releases(name: str) -> tuple[op.Release, ...]:
    return tuple(
        op.release(
            PRIVATE,
            PUBLIC,
            schema=SCHEMA,
            workload=WORK,
            epsilon=2.0,
            delta=1e-6,
            mechanism=METHODS[name],
            error_bars=0.1,
            seed=seed,
        )
        for seed in range(SEEDS)
    )


def held(name: str, times: float) -> tuple[np.ndarray, np.ndarray]:
    """By stratum, the share of calibrated intervals that hold, and how many there are; of bars made of so many times
    the errors that were measured."""
    found = np.zeros((2, len(EDGES)))
    for made in releases(name):
        bars = made.error_bars
        assert bars is not None
        values = tuple(round(times * v) for v in bars.values)
        own = bars.known.own
        if own is not None:
            own = dataclasses.replace(own, errors=tuple(times * e for e in own.errors))
        known = dataclasses.replace(bars.known, own=own)
        other: ErrorBars = dataclasses.replace(bars, values=values, known=known)
        parts = numbers_of(made.model, made.measurements, MARGINALS, other)
        estimate, _, low, high, basis = (np.concatenate([p[i] for p in parts]) for i in range(5))
        assert (basis >= 2).all()  # every cell of the workload has an interval
        stratum = np.searchsorted(EDGES, estimate, side="right") - 1
        for s in range(len(EDGES)):
            cells = (stratum == s) & (basis == 3)
            found[:, s] += cells.sum(), ((low <= TRUTH) & (high >= TRUTH))[cells].sum()
    assert (found[0] > 300).all()
    return found[1] / found[0], found[0]


def is_calibrated(name: str, times: float) -> bool:
    """Whether 95 in 100 are held, give or take 2.5, and no stratum holds fewer than 85."""
    found, cells = held(name, times)
    return bool(abs((found * cells).sum() / cells.sum() - 0.95) <= 0.025 and (found >= 0.85).all())


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.parametrize("name", METHODS)
def test_bars_are_calibrated_and_others_are_rejected(name: str) -> None:
    assert is_calibrated(name, 1.0), held(name, 1.0)
    assert not is_calibrated(name, 0.7), held(name, 0.7)
    assert not is_calibrated(name, 2.0), held(name, 2.0)


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
def test_what_a_model_says_of_itself_is_no_calibration() -> None:
    """Tilt's own standard errors do not hold what bars do: they would be rejected by the same test."""
    inside = cells = 0
    for made in releases("tilt"):
        answers, errors = made.model.estimates(MARGINALS)
        assert errors is not None
        estimate, error = (np.concatenate([part[m] for m in MARGINALS]) for part in (answers, errors))
        some = estimate >= EDGES[0]
        inside += int((np.abs(estimate - TRUTH) <= 1.96 * error + 0.5)[some].sum())
        cells += int(some.sum())
    assert abs(inside / cells - 0.95) > 0.01, inside / cells
