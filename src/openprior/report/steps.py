"""The steps of a certificate in words: what each did, how noisy it was, what it cost and which columns it touched."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from openprior.privacy.error_strata import ROW_STEPS, ErrorStrata
from openprior.privacy.events import Event, Exponential, Laplace, Noisy, Part, Selection
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.regression import MembershipRegression
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers, Statistic, Total
from openprior.privacy.together import Together
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.workload import Marginal, closure
from openprior.releases.certificate import Certificate
from openprior.report.words import count, plain
from openprior.schema.base import Schema

__all__ = ["GROUPS", "Step", "noise_range", "steps_of", "whole"]

GROUPS = {
    "one": "Counting the values of one column",
    "two": "Counting two columns together",
    "more": "Counting three or more columns together",
    "cells": "Counting single cells",
    "sums": "Counting sums of cells",
    "together": "Counting many tables at once",
    "total": "Counting all rows",
    "choice": "Choosing what to count",
    "drawn": "Drawing questions that were answered badly",
    "regression": "Learning what tells private rows from public ones",
    "score": "Measuring an error",
    "errors": "Measuring how wrong the answers are",
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
    """Standard deviation of the noise in rows, where rows were counted; of many tables together, of the sharpest."""
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
    counted: tuple[tuple[frozenset[str], float | None], ...]
    """The columns of each table that it counted, and the standard deviation of the noise there, if it is in rows."""
    part: Part | None
    parts: int
    """How many parts the partition has."""


def steps_of(certificate: Certificate, schema: Schema) -> tuple[Step, ...]:
    """All steps in order."""
    limit = certificate.epsilon if certificate.is_pure else certificate.rho
    return tuple(
        _step(number, event, schema, certificate, limit) for number, event in enumerate(certificate.events, 1)
    )


def _step(number: int, event: Event, schema: Schema, certificate: Certificate, limit: float) -> Step:
    epsilon = event.cost(certificate.unit, pure=True)
    own = epsilon if certificate.is_pure else event.rho
    cost = own if event.charged is None else event.charged
    statistic = event.statistic if isinstance(event, Noisy) else None
    counts_rows = statistic is not None and statistic.is_count
    in_rows = counts_rows and not isinstance(statistic, WeightedSums)
    sigma = _rows_off(event) if isinstance(event, Noisy) and in_rows else None
    columns = statistic.marginal if statistic is not None and counts_rows else ()
    keys = () if event.part is None else event.part.keys
    involved = {*columns, *keys} if columns else set()
    named = _columns(involved, schema)
    counted: tuple[tuple[frozenset[str], float | None], ...] = ((named, sigma),)
    if isinstance(event, Noisy) and isinstance(statistic, Together):
        counted = tuple((_columns({*m, *keys}, schema), each) for m, each in _each(event, statistic))
    return Step(
        number=number,
        group=_group(event),
        kind=event.kind,
        what=_what(event) + _where(event.part, schema),
        sigma=sigma,
        noise=noise_range(each for _, each in counted) or _noise(event, epsilon),
        cost=cost,
        share=cost / limit if limit else 0.0,
        columns=named,
        cells=frozenset(a for a in involved if a not in schema.levels) if _tells_all(statistic) else None,
        tables=_tables(statistic),
        counted=counted,
        part=event.part,
        parts=1 if event.part is None else math.prod(schema.full_domain[k] for k in event.part.keys),
    )


def _group(event: Event) -> str:
    if not isinstance(event, Noisy):
        return "drawn" if isinstance(event, Exponential) and event.with_replacement else "choice"
    match statistic := event.statistic:
        case Counts() | MergedCounts():
            return {1: "one", 2: "two"}.get(len(statistic.marginal), "more")
        case CellCount():
            return "cells"
        case QueryAnswers() | Residuals() | WeightedSums():
            return "sums"
        case Together():
            return "together"
        case Total():
            return "total"
        case MembershipRegression():
            return "regression"
        case ErrorStrata():
            return "errors"
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


def _columns(names: Iterable[str], schema: Schema) -> frozenset[str]:
    """Levels of hierarchies as the column below them."""
    return frozenset(schema.levels[a].column if a in schema.levels else a for a in names)


def _each(event: Noisy, together: Together) -> list[tuple[Marginal, float]]:
    """The columns of each of many tables, or parts of tables, and the standard deviation of its noise in rows."""
    return [
        (part.marginal, event.standard_deviation / (m * (part.scale if isinstance(part, Residuals) else 1)))
        for m, part in zip(together.times, together.parts, strict=True)
    ]


def _rows_off(event: Noisy) -> float:
    """The standard deviation of the noise in rows; of many tables together, on the one that has least."""
    if isinstance(event.statistic, Together):
        return min(sigma for _, sigma in _each(event, event.statistic))
    scale = event.statistic.scale if isinstance(event.statistic, Residuals) else 1
    return event.standard_deviation / scale


def _errors_off(event: Noisy, errors: ErrorStrata) -> float:
    """The standard deviation of the noise in rows, on the mean error of the tables of most columns: the last group."""
    return event.standard_deviation / (ROW_STEPS * errors.factors[-1] * errors.tables[-1])


def noise_range(sigmas: Iterable[float | None]) -> str:
    """Standard deviations in rows, from least to most; empty if there are none.

    >>> noise_range([12.2, None, 3456.0]), noise_range([2.51])
    ('σ = 12 to 3,456 rows', 'σ = 2.5 rows')
    """
    known = [sigma for sigma in sigmas if sigma is not None]
    if not known:
        return ""
    low, high = count(min(known)), count(max(known))
    return f"σ = {low} rows" if low == high else f"σ = {low} to {high} rows"


def _what(event: Event) -> str:
    if isinstance(event, Selection):
        again = ", with replacement" if isinstance(event, Exponential) and event.with_replacement else ""
        return f"{event.draws} of {count(event.candidates.count)} candidates{again}"
    return event.statistic.words if isinstance(event, Noisy) else event.kind


def _where(part: Part | None, schema: Schema) -> str:
    """Which part of a partition, by its labels."""
    if part is None:
        return ""
    labels = {
        key: schema.levels[key].labels if key in schema.levels else schema[key].labels for key in part.keys
    }
    return " where " + ", ".join(f"{key} = {labels[key][code]}" for key, code in part.fixed.items())


def _noise(event: Event, epsilon: float) -> str:
    """Of what has none in rows."""
    if isinstance(event, Selection):
        return f"ε = {plain(event.epsilon)}"
    if isinstance(event, Noisy) and isinstance(event.statistic, WeightedSums):
        return f"σ = {count(event.standard_deviation)} weighted rows"
    if isinstance(event, Noisy) and isinstance(event.statistic, MembershipRegression):
        return "in every coefficient"
    if isinstance(event, Noisy) and isinstance(event.statistic, ErrorStrata):
        return f"{noise_range([_errors_off(event, event.statistic)])} of error"
    return f"ε = {plain(epsilon)}" if isinstance(event, Laplace) else "noise"


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
