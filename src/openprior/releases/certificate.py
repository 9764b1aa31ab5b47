"""The proof of what a release cost: relation, ε, δ, ρ, and every event with the numbers it was calibrated with.

A certificate can be rechecked by anyone who has it: `recheck` derives every event's sensitivity from the relation and
Δ, its cost from that and the noise, adds the costs up and converts; it needs no data and trusts no sum written there.
"""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from openprior.errors import ReleaseError
from openprior.privacy.account import Account
from openprior.privacy.best_mixture import mixture_steps
from openprior.privacy.calibrate import epsilon_from_rho, gaussian_rho, pure_epsilon
from openprior.privacy.run import Budget
from openprior.privacy.scores import score_steps
from openprior.privacy.unit import Relation, Unit

__all__ = ["NOT_PRIVATE", "Certificate", "certify", "event_epsilon", "event_rho"]

NOT_PRIVATE = "NOT PRIVATE (seeded noise)"
_WHOLE = {f"{what} {noise}" for what in ("best mixture", "score") for noise in ("gaussian", "laplace")}
"""Steps on the whole table only."""
_KINDS = {"gaussian", "laplace", "exponential", "permute-and-flip", *_WHOLE}


@dataclass(frozen=True)
class Certificate:
    """What was promised, what was spent, and how."""

    epsilon: float
    delta: float
    rho: float
    """The promise: the release is (ε, δ)-DP, because it is ρ-zCDP."""
    relation: str
    rows_per_person: int
    epsilon_spent: float
    rho_spent: float
    """What the events really cost; the release is (epsilon_spent, δ)-DP."""
    noise: str
    """"secure", or NOT PRIVATE (seeded noise)."""
    mechanism: str
    options: Mapping[str, Any]
    """The mechanism's options."""
    dataset: str
    """The private table's name in the ledger."""
    run: str
    """The run's id there."""
    schema_hash: str
    created: str
    versions: Mapping[str, str]
    events: tuple[Mapping[str, Any], ...] = field(repr=False)
    """Every step, in order, with the numbers that it was calibrated with."""
    remarks: tuple[str, ...] = ()
    """What the mechanism says of its outcome."""

    @property
    def is_private(self) -> bool:
        """Whether the noise was secure."""
        return self.noise != NOT_PRIVATE

    @property
    def statement(self) -> str:
        """The guarantee in plain words."""
        if not self.is_private:
            return (
                f"{NOT_PRIVATE}: this release was made with repeatable noise for an experiment. Whoever knows the "
                "seed can remove the noise; do not publish it."
            )
        rows = "one row" if self.rows_per_person == 1 else f"at most {self.rows_per_person} rows"
        change = (
            f"changing all that the table says about one person ({rows}; the number of rows is treated as public)"
            if self.relation == Relation.REPLACE_ONE
            else f"adding or removing one person ({rows})"
        )
        steps = "1 step" if len(self.events) == 1 else f"{len(self.events)} steps"
        if self.is_pure:
            return (
                f"Differentially private with ε = {self.epsilon:g} and δ = 0 (pure): {change} changes the probability "
                f"of any outcome by at most a factor e^{self.epsilon:g}. It spent ε = {self.epsilon_spent:.6g} in "
                f"{steps}."
            )
        return (
            f"Differentially private with ε = {self.epsilon:g} and δ = {self.delta:g}: {change} changes the "
            f"probability of any outcome by at most a factor e^{self.epsilon:g}, up to {self.delta:g}. "
            f"It spent ρ = {self.rho_spent:.6g} of {self.rho:.6g} (zCDP) in {steps}, "
            f"which is ε = {self.epsilon_spent:.4g} at this δ."
        )

    @property
    def is_pure(self) -> bool:
        """Whether δ = 0 is promised: then ε is added up, not ρ."""
        return self.delta == 0

    def recheck(self) -> None:
        """Derive every sensitivity and cost anew; raises ReleaseError if anything was worth more than was charged."""
        unit = Unit(Relation(self.relation), self.rows_per_person)
        cost_of, name = (event_epsilon, "epsilon") if self.is_pure else (event_rho, "rho")
        total = Fraction(0)
        parts: dict[int, dict[tuple[int, ...], Fraction]] = {}
        paid: dict[int, Fraction] = {}
        for number, event in enumerate(self.events):
            try:
                cost, rho = cost_of(event, unit), float(event["rho"])
            except (KeyError, TypeError, ValueError):
                raise ReleaseError(
                    f"event {number} does not say what it was; the certificate is damaged"
                ) from None
            own = pure_epsilon(rho) if self.is_pure else rho
            if not (cost >= 0 and abs(cost - own) <= 1e-9 * own):
                raise ReleaseError(f"event {number} costs {name} = {cost:.6g} but was charged {own:.6g}")
            charge = Fraction(float(event.get("charged", own)))
            if charge < 0 or ("part" not in event and charge != Fraction(own)):
                raise ReleaseError(f"event {number} was charged {float(charge):.6g} instead of {own:.6g}")
            total += charge
            if "part" in event:
                partition, codes = int(event["part"]["number"]), tuple(event["part"]["codes"])
                mine = parts.setdefault(partition, {})
                mine[codes] = mine.get(codes, Fraction(0)) + Fraction(own)
                paid[partition] = paid.get(partition, Fraction(0)) + charge
        for partition, mine in parts.items():
            if max(mine.values()) > paid[partition]:
                raise ReleaseError(
                    "the parts of a partition were charged less than the most expensive of them"
                )
        if self.is_pure:
            self._recheck_pure(total)
        else:
            self._recheck_rho(total)

    def _recheck_pure(self, total: Fraction) -> None:
        if total > Fraction(self.epsilon):
            raise ReleaseError(
                f"the events add up to epsilon = {float(total):.6g}, more than {self.epsilon:.6g}"
            )
        if abs(float(total) - self.epsilon_spent) > 1e-12 * self.epsilon:
            raise ReleaseError(
                f"the events add up to epsilon = {float(total):.6g}, not {self.epsilon_spent:.6g}"
            )
        for rho, epsilon in ((self.rho, self.epsilon), (self.rho_spent, self.epsilon_spent)):
            if rho < epsilon**2 / 2 * (1 - 1e-9):
                raise ReleaseError(f"epsilon = {epsilon:.6g} gives more than rho = {rho:.6g}")

    def _recheck_rho(self, total: Fraction) -> None:
        if total > Fraction(self.rho):
            raise ReleaseError(f"the events add up to rho = {float(total):.6g}, more than {self.rho:.6g}")
        if abs(float(total) - self.rho_spent) > 1e-12 * self.rho:
            raise ReleaseError(f"the events add up to rho = {float(total):.6g}, not {self.rho_spent:.6g}")
        for rho, epsilon in ((self.rho, self.epsilon), (float(total), self.epsilon_spent)):
            if (
                min(self.epsilon, epsilon_from_rho(rho, self.delta)) > epsilon * (1 + 1e-9)
                or epsilon > self.epsilon
            ):
                raise ReleaseError(f"rho = {rho:.6g} gives more than epsilon = {epsilon:g}")
        if epsilon_from_rho(self.rho, self.delta) > self.epsilon * (1 + 1e-9):
            raise ReleaseError(f"rho = {self.rho:.6g} gives more than epsilon = {self.epsilon:g}")

    def to_json(self) -> str:
        """As text."""
        return json.dumps({**asdict(self), "statement": self.statement}, indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> "Certificate":
        """From text."""
        try:
            values = json.loads(text)
            values.pop("statement", None)
            return Certificate(
                **{**values, "events": tuple(values["events"]), "remarks": tuple(values.get("remarks", ()))}
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ReleaseError("the certificate cannot be read; it is damaged or not a certificate") from None


def event_epsilon(event: Mapping[str, Any], unit: Unit) -> float:
    """What one event costs in pure ε: the sum over draws and parts; inf for noise that has none."""
    kind = str(event["kind"])
    if kind in ("exponential", "permute-and-flip"):
        if not math.isfinite(event_rho(event, unit)):
            return math.inf
        return float(event["epsilon"]) * int(event["draws"]) * int(event["parts_touched"])
    return math.sqrt(2 * event_rho(event, unit)) if kind.endswith("laplace") else math.inf


def event_rho(event: Mapping[str, Any], unit: Unit) -> float:
    """What one event costs. Its sensitivity is the unit's, whatever the event says; inf if it says another."""
    if "part" in event:
        unit = unit.part()
    kind = str(event["kind"])
    if kind not in _KINDS or (kind in _WHOLE and "part" in event):
        return math.inf
    if kind.startswith("best mixture") and not unit.n_is_public:
        return math.inf
    if kind in ("exponential", "permute-and-flip"):
        touched = unit.parts_touched if event["scores"] == "cells" else 1
        if (
            int(event["parts_touched"]) != touched
            or int(event["draws"]) < 1
            or not float(event["epsilon"]) > 0
        ):
            return math.inf
        per_draw = float(event["epsilon"]) ** 2 / (8 if kind == "exponential" else 2)
        return per_draw * int(event["draws"]) * touched
    l1, l2_squared = _sensitivity(event, unit)
    if kind.endswith("gaussian"):
        right = event["l2_squared"] == l2_squared and float(event["sigma"]) > 0
        return gaussian_rho(l2_squared, float(event["sigma"])) if right else math.inf
    if kind.endswith("laplace"):
        right = event["l1"] == l1 and float(event["scale"]) > 0
        right = right and abs(float(event["epsilon"]) * float(event["scale"]) - l1) <= 1e-9 * l1
        return (l1 / float(event["scale"])) ** 2 / 2 if right else math.inf
    return math.inf


def _sensitivity(event: Mapping[str, Any], unit: Unit) -> tuple[int, int]:
    """L1 and squared L2 of what the event measured."""
    if str(event["kind"]).startswith("best mixture"):
        steps = mixture_steps(unit)
        return steps, steps**2
    if str(event["kind"]).startswith("score"):
        steps = score_steps(unit, over_cells=event["scores"] == "cells")
        return steps, steps**2
    if event["marginal"] and event["cell"] is None:
        k = event.get("overlap", 1)
        if not isinstance(k, int) or k < 1:
            raise ValueError("an overlap is a whole number of at least 1")
        return k * unit.l1, k * unit.l2_squared
    return unit.cell * unit.parts_touched, unit.cell**2 * unit.parts_touched


def certify(
    account: Account,
    unit: Unit,
    budget: Budget,
    schema_hash: str,
    mechanism: str,
    options: Mapping[str, Any],
    *,
    is_private: bool,
) -> Certificate:
    """The certificate of a run that is over, rechecked."""
    spent = account.rho_spent
    epsilon_spent = float(account.spent) if account.pure else epsilon_from_rho(spent, budget.delta)
    made = Certificate(
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        relation=str(unit.relation),
        rows_per_person=unit.rows_per_person,
        epsilon_spent=min(budget.epsilon, epsilon_spent),
        rho_spent=spent,
        noise="secure" if is_private else NOT_PRIVATE,
        mechanism=mechanism,
        options=options,
        dataset=budget.name,
        run=account.run,
        schema_hash=schema_hash,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "python": sys.version.split()[0],
            **{name: version(name) for name in ("openprior", "opendp", "numpy", "pyarrow")},
        },
        events=tuple(account.events),
        remarks=tuple(account.remarks),
    )
    made.recheck()
    return made
