"""Every sampler against its law: the right scale is accepted, 0.7 and 1.3 times it are rejected.

Secure samplers cannot be seeded, so a level of 1e-8 keeps a false alarm of the whole file below 1e-6, and the samples
are so large that a wrong scale is off by dozens of orders of magnitude.
"""

import functools
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from openprior.privacy import selection
from openprior.privacy.noise import Noise, SecureNoise, SeededNoise
from openprior.privacy.selection import exponential, exponential_many, permute_and_flip

LEVEL = 1e-8
WRONG = (0.7, 1.3)
Law = Sequence[float] | NDArray[np.float64]


@pytest.fixture(params=["secure", "seeded"])
def noise(request: pytest.FixtureRequest) -> Noise:
    return SecureNoise() if request.param == "secure" else SeededNoise(20240229)


def p_value(observed: NDArray[np.int64], law: Law) -> float:
    """Pearson's chi-square; neighbouring cells are joined until each expects at least ten."""
    expected = np.asarray(law, dtype=np.float64) * observed.sum()
    seen, wanted = [0.0], [0.0]
    for o, e in zip(observed, expected, strict=True):
        if wanted[-1] >= 10:
            seen.append(0.0)
            wanted.append(0.0)
        seen[-1] += o
        wanted[-1] += e
    if wanted[-1] < 10 and len(wanted) > 1:
        last_seen, last_wanted = seen.pop(), wanted.pop()
        seen[-1] += last_seen
        wanted[-1] += last_wanted
    assert sum(wanted) == pytest.approx(observed.sum(), rel=1e-9)
    statistic = sum((o - e) ** 2 / e for o, e in zip(seen, wanted, strict=True))
    return float(stats.chi2.sf(statistic, len(seen) - 1))


def check(observed: NDArray[np.int64], law: Callable[[float], Law]) -> None:
    """The law at its true scale fits; at a wrong one it does not."""
    assert p_value(observed, law(1.0)) > LEVEL
    for wrong in WRONG:
        assert p_value(observed, law(wrong)) < LEVEL


def on_line(
    drawn: NDArray[np.int64], log_weight: Callable[[NDArray[np.float64]], NDArray[np.float64]], far: int
):
    """Counts on −far…far, with the tails in the ends, and the law there."""
    wide = np.arange(-4 * far, 4 * far + 1)
    weight = np.exp(log_weight(wide.astype(np.float64)))
    law = np.bincount(np.clip(wide, -far, far) + far, weights=weight / weight.sum())
    return np.bincount(np.clip(drawn, -far, far) + far, minlength=2 * far + 1), law


# Noise.


@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.3, 40.0])
def test_gaussian(noise: Noise, sigma: float) -> None:
    counts = np.full(12_000, 1000, dtype=np.int64)
    drawn = noise.gaussian(counts, sigma) - counts
    assert drawn.dtype == np.int64
    for scale in (1.0, *WRONG):
        true = sigma * scale
        observed, law = on_line(drawn, lambda x: -(x**2) / (2 * true**2), math.ceil(8 * sigma))
        assert (p_value(observed, law) > LEVEL) == (scale == 1.0)


@pytest.mark.parametrize("scale", [0.4, 1.0, 5.5, 60.0])
def test_laplace(noise: Noise, scale: float) -> None:
    counts = np.full(12_000, -7, dtype=np.int64)
    drawn = noise.laplace(counts, scale) - counts
    assert drawn.dtype == np.int64
    for factor in (1.0, *WRONG):
        true = scale * factor
        observed, law = on_line(drawn, lambda x: -np.abs(x) / true, math.ceil(14 * scale))
        assert (p_value(observed, law) > LEVEL) == (factor == 1.0)


@pytest.mark.parametrize("verb", ["gaussian", "laplace"])
def test_every_cell_has_noise_of_its_own(noise: Noise, verb: str) -> None:
    counts = np.arange(10_000, dtype=np.int64)
    draw = getattr(noise, verb)
    first, second = draw(counts, 20.0) - counts, draw(counts, 20.0) - counts
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:5000], first[5000:])):
        assert abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(len(one)) < stats.norm.isf(LEVEL / 2)


def test_a_seed_is_not_ignored() -> None:
    counts = np.zeros(64, dtype=np.int64)
    first, same, other = (SeededNoise(s).gaussian(counts, 50.0) for s in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()
    assert not SeededNoise(1).is_private
    assert SecureNoise().is_private
    assert (SecureNoise().gaussian(counts, 50.0) != SecureNoise().gaussian(counts, 50.0)).any()


@pytest.mark.parametrize("bound", [1, 2, 7, 10, 3 << 300])
def test_below(noise: Noise, bound: int) -> None:
    drawn = [noise.below(bound) for _ in range(8_000)]
    assert 0 <= min(drawn) <= max(drawn) < bound
    cells = min(bound, 12)
    observed = np.bincount([d * cells // bound for d in drawn], minlength=2 * cells)
    if bound > 1:
        assert p_value(observed[:cells], np.full(cells, 1 / cells)) > LEVEL
    if bound > 2:
        for wrong in (math.ceil(0.7 * cells), math.ceil(1.3 * cells)):
            law = np.where(np.arange(2 * cells) < wrong, 1 / wrong, 1e-300)
            assert p_value(observed, law) < LEVEL


@pytest.mark.parametrize("coins", [1, 5, 8, 67])
def test_heads(noise: Noise, coins: int) -> None:
    observed = np.bincount([noise.heads(coins) for _ in range(8_000)], minlength=coins + 1)
    check(observed, lambda scale: stats.binom.pmf(np.arange(coins + 1), coins, 0.5 * scale))


# Selection: the laws.


def exponential_law(levels: Sequence[int], sensitivity: int, epsilon: float) -> NDArray[np.float64]:
    weights = np.exp(epsilon * (np.array(levels) - max(levels)) / (2 * sensitivity))
    return weights / weights.sum()


def permute_and_flip_law(levels: Sequence[int], sensitivity: int, epsilon: float) -> NDArray[np.float64]:
    """All sets of coins that may show heads; one of them is chosen uniformly."""
    heads = np.exp(epsilon * (np.array(levels) - max(levels)) / (2 * sensitivity))
    law = np.zeros(len(levels))
    for shown in itertools.product((False, True), repeat=len(levels)):
        if any(shown):
            law[list(shown)] += math.prod(np.where(shown, heads, 1 - heads)) / sum(shown)
    return law


MECHANISMS = {
    "exponential": (exponential, exponential_law),
    "permute-and-flip": (permute_and_flip, permute_and_flip_law),
}
CASES = [([0, 3, 6, 8, 9], 4, 4.0), ([100, 400, 250], 128, 1.6), ([-4, 0], 1, 1.0), ([5, 5, 5, 2, 2], 2, 3.0)]
every = pytest.mark.parametrize("name", MECHANISMS)


def drawn(draw: Callable[[], int], of: int, times: int = 8_000) -> NDArray[np.int64]:
    return np.bincount([draw() for _ in range(times)], minlength=of)


@every
@pytest.mark.parametrize(("levels", "sensitivity", "epsilon"), CASES)
def test_selection(noise: Noise, name: str, levels: list[int], sensitivity: int, epsilon: float) -> None:
    draw, law = MECHANISMS[name]
    found = drawn(lambda: draw(np.array(levels), sensitivity, epsilon, noise), len(levels))
    check(found, lambda scale: law(levels, sensitivity, epsilon * scale))


@pytest.mark.parametrize(("levels", "sensitivity", "epsilon"), CASES)
def test_draws_with_replacement(noise: Noise, levels: list[int], sensitivity: int, epsilon: float) -> None:
    """Each draw has the law of one, and pairs of draws have the product of two laws: they are independent."""
    found = np.array(exponential_many(np.array(levels), sensitivity, epsilon, 8_000, noise))
    law = functools.partial(exponential_law, levels, sensitivity)
    check(np.bincount(found, minlength=len(levels)), lambda scale: law(epsilon * scale))
    pairs = np.bincount(found[::2] * len(levels) + found[1::2], minlength=len(levels) ** 2)
    assert p_value(pairs, np.outer(law(epsilon), law(epsilon)).ravel()) > LEVEL


def test_one_draw_with_replacement_is_the_draw_without() -> None:
    """The same bits give the same candidate, so what is proved of the one holds for the other."""
    levels = np.random.default_rng(3).integers(-50, 50, 2_000)
    for seed in range(20):
        one = exponential(levels, 4, 0.7, SeededNoise(seed))
        assert exponential_many(levels, 4, 0.7, 1, SeededNoise(seed)) == [one]


def test_five_hundred_draws_among_millions_take_one_pass() -> None:
    """One draw is a pass over all candidates; so many of them one by one would be five hundred."""
    levels = 4 * np.random.default_rng(3).geometric(0.001, 1_000_000)
    begin = time.process_time()
    exponential(levels, 4, 0.01, SeededNoise(1))
    one = time.process_time() - begin
    exponential_many(levels, 4, 0.01, 500, SeededNoise(1))
    assert time.process_time() - begin - one < 50 * one


def test_tied_candidates_have_a_coin_each(noise: Noise) -> None:
    """Tossing one coin for a whole level would double the share of the best."""
    levels = [3, 2, 2, 2, 2]
    found = drawn(lambda: permute_and_flip(np.array(levels), 1, 1.0, noise), 5)
    assert p_value(found, permute_and_flip_law(levels, 1, 1.0)) > LEVEL
    one_coin = math.exp(-0.5)
    rest = one_coin / 5
    assert p_value(found, [1 - 4 * rest, *[rest] * 4]) < LEVEL


def test_the_laws_differ() -> None:
    """Otherwise a mechanism could pass as the other."""
    for case in CASES:
        gap = np.abs(exponential_law(*case) - permute_and_flip_law(*case)).sum()
        assert gap > 0.02


@every
@pytest.mark.parametrize(("levels", "sensitivity", "epsilon"), CASES[:2])
def test_opendp_has_the_same_laws(name: str, levels: list[int], sensitivity: int, epsilon: float) -> None:
    """OpenDP's noisy max: permute-and-flip for pure DP, Gumbel noise (the exponential mechanism) for zCDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measure = dp.zero_concentrated_divergence() if name == "exponential" else dp.max_divergence()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    theirs = dp.m.make_noisy_max(*space, measure, scale=2 * sensitivity / epsilon)
    draw, law = MECHANISMS[name]
    noise = SecureNoise()
    their = drawn(lambda: theirs(levels), len(levels))
    ours = drawn(lambda: draw(np.array(levels), sensitivity, epsilon, noise), len(levels))
    check(their, lambda scale: law(levels, sensitivity, epsilon * scale))
    both_seen = np.stack([their, ours])[:, (their + ours) > 0]
    assert stats.chi2_contingency(both_seen).pvalue > LEVEL
    # They charge what we charge.
    price = epsilon**2 / 8 if name == "exponential" else epsilon
    assert theirs.map(sensitivity) == pytest.approx(price, rel=1e-9)


# Selection: the arithmetic.

EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 17.0, 300.0, 1e6]


@every
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_and_equal_candidates(name: str, epsilon: float) -> None:
    draw, noise = MECHANISMS[name][0], SeededNoise(5)
    assert draw(np.array([-17]), 4, epsilon, noise) == 0
    equal = drawn(lambda: draw(np.array([3, 3, 3]), 4, epsilon, noise), 3, times=3_000)
    assert p_value(equal, [1 / 3] * 3) > LEVEL


@every
def test_extreme_epsilons(name: str) -> None:
    draw, noise = MECHANISMS[name][0], SeededNoise(6)
    levels = np.array([0, 8, 4])
    assert {draw(levels, 4, 1e6, noise) for _ in range(200)} == {1}
    assert p_value(drawn(lambda: draw(levels, 4, 1e-6, noise), 3), [1 / 3] * 3) > LEVEL


@every
def test_millions_of_levels(name: str) -> None:
    draw, noise = MECHANISMS[name][0], SeededNoise(7)
    levels = np.random.default_rng(8).integers(-(1 << 40), 1 << 40, 1_000_000)
    levels[123_456] = 1 << 41
    assert draw(levels, 1024, 1.0, noise) == 123_456
    # A level of their own for each; permute-and-flip tosses coins for every level, so it gets fewer.
    size = 2_000_000 if name == "exponential" else 50_000
    assert size - draw(np.arange(size), 4, 0.1, noise) < 2 * 4 / 0.1 * (math.log(size) + 20)
    # Five candidates a hundred nats below the others are never seen.
    tied = np.repeat([0, 50], [5, 200_000])
    assert draw(tied, 1, 4.0, noise) >= 5


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("levels", "sensitivity", "epsilon"), [([], 1, 1.0), ([1], 0, 1.0), ([1], 1, 0.0), ([1], 1, math.nan)]
)
def test_refusals(name: str, levels: list[int], sensitivity: int, epsilon: float) -> None:
    with pytest.raises(ValueError, match="selection needs"):
        MECHANISMS[name][0](np.array(levels, dtype=np.int64), sensitivity, epsilon, SeededNoise(1))


XS = [0.0, 1e-300, 1e-30, 1e-9, 0.1, 0.5, 0.99, 1.0, 2.5, 10.0, 100.0, 170.0, 177.4, 178.0, 1000.0, 125_000.0]


@pytest.mark.parametrize("x", [*map(Fraction, XS), Fraction(1, 3), Fraction(10**40 + 1, 10**40)])
def test_exp_negative_rounds_up_by_four_units_at_most(x: Fraction) -> None:
    with localcontext() as context:
        context.prec = 300
        true = (-Decimal(x.numerator) / Decimal(x.denominator)).exp() * 2**selection.PRECISION
        found = selection._exp_negative(x)
        assert found >= true or found == 1 << selection.PRECISION
        assert found <= true + 4
        assert found <= 1 << selection.PRECISION


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sensitivity", [1, 4, 1024])
def test_powers(sensitivity: int, epsilon: float) -> None:
    deepest = selection._deepest(sensitivity, epsilon)
    rng = np.random.default_rng(9)
    gaps = sorted({0, 1, deepest, deepest // 2, *rng.integers(0, deepest, 60, endpoint=True).tolist()})
    powers = list(selection._powers(gaps, sensitivity, epsilon))
    one = 1 << selection.PRECISION
    (base,) = selection._powers([1], sensitivity, epsilon)
    assert powers[0] == one
    assert all(p >= q > 0 for p, q in itertools.pairwise(powers))
    with localcontext() as context:
        context.prec = 300
        rate = Decimal(epsilon) / (2 * sensitivity)
        assert Decimal(base) / one >= (-rate).exp()  # never sharper than ε
        if epsilon < 300:
            assert Decimal(base) / one <= (-rate * (1 - Decimal(2) ** -30)).exp() * (1 + Decimal(2) ** -200)
        for gap, power in zip(gaps, powers, strict=True):
            exact = (Decimal(base) / one) ** gap * one
            assert exact * (1 - Decimal(10) ** -250) <= power <= exact * (1 + Decimal(2) ** -100)
        if 1 < deepest < 1 << 48:
            # One level deeper than where the weights fall under the floor, or less.
            assert (
                Decimal(base) / one / 2 < Decimal(powers[-1]) / one * 2**selection.FLOOR_BITS < 1 + one / base
            )


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 2.0, 40.0])
def test_the_privacy_loss_has_range_epsilon(epsilon: float) -> None:
    """All levels move by the sensitivity at most, also past the deepest level: exact laws of both tables, compared."""
    rng, sensitivity = np.random.default_rng(10), 4
    deepest = selection._deepest(sensitivity, epsilon)
    for case in range(30):
        spread = (20, 3 * deepest)[case % 2]
        here = rng.integers(0, spread, 6, endpoint=True)
        there = here + rng.choice([-sensitivity, sensitivity], 6)
        losses = []
        with localcontext() as context:
            context.prec = 120
            for p, q in zip(
                exact_law(here, sensitivity, epsilon), exact_law(there, sensitivity, epsilon), strict=True
            ):
                losses.append(
                    (Decimal(p.numerator) / p.denominator / (Decimal(q.numerator) / q.denominator)).ln()
                )
        assert max(losses) - min(losses) <= Decimal(epsilon)


def exact_law(levels: NDArray[np.int64], sensitivity: int, epsilon: float) -> list[Fraction]:
    """The law of `exponential` as it is drawn: what `below` is asked for, and who gets which part of it."""
    gaps, occupied, members = selection._group(levels, sensitivity, epsilon)
    powers = dict(zip(occupied, selection._powers(occupied, sensitivity, epsilon), strict=True))
    total = sum(c * powers[j] for j, c in zip(occupied, members, strict=True))
    asked: list[int] = []

    class Asked:
        def below(self, bound: int) -> int:
            asked.append(bound)
            return 0

        def heads(self, coins: int) -> int:
            raise AssertionError

    exponential(levels, sensitivity, epsilon, Asked())
    assert asked[0] == total
    return [Fraction(powers[int(g)], total) for g in gaps]


def test_a_draw_is_exactly_proportional() -> None:
    class Fixed:
        def __init__(self, value: int) -> None:
            self.value = value

        def below(self, bound: int) -> int:
            assert bound == 10
            return self.value

    found = Counter(selection._draw([3, 0, 1, 6], Fixed(u)) for u in range(10))  # type: ignore[arg-type]
    assert found == {0: 3, 2: 1, 3: 6}


class Branch(Exception):
    """So many coins have to be flipped before it can go on."""


class Script:
    """Fair coins that show what is written, as far as it goes."""

    def __init__(self, written: tuple[int, ...]) -> None:
        self._rest = list(written)

    def heads(self, coins: int) -> int:
        if not self._rest:
            raise Branch(coins)
        return self._rest.pop(0)

    def below(self, bound: int) -> int:
        raise AssertionError


def binomial_law(trials: int, numerator: int) -> dict[int, Fraction]:
    law: dict[int, Fraction] = Counter()
    paths: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while paths:
        written, p = paths.pop()
        try:
            law[selection._binomial(trials, numerator, Script(written))] += p
        except Branch as branch:
            (coins,) = branch.args
            paths += [((*written, h), p * Fraction(math.comb(coins, h), 2**coins)) for h in range(coins + 1)]
    return {k: v for k, v in law.items() if v}


def true_binomial(trials: int, p: Fraction) -> dict[int, Fraction]:
    law = {k: math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)}
    return {k: v for k, v in law.items() if v}


@pytest.mark.parametrize("trials", [0, 1, 2, 3])
def test_binomial_is_exact(monkeypatch: pytest.MonkeyPatch, trials: int) -> None:
    monkeypatch.setattr(selection, "PRECISION", 4)
    for numerator in range(16):
        assert binomial_law(trials, numerator) == true_binomial(trials, Fraction(numerator, 16))


def test_binomial_of_certain_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PRECISION", 4)
    assert binomial_law(2, 16) == {2: 1}


def halves(n: int) -> Iterator[float]:
    yield from (0.5**k for k in range(1, n))


def test_the_test_itself_rejects() -> None:
    """A chi-square that accepted everything would make this file worthless."""
    rng = np.random.default_rng(11)
    law = [*halves(6), 0.5**5]
    fair = rng.multinomial(5_000, law)
    assert p_value(fair, law) > 1e-3
    assert p_value(fair, law[::-1]) < LEVEL
