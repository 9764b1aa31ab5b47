"""Budgets: ε beside ρ, raised on purpose only, kept with their history, for one unit, counted refusals, older files."""

import math
import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.errors import BudgetExceeded, LedgerError, OptionError
from openprior.privacy.calibrate import budget_rho, epsilon_from_rho, epsilon_within
from openprior.privacy.ledger import Ledger
from openprior.privacy.ledger_refusals import REFUSALS
from openprior.privacy.ledger_status import DatasetStatus
from openprior.privacy.ledger_tables import VERSION, raise_to_version
from openprior.privacy.pure_cost import pure_rho

ROW = {"person": None, "rows_per_person": 1, "relation": "replace-one"}


def unit(**change: object) -> Mapping[str, object]:
    return {"unit": {**ROW, **change}, "schema": "abc"}


def start(ledger: Ledger, epsilon: float, delta: float = 1e-9, **more: Any) -> str:
    details = more.pop("details", unit())
    return ledger.open_run(
        "survey", rho=budget_rho(epsilon, delta), epsilon=epsilon, delta=delta, details=details, **more
    )


def set_budget(ledger: Ledger, epsilon: float, delta: float = 1e-9, **more: Any) -> None:
    ledger.set_budget("survey", rho=budget_rho(epsilon, delta), epsilon=epsilon, delta=delta, **more)


def spend(ledger: Ledger, epsilon: float, delta: float = 1e-9) -> None:
    run = start(ledger, epsilon, delta)
    ledger.charge(run, 0, ledger.remaining(run), {})
    ledger.close(run)


def status(ledger: Ledger) -> DatasetStatus:
    (found,) = ledger.datasets()
    return found


# ε beside ρ


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(min_value=0.01, max_value=20),
    delta=st.sampled_from([0.0, 1e-12, 1e-6]),
    share=st.floats(min_value=0.01, max_value=0.99),
)
def test_what_is_said_to_be_left_fits_and_little_more_does(
    epsilon: float, delta: float, share: float
) -> None:
    ledger = Ledger()
    set_budget(ledger, epsilon, delta)
    spend(ledger, epsilon * share, delta)
    left = status(ledger).epsilon_left
    with pytest.raises(BudgetExceeded):
        start(ledger, left * 1.002 + 1e-9, delta)
    if left:
        start(ledger, left, delta)


def test_a_fresh_budget_is_all_left() -> None:
    for epsilon in (0.1, 0.3, 1.0, 2.0, 4.0):
        for delta in (0.0, 1e-9):
            ledger = Ledger()
            set_budget(ledger, epsilon, delta)
            assert (status(ledger).epsilon_left, status(ledger).epsilon_committed) == (epsilon, 0.0)


def test_what_was_spent_is_rounded_up() -> None:
    ledger = Ledger()
    set_budget(ledger, 4.0)
    for _ in range(3):
        spend(ledger, 1.0)
    known = status(ledger)
    assert known.epsilon_committed == epsilon_from_rho(float(known.committed), 1e-9) > 1.0
    assert known.epsilon_committed < 3.0  # ρ adds up to less than ε does
    assert all(0.999 < run.epsilon_spent <= 1.0 for run in known.runs)


def test_what_a_budget_is_called_does_not_hide_what_was_spent() -> None:
    """ρ is what counts: where a smaller ε stands beside it than it is worth, the larger one is shown."""
    ledger = Ledger()
    ledger.open_run("survey", rho=1.0, epsilon=2.0, delta=1e-9, details={})
    assert status(ledger).epsilon_committed == epsilon_from_rho(1.0, 1e-9) > 9.0


def test_a_budget_has_no_more_rho_than_its_epsilon_and_delta_give() -> None:
    ledger = Ledger()
    for epsilon, delta in ((1.0, 1e-9), (2.0, 0.0)):
        most = budget_rho(epsilon, delta)
        for rho in (math.nextafter(most, math.inf), 2 * most, 1e9):
            with pytest.raises(OptionError, match=r"is worth ρ = .*; give ε and δ without ρ"):
                ledger.set_budget("survey", rho=rho, epsilon=epsilon, delta=delta)
        assert not ledger.datasets()
        for rho, kept in ((most, most), (most / 2, most / 2), (None, most)):
            ledger.set_budget("survey", rho=rho, epsilon=epsilon, delta=delta, raise_ok=True)
            assert status(ledger).rho == kept
        ledger = Ledger()


def test_refusals_say_epsilon() -> None:
    ledger = Ledger()
    set_budget(ledger, 2.0)
    spend(ledger, 1.0)
    left = epsilon_within(status(ledger).remaining, 1e-9)
    with pytest.raises(BudgetExceeded, match=rf"has ε = {left:g} left of 2 at δ = 1e-09 .* asks for ε = 1.9"):
        start(ledger, 1.9)


# δ = 0: ε adds up


def test_a_pure_budget_adds_up_epsilon() -> None:
    """Nine runs of ε = 1 have the ρ of one of ε = 3, but are not 3-differentially private."""
    ledger = Ledger()
    set_budget(ledger, 3.0, 0.0)
    for _ in range(3):
        spend(ledger, 1.0, 0.0)
    assert status(ledger).epsilon_left == 0.0 == status(ledger).remaining
    with pytest.raises(BudgetExceeded, match=r"ε = 0 left of 3 at δ = 0, where ε adds up"):
        start(ledger, 0.1, 0.0)


def test_a_pure_budget_counts_what_a_run_spent_and_not_what_it_reserved() -> None:
    ledger = Ledger()
    set_budget(ledger, 2.0, 0.0)
    run = start(ledger, 1.5, 0.0)
    ledger.charge(run, 0, pure_rho(0.5), {})
    assert status(ledger).epsilon_left == 0.5
    ledger.close(run)
    assert 0.5 <= status(ledger).epsilon_committed <= 0.5 * (1 + 1e-15)
    assert status(ledger).epsilon_left == 1.499  # the cost was rounded up


def test_a_pure_run_that_was_charged_as_before_counts_with_no_less_than_its_epsilon() -> None:
    """Former versions charged ε²/2, which is more than ε·tanh(ε/2); what is spent fits neither way into less."""
    for epsilon in (1e-3, 0.1, 0.5, 1.0, 3.0):
        ledger = Ledger()
        ledger.set_budget("survey", epsilon=8.0, delta=0.0)
        run = start(ledger, 6.0, 0.0)
        ledger.charge(run, 0, epsilon**2 / 2, {})
        ledger.close(run)
        assert epsilon <= status(ledger).epsilon_committed <= 6.0
        with pytest.raises(BudgetExceeded):
            start(ledger, 8.0 - epsilon * 0.999, 0.0)
        start(ledger, 8.0 - status(ledger).epsilon_committed - 1e-9, 0.0)


def test_a_pure_budget_takes_pure_runs_only() -> None:
    ledger = Ledger()
    set_budget(ledger, 3.0, 0.0)
    with pytest.raises(LedgerError, match="budget of δ = 0, and this run asks for δ = 1e-09"):
        start(ledger, 0.1)
    with pytest.raises(LedgerError, match="--yes"):
        set_budget(ledger, 0.5)  # less ρ, but no longer δ = 0
    set_budget(ledger, 0.5, raise_ok=True)
    spend(ledger, 0.1)
    with pytest.raises(LedgerError, match="cannot be promised δ = 0"):
        set_budget(ledger, 3.0, 0.0, raise_ok=True)


def test_a_pure_budget_is_raised_by_its_epsilon_whatever_its_rho() -> None:
    """Many small pure runs have a large sum of ε and a small one of ρ."""
    ledger = Ledger()
    set_budget(ledger, 1.0, 0.0)
    with pytest.raises(LedgerError, match="--yes"):
        ledger.set_budget("survey", rho=0.5, epsilon=4.0, delta=0.0)
    ledger.set_budget("survey", rho=0.5, epsilon=4.0, delta=0.0, raise_ok=True)


def test_a_pure_run_does_not_reserve_more_than_its_epsilon_is_worth() -> None:
    """It would count with ε = 0.01 and charge what ε = 0.4 costs."""
    ledger = Ledger()
    set_budget(ledger, 1.0, 0.0)
    with pytest.raises(OptionError, match="cannot reserve"):
        ledger.open_run("survey", rho=0.1, epsilon=0.01, delta=0.0, details={})
    assert not status(ledger).runs


def test_a_pure_budget_does_not_fall_below_the_sum_of_epsilon() -> None:
    ledger = Ledger()
    set_budget(ledger, 3.0, 0.0)
    for _ in range(2):
        spend(ledger, 1.0, 0.0)
    with pytest.raises(LedgerError, match="ε = 2 committed at δ = 0"):
        set_budget(ledger, 1.9, 0.0)
    set_budget(ledger, 2.0, 0.0)


# Raised on purpose, and remembered


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_raising_is_said_twice_and_every_change_is_kept(kind: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite" if kind == "file" else None)
    set_budget(ledger, 2.0)
    set_budget(ledger, 2.0)  # no change
    with pytest.raises(LedgerError, match=r"everybody in the table less.*--yes"):
        set_budget(ledger, 4.0)
    assert status(ledger).epsilon == 2.0
    set_budget(ledger, 4.0, raise_ok=True)
    set_budget(ledger, 1.0)  # lowering needs no word
    assert [(None if c.before is None else c.before[1], c.epsilon, c.stated) for c in status(ledger).changes] == [
        (None, 2.0, True),
        (2.0, 4.0, True),
        (4.0, 1.0, True),
    ]  # fmt: skip
    assert all(c.changed.endswith("+00:00") and c.delta == 1e-9 for c in status(ledger).changes)


def test_the_budget_of_a_first_run_is_a_budget_too() -> None:
    ledger = Ledger()
    spend(ledger, 1.0)
    with pytest.raises(LedgerError, match="--yes"):
        set_budget(ledger, 2.0)
    set_budget(ledger, 2.0, raise_ok=True)
    assert [(c.epsilon, c.stated) for c in status(ledger).changes] == [(1.0, False), (2.0, True)]


def test_a_first_run_that_spent_nothing_leaves_no_budget_to_raise() -> None:
    ledger = Ledger()
    ledger.close(start(ledger, 1.0))
    set_budget(ledger, 2.0)
    assert status(ledger).epsilon == 2.0


def test_history_cannot_be_changed_with_other_tools(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    set_budget(ledger, 2.0)
    ledger.count_refusal("survey")
    connection = sqlite3.connect(tmp_path / "budget.sqlite", isolation_level=None)
    for statement in (
        "DELETE FROM budget_change",
        "UPDATE budget_change SET rho = 1.0",
        "DELETE FROM refusal",
        "UPDATE refusal SET dataset = 'other'",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()


# One unit


@pytest.mark.parametrize(
    "other",
    [
        unit(relation="add-remove"),
        unit(person="id"),
        unit(person="id", rows_per_person=5),
        {},
        {"relation": "replace-one", "schema": "abc"},
    ],
)
def test_units_do_not_mix(other: Mapping[str, object]) -> None:
    for first, second in ((unit(), other), (other, unit())):
        ledger = Ledger()
        set_budget(ledger, 4.0)
        run = start(ledger, 1.0, details=first)
        same_schema = "relation" in first  # as in an older ledger, and the new run has the same schema
        if same_schema:
            start(ledger, 0.5, details=second)
            continue
        with pytest.raises(
            LedgerError, match=r"do not add up.*another dataset name with a budget of its own"
        ):
            start(ledger, 0.5, details=second)
        assert len(status(ledger).runs) == 1
        ledger.close(run)  # it has spent nothing, so it binds nobody
        start(ledger, 0.5, details=second)


def test_rows_per_person_do_not_mix() -> None:
    ledger = Ledger()
    set_budget(ledger, 4.0)
    start(ledger, 1.0, details=unit(person="id", rows_per_person=5))
    with pytest.raises(LedgerError, match=r"by 'id' with at most 5 rows, replace-one, .* at most 4 rows"):
        start(ledger, 1.0, details=unit(person="id", rows_per_person=4))
    start(ledger, 1.0, details=unit(person="id", rows_per_person=5))


def test_an_older_run_of_another_schema_does_not_mix() -> None:
    ledger = Ledger()
    set_budget(ledger, 4.0)
    start(ledger, 1.0, details={"relation": "replace-one", "schema": "abc"})
    start(ledger, 1.0, details={**unit(), "schema": "abc"})
    ledger = Ledger()
    set_budget(ledger, 4.0)
    start(ledger, 1.0, details={"relation": "replace-one", "schema": "xyz"})
    with pytest.raises(LedgerError, match="not written down"):
        start(ledger, 1.0, details={**unit(), "schema": "abc"})


# Withdrawn runs and refusals


def test_only_a_run_that_charged_nothing_is_withdrawn() -> None:
    ledger = Ledger()
    set_budget(ledger, 4.0)
    assert ledger.withdraw(start(ledger, 1.0, token="t"))
    assert status(ledger).runs == ()
    run = start(ledger, 1.0)
    ledger.charge(run, 0, 1e-6, {})
    assert not ledger.withdraw(run)
    ledger.close(run)
    assert not ledger.withdraw(run)
    assert len(status(ledger).runs) == 1


def test_past_a_few_refusals_the_next_run_must_know_of_them() -> None:
    ledger = Ledger()
    set_budget(ledger, 4.0)
    for count in range(REFUSALS):
        assert status(ledger).refusals == count
        ledger.withdraw(start(ledger, 0.1))
        ledger.count_refusal("survey")
    ledger.count_refusal("another")
    with pytest.raises(LedgerError, match=rf"refused {REFUSALS} times.*--acknowledge-refusals"):
        start(ledger, 0.1)
    assert status(ledger).runs == ()
    start(ledger, 0.1, acknowledge_refusals=True)
    assert status(ledger).refusals == 0
    start(ledger, 0.1)


# Older files


THEN = "2026-01-01T00:00:00+00:00"


def older(path: Path) -> None:
    """A ledger of version 1, with a budget, a closed run and an open one."""
    connection = sqlite3.connect(path, isolation_level=None)
    raise_to_version(connection, 1)
    rho = budget_rho(2.0, 1e-9)
    connection.execute("INSERT INTO dataset VALUES ('survey', ?, 2.0, 1e-9, 1)", (rho,))
    text = '{"mechanism": "tilt", "relation": "replace-one", "schema": "abc"}'
    for run, closed in (("old1", THEN), ("old2", None)):
        connection.execute(
            "INSERT INTO run VALUES (?, 'survey', 0.01, 0.8, 1e-9, ?, ?, NULL)", (run, text, THEN)
        )
        connection.execute("INSERT INTO event VALUES (?, 0, 0.0078125, '{}', ?)", (run, THEN))
        connection.execute("UPDATE run SET closed = ? WHERE id = ? AND ? IS NOT NULL", (closed, run, closed))
    connection.close()


def test_an_older_ledger_keeps_all_it_knows_and_gets_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    older(path)
    tables = "SELECT * FROM dataset", "SELECT * FROM run", "SELECT * FROM event"
    connection = sqlite3.connect(path)
    before = [connection.execute(table).fetchall() for table in tables]
    ledger = Ledger(path)
    known = status(ledger)
    assert known.committed == Fraction(0.0078125) + Fraction(0.01)
    assert [(r.id, r.state, r.resumed) for r in known.runs] == [("old1", "closed", 0), ("old2", "open", 0)]
    assert (known.changes, known.refusals) == ((), 0)
    assert [connection.execute(table).fetchall() for table in tables] == before
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()
    set_budget(ledger, 3.0, raise_ok=True)
    with pytest.raises(LedgerError, match="an older openprior began it"):
        ledger.seals("old2")
    ledger.close("old2")
    run = start(ledger, 0.1, token="t")
    ledger.charge(run, 0, 1e-6, {})
    assert [c.before[1] for c in status(ledger).changes if c.before] == [2.0]


def test_an_upgrade_that_breaks_off_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budget.sqlite"
    older(path)
    before = path.read_bytes()
    steps = raise_to_version.__globals__["_VERSIONS"]
    for last in range(1, len(steps[1])):
        broken = (*steps[1][:last], "CREATE nonsense")
        monkeypatch.setitem(raise_to_version.__globals__, "_VERSIONS", (steps[0], broken, steps[2]))
        with pytest.raises(LedgerError):
            Ledger(path).datasets()
        assert path.read_bytes()[100:] == before[100:]
    monkeypatch.setitem(raise_to_version.__globals__, "_VERSIONS", steps)
    assert len(status(Ledger(path)).runs) == 2
