"""`openprior evaluate`, `compare` and `estimate`: how good a release is, for your eyes only or for everyone's."""

from pathlib import Path
from typing import Annotated, Any

import typer

from openprior.command_line import arguments, options
from openprior.command_line.options import Json, Wait
from openprior.command_line.terminal import print_json, print_table, say
from openprior.progress_shown import watching

__all__ = ["add_to"]

Folder = Annotated[Path, typer.Argument(help="A release folder.", readable=False)]
Private = Annotated[str, typer.Option(help="The private table it was made from.")]
Of = Annotated[str, typer.Option(help="synthetic | answers")]
Work = Annotated[str | None, typer.Option(help="As for 'release'; default: the release's own.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(epilog="Example: openprior evaluate release --private private.csv")(evaluate)
    app.command(epilog="Example: openprior compare tilt=release-1 aim=release-2 --private private.csv")(
        compare
    )
    app.command(epilog="Example: openprior estimate release --private private.csv --epsilon 0.05")(estimate)


def evaluate(
    release: Folder,
    private: Private,
    of: Of = "synthetic",
    workload: Work = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Report file, or a folder for it, which is made; default: RELEASE.evaluation/report.html, "
            "outside the release.",
            readable=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="A column to predict: train on synthetic rows, test on private ones."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Workload errors only.")] = False,
    groups: Annotated[
        str | None,
        typer.Option(help="Also errors by group, e.g. 'area,year', with a picture beside the report."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure a release against the private table and write a report. NOT PRIVATE: for your eyes only."""
    import openprior as op
    from openprior.evaluation.metrics import check_place, report_file, write_report, write_text
    from openprior.tables.source import open_source

    # Beside the release folder, not in it: what is published must not carry private figures.
    place = report_file(report) if report else _beside(release, ".evaluation") / "report.html"
    check_place(place)
    opened = op.open_release(release)
    rows = open_source(private, opened.schema)  # once for all, because a workbook is read as a whole
    errors = op.evaluate(opened, rows, workload=workload, of=of)
    quality = None if quick and target is None else op.evaluate_quality(opened, rows, target=target)
    write_report(opened, errors, rows, place, quality=quality)
    facts = {name: getattr(errors, name) for name in ("workload_error", "max_error", "mean_error", "rmse")}
    written = {"report": str(place)}
    detail: dict[str, Any] = {}
    if groups is not None:
        each = op.evaluate_groups(opened, rows, [g.strip() for g in groups.split(",")])
        picture = place.with_name("groups.svg")
        write_text(picture, each.picture())
        facts["group_error"] = each.error
        written["picture"] = str(picture)
        detail["groups"] = [{"group": list(label), "error": error} for label, error in each.worst]
    if json:
        if quality is not None:
            detail["quality"] = quality.as_dict()
        detail["per_column"] = errors.per_column
        detail["losses"] = {loss.column: loss.as_dict() for loss in errors.losses}
        head = {"notice": errors.notice, "warning": errors.warning, "of": of}
        print_json({**head, **facts, **detail, **written})
        return
    if errors.warning is not None:
        say(errors.warning)
    say(errors.notice)
    for name, value in facts.items():
        say(f"  {name.replace('_', ' '):<16}{value:.6g}")
    for loss in errors.first_losses:
        outside = f"; outside the schema: {loss.words}" if loss.outside else ""
        say(f"  values of {loss.column}: {loss.before:.1%} off, codes {loss.after:.1%}{outside}")
    for entry in detail.get("groups", [])[:3]:
        say(f"  worst group: {' '.join(entry['group'])} {entry['error']:.6g}")
    for name, shown, _ in [] if quality is None else quality.summary():
        say(f"  {name}: {shown}")
    say(f"wrote {' and '.join(written.values())}")


def compare(
    releases: Annotated[
        list[str],
        typer.Argument(help="Release folders, each as FOLDER or NAME=FOLDER.", metavar="RELEASES..."),
    ],
    private: Annotated[
        str | None,
        typer.Option(
            help="The private table they were made from; without it, they are compared with one another."
        ),
    ] = None,
    of: Of = "synthetic",
    workload: Annotated[
        str | None, typer.Option(help="As for 'release'; default: the releases' own, if it is the same.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Page to write, or a folder for it; default: comparison.html in FIRST.evaluation, or in "
            "FIRST.comparison without --private.",
            readable=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Lay releases side by side: errors, ε, method. NOT PRIVATE with --private: for your eyes only."""
    import openprior as op
    from openprior.evaluation.comparison import check_page
    from openprior.evaluation.metrics import report_file

    folders = arguments.named_folders(releases)
    # With private figures it goes where those of 'evaluate' go.
    beside = _beside(next(iter(folders.values())), ".comparison" if private is None else ".evaluation")
    place = report_file(report, "comparison.html") if report else beside / "comparison.html"
    check_page(place, is_private=private is None)
    compared = op.compare(
        {name: op.open_release(folder) for name, folder in folders.items()},
        private,
        workload=workload,
        of=of,
    )
    compared.save(place)
    if json:
        print_json({**compared.as_dict(), "report": str(place)})
        return
    for line in filter(None, (*compared.losses(), compared.notice)):
        say(line)
    headings, rows = compared.table()
    print_table(f"{len(rows)} releases", headings, rows)
    headings, rows = compared.column_table()
    if rows:
        print_table("Mean L1 error of the tables with a column in them", headings, rows)
    for line in (*compared.notes(), f"wrote {place}"):
        say(line)


def estimate(
    release: Folder,
    private: Private,
    epsilon: Annotated[float, typer.Option(help="ε of this estimate, beside the release's own.")],
    delta: Annotated[float, typer.Option(help="δ of this estimate; 0: pure ε-DP with Laplace noise.")] = 0.0,
    of: Of = "synthetic",
    workload: Work = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder to write; default: RELEASE.estimate.", readable=False),
    ] = None,
    ledger: options.Ledger = None,
    ledger_timeout: Wait = 30.0,
    dataset: Annotated[str | None, typer.Option(help="Name in the ledger; default: the release's.")] = None,
    acknowledge_refusals: options.Acknowledge = False,
    insecure_seed: options.Seed = None,
    quiet: options.Quiet = False,
    json: Json = False,
) -> None:
    """Measure a release's workload error privately, for an extra ε: this may be published with it."""
    import openprior as op
    from openprior.evaluation.error_estimate import write_estimate
    from openprior.whole import fresh

    place = out or _beside(release, ".estimate")
    folder = fresh(place)
    opened = op.open_release(release)
    with watching(not quiet):
        errors = op.estimate_error(
            opened,
            private,
            epsilon=epsilon,
            delta=delta,
            workload=workload,
            of=of,
            ledger=options.chosen_ledger(ledger, ledger_timeout),
            dataset=dataset,
            seed=insecure_seed,
            acknowledge_refusals=acknowledge_refusals,
        )
    write_estimate(errors, opened, folder)
    if json:
        print_json({**errors.as_dict(), "ledger": None if ledger is None else str(ledger), "out": str(place)})
        return
    say(
        f"workload error {max(errors.workload_error, 0):.4f} (95 %: {errors.low:.4f} to {errors.high:.4f}), "
        f"largest error of a cell {errors.max_error:.4f} ({errors.max_low:.4f} to {errors.max_high:.4f})"
    )
    say("It is the error of codes: what the schema cannot hold of a value is not in it.")
    for line in (errors.statement, errors.together, *options.ledger_note(ledger), f"wrote {place}"):
        say(line)


def _beside(release: Path, ending: str) -> Path:
    folder = release if release.name not in ("", "..") else release.resolve()
    return folder.with_name(folder.name + ending)
