"""Message passing, elimination and estimation against the full joint, on awkward sets of cliques."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

from openprior.counting.local import count_table
from openprior.models.graphical import elimination
from openprior.models.graphical.estimation import (
    METHODS,
    Estimator,
    alike,
    estimate,
    estimate_total,
)
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.models.graphical.model import GraphicalModel
from openprior.models.graphical.propagation import Propagation
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain
from tests.conftest import random_table

Marginals = list[tuple[str, ...]]


def split(*marginals: str) -> Marginals:
    """Marginals of attributes with one-letter names."""
    return [tuple(m) for m in marginals]


TRIANGLES = split("ab", "bc", "ac", "cd", "de", "ce")
CASES: dict[str, tuple[str | dict[str, int], Marginals]] = {
    # Sizes are drawn (2 to 4) where only names are given.
    "tree": ("abcdef", split("ab", "ac", "bd", "be", "cf")),
    "chain": ("abcdef", split("ab", "bc", "cd", "de", "ef")),
    "star": ("abcdef", split("af", "bf", "cf", "df", "ef")),
    "cycle of 4": ("abcd", split("ab", "bc", "cd", "ad")),
    "cycle of 5": ("abcde", split("ab", "bc", "cd", "de", "ae")),
    "grid": (
        dict.fromkeys("abcdefghi", 2),
        split("ab", "bc", "de", "ef", "gh", "hi", "ad", "dg", "be", "eh", "cf"),
    ),
    "two triangles": ("abcde", TRIANGLES),
    "disconnected": ("abcdef", split("ab", "cde", "f")),
    "attributes in no factor": ("abcde", split("bd", "d")),
    "duplicates": ("abcd", split("bc", "ab", "bc", "ab", "cd", "cd")),
    "nested": ("abcde", split("a", "ab", "abc", "c", "cd", "d", "ac", "e")),
    "size 1": (
        {"a": 1, "b": 3, "c": 1, "d": 4, "e": 1, "f": 2},
        split("ab", "b", "bcd", "ad", "e", "df", "c", "cd"),
    ),
    "only size 1": ({"a": 1, "b": 1}, split("ab")),
    "single attribute": ("a", split("a")),
    "no factor": ("abc", []),
    "no factor, one attribute": ("a", []),
    "complete graph": ("abcde", [tuple(p) for p in itertools.combinations("abcde", 2)]),
    "one clique of all": ("abcd", split("abcd", "bd")),
    "overlapping triples": ("abcdef", split("abc", "bcd", "cde", "def")),
    # Large enough for maps with two halves and for matrix products.
    "wide chain": (dict.fromkeys("abcd", 8), split("ab", "bc", "cd")),
    "wide triangle": ({"a": 17, "b": 16, "c": 18}, split("ab", "bc", "ac", "b")),
    "wide table": ({"a": 3, "b": 33, "c": 2, "d": 21}, split("abd", "bd", "ac", "d", "ab")),
    "backwards": ({"d": 3, "a": 5, "c": 40, "b": 8}, split("ac", "cb", "db", "da")),
}
SEEDS = range(3)
NAMED = pytest.mark.parametrize(("name", "seed"), list(itertools.product(CASES, SEEDS)))


def case(name: str, seed: int) -> tuple[Domain, Marginals]:
    """The domain, and the factors with their columns in its order."""
    names, marginals = CASES[name]
    rng = np.random.default_rng(seed)
    sizes = names if isinstance(names, dict) else {a: int(rng.integers(2, 5)) for a in names}
    order = list(sizes)
    domain = Domain(sizes)
    assert domain.size() <= 5000
    return domain, [tuple(sorted(m, key=order.index)) for m in marginals]


class Brute:
    """A model as one table of log-weights over the whole domain."""

    def __init__(self, domain: Domain, potentials: Mapping[tuple[str, ...], np.ndarray]) -> None:
        self.domain = domain
        self.logs = np.zeros(domain.shape)
        for m, values in potentials.items():
            self.logs = self.logs + values.reshape([domain[a] if a in m else 1 for a in domain])
        top = self.logs.max()
        weights = np.exp(self.logs - top)
        self.log_z = float(top + np.log(weights.sum()))
        self.joint = weights / weights.sum()

    def marginal(self, wanted: Iterable[str]) -> np.ndarray:
        return margin(self.joint, self.domain, wanted)


def margin(joint: np.ndarray, domain: Domain, wanted: Iterable[str]) -> np.ndarray:
    """Sum a table over the domain down; flat."""
    keep = set(wanted)
    return joint.sum(axis=tuple(i for i, a in enumerate(domain) if a not in keep)).reshape(-1)


def subsets(domain: Domain) -> Marginals:
    """Every non-empty set of attributes, the largest too."""
    ways = (itertools.combinations(domain.attributes, k + 1) for k in range(len(domain)))
    return list(itertools.chain.from_iterable(ways))


def normal(
    domain: Domain, factors: Marginals, seed: int, scale: float = 1.5
) -> dict[tuple[str, ...], np.ndarray]:
    """Random log-potentials; the factors each once."""
    rng = np.random.default_rng([seed, 1])
    return {m: rng.normal(0, scale, domain.size(m)) for m in dict.fromkeys(factors)}


def with_zeros(
    domain: Domain, potentials: Mapping[tuple[str, ...], np.ndarray], seed: int, share: float
) -> dict[tuple[str, ...], np.ndarray]:
    """The same with a share of the cells at -inf, yet one row possible for sure."""
    rng = np.random.default_rng([seed, 2])
    row = {a: int(rng.integers(s)) for a, s in domain.sizes().items()}
    found = {}
    for m, values in potentials.items():
        gone = rng.random(len(values)) < share
        gone[np.ravel_multi_index([row[a] for a in m], [domain[a] for a in m])] = False
        found[m] = np.where(gone, -np.inf, values)
    return found


def propagation(domain: Domain, factors: Marginals) -> Propagation:
    return Propagation(JunctionTree(domain, Structure(domain, factors).cliques), factors)


def flat(passes: Propagation, parts: Mapping[tuple[str, ...], np.ndarray]) -> np.ndarray:
    """The vector that the propagation takes."""
    vector = np.full(passes.length, np.nan)
    for m, values in parts.items():
        vector[passes.starts[m] : passes.starts[m] + len(values)] = values
    assert not np.isnan(vector).any()
    return vector


def check(
    passes: Propagation, potentials: Mapping[tuple[str, ...], np.ndarray], total: float
) -> GraphicalModel:
    """Everything that a pass of messages says, and every marginal of the model that comes of it."""
    domain = passes.tree.domain
    brute = Brute(domain, potentials)
    found, log_z = passes.marginals(flat(passes, potentials), total)
    assert log_z == pytest.approx(brute.log_z, rel=1e-9, abs=1e-9)
    for m, values in potentials.items():
        part = found[passes.starts[m] : passes.starts[m] + len(values)]
        np.testing.assert_allclose(part, total * brute.marginal(m), rtol=0, atol=1e-9 * total)
    tables = passes.clique_tables()
    for clique, axes, table in zip(passes.tree.cliques, passes.axes, tables, strict=True):
        assert sorted(axes) == sorted(clique)
        in_order = table.transpose([axes.index(a) for a in clique])
        np.testing.assert_allclose(
            in_order.reshape(-1), total * brute.marginal(clique), rtol=0, atol=1e-9 * total
        )
    model = GraphicalModel(passes.tree, tables, total)
    check_answers(model, brute)
    return model


def check_answers(model: GraphicalModel, brute: Brute) -> None:
    wanted = subsets(brute.domain)
    answers = model.answers(wanted)
    assert list(answers) == wanted
    for m in wanted:
        assert np.isfinite(answers[m]).all()
        np.testing.assert_allclose(
            answers[m], model.total * brute.marginal(m), rtol=0, atol=1e-9 * model.total
        )


@NAMED
def test_a_pass_and_every_answer_are_brute_force(name: str, seed: int) -> None:
    domain, factors = case(name, seed)
    check(propagation(domain, factors), normal(domain, factors, seed), 123.0)


@pytest.mark.parametrize("share", [0.15, 0.6])
@NAMED
def test_structural_zeros_are_brute_force(name: str, seed: int, share: float) -> None:
    domain, factors = case(name, seed)
    potentials = with_zeros(domain, normal(domain, factors, seed), seed, share)
    check(propagation(domain, factors), potentials, 40.0)


@NAMED
def test_one_propagation_serves_many_potentials(name: str, seed: int) -> None:
    """Nothing is left of the pass before: neither its zeros nor what `largest` put in the same room."""
    domain, factors = case(name, seed)
    passes = propagation(domain, factors)
    first = normal(domain, factors, seed)
    for potentials in (first, with_zeros(domain, first, seed, 0.5), normal(domain, factors, seed + 50)):
        brute = Brute(domain, potentials)
        values = flat(passes, potentials)
        before = values.copy()
        assert passes.largest(values) == pytest.approx(brute.logs.max(), rel=1e-12, abs=1e-12)
        found, log_z = passes.marginals(values, 1.0)
        assert log_z == pytest.approx(brute.log_z, rel=1e-9, abs=1e-9)
        expected = {m: brute.marginal(m) for m in potentials}
        np.testing.assert_allclose(found, flat(passes, expected), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("name", CASES)
def test_no_possible_row_is_log_z_of_minus_infinity(name: str) -> None:
    domain, factors = case(name, 0)
    if not factors:
        return
    passes = propagation(domain, factors)
    potentials = normal(domain, factors, 0)
    potentials[factors[-1]][:] = -np.inf
    found, log_z = passes.marginals(flat(passes, potentials), 1.0)
    assert log_z == -np.inf
    assert passes.largest(flat(passes, potentials)) == -np.inf
    assert not np.isnan(found).any()


@pytest.mark.parametrize("scale", [1e3, 1e5])
@NAMED
def test_extreme_potentials_neither_overflow_nor_give_nan(name: str, seed: int, scale: float) -> None:
    domain, factors = case(name, seed)
    rng = np.random.default_rng([seed, 3])
    signs = {m: rng.choice([-scale, 0.0, scale], domain.size(m)) for m in dict.fromkeys(factors)}
    small = normal(domain, factors, seed)
    check(propagation(domain, factors), {m: signs[m] + small[m] for m in signs}, 7.0)


@NAMED
def test_marginals_of_tiny_mass_stay_exact(name: str, seed: int) -> None:
    """Relative to themselves, as far down as e⁻³⁰⁰: rare cells are conditioned upon in samples and answers."""
    domain, factors = case(name, seed)
    passes = propagation(domain, factors)
    rng = np.random.default_rng([seed, 4])
    potentials = {m: rng.choice([-40.0, 0.0, 3.0], domain.size(m)) for m in dict.fromkeys(factors)}
    brute = Brute(domain, potentials)
    found, _ = passes.marginals(flat(passes, potentials), 1.0)
    for m, values in potentials.items():
        part = found[passes.starts[m] : passes.starts[m] + len(values)]
        np.testing.assert_allclose(part, brute.marginal(m), rtol=1e-9, atol=1e-130)


@pytest.mark.parametrize("room", [1, 30])
@NAMED
def test_elimination_in_slices_gives_the_same(
    name: str, seed: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, factors = case(name, seed)
    potentials = with_zeros(domain, normal(domain, factors, seed), seed, 0.2)
    passes = propagation(domain, factors)
    passes.marginals(flat(passes, potentials), 1.0)
    monkeypatch.setattr(elimination, "_ROOM", room)
    check_answers(GraphicalModel(passes.tree, passes.clique_tables(), 9.0), Brute(domain, potentials))


@pytest.mark.parametrize("seed", range(60))
def test_random_models_are_brute_force(seed: int) -> None:
    """Any domain of up to seven attributes, any factors of up to four; half of them with zeros."""
    rng = np.random.default_rng([seed, 5])
    sizes = rng.choice([1, 2, 2, 3, 3, 4, 5], size=rng.integers(1, 8)).tolist()
    while np.prod(sizes) > 5000:
        sizes[int(np.argmax(sizes))] -= 1
    domain = Domain({f"x{i}": s for i, s in enumerate(sizes)})
    factors = []
    for _ in range(int(rng.integers(0, 8))):
        chosen = rng.choice(len(sizes), size=min(len(sizes), int(rng.integers(1, 5))), replace=False)
        factors.append(tuple(f"x{i}" for i in sorted(chosen)))
    potentials = normal(domain, factors, seed, 2.0)
    if seed % 2:
        potentials = with_zeros(domain, potentials, seed, 0.4)
    check(propagation(domain, factors), potentials, 1.0)


def test_a_separator_of_which_most_cells_are_impossible() -> None:
    """In a chain of identity-like tables only three rows can be; all else is 0, not 0/0."""
    domain = Domain(dict.fromkeys("abcd", 3))
    only = np.where(np.eye(3, dtype=bool), 0.0, -np.inf).reshape(-1)
    last = only.copy()
    last[8] = -np.inf
    factors = split("ab", "bc", "cd")
    model = check(propagation(domain, factors), {factors[0]: only, factors[1]: only, factors[2]: last}, 4.0)
    expected = np.zeros((3, 3))
    expected[0, 0] = expected[1, 1] = 2.0
    np.testing.assert_allclose(model.answers([("a", "d")])["a", "d"].reshape(3, 3), expected, atol=1e-12)


# Estimation: an exact quadratic program over all cells of the joint.


class Quadratic:
    """½ Σ w‖margin − y‖² over tables ≥ 0 of a given sum, zero where they have to be."""

    def __init__(
        self,
        domain: Domain,
        measurements: list[Measurement],
        total: float,
        allowed: np.ndarray | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.total = total
        self.allowed = np.ones(domain.size(), bool) if allowed is None else allowed.reshape(-1)
        cells = np.eye(domain.size()).reshape(-1, *domain.shape)
        roots = np.sqrt([m.sigma**-2 for m in measurements] if weights is None else weights)
        rows = [
            root * np.stack([margin(c, domain, m.marginal) for c in cells], axis=1)
            for root, m in zip(roots, measurements, strict=True)
        ]
        self.matrix = np.concatenate(rows)
        self.target = np.concatenate([r * m.values for r, m in zip(roots, measurements, strict=True)])
        self.scale = 0.5 * float(self.target @ self.target)
        self.least = self._solve()

    def objective(self, joint: np.ndarray) -> float:
        residual = self.matrix @ joint.reshape(-1) - self.target
        return 0.5 * float(residual @ residual)

    def _solve(self) -> float:
        """The sum is in every column: with Σx = N, Bx − b = Cx for C = B − b1ᵀ/N, and the least ‖Cx‖ with Σx = N is,
        up to a factor, where ‖Cx‖² + (Σx − N)² is least without that constraint. The certificate is checked."""
        n = self.total
        b = self.matrix[:, self.allowed]
        c = (b * n - self.target[:, None]) / n
        unit = np.abs(c).max() or 1.0
        x, _ = nnls(np.concatenate([c / unit, np.ones((1, c.shape[1]))]), np.append(np.zeros(len(c)), n))
        x *= n / x.sum()
        gradient = b.T @ (b @ x - self.target)
        gap = float(gradient @ x - n * gradient.min())
        best = 0.5 * float(((b @ x - self.target) ** 2).sum())
        assert min(gap, best) <= 1e-8 * max(best, 1e-9 * self.scale), "the oracle itself is off"
        return best


def noisy(
    domain: Domain, marginals: Marginals, seed: int, *, sigma: float = 4.0, rows: int = 200
) -> list[Measurement]:
    """Counts of one random table, with noise of its own each; said to be 1, so that all weigh 1."""
    rng = np.random.default_rng([seed, 6])
    joint = rng.multinomial(rows, rng.dirichlet(np.full(domain.size(), 0.5))).reshape(domain.shape)
    return [
        Measurement.of(m, margin(joint, domain, m) + rng.normal(0, sigma, domain.size(m)), 1.0)
        for m in marginals
    ]


SMALL = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
LINE = split("ab", "bc", "cd")
ROUND = split("ab", "bc", "cd", "ad")


def weighing(measurements: list[Measurement], weights: Iterable[float]) -> list[Measurement]:
    """The same values, said to be so noisy that they have these weights."""
    return [replace(m, sigma=w**-0.5) for m, w in zip(measurements, weights, strict=True)]


def problem(kind: str, seed: int) -> tuple[list[Measurement], dict[tuple[str, ...], np.ndarray]]:
    """Measurements and structural zeros."""
    rng = np.random.default_rng([seed, 7])
    zeros: dict[tuple[str, ...], np.ndarray] = {}
    if kind == "chain":
        seen = noisy(SMALL, LINE, seed)
    elif kind == "cycle":
        seen = noisy(SMALL, ROUND, seed)
    elif kind == "nested":
        seen = noisy(SMALL, split("a", "ab", "abc", "d", "cd", "c"), seed)
    elif kind == "one attribute unseen":
        seen = noisy(SMALL, split("ab", "d"), seed)
    elif kind == "weights":
        seen = weighing(noisy(SMALL, ROUND, seed), [0.5, 3, 1, 8])
    elif kind == "weights far apart":
        seen = weighing(noisy(SMALL, ROUND, seed), [0.01, 3, 1, 40])
    elif kind == "repeated":
        seen = [*noisy(SMALL, LINE, seed), *noisy(SMALL, LINE, seed), *noisy(SMALL, split("ab"), seed)]
        seen = [replace(m, values=m.values + rng.normal(0, 9, len(m.values))) for m in seen]
        seen = weighing(seen, [0.5 + i for i in range(len(seen))])
    elif kind == "contradicting":
        seen = [*noisy(SMALL, ROUND, seed), *noisy(SMALL, split("bc", "a", "d"), seed + 100, rows=150)]
    elif kind == "negative":
        seen = noisy(SMALL, ROUND, seed, sigma=60.0)
        assert min(o.values.min() for o in seen) < 0
    elif kind == "exact":
        seen = noisy(SMALL, ROUND, seed, sigma=0.0)
    elif kind == "zeros":
        seen = noisy(SMALL, ROUND, seed, sigma=10.0)
        zeros = {m: rng.random(SMALL.size(m)) < 0.3 for m in split("ab", "cd", "bd")}
        for mask in zeros.values():
            mask[0] = False
    else:
        raise AssertionError(kind)
    return seen, zeros


def possible(domain: Domain, zeros: Mapping[tuple[str, ...], np.ndarray]) -> np.ndarray:
    """The cells of the joint that no mask forbids."""
    allowed = np.ones(domain.shape, bool)
    for m, mask in zeros.items():
        allowed &= ~mask.reshape([domain[a] if a in m else 1 for a in domain])
    return allowed


KINDS = [
    "chain",
    "cycle",
    "nested",
    "one attribute unseen",
    "weights",
    "weights far apart",
    "repeated",
    "contradicting",
    "negative",
    "exact",
    "zeros",
]
PROBLEMS = pytest.mark.parametrize(("kind", "seed"), list(itertools.product(KINDS, SEEDS)))


def joint_of(model: GraphicalModel) -> np.ndarray:
    return model.answers([model.domain.attributes])[model.domain.attributes].reshape(model.domain.shape)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("kind", "seed"), list(itertools.product(KINDS, range(4))))
def test_estimates_reach_the_optimum_of_a_general_solver(kind: str, seed: int, method: str) -> None:
    """The total is known for every other problem, and estimated for the rest."""
    if (kind, method) == ("weights far apart", "mirror"):
        pytest.skip("plain steps need tens of thousands here")
    seen, zeros = problem(kind, seed)
    total = None if seed % 2 else 200.0
    steps = 4000 if kind == "weights far apart" else 1500
    fitter = Estimator(SMALL, total, zeros=zeros, method=method, tolerance=1e-14, max_steps=steps)
    model = fitter.fit(seen)
    exact = Quadratic(SMALL, seen, model.total, possible(SMALL, zeros))
    joint = joint_of(model)
    assert model.total == pytest.approx(total or estimate_total(seen), rel=1e-12)
    assert joint.sum() == pytest.approx(model.total, rel=1e-12)
    assert (joint >= 0).all()
    assert (joint[~possible(SMALL, zeros)] == 0).all()
    assert fitter.last is not None
    assert fitter.last.objective == pytest.approx(exact.objective(joint), rel=1e-9, abs=1e-16 * exact.scale)
    close = 1e-6 * max(exact.least, 1e-9 * exact.scale)
    assert exact.objective(joint) == pytest.approx(exact.least, rel=0, abs=close)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_weighed_alike_the_noise_does_not_move_the_optimum(seed: int, method: str) -> None:
    seen = weighing(noisy(SMALL, ROUND, seed, sigma=10.0), [0.5, 3, 1, 8])
    for measurements in (seen, [replace(m, sigma=0.0) for m in seen]):
        fitter = Estimator(SMALL, weigh=alike, method=method, tolerance=1e-14, max_steps=1500)
        model = fitter.fit(measurements)
        assert model.total == pytest.approx(estimate_total(measurements, alike), rel=1e-12)
        exact = Quadratic(SMALL, measurements, model.total, weights=[1.0] * len(seen))
        assert exact.objective(joint_of(model)) == pytest.approx(exact.least, rel=1e-6)
    other = Quadratic(SMALL, seen, model.total)
    assert other.objective(joint_of(model)) > other.least * 1.001, "the weights would not have mattered"


@pytest.mark.parametrize("tolerance", [1.0, 0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("method", METHODS)
@PROBLEMS
def test_the_gap_bounds_the_distance_to_the_optimum(
    kind: str, seed: int, method: str, tolerance: float
) -> None:
    seen, zeros = problem(kind, seed)
    fitter = Estimator(SMALL, 200.0, zeros=zeros, method=method, tolerance=tolerance)
    model = fitter.fit(seen)
    exact = Quadratic(SMALL, seen, 200.0, possible(SMALL, zeros))
    fit, found = fitter.last, exact.objective(joint_of(model))
    assert fit is not None
    assert fit.objective == pytest.approx(found, rel=1e-9, abs=1e-12 * exact.scale)
    assert found - exact.least <= fit.gap + 1e-9 * exact.scale
    assert fit.steps <= 2000
    if fit.converged:
        uniform = exact.objective(np.full(SMALL.shape, 200 / SMALL.size()))
        small, noise = tolerance * max(found, uniform), 0.5 * sum(len(m.values) for m in seen)
        assert fit.gap <= max(small, min(noise, 20 * small)) * (1 + 1e-9)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_cut_short_says_so_and_still_knows_its_distance(kind: str, method: str, steps: int) -> None:
    seen, zeros = problem(kind, 0)
    fitter = Estimator(SMALL, 200.0, zeros=zeros, method=method, tolerance=1e-12, max_steps=steps)
    model = fitter.fit(seen)
    exact = Quadratic(SMALL, seen, 200.0, possible(SMALL, zeros))
    assert fitter.last is not None
    assert fitter.last.steps <= steps
    assert not fitter.last.converged
    assert exact.objective(joint_of(model)) - exact.least <= fitter.last.gap + 1e-9 * exact.scale


@pytest.mark.parametrize("method", METHODS)
def test_more_steps_never_make_it_worse(method: str) -> None:
    seen, zeros = problem("contradicting", 1)
    found = []
    for steps in (1, 5, 20, 100, 500):
        fitter = Estimator(SMALL, 200.0, zeros=zeros, method=method, tolerance=1e-12, max_steps=steps)
        fitter.fit(seen)
        assert fitter.last is not None
        found.append(fitter.last.objective)
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


@pytest.mark.parametrize("method", METHODS)
def test_the_default_tolerance_is_reached_within_the_default_steps(method: str) -> None:
    for kind in KINDS:
        fitter = Estimator(SMALL, 200.0, zeros=problem(kind, 0)[1], method=method)
        fitter.fit(problem(kind, 0)[0])
        assert fitter.last is not None
        assert fitter.last.converged, kind


def test_the_total_is_the_inverse_variance_mean_of_the_sums() -> None:
    rng = np.random.default_rng(8)
    seen = [
        Measurement.of(m, rng.normal(300 / SMALL.size(m), 5, SMALL.size(m)), s)
        for m, s in zip([*ROUND, *split("ab", "a")], [1, 3, 0.7, 0.4, 1.8, 7], strict=True)
    ]
    variances = np.array([len(m.values) * m.sigma**2 for m in seen])
    sums = np.array([m.values.sum() for m in seen])
    expected = (sums / variances).sum() / (1 / variances).sum()
    assert estimate_total(seen) == pytest.approx(expected, rel=1e-12)
    assert estimate(SMALL, seen).total == pytest.approx(expected, rel=1e-12)
    # It is the best linear guess: constants move it by as much, and no other weighting has less variance.
    best = np.array([1 / v for v in variances]) / (1 / variances).sum()
    for other in rng.dirichlet(np.ones(len(seen)), 50):
        assert (other**2 * variances).sum() >= (best**2 * variances).sum()


def test_a_total_below_one_row_is_one_row() -> None:
    seen = [Measurement.of(("a",), np.array([-5.0, 2.0]), 1.0)]
    assert estimate_total(seen) == 1.0
    assert estimate(SMALL, seen).total == 1.0
    assert estimate_total([]) == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_of_consistent_marginals_factorises(method: str, seed: int) -> None:
    """Largest entropy: p(a,b,c,d) = p(a,b)·p(c|b)·p(d|c), which no other solution of the fit is."""
    seen = noisy(SMALL, LINE, seed, sigma=0.0, rows=100_000)
    model = estimate(SMALL, seen, 100_000.0, method=method, tolerance=1e-12, max_steps=3000)
    ab, bc, cd = (o.values.reshape([SMALL[a] for a in o.marginal]) for o in seen)
    expected = np.einsum("ab,bc,b,cd,c->abcd", ab, bc, 1 / bc.sum(axis=1), cd, 1 / cd.sum(axis=1))
    np.testing.assert_allclose(joint_of(model), expected, atol=1e-5 * 100_000)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cycle_of_consistent_marginals_has_the_largest_entropy(method: str, seed: int) -> None:
    """Iterative proportional fitting of the uniform table finds the same."""
    seen = noisy(SMALL, ROUND, seed, sigma=0.0, rows=100_000)
    model = estimate(SMALL, seen, 100_000.0, method=method, tolerance=1e-12, max_steps=3000)
    joint = np.full(SMALL.shape, 100_000 / SMALL.size())
    for _ in range(2000):
        for o in seen:
            ratio = o.values / margin(joint, SMALL, o.marginal)
            joint = joint * ratio.reshape([SMALL[a] if a in o.marginal else 1 for a in SMALL])
    np.testing.assert_allclose(joint_of(model), joint, atol=1e-4 * 100_000)


@pytest.mark.parametrize("method", METHODS)
def test_no_measurement_is_the_uniform_model(method: str) -> None:
    model = estimate(SMALL, [], 10.0, method=method)
    np.testing.assert_allclose(joint_of(model), 10 / SMALL.size())
    forbidden = {("a", "d"): np.arange(8) % 3 == 0}
    model = estimate(SMALL, [], 10.0, zeros=forbidden, method=method)
    allowed = possible(SMALL, forbidden)
    np.testing.assert_allclose(joint_of(model), np.where(allowed, 10 / allowed.sum(), 0.0), atol=1e-12)


def test_zeros_may_name_their_columns_in_any_order() -> None:
    mask = np.random.default_rng(1).random((4, 2)) < 0.4
    seen = noisy(SMALL, split("ad"), 3)
    model = estimate(SMALL, seen, zeros={("d", "a"): mask})
    found = model.answers([("a", "d")])["a", "d"].reshape(2, 4)
    np.testing.assert_array_equal(found == 0, mask.T)


# Warm starts.


@pytest.mark.parametrize("method", METHODS)
@PROBLEMS
def test_fitting_the_same_again_takes_few_steps(kind: str, seed: int, method: str) -> None:
    seen, zeros = problem(kind, seed)
    fitter = Estimator(SMALL, 200.0, zeros=zeros, method=method)
    fitter.fit(seen)
    cold = fitter.last
    fitter.fit(seen)
    warm = fitter.last
    assert cold is not None and warm is not None
    assert warm.converged
    assert warm.steps <= 30
    assert warm.objective <= cold.objective * (1 + 1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_many_fits_of_the_same_do_no_harm_to_the_next(seed: int, method: str) -> None:
    """There is nothing left to gain, so any step length seems too long; the next measurement needs a real one."""
    seen = noisy(SMALL, ROUND, seed, sigma=8.0)
    fitter, fresh = (Estimator(SMALL, 200.0, method=method) for _ in range(2))
    for _ in range(30):
        fitter.fit(seen[:3])
    fitter.fit(seen)
    fresh.fit(seen)
    warm, cold = fitter.last, fresh.last
    assert warm is not None and cold is not None
    assert warm.converged, warm
    assert warm.steps <= cold.steps + 50
    assert warm.objective <= cold.objective + warm.gap


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_to_the_last_digit_does_no_harm_to_the_next(seed: int, method: str) -> None:
    seen = noisy(SMALL, ROUND, seed, sigma=8.0)
    fitter = Estimator(SMALL, 200.0, method=method, tolerance=1e-12)
    fitter.fit(seen[:3])
    fitter.fit(seen)
    exact = Quadratic(SMALL, seen, 200.0)
    assert fitter.last is not None
    assert fitter.last.objective == pytest.approx(exact.least, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_rounds_of_warm_fits_stay_as_good_as_cold_ones(seed: int) -> None:
    """As AIM and JAM-PGM use it: a new marginal every round, with noise that leaves many cells negative. Cells that one
    round drove to nothing must be able to come back in the next."""
    table = random_table({"a": 8, "b": 12, "c": 5, "d": 9, "e": 6, "f": 7, "g": 4, "h": 10}, 5000, seed)
    rng = np.random.default_rng([seed, 8])
    structure, seen, fits = Structure(table.domain), [], []
    warm = Estimator(table.domain, 5000.0, weigh=alike)
    while len(seen) < 10:
        chosen = rng.choice(8, size=rng.integers(1, 4), replace=False)
        marginal = tuple(table.domain.attributes[i] for i in sorted(chosen))
        if structure.cells_with(marginal) > 3000:
            continue
        structure = structure.with_marginal(marginal)
        exact = count_table(table, [marginal])[marginal]
        seen.append(Measurement.of(marginal, exact + rng.normal(0, 15, len(exact)), 0.0))
        warm.fit(seen)
        cold = Estimator(table.domain, 5000.0, weigh=alike)
        cold.fit(seen)
        assert warm.last is not None and cold.last is not None
        fits.append((warm.last, cold.last))
    assert all(w.converged and c.converged for w, c in fits), fits
    assert all(w.objective <= c.objective + w.gap for w, c in fits)
    assert sum(w.steps for w, _ in fits) <= 2 * sum(c.steps for _, c in fits)


GROWTH = {
    "the tree stays": split("ab", "bc", "cd", "bc"),
    "the chain becomes a cycle": split("ab", "bc", "cd", "ad"),
    "two parts are joined": split("ab", "cd", "bc"),
    "a larger clique swallows two": split("ab", "bc", "abc"),
    "a part of a clique": split("abc", "cd", "ac", "b"),
    "everything": split("a", "cd", "bd", "abcd"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("growth", "seed"), list(itertools.product(GROWTH, SEEDS)))
def test_a_warm_fit_equals_a_cold_one_after_each_measurement(growth: str, seed: int, method: str) -> None:
    seen = noisy(SMALL, GROWTH[growth], seed, sigma=8.0)
    warm = Estimator(SMALL, 200.0, method=method, tolerance=1e-6, max_steps=5000)
    for k in range(1, len(seen) + 1):
        model = warm.fit(seen[:k])
        cold = Estimator(SMALL, 200.0, method=method, tolerance=1e-6, max_steps=5000)
        fresh = cold.fit(seen[:k])
        exact = Quadratic(SMALL, seen[:k], 200.0)
        assert warm.last is not None and cold.last is not None
        assert warm.last.converged and cold.last.converged
        assert exact.objective(joint_of(model)) - exact.least <= warm.last.gap + 1e-9 * exact.scale
        # f grows from its minimum at least as ½‖μ − μ*‖² does.
        apart = np.linalg.norm(exact.matrix @ (joint_of(model) - joint_of(fresh)).reshape(-1))
        assert apart <= np.sqrt(2 * warm.last.gap) + np.sqrt(2 * cold.last.gap) + 1e-6
        np.testing.assert_allclose(joint_of(model), joint_of(fresh), atol=0.01 * 200)


@pytest.mark.parametrize("method", METHODS)
def test_a_larger_structure_changes_nothing_but_the_tree(method: str) -> None:
    seen = noisy(SMALL, LINE, 5)
    larger = Structure(SMALL, [*LINE, ("a", "c", "d")])
    plain, roomy = (Estimator(SMALL, 200.0, method=method, tolerance=1e-9, max_steps=1500) for _ in range(2))
    first, second = plain.fit(seen), roomy.fit(seen, larger)
    assert set(second.tree.cliques) == set(larger.cliques)
    np.testing.assert_allclose(joint_of(first), joint_of(second), atol=1e-3)
