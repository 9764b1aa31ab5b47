"""Calibrated error bars: what was measured of a model's errors, and the interval of any answer that follows from it."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.one_thread import blas_on_one_thread
from openprior.error_bars.asked_tables import CONTRASTS, is_as_asked
from openprior.error_bars.curve_prior import Beforehand, Own
from openprior.error_bars.error_curve import ErrorCurve, Group
from openprior.error_bars.expected_bars import BLUNTEST
from openprior.error_bars.rows_known import among
from openprior.error_bars.strata import EDGES, STRATA, Sizes, level_of
from openprior.error_bars.widening import MEAN_TO_SD, log_reach
from openprior.errors import PrivacyError
from openprior.privacy.error_strata import ROW_STEPS, ErrorStrata
from openprior.privacy.events import Noisy
from openprior.privacy.strict import Record
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["MOST_NOISE", "MOST_NUMBER", "UNSURE", "Bars", "ErrorBars"]

Floats = NDArray[np.float64]

UNSURE = 1.0
"""If the noise is larger than the sum of the errors, bars rest more on other tables than on this one."""
MOST_NOISE = 4.0
"""Noise of so many times the rows says nothing: errors are at most twice the rows."""
_LEAST_ERROR, _SEEN = 1e-9, 0.1
_Z95 = 1.959963984540054
_ONE_IN = 0.05
_HALF_ROW = 0.5
"""Counts are whole numbers; so much more on either side."""
_GRID = np.linspace(level_of(np.zeros(1))[0], np.log(1e12), 400)
"""Levels at which reaches are worked out; in between they are drawn straight, in logarithms."""
_MOST_BINS, _HUGE = 400, 1e15
"""More bins, or larger ones, no table has."""
MOST_NUMBER = (1 << 63) - 1
"""Noise is cut there."""


@dataclass(frozen=True, eq=False)
class Bars:
    """Of some cells."""

    standard_error: Floats
    """What a normal error would have whose 95 % interval reaches as far."""
    low: Floats
    high: Floats

    def among(self, rows: int | None, estimate: Floats) -> "Bars":
        """Where so many rows are known to be all."""
        low, high = among(rows, estimate, self.low, self.high)
        return replace(self, low=low, high=high)


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """The errors of a model, measured, and the curve that was fitted to them."""

    statistic: ErrorStrata
    """What was measured, as the certificate has it."""
    deviation: float
    """The noise's standard deviation, in the statistic's whole numbers."""
    columns: tuple[int, ...]
    """How many columns the marginals of each group have; the last has most, and the first may be `CONTRASTS`."""
    sizes: tuple[Sizes, ...]
    values: tuple[int, ...]
    """The noisy numbers, group by group."""
    workload: tuple[Marginal, ...]
    """What was asked for: bars are for these marginals, and all that they imply."""
    known: Beforehand
    """Without asking."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """What was measured, in rows per marginal."""
        made, strata = [], self.statistic.strata
        for g, (factor, tables) in enumerate(zip(self.statistic.factors, self.statistic.tables, strict=True)):
            step = 1 / (ROW_STEPS * factor * tables)
            errors = np.array(self.values[g * strata : (g + 1) * strata], dtype=np.float64) * step
            made.append(Group(self.columns[g], self.sizes[g], errors, self.deviation * step))
        return tuple(made)

    @cached_property
    def curve(self) -> ErrorCurve:
        """How large an error is expected; on one thread, so that it is the same wherever it is reckoned."""
        with blas_on_one_thread():
            return ErrorCurve.fitted(self.groups, self.known)

    def tells(self, marginal: Marginal) -> bool:
        """Whether the workload has this marginal, or implies it, and errors could be told at all."""
        if self.says_nothing:
            return False
        if marginal not in self._told:
            with_it = self._with.get(marginal[0], ()) if marginal else ()
            self._told[marginal] = any(own.issuperset(marginal) for own in with_it)
        return self._told[marginal]

    @cached_property
    def _told(self) -> dict[Marginal, bool]:
        return dict.fromkeys(self.workload, True)

    @cached_property
    def _with(self) -> dict[str, list[frozenset[str]]]:
        """By column, the workload's marginals that have it."""
        found: dict[str, list[frozenset[str]]] = {}
        for marginal in self.workload:
            for a in marginal:
                found.setdefault(a, []).append(frozenset(marginal))
        return found

    def around(self, estimate: Floats, columns: int, size: Floats | None = None) -> Bars:
        """The intervals of a marginal's cells, which has so many columns; `size`: by what size of cells errors go,
        where it is not the estimate (`Model.sizes`).

        `estimate ± reach`, cut at 0: counts are not negative. Over all cells of a stratum, and over the noise, 95 in
        100 hold the true count, as far as the curve is right; for a single one nothing is promised.

        A cell that seems empty has a row or none. It has one in at most E|error|/(1 − estimate) of all cases (Markov's
        inequality); where that is more than one in twenty, bars reach to 1.
        """
        far = self._far(self._group_of(columns), estimate if size is None else size)
        low, some = np.maximum(estimate - far - _HALF_ROW, 0.0), np.maximum(estimate, 0.0)
        high = some + far + _HALF_ROW
        high[(far / (_Z95 * MEAN_TO_SD) > _ONE_IN * (1 - some)) & (high < 1)] = 1.0
        return Bars(far / _Z95, low, high)

    @property
    def has_contrasts(self) -> bool:
        """Whether means and shares can be told, too."""
        return CONTRASTS in self.columns and len(self.sizes[0].size) > 0

    def contrast(self, rows: Floats) -> tuple[Floats, Floats]:
        """Of groups with so many rows, the standard error of a standardised sum, and how far its bars reach."""
        far = self._far(self.columns.index(CONTRASTS), rows)
        return far / _Z95, far

    def _group_of(self, columns: int) -> int:
        """The group of marginals with so many columns, or with the next number that was looked at."""
        return next((g for g, k in enumerate(self.columns) if k >= max(columns, 1)), len(self.columns) - 1)

    def _far(self, group: int, size: Floats) -> Floats:
        """How far bars reach in a group, at these sizes."""
        far: Floats = np.exp(np.interp(level_of(size), _GRID, self._on_grid[group]))
        return far

    @cached_property
    def _on_grid(self) -> tuple[Floats, ...]:
        """Of every group the logarithm of the reach, at the grid's levels."""
        made = []
        for g, columns in enumerate(self.columns):
            worlds = [(w.share, *w.at(g, _GRID)) for w in self.curve.worlds]
            made.append(log_reach(worlds, _GRID, even=columns == CONTRASTS))
        return tuple(made)

    @property
    def unsure(self) -> float:
        """How well the sum of all errors of the largest marginals is told by the measurement alone: the noise's
        standard deviation, as a share of what was found."""
        group, noise = self._largest
        return noise / max(sum(self._expected(group)), _LEAST_ERROR)

    @cached_property
    def says_nothing(self) -> bool:
        """Whether the noise is more than twice as large as any errors could be: then there are no bars."""
        group, noise = self._largest
        sizes = self.sizes[group]
        seen = sizes.size >= _SEEN
        return noise > MOST_NOISE * float((sizes.size * sizes.cells)[seen].sum())

    @cached_property
    def _largest(self) -> tuple[int, float]:
        """The group of the largest marginals that have cells, and the noise in the sum of their errors."""
        last = max(g for g, group in enumerate(self.groups) if len(group.sizes.size))
        strata = len(np.unique(self.sizes[last].stratum))
        return last, self.groups[last].sigma * math.sqrt(strata)

    def _expected(self, group: int) -> Floats:
        """Of every bin of a group, the mean of Σ|error|."""
        sizes = self.sizes[group]
        return self.curve.expected(group, sizes.level) * sizes.cells

    @property
    def expected_errors(self) -> dict[int, float]:
        """For marginals of so many columns: the mean of Σ|error|, in rows."""
        return {k: float(self._expected(g).sum()) for g, k in enumerate(self.columns) if k != CONTRASTS}

    def to_dict(self) -> dict[str, Any]:
        """As JSON; what the certificate's event says is not said again."""
        strata = self.statistic.strata
        groups = [
            {
                "columns": c,
                "size": s.size.tolist(),
                "cells": s.cells.tolist(),
                "stratum": s.stratum.tolist(),
                "measured": list(self.values[g * strata : (g + 1) * strata]),
            }
            for g, (c, s) in enumerate(zip(self.columns, self.sizes, strict=True))
        ]
        own = {} if self.known.own is None else {n: list(v) for n, v in asdict(self.known.own).items()}
        known = {"noise": self.known.noise, "own": own} | ({"public": True} if self.known.public else {})
        return {"edges": list(EDGES), "groups": groups, "known": known}

    @staticmethod
    def from_dict(
        values: object, events: Sequence[object], workload: Sequence[Marginal], domain: Domain
    ) -> "ErrorBars":
        """From JSON; strict, and it must be of the one event of its kind."""
        asked = [e for e in events if isinstance(e, Noisy) and isinstance(e.statistic, ErrorStrata)]
        record = Record(values, "its error bars")
        if len(asked) != 1 or record.numbers("edges") != EDGES:
            raise PrivacyError("its error bars are not those of its certificate")
        (event,) = asked
        statistic = event.statistic
        assert isinstance(statistic, ErrorStrata)
        groups = [_group(group, statistic.strata) for group in record.items("groups")]
        known = _known(record.record("known"))
        record.end()
        columns = tuple(c for c, _, _ in groups)
        if statistic.strata != STRATA:
            raise PrivacyError("its error bars are not those of its certificate")
        if not any(len(s.size) for c, s, _ in groups if c != CONTRASTS):
            raise PrivacyError("its error bars are of no cell")
        if not is_as_asked(statistic, columns, workload, domain):
            raise PrivacyError("its error bars are not of what is asked of such a workload")
        numbers = tuple(v for _, _, measured in groups for v in measured)
        bars = ErrorBars(
            statistic,
            event.standard_deviation,
            columns,
            tuple(s for _, s, _ in groups),
            numbers,
            tuple(workload),
            known,
        )
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                _ = [bars.around(np.exp(_GRID), c) for c in columns], bars.unsure, bars.expected_errors
        except (FloatingPointError, np.linalg.LinAlgError):
            raise PrivacyError("its error bars have numbers that no curve fits") from None
        return bars


def _group(values: object, strata: int) -> tuple[int, Sizes, list[int]]:
    record = Record(values, "its error bars: a group")
    columns, size, cells = record.whole("columns"), record.numbers("size"), record.numbers("cells")
    stratum, measured = record.wholes("stratum"), record.items("measured")
    record.end()
    fits = len(size) == len(cells) == len(stratum) <= _MOST_BINS and max(stratum, default=0) < strata
    if not fits or not all(0 < number < _HUGE for number in (*size, *cells)):
        raise PrivacyError("its error bars have bins that cannot be")
    if len(measured) != strata or not all(
        type(v) is int and -MOST_NUMBER <= v <= MOST_NUMBER for v in measured
    ):
        raise PrivacyError("its error bars have other numbers than were measured")
    sizes = Sizes(np.array(size), np.array(cells), np.array(stratum, np.int8))
    if not sizes.can_be:
        raise PrivacyError("its error bars have bins that cannot be")
    return columns, sizes, measured


def _known(record: Record) -> Beforehand:
    public, noise, own = record.mark("public"), record.number("noise"), record.record("own")
    record.end()
    if not 1 / BLUNTEST <= noise <= BLUNTEST:
        raise PrivacyError("its error bars have a budget that cannot be")
    if not own.names:
        own.end()
        return Beforehand(public, noise)
    told = Own(own.numbers("sizes"), own.numbers("errors"))
    own.end()
    rising = all(a < b for a, b in itertools.pairwise(told.sizes))
    if not told.sizes or len(told.sizes) != len(told.errors) or not rising:
        raise PrivacyError("its error bars have bins that cannot be")
    if not all(0 < number < _HUGE for number in (*told.sizes, *told.errors)):
        raise PrivacyError("its error bars have bins that cannot be")
    return Beforehand(public, noise, told)
