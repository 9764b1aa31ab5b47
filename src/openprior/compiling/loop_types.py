"""The types of a loop's arguments as words: `int64`, `uint16[2]` for an array of two axes, `name(...)` for a tuple.

An array is contiguous in C order and may be written, unless `uint16[2,A]` or `float64[1,readonly]` says otherwise. A
named tuple is spelled with its module, a plain one is called `tuple`.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["read_types", "spell_type"]

_WORD = re.compile(r"(?P<tuple>[\w.:]+)\(|(?P<end>\))|(?P<of>\w+)\[(?P<axes>\d),?(?P<how>\w*)\]|(?P<plain>\w+)")


def spell_type(kind: Any) -> str:
    """A numba type in words that `read_types` reads."""
    from numba.core import types

    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        name = "tuple" if named is None else f"{named.__module__}:{named.__qualname__}"
        return f"{name}({' '.join(spell_type(inner) for inner in kind)})"
    if isinstance(kind, types.Array):
        how = ("" if kind.layout == "C" else kind.layout) or ("" if kind.mutable else "readonly")
        return f"{kind.dtype}[{kind.ndim}{',' if how else ''}{how}]"
    if isinstance(kind, types.Number | types.Boolean):
        return str(kind)
    raise TypeError(f"a loop takes arrays, numbers and tuples of these, not {kind}")


def read_types(words: str) -> tuple[Any, ...]:
    """The numba types that the words spell."""
    return tuple(_read(_WORD.finditer(words)))


def _read(found: Iterator[re.Match[str]]) -> list[Any]:
    from numba.core import types

    kinds: list[Any] = []
    for word in found:
        if word["end"]:
            break
        if word["tuple"]:
            kinds.append(_tuple(word["tuple"], _read(found)))
        elif word["of"]:
            readonly = word["how"] == "readonly"
            layout = "C" if readonly else word["how"] or "C"
            kinds.append(types.Array(_plain(word["of"]), int(word["axes"]), layout, readonly=readonly))
        else:
            kinds.append(_plain(word["plain"]))
    return kinds


def _plain(name: str) -> Any:
    from numba.core import types

    return types.boolean if name == "bool" else getattr(types, name)


def _tuple(name: str, inner: list[Any]) -> Any:
    from numba.core import types

    if name == "tuple":
        return types.Tuple(inner)
    module, _, named = name.partition(":")
    made_by = getattr(importlib.import_module(module), named)
    return types.NamedTuple(inner, made_by)
