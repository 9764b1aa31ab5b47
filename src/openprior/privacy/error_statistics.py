"""Errors that may be measured: a score itself, and the best mixture error of a public table.

One number each, and one person moves it little, however many marginals there are; so both cost next to nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from openprior.errors import PrivacyError
from openprior.privacy.best_mixture import MIXTURE_GRID, best_mixture, mixture_steps
from openprior.privacy.scores import CellScores, L1Score, Scores, SumScore, levels, score_steps
from openprior.privacy.statistics import Ints, Sensitivity, Statistic, Vaulted, present
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal, canonical
from openprior.schema.layout import Layout
from openprior.tables.table import Table

__all__ = ["BestMixtureError", "ScoreValue"]


@dataclass(frozen=True)
class ScoreValue(Statistic):
    """A score itself, in rows: a distance from references; the largest of them for single cells."""

    kind: ClassVar[str] = "score"
    is_count: ClassVar[bool] = False
    over: str
    """"marginals" or "cells"."""
    score: L1Score | SumScore | CellScores | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(score: L1Score | SumScore | CellScores) -> "ScoreValue":
        """Of this score."""
        return ScoreValue("cells" if isinstance(score, CellScores) else "marginals", score)

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """Those of the score."""
        score = present(self.score, self.words)
        marginals: tuple[Marginal, ...] = (
            score.cells.marginals if isinstance(score, CellScores) else score.marginals
        )
        return marginals

    def __post_init__(self) -> None:
        # Its sensitivity follows from `over` alone, so that must be the score's.
        is_over = "cells" if isinstance(self.score, CellScores) else "marginals"
        if self.over not in ("cells", "marginals") or (self.score is not None and self.over != is_over):
            raise PrivacyError(f"a score over {self.over} is described as another; use ScoreValue.of")

    def fitted(self, layout: Layout) -> "ScoreValue":
        """Checked against the domain; it must have a cell and a weight."""
        score = present(self.score, self.words)
        score.check(layout.domain if isinstance(score, CellScores) else layout.full_domain)
        if isinstance(score, CellScores) and not len(score):
            raise PrivacyError("there is no cell whose score could be measured; give at least one")
        if not score.sensitivity(Unit()) > 0:
            raise PrivacyError("a score of weight 0 measures nothing; give it a positive weight")
        return self

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """In whole steps.

        Proof: the level has the derived sensitivity exactly (scores.py). The largest of several levels moves by no more
        than the one that moves most. ∎
        """
        if unit.partitioned:
            raise PrivacyError("a score is measured on the whole table; use the curator that was partitioned")
        steps = score_steps(unit, over_cells=self.over == "cells")
        return Sensitivity(steps, steps**2)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The largest level."""
        score = present(self.score, self.words)
        candidates: Scores = score if isinstance(score, CellScores) else [score]
        largest: Ints = levels(candidates, vault, unit).values.max(keepdims=True)
        return largest

    def in_units(self, numbers: Any, unit: Unit, rows: Callable[[], int]) -> Any:
        """Rows per step: the score's own sensitivity over that of its level."""
        score = present(self.score, self.words)
        return numbers * (float(score.sensitivity(unit)) / self.sensitivity(unit).l1)

    def _facts(self) -> dict[str, object]:
        return {"over": self.over}

    @classmethod
    def _from_facts(cls, record: Record) -> "ScoreValue":
        return cls(record.text("over", "marginals", "cells"))


@dataclass(frozen=True)
class BestMixtureError(Statistic):
    """The best mixture error of public rows on the private table, as a share of n."""

    kind: ClassVar[str] = "best mixture"
    is_count: ClassVar[bool] = False
    rows: Table | None = field(default=None, repr=False, compare=False)
    marginals: tuple[Marginal, ...] = field(default=(), repr=False, compare=False)

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """Those of the queries."""
        return self.marginals

    def fitted(self, layout: Layout) -> "BestMixtureError":
        """With the marginals in the layout's order."""
        rows = present(self.rows, self.words)
        shared = layout.domain.project(a for a in layout.domain if a in rows.domain)
        if rows.domain != shared or not rows.n or not self.marginals:
            raise PrivacyError(
                "the best mixture error needs public rows with the private table's columns, and marginals"
            )
        kept = Table(
            rows.domain, tuple(frozen(column) for column in rows.columns)
        )  # other threads cannot write there
        marginals = tuple(canonical(m, rows.domain) for m in self.marginals)
        return replace(self, rows=kept, marginals=marginals)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """In steps of 1/64 row.

        Proof: f is Δ/n-sensitive (best_mixture.py), the solver's value lies in [f, f + 1/(64n)] by its own certificate,
        and rounding to the grid of 1/64 row adds one step on either side; so in steps of 1/64 row it moves by at most
        64Δ + 2. ∎
        """
        if not unit.n_is_public:
            raise PrivacyError(
                "the best mixture error is a share of n, which is private here; use replace-one"
            )
        steps = mixture_steps(unit)
        return Sensitivity(steps, steps**2)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The certified error on the grid."""
        rows, n = present(self.rows, self.words), vault.rows
        counts = vault.counts(self.marginals)
        position = {a: i for i, a in enumerate(rows.domain.attributes)}
        best = best_mixture(
            rows.columns,
            rows.domain.shape,
            [tuple(position[a] for a in m) for m in self.marginals],
            [counts[m] / n for m in self.marginals],
            tolerance=1 / (MIXTURE_GRID * n),
            max_seconds=None,
        )
        if not best.exact:
            raise PrivacyError(
                "the best mixture could not be certified; use fewer public rows or a smaller workload"
            )
        return np.array([round(best.error * n * MIXTURE_GRID)], dtype=np.int64)

    def in_units(self, numbers: Any, unit: Unit, rows: Callable[[], int]) -> Any:
        """As a share of n, which is public here."""
        return numbers / (MIXTURE_GRID * rows())

    def _facts(self) -> dict[str, object]:
        return {}

    @classmethod
    def _from_facts(cls, record: Record) -> "BestMixtureError":
        return cls()
