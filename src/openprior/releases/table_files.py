"""Tables of a release as files, Parquet or CSV, from which every value comes back as it was.

A CSV is UTF-8, with commas and one line of names. Texts stand in quotes and nothing else does, numbers have as many
digits as tell them from all others, and a missing value is nothing between two commas. So a text that is empty (`""`)
or reads `NA` is told from a missing value by whoever keeps to the quotes; readers that do not are warned of
(`check_format`).

In a table of one column a missing value would be an empty line, which many readers skip, and the row with it. There it
is written as `""`, and an empty text beside it is refused.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openprior.errors import OpenPriorWarning, OptionError, ReleaseError
from openprior.releases.parquet_files import write_parquet
from openprior.schema.columns import MISSING_TOKENS, Labelled, is_string

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.schema.base import Schema

__all__ = [
    "FORMATS",
    "check_format",
    "check_types",
    "csv_form",
    "csv_writer",
    "read_csv",
    "read_rows",
    "write_table",
]

FORMATS = ("parquet", "csv")

_BLOCK = 16 << 20
"""Bytes read at once; no line may be longer."""
_TAKEN_FOR_MISSING = ("n/a", "<NA>", "#N/A", "#NA", "-nan", "-NaN", *MISSING_TOKENS[:-1])
"""Texts that pandas reads as missing unless it is told not to."""


def check_format(format: str, schema: "Schema") -> None:
    """Refuse what a CSV cannot tell apart, and warn of what its readers may not; before anything is charged."""
    for column in schema.columns if format == "csv" else ():
        if not isinstance(column, Labelled) or not is_string(column.arrow):
            continue
        labels = column.value_labels
        if len(schema.columns) == 1 and "" in labels and _may_be_null(column):
            raise OptionError(
                f"column '{column.name}' is alone and has an empty text beside missing values, which a CSV of one "
                "column cannot tell apart; use the format parquet"
            )
        doubtful = [label for label in labels if label in _TAKEN_FOR_MISSING]
        if doubtful:
            listed = ", ".join(f"'{label}'" for label in doubtful[:3])
            warnings.warn(
                f"column '{column.name}' has the value {listed}, which some readers of CSV take for missing; in pandas "
                "say keep_default_na=False, na_values=[''], or use the format parquet",
                OpenPriorWarning,
                stacklevel=3,
            )


def write_table(table: "pa.Table", path: Path, format: str | None = None) -> None:
    """Write a table, in the format that the path ends in if not said; nothing is rounded and no text is changed."""
    from pyarrow import csv

    if (format or path.suffix.removeprefix(".")) == "parquet":
        write_parquet(table, path)
        return
    plain = _plain(table)
    if plain.num_columns == 1 and plain.column(0).null_count:
        _write_one(plain, path)
    else:
        csv.write_csv(plain, path)


@contextlib.contextmanager
def csv_writer(like: "pa.Table", path: Path) -> Iterator[Callable[["pa.Table"], None]]:
    """A function that appends tables like this one, of several columns, to a CSV."""
    from pyarrow import csv

    with csv.CSVWriter(path, _plain(like).schema) as writer:
        yield lambda table: writer.write_table(_plain(table))


def _plain(table: "pa.Table") -> "pa.Table":
    """The table in types that a CSV can have: no dictionaries, text views or half floats."""
    import pyarrow as pa

    def plain(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        return column.cast(_readable(kind))

    return pa.table([plain(column) for column in table.columns], names=table.column_names)


def _write_one(table: "pa.Table", path: Path) -> None:
    """A single column with missing values, each of which is `""`."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    column = table.column(0)
    if is_string(column.type):
        csv.write_csv(table.set_column(0, table.column_names[0], pc.fill_null(column, "")), path)
        return
    lines = pc.fill_null(column.cast(pa.large_string()), '""').to_pylist()
    with path.open("wb") as file:
        csv.write_csv(table.slice(0, 0), file)
        file.write("".join(f"{line}\n" for line in lines).encode())


def read_csv(path: Path, types: Mapping[str, Any], *, quoted_null: bool = False) -> "pa.Table":
    """The table that `write_table` wrote as CSV, in these types; `quoted_null`: `""` is a missing value."""
    import pyarrow as pa
    from pyarrow import csv

    rows = csv.read_csv(path, **_csv_options(types, quoted_null=quoted_null))
    wanted = [(name, types.get(name, rows.schema.field(name).type)) for name in rows.column_names]
    return rows.cast(pa.schema(wanted))


def _csv_options(types: Mapping[str, Any], *, quoted_null: bool) -> dict[str, Any]:
    """How a CSV of ours is read."""
    from pyarrow import csv

    return {
        "read_options": csv.ReadOptions(block_size=_BLOCK),
        "parse_options": csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        "convert_options": csv.ConvertOptions(
            column_types={name: _readable(kind) for name, kind in types.items()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_null,
            true_values=["true"],
            false_values=["false"],
        ),
    }


def read_rows(path: Path, schema: "Schema") -> "pa.Table":
    """Synthetic rows in the types of their schema; from Parquet, which knows its own, as it has them."""
    from pyarrow import parquet

    if path.suffix == ".parquet":
        return parquet.ParquetFile(path).read()
    return read_csv(path, {c.name: c.arrow for c in schema.columns}, quoted_null=_quotes_null(schema))


def csv_form(schema: "Schema") -> tuple["pa.Schema", Any]:
    """The types that rows have in a CSV, and how such files are read, for datasets."""
    import pyarrow as pa
    import pyarrow.dataset as pads

    types = {c.name: c.arrow for c in schema.columns}
    form = pa.schema([(name, _readable(kind)) for name, kind in types.items()])
    return form, pads.CsvFileFormat(**_csv_options(types, quoted_null=_quotes_null(schema)))


def check_types(found: "pa.Schema", form: "pa.Schema") -> None:
    """Raise unless synthetic rows have these columns and types."""
    import pyarrow as pa

    if found.names != form.names:
        raise ReleaseError("its synthetic rows have other columns than its schema")
    for column, wanted in zip(found, form, strict=True):
        # Parquet has no seconds and no date64: those come back finer, as other times. Nor has it two kinds of text.
        is_time = pa.types.is_temporal(column.type) and pa.types.is_temporal(wanted.type)
        are_texts = pa.types.is_dictionary(column.type) and pa.types.is_dictionary(wanted.type)
        if column.type != wanted.type and not is_time and not are_texts:
            raise ReleaseError("its synthetic rows have other types than its schema")


def _quotes_null(schema: "Schema") -> bool:
    """Whether a missing value is written as `""`."""
    return len(schema.columns) == 1 and _may_be_null(schema.columns[0])


def _readable(kind: Any) -> Any:
    """A type that Arrow writes to CSV and reads from it, and that becomes this one without loss."""
    import pyarrow as pa

    if is_string(kind):
        return pa.large_string()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _may_be_null(column: Any) -> bool:
    """Whether decoding gives nulls: for missing, and for `other` where that is no text."""
    return bool(column.size > column.count)
