"""Message passing gives the same in numbers and in logarithms; sums along any axes."""

import numpy as np
import pytest

from openprior.models.graphical import marginalisation
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.models.graphical.marginalisation import sum_down
from openprior.models.graphical.propagation import Propagation
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


@pytest.mark.parametrize("seed", range(6))
def test_numbers_and_logarithms_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    factors = FACTORS[seed % 3 :]
    marginals, log_z, top, tables = passes(factors, seed)
    monkeypatch.setattr(Propagation, "_starts_in_logs", True)
    again = passes(factors, seed)
    np.testing.assert_allclose(again[0], marginals, atol=1e-11)
    assert again[1:3] == pytest.approx((log_z, top))
    for mine, theirs in zip(again[3], tables, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_potentials_that_spread_far_fall_back_on_logarithms(scale: float) -> None:
    """Numbers would vanish: the two factors disagree by more than e^1000 on every cell but those of a tie."""
    tree = JunctionTree(DOMAIN, Structure(DOMAIN, [("a", "b"), ("b", "d"), ("a", "d")]).cliques)
    engine = Propagation(tree, [("a", "b"), ("b", "d"), ("a", "d")])
    rng = np.random.default_rng(0)
    potentials = scale * rng.normal(size=engine.length)
    marginals, log_z = engine.marginals(potentials, 1.0)
    parts = {m: potentials[engine.starts[m] : engine.starts[m] + DOMAIN.size(m)] for m in engine.factors}
    ab, bd, ad = (parts[m].reshape([DOMAIN[a] for a in m]) for m in engine.factors)
    joint = ab[:, :, None] + bd[None] + ad[:, None]
    top = joint.max()
    spare = np.log(DOMAIN.size(("c", "e", "f")))
    assert log_z == pytest.approx(top + np.log(np.exp(joint - top).sum()) + spare, rel=1e-12)
    share = np.exp(joint - top) / np.exp(joint - top).sum()
    np.testing.assert_allclose(marginals[: ab.size], share.sum(axis=2).reshape(-1), atol=1e-12)


@pytest.mark.parametrize("inner", [1, 6, 1024])
@pytest.mark.parametrize("target", [("a",), ("d", "b"), ("f", "c", "a"), ("a", "b", "c", "d", "e", "f"), ()])
def test_summing_down(target: tuple[str, ...], inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginalisation, "_INNER", inner)
    monkeypatch.setattr(marginalisation, "_halves", marginalisation._halves.__wrapped__)
    table = np.random.default_rng(0).random(DOMAIN.shape)
    axes = DOMAIN.attributes
    letters = "".join(target)
    expected = np.einsum(f"abcdef->{letters}", table).reshape(-1)
    np.testing.assert_allclose(sum_down(table.reshape(-1), DOMAIN, axes, target), expected)


def test_a_factor_outside_every_clique_is_refused() -> None:
    tree = JunctionTree(DOMAIN, Structure(DOMAIN, [("a", "b")]).cliques)
    with pytest.raises(ValueError, match="in no clique"):
        Propagation(tree, [("a", "f")])
