"""`openprior answers` and `openprior rows`: what a release says, without another look at private data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openprior.command_line.options import Json
from openprior.command_line.result_files import (
    Folder,
    about,
    conditions,
    explain,
    file_format,
    filling_file,
    warn_if_seeded,
    write_file,
    written,
)
from openprior.command_line.terminal import print_json, print_table, say
from openprior.display import how_many
from openprior.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.releases.result import Release

__all__ = ["add_to"]

_SHOWN = 60
"""Rows of answers that are printed."""


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(epilog="Example: openprior answers release age,sex")(answers)
    app.command(epilog="Example: openprior rows release -n 1000 --where sex=F -o more.csv")(rows)


def answers(
    release: Folder,
    columns: Annotated[
        str | None,
        typer.Argument(help="Columns or levels, as age,sex; all answers of the release if not given."),
    ] = None,
    queries: Annotated[
        bool, typer.Option("--queries", help="The queries that were measured, instead of columns.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write: .csv or .parquet.", readable=False)
    ] = None,
    json: Json = False,
) -> None:
    """Estimated counts of any columns together, with labels, and 95 % intervals where there are any. Costs nothing.

    Basis 'measured': noisy counts of just this number; 95 in 100 intervals hold.
    'calibrated': how wrong answers of this size are; 95 in 100 intervals hold,
    but nothing is promised of one that is picked because it looks odd.
    'model': its own standard error, which may be wrong. 'none': nobody knows.
    """
    import pyarrow.compute as pc

    import openprior as op
    from openprior.releases.answers import asked_columns

    format = None if out is None else file_format(out)
    if queries and columns is not None:
        raise OptionError("columns and --queries are two questions; ask them one after the other")
    if columns is None and out is None and not json and not queries:
        raise OptionError(
            "all answers are too many to print; name columns, as age,sex, or give -o FILE or --json"
        )
    opened = op.open_release(release)
    names = None if columns is None else list(asked_columns(columns, opened.schema))
    every = columns is None and not queries
    if every and out is not None and format is not None:
        _write_all(opened, out, format)
        if not json:
            warn_if_seeded(opened)
            say(f"wrote {out}: all answers to {how_many(len(opened.workload), 'marginal')}")
            return
    table = _of_queries(opened) if queries else opened.answers(names)
    if out is not None and format is not None and not every:
        write_file(table, out, format)
    if json:
        print_json({**about(opened), "columns": names, "answers": table.to_pylist(), **written(out)})
        return
    warn_if_seeded(opened)
    if out is not None:
        say(f"wrote {out}: {table.num_rows:,} answers")
        return
    shown = [[_cell(value) for value in row.values()] for row in table.slice(0, _SHOWN).to_pylist()]
    print_table(f"Estimated counts of {'queries' if queries else columns}", table.column_names, shown)
    if table.num_rows > _SHOWN:
        say(f"and {table.num_rows - _SHOWN:,} more; -o FILE or --json has all")
    explain(table)
    if pc.any(pc.less(table["estimate"], 0)).as_py():
        say(
            "an estimate below 0 is noise around a small count: estimates of this method are right on average, and "
            "are not clipped"
        )


def rows(
    release: Folder,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="File to write: .csv or .parquet.", readable=False)
    ],
    n: Annotated[
        int | None,
        typer.Option("-n", "--rows", help="How many; as many as the release expects if not given."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LABEL, or COLUMN=LABEL|LABEL; a number picks its bin; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same rows again; they stay as private.")] = None,
    json: Json = False,
) -> None:
    """More synthetic rows, fewer, or rows with given values, drawn from the release's model. Costs nothing."""
    import openprior as op
    from openprior.releases.more_rows import origin_of

    format = file_format(out)
    opened = op.open_release(release)
    asked = conditions(where, opened.schema) if where else None
    made = opened.rows(n, where=asked, seed=seed)
    write_file(made, out, format)
    if json:
        facts = {"rows": made.num_rows, "origin": origin_of(made), "where": asked}
        print_json({**about(opened), **facts, **written(out)})
        return
    warn_if_seeded(opened)
    say(f"wrote {out}: {made.num_rows:,} rows {origin_of(made)}")


def _of_queries(opened: "Release") -> "pa.Table":
    """The answers to queries, without the columns that say nothing about them."""
    import pyarrow as pa

    from openprior.releases.answers import NUMBERS
    from openprior.releases.answers_file import long_answers

    asked = long_answers(opened.model, opened.schema, opened.measurements, [])
    table = pa.concat_tables(asked).select(["query", *NUMBERS, "basis"])
    if not table.num_rows:
        raise OptionError(
            f"the release has no queries: '{opened.certificate.mechanism}' measured none; name columns, as age,sex"
        )
    return table


def _write_all(opened: "Release", out: Path, format: str) -> None:
    """All answers, of which there may be far too many to hold."""
    from openprior.releases.answers_file import write_answers

    with filling_file(out) as draft:
        asked = opened.workload.marginals
        write_answers(
            opened.model, opened.schema, opened.measurements, asked, draft, format, opened.error_bars
        )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
