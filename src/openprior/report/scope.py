"""What the schema can say: what a column can tell at all, and where the values inside its bins came from.

A reader must see what could get lost before any noise: a value beyond the bounds that was moved to the nearest end, one
that became "other", a bin inside which nothing is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openprior.display import listed
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.summary import ColumnSummary, summary_of

__all__ = ["Scope", "ScopeRow", "scope_of"]

_MOVING = "clip"


@dataclass(frozen=True)
class ScopeRow:
    """One column."""

    column: ColumnSummary
    inside: str
    """Where the values inside its bins came from; empty where it has none."""


@dataclass(frozen=True)
class Scope:
    """All columns, and what to be wary of."""

    rows: tuple[ScopeRow, ...]
    clipped: tuple[str, ...]
    """Columns whose ends also hold what lies beyond them."""
    uniform: tuple[str, ...]
    """Columns with a bin inside which values are spread evenly."""

    @property
    def knows_inside(self) -> bool:
        """Whether any column says where the values inside its bins came from."""
        return any(row.inside for row in self.rows)

    @property
    def clipped_text(self) -> str:
        """Their names."""
        return listed(list(self.clipped), 8)

    @property
    def uniform_text(self) -> str:
        """Their names."""
        return listed(list(self.uniform), 8)


def scope_of(schema: Schema, inside: Mapping[str, Mapping[str, Any]]) -> Scope:
    """All columns in order; `inside` has, by column, how many bins got their values from where."""
    return Scope(
        rows=tuple(ScopeRow(summary_of(c), _inside(inside.get(c.name, {}))) for c in schema.columns),
        clipped=tuple(c.name for c in schema.columns if c.out_of_domain == _MOVING and isinstance(c, Binned)),
        uniform=tuple(name for name, bins in inside.items() if bins.get("uniform")),
    )


def _inside(bins: Mapping[str, Any]) -> str:
    """How many bins, by where their values came from.

    >>> _inside({"public": 30, "uniform": 2})
    '30 bins from public rows, 2 bins spread evenly'
    """
    words = {"public": "from public rows", "uniform": "spread evenly"}
    return ", ".join(
        f"{count:,} bin{'' if count == 1 else 's'} {words.get(source, source)}"
        for source, count in bins.items()
        if count
    )
