"""A ledger that another program wrote to is refused in one line, whatever is asked of it; a sound one is believed."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openprior.errors import LedgerError, OpenPriorError
from openprior.privacy.ledger import Ledger

GUARANTEE = {"rho": 0.125, "epsilon": 1.0, "delta": 1e-9}
UNIT = {"unit": {"person": None, "rows_per_person": 1, "relation": "replace-one"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a run that has charged something."""
    path = tmp_path / "budget.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    ledger.open_run("survey", **GUARANTEE, details=UNIT, run="r")
    ledger.charge("r", 0, 0.0625, {"kind": "gaussian"})
    return path


def alter(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)


ALTERED = (
    "UPDATE dataset SET rho = 'x'",
    "UPDATE dataset SET rho = 9e999",
    "UPDATE dataset SET rho = -1",
    "UPDATE dataset SET epsilon = 0",
    "UPDATE dataset SET delta = 1",
    "UPDATE dataset SET stated = 'x'",
    "UPDATE dataset SET name = ''",
    "UPDATE run SET rho = 1e-9",
    "UPDATE run SET epsilon = X'ff'",
    "UPDATE run SET details = 'no json'",
    "UPDATE run SET details = '[]'",
    "UPDATE run SET details = X'ff'",
    """UPDATE run SET details = '{"unit": {"person": 1}}'""",
    "UPDATE run SET started = 5",
    "UPDATE run SET closed = 'x'",
    "UPDATE run SET dataset = 'nobody'",
    "UPDATE event SET rho = 'x'",
    "UPDATE event SET rho = 1e300",
    "UPDATE event SET run = 'nobody'",
    "UPDATE budget_change SET rho = 'x'",
    "UPDATE budget_change SET changed = ''",
    "DELETE FROM run",
    "DROP TABLE event",
    "DROP TABLE dataset",
    "ALTER TABLE run DROP COLUMN details",
)


@pytest.mark.parametrize("statement", ALTERED)
def test_an_altered_ledger_opens_no_run(path: Path, statement: str) -> None:
    assert Ledger(path).datasets()[0].remaining == 0.875
    alter(path, statement)
    before = path.read_bytes()
    asked: tuple[Callable[[Ledger], Any], ...] = (
        Ledger.datasets,
        lambda book: book.open_run("survey", **GUARANTEE, details=UNIT),
        lambda book: book.set_budget("survey", rho=0.5, epsilon=7.0, delta=1e-9),
        lambda book: book.close("r"),
    )
    for ask in asked[: 3 if "dataset SET" in statement or "change SET" in statement else 4]:
        with pytest.raises(LedgerError, match=r"ledger '.*' is damaged.*; restore a backup") as caught:
            ask(Ledger(path))
        assert "\n" not in str(caught.value)
    if "dataset SET" not in statement:
        assert path.read_bytes() == before


@pytest.mark.parametrize("rho", ["'x'", "X'ff'", "-1.0", "9e999"])
def test_a_run_with_altered_numbers_charges_nothing(path: Path, rho: str) -> None:
    for table in ("run", "event"):
        alter(path, f"UPDATE {table} SET rho = {rho}")
        with pytest.raises(LedgerError, match="is damaged: it has a cost or a budget that is no number"):
            Ledger(path).charge("r", 1, 0.001, {})
        alter(path, "UPDATE run SET rho = 0.125")


def test_an_index_that_lost_a_run_is_seen(path: Path) -> None:
    # Without the check, the run would be missing wherever runs are looked up by their dataset.
    alter(
        path,
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_master WHERE name = 'run_of_dataset'",
        "PRAGMA writable_schema = RESET",
    )
    with pytest.raises(LedgerError, match="its pages do not fit together"):
        Ledger(path).datasets()


class Table:
    def __repr__(self) -> str:
        return "a private row"


@pytest.mark.parametrize("odd", [None, True, "x", "\ud800", 1j, float("nan"), [1], b"r", Table()], ids=repr)
def test_arguments_that_are_none(path: Path, odd: Any) -> None:
    ledger = Ledger(path)
    before = ledger.datasets()
    asked: dict[str, Callable[[], Any]] = {
        "rho": lambda: ledger.set_budget("survey", rho=odd, epsilon=1.0, delta=1e-9),
        "epsilon": lambda: ledger.set_budget("survey", rho=0.5, epsilon=odd, delta=1e-9),
        "delta": lambda: ledger.open_run("survey", rho=0.125, epsilon=1.0, delta=odd, details=UNIT),
        "details": lambda: ledger.open_run("survey", **GUARANTEE, details=odd),
        "unit": lambda: ledger.open_run("survey", **GUARANTEE, details={"unit": odd}),
        "charge": lambda: ledger.charge("r", 1, odd, {}),
        "number": lambda: ledger.charge("r", odd, 0.001, {}),
        "event": lambda: ledger.charge("r", 1, 0.001, odd),
        "close": lambda: ledger.close(odd),
        "spent": lambda: ledger.spent(odd),
        "timeout": lambda: Ledger(path, timeout=odd),
    }
    if not isinstance(odd, str) or odd != "x":
        asked["dataset"] = lambda: ledger.open_run(odd, **GUARANTEE, details=UNIT)
        if odd is not None:
            asked["path"] = lambda: Ledger(odd)
    for what, ask in asked.items():
        with pytest.raises(OpenPriorError) as caught:
            ask()
        assert "a private row" not in str(caught.value), what
    assert ledger.datasets() == before
