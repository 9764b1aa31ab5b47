"""What was done to the private table: each event is data, and knows its cost.

An event says which statistic got which noise, or which candidates were chosen from at which ε, and in which part of a
partition. Its cost follows from that and the unit alone, so a certificate can be rechecked by anyone: nothing that an
event says about its own sensitivity is believed, because it says nothing.

Costs (`noise.py`, `selection.py` and `pure_cost.py` have the proofs): Gaussian noise Δ₂²/(2σ²) in ρ; Laplace noise
ε = Δ₁/scale in ε, and ε·tanh(ε∞/2) with ε∞ = Δ∞/scale in ρ; any other ε-DP step ε·tanh(ε/2) in ρ; the exponential
mechanism ε²/8 in ρ by bounded range, and ε in ε.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from openprior.errors import PrivacyError
from openprior.privacy import (  # noqa: F401  (can be read back)
    error_statistics,
    error_strata,
    merged_counts,
    regression,
    together,
    weighted_sums,
)
from openprior.privacy.calibrate import (
    exponential_epsilon,
    exponential_rho,
    gaussian_rho,
    gaussian_sigma_squared,
    laplace_rho,
    laplace_scale,
)
from openprior.privacy.pure_cost import pure_epsilon, pure_rho
from openprior.privacy.scores import CellScores, Scores, WorstCellScores
from openprior.privacy.statistics import Statistic, statistic_from_dict
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit

__all__ = [
    "Candidates",
    "Event",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Noisy",
    "Part",
    "PermuteAndFlip",
    "Selection",
    "event_from_dict",
]


@dataclass(frozen=True)
class Part:
    """One part of a partition: the number of the partition in its run, the keys, and their codes."""

    number: int
    keys: tuple[str, ...]
    codes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.keys or len(set(self.keys)) < len(self.keys) or len(self.keys) != len(self.codes):
            raise PrivacyError("a part of a partition needs different keys, and one code for each")

    @property
    def fixed(self) -> dict[str, int]:
        """The code of each key."""
        return dict(zip(self.keys, self.codes, strict=True))

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {"number": self.number, "keys": list(self.keys), "codes": list(self.codes)}

    @staticmethod
    def from_dict(record: Record) -> "Part":
        """As it was written."""
        part = Part(record.whole("number", least=1), record.texts("keys"), record.wholes("codes"))
        record.end()
        return part


@dataclass(frozen=True, kw_only=True)
class Event(ABC):
    """One look at the private table."""

    kind: ClassVar[str]
    """Its name in a certificate."""
    rho: float
    """The budget it was asked for; its cost is this, up to rounding."""
    part: Part | None = None
    charged: float | None = None
    """In a part: what the run paid beyond what other parts had made it pay, in the run's own unit (ρ, or ε if pure)."""

    @abstractmethod
    def _rho(self, unit: Unit) -> float: ...

    @abstractmethod
    def _epsilon(self, unit: Unit) -> float: ...

    def _former_rho(self, unit: Unit) -> float:
        """What it was charged when any ε-DP step was charged ε²/2, which is more."""
        return self._rho(unit)

    def cost(self, unit: Unit, *, pure: bool, former: bool = False) -> float:
        """What it costs in ρ, or in ε where the run is pure; inf for noise that has no ε.

        `unit` is the run's; a part derives its own. `former`: as certificates up to format 3 reckoned ρ.
        """
        unit = unit if self.part is None else unit.part()
        return self._epsilon(unit) if pure else self._former_rho(unit) if former else self._rho(unit)

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        values: dict[str, object] = {"event": self.kind, **self._facts(), "rho": self.rho}
        if self.part is not None:
            values["part"] = self.part.to_dict()
        if self.charged is not None:
            values["charged"] = self.charged
        return values

    @abstractmethod
    def _facts(self) -> dict[str, object]: ...


@dataclass(frozen=True, kw_only=True)
class Noisy(Event, ABC):
    """A statistic with noise."""

    statistic: Statistic

    @property
    @abstractmethod
    def standard_deviation(self) -> float:
        """Of the noise, per number, in the whole numbers that it was added to."""


@dataclass(frozen=True, kw_only=True)
class Gaussian(Noisy):
    """A statistic with discrete Gaussian noise."""

    kind: ClassVar[str] = "gaussian"
    sigma: float

    @staticmethod
    def at(statistic: Statistic, rho: float, unit: Unit) -> "Gaussian":
        """The noise that costs ρ."""
        squared = gaussian_sigma_squared(statistic.sensitivity(unit).l2_squared, rho)
        return Gaussian(statistic=statistic, sigma=math.sqrt(squared), rho=rho)

    @property
    def standard_deviation(self) -> float:
        """σ."""
        return self.sigma

    def _rho(self, unit: Unit) -> float:
        return gaussian_rho(self.statistic.sensitivity(unit).l2_squared, self.sigma)

    def _epsilon(self, unit: Unit) -> float:
        return math.inf

    def _facts(self) -> dict[str, object]:
        return {**self.statistic.to_dict(), "sigma": self.sigma}


@dataclass(frozen=True, kw_only=True)
class Laplace(Noisy):
    """A statistic with discrete Laplace noise."""

    kind: ClassVar[str] = "laplace"
    scale: float

    @staticmethod
    def at(statistic: Statistic, rho: float, unit: Unit, *, pure: bool) -> "Laplace":
        """The noise that costs ρ; in a pure run, that of the ε that any ε-DP step has of ρ."""
        moved = statistic.sensitivity(unit)
        scale = laplace_scale(moved.l1, moved.l1 if pure else moved.largest, rho)
        return Laplace(statistic=statistic, scale=scale, rho=rho)

    @property
    def standard_deviation(self) -> float:
        """√2 scales."""
        return self.scale * math.sqrt(2)

    def _rho(self, unit: Unit) -> float:
        moved = self.statistic.sensitivity(unit)
        return laplace_rho(moved.l1, moved.largest, self.scale)

    def _former_rho(self, unit: Unit) -> float:
        return self._epsilon(unit) ** 2 / 2

    def _epsilon(self, unit: Unit) -> float:
        return self.statistic.sensitivity(unit).l1 / self.scale

    def _facts(self) -> dict[str, object]:
        return {**self.statistic.to_dict(), "scale": self.scale}


@dataclass(frozen=True)
class Candidates:
    """What was chosen from: so many scores, of single cells or of marginals."""

    count: int
    over: str
    """"marginals" or "cells": whether a score is that of a whole marginal or of one cell, which may be its worst."""

    @staticmethod
    def of(scores: Scores) -> "Candidates":
        """Of these scores."""
        single = isinstance(scores, CellScores | WorstCellScores)
        return Candidates(len(scores), "cells" if single else "marginals")

    def parts_touched(self, unit: Unit) -> int:
        """How many parts a person can move the scores of, in the sense of `Unit.parts_touched`: L1 scores of all parts
        together cost no more than the dearest, those of single cells up to twice as much."""
        return unit.parts_touched if self.over == "cells" else 1


@dataclass(frozen=True, kw_only=True)
class Selection(Event, ABC):
    """Draws of candidates with high scores, without replacement unless it says so, each at ε.

    Proof: k draws compose. Without replacement (peeling): given the earlier draws, the next is the same mechanism on
    what is left. With replacement: it is the same mechanism on all candidates again (selection.py). ∎
    """

    candidates: Candidates
    epsilon: float
    draws: int = 1

    @classmethod
    def at(cls, candidates: Candidates, rho: float, unit: Unit, *, draws: int, pure: bool) -> Self:
        """The selection that costs ρ; in a pure run ε adds up over draws and parts, elsewhere ρ does."""
        times = draws * candidates.parts_touched(unit)
        epsilon = pure_epsilon(rho) / times if pure else cls._epsilon_at(rho / times)
        return cls(candidates=candidates, epsilon=epsilon, draws=draws, rho=rho)

    @staticmethod
    @abstractmethod
    def _epsilon_at(rho: float) -> float:
        """ε of one draw that costs ρ."""

    def _times(self, unit: Unit) -> int:
        return self.draws * self.candidates.parts_touched(unit)

    def _epsilon(self, unit: Unit) -> float:
        return self.epsilon * self._times(unit)

    def _facts(self) -> dict[str, object]:
        return {
            "candidates": self.candidates.count,
            "over": self.candidates.over,
            "epsilon": self.epsilon,
            "draws": self.draws,
        }


@dataclass(frozen=True, kw_only=True)
class Exponential(Selection):
    """The exponential mechanism: weights exp(ε·score/(2Δ))."""

    kind: ClassVar[str] = "exponential"
    with_replacement: bool = False
    """Whether every draw was from all candidates; then there may be more draws than candidates."""

    @staticmethod
    def _epsilon_at(rho: float) -> float:
        return exponential_epsilon(rho)

    def _rho(self, unit: Unit) -> float:
        return exponential_rho(self.epsilon) * self._times(unit)

    def _facts(self) -> dict[str, object]:
        return {**super()._facts(), **({"with_replacement": True} if self.with_replacement else {})}


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(Selection):
    """Permute-and-flip at ε."""

    kind: ClassVar[str] = "permute-and-flip"

    @staticmethod
    def _epsilon_at(rho: float) -> float:
        return pure_epsilon(rho)

    def _rho(self, unit: Unit) -> float:
        return pure_rho(self.epsilon) * self._times(unit)

    def _former_rho(self, unit: Unit) -> float:
        return self.epsilon**2 / 2 * self._times(unit)


def event_from_dict(values: object) -> Event:
    """An event as it was written; raises PrivacyError for anything that no event writes."""
    record = Record(values, "an event")
    kind = record.text("event", Gaussian.kind, Laplace.kind, Exponential.kind, PermuteAndFlip.kind)
    record.what = f"an event of kind {kind}"
    rho = record.number("rho")
    part = Part.from_dict(record.record("part")) if "part" in record else None
    charged = record.number("charged", zero=True) if "charged" in record else None
    if (part is None) != (charged is None):
        raise PrivacyError(f"{record.what}: a part and what was charged for it belong together")
    if kind in (Gaussian.kind, Laplace.kind):
        if kind == Gaussian.kind:
            sigma = record.number("sigma")
            return Gaussian(
                statistic=statistic_from_dict(record), sigma=sigma, rho=rho, part=part, charged=charged
            )
        scale = record.number("scale")
        return Laplace(
            statistic=statistic_from_dict(record), scale=scale, rho=rho, part=part, charged=charged
        )
    candidates = Candidates(record.whole("candidates", least=1), record.text("over", "marginals", "cells"))
    epsilon, draws = record.number("epsilon"), record.whole("draws", least=1)
    with_replacement = kind == Exponential.kind and record.mark("with_replacement")
    record.end()
    if draws > candidates.count and not with_replacement:
        raise PrivacyError(f"{record.what}: {draws} draws of {candidates.count} candidates")
    if kind == PermuteAndFlip.kind:
        return PermuteAndFlip(
            candidates=candidates, epsilon=epsilon, draws=draws, rho=rho, part=part, charged=charged
        )
    return Exponential(
        candidates=candidates,
        epsilon=epsilon,
        draws=draws,
        with_replacement=with_replacement,
        rho=rho,
        part=part,
        charged=charged,
    )
