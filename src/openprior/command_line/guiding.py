"""`openprior plan`, `screen` and `tune`: what to decide before the budget is spent."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from openprior.command_line import arguments, options, reading_options
from openprior.command_line.options import Json, Quiet, Wait
from openprior.command_line.terminal import print_json, print_table, say
from openprior.errors import without_passwords
from openprior.progress_shown import watching

__all__ = ["add_to"]

Work = Annotated[str, typer.Option(help="As for 'release'.")]
Rows = Annotated[int, typer.Option(help="Rows of the private table, about.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(
        epilog="Example: openprior plan survey.toml --rows 20000 --workload 3 --epsilon 1 --delta 1e-9"
    )(plan)
    app.command(
        epilog="Example: openprior screen private.csv --public 2017.csv --public 2018.csv --epsilon 0.1"
    )(screen)
    app.command(
        epilog="Example: openprior tune public.csv --epsilon 1 --delta 1e-9 --try 'tilt:rounds=12|48'"
    )(tune)


def plan(
    schema: Annotated[Path, typer.Argument(help="The schema file.", readable=False)],
    rows: Rows,
    epsilon: Annotated[float, typer.Option(help="ε to plan for.")],
    delta: Annotated[float, typer.Option(help="δ to plan for; 0: pure ε-DP.")],
    workload: Work = "3",
    public_rows: Annotated[int | None, typer.Option(help="Rows of the public table, about.")] = None,
    relation: Annotated[str, typer.Option(help="replace-one | add-remove")] = "replace-one",
    json: Json = False,
) -> None:
    """What a release would be like, from the schema and the sizes alone: noise, bounds, time. Touches no data."""
    import openprior as op
    from openprior.error_bars.expected_bars import OFF_BY

    planned = op.plan(
        op.Schema.load(schema),
        n=rows,
        workload=workload,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        public_rows=public_rows,
    )
    if json:
        print_json(planned.as_dict())
        return
    for table in planned.tables():
        print_table(table.title, table.headings, table.rows)
    say(
        "smallest count: 2σ, the least that can be told from nothing; affordable: how many marginals can be measured "
        f"with noise below {100 * planned.level:g} % of the table in L1; σ in rows"
    )
    if planned.bought[0].reaches:
        say(
            "how far off: guessed from runs of tilt on other tables, whatever the workload, four in five within a "
            f"factor of {OFF_BY:g}; other methods may be farther off. A release measures it, by default with about "
            f"{100 * planned.error_share:.2g} % of the budget"
        )
    for line in planned.advice:
        say(f"- {line}")


def screen(
    private: Annotated[str, typer.Argument(help="The private table.")],
    public: Annotated[list[str], typer.Option(help="A public table; repeatable.")],
    epsilon: Annotated[float, typer.Option(help="ε of all answers together.")],
    delta: Annotated[float, typer.Option(help="δ; 0: pure ε-DP with Laplace noise.")] = 0.0,
    schema: options.Schema = None,
    by: Annotated[
        str, typer.Option(help="distance: the table as it stands | mixture: what reweighting cannot repair")
    ] = "distance",
    marginals: Annotated[int, typer.Option(help="Compare all marginals of so many columns.")] = 1,
    relation: Annotated[
        str, typer.Option(help="replace-one | add-remove, as for the release")
    ] = "replace-one",
    ledger: options.Ledger = None,
    ledger_timeout: Wait = 30.0,
    dataset: options.Dataset = None,
    acknowledge_refusals: options.Acknowledge = False,
    insecure_seed: options.Seed = None,
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Rank public tables by how close they are to the private one, for a small ε that the ledger is charged."""
    import openprior as op

    with watching(not quiet):
        screening = op.screen(
            private,
            public,
            epsilon=epsilon,
            delta=delta,
            schema=None if schema is None else op.Schema.load(schema),
            by=by,
            marginals=marginals,
            relation=relation,
            ledger=options.chosen_ledger(ledger, ledger_timeout),
            dataset=dataset,
            seed=insecure_seed,
            acknowledge_refusals=acknowledge_refusals,
            reading=reading_options.reading(
                encoding, decimal, thousands, delimiter, date_format, null_values
            ),
        )
    if json:
        print_json({**screening.as_dict(), "ledger": None if ledger is None else str(ledger)})
        return
    shown = [
        (
            s.name,
            f"{s.rows:,}",
            f"{max(s.error, 0):.4f}",
            f"{s.low:.4f} to {s.high:.4f}",
            "" if s.by_chance is None else f"{s.by_chance:.4f}",
        )
        for s in screening.ranked
    ]
    headings = (
        "public table",
        "rows",
        "distance" if by == "distance" else "mixture error",
        "95 %",
        "by chance",
    )
    if screening.loss is not None:
        say(screening.loss)
    print_table("Closest first", headings, shown)
    for s in screening.ranked[1:]:
        say(f"- {s.name}: {s.verdict}")
    say(screening.choice)
    if screening.outside is not None and not screening.outside.is_large:
        say(screening.outside.words)
    for line in (screening.certificate.statement, *options.ledger_note(ledger)):
        say(line)


def tune(
    public: Annotated[str, typer.Argument(help="The public table; the newer one if there are two.")],
    epsilon: Annotated[float, typer.Option(help="ε of the release to come.")],
    delta: Annotated[float, typer.Option(help="δ of the release to come.")],
    past: Annotated[
        str | None, typer.Option(help="An older public table; without it, halves of the one are used.")
    ] = None,
    schema: options.Schema = None,
    workload: Work = "3",
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--try", help="METHOD or METHOD:option=1|2,other=3; repeatable; default: a few good ones."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often each setting is tried.")] = 3,
    rows: Annotated[
        int | None, typer.Option(help="Rows that the private table will have: scales the noise to them.")
    ] = None,
    of: Annotated[str, typer.Option(help="synthetic | answers")] = "synthetic",
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
    """Choose method and options on public data only. Never reads a private table, costs no budget."""
    import openprior as op

    reading = reading_options.reading(encoding, decimal, thousands, delimiter, date_format, null_values)
    with watching(not quiet):
        tuning = op.tune(
            public,
            past,
            schema=None if schema is None else op.Schema.load(schema),
            workload=workload,
            epsilon=epsilon,
            delta=delta,
            grid=None if not choices else arguments.grid(choices),
            seeds=seeds,
            rows=rows,
            of=of,
            workers=workers,
            reading=reading,
        )
    if json:
        print_json(tuning.as_dict())
        return
    table: Any = tuning.table()
    print_table(table.title, table.headings, table.rows)
    say(tuning.verdict)
    for line in tuning.caveats:
        say(f"- {line}")
    more = (
        "" if schema is None else f" --schema {shlex.quote(str(schema))}"
    ) + f"{reading_options.as_words(reading)} --workload {shlex.quote(workload)}"
    told = shlex.quote(public) if without_passwords(public) == public else "PUBLIC"
    say(f"then: {tuning.command(public=told, more=more)}")
