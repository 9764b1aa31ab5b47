"""How the files' text is written: the encoding and the separator of a CSV, and how numbers, dates and gaps are spelled.

It is public knowledge like the rest of the schema, and kept with it, so that every command reads the public and the
private files alike. What a text becomes under it still depends on that text alone.

>>> Reading(decimal=",", thousands=".").is_plain
False
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from openprior.errors import SchemaError
from openprior.given import several, shown, text_of
from openprior.schema.columns import BLANKS, numbers_among

__all__ = ["PLAIN", "Reading", "date_parts"]

_DATES = frozenset("YymdbB")
_TIMES = frozenset("HIMSfpz")
_DIRECTIVES = ", ".join(f"%{letter}" for letter in "YymdbBHIMSfpz%")
_MARKS = r"[^\w+\-]"
"""What may stand between the digits of a number: no digit, letter or sign."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How text is read. `encoding` and `delimiter` are about CSV files (`encoding` also about JSON lines); the others
    about every text that becomes a number, a date or a gap, wherever it comes from."""

    encoding: str = "utf-8"
    """A codec that Python knows, such as latin-1, cp1252 or utf-16."""
    decimal: str = "."
    """What stands before the decimals of a number."""
    thousands: str | None = None
    """What stands between groups of three digits; a blank stands for the unbreakable ones as well."""
    delimiter: str | None = None
    """What stands between the fields of a CSV; found in its header if not given."""
    date_format: str | None = None
    """How dates (or, where it has only times in it, times of day) are written, as for strptime; ISO if not given."""
    null_values: tuple[str, ...] = ()
    """Texts that mean missing in every column, beside the column's own `missing_values`; "-9" is also the number."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "null_values":
                self._take_nulls(value)
            elif not (isinstance(value, str) and value) and value is not field.default:
                raise _refusal(field.name, value, "give a text that is not empty")
            elif value is not None:
                text_of(field.name, value, error=SchemaError)
        if not _is_codec(self.encoding):
            raise _refusal("encoding", self.encoding, "use one that Python knows, such as latin-1 or utf-16")
        if codecs.lookup(self.encoding).name == "utf-8":
            object.__setattr__(self, "encoding", "utf-8")  # the usual one, however it is spelled
        for name in ("decimal", "thousands"):
            mark = getattr(self, name)
            if mark is not None and not re.fullmatch(_MARKS, mark):
                raise _refusal(name, mark, "use one sign such as , or .")
        if self.decimal == self.thousands or self.decimal in BLANKS:
            raise _refusal("decimal", self.decimal, "use a sign that is neither a blank nor the thousands'")
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n\0'
        ):
            raise _refusal("delimiter", self.delimiter, "use one plain character such as ; or a tab")
        if self.date_format is not None:
            _check_format(self.date_format)

    def _take_nulls(self, values: Any) -> None:
        values = several("null_values", values, error=SchemaError)
        if not all(isinstance(value, str) for value in values):
            raise _refusal("null_values", values, "list texts only")
        object.__setattr__(self, "null_values", tuple(dict.fromkeys(value.strip(BLANKS) for value in values)))

    @property
    def null_numbers(self) -> tuple[int | float, ...]:
        """The numbers among the texts that mean missing: -9 is one, however it is stored."""
        return numbers_among(self.null_values)

    @property
    def is_plain(self) -> bool:
        """Whether values are spelled as usual, whatever the file is like."""
        return self.has_plain_numbers and self.date_format is None and not self.null_values

    @property
    def has_plain_numbers(self) -> bool:
        """Whether numbers are spelled as usual."""
        return self.decimal == "." and self.thousands is None

    def entries(self) -> dict[str, object]:
        """What is not as usual, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @classmethod
    def of(cls, whole: "Reading | None", **parts: Any) -> "Reading":
        """What was given as a whole or in parts (None: not given), which must not be both."""
        parts = {name: value for name, value in parts.items() if value is not None}
        if whole is None:
            return cls(**parts)
        if not isinstance(whole, cls):
            raise SchemaError(f"reading is {shown(whole)}; give an openprior.Reading")
        if parts:
            raise SchemaError(f"{next(iter(parts))} is given beside a reading; put it into the reading")
        return whole

    @classmethod
    def from_entries(cls, entries: object) -> "Reading":
        """Of a document's table; strict."""
        if not isinstance(entries, Mapping):
            raise SchemaError("'reading' is not a table; write [reading] and its keys below")
        known = [field.name for field in fields(cls)]
        for key in entries:
            if key not in known:
                raise SchemaError(f"[reading] has the unknown key '{key}'; known are {', '.join(known)}")
        if "null_values" in entries and not isinstance(entries["null_values"], list):
            raise _refusal("null_values", entries["null_values"], "use a list")
        return cls(**entries)


def date_parts(date_format: str) -> tuple[bool, bool]:
    """Whether a format has a date in it, and whether it has a time."""
    letters = set(re.findall("%(.)", date_format, re.DOTALL))
    return bool(letters & _DATES), bool(letters & _TIMES)


def _check_format(date_format: str) -> None:
    letters = re.findall("%(.?)", date_format, re.DOTALL)
    for letter in letters:
        if letter not in _DATES | _TIMES | {"%"}:
            raise _refusal("date_format", date_format, f"the known parts are {_DIRECTIVES}")
    times = [letter for letter in letters if letter != "%"]
    if len(set(times)) < len(times):
        raise _refusal("date_format", date_format, "name each part once")
    held = set(letters)
    is_date, is_time = date_parts(date_format)
    whole_date = len(held & {"Y", "y"}) == len(held & {"m", "b", "B"}) == len(held & {"d"}) == 1
    if (is_date and not whole_date) or not (is_date or is_time):
        raise _refusal("date_format", date_format, "name one year, one month and one day, as in %d.%m.%Y")
    half = {"I", "p"} & held
    whole_time = {"M"} <= held and ("H" in held) != ("I" in held) and (not half or half == {"I", "p"})
    if is_time and not (whole_time and ("f" not in held or "S" in held) and (is_date or "z" not in held)):
        raise _refusal(
            "date_format", date_format, "name the hours and minutes of a time, as in %H:%M or %I:%M %p"
        )


def _is_codec(name: str) -> bool:
    """Whether Python has a codec from bytes to text under this name."""
    try:
        return "a".encode(name).decode(name) == "a"
    except (LookupError, ValueError, UnicodeError):
        return False


def _refusal(name: str, value: object, remedy: str) -> SchemaError:
    return SchemaError(f"how files are read has {name} = {shown(value)}; {remedy}")


PLAIN = Reading()
"""As usual: UTF-8, 1234.5 and 2018-06-30."""
