"""What a person sees in the terminal: JSON, tables, one-line warnings, and bugs that quote nothing private."""

import contextlib
import json
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import typer
from rich.markup import escape

from openprior.display import harmless, plain
from openprior.errors import OpenPriorWarning

__all__ = [
    "json_text",
    "print_json",
    "print_table",
    "say",
    "show_bug",
    "show_warning",
    "stoppable",
]


def say(line: str, *, err: bool = False) -> None:
    """One line. Names of columns and files may hold anything, also what a terminal would obey."""
    typer.echo(harmless(line), err=err)


def show_warning(
    message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Ours in one line on stderr; those of other libraries are not for the user."""
    if issubclass(category, OpenPriorWarning):
        say(f"warning: {plain(str(message))}", err=True)


def show_bug(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """A bug: where it is, but not what it says, because the words of other libraries may quote a private row."""
    for line in traceback.format_tb(where):
        typer.echo(line, err=True, nl=False)
    typer.echo(
        f"error: a bug in openprior ({kind.__name__}); please report it with the lines above", err=True
    )


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json_text(value), nl=False)


def json_text(value: Any) -> str:
    """A JSON document for people and programs."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n"


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout: the first column to the left, numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=_cell(title), title_justify="left")
    for i, heading in enumerate(headings):
        shown = [row[i] for row in rows]
        numbers = all(not text or text[0] in "0123456789-<>~" for text in shown)
        table.add_column(_cell(heading), justify="right" if i and numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    Console().print(table)


def _cell(text: str) -> str:
    return escape(harmless(text))


@contextlib.contextmanager
def stoppable(out: Path) -> Iterator[None]:
    """Ctrl-C ends with a line that says whether the run can go on, and the shell's exit code for it."""
    try:
        yield
    except KeyboardInterrupt:
        kept = out.absolute().with_name(out.absolute().name + ".journal").exists()
        then = "continue it without paying again with --resume" if kept else "nothing was written"
        typer.echo(f"stopped; {then}", err=True)
        raise typer.Exit(130) from None
