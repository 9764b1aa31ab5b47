"""What a neighbour is, and what that does to sensitivities.

Two tables are neighbours when they differ in one person, who owns at most Δ rows (`rows_per_person`):

- replace-one: the person's rows are changed to any other values; the number of rows n is the same and is
  treated as public.
- add/remove-one: the person's rows are there or not; n is private and must itself be measured.

Every other module asks a `Unit` for its sensitivities; no number below is written anywhere else.
"""

import contextlib
import math
from dataclasses import dataclass, replace
from enum import StrEnum

from openprior.errors import OptionError
from openprior.given import shown
from openprior.schema.base import Schema

__all__ = ["Relation", "Unit"]


class Relation(StrEnum):
    """The neighbouring relation."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"


@dataclass(frozen=True)
class Unit:
    """The unit of privacy: one person with at most Δ rows, under a neighbouring relation."""

    relation: Relation = Relation.REPLACE_ONE
    rows_per_person: int = 1
    partitioned: bool = False
    """The table is one of several disjoint parts of a larger one; a person may move between parts."""

    @staticmethod
    def of(schema: Schema, relation: "str | Relation") -> "Unit":
        """The unit of a table with this schema: the only place where one is decided.

        A schema without a person id has Δ = 1, because it refuses any other, and then every row is a person; with one,
        whatever its name, the encoder keeps Δ rows per person, so Δ is the unit's.
        """
        return Unit(_relation(relation), schema.max_rows_per_person)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", _relation(self.relation))
        if self.rows_per_person < 1:
            raise OptionError(f"rows per person ({self.rows_per_person}) must be at least 1")

    @property
    def n_is_public(self) -> bool:
        """Whether the number of rows is the same in all neighbours."""
        return self.relation is Relation.REPLACE_ONE and not self.partitioned

    def part(self) -> "Unit":
        """The unit as one part of a partition sees it."""
        return replace(self, partitioned=True)

    @property
    def parts_touched(self) -> int:
        """What a cell's or a total's squared sensitivity must be multiplied by inside a partition.

        Proof that the largest charge of any part then pays for all: let the person take u_g rows from part g and
        bring v_g, with Σu_g, Σv_g ≤ Δ (v = 0 under add/remove). With t_g = (u_g + v_g)/(2Δ) (u_g/Δ), which sum to at
        most 1, every step of part g costs at most t_g times its charge, so all parts cost at most the largest.
        Gaussian noise: a marginal moves by ‖·‖₂² ≤ u_g² + v_g² ≤ t_g·2Δ² (t_g·Δ²), as u_g, v_g ≤ Δ. Laplace noise: it
        moves by ‖·‖₁ ≤ t_g·2Δ (t_g·Δ), and no number by more than Δ∞; so both ‖·‖₁/s and ‖·‖₁/s·tanh(Δ∞/(2s)) are
        t_g of the charge. An L1 score moves by t_g of its sensitivity, so a selection is (t_g·ε)-DP: t_g²·ε²/8 of an
        exponential mechanism, and t_g·ε·tanh(t_g·ε/2) of permute-and-flip, are at most t_g of what ε costs.
        One cell moves by ≤ max(u_g, v_g), a total by |u_g − v_g|: x_g ≤ Δ with Σx_g/Δ ≤ 2 under replace-one, and each
        step costs at most x_g/Δ of what it costs at Δ: twice that pays for all. ∎
        """
        return 2 if self.partitioned and self.relation is Relation.REPLACE_ONE else 1

    @property
    def l1(self) -> int:
        """L1 sensitivity of the count vector of one marginal.

        Proof: each of the person's ≤ Δ rows lies in one cell; removing it moves that cell by 1, replacing it
        moves one cell by −1 and one by +1.
        """
        return (2 if self.relation is Relation.REPLACE_ONE else 1) * self.rows_per_person

    @property
    def l2_squared(self) -> int:
        """Squared L2 sensitivity of the count vector of one marginal.

        Proof: the change is u − v with u, v ≥ 0 and ‖u‖₁, ‖v‖₁ ≤ Δ (v = 0 under add/remove), so
        ‖u − v‖₂² ≤ ‖u‖₂² + ‖v‖₂² ≤ 2Δ² (Δ² under add/remove), attained when the Δ rows share a cell.
        """
        return (2 if self.relation is Relation.REPLACE_ONE else 1) * self.rows_per_person**2

    @property
    def l2(self) -> float:
        """L2 sensitivity of the count vector of one marginal."""
        return math.sqrt(self.l2_squared)

    @property
    def cell(self) -> int:
        """Sensitivity of one cell's count: the person's ≤ Δ rows enter the cell or leave it, not both."""
        return self.rows_per_person


def _relation(name: str) -> Relation:
    with contextlib.suppress(ValueError, TypeError):
        return Relation(name)
    # Outside the handler: Python's own error has the name in it, which may be a table.
    raise OptionError(f"relation {shown(name)} is unknown; use 'replace-one' or 'add-remove'")
