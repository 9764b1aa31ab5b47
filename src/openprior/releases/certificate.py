"""The proof of what a release cost: relation, ε, δ, ρ, and every event with the numbers it was calibrated with.

A certificate can be rechecked by anyone who has it: `recheck` derives every event's sensitivity from the relation and
Δ, its cost from that and the noise, adds the costs up and converts; it needs no data and trusts no sum written there.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from openprior.errors import PrivacyError, ReleaseError
from openprior.privacy.calibrate import epsilon_from_rho, pure_epsilon
from openprior.privacy.events import Event, Part, event_from_dict
from openprior.privacy.session import Session
from openprior.privacy.strict import Record
from openprior.privacy.unit import Relation, Unit

__all__ = ["NOT_PRIVATE", "Certificate", "certify"]

SECURE, NOT_PRIVATE = "secure", "NOT PRIVATE (seeded noise)"
"""What a certificate says of its noise."""


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
    events: tuple[Event, ...] = field(repr=False)
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

    @property
    def unit(self) -> Unit:
        """The unit that the promise is about."""
        return Unit(Relation(self.relation), self.rows_per_person)

    def recheck(self) -> None:
        """Derive every sensitivity and cost anew; raises ReleaseError if anything was worth more than was charged."""
        total = Fraction(0)
        parts: dict[int, dict[Part, Fraction]] = {}
        paid: dict[int, Fraction] = {}
        for number, event in enumerate(self.events):
            own, charge = self._own_and_charged(number, event)
            total += charge
            if event.part is not None:
                siblings = parts.setdefault(event.part.number, {})
                siblings[event.part] = siblings.get(event.part, Fraction(0)) + own
                paid[event.part.number] = paid.get(event.part.number, Fraction(0)) + charge
        for partition, costs in parts.items():
            if len({part.keys for part in costs}) > 1:
                raise ReleaseError("the parts of a partition have different keys, so they may overlap")
            if max(costs.values()) > paid[partition]:
                raise ReleaseError(
                    "the parts of a partition were charged less than the most expensive of them"
                )
        if self.is_pure:
            self._recheck_pure(total)
        else:
            self._recheck_rho(total)

    def _own_and_charged(self, number: int, event: Event) -> tuple[Fraction, Fraction]:
        """What an event says that it costs, which must be so, and what the run paid for it."""
        try:
            cost = event.cost(self.unit, pure=self.is_pure)
        except PrivacyError as error:
            raise ReleaseError(f"event {number} cannot have been: {error}") from None
        except ArithmeticError:
            raise ReleaseError(f"event {number} has numbers that cannot be reckoned with") from None
        own = pure_epsilon(event.rho) if self.is_pure else event.rho
        if not (cost >= 0 and abs(cost - own) <= 1e-9 * own):
            name = "epsilon" if self.is_pure else "rho"
            raise ReleaseError(f"event {number} costs {name} = {cost:.6g} but was charged {own:.6g}")
        return Fraction(own), Fraction(own if event.charged is None else event.charged)

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
        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {"options": dict(self.options), "versions": dict(self.versions)}
        events = [event.to_dict() for event in self.events]
        values = {**facts, **plain, "events": events, "statement": self.statement}
        return json.dumps(values, indent=1, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> "Certificate":
        """From text; strict, so that what is rechecked is what is written there."""
        try:
            return _read(json.loads(text))
        except PrivacyError as error:
            raise ReleaseError(f"the certificate is damaged: {error}") from None
        except ValueError:
            raise ReleaseError("the certificate cannot be read; it is damaged or not a certificate") from None


def _read(values: object) -> Certificate:
    record = Record(values, "the certificate")
    record.text("statement")  # for people; what it says follows from the numbers
    certificate = Certificate(
        epsilon=record.number("epsilon"),
        delta=record.number("delta", zero=True),
        rho=record.number("rho"),
        relation=record.text("relation", *Relation),
        rows_per_person=record.whole("rows_per_person", least=1),
        epsilon_spent=record.number("epsilon_spent", zero=True),
        rho_spent=record.number("rho_spent", zero=True),
        noise=record.text("noise", SECURE, NOT_PRIVATE),
        mechanism=record.text("mechanism"),
        options=record.mapping("options"),
        dataset=record.text("dataset"),
        run=record.text("run"),
        schema_hash=record.text("schema_hash"),
        created=record.text("created"),
        versions=record.mapping("versions"),
        events=tuple(event_from_dict(event) for event in record.items("events")),
        remarks=record.texts("remarks", repeated=True),
    )
    record.end()
    if certificate.delta >= 1:
        raise PrivacyError("the certificate: delta must be below 1")
    return certificate


def certify(session: Session) -> Certificate:
    """The certificate of all that a session has asked, rechecked."""
    account, budget, unit = session.account, session.budget, session.unit
    spent = account.rho_spent
    epsilon_spent = float(account.spent) if account.pure else epsilon_from_rho(spent, budget.delta)
    certificate = Certificate(
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        relation=str(unit.relation),
        rows_per_person=unit.rows_per_person,
        epsilon_spent=min(budget.epsilon, epsilon_spent),
        rho_spent=spent,
        noise=SECURE if session.is_private else NOT_PRIVATE,
        mechanism=session.purpose.name,
        options=session.purpose.options,
        dataset=budget.dataset,
        run=account.run,
        schema_hash=session.schema.hash,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "python": sys.version.split()[0],
            **{name: version(name) for name in ("openprior", "opendp", "numpy", "pyarrow")},
        },
        events=tuple(account.events),
        remarks=tuple(account.remarks),
    )
    certificate.recheck()
    return certificate
