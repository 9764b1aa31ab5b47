"""What a ledger says of a dataset: its budget, its runs, and what is left; in ρ, which adds up, and in ε.

What was spent is rounded up, what a next run could have is rounded down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from typing import Literal

from openprior.privacy.calibrate import epsilon_spent, epsilon_within
from openprior.privacy.exact import down, up
from openprior.privacy.pure_cost import pure_epsilon_above, pure_rho

__all__ = ["BudgetChange", "DatasetStatus", "LedgerEvent", "RunStatus", "unit_words"]


@dataclass(frozen=True)
class LedgerEvent:
    """One charge: its number within the run, its exact ρ, when it was charged (UTC) and what it was for."""

    seq: int
    rho: float
    charged: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class RunStatus:
    """One run: what it reserved, what its events add up to (exactly) and whether it is still open."""

    id: str
    state: Literal["open", "closed"]
    reserved: float
    epsilon: float
    delta: float
    spent: Fraction
    events: int
    started: str
    details: Mapping[str, object]
    resumed: int = 0
    """How often it was resumed."""

    @property
    def epsilon_spent(self) -> float:
        """What its events are worth at its δ, rounded up."""
        return _settled(epsilon_spent(up(self.spent), self.delta), self.epsilon)

    @property
    def committed(self) -> Fraction:
        """What it counts with, in ρ: all it reserved while it is open, what it spent afterwards."""
        return Fraction(self.reserved) if self.state == "open" else self.spent

    @property
    def pure_committed(self) -> Fraction:
        """What a pure run counts with in ε: all of it while it is open, the ε that costs what it spent afterwards.

        Proof that this is enough: it charges E·tanh(E/2) or more for the sum E of its ε (account.py; former versions
        charged E²/2, which is more), so E is not above the ε that costs as much as it spent. ∎
        """
        whole = Fraction(self.epsilon)
        return whole if self.state == "open" else min(whole, Fraction(pure_epsilon_above(up(self.spent))))

    @property
    def mechanism(self) -> str:
        """What asked."""
        return str(self.details.get("mechanism", ""))

    @property
    def out(self) -> str | None:
        """The name of the folder that it writes; not where that is."""
        out = self.details.get("out")
        return None if out is None else str(out)


@dataclass(frozen=True)
class BudgetChange:
    """One change of a dataset's budget, from (ρ, ε, δ), or from none, to (ρ, ε, δ)."""

    changed: str
    before: tuple[float, float, float] | None
    rho: float
    epsilon: float
    delta: float
    stated: bool
    """Whether somebody set it; else a first run did."""


@dataclass(frozen=True)
class DatasetStatus:
    """One dataset: its budget, what is committed (exactly) and what is left (rounded down)."""

    name: str
    rho: float
    epsilon: float
    delta: float
    runs: tuple[RunStatus, ...]
    stated: bool
    """Whether somebody set the budget; else it is that of the first run that spent something."""
    changes: tuple[BudgetChange, ...] = ()
    """Every change of the budget, the first one first."""
    refusals: int = 0
    """How often the table was refused for what is in it, since that was last acknowledged."""
    refusals_in_all: int = 0
    """The same since the ledger began: who acknowledges every time is seen here."""

    @property
    def committed(self) -> Fraction:
        """What its runs count with, in ρ."""
        return sum((r.committed for r in self.runs), start=Fraction(0))

    @property
    def pure_committed(self) -> Fraction:
        """What its runs count with in ε, if all of them are pure."""
        return sum((r.pure_committed for r in self.runs), start=Fraction(0))

    @property
    def epsilon_committed(self) -> float:
        """What its runs count with, as ε at the dataset's δ, rounded up."""
        if self.delta == 0:
            return up(self.pure_committed)
        return _settled(epsilon_spent(up(self.committed), self.delta), self.epsilon)

    @property
    def remaining(self) -> float:
        """ρ that a next run could have, rounded down."""
        left = Fraction(self.rho) - self.committed
        if (
            self.delta == 0
        ):  # here ε adds up, and the cost of what is left is less than what is left of the cost
            free = max(Fraction(self.epsilon) - self.pure_committed, Fraction(0))
            left = min(left, Fraction(nextafter(pure_rho(free), 0.0)))
        return down(left)

    @property
    def epsilon_left(self) -> float:
        """ε that a next run could have at the dataset's δ, of four digits, rounded down; of dust nothing is made."""
        if self.remaining <= 1e-12 * self.rho:
            return 0.0
        if self.delta == 0:
            left = max(Fraction(self.epsilon) - self.pure_committed, Fraction(0))
            # Four digits of a double: the nearest if it fits, else what ρ allows.
            near = float(f"{float(left):.4g}")
            return near if Fraction(near) <= left else epsilon_within(self.remaining, 0.0)
        return epsilon_within(self.remaining, self.delta)

    @property
    def unit(self) -> str | None:
        """Who is protected, in words; None while no run has spent or reserved anything."""
        for run in self.runs:
            if run.state == "open" or run.events:
                return unit_words(run.details)
        return None


def _settled(epsilon: float, whole: float) -> float:
    """An ε that is the whole one but for the last digits of conversions, which is then the whole one."""
    return whole if whole < epsilon <= whole * (1 + 1e-8) else epsilon


def unit_words(details: Mapping[str, object]) -> str:
    """Who a run protects, in words.

    >>> unit_words({"unit": {"person": "id", "rows_per_person": 5, "relation": "replace-one"}})
    "a person by 'id' with at most 5 rows, replace-one"
    >>> unit_words({"unit": {"person": None, "rows_per_person": 1, "relation": "add-remove"}})
    'a row, add-remove'
    """
    unit = details.get("unit")
    if not isinstance(unit, Mapping):
        return f"a unit that was not written down, {details.get('relation', 'nor its relation')}"
    if unit["person"] is None:
        return f"a row, {unit['relation']}"
    rows = "1 row" if unit["rows_per_person"] == 1 else f"{unit['rows_per_person']} rows"
    return f"a person by '{unit['person']}' with at most {rows}, {unit['relation']}"
