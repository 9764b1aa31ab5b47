"""The counts of a marginal whose rare values are merged: fewer cells, which stand out of the same noise."""

from dataclasses import dataclass
from typing import ClassVar

from openprior.errors import PrivacyError
from openprior.given import shown
from openprior.privacy.merging import Merging
from openprior.privacy.statistics import Ints, Sensitivity, Statistic, Vaulted
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["MergedCounts"]


@dataclass(frozen=True)
class MergedCounts(Statistic):
    """The count of every cell of a marginal, where values of a column that have the same group are one value."""

    kind: ClassVar[str] = "merged marginal"
    columns: Marginal
    merging: Merging

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if type(self.merging) is not Merging:
            raise PrivacyError(f"the groups of merged counts are {shown(self.merging)}; give a Merging")
        object.__setattr__(self, "merging", self.merging.own())
        if not self.columns or len(self.columns) != len(self.merging.groups):
            raise PrivacyError("merged counts need columns, and the groups of each one's values")

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    @property
    def words(self) -> str:
        """The columns, and that it is not every value that was counted."""
        return f"{' × '.join(self.columns)}, rare values merged"

    def fitted(self, layout: Layout) -> "MergedCounts":
        """Checked; the columns must be in the layout's order already, as the groups are listed in it."""
        if canonical(self.columns, layout.full_domain) != self.columns:
            raise PrivacyError(
                f"the columns of merged counts of {self.columns} must be in the domain's order"
            )
        self.merging.check(self.columns, layout.full_domain)
        return self

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of a marginal.

        Proof: every code has one group, so each row lies in one merged cell, and the merged table is a table of counts
        of cells that are disjoint and hold every row; what `Unit` proves of a marginal and its cells uses no more than
        that. The groups are part of the question, the same for both neighbours. ∎
        """
        return Sensitivity(unit.l1, unit.l2_squared, unit.cell)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The merged table: whole numbers, summed exactly."""
        merged: Ints = self.merging(vault.counts([self.columns])[self.columns])
        return merged

    def numbers(self, domain: Domain) -> int:
        """One per merged cell."""
        return self.merging.cells

    def _facts(self) -> dict[str, object]:
        return {"marginal": list(self.columns), "groups": [list(groups) for groups in self.merging.groups]}

    @classmethod
    def _from_facts(cls, record: Record) -> "MergedCounts":
        return cls(record.texts("marginal"), Merging(tuple(record.items("groups"))))
