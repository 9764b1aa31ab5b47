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
import math
import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal

from openprior.errors import BudgetExceeded, LedgerError, OptionError
from openprior.privacy.ledger_file import LedgerFile

__all__ = ["DatasetStatus", "Ledger", "LedgerEvent", "RunStatus"]


@dataclass(frozen=True)
class LedgerEvent:
    """One charge: its number within the run, its exact ρ, when it was charged (UTC) and what it was for."""

    seq: int
    rho: float
    charged: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class RunStatus:
    """One run: what it reserved, what its events add up to (exactly) and whether it is still open."""

    id: str
    state: Literal["open", "closed"]
    reserved: float
    epsilon: float
    delta: float
    spent: Fraction
    events: int
    started: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class DatasetStatus:
    """One dataset: its budget, what is committed (exactly) and what is left (rounded down)."""

    name: str
    rho: float
    epsilon: float
    delta: float
    committed: Fraction
    remaining: float
    runs: tuple[RunStatus, ...]
    stated: bool
    """Whether somebody set the budget; else it is that of the first run that spent something."""


class Ledger(LedgerFile):
    """Budgets, runs and charges, in a file shared by every release on the dataset (no path: in memory).

    *Recorded ≥ true spend at every instant:* `charge` returns only after the event is synced to disk, and
    data is looked at only after that; a crash in between leaves a charge without a look, never the opposite.

    *Concurrent runs cannot overspend together:* a reservation is read, checked and written in one BEGIN
    IMMEDIATE transaction, which SQLite gives to one connection at a time, so Σ reservations ≤ budget; a run's
    charges are checked the same way and stay ≤ its reservation, and closing only lowers what a run counts.
    """

    # Budgets and runs

    def set_budget(self, dataset: str, *, rho: float, epsilon: float, delta: float) -> None:
        """Create or change a dataset's budget; it may not fall below what is already committed."""
        budget = _check_rho("budget", rho)
        _check_guarantee(epsilon, delta)
        with self.transaction("IMMEDIATE") as connection:
            committed = _committed(connection, dataset)
            if Fraction(budget) < committed:
                raise LedgerError(
                    f"dataset '{dataset}' has ρ = {float(committed)!r} committed, more than the new budget "
                    f"{budget!r}; give at least that, or close open runs to free what they did not spend"
                )
            connection.execute(
                "INSERT INTO dataset VALUES (?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE "
                "SET rho = excluded.rho, epsilon = excluded.epsilon, delta = excluded.delta, stated = 1",
                (dataset, budget, float(epsilon), float(delta)),
            )

    def open_run(
        self, dataset: str, *, rho: float, epsilon: float, delta: float, details: Mapping[str, object]
    ) -> str:
        """Reserve ρ for a new run and return its id.

        Where no budget was set, the first run's (ε, δ) is the budget; if that run ended without spending anything, the
        next one is the first.
        """
        reserved = _check_rho("reservation", rho)
        _check_guarantee(epsilon, delta)
        text = _to_json("the run's details", details)
        run = uuid.uuid4().hex
        guarantee = (reserved, float(epsilon), float(delta))
        with self.transaction("IMMEDIATE") as connection:
            row = connection.execute("SELECT rho, stated FROM dataset WHERE name = ?", (dataset,)).fetchone()
            committed = _committed(connection, dataset)
            _check_relation(connection, dataset, details)
            if row is None or (not row[1] and committed == 0):
                connection.execute(
                    "INSERT INTO dataset VALUES (?, ?, ?, ?, 0) ON CONFLICT (name) DO UPDATE "
                    "SET rho = excluded.rho, epsilon = excluded.epsilon, delta = excluded.delta",
                    (dataset, *guarantee),
                )
            else:
                left = Fraction(row[0]) - committed
                if Fraction(reserved) > left:
                    raise BudgetExceeded(
                        f"dataset '{dataset}' has ρ = {_round_down(left):.4g} left of {row[0]:.4g}, and this run "
                        f"asks for {reserved:.4g}; ask for less, close runs that are over, or raise the budget with "
                        "'openprior ledger budget'"
                    )
            connection.execute(
                "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", (run, dataset, *guarantee, text, _now())
            )
        return run

    def resume_run(self, run: str) -> None:
        """Check that the run exists and is open."""
        with self.transaction("DEFERRED") as connection:
            _, closed = self._run(connection, run)
            if closed:
                raise LedgerError(f"run {run} was closed at {closed}; it cannot be resumed, start a new run")

    def close(self, run: str) -> None:
        """End the run: it counts with its events from now on, and what it did not spend goes back."""
        with self.transaction("IMMEDIATE") as connection:
            _, closed = self._run(connection, run)
            if not closed:
                connection.execute("UPDATE run SET closed = ? WHERE id = ?", (_now(), run))

    # Charges

    def charge(self, run: str, seq: int, rho: float, event: Mapping[str, object]) -> None:
        """Record an event, durably before returning; only then may data be looked at.

        The same charge again (same run, number, ρ and event) is a no-op: a resumed run does not pay twice.
        """
        amount = _check_rho("charge", rho, zero=True)  # a part of a partition may owe nothing more
        if not 0 <= seq < 2**63:
            raise OptionError(f"event number {seq} is out of range; count from 0")
        text = _to_json(f"event {seq}", event)
        with self.transaction("IMMEDIATE") as connection:
            row = connection.execute("SELECT rho, closed FROM run WHERE id = ?", (run,)).fetchone()
            if row is None:
                raise BudgetExceeded(f"run {run} has no reservation in {self._name}; open a run first")
            reserved, closed = row
            if closed:
                raise BudgetExceeded(
                    f"run {run} was closed at {closed} and has no budget left; open a new run"
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
            left = Fraction(reserved) - _spent(connection, run)
            if Fraction(amount) > left:
                raise BudgetExceeded(
                    f"run {run} has ρ = {_round_down(left)!r} left of {reserved!r}, and event {seq} costs "
                    f"{amount!r}; plan fewer or cheaper events"
                )
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (run, seq, amount, text, _now()))

    def spent(self, run: str) -> Fraction:
        """The exact sum of the run's events."""
        with self.transaction("DEFERRED") as connection:
            self._run(connection, run)
            return _spent(connection, run)

    def remaining(self, run: str) -> float:
        """What the run may still charge, rounded down so that charging exactly this fits; 0 once closed."""
        with self.transaction("DEFERRED") as connection:
            reserved, closed = self._run(connection, run)
            return 0.0 if closed else _round_down(Fraction(reserved) - _spent(connection, run))

    def events(self, run: str) -> list[LedgerEvent]:
        """The run's events, by number."""
        with self.transaction("DEFERRED") as connection:
            self._run(connection, run)
            rows = connection.execute(
                "SELECT seq, rho, charged, details FROM event WHERE run = ? ORDER BY seq", (run,)
            ).fetchall()
        return [LedgerEvent(seq, rho, charged, json.loads(details)) for seq, rho, charged, details in rows]

    def datasets(self) -> list[DatasetStatus]:
        """Every dataset with its runs: one consistent snapshot, by name and then by start."""
        with self.transaction("DEFERRED") as connection:
            datasets = connection.execute(
                "SELECT name, rho, epsilon, delta, stated FROM dataset ORDER BY name"
            ).fetchall()
            runs = connection.execute(
                "SELECT dataset, id, rho, epsilon, delta, started, closed, details FROM run ORDER BY rowid"
            ).fetchall()
            charges: dict[str, list[float]] = {}
            for run, rho in connection.execute("SELECT run, rho FROM event"):
                charges.setdefault(run, []).append(rho)
        of: dict[str, list[RunStatus]] = {}
        for dataset, run, rho, epsilon, delta, started, closed, details in runs:
            mine = charges.get(run, [])
            of.setdefault(dataset, []).append(
                RunStatus(
                    id=run,
                    state="closed" if closed else "open",
                    reserved=rho,
                    epsilon=epsilon,
                    delta=delta,
                    spent=_sum(mine),
                    events=len(mine),
                    started=started,
                    details=json.loads(details),
                )
            )
        statuses = []
        for name, rho, epsilon, delta, stated in datasets:
            mine_runs = tuple(of.get(name, ()))
            committed = sum(
                (Fraction(r.reserved) if r.state == "open" else r.spent for r in mine_runs), start=Fraction(0)
            )
            left = _round_down(Fraction(rho) - committed)
            statuses.append(
                DatasetStatus(name, rho, epsilon, delta, committed, left, mine_runs, bool(stated))
            )
        return statuses

    def _run(self, connection: sqlite3.Connection, run: str) -> tuple[float, str | None]:
        """What the run reserved and when it was closed."""
        row = connection.execute("SELECT rho, closed FROM run WHERE id = ?", (run,)).fetchone()
        if row is None:
            raise LedgerError(f"{self._name} has no run {run}; check the run id and the ledger's path")
        return row[0], row[1]


def _check_rho(what: str, rho: float, *, zero: bool = False) -> float:
    value = float(rho)
    # value != rho: a Fraction or large int that a double cannot hold would be recorded as less than it is.
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0)) and value == rho):
        raise OptionError(f"{what} ρ = {rho!r} must be a finite double greater than 0")
    return value


def _check_guarantee(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise OptionError(f"epsilon = {epsilon!r} must be finite and greater than 0")
    if not 0 <= delta < 1:
        raise OptionError(f"delta = {delta!r} must be at least 0 and less than 1")


def _to_json(what: str, value: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(value), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise LedgerError(
            f"{what} cannot be written as JSON ({error}); use strings, numbers and lists"
        ) from error


def _sum(values: Iterable[float]) -> Fraction:
    """The exact sum of doubles: their denominators are powers of two, so the largest is a common one."""
    ratios = [value.as_integer_ratio() for value in values]
    common = max((denominator for _, denominator in ratios), default=1)
    return Fraction(sum(numerator * (common // denominator) for numerator, denominator in ratios), common)


def _round_down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _spent(connection: sqlite3.Connection, run: str) -> Fraction:
    return _sum(rho for (rho,) in connection.execute("SELECT rho FROM event WHERE run = ?", (run,)))


def _committed(connection: sqlite3.Connection, dataset: str) -> Fraction:
    """Open runs count their whole reservation, closed runs their events."""
    rows = connection.execute(
        "SELECT rho FROM run WHERE dataset = ? AND closed IS NULL UNION ALL "
        "SELECT event.rho FROM event JOIN run ON run.id = event.run WHERE dataset = ? AND closed IS NOT NULL",
        (dataset, dataset),
    )
    return _sum(rho for (rho,) in rows)


def _check_relation(connection: sqlite3.Connection, dataset: str, details: Mapping[str, object]) -> None:
    """Costs of one dataset add up only if all are about the same neighbours."""
    asked = details.get("relation")
    rows = connection.execute(
        "SELECT details FROM run WHERE dataset = ? AND (closed IS NULL OR EXISTS "
        "(SELECT 1 FROM event WHERE event.run = run.id))",
        (dataset,),
    )
    for (text,) in rows:
        before = json.loads(text).get("relation")
        if asked and before and before != asked:
            raise LedgerError(
                f"dataset '{dataset}' has runs under {before}, and this one asks under {asked}, which do not add up; "
                f"use {before}, or another dataset name with a budget of its own"
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
