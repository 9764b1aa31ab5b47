"""A finished generator (GEM; Liu, Vietri & Wu 2021): a mixture of product distributions.

Whatever network was trained, all that is left of it is what it gives for its fixed noise: for each of B components one
distribution per attribute. A marginal is then a sum of products, Σ_b w_b·Π_i p_{b,i}(y_i), which a matrix product gives
exactly. So a release is opened, asked and sampled without the library that trained it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.one_thread import blas_on_one_thread
from openprior.models.base import Flags, Model, Saved
from openprior.models.rounding import round_to_counts
from openprior.models.rows import choose_rows
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for

__all__ = ["GeneratorModel", "mixture_table"]

Floats = NDArray[np.floating[Any]]

_BLOCK = 1 << 24
"""Numbers in memory at once, beside the answers themselves."""
_OFFERED = 4
"""Rows drawn for each one that is kept."""
_EFFORT = 1.5e9
"""Cells looked up while rows are chosen."""


class GeneratorModel(Model):
    """A mixture of product distributions."""

    kind: ClassVar[str] = "generator"

    def __init__(
        self, domain: Domain, shares: Floats, values: Floats, total: float, marginals: Sequence[Marginal] = ()
    ) -> None:
        """`values` has a row per component: the attributes' distributions one after the other; `marginals` are those
        that rows should meet."""
        if values.shape != (len(shares), sum(domain.shape)) or not len(shares):
            raise ValueError("a generator needs a share and a distribution of every attribute per component")
        if not (np.isfinite(values).all() and (values >= 0).all() and (shares >= 0).all()):
            raise ValueError("the shares and distributions of a generator must be finite and at least 0")
        super().__init__(domain, total)
        self.marginals = tuple(canonical(m, domain) for m in marginals)
        self.shares = np.asarray(shares, np.float64) / np.sum(shares, dtype=np.float64)
        self._parts = []
        for part in np.split(np.asarray(values, np.float64), np.cumsum(domain.shape)[:-1], axis=1):
            self._parts.append(part / part.sum(axis=1, keepdims=True))
        if not np.isfinite(self.shares).all() or not all(np.isfinite(p).all() for p in self._parts):
            raise ValueError("the shares and distributions of a generator must have a positive sum")

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, NDArray[np.float64]]:
        """Sums of products, scaled to the rows."""
        asked = [canonical(m, self.domain) for m in marginals]
        with blas_on_one_thread():
            return {m: self.total * mixture_table(self._of(m), self.shares) for m in asked}

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """More rows than needed, spread evenly within each component; of these the ones that meet the answers best."""
        counts = round_to_counts(self.shares, _OFFERED * rows, rng)
        offered = Table(self.domain, tuple(_spread(counts, part, rng) for part in self._parts))
        if not rows:
            return offered
        targets = self.answers(self.marginals)
        return choose_rows(offered, np.ones(offered.n), rows, targets, rng, effort=_EFFORT)

    can_restrict: ClassVar[bool] = True

    def restricted(self, allowed: Mapping[str, Flags]) -> "GeneratorModel | None":
        """Each component where its codes are allowed; its share by how much of it is.

        Proof: given b the attributes are independent, so its part of the allowed rows is w_b·Π_i P_{b,i}(allowed),
        and within it every attribute has its own distribution on its allowed codes. ∎
        """
        shares, parts = self.shares.copy(), list(self._parts)
        for name, marked in allowed.items():
            i = self.domain.position(name)
            parts[i] = np.where(marked, parts[i], 0.0)
            shares *= parts[i].sum(axis=1)
        kept = np.flatnonzero(shares > 0)
        if not len(kept):
            return None
        values = np.concatenate(parts, axis=1)[kept]
        return GeneratorModel(
            self.domain, shares[kept], values, self.total * float(shares.sum()), self.marginals
        )

    def save(self, folder: Path) -> None:
        """Shares and distributions."""
        facts = {"total": self.total, "marginals": [list(m) for m in self.marginals]}
        self._write(folder, facts, {"shares": self.shares, "values": np.concatenate(self._parts, axis=1)})

    @classmethod
    def load(cls, saved: Saved) -> "GeneratorModel":
        """Shares and distributions."""
        marginals = [tuple(m) for m in saved.facts["marginals"]]
        arrays = saved.arrays
        return cls(saved.domain, arrays["shares"], arrays["values"], saved.facts["total"], marginals)

    def _of(self, marginal: Marginal) -> list[Floats]:
        return [self._parts[self.domain.position(a)] for a in marginal]


def mixture_table(parts: Sequence[Floats], shares: Floats) -> Any:
    """Σ_b shares_b·Π_i parts_i[b, y_i] for every cell y, flat in C order of the parts.

    >>> half = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> mixture_table([half, half], np.array([0.5, 0.5])).tolist()
    [0.625, 0.125, 0.125, 0.125]
    """
    if len(parts) == 1:
        return shares @ parts[0]
    sizes = [part.shape[1] for part in parts]
    larger = [max(math.prod(sizes[:i]), math.prod(sizes[i:])) for i in range(1, len(parts))]
    cut = int(np.argmin(larger)) + 1
    if larger[cut - 1] * len(shares) > _BLOCK:
        first, *rest = parts
        return np.concatenate([mixture_table(rest, shares * first[:, v]) for v in range(sizes[0])])
    left, right = _products(parts[:cut]) * shares[:, None], _products(parts[cut:])
    return (left.T @ right).reshape(-1)


def _products(parts: Sequence[Floats]) -> Floats:
    """For each component the products over all cells."""
    table = parts[0]
    for part in parts[1:]:
        table = (table[:, :, None] * part[:, None, :]).reshape(len(table), -1)
    return table


def _spread(counts: NDArray[np.int64], part: NDArray[np.float64], rng: np.random.Generator) -> Any:
    """Codes for so many rows of every component, as evenly as they can be and in random order within it.

    One random offset per component, as in `round_to_counts`: each code comes n·p times, rounded up or down.
    """
    component = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((rng.random(len(component)), component))
    rank = np.empty(len(component), np.int64)
    rank[order] = np.arange(len(component))
    rank -= np.repeat(np.cumsum(counts) - counts, counts)
    place = (rank + rng.random(len(counts))[component]) / counts[component]
    ends = np.cumsum(part, axis=1)
    ends /= ends[:, -1:]
    flat = (ends + np.arange(len(counts))[:, None]).reshape(-1)
    size = part.shape[1]
    # Just below the last end, so that no rounding takes a code of probability 0 at the end of a component.
    codes = np.searchsorted(flat, component + np.minimum(place, 1 - 1e-9), side="right") - component * size
    return codes.astype(dtype_for(size))
