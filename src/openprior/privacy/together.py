"""Many counts as one vector, each times a whole number: one event, one charge and one draw for thousands of marginals.

A charge and an outcome under seal are several writes to disk, milliseconds each; so measurements by the thousand, whose
shares are known before the first, are better made at once. How sharply each part is measured is in its factor: the same
noise on m times the counts is noise m times smaller on the counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from openprior.display import how_many
from openprior.errors import PrivacyError
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import (
    Counts,
    Ints,
    Sensitivity,
    Statistic,
    Total,
    Vaulted,
    statistic_from_dict,
)
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["MOST_TIMES", "Together"]

MOST_TIMES = 1 << 26
"""The largest factor, that of residuals included: 64 bits then hold the numbers of 2³⁶ rows."""
_MOST_ROWS = 1 << 36


@dataclass(frozen=True)
class Together(Statistic):
    """Counts of marginals, the total, residuals: one after the other, each times its factor."""

    kind: ClassVar[str] = "together"
    times: tuple[int, ...]
    parts: tuple[Statistic, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.times) != len(self.parts):
            raise PrivacyError("measuring together needs statistics, and one factor for each")
        for factor, part in zip(self.times, self.parts, strict=True):
            if not isinstance(part, Counts | Total | Residuals):
                raise PrivacyError(f"a {part.kind} cannot be measured together with others; measure it alone")
            if type(factor) is not int or not 1 <= factor <= MOST_TIMES // _own_factor(part):
                raise PrivacyError(
                    f"the factor of {part.words} must be a whole number of at least 1 that 64 bits have room for"
                )

    @property
    def marginal(self) -> Marginal:
        """All columns that it counts."""
        return tuple(dict.fromkeys(a for part in self.parts for a in part.marginal))

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """Those of its parts."""
        return tuple(dict.fromkeys(m for part in self.parts for m in part.reads))

    @property
    def words(self) -> str:
        """How many of what."""
        residuals = sum(isinstance(part, Residuals) for part in self.parts)
        numbers = {"table": len(self.parts) - residuals, "residual component": residuals}
        return " and ".join(how_many(number, thing) for thing, number in numbers.items() if number)

    def fitted(self, layout: Layout) -> "Together":
        """Part by part."""
        return Together(self.times, tuple(part.fitted(layout) for part in self.parts))

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """The sum over the parts, each with its factor, squared for L2.

        Proof: whatever one person does moves part i by at most its own sensitivity, m times that after its factor;
        norms of a vector that is put together add up, L1 as they are and L2 squared, and its largest number is that of
        one of them. The same over the parts of a partition, as each statistic's own bound holds there. ∎
        """
        each = [part.sensitivity(unit) for part in self.parts]
        return Sensitivity(
            sum(m * s.l1 for m, s in zip(self.times, each, strict=True)),
            sum(m**2 * s.l2_squared for m, s in zip(self.times, each, strict=True)),
            max(m * s.largest for m, s in zip(self.times, each, strict=True)),
        )

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """All numbers."""
        if vault.rows > _MOST_ROWS:
            raise PrivacyError(
                "numbers of so large a table do not surely fit 64 bits; measure them one by one"
            )
        return np.concatenate(
            [m * part.read(vault, unit) for m, part in zip(self.times, self.parts, strict=True)]
        )

    def numbers(self, domain: Domain) -> int:
        """As many as the parts have."""
        return sum(length for _, _, length in self.pieces(domain))

    def pieces(self, domain: Domain) -> Iterator[tuple[int, Statistic, int]]:
        """Factor, statistic and how many numbers it has, one by one."""
        for factor, part in zip(self.times, self.parts, strict=True):
            length = part.numbers(domain)
            assert length is not None  # counts, totals and residuals have a cell per number
            yield factor, part, length

    def _facts(self) -> dict[str, object]:
        return {"times": list(self.times), "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def _from_facts(cls, record: Record) -> "Together":
        parts = [statistic_from_dict(Record(fact, "a part")) for fact in record.items("parts")]
        return cls(record.wholes("times"), tuple(parts))


def _own_factor(part: Statistic) -> int:
    """How many times as much as counts its numbers are by themselves."""
    return part.scale if isinstance(part, Residuals) else 1
