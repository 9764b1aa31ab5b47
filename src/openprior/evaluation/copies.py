"""Released rows that repeat a private row which is the only one of its kind. Everything here is NOT PRIVATE.

Some such matches are chance: another sample of the same population has them too. So chance is measured: the private
rows are split at random into halves A and B, and the unique rows of A are looked for among B's rows, which stand for
another sample, and among as many released rows. A release that copies people hits far more of A than B does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.tables.encode import Table
from openprior.tables.table import join

__all__ = ["Copies", "check_tables", "copies_of", "number_rows"]


@dataclass(frozen=True)
class Copies:
    """Unique private rows among the released rows, and what chance explains. NOT PRIVATE."""

    unique: int
    """Private rows whose combination of all columns no other private row has."""
    matched: int
    """Those of them that are also a released row."""
    rate: float
    """Matched over unique; 0 if there are none."""
    released_rate: float
    """Unique rows of a private half that as many released rows hit; mean over splits."""
    chance_rate: float
    """The same for the rows of the other private half."""
    error: float
    """Standard error of the difference between the two."""

    @property
    def excess(self) -> float:
        """Released rate minus chance rate: near 0 or below for a release that copies nobody."""
        return self.released_rate - self.chance_rate

    @property
    def beyond_chance(self) -> bool:
        """Whether the excess is more than three standard errors."""
        return self.excess > 3.0 * self.error


def copies_of(released: Table, private: Table, *, splits: int = 5, seed: int = 0) -> Copies:
    """Exact matches of unique private rows, and how many are chance. NOT PRIVATE."""
    check_tables(released, private)
    if splits < 1:
        raise OptionError(f"splits = {splits}; use at least 1")
    ours, theirs = number_rows([private, released])
    size = int(max(ours.max(), theirs.max())) + 1
    unique = np.bincount(ours, minlength=size) == 1
    matched = int(np.count_nonzero(unique & (np.bincount(theirs, minlength=size) > 0)))
    rng = np.random.default_rng(seed)
    tries = np.array([_split(ours, theirs, size, rng) for _ in range(splits)])
    count = int(np.count_nonzero(unique))
    by_release, by_half, variance = tries.mean(axis=0)
    return Copies(
        count, matched, matched / max(count, 1), float(by_release), float(by_half), math.sqrt(variance)
    )


def _split(
    private: NDArray[np.int64], released: NDArray[np.int64], size: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Rates at which released rows and B hit the unique rows of A, and the variance of their difference.

    A row of A that one of the two hits and the other does not is a fair coin if released rows are another sample.
    """
    order = rng.permutation(private)
    half = len(order) // 2
    rows = min(half, len(released))
    alone = np.bincount(order[half:], minlength=size) == 1
    by_half = (np.bincount(order[:rows], minlength=size) > 0)[alone]
    sample = rng.choice(released, rows, replace=False)
    by_release = (np.bincount(sample, minlength=size) > 0)[alone]
    count = max(len(by_half), 1)
    return (
        float(np.count_nonzero(by_release)) / count,
        float(np.count_nonzero(by_half)) / count,
        max(float(np.count_nonzero(by_half != by_release)), 1.0) / count**2,
    )


def number_rows(tables: Sequence[Table]) -> list[NDArray[np.int64]]:
    """A number for every row of tables of one domain: equal rows, and only those, have equal numbers.

    Rows are sorted as exact mixed-radix numbers, so nothing depends on a hash.
    """
    words = join(tables).words()
    order = np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0], kind="stable")
    new = np.zeros(len(order), np.bool_)
    for word in words:
        ordered = word[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    numbers: NDArray[Any] = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return np.split(numbers, np.cumsum([table.n for table in tables])[:-1])


def check_tables(released: Table, private: Table) -> None:
    """Refuse tables that cannot be compared."""
    if released.domain != private.domain:
        raise OptionError("the two tables have different columns or codes; encode both with one schema")
    if not released.n or not private.n:
        raise OptionError("a table without rows cannot be compared; give at least one row of each")
    if not len(private.domain):
        raise OptionError("tables without columns cannot be compared; give at least one column")
