"""What came from the public table and what from the private one: column by column, and over the workload."""

from collections.abc import Iterable
from dataclasses import dataclass

from openprior.questions.workload import Marginal
from openprior.releases.view import View
from openprior.report.budget import Segment
from openprior.report.steps import Step, whole
from openprior.report.words import percent
from openprior.schema.base import Schema

__all__ = ["Coverage", "Source", "cover", "sources_of"]


@dataclass(frozen=True)
class Source:
    """Where one column's figures come from."""

    name: str
    moved: float | None
    """‖p − q‖₁ of the public shares p and the released q."""
    measurements: int
    """Private counts that involve the column."""
    noise: float | None
    """The smallest σ of those, as a share of all rows."""


def sources_of(steps: Iterable[Step], schema: Schema, public: View | None, rows: float) -> tuple[Source, ...]:
    """All columns, in order."""
    touching: dict[str, list[float]] = {name: [] for name in schema.names}
    for step in steps:
        for columns, sigma in step.counted:
            for name in columns:
                touching[name].append(sigma or 0.0)
    return tuple(
        Source(
            name,
            None if public is None else public.distances.get((name,)),
            len(sigmas),
            min(sigmas) / rows if sigmas and rows else None,
        )
        for name, sigmas in touching.items()
    )


@dataclass(frozen=True)
class Coverage:
    """How many marginals of the workload rest on what."""

    measured: int
    """All cells of the marginal, or of one that contains it, were counted with noise."""
    composed: int
    """All values of every column of it were counted somewhere, but the columns not all together."""
    partly: int
    """Every column is in some count, but one of them only in single cells, in sums or more coarsely."""
    assumed: int
    """Some column of it was never counted."""
    never: tuple[str, ...]
    """The columns that were never counted."""

    @property
    def total(self) -> int:
        """All marginals of the workload."""
        return self.measured + self.composed + self.partly + self.assumed

    @property
    def segments(self) -> list[Segment]:
        """As pieces of a bar."""
        parts = (
            ("known", self.measured, "counted with noise"),
            ("mixed", self.composed, "put together from counted parts"),
            ("partly", self.partly, "touched by single counts only"),
            ("given", self.assumed, "with a column that was never counted"),
        )
        segments, start = [], 0.0
        for key, number, text in parts:
            width = number / self.total
            if number:
                segments.append(Segment(key, start, width, f"{number:,} tables, {percent(width)}: {text}"))
            start += width
        return segments


def cover(marginals: Iterable[Marginal], steps: Iterable[Step], schema: Schema) -> Coverage:
    """Sort the workload's marginals by what their answers rest on."""
    steps = tuple(steps)
    holding: dict[str, set[int]] = {name: set() for name in schema.names}
    for number, columns in enumerate(whole(steps)):
        for name in columns:
            holding[name].add(number)
    touched = frozenset[str]().union(*(s.columns for s in steps))
    measured = composed = partly = assumed = 0
    for marginal in marginals:
        if set.intersection(*(holding[a] for a in marginal)):
            measured += 1
        elif all(holding[a] for a in marginal):
            composed += 1
        elif touched.issuperset(marginal):
            partly += 1
        else:
            assumed += 1
    return Coverage(measured, composed, partly, assumed, tuple(a for a in schema.names if a not in touched))
