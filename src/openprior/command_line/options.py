"""What the commands have in common: options that mean the same everywhere, and checks before long work."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from openprior.errors import LedgerError, OptionError
from openprior.whole import outside_releases

__all__ = [
    "Acknowledge",
    "Dataset",
    "Json",
    "Ledger",
    "Mechanism",
    "Out",
    "Quiet",
    "Schema",
    "Seed",
    "Wait",
    "check_new",
    "chosen_ledger",
    "ledger_note",
    "opened",
]

# Paths have readable=False: what cannot be read gets our own line and exit code 1, not Typer's box and 2.
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress; warnings and results stay.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder to write; must not exist.", readable=False)]
Wait = Annotated[float, typer.Option("--ledger-timeout", min=0, help="Seconds to wait for a locked ledger.")]
Ledger = Annotated[Path | None, typer.Option(help="Budget file kept across releases.", readable=False)]
Acknowledge = Annotated[
    bool,
    typer.Option(
        "--acknowledge-refusals", help="Go on after several refusals of this table for what is in it."
    ),
]
Dataset = Annotated[str | None, typer.Option(help="Name in the ledger; default: the file's name.")]
Seed = Annotated[
    int | None, typer.Option(help="Repeatable noise for an experiment: the result is NOT PRIVATE.")
]
Schema = Annotated[
    Path | None,
    typer.Option(help="Schema file; drafted from the public table if absent.", readable=False),
]
Mechanism = Annotated[
    str,
    typer.Option(
        "-m", "--mechanism", help="See 'openprior mechanisms'; also with options, as tilt:rounds=12."
    ),
]


def check_new(out: Path) -> None:
    """Before the work, so that nobody waits for it in vain."""
    # os.path, here and below, says no and does not raise where a name is too long for any file.
    if os.path.lexists(out):
        raise OptionError(f"{out} exists; choose another name or remove it")
    if not os.path.isdir(out.absolute().parent):
        raise OptionError(f"the folder that should hold {out} does not exist; create it first")
    outside_releases(out)


def chosen_ledger(path: Path | None, timeout: float, *, new: bool | None = None) -> Any:
    """The ledger to charge, which must be there; `new`: whether one was asked for, None where it cannot be."""
    from openprior.privacy.ledger import Ledger as Book

    if path is None:
        return None
    book = Book(path, timeout=timeout)
    if not book.exists and not new:
        begin = ", or begin one with --new-ledger" if new is False else ""
        raise LedgerError(
            f"there is no ledger {path}; check the name, or set the dataset's budget with "
            f"'openprior ledger budget {path} NAME --epsilon … --delta …' first{begin}"
        )
    return book


def ledger_note(path: Path | None) -> list[str]:
    """A line where nothing was charged to a ledger."""
    if path is not None:
        return []
    return [
        "No ledger: nobody adds this up with what else is asked about the same people; --ledger FILE does."
    ]


def opened(path: Path, timeout: float) -> Any:
    """A ledger that is there."""
    from openprior.privacy.ledger import Ledger as Book

    if not os.path.exists(path):
        raise LedgerError(f"there is no ledger {path}; check the name")
    return Book(path, timeout=timeout)
