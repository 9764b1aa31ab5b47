"""`openprior answers` and `openprior rows`: what a release says, without another look at private data."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openprior.command_line.options import Json, check_new
from openprior.command_line.terminal import print_json, print_table, say
from openprior.display import how_many
from openprior.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.releases.result import Release
    from openprior.schema.base import Schema

__all__ = ["add_to"]

Folder = Annotated[Path, typer.Argument(help="A release folder.", readable=False)]
_FORMATS = {".csv": "csv", ".parquet": "parquet"}
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
    """Estimated counts of any columns together, with labels, and 95 % intervals where there are any. Costs nothing."""
    import pyarrow.compute as pc

    import openprior as op
    from openprior.releases.answers import asked_columns

    format = None if out is None else _format(out)
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
            _warn(opened)
            say(f"wrote {out}: all answers to {how_many(len(opened.workload), 'marginal')}")
            return
    table = _of_queries(opened) if queries else opened.answers(names)
    if out is not None and format is not None and not every:
        _write(table, out, format)
    if json:
        print_json({**_about(opened), "columns": names, "answers": table.to_pylist(), **_written(out)})
        return
    _warn(opened)
    if out is not None:
        say(f"wrote {out}: {table.num_rows:,} answers")
        return
    shown = [[_cell(value) for value in row.values()] for row in table.slice(0, _SHOWN).to_pylist()]
    print_table(f"Estimated counts of {'queries' if queries else columns}", table.column_names, shown)
    if table.num_rows > _SHOWN:
        say(f"and {table.num_rows - _SHOWN:,} more; -o FILE or --json has all")
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

    format = _format(out)
    opened = op.open_release(release)
    conditions = _conditions(where, opened.schema) if where else None
    made = opened.rows(n, where=conditions, seed=seed)
    _write(made, out, format)
    if json:
        facts = {"rows": made.num_rows, "origin": origin_of(made), "where": conditions}
        print_json({**_about(opened), **facts, **_written(out)})
        return
    _warn(opened)
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


def _conditions(texts: list[str], schema: "Schema") -> dict[str, Any]:
    """What --where says, by column."""
    from openprior.questions.query_text import first_word, split_words, unquoted

    conditions: dict[str, Any] = {}
    for text in texts:
        written, labels = first_word(text, "=")
        name = unquoted(written)
        if not name or not labels:
            raise OptionError(f"--where '{text}' is not understood; write COLUMN=LABEL or COLUMN=LABEL|LABEL")
        if name in conditions:
            raise OptionError(f"--where has '{name}' twice; write {name}=LABEL|LABEL for several labels")
        known = _labels(name, schema)
        conditions[name] = (
            labels if labels in known else [unquoted(label) for label in split_words(labels, "|")]
        )
    return conditions


def _labels(name: str, schema: "Schema") -> tuple[str, ...]:
    if name in schema.levels:
        return schema.levels[name].labels
    return schema[name].labels if name in schema.names else ()


def _format(out: Path) -> str:
    """Before any work: the format that a file's name asks for, where a file can be."""
    if out.suffix.lower() not in _FORMATS:
        raise OptionError(f"the name of {out} says no format; end it in .csv or .parquet")
    check_new(out)
    return _FORMATS[out.suffix.lower()]


def _write(table: "pa.Table", out: Path, format: str) -> None:
    from openprior.releases.table_files import write_table

    with _filling(out) as draft:
        write_table(table, draft, format)


def _write_all(opened: "Release", out: Path, format: str) -> None:
    """All answers, of which there may be far too many to hold."""
    from openprior.releases.answers_file import write_answers

    with _filling(out) as draft:
        asked = opened.workload.marginals
        write_answers(opened.model, opened.schema, opened.measurements, asked, draft, format)


@contextlib.contextmanager
def _filling(out: Path) -> Iterator[Path]:
    from openprior.whole import filling

    try:
        with filling(out) as draft:
            yield draft
    except OSError as error:
        raise OptionError(
            f"cannot write {out}: {error.strerror}; free space or choose another place"
        ) from None


def _about(opened: "Release") -> dict[str, Any]:
    """What a machine has to know of a release's privacy beside its numbers."""
    return {"noise": opened.certificate.noise}


def _written(out: Path | None) -> dict[str, str]:
    return {} if out is None else {"out": str(out)}


def _warn(opened: "Release") -> None:
    if not opened.certificate.is_private:
        say(f"{opened.certificate.noise}: do not publish what comes from this release", err=True)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
