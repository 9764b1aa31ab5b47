"""Which answers are good enough for publication, by the classes that statistical offices use.

An office looks at an answer's coefficient of variation: its standard error over the answer. Graded are the answers as
they are handed out, measured or calibrated, of the workload and of all tables that it implies; of very many tables,
some stand for all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.asked_tables import implied_by_columns
from openprior.error_bars.bars import UNSURE, ErrorBars
from openprior.questions.workload import Marginal
from openprior.releases.answers import numbers_of
from openprior.releases.intervals import known_about
from openprior.report.budget import Segment
from openprior.report.words import percent

if TYPE_CHECKING:
    from openprior.report import Reported

__all__ = ["CLASSES", "REFUSED", "Grade", "Grades", "grades_of", "least_sizes"]

Floats = NDArray[np.float64]

CLASSES = (("A", 0.05), ("B", 0.15), ("C", 0.30))
"""Coefficients of variation up to which an answer is in a class."""
REFUSED = "do not publish"
_LIMITS = np.array([limit for _, limit in CLASSES])
_COLOURS = ("known", "mixed", "partly", "given")
_MOST_CELLS, _MOST_TABLES, _TOGETHER = 1_000_000, 1000, 64
"""With as many columns, so many are looked at; and so many tables are answered at once."""
_SIZES = np.geomspace(1.0, 1e12, 5000)
"""Sizes of cells that are tried."""


@dataclass(frozen=True)
class Grade:
    """The tables of so many columns."""

    columns: int
    tables: int
    looked_at: int
    """Of the tables; these stand for all."""
    cells: float
    """With an estimate of at least one row, in all tables."""
    of_cells: tuple[float, ...]
    """Of these cells, the share in each class, and beyond the last."""
    of_rows: tuple[float, ...]
    """The same of all rows; smaller cells have the rest."""
    least: tuple[int | None, ...]
    """From how many rows on an answer is in each class; None: in no cell of this table."""

    @property
    def smaller(self) -> float:
        """The share of rows in cells with an estimate below one."""
        return max(0.0, 1 - sum(self.of_rows))

    @property
    def segments(self) -> list[Segment]:
        """The rows as pieces of a bar."""
        segments, start = [], 0.0
        words = [*(f"class {name}" for name, _ in CLASSES), REFUSED]
        for key, word, rows, cells in zip(_COLOURS, words, self.of_rows, self.of_cells, strict=True):
            if rows > 0:
                tip = f"{word[0].upper()}{word[1:]}: {percent(cells)} of the cells, with {percent(rows)} of the rows"
                segments.append(Segment(key, start, rows, tip))
            start += rows
        return segments


@dataclass(frozen=True)
class Grades:
    """By the number of columns; without any where nothing can be said."""

    rows: tuple[Grade, ...] = ()
    unsure: float | None = None
    """How well the measurement alone tells the sum of all errors, as a share; None where there was none."""

    @property
    def is_sample(self) -> bool:
        """Whether some tables stand for all."""
        return any(row.looked_at < row.tables for row in self.rows)

    @property
    def is_vague(self) -> bool:
        """Whether the budget was too small to tell the errors from noise."""
        return self.unsure is not None and self.unsure > UNSURE


def grades_of(release: "Reported") -> Grades:
    """Of a release with error bars, or with answers whose noise is known exactly; nothing can be said of others."""
    bars, marginals = release.error_bars, release.workload.marginals
    nothing = bars is not None and bars.says_nothing
    if nothing or (bars is None and not _all_measured(release, marginals)):
        return Grades(unsure=bars.unsure if bars is not None else None)
    rows = tuple(_grade(release, some) for some in implied_by_columns(marginals).values())
    return Grades(rows, None if bars is None else bars.unsure)


def _all_measured(release: "Reported", marginals: Sequence[Marginal]) -> bool:
    """Whether the noise of every answer is known exactly, or all of them were measured by themselves."""
    if release.model.noise_alone(marginals[0]) is not None:
        return True
    told = [known_about(release.measurements, m) for m in marginals]
    return all(known is not None and bool(np.isfinite(known.standard_error).all()) for known in told)


def _grade(release: "Reported", tables: Sequence[Marginal]) -> Grade:
    """Of tables with as many columns."""
    bars, total, columns = release.error_bars, release.model.total, len(tables[0])
    some = _some(tables, [release.schema.domain.size(m) for m in tables])
    number, held = np.zeros(len(_LIMITS) + 1), np.zeros(len(_LIMITS) + 1)
    rows = worst = 0.0
    for start in range(0, len(some), _TOGETHER):
        for estimate, error, *_ in numbers_of(
            release.model, release.measurements, some[start : start + _TOGETHER], bars
        ):
            rows += float(np.maximum(estimate, 0.0).sum())
            worst = max(worst, float(np.nan_to_num(error, nan=np.inf).max()))
            size = estimate[estimate >= 1.0]
            # An error that nobody knows is beyond all limits.
            grade = np.searchsorted(_LIMITS, error[estimate >= 1.0] / size)
            number += np.bincount(grade, minlength=len(number))
            held += np.bincount(grade, size, minlength=len(held))
    return Grade(
        columns,
        len(tables),
        len(some),
        float(number.sum()) * len(tables) / len(some),
        tuple((number / max(number.sum(), 1.0)).tolist()),
        tuple((held / max(rows, 1e-9)).tolist()),
        _least(worst / _SIZES, total) if bars is None else least_sizes(bars, columns, total),
    )


def _some(tables: Sequence[Marginal], cells: Sequence[int]) -> list[Marginal]:
    """All, or as many as have not too many cells, evenly spaced; at least one."""
    wanted = min(len(tables), _MOST_TABLES, max(1, int(len(tables) * _MOST_CELLS / sum(cells))))
    return [tables[i * len(tables) // wanted] for i in range(wanted)]


def least_sizes(bars: ErrorBars, columns: int, total: float) -> tuple[int | None, ...]:
    """From how many rows on an answer is in each class; None: not within the table."""
    return _least(bars.around(_SIZES, columns).standard_error / _SIZES, total)


def _least(variation: Floats, total: float) -> tuple[int | None, ...]:
    """By the coefficients of variation at `_SIZES`."""
    found: list[int | None] = []
    for limit in _LIMITS:
        beyond = np.flatnonzero(variation > limit)
        first = int(beyond[-1]) + 1 if len(beyond) else 0
        size = _rounded(float(_SIZES[first])) if first < len(_SIZES) else None
        found.append(None if size is None or size > total else size)
    return tuple(found)


def _rounded(size: float) -> int:
    """Up, to two digits.

    >>> _rounded(1228.3), _rounded(15.2), _rounded(1.0)
    (1300, 16, 1)
    """
    step = int(10.0 ** max(math.floor(math.log10(size)) - 1, 0))
    return math.ceil(size / step) * step
