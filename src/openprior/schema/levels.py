"""Coarser versions of a column: which state a PUMA lies in, which region a state.

A hierarchy names its level, the column (or level) below it, and how labels become parents: by the first
characters of the label, or by an explicit map. Missing and `other` keep parents of their own, so that no
row is lost on the way up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openprior.errors import SchemaError
from openprior.given import several, shown
from openprior.schema.columns import free_label

__all__ = ["Hierarchy", "Level", "Parents"]

# The parent level's name, its labels, and the parent code of each child code.
Parents = tuple[str, tuple[str, ...], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Level:
    """A level seen from the column at the bottom of its chain."""

    column: str
    labels: tuple[str, ...]
    codes: npt.NDArray[Any]
    """The level's code of each of the column's codes."""


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """One level up: `prefix` characters of the label, or a `map` of (child label, parent label) pairs."""

    name: str
    column: str
    prefix: int | None = None
    map: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for what in ("name", "column"):
            if not isinstance(getattr(self, what), str):
                raise SchemaError(f"a hierarchy's {what} is {shown(getattr(self, what))}; use a text")
        pairs = several(f"the map of hierarchy '{self.name}'", self.map, error=SchemaError)
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise SchemaError(
                f"the map of hierarchy '{self.name}' has something other than pairs; list (child, parent) for each"
            )
        object.__setattr__(self, "map", tuple((str(child), str(parent)) for child, parent in pairs))
        if (self.prefix is None) == (not self.map):
            raise SchemaError(f"hierarchy '{self.name}' needs a prefix or a map; give one of them")
        if self.prefix is not None and (type(self.prefix) is not int or self.prefix < 1):
            raise SchemaError(
                f"hierarchy '{self.name}' has prefix = {shown(self.prefix)}; use at least 1 character"
            )
        if len(dict(self.map)) != len(self.map):
            raise SchemaError(f"hierarchy '{self.name}' maps a label twice; map each once")

    def parents(self, values: Sequence[str], extras: Sequence[str]) -> Parents:
        """The level above these labels; `extras` (other, missing) follow and keep their own."""
        mapped = dict(self.map)
        if self.map:
            for label in values:
                if label not in mapped:
                    of = f"label '{label}' of '{self.column}'"
                    raise SchemaError(f"hierarchy '{self.name}' has no parent for {of}; add it to the map")
        above = [mapped[v] if self.map else v[: self.prefix] for v in values]
        labels = tuple(dict.fromkeys(above))
        code = {label: i for i, label in enumerate(labels)}
        codes = [code[label] for label in above]
        for extra in extras:
            codes.append(len(labels))
            labels += (free_label(extra, labels),)
        return self.name, labels, np.array(codes, dtype=np.int64)
