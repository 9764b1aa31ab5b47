"""`openprior demo`: two simulated surveys, a release and a comparison."""

from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line.options import Json, Out, Quiet, check_new
from openprior.command_line.terminal import print_json, say, stoppable
from openprior.progress_shown import watching

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Put the command on the list."""
    app.command(epilog="Example: openprior demo -o demo-release")(demo)


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
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Two simulated surveys, a year apart: release the second with the first as prior, and compare methods."""
    if tables is None:
        from openprior.compiling.ahead import compile_ahead

        compile_ahead("tilt")
    from openprior.command_line.demonstration import run_demo, write_tables

    if tables is not None:
        check_new(tables)
        names = write_tables(tables, rows=rows)
        if json:
            print_json({"out": str(tables), "files": names})
        else:
            say(f"wrote {' and '.join(str(tables / name) for name in names)}, {rows:,} rows each")
        return
    check_new(out)
    with stoppable(out), watching(not quiet):
        found = run_demo(out, epsilon=epsilon, rows=rows)
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
    say(f"wrote {out}: open {out / 'report.html'} in a browser")
