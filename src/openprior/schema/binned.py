"""What a column in bins is: edges, bounds, the grid of its values, and labels.

Bins are [e₀, e₁), [e₁, e₂), …, the last one closed; `low` and `high` bound what may occur and the bins must
cover them. For arithmetic every edge becomes a plain number, its *ticks*: itself, or microseconds for
dates, timestamps (since 1970, UTC) and times of day (since midnight).

With `out_of_domain = "open"` the first and the last bin also hold all that lies below and above. The codes are those of
"clip"; the labels say what they hold, and `low` and `high` say from where values are drawn.
"""

import itertools
from dataclasses import dataclass
from datetime import date, time
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from openprior.given import shown
from openprior.schema.columns import Column

__all__ = ["Binned", "edge_text"]


@dataclass(frozen=True, kw_only=True)
class Binned(Column):
    """A column cut into bins [e₀, e₁), [e₁, e₂), …; the last is closed. Bounds default to the outer edges."""

    low: Any = None
    high: Any = None
    bins: tuple[Any, ...] = ()
    step: Any = None
    """The precision of the values: 0.01, 1, 100; of dates and times "day", "hour", "minute" or "second"."""
    values_inside: Literal["public", "uniform"] = "public"
    """Where a synthetic value inside a bin comes from: the public values there, or anywhere in the bin alike."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._list("bins")
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
            raise self.refuse(f"low = {edge_text(low)} above high = {edge_text(high)}", "swap them")
        self._check_bins(low, high)
        inside = self.values_inside
        if not isinstance(inside, str) or inside not in ("public", "uniform"):
            raise self.refuse(f"values_inside = {shown(inside)}", 'use "public" or "uniform"')
        if self.step is not None:
            object.__setattr__(self, "step", self._step(self.step))
            self._check_step()

    def _check_step(self) -> None:
        if not self.bins:
            raise self.refuse("a step but no bins, so every number is itself", "drop the step, or give bins")
        first, last = self.multiples
        empty = np.flatnonzero(last < first)
        if empty.size:
            raise self.refuse(
                f"no multiple of its step {self.step} in the bin {self.value_labels[empty[0]]}",
                "use a smaller step or a wider bin",
            )

    def _check_bins(self, low: Any, high: Any) -> None:
        bins = self.bins
        if len(bins) < 2:
            raise self.refuse(f"{len(bins)} bin edges", "give at least two")
        for left, right in itertools.pairwise(bins):
            if left >= right:
                raise self.refuse(
                    f"bins that do not increase at {edge_text(right)}", "sort them and drop repeats"
                )
        if bins[0] > low or bins[-1] < high:
            span = f"[{edge_text(bins[0])}, {edge_text(bins[-1])}]"
            bounds = f"[{edge_text(low)}, {edge_text(high)}]"
            raise self.refuse(f"bins over {span} that do not cover its bounds {bounds}", "widen the bins")
        if low >= bins[1] or high < bins[-2]:
            raise self.refuse("a bin outside its bounds", "drop the bin or widen low and high")

    def _edge(self, edge: Any) -> Any:
        raise NotImplementedError

    def _step(self, step: Any) -> Any:
        raise NotImplementedError

    def _alike(self, edge: Any, first: Any) -> Any:
        return edge

    def _ticks(self, edge: Any) -> int | float:
        return edge  # type: ignore[no-any-return]

    @property
    def grain(self) -> int:
        """The finest that the type holds, in ticks; 0 for the reals."""
        return 1

    @property
    def grid(self) -> int:
        """What whole ticks are multiples of when they are drawn: the step, or else the grain; 0 for the reals."""
        return self.grain

    @property
    def noun(self) -> str:
        """What one value is."""
        return "number"

    @property
    def is_open(self) -> bool:
        """Whether the first and the last bin have no outer end."""
        return self.out_of_domain == "open"

    @property
    def spans(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Where each bin begins and ends within the bounds, in ticks, and whether its end belongs to it."""
        low, high = self.bounds
        edges = self.edges
        closed = edges[1:] > high  # a bin that the bound cuts short ends at the bound, inclusive
        closed[-1] = True
        return np.maximum(edges[:-1], low), np.minimum(edges[1:], high), closed

    @property
    def multiples(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The first and the last multiple of the grid in each bin, counted in steps."""
        left, right, closed = self.spans
        grid = self.grid
        first = left if grid == 1 else -(left // -grid)
        return first, np.where(closed, right, right - 1) // grid

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
        labels = self._bin_labels()
        if not self.is_open:
            return tuple(labels)
        if len(labels) == 1:
            return (f"any {self.noun}",)
        return self._first_label(), *labels[1:-1], self._last_label()

    def _bin_labels(self) -> list[str]:
        """One label per bin as it is bounded."""
        ends = [")"] * (len(self.bins) - 2) + ["]"]
        pairs = zip(self.bins, self.bins[1:], ends, strict=False)
        return [f"[{edge_text(a)}, {edge_text(b)}{end}" for a, b, end in pairs]

    def _first_label(self) -> str:
        """What the first bin is called when nothing bounds it below."""
        return f"below {edge_text(self.bins[1])}"

    def _last_label(self) -> str:
        """What the last bin is called when nothing bounds it above."""
        return f"{edge_text(self.bins[-2])} or more"


def edge_text(edge: Any) -> str:
    """An edge as a person writes it."""
    return str(edge.isoformat()) if isinstance(edge, date | time) else str(edge)
