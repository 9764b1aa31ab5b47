"""A share of the budget that is held back: nobody has it meanwhile, and all of it is there when it is due."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.account import Account, Purse
from openprior.privacy.calibrate import epsilon_from_rho
from openprior.privacy.curator import Curator
from openprior.privacy.error_strata import CellsApart, ErrorStrata
from openprior.privacy.events import Gaussian
from openprior.privacy.fake import FakeCurator
from openprior.privacy.ledger import Ledger
from openprior.privacy.pure_cost import pure_epsilon, pure_rho
from openprior.privacy.scores import L1Score
from openprior.privacy.statistics import CellCount, Counts
from openprior.privacy.unit import Unit
from tests.conftest import random_table
from tests.contract.test_budget_first import made

TABLE = random_table({"a": 3, "b": 4, "c": 2}, 300, 1)
SHARES = (0.05, 0.1, 0.3, 1 / 3, 0.5, 0.999)
deltas = pytest.mark.parametrize("delta", [1e-9, 0.0], ids=["zCDP", "pure"])
shares = pytest.mark.parametrize("share", SHARES)


def spend(curator: Curator, rho: float) -> None:
    curator.measure(Counts(("a",)), rho, noise="laplace" if curator.is_pure else "gaussian")


@shares
@deltas
def test_within_the_curator_has_the_rest_and_says_so(delta: float, share: float) -> None:
    curator = FakeCurator(TABLE, epsilon=0.8, delta=delta)
    whole = curator.rho
    with curator.holding_back(share) as held:
        if delta == 0:
            assert held == pytest.approx(pure_rho(0.8 * share))
            assert curator.rho == pytest.approx(pure_rho(0.8 * (1 - share)))
            assert curator.epsilon == pytest.approx(0.8 * (1 - share))
        else:
            assert held == pytest.approx(share * whole)
            assert curator.rho == pytest.approx((1 - share) * whole)
            assert curator.epsilon == epsilon_from_rho(curator.rho, delta) < 0.8
        assert curator.remaining == curator.rho
        assert curator.delta == delta
        for split, all_of_it in ((curator.shares([1, 3]), curator.rho), (curator.shares([1.0]), curator.rho)):
            added = pure_rho(sum(map(pure_epsilon, split))) if delta == 0 else sum(split)
            assert added == pytest.approx(all_of_it)
        spend(curator, 0.25 * curator.rho)
        assert curator.remaining < curator.rho
    assert (curator.rho, curator.epsilon) == (whole, 0.8)
    assert curator.remaining > held


@shares
@deltas
def test_what_was_held_back_can_be_spent_to_the_last_bit(delta: float, share: float) -> None:
    """Whatever the rest was spent on; and then nothing is left."""
    for steps in (0, 1, 3, 7):
        curator = FakeCurator(TABLE, epsilon=0.8, delta=delta)
        with curator.holding_back(share) as held:
            for _ in range(steps):
                spend(curator, curator.shares([1.0] * steps)[0])
            if curator.remaining > 0 and steps:
                spend(curator, curator.remaining)
            if steps:
                with pytest.raises(BudgetExceeded):
                    spend(curator, 1e-6 * held)
        assert curator.remaining >= held
        errors = ErrorStrata.of(1, (1,), (CellsApart(("c",), 0, np.zeros(2, int), np.zeros(2, np.int8)),))
        curator.measure(errors, held, noise="laplace" if delta == 0 else "gaussian")
        assert curator.events[-1].rho == held
        if steps:
            assert curator.remaining <= 1e-9 * held
            with pytest.raises(BudgetExceeded):
                spend(curator, 1e-6 * held)
        costs = [Fraction(e.cost(curator.unit, pure=delta == 0)) for e in curator.events]
        assert sum(costs) <= Fraction(0.8 if delta == 0 else curator.rho) * (1 + Fraction(1, 10**12))


SCORES = [L1Score(("a",), ((1.0, np.zeros(3)),)), L1Score(("b",), ((1.0, np.zeros(2)),))]
BEYOND: dict[str, Callable[[Curator, float], object]] = {
    "measure": lambda c, rho: c.measure(Counts(("a",)), rho),
    "select": lambda c, rho: c.select(SCORES, rho),
    "select many": lambda c, rho: c.select_many(SCORES, 2, rho),
    "measure in a part": lambda c, rho: c.partition(["c"])[(1,)].measure(Counts(("a",)), rho),
    "select in a part": lambda c, rho: c.partition(["c"])[(0,)].select(SCORES, rho),
    "a part with a budget of its own": lambda c, rho: c.partition(["c"], rho=rho),
}


@pytest.mark.parametrize("verb", BEYOND)
def test_beyond_the_rest_nothing_is_read(verb: str) -> None:
    curator, diary = made()
    whole = curator.rho
    with curator.holding_back(0.25):
        for rho in (0.76 * whole, whole, 10 * whole):
            with pytest.raises(BudgetExceeded):
                BEYOND[verb](curator, rho)
        assert diary == [] and curator.events == ()
        BEYOND[verb](curator, 0.74 * whole)
    assert len(curator.events) == (0 if "own" in verb else 1)


def test_a_charge_that_comes_past_the_first_check_is_refused_by_the_account() -> None:
    """As one does of two threads that both saw enough left."""
    ledger = Ledger()
    run = ledger.open_run("test", rho=1.0, epsilon=9.0, delta=1e-9, details={})
    account = Account(ledger, run, rho=1.0, epsilon=9.0, delta=1e-9)
    account.held_back = Fraction(1, 4)
    read: list[str] = []
    event = Gaussian.at(Counts(("a",)), 0.76, Unit())
    with pytest.raises(BudgetExceeded):
        Purse(account).perform(event, lambda: {"values": read.append("a")})
    assert read == [] and account.events == [] and account.spent == 0
    account.held_back = Fraction(0)
    Purse(account).perform(event, lambda: {"values": read.append("a")})
    assert read == ["a"]


@deltas
def test_parts_have_the_rest_as_well_whenever_they_were_made(delta: float) -> None:
    curator = FakeCurator(TABLE, delta=delta)
    noise = "laplace" if delta == 0 else "gaussian"
    before = curator.partition(["a"])
    limited = curator.partition(["b"], rho=0.9 * curator.rho)
    with curator.holding_back(0.5) as held:
        rest = curator.rho
        within = curator.partition(["a"])
        for parts in (before, within):
            part = parts[(0,)]
            assert part.rho == rest and part.epsilon == curator.epsilon
            assert part.remaining == pytest.approx(rest)
            with pytest.raises(BudgetExceeded):
                part.measure(Counts(("c",)), 1.001 * rest, noise=noise)
        with pytest.raises(BudgetExceeded):
            limited[(0,)].measure(Counts(("c",)), 1.001 * rest, noise=noise)
        assert curator.events == ()
        for part in within.values():  # side by side: together they cost what one of them does
            part.measure(Counts(("c",)), part.remaining, noise=noise)
        assert curator.remaining <= 1e-9 * rest
        with pytest.raises(BudgetExceeded):
            before[(0,)].measure(CellCount(("c",), 0), 0.01 * rest, noise=noise)
        with pytest.raises(BudgetExceeded):
            within[(0,)].measure(CellCount(("c",), 0), 0.01 * rest, noise=noise)
    assert curator.remaining >= held
    before[(0,)].measure(Counts(("c",)), 0.5 * held, noise=noise)
    assert 0 < curator.remaining < held


@deltas
def test_what_was_spent_before_counts(delta: float) -> None:
    curator = FakeCurator(TABLE, delta=delta)
    spend(curator, curator.shares([0.8, 0.2])[0])
    left = curator.remaining
    with curator.holding_back(0.1) as held:
        assert 0 < curator.remaining < left
    with curator.holding_back(0.3) as held:  # more than there is
        assert curator.remaining == 0 and curator.shares([1, 1]) == [0, 0]
        for rho in (1e-9, held):
            with pytest.raises(BudgetExceeded):
                spend(curator, rho)
    assert curator.remaining == left


def test_it_ends_with_its_block_however_that_ends() -> None:
    curator = FakeCurator(TABLE)
    whole = curator.rho
    with pytest.raises(KeyError), curator.holding_back(0.5):
        raise KeyError
    assert curator.remaining == curator.rho == whole
    with curator.holding_back(0.0) as held:
        assert held == 0 and curator.remaining == curator.rho == whole and curator.epsilon == 1.0


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_one_share_at_a_time_also_if_it_is_none(share: float) -> None:
    curator = FakeCurator(TABLE)
    with curator.holding_back(share):
        rest = curator.rho
        for holder in (curator, curator.partition(["a"])[(0,)]):
            with pytest.raises(PrivacyError, match="held back already"), holder.holding_back(0.1):
                pass
        assert curator.rho == rest, "the first share is still held back"
    with curator.holding_back(share):
        assert curator.rho == rest


@pytest.mark.parametrize("share", [-0.1, -1e-300, 1, 1.0, 2.0, float("nan"), float("inf"), True])
def test_a_share_is_less_than_all(share: float) -> None:
    curator = FakeCurator(TABLE)
    with pytest.raises(PrivacyError, match="from 0 to below 1"), curator.holding_back(share):
        pass
    assert curator.remaining == curator.rho


def test_errors_are_asked_by_the_release_when_the_model_is_finished() -> None:
    """A mechanism that asked for them would make a release whose error bars nobody could tell from its own."""
    curator = FakeCurator(TABLE, epsilon=0.8, delta=1e-9)
    cells = CellsApart(("a",), 0, np.zeros(3, np.int64), np.zeros(3, np.int8))
    errors = ErrorStrata.of(1, (1,), (cells,))
    for share in (0.0, 0.3):
        with curator.holding_back(share):
            before = curator.remaining
            with pytest.raises(PrivacyError, match="when the model is finished"):
                curator.measure(errors, before / 2)
            assert curator.remaining == before, "refused before it is charged"
    curator.measure(errors, curator.remaining / 2)
