"""Answers that are sums of noisy measurements and nothing else: unbiased, with a standard error that is exact.

The model is a set of residual components with their variances (components.py). A marginal inside what was measured is
their sum, which is the least-squares answer to all measurements together; it may be negative, and is never clipped
here. A component that was not measured is taken as 0: what it would say beyond smaller marginals is spread evenly, and
how far off that is nobody knows, so such answers have no standard error.

Rows are another matter: they come from a distribution fitted to the answers (linear_rows.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.models.base import Flags, Model, NoiseAlone, Saved
from openprior.models.components import subsets, telling
from openprior.models.linear_rows import RowMaker
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["LinearModel"]

Floats = NDArray[np.float64]

_LAPLACE_KURTOSIS = 3.0


class LinearModel(Model):
    """Residual components with their variances."""

    kind: ClassVar[str] = "linear"

    def __init__(
        self,
        domain: Domain,
        components: Mapping[Marginal, Floats],
        variances: Mapping[Marginal, float],
        *,
        noise: str,
        marginals: Sequence[Marginal],
    ) -> None:
        """`components` of columns that have more than one value, the empty one among them, and τ of each.

        `noise` is "gaussian" or "laplace"; `marginals` are those that rows should have right.
        """
        if components.keys() != variances.keys() or () not in components:
            raise ValueError("components and variances must be of the same columns, the total among them")
        for columns, table in components.items():
            if table.shape != tuple(domain[a] for a in columns) or not np.isfinite(table).all():
                raise ValueError(f"component {columns} is not one finite number per cell")
            if not (math.isfinite(variances[columns]) and variances[columns] >= 0):
                raise ValueError(f"component {columns} has no finite variance")
        super().__init__(domain, max(1.0, float(components[()])))
        self.components, self.variances = dict(components), dict(variances)
        self.noise, self.marginals = noise, tuple(marginals)

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Sums of components; exact least squares where all of them were measured."""
        return {m: self._answer(m) for m in Cells(self.domain, marginals).marginals}

    def _answer(self, marginal: Marginal) -> Floats:
        shape = [self.domain[a] for a in marginal]
        table = np.zeros(shape)
        for part in subsets(telling(marginal, self.domain)):
            component = self.components.get(part)
            if component is not None:
                places = [self.domain[a] if a in part else 1 for a in marginal]
                spread = math.prod(self.domain[a] for a in marginal if a not in part)
                table += component.reshape(places) / spread
        return table.reshape(-1)

    knows_errors: ClassVar[bool] = True

    def standard_errors(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Exact, whatever the table; nan where a component was not measured."""
        asked = Cells(self.domain, marginals).marginals
        return {m: self.noise_alone(m).standard_error for m in asked}

    def noise_alone(self, marginal: Marginal, members: Mapping[str, Floats] | None = None) -> NoiseAlone:
        """The noise of every cell, or of sums of cells where codes of a column are taken together; in C order of the
        columns as they are given.

        A cell's answer is gᵀx̂ with g = ⊗gᵢ, and component B adds τ_B·Π_{i∈B}(‖gᵢ‖² − (1ᵀgᵢ)²/nᵢ)·Π_{i∉B}(1ᵀgᵢ/nᵢ)²
        to its variance; with gᵢ of mᵢ ones, ‖gᵢ‖² = 1ᵀgᵢ = mᵢ. A sum of Laplace variables has no heavier tails, by
        its kurtosis, than one of them.
        """
        some = members or {}
        counts = {a: np.asarray(some.get(a, np.ones(self.domain[a])), np.float64) for a in marginal}
        shape = tuple(len(counts[a]) for a in marginal)
        variance = np.zeros(shape)
        for part in subsets(telling(canonical(marginal, self.domain), self.domain)):
            factor = np.full([1] * len(marginal), self.variances.get(part, np.nan))
            for axis, (a, m) in enumerate(counts.items()):
                n = self.domain[a]
                along = m - m**2 / n if a in part else (m / n) ** 2
                factor = factor * along.reshape([-1 if i == axis else 1 for i in range(len(marginal))])
            variance = variance + factor
        error = np.sqrt(np.maximum(np.broadcast_to(variance, shape).reshape(-1), 0.0))
        return NoiseAlone(error, _LAPLACE_KURTOSIS if self.noise == "laplace" else 0.0)

    # Rows.

    @cached_property
    def _maker(self) -> RowMaker:
        return RowMaker(self, self.marginals)

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """From the distribution fitted to the answers, moved towards these where it cannot have them."""
        return self._maker.sample(rows, rng)

    @property
    def can_restrict(self) -> bool:  # type: ignore[override]
        """If a distribution has been fitted to all answers at once; else released rows are better."""
        return self._maker.is_whole

    def restricted(self, allowed: Mapping[str, Flags]) -> Model | None:
        """The distribution that rows come from, restricted."""
        return self._maker.model.restricted(allowed)

    def save(self, folder: Path) -> None:
        """All components in one array, one after the other."""
        facts = {
            "noise": self.noise,
            "marginals": [list(m) for m in self.marginals],
            "components": [list(b) for b in self.components],
        }
        flat = [np.asarray(table, np.float64).reshape(-1) for table in self.components.values()]
        variances = np.array([self.variances[b] for b in self.components])
        self._write(folder, facts, {"components": np.concatenate(flat), "variances": variances})

    @classmethod
    def load(cls, saved: Saved) -> "LinearModel":
        """The same components."""
        names = [tuple(b) for b in saved.facts["components"]]
        ends = np.cumsum([saved.domain.size(b) for b in names])
        flat = np.split(saved.arrays["components"], ends[:-1])
        tables = {b: t.reshape([saved.domain[a] for a in b]) for b, t in zip(names, flat, strict=True)}
        variances = dict(zip(names, map(float, saved.arrays["variances"]), strict=True))
        marginals = [tuple(m) for m in saved.facts["marginals"]]
        return cls(saved.domain, tables, variances, noise=saved.facts["noise"], marginals=marginals)
