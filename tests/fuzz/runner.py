"""A number to its case, and the case to its verdict."""

import random
from collections.abc import Iterable

from tests.fuzz import commands, files, folders, frames, journals, ledgers, options, schemas
from tests.fuzz.calls import Call, Generator
from tests.fuzz.judge import judge
from tests.fuzz.stock import working_folder

__all__ = ["KINDS", "case", "failures", "verdict"]

KINDS = (files, schemas, options, commands, folders, ledgers, journals, frames)


def case(number: int) -> tuple[Generator, random.Random]:
    """The generator of a case and its random numbers."""
    kind = KINDS[number % len(KINDS)]
    draw = random.Random(f"openprior {number}")
    return draw.choice(kind.GENERATORS), draw


def verdict(number: int) -> tuple[str, str | None]:
    """What a case is, and what is wrong with how it ends, or None."""
    generator, draw = case(number)
    with working_folder():
        call: Call = generator(draw)
        problem = judge(call)
    return f"{generator.__module__.rpartition('.')[2]}.{generator.__name__}: {call.what}", problem


def failures(numbers: Iterable[int]) -> list[str]:
    """What is wrong with each of these cases that does not end well."""
    found = []
    for number in numbers:
        what, problem = verdict(number)
        if problem is not None:
            found.append(f"case {number} ({what[:300]})\n{problem}")
    return found
