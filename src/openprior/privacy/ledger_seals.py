"""What a ledger knows of a run's journal: the key and the digest of every outcome, and who may go on.

`sealed.py` says what they are for, with the proof. Here is what that proof needs of the ledger: a row of `outcome` is
written once per event and never changed, and only by the holder of the run's last token; tokens follow one another,
each given to whoever showed the one before.
"""

import hmac
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from openprior.errors import LedgerError
from openprior.given import text_of
from openprior.privacy.ledger_file import LedgerFile
from openprior.privacy.ledger_refusals import check_refusals, now
from openprior.privacy.ledger_rows import LedgerRows

__all__ = ["RunSeals", "Seal", "SealBook", "give_first_token"]


@dataclass(frozen=True)
class Seal:
    """What opens one outcome, and what it must be."""

    digest: str
    key: str


@dataclass(frozen=True)
class RunSeals:
    """All that the ledger knows of a run's journal."""

    token: str
    """The last one that was given."""
    secret: str
    """Keys the fingerprint of the private table."""
    outcomes: Mapping[int, Seal]


class SealBook(LedgerFile):
    """The part of a ledger that opens journals."""

    def knows(self, run: str) -> bool:
        """Whether there is such a run, open or closed."""
        text_of("a run's id", run)
        with self.transaction("DEFERRED") as connection:
            return connection.execute("SELECT 1 FROM run WHERE id = ?", (run,)).fetchone() is not None

    def seals(self, run: str) -> RunSeals:
        """What a journal has to match for its run to be resumed; the run must be open."""
        with self.transaction("DEFERRED") as connection:
            LedgerRows(connection, self._name).check_whole()
            check_open(connection, run, self._name)
            return _seals(connection, run, self._name)

    def resume_run(
        self, run: str, seals: RunSeals, token: str, *, acknowledge_refusals: bool = False
    ) -> None:
        """Give the run a new token, if nothing has changed since its seals were read; whoever holds an older one is
        shut out from now on."""
        with self.transaction("IMMEDIATE") as connection:
            dataset = check_open(connection, run, self._name)
            check_refusals(connection, dataset, acknowledge_refusals)
            if _seals(connection, run, self._name) != seals:
                raise LedgerError(f"run {run} goes on in another process; wait until it ends, or stop it")
            connection.execute(
                "INSERT INTO token SELECT run, max(number) + 1, ?, ? FROM token WHERE run = ?",
                (token, now(), run),
            )

    def seal(self, run: str, seq: int, seal: Seal, token: str) -> None:
        """Publish the key of an outcome, once, durably before returning; only then may anybody see the outcome."""
        with self.transaction("IMMEDIATE") as connection:
            check_open(connection, run, self._name)
            if not hmac.compare_digest(_token(connection, run) or "", token):
                raise LedgerError(
                    f"run {run} was resumed in another process, which goes on with it; this one ends here"
                )
            known = connection.execute(
                "SELECT 1 FROM outcome WHERE run = ? AND seq = ?", (run, seq)
            ).fetchone()
            if known is not None:
                raise LedgerError(f"event {seq} of run {run} has an outcome already; resume the run")
            connection.execute("INSERT INTO outcome VALUES (?, ?, ?, ?)", (run, seq, seal.digest, seal.key))


def give_first_token(connection: sqlite3.Connection, run: str, token: str) -> None:
    """From now on the run has a journal, in which this token stands, and a secret, which does not."""
    connection.execute("INSERT INTO secret VALUES (?, ?)", (run, secrets.token_hex(32)))
    connection.execute("INSERT INTO token VALUES (?, 0, ?, ?)", (run, token, now()))


def check_open(connection: sqlite3.Connection, run: str, ledger: str) -> str:
    """The dataset of a run that must be there and open."""
    known = LedgerRows(connection, ledger).known_run(run)
    if known.closed:
        raise LedgerError(f"run {run} was closed at {known.closed}; it cannot be resumed, start a new run")
    return known.dataset


def _token(connection: sqlite3.Connection, run: str) -> str | None:
    row = connection.execute(
        "SELECT token FROM token WHERE run = ? ORDER BY number DESC LIMIT 1", (run,)
    ).fetchone()
    return None if row is None else str(row[0])


def _seals(connection: sqlite3.Connection, run: str, ledger: str) -> RunSeals:
    token = _token(connection, run)
    secret = connection.execute("SELECT secret FROM secret WHERE run = ?", (run,)).fetchone()
    if token is None or secret is None:
        raise LedgerError(
            f"run {run} has no journal that this ledger knows (it had no output folder, or an older openprior began "
            "it); it cannot be resumed: close it with 'openprior ledger close' and start a new run"
        )
    read = LedgerRows(connection, ledger).secret
    rows = connection.execute("SELECT seq, digest, key FROM outcome WHERE run = ?", (run,))
    outcomes = {seq: Seal(read(digest), read(key)) for seq, digest, key in rows}
    return RunSeals(read(token), read(secret[0]), outcomes)
