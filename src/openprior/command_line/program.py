"""A program whose commands refuse an option that is given twice, and repeat no password.

Typer takes the last of two values and says nothing: of two `--public`, one would be left out in silence. And it quotes
what it does not expect, which may be the address of a database.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from openprior.errors import without_passwords

__all__ = ["Program"]

_REMEDIES = {
    "--public": "give one public table ('openprior screen' tells which of several is closest)",
}


@contextlib.contextmanager
def _discreet() -> Iterator[None]:
    """What Typer says of the words that it was given, without passwords."""
    try:
        yield
    except Exception as error:
        if isinstance(words := getattr(error, "message", None), str):
            error.message = without_passwords(words)  # type: ignore[attr-defined]
        raise


class _Command(TyperCommand):
    """A command with every option at most once, but for those that may be repeated, and switches."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _discreet():
            return self._parsed(ctx, args)

    def _parsed(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(given).items():
            may_repeat = option.multiple or option.nargs != 1 or getattr(option, "is_flag", True)
            if times > 1 and not may_repeat:
                name = max(option.opts, key=len)
                raise typer.BadParameter(
                    f"{name} is given {times} times; {_REMEDIES.get(name, 'give it once')}", ctx
                )
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class _Group(TyperGroup):
    """Commands, of which one is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        with _discreet():
            return super().resolve_command(ctx, args)


class Program(typer.Typer):
    """Typer with such commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """As Typer's."""
        return super().command(name, cls=_Command, **settings)
