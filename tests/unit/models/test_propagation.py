"""Message passing gives the same whatever the sizes of blocks and groups, and sums along any axes."""

import numpy as np
import pytest

from openprior.models.graphical import propagation
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.models.graphical.propagation import Propagation, sum_down
from openprior.schema.domain import Domain

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5, "e": 1, "f": 3})
FACTORS = [("a", "b", "c"), ("c", "d"), ("b", "d", "f"), ("a",), ("b", "d"), ("e",), ("a", "f")]


def passes(factors: list[tuple[str, ...]], seed: int) -> tuple[np.ndarray, float, float, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    tree = JunctionTree(DOMAIN, Structure(DOMAIN, factors).cliques)
    engine = Propagation(tree, factors)
    potentials = rng.normal(size=engine.length) * 4
    potentials[rng.random(engine.length) < 0.1] = -np.inf
    top = engine.largest(potentials)
    marginals, log_z = engine.marginals(potentials, 50.0)
    return marginals.copy(), log_z, top, engine.clique_tables()


@pytest.mark.parametrize(
    ("inner", "group", "even"), [(1, 1, 1), (2, 3, 2), (5, 8, 2), (24, 60, 4), (10**6, 10**6, 1)]
)
@pytest.mark.parametrize("seed", range(6))
def test_block_sizes_do_not_matter(
    inner: int, group: int, even: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = FACTORS[seed % 3 :]
    marginals, log_z, top, tables = passes(factors, seed)
    monkeypatch.setattr(propagation, "_INNER", inner)
    monkeypatch.setattr(propagation, "_GROUP", group)
    monkeypatch.setattr(propagation, "_EVEN", even)
    again = passes(factors, seed)
    np.testing.assert_allclose(again[0], marginals, atol=1e-11)
    assert again[1:3] == pytest.approx((log_z, top))
    for mine, theirs in zip(again[3], tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-11)


@pytest.mark.parametrize("inner", [1, 6, 1024])
@pytest.mark.parametrize("target", [("a",), ("d", "b"), ("f", "c", "a"), ("a", "b", "c", "d", "e", "f"), ()])
def test_summing_down(target: tuple[str, ...], inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagation, "_INNER", inner)
    table = np.random.default_rng(0).random(DOMAIN.shape)
    axes = DOMAIN.attributes
    letters = "".join(target)
    expected = np.einsum(f"abcdef->{letters}", table).reshape(-1)
    np.testing.assert_allclose(sum_down(table.reshape(-1), DOMAIN, axes, target), expected)


def test_a_factor_outside_every_clique_is_refused() -> None:
    tree = JunctionTree(DOMAIN, Structure(DOMAIN, [("a", "b")]).cliques)
    with pytest.raises(ValueError, match="in no clique"):
        Propagation(tree, [("a", "f")])
