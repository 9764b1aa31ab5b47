"""Reading JSON with suspicion: exact types, in range, nothing missing and nothing unknown.

What is read here decides what a certificate is worth, so nothing is converted on the way: True is no 1, "1" is no 1,
1.9 is no count, and a number that is not finite is none.

>>> record = Record({"draws": 2, "epsilon": 0.5}, "a selection")
>>> record.whole("draws", least=1), record.number("epsilon")
(2, 0.5)
>>> record.end()
>>> Record({"draws": True}, "a selection").whole("draws", least=1)
Traceback (most recent call last):
    ...
openprior.errors.PrivacyError: a selection: draws must be a whole number of at least 1
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

from openprior.errors import PrivacyError

__all__ = ["Record"]

_MOST = 2**63 - 1
"""Of whole numbers: nothing that is counted has more."""


class Record:
    """One JSON object, read field by field; `end` refuses what nobody asked for."""

    def __init__(self, values: object, what: str) -> None:
        if not isinstance(values, Mapping) or not all(type(key) is str for key in values):
            raise PrivacyError(f"{what} is no record with named fields")
        self.what = what
        self._left: dict[str, object] = dict(values)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that nobody has read yet."""
        return tuple(self._left)

    def text(self, name: str, *choices: str) -> str:
        """A text; one of these, if any are given."""
        value = self._take(name)
        if type(value) is not str or (choices and value not in choices):
            raise self._wrong(name, f"one of {', '.join(choices)}" if choices else "a text")
        return value

    def whole(self, name: str, *, least: int = 0) -> int:
        """A whole number."""
        value = self._take(name)
        if type(value) is not int or not least <= value <= _MOST:
            raise self._wrong(name, f"a whole number of at least {least}")
        return value

    def number(self, name: str, *, zero: bool = False) -> float:
        """A finite number above 0, or from 0 on; JSON may have written it without a point."""
        value = self._take(name)
        if type(value) not in (int, float) or not (0 <= value <= sys.float_info.max):  # type: ignore[operator]
            raise self._wrong(name, "a finite number that is not negative")
        if value == 0 and (not zero or math.copysign(1, value) < 0):
            raise self._wrong(name, "0 without a sign, or above 0" if zero else "above 0")
        return float(value)  # type: ignore[arg-type]

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers from 0 on."""
        value = self.items(name)
        for number in value:
            if type(number) not in (int, float) or not (0 <= number <= sys.float_info.max):
                raise self._wrong(name, "a list of finite numbers that are not negative")
        return tuple(map(float, value))

    def texts(self, name: str, *, repeated: bool = False) -> tuple[str, ...]:
        """A list of texts, all different unless they may be repeated."""
        value = self.items(name)
        if not all(type(v) is str for v in value) or (len(set(value)) < len(value) and not repeated):
            raise self._wrong(name, "a list of texts" if repeated else "a list of different texts")
        return tuple(value)

    def wholes(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers from 0 on."""
        value = self.items(name)
        if not all(type(v) is int and 0 <= v <= _MOST for v in value):
            raise self._wrong(name, "a list of whole numbers")
        return tuple(value)

    def mark(self, name: str) -> bool:
        """Whether the field is there; then it must be true, as what is not so is not written."""
        if name not in self:
            return False
        if self._take(name) is not True:
            raise self._wrong(name, "true, or left out")
        return True

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self._take(name)
        if type(value) is not list:
            raise self._wrong(name, "a list")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """Named things of any kind."""
        value = self._take(name)
        if type(value) is not dict:
            raise self._wrong(name, "a record")
        return value

    def record(self, name: str) -> "Record":
        """A record within."""
        return Record(self._take(name), f"{self.what}: {name}")

    def end(self) -> None:
        """Raise if there is more than was read."""
        if self._left:
            raise PrivacyError(f"{self.what}: unknown field {', '.join(map(repr, sorted(self._left)))}")

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise PrivacyError(f"{self.what}: {name} is missing")
        return self._left.pop(name)

    def _wrong(self, name: str, must: str) -> PrivacyError:
        return PrivacyError(f"{self.what}: {name} must be {must}")
