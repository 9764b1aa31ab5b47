"""Values of a marginal's columns merged into groups, by public maps from code to group.

A method that has seen noisy one-way counts knows which values are too rare to be told from noise. Cells of merged
values are fewer and fuller. The maps are data that a method hands over: made from outcomes that were paid for, never
from counts.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Merging"]


@dataclass(frozen=True)
class Merging:
    """The group of every code, column by column; groups are numbered as they first occur, so each is written one way.

    >>> Merging(((0, 1, 1), (0, 1)))(np.array([[1, 2], [3, 4], [5, 6]]).reshape(-1)).tolist()
    [1, 2, 8, 10]
    """

    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not _listed(self.groups) or not all(map(_listed, self.groups)):
            raise PrivacyError("merging values needs a list of groups for every column, one group per code")
        object.__setattr__(self, "groups", tuple(map(tuple, self.groups)))
        if not all(map(_is_numbered, self.groups)):
            raise PrivacyError(
                "groups of merged values are numbered from 0 on, each new one by the next whole number"
            )

    def own(self) -> "Merging":
        """The same again, which shares nothing that could be changed once it was checked."""
        return Merging(self.groups)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many groups each column has."""
        return tuple(max(groups) + 1 for groups in self.groups)

    @property
    def cells(self) -> int:
        """How many cells are left."""
        return math.prod(self.shape)

    def check(self, marginal: Marginal, domain: Domain) -> None:
        """Raise unless there is one group for every code of every column: then each row is in just one cell."""
        sizes = tuple(domain[a] for a in marginal)
        if sizes != tuple(map(len, self.groups)):
            raise PrivacyError(f"merged values of {marginal} need one group per code of each column")

    def __call__(self, table: NDArray[Any]) -> NDArray[Any]:
        """The sums of a flat table over its merged cells, flat again and of the same type."""
        sizes = [len(groups) for groups in self.groups]
        if table.shape != (math.prod(sizes),):
            raise PrivacyError(f"a table with {table.shape} cells cannot be merged by groups of {sizes}")
        sums = table.reshape(sizes)
        for axis, (order, starts) in enumerate(self._orders):
            if len(starts) < len(order):
                sums = np.add.reduceat(sums.take(order, axis=axis), starts, axis=axis)
        return np.ascontiguousarray(sums).reshape(-1)

    @cached_property
    def _orders(self) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
        """The codes of each column, group by group, and where each group starts."""
        made = []
        for groups, count in zip(self.groups, self.shape, strict=True):
            order = np.argsort(groups, kind="stable")
            starts = np.searchsorted(np.array(groups)[order], np.arange(count))
            made.append((frozen(order), frozen(starts)))
        return tuple(made)


def _listed(things: object) -> bool:
    return isinstance(things, list | tuple) and len(things) > 0


def _is_numbered(groups: Sequence[int]) -> bool:
    """Exact types, as True would count as 1; the first is 0, and none is more than one beyond all before it."""
    if not all(type(g) is int and g >= 0 for g in groups):
        return False
    before = itertools.accumulate(groups, max, initial=-1)
    return all(g <= largest + 1 for g, largest in zip(groups, before, strict=False))
