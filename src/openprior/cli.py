"""The command line: thin. It reads arguments, calls the library, prints, and turns our errors into one line.

Results go to stdout (with --json as one JSON document), progress and warnings to stderr. Exit codes: 0 done,
1 an error that is explained in one line, 2 wrong usage.
"""

import io
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from openprior import arguments
from openprior.commands import common, evaluation, guidance
from openprior.commands.common import Json, Out, Wait, check_new
from openprior.commands.ledger import ledger_app
from openprior.commands.schema import schema_app
from openprior.errors import OpenPriorError, OpenPriorWarning
from openprior.terminal import one_line, print_json, show_bug, show_warning, stoppable
from openprior.terminal import progress as progress_bar

__all__ = ["app", "main"]

app = typer.Typer(
    name="openprior",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")


def _version(asked: bool) -> None:
    if asked:
        from openprior import __version__

        typer.echo(f"openprior {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Release statistics and synthetic tables under differential privacy, with public data as prior knowledge."""


evaluation.add_to(app)
guidance.add_to(app)


def main() -> None:
    """Entry point: our errors become one line and exit code 1."""
    warnings.simplefilter("default", OpenPriorWarning)
    warnings.showwarning = show_warning
    sys.excepthook = show_bug
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ε must not break a terminal that lacks it
    try:
        # Not app(): that would put Typer's own excepthook in place of ours.
        get_command(app)()
    except OpenPriorError as error:
        typer.echo(f"error: {one_line(str(error))}", err=True)
        for note in getattr(error, "__notes__", []):
            typer.echo(f"  {one_line(note)}", err=True)
        sys.exit(1)


@app.command(
    epilog="Example: openprior release private.csv --public public.csv --epsilon 1 --delta 1e-9 -o release"
)
def release(
    private: Annotated[str, typer.Argument(help="The private table: CSV, Parquet, or a folder of them.")],
    out: Out,
    epsilon: Annotated[float, typer.Option(help="ε of the release.")],
    delta: Annotated[
        float, typer.Option(help="δ of the release; well below 1/n, or 0 for pure ε-DP with Laplace noise.")
    ],
    public: Annotated[str | None, typer.Option(help="The public table.")] = None,
    schema: common.Schema = None,
    workload: Annotated[
        str,
        typer.Option(
            help="'3' all 3-way, 'random:3:512:7' (k, count, seed), 'target:COL:3', or 'age,sex;age,income'."
        ),
    ] = "3",
    mechanism: common.Mechanism = "tilt",
    option: Annotated[
        list[str] | None, typer.Option("-O", "--option", help="Mechanism option name=value; repeatable.")
    ] = None,
    ledger: common.Ledger = None,
    ledger_timeout: Wait = 30.0,
    dataset: common.Dataset = None,
    engine: Annotated[str, typer.Option(help="Who counts the private table: local | spark.")] = "local",
    spark_master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs, with --engine spark; default: $OPENPRIOR_SPARK_MASTER, or every core here."
        ),
    ] = None,
    relation: Annotated[str, typer.Option(help="replace-one | add-remove")] = "replace-one",
    format: Annotated[str, typer.Option(help="Synthetic rows as parquet | csv.")] = "parquet",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a broken run without paying again; needs --ledger.")
    ] = False,
    insecure_seed: common.Seed = None,
    show_private: Annotated[
        bool, typer.Option("--show-private", help="Let error messages quote private values.")
    ] = False,
    json: Json = False,
) -> None:
    """Release a private table: synthetic rows, answers, model, certificate and report in one folder."""
    import openprior as op
    from openprior.data.schema import Schema
    from openprior.privacy.ledger import Ledger

    with stoppable(out), progress_bar("releasing") as progress:
        made = op.release(
            public=public,
            schema=None if schema is None else Schema.load(schema),
            workload=arguments.workload(workload),
            epsilon=epsilon,
            delta=delta,
            mechanism=arguments.mechanism(mechanism, option or []),
            ledger=None if ledger is None else Ledger(ledger, timeout=ledger_timeout),
            out=out,
            seed=insecure_seed,
            relation=relation,
            dataset=dataset,
            format=format,
            resume=resume,
            show_private=show_private,
            progress=progress,
            private=arguments.table(private, engine, spark_master),  # last: starting Spark takes seconds
        )
    c = made.certificate
    if json:
        facts = {"out": str(out), "rows": made.synthetic.num_rows, "epsilon": c.epsilon, "delta": c.delta}
        print_json(
            {
                **facts,
                "epsilon_spent": c.epsilon_spent,
                "rho": c.rho,
                "rho_spent": c.rho_spent,
                "mechanism": c.mechanism,
                "run": c.run,
                "noise": c.noise,
                "statement": c.statement,
                "remarks": list(c.remarks),
            }
        )
        return
    typer.echo(f"wrote {out}: {made.synthetic.num_rows:,} synthetic rows by {c.mechanism}")
    for line in (c.statement, *c.remarks):
        typer.echo(line)


@app.command(epilog="Example: openprior check release")
def check(
    release: Annotated[Path, typer.Argument(help="A release folder.", readable=False)], json: Json = False
) -> None:
    """Recheck a release's certificate: every sensitivity, cost and sum is derived anew. Needs no private data."""
    import openprior as op

    c = op.open_release(release).certificate
    c.recheck()
    if json:
        print_json(
            {"right": True, "events": len(c.events), "statement": c.statement, "remarks": list(c.remarks)}
        )
        return
    for line in (f"right: {len(c.events)} steps rechecked", c.statement, *c.remarks):
        typer.echo(line)


@app.command(epilog="Example: openprior mechanisms --json")
def mechanisms(json: Json = False) -> None:
    """List the mechanisms, what each is good for, and its options."""
    import dataclasses

    import openprior as op

    found = {
        name: {
            "good_for": cls.good_for,
            "needs_public": cls.needs_public,
            "options": {f.name: [f.default, f.metadata["doc"]] for f in dataclasses.fields(cls)},
        }
        for name, cls in op.mechanisms().items()
    }
    if json:
        print_json(found)
        return
    for name, facts in found.items():
        typer.echo(f"{name}: {facts['good_for']}")
        for option, (default, doc) in facts["options"].items():
            typer.echo(f"    -O {option}={default}    {doc}")


@app.command(epilog="Example: openprior demo -o demo-release")
def demo(
    out: Out = Path("demo-release"),
    epsilon: Annotated[float, typer.Option(help="ε of the release.")] = 1.0,
    rows: Annotated[int, typer.Option(help="Rows of each simulated survey.")] = 20_000,
    tables: Annotated[
        Path | None,
        typer.Option(
            help="Only write the two surveys into this new folder, as CSV files to try things on.",
            readable=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Two simulated surveys, a year apart: release the second with the first as prior, and compare methods."""
    from openprior.demo import run_demo, write_tables

    if tables is not None:
        check_new(tables)
        names = write_tables(tables, rows=rows)
        if json:
            print_json({"out": str(tables), "files": names})
        else:
            typer.echo(f"wrote {' and '.join(str(tables / name) for name in names)}, {rows:,} rows each")
        return
    check_new(out)
    with stoppable(out), progress_bar("demo") as progress:
        found = run_demo(out, epsilon=epsilon, rows=rows, progress=progress)
    if json:
        print_json(found)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"Error on all 3-way marginals, ε = {epsilon:g} (NOT PRIVATE: measured on the simulated truth)"
    )
    for heading in ("method", "uses", "mean L1", "largest", "seconds"):
        table.add_column(heading, justify="left" if heading in ("method", "uses") else "right")
    for row in found["methods"]:
        table.add_row(
            row["name"],
            row["uses"],
            f"{row['workload_error']:.4f}",
            f"{row['max_error']:.4f}",
            f"{row['seconds']:.1f}",
        )
    Console().print(table)
    typer.echo(f"wrote {out}: open {out / 'report.html'} in a browser")


if __name__ == "__main__":
    main()
