"""JSON that says one thing: read so that no two programs could understand it differently.

Python's reader takes the last of two equal keys, knows NaN and Infinity, and makes infinity of 1e999. In what proves a
promise each of these is a way to say one thing and mean another, so all are refused; so is text that no file can hold.

>>> parse_json('{"epsilon": 1.0}')
{'epsilon': 1.0}
>>> parse_json('{"epsilon": 1.0, "epsilon": 9.0}')
Traceback (most recent call last):
    ...
ValueError: the key 'epsilon' stands there twice
"""

import json
import math
from collections import Counter
from typing import Any

__all__ = ["parse_json"]

_DEEPEST = 100
"""Lists and records within each other; nothing that is written here has ten."""


def parse_json(text: str | bytes) -> Any:
    """What the text says; a ValueError, always, if it is not plain JSON."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_record, parse_constant=_constant, parse_float=_number, parse_int=_whole
        )
        _check(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, at line {error.lineno}") from None
    except UnicodeError:
        raise ValueError("it is not UTF-8") from None
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply, or too large") from None
    return value


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {_short(max(times, key=times.__getitem__))} stands there twice")
    return record


def _constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{_short(digits)} is too large a number")
    return value


def _whole(digits: str) -> int:
    # Python refuses to read more than some thousand digits, in words of its own.
    if len(digits) > 400:
        raise ValueError("a whole number has too many digits")
    return int(digits)


def _check(value: Any) -> None:
    """Not too deep, and every text can be written again: half a surrogate pair cannot."""
    level = [value]
    for _ in range(_DEEPEST):
        texts: list[str] = []
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                texts.append(item)
            elif isinstance(item, dict):
                texts += item
                below += item.values()
            elif isinstance(item, list):
                below += item
        "".join(texts).encode()
        if not below:
            return
        level = below
    raise RecursionError


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…").encode(errors="replace").decode()
