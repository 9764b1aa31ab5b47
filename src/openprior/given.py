"""What callers hand over, looked at where it comes in: a wrong type is one line there, not a riddle from deep inside.

A message quotes numbers and short texts only. Anything else is called by its type, because what stands in the wrong
place may be the private table.
"""

import math
import numbers
import os
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from openprior.errors import OpenPriorError, OptionError

__all__ = [
    "choice",
    "finite_number",
    "flag",
    "path_of",
    "several",
    "shown",
    "text_of",
    "whole_number",
]

_LONGEST = 60


def shown(value: object) -> str:
    """A value as messages quote it.

    >>> shown(0.5), shown("équal"), shown([1]), shown(None)
    ('0.5', "'équal'", 'a list', 'None')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not (value is None or isinstance(value, str | numbers.Number | Decimal)):
        kind = type(value).__name__
        return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
    try:
        text = repr(value)
    except ValueError:  # Python does not spell out integers of thousands of digits
        return "a huge number"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def whole_number(
    name: str,
    value: Any,
    least: int | None = None,
    most: int | None = None,
    *,
    error: type[OpenPriorError] = OptionError,
) -> int:
    """The value as an int; true and false are none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or (least is not None and value < least)
        or (most is not None and int(value) > most)
    ):
        of = "" if least is None else f" of at least {least}"
        of += "" if most is None or not isinstance(value, numbers.Integral) else f" and at most {most:,}"
        raise error(f"{name} ({shown(value)}) must be a whole number{of}")
    return int(value)


def finite_number(name: str, value: Any, *, error: type[OpenPriorError] = OptionError) -> float:
    """The value as a float; true, false and NaN are none."""
    number = math.nan
    if isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise error(f"{name} ({shown(value)}) must be a finite number")
    return number


def choice(name: str, value: Any, *choices: str) -> str:
    """The value, which must be one of these texts."""
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{name} {shown(value)} is unknown; use {' or '.join(map(repr, choices))}")
    return value


def text_of(name: str, value: Any, *, error: type[OpenPriorError] = OptionError) -> str:
    """The value, which must be a text that a file can hold; half a surrogate pair cannot be written."""
    if not isinstance(value, str):
        raise error(f"{name} cannot be {shown(value)}; give a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise error(f"{name} {shown(value)} cannot be written as UTF-8; give another text") from None
    return value


def flag(name: str, value: Any) -> bool:
    """The value, which must be true or false; "no" is a text, and Python would take it for a yes."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} ({shown(value)}) must be True or False")
    return value


def path_of(what: str, value: Any, *, error: type[OpenPriorError] = OptionError) -> Path:
    """The value as a path, if a file could have it as a name."""
    if not isinstance(value, str | os.PathLike):
        raise error(f"{what} cannot be {shown(value)}; give a path")
    name = os.fspath(value)
    if not isinstance(name, str) or not _is_possible(name):
        raise error(f"{what} cannot be {shown(name)}, which no file can be called; give another path")
    return Path(name)


def _is_possible(name: str) -> bool:
    """Whether a file can have the name: elsewhere such names raise errors of many kinds."""
    try:
        lengths = [len(os.fsencode(part)) for part in Path(name).parts]
    except UnicodeEncodeError:
        return False
    return bool(name) and "\0" not in name and max(lengths, default=0) <= 255 and sum(lengths) < 4000


def several(what: str, value: Any, *, error: type[OpenPriorError] = OptionError) -> tuple[Any, ...]:
    """What a list, a tuple or the like holds; a text is no list of letters, and a table no list of its columns."""
    if isinstance(value, str):
        text = (
            f'"{value}"'
            if len(value) <= _LONGEST and value.isprintable() and '"' not in value
            else shown(value)
        )
        if what.isidentifier():
            raise error(f"{what}={text} is one text; write {what}=[{text}]")
        raise error(f"{what} cannot be the one text {text}; give a list, such as [{text}]")
    if isinstance(value, bytes) or not isinstance(value, Iterable) or hasattr(value, "__arrow_c_stream__"):
        raise error(f"{what} cannot be {shown(value)}; give a list")
    try:
        return tuple(value)
    except TypeError:  # an array of no dimension says that it can be gone through, and cannot
        raise error(f"{what} cannot be {shown(value)}; give a list") from None
