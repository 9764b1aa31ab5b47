"""The proof of what a release cost: relation, ε, δ, ρ, and every event with the numbers it was calibrated with.

A certificate can be rechecked by anyone who has it: `recheck` derives every event's cost from its own parameters,
adds them up and converts; it needs no data and trusts no sum that is written there.
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
from openprior.privacy.calibrate import epsilon_from_rho
from openprior.privacy.run import Budget
from openprior.privacy.units import Relation, Unit

__all__ = ["NOT_PRIVATE", "Certificate", "certify", "event_rho"]

NOT_PRIVATE = "NOT PRIVATE (seeded noise)"


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
    dataset: str
    run: str
    schema_hash: str
    created: str
    versions: Mapping[str, str]
    events: tuple[Mapping[str, Any], ...] = field(repr=False)

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
        return (
            f"Differentially private with ε = {self.epsilon:g} and δ = {self.delta:g}: {change} changes the "
            f"probability of any outcome by at most a factor e^{self.epsilon:g}, up to {self.delta:g}. "
            f"It spent ρ = {self.rho_spent:.6g} of {self.rho:.6g} (zCDP) in {len(self.events)} steps, "
            f"which is ε = {self.epsilon_spent:.4g} at this δ."
        )

    def recheck(self) -> None:
        """Derive every cost anew; raises ReleaseError if anything was worth more than was charged."""
        parts: dict[tuple[int, ...], Fraction] = {}
        total = Fraction(0)
        for number, event in enumerate(self.events):
            cost, charged = event_rho(event), float(event["rho"])
            if not cost <= charged * (1 + 1e-9):
                raise ReleaseError(f"event {number} costs rho = {cost:.6g} but was charged {charged:.6g}")
            if "part" in event:
                part = tuple(event["part"])
                parts[part] = parts.get(part, Fraction(0)) + Fraction(charged)
                total += Fraction(float(event["charged"]))
            else:
                total += Fraction(charged)
        alone = sum((Fraction(float(e["rho"])) for e in self.events if "part" not in e), Fraction(0))
        if alone + max(parts.values(), default=Fraction(0)) > total:
            raise ReleaseError("the parts of a partition were charged less than the most expensive of them")
        if total > Fraction(self.rho):
            raise ReleaseError(f"the events add up to rho = {float(total):.6g}, more than {self.rho:.6g}")
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
            return Certificate(**{**values, "events": tuple(values["events"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ReleaseError("the certificate cannot be read; it is damaged or not a certificate") from None


def event_rho(event: Mapping[str, Any]) -> float:
    """What one event costs, from its parameters alone."""
    kind = str(event["kind"])
    if kind.endswith("gaussian"):
        return float(event["l2_squared"]) / (2 * float(event["sigma"]) ** 2)
    if kind.endswith("laplace"):
        return float(event["l1"] / event["scale"]) ** 2 / 2
    factor = {"exponential": 1 / 8, "permute-and-flip": 1 / 2}.get(kind, math.inf)
    return factor * float(event["epsilon"]) ** 2 * int(event["draws"]) * int(event["parts_touched"])


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
    spent = float(account.spent)
    made = Certificate(
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        relation=str(unit.relation),
        rows_per_person=unit.rows_per_person,
        epsilon_spent=min(budget.epsilon, epsilon_from_rho(spent, budget.delta)),
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
    )
    made.recheck()
    return made
