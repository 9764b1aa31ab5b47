"""What may be measured: each statistic is data, and derives its own sensitivity.

A statistic knows how far one person moves it (`sensitivity`, with the proof), how it reads itself from the vault as
whole numbers, and how it is written into a certificate. The curator adds noise that is calibrated to that and to
nothing else: nobody types a sensitivity, so nobody can type a wrong one. Counts stand here, errors in
`error_statistics.py`, a regression in `regression.py`; a new statistic is one class in one of them.

A statistic that was read back from a certificate describes what was measured, so that its cost can be derived anew. Of
large things (query matrices, references, public rows) the certificate has a description only; `read` then refuses.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.scores import Counted
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.queries import Queries
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from openprior.tables.table import Table

__all__ = [
    "CellCount",
    "Counts",
    "QueryAnswers",
    "Sensitivity",
    "Statistic",
    "Total",
    "Vaulted",
    "present",
    "statistic_from_dict",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sensitivity:
    """How far one person moves a vector of whole numbers."""

    l1: int
    l2_squared: int
    one: int | None = None
    """How far any one of the numbers, where that is known; no further than L1 and L2 in any case."""

    @property
    def largest(self) -> int:
        """L∞: the furthest that any one of the numbers moves."""
        bounds = (self.l1, math.isqrt(self.l2_squared), self.one)
        return min(bound for bound in bounds if bound is not None)


class Vaulted(Counted, Protocol):
    """Where exact counts come from: the curator's vault."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        ...

    def whole_rows(self) -> tuple[Table, Ints]:
        """The distinct rows, and how often each occurs."""
        ...


_KINDS: dict[str, "type[Statistic]"] = {}


@dataclass(frozen=True)
class Statistic(ABC):
    """Something that the curator can measure."""

    kind: ClassVar[str]
    """Its name in a certificate."""
    is_count: ClassVar[bool] = True
    """Whether its values are numbers of rows; those are kept with the release, and intervals rest on them."""
    reads_rows: ClassVar[bool] = False
    """Whether it looks at whole rows, which not every source can give; counts of marginals need none."""
    fits_without_data: ClassVar[bool] = False
    """Whether `fitted` checks it as a certificate has it, though it is no count."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # It is handed the vault and believed about its sensitivity, so it stands in this room, beside its proof.
        if not cls.__module__.startswith("openprior.privacy."):
            raise TypeError(
                f"{cls.__qualname__} is no statistic of openprior.privacy; add it there, with its proof"
            )
        other = _KINDS.setdefault(cls.kind, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"a statistic of kind '{cls.kind}' exists already")
        _KINDS[cls.kind] = cls

    @property
    def marginal(self) -> Marginal:
        """The columns that it counts; empty if it counts none in particular."""
        return ()

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """The marginals that have to be counted for it."""
        return (self.marginal,) if self.marginal else ()

    @property
    def words(self) -> str:
        """What it is, for people."""
        return " × ".join(self.marginal) or self.kind

    def fitted(self, layout: Layout) -> "Statistic":
        """Itself with columns in the layout's order; raises if it does not fit, so that nothing is charged for it."""
        return self

    @abstractmethod
    def sensitivity(self, unit: Unit) -> Sensitivity:
        """How far one person moves what `read` gives; raises where it may not be measured."""

    @abstractmethod
    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The exact whole numbers that noise is added to."""

    def in_units(self, numbers: Any, unit: Unit, rows: Callable[[], int]) -> Any:
        """Noisy whole numbers (or their standard deviation) in the statistic's own unit: rows, unless it says else."""
        return numbers

    def cells(self, domain: Domain) -> tuple[Marginal, Mapping[str, int]] | None:
        """Which cells its values count: all those of some columns, where others have given codes; None if no cells."""
        return None

    def numbers(self, domain: Domain) -> int | None:
        """How many values it has; None where only the one who asked knows."""
        counted = self.cells(domain)
        return None if counted is None else domain.size(counted[0])

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {"statistic": self.kind, **self._facts()}

    @abstractmethod
    def _facts(self) -> dict[str, object]:
        """Its own fields as JSON."""

    @classmethod
    @abstractmethod
    def _from_facts(cls, record: Record) -> "Statistic":
        """From its own fields."""


def statistic_from_dict(record: Record) -> Statistic:
    """A statistic as it was written; raises PrivacyError for anything else."""
    kind = record.text("statistic", *_KINDS)
    made = _KINDS[kind]._from_facts(record)
    record.end()
    return made


@dataclass(frozen=True)
class Counts(Statistic):
    """The count of every cell of a marginal."""

    kind: ClassVar[str] = "marginal"
    columns: Marginal

    def __init__(self, columns: Iterable[str]) -> None:
        object.__setattr__(self, "columns", (columns,) if isinstance(columns, str) else tuple(columns))

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    def fitted(self, layout: Layout) -> "Counts":
        """In the layout's order."""
        return Counts(canonical(self.columns, layout.full_domain))

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of a marginal. Proof: `Unit.l1`, `Unit.l2_squared` and `Unit.cell`; of parts together,
        `Unit.parts_touched`. ∎"""
        return Sensitivity(unit.l1, unit.l2_squared, unit.cell)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The table."""
        return vault.counts([self.columns])[self.columns]

    def cells(self, domain: Domain) -> tuple[Marginal, Mapping[str, int]]:
        """All of them."""
        return self.columns, {}

    def _facts(self) -> dict[str, object]:
        return {"marginal": list(self.columns)}

    @classmethod
    def _from_facts(cls, record: Record) -> "Counts":
        return cls(_marginal(record))


@dataclass(frozen=True)
class CellCount(Statistic):
    """The count of one cell of a marginal."""

    kind: ClassVar[str] = "cell"
    columns: Marginal
    cell: int
    """Its number, in C order of the columns' codes."""

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    @property
    def words(self) -> str:
        """The columns and the cell."""
        return f"{' × '.join(self.columns)}, cell {self.cell}"

    def fitted(self, layout: Layout) -> "CellCount":
        """Checked; the columns must be in the layout's order already, or the number would mean another cell."""
        if canonical(self.columns, layout.full_domain) != self.columns:
            raise PrivacyError(
                f"the columns of cell {self.cell} of {self.columns} must be in the domain's order"
            )
        if type(self.cell) is not int or not 0 <= self.cell < layout.full_domain.size(self.columns):
            raise PrivacyError(f"cell {self.cell} is outside marginal {self.columns}")
        return self

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Δ, times the parts that a move can touch.

        Proof: one person moves one count by at most Δ (`Unit.cell`); as a vector of length one, L1 = L2 = Δ. ∎
        """
        return Sensitivity(unit.cell * unit.parts_touched, unit.cell**2 * unit.parts_touched, unit.cell)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The one number."""
        return vault.counts([self.columns])[self.columns][self.cell : self.cell + 1]

    def cells(self, domain: Domain) -> tuple[Marginal, Mapping[str, int]]:
        """The one, by its codes."""
        codes = np.unravel_index(self.cell, [domain[a] for a in self.columns])
        return (), dict(zip(self.columns, map(int, codes), strict=True))

    def _facts(self) -> dict[str, object]:
        return {"marginal": list(self.columns), "cell": self.cell}

    @classmethod
    def _from_facts(cls, record: Record) -> "CellCount":
        return cls(_marginal(record), record.whole("cell"))


@dataclass(frozen=True)
class Total(Statistic):
    """The number of rows, where it is private (add/remove, or a part of a partition)."""

    kind: ClassVar[str] = "total"

    @property
    def words(self) -> str:
        """What it counts."""
        return "all rows"

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Δ, times the parts that a move can touch. Proof: one person's rows are Δ at most, and the total is their
        sum. ∎"""
        if unit.n_is_public:
            raise PrivacyError("the number of rows is public under replace-one; use n")
        delta = unit.rows_per_person
        return Sensitivity(delta * unit.parts_touched, delta**2 * unit.parts_touched, delta)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The number of rows."""
        return np.array([vault.rows], dtype=np.int64)

    def cells(self, domain: Domain) -> tuple[Marginal, Mapping[str, int]]:
        """The single cell of the table over no column."""
        return (), {}

    def _facts(self) -> dict[str, object]:
        return {}

    @classmethod
    def _from_facts(cls, record: Record) -> "Total":
        return cls()


@dataclass(frozen=True)
class QueryAnswers(Statistic):
    """The answers of 0/1 linear queries over a marginal, one number per query."""

    kind: ClassVar[str] = "queries"
    text: str
    columns: Marginal
    overlap: int
    """‖W‖₁: the most queries that one row is part of."""
    queries: Queries | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(queries: Queries) -> "QueryAnswers":
        """Of these queries."""
        return QueryAnswers(queries.text, queries.marginal, queries.overlap, queries)

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    @property
    def words(self) -> str:
        """The queries as they are written."""
        return self.text

    def fitted(self, layout: Layout) -> "QueryAnswers":
        """As their text says: whoever reads the certificate has nothing else, so the matrix must be that, too."""
        derived = QueryAnswers.of(Queries.parse(self.text, layout.domain))
        same = self.queries is None or np.array_equal(self.queries.members, derived.queries.members)  # type: ignore[union-attr]
        if derived != self or not same:
            raise PrivacyError(
                f"queries '{self.text}' are not what their text says (columns, cells or overlap); use Queries.parse"
            )
        return derived

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """k times a marginal's, with k the overlap.

        Proof: the change of the counts is u − v with u, v ≥ 0 and ‖u‖₁, ‖v‖₁ ≤ Δ. One row is in at most k queries, so
        ‖W(u − v)‖₁ ≤ k‖u − v‖₁; W, u and v being ≥ 0, ‖W(u − v)‖₂² ≤ ‖Wu‖₂² + ‖Wv‖₂², and ‖Wu‖₂ ≤ ‖u‖₁·√k: so k times
        a marginal's L1 and squared L2, also within parts. One query counts rows, which u adds to and v takes from: it
        moves by Δ at most. ∎
        """
        return Sensitivity(self.overlap * unit.l1, self.overlap * unit.l2_squared, unit.cell)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The exact answers."""
        queries: Queries = present(self.queries, self.words)
        return queries.answer(vault.counts([self.columns])[self.columns])

    def numbers(self, domain: Domain) -> int | None:
        """One per query."""
        return None if self.queries is None else len(self.queries.members)

    def _facts(self) -> dict[str, object]:
        return {"queries": self.text, "marginal": list(self.columns), "overlap": self.overlap}

    @classmethod
    def _from_facts(cls, record: Record) -> "QueryAnswers":
        return cls(record.text("queries"), _marginal(record), record.whole("overlap", least=1))


def _marginal(record: Record) -> Marginal:
    columns = record.texts("marginal")
    if not columns:
        raise PrivacyError(f"{record.what}: marginal names no column")
    return columns


def present(thing: Any, what: str) -> Any:
    """What only the one who asked has, and a certificate has not."""
    if thing is None:
        raise PrivacyError(f"{what} was read from a certificate: it can be rechecked, not measured")
    return thing
