"""Raw values against raw values: what the schema did is seen, whatever the codes say."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

import openprior as op
from openprior.evaluation.losses import losses_of

N = 2000


def schema(text: str) -> op.Schema:
    return op.Schema.from_toml(text)


REALS = schema(
    '[columns.x]\nkind = "real"\nbins = [-1.0, 0.0, 1.0]\nmissing = true\nout_of_domain = "clip"\n'
)


def test_the_distance_of_numbers_is_kolmogorovs() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(size=N), rng.normal(0.2, 1.5, size=N - 300)
    ours[:50], theirs[:80] = 0.25, 0.25  # ties, within a table and between them
    (loss,) = losses_of(pa.table({"x": ours}), pa.table({"x": theirs}), REALS)
    assert loss.before == pytest.approx(ks_2samp(ours, theirs).statistic, abs=1e-12)
    assert loss.shares["above"] == (theirs > 1).mean()
    assert loss.after < loss.before


def test_missing_and_unreadable_values_count() -> None:
    (loss,) = losses_of(
        pa.table({"x": ["0.5", "0.5", "0.5", "0.5"]}), pa.table({"x": ["0.5", None, "much", "0.5"]}), REALS
    )
    assert loss.before == 0.5
    assert (loss.shares["missing"], loss.shares["unreadable"]) == (0.25, 0.25)
    (loss,) = losses_of(pa.table({"x": [None, None]}), pa.table({"x": ["0.5", None]}), REALS)
    assert loss.before == 0.5


def test_dates_by_their_order() -> None:
    dates = schema('[columns.d]\nkind = "datetime"\ndtype = "date32[day]"\nbins = [2000-01-01, 2030-01-01]\n')
    day = datetime.date
    (loss,) = losses_of(
        pa.table({"d": [day(2001, 1, 1), day(2002, 1, 1)]}),
        pa.table({"d": [day(2001, 1, 1), day(2024, 1, 1)]}),
        dates,
    )
    assert (loss.before, loss.after) == (0.5, 0.0)


def test_values_that_became_other_are_like_nothing_released() -> None:
    listed = schema(
        '[columns.s]\nkind = "categorical"\nvalues = ["a", "b"]\nother = true\nout_of_domain = "other"\n'
    )
    (loss,) = losses_of(
        pa.table({"s": ["a", "b", "other", "other"]}), pa.table({"s": ["a", "b", "c", "d"]}), listed
    )
    assert (loss.before, loss.after) == (0.5, 0.0)
    assert loss.outside == 0.5 and "not listed (other)" in loss.words


def test_numbers_moved_to_the_nearest_label_are_seen() -> None:
    rated = schema(
        '[columns.r]\nkind = "ordered"\ndtype = "int64"\nvalues = [1, 2, 3]\nout_of_domain = "clip"\n'
    )
    (loss,) = losses_of(pa.table({"r": [1, 3, 3, 3]}), pa.table({"r": [1, 3, 9, 9]}), rated)
    assert (loss.before, loss.after) == (0.5, 0.0)
    assert loss.shares["not listed"] == 0.5


def test_a_large_loss_is_the_first_thing_said_and_a_small_one_is_not() -> None:
    rng = np.random.default_rng(0)
    narrow = schema('[columns.k]\nkind = "integer"\nlow = 0\nhigh = 0\nout_of_domain = "clip"\n')
    wide = schema('[columns.k]\nkind = "integer"\nlow = 0\nhigh = 9\nout_of_domain = "clip"\n')
    private = pa.table({"k": rng.choice(8, N, p=[0.24, 0.3, 0.2, 0.1, 0.06, 0.05, 0.03, 0.02])})
    for named, large in ((narrow, True), (wide, False)):
        release = op.release(
            private,
            schema=named,
            workload=op.all_marginals(1),
            epsilon=5.0,
            delta=1e-6,
            mechanism=op.Mst(),
            seed=1,
        )
        found = op.evaluate(release, private)
        assert found.workload_error < 0.05
        assert (found.warning is not None) == large
        assert (found.losses[0].before > 0.7) == large
    assert op.evaluate(release.codes, private, schema=wide).losses == ()
