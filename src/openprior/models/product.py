"""A product of independent models over disjoint attributes: MWEM's factored form."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.models.base import Flags, Model, Saved, load_model
from openprior.models.rounding import round_to_counts
from openprior.models.support import SupportModel
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for

__all__ = ["ProductModel"]

Floats = NDArray[np.float64]


class ProductModel(Model):
    """Independent factors; an attribute that no factor has is uniform."""

    kind: ClassVar[str] = "product"

    def __init__(self, domain: Domain, factors: Sequence[Model], total: float) -> None:
        named = [a for f in factors for a in f.domain]
        if len(set(named)) != len(named) or not set(named) <= set(domain):
            raise ValueError("factors must have disjoint attributes of the domain")
        super().__init__(domain, total)
        self.factors = tuple(factors)

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Outer products of the factors' answers."""
        asked = Cells(self.domain, marginals).marginals
        shares: list[dict[Marginal, Floats]] = []
        for factor in self.factors:
            inside = {tuple(a for a in m if a in factor.domain) for m in asked} - {()}
            shares.append(factor.answers(inside) if inside else {})
        return {m: self._outer(m, shares) for m in asked}

    def _outer(self, marginal: Marginal, shares: Sequence[dict[Marginal, Floats]]) -> Floats:
        result = np.full([1] * len(marginal), self.total)
        covered: set[str] = set()
        for factor, share in zip(self.factors, shares, strict=True):
            part = tuple(a for a in marginal if a in factor.domain)
            if part:
                # A factor keeps its own attribute order; the marginal's order is the domain's.
                own = tuple(a for a in factor.domain if a in part)
                table = share[own].reshape([factor.domain[a] for a in own]) / factor.total
                table = table.transpose([own.index(a) for a in part])
                result = result * table.reshape([self.domain[a] if a in part else 1 for a in marginal])
                covered |= set(part)
        rest = math.prod(self.domain[a] for a in marginal if a not in covered)
        shape = [self.domain[a] for a in marginal]
        return np.ascontiguousarray(np.broadcast_to(result / rest, shape)).reshape(-1)

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """Rows of the factors, each shuffled on its own, side by side."""
        columns: dict[str, NDArray[np.unsignedinteger]] = {}
        for factor in self.factors:
            table = factor.sample(rows, rng)
            columns.update({a: table.column(a) for a in factor.domain})
        for a in self.domain:
            if a not in columns:
                size = self.domain[a]
                counts = round_to_counts(np.ones(size), rows, rng)
                columns[a] = rng.permutation(np.repeat(np.arange(size, dtype=dtype_for(size)), counts))
        return Table(self.domain, tuple(columns[a] for a in self.domain))

    @property
    def can_restrict(self) -> bool:  # type: ignore[override]
        """If all factors can."""
        return all(factor.can_restrict for factor in self.factors)

    def restricted(self, allowed: Mapping[str, Flags]) -> "ProductModel | None":
        """Factor by factor; what was uniform is uniform over what is allowed."""
        share, factors = 1.0, list(self.factors)
        named = {a for factor in self.factors for a in factor.domain}
        for a in allowed.keys() - named:
            uniform = Domain({a: self.domain[a]})
            factors.append(
                SupportModel(Table(uniform, (np.arange(self.domain[a]),)), np.ones(self.domain[a]), 1.0)
            )
        for i, factor in enumerate(factors):
            inside = {a: marked for a, marked in allowed.items() if a in factor.domain}
            kept = factor.restricted(inside) if inside else factor
            if kept is None:
                return None
            share *= kept.total / factor.total
            factors[i] = kept
        return ProductModel(self.domain, factors, self.total * share)

    def save(self, folder: Path) -> None:
        """One folder per factor."""
        self._write(folder, {"total": self.total, "factors": len(self.factors)}, {})
        for i, factor in enumerate(self.factors):
            (folder / f"factor{i}").mkdir()
            factor.save(folder / f"factor{i}")

    @classmethod
    def load(cls, saved: Saved) -> "ProductModel":
        """The factors."""
        factors = [load_model(saved.folder / f"factor{i}") for i in range(saved.facts["factors"])]
        return cls(saved.domain, factors, saved.facts["total"])
