"""The tables of a ledger's file, and how an older file gets those that came later.

A ledger is precious: to lose it is to forget what was spent. So a file of an older version is not refused but given the
tables that it lacks, in one transaction; nothing that stands in it is changed. A file of a newer version is refused.

Version 1 had datasets, runs and events. Version 2 keeps changes of budgets, the keys and digests of outcomes,
resumptions and refusals. Runs of version 1 have neither keys nor tokens, so one that was broken then cannot be resumed.
Version 3 has the same tables, but a pure run is charged ε·tanh(ε/2): code that knows version 2 would take it for less.
"""

import sqlite3

__all__ = ["APPLICATION", "VERSION", "pragma", "raise_to_version"]

APPLICATION = 0x6F707269  # "opri": tells a ledger from any other SQLite file

# The triggers guard against mistakes made with other tools; whoever owns the file can drop them.
_FIRST = (
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
    f"PRAGMA application_id = {APPLICATION}",
)

_SECOND = (
    """CREATE TABLE budget_change (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL,
        changed TEXT NOT NULL,
        rho_before REAL,
        epsilon_before REAL,
        delta_before REAL,
        rho REAL NOT NULL,
        epsilon REAL NOT NULL,
        delta REAL NOT NULL,
        stated INTEGER NOT NULL)""",
    "CREATE TABLE secret (run TEXT PRIMARY KEY NOT NULL REFERENCES run (id), secret TEXT NOT NULL)",
    """CREATE TABLE token (
        run TEXT NOT NULL REFERENCES run (id),
        number INTEGER NOT NULL CHECK (number >= 0),
        token TEXT NOT NULL UNIQUE,
        given TEXT NOT NULL,
        PRIMARY KEY (run, number)) WITHOUT ROWID""",
    """CREATE TABLE outcome (
        run TEXT NOT NULL,
        seq INTEGER NOT NULL,
        digest TEXT NOT NULL,
        key TEXT NOT NULL,
        PRIMARY KEY (run, seq),
        FOREIGN KEY (run, seq) REFERENCES event (run, seq)) WITHOUT ROWID""",
    """CREATE TABLE refusal (
        number INTEGER PRIMARY KEY,
        dataset TEXT NOT NULL,
        refused TEXT NOT NULL,
        acknowledged TEXT)""",
    "CREATE INDEX refusal_of_dataset ON refusal (dataset)",
    *(
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} rows are final'); END"
        for table in ("budget_change", "outcome")
        for verb in ("UPDATE", "DELETE")
    ),
    *(
        f"CREATE TRIGGER {table}_update BEFORE UPDATE ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} rows are final'); END"
        for table in ("secret", "token")
    ),
    *(
        f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table} "
        "WHEN (SELECT closed FROM run WHERE id = NEW.run) IS NOT NULL "
        "BEGIN SELECT RAISE(ABORT, 'the run is closed'); END"
        for table in ("outcome", "secret", "token")
    ),
    "CREATE TRIGGER refusal_delete BEFORE DELETE ON refusal BEGIN SELECT RAISE(ABORT, 'refusals are final'); END",
    """CREATE TRIGGER refusal_update BEFORE UPDATE ON refusal
        WHEN OLD.acknowledged IS NOT NULL OR NEW.acknowledged IS NULL OR NEW.dataset <> OLD.dataset
            OR NEW.number <> OLD.number
        BEGIN SELECT RAISE(ABORT, 'a refusal can only be acknowledged, once'); END""",
    # A run that has charged nothing may be withdrawn: a table that misfits leaves no runs behind.
    "DROP TRIGGER run_delete",
    """CREATE TRIGGER run_delete BEFORE DELETE ON run
        WHEN OLD.closed IS NOT NULL OR EXISTS (SELECT 1 FROM event WHERE event.run = OLD.id)
        BEGIN SELECT RAISE(ABORT, 'runs are final'); END""",
    *(
        f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} "
        "WHEN EXISTS (SELECT 1 FROM event WHERE event.run = OLD.run) "
        f"BEGIN SELECT RAISE(ABORT, '{table} rows are final'); END"
        for table in ("secret", "token")
    ),
)

_VERSIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, ())
VERSION = len(_VERSIONS)


def raise_to_version(connection: sqlite3.Connection, version: int = VERSION) -> None:
    """Give a new file all tables, and an older one those that it lacks: all of them or, after a crash, none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Two processes may both have seen an older file; the second finds the work done.
        present = pragma(connection, "user_version")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        mine = pragma(connection, "application_id") == APPLICATION if present else tables == 0
        if mine and present < version:
            for statement in (line for step in _VERSIONS[present:version] for line in step):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """A setting of the file that is a whole number."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
