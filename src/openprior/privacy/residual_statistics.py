"""What a marginal says that no smaller one does, as whole numbers: the statistic behind `hdmm`'s residual strategy.

The counts x of a marginal over columns B with n₁, n₂, … values are a sum of parts, one for every subset of B. The last
of them, its *residual component*, is P·x with P = ⊗(I − 11ᵀ/nᵢ). That has fractions, so what is measured is γ times as
much, R = γP = ⊗(nᵢI − 11ᵀ) with γ = Πnᵢ, and noise that is γ times as large: whole numbers with exact discrete noise.
(ResidualPlanner, Xiao, He, Zhang & Kifer 2023, measures the same component with real numbers.)
"""

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from openprior.errors import PrivacyError
from openprior.privacy.statistics import Ints, Sensitivity, Statistic, Vaulted
from openprior.privacy.strict import Record
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["MOST_RESIDUAL_CELLS", "Residuals"]

MOST_RESIDUAL_CELLS = 1 << 22
"""γ, the cells of the marginal, at most: its numbers are below γ·n, so 64 bits hold them for 2⁴⁰ rows."""
_MOST_ROWS = 1 << 40
_LISTED = 8
"""Columns up to which the L1 sensitivity is worked out pattern by pattern; 4 to that power."""


@dataclass(frozen=True)
class Residuals(Statistic):
    """γ times the residual component of a marginal, one whole number per cell."""

    kind: ClassVar[str] = "residuals"
    columns: Marginal
    sizes: tuple[int, ...]
    """How many values each column has: the sensitivity follows from them, so a certificate must have them."""

    @staticmethod
    def of(columns: Iterable[str], domain: Domain) -> "Residuals":
        """Of these columns, in the domain's order."""
        ordered = canonical(columns, domain)
        return Residuals(ordered, tuple(domain[a] for a in ordered))

    def __post_init__(self) -> None:
        if not self.columns or len(self.columns) != len(self.sizes):
            raise PrivacyError("residuals need columns, and the number of values of each; use Residuals.of")
        if not all(type(size) is int and size >= 2 for size in self.sizes):
            raise PrivacyError(
                f"{self.words} are 0, whatever the table: a column has one value only; leave it out"
            )
        if self.scale > MOST_RESIDUAL_CELLS:
            raise PrivacyError(
                f"{self.words} have {self.scale:,} cells, more than the {MOST_RESIDUAL_CELLS:,} whose whole numbers "
                "surely fit 64 bits; measure the marginal's counts instead"
            )

    @property
    def scale(self) -> int:
        """γ: how many times the residual component the numbers are."""
        return math.prod(self.sizes)

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    @property
    def words(self) -> str:
        """What it is."""
        return f"residuals of {' × '.join(self.columns)}"

    def fitted(self, layout: Layout) -> "Residuals":
        """In the layout's order, and with its sizes: from others a smaller sensitivity would follow."""
        derived = Residuals.of(self.columns, layout.full_domain)
        if dict(zip(self.columns, self.sizes, strict=True)) != dict(
            zip(derived.columns, derived.sizes, strict=True)
        ):
            raise PrivacyError(f"{self.words} have other sizes than the schema's; use Residuals.of")
        return derived

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of whole vectors R(u − v).

        Let the person take rows u and bring rows v, counted by cell, ‖u‖₁, ‖v‖₁ ≤ Δ (v = 0 under add/remove). A column
        of R is ⊗(nᵢe − 1). Two of them that differ in the columns D of B have the inner product
        γ·Π(nᵢ−1)·Π_{i∈D}(−1/(nᵢ−1)), as (nI − 11ᵀ)² = n(nI − 11ᵀ): alike it is a = γΠ(nᵢ−1), and it is never below −b
        with b = a/(min nᵢ − 1), where D is the one column with fewest values: larger odd D divide by more. So b ≤ a.

        L2: ‖R(u − v)‖₂² = ‖Ru‖² + ‖Rv‖² − 2⟨Ru, Rv⟩ ≤ a‖u‖₁² + a‖v‖₁² + 2b‖u‖₁‖v‖₁, at most Δ²a under add/remove and
        2Δ²(a + b) under replace-one; reached by Δ equal rows that become Δ equal others. Parts of a partition: the
        bound is a convex function of each part's (‖u_g‖₁, ‖v_g‖₁), so the sum over parts, which all cost no more than
        the dearest pays for, is largest where u is in one part and v in one: in the same, 2Δ²(a + b). ∎

        L1: the norm is convex in u and in v, so it is largest where both are Δ equal rows, or 0. A column of R has norm
        L = Π2(nᵢ−1): ΔL under add/remove. Under replace-one, Δ times the largest ‖R(e − e′)‖₁, which is not below L;
        between two parts, 2ΔL. ∎
        """
        sizes, delta = self.sizes, unit.rows_per_person
        alike = self.scale * math.prod(n - 1 for n in sizes)
        column = math.prod(2 * (n - 1) for n in sizes)
        if unit.relation is Relation.ADD_REMOVE:
            return Sensitivity(delta * column, delta**2 * alike)
        against = alike // (min(sizes) - 1)  # a product of the others' nᵢ − 1 and γ: it divides
        farthest = 2 * column if unit.partitioned else _farthest(tuple(sorted(sizes)))
        return Sensitivity(delta * farthest, 2 * delta**2 * (alike + against))

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """R times the counts, axis by axis: n times each number less their sum."""
        if vault.rows > _MOST_ROWS:
            raise PrivacyError(f"{self.words} cannot be told in 64 bits of so large a table; measure counts")
        table = vault.counts([self.columns])[self.columns].reshape(self.sizes)
        for axis, size in enumerate(self.sizes):
            table = size * table - table.sum(axis=axis, keepdims=True)
        return table.reshape(-1)

    def numbers(self, domain: Domain) -> int:
        """One per cell."""
        return self.scale

    def _facts(self) -> dict[str, object]:
        return {"marginal": list(self.columns), "sizes": list(self.sizes)}

    @classmethod
    def _from_facts(cls, record: Record) -> "Residuals":
        return cls(record.texts("marginal"), record.wholes("sizes"))


@functools.lru_cache(maxsize=4096)
def _farthest(sizes: tuple[int, ...]) -> int:
    """The largest L1 distance of two columns of R; for very many columns the triangle inequality's 2L, which is safe.

    Where two rows differ in the columns D, the others' factors have the norms 2(nᵢ−1). In a column of D a cell is the
    one row's value, the other's, or one of nᵢ − 2 others: the two factors are (nᵢ−1, −1), (−1, nᵢ−1) or (−1, −1).

    >>> _farthest((2,)), _farthest((3,)), _farthest((10, 10))
    (4, 6, 480)
    """
    if len(sizes) > _LISTED:
        return 2 * math.prod(2 * (n - 1) for n in sizes)
    return max(
        _distance(differ) * math.prod(2 * (n - 1) for i, n in enumerate(sizes) if not which >> i & 1)
        for which in range(1, 1 << len(sizes))
        for differ in [tuple(n for i, n in enumerate(sizes) if which >> i & 1)]
    )


@functools.lru_cache(maxsize=4096)
def _distance(sizes: tuple[int, ...]) -> int:
    """The L1 distance of two columns of R that differ everywhere."""
    places = [((n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2)) for n in sizes]
    return sum(
        math.prod(times for _, _, times in cell)
        * abs(math.prod(one for one, _, _ in cell) - math.prod(other for _, other, _ in cell))
        for cell in itertools.product(*places)
    )
