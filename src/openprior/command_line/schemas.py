"""`openprior schema`: what the columns are."""

from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line import reading_options
from openprior.command_line.options import Json, check_new
from openprior.command_line.program import Program
from openprior.command_line.terminal import print_json

__all__ = ["schema_app"]

schema_app = Program(
    no_args_is_help=True, help="What the columns are: draft it from public data, then edit it."
)


@schema_app.command("draft", epilog="Example: openprior schema draft public.csv -o survey.toml")
def schema_draft(
    public: Annotated[
        str, typer.Argument(help="The public table; a private one must never be drafted from.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Schema file to write; must not exist.", readable=False)
    ],
    bins: Annotated[
        int,
        typer.Option(help="Most bins of a number column; whole numbers of a short range keep a value each."),
    ] = 32,
    person_id: Annotated[
        str | None, typer.Option(help="The column that says whose row it is; it is not released.")
    ] = None,
    max_rows: Annotated[int, typer.Option(help="Most rows per person (Δ), with --person-id.")] = 1,
    exclude: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeatable.")] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="A column to take in though it looks like an identifier; repeatable."),
    ] = None,
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    json: Json = False,
) -> None:
    """Draft a schema from public data only; read it, edit it, keep it."""
    from openprior.schema.base import Schema

    check_new(out)
    drafted = Schema.draft(
        public,
        bins=bins,
        person_id=person_id,
        max_rows_per_person=max_rows,
        exclude=exclude or (),
        include=include or (),
        reading=reading_options.reading(encoding, decimal, thousands, delimiter, date_format, null_values),
    )
    drafted.save(out)
    sizes = drafted.domain.sizes()
    if json:
        print_json({"out": str(out), "sizes": sizes, "hash": drafted.hash, "notes": dict(drafted.notes)})
        return
    typer.echo(f"wrote {out}: {len(sizes)} columns; read it and edit it before you release")
    for name, size in sizes.items():
        typer.echo(f"  {name:<32}{size:>6} values")
