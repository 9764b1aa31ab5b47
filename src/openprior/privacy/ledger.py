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
import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Literal

from openprior.errors import BudgetExceeded, LedgerError, OptionError

__all__ = ["DatasetStatus", "Ledger", "LedgerEvent", "RunStatus"]

_APPLICATION = 0x6F707269  # "opri": tells a ledger from any other SQLite file
_VERSION = 1

# The triggers guard against mistakes made with other tools; whoever owns the file can drop them.
_SCHEMA = (
    """CREATE TABLE dataset (
        name TEXT PRIMARY KEY NOT NULL,
        rho REAL NOT NULL CHECK (typeof(rho) = 'real' AND rho > 0 AND rho < 9e999),
        epsilon REAL NOT NULL,
        delta REAL NOT NULL,
        stated INTEGER NOT NULL)""",
    """CREATE TABLE run (
        id TEXT PRIMARY KEY NOT NULL,
        dataset TEXT NOT NULL REFERENCES dataset (name),
        rho REAL NOT NULL CHECK (typeof(rho) = 'real' AND rho > 0 AND rho < 9e999),
        epsilon REAL NOT NULL,
        delta REAL NOT NULL,
        details TEXT NOT NULL,
        started TEXT NOT NULL,
        closed TEXT)""",
    """CREATE TABLE event (
        run TEXT NOT NULL REFERENCES run (id),
        seq INTEGER NOT NULL CHECK (seq >= 0),
        rho REAL NOT NULL CHECK (typeof(rho) = 'real' AND rho >= 0 AND rho < 9e999),
        details TEXT NOT NULL,
        charged TEXT NOT NULL,
        PRIMARY KEY (run, seq)) WITHOUT ROWID""",
    "CREATE INDEX run_of_dataset ON run (dataset)",
    "CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are final'); END",
    "CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are final'); END",
    """CREATE TRIGGER event_insert BEFORE INSERT ON event
        WHEN (SELECT closed FROM run WHERE id = NEW.run) IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'the run is closed'); END""",
    "CREATE TRIGGER run_delete BEFORE DELETE ON run BEGIN SELECT RAISE(ABORT, 'runs are final'); END",
    """CREATE TRIGGER run_update BEFORE UPDATE ON run
        WHEN OLD.closed IS NOT NULL OR NEW.closed IS NULL OR NEW.id <> OLD.id OR NEW.dataset <> OLD.dataset
            OR NEW.rho <> OLD.rho
        BEGIN SELECT RAISE(ABORT, 'a run can only be closed, once'); END""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


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


class Ledger:
    """Budgets, runs and charges, in a file shared by every release on the dataset (no path: in memory).

    *Recorded ≥ true spend at every instant:* `charge` returns only after the event is synced to disk, and
    data is looked at only after that; a crash in between leaves a charge without a look, never the opposite.

    *Concurrent runs cannot overspend together:* a reservation is read, checked and written in one BEGIN
    IMMEDIATE transaction, which SQLite gives to one connection at a time, so Σ reservations ≤ budget; a run's
    charges are checked the same way and stay ≤ its reservation, and closing only lowers what a run counts.

    Threads and forks: every call on a file opens and closes its own connection (0.2 ms, beside the syncs of
    a commit), so none is shared between threads or used across a fork. A ledger in memory keeps one
    connection under a lock and refuses to work in a forked child, where it would be a second budget.
    """

    def __init__(self, path: str | Path | None = None, *, timeout: float = 30.0) -> None:
        # Absolute: a later chdir must not begin a second ledger, and ":memory:" is a name like any other.
        self._path = None if path is None else Path(path).absolute()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if self._path is None:
            self._memory = self._connect()
            self._prepare(self._memory)
            weakref.finalize(self, self._memory.close)

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return "the ledger in memory" if self._path is None else self._path.name

    @property
    def exists(self) -> bool:
        """Whether it is there yet: a file is made when it is first written to or read."""
        return self._path is None or self._path.exists()

    def __repr__(self) -> str:
        return f"Ledger({'' if self._path is None else repr(str(self._path))})"

    # Budgets and runs

    def set_budget(self, dataset: str, *, rho: float, epsilon: float, delta: float) -> None:
        """Create or change a dataset's budget; it may not fall below what is already committed."""
        budget = _check_rho("budget", rho)
        _check_guarantee(epsilon, delta)
        with self._transaction("IMMEDIATE") as connection:
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
        with self._transaction("IMMEDIATE") as connection:
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
        with self._transaction("DEFERRED") as connection:
            _, closed = self._run(connection, run)
            if closed:
                raise LedgerError(f"run {run} was closed at {closed}; it cannot be resumed, start a new run")

    def close(self, run: str) -> None:
        """End the run: it counts with its events from now on, and what it did not spend goes back."""
        with self._transaction("IMMEDIATE") as connection:
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
        with self._transaction("IMMEDIATE") as connection:
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
        with self._transaction("DEFERRED") as connection:
            self._run(connection, run)
            return _spent(connection, run)

    def remaining(self, run: str) -> float:
        """What the run may still charge, rounded down so that charging exactly this fits; 0 once closed."""
        with self._transaction("DEFERRED") as connection:
            reserved, closed = self._run(connection, run)
            return 0.0 if closed else _round_down(Fraction(reserved) - _spent(connection, run))

    def events(self, run: str) -> list[LedgerEvent]:
        """The run's events, by number."""
        with self._transaction("DEFERRED") as connection:
            self._run(connection, run)
            rows = connection.execute(
                "SELECT seq, rho, charged, details FROM event WHERE run = ? ORDER BY seq", (run,)
            ).fetchall()
        return [LedgerEvent(seq, rho, charged, json.loads(details)) for seq, rho, charged, details in rows]

    def datasets(self) -> list[DatasetStatus]:
        """Every dataset with its runs: one consistent snapshot, by name and then by start."""
        with self._transaction("DEFERRED") as connection:
            datasets = connection.execute(
                "SELECT name, rho, epsilon, delta FROM dataset ORDER BY name"
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
        for name, rho, epsilon, delta in datasets:
            mine_runs = tuple(of.get(name, ()))
            committed = sum(
                (Fraction(r.reserved) if r.state == "open" else r.spent for r in mine_runs), start=Fraction(0)
            )
            left = _round_down(Fraction(rho) - committed)
            statuses.append(DatasetStatus(name, rho, epsilon, delta, committed, left, mine_runs))
        return statuses

    # Connections and transactions

    def _connect(self) -> sqlite3.Connection:
        """A bare connection (tests replace this to make the disk full or read-only)."""
        target = ":memory:" if self._path is None else str(self._path)
        # isolation_level=None: transactions begin and end where this file says so, not where the driver does.
        return sqlite3.connect(target, timeout=self._timeout, isolation_level=None, check_same_thread=False)

    def _protect(self) -> None:
        """A new file is for its owner only; the rollback journal copies the mode."""
        # chmod and not open(O_CREAT, 0600): closing a second descriptor on the file would silently drop every
        # POSIX lock that SQLite holds on it in this process.
        if self._path is not None and self._path.stat().st_size == 0:
            self._path.chmod(0o600)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Durability settings, and the schema if the file is new.

        Journal mode TRUNCATE, on purpose. Not WAL: there a commit lies in a second file, so a copy of the
        ledger alone would have forgotten charges; WAL also needs shared memory, and SQLite before 3.51.3 can
        corrupt it when one process writes while another checkpoints. Not DELETE: with synchronous=FULL the
        folder is not synced after the unlink, so a power cut may bring the journal back and undo a commit
        that was reported. TRUNCATE with FULL syncs journal, folder, database and the truncation itself before
        COMMIT returns (seen with strace); a process killed at any instant leaves either the old state (the
        next reader rolls back) or the new one.
        """
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves data in the drive's cache
        connection.execute("PRAGMA foreign_keys = ON")
        (mode,) = connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
        if mode not in ("truncate", "memory"):
            raise LedgerError(
                f"{self._name} stays in journal mode '{mode}'; close the other programs that use it"
            )
        if _pragma(connection, "user_version") == 0:
            self._create(connection)
        version = _pragma(connection, "user_version")
        if _pragma(connection, "application_id") != _APPLICATION:
            raise LedgerError(f"{self._name} is a database but not a ledger; give another path")
        if version > _VERSION:
            raise LedgerError(
                f"{self._name} has version {version} and this openprior knows {_VERSION}; upgrade openprior"
            )

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Two processes may both have seen a new file; the second finds the work done.
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if _pragma(connection, "user_version") == 0 and tables == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is None:
            with closing(self._connect()) as connection:
                self._protect()
                self._prepare(connection)
                yield connection
        elif os.getpid() != self._pid:
            raise LedgerError("a ledger in memory cannot be used in a forked process; give it a path")
        else:
            with self._lock:
                yield self._memory

    @contextmanager
    def _transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
        """All or nothing: what SQLite says against it becomes one LedgerError, and nothing is charged."""
        try:
            with self._connection() as connection:
                connection.execute(f"BEGIN {kind}")
                try:
                    yield connection
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise LedgerError(f"{self._name} {self._remedy(error)}") from error
        except OSError as error:
            raise LedgerError(
                f"{self._name} cannot be opened ({error.strerror}); check its permissions"
            ) from error

    def _run(self, connection: sqlite3.Connection, run: str) -> tuple[float, str | None]:
        """What the run reserved and when it was closed."""
        row = connection.execute("SELECT rho, closed FROM run WHERE id = ?", (run,)).fetchone()
        if row is None:
            raise LedgerError(f"{self._name} has no run {run}; check the run id and the ledger's path")
        return row[0], row[1]

    @property
    def _name(self) -> str:
        return "the ledger in memory" if self._path is None else f"ledger '{self._path}'"

    def _remedy(self, error: sqlite3.Error) -> str:
        """What went wrong and what to do about it, to follow the ledger's name."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte is the family
        if code == sqlite3.SQLITE_CANTOPEN and self._path is not None:
            if self._path.is_dir():
                return f"is a folder; name a file in it, such as '{self._path / 'budget.sqlite'}'"
            if not self._path.parent.is_dir():
                return f"cannot be created: there is no folder '{self._path.parent}'; create it first"
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return (
                f"was locked for {self._timeout:g} s: another release is writing to it; "
                "wait until it is done, or give a longer timeout"
            )
        return _REMEDIES.get(code, f"failed: {error}")


_REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; make it and its folder readable and writable for this user",
    sqlite3.SQLITE_READONLY: "is read-only, so nothing can be charged; make it and its folder writable",
    sqlite3.SQLITE_PERM: "may not be used by this user; change its permissions",
    sqlite3.SQLITE_AUTH: "may not be used by this user; change its permissions",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space, then resume",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk failed; check the disk, then resume",
    sqlite3.SQLITE_NOTADB: "is not a ledger (not an SQLite file); give another path",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a backup (a new ledger would forget what was spent)",
}


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


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
