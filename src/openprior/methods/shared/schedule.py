"""Budget schedules: how a run's ρ is spread over its rounds.

A schedule gives the share of each round, and hears from each round whether it found something above its noise. Shares
may depend on what was heard: that is an earlier outcome, and fully adaptive composition allows it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from openprior.privacy.curator import Curator

__all__ = ["FIRST", "Annealed", "AnnealedPart", "Even", "EvenRest", "Schedule", "Share"]


FIRST = 1 / 300
"""The first share of a part of the budget in which shares double."""
_MANY = 10_000
"""Rounds; nobody counts further ahead."""


@dataclass(frozen=True)
class Share:
    """What one round may spend."""

    rho: float
    select: float
    measure: float
    takes_rest: bool = False
    """Whether measuring takes all that is left, so that no rounding error is left over."""

    @staticmethod
    def of(rho: float, alpha: float, *, takes_rest: bool = False) -> "Share":
        """The share α of ρ for measuring, the rest of it for selecting."""
        return Share(rho, (1 - alpha) * rho, alpha * rho, takes_rest)


class Schedule(Protocol):
    """The shares of all rounds."""

    def __iter__(self) -> Iterator[Share]:
        """One share per round, until the budget is used."""
        ...

    def heard(self, found: bool) -> bool:
        """Told whether a round found something above its noise; whether its measurement is worth fitting."""
        ...

    def expected(self, done: int) -> int:
        """How many rounds there will be in all, as far as can be told once so many are done; for progress."""
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
        rho = self.rho / self.rounds
        for _ in range(self.rounds):
            yield Share(rho, rho * self.select, rho * (1 - self.select))

    def heard(self, found: bool) -> bool:
        """Nothing changes."""
        return True

    def expected(self, done: int) -> int:
        """Known from the start."""
        return self.rounds


@dataclass(frozen=True)
class EvenRest:
    """What is left, evenly over the rounds to come: what a round does not spend goes to those after it."""

    curator: Curator
    rounds: int
    alpha: float

    def __iter__(self) -> Iterator[Share]:
        for done in range(self.rounds):
            yield Share.of(self.curator.remaining / (self.rounds - done), self.alpha)

    def heard(self, found: bool) -> bool:
        """Nothing changes."""
        return True

    def expected(self, done: int) -> int:
        """Known from the start."""
        return self.rounds


class Annealed:
    """Small shares at first, larger by a factor after every round that found nothing above its noise; the last round
    takes the rest, when that would not pay for two more like it.

    A start that is far off is corrected in many cheap rounds, one that is close gets few sharp ones; nobody has to
    guess the number of rounds.
    """

    def __init__(
        self,
        left: Callable[[], float],
        first: float,
        *,
        growth: float,
        alpha: float | Callable[[float], float],
        last_takes_rest: bool = False,
        tolerance: float = 1e-9,
    ) -> None:
        """`left` tells what is left of the budget; `alpha` may depend on what a round spends; `tolerance` allows for
        rounding errors of shares that add up."""
        self._left, self._rho, self._growth, self._alpha = left, first, growth, alpha
        self._last_takes_rest, self._tolerance = last_takes_rest, tolerance
        self._found: list[bool] = []

    def __iter__(self) -> Iterator[Share]:
        last = False
        while not last:
            left = self._left()
            last = left < 2 * self._rho * (1 - self._tolerance)
            rho = left if last else self._rho
            alpha = self._alpha(rho) if callable(self._alpha) else self._alpha
            yield Share.of(rho, alpha, takes_rest=last and self._last_takes_rest)

    def heard(self, found: bool) -> bool:
        """Raises the shares to come if nothing was found: fitting such a measurement would fit noise, mostly."""
        self._found.append(found)
        if not found:
            self._rho *= self._growth
        return found

    def expected(self, done: int) -> int:
        """If rounds go on to find something as often as the last dozen did: then shares grow by so much on average.

        An outcome of rounds that were paid for, so it may be told.
        """
        last = self._found[-12:]
        growth = self._growth ** (1 - (sum(last) + 1) / (len(last) + 2))
        left, rho, to_come = self._left(), self._rho, 0
        if left <= self._rho * self._tolerance:
            return done
        while left >= 2 * rho and to_come < _MANY:
            left, rho, to_come = left - rho, rho * growth, to_come + 1
        return done + to_come + 1


class AnnealedPart(Annealed):
    """Doubling shares within a part ρ of the budget, where the rest is kept for something else; half of each selects.

    >>> schedule = AnnealedPart(1.0, first=0.25)
    >>> [(s.select, schedule.heard(True)) for s in schedule]
    [(0.125, True), (0.125, True), (0.125, True), (0.125, True)]
    >>> schedule = AnnealedPart(1.0, first=0.25)
    >>> [(s.select, schedule.heard(False)) for s in schedule]
    [(0.125, False), (0.375, False)]
    """

    def __init__(self, rho: float, *, first: float = FIRST) -> None:
        self._part = rho
        super().__init__(lambda: self._part, rho * first, growth=2.0, alpha=0.5, tolerance=0.0)

    def __iter__(self) -> Iterator[Share]:
        for share in super().__iter__():
            self._part -= share.rho
            yield share
