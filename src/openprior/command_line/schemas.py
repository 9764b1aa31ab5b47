"""`openprior schema`: what the columns are."""

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line import options, reading_options
from openprior.command_line.options import Json, check_new
from openprior.command_line.program import Program
from openprior.command_line.terminal import json_text, print_json, print_table, say
from openprior.display import how_many, plain
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
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
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
            reading=reading_options.reading(
                encoding, decimal, thousands, delimiter, date_format, null_values
            ),
        )
    drafted.save(out)
    for warning in heard:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    sizes = drafted.domain.sizes()
    if json:
        print_json({"out": str(out), "sizes": sizes, "hash": drafted.hash, "notes": dict(drafted.notes)})
        return
    say(f"wrote {out}: {how_many(len(sizes), 'column')}; read it and edit it before you release")
    for name, size in sizes.items():
        say(f"  {name:<32}{size:>6} values")
    _print_notes(drafted.notes, {str(warning.message) for warning in heard})


@schema_app.command(
    "check",
    epilog="Example: openprior schema check survey.toml private.csv --epsilon 0.1 --ledger budget.sqlite",
)
def schema_check(
    schema: Annotated[Path, typer.Argument(help="The schema file.", readable=False)],
    table: Annotated[str, typer.Argument(help="The table; taken for a public one unless you say otherwise.")],
    private: Annotated[
        bool, typer.Option("--private", help="It is private: exact shares, no values, NOT PRIVATE.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="It is private: shares with noise for this ε, which may be kept.")
    ] = None,
    delta: Annotated[float, typer.Option(help="δ, with --epsilon; 0: pure ε-DP with Laplace noise.")] = 0.0,
    relation: Annotated[str, typer.Option(help="replace-one | add-remove, with --epsilon")] = "replace-one",
    ledger: options.Ledger = None,
    ledger_timeout: options.Wait = 30.0,
    dataset: options.Dataset = None,
    acknowledge_refusals: options.Acknowledge = False,
    insecure_seed: options.Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="JSON file to write, with --epsilon; must not exist.", readable=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """What a schema does to a table: the share of each column that is clipped, becomes other or missing."""
    from openprior.errors import OptionError
    from openprior.schema.base import Schema
    from openprior.whole import write_file

    if out is not None:
        if epsilon is None:
            raise OptionError("only shares with noise may be kept; give --epsilon, or leave --out")
        check_new(out)
    checked = Schema.load(schema).check(
        table,
        private=private,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        ledger=options.chosen_ledger(ledger, ledger_timeout),
        dataset=dataset,
        seed=insecure_seed,
        acknowledge_refusals=acknowledge_refusals,
    )
    if out is not None:
        write_file(out, json_text(checked.as_dict()))
    if json:
        print_json(checked.as_dict())
        return
    if checked.notice is not None:
        say(checked.notice)
    elif epsilon is None:
        say("read as a public table; of a private one say --private, or --epsilon for shares with noise")
    say(checked.verdict)
    sheet = checked.sheet()
    shares = [row[:-1] for row in sheet.rows]
    print_table(f"{schema.name}: {sheet.title[0].lower()}{sheet.title[1:]}", sheet.headings[:-1], shares)
    for column in checked.columns:
        if column.words:
            say(f"  {plain(f'{column.name}: {column.words}')}")
    for line in sheet.notes[1:]:
        say(line)
    if checked.certificate is not None:
        for line in options.ledger_note(ledger):
            say(line)
    if out is not None:
        say(f"wrote {out}")


def _print_notes(notes: Mapping[str, str], warned: Collection[str]) -> None:
    """Notes that were not warned of; those that say the same of several columns in one line."""
    columns: dict[str, list[str]] = {}
    for name, note in notes.items():
        if note not in warned:
            columns.setdefault(note.removeprefix(f"'{name}'"), []).append(f"'{name}'")
    for note, names in columns.items():
        say(f"note: {plain(', '.join(names) + note)}")
