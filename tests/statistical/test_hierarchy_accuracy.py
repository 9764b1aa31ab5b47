"""The hierarchy earns its keep: areas in states that have drifted since the public table was made come out closer to
the truth than the public table has them, and closer than one release of the whole table has."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.methods.hierarchy.method import Hierarchy
from openprior.methods.ide import Ide
from openprior.methods.public import PublicProxy
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import SeededNoise
from openprior.privacy.unit import Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Marginal, all_marginals
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.levels import Hierarchy as Above
from openprior.tables.encode import Encoder, Table, encode_table
from openprior.tables.source import open_source
from tests.conftest import quiet

STATES, AREAS, PRIVATE_ROWS, PUBLIC_ROWS = 4, 5, 600, 300
SIZES = {"age": 6, "work": 4, "home": 3, "sex": 2, "car": 3}
CLASSES = 5
LABELS = tuple(f"{s}{a}" for s in range(STATES) for a in range(AREAS))
SCHEMA = Schema(
    (
        Categorical(name="area", values=LABELS),
        *(Integer(name=name, low=0, high=size - 1) for name, size in SIZES.items()),
    ),
    hierarchies=(Above(name="state", column="area", prefix=1),),
)
PAIRS: list[Marginal] = [("area", *pair) for pair in itertools.combinations(SIZES, 2)]
WORK = all_marginals(2).on(SCHEMA.domain)


@cache
def tables() -> tuple[pa.Table, Table]:
    """Private and public rows: classes of people whose shares differ by area, and have drifted by state and area."""
    rng = np.random.default_rng(11)
    habits = [rng.dirichlet(np.full(size, 0.5), CLASSES) for size in SIZES.values()]
    made: dict[str, list[dict[str, NDArray[Any]]]] = {"private": [], "public": []}
    for state in range(STATES):
        drift = rng.normal(0, 0.7, CLASSES)
        for area in range(AREAS):
            before = rng.normal(0, 0.5, CLASSES)
            now = before + drift + rng.normal(0, 0.3, CLASSES)
            for what, score, n in (("private", now, PRIVATE_ROWS), ("public", before, PUBLIC_ROWS)):
                share = np.exp(score) / np.exp(score).sum()
                of = rng.choice(CLASSES, n, p=share)
                columns = {
                    name: (rng.random((n, 1)) > np.cumsum(habit, axis=1)[of]).sum(axis=1)
                    for name, habit in zip(SIZES, habits, strict=True)
                }
                made[what].append({"area": np.full(n, LABELS[state * AREAS + area]), **columns})
    private, public = (
        pa.table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        for parts in made.values()
    )
    return private, encode_table(public, SCHEMA)


@cache
def answers(mechanism: Any, epsilon: float, delta: float, seed: int) -> dict[Marginal, NDArray[np.float64]]:
    """Estimated counts [area, cell] of every pair."""
    private, public = tables()
    rho = budget_rho(epsilon, delta)
    ledger = Ledger()
    run = ledger.open_run("made up", rho=rho, epsilon=epsilon, delta=delta, details={})
    curator = Curator(
        Vault(Encoder(SCHEMA, open_source(private), private=True, levels=True)),
        unit=Unit(),
        noise=SeededNoise(seed),
        account=Account(ledger, run, rho=rho, epsilon=epsilon, delta=delta),
    )
    model = mechanism.run(curator, public, WORK, np.random.default_rng(seed), quiet)
    return {m: v.reshape(len(LABELS), -1) for m, v in model.answers(PAIRS).items()}


def error(mechanism: Any, epsilon: float, delta: float = 1e-9, seed: int = 1) -> float:
    """Mean over the areas (those that got rows) of the mean L1 distance of all pairs."""
    truth = count_table(encode_table(tables()[0], SCHEMA), PAIRS)
    distances = []
    for pair, found in answers(mechanism, epsilon, delta, seed).items():
        given = found.sum(axis=1) > 0
        wanted = truth[pair].reshape(len(LABELS), -1)[given] / PRIVATE_ROWS
        shares = found[given] / found[given].sum(axis=1, keepdims=True)
        distances.append(np.abs(wanted - shares).sum(axis=1))
    return float(np.mean(distances))


def rows_off(mechanism: Any, epsilon: float, seed: int = 1) -> float:
    """How far the number of rows of the worst area is off."""
    found = answers(mechanism, epsilon, 1e-9, seed)[PAIRS[0]].sum(axis=1)
    return float(np.abs(found - PRIVATE_ROWS).max())


PUBLIC = PublicProxy()


@pytest.mark.parametrize(("epsilon", "factor"), [(1.0, 0.6), (10.0, 0.2)])
def test_the_hierarchy_beats_the_public_table_and_a_flat_release(epsilon: float, factor: float) -> None:
    ours = error(Hierarchy(), epsilon)
    assert ours < factor * error(PUBLIC, epsilon)
    assert rows_off(Hierarchy(), epsilon) < 250  # beyond that an area counts as lost
    assert ours < 0.9 * error(Ide(), epsilon)
    assert ours < 0.9 * error(Ide(choose="expected"), epsilon)
    # The areas' own measurements tell more than those of the whole.
    assert ours < error(Hierarchy(levels=((),)), epsilon)


def test_as_published_it_beats_the_public_table_too() -> None:
    assert error(Hierarchy.published(), 10.0, delta=0.0) < 0.8 * error(PUBLIC, 10.0)


def test_more_budget_gives_less_error() -> None:
    for update in ("shrink", "ide"):
        errors = [error(Hierarchy(update=update), epsilon) for epsilon in (0.1, 1.0, 10.0)]
        assert errors == sorted(errors, reverse=True)


def test_hardly_any_budget_does_no_harm() -> None:
    """With noise that drowns everything, shrinking stays near the public table of each area that still has rows."""
    assert error(Hierarchy(), 0.01) < 1.1 * error(PUBLIC, 0.01)
