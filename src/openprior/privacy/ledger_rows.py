"""The rows of a ledger's file, read with suspicion: a ledger that another program wrote to is refused, not believed.

SQLite keeps any value in any column, and a ledger is a file that people copy, restore and open with other tools. What
is read here decides what may still be spent, so nothing is converted on the way, and whatever cannot have been written
by `ledger.py` ends in one error: a number that is none, a run of no dataset, charges above what was reserved.
"""

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Never

from openprior.errors import LedgerError
from openprior.given import text_of
from openprior.privacy.exact import exact_sum
from openprior.privacy.ledger_status import BudgetChange, DatasetStatus, LedgerEvent, RunStatus

__all__ = ["LedgerRows", "RunRow", "has_unit"]


@dataclass(frozen=True)
class RunRow:
    """One run, as it stands in the file."""

    id: str
    dataset: str
    rho: float
    epsilon: float
    delta: float
    details: Mapping[str, object]
    started: str
    closed: str | None


class LedgerRows:
    """What a ledger's file says, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, ledger: str) -> None:
        self._connection, self._ledger = connection, ledger

    def check_whole(self) -> None:
        """The file is no patchwork: pages, indexes, types and references are in order. It reads all of it, so it is
        done once for a run and not for every charge."""
        (found,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            self._refuse("its pages do not fit together")
        if self._connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
            self._refuse("it has runs or charges that belong to nothing")

    def run(self, run: str) -> RunRow | None:
        """A run; None if there is none of this id."""
        text_of("a run's id", run, error=LedgerError)
        row = self._connection.execute(f"{_RUNS} WHERE id = ?", (run,)).fetchone()
        return None if row is None else self._run(row)

    def known_run(self, run: str) -> RunRow:
        """A run that must be there."""
        row = self.run(run)
        if row is None:
            raise LedgerError(f"{self._ledger} has no run {run}; check the run id and the ledger's path")
        return row

    def spent(self, run: RunRow) -> Fraction:
        """The exact sum of a run's charges."""
        rows = self._connection.execute("SELECT rho FROM event WHERE run = ?", (run.id,))
        return self._sum(run, [rho for (rho,) in rows])

    def events(self, run: RunRow) -> Iterator[LedgerEvent]:
        """A run's charges, by number."""
        rows = self._connection.execute(
            "SELECT seq, rho, charged, details FROM event WHERE run = ? ORDER BY seq", (run.id,)
        )
        for seq, rho, charged, details in rows:
            yield LedgerEvent(
                self._whole(seq), self._number(rho, zero=True), self._time(charged), self._record(details)
            )

    def secret(self, value: object) -> str:
        """A key, a digest or a token: 32 bytes in hexadecimal."""
        if type(value) is not str or not re.fullmatch("[0-9a-f]{64}", value):
            self._refuse("it has a key that is none")
        return value

    def datasets(self) -> list[DatasetStatus]:
        """Every dataset, by name."""
        names = self._connection.execute("SELECT name FROM dataset ORDER BY name").fetchall()
        found = (self.dataset(self._text(name)) for (name,) in names)
        return [status for status in found if status is not None]

    def dataset(self, name: str) -> DatasetStatus | None:
        """A dataset with its runs, by start; None if there is none of this name."""
        row = self._connection.execute(
            "SELECT rho, epsilon, delta, stated FROM dataset WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            return None
        rho, epsilon, delta = self._guarantee(*row[:3])
        return DatasetStatus(
            name=name,
            rho=rho,
            epsilon=epsilon,
            delta=delta,
            stated=self._flag(row[3]),
            runs=tuple(self._runs(name)),
            changes=tuple(self._changes(name)),
            refusals=self._count(
                "SELECT count(*) FROM refusal WHERE dataset = ? AND acknowledged IS NULL", name
            ),
            refusals_in_all=self._count("SELECT count(*) FROM refusal WHERE dataset = ?", name),
        )

    def _runs(self, name: str) -> Iterator[RunStatus]:
        charges: dict[str, list[Any]] = {}
        for run, rho in self._connection.execute(
            "SELECT run, event.rho FROM event JOIN run ON run.id = event.run WHERE dataset = ?", (name,)
        ):
            charges.setdefault(run, []).append(rho)
        for row in self._connection.execute(f"{_RUNS} WHERE dataset = ? ORDER BY rowid", (name,)).fetchall():
            run = self._run(row)
            costs = charges.get(run.id, [])
            yield RunStatus(
                id=run.id,
                state="closed" if run.closed else "open",
                reserved=run.rho,
                epsilon=run.epsilon,
                delta=run.delta,
                spent=self._sum(run, costs),
                events=len(costs),
                started=run.started,
                details=run.details,
                resumed=self._count("SELECT coalesce(max(number), 0) FROM token WHERE run = ?", run.id),
            )

    def _changes(self, name: str) -> Iterator[BudgetChange]:
        for changed, r, e, d, rho, epsilon, delta, stated in self._connection.execute(
            "SELECT changed, rho_before, epsilon_before, delta_before, rho, epsilon, delta, stated "
            "FROM budget_change WHERE dataset = ? ORDER BY number",
            (name,),
        ):
            now = self._guarantee(rho, epsilon, delta)
            before = None if r is None else self._guarantee(r, e, d)
            yield BudgetChange(self._time(changed), before, *now, stated=self._flag(stated))

    def _run(self, row: tuple[Any, ...]) -> RunRow:
        run, dataset, rho, epsilon, delta, details, started, closed = row
        record = self._record(details)
        if not has_unit(record):
            self._refuse("it has a run without a unit of privacy")
        return RunRow(
            self._text(run),
            self._text(dataset),
            *self._guarantee(rho, epsilon, delta),
            record,
            self._time(started),
            None if closed is None else self._time(closed),
        )

    def _sum(self, run: RunRow, charges: list[Any]) -> Fraction:
        total = exact_sum([self._number(rho, zero=True) for rho in charges])
        if total > Fraction(run.rho):
            self._refuse("it has a run with charges above what it reserved")
        return total

    def _guarantee(self, rho: object, epsilon: object, delta: object) -> tuple[float, float, float]:
        found = self._number(rho), self._number(epsilon), self._number(delta, zero=True)
        return found if found[2] < 1 else self._refuse("it has a delta that is none")

    def _number(self, value: object, *, zero: bool = False) -> float:
        if type(value) is not float or not (0 < value < math.inf or (zero and value == 0)):
            self._refuse("it has a cost or a budget that is no number")
        return value

    def _whole(self, value: object) -> int:
        if type(value) is not int or value < 0:
            self._refuse("it has a number of an event that is none")
        return value

    def _flag(self, value: object) -> bool:
        if type(value) is not int or value not in (0, 1):
            self._refuse("it has a budget of which nobody knows who set it")
        return value == 1

    def _text(self, value: object) -> str:
        return value if type(value) is str else self._refuse("it has a name that is no text")

    def _time(self, value: object) -> str:
        try:
            datetime.fromisoformat(self._text(value))
        except ValueError:
            self._refuse("it has a time that is none")
        return str(value)

    def _record(self, value: object) -> dict[str, object]:
        try:
            record = json.loads(self._text(value))
        except (ValueError, RecursionError):
            record = None
        return record if isinstance(record, dict) else self._refuse("it has details that cannot be read")

    def _count(self, query: str, of: str) -> int:
        (count,) = self._connection.execute(query, (of,)).fetchone()
        return self._whole(count)

    def _refuse(self, what: str) -> Never:
        raise LedgerError(
            f"{self._ledger} is damaged: {what}; restore a backup (a new ledger would forget what was spent)"
        )


_RUNS = "SELECT id, dataset, rho, epsilon, delta, details, started, closed FROM run"


def has_unit(details: Mapping[str, object]) -> bool:
    """Whether the details of a run say whom it protects, as far as they say anything of it."""
    unit = details.get("unit")
    if "unit" not in details:
        return True
    return (
        isinstance(unit, Mapping)
        and unit.keys() >= {"person", "rows_per_person", "relation"}
        and (unit["person"] is None or type(unit["person"]) is str)
        and type(unit["rows_per_person"]) is int
        and type(unit["relation"]) is str
    )
