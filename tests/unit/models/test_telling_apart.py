"""Anchors stay nearly as they are where columns do not tell the private table from the public one, and only there."""

import numpy as np
import pytest

from openprior.counting.local import count_table
from openprior.models.prior.prior import Mix, Prior
from openprior.models.prior.prior_learning import learn
from openprior.models.tilted.particles import Particles
from openprior.models.tilted.telling_apart import agreement
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

DOMAIN = Domain(dict.fromkeys("abcdefghij", 5))
ROWS = 6_000
HOUSES = np.random.default_rng(9).integers(0, 5, (150, len(DOMAIN)))
"""Whole rows that come again and again: what one column says of another is little, what all say together is much."""


def rows(seed: int, *, moved: float = 0.0, count: int = ROWS) -> Table:
    """So many rows; a share of them has another value in the first column."""
    rng = np.random.default_rng(seed)
    codes = HOUSES[rng.integers(0, len(HOUSES), count)]
    codes[:, 0] = np.where(rng.random(count) < moved, 0, codes[:, 0])
    return Table(DOMAIN, tuple(np.ascontiguousarray(codes.T)))


@pytest.fixture(scope="module")
def prior() -> Prior:
    return learn(rows(0), all_marginals(2).on(DOMAIN).marginals)


def columns(table: Table, sigma: float) -> list[Measurement]:
    rng = np.random.default_rng(5)
    counts = count_table(table, [(name,) for name in DOMAIN])
    return [Measurement.of(m, c + rng.normal(0.0, sigma, len(c)), sigma) for m, c in counts.items()]


@pytest.mark.parametrize("sigma", [30.0, 1000.0])
def test_noise_hides_the_difference_of_two_samples(prior: Prior, sigma: float) -> None:
    assert agreement(prior, DOMAIN, ROWS, columns(rows(1), sigma)) >= 0.8


def test_two_samples_of_the_same_people_are_no_contradiction(prior: Prior) -> None:
    assert agreement(prior, DOMAIN, ROWS, columns(rows(1), 0.5)) >= 0.4


@pytest.mark.parametrize("moved", [0.1, 0.3, 1.0])
def test_other_people_are_seen_through_noise(prior: Prior, moved: float) -> None:
    assert agreement(prior, DOMAIN, ROWS, columns(rows(1, moved=moved), 20.0)) < 0.8


def test_other_people_in_every_column_are_a_contradiction(prior: Prior) -> None:
    backwards = Table(DOMAIN, tuple(4 - column for column in rows(1).columns))
    assert agreement(prior, DOMAIN, ROWS, columns(backwards, 20.0)) < 0.4


def test_noise_can_hide_other_people_too(prior: Prior) -> None:
    assert agreement(prior, DOMAIN, ROWS, columns(rows(1, moved=0.3), 1e6)) >= 0.8


def test_the_faithful_mix_is_made_of_the_same_parts(prior: Prior) -> None:
    faithful = prior.as_public()
    assert prior.faithful is not None
    assert faithful.shares == prior.faithful.shares and faithful.arrays.redraw == prior.faithful.redraw
    assert faithful.arrays.redraw < 0.1 <= prior.arrays.redraw
    assert np.allclose(faithful.arrays.kinds, np.cumsum(faithful.shares))
    for name in set(prior.arrays._fields) - {"kinds", "redraw"}:
        assert getattr(faithful.arrays, name) is getattr(prior.arrays, name)


def test_a_table_that_comes_again_is_predicted_better_by_the_faithful_mix(prior: Prior) -> None:
    marginals = all_marginals(2).on(DOMAIN).marginals
    truth = count_table(rows(2, count=200_000), marginals)

    def error(of: Prior) -> float:
        cloud = Particles(of.arrays, DOMAIN, 200_000.0, 200_000, np.random.default_rng(3))
        return sum(float(np.abs(cloud.mass(m) - truth[m]).sum()) for m in marginals)

    assert error(prior.as_public()) < 0.95 * error(prior)


def test_a_prior_without_a_faithful_mix_stays_as_it_is(prior: Prior) -> None:
    plain = Prior(prior.arrays, prior.rows, prior.shares)
    assert plain.as_public() is plain


def test_a_few_rows_of_noise_have_no_faithful_mix() -> None:
    """What is mostly its own rows must have shown on rows that were left out."""
    rng = np.random.default_rng(4)
    table = Table(DOMAIN, tuple(rng.integers(0, 5, (len(DOMAIN), 400))))
    assert learn(table, all_marginals(2).on(DOMAIN).marginals).faithful is None


def test_shares_of_a_mix_end_at_one() -> None:
    assert Mix((0.2, 0.2, 0.4), 0.1).ends.tolist() == pytest.approx([0.25, 0.5, 1.0])
