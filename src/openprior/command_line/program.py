"""A program whose commands refuse an option that is given twice.

Typer takes the last of two values and says nothing: of two `--public`, one would be left out in silence.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

__all__ = ["Program"]

_REMEDIES = {
    "--public": "give one public table ('openprior screen' tells which of several is closest)",
}


class _Command(TyperCommand):
    """A command with every option at most once, but for those that may be repeated, and switches."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
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


class Program(typer.Typer):
    """Typer with such commands."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """As Typer's."""
        return super().command(name, cls=_Command, **settings)
