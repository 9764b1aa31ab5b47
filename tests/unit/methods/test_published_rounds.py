"""PMW^Pub, MWEM and MWEM+PUB as published: rounds calculated by hand, and what their steps cost."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.errors import MarginalTooLarge, OptionError
from openprior.methods.mwem import Mwem
from openprior.methods.mwem_pub import MwemPub
from openprior.methods.pmw_pub import PmwPub
from openprior.methods.shared.advanced import per_round_epsilon
from openprior.methods.shared.random_rows import random_rows
from openprior.models.support import MultiplicativeWeights
from openprior.privacy.fake import FakeCurator, NoNoise
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import CellCount, Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import quiet, random_table
from tests.formulas import pure_rho_by_hand

SQUARE = Domain({"x": 2, "y": 2})
JOINT = ("x", "y")
WORK = Workload([JOINT]).on(SQUARE)
UNITS = [Unit(), Unit(rows_per_person=3), Unit(Relation.ADD_REMOVE), Unit(Relation.ADD_REMOVE, 2)]


def table(counts: list[int]) -> Table:
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint8)
    return Table(SQUARE, tuple(np.repeat(rows[:, i], counts) for i in (0, 1)))


PRIVATE = table([7, 1, 1, 1])
EVEN = table([1, 1, 1, 1])


class Shifted(NoNoise):
    """Noise that always adds the same."""

    def __init__(self, by: int) -> None:
        self._by = by

    def laplace(self, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """So many more."""
        return counts + self._by

    def gaussian(self, counts: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        """So many more."""
        return counts + self._by


def run(
    mechanism: object, shift: int = 0, public: Table = EVEN, **budget: object
) -> tuple[FakeCurator, np.ndarray]:
    curator = FakeCurator(PRIVATE, noise=Shifted(shift), **budget)
    model = mechanism.run(curator, public, WORK, np.random.default_rng(0), quiet)
    return curator, model.answers([JOINT])[JOINT] / model.total


def moved(weights: list[float], cell: int, answer: float, step: float) -> np.ndarray:
    """One update by hand: A(x) ∝ A(x)·exp(q(x)·(a − q(A))·step)."""
    after = np.array(weights)
    after[cell] *= math.exp((answer - after[cell]) * step)
    return after / after.sum()


# MWEM+PUB and MWEM as its paper runs it.


@pytest.mark.parametrize("mechanism", [MwemPub(rounds=1), Mwem.published(1)], ids=lambda m: m.name)
@pytest.mark.parametrize("shift", [0, 6, -9])
def test_a_round_of_mwem_pubs_paper_by_hand(mechanism: object, shift: int) -> None:
    """The whole step, and the answer as it is: 1.3 and −0.2 are not brought into [0, 1]."""
    _, answers = run(mechanism, shift)
    np.testing.assert_allclose(answers, moved([0.25] * 4, 0, 0.7 + shift / 10, 1.0), rtol=1e-12)


@pytest.mark.parametrize("mechanism", [MwemPub(rounds=2), Mwem.published(2)], ids=lambda m: m.name)
def test_two_rounds_of_mwem_pubs_paper_by_hand(mechanism: object) -> None:
    """Cell 0 is the worst twice; nothing is replayed, and the last iterate is what comes out."""
    curator, answers = run(mechanism)
    assert [e.statistic.cell for e in curator.events[1::2]] == [0, 0]
    np.testing.assert_allclose(answers, moved(list(moved([0.25] * 4, 0, 0.7, 1.0)), 0, 0.7, 1.0), rtol=1e-12)


def test_clipping_and_the_step_are_options_of_mwem() -> None:
    half = Mwem(rounds=1, replay=False)
    for shift, answer in ((6, 1.0), (-9, 0.0)):
        np.testing.assert_allclose(run(half, shift)[1], moved([0.25] * 4, 0, answer, 0.5), rtol=1e-12)
    free = Mwem(rounds=1, replay=False, clip=False, step=2.0)
    np.testing.assert_allclose(run(free, 6)[1], moved([0.25] * 4, 0, 1.3, 2.0), rtol=1e-12)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(
    "mechanism",
    [
        MwemPub(rounds=10),
        Mwem.published(10),
        Mwem.published(10, support=3),
        Mwem(rounds=10, noise="laplace", calibration="advanced", selection="permute-and-flip"),
    ],
)
def test_advanced_rounds_cost_what_their_steps_cost(mechanism: object, unit: Unit) -> None:
    curator, _ = run(mechanism, epsilon=1.0, delta=1e-6, unit=unit)
    half = per_round_epsilon(1.0, 1e-6, 10) / 2
    spent = math.sqrt(20 * math.log(1e6)) * 2 * half + 20 * half * math.expm1(2 * half)
    assert spent == pytest.approx(1.0)
    events = [e for e in curator.events if not isinstance(getattr(e, "statistic", None), Total)]
    assert len(events) == 20 == len(curator.events) - (not unit.n_is_public)
    for choice, noisy in zip(events[::2], events[1::2], strict=True):
        assert choice.epsilon == pytest.approx(half)
        flips = choice.kind == "permute-and-flip"
        assert choice.cost(unit, pure=False) == pytest.approx(
            pure_rho_by_hand(half) if flips else half**2 / 8
        )
        assert noisy.scale == pytest.approx(unit.rows_per_person / half)
        assert noisy.cost(unit, pure=False) == pytest.approx(pure_rho_by_hand(half))
    assert curator.remaining > 0.3 * curator.rho


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("rounds", [1, 30])
def test_advanced_rounds_always_fit_their_share(epsilon: float, rounds: int) -> None:
    mechanism = Mwem(
        rounds=rounds, noise="laplace", calibration="advanced", selection="permute-and-flip", start_counts=0.5
    )
    for delta in (1e-12, 1e-3):
        curator, _ = run(mechanism, epsilon=epsilon, delta=delta, unit=UNITS[3])
        start = curator.events[1]
        assert isinstance(start.statistic, Counts)
        assert start.rho == pytest.approx(0.5 * (curator.rho - curator.events[0].rho))
        assert 0 < sum(e.rho for e in curator.events[2:]) < 0.5 * curator.rho


# Where MWEM's weights lie and start.


def test_a_random_support_has_as_many_different_rows_as_it_should() -> None:
    wide = Domain({f"c{i}": 50 for i in range(40)})
    for domain, count, rows in ((wide, 500, 500), (SQUARE, 3, 3), (SQUARE, 4, 4), (SQUARE, 9, 4)):
        drawn = random_rows(domain, count, np.random.default_rng(1))
        assert drawn.n == drawn.unique()[0].n == rows
    again, other = (random_rows(wide, 500, np.random.default_rng(s)) for s in (1, 2))
    first = random_rows(wide, 500, np.random.default_rng(1))
    assert all((a == b).all() for a, b in zip(first.columns, again.columns, strict=True))
    assert not all((a == b).all() for a, b in zip(first.columns, other.columns, strict=True))


@pytest.mark.parametrize("sizes", [{"x": 2, "y": 3}, {"x": 5, "y": 9}], ids=["numbered", "drawn"])
def test_every_row_is_as_likely_as_any_other(sizes: dict[str, int]) -> None:
    """Two rows of 6 (numbered) or of 45 (drawn and drawn again): every row in 2 of 6, or 2 of 45, of all draws."""
    domain = Domain(sizes)
    draws, size = 1500, domain.size()
    hits = np.zeros(size)
    for seed in range(draws):
        rows = random_rows(domain, 2, np.random.default_rng(seed))
        hits[np.ravel_multi_index(rows.columns, domain.shape)] += 1
    expected = 2 * draws / size
    chi = float(((hits - expected) ** 2 / (expected * (1 - 2 / size))).sum())
    assert chi < size + 5 * math.sqrt(2 * size)
    assert (hits.sum(), hits.min() > 0) == (2 * draws, True)


def test_mwem_runs_on_random_rows_of_a_domain_that_cannot_be_listed() -> None:
    sizes = {f"c{i}": 9 for i in range(30)}
    private = random_table(sizes, 300, 1, skew=3.0)
    work = Workload([("c0",), ("c1",), ("c2",)]).on(private.domain)
    with pytest.raises(MarginalTooLarge, match="support = 10000"):
        Mwem(groups=(tuple(sizes),)).run(FakeCurator(private), None, work, np.random.default_rng(0), quiet)
    errors = []
    for rounds in (1, 60):
        curator = FakeCurator(private, epsilon=20.0)
        model = Mwem(rounds=rounds, support=400).run(curator, None, work, np.random.default_rng(0), quiet)
        assert model.rows.n == 400
        answers = model.answers(work.marginals)
        truth = FakeCurator(private, epsilon=99.0)
        errors.append(
            sum(np.abs(answers[m] - truth.measure(Counts(m), 0.1).values).sum() for m in work.marginals)
        )
    assert errors[1] < 0.6 * errors[0]


def test_a_start_from_counts_by_hand() -> None:
    """7, 1, 1, 1 with noise that only 7 is above: it stays, and the others share what it leaves of ten rows."""
    start = {"rounds": 1, "start_counts": 0.4, "replay": False}
    curator, answers = run(Mwem(**start), epsilon=10.0)
    assert curator.events[0].statistic == Counts(JOINT)
    assert curator.events[0].rho == pytest.approx(0.4 * curator.rho)
    assert sum(e.rho for e in curator.events[1:]) == pytest.approx(0.6 * curator.rho)
    reach = curator.events[0].sigma * math.sqrt(2 * math.log(4))
    assert 1 < reach < 7
    np.testing.assert_allclose(answers, [0.7, 0.1, 0.1, 0.1], rtol=1e-12)
    # Where noise reaches further than any count, the start is uniform; the round is that of one from there.
    _, answers = run(Mwem(**start), epsilon=0.1)
    np.testing.assert_allclose(answers, moved([0.25] * 4, 0, 0.7, 0.5), rtol=1e-12)
    # Counts beyond all rows: no combination is without weight all the same.
    _, answers = run(Mwem(**start, noise="laplace"), shift=20, epsilon=10.0)
    assert (answers > 0).all()


def test_each_group_starts_from_its_own_counts() -> None:
    curator, _ = run(Mwem(rounds=1, groups=(("y",), ("x",)), start_counts=0.4), epsilon=10.0)
    assert [e.statistic for e in curator.events[:2]] == [Counts(("y",)), Counts(("x",))]
    assert [e.rho for e in curator.events[:2]] == pytest.approx([0.2 * curator.rho] * 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"calibration": "advanced", "noise": "laplace"}, "needs a number of rounds"),
        ({"calibration": "advanced", "rounds": 3}, "noise = laplace"),
        ({"support": 0}, "at least 1"),
        ({"support": 5, "start_counts": 0.1}, "give one of them"),
        ({"start_counts": 1.0}, "below 1"),
        ({"step": 0.0}, "positive"),
    ],
)
def test_mwem_refuses_what_does_not_go_together(options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Mwem(**options)


def test_too_many_combinations_to_count_are_refused_before_a_charge() -> None:
    private = random_table({"a": 6000, "b": 6000}, 20, 1)
    curator = FakeCurator(private, unit=UNITS[2])
    mechanism = Mwem(max_cells=40_000_000, start_counts=0.1)
    with pytest.raises(MarginalTooLarge):
        mechanism.run(curator, None, all_marginals(1).on(private.domain), np.random.default_rng(0), quiet)
    assert curator.events == ()


# Answers far outside [0, 1].


@pytest.mark.parametrize("answer", [-1e9, -40.0, 5.0, 800.0, 1e12])
@pytest.mark.parametrize("replayed", [1, 3])
def test_an_answer_far_outside_moves_the_weights_and_breaks_nothing(answer: float, replayed: int) -> None:
    rows = random_table({"a": 3, "b": 2}, 40, 1).unique()[0]
    weights = MultiplicativeWeights(rows, np.ones(rows.n), [("a",), ("a", "b")])
    before = weights.answer(("a",), 1)
    weights.update([(("a",), 1, answer)] * replayed + [(("a", "b"), 0, 0.4)], 1.0)
    assert np.isfinite(weights.weights).all()
    assert weights.weights.sum() == pytest.approx(1)
    assert (weights.answer(("a",), 1) > before) == (answer > 0)
    again = MultiplicativeWeights(rows, weights.weights, [("a",), ("a", "b")])
    np.testing.assert_allclose(weights.answers, again.answers, atol=1e-12)


def test_a_tiny_budget_still_gives_a_distribution() -> None:
    """Noise of thousands of tables in every round, unclipped."""
    private = random_table({"a": 3, "b": 2}, 50, 1)
    work = all_marginals(2).on(private.domain)
    for mechanism in (MwemPub(rounds=30), Mwem.published(30), Mwem(rounds=30, clip=False, noise="laplace")):
        curator = FakeCurator(private, epsilon=1e-4, noise=SeededNoise(1))
        answers = mechanism.run(curator, private, work, np.random.default_rng(0), quiet).answers([("a", "b")])
        assert np.isfinite(answers["a", "b"]).all()
        assert answers["a", "b"].sum() == pytest.approx(50)


# PMW^Pub.


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_algorithm_1_of_pmw_pub_by_hand(selection: str, unit: Unit) -> None:
    """Two rounds: half a step each, clipped, no replay; the average of the start and the first iterate comes out."""
    curator, answers = run(PmwPub.published(2, selection=selection), unit=unit)
    first = moved([0.25] * 4, 0, 0.7, 0.5)
    np.testing.assert_allclose(answers, (first + 0.25) / 2, rtol=1e-12)
    events = curator.events if unit.n_is_public else curator.events[1:]
    rho = curator.rho if unit.n_is_public else 0.98 * curator.rho
    epsilon0 = math.sqrt(2 * rho) / math.sqrt(2 * 2)
    assert [e.kind for e in events] == [selection, "gaussian"] * 2
    assert [e.statistic for e in events[1::2]] == [CellCount(JOINT, 0)] * 2
    for choice, noisy in zip(events[::2], events[1::2], strict=True):
        assert choice.candidates.count == 4
        if selection == "exponential":
            assert choice.epsilon == pytest.approx(epsilon0)
            assert choice.cost(unit, pure=False) == pytest.approx(epsilon0**2 / 8)
        else:  # for ε₀²/2 it is a little sharper than the paper's, which has ε₀ for that
            assert epsilon0 < choice.epsilon < epsilon0 * (1 + epsilon0**2 / 20)
            assert pure_rho_by_hand(choice.epsilon) == pytest.approx(epsilon0**2 / 2)
        assert noisy.sigma == pytest.approx(unit.rows_per_person / epsilon0)
        assert noisy.cost(unit, pure=False) == pytest.approx(epsilon0**2 / 2)
    left = 3 / 8 if selection == "exponential" else 0.0
    assert curator.remaining == pytest.approx(left * rho, abs=1e-9)


def test_pmw_pub_clips_as_algorithm_1_does() -> None:
    mechanism = PmwPub.published(1, output="last")
    for shift, answer in ((6, 1.0), (-9, 0.0)):
        np.testing.assert_allclose(run(mechanism, shift)[1], moved([0.25] * 4, 0, answer, 0.5), rtol=1e-12)


def test_replay_and_the_last_iterate_are_those_of_the_experiments() -> None:
    mechanism = PmwPub.published(3, replay=True, output="last")
    assert mechanism == PmwPub(
        rounds=3, selection="permute-and-flip", replay=True, output="last", candidates="all", guard=0.0
    )


def test_what_a_blunt_selection_saves_is_not_spent_by_the_guard() -> None:
    curator, _ = run(PmwPub(rounds=4, sharp=False, guard=0.2))
    assert curator.events[-1].rho == pytest.approx(0.2 * curator.rho)
    assert curator.remaining == pytest.approx(3 / 8 * 0.8 * curator.rho)


@pytest.mark.parametrize("options", [{}, {"rounds": 3, "selection": "permute-and-flip"}])
def test_sharp_is_about_equal_rounds_of_the_exponential_mechanism(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="sharp = False needs"):
        PmwPub(sharp=False, **options)
