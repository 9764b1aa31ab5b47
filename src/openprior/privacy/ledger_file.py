"""The ledger's file: SQLite, made, protected and locked so that a charge is on the disk when it is said to be.

`ledger.py` says what stands in it.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from openprior.errors import LedgerError, OptionError
from openprior.given import finite_number, path_of, shown
from openprior.privacy.ledger_tables import APPLICATION, VERSION, pragma, raise_to_version

__all__ = ["LedgerFile"]

_LONGEST = 1_000_000
"""Seconds to wait for a lock; SQLite counts milliseconds, and not many more."""


class LedgerFile:
    """A database in a file (no path: in memory), and transactions on it.

    Threads and forks: every transaction on a file opens and closes its own connection (0.2 ms, beside the syncs of
    a commit), so none is shared between threads or used across a fork. A ledger in memory keeps one connection under a
    lock and refuses to work in a forked child, where it would be a second budget.
    """

    def __init__(self, path: str | Path | None = None, *, timeout: float = 30.0) -> None:
        # Absolute: a later chdir must not begin a second ledger, and ":memory:" is a name like any other.
        self._path = None if path is None else path_of("a ledger", path, error=LedgerError).absolute()
        self._timeout = finite_number("a ledger's timeout", timeout)
        if not 0 <= self._timeout <= _LONGEST:
            raise OptionError(
                f"a ledger's timeout ({shown(timeout)}) must lie between 0 and {_LONGEST:,} seconds"
            )
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
    def in_memory(self) -> bool:
        """Whether it forgets everything with the process."""
        return self._path is None

    @property
    def exists(self) -> bool:
        """Whether it is there yet: a file is made when it is first written to or read, and an empty one is none."""
        # os.path says no and does not raise where a folder may not be looked into.
        return self._path is None or (os.path.exists(self._path) and os.path.getsize(self._path) > 0)

    def __repr__(self) -> str:
        return f"Ledger({'' if self._path is None else repr(str(self._path))})"

    @property
    def _name(self) -> str:
        return "the ledger in memory" if self._path is None else f"ledger '{self._path}'"

    def _connect(self) -> sqlite3.Connection:
        """A bare connection (tests replace this to make the disk full or read-only)."""
        target = ":memory:" if self._path is None else str(self._path)
        # isolation_level=None: transactions begin and end where this file says so, not where the driver does.
        return sqlite3.connect(target, timeout=self._timeout, isolation_level=None, check_same_thread=False)

    def _check_place(self) -> None:
        """Refuse a pipe or a device before anything is done to it; SQLite itself explains a folder."""
        place = self._path
        if place is not None and os.path.exists(place) and not (place.is_file() or place.is_dir()):
            raise LedgerError(f"{self._name} is a pipe or a device; give the path of a file")

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
        if pragma(connection, "user_version") < VERSION:
            raise_to_version(connection)
        version = pragma(connection, "user_version")
        if pragma(connection, "application_id") != APPLICATION:
            raise LedgerError(f"{self._name} is a database but not a ledger; give another path")
        if version > VERSION:
            raise LedgerError(
                f"{self._name} has version {version} and this openprior knows {VERSION}; upgrade openprior"
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is None:
            self._check_place()
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
    def transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
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
        if code == sqlite3.SQLITE_CONSTRAINT:
            return f"does not take that ({error}); it has it already or it is not its own, so start a new run"
        return _REMEDIES.get(
            code,
            f"is damaged or not a ledger ({error}); restore a backup (a new ledger would forget what was spent)",
        )


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
