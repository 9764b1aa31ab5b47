"""`openprior choose-public` and `divergences`: which public table to take, from public tables alone."""

from typing import Annotated

import typer

from openprior.command_line import arguments, options, reading_options
from openprior.command_line.options import Json, Quiet
from openprior.command_line.terminal import print_json, print_table, say
from openprior.progress_shown import watching

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(
        epilog="Example: openprior choose-public 2017.csv --public 2016.csv --public other.csv --epsilon 0.5 "
        "--epsilon 1 --delta 1e-9 --try 'pmw-pub:rounds=25|100'"
    )(choose_public)
    app.command(epilog="Example: openprior divergences 2017.csv 2018.csv --workload 2")(divergences)


def choose_public(
    validation: Annotated[str, typer.Argument(help="A public table, released as if it were private.")],
    public: Annotated[list[str], typer.Option(help="A public table to choose from; repeatable.")],
    epsilon: Annotated[list[float], typer.Option(help="ε of the release to come; repeatable.")],
    delta: Annotated[float, typer.Option(help="δ of the release to come.")],
    schema: options.Schema = None,
    workload: Annotated[str, typer.Option(help="As for 'release'.")] = "3",
    choices: Annotated[
        list[str] | None,
        typer.Option("--try", help="METHOD or METHOD:option=1|2,other=3; repeatable; default: tilt."),
    ] = None,
    by: Annotated[str, typer.Option(help="max: the largest error of a query | workload: the mean")] = "max",
    seeds: Annotated[int, typer.Option(help="How often each is tried.")] = 3,
    rows: Annotated[
        int | None, typer.Option(help="Rows that the private table will have: scales the noise to them.")
    ] = None,
    of: Annotated[str, typer.Option(help="synthetic | answers")] = "synthetic",
    private: Annotated[
        str | None,
        typer.Option(help="The private table: refused if another is it; no row of it is looked at."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None,
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Choose a public table, and options, by errors on a validation table. Reads no private row, costs no budget."""
    import openprior as op

    with watching(not quiet):
        choice = op.choose_public(
            public,
            validation,
            epsilon=epsilon,
            delta=delta,
            schema=None if schema is None else op.Schema.load(schema),
            workload=workload,
            grid=None if not choices else arguments.grid(choices),
            by=by,
            seeds=seeds,
            rows=rows,
            of=of,
            private=private,
            workers=workers,
            reading=reading_options.reading(
                encoding, decimal, thousands, delimiter, date_format, null_values
            ),
        )
    if json:
        print_json(choice.as_dict())
        return
    sheet = choice.sheet()
    print_table(sheet.title, sheet.headings, sheet.rows)
    for line in sheet.notes:
        say(line)


def divergences(
    first: Annotated[str, typer.Argument(help="The table in the place of the private one.")],
    second: Annotated[str, typer.Argument(help="The public table.")],
    schema: options.Schema = None,
    workload: Annotated[str, typer.Option(help="The marginals to compare, as for 'release'.")] = "2",
    alpha: Annotated[float, typer.Option(help="The best mixture error to reach.")] = 0.1,
    beta: Annotated[float, typer.Option(help="The probability of missing it.")] = 0.05,
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    json: Json = False,
) -> None:
    """How far a table is from a public one in D₂ and D∞, and how many public rows that asks for. NOT PRIVATE."""
    import openprior as op

    found = op.divergences(
        first,
        second,
        schema=None if schema is None else op.Schema.load(schema),
        workload=workload,
        alpha=alpha,
        beta=beta,
        reading=reading_options.reading(encoding, decimal, thousands, delimiter, date_format, null_values),
    )
    if json:
        print_json(found.as_dict())
        return
    sheet = found.sheet()
    for line in sheet.warnings:
        say(line)
    print_table(sheet.title, sheet.headings, sheet.rows)
    for line in sheet.notes:
        say(line)
