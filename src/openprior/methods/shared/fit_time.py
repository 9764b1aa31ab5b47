"""How long the fits of a growing model may take, foretold from the sizes of its cliques and from nothing else.

A pass of messages takes a fixed time per cell of the cliques' tables, and a model that has grown large is fitted again
in every round that is still to come; so one marginal that joins large cliques early can cost minutes. `FitTime` allows
a marginal only if all fits to come, with the cliques that it would bring, stay within a limit. No clock is asked: the
same run has the same candidates on every machine, and on a neighbour's table with the same outcomes.
"""

__all__ = ["LAST_STEPS", "FitTime", "steps_between"]

_CELL = 2.5e-9
"""Seconds that one pass and its part of the looks at the gap take per cell, on one core of the machine that it was
measured on: 1 to 2.5, depending on how a tree's cliques are made up."""
_FEWEST, _MOST, _PASSED = 40, 60, 3e7
"""Steps between two rounds: as many as pass through so many cells, within bounds."""
LAST_STEPS = 120
"""Steps at the end, when nothing more will be measured."""


def steps_between(cells: float) -> int:
    """How many steps a fit between two rounds may take: small models are fitted closely, large ones as far as they need
    to be for the next choice; the next fit begins where this one ended.

    >>> steps_between(1e4), steps_between(5e5), steps_between(1e7)
    (60, 60, 40)
    """
    return int(min(max(_PASSED / cells, _FEWEST), _MOST))


class FitTime:
    """The seconds that all fits of a run may take together, and how many of them are gone; both as foretold.

    >>> time = FitTime(1.0)
    >>> time.allows(1e5, 10), time.allows(4e6, 3), time.allows(4e6, 1)
    (True, False, False)
    >>> FitTime(None).allows(1e9, 1000)
    True
    """

    def __init__(self, seconds: float | None) -> None:
        """No limit if None."""
        self._seconds, self._gone = seconds, 0.0

    def allows(self, cells: float, rounds: float) -> bool:
        """Whether there is time for so many more rounds, and the last fit, with cliques of so many cells."""
        if self._seconds is None:
            return True
        passes = rounds * steps_between(cells) + LAST_STEPS
        return self._gone + _CELL * passes * cells <= self._seconds

    def spend(self, cells: float) -> None:
        """A round was fitted with cliques of so many cells."""
        self._gone += _CELL * steps_between(cells) * cells
