"""The budget ledger: who may still spend how much ρ on which dataset, in one SQLite file.

A run first *reserves* its whole ρ against the dataset's budget, then *charges* every event to the
reservation before the data is looked at, then *closes*, which gives back what it did not spend. ρ-zCDP adds
up even when later costs depend on earlier outcomes (privacy filters: Feldman & Zrnic 2021, Whitehouse et al.
2023), so the running sum is all there is to check. Sums are exact: a double is a rational number, and these
are added without rounding; 0.1 ten times is more than 1.0 here, because it is.

>>> ledger = Ledger()
>>> run = ledger.open_run("survey", rho=0.5, epsilon=3.0, delta=1e-6, details={"mechanism": "tilt"})
>>> ledger.charge(run, 0, 0.125, {"verb": "measure", "marginal": ["age"]})
>>> ledger.remaining(run), ledger.spent(run)
(0.375, Fraction(1, 8))
>>> ledger.close(run)
>>> ledger.datasets()[0].remaining
0.375
"""

import json
import sqlite3
import uuid
from collections.abc import Mapping
from fractions import Fraction

from openprior.errors import BudgetExceeded, LedgerError, OptionError
from openprior.given import flag, shown, text_of, whole_number
from openprior.privacy.exact import down
from openprior.privacy.ledger_checks import (
    check_budget_rho,
    check_committed,
    check_guarantee,
    check_left,
    check_pure,
    check_rho,
    check_unit,
)
from openprior.privacy.ledger_refusals import RefusalBook, check_refusals, now
from openprior.privacy.ledger_rows import LedgerRows, has_unit
from openprior.privacy.ledger_seals import SealBook, give_first_token
from openprior.privacy.ledger_status import DatasetStatus, LedgerEvent

__all__ = ["Ledger", "new_run"]


class Ledger(SealBook, RefusalBook):
    """Budgets, runs and charges, in a file shared by every release on the dataset (no path: in memory).

    *Recorded ≥ true spend at every instant:* `charge` returns only after the event is synced to disk, and
    data is looked at only after that; a crash in between leaves a charge without a look, never the opposite.

    *Concurrent runs cannot overspend together:* a reservation is read, checked and written in one BEGIN
    IMMEDIATE transaction, which SQLite gives to one connection at a time, so Σ reservations ≤ budget; a run's
    charges are checked the same way and stay ≤ its reservation, and closing only lowers what a run counts.
    """

    # Budgets and runs

    def set_budget(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        rho: float | None = None,
        raise_ok: bool = False,
    ) -> None:
        """Create or change a dataset's budget; it may not fall below what is already committed.

        ρ is what ε and δ give, if it is not given; it may be less, and not more, because then runs could spend more
        than was promised. To raise a budget needs `raise_ok`: whoever was told the old one is promised less by the new
        one.
        """
        text_of("dataset", dataset)
        flag("raise_ok", raise_ok)
        epsilon, delta = check_guarantee(epsilon, delta)
        budget = check_budget_rho(rho, epsilon, delta)
        with self.transaction("IMMEDIATE") as connection:
            rows = self._rows(connection)
            rows.check_whole()
            before = rows.dataset(dataset)
            if before is not None:
                check_committed(before, budget, epsilon, delta)
                known = before.stated or before.committed > 0
                # Where δ = 0, ε adds up by itself, whatever ρ stands beside it.
                purely = before.delta == 0 and (delta > 0 or epsilon > before.epsilon)
                if known and not raise_ok and (budget > before.rho or purely):
                    raise LedgerError(
                        f"dataset '{dataset}' has a budget of ε = {before.epsilon:g}, δ = {before.delta:g}; raising it "
                        f"to ε = {epsilon:g}, δ = {delta:g} promises everybody in the table less than they were "
                        "promised. If that is decided, repeat it with --yes (in Python raise_ok=True)"
                    )
            _change(connection, dataset, before, (budget, epsilon, delta), stated=True)

    def open_run(
        self,
        dataset: str,
        *,
        rho: float,
        epsilon: float,
        delta: float,
        details: Mapping[str, object],
        run: str | None = None,
        token: str | None = None,
        acknowledge_refusals: bool = False,
    ) -> str:
        """Reserve ρ for a new run and return its id.

        Where no budget was set, the first run's (ε, δ) is the budget; if that run ended without spending anything, the
        next one is the first. A run with a journal brings its id and its first token from there.
        """
        text_of("dataset", dataset)
        guarantee = (check_rho("reservation", rho), *check_guarantee(epsilon, delta))
        check_pure(*guarantee)
        text = _to_json("the run's details", details)
        if not has_unit(details):
            raise LedgerError("the run's unit is not complete; give person, rows_per_person and relation")
        run = new_run() if run is None else text_of("a run's id", run)
        token = None if token is None else text_of("a run's token", token)
        flag("acknowledge_refusals", acknowledge_refusals)
        with self.transaction("IMMEDIATE") as connection:
            rows = self._rows(connection)
            rows.check_whole()
            check_refusals(connection, dataset, acknowledge_refusals)
            known = rows.dataset(dataset)
            if known is not None:
                check_unit(known, details)
            if known is None or (not known.stated and known.committed == 0):
                _change(connection, dataset, known, guarantee, stated=False)
            else:
                check_left(known, *guarantee)
            connection.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", (run, dataset, *guarantee, text, now())
            )
            if token is not None:
                give_first_token(connection, run, token)
        return run

    def withdraw(self, run: str) -> bool:
        """Take back an open run that has charged nothing, as if it had not been; whether it was one."""
        with self.transaction("IMMEDIATE") as connection:
            rows = self._rows(connection)
            rows.check_whole()
            known = rows.known_run(run)
            charged = connection.execute("SELECT 1 FROM event WHERE run = ? LIMIT 1", (run,)).fetchone()
            if known.closed or charged is not None:
                return False
            for table, name in (("token", "run"), ("secret", "run"), ("run", "id")):
                connection.execute(f"DELETE FROM {table} WHERE {name} = ?", (run,))
            return True

    def close(self, run: str) -> None:
        """End the run: it counts with its events from now on, and what it did not spend goes back."""
        with self.transaction("IMMEDIATE") as connection:
            rows = self._rows(connection)
            rows.check_whole()  # charges that are lost would go back with what was not spent
            known = rows.known_run(run)
            rows.spent(known)  # which it counts with from now on; refused if it cannot be
            if not known.closed:
                connection.execute("UPDATE run SET closed = ? WHERE id = ?", (now(), run))

    # Charges

    def charge(self, run: str, seq: int, rho: float, event: Mapping[str, object]) -> None:
        """Record an event, durably before returning; only then may data be looked at.

        The same charge again (same run, number, ρ and event) is a no-op: a resumed run does not pay twice.
        """
        amount = check_rho("charge", rho, zero=True)  # a part of a partition may owe nothing more
        seq = whole_number("an event's number", seq, 0)
        if seq >= 2**63:
            raise OptionError(f"event number {shown(seq)} is out of range; count from 0")
        text = _to_json(f"event {seq}", event)
        with self.transaction("IMMEDIATE") as connection:
            rows = self._rows(connection)
            known = rows.run(run)
            if known is None:
                raise BudgetExceeded(f"run {run} has no reservation in {self._name}; open a run first")
            if known.closed:
                raise BudgetExceeded(
                    f"run {run} was closed at {known.closed} and has no budget left; open a new run"
                )
            recorded = connection.execute(
                "SELECT rho, details FROM event WHERE run = ? AND seq = ?", (run, seq)
            ).fetchone()
            if recorded is not None:
                if recorded[0] != amount:
                    raise LedgerError(
                        f"event {seq} of run {run} is already charged with ρ = {recorded[0]!r}, not "
                        f"{amount!r}; resume with the options the run began with, or open a new run"
                    )
                # Free only if it is the same event: otherwise two different looks would share one charge.
                if recorded[1] != text:
                    raise LedgerError(
                        f"event {seq} of run {run} is already charged for another event; "
                        "resume with the options the run began with, or open a new run"
                    )
                return
            left = Fraction(known.rho) - rows.spent(known)
            if Fraction(amount) > left:
                raise BudgetExceeded(
                    f"run {run} has ρ = {down(left)!r} left of {known.rho!r} (ε = {known.epsilon:g}, "
                    f"δ = {known.delta:g}), and "
                    f"event {seq} costs {amount!r}; plan fewer or cheaper events"
                )
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (run, seq, amount, text, now()))

    def spent(self, run: str) -> Fraction:
        """The exact sum of the run's events."""
        with self.transaction("DEFERRED") as connection:
            rows = self._rows(connection)
            return rows.spent(rows.known_run(run))

    def remaining(self, run: str) -> float:
        """What the run may still charge, rounded down so that charging exactly this fits; 0 once closed."""
        with self.transaction("DEFERRED") as connection:
            rows = self._rows(connection)
            known = rows.known_run(run)
            return 0.0 if known.closed else down(Fraction(known.rho) - rows.spent(known))

    def events(self, run: str) -> list[LedgerEvent]:
        """The run's events, by number."""
        with self.transaction("DEFERRED") as connection:
            rows = self._rows(connection)
            return list(rows.events(rows.known_run(run)))

    def datasets(self) -> list[DatasetStatus]:
        """Every dataset with its runs: one consistent snapshot, by name and then by start."""
        with self.transaction("DEFERRED") as connection:
            rows = self._rows(connection)
            rows.check_whole()
            return rows.datasets()

    def _rows(self, connection: sqlite3.Connection) -> LedgerRows:
        return LedgerRows(connection, self._name)


def new_run() -> str:
    """An id that no other run has."""
    return uuid.uuid4().hex


def _to_json(what: str, value: Mapping[str, object]) -> str:
    if not isinstance(value, Mapping):
        raise LedgerError(f"{what} cannot be {shown(value)}; give values by name")
    try:
        return json.dumps(dict(value), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LedgerError(
            f"{what} cannot be written as JSON ({error}); use strings, numbers and lists"
        ) from None


def _change(
    connection: sqlite3.Connection,
    dataset: str,
    before: DatasetStatus | None,
    budget: tuple[float, float, float],
    *,
    stated: bool,
) -> None:
    """Set a budget, and write down that it was changed."""
    old = (None, None, None) if before is None else (before.rho, before.epsilon, before.delta)
    connection.execute(
        "INSERT INTO dataset VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET rho = excluded.rho, "
        "epsilon = excluded.epsilon, delta = excluded.delta, stated = excluded.stated",
        (dataset, *budget, stated),
    )
    if old != budget or (before is not None and before.stated != stated):
        connection.execute(
            "INSERT INTO budget_change VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (dataset, now(), *old, *budget, stated),
        )
