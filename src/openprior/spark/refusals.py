"""A refusal on its way from an executor to the driver.

It travels as data: raised on an executor it would be tried again and printed with its surroundings. Errors that are not
openprior's own keep only their class, as their words may quote a row.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from openprior import errors
from openprior.errors import OpenPriorError, SourceError

__all__ = ["Guarded", "refusal"]


class Guarded:
    """A generator's items up to its end or its refusal; any other error is raised anew, without its words."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make
        self.refusal = b""

    def __iter__(self) -> Iterator[Any]:
        kind = ""
        try:
            yield from self._make()
        except OpenPriorError as error:
            self.refusal = json.dumps([type(error).__name__, str(error)]).encode()
        except Exception as error:  # noqa: BLE001  (whatever it is, its words may quote a row)
            kind = type(error).__name__
        if kind:
            raise RuntimeError(f"openprior: {kind} on an executor")


def refusal(packed: bytes) -> OpenPriorError:
    """The error that an executor met."""
    kind, message = json.loads(packed)
    error: OpenPriorError = getattr(errors, kind, SourceError)(message)
    return error
