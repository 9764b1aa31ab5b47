"""Public data never hurts: from identical over unrelated to adversarial public tables, Tilt is about as good as the
better of itself without public data and the public table alone."""

from functools import cache

import numpy as np
import pytest

from benchmarks.data import made_up
from openprior.counting.local import count_table
from openprior.methods.tilt import Tilt
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals
from openprior.tables.encode import Table
from tests.conftest import quiet

SIZES = (8, 5, 2, 12, 4, 3, 6, 10)
N, M = 20_000, 5_000
POPULATION = made_up(SIZES, N + M, 1)
PRIVATE, SAME = POPULATION.take(np.arange(N)), POPULATION.take(np.arange(N, N + M))
WORK = all_marginals(3).on(PRIVATE.domain)
TRUTH = count_table(PRIVATE, WORK.marginals)


def renamed() -> Table:
    """The same rows with every column's labels permuted: as confidently wrong as a table can be."""
    rng = np.random.default_rng(3)
    return Table(SAME.domain, tuple(rng.permutation(s)[c] for s, c in zip(SIZES, SAME.columns, strict=True)))


def mixed(other: Table, share: float) -> Table:
    """Rows of another population in place of some."""
    theirs = np.random.default_rng(4).random(M) < share
    return Table(
        SAME.domain,
        tuple(np.where(theirs, y, x) for x, y in zip(SAME.columns, other.columns, strict=True)),
    )


UNRELATED = made_up(SIZES, M, 2)
DIAL = {
    "same population": SAME,
    "20 % unrelated": mixed(UNRELATED, 0.2),
    "50 % unrelated": mixed(UNRELATED, 0.5),
    "80 % unrelated": mixed(UNRELATED, 0.8),
    "unrelated": UNRELATED,
    "half renamed": mixed(renamed(), 0.5),
    "renamed": renamed(),
}


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


def alone(public: Table) -> float:
    return error({m: c * (N / M) for m, c in count_table(public, WORK.marginals).items()})


def compare(name: str, epsilon: float, *, seeds: int, particles: int) -> float:
    """Tilt's error relative to the better of its two rivals."""
    ours, without = (
        np.mean([tilt(prior, epsilon, seed, particles) for seed in range(seeds)]) for prior in (name, None)
    )
    return float(ours / min(without, alone(DIAL[name])))


@pytest.mark.parametrize("name", ["unrelated", pytest.param("renamed", marks=pytest.mark.slow)])
def test_it_never_hurts(name: str) -> None:
    assert compare(name, 1.0, seeds=1, particles=20_000) <= 1.05


def test_it_helps_where_it_can() -> None:
    assert compare("same population", 1.0, seeds=1, particles=20_000) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", DIAL)
def test_it_never_hurts_anywhere_on_the_dial(name: str, epsilon: float) -> None:
    ratio = compare(name, epsilon, seeds=4, particles=100_000)
    print(f"{name}, ε = {epsilon:g}: {ratio:.3f}")
    assert ratio <= 1.05
