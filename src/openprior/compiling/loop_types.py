"""The types of a loop's arguments as words: `int64`, `uint16[2]` for an array of two axes, `name(...)` for a tuple.

An array is contiguous in C order and may be written, unless `uint16[2,A]` or `float64[1,readonly]` says otherwise. A
named tuple is spelled with its module, a plain one is called `tuple`.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["read_types", "spell_type"]

_WORD = re.compile(
    r"(?P<tuple>[\w.:]+)\(|(?P<end>\))|(?P<of>\w+)\[(?P<axes>\d)(?P<how>[,\w]*)\]|(?P<plain>\w+)"
)


def spell_type(kind: Any) -> str:
    """A numba type in words that `read_types` reads."""
    types = _numba_types()
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        name = "tuple" if named is None else f"{named.__module__}:{named.__qualname__}"
        return f"{name}({' '.join(spell_type(inner) for inner in kind)})"
    if isinstance(kind, types.Array):
        how = [kind.layout] * (kind.layout != "C") + ["readonly"] * (not kind.mutable)
        return f"{kind.dtype}[{','.join([str(kind.ndim), *how])}]"
    if isinstance(kind, types.Number | types.Boolean):
        return str(kind)
    raise TypeError(f"a loop takes arrays, numbers and tuples of these, not {kind}")


def read_types(words: str) -> tuple[Any, ...]:
    """The numba types that the words spell."""
    return tuple(_read(_WORD.finditer(words)))


def _read(found: Iterator[re.Match[str]]) -> list[Any]:
    kinds: list[Any] = []
    for word in found:
        if word["end"]:
            break
        if word["tuple"]:
            kinds.append(_tuple(word["tuple"], _read(found)))
        elif word["of"]:
            kinds.append(_array(word["of"], int(word["axes"]), word["how"].split(",")[1:]))
        else:
            kinds.append(_plain(word["plain"]))
    return kinds


def _numba_types() -> Any:
    """Loaded where it is used, because it takes half a second."""
    return importlib.import_module("numba.core.types")


def _array(of: str, axes: int, how: list[str]) -> Any:
    layout = next((word for word in how if word != "readonly"), "C")
    return _numba_types().Array(_plain(of), axes, layout, readonly="readonly" in how)


def _plain(name: str) -> Any:
    types = _numba_types()
    return types.boolean if name == "bool" else getattr(types, name)


def _tuple(name: str, inner: list[Any]) -> Any:
    types = _numba_types()
    if name == "tuple":
        return types.Tuple(inner)
    module, _, named = name.partition(":")
    made_by = getattr(importlib.import_module(module), named)
    return types.NamedTuple(inner, made_by)
