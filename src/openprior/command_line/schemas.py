"""`openprior schema`: what the columns are."""

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line.options import Json, check_new
from openprior.command_line.program import Program
from openprior.command_line.terminal import one_line, print_json
from openprior.errors import OpenPriorWarning

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
    other: Annotated[
        bool,
        typer.Option(
            "--other/--no-other", help="Whether values that are not listed become 'other', or are refused."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Draft a schema from public data only; read it, edit it, keep it."""
    from openprior.schema.base import Schema

    check_new(out)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", OpenPriorWarning)
        drafted = Schema.draft(
            public,
            bins=bins,
            person_id=person_id,
            max_rows_per_person=max_rows,
            exclude=exclude or (),
            include=include or (),
            other=other,
        )
    drafted.save(out)
    for warning in heard:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    sizes = drafted.domain.sizes()
    if json:
        print_json({"out": str(out), "sizes": sizes, "hash": drafted.hash, "notes": dict(drafted.notes)})
        return
    typer.echo(f"wrote {out}: {len(sizes)} columns; read it and edit it before you release")
    for name, size in sizes.items():
        typer.echo(f"  {name:<32}{size:>6} values")
    _print_notes(drafted.notes, {str(warning.message) for warning in heard})


def _print_notes(notes: Mapping[str, str], warned: Collection[str]) -> None:
    """Notes that were not warned of; those that say the same of several columns in one line."""
    columns: dict[str, list[str]] = {}
    for name, note in notes.items():
        if note not in warned:
            columns.setdefault(note.removeprefix(f"'{name}'"), []).append(f"'{name}'")
    for note, names in columns.items():
        typer.echo(f"note: {one_line(', '.join(names) + note)}")
