"""`openprior audit`: does a mechanism keep its promise? Its outcomes, replayed on the neighbours of made-up tables."""

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from openprior.command_line import arguments
from openprior.command_line.options import Json, Quiet
from openprior.command_line.terminal import print_json, print_table, say
from openprior.errors import OptionError
from openprior.progress_shown import watching

__all__ = ["add_to"]

QUICK = {"tilt": "tilt:particles=1000,rounds=6"}
"""Settings of slow mechanisms when all are audited: the same ways through the code in less time."""
MORE = ("hierarchy:inner=mst",)
"""Settings that take another way: a mechanism inside every part of a partition."""


def add_to(app: typer.Typer) -> None:
    """Put the command on the list."""
    app.command(
        epilog="Example: openprior audit aim 'mwem:rounds=5', or openprior audit my_mechanism.py:MyMechanism"
    )(audit)


def audit(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MECHANISM]...",
            help="NAME or NAME:option=1,other=2; a file.py, or file.py:Class; default: every mechanism.",
        ),
    ] = None,
    relation: Annotated[str | None, typer.Option(help="replace-one | add-remove; default: both.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Recorded runs per setting.")] = 2,
    neighbours: Annotated[int, typer.Option(min=1, help="Neighbours that each is replayed on.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of tables and outcomes.")] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Check that mechanisms keep their promise: same path on neighbours, moves within sensitivity, cost within charge.

    Runs on made-up tables, reads none of yours and spends no budget. A file that is named is run as Python.
    """
    import openprior as op

    chosen = [m for text in mechanisms or _all() for m in _mechanisms(text)]
    audits = []
    with watching(not quiet):
        for mechanism in chosen:
            audits.append(
                op.audit(
                    mechanism,
                    relation=relation,
                    runs=runs,
                    neighbours=neighbours,
                    seed=seed,
                )
            )
    whole = audits[0]
    for each in audits[1:]:
        whole += each
    if json:
        print_json(whole.as_dict())
    else:
        shown = [
            (*row[:-1], "ok" if r.ok else "VIOLATION")
            for row, r in zip(whole.table(), whole.rows, strict=True)
        ]
        print_table("Audit", whole.headings, shown)
        say(
            "moved: the furthest that a statistic moved between neighbours, over its sensitivity; cost: of that move "
            "under the noise drawn, over what was charged; both may reach 1, not pass it"
        )
        say(f"noise asked for over noise observed: {whole.noise:.3f}")
        for fault in whole.faults:
            say(f"- {fault}")
        say(whole.verdict)
    if not whole.ok:
        raise typer.Exit(1)


def _all() -> list[str]:
    from openprior.methods.base import mechanisms

    return [*(QUICK.get(name, name) for name in mechanisms()), *MORE]


def _mechanisms(text: str) -> list[Any]:
    """Those that a word means: listed ones with options, or all of a file."""
    file, _, name = text.partition(".py:") if ".py:" in text else (text.removesuffix(".py"), "", "")
    if ".py:" not in text and not text.endswith(".py"):
        return arguments.grid([text])
    return _from_file(Path(f"{file}.py"), name)


def _from_file(path: Path, name: str) -> list[Any]:
    """The mechanisms that a file defines, with their default options; runs the file."""
    from openprior.methods.base import Mechanism

    if not path.is_file():
        raise OptionError(f"there is no file {path}; check the name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path} cannot be run as Python; check the file")
    module = importlib.util.module_from_spec(spec)
    # Registered as Python does for an import, because dataclasses look their module up; not in place of another one.
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"{path} cannot be run: {type(error).__name__}: {error}; correct it") from error
    defined = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Mechanism) and value.__module__ == path.stem
    }
    defined = {key: value for key, value in defined.items() if not inspect.isabstract(value)}
    if name and name not in defined:
        raise OptionError(f"{path} defines no mechanism {name}; it has {', '.join(defined) or 'none'}")
    if not defined:
        raise OptionError(
            f"{path} defines no mechanism; write a class with @register, see add-a-mechanism.md"
        )
    return [cls() for key, cls in defined.items() if not name or key == name]
