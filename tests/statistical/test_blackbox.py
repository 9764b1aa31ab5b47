"""The attack on whole releases: an honest mechanism stays within its claim, and one with too little noise does not."""

import numpy as np
import pytest

import openprior as op
from benchmarks.blackbox import EPSILON, Case, attack, gaussian_epsilon, shown

pytestmark = pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [op.Ide(), op.Mst()], ids=["ide", "mst"])
def test_whole_releases(mechanism: object) -> None:
    assert attack(Case(mechanism, 500))[0] <= EPSILON
    # The twin has a fifth of the noise: far enough beyond its claim for so few releases.
    assert attack(Case(mechanism, 500, noise=0.2))[0] > EPSILON


def test_the_attack_shows_what_is_there() -> None:
    """Gaussians whose ε is known: what is shown comes near it, and does not pass it."""
    rng = np.random.default_rng(1)
    for mu in (0.5, 1.5, 3.0):
        first, second = rng.normal(0, 1, (4000, 3)), rng.normal(0, 1, (4000, 3))
        second[:, 0] += mu
        most = gaussian_epsilon(mu**2 / 2, 0.01)
        assert 0.4 * most < shown(first, second, 0.01) < most
    assert shown(first, rng.normal(0, 1, (4000, 3)), 0.01) < 0.2
