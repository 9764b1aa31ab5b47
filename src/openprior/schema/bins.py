"""The kinds of column that are cut into bins: integer, real, datetime.

Bins are [e₀, e₁), [e₁, e₂), …, the last one closed; `low` and `high` bound what may occur and the bins must
cover them. For arithmetic every edge becomes a plain number, its *ticks*: itself, or microseconds for
dates, timestamps (since 1970, UTC) and times of day (since midnight).

>>> age = Integer(name="age", low=0, high=99, bins=(0, 18, 65, 99), missing=True)
>>> age.size, age.labels
(4, ('[0, 18)', '[18, 65)', '[65, 99]', 'missing'))
"""

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.schema.columns import INT64, Column, is_string

__all__ = ["DAY", "Binned", "Datetime", "Integer", "Real"]

DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, kw_only=True)
class Binned(Column):
    """A column cut into bins [e₀, e₁), [e₁, e₂), …; the last is closed. Bounds default to the outer edges."""

    low: Any = None
    high: Any = None
    bins: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        bins = tuple(self._edge(e) for e in self.bins)
        if bins:
            bins = tuple(self._alike(e, bins[0]) for e in bins)
        low, high = (
            end if edge is None else self._edge(edge)
            for edge, end in ((self.low, bins[0] if bins else None), (self.high, bins[-1] if bins else None))
        )
        if low is None or high is None:
            raise self.refuse("no bins", "give bins, or low and high")
        low, high = (self._alike(e, bins[0] if bins else low) for e in (low, high))
        for field, value in (("bins", bins), ("low", low), ("high", high)):
            object.__setattr__(self, field, value)
        if low > high:
            raise self.refuse(f"low = {_text(low)} above high = {_text(high)}", "swap them")
        self._check_bins(low, high)

    def _check_bins(self, low: Any, high: Any) -> None:
        bins = self.bins
        if len(bins) < 2:
            raise self.refuse(f"{len(bins)} bin edges", "give at least two")
        for left, right in itertools.pairwise(bins):
            if left >= right:
                raise self.refuse(
                    f"bins that do not increase at {_text(right)}", "sort them and drop repeats"
                )
        if bins[0] > low or bins[-1] < high:
            span = f"[{_text(bins[0])}, {_text(bins[-1])}]"
            bounds = f"[{_text(low)}, {_text(high)}]"
            raise self.refuse(f"bins over {span} that do not cover its bounds {bounds}", "widen the bins")
        if low >= bins[1] or high < bins[-2]:
            raise self.refuse("a bin outside its bounds", "drop the bin or widen low and high")

    def _edge(self, edge: Any) -> Any:
        raise NotImplementedError

    def _alike(self, edge: Any, first: Any) -> Any:
        return edge

    def _ticks(self, edge: Any) -> int | float:
        return edge  # type: ignore[no-any-return]

    @property
    def step(self) -> int:
        """The grid that decoded values lie on, in ticks; 0 for the reals."""
        return 1

    @property
    def bounds(self) -> tuple[int | float, int | float]:
        """Low and high as plain numbers (moments in microseconds)."""
        return self._ticks(self.low), self._ticks(self.high)

    @property
    def edges(self) -> npt.NDArray[Any]:
        """The bin edges as plain numbers."""
        return np.array([self._ticks(e) for e in self.bins])

    @property
    def count(self) -> int:
        return len(self.bins) - 1

    @property
    def value_labels(self) -> tuple[str, ...]:
        ends = [")"] * (len(self.bins) - 2) + ["]"]
        pairs = zip(self.bins, self.bins[1:], ends, strict=False)
        return tuple(f"[{_text(a)}, {_text(b)}{end}" for a, b, end in pairs)


@dataclass(frozen=True, kw_only=True)
class Integer(Binned):
    """Whole numbers, in bins or, without bins, each its own code."""

    kind: ClassVar[str] = "integer"
    dtype: str = "int64"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (pa.types.is_integer(self.arrow) or pa.types.is_floating(self.arrow) or is_string(self.arrow)):
            raise self.refuse(f"dtype {self.dtype}, which holds no integers", "use int64")
        try:
            pa.array([self.low, self.high], pa.int64() if is_string(self.arrow) else self.arrow)
        except (pa.ArrowException, ValueError, OverflowError):
            raise self.refuse(f"bounds that {self.dtype} cannot hold", "use a wider dtype") from None

    def _check_bins(self, low: int, high: int) -> None:
        if self.bins:
            super()._check_bins(low, high)
        elif high - low >= 2**31:
            raise self.refuse(f"{high - low + 1} values of their own", "give bins")

    def _edge(self, edge: Any) -> int:
        whole = isinstance(edge, int) or (isinstance(edge, float) and edge.is_integer())
        if isinstance(edge, bool) or not whole or int(edge) not in INT64:
            raise self.refuse(f"the edge {edge!r}", "use whole numbers of at most 64 bits")
        return int(edge)

    @property
    def count(self) -> int:
        return super().count if self.bins else int(self.high - self.low + 1)

    @property
    def value_labels(self) -> tuple[str, ...]:
        if not self.bins:
            return tuple(map(str, range(self.low, self.high + 1)))
        widths = np.diff(self.edges)
        widths[-1] += 1
        labels = zip(self.bins, widths.tolist(), super().value_labels, strict=False)
        return tuple(str(edge) if width == 1 else label for edge, width, label in labels)


@dataclass(frozen=True, kw_only=True)
class Real(Binned):
    """Real numbers, in bins."""

    kind: ClassVar[str] = "real"
    dtype: str = "double"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (pa.types.is_floating(self.arrow) or is_string(self.arrow)):
            raise self.refuse(f"dtype {self.dtype}, which holds no reals", "use double")

    def _edge(self, edge: Any) -> float:
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not math.isfinite(edge):
            raise self.refuse(f"the edge {edge!r}", "use finite numbers")
        return float(edge) + 0.0  # -0.0 becomes 0.0, so that equal schemas have equal text

    @property
    def step(self) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class Datetime(Binned):
    """Dates, times of day or timestamps, in bins; the edges are all of one of these."""

    kind: ClassVar[str] = "datetime"
    dtype: str = "timestamp[us]"

    def _edge(self, edge: Any) -> date | time:
        arrow = self.arrow
        if isinstance(edge, date) and pa.types.is_timestamp(arrow):
            moment = edge if isinstance(edge, datetime) else datetime(edge.year, edge.month, edge.day)
            if arrow.tz is not None:
                return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
            if moment.tzinfo is None:
                return moment
        elif isinstance(edge, datetime):
            if is_string(arrow):
                return edge.astimezone(UTC) if edge.tzinfo else edge
        elif isinstance(edge, date):
            if pa.types.is_date(arrow) or is_string(arrow):
                return edge
        elif isinstance(edge, time) and edge.tzinfo is None and (pa.types.is_time(arrow) or is_string(arrow)):
            return edge
        raise self.refuse(
            f"the edge {_text(edge)} with dtype {self.dtype}", "use a matching date, time or timestamp"
        )

    def _alike(self, edge: Any, first: Any) -> Any:
        if type(edge) is not type(first) or (
            isinstance(edge, datetime) and (edge.tzinfo is None) != (first.tzinfo is None)
        ):
            raise self.refuse("edges of several kinds", "use only dates, only times or only timestamps")
        return edge

    def _ticks(self, edge: Any) -> int:
        if isinstance(edge, time):
            return ((edge.hour * 60 + edge.minute) * 60 + edge.second) * 1_000_000 + edge.microsecond
        if isinstance(edge, datetime):
            return (edge.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        return int((edge - date(1970, 1, 1)).days) * DAY

    @property
    def is_time(self) -> bool:
        """Whether the values are times of day."""
        return isinstance(self.low, time)

    @property
    def step(self) -> int:
        if type(self.low) is date:
            return DAY
        unit = getattr(self.arrow, "unit", "us")
        return {"s": 1_000_000, "ms": 1_000}.get(unit, 1)


def _text(edge: Any) -> str:
    return str(edge.isoformat()) if isinstance(edge, date | time) else str(edge)
