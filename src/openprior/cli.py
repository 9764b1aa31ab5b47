"""The command line: thin. It reads arguments, calls the library, prints, and turns our errors into one line.

Results go to stdout (with --json as one JSON document), progress and warnings to stderr. Exit codes: 0 done,
1 an error that is explained in one line, 2 wrong usage.
"""

import io
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from openprior import arguments
from openprior.errors import OpenPriorError, OpenPriorWarning, OptionError
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
schema_app = typer.Typer(
    no_args_is_help=True, help="What the columns are: draft it from public data, then edit it."
)
ledger_app = typer.Typer(no_args_is_help=True, help="What has been spent on which dataset.")
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")

# Paths have readable=False: what cannot be read gets our own line and exit code 1, not Typer's box and 2.
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder to write; must not exist.", readable=False)]
Wait = Annotated[float, typer.Option("--ledger-timeout", min=0, help="Seconds to wait for a locked ledger.")]


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
    schema: Annotated[
        Path | None,
        typer.Option(help="Schema file; drafted from the public table if absent.", readable=False),
    ] = None,
    workload: Annotated[
        str,
        typer.Option(
            help="'3' all 3-way, 'random:3:512:7' (k, count, seed), 'target:COL:3', or 'age,sex;age,income'."
        ),
    ] = "3",
    mechanism: Annotated[str, typer.Option("-m", "--mechanism", help="See 'openprior mechanisms'.")] = "tilt",
    option: Annotated[
        list[str] | None, typer.Option("-O", "--option", help="Mechanism option name=value; repeatable.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Budget file kept across releases.", readable=False)
    ] = None,
    ledger_timeout: Wait = 30.0,
    dataset: Annotated[str | None, typer.Option(help="Name in the ledger; default: the file's name.")] = None,
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
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise for an experiment: the result is NOT PRIVATE.")
    ] = None,
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


@app.command(epilog="Example: openprior evaluate release --private private.csv")
def evaluate(
    release: Annotated[Path, typer.Argument(help="A release folder.", readable=False)],
    private: Annotated[str, typer.Option(help="The private table it was made from.")],
    of: Annotated[str, typer.Option(help="synthetic | answers")] = "synthetic",
    workload: Annotated[
        str | None, typer.Option(help="As for 'release'; default: the release's own.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Report file; default: RELEASE.evaluation/report.html, outside the release.", readable=False
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Also errors by group, e.g. 'area,year', with a picture beside the report."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure a release against the private table and write a report. NOT PRIVATE: for your eyes only."""
    import openprior as op
    from openprior.evaluate.metrics import write_report, write_text

    made = op.open_release(release)
    found = op.evaluate(
        made, private, workload=None if workload is None else arguments.workload(workload), of=of
    )
    # Beside the release folder, not in it: what is published must not carry private figures.
    place = report or release.resolve().with_name(release.resolve().name + ".evaluation") / "report.html"
    write_report(made, found, private, place)
    facts = {name: getattr(found, name) for name in ("workload_error", "max_error", "mean_error", "rmse")}
    written = {"report": str(place)}
    by_group: list[dict[str, Any]] = []
    if groups is not None:
        each = op.evaluate_groups(made, private, [g.strip() for g in groups.split(",")])
        picture = place.with_name("groups.svg")
        write_text(picture, each.picture())
        facts["group_error"] = each.error
        written["picture"] = str(picture)
        by_group = [{"group": list(label), "error": error} for label, error in each.worst]
    if json:
        detail = {"groups": by_group} if groups is not None else {}
        print_json({"notice": found.notice, "of": of, **facts, **detail, **written})
        return
    typer.echo(found.notice)
    for name, value in facts.items():
        typer.echo(f"  {name.replace('_', ' '):<16}{value:.6g}")
    for entry in by_group[:3]:
        typer.echo(f"  worst group: {' '.join(entry['group'])} {entry['error']:.6g}")
    typer.echo(f"wrote {' and '.join(written.values())}")


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
    json: Json = False,
) -> None:
    """Two simulated surveys, a year apart: release the second with the first as prior, and compare methods."""
    from openprior.demo import run_demo

    _check_new(out)
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


@schema_app.command("draft", epilog="Example: openprior schema draft public.csv -o survey.toml")
def schema_draft(
    public: Annotated[
        str, typer.Argument(help="The public table; a private one must never be drafted from.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Schema file to write; must not exist.", readable=False)
    ],
    bins: Annotated[int, typer.Option(help="Most bins of a number column.")] = 32,
    person_id: Annotated[
        str | None, typer.Option(help="The column that says whose row it is; it is not released.")
    ] = None,
    max_rows: Annotated[int, typer.Option(help="Most rows a person (Δ), with --person-id.")] = 1,
    exclude: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Draft a schema from public data only; read it, edit it, keep it."""
    from openprior.data.schema import Schema

    _check_new(out)
    drafted = Schema.draft(
        public, bins=bins, person_id=person_id, max_rows_per_person=max_rows, exclude=exclude or ()
    )
    drafted.save(out)
    sizes = drafted.domain.sizes()
    if json:
        print_json({"out": str(out), "sizes": sizes, "hash": drafted.hash, "notes": dict(drafted.notes)})
        return
    for note in drafted.notes.values():
        typer.echo(f"warning: {note}", err=True)
    typer.echo(f"wrote {out}: {len(sizes)} columns; read it and edit it before you release")
    for name, size in sizes.items():
        typer.echo(f"  {name:<32}{size:>6} values")


@ledger_app.command("show", epilog="Example: openprior ledger show budget.sqlite")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    ledger_timeout: Wait = 30.0,
    json: Json = False,
) -> None:
    """What each dataset's budget is, what is spent and what is left."""
    found = _ledger(path, ledger_timeout).datasets()
    if json:
        print_json([_status(d) for d in found])
        return
    if not found:
        typer.echo(f"{path} is empty: no dataset has a budget yet")
    for d in found:
        share = float(d.committed) / d.rho
        typer.echo(
            f"{d.name}: ε = {d.epsilon:g}, δ = {d.delta:g} (ρ = {d.rho:.6g}); committed {share:.1%}, "
            f"ρ = {d.remaining if d.remaining > 1e-12 * d.rho else 0:.6g} left"
        )
        for run in d.runs:
            typer.echo(
                f"  {run.id}  {run.started}  {run.state}  reserved ρ = {run.reserved:.6g}, "
                f"spent {float(run.spent):.6g} in {run.events} steps"
            )


@ledger_app.command(
    "budget", epilog="Example: openprior ledger budget budget.sqlite survey --epsilon 4 --delta 1e-9"
)
def ledger_budget(
    path: Annotated[
        Path, typer.Argument(help="The ledger file; created if it is not there.", readable=False)
    ],
    dataset: Annotated[str, typer.Argument(help="The dataset's name.")],
    epsilon: Annotated[float, typer.Option(help="ε that all releases of the dataset may spend together.")],
    delta: Annotated[float, typer.Option(help="δ of that; 0 for pure ε-DP.")],
    ledger_timeout: Wait = 30.0,
) -> None:
    """Set what all releases of a dataset may spend together; never below what is already committed."""
    from openprior.privacy.calibrate import pure_rho, rho_from_epsilon_delta
    from openprior.privacy.ledger import Ledger

    rho = pure_rho(epsilon) if delta == 0 else rho_from_epsilon_delta(epsilon, delta)
    Ledger(path, timeout=ledger_timeout).set_budget(dataset, rho=rho, epsilon=epsilon, delta=delta)
    typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} (ρ = {rho:.6g})")


@ledger_app.command("close", epilog="Example: openprior ledger close budget.sqlite RUN")
def ledger_close(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    run: Annotated[str, typer.Argument(help="The run's id, as 'ledger show' prints it.")],
    ledger_timeout: Wait = 30.0,
) -> None:
    """Give up an unfinished run: what it spent stays spent, the rest goes back; it can no longer be resumed."""
    _ledger(path, ledger_timeout).close(run)
    typer.echo(f"closed {run}")


def _check_new(out: Path) -> None:
    """Before the work, so that nobody waits for it in vain."""
    if out.exists():
        raise OptionError(f"{out} exists; choose another name or remove it")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"the folder that should hold {out} does not exist; create it first")


def _ledger(path: Path, timeout: float) -> Any:
    from openprior.errors import LedgerError
    from openprior.privacy.ledger import Ledger

    if not path.exists():
        raise LedgerError(f"there is no ledger {path}; check the name")
    return Ledger(path, timeout=timeout)


def _status(d: Any) -> dict[str, Any]:
    runs = [
        {"id": r.id, "state": r.state, "reserved": r.reserved, "spent": float(r.spent), "started": r.started}
        for r in d.runs
    ]
    facts = {"dataset": d.name, "epsilon": d.epsilon, "delta": d.delta, "rho": d.rho}
    return {**facts, "committed": float(d.committed), "remaining": d.remaining, "runs": runs}


if __name__ == "__main__":
    main()
