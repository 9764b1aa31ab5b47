"""What an audit found: one row per setting, and the whole in words, as a table or as JSON."""

from dataclasses import dataclass

from openprior.display import Sheet, Shown
from openprior.privacy.auditing.samplers import LARGEST

__all__ = ["Audit", "AuditRow"]


@dataclass(frozen=True)
class AuditRow:
    """One setting of a mechanism, and what came of it."""

    mechanism: str
    delta: str
    """"0" (pure ε-DP) or ">0" (accounted in ρ)."""
    relation: str
    rows_per_person: int
    runs: int
    """How often the mechanism ran: recorded runs and replays."""
    events: int
    """How many events were recorded."""
    movement: float
    """The largest movement between neighbours, over the declared sensitivity; 1 is what is allowed, and reached."""
    cost: float
    """The largest cost of a move, over what was charged for it."""
    faults: tuple[str, ...]
    """What is wrong, if anything is."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """In a word, or the first fault."""
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return "ok" if self.ok else f"VIOLATION: {self.faults[0]}{more}"


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """What an audit found; `ok` if no promise was broken."""

    rows: tuple[AuditRow, ...]
    """One per setting."""
    noise: float
    """The standard deviation that samplers were asked for, over the one observed: 1 up to chance."""
    caveat: str = ""
    """What to know about the figures, if anything."""

    headings = ("mechanism", "δ", "relation", "Δ", "runs", "events", "moved", "cost", "verdict")

    @property
    def ok(self) -> bool:
        """Whether no promise was broken."""
        return self.noise <= LARGEST and all(row.ok for row in self.rows)

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        small = [f"noise: samplers draw {1 / self.noise:.3g} times the noise that they are asked for"]
        found = [
            f"{r.mechanism}, δ {r.delta}, {r.relation}, Δ = {r.rows_per_person}: {fault}"
            for r in self.rows
            for fault in r.faults
        ]
        return tuple((small if self.noise > LARGEST else []) + found)

    @property
    def verdict(self) -> str:
        """In a sentence."""
        events = sum(r.events for r in self.rows)
        if self.ok:
            return f"no promise was broken: {sum(r.runs for r in self.rows):,} runs, {events:,} events"
        return f"NOT PRIVATE as promised: {len(self.faults)} violations"

    def table(self) -> list[tuple[str, ...]]:
        """The rows in words, under `headings`."""
        return [
            (
                *(r.mechanism, r.delta, r.relation, str(r.rows_per_person), str(r.runs), str(r.events)),
                *(f"{r.movement:.3f}", f"{r.cost:.3f}", r.verdict),
            )
            for r in self.rows
        ]

    def sheet(self) -> Sheet:
        """One line per setting, those with a fault first."""
        rows = [text for _, text in sorted(zip(self.rows, self.table(), strict=True), key=lambda p: p[0].ok)]
        notes = tuple(filter(None, (self.verdict, self.caveat)))
        return Sheet("Audit", self.headings, tuple(rows), notes)

    def as_dict(self) -> dict[str, object]:
        """As JSON."""
        rows = [{**vars(r), "faults": list(r.faults), "ok": r.ok} for r in self.rows]
        return {"ok": self.ok, "noise": self.noise, "rows": rows, "faults": list(self.faults)}

    def __str__(self) -> str:
        lines = [self.headings, *self.table()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]
        shown = ["  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        noise = f"noise asked for over noise observed: {self.noise:.3f}"
        return "\n".join([*shown, noise, self.verdict, *([self.caveat] if self.caveat else [])])

    def __add__(self, other: "Audit") -> "Audit":
        return Audit(self.rows + other.rows, max(self.noise, other.noise), self.caveat or other.caveat)
