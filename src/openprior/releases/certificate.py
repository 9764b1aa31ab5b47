"""The proof of what a release cost: relation, ε, δ, ρ, and every event with the numbers it was calibrated with.

A certificate can be rechecked by anyone who has it: `recheck` derives every event's sensitivity from the relation and
Δ, its cost from that and the noise, adds the costs up and converts; it needs no data and trusts no sum written there.
It can say a thing in one way only: a text that is not just what its numbers give is no certificate.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OtherFormat, PrivacyError, ReleaseError
from openprior.given import shown
from openprior.json_text import parse_json
from openprior.privacy.calibrate import budget_rho, epsilon_from_rho
from openprior.privacy.events import Event, Part, event_from_dict
from openprior.privacy.pure_cost import pure_epsilon, pure_rho
from openprior.privacy.session import Session
from openprior.privacy.strict import Record
from openprior.privacy.unit import Relation, Unit
from openprior.releases.description import Description
from openprior.releases.seal import FileSeal, seals_from

__all__ = ["FORMAT", "NOT_PRIVATE", "Certificate", "certify"]

FORMAT = 5
"""Of a release folder and its certificate; one more whenever what is written in either changes."""
_READ = (2, 3, 4, FORMAT)
"""The formats that are read. In 2 a release had all its rows in one file, and all answers in another, and no prior; up
to 3 any ε-DP step was charged ρ = ε²/2, which is more than it costs; up to 4 no errors were measured, and the number of
rows was not said."""
SECURE, NOT_PRIVATE = "secure", "NOT PRIVATE (seeded noise)"
"""What a certificate says of its noise."""
_VERSIONS = ("python", "openprior", "opendp", "numpy", "pyarrow")
_PRIOR = ("sha256", "rows_sha256", "openprior")
"""What a certificate says of a kept prior."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NEAR = 1e-6
"""Conversions between ε and ρ may differ so much between machines, relatively; sums and costs may not."""


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
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
    values_inside: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of every column with bins: from how many bins synthetic values are public ones, and from how many uniform."""
    description: Description = field(default_factory=Description)
    """What people say about it: the report opens with that."""
    prior: Mapping[str, str] = field(default_factory=dict)
    """If it began with a prior that was kept: SHA-256 of that and of its public rows, and what version learnt it."""
    rows: int | None = None
    """How many rows of the private table were counted, where that is public."""
    files: Mapping[str, FileSeal] = field(default_factory=dict, compare=False, repr=False)
    """In a folder: what every other file of it must be, by name."""
    format: int = field(default=FORMAT, compare=False, repr=False)
    """The number of the format that it is written in."""

    def sheet(self) -> Sheet:
        """What was promised and what was spent."""
        rows = (
            ("ε", f"{self.epsilon:g} (spent {self.epsilon_spent:.6g})"),
            ("δ", f"{self.delta:g}"),
            ("ρ", f"{self.rho:.6g} (spent {self.rho_spent:.6g})"),
            ("relation", f"{self.relation}, {how_many(self.rows_per_person, 'row')} per person"),
            ("mechanism", ", ".join([self.mechanism, *(f"{k} = {v}" for k, v in self.options.items())])),
            ("dataset", self.dataset),
            ("run", self.run),
            ("steps", f"{len(self.events):,}"),
            ("made", self.created),
            ("noise", self.noise),
            *([("prior", f"kept, SHA-256 {self.prior['sha256']}")] if self.prior else []),
        )
        warnings = () if self.is_private else (self.noise,)
        return Sheet("Certificate", ("", ""), rows, (self.statement, *self.remarks), warnings)

    @property
    def is_private(self) -> bool:
        """Whether the noise was secure."""
        return self.noise == SECURE

    @property
    def sha256(self) -> str:
        """SHA-256 of its text in hex; of one that was read from a folder, that of the file certificate.json."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

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
        """Derive every sensitivity, cost and sum anew; raises ReleaseError if anything is not what it must be."""
        try:
            self._recheck()
        except PrivacyError as error:
            raise ReleaseError(str(error)) from None
        except (ArithmeticError, ValueError):  # an OptionError is a ValueError
            raise ReleaseError("it has numbers that cannot be reckoned with") from None

    def _recheck(self) -> None:
        total = Fraction(0)
        parts: dict[int, dict[Part, Fraction]] = {}
        keys: dict[int, tuple[str, ...]] = {}
        paid: dict[int, Fraction] = {}
        for number, event in enumerate(self.events):
            own = self._own(number, event)
            if event.part is None:
                total += own
                continue
            siblings = parts.setdefault(event.part.number, {})
            if keys.setdefault(event.part.number, event.part.keys) != event.part.keys:
                raise ReleaseError("the parts of a partition have different keys, so they may overlap")
            siblings[event.part] = siblings.get(event.part, Fraction(0)) + own
            before = paid.get(event.part.number, Fraction(0))
            charge = Fraction(-1 if event.charged is None else event.charged)
            # The run pays what passes the dearest part so far, and nothing else.
            if abs(charge - max(Fraction(0), siblings[event.part] - before)) > own / 10**9:
                raise ReleaseError(f"event {number} was not charged what its part adds to the dearest so far")
            paid[event.part.number] = before + charge
            total += charge
        for partition, costs in parts.items():
            if max(costs.values()) > paid[partition]:
                raise ReleaseError(
                    "the parts of a partition were charged less than the most expensive of them"
                )
        if self.is_pure:
            self._recheck_pure(total)
        else:
            self._recheck_rho(total)
        promised = budget_rho(self.epsilon, self.delta)
        if self.is_pure and self._is_former:
            promised = self._pure_rho(self.epsilon)
        if abs(self.rho - promised) > _NEAR * promised:
            raise ReleaseError(
                f"epsilon = {self.epsilon:g} with delta = {self.delta:g} is rho = {promised:.6g}, not {self.rho:.6g}"
            )

    @property
    def _is_former(self) -> bool:
        """Whether any ε-DP step was charged ε²/2. It is more than the step costs, so whoever says so wrongly says that
        more was spent."""
        return self.format < 4

    def _pure_rho(self, epsilon: float) -> float:
        return epsilon**2 / 2 if self._is_former else pure_rho(epsilon)

    def _pure_epsilon(self, rho: float) -> float:
        return math.sqrt(2 * rho) if self._is_former else pure_epsilon(rho)

    def _own(self, number: int, event: Event) -> Fraction:
        """What an event says that it costs, which must be so."""
        try:
            cost = event.cost(self.unit, pure=self.is_pure, former=self._is_former)
            own = self._pure_epsilon(event.rho) if self.is_pure else event.rho
            if not (cost >= 0 and abs(cost - own) <= 1e-9 * own):
                name = "epsilon" if self.is_pure else "rho"
                raise ReleaseError(f"event {number} costs {name} = {cost:.6g} but was charged {own:.6g}")
            return Fraction(own)
        except PrivacyError as error:
            raise ReleaseError(f"event {number} cannot have been: {error}") from None
        except ArithmeticError:
            raise ReleaseError(f"event {number} has numbers that cannot be reckoned with") from None

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
            due = self._pure_rho(epsilon)
            if rho < due * (1 - 1e-9):
                raise ReleaseError(f"epsilon = {epsilon:.6g} gives more than rho = {rho:.6g}")
            if rho > due * (1 + 1e-8):
                raise ReleaseError(f"epsilon = {epsilon:.6g} gives less than rho = {rho:.6g}")

    def _recheck_rho(self, total: Fraction) -> None:
        if total > Fraction(self.rho):
            raise ReleaseError(f"the events add up to rho = {float(total):.6g}, more than {self.rho:.6g}")
        if abs(float(total) - self.rho_spent) > 1e-12 * self.rho:
            raise ReleaseError(f"the events add up to rho = {float(total):.6g}, not {self.rho_spent:.6g}")
        if epsilon_from_rho(self.rho, self.delta) > self.epsilon * (1 + 1e-9):
            raise ReleaseError(f"rho = {self.rho:.6g} gives more than epsilon = {self.epsilon:g}")
        due = min(self.epsilon, epsilon_from_rho(float(total), self.delta))
        if due > self.epsilon_spent * (1 + 1e-9) or self.epsilon_spent > self.epsilon:
            raise ReleaseError(f"rho = {float(total):.6g} gives more than epsilon = {self.epsilon_spent:g}")
        if self.epsilon_spent > due + _NEAR * self.epsilon:
            raise ReleaseError(f"rho = {float(total):.6g} gives less than epsilon = {self.epsilon_spent:g}")

    def to_json(self) -> str:
        """As text, always the same for the same certificate."""
        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        inside = {name: dict(bins) for name, bins in self.values_inside.items()}
        plain = {
            "options": dict(self.options),
            "versions": dict(self.versions),
            "description": self.description.to_dict(),
            "prior": dict(self.prior),
        }
        events = [event.to_dict() for event in self.events]
        files = {name: seal.to_dict() for name, seal in self.files.items()}
        values = {
            "format": self.format,
            **facts,
            **plain,
            "events": events,
            "values_inside": inside,
            "files": files,
        }
        if self.format == _READ[0]:
            del values["prior"]
        if self.rows is None:
            del values["rows"]
        text = {**values, "statement": self.statement}
        return json.dumps(text, indent=1, ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> "Certificate":
        """From text; strict, so that what is rechecked is what is written there, and nothing else is."""
        if not isinstance(text, str | bytes):
            raise ReleaseError(f"a certificate cannot be read from {shown(text)}; give the text of its file")
        try:
            values = parse_json(text)
        except ValueError as error:
            raise ReleaseError(
                f"the certificate cannot be read: {error}; it is damaged or none; copy it again"
            ) from None
        _check_format(values)
        try:
            certificate = _read(values)
        except (PrivacyError, ReleaseError) as error:
            raise ReleaseError(f"the certificate is damaged: {error}; copy it again") from None
        if (text.encode() if isinstance(text, str) else text) != certificate.to_json().encode():
            raise ReleaseError(
                "the certificate is damaged: it is not written as a certificate is; copy it again"
            )
        return certificate


def _check_format(values: object) -> None:
    """One of another version is not damaged, only not for us; older ones have no number."""
    found = values.get("format") if isinstance(values, dict) else FORMAT
    if found is None or (type(found) is int and found not in _READ):
        known = f"{', '.join(map(str, _READ[:-1]))} and {FORMAT}"
        raise OtherFormat(
            f"made by another version of openprior ({'no format number' if found is None else f'format {found}'}, and "
            f"this one reads formats {known}); open it with that version"
        )


def _read(values: object) -> Certificate:
    record = Record(values, "the certificate")
    format = record.whole("format", least=_READ[0])
    statement = record.text("statement")
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
        created=_time(record),
        versions=_versions(record.record("versions")),
        events=tuple(event_from_dict(event) for event in record.items("events")),
        remarks=record.texts("remarks", repeated=True),
        values_inside=_inside(record.record("values_inside")),
        description=Description.from_record(record.record("description")),
        prior={} if format == _READ[0] else _prior(record.record("prior")),
        rows=record.whole("rows", least=1) if format == FORMAT and "rows" in record else None,
        files=seals_from(record.record("files")),
        format=format,
    )
    record.end()
    if certificate.delta >= 1:
        raise PrivacyError("the certificate: delta must be below 1")
    if certificate.rows is not None and not certificate.unit.n_is_public:
        raise PrivacyError("the certificate: the number of rows is private under add-remove")
    if statement != certificate.statement:
        raise PrivacyError("the certificate: its statement is not what its numbers say")
    return certificate


def _time(record: Record) -> str:
    text = record.text("created")
    try:
        fits = datetime.fromisoformat(text).isoformat(timespec="seconds") == text
    except ValueError:
        fits = False
    if not fits:
        raise PrivacyError("the certificate: created must be a time")
    return text


def _versions(record: Record) -> dict[str, str]:
    versions = {name: record.text(name) for name in _VERSIONS}
    record.end()
    return versions


def _prior(record: Record) -> dict[str, str]:
    prior = {name: record.text(name) for name in (_PRIOR if record.names else ())}
    record.end()
    if any(not _SHA256.fullmatch(prior[name]) for name in _PRIOR[:2] if prior):
        raise PrivacyError("the certificate: a prior must have the SHA-256 of its file and of its rows")
    return prior


def _inside(record: Record) -> dict[str, dict[str, int]]:
    columns = {}
    for name in record.names:
        bins = record.record(name)
        columns[name] = {source: bins.whole(source) for source in ("public", "uniform")}
        bins.end()
    return columns


def certify(session: Session, *, values_inside: Mapping[str, Mapping[str, int]] | None = None) -> Certificate:
    """The certificate of all that a session has asked, rechecked; of synthetic rows, also whence their values are."""
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
        versions={name: sys.version.split()[0] if name == "python" else version(name) for name in _VERSIONS},
        events=tuple(account.events),
        remarks=tuple(account.remarks),
        values_inside=values_inside or {},
    )
    certificate.recheck()
    return certificate
