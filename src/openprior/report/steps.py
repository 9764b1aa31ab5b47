"""The steps of a certificate in words: what each did, how noisy it was, what it cost and which columns it touched."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from openprior.privacy.calibrate import pure_epsilon
from openprior.privacy.events import Event, Laplace, Noisy, Part, Selection
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers, Statistic, Total
from openprior.privacy.together import Together
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.workload import Marginal, closure
from openprior.releases.certificate import Certificate
from openprior.report.words import count, plain
from openprior.schema.base import Schema

__all__ = ["GROUPS", "Step", "steps_of", "whole"]

GROUPS = {
    "one": "Counting the values of one column",
    "two": "Counting two columns together",
    "more": "Counting three or more columns together",
    "cells": "Counting single cells",
    "sums": "Counting sums of cells",
    "together": "Counting many tables at once",
    "total": "Counting all rows",
    "choice": "Choosing what to count",
    "score": "Measuring an error",
}
"""What a step can be; the keys also name its colour."""


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    number: int
    group: str
    kind: str
    what: str
    sigma: float | None
    """Standard deviation of the noise in rows, where rows were counted."""
    noise: str
    cost: float
    """What the run paid for it: ρ, or ε if the run is pure."""
    share: float
    """Of the whole budget."""
    columns: frozenset[str]
    """The columns it counted, levels of hierarchies as the column below them."""
    cells: frozenset[str] | None
    """The columns of which it counted all combinations; None if it counted something else."""
    tables: tuple[frozenset[str], ...]
    """The same, of a step that counted many tables together."""
    part: Part | None
    parts: int
    """How many parts the partition has."""


def steps_of(certificate: Certificate, schema: Schema) -> tuple[Step, ...]:
    """All steps in order."""
    limit = certificate.epsilon if certificate.is_pure else certificate.rho
    return tuple(
        _step(number, event, schema, certificate.is_pure, limit)
        for number, event in enumerate(certificate.events, 1)
    )


def _step(number: int, event: Event, schema: Schema, pure: bool, limit: float) -> Step:
    own = pure_epsilon(event.rho) if pure else event.rho
    cost = own if event.charged is None else event.charged
    statistic = event.statistic if isinstance(event, Noisy) else None
    counts_rows = statistic is not None and statistic.is_count
    in_rows = counts_rows and not isinstance(statistic, WeightedSums)
    sigma = _rows_off(event) if isinstance(event, Noisy) and in_rows else None
    columns = statistic.marginal if statistic is not None and counts_rows else ()
    involved = {*columns, *(() if event.part is None else event.part.keys)} if columns else set()
    return Step(
        number=number,
        group=_group(statistic),
        kind=event.kind,
        what=_what(event) + _where(event.part, schema),
        sigma=sigma,
        noise=_noise(event, sigma),
        cost=cost,
        share=cost / limit if limit else 0.0,
        columns=frozenset(schema.levels[a].column if a in schema.levels else a for a in involved),
        cells=frozenset(a for a in involved if a not in schema.levels) if _tells_all(statistic) else None,
        tables=_tables(statistic),
        part=event.part,
        parts=1 if event.part is None else math.prod(schema.full_domain[k] for k in event.part.keys),
    )


def _group(statistic: Statistic | None) -> str:
    match statistic:
        case None:
            return "choice"
        case Counts():
            return {1: "one", 2: "two"}.get(len(statistic.marginal), "more")
        case CellCount():
            return "cells"
        case QueryAnswers() | Residuals() | WeightedSums():
            return "sums"
        case Together():
            return "together"
        case Total():
            return "total"
        case _:
            return "score"


def _tells_all(statistic: Statistic | None) -> bool:
    """Whether the count of every combination of its columns follows from it."""
    if isinstance(statistic, QueryAnswers | WeightedSums):
        return statistic.text.startswith(("marginal(", "prefixes("))
    return isinstance(statistic, Counts)


def _tables(statistic: Statistic | None) -> tuple[frozenset[str], ...]:
    """The tables that follow from parts measured together: all of whose residual components are in one of them."""
    if not isinstance(statistic, Together):
        return ()
    known: set[Marginal] = {()}
    for part in statistic.parts:
        known.update([part.marginal] if isinstance(part, Residuals) else closure([part.marginal]))
    return tuple(
        frozenset(part.marginal) for part in statistic.parts if known.issuperset(closure([part.marginal]))
    )


def _rows_off(event: Noisy) -> float:
    """The standard deviation of the noise in rows; of many tables together, on the one that has least."""
    statistic, sigma = event.statistic, event.standard_deviation
    parts = (
        zip(statistic.times, statistic.parts, strict=True)
        if isinstance(statistic, Together)
        else [(1, statistic)]
    )
    return sigma / max(times * (part.scale if isinstance(part, Residuals) else 1) for times, part in parts)


def _what(event: Event) -> str:
    if isinstance(event, Selection):
        return f"{event.draws} of {count(event.candidates.count)} candidates"
    return event.statistic.words if isinstance(event, Noisy) else event.kind


def _where(part: Part | None, schema: Schema) -> str:
    """Which part of a partition, by its labels."""
    if part is None:
        return ""
    labels = {
        key: schema.levels[key].labels if key in schema.levels else schema[key].labels for key in part.keys
    }
    return " where " + ", ".join(f"{key} = {labels[key][code]}" for key, code in part.fixed.items())


def _noise(event: Event, sigma: float | None) -> str:
    if sigma is not None:
        return f"σ = {count(sigma)} rows"
    if isinstance(event, Selection):
        return f"ε = {plain(event.epsilon)}"
    if isinstance(event, Noisy) and isinstance(event.statistic, WeightedSums):
        return f"σ = {count(event.standard_deviation)} weighted rows"
    return f"ε = {plain(pure_epsilon(event.rho))}" if isinstance(event, Laplace) else "noise"


def whole(steps: Iterable[Step]) -> set[frozenset[str]]:
    """The sets of columns whose combinations were all counted, by one step or by all parts of a partition."""
    found: set[frozenset[str]] = set()
    parts: dict[tuple[frozenset[str], frozenset[str], tuple[str, ...]], set[tuple[int, ...]]] = {}
    for step in steps:
        if step.part is None:
            found.update(step.tables)
        if not step.cells:
            continue
        if step.part is None:
            found.add(step.cells)
            continue
        seen = parts.setdefault((step.cells, step.columns, step.part.keys), set())
        seen.add(step.part.codes)
        if len(seen) == step.parts:
            found.add(step.cells)
    return found
