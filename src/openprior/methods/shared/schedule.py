"""Budget schedules: how a run's ρ is spread over its rounds.

A schedule gives the share of each round, and hears from each round how its error compared with its noise. Shares may
depend on what was heard: that is an earlier outcome, and fully adaptive composition allows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Annealed", "Even", "Schedule", "Share"]


@dataclass(frozen=True)
class Share:
    """What one round may spend."""

    select: float
    measure: float


class Schedule(Protocol):
    """The shares of all rounds."""

    def __iter__(self) -> Iterator[Share]:
        """One share a round, until the budget is used."""
        ...

    def heard(self, signal: float) -> bool:
        """Told the round's error in units of its noise; whether the measurement is worth fitting."""
        ...


@dataclass(frozen=True)
class Even:
    """The same in every round, as published; every measurement is fitted.

    >>> [s.select + s.measure for s in Even(1.0, 4)]
    [0.25, 0.25, 0.25, 0.25]
    """

    rho: float
    rounds: int
    select: float = 0.5

    def __iter__(self) -> Iterator[Share]:
        share = self.rho / self.rounds
        for _ in range(self.rounds):
            yield Share(share * self.select, share * (1 - self.select))

    def heard(self, signal: float) -> bool:
        """Nothing changes."""
        return True


class Annealed:
    """Small shares at first, twice as large after every round that found nothing above its noise.

    A public table that is far off is corrected in many cheap rounds, one that is close gets few sharp ones; nobody has
    to guess the number of rounds. A measurement within 1.5 standard deviations of the model is not fitted: replaying
    it would only fit the noise.

    >>> schedule = Annealed(1.0, first=0.25)
    >>> [(s.select, schedule.heard(9.0)) for s in schedule]
    [(0.125, True), (0.125, True), (0.125, True), (0.125, True)]
    >>> schedule = Annealed(1.0, first=0.25)
    >>> [(s.select, schedule.heard(0.0)) for s in schedule]
    [(0.125, False), (0.375, False)]
    """

    def __init__(
        self, rho: float, *, first: float = 1 / 300, growth: float = 2.0, least: float = 1.5
    ) -> None:
        self._left, self._share = rho, rho * first
        self._growth, self._least = growth, least

    def __iter__(self) -> Iterator[Share]:
        while self._left > 0:
            share = min(self._share, self._left)
            if self._left - share < share:
                share = self._left
            self._left -= share
            yield Share(share / 2, share / 2)

    def heard(self, signal: float) -> bool:
        """Doubles the shares to come if nothing was found."""
        found = signal >= self._least
        if not found:
            self._share *= self._growth
        return found
