"""Public data never hurts: from identical over unrelated to adversarial public tables, Tilt is about as good as the
better of itself without public data and the public table alone."""

from functools import cache

import numpy as np
import pytest

from benchmarks.never_hurts import DIAL, PRIVATE, TRUTH, WORK, N, alone
from openprior.methods.tilt import Tilt
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from tests.conftest import quiet


def error(answers: dict) -> float:
    return float(np.mean([np.abs(TRUTH[m] - answers[m]).sum() / N for m in WORK.marginals]))


@cache
def tilt(name: str | None, epsilon: float, seed: int, particles: int) -> float:
    """Tilt's error with a public table, or with none."""
    public = None if name is None else DIAL[name]
    curator = FakeCurator(PRIVATE, epsilon=epsilon, noise=SeededNoise(seed))
    rng = np.random.default_rng(seed)
    model = Tilt(particles=particles).run(curator, public, WORK, rng, quiet)
    return error(model.answers(WORK.marginals))


def compare(name: str, epsilon: float, *, seeds: int, particles: int) -> float:
    """Tilt's error relative to the better of its two rivals."""
    ours, without = (
        np.mean([tilt(prior, epsilon, seed, particles) for seed in range(seeds)]) for prior in (name, None)
    )
    return float(ours / min(without, alone(DIAL[name])))


@pytest.mark.parametrize("name", ["unrelated", pytest.param("renamed", marks=pytest.mark.slow)])
def test_it_never_hurts(name: str) -> None:
    assert compare(name, 1.0, seeds=3, particles=20_000) <= 1.05


def test_it_helps_where_it_can() -> None:
    assert compare("same population", 1.0, seeds=1, particles=20_000) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", DIAL)
def test_it_never_hurts_anywhere_on_the_dial(name: str, epsilon: float) -> None:
    ratio = compare(name, epsilon, seeds=4, particles=100_000)
    print(f"{name}, ε = {epsilon:g}: {ratio:.3f}")
    assert ratio <= 1.05
