"""The rule by which one value becomes one code, written once more: slowly, in plain Python, a value at a time.

A raw value is what Arrow or Python holds: bytes for text of any layout, ticks for moments. It is first read (`read`) as
("null",), ("bool", value), ("number", value, precision), ("text", word), ("moment", µs, spelled), ("time", µs, spelled)
or ("none",), by its type alone; then the column says which code that is (`code_of`), and the schema's reading how a
text is spelled.
"""

import bisect
import datetime
import itertools
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np

from openprior.schema.bins import Binned, Datetime, Integer
from openprior.schema.columns import Boolean, Column, Labelled
from openprior.schema.reading_rules import PLAIN, Reading

BLANKS = " \t\n\r\v\f"
INT64 = range(-(2**63), 2**63)
DAY = 86_400_000_000
NULL, NONE = ("null",), ("none",)
REFUSED_VALUE, REFUSED_TEXT, REFUSED_NULL = "outside", "unparsed", "null"

Read = tuple[Any, ...]


def text(raw: bytes) -> Read:
    try:
        return ("text", raw.decode().strip(BLANKS))
    except UnicodeDecodeError:
        return ("text", "\N{REPLACEMENT CHARACTER}")


def whole(value: int) -> Read:
    if value in INT64:
        return ("number", value, np.float64)
    try:
        return ("number", float(value), np.float64)
    except OverflowError:
        return ("number", math.inf if value > 0 else -math.inf, np.float64)


def real(value: float, precision: Any = np.float64) -> Read:
    return NULL if math.isnan(value) else ("number", float(value), precision)


def decimal(value: Decimal) -> Read:
    if value.is_nan():
        return NULL
    if value.is_finite() and value == value.to_integral_value() and int(value) in INT64:
        return whole(int(value))
    return real(float(value))


def usual_number(word: str, reading: Reading) -> str:
    """The number as it is usually written, or a word that is none."""
    if reading.decimal == "." and reading.thousands is None:
        return word
    sign, rest = (word[0], word[1:]) if word[:1] in ("+", "-") else ("", word)
    if rest.lower() in ("inf", "infinity"):
        return word
    mantissa, e, power = rest.replace("E", "e").partition("e")
    whole, comma, fraction = mantissa.partition(reading.decimal)
    groups = [whole]
    if reading.thousands is not None:
        for blank in (
            "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}" if reading.thousands == " " else ""
        ):
            whole = whole.replace(blank, " ")
        groups = whole.split(reading.thousands)
    if len(groups) > 1 and (
        [len(g) for g in groups[1:]] != [3] * (len(groups) - 1) or not 1 <= len(groups[0]) <= 3
    ):
        return "none"
    digits = "".join(groups)
    if not all(c in "0123456789" for c in digits + fraction):
        return "none"
    return f"{sign}{digits}{'.' if comma else ''}{fraction}{e}{power}"


def usual_moment(word: str, reading: Reading, time_of_day: bool) -> str:
    """The date or time of day as ISO writes it, by Python's own strptime; or a word that is none."""
    how = reading.date_format
    if how is None or time_of_day == ("%d" in how):
        return word
    if not word.isascii() or (how == "%Y%m%d" and not re.fullmatch(r"\d{8}", word)):
        return "none"
    try:
        found = datetime.datetime.strptime(word, how)
    except ValueError:
        return "none"
    return found.time().isoformat() if time_of_day else found.isoformat()


def number_in(word: str, reading: Reading = PLAIN) -> int | float | None:
    word = usual_number(word, reading)
    if re.fullmatch(r"[+-]?[0-9]+", word):
        return int(word) if int(word) in INT64 else float(word)
    if re.fullmatch(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|(?i:inf|infinity))", word, re.ASCII):
        return float(word)
    return None


def moment_in(word: str) -> int | None:
    pattern = r"(\d{4})(-\d\d-\d\d)([ T](\d\d:\d\d)(:\d\d)?(?:(?<=:\d\d:\d\d)(\.\d+))?(Z|[+-]\d\d:?\d\d)?)?"
    found = re.fullmatch(pattern, word, re.ASCII)
    if not found:
        return None
    year, rest, _, minutes, seconds, fraction, zone = found.groups()
    # Python knows no year 0: four centuries later the calendar is the same.
    shift = 400 if int(year) < 400 else 0
    clock = f"{minutes or '00:00'}{seconds or ':00'}{(fraction or '')[:7]}"
    try:
        moment = datetime.datetime.fromisoformat(f"{int(year) + shift:04}{rest} {clock}")
    except ValueError:
        return None
    ticks = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    ticks -= DAY * 146_097 if shift else 0
    if zone and zone != "Z":
        hours, mins = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or mins > 59:
            return None
        ticks -= (1 if zone[0] == "+" else -1) * (hours * 60 + mins) * 60_000_000
    return ticks


def time_in(word: str) -> int | None:
    if not re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d+)?)?", word, re.ASCII):
        return None
    try:
        clock = datetime.time.fromisoformat(word[:15])
    except ValueError:
        return None
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond


def code_of(column: Column, value: Read, reading: Reading = PLAIN) -> int | str:
    """The code, or which of the three refusals."""
    if value[0] == "text" and (value[1] in column.missing_values or value[1] in reading.null_values):
        value = NULL
    if value == NULL:
        return _null(column)
    if isinstance(column, Datetime):
        return _datetime(column, value, reading)
    if isinstance(column, Labelled) and not column.is_numeric:
        return _label(column, value, reading)
    if value[0] == "text":
        parsed = number_in(value[1], reading)
        value = NONE if parsed is None else ("number", parsed, np.float64)
    if value[0] == "bool":
        value = whole(value[1])
    if value[0] != "number":
        return _unparsed(column)
    if _means_missing(column, *value[1:], reading):
        return _null(column)
    return _binned(column, *value[1:]) if isinstance(column, Binned) else _key(column, *value[1:])


def _null(column: Column) -> int | str:
    if column.missing_code is not None:
        return column.missing_code
    return REFUSED_NULL if column.other_code is None else column.other_code


def _means_missing(column: Column, number: int | float, precision: Any, reading: Reading) -> bool:
    """Whether missing_values or null_values have the number: 999 by "999" or "999.0", not by "0999"; ∞ by "inf"."""
    listed = []
    for token in (*column.missing_values, *reading.null_values):
        if token in ("inf", "-inf"):
            listed.append(float(token))
            continue
        try:
            listed.append(int(token) if token == str(int(float(token))) else float(token))
        except (ValueError, OverflowError):
            continue
        if token not in (str(listed[-1]), repr(float(token))):
            listed.pop()
    for each in listed:
        if isinstance(each, int) or each.is_integer():
            if number == int(each):
                return True
            continue
        with np.errstate(over="ignore"):
            near = float(np.float64(precision(each)))
        if near == float(number) and math.isinf(near) == math.isinf(each):
            return True
    return False


def _outside(column: Column) -> int | str:
    if column.other_code is None or column.out_of_domain == "error":
        return REFUSED_VALUE
    return column.other_code


def _unparsed(column: Column) -> int | str:
    if column.other_code is not None and column.out_of_domain != "error":
        return column.other_code
    if (
        column.out_of_domain in ("clip", "open")
        and column.other_code is None
        and column.missing_code is not None
    ):
        return column.missing_code
    return REFUSED_TEXT


def _datetime(column: Datetime, value: Read, reading: Reading) -> int | str:
    if value[0] == "text":
        word = usual_moment(value[1], reading, column.is_time)
        ticks = (time_in if column.is_time else moment_in)(word)
    else:
        ticks = value[1] if value[0] == ("time" if column.is_time else "moment") else None
    if ticks is None:
        return _unparsed(column)
    return _binned(column, ticks - ticks % column.grain, np.float64)


def _binned(column: Binned, number: int | float, precision: Any) -> int | str:
    low, high = column.bounds
    edges = [e.item() for e in column.edges] if column.bins else []
    if isinstance(low, float):
        number = float(number)
        with np.errstate(over="ignore"):
            low, high, *edges = (float(np.float64(precision(e))) for e in (low, high, *edges))
    if column.out_of_domain not in ("clip", "open") and not low <= number <= high:
        return _outside(column)
    number = min(max(number, low), high)
    if isinstance(column, Integer) and not column.bins:
        return math.floor(number) - column.low
    return bisect.bisect_right(edges[1:-1], number)


def _numbers_of(column: Labelled) -> dict[int | float, int]:
    """The numbers that labels are: "7" and "7.0" are 7, "07" is only text."""
    found: dict[int | float, int] = {}
    for code, label in enumerate(column.values):
        if isinstance(label, str):
            try:
                number: int | float = float(label)
            except ValueError:
                continue
            if not math.isfinite(number) or label not in (str(int(number)), repr(number)):
                continue
            if label == str(int(number)) or (number.is_integer() and abs(number) < 2**53):
                number = int(number)
            if label == str(number) or number not in found:
                found[number] = code
        else:
            found[int(label) if isinstance(label, bool) else label] = code
    return found


def _key(column: Labelled, number: int | float, precision: Any) -> int | str:
    keys = _numbers_of(column)
    if not keys:
        return _outside(column)
    real_keys = not all(isinstance(k, int) for k in keys)
    if column.out_of_domain == "clip":
        ordered = sorted(keys)
        if number in keys:
            return keys[number]
        places = [a / 2 + b / 2 for a, b in itertools.pairwise(ordered)]
        return keys[ordered[bisect.bisect_left(places, float(number))]]
    for key, code in keys.items():
        if real_keys:
            if float(np.float64(precision(key))) == number:
                return code
        elif key == number:
            return code
    return _outside(column)


def _label(column: Labelled, value: Read, reading: Reading) -> int | str:
    labels = column.value_labels
    if value[0] == "bool":
        if isinstance(column, Boolean):
            return int(value[1])
        truth = "true" if value[1] else "false"
        listed = [s for s in (truth, truth.capitalize(), truth.upper()) if s in labels]
        return labels.index(listed[0]) if listed else _key(column, int(value[1]), np.float64)
    if value[0] == "number":
        return _null(column) if _means_missing(column, *value[1:], reading) else _key(column, *value[1:])
    if value[0] == "none":
        return _outside(column)
    word = value[1] if value[0] == "text" else value[2]
    if isinstance(column, Boolean):
        lower = [label.lower() for label in labels]
        if word.lower() in lower:
            return lower.index(word.lower())
        number = number_in(word, reading)
        if number is None:
            return _outside(column)
        return (
            _null(column)
            if _means_missing(column, number, np.float64, reading)
            else _key(column, number, np.float64)
        )
    return labels.index(word) if word in labels else _outside(column)
