"""The kinds of column that are cut into bins: integer, real, datetime.

>>> age = Integer(name="age", low=0, high=99, bins=(0, 18, 65, 99), missing=True)
>>> age.size, age.labels
(4, ('[0, 18)', '[18, 65)', '[65, 99]', 'missing'))
>>> Integer(name="age", bins=(0, 18, 65, 99), out_of_domain="open").labels
('below 18', '[18, 65)', '65 or more')
"""

import numbers
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.errors import SchemaError
from openprior.given import finite_number, shown
from openprior.schema.binned import Binned, edge_text
from openprior.schema.columns import INT64, is_string
from openprior.schema.precision import MOMENTS, Precision

__all__ = ["DAY", "Binned", "Datetime", "Integer", "Real"]

DAY = MOMENTS["day"]


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
        whole = isinstance(edge, numbers.Integral) or (isinstance(edge, float) and edge.is_integer())
        if isinstance(edge, bool) or not whole or int(edge) not in INT64:
            raise self.refuse(f"the edge {shown(edge)}", "use whole numbers of at most 64 bits")
        return int(edge)

    @property
    def count(self) -> int:
        return super().count if self.bins else int(self.high - self.low + 1)

    def _step(self, step: Any) -> int:
        whole = isinstance(step, int) or (isinstance(step, float) and step.is_integer())
        if isinstance(step, bool) or not whole or not 1 <= step < INT64.stop:
            raise self.refuse(f"step = {shown(step)}", "use a whole number of at least 1")
        return int(step)

    @property
    def grid(self) -> int:
        return self.step or 1

    def _bin_labels(self) -> list[str]:
        if not self.bins:
            return list(map(str, range(self.low, self.high + 1)))
        widths = np.diff(self.edges)
        widths[-1] += 1
        labels = zip(self.bins, widths.tolist(), super()._bin_labels(), strict=False)
        return [str(edge) if width == 1 else label for edge, width, label in labels]

    def _first_label(self) -> str:
        first = self.bins[0] if self.bins else self.low
        is_one = not self.bins or self.bins[1] == first + 1
        return f"{first} or less" if is_one else super()._first_label()

    def _last_label(self) -> str:
        return super()._last_label() if self.bins else f"{self.high} or more"


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
        try:
            number = finite_number("an edge", edge, error=SchemaError)
        except SchemaError:
            raise self.refuse(f"the edge {shown(edge)}", "use finite numbers") from None
        return number + 0.0  # -0.0 becomes 0.0, so that equal schemas have equal text

    def _step(self, step: Any) -> float:
        if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= sys.float_info.max:
            raise self.refuse(f"step = {shown(step)}", "use a number above 0, such as 0.01")
        if not Precision.of(step).holds(max(abs(self.low), abs(self.high), step)):
            raise self.refuse(f"step = {step!r}, finer than its numbers can be", "use a larger one")
        return float(step)

    @property
    def grain(self) -> int:
        return 0

    @property
    def precision(self) -> Precision | None:
        """The multiples that decoded values are, if there is a step."""
        return None if self.step is None else Precision.of(self.step)

    @property
    def multiples(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        left, right, closed = self.spans
        precision = Precision.of(self.step)
        return precision.first_from(left), np.where(
            closed, precision.last_to(right), precision.last_below(right)
        )


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
            f"the edge {edge_text(edge) if isinstance(edge, date | time) else shown(edge)} with dtype {self.dtype}",
            "use a matching date, time or timestamp",
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

    def _step(self, step: Any) -> str:
        fits = ["day"] if self.grain == DAY else [s for s in MOMENTS if s != "day" or not self.is_time]
        if not isinstance(step, str) or step not in fits:
            raise self.refuse(f"step = {shown(step)}", f"use {' or '.join(map(repr, fits))}")
        return step

    @property
    def grain(self) -> int:
        if type(self.low) is date:
            return DAY
        unit = getattr(self.arrow, "unit", "us")
        return {"s": 1_000_000, "ms": 1_000}.get(unit, 1)

    @property
    def grid(self) -> int:
        return self.grain if self.step is None else MOMENTS[self.step]

    @property
    def noun(self) -> str:
        return "time" if self.is_time else "date"

    def _first_label(self) -> str:
        return f"before {edge_text(self.bins[1])}"

    def _last_label(self) -> str:
        return f"{edge_text(self.bins[-2])} or later"
