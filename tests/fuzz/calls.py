"""What a case is: a call, what it may write, and what a right result is."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openprior as op
from openprior.releases.result import Release
from tests.console import Said, say

__all__ = ["Call", "Generator", "command", "released", "sound"]


def anything(result: Any) -> None:
    """Whatever came back is right."""


@dataclass(frozen=True)
class Call:
    """One call of the library or of the command line, in the working folder."""

    what: str
    """In words, for whoever reads a failure."""
    run: Callable[[], Any]
    right: Callable[[Any], None] = anything
    """Raises an AssertionError if the result is not right."""
    writes: frozenset[str] = frozenset()
    """Files and folders that are there once it has succeeded, and only then."""
    keeps: frozenset[str] = frozenset()
    """Files that it may make or change, whether it succeeds or not: a ledger, a journal to resume from."""
    public: bool = False
    """Whether what is broken was given as public, and may be quoted."""


Generator = Callable[[random.Random], Call]
"""Prepares files in the working folder and says what to call."""


def command(*words: str, writes: Iterable[str] = (), keeps: Iterable[str] = ()) -> Call:
    """A call of the command line, in this process."""

    def right(said: Said) -> None:
        assert said.out, "a command that succeeds says something"

    return Call(" ".join(words), lambda: say(*words), right, frozenset(writes), frozenset(keeps))


def sound(made: Release) -> None:
    """A release that may be handed over: it proves its cost, has rows, and can be used."""
    made.certificate.recheck()
    assert made.synthetic.num_rows > 0 and tuple(made.synthetic.column_names) == made.schema.names
    assert made.codes.n == made.synthetic.num_rows
    answered = made.answers(made.schema.names[:1])
    assert answered.num_rows == made.schema.columns[0].size
    assert "Release" in repr(made)


def released(epsilon: float, out: str | None = None) -> Callable[[Release], None]:
    """A check that the release is sound, has the ε that was asked for, and is the same as its folder."""

    def right(made: Release) -> None:
        sound(made)
        assert made.certificate.epsilon == epsilon and not made.certificate.is_private
        if out is not None:
            again = op.open_release(out)
            assert again.synthetic.equals(made.synthetic) and not Path(f"{out}.journal").exists()

    return right
