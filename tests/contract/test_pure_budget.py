"""Pure ε-DP, believed by nobody: sums are exact, too much is refused before a row is read, certificates recheck.

The source and the ledger write into one diary, so that their order can be read off.
"""

import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, OptionError, PrivacyError, ReleaseError
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.events import Event, Gaussian, Laplace, event_from_dict
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import SeededNoise
from openprior.privacy.pure_cost import pure_epsilon
from openprior.privacy.run import Budget
from openprior.privacy.scores import CellScores, L1Score
from openprior.privacy.session import Purpose, Session
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers, Total
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.queries import Queries
from openprior.releases.certificate import Certificate, certify
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Encoder
from tests.diary import DiaryLedger, DiarySource
from tests.formulas import epsilon_by_hand, pure_rho_by_hand

SIZES = {"a": 3, "b": 4, "c": 2}
DOMAIN = Domain(SIZES)
EPSILONS = [1.0, 0.1, 0.7, 3.3, 1e-3]
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]
ADD_REMOVE = Unit(Relation.ADD_REMOVE)
CELLS = Cells(DOMAIN, [("a", "b")])
CELL_SCORES = CellScores(CELLS, np.arange(len(CELLS)), np.zeros(len(CELLS)))
INSIDE = Cells(Domain({"b": 4, "c": 2}), [("b",)])
INSIDE_SCORES = CellScores(INSIDE, np.arange(len(INSIDE)), np.zeros(len(INSIDE)))
L1_SCORES = [L1Score(("b",), ((1.0, np.zeros(4)),)), L1Score(("c",), ((1.0, np.zeros(2)),))]
PREFIXES = Queries.parse("prefixes(b)", DOMAIN)


@dataclasses.dataclass
class Run:
    """A curator with everything that a sceptic wants to see beside it."""

    curator: Curator
    account: Account
    ledger: Ledger
    budget: Budget
    unit: Unit
    diary: list[str]

    @property
    def recorded(self) -> Fraction:
        """ρ by the ledger."""
        return self.ledger.spent(self.account.run)

    def certificate(self) -> Certificate:
        schema, purpose = Schema.from_sizes(SIZES), Purpose("test", {})
        return certify(Session(self.curator, self.unit, schema, purpose, self.budget, self.account, True, 0))

    def check(self) -> None:
        """ε adds up to at most the budget, exactly, and the ledger has its ρ."""
        spent = sum((charge_of(e) for e in self.account.events), Fraction(0))
        assert spent == self.account.spent <= Fraction(self.budget.epsilon)
        due = float(pure_rho_by_hand(float(spent)))
        assert due * (1 - 1e-15) <= self.recorded <= Fraction(self.budget.rho)
        assert float(self.recorded) == pytest.approx(due, rel=1e-12)
        assert self.account.rho_spent == pytest.approx(due, rel=1e-14)
        self.certificate().recheck()


def charge_of(event: Event) -> Fraction:
    """What an event added to Σε, from what it says itself."""
    if event.part is not None:
        return Fraction(event.charged)
    return Fraction(epsilon_of(event.rho))


def epsilon_of(rho: float) -> float:
    """The ε of a step that is asked at ρ."""
    epsilon = pure_epsilon(rho)
    assert pure_rho_by_hand(epsilon) == pytest.approx(rho, rel=1e-14)
    return epsilon


def made(
    epsilon: float = 1.0, unit: Unit | None = None, *, delta: float = 0.0, rho: float | None = None
) -> Run:
    rng = np.random.default_rng(1)
    rows = pa.table({a: rng.integers(0, size, 60) for a, size in SIZES.items()})
    diary: list[str] = []
    rho = budget_rho(epsilon, 0.0) if rho is None else rho
    ledger, unit = DiaryLedger(diary), unit or Unit()
    run = ledger.open_run("secret", rho=rho, epsilon=epsilon, delta=delta, details={})
    account = Account(ledger, run, rho=rho, epsilon=epsilon, delta=delta)
    vault = Vault(Encoder(Schema.from_sizes(SIZES), DiarySource(rows, diary), private=True))
    curator = Curator(vault, unit=unit, noise=SeededNoise(1), account=account)
    return Run(curator, account, ledger, Budget("secret", epsilon, delta, rho, {}), unit, diary)


def by_hand(event: Event, unit: Unit) -> float:
    return epsilon_by_hand(event.to_dict(), unit.relation, unit.rows_per_person)


# Sums.


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 30, 1000])
def test_equal_shares_always_fit_and_never_add_up_to_more(steps: int, epsilon: float) -> None:
    run = made(epsilon)
    if steps == 1000 and epsilon != 1.0:
        pytest.skip("once is enough")
    for rho in run.curator.shares([1.0] * steps):
        assert rho > 0
        run.curator.measure(Counts(("c",)), rho, noise="laplace")
    run.check()
    # ε/steps each, but for rounding: nobody is starved because the others were rounded up.
    each = [epsilon_of(e.rho) for e in run.account.events]
    np.testing.assert_allclose(each, epsilon / steps, rtol=1e-6)
    assert float(run.account.spent) == pytest.approx(epsilon, rel=1e-9)


def test_shares_are_shares_of_epsilon() -> None:
    run = made(2.0)
    for rho in run.curator.shares([3, 1, 4]):
        run.curator.measure(Counts(("c",)), rho, noise="laplace")
    each = [e.cost(run.unit, pure=True) for e in run.account.events]
    np.testing.assert_allclose(each, [0.75, 0.25, 1.0], rtol=1e-9)
    run.check()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_what_remains_can_be_spent_exactly(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        run = made(epsilon)
        for _ in range(int(rng.integers(0, 5))):
            run.curator.measure(Counts(("a",)), run.curator.remaining * float(rng.random()), noise="laplace")
        left = run.curator.remaining
        assert run.account.cost(left) <= run.account.limit - run.account.spent
        run.curator.measure(Counts(("a",)), left, noise="laplace")
        run.check()
        assert float(run.account.spent) == pytest.approx(epsilon, rel=1e-9)
        assert run.curator.remaining <= 1e-9 * run.curator.rho
        with pytest.raises(BudgetExceeded):
            run.curator.measure(Counts(("a",)), 1e-6 * run.curator.rho, noise="laplace")


def test_rho_and_epsilon_are_two_names_of_one_cost() -> None:
    run = made(1.7)
    for exponent in np.linspace(-30, 2, 500):
        rho = float(10**exponent)
        assert run.account.rho_of(run.account.cost(rho)) == pytest.approx(rho, rel=1e-14)
        amount = Fraction(rho)
        assert run.account.cost(run.account.rho_of(amount)) <= amount
    assert run.account.rho_of(Fraction(0)) == run.account.rho_of(Fraction(-1, 3)) == 0.0


# Refusals.


@pytest.mark.parametrize(
    "ask",
    [
        lambda c, rho: c.measure(Counts(("a",)), rho),
        lambda c, rho: c.measure(CellCount(("a",), 1), rho),
        lambda c, rho: c.measure(QueryAnswers.of(PREFIXES), rho),
        lambda c, rho: c.partition(["a"])[(0,)].measure(Total(), rho),
    ],
)
def test_gaussian_noise_is_refused_before_anything(ask: Callable[[Curator, float], object]) -> None:
    run = made()
    with pytest.raises(PrivacyError, match="pure"):
        ask(run.curator, run.curator.rho / 10)
    assert run.diary == []
    assert run.account.spent == run.recorded == 0
    assert run.curator.is_pure


ASKS: dict[str, Callable[[Curator, float], object]] = {
    "marginal": lambda c, rho: c.measure(Counts(("a", "b")), rho, noise="laplace"),
    "cell": lambda c, rho: c.measure(CellCount(("a", "b"), 3), rho, noise="laplace"),
    "queries": lambda c, rho: c.measure(QueryAnswers.of(PREFIXES), rho, noise="laplace"),
    "exponential": lambda c, rho: c.select(CELL_SCORES, rho),
    "permute-and-flip": lambda c, rho: c.select_many(L1_SCORES, 2, rho, how="permute-and-flip"),
    "part": lambda c, rho: c.partition(["a"])[(1,)].measure(Counts(("b",)), rho, noise="laplace"),
    "cell of a part": lambda c, rho: c.partition(["a"])[(1,)].measure(
        CellCount(("b",), 1), rho, noise="laplace"
    ),
    "total of a part": lambda c, rho: c.partition(["a"])[(2,)].measure(Total(), rho, noise="laplace"),
    "queries in a part": lambda c, rho: c.partition(["a"])[(0,)].measure(
        QueryAnswers.of(PREFIXES), rho, noise="laplace"
    ),
    "selection in a part": lambda c, rho: c.partition(["a"])[(0,)].select(INSIDE_SCORES, rho),
}


@pytest.mark.parametrize("name", ASKS)
def test_too_much_is_refused_before_a_read(name: str) -> None:
    run = made(0.7)
    for factor in (1.00001, 2.0, 1e9):
        with pytest.raises(BudgetExceeded):
            ASKS[name](run.curator, run.curator.rho * factor)
    assert run.diary == []
    # Half of ρ is more than half of ε, too much after the other half: ε adds up, not ρ.
    run.curator.measure(Counts(("c",)), run.curator.shares([1, 1])[0], noise="laplace")
    before = list(run.diary)
    with pytest.raises(BudgetExceeded):
        ASKS[name](run.curator, run.curator.rho / 2)
    assert run.diary == before
    run.check()


@pytest.mark.parametrize("name", ASKS)
def test_everything_is_charged_before_it_is_read(name: str) -> None:
    run = made(0.7)
    ASKS[name](run.curator, run.curator.rho / 2)
    assert run.diary[0] == "charge"
    assert "read" in run.diary
    run.check()
    (event,) = run.account.events
    for cost in (event.cost(run.unit, pure=True), by_hand(event, run.unit)):
        assert cost == pytest.approx(epsilon_of(run.curator.rho / 2), rel=1e-9)


# Selection.


@pytest.mark.parametrize("how", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)
def test_selection_costs_epsilon_times_draws(unit: Unit, draws: int, how: str) -> None:
    run = made(1.0, unit)
    rho = run.curator.shares([1, 3])[0]  # ε = 1/4
    run.curator.select_many(L1_SCORES, draws, rho, how=how)
    run.curator.select_many(CELL_SCORES, draws, rho, how=how)
    for event in run.account.events:
        assert event.epsilon * draws == pytest.approx(0.25, rel=1e-9)
        assert event.draws == draws
        for cost in (event.cost(unit, pure=True), by_hand(event, unit)):
            assert cost == pytest.approx(0.25, rel=1e-9)
    assert float(run.account.spent) == pytest.approx(0.5, rel=1e-9)
    run.check()


@pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)
def test_draws_with_replacement_cost_epsilon_each(unit: Unit) -> None:
    run = made(1.0, unit)
    rho = run.curator.shares([1, 3])[0]
    run.curator.select_many(CELL_SCORES, 50, rho, replace=True)
    (event,) = run.account.events
    assert 50 * float(event.epsilon) == pytest.approx(0.25, rel=1e-9)
    assert event.cost(unit, pure=True) == pytest.approx(by_hand(event, unit)) == pytest.approx(0.25)
    run.check()


@pytest.mark.parametrize("how", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)
def test_cells_inside_a_partition_cost_twice_if_a_person_can_move(unit: Unit, how: str) -> None:
    run = made(1.0, unit)
    part = run.curator.partition(["a"])[(1,)]
    rho = run.curator.shares([1, 3])[0]
    part.select_many(INSIDE_SCORES, 2, rho, how=how)
    part.select(L1_SCORES, rho, how=how)
    cells, l1 = run.account.events
    touched = 2 if unit.relation is Relation.REPLACE_ONE else 1
    assert float(cells.epsilon) * 2 * touched == pytest.approx(0.25, rel=1e-9)
    assert float(l1.epsilon) == pytest.approx(0.25, rel=1e-9)
    run.check()


# Parts.


def test_the_run_pays_the_most_expensive_part() -> None:
    run = made(1.0)
    parts = run.curator.partition(["a"])
    eighth = run.curator.shares([1, 7])[0]
    for code, part in parts.items():
        for _ in range(code[0] + 1):
            part.measure(Counts(("b",)), eighth, noise="laplace")
            run.check()
    # 1, 2 and 3 eighths of ε: three in all.
    assert float(run.account.spent) == pytest.approx(3 / 8, rel=1e-9)
    assert sum(e.charged for e in run.account.events) == pytest.approx(3 / 8, rel=1e-9)
    run.curator.measure(Counts(("a",)), eighth, noise="laplace")
    assert float(run.account.spent) == pytest.approx(4 / 8, rel=1e-9)
    # The first part may still catch up for nothing, and then spend what the run has left.
    first = parts[(0,)]
    assert epsilon_of(first.remaining) == pytest.approx(6 / 8, rel=1e-9)
    first.measure(Counts(("b",)), first.remaining, noise="laplace")
    run.check()
    assert float(run.account.spent) == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetExceeded):
        first.measure(Counts(("b",)), eighth, noise="laplace")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("steps", [1, 3, 30])
def test_equal_shares_within_parts_always_fit(steps: int, epsilon: float) -> None:
    run = made(epsilon)
    for part in run.curator.partition(["a", "c"]).values():
        for rho in part.shares([1.0] * steps):
            part.measure(Counts(("b",)), rho, noise="laplace")
        assert part.remaining <= 1e-9 * run.curator.rho
    run.check()
    assert float(run.account.spent) == pytest.approx(epsilon, rel=1e-9)


def test_parts_in_turn_and_by_chance() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        run = made(float(rng.uniform(0.1, 4)), UNITS[seed % 4])
        parts = list(run.curator.partition(["a"]).values())
        own = [Fraction(0)] * 3
        for _ in range(25):
            i = int(rng.integers(3))
            rho = parts[i].remaining * float(rng.choice([0.001, 0.1, 0.5, 1.0]))
            if rho > 0:
                parts[i].measure(Counts(("b",)), rho, noise="laplace")
                own[i] += Fraction(epsilon_of(rho))
            assert max(own) <= run.account.spent
            assert float(run.account.spent) == pytest.approx(float(max(own)), rel=1e-9)
        run.check()


def test_a_limit_holds_for_every_part() -> None:
    run = made(1.0)
    quarter = run.curator.shares([1, 3])[0]
    parts = run.curator.partition(["a"], rho=quarter)
    assert run.diary == []
    for part in parts.values():
        assert tuple(part.domain) == ("b", "c")
        assert epsilon_of(part.remaining) == pytest.approx(0.25, rel=1e-9)
        with pytest.raises(BudgetExceeded):
            part.measure(Counts(("b",)), 1.01 * quarter, noise="laplace")
        for rho in part.shares([1, 1, 1]):
            part.measure(Counts(("b",)), rho, noise="laplace")
        with pytest.raises(BudgetExceeded):
            part.measure(Counts(("b",)), quarter / 9, noise="laplace")
    run.check()
    assert float(run.account.spent) <= 0.25 * (1 + 1e-15)
    # What is left is three quarters, which another partition may have.
    again = run.curator.partition(["c"], rho=run.curator.remaining)
    for part in again.values():
        part.measure(Counts(("b",)), part.remaining, noise="laplace")
    run.check()
    assert float(run.account.spent) == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetExceeded):
        run.curator.partition(["c"], rho=quarter)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_a_limit_holds_in_either_unit(delta: float) -> None:
    run = made(1.0, delta=delta, rho=0.02 if delta else None)
    parts = run.curator.partition(["a"], rho=run.curator.rho / 4)
    for part in parts.values():
        part.measure(Counts(("b",)), run.curator.rho / 16, noise="laplace")
        assert part.remaining <= run.curator.rho / 4
        with pytest.raises(BudgetExceeded):
            part.measure(Counts(("b",)), run.curator.rho / 4, noise="laplace")


# The ledger.


def test_pure_runs_share_a_budget_with_others() -> None:
    """The ledger's unit is ρ: runs of both kinds add up to at most the dataset's."""
    ledger = Ledger()
    ledger.set_budget("d", rho=0.6, epsilon=8.0, delta=1e-9)
    with pytest.raises(OptionError, match="cannot reserve"):
        ledger.open_run("d", rho=0.5, epsilon=1.0, delta=0.0, details={})  # ε²/2: more than it costs
    rho = budget_rho(1.0, 0.0)
    run = ledger.open_run("d", rho=rho, epsilon=1.0, delta=0.0, details={})
    account = Account(ledger, run, rho=rho, epsilon=1.0, delta=0.0)
    event = Laplace(statistic=Counts(("a",)), scale=1.0, rho=1.0)
    account.perform(Fraction(3, 5), event, lambda: {"indices": []})
    account.perform(Fraction(2, 5), event, lambda: {"indices": []})
    assert ledger.spent(run) == pytest.approx(np.tanh(0.5), rel=1e-12)
    ledger.close(run)
    assert ledger.datasets()[0].remaining == pytest.approx(0.6 - np.tanh(0.5), rel=1e-9)
    with pytest.raises(BudgetExceeded):
        ledger.open_run("d", rho=0.14, epsilon=1.0, delta=1e-9, details={})


def test_zcdp_is_as_it_was() -> None:
    run = made(1.0, delta=1e-9, rho=0.02)
    assert not run.curator.is_pure
    assert run.curator.remaining == 0.02
    np.testing.assert_allclose(run.curator.shares([1, 3]), [0.005, 0.015], rtol=1e-12)
    run.curator.measure(Counts(("a",)), 0.005)
    run.curator.measure(Counts(("a",)), 0.005, noise="laplace")
    run.curator.select_many(CELL_SCORES, 2, 0.0025)
    run.curator.measure(Counts(("a",)), run.curator.remaining)
    with pytest.raises(BudgetExceeded):
        run.curator.measure(Counts(("a",)), 1e-6)
    assert run.account.spent == run.recorded <= Fraction(0.02)
    assert float(run.recorded) == pytest.approx(0.02, rel=1e-15)
    gaussian, laplace, selection, _ = run.account.events
    assert gaussian.sigma == pytest.approx(np.sqrt(2 / (2 * 0.005)))
    assert 2 * pure_rho_by_hand(1 / laplace.scale) == pytest.approx(0.005)  # two cells move by one each
    assert selection.epsilon == pytest.approx(np.sqrt(8 * 0.0025 / 2))


# Certificates.


def busy(unit: Unit | None = None) -> Run:
    """A run with one of everything."""
    run = made(1.0, unit)
    rho = run.curator.shares([1, 9])[0]
    run.curator.measure(Counts(("a", "b")), rho, noise="laplace")
    run.curator.measure(QueryAnswers.of(PREFIXES), rho, noise="laplace")
    run.curator.select_many(L1_SCORES, 2, rho)
    run.curator.select(CELL_SCORES, rho, how="permute-and-flip")
    parts = run.curator.partition(["a"])
    parts[(0,)].measure(Counts(("b",)), rho, noise="laplace")
    parts[(1,)].measure(CellCount(("b",), 2), 2 * rho, noise="laplace")
    parts[(1,)].measure(QueryAnswers.of(PREFIXES), rho, noise="laplace")
    parts[(2,)].select(INSIDE_SCORES, 4 * rho)
    return run


@pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)
def test_certificates_recheck_and_survive_text(unit: Unit) -> None:
    run = busy(unit)
    run.check()
    certificate = run.certificate()
    again = Certificate.from_json(certificate.to_json())
    again.recheck()
    assert again == certificate or again.events == certificate.events
    assert certificate.is_pure
    assert "δ = 0 (pure)" in certificate.statement
    # Four tenths, and for the parts the dearest: that of two steps, at 2ρ and at ρ.
    parts = 0.1 + epsilon_of(2 * pure_rho_by_hand(0.1))
    assert certificate.epsilon_spent == pytest.approx(0.4 + parts, rel=1e-9)


def tampered(certificate: Certificate, number: int, **factors: float) -> Certificate:
    """With some numbers of an event multiplied, as if its JSON were edited."""
    written = [e.to_dict() for e in certificate.events]
    for field, factor in factors.items():
        before = written[number][field]
        written[number][field] = type(before)(before * factor)
    return dataclasses.replace(certificate, events=tuple(map(event_from_dict, written)))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return busy().certificate()


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *(("laplace", f) for f in ("scale", "rho", "overlap")),
        *((how, f) for how in ("exponential", "permute-and-flip") for f in ("epsilon", "rho", "draws")),
        ("laplace", "charged"),
    ],
)
def test_a_tampered_event_is_seen(certificate: Certificate, kind: str, field: str) -> None:
    """Each number of each event, a little and a lot, down and up."""
    tried = 0
    for number, event in enumerate(certificate.events):
        for factor in (0.99, 0.5, 1.01, 2.0):
            value = event.to_dict().get(field)
            if event.kind != kind or not value:
                continue
            if isinstance(value, int) and int(value * factor) == value:
                continue
            tried += 1
            with pytest.raises((ReleaseError, PrivacyError)):
                tampered(certificate, number, **{field: factor}).recheck()
    assert tried >= 2


@pytest.mark.parametrize("number", [1, 6])
@pytest.mark.parametrize("overlap", [0, -1, 0.5])
def test_queries_that_ask_for_nothing_are_seen(certificate: Certificate, overlap: float, number: int) -> None:
    """With no overlap there would be no sensitivity, and everything would be free."""
    text = json.loads(certificate.to_json())
    text["events"][number].update(overlap=overlap, scale=1e-9, rho=1e-18)
    with pytest.raises(ReleaseError, match="overlap must be a whole number of at least 1"):
        Certificate.from_json(json.dumps(text))


@pytest.mark.parametrize("number", range(8))
def test_a_dropped_or_repeated_event_is_seen(certificate: Certificate, number: int) -> None:
    events = certificate.events
    dropped = dataclasses.replace(certificate, events=events[:number] + events[number + 1 :])
    repeated = dataclasses.replace(certificate, events=(*events, events[number]))
    for wrong in (dropped, repeated):
        if number in (4, 7) and wrong is dropped and events[number].charged == 0:
            continue  # a part that cost nothing more leaves the sum as it is
        with pytest.raises(ReleaseError):
            wrong.recheck()


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5},
        {"epsilon_spent": 0.5},
        {"epsilon_spent": 0.9999},
        {"epsilon_spent": 1.01},
        {"rho_spent": 0.5},
        {"rho": 0.5},
    ],
)
def test_a_tampered_sum_is_seen(certificate: Certificate, change: dict[str, float]) -> None:
    values = {field: getattr(certificate, field) * factor for field, factor in change.items()}
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, **values).recheck()


def test_a_gaussian_event_is_worth_infinitely_much_where_delta_is_0(certificate: Certificate) -> None:
    gaussian = Gaussian(statistic=Counts(("a",)), sigma=1e9, rho=1e-18)
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, events=(*certificate.events, gaussian)).recheck()
    assert gaussian.cost(Unit(), pure=True) == np.inf


def test_a_certificate_of_zcdp_does_not_pass_as_pure(certificate: Certificate) -> None:
    """Nor the other way round: with the same events, ε of a zCDP run is not Σε."""
    run = made(2.0, delta=1e-9, rho=budget_rho(2.0, 1e-9))
    run.curator.measure(Counts(("a",)), 0.01, noise="laplace")
    run.curator.select_many(CELL_SCORES, 2, 0.01)
    other = run.certificate()
    other.recheck()
    with pytest.raises(ReleaseError):
        dataclasses.replace(other, delta=0.0).recheck()
    with pytest.raises(ReleaseError):
        dataclasses.replace(certificate, delta=1e-9).recheck()
