"""How often a private table was refused for what is in it.

A refusal costs no ρ, and yet it tells something: "column income has values outside its bins" answers a question about
the largest income, and whoever asks again with other bins can find it by halves. Such answers cannot be charged, as no
noise is in them; so they are counted. Past a few, the next session must say that it knows (`acknowledge_refusals`),
before a private row is read. A refusal is on the disk before its message is shown.
"""

import sqlite3
from datetime import UTC, datetime

from openprior.errors import LedgerError
from openprior.privacy.ledger_file import LedgerFile

__all__ = ["REFUSALS", "RefusalBook", "check_refusals", "now", "refusals_of"]

REFUSALS = 3
"""So many refusals since the last acknowledgement are let pass."""


class RefusalBook(LedgerFile):
    """The part of a ledger that counts refusals."""

    def count_refusal(self, dataset: str) -> None:
        """One more; durable when this returns, and only then may anybody be told of it."""
        with self.transaction("IMMEDIATE") as connection:
            connection.execute("INSERT INTO refusal VALUES (NULL, ?, ?, NULL)", (dataset, now()))


def check_refusals(connection: sqlite3.Connection, dataset: str, acknowledge: bool) -> None:
    """Refuse a session after too many refusals, unless they are acknowledged, which is written down."""
    count = refusals_of(connection, dataset)
    if acknowledge and count:
        connection.execute(
            "UPDATE refusal SET acknowledged = ? WHERE dataset = ? AND acknowledged IS NULL", (now(), dataset)
        )
    elif count >= REFUSALS:
        raise LedgerError(
            f"dataset '{dataset}' was refused {count} times for what is in the table; each refusal tells a little "
            "about it without noise, and many together can tell a value. If nothing of them goes further, say so with "
            "--acknowledge-refusals (in Python acknowledge_refusals=True); out_of_domain and missing in the schema "
            "avoid refusals"
        )


def refusals_of(connection: sqlite3.Connection, dataset: str) -> int:
    """Refusals that nobody has acknowledged."""
    (count,) = connection.execute(
        "SELECT count(*) FROM refusal WHERE dataset = ? AND acknowledged IS NULL", (dataset,)
    ).fetchone()
    return int(count)


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
