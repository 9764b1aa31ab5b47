"""The command line: thin. It reads arguments, calls the library, prints, and turns our errors into one line.

Results go to stdout (with --json as one JSON document), progress and warnings to stderr. Exit codes: 0 done,
1 an error that is explained in one line, 2 wrong usage.
"""

import io
import sys
import warnings
from typing import Annotated

import typer
from typer.main import get_command

from openprior.command_line import (
    asking,
    auditing,
    choosing,
    demo,
    estimating,
    evaluating,
    guiding,
    ledgers,
    priors,
    releasing,
    schemas,
)
from openprior.command_line.program import Program
from openprior.command_line.terminal import say, show_bug, show_warning
from openprior.display import plain
from openprior.errors import OpenPriorError, OpenPriorWarning

__all__ = ["app", "main"]

app = Program(
    name="openprior",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(schemas.schema_app, name="schema")
app.add_typer(ledgers.ledger_app, name="ledger")


def _version(asked: bool) -> None:
    if asked:
        from openprior import __version__

        say(f"openprior {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Release statistics and synthetic tables under differential privacy, with public data as prior knowledge."""


for family in (releasing, priors, asking, estimating, evaluating, guiding, choosing, auditing, demo):
    family.add_to(app)


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
        say(f"error: {plain(str(error))}", err=True)
        for note in getattr(error, "__notes__", []):
            say(f"  {plain(note)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
