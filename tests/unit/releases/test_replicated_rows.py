"""Replicates of a release: as many rows, the same columns, and as far apart as the error bars say."""

import numpy as np
import pytest

import openprior as op
from openprior.errors import OptionError, ReleaseError
from openprior.releases.replicated_rows import replicate_rows, spread_of
from tests.conftest import arrow, random_table

SIZES = {"a": 4, "b": 3, "c": 5}
SCHEMA = op.Schema.from_sizes(SIZES)
PRIVATE, PUBLIC = (arrow(random_table(SIZES, 3000, seed, 0.6)) for seed in (1, 2))


def released(**more: object) -> op.Release:
    return op.release(
        PRIVATE,
        PUBLIC,
        schema=SCHEMA,
        workload=2,
        epsilon=1.0,
        delta=1e-6,
        mechanism=op.PmwPub(rounds=5),
        seed=0,
        **more,
    )  # type: ignore[arg-type]


def test_tables_of_the_same_form_that_differ() -> None:
    made = released()
    tables = made.replicates(3, seed=5)
    assert len(tables) == 3
    for table in tables:
        assert table.schema.equals(made.synthetic.schema) and table.num_rows == made.synthetic.num_rows
    assert not tables[0].equals(tables[1])
    assert all(one.equals(other) for one, other in zip(tables, made.replicates(3, seed=5), strict=True))


def test_groups_stray_as_far_as_their_bars_say() -> None:
    made = released()
    bars = made.error_bars
    assert bars is not None
    rng = np.random.default_rng(0)
    spread = spread_of(bars, made.codes, made.workload.marginals, rng)
    codes = made.codes.column("a")
    counts = np.array(
        [np.bincount(codes[replicate_rows(spread, made.codes, rng)], minlength=4) for _ in range(300)]
    )
    found, own = counts.std(axis=0), np.bincount(codes, minlength=4).astype(float)
    expected = bars.contrast(own)[0] * np.sqrt(1 - own / own.sum())
    assert (found > 0.7 * expected).all() and (
        found < 2.0 * np.maximum(expected, bars.around(own, 1).standard_error)
    ).all()
    assert np.allclose(counts.mean(axis=0), own, atol=4 * found.max() / np.sqrt(300) + 2)


def test_what_cannot_be_replicated() -> None:
    with pytest.raises(ReleaseError, match="no error bars"):
        released(error_bars=0).replicates(3)
    for k in (1, 0, 2.5):
        with pytest.raises(OptionError, match="k"):
            released().replicates(k)  # type: ignore[arg-type]
