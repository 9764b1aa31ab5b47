"""A first schema from the public table: guess each column's kind, labels and bins for a person to correct.

One pass counts the distinct values of every column (`drafting/distinct.py`); everything else is decided on those
counts, a column at a time (`drafting/guess.py`). Only public data may come here: domains, labels and bin edges taken
from private data would be released without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from openprior.errors import SchemaError
from openprior.given import flag, several, shown, text_of, whole_number
from openprior.schema.columns import Column
from openprior.schema.drafting.categories import Drafted
from openprior.schema.drafting.distinct import Options, count_columns
from openprior.schema.drafting.guess import draft_column
from openprior.schema.drafting.observed import observed
from openprior.schema.drafting.remarks import joined, left_out
from openprior.schema.identifiers import Remark, is_named_like_identifier, remark_on
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.source import Source, open_source

__all__ = ["Draft", "draft_columns"]

_MOST = 1_000_000  # bins or values of a column


@dataclass(frozen=True)
class Draft:
    """Columns, and what a person should know of them and of those that are left out."""

    columns: tuple[Column, ...]
    notes: dict[str, str]
    """By column, several remarks joined."""
    losses: tuple[str, ...]
    """The columns whose note is also a warning: something is lost or read wrongly unless somebody looks."""


def draft_columns(
    public: object,
    reading: Reading = PLAIN,
    *,
    bins: int,
    max_values: int,
    person_id: str | None,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
    other: bool = True,
) -> Draft:
    """The columns, and remarks on those that a person should look at; identifiers that are left out among them."""
    for option, number in (("bins", bins), ("max_values", max_values)):
        if not 1 <= whole_number(option, number, error=SchemaError) <= _MOST:
            raise SchemaError(f"{option} = {shown(number)}; use at least 1 and at most {_MOST:,}")
    options = Options(bins, max_values, flag("other", other), reading)
    exclude = several("exclude", exclude, error=SchemaError)
    include = several("include", include, error=SchemaError)
    source = open_source(public, reading=reading)
    names = _wanted(source, person_id, exclude, include)
    columns: list[Column] = []
    remarks: dict[str, list[Remark]] = {}
    for name, distinct in count_columns(source, names).items():
        # What a CSV has as text, and values of several types, are decoded to what they mean; a column that is stored as
        # text stays text.
        dtype = None if source.is_text or distinct.is_mixed else str(distinct.kind)
        drafted = draft_column(name, distinct, dtype, options)
        identity = _identity(drafted, distinct.table, source, options)
        said = list(drafted.remarks)
        if identity is not None and identity.leaves_out:
            if name not in include:
                remarks[name] = [identity]
                continue
        elif identity is not None:
            said.insert(0, identity)
        columns.append(drafted.column)
        if said:
            remarks[name] = said
    if not columns:
        raise SchemaError(
            f"every column of {source.name} looks like an identifier, so nothing is left to draft; take in what is "
            f'none: --include "{names[0]}", in Python include=["{names[0]}"]'
        )
    return Draft(
        tuple(columns),
        {name: joined(name, said) for name, said in remarks.items()},
        tuple(name for name, said in remarks.items() if any(remark.warns for remark in said)),
    )


def _wanted(
    source: Source, person_id: str | None, exclude: Sequence[str], include: Sequence[str]
) -> list[str]:
    """The columns to draft."""
    if person_id is not None and text_of("person_id", person_id, error=SchemaError) not in source.columns:
        raise SchemaError(
            f"{source.name} has no person id column '{person_id}'; it has {', '.join(source.columns)}"
        )
    for wish, listed in (("leave out", exclude), ("take in", include)):
        for name in listed:
            if not isinstance(name, str) or name not in source.columns:
                raise SchemaError(
                    f"{source.name} has no column {shown(name)} to {wish}; it has {', '.join(source.columns)}"
                )
    for name in include:
        if name in exclude or name == person_id:
            role = "the person id" if name == person_id else "left out"
            raise SchemaError(f"column '{name}' cannot be taken in and be {role} as well; choose one")
    names = [name for name in source.columns if name != person_id and name not in exclude]
    if not names:
        raise SchemaError(f"{source.name} has no column left to draft; leave fewer out")
    return names


def _identity(drafted: Drafted, table: pa.Table, source: Source, options: Options) -> Remark | None:
    """What to say of a column that may tell who a row is about, or that has more values than a list can."""
    name = drafted.column.name
    seen = observed(drafted.column, table, source, options.reading)
    remark = remark_on(seen, options.max_values)
    if remark is None or not remark.leaves_out or not drafted.is_measured or is_named_like_identifier(name):
        return remark
    # Amounts and dates that are read as text differ as names do, but they only want to be read otherwise.
    return left_out(drafted.remarks[0], name)
