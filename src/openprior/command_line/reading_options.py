"""Options on how text is written in the files, for commands that draft a schema."""

import shlex
from typing import Annotated, Any

import typer

__all__ = ["DateFormat", "Decimal", "Delimiter", "Encoding", "NullValues", "Thousands", "as_words", "reading"]

_TAB = ("tab", r"\t")

Encoding = Annotated[str | None, typer.Option(help="Of CSV and JSON files: latin-1, cp1252, utf-16 …")]
Decimal = Annotated[str | None, typer.Option(help="What stands before decimals, such as a comma.")]
Thousands = Annotated[str | None, typer.Option(help="What stands between groups of three digits.")]
Delimiter = Annotated[str | None, typer.Option(help="Of CSV files; found in the header if not given.")]
DateFormat = Annotated[str | None, typer.Option(help="How dates are written, such as %d.%m.%Y.")]
NullValues = Annotated[
    list[str] | None, typer.Option(help="A text that means missing in every column; repeatable.")
]


def reading(
    encoding: str | None,
    decimal: str | None,
    thousands: str | None,
    delimiter: str | None,
    date_format: str | None,
    null_values: list[str] | None,
) -> Any:
    """What the options say together; None if none is given."""
    from openprior.schema.reading_rules import Reading

    given = {
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "delimiter": "\t" if delimiter in _TAB else delimiter,
        "date_format": date_format,
        "null_values": null_values or None,
    }
    return Reading.of(None, **given) if any(value is not None for value in given.values()) else None


def as_words(reading: Any) -> str:
    """The options that say the same, with a blank before each."""
    words = ""
    for name, value in ({} if reading is None else reading.entries()).items():
        for text in value if isinstance(value, tuple) else (value,):
            words += f" --{name.replace('_', '-')}={shlex.quote(text)}"
    return words
