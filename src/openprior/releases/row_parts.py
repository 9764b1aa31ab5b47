"""Synthetic rows as many files, where they are too many for one table in memory.

The rows of a release are one table, and one file, as long as they have no more than a hundred million values. Beyond,
they are a folder of parts, `synthetic/part-00000.parquet` and so on, each written while it is drawn; whoever opens the
release has a dataset over these files, which other programs, Spark among them, read as one table. Parts are drawn by as
many threads as there are cores. Which rows are in which part does not depend on how many that are.

Texts are stored as dictionaries there, so that a program that knows them holds each text once.
"""

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.local import Tally
from openprior.counting.passes import Plan
from openprior.models.base import Model
from openprior.models.parts import part_streams
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.releases.parquet_files import parquet_writer
from openprior.releases.table_files import check_types, csv_form, csv_writer, write_table
from openprior.releases.view import RowCounts
from openprior.tables.decode import is_text
from openprior.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

    from openprior.schema.base import Schema
    from openprior.tables.decode import Decoder

__all__ = [
    "FOLDER",
    "all_rows",
    "column_values",
    "copy_parts",
    "draw_parts",
    "first_rows",
    "in_parts",
    "open_parts",
    "part_names",
    "rows_in",
]

FOLDER = "synthetic"

_ONE_FILE = 100_000_000
"""Values (rows × columns) that are kept in one table: about a gigabyte of texts and numbers."""
_PART, _BLOCK = 50_000_000, 10_000_000
"""Values of one part, at most, as codes in a byte or two each; and of a row group, which are decoded at once."""


def in_parts(rows: int, columns: int) -> bool:
    """Whether so many rows are written in parts."""
    return rows * columns > _ONE_FILE


def part_names(format: str, parts: int) -> list[str]:
    """The files of so many parts, in order.

    >>> part_names("parquet", 2)
    ['synthetic/part-00000.parquet', 'synthetic/part-00001.parquet']
    """
    return [f"{FOLDER}/part-{i:05}.{format}" for i in range(parts)]


def draw_parts(
    model: Model,
    decoder: "Decoder",
    rows: int,
    counted: Iterable[Marginal],
    rng: np.random.Generator,
    draft: Path,
    format: str,
) -> RowCounts:
    """Draw so many rows into files of this folder, and count these marginals of them on the way."""
    columns = len(model.domain)
    parts = -(-rows * columns // _PART)
    with phase("choosing rows"):
        draws = model.sample_parts(rows, parts, rng)
    streams = part_streams(rng, parts)
    plan = Plan(Cells(model.domain, counted), rows)
    tallies: queue.SimpleQueue[Tally] = queue.SimpleQueue()
    for _ in range(workers()):
        tallies.put(Tally(plan))
    paths = [draft / name for name in part_names(format, parts)]
    (draft / FOLDER).mkdir()

    with phase("drawing rows, part by part", parts) as work:

        def one(i: int) -> None:
            codes = draws[i]()
            tally = tallies.get()
            try:
                tally.add(codes.columns)
            finally:  # else another thread would wait for it for ever
                tallies.put(tally)
            generator = np.random.default_rng(streams[i])
            tables = (decoder.decode(block, generator, packed=True) for block in _blocks(codes))
            _write(tables, paths[i])
            work.advance()

        _all(one, parts)
    total = tallies.get()
    while not tallies.empty():
        other = tallies.get()
        total.tables += other.tables
        total.rows += other.rows
    return RowCounts(total.rows, plan.cells.split(total.counts()))


def _all(one: Callable[[int], None], parts: int) -> None:
    """Every part, on all cores; the first failure, or a stop, keeps those that have not begun from it."""
    pool = ThreadPoolExecutor(workers())
    try:
        for future in [pool.submit(one, i) for i in range(parts)]:
            future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _blocks(codes: Table) -> Iterator[Table]:
    size = max(_BLOCK // len(codes.domain), 1)
    for start in range(0, codes.n, size):
        yield Table(codes.domain, tuple(column[start : start + size] for column in codes.columns))


def _write(tables: Iterator["pa.Table"], path: Path) -> None:
    """Tables of the same form into one file, one after the other."""
    import pyarrow as pa

    first = next(tables)
    if path.suffix == ".csv" and first.num_columns == 1:  # where nulls need a look at the whole column
        write_table(pa.concat_tables([first, *tables]), path)
        return
    is_csv = path.suffix == ".csv"
    with csv_writer(first, path) if is_csv else parquet_writer(first.schema, path) as write:
        write(first)
        for table in tables:
            write(table)


def copy_parts(rows: "pads.Dataset", schema: "Schema", draft: Path, format: str) -> None:
    """Rows that are in parts, in files of this folder."""
    import pyarrow as pa

    form = _form(schema)

    def packed(batch: "pa.RecordBatch") -> "pa.Table":
        table = pa.Table.from_batches([batch])
        columns = [
            column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
            for column, field in zip(table.columns, form, strict=True)
        ]
        return pa.table(columns, names=form.names).cast(form)

    fragments = list(rows.get_fragments())
    (draft / FOLDER).mkdir()
    for name, fragment in zip(part_names(format, len(fragments)), fragments, strict=True):
        batches = fragment.to_batches(schema=rows.schema, batch_size=max(_BLOCK // len(rows.schema), 1))
        _write((packed(batch) for batch in batches if batch.num_rows), draft / name)


def open_parts(paths: Sequence[Path], schema: "Schema") -> "pads.Dataset":
    """The rows of these files, which must have the schema's columns; none is read yet."""
    import pyarrow.dataset as pads
    from pyarrow import parquet

    if paths[0].suffix == ".csv":
        form, kind = csv_form(schema)
        return pads.dataset([str(path) for path in paths], schema=form, format=kind)
    form = _form(schema)
    for path in paths:
        check_types(parquet.read_schema(path), form)
    return pads.dataset([str(path) for path in paths], schema=form, format="parquet")


def _form(schema: "Schema") -> "pa.Schema":
    """The types of rows in parts: as `Decoder.decode` packs them."""
    import pyarrow as pa

    def kind(column: Any) -> Any:
        return pa.dictionary(pa.int32(), column.arrow) if is_text(column) else column.arrow

    return pa.schema([(column.name, kind(column)) for column in schema.columns])


def rows_in(rows: "pa.Table | pads.Dataset") -> int:
    """How many there are."""
    return int(rows.num_rows if _is_table(rows) else rows.count_rows())


def first_rows(rows: "pa.Table | pads.Dataset", n: int) -> "pa.Table":
    """The first ones."""
    return rows.slice(0, n) if _is_table(rows) else rows.head(n)


def all_rows(rows: "pa.Table | pads.Dataset") -> "pa.Table":
    """All of them in memory."""
    return rows if _is_table(rows) else rows.to_table()


def column_values(rows: "pa.Table | pads.Dataset", name: str) -> NDArray[np.float64]:
    """One column's values as numbers; nan where there is none."""
    import pyarrow.compute as pc

    table = rows.select([name]) if _is_table(rows) else rows.to_table(columns=[name])
    numbers = pc.cast(table[name], "double")
    values: NDArray[np.float64] = numbers.to_numpy()
    return values


def _is_table(rows: "pa.Table | pads.Dataset") -> bool:
    import pyarrow as pa

    return isinstance(rows, pa.Table)
