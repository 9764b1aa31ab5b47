"""What becomes of a value on its way into a column: it fits, is clipped, is not listed, cannot be read, is missing.

A *fate* says that for one row and one column, before the column's own policy (clip, open ends, other, error) hides it:
the same six whatever the policy, and for bins also whether a value that fits lies in the first or the last one. It is a
column itself, so that fates can be counted like anything else, by the curator too: it has a code for each row that
depends on that row's value alone.

>>> from openprior.schema.bins import Integer
>>> children = Fate.of_column(Integer(name="children", low=0, high=6, out_of_domain="clip"))
>>> children.reads, children.labels[BELOW:]
('children', ('below', 'above', 'not listed', 'unreadable', 'missing'))
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from openprior.schema.bins import Binned
from openprior.schema.columns import Column, Labelled, free_label

if TYPE_CHECKING:
    from openprior.schema.base import Schema

__all__ = [
    "ABOVE",
    "BELOW",
    "FATES",
    "FIRST",
    "INSIDE",
    "LAST",
    "MISSING",
    "OUTSIDE",
    "UNLISTED",
    "UNREADABLE",
    "Fate",
    "declared",
    "effect",
    "fates_only",
    "hidden",
    "outside_of",
    "with_fates",
]

FATES = ("inside", "first", "last", "below", "above", "not listed", "unreadable", "missing")
"""By code. `first` and `last` fit, too, in the outer bins; `unreadable` is text that is no number or no date."""
INSIDE, FIRST, LAST, BELOW, ABOVE, UNLISTED, UNREADABLE, MISSING = range(len(FATES))
OUTSIDE = (BELOW, ABOVE, UNLISTED, UNREADABLE)
"""The fates of values that the column cannot hold as they are."""


@dataclass(frozen=True, kw_only=True)
class Fate(Column):
    """The fates of another column's values; made here, never declared in a file."""

    kind: ClassVar[str] = "fate"
    of: Column

    @staticmethod
    def of_column(column: Column, taken: tuple[str, ...] = ()) -> "Fate":
        """The fates of a column, under a name that is not taken."""
        return Fate(name=free_label(f"fate of {column.name}", taken), of=column)

    @property
    def reads(self) -> str:
        return self.of.name

    @property
    def count(self) -> int:
        return len(FATES)

    @property
    def value_labels(self) -> tuple[str, ...]:
        return FATES

    @property
    def probe(self) -> Column:
        """The column without a policy: what it cannot hold is refused, each for its reason."""
        return replace(self.of, out_of_domain="error", other=False, missing=True)

    @property
    def has_bins(self) -> bool:
        """Whether there are a first and a last bin."""
        return isinstance(self.of, Binned) and self.of.count > 1


def with_fates(schema: "Schema") -> tuple["Schema", dict[str, Fate]]:
    """The schema with the fates of its columns after them, and these by column."""
    fates = _fates(schema, (*schema.names, *schema.levels))
    return replace(schema, columns=(*schema.columns, *fates.values())), fates


def fates_only(schema: "Schema") -> tuple["Schema", dict[str, Fate]]:
    """The schema of the fates alone, which no table can fail to fit, and these by column."""
    fates = _fates(schema, ())
    return replace(schema, columns=tuple(fates.values()), hierarchies=()), fates


def _fates(schema: "Schema", names: tuple[str, ...]) -> dict[str, Fate]:
    """The fates by column, under names that are not among these, nor that of the person id."""
    taken = names if schema.person_id is None else (*names, schema.person_id)
    return {column.name: Fate.of_column(column, taken) for column in schema.columns}


def declared(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns that a person declared: fates stand for their own."""
    known = {c.name: c for c in (c.of if isinstance(c, Fate) else c for c in columns)}
    return tuple(known.values())


def outside_of(column: Column) -> tuple[int, ...]:
    """The fates outside that values of this column can have."""
    if isinstance(column, Binned):
        return BELOW, ABOVE, UNREADABLE
    return (UNLISTED, UNREADABLE) if isinstance(column, Labelled) and column.is_numeric else (UNLISTED,)


def hidden(column: Column) -> tuple[int, ...]:
    """Those that a table can have without being refused.

    >>> from openprior.schema.columns import Categorical
    >>> hidden(Categorical(name="sex", values=("F", "M")))
    ()
    """
    return tuple(fate for fate in outside_of(column) if effect(column, fate) != "refused")


def effect(column: Column, fate: int) -> str:
    """In words, what the column's policy makes of a value with this fate.

    >>> from openprior.schema.bins import Integer
    >>> effect(Integer(name="children", low=0, high=6, out_of_domain="clip", missing=True), ABOVE)
    'clipped to 6'
    """
    policy = column.out_of_domain
    if fate in (BELOW, ABOVE) and policy in ("clip", "open"):
        assert isinstance(column, Binned)
        if policy == "clip":
            return f"clipped to {column.low if fate == BELOW else column.high}"
        return f"in '{column.labels[0 if fate == BELOW else column.count - 1]}'"
    if fate == MISSING:
        return "missing" if column.missing else "other" if column.other else "refused"
    if fate == UNREADABLE and policy in ("clip", "open"):
        return "other" if column.other else "missing" if column.missing else "refused"
    if fate == UNLISTED and policy == "clip":
        return "moved to the nearest listed value"
    if fate in OUTSIDE:
        return "other" if policy == "other" else "refused"
    return "kept"
