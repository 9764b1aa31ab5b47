"""Budget schedules: how a run's ρ is spread over its rounds. Pure functions."""

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Share", "even"]


@dataclass(frozen=True)
class Share:
    """What one round may spend."""

    select: float
    measure: float


def even(rho: float, rounds: int, select: float = 0.5) -> Iterator[Share]:
    """The same in every round; `select` is the part of it that selection gets.

    >>> [s.select + s.measure for s in even(1.0, 4)]
    [0.25, 0.25, 0.25, 0.25]
    """
    for _ in range(rounds):
        yield Share(rho / rounds * select, rho / rounds * (1 - select))
