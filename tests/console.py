"""The command line, in this process or as a program of its own."""

import contextlib
import io
import sys
from dataclasses import dataclass

from openprior.command_line import main as cli

__all__ = ["PROGRAM", "Said", "say"]

PROGRAM = (
    sys.executable,
    "-c",
    "import openprior.progress_shown as shown; shown.PATIENCE = 3600; "
    "from openprior.command_line.main import main; main()",
)
"""The words that start the real program; its own follow. No phase lasts long enough for a line of progress."""


@dataclass(frozen=True)
class Said:
    """How a command ended and what it printed."""

    code: int | str | None
    out: str
    err: str


def say(*args: str) -> Said:
    """Run a command."""
    out, err = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    kept, hook, sys.argv = sys.argv, sys.excepthook, ["openprior", *args]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.excepthook = kept, hook
    return Said(code, out.getvalue(), err.getvalue())
