"""The tilted prior: awkward tables, particles, learning, files, standard errors, and the mechanism."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import openprior.counting.local as local
import openprior.models.prior.classes as mixture
import openprior.models.prior.network as network
import openprior.models.prior.prior as prior_module
import openprior.models.tilted.particles as particles_module
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.tilt import Tilt
from openprior.models.base import load_model
from openprior.models.prior.classes import fit_classes
from openprior.models.prior.conditionals import Conditionals
from openprior.models.prior.contexts import logs_of
from openprior.models.prior.held_out import agree
from openprior.models.prior.network import Networks, fit_networks, log_density
from openprior.models.prior.parents import ParentSearch
from openprior.models.prior.prior import Prior, fit_prior, uniform_prior
from openprior.models.tilted.particles import Particles
from openprior.models.tilted.tilted_model import TiltedModel
from openprior.models.tilted.tilting import Tilting
from openprior.privacy.fake import FakeCurator
from openprior.privacy.measurement import Measurement
from openprior.privacy.noise import SeededNoise
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal, Workload, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for
from tests.conftest import PRIVATE, PUBLIC, quiet, random_table
from tests.conftest import SIZES as NARROW

SIZES = {"a": 4, "b": 3, "c": 5, "d": 4, "e": 3}


def as_table(sizes: dict[str, int], codes: np.ndarray) -> Table:
    columns = (codes[:, i].astype(dtype_for(s)) for i, s in enumerate(sizes.values()))
    return Table(Domain(sizes), tuple(np.ascontiguousarray(c) for c in columns))


def table_of(networks: Networks, sizes: np.ndarray, k: int, a: int) -> tuple[list[int], np.ndarray]:
    """An attribute's parents and all its distributions, [context, value]."""
    parents = [int(b) for b in networks.parents[k, a] if b >= 0]
    contexts = math.prod(int(sizes[b]) for b in parents)
    start = int(networks.index_start[k, a])
    rows = networks.index[start : start + contexts].astype(np.int64)
    at = networks.table_start[k, a] + rows[:, None] * sizes[a] + np.arange(sizes[a])
    return parents, networks.table[at].astype(float)


# Networks.


def test_a_functional_dependence_is_found_and_kept() -> None:
    """b = f(a): in every network one is the parent of the other, and nearly all mass is on the function."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 6, 2000)
    codes = np.stack([a, a // 2, rng.integers(0, 4, 2000)], axis=1).astype(np.uint16)
    sizes = np.array([6, 3, 4])
    networks = fit_networks(codes, sizes, 4, rng)
    for k in range(4):
        assert 0 in networks.parents[k, 1] or 1 in networks.parents[k, 0]
        assert 2 not in networks.parents[k, :2]
    held = np.exp(log_density(networks, np.array([[v, v // 2, 0] for v in range(6)], np.uint16), sizes)).sum()
    broken = np.array([[v, w, 0] for v in range(6) for w in range(3) if w != v // 2], np.uint16)
    assert held > 0.2
    assert 0 < np.exp(log_density(networks, broken, sizes)).sum() < 0.003


def test_a_context_never_seen_falls_back_to_a_shorter_one() -> None:
    """c follows a and b, but rows with a = 2 are only seen with b = 0: then c given a alone speaks."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 3000)
    b = np.where(a == 2, 0, rng.integers(0, 2, 3000))
    c = np.where(rng.random(3000) < 0.9, (a + 2 * b) % 5, rng.integers(0, 5, 3000))
    codes, sizes = np.stack([a, b, c], axis=1).astype(np.uint16), np.array([3, 2, 5])
    conditionals = Conditionals(np.ascontiguousarray(codes.T), sizes, 2)
    part = conditionals.given([0, 1])
    index = part.index.reshape(3, 2)
    assert index[2, 1] != index[2, 0]
    alone = conditionals.given([0])
    np.testing.assert_allclose(part.table[index[2, 1]], alone.table[alone.index[2]], rtol=1e-5)
    assert part.table[index[0, 1]].argmax() == 2


AWKWARD = {
    "one column": ((5,), 50),
    "one value": ((1,), 50),
    "size 1 among others": ((1, 4, 1, 3), 50),
    "one row": ((3, 4, 2), 1),
    "two rows": ((3, 4, 2), 2),
    "duplicates": ((3, 4, 2), -60),
    "300 by 300": ((300, 300), 400),
    "more values than rows": ((1000, 2, 50), 20),
    "as many values as codes": ((65_536, 3, 65_536), 300),
    "a hundred columns": ((2, 3, 1, 4) * 25, 60),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tables_make_networks_and_classes(name: str) -> None:
    shape, rows = AWKWARD[name]
    sizes, rng = np.array(shape), np.random.default_rng(0)
    codes = np.stack([rng.integers(0, s, abs(rows)) for s in shape], axis=1).astype(np.uint16)
    if rows < 0:
        codes[:] = codes[0]
    networks = fit_networks(codes, sizes, 2, rng)
    for k, a in itertools.product(range(2), range(len(shape))):
        parents, table = table_of(networks, sizes, k, a)
        assert a not in parents
        assert len(set(parents)) == len(parents)
        assert (table > 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-4)
    assert np.isfinite(log_density(networks, codes, sizes)).all()
    classes = fit_classes(codes, sizes, 3, rng)
    assert np.isfinite(classes.likelihood)
    assert (classes.values > 0).all()
    assert len(classes.member) == len(codes)


@pytest.mark.parametrize("threads", [1, 3])
def test_networks_and_classes_depend_on_the_seed_alone(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.stack(random_table(SIZES, 500, 0).columns, axis=1).astype(np.uint16)
    sizes = np.array(list(SIZES.values()))
    first = fit_networks(codes, sizes, 3, np.random.default_rng(4))
    classes = fit_classes(codes, sizes, 5, np.random.default_rng(4))
    for module in (network, mixture):
        monkeypatch.setattr(module, "workers", lambda: threads)
    again = fit_networks(codes, sizes, 3, np.random.default_rng(4))
    for field in ("order", "parents", "index", "table", "children"):
        assert (getattr(first, field) == getattr(again, field)).all()
    repeated = fit_classes(codes, sizes, 5, np.random.default_rng(4))
    assert (classes.values == repeated.values).all()
    assert (classes.member == repeated.member).all()
    other = fit_networks(codes, sizes, 3, np.random.default_rng(5))
    assert other.table.shape != first.table.shape or (other.table != first.table).any()


def test_a_parent_tried_after_other_orders_is_worth_the_same() -> None:
    """What an order finds does not depend on the orders before it."""
    codes = np.stack(random_table(SIZES, 700, 2).columns, axis=1).astype(np.uint16)
    sizes, columns, logs = np.array(list(SIZES.values())), np.ascontiguousarray(codes.T), logs_of(len(codes))
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(sizes)) for _ in range(12)]
    for a in range(len(sizes)):
        known = ParentSearch(a, columns, sizes, logs)
        for order in orders:
            before = order[: int(np.argmax(order == a))]
            assert known.best(before) == ParentSearch(a, columns, sizes, logs).best(before)


def test_conditionals_do_not_depend_on_which_were_made_before() -> None:
    codes = np.stack(random_table(SIZES, 300, 3).columns, axis=1).astype(np.uint16)
    sizes, columns = np.array(list(SIZES.values())), np.ascontiguousarray(codes.T)
    known = Conditionals(columns, sizes, 0)
    for parents in [[1, 2], [1, 2, 3], [1, 3], [], [2], [2, 1], [1, 2]]:
        found, alone = known.given(parents), Conditionals(columns, sizes, 0).given(parents)
        assert found.parents == alone.parents == tuple(parents)
        assert (found.index == alone.index).all()
        assert (found.table == alone.table).all()


# Priors.


def test_pairs_of_draws_measure_kinds_without_the_noise_of_the_draws() -> None:
    """The products are those of the distributions drawn from, where squares of counts would be twice as large."""
    rng = np.random.default_rng(0)
    sizes, cells, draws = np.array([40, 50]), 2000, 1500
    shares = rng.dirichlet(np.full(cells, 5.0), size=2)
    truth = rng.dirichlet(np.full(cells, 5.0))

    def rows(p: np.ndarray, n: int) -> np.ndarray:
        return np.stack(np.unravel_index(rng.choice(cells, n, p=p), sizes), axis=1).astype(np.uint16)

    found = [
        agree([rows(p, draws) for p in shares], rows(truth, draws), sizes, [[0, 1]], 1e3) for _ in range(30)
    ]
    products = 1e3 * np.mean([p for p, _ in found], axis=0)
    np.testing.assert_allclose(products, shares @ shares.T, rtol=0.05)
    np.testing.assert_allclose(1e3 * np.mean([a for _, a in found], axis=0), shares @ truth, rtol=0.05)
    assert (shares**2).sum(axis=1).max() + 1 / draws > 1.5 * products.max()


@pytest.mark.parametrize("least", [0.0, 0.01])
def test_marginals_too_large_to_count_in_place_are_judged_alike(least: float) -> None:
    """The same rows spread over columns of 60,000 values: other cells, the same counts."""
    rng = np.random.default_rng(1)
    drawn, rows = (
        [rng.integers(0, 7, (400, 3)).astype(np.uint16) for _ in range(4)],
        rng.integers(0, 7, (90, 3)),
    )
    judges = [[0, 1, 2], [2, 0], [1]]
    small = agree(drawn, rows.astype(np.uint16), np.array([7, 7, 7]), judges, least)
    wide = agree(
        [8000 * d for d in drawn], (8000 * rows).astype(np.uint16), np.array([60_000] * 3), judges, least
    )
    for x, y in zip(small, wide, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def check_prior(prior: Prior, domain: Domain) -> None:
    assert sum(prior.shares) == pytest.approx(1)
    assert min(prior.shares) >= 0
    assert prior.arrays.kinds[-1] == pytest.approx(1)
    assert (np.diff(prior.arrays.kinds) >= 0).all()
    assert 0 <= prior.arrays.redraw <= 1
    cloud = Particles(prior.arrays, domain, 100.0, 500, np.random.default_rng(0))
    assert (cloud.codes < np.array(domain.shape)).all()
    assert cloud.weights.sum() == pytest.approx(100)


@pytest.mark.parametrize("rows", [1, 2, 5, 9, 10, 12])
def test_priors_of_tiny_tables(rows: int) -> None:
    table = random_table(SIZES, rows, 3)
    prior = fit_prior(table, all_marginals(2).on(table.domain).marginals, np.random.default_rng(0))
    assert prior.rows == rows
    check_prior(prior, table.domain)


@pytest.mark.parametrize("kind", ["constant", "one value", "a single column", "missing values"])
def test_priors_of_dull_tables(kind: str) -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 3, "b": 1 if kind == "one value" else 2, "c": 40}
    codes = np.stack([rng.integers(0, min(s, 3), 100) for s in sizes.values()], axis=1)
    if kind == "constant":
        codes[:, :2] = 1
    if kind == "a single column":
        sizes, codes = {"c": 40}, codes[:, 2:]
    table = as_table(sizes, codes)
    prior = fit_prior(table, all_marginals(2).on(table.domain).marginals, rng)
    check_prior(prior, table.domain)
    values = {int(v) for v in Particles(prior.arrays, table.domain, 1.0, 60_000, rng).codes[:, -1]}
    assert len(values) > 3  # some of the 37 values that no public row has


def test_a_prior_of_many_columns() -> None:
    rng = np.random.default_rng(0)
    table = random_table({f"c{i}": int(s) for i, s in enumerate(rng.integers(1, 9, 16))}, 100, 0)
    check_prior(fit_prior(table, all_marginals(2).on(table.domain).marginals, rng), table.domain)


def test_a_prior_is_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_table(SIZES, 400, 1)
    marginals = all_marginals(2).on(table.domain).marginals
    first = fit_prior(table, marginals, np.random.default_rng(2))
    for module in (network, mixture, prior_module):
        monkeypatch.setattr(module, "workers", lambda: 1)
    again = fit_prior(table, marginals, np.random.default_rng(2))
    assert first.shares == again.shares
    for field, value in first.arrays._asdict().items():
        assert np.array_equal(value, getattr(again.arrays, field)), field


def test_a_prior_predicts_new_rows_better_than_the_public_table() -> None:
    rng = np.random.default_rng(0)
    both = random_table(SIZES, 5000, 7)
    public, rest = both.take(np.arange(500)), both.take(np.arange(500, 5000))
    marginals = all_marginals(3).on(both.domain).marginals
    prior = fit_prior(public, marginals, rng)
    cloud = Particles(prior.arrays, both.domain, 1.0, 60_000, rng)
    truth, own, found = count_table(rest, marginals), count_table(public, marginals), cloud.answers(marginals)
    errors = [sum(np.abs(a[m] - truth[m] / rest.n).sum() for m in marginals) for a in (found,)]
    public_error = sum(np.abs(own[m] / public.n - truth[m] / rest.n).sum() for m in marginals)
    assert errors[0] < 0.9 * public_error


# Particles.


def small_cloud(count: int = 4000) -> Particles:
    domain = Domain(SIZES)
    return Particles(uniform_prior(domain).arrays, domain, 500.0, count, np.random.default_rng(0))


def test_particles_count_as_numpy_does() -> None:
    cloud = small_cloud()
    cloud.weights = np.random.default_rng(1).gamma(0.5, size=len(cloud))
    for marginal in [("a",), ("b", "d"), ("a", "c", "e"), tuple(SIZES)]:
        shape = [SIZES[a] for a in marginal]
        places = [list(SIZES).index(a) for a in marginal]
        number = np.ravel_multi_index([cloud.codes[:, i].astype(int) for i in places], shape)
        expected = np.bincount(number, cloud.weights, minlength=math.prod(shape))
        np.testing.assert_allclose(cloud.mass(marginal), expected)
        np.testing.assert_allclose(cloud.answers([marginal])[marginal], expected)
    assert cloud.effective == pytest.approx(cloud.weights.sum() ** 2 / (cloud.weights**2).sum() / len(cloud))
    assert sum(cloud.shares) == pytest.approx(1)


def test_resampling_takes_each_particle_as_often_as_its_weight_says() -> None:
    cloud = small_cloud(1000)
    cloud.codes[:, 0] = np.arange(1000) % 4
    cloud.weights = np.random.default_rng(1).gamma(0.5, size=1000)
    tags = np.arange(1000, dtype=np.int32)
    cloud._origins = tags.copy()
    wanted = cloud.weights / cloud.weights.sum() * 5000
    cloud.resample(5000)
    seen = np.bincount(cloud._origins, minlength=1000)
    assert np.abs(seen - wanted).max() < 1 + 1e-9
    assert len(cloud) == 5000
    assert cloud.weights.sum() == pytest.approx(500)
    assert cloud.effective == pytest.approx(1)


def test_a_copy_is_left_alone() -> None:
    tilting, truth = learn(["ab"], sigma=2.0, particles=2000)
    cloud = tilting.particles
    kept = cloud.copy()
    codes, weights = cloud.codes.copy(), cloud.weights.copy()
    tilting.renew(2000, sweeps=2)
    assert (cloud.codes != codes).any()
    assert (kept.codes == codes).all()
    assert (kept.weights == weights).all()
    np.testing.assert_allclose(kept.answers([("a", "b")])[("a", "b")], kept.mass(("a", "b")))
    assert truth[("a", "b")].sum() == 5000


# Learning.


def split(letters: list[str]) -> list[Marginal]:
    return [tuple(m) for m in letters]


def learn(
    letters: list[str], *, sigma: float, particles: int = 20_000, seed: int = 0, prior: Prior | None = None
) -> tuple[Tilting, dict[Marginal, np.ndarray]]:
    """Marginals of a table measured with noise, one after the other, from no prior unless one is given."""
    private = random_table(SIZES, 5000, 1)
    rng = np.random.default_rng(seed)
    marginals = all_marginals(2).on(private.domain).marginals
    truth = {m: v.astype(float) for m, v in count_table(private, [*marginals, *split(letters)]).items()}
    tilting = Tilting(prior or uniform_prior(private.domain), private.domain, 5000.0, particles, rng)
    for m in split(letters):
        tilting.measured(Measurement.of(m, truth[m] + rng.normal(0, sigma, len(truth[m])), sigma))
        tilting.fit()
    return tilting, truth


def error(answers: dict[Marginal, np.ndarray], truth: dict[Marginal, np.ndarray]) -> float:
    return float(np.mean([np.abs(v - truth[m]).sum() / truth[m].sum() for m, v in answers.items()]))


@pytest.mark.parametrize("public", [True, False])
def test_exact_measurements_are_met(public: bool) -> None:
    """A wrong public table or none, every two-way marginal measured: the answers end where they were measured."""
    rng = np.random.default_rng(0)
    prior = None
    if public:
        wrong = random_table(SIZES, 600, 9, skew=1.8)
        prior = fit_prior(wrong, all_marginals(2).on(wrong.domain).marginals, rng)
    pairs = ["".join(p) for p in itertools.combinations("abcde", 2)]
    found = []
    for k in (0, 3, 6, 10):
        tilting, truth = learn(pairs[:k], sigma=0.5, prior=prior)
        answers = tilting.answers(split(pairs))
        for m, v in answers.items():
            assert (v >= 0).all()
            assert v.sum() == pytest.approx(5000)
            assert v.shape == truth[m].shape
        found.append(error(answers, truth))
    assert (np.diff(found) < 0).all()
    assert found[0] > 0.15
    assert found[-1] < 0.005
    diagnostics = tilting.diagnostics()
    assert set(diagnostics.gaps) == set(split(pairs))
    assert max(diagnostics.gaps.values()) < 2
    assert 0.25 < diagnostics.effective <= 1
    assert diagnostics.particles == 20_000


def test_noise_is_not_fitted_where_the_prior_is_right() -> None:
    """The prior is a sample of the same population: measurements much noisier than it leave it nearly as it was."""
    both = random_table(SIZES, 9000, 1)
    rng = np.random.default_rng(0)
    marginals = all_marginals(2).on(both.domain).marginals
    prior = fit_prior(both.take(np.arange(5000, 7000)), marginals, rng)
    truth = {m: v.astype(float) for m, v in count_table(both.take(np.arange(5000)), marginals).items()}
    tilting = Tilting(prior, both.domain, 5000.0, 20_000, rng)
    before = error(tilting.answers(marginals), truth)
    noise = 0.0
    for m in marginals:
        seen = truth[m] + rng.normal(0, 60, len(truth[m]))
        noise += np.abs(seen - truth[m]).sum() / 5000 / len(marginals)
        tilting.measured(Measurement.of(m, seen, 60.0))
        tilting.fit()
    after = error(tilting.answers(marginals), truth)
    assert after < 1.5 * before
    assert after < 0.5 * noise


def functional_table(rows: int, seed: int) -> Table:
    """Columns that are nearly functions of one another."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 12, rows)
    b = np.where(rng.random(rows) < 0.01, rng.integers(0, 6, rows), a // 2)
    c = np.where(rng.random(rows) < 0.01, rng.integers(0, 4, rows), a // 3)
    codes = np.stack([a, b, c, (b + c) % 5], axis=1)
    return as_table({"a": 12, "b": 6, "c": 4, "d": 5}, codes)


@pytest.mark.parametrize(("public", "sigma"), [(True, 2.0), (True, 0.2), (False, 0.2), (False, 2.0)])
def test_measuring_the_same_marginal_again_and_again_does_not_diverge(public: bool, sigma: float) -> None:
    both = functional_table(6000, 0)
    private, marginal = both.take(np.arange(4000)), ("a", "b", "c")
    wanted = [*all_marginals(2).on(both.domain).marginals, marginal]
    rng = np.random.default_rng(2)
    prior = fit_prior(both.take(np.arange(4000, 6000)), wanted, rng) if public else uniform_prior(both.domain)
    truth = {m: v.astype(float) for m, v in count_table(private, wanted).items()}
    tilting = Tilting(prior, both.domain, 4000.0, 10_000, rng)
    errors = []
    for _ in range(30):
        tilting.measured(
            Measurement.of(marginal, truth[marginal] + rng.normal(0, sigma, len(truth[marginal])), sigma)
        )
        tilting.fit()
        errors.append(error(tilting.answers(wanted), truth))
        block = tilting._blocks[marginal]
        assert np.isfinite(block.theta).all()
        assert tilting.particles.effective > 0.2
    assert block.variance == pytest.approx(sigma**2 / 30)
    assert errors[-1] <= 1.05 * min(errors) + 0.002
    assert np.mean(errors[-5:]) <= 1.05 * np.mean(errors[:5])


def test_what_stands_out_of_the_noise_is_believed_where_the_prior_has_nothing() -> None:
    """Nearly all of 65,536 values agree with the prior, which raises the trust in it; two are far off."""
    domain = Domain({"a": 3, "b": 1 << 16})
    values = np.zeros(1 << 16)
    values[[7, -1]] = 50, 150
    tilting = Tilting(uniform_prior(domain), domain, 200.0, 5000, np.random.default_rng(0))
    tilting.measured(Measurement.of(("b",), values, 1.0))
    tilting.fit()
    np.testing.assert_allclose(tilting.answers([("b",)])[("b",)][[7, -1]], [50, 150], atol=8)


def test_measurements_of_one_marginal_are_merged_by_their_precision() -> None:
    domain, rng = Domain(SIZES), np.random.default_rng(0)
    tilting = Tilting(uniform_prior(domain), domain, 5000.0, 5000, rng)
    truth = count_table(random_table(SIZES, 5000, 1), [("a", "b")])[("a", "b")].astype(float)
    sigmas = (10.0, 2.0, 5.0)
    values = [truth + rng.normal(0, s, 12) for s in sigmas]
    for v, s in zip(values, sigmas, strict=True):
        tilting.measured(Measurement.of(("a", "b"), v, s))
    precision = sum(1 / s**2 for s in sigmas)
    pooled = sum(v / s**2 for v, s in zip(values, sigmas, strict=True)) / precision
    block = tilting._blocks[("a", "b")]
    assert block.variance == pytest.approx(1 / precision)
    np.testing.assert_allclose(block.values, pooled)
    assert len(tilting._blocks) == 1
    assert tilting._cells.shape == (1, 5000)
    tilting.fit()
    once = Tilting(uniform_prior(domain), domain, 5000.0, 5000, np.random.default_rng(0))
    once.measured(Measurement.of(("a", "b"), pooled, 1 / math.sqrt(precision)))
    once.fit()
    sigma = 1 / math.sqrt(precision)
    np.testing.assert_allclose(
        tilting.particles.mass(("a", "b")), once.particles.mass(("a", "b")), atol=sigma
    )


def test_renewing_changes_the_particles_but_not_the_distribution() -> None:
    tilting, _ = learn(["ab", "cd", "bce"], sigma=2.0, particles=60_000)
    wanted = all_marginals(2).on(tilting.domain).marginals
    before = {m: v.copy() for m, v in tilting.answers(wanted).items()}
    codes = tilting.particles.codes.copy()
    tilting.renew(60_000, sweeps=3)
    assert (tilting.particles.codes != codes).any(axis=1).mean() > 0.3
    assert tilting._cells.shape == (3, 60_000)
    assert (tilting._cells[0] == tilting.particles.cells(("a", "b"))).all()
    for m, v in tilting.answers(wanted).items():
        spread = 5000 / math.sqrt(60_000) * np.sqrt(before[m] / 5000)
        assert (np.abs(v - before[m]) < 6 * spread + 1).all()
    tilting.spread(80_000, sweeps=1)
    assert len(tilting.particles) == 80_000
    for m, v in tilting.answers(wanted).items():
        spread = 5000 / math.sqrt(60_000) * np.sqrt(before[m] / 5000)
        assert (np.abs(v - before[m]) < 8 * spread + 1).all()


def test_trust_follows_what_measurements_say() -> None:
    rng = np.random.default_rng(0)
    both = random_table(SIZES, 9000, 1)
    marginals = all_marginals(2).on(both.domain).marginals
    truth = count_table(both.take(np.arange(5000)), marginals)
    good = fit_prior(both.take(np.arange(5000, 6500)), marginals, rng)
    bad = fit_prior(random_table(SIZES, 1500, 5, skew=2.0), marginals, rng)
    found = []
    for prior in (good, bad):
        tilting = Tilting(prior, both.domain, 5000.0, 10_000, rng)
        for m in marginals[:4]:
            tilting.measured(Measurement.of(m, truth[m].astype(float), 5.0))
        found.append(tilting.trust)
    assert found[0] > 5 * found[1]


# Finished models.


def finished(seed: int = 0, particles: int = 5000) -> TiltedModel:
    tilting, _ = learn(["ab", "cd", "bce", "e"], sigma=4.0, seed=seed, particles=particles)
    return tilting.finish(all_marginals(2).on(tilting.domain).marginals, particles)


def test_a_model_is_the_same_after_saving(tmp_path: Path) -> None:
    model = finished()
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert isinstance(again, TiltedModel)
    assert again.domain == model.domain
    assert again.total == model.total
    assert again.marginals == model.marginals
    assert again.diagnostics == model.diagnostics
    wanted = [("a",), ("e", "b"), ("a", "b", "c", "d", "e")]
    for ours, theirs in (
        (model.answers(wanted), again.answers(wanted)),
        (model.standard_errors(wanted), again.standard_errors(wanted)),
    ):
        assert list(ours) == list(theirs) == [("a",), ("b", "e"), ("a", "b", "c", "d", "e")]
        for m in ours:
            np.testing.assert_allclose(theirs[m], ours[m], rtol=1e-12)
    rows = [m.sample(300, np.random.default_rng(1)) for m in (model, again)]
    assert all((x == y).all() for x, y in zip(rows[0].columns, rows[1].columns, strict=True))


def test_answers_sum_to_the_total_and_rows_follow_them() -> None:
    model = finished()
    wanted = [m for k in range(1, 6) for m in itertools.combinations(SIZES, k)]
    for m, v in model.answers(wanted).items():
        assert v.shape == (model.domain.size(m),)
        assert (v >= 0).all()
        assert v.sum() == pytest.approx(model.total)
    for m, v in model.standard_errors(wanted).items():
        assert v.shape == (model.domain.size(m),)
        assert np.isfinite(v).all()
        assert (v >= 0).all()
    rows = model.sample(5000, np.random.default_rng(0))
    assert rows.n == 5000
    found, answers = count_table(rows, model.marginals), model.answers(model.marginals)
    assert error({m: v.astype(float) for m, v in found.items()}, answers) < 0.01
    for n in (0, 1, 7):
        assert model.sample(n, np.random.default_rng(0)).n == n


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finished(3)
    for module in (local, network, mixture, prior_module, particles_module):
        monkeypatch.setattr(module, "workers", lambda: threads)
    again = finished(3)
    assert all((x == y).all() for x, y in zip(first.particles.columns, again.particles.columns, strict=True))
    assert (first.weights == again.weights).all()
    assert (first._replicates.chosen == again._replicates.chosen).all()
    assert (first._replicates.weights == again._replicates.weights).all()
    assert first.diagnostics == again.diagnostics
    other = finished(4)
    assert (first.weights != other.weights).any()


def test_a_model_of_nothing_measured() -> None:
    domain = Domain(SIZES)
    tilting = Tilting(uniform_prior(domain), domain, 100.0, 3000, np.random.default_rng(0))
    tilting.fit()
    model = tilting.finish([("a", "b")], 3000)
    np.testing.assert_allclose(model.answers([("a",)])[("a",)], 25, atol=3)
    assert model.diagnostics.gaps == {}
    assert (model.standard_errors([("a",)])[("a",)] > 0).all()


def test_intervals_cover_the_private_counts() -> None:
    """Public and private rows of one population; cells of three-way marginals, few of which were measured."""
    covered, widths, errors = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        both = random_table(SIZES, 5000, seed)
        triples = all_marginals(3).on(both.domain).marginals
        pairs = all_marginals(2).on(both.domain).marginals
        truth = count_table(both.take(np.arange(4000)), [*triples, *pairs])
        prior = fit_prior(both.take(np.arange(4000, 5000)), triples, rng)
        tilting = Tilting(prior, both.domain, 4000.0, 20_000, rng)
        for m in pairs[::2]:
            tilting.measured(Measurement.of(m, truth[m] + rng.normal(0, 8, len(truth[m])), 8.0))
            tilting.fit()
        model = tilting.finish(triples, 30_000)
        answers, deviations = model.answers(triples), model.standard_errors(triples)
        for m in triples:
            large = truth[m] > 20
            off = np.abs(answers[m] - truth[m])[large]
            covered += list(off <= 1.96 * deviations[m][large])
            widths += list(1.96 * deviations[m][large])
            errors += list(off)
    assert np.mean(covered) > 0.85
    assert np.median(widths) < 5 * np.median(errors)


# The mechanism.


def run(
    private: Table,
    public: Table | None,
    workload: Workload,
    *,
    unit: Unit | None = None,
    noise: SeededNoise | None = None,
    epsilon: float = 1.0,
    **options: float,
) -> tuple[FakeCurator, TiltedModel]:
    curator = FakeCurator(private, unit=unit, noise=noise, epsilon=epsilon)
    tilt = Tilt(**{"particles": 2000, "rounds": 6, **options})
    model = tilt.run(curator, public, workload, np.random.default_rng(0), quiet)
    assert isinstance(model, TiltedModel)
    spent = sum(e.rho for e in curator.events)
    assert spent <= curator.rho * (1 + 1e-12)
    assert spent == pytest.approx(curator.rho, rel=1e-9)
    for m, v in model.answers(workload.marginals).items():
        assert v.shape == (private.domain.size(m),)
        assert np.isfinite(v).all()
        assert v.sum() == pytest.approx(model.total)
    assert model.sample(20, np.random.default_rng(0)).n == 20
    for v in model.standard_errors(workload.marginals).values():
        assert np.isfinite(v).all()
    return curator, model


@pytest.mark.parametrize("public", [PUBLIC, None], ids=["public", "none"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rounds": 1},
        {"particles": 1000},
        {"alpha": 0.5},
        {"screen": 0.5},
        {"rounds": 200, "particles": 1000},
    ],
    ids=str,
)
def test_all_of_the_budget_is_spent_whatever_the_options(
    public: Table | None, options: dict[str, float]
) -> None:
    run(PRIVATE, public, all_marginals(2).on(PRIVATE.domain), noise=SeededNoise(1), **options)


@pytest.mark.parametrize(
    "unit", [Unit(Relation.ADD_REMOVE), Unit(Relation.ADD_REMOVE, 2), Unit(rows_per_person=3)], ids=str
)
@pytest.mark.parametrize("public", [PUBLIC, None], ids=["public", "none"])
def test_units(unit: Unit, public: Table | None) -> None:
    _, model = run(PRIVATE, public, all_marginals(2).on(PRIVATE.domain), unit=unit, noise=SeededNoise(2))
    assert (model.total == PRIVATE.n) == unit.n_is_public


@pytest.mark.parametrize("with_public", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [{"a": 5}, {"a": 1}, {"a": 5, "b": 3}, {"a": 5, "b": 1}, {"a": 1, "b": 1}, {"a": 300, "b": 2}],
    ids=str,
)
def test_few_columns(sizes: dict[str, int], with_public: bool) -> None:
    private, public = random_table(sizes, 100, 0), random_table(sizes, 40, 3)
    run(private, public if with_public else None, all_marginals(2).on(private.domain), noise=SeededNoise(1))


@pytest.mark.parametrize("rows", [1, 2, 11])
def test_public_tables_of_few_rows(rows: int) -> None:
    run(PRIVATE, PUBLIC.take(np.arange(rows)), all_marginals(2).on(PRIVATE.domain), noise=SeededNoise(1))


@pytest.mark.parametrize("public", [PUBLIC, None], ids=["public", "none"])
def test_one_private_row(public: Table | None) -> None:
    _, model = run(
        PRIVATE.take(np.arange(1)), public, all_marginals(2).on(PRIVATE.domain), noise=SeededNoise(1)
    )
    assert model.total == 1


def test_columns_outside_the_workload_are_public_or_uniform() -> None:
    """With a public table that is right, its word; without, uniform, and a warning says so."""
    workload = Workload([("a",)]).on(PRIVATE.domain)
    rest = random_table(NARROW, 3000, 1)
    _, model = run(PRIVATE, rest, workload, noise=SeededNoise(2))
    share = count_table(rest, [("d",)])[("d",)] / rest.n
    assert np.abs(model.answers([("d",)])[("d",)] / 800 - share).max() < 0.06
    with pytest.warns(OpenPriorWarning, match="b, c, d"):
        _, model = run(PRIVATE, None, workload, noise=SeededNoise(1))
    np.testing.assert_allclose(model.answers([("d",)])[("d",)] / 800, 0.2, atol=0.06)


def test_a_public_table_that_is_wrong_is_left() -> None:
    """Every public row alike, much budget: the choice falls on none, and columns nobody measured are said to be so."""
    wrong = Table(
        PRIVATE.domain,
        tuple(np.full(300, s - 1, c.dtype) for s, c in zip(NARROW.values(), PRIVATE.columns, strict=True)),
    )
    workload = Workload([("a", "b"), ("b", "c")]).on(PRIVATE.domain)
    with pytest.warns(OpenPriorWarning, match="uniform in every answer and row: d"):
        curator, _ = run(PRIVATE, wrong, workload, epsilon=100.0, particles=20_000)
    kinds = [e.kind for e in curator.events]
    assert kinds.count("exponential") >= 2


def test_without_noise_the_answers_come_close() -> None:
    workload = all_marginals(2).on(PRIVATE.domain)
    truth = {m: v.astype(float) for m, v in count_table(PRIVATE, workload.marginals).items()}
    for public in (PUBLIC, None):
        _, model = run(PRIVATE, public, workload, epsilon=50.0, rounds=20, particles=20_000)
        assert error(model.answers(workload.marginals), truth) < 0.03


def test_a_column_with_too_many_values_is_refused_before_any_charge() -> None:
    sizes = {"a": 3, "b": (1 << 16) + 1}
    table = Table(Domain(sizes), (np.zeros(5, np.uint8), np.zeros(5, np.uint32)))
    curator = FakeCurator(table)
    with pytest.raises(OptionError, match="65,536"):
        Tilt().run(curator, None, Workload([("a",)]).on(table.domain), np.random.default_rng(0), quiet)
    assert curator.events == ()
    assert curator.remaining == curator.rho


def test_the_widest_column_that_is_taken() -> None:
    sizes = {"a": 3, "b": 1 << 16}
    table = as_table(sizes, np.array([[0, 65_535], [1, 65_535], [2, 7], [0, 65_535]] * 50))
    workload = Workload([("a",), ("b",)]).on(table.domain)
    _, model = run(table, None, workload, particles=1000, rounds=1)
    assert model.particles.column("b").max() > 60_000
    assert model.particles.column("b").dtype == np.uint16


@pytest.mark.parametrize(
    "options",
    [{"rounds": 0}, {"alpha": 0.0}, {"alpha": 1.0}, {"screen": 0.0}, {"screen": 1.0}, {"particles": 999}],
    ids=str,
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        Tilt(**options)
