"""What an option may be, by the type that its mechanism declares: checked before the mechanism looks at its range.

Numbers of NumPy become Python's own, and lists become tuples, because options are written into certificates as JSON.
"""

import types
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from openprior.errors import OptionError
from openprior.given import finite_number, several, shown, whole_number

__all__ = ["fit_options"]

_WORDS: dict[Any, str] = {str: "a text", bool: "True or False"}


def fit_options(mechanism: Any) -> None:
    """Make every option of a mechanism what it is declared to be, or raise an OptionError."""
    kinds = get_type_hints(type(mechanism))
    for option in fields(mechanism):
        value, read = getattr(mechanism, option.name), option.metadata.get("read")
        fitted = _fitted(option.name, kinds[option.name], value if read is None else read(value))
        object.__setattr__(mechanism, option.name, fitted)


def _fitted_part(name: str, kind: Any, value: Any) -> Any:
    """One of several: where each is itself a list of names, one name alone stands for a list of one."""
    inner = get_origin(kind) is tuple and isinstance(value, str)
    return _fitted(name, kind, (value,) if inner else value)


def _fitted(name: str, kind: Any, value: Any) -> Any:
    parts = get_args(kind)
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        (kind,) = (part for part in parts if part is not types.NoneType)
        return _fitted(name, kind, value)
    if get_origin(kind) is tuple:
        return tuple(_fitted_part(name, parts[0], part) for part in several(name, value))
    if kind is int:
        return whole_number(name, value)
    if kind is float:
        return finite_number(name, value)
    if kind is bool and isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, str) and kind not in _WORDS:
        from openprior.methods.mechanism_text import mechanism_from

        value = mechanism_from(value)
    if not isinstance(value, kind):
        word = _WORDS.get(kind, "a mechanism; give an instance such as openprior.Mst(), or its name")
        raise OptionError(f"{name} ({shown(value)}) must be {word}")
    return value
