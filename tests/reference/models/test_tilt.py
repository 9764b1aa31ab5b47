"""The tilted prior against brute force: densities, moves, conditionals, classes and raking on domains small enough to
enumerate."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

from openprior.models.prior import draws
from openprior.models.prior.classes import Classes, fit_classes
from openprior.models.prior.draws import PriorArrays, draw
from openprior.models.prior.held_out import on_simplex
from openprior.models.prior.network import Networks, fit_networks, learn_structures, log_density
from openprior.models.prior.prior import Mix, Prior, _Parts, fit_prior, of_networks, uniform_prior
from openprior.models.tilted.moves import TiltArrays, potentials, sweep
from openprior.models.tilted.raking import TRUSTS, most_likely, rake, stiffness, trust_evidence
from openprior.models.tilted.tilting import Tilting
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

SHAPE = (3, 2, 4, 2)
KINDS = {
    "classes": (1.0, 0.0, 0.0),
    "anchors": (0.0, 1.0, 0.0),
    "networks": (0.0, 0.0, 1.0),
    "mixed": (0.3, 0.3, 0.4),
}
BLOCKS = {
    "one-way": [(0,), (2,)],
    "two-way": [(0, 1), (2, 3)],
    "three-way": [(0, 2, 3), (1,), (0, 1, 2)],
    "repeated": [(1, 2), (1, 2), (2,)],
    "none": [],
}


def enumerate_cells(shape: Sequence[int]) -> np.ndarray:
    return np.array(list(itertools.product(*map(range, shape))), np.uint16)


def dependent_codes(shape: Sequence[int], rows: int, seed: int) -> np.ndarray:
    """Columns that follow one another, with exceptions."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, shape[0], rows)
    columns = [first]
    for size in shape[1:]:
        follows = (columns[-1] + first) % size
        columns.append(np.where(rng.random(rows) < 0.7, follows, rng.integers(0, size, rows)))
    return np.stack(columns, axis=1).astype(np.uint16)


@cache
def make_prior(kind: str, *, shape: Sequence[int] = SHAPE, rows: int = 120, seed: int = 0) -> PriorArrays:
    """All kinds, fitted; few anchors, so that every (kind, origin, row) can be enumerated."""
    codes = dependent_codes(shape, rows, seed)
    return fitted_parts(codes, shape, seed).arrays(Mix(KINDS[kind], 0.3))


def fitted_parts(codes: np.ndarray, shape: Sequence[int], seed: int) -> _Parts:
    sizes, rng = np.array(shape, np.int64), np.random.default_rng(seed)
    return _Parts(codes, sizes, learn_structures(codes, sizes, 8, rng), rng)


# An own density of p₀, written from what the arrays mean and not from how the loops read them.


def class_density(p: PriorArrays, z: int, cells: np.ndarray) -> np.ndarray:
    out = np.ones(len(cells))
    for a in range(len(p.sizes)):
        out *= p.values[z][p.starts[a] : p.starts[a + 1]].astype(float)[cells[:, a]]
    return out


def anchor_density(p: PriorArrays, i: int, cells: np.ndarray) -> np.ndarray:
    out = np.ones(len(cells))
    for a in range(len(p.sizes)):
        own = p.values[p.member[i]][p.starts[a] : p.starts[a + 1]].astype(float)
        out *= (1 - p.redraw) * (cells[:, a] == p.anchors[i, a]) + p.redraw * own[cells[:, a]]
    return out


def conditional_of(
    p: PriorArrays | Networks, sizes: Sequence[int], k: int, a: int
) -> tuple[list[int], np.ndarray]:
    """The parents, and the conditional as an array [parents…, value]."""
    parents = [int(b) for b in p.parents[k, a] if b >= 0]
    strides = [int(s) for s, b in zip(p.strides[k, a], p.parents[k, a], strict=True) if b >= 0]
    index = p.row_of if isinstance(p, PriorArrays) else p.index
    size, out = int(sizes[a]), np.empty([*(int(sizes[b]) for b in parents), int(sizes[a])])
    for context in np.ndindex(*out.shape[:-1]):
        at = int(p.index_start[k, a]) + sum(s * v for s, v in zip(strides, context, strict=True))
        row = int(p.table_start[k, a]) + int(index[at]) * size
        out[context] = p.table[row : row + size]
    return parents, out


def network_density(p: PriorArrays, k: int, cells: np.ndarray) -> np.ndarray:
    out = np.ones(len(cells))
    for a in range(len(p.sizes)):
        parents, table = conditional_of(p, p.sizes, k, a)
        out *= table[(*(cells[:, b] for b in parents), cells[:, a])]
    return out


def joint_density(p: PriorArrays, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p₀(kind, origin, cell) as [state, cell], and the kind and the origin of each state."""
    shares = np.diff(p.kinds, prepend=0.0)
    classes = np.diff(p.class_ends, prepend=0.0)
    rows, kinds, origins = [], [], []
    for kind, count, density in (
        (0, len(classes), class_density),
        (1, len(p.anchors), anchor_density),
        (2, len(p.order), network_density),
    ):
        for i in range(count):
            if shares[kind] > 0:
                weight = classes[i] / classes.sum() if kind == 0 else 1 / count
                rows.append(shares[kind] * weight * density(p, i, cells))
                kinds.append(kind)
                origins.append(i)
    return np.array(rows), np.array(kinds, np.int8), np.array(origins, np.int32)


def make_tilt(
    blocks: Sequence[Sequence[int]], shape: Sequence[int], seed: int, scale: float = 0.8
) -> TiltArrays:
    rng = np.random.default_rng(seed)
    widest = max((len(b) for b in blocks), default=1)
    attributes = np.zeros((len(blocks), widest), np.int64)
    strides, starts, length = np.zeros_like(attributes), [], 0
    for i, block in enumerate(blocks):
        steps = [math.prod(shape[b] for b in block[j + 1 :]) for j in range(len(block))]
        attributes[i, : len(block)], strides[i, : len(block)] = block, steps
        starts.append(length)
        length += math.prod(shape[a] for a in block)
    theta = rng.normal(0, scale, length + 1).astype(np.float32)
    of: list[list[list[int]]] = [[] for _ in shape]
    factors: list[float] = []
    for start, block in zip(starts, blocks, strict=True):
        for a in block:  # a copy of the block for each of its attributes, whose values come last
            order = [*(x for x in block if x != a), a]
            link = [len(factors)]
            for j, x in enumerate(order[:-1]):
                link += [x, math.prod(shape[y] for y in order[j + 1 :])]
            of[a].append(link)
            for codes in itertools.product(*(range(shape[x]) for x in order)):
                place = dict(zip(order, codes, strict=True))
                cell = np.ravel_multi_index([place[x] for x in block], [shape[x] for x in block])
                factors.append(math.exp(-float(theta[start + cell])))
    links = np.zeros((len(shape), max(1, *(len(o) for o in of)), 2 * widest - 1), np.uint64)
    for a, own in enumerate(of):
        for j, link in enumerate(own):
            links[a, j, : len(link)] = link
    degrees = np.array([len(o) for o in of])
    ratios = np.array([*factors, 1.0], np.float32)
    return TiltArrays(attributes, strides, np.array(starts, np.int64), theta, ratios, links, degrees)


def brute_potential(
    t: TiltArrays, blocks: Sequence[Sequence[int]], shape: Sequence[int], cells: np.ndarray
) -> np.ndarray:
    out, at = np.zeros(len(cells)), 0
    for block in blocks:
        sizes = [shape[a] for a in block]
        table = t.theta[at : at + math.prod(sizes)].astype(float).reshape(sizes)
        out += table[tuple(cells[:, a] for a in block)]
        at += math.prod(sizes)
    return out


def cell_numbers(codes: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return np.ravel_multi_index([codes[:, a].astype(np.intp) for a in range(len(shape))], shape)


def improbable(seen: np.ndarray, p: np.ndarray) -> float:
    """Pearson's test, rare cells pooled: how improbable such counts are."""
    seen, expected = seen.reshape(-1).astype(float), seen.sum() * p.reshape(-1) / p.sum()
    rare = expected < 10
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 10:
        seen, expected = np.append(seen[:-2], seen[-2:].sum()), np.append(expected[:-2], expected[-2:].sum())
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), max(len(seen) - 1, 1)))


# Draws.


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_is_a_distribution_with_full_support(kind: str) -> None:
    cells = enumerate_cells(SHAPE)
    joint, kinds, _ = joint_density(make_prior(kind), cells)
    assert (joint > 0).all()
    np.testing.assert_allclose(joint.sum(), 1.0, atol=1e-5)
    by_kind = np.bincount(kinds, joint.sum(axis=1), minlength=3)
    np.testing.assert_allclose(by_kind, KINDS[kind], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_density(kind: str) -> None:
    """Cells, and cells together with kind and origin, which the moves rely on."""
    p, cells = make_prior(kind), enumerate_cells(SHAPE)
    joint, kinds, origins = joint_density(p, cells)
    n = 300_000
    codes, k, o = np.empty((n, 4), np.uint16), np.empty(n, np.int8), np.empty(n, np.int32)
    draw(p, np.uint64(5), codes, k, o)
    number = cell_numbers(codes, SHAPE)
    assert improbable(np.bincount(number, minlength=len(cells)), joint.sum(axis=0)) > 1e-3
    state = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(kinds, origins, strict=True))}
    states = np.array([state[int(a), int(b)] for a, b in zip(k, o, strict=True)])
    seen = np.bincount(states * len(cells) + number, minlength=joint.size)
    assert improbable(seen, joint) > 1e-3
    lopsided = joint.sum(axis=0) * np.where(np.arange(len(cells)) % 2, 1.05, 0.95)
    assert improbable(np.bincount(number, minlength=len(cells)), lopsided) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_impossible(kind: str) -> None:
    """Constant columns, values that no public row has, columns with one value: all keep positive density."""
    shape = (3, 4, 1, 5)
    codes = np.zeros((40, 4), np.uint16)
    codes[:, 3] = np.arange(40) % 2
    joint, _, _ = joint_density(
        fitted_parts(codes, shape, 0).arrays(Mix(KINDS[kind], 0.1)), enumerate_cells(shape)
    )
    assert (joint > 0).all()
    np.testing.assert_allclose(joint.sum(), 1.0, atol=1e-5)


def test_the_uniform_prior_is_uniform() -> None:
    shape = {"a": 3, "b": 1, "c": 7}
    p = uniform_prior(Domain(shape)).arrays
    joint, _, _ = joint_density(p, enumerate_cells(tuple(shape.values())))
    np.testing.assert_allclose(joint, 1 / 21, rtol=1e-6)
    codes = np.empty((100_000, 3), np.uint16)
    draw(p, np.uint64(3), codes, np.empty(len(codes), np.int8), np.empty(len(codes), np.int32))
    seen = np.bincount(cell_numbers(codes, (3, 1, 7)), minlength=21)
    assert improbable(seen, np.ones(21)) > 1e-3


# Moves.


@pytest.mark.parametrize("blocks", BLOCKS)
def test_potentials_are_sums_of_the_blocks(blocks: str) -> None:
    t, cells = make_tilt(BLOCKS[blocks], SHAPE, 1), enumerate_cells(SHAPE)
    out = np.empty(len(cells))
    potentials(t, cells, out)
    np.testing.assert_allclose(out, brute_potential(t, BLOCKS[blocks], SHAPE, cells), atol=1e-6)


def test_tilting_hands_its_blocks_over_as_they_are() -> None:
    """Marginals in the domain's order, of every width, after a fit: Θ by hand equals Θ as the moves read it."""
    domain = Domain(dict(zip("abcd", SHAPE, strict=True)))
    rng = np.random.default_rng(0)
    tilting = Tilting(uniform_prior(domain), domain, 500.0, 2000, rng)
    assert np.isfinite(tilting._tilt().theta).all()
    marginals = [("c",), ("a", "c", "d"), ("b", "c"), ("a", "b", "c", "d")]
    for m in marginals:
        y = rng.dirichlet(np.ones(domain.size(m))) * 500
        tilting.measured(Measurement.of(m, y, 5.0))
    tilting.fit()
    t, cells = tilting._tilt(), enumerate_cells(SHAPE)
    out = np.empty(len(cells))
    potentials(t, cells, out)
    blocks = [[domain.position(a) for a in m] for m in marginals]
    by_hand = np.zeros(len(cells))
    for block, m in zip(blocks, marginals, strict=True):
        number = np.ravel_multi_index([cells[:, a].astype(int) for a in block], [SHAPE[a] for a in block])
        by_hand += tilting._blocks[m].theta[number]
    np.testing.assert_allclose(out, by_hand, atol=1e-4)
    assert np.ptp(by_hand) > 0.1
    for a in range(4):
        with_a = [i for i, block in enumerate(blocks) if a in block]
        assert t.degrees[a] == len(with_a)
        for link, i in zip(t.links[a, : t.degrees[a]].astype(int), with_a, strict=True):
            places, strides = link[1::2], link[2::2]  # of the others; where there is none, 0 and 0
            others = cells[:, places].astype(int) @ strides
            ratios = t.factors[link[0] + others + cells[:, a]]
            theta = tilting._blocks[marginals[i]].theta.reshape([SHAPE[x] for x in blocks[i]])
            wished = np.exp(-theta[tuple(cells[:, x].astype(int) for x in blocks[i])])
            np.testing.assert_allclose(ratios, wished, rtol=1e-4)


def exact_states(
    p: PriorArrays, t: TiltArrays, blocks: Sequence[Sequence[int]], n: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The target [state, cell], the states, and exact draws from it."""
    cells = enumerate_cells(SHAPE)
    joint, kinds, origins = joint_density(p, cells)
    target = joint * np.exp(-brute_potential(t, blocks, SHAPE, cells))
    target /= target.sum()
    picked = np.random.default_rng(seed).choice(target.size, n, p=target.reshape(-1))
    state, cell = np.divmod(picked, len(cells))
    return target, kinds, origins, cells[cell].copy(), kinds[state].copy(), origins[state].copy()


def run_sweeps(
    p: PriorArrays,
    t: TiltArrays,
    codes: np.ndarray,
    k: np.ndarray,
    o: np.ndarray,
    sweeps: int,
    fresh: bool,
) -> None:
    for i in range(sweeps):
        sweep(p, t, np.uint64(1000 + 7919 * i), (codes, k, o), fresh=fresh)


def state_counts(
    target: np.ndarray,
    kinds: np.ndarray,
    origins: np.ndarray,
    codes: np.ndarray,
    k: np.ndarray,
    o: np.ndarray,
) -> np.ndarray:
    lookup = np.full((3, int(origins.max()) + 1), -1)
    lookup[kinds, origins] = np.arange(len(kinds))
    state = lookup[k, o]
    assert (state >= 0).all()
    number = state * target.shape[1] + cell_numbers(codes, SHAPE)
    return np.bincount(number, minlength=target.size).reshape(target.shape)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_leave_the_target_as_it_is(kind: str, blocks: str, fresh: bool) -> None:
    """Exact draws stay exact draws, with their kind and origin."""
    p, t = make_prior(kind), make_tilt(BLOCKS[blocks], SHAPE, 2)
    target, kinds, origins, codes, k, o = exact_states(p, t, BLOCKS[blocks], 30_000, 3)
    start = codes.copy()
    run_sweeps(p, t, codes, k, o, 5, fresh)
    assert (codes != start).any(axis=1).mean() > 0.1
    seen = state_counts(target, kinds, origins, codes, k, o)
    assert improbable(seen.sum(axis=0), target.sum(axis=0)) > 1e-4
    assert improbable(seen, target) > 1e-4


def test_the_networks_of_these_tests_have_children_that_matter() -> None:
    """Else a wrong acceptance could not be seen above."""
    p, t = make_prior("networks"), make_tilt(BLOCKS["two-way"], SHAPE, 2)
    assert (p.parents >= 0).sum(axis=2).max() >= 2
    target, kinds, origins, codes, k, o = exact_states(p, t, BLOCKS["two-way"], 60_000, 3)
    run_sweeps(p._replace(children=np.full_like(p.children, -1)), t, codes, k, o, 6, False)
    assert (
        improbable(state_counts(target, kinds, origins, codes, k, o).sum(axis=0), target.sum(axis=0)) < 1e-9
    )


@pytest.mark.parametrize("damage", ["class shares", "redraw", "theta", "factors", "blocks"])
def test_a_sweep_that_reads_something_else_is_found_out(damage: str) -> None:
    """The tests above have power: a small error in one part of prior or tilt shows."""
    p, t = make_prior("mixed"), make_tilt(BLOCKS["two-way"], SHAPE, 2)
    target, kinds, origins, codes, k, o = exact_states(p, t, BLOCKS["two-way"], 60_000, 3)
    if damage == "class shares":
        ends = np.cumsum(np.diff(p.class_ends, prepend=0.0)[::-1])
        p = p._replace(class_ends=ends)
    elif damage == "redraw":
        p = p._replace(redraw=0.4)
    elif damage == "theta":
        t = t._replace(theta=t.theta * np.float32(0.85))
    elif damage == "factors":
        t = t._replace(factors=t.factors ** np.float32(0.85))
    else:
        t = t._replace(degrees=np.where(np.arange(4) == 2, 0, t.degrees))
    run_sweeps(p, t, codes, k, o, 6, True)
    assert improbable(state_counts(target, kinds, origins, codes, k, o), target) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_converge_from_anywhere(kind: str) -> None:
    p, t = make_prior(kind), make_tilt(BLOCKS["three-way"], SHAPE, 4, 0.4)
    target, kinds, origins, codes, k, o = exact_states(p, t, BLOCKS["three-way"], 10_000, 3)
    worst = int(np.argmin(target.sum(axis=0)))
    codes[:] = enumerate_cells(SHAPE)[worst]
    k[:], o[:] = kinds[0], origins[0]
    run_sweeps(p, t, codes, k, o, 60, True)
    assert improbable(state_counts(target, kinds, origins, codes, k, o), target) > 1e-4


@pytest.mark.parametrize("kind", ["classes", "anchors", "networks"])
def test_gibbs_passes_alone_converge_given_what_they_keep(kind: str) -> None:
    """Without fresh draws anchors and networks keep their origin; classes find theirs."""
    p, t = make_prior(kind), make_tilt(BLOCKS["three-way"], SHAPE, 4, 0.4)
    target, kinds, origins, codes, k, o = exact_states(p, t, BLOCKS["three-way"], 8_000, 3)
    codes[:] = enumerate_cells(SHAPE)[int(np.argmin(target.sum(axis=0)))]
    k[:], o[:] = kinds[1], origins[1]
    run_sweeps(p, t, codes, k, o, 250 if kind == "classes" else 60, False)
    seen = state_counts(target, kinds, origins, codes, k, o)
    if kind == "classes":
        assert improbable(seen, target) > 1e-4
    else:
        assert seen[1].sum() == len(codes)
        assert improbable(seen[1], target[1]) > 1e-4


def test_fresh_draws_are_all_taken_without_a_tilt() -> None:
    p, t = make_prior("mixed"), make_tilt([], SHAPE, 0)
    codes, k, o = np.zeros((500, 4), np.uint16), np.zeros(500, np.int8), np.zeros(500, np.int32)
    assert sweep(p, t, np.uint64(1), (codes, k, o), fresh=True) == 500


def test_a_pick_is_never_a_value_of_probability_zero() -> None:
    numbers = np.array([0.0, 0.25, 0.0, 0.25, 0.0])
    assert {draws.pick(numbers, 0, 5, u) for u in np.linspace(0, 0.6, 61)} == {1, 3}


# Networks.


STRENGTHS = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]


def hand_levels(
    codes: np.ndarray, sizes: Sequence[int], a: int, parents: Sequence[int]
) -> tuple[list[float], list[dict[tuple[int, ...], np.ndarray]]]:
    """For each level the leave-one-out likelihood, and the distribution of every context seen."""
    rows, size = len(codes), int(sizes[a])
    back, likelihoods = np.full(rows, 1 / size), []
    levels: list[dict[tuple[int, ...], np.ndarray]] = []
    for level in range(len(parents) + 1):
        keys = [tuple(int(v) for v in row) for row in codes[:, list(parents[:level])]]
        counts: dict[tuple[int, ...], np.ndarray] = {}
        for key, v in zip(keys, codes[:, a], strict=True):
            counts.setdefault(key, np.zeros(size))[v] += 1
        own = np.array([counts[key][v] for key, v in zip(keys, codes[:, a], strict=True)]) - 1
        whole = np.array([counts[key].sum() for key in keys]) - 1
        found = [(float(np.mean(np.log((own + s * back) / (whole + s)))), s) for s in STRENGTHS]
        best, s = max(found, key=lambda f: f[0])
        likelihoods.append(best)
        back = (own + s * back) / (whole + s)
        above = {key: levels[-1][key[:-1]] if level else np.full(size, 1 / size) for key in counts}
        levels.append({key: (n + s * above[key]) / (n.sum() + s) for key, n in counts.items()})
    return likelihoods, levels


@pytest.mark.parametrize("rows", [1, 2, 7, 60, 400])
@pytest.mark.parametrize("shape", [(3, 2, 4, 2), (2, 5, 1, 3, 2)])
def test_conditionals_by_hand(rows: int, shape: tuple[int, ...]) -> None:
    """Every context, seen or not, of every attribute of every network."""
    codes = dependent_codes(shape, rows, rows)
    networks = fit_networks(codes, np.array(shape), 2, np.random.default_rng(1))
    for k, a in itertools.product(range(2), range(len(shape))):
        parents, table = conditional_of(networks, shape, k, a)
        _, levels = hand_levels(codes, shape, a, parents)
        np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-5)
        for context in np.ndindex(*table.shape[:-1]):
            depth = next(d for d in range(len(parents), -1, -1) if context[:d] in levels[d])
            np.testing.assert_allclose(table[context], levels[depth][context[:depth]], rtol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_parents_are_those_that_a_slow_search_finds(seed: int) -> None:
    shape = (3, 2, 4, 2)
    codes = dependent_codes(shape, 150, seed)
    networks = fit_networks(codes, np.array(shape), 3, np.random.default_rng(seed))
    for k in range(3):
        order = [int(a) for a in networks.order[k]]
        assert sorted(order) == [0, 1, 2, 3]
        for i, a in enumerate(order):
            chosen: list[int] = []
            likelihood = hand_levels(codes, shape, a, [])[0][-1]
            while len(chosen) < 4:
                trials = {
                    b: hand_levels(codes, shape, a, [*chosen, b])[0][-1] for b in order[:i] if b not in chosen
                }
                best = max(trials, key=lambda b: trials[b], default=-1)
                if best < 0 or trials[best] <= likelihood + 1e-3:
                    break
                chosen.append(best)
                likelihood = trials[best]
            assert [int(b) for b in networks.parents[k, a] if b >= 0] == chosen
            children = [c for c in range(4) if a in networks.parents[k, c]]
            assert [int(c) for c in networks.children[k, a] if c >= 0] == children


def test_log_density_is_that_of_the_mean() -> None:
    p, cells = make_prior("networks"), enumerate_cells(SHAPE)
    codes = dependent_codes(SHAPE, 120, 0)
    networks = fit_networks(codes, np.array(SHAPE), 4, np.random.default_rng(0))
    own = PriorArrays(**{**p._asdict(), **{f: getattr(networks, f) for f in ("order", "parents", "strides")},
                         "index_start": networks.index_start, "table_start": networks.table_start,
                         "row_of": networks.index, "table": networks.table, "children": networks.children})  # fmt: skip
    by_hand = np.mean([network_density(own, k, cells) for k in range(4)], axis=0)
    np.testing.assert_allclose(np.exp(log_density(networks, cells, np.array(SHAPE))), by_hand, rtol=1e-4)
    np.testing.assert_allclose(by_hand.sum(), 1.0, atol=1e-5)


# Classes.


def class_log_likelihood(classes: Classes, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p(row, class), and log p(row)."""
    logs = np.log(classes.shares)[None] + sum(
        np.log(classes.values[:, classes.starts[a] + codes[:, a]].astype(float)).T
        for a in range(codes.shape[1])
    )
    peak = logs.max(axis=1, keepdims=True)
    return logs, (peak + np.log(np.exp(logs - peak).sum(axis=1, keepdims=True)))[:, 0]


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (1, 300), (4, 300), (6, 5), (3, 1)])
def test_classes_are_what_they_say(count: int, rows: int) -> None:
    codes, sizes = dependent_codes(SHAPE, rows, 1), np.array(SHAPE)
    classes = fit_classes(codes, sizes, count, np.random.default_rng(0))
    assert classes.shares.sum() == pytest.approx(1)
    assert (classes.shares > 0).all()
    assert (classes.values > 0).all()
    sums = np.add.reduceat(classes.values.astype(float), classes.starts[:-1], axis=1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    logs, whole = class_log_likelihood(classes, codes)
    assert classes.likelihood == pytest.approx(whole.mean(), abs=1e-4)
    ranked = np.sort(logs, axis=1)
    clear = np.ones(rows, bool) if count == 1 else ranked[:, -1] - ranked[:, -2] > 1e-4
    assert (classes.member == logs.argmax(axis=1))[clear].all()
    assert (classes.assign(codes).member == classes.member)[clear].all()
    other = enumerate_cells(SHAPE)
    assert len(classes.assign(other).member) == len(other)


def test_more_steps_never_lower_the_penalised_likelihood_and_planted_classes_are_found() -> None:
    """EM climbs the likelihood with the smoothing as its prior; the plain one it climbs but for a little."""
    rng = np.random.default_rng(0)
    sizes = np.array([6, 5, 4, 6, 5])
    planted = [[rng.dirichlet(np.full(s, 0.25)) for s in sizes] for _ in range(4)]
    member = rng.integers(0, 4, 3000)
    codes = np.array(
        [[rng.choice(s, p=planted[z][a]) for a, s in enumerate(sizes)] for z in member], np.uint16
    )
    truth = np.zeros((len(codes), 4))
    for z in range(4):
        truth[:, z] = 0.25 * np.prod([planted[z][a][codes[:, a]] for a in range(5)], axis=0)
    target = float(np.log(truth.sum(axis=1)).mean())
    # The prior that 0.5·base and 0.1 are the pseudo-counts of, up to a constant.
    found, scores = [], []
    base = np.concatenate([np.bincount(codes[:, a], minlength=s) + 0.5 for a, s in enumerate(sizes)])
    base /= len(codes) + 0.5 * np.repeat(sizes, sizes)
    for steps in (1, 2, 4, 8, 16, 60):
        classes = fit_classes(codes, sizes, 4, np.random.default_rng(3), steps=steps)
        _, whole = class_log_likelihood(classes, codes)
        penalty = 0.5 * (base * np.log(classes.values)).sum() + 0.1 * np.log(classes.shares).sum()
        found.append(classes.likelihood)
        scores.append(whole.sum() + penalty)
    assert (np.diff(scores) > -0.5).all()
    assert (np.diff(found) > -1e-3).all()
    assert found[-1] > found[0] + 0.1
    best = max(fit_classes(codes, sizes, 4, np.random.default_rng(s)).likelihood for s in range(4))
    assert best > target - 0.02


# Raking.


class Rake:
    """One particle a cell of the whole domain, random noisy marginals; every cell with its own c."""

    def __init__(self, seed: int, blocks: Sequence[Sequence[int]], *, total: float = 1000.0) -> None:
        rng = np.random.default_rng(seed)
        cells = enumerate_cells(SHAPE)
        self.total, self.start = total, rng.dirichlet(np.ones(len(cells))) * total
        truth = rng.dirichlet(np.ones(len(cells))) * total
        numbers, values, c, self.starts = [], [], [], [0]
        for block in blocks:
            sizes = [SHAPE[a] for a in block]
            number = np.ravel_multi_index([cells[:, a].astype(int) for a in block], sizes)
            k = math.prod(sizes)
            numbers.append(number)
            values.append(np.bincount(number, truth, minlength=k) + rng.normal(0, 10, k))
            c.append(rng.uniform(5, 200, k))
            self.starts.append(self.starts[-1] + k)
        self.cells = np.array(numbers, np.int32)
        self.values, self.c = np.concatenate(values), np.concatenate(c)
        self.weights, self.theta = self.start.copy(), np.zeros(len(self.values))
        self.missing, self.kappa, self.gaps, self.held = np.zeros((4, len(blocks)))

    def one_pass(self, reach: float = 1e6) -> None:
        nothing = np.zeros(len(self.theta))
        rake(
            self.cells, self.weights, np.array(self.starts), self.values, self.c, nothing > 0, self.theta, nothing,
            reach, self.total, self.missing, self.kappa, self.gaps, self.held,
        )  # fmt: skip

    def masses(self, weights: np.ndarray) -> np.ndarray:
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        parts = [np.bincount(c, weights, minlength=e - s) for c, (s, e) in zip(self.cells, ends, strict=True)]
        return np.concatenate(parts)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """Σ of the blocks' θ for every cell of the domain."""
        return sum(theta[s:][c] for s, c in zip(self.starts[:-1], self.cells, strict=True))

    def primal(self, weights: np.ndarray) -> float:
        """KL in rows, and what the measurements ask for."""
        kl = float((weights * np.log(weights / self.start)).sum())
        return kl + float(((self.values - self.masses(weights)) ** 2 / (2 * self.c)).sum())

    def dual(self, theta: np.ndarray) -> float:
        """max of the Lagrangian's dual: −n·log Σ p₀ e^{−Θ} − θ·y − Σ c θ²/2; p₀ is normalised, weights are rows."""
        normal = np.log((self.start / self.total * np.exp(-self.spread(theta))).sum())
        return -self.total * float(normal) - float(theta @ self.values) - float((self.c * theta**2).sum()) / 2

    def optimum(self) -> np.ndarray:
        def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
            p = self.start * np.exp(-self.spread(theta))
            p *= self.total / p.sum()
            return -self.dual(theta), -(self.masses(p) - self.values - self.c * theta)

        found = minimize(
            negative, np.zeros(len(self.theta)), jac=True, method="L-BFGS-B",
            options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-9},
        )  # fmt: skip
        p = self.start * np.exp(-self.spread(found.x))
        return p * (self.total / p.sum())


RAKED = {
    "one": [(0,)],
    "joint": [(0, 1, 2, 3)],
    "disjoint": [(0, 1), (2, 3)],
    "overlapping": [(0, 1), (1, 2), (0, 2, 3), (2,)],
    "twice": [(1, 2), (1, 2)],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("blocks", RAKED)
def test_raking_reaches_the_optimum(blocks: str, seed: int) -> None:
    problem = Rake(seed, RAKED[blocks])
    best = problem.optimum()
    for _ in range(300):
        problem.one_pass()
        assert (problem.weights > 0).all()
        assert problem.weights.sum() == pytest.approx(problem.total, rel=1e-9)
    assert np.abs(problem.weights - best).max() < 1e-5 * problem.total / len(best)
    assert problem.primal(problem.weights) == pytest.approx(problem.primal(best), rel=1e-6)
    assert problem.gaps.max() < 1e-4
    assert problem.held.max() == 0
    tilted = problem.start * np.exp(-problem.spread(problem.theta))
    np.testing.assert_allclose(tilted * (problem.total / tilted.sum()), problem.weights, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("blocks", RAKED)
def test_a_pass_never_lowers_the_dual(blocks: str, seed: int) -> None:
    problem = Rake(seed, RAKED[blocks])
    best = problem.primal(problem.optimum())
    values = [problem.dual(problem.theta)]
    for _ in range(60):
        problem.one_pass()
        values.append(best_shift(problem))
    assert (np.diff(values) > -1e-6 * abs(best)).all()
    assert values[-1] == pytest.approx(best, rel=1e-4)
    assert max(values) <= best * (1 + 1e-9) + 1e-9


def best_shift(problem: Rake) -> float:
    """The dual at θ, with the constant of every block, which changes no distribution, where it is best."""
    theta = problem.theta.copy()
    for s, e in zip(problem.starts[:-1], problem.starts[1:], strict=True):
        # n·t − t·Σy − Σ c(θ + t)²/2 is largest at t = (n − Σy − Σcθ) / Σc; n·t comes from the normaliser.
        c = problem.c[s:e]
        theta[s:e] += (problem.total - problem.values[s:e].sum() - c @ theta[s:e]) / c.sum()
    return problem.dual(theta)


@pytest.mark.parametrize("reach", [0.1, 0.5])
def test_theta_stays_within_its_reach_and_says_what_it_holds_back(reach: float) -> None:
    problem = Rake(0, RAKED["overlapping"])
    problem.values *= 1 + 2 * np.sin(np.arange(len(problem.values)))
    for _ in range(20):
        problem.one_pass(reach)
    assert np.abs(problem.theta).max() <= reach + 1e-9
    assert problem.held.max() > 0
    assert problem.weights.sum() == pytest.approx(problem.total)


def test_cells_without_particles_get_theta_only_where_they_stand_out() -> None:
    """Two cells hold all particles; the third stands out, the fourth does not."""
    cells = np.repeat(np.array([[0, 1]], np.int32), 50, axis=1)
    weights, theta = np.full(100, 10.0), np.array([0.0, 0.0, 0.0, 0.7])
    values, c = np.array([400.0, 400.0, 200.0, 3.0]), np.full(4, 0.5)
    missing, kappa, gaps, held = np.zeros((4, 1))
    stands_out = np.array([False, False, True, False])
    for _ in range(5):
        rake(
            cells, weights, np.array([0, 4]), values, c, stands_out, theta, np.zeros(4), 3.0, 1000.0, missing, kappa,
            gaps, held,
        )  # fmt: skip
    assert theta[3] == 0
    assert theta[2] < -3
    assert missing[0] == pytest.approx(200, rel=0.05)
    assert weights.sum() == pytest.approx(1000)
    assert (weights > 0).all()


# Trust and stiffness.


def block_step(y: float, start: float, c: float) -> float:
    """m with m + c·log(m/start) = y, by bisection."""
    return math.exp(brentq(lambda t: math.exp(t) + c * (t - math.log(start)) - y, -1e7, 60, xtol=1e-13))


def slow_evidence(y: np.ndarray, m: np.ndarray, variance: float, trusted: float) -> float:
    """The log density of normal innovations, but for a constant."""
    return sum(
        -0.5 * math.log(e / trusted + variance) - (v - e) ** 2 / (2 * (e / trusted + variance))
        for v, e in zip(y, m, strict=True)
    )


def trust(y: np.ndarray, m: np.ndarray, variance: float, centre: float) -> float:
    return most_likely(trust_evidence(y, m, variance), centre, 1.5)


@pytest.mark.parametrize("seed", range(3))
def test_trust_is_the_mode_of_its_posterior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = np.append(rng.gamma(0.7, 40, 30), 0.0)
    for factor, centre in itertools.product((0.0, 0.3, 2.0), (0.02, 1.0)):
        y = m + rng.normal(0, 5, 31) + factor * rng.normal(0, np.sqrt(m) * 3)
        evidence = trust_evidence(y, m, 25.0)
        slow = np.array([slow_evidence(y, m, 25.0, g) for g in TRUSTS])
        np.testing.assert_allclose(evidence - evidence[0], slow - slow[0], atol=1e-8)
        posterior = slow - np.log(TRUSTS / centre) ** 2 / (2 * 1.5**2)
        assert trust(y, m, 25.0, centre) == TRUSTS[np.argmax(posterior)]


def test_trust_falls_with_surprise_and_hides_behind_noise() -> None:
    rng = np.random.default_rng(0)
    m = rng.gamma(1.0, 50, 40)
    off = rng.normal(0, 1, 40) * np.sqrt(m)
    found = [trust(m + s * off, m, 4.0, 0.4) for s in (0, 0.5, 1, 2, 4, 8, 30, 200)]
    assert (np.diff(found) <= 0).all()
    assert found[-1] < 0.01 < found[0]
    for centre in (0.003, 0.1, 1.0):
        assert abs(math.log(trust(m + 3 * off, m, 1e9, centre) / centre)) < 0.3
    empty = np.zeros(5)
    assert abs(math.log(trust(empty, empty, 1.0, 0.1) / 0.1)) < 0.3


@pytest.mark.parametrize("trusted", [1e-5, 1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("sigma", [0.05, 1.0, 50.0])
def test_stiffness_is_positive_and_no_step_goes_below_what_noise_can_tell(
    trusted: float, sigma: float
) -> None:
    rng = np.random.default_rng(0)
    expected = np.concatenate([np.zeros(20), rng.gamma(0.3, 100, 60)])
    values = expected + rng.normal(0, sigma, 80) - np.where(rng.random(80) < 0.3, expected, 0)
    c, stands_out = stiffness(values, expected, sigma**2, trusted, 1e-3)
    assert np.isfinite(c).all()
    assert (c > 0).all()
    assert stands_out.shape == (80,)
    start = np.maximum(expected, 1e-3)
    for y, m, stiff in zip(values, start, c, strict=True):
        step = block_step(y, m, stiff)
        if m > 0.3 * sigma:
            assert step >= 0.3 * sigma * (1 - 1e-6) or stiff == pytest.approx(1e3 * sigma**2)
        assert min(m, y) - 1e-6 <= step <= max(m, y) + 1e-6


@pytest.mark.parametrize("trusted", [1e-3, 0.03, 1.0])
def test_a_step_shrinks_towards_the_model_by_the_ratio_of_variances(trusted: float) -> None:
    """Where a cell neither stands out nor is nearly empty."""
    expected, sigma = np.array([50.0, 200.0, 1000.0]), 4.0
    for z in (-1.0, -0.3, 0.3, 1.0):
        values = expected + z * sigma
        c, stands_out = stiffness(values, expected, sigma**2, trusted, 1e-3)
        assert not stands_out.any()
        spread = expected / trusted
        wished = expected + spread / (spread + sigma**2) * (values - expected)
        found = [block_step(y, m, k) for y, m, k in zip(values, expected, c, strict=True)]
        np.testing.assert_allclose(found, wished, atol=0.02 * sigma)


# Shares.


@pytest.mark.parametrize("seed", range(4))
def test_the_best_shares_on_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.gamma(1.0, 1.0, (5, 40))
    products, agreement = root @ root.T, root @ root.mean(axis=0) * rng.uniform(0.7, 1.3, 5)

    def loss(w: np.ndarray) -> float:
        return float(w @ products @ w / 2 - agreement @ w)

    found = on_simplex(products, agreement)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    best = minimize(
        loss, np.full(5, 0.2), bounds=[(0, 1)] * 5, constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert loss(found) <= best.fun + 1e-4 * abs(best.fun)


def test_shares_go_to_the_kind_that_predicts() -> None:
    """A table of few rows repeated over and over is best met by its rows, and independent columns need no anchors."""
    rng = np.random.default_rng(0)
    domain = Domain(dict.fromkeys("abcdef", 6))
    few = rng.integers(0, 6, (12, 6))
    repeated = Table(domain, tuple(few[rng.integers(0, 12, 1500)].T.astype(np.uint8)))
    marginals = [tuple(m) for m in itertools.combinations("abcdef", 3)]
    prior = fit_prior(repeated, marginals, rng)
    assert sum(prior.shares) == pytest.approx(1)
    assert min(prior.shares) >= 0
    cells = few.astype(np.uint16)
    joint, _, _ = joint_density(prior.arrays, cells)
    assert joint.sum() > 0.5


def test_rows_that_a_network_calls_impossible_neither_stop_a_sweep_nor_stay() -> None:
    """A file of a prior may have rows of nearly no probability, which rounding makes possible to draw and to leave."""
    networks = Networks(
        order=np.array([[0, 1, 2]]),
        parents=np.array([[[-1], [0], [0]]]),
        strides=np.array([[[0], [1], [1]]]),
        index_start=np.array([[0, 1, 3]]),
        table_start=np.array([[0, 2, 6]]),
        index=np.array([0, 0, 1, 0, 1], np.int32),
        table=np.array([0.5, 0.5, 0.9991, 1e-45, 0, 1, 1, 0, 0, 1], np.float32),
        children=np.array([[[1, 2], [-1, -1], [-1, -1]]]),
    )
    prior = of_networks(np.array([2, 2, 2]), networks).arrays
    tilting = Tilting(
        Prior(prior, 0, (0.0, 0.0, 1.0)),
        Domain({"a": 2, "b": 2, "c": 2}),
        1e3,
        1000,
        np.random.default_rng(0),
    )
    tilting.measured(Measurement.of(("a",), np.array([700.0, 300.0]), 5.0))
    tilting.fit()
    cloud = np.empty((60_000, 3), np.uint16), np.empty(60_000, np.int8), np.empty(60_000, np.int32)
    draw(prior, np.uint64(1), *cloud)
    codes = cloud[0]
    assert ((codes[:, 0] == 0) & (codes[:, 1] == 1)).any()
    for seed in range(10):
        sweep(prior, tilting._tilt(), np.uint64(seed), cloud, fresh=False)
        assert not ((codes[:, 0] == 1) & (codes[:, 2] == 0)).any()
