"""Everything that the page shows, gathered from a release and, if there is one, its evaluation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from openprior.questions.workload import Marginal
from openprior.releases.certificate import Certificate
from openprior.releases.view import View
from openprior.report.budget import Budget, budget_of
from openprior.report.error_cards import Errors, Estimated, Evaluated, errors_of
from openprior.report.grades import Grades, grades_of
from openprior.report.origin import Coverage, Source, cover, sources_of
from openprior.report.pictures import BARS, Answer, Picture, answers_in, largest, picture_of
from openprior.report.promise import Promise, promise_of
from openprior.report.scope import Scope, scope_of
from openprior.report.steps import Step, steps_of

if TYPE_CHECKING:
    from openprior.report import Reported

__all__ = ["AnswerTable", "Blur", "Facts", "gather"]

_PAIRS, _CELLS = 6, 20_000
"""Two-way answers shown, and cells above which a pair is not looked at."""
_ANSWERS = 900
"""Rows in the table of answers, about."""


@dataclass(frozen=True)
class Blur:
    """The least noise with which marginals of so many columns were counted."""

    columns: int
    sigma: float
    share: float
    """2σ as a share of the rows."""


@dataclass(frozen=True)
class AnswerTable:
    """Some answers of one marginal."""

    columns: Marginal
    rows: tuple[Answer, ...]
    cells: int

    @property
    def scale(self) -> float:
        """The right end of the axis."""
        most = max((r.estimate for r in self.rows), default=0.0) or 1.0
        return max([most, *(min(r.high, 2 * most) for r in self.rows if r.high is not None)])


@dataclass(frozen=True)
class Facts:
    """Everything that the page shows."""

    certificate: Certificate
    warnings: tuple[str, ...]
    """Why this page must not be published; empty if it may be."""
    rows: int
    total: float
    names: tuple[str, ...]
    person_id: str | None
    marginals: int
    cells: int
    ways: tuple[int, ...]
    """How many columns the workload's marginals have."""
    scope: Scope
    promise: Promise
    budget: Budget
    public: View | None
    truth: View | None
    sources: tuple[Source, ...]
    coverage: Coverage
    pictures: tuple[Picture, ...]
    answers: tuple[AnswerTable, ...]
    blurs: tuple[Blur, ...]
    grades: Grades
    errors: Errors | None
    quality: tuple[tuple[str, Any, str], ...]
    estimate: Estimated | None
    is_linear: bool
    """Whether answers are sums of noisy counts and nothing else; such may be negative."""

    @property
    def has_intervals(self) -> bool:
        """Whether any answer has an interval."""
        return bool(self.bases)

    @property
    def lacks_intervals(self) -> bool:
        """Whether any answer that is shown has none."""
        return any(row.low is None for table in self.answers for row in table.rows)

    @cached_property
    def bases(self) -> set[str]:
        """What the intervals that are shown rest on."""
        return {row.basis for table in self.answers for row in table.rows if row.low is not None}

    @property
    def is_all_public(self) -> bool:
        """Whether nothing was asked of the private table but how wrong the answers are."""
        return all(group.key == "errors" for group in self.budget.groups)

    @property
    def learnt_by(self) -> str:
        """What told the release about the private table, where no table was counted at all; else empty."""
        ways = {"drawn": "the questions that were drawn", "regression": "the regression"}
        if len(self.coverage.never) < len(self.names):
            return ""
        return next((ways[group.key] for group in self.budget.groups if group.key in ways), "")

    @property
    def moved(self) -> list[Source]:
        """The columns by how far they are from the public table, farthest first."""
        return sorted((s for s in self.sources if s.moved is not None), key=lambda s: -(s.moved or 0.0))

    @staticmethod
    def pairs(view: View) -> list[tuple[Marginal, float]]:
        """The pairs of columns in which a table differs from the released rows, farthest first."""
        return sorted(((m, d) for m, d in view.distances.items() if len(m) == 2), key=lambda item: -item[1])


def gather(
    release: "Reported",
    evaluation: Evaluated | None,
    truth: View | None,
    quality: Any,
    estimate: Estimated | None,
) -> Facts:
    """Read everything that the page shows, once."""
    c, schema, model = release.certificate, release.schema, release.model
    public = release.public
    steps = steps_of(c, schema)
    ways = {len(m) for m in release.workload.marginals}
    tables: dict[Marginal, list[Answer]] = {
        (a,): answers_in(release.answers((a,)), [schema[a]]) for a in schema.names
    }
    pairs = {m: answers_in(release.answers(m), [schema[a] for a in m]) for m in _best_pairs(steps, release)}
    return Facts(
        certificate=c,
        warnings=_warnings(c, evaluation, truth, quality, estimate),
        rows=release.row_count,
        total=model.total,
        names=tuple(schema.names),
        person_id=schema.person_id,
        marginals=len(release.workload),
        cells=release.workload.cells,
        ways=tuple(sorted(ways)),
        scope=scope_of(schema, c.values_inside),
        promise=promise_of(c),
        budget=budget_of(c, steps),
        public=public,
        truth=truth,
        sources=sources_of(steps, schema, public, model.total),
        coverage=cover(release.workload.marginals, steps, schema),
        pictures=_pictures(release, public, truth, tables),
        answers=_shown({**tables, **pairs}),
        blurs=_blurs(steps, release),
        grades=grades_of(release),
        errors=None if evaluation is None else errors_of(evaluation),
        quality=() if quality is None else tuple(quality.summary()),
        estimate=estimate,
        is_linear=_least_noise(release, schema.names[:1]) is not None,
    )


def _warnings(
    c: Certificate,
    evaluation: Evaluated | None,
    truth: View | None,
    quality: Any,
    estimate: Estimated | None,
) -> tuple[str, ...]:
    warnings = []
    if evaluation is not None:
        if evaluation.warning is not None:
            warnings.append(evaluation.warning)
        warnings.append(evaluation.notice)
    elif truth is not None or quality is not None:
        warnings.append("NOT PRIVATE: shows figures of the private table; do not publish")
    if not c.is_private:
        warnings.append(f"{c.noise}: made for an experiment, do not publish")
    elif estimate is not None and not estimate.is_private:
        warnings.append("NOT PRIVATE: the estimate of the error was made with seeded noise; do not publish")
    return tuple(warnings)


def _pictures(
    release: "Reported", public: View | None, truth: View | None, tables: Mapping[Marginal, list[Answer]]
) -> tuple[Picture, ...]:
    counted = release.counts
    return tuple(
        picture_of(
            column,
            counted.counts[column.name,] / max(counted.rows, 1),
            None if public is None else public.shares.get(column.name),
            None if truth is None else truth.shares.get(column.name),
            tables[(column.name,)],
            release.model.total,
        )
        for column in release.schema.columns
    )


def _best_pairs(steps: tuple[Step, ...], release: "Reported") -> list[Marginal]:
    """The pairs of columns that were counted most precisely."""
    precision: dict[Marginal, float] = {}
    schema = release.schema
    order = {a: i for i, a in enumerate(schema.names)}
    for step in steps:
        for cells, sigma in [*((t, None) for t in step.tables), (step.cells or (), step.sigma)]:
            for pair in combinations(sorted(cells, key=order.__getitem__), 2):
                noise = sigma or _least_noise(release, pair) or step.sigma
                if noise and step.part is None:
                    precision[pair] = precision.get(pair, 0.0) + noise**-2
    fitting = [m for m in precision if schema.domain.size(m) <= _CELLS]
    return sorted(fitting, key=lambda m: -precision[m])[:_PAIRS]


def _shown(tables: Mapping[Marginal, list[Answer]]) -> tuple[AnswerTable, ...]:
    """The largest answers of each marginal."""
    most = min(BARS, max(6, _ANSWERS // len(tables)))
    places = {m: largest([r.estimate for r in rows], most) for m, rows in tables.items()}
    return tuple(AnswerTable(m, tuple(rows[i] for i in places[m]), len(rows)) for m, rows in tables.items())


def _blurs(steps: tuple[Step, ...], release: "Reported") -> tuple[Blur, ...]:
    """By the steps that counted tables, or by the answers themselves where they are sums of what was counted."""
    least: dict[int, float] = {}
    told = [(len(step.cells), step.sigma) for step in steps if step.cells]
    told += [(len(m), _least_noise(release, m)) for m in release.workload.marginals]
    for columns, sigma in told:
        if sigma:
            least[columns] = min(sigma, least.get(columns, math.inf))
    total = release.model.total
    return tuple(Blur(k, s, 2 * s / total if total else 1.0) for k, s in sorted(least.items()))


def _least_noise(release: "Reported", marginal: Marginal) -> float | None:
    """The least standard error of a cell, where answers are sums of noisy counts and nothing else; else None.

    Infinite if something in every cell was not counted.
    """
    noise = release.model.noise_alone(marginal)
    return None if noise is None else float(np.min(np.nan_to_num(noise.standard_error, nan=math.inf)))
