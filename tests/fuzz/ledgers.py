"""Ledger files that are broken, foreign or locked, and odd questions to good ones."""

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import openprior as op
from openprior.privacy.ledger import Ledger
from tests.fuzz.calls import Call, command, sound
from tests.fuzz.odd import broken_bytes, odd_value
from tests.fuzz.stock import UNIT, release_options, take

__all__ = ["GENERATORS", "alter"]

NAME = "budget.sqlite"


def _use(draw: random.Random, what: str, timeout: float = 0.0) -> Call:
    """Something that opens the ledger."""
    book = Ledger(NAME, timeout=timeout)
    kept = frozenset({NAME})
    guarantee = {"rho": 0.1, "epsilon": 1.0, "delta": 1e-6}
    calls = (
        book.datasets,
        lambda: book.set_budget("private", rho=3.0, epsilon=15.0, delta=1e-6),
        lambda: book.open_run("private", details=UNIT, **guarantee),
        lambda: book.close(_a_run()),
        lambda: book.spent(_a_run()),
        lambda: book.events(_a_run()),
        lambda: book.resume_run(_a_run(), book.seals(_a_run()), "0" * 64),
        lambda: book.charge(_a_run(), 0, 0.001, {"a": 1}),
    )
    choice = draw.randrange(len(calls) + 4)
    if choice < len(calls):
        return Call(f"ask {what}", calls[choice], keeps=kept)
    if choice == len(calls):
        return command("ledger", "show", NAME, "--ledger-timeout", str(timeout), keeps=kept)
    if choice == len(calls) + 1:
        take("private.csv", "public.csv")
        return Call(
            f"screen with {what}",
            lambda: op.screen("private.csv", ["public.csv"], epsilon=0.1, ledger=book, seed=1),
            keeps=kept,
        )
    take("private.csv", "public.csv")
    options = release_options(draw)
    return Call(
        f"release with {what}",
        lambda: op.release("private.csv", "public.csv", **options, ledger=book, out="new"),
        sound,
        frozenset({"new"}),
        kept,
    )


def _a_run() -> str:
    try:
        with contextlib.closing(sqlite3.connect(NAME, timeout=0)) as connection:
            return str(connection.execute("SELECT id FROM run").fetchone()[0])
    except (sqlite3.Error, TypeError, UnicodeDecodeError):
        return "x"


def broken(draw: random.Random) -> Call:
    """Broken bytes, text, nothing, a folder."""
    take(NAME)
    file = Path(NAME)
    match draw.randrange(6):
        case 0:
            file.write_bytes(
                draw.choice((b"", b"\0" * 4096, b"text\n" * 1000, b"SQLite format 3\0", draw.randbytes(5000)))
            )
        case 1:
            file.unlink()
            if draw.random() < 0.5:
                file.mkdir()
        case _:
            file.write_bytes(broken_bytes(draw, file.read_bytes()))
    return _use(draw, "a broken ledger")


STATEMENTS = (
    "DROP TABLE event", "DROP TABLE run", "DROP TABLE dataset", "PRAGMA user_version = 99", "PRAGMA user_version = 0",
    "PRAGMA application_id = 1", "UPDATE dataset SET rho = -1", "UPDATE dataset SET rho = 'x'",
    "UPDATE dataset SET rho = 9e999",
    "UPDATE dataset SET epsilon = 'x'", "UPDATE dataset SET delta = 5", "UPDATE dataset SET name = ''",
    "UPDATE dataset SET stated = 'x'",
    "UPDATE run SET details = 'no json'", "UPDATE run SET details = '[]'", "UPDATE run SET details = X'ff'",
    "UPDATE run SET rho = 0.000001",
    "UPDATE run SET epsilon = 'x'", "UPDATE run SET started = 5", "UPDATE run SET closed = 'x'",
    "UPDATE run SET dataset = 'nobody'",
    "UPDATE run SET id = 'x'", "UPDATE run SET rho = 'x'", "UPDATE event SET details = '{'",
    "UPDATE event SET rho = 1e300",
    "UPDATE event SET rho = 'x'", "UPDATE event SET seq = seq + 7", "DELETE FROM run", "DELETE FROM event",
    "DELETE FROM dataset",
    "ALTER TABLE run DROP COLUMN details", "ALTER TABLE run ADD COLUMN more", "CREATE TABLE more (x)",
    "PRAGMA journal_mode = WAL", "DROP TABLE token", "DROP TABLE outcome", "DROP TABLE refusal", "DELETE FROM token",
    "DELETE FROM secret", "DELETE FROM outcome", "UPDATE token SET token = 'x'", "UPDATE token SET number = 'x'",
    "UPDATE secret SET secret = 'x'", "UPDATE secret SET secret = X'ff'", "UPDATE outcome SET key = 'x'",
    "UPDATE outcome SET digest = X'ff'", "UPDATE outcome SET seq = 'x'", "UPDATE outcome SET key = digest",
    "UPDATE budget_change SET rho = 'x'", "UPDATE budget_change SET changed = ''",
    "INSERT INTO refusal VALUES (NULL, 'private', 5, NULL), (NULL, 'private', 5, NULL), (NULL, 'private', 5, NULL)",
)  # fmt: skip


def altered(draw: random.Random) -> Call:
    """Written to by another program."""
    take(NAME)
    return _use(draw, f"a ledger after {alter(draw)}")


def alter(draw: random.Random) -> list[str]:
    """Write to the ledger as another program could; what was written."""
    done = draw.sample(STATEMENTS, draw.choice((1, 1, 2)))
    with contextlib.closing(sqlite3.connect(NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in done:
            with contextlib.suppress(sqlite3.Error):
                connection.execute(statement)
    return done


def foreign(draw: random.Random) -> Call:
    """A database of another program."""
    with contextlib.closing(sqlite3.connect(NAME, isolation_level=None)) as connection:
        connection.execute(
            draw.choice(
                (
                    "CREATE TABLE t (x)",
                    "CREATE TABLE run (id)",
                    "PRAGMA user_version = 1",
                    "PRAGMA user_version = 7",
                )
            )
        )
        if draw.random() < 0.3:
            connection.execute(f"PRAGMA application_id = {0x6F707269}")
    return _use(draw, "a foreign database")


def locked(draw: random.Random) -> Call:
    """Held by another run."""
    take(NAME)
    holder = sqlite3.connect(NAME, isolation_level=None)
    holder.execute(draw.choice(("BEGIN EXCLUSIVE", "BEGIN IMMEDIATE")))
    inner = _use(draw, "a locked ledger", draw.choice((0.0, 0.01)))

    def run() -> Any:
        with contextlib.closing(holder):
            return inner.run()

    return Call(inner.what, run, inner.right, inner.writes, inner.keeps)


def asked(draw: random.Random) -> Call:
    """Arguments that are none."""
    take(NAME)
    book, value = Ledger(NAME, timeout=0), odd_value(draw)
    run = _a_run()
    guarantee: dict[str, Any] = {"rho": 0.01, "epsilon": 1.0, "delta": 1e-6}
    guarantee[draw.choice(sorted(guarantee))] = value
    name = draw.choice(("private", value))
    calls = (
        lambda: book.set_budget(name, **guarantee),
        lambda: book.open_run(name, details=UNIT, **guarantee),
        lambda: book.open_run("private", rho=0.1, epsilon=1.0, delta=1e-6, details=value),
        lambda: book.open_run("private", rho=0.1, epsilon=1.0, delta=1e-6, details={**UNIT, "x": value}),
        lambda: book.charge(value, 0, 0.001, {}),
        lambda: book.charge(run, value, 0.001, {}),
        lambda: book.charge(run, 0, value, {}),
        lambda: book.charge(run, 99, 0.0, {"x": value}),
        lambda: book.close(value),
        lambda: book.spent(value),
        lambda: Ledger(value).datasets(),
        lambda: Ledger(NAME, timeout=value).datasets(),
    )
    kept = {NAME} | ({value.partition("/")[0]} - {""} if isinstance(value, str) else set())
    return Call(f"a ledger and {value!r:.200}", draw.choice(calls), keeps=frozenset(kept))


GENERATORS = (broken, broken, altered, altered, foreign, locked, asked, asked)
