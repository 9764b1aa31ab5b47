"""A product of independent models over disjoint attributes: MWEM's factored form."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.models.base import Model, load_model, register_model, round_to_counts, write_arrays
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for

__all__ = ["ProductModel"]

Floats = NDArray[np.float64]


class ProductModel:
    """Independent factors; an attribute that no factor has is uniform."""

    def __init__(self, domain: Domain, factors: Sequence[Model], total: float) -> None:
        named = [a for f in factors for a in f.domain]
        if len(set(named)) != len(named) or not set(named) <= set(domain):
            raise ValueError("factors must have disjoint attributes of the domain")
        self.domain = domain
        self.factors = tuple(factors)
        self.total = float(total)

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Outer products of the factors' answers."""
        wanted = Cells(self.domain, marginals).marginals
        shares: list[dict[Marginal, Floats]] = []
        for factor in self.factors:
            inside = {tuple(a for a in m if a in factor.domain) for m in wanted} - {()}
            shares.append(factor.answers(inside) if inside else {})
        return {m: self._outer(m, shares) for m in wanted}

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

    def save(self, folder: Path) -> None:
        """One folder a factor."""
        write_arrays(folder, "product", self.domain, {"total": self.total, "factors": len(self.factors)}, {})
        for i, factor in enumerate(self.factors):
            (folder / f"factor{i}").mkdir()
            factor.save(folder / f"factor{i}")


@register_model("product")
def _load(header: dict[str, Any], arrays: dict[str, NDArray[Any]], folder: Path) -> Model:
    factors = [load_model(folder / f"factor{i}") for i in range(header["factors"])]
    return ProductModel(Domain(header["domain"]), factors, header["total"])
