"""`openprior release`, `check` and `mechanisms`: from a private table to a folder that may be published."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openprior.command_line import arguments, options, reading_options
from openprior.command_line.options import Json, Out, Quiet, Wait
from openprior.command_line.terminal import print_json, say, stoppable
from openprior.display import how_many, plain
from openprior.errors import ReleaseError
from openprior.progress_shown import watching

if TYPE_CHECKING:
    from openprior.releases.result import Release

__all__ = ["add_to"]

_EXAMPLE = 100
"""Rows of the answer that is told how sure it is."""


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(
        epilog="Example: openprior release private.csv --public public.csv --epsilon 1 --delta 1e-9 -o release"
    )(release)
    app.command(epilog="Example: openprior check release")(check)
    app.command(epilog="Example: openprior mechanisms --json")(mechanisms)


def release(
    private: Annotated[
        str, typer.Argument(help="The private table: a file, a folder of them, or duckdb:FILE#TABLE.")
    ],
    out: Out,
    epsilon: Annotated[float, typer.Option(help="ε of the release.")],
    delta: Annotated[
        float, typer.Option(help="δ of the release; well below 1/n, or 0 for pure ε-DP with Laplace noise.")
    ],
    public: Annotated[str | None, typer.Option(help="The public table.")] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            help="What 'openprior prior' learnt from the public table, in place of it and of the schema.",
            readable=False,
        ),
    ] = None,
    schema: options.Schema = None,
    workload: Annotated[
        str,
        typer.Option(
            help="'3' all 3-way, 'random:3:512:7' (k, count, seed), 'target:COL:3', or 'age,sex;age,income'; a name "
            "with such a sign in it in double quotes: '\"age, years\",sex'."
        ),
    ] = "3",
    mechanism: options.Mechanism = "tilt",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-O", "--option", help="Mechanism option name=value; repeatable. Names as in --workload."
        ),
    ] = None,
    ledger: options.Ledger = None,
    new_ledger: Annotated[
        bool,
        typer.Option("--new-ledger", help="Begin the ledger if it is not there; ε and δ become the budget."),
    ] = False,
    ledger_timeout: Wait = 30.0,
    dataset: options.Dataset = None,
    acknowledge_refusals: options.Acknowledge = False,
    engine: Annotated[str, typer.Option(help="Who counts the private table: local | spark.")] = "local",
    spark_master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs, with --engine spark; default: $OPENPRIOR_SPARK_MASTER, or every core here."
        ),
    ] = None,
    relation: Annotated[str, typer.Option(help="replace-one | add-remove")] = "replace-one",
    format: Annotated[str, typer.Option(help="Tables of the release as parquet | csv.")] = "parquet",
    answers: Annotated[
        str | None,
        typer.Option(
            help="Answers to write as a file: measured | workload | none; default: workload, or measured beyond ten "
            "million cells."
        ),
    ] = None,
    error_bars: Annotated[
        float | None,
        typer.Option(
            help="Share of the budget that measures how wrong the answers are, for an interval on each; 0: none; "
            "default: as much as it takes, at most 0.03."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the report is called.")] = None,
    about: Annotated[
        str | None, typer.Option(help="What the release is about; the report opens with it.")
    ] = None,
    contact: Annotated[str | None, typer.Option(help="Whom to ask about it; is published with it.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a broken run without paying again; needs --ledger.")
    ] = False,
    insecure_seed: options.Seed = None,
    show_private: Annotated[
        bool, typer.Option("--show-private", help="Let error messages quote private values.")
    ] = False,
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Release a private table: synthetic rows, answers, model, certificate and report in one folder."""
    from openprior.compiling.ahead import compile_ahead

    compile_ahead(mechanism.partition(":")[0])  # before the libraries below are loaded, which takes a second
    import openprior as op
    from openprior.schema.base import Schema, reading_of

    declared = None if schema is None else Schema.load(schema)
    kept = None if prior is None else op.open_prior(prior)
    known = None if kept is None else kept.schema
    reading = reading_options.reading(encoding, decimal, thousands, delimiter, date_format, null_values)
    with stoppable(out), watching(not quiet):
        made = op.release(
            public=public,
            prior=kept,
            schema=declared,
            reading=reading,
            workload=workload,
            epsilon=epsilon,
            delta=delta,
            mechanism=arguments.mechanism(mechanism, option or []),
            ledger=options.chosen_ledger(ledger, ledger_timeout, new=new_ledger),
            out=out,
            seed=insecure_seed,
            relation=relation,
            dataset=dataset,
            format=format,
            answers=answers,
            error_bars=error_bars,
            title=title,
            about=about,
            contact=contact,
            resume=resume,
            show_private=show_private,
            acknowledge_refusals=acknowledge_refusals,
            # Last: starting Spark takes seconds.
            private=arguments.table(private, engine, spark_master, reading_of(declared or known, reading)),
        )
    c = made.certificate
    if json:
        facts = {
            "out": str(out),
            "ledger": None if ledger is None else str(ledger),
            "rows": made.row_count,
            "epsilon": c.epsilon,
            "delta": c.delta,
        }
        print_json(
            {
                **facts,
                "epsilon_spent": c.epsilon_spent,
                "rho": c.rho,
                "rho_spent": c.rho_spent,
                "mechanism": c.mechanism,
                "run": c.run,
                "noise": c.noise,
                "prior": dict(c.prior),
                "error_bars": _sure(made),
                "statement": c.statement,
                "remarks": list(c.remarks),
            }
        )
        return
    say(f"wrote {out}: {made.row_count:,} synthetic rows by {c.mechanism}")
    for line in (c.statement, *_how_sure(made), *c.remarks, *options.ledger_note(ledger)):
        say(line)


def _sure(made: "Release") -> dict[str, Any] | None:
    """How far off answers of an example's size are in the tables of most columns, where that was measured."""
    import numpy as np

    bars = made.error_bars
    if bars is None or bars.says_nothing or made.model.total < _EXAMPLE:
        return None
    columns, size = bars.columns[-1], np.array([float(_EXAMPLE)])
    within = math.ceil((bars.around(size, columns).high - size)[0])
    return {"columns": columns, "rows": _EXAMPLE, "within": within, "unsure": bars.unsure}


def _how_sure(made: "Release") -> list[str]:
    """The same as a line."""
    found = _sure(made)
    if found is None:
        return []
    return [
        f"Of answers of about {found['rows']} rows in tables of {how_many(found['columns'], 'column')}, 95 in 100 are "
        f"within ±{found['within']:,} of the true count."
    ]


def check(
    release: Annotated[Path, typer.Argument(help="A release folder.", readable=False)],
    certificate_sha256: Annotated[
        str | None,
        typer.Option(help="SHA-256 that certificate.json must have, where it was published elsewhere."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a release without any private data: that every file is as it was written and no other is there, that every
    sensitivity, cost and sum is right, derived anew, and that the noise was secure. Exit code 1 if anything is not."""
    from openprior.releases.check import check_release

    try:
        c = check_release(release, certificate_sha256=certificate_sha256)
    except ReleaseError as error:
        if json:
            print_json({"right": False, "reason": plain(str(error))})
        raise
    if json:
        facts = {
            "right": True,
            "events": len(c.events),
            "files": len(c.files),
            "certificate_sha256": c.sha256,
        }
        print_json({**facts, "statement": c.statement, "remarks": list(c.remarks)})
        return
    say(
        f"right: {how_many(len(c.events), 'step')} rechecked, {how_many(len(c.files), 'file')} as they were written"
    )
    for line in (c.statement, *c.remarks, f"SHA-256 of certificate.json: {c.sha256}"):
        say(line)


def mechanisms(json: Json = False) -> None:
    """List the mechanisms, what each is good for, and its options."""
    import dataclasses

    import openprior as op
    from openprior.methods.base import PublicTable

    listed: dict[str, dict[str, Any]] = {
        name: {
            "good_for": cls.good_for,
            "public_table": cls.public_table,
            "needs_public": cls.public_table is PublicTable.NEEDED,
            "options": {f.name: [f.default, f.metadata["doc"]] for f in dataclasses.fields(cls)},
        }
        for name, cls in op.mechanisms().items()
    }
    if json:
        print_json(listed)
        return
    for name, facts in listed.items():
        say(f"{name}: {facts['good_for']}")
        for option, (default, doc) in facts["options"].items():
            say(f"    -O {option}={default}    {doc}")
