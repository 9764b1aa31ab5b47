"""Failures that tell something about the private table: counted before anybody learns of them."""

from collections.abc import Callable
from typing import TypeVar

from openprior.privacy.ledger import Ledger

__all__ = ["Refusal", "counted"]

T = TypeVar("T")


class Refusal:
    """Counts that the table was refused: once in a session, however many steps fail by it."""

    def __init__(self, book: Ledger, dataset: str) -> None:
        self._book, self._dataset, self._counted = book, dataset, False

    def __call__(self) -> None:
        if not self._counted:
            self._book.count_refusal(self._dataset)
            self._counted = True


def counted(act: Callable[[], T], on_refusal: Callable[[], None] | None) -> T:
    """What `act` gives. If it fails, in whatever way, `on_refusal` is told first: that the table cannot be read to its
    end is a fact about it as well."""
    refused: Exception
    try:
        return act()
    except Exception as error:  # noqa: BLE001  (of any kind, see above)
        refused = error
    # Outside the handler: if it cannot be counted, Python would show it as what was being handled then.
    if on_refusal is not None:
        on_refusal()
    raise refused
