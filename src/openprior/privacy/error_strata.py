"""How wrong a finished model is, stratum by stratum: the statistic behind calibrated error bars.

Every cell of many marginals has a reference, which is what a released model says of it, and a stratum. What is measured
is the sum of |count − reference| over the cells of each stratum, apart for marginals of one column, of two, …: a few
numbers, however many cells there are. Beside cells there may be contrasts: sums of counts with weights, of which a mean
or a share within groups is made. Models are functions of what was released, so references, weights and strata are no
secret; but they are large, so a certificate has only how many tables were summed, with what factor, and how far one row
moves each.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.statistics import Ints, Sensitivity, Statistic, Vaulted, present
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["MOST_FACTOR", "ROW_STEPS", "Apart", "CellsApart", "ContrastsApart", "ErrorStrata"]

ROW_STEPS = 64
"""Steps of a row: references and weights are rounded to these, so that errors are whole numbers."""
_MOST_ROWS = 1 << 40
_MOST_SUM = 1 << 62
"""No number is larger than this, nor the sum of a table's references: so all of them fit 64 bits."""
MOST_FACTOR = 1 << 20
_MOST_STRATA, _MOST_GROUPS, _MOST_STEPS = 100, 1000, 1 << 12


@dataclass(frozen=True, eq=False)
class Apart(ABC):
    """What is asked of one table of counts: how far some whole numbers are from their references."""

    marginal: Marginal
    """The columns, in the domain's order."""
    group: int
    """Which numbers of the statistic they go to."""
    reference: NDArray[np.int64]
    """What the model says of each."""
    stratum: NDArray[np.int8]
    """The stratum of each; −1 where its error is not asked for."""
    within: Marginal | None = None
    """A marginal with these columns and more that is counted anyway: then its counts are added up."""
    shape: tuple[int, ...] = ()
    """Of the table that is counted; `checked` knows it."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How far one row, added or removed, can move all of them together."""

    @abstractmethod
    def _size(self, domain: Domain) -> int:
        """How many numbers there are."""

    @abstractmethod
    def _numbers(self, table: NDArray[np.int64]) -> Ints:
        """The numbers, of the marginal's counts in its shape."""

    def checked(self, domain: Domain, strata: int, groups: int) -> Self:
        """Itself, on memory that stays as it is; raises if it does not fit."""
        marginal = canonical(self.marginal, domain)
        within = None if self.within is None else canonical(self.within, domain)
        if marginal != self.marginal or within != self.within:
            raise PrivacyError(f"the columns of {self.marginal} must be in the domain's order")
        if within is not None and not set(marginal) <= set(within):
            raise PrivacyError(f"{marginal} is no sum of {within}")
        reference, stratum = frozen(self.reference), frozen(self.stratum)
        fits = reference.dtype == np.int64 and stratum.dtype == np.int8
        if not fits or reference.shape != (self._size(domain),) or stratum.shape != reference.shape:
            raise PrivacyError(f"{marginal} needs a whole reference and a stratum for every number")
        if type(self.group) is not int or not 0 <= self.group < groups:
            raise PrivacyError(f"{marginal} is in a group that is not there")
        if len(stratum) and (stratum.min() < -1 or stratum.max() >= strata):
            raise PrivacyError(f"{marginal} has a stratum that is not there")
        if float(np.abs(reference.astype(np.float64)).sum()) > _MOST_SUM / 2:
            raise PrivacyError(f"{marginal} has references beyond any table")
        shape = tuple(domain[a] for a in within or marginal)
        return replace(
            self, marginal=marginal, within=within, reference=reference, stratum=stratum, shape=shape
        )

    def apart(self, counts: Ints) -> Ints:
        """How far each is from its reference, of the counts of `within`, or of the marginal."""
        counted = self.within or self.marginal
        away = tuple(axis for axis, a in enumerate(counted) if a not in self.marginal)
        difference: Ints = np.abs(self._numbers(counts.reshape(self.shape).sum(axis=away)) - self.reference)
        return difference


@dataclass(frozen=True, eq=False)
class CellsApart(Apart):
    """The cells of a marginal, each count in steps of a row."""

    @property
    def steps(self) -> int:
        """A row is in one cell."""
        return ROW_STEPS

    def _size(self, domain: Domain) -> int:
        return domain.size(self.marginal)

    def _numbers(self, table: NDArray[np.int64]) -> Ints:
        return ROW_STEPS * table.reshape(-1)


@dataclass(frozen=True, eq=False)
class ContrastsApart(Apart):
    """For every combination of the other columns, a group: the counts of one column's values, weighted and summed."""

    axis: int = 0
    """Which of the marginal's columns is weighted."""
    weights: NDArray[np.int16] = field(default_factory=lambda: np.zeros((0, 0), np.int16))
    """[group, value], each −`most` to `most`."""
    most: int = ROW_STEPS

    @property
    def steps(self) -> int:
        """A row is in one group, and has one value there."""
        return self.most

    def _size(self, domain: Domain) -> int:
        sizes = [domain[a] for a in self.marginal]
        return domain.size(self.marginal) // sizes[self.axis]

    def _numbers(self, table: NDArray[np.int64]) -> Ints:
        groups = np.moveaxis(table, self.axis, -1).reshape(self.weights.shape)
        sums: Ints = (groups * self.weights.astype(np.int64)).sum(axis=1)
        return sums

    def checked(self, domain: Domain, strata: int, groups: int) -> Self:
        """With weights that are no larger than it says."""
        if type(self.axis) is not int or not 0 <= self.axis < len(self.marginal):
            raise PrivacyError(f"{self.marginal} has no such column")
        if type(self.most) is not int or not 1 <= self.most <= _MOST_STEPS:
            raise PrivacyError(f"weights over {self.marginal} need a bound from 1 to {_MOST_STEPS}")
        weights, size = frozen(self.weights), self._size(domain)
        if weights.dtype != np.int16 or weights.shape != (size, domain[self.marginal[self.axis]]):
            raise PrivacyError(f"{self.marginal} needs a whole weight for every value in every group")
        if weights.size and (int(weights.min()) < -self.most or int(weights.max()) > self.most):
            raise PrivacyError(f"{self.marginal} has a weight beyond the bound")
        return replace(super().checked(domain, strata, groups), weights=weights)


@dataclass(frozen=True)
class ErrorStrata(Statistic):
    """For every group of tables and every stratum: factor · Σ |number − reference|."""

    kind: ClassVar[str] = "errors"
    is_count: ClassVar[bool] = False
    strata: int
    factors: tuple[int, ...]
    """Of every group."""
    tables: tuple[int, ...]
    """How many tables every group has."""
    steps: tuple[int, ...]
    """How far one row moves a group's numbers of one table."""
    asked: tuple[Apart, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(strata: int, factors: tuple[int, ...], asked: tuple[Apart, ...]) -> "ErrorStrata":
        """Of these tables."""
        groups = range(len(factors))
        tables = tuple(sum(a.group == g for a in asked) for g in groups)
        steps = tuple(max((a.steps for a in asked if a.group == g), default=0) for g in groups)
        return ErrorStrata(strata, factors, tables, steps, asked)

    def __post_init__(self) -> None:
        told = (self.factors, self.tables, self.steps, self.asked)
        if not all(type(each) is tuple for each in told):  # a list may change until it is read
            raise PrivacyError("errors by stratum need their factors, tables and steps as tuples")
        groups = len(self.factors)
        if not 1 <= groups <= _MOST_GROUPS or not groups == len(self.tables) == len(self.steps):
            raise PrivacyError("errors by stratum need groups of tables, with a factor and steps for each")
        if type(self.strata) is not int or not 1 <= self.strata <= _MOST_STRATA:
            raise PrivacyError("errors by stratum need strata, and not more than a hundred")
        if not all(type(f) is int and 1 <= f <= MOST_FACTOR for f in self.factors):
            raise PrivacyError("errors by stratum need whole factors above 0, and none that is huge")
        if not all(type(t) is int and t >= 1 for t in self.tables):
            raise PrivacyError("errors by stratum need a table in every group")
        if not all(type(s) is int and 1 <= s <= _MOST_STEPS for s in self.steps):
            raise PrivacyError(f"errors by stratum need steps from 1 to {_MOST_STEPS}")

    @property
    def words(self) -> str:
        """What it is."""
        return "how wrong the answers are"

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """What has to be counted: the marginals, or those that they are sums of."""
        return tuple(dict.fromkeys(a.within or a.marginal for a in self.asked))

    def fitted(self, layout: Layout) -> "ErrorStrata":
        """Checked table by table, and on memory that stays as it is; it states what follows from its tables."""
        if not self.asked:
            raise PrivacyError(f"{self.words} was read from a certificate: it can be rechecked, not measured")
        if not all(type(a) in (CellsApart, ContrastsApart) for a in self.asked):
            raise PrivacyError("errors by stratum are those of cells and of contrasts")
        kept = tuple(a.checked(layout.full_domain, self.strata, len(self.factors)) for a in self.asked)
        derived = ErrorStrata.of(self.strata, self.factors, kept)
        if derived != self:
            raise PrivacyError("errors by stratum state other tables or steps than they have")
        return derived

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Per group S = factor·steps·tables·(a marginal's L1), in L1; the groups' squares add up in L2.

        Proof: the person adds and removes at most `unit.l1` rows. Of one table a row is part of one number, a cell or a
        contrast of its group, and moves that by `steps` at most; |y − g| moves as y does, and a number is in one
        stratum at most. So over all strata together a group's numbers move by factor·steps·unit.l1 for each table: by S
        in L1, and so by S in L2. Groups are different numbers. ∎
        """
        if unit.partitioned:
            raise PrivacyError("errors are measured on the whole table; use the curator that was partitioned")
        told = zip(self.factors, self.tables, self.steps, strict=True)
        moved = [f * t * s * unit.l1 for f, t, s in told]
        return Sensitivity(sum(moved), sum(m * m for m in moved), max(moved))

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """Group by group, and in each stratum by stratum."""
        present(self.asked or None, self.words)
        if vault.rows > _MOST_ROWS:
            raise PrivacyError(f"{self.words} cannot be told in 64 bits of so large a table")
        sums = [[0] * self.strata for _ in self.factors]
        counts = vault.counts(self.reads)
        for asked in self.asked:
            apart = asked.apart(counts[asked.within or asked.marginal])
            for s in range(self.strata):
                sums[asked.group][s] += int(apart[asked.stratum == s].sum())
        scaled = [f * e for f, row in zip(self.factors, sums, strict=True) for e in row]
        return np.array(
            [min(e, _MOST_SUM) for e in scaled], dtype=np.int64
        )  # a limit moves nothing further apart

    def numbers(self, domain: Domain) -> int:
        """One per group and stratum."""
        return self.strata * len(self.factors)

    def _facts(self) -> dict[str, object]:
        facts = {"factors": self.factors, "tables": self.tables, "steps": self.steps}
        return {"strata": self.strata, **{name: list(values) for name, values in facts.items()}}

    @classmethod
    def _from_facts(cls, record: Record) -> "ErrorStrata":
        strata = record.whole("strata", least=1)
        return cls(strata, record.wholes("factors"), record.wholes("tables"), record.wholes("steps"))
