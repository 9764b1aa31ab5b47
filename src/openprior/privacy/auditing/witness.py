"""A real curator whose every look is written down: the event, the exact numbers, the scale, the charge.

Vault, account, ledger and curator are those of a release, each with an eye on it; only the noise is another. It knows
the exact numbers that noise would be added to and the scale that it was asked for, writes both down, and answers with
an outcome: drawn honestly, drawn far off (so that a mechanism's rare ways are taken, too), or, when a run is
replayed, the outcome that was recorded, whatever the data are. What is seen here is NOT PRIVATE: it is for made-up
tables.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.events import Event, Exponential, Gaussian, Laplace, PermuteAndFlip
from openprior.privacy.journal import Outcome
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import SeededNoise
from openprior.privacy.unit import Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Marginal
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from openprior.tables.table import Table

__all__ = ["Diverged", "Draw", "Look", "Witness"]

Counts = NDArray[np.int64]
_FAR = 25
"""How many times the noise outcomes are off that are drawn far off."""


class Diverged(Exception):
    """A replayed run asks for something else than the recorded one: it has looked past the outcomes."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of the noise."""

    kind: str
    exact: Counts
    """The whole numbers that got noise, or the levels that were chosen from."""
    scale: float
    """σ, the Laplace scale, or ε of a selection: as the noise was asked for it."""
    sensitivity: int
    """Of the levels; 0 for noise."""
    outcome: Counts | int
    times: int = 1
    """How many independent draws it stands for: those with replacement come in one call."""


@dataclass(eq=False)
class Look:
    """One event, as it was done."""

    event: Event
    charge: Fraction
    """What the account was charged, in its own unit."""
    draws: list[Draw] = field(default_factory=list)
    outcome: Outcome = field(default_factory=dict)


class Witness:
    """What one run did. With a `script` the draws come out as recorded there."""

    def __init__(self, seed: int, *, far: bool, script: list[Draw] | None = None) -> None:
        self.looks: list[Look] = []
        self.faults: list[str] = []
        """What no run may do, whatever its neighbours are."""
        self.charges = 0
        """How often the ledger was charged."""
        self.account: Account
        self.ledger: Ledger
        self.drawn: list[Draw] = []
        self._acting: Look | None = None
        self._free = False
        self._far, self._script = far, script
        self._honest = SeededNoise(np.random.SeedSequence([seed, 1]))
        self._rng = np.random.default_rng([seed, 2])

    def curator(
        self, table: pa.Table, schema: Schema, unit: Unit, *, epsilon: float, delta: float
    ) -> Curator:
        """A curator on the table, under this witness's eyes."""
        rho = budget_rho(epsilon, delta)
        self.ledger = _WatchedLedger(self)
        run = self.ledger.open_run("audit", rho=rho, epsilon=epsilon, delta=delta, details={})
        self.account = _WatchedAccount(self, run, rho=rho, epsilon=epsilon, delta=delta)
        encoder = Encoder(schema, open_source(table, schema), private=True, levels=True)
        vault = _WatchedVault(self, encoder, rows_are_public=unit.n_is_public)
        return _WatchedCurator(self, vault, unit)

    def fault(self, text: str) -> None:
        """Write a fault down, once."""
        if text not in self.faults:
            self.faults.append(text)

    # The data.

    def sees(self, what: str) -> None:
        """Someone looks at exact numbers."""
        if self._acting is None and not self._free:
            self.fault(f"looked at {what} outside any charged event")

    @contextlib.contextmanager
    def freely(self) -> Iterator[None]:
        """Looks that tell nobody anything."""
        before, self._free = self._free, True
        try:
            yield
        finally:
            self._free = before

    @contextlib.contextmanager
    def doing(self, look: Look) -> Iterator[None]:
        """The act of an event."""
        self.looks.append(look)
        if self.charges < len(self.looks):
            self.fault("looked before the ledger was charged")
        self._acting = look
        try:
            yield
        finally:
            self._acting = None

    # The noise.

    def noisy(self, kind: str, counts: Counts, scale: float) -> Counts:
        """Counts with noise, or as recorded."""
        recorded = self._recorded(kind, counts.shape)
        if recorded is None:
            sampler = self._honest.gaussian if kind == Gaussian.kind else self._honest.laplace
            outcome = sampler(counts, scale * (_FAR if self._far else 1))
        else:
            outcome = np.asarray(recorded.outcome)
        self._keep(Draw(kind, counts.copy(), scale, 0, outcome))
        return outcome.copy()

    def chosen(self, kind: str, levels: Counts, sensitivity: int, epsilon: float) -> int:
        """A candidate, or the recorded one."""
        recorded = self._recorded(kind, levels.shape)
        if recorded is not None:
            outcome = int(recorded.outcome)
        elif self._far:
            outcome = int(self._rng.integers(len(levels)))
        else:
            choose = self._honest.exponential if kind == Exponential.kind else self._honest.permute_and_flip
            outcome = choose(levels, sensitivity, epsilon)
        self._keep(Draw(kind, levels.copy(), epsilon, sensitivity, outcome))
        return outcome

    def chosen_many(self, levels: Counts, sensitivity: int, epsilon: float, times: int) -> list[int]:
        """Candidates with replacement, or the recorded ones."""
        recorded = self._recorded(Exponential.kind, levels.shape, times)
        if recorded is not None:
            outcome = np.asarray(recorded.outcome)
        elif self._far:
            outcome = self._rng.integers(len(levels), size=times)
        else:
            outcome = np.asarray(self._honest.exponential_many(levels, sensitivity, epsilon, times))
        self._keep(Draw(Exponential.kind, levels.copy(), epsilon, sensitivity, outcome, times))
        return [int(i) for i in outcome]

    def _recorded(self, kind: str, shape: tuple[int, ...], times: int = 1) -> Draw | None:
        if self._script is None:
            return None
        place = len(self.drawn)
        if place >= len(self._script):
            raise Diverged(f"draws more often than on the neighbour ({len(self._script)} times)")
        recorded = self._script[place]
        if recorded.kind != kind or recorded.exact.shape != shape:
            raise Diverged(
                f"draw {place + 1} is {kind} of {shape[0]} numbers, and {recorded.kind} of "
                f"{recorded.exact.shape[0]} on the neighbour"
            )
        if recorded.times != times:
            raise Diverged(f"draw {place + 1} is of {times}, and of {recorded.times} on the neighbour")
        return recorded

    def _keep(self, draw: Draw) -> None:
        self.drawn.append(draw)
        if self._acting is None:
            self.fault(f"drew {draw.kind} noise outside any event")
        else:
            self._acting.draws.append(draw)


class _WatchedNoise:
    """Noise that answers as the witness says."""

    is_private = False

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        return self._witness.noisy(Gaussian.kind, counts, sigma)

    def laplace(self, counts: Counts, scale: float) -> Counts:
        return self._witness.noisy(Laplace.kind, counts, scale)

    def exponential(self, levels: Counts, sensitivity: int, epsilon: float) -> int:
        return self._witness.chosen(Exponential.kind, levels, sensitivity, epsilon)

    def exponential_many(self, levels: Counts, sensitivity: int, epsilon: float, draws: int) -> list[int]:
        return self._witness.chosen_many(levels, sensitivity, epsilon, draws)

    def permute_and_flip(self, levels: Counts, sensitivity: int, epsilon: float) -> int:
        return self._witness.chosen(PermuteAndFlip.kind, levels, sensitivity, epsilon)

    def below(self, bound: int) -> int:
        raise Diverged("draws bits of its own, past every event")

    def heads(self, coins: int) -> int:
        raise Diverged("draws bits of its own, past every event")


class _WatchedLedger(Ledger):
    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    def charge(self, run: str, seq: int, rho: float, event: Mapping[str, object]) -> None:
        super().charge(run, seq, rho, event)
        self._witness.charges += 1


class _WatchedAccount(Account):
    def __init__(self, witness: Witness, run: str, *, rho: float, epsilon: float, delta: float) -> None:
        super().__init__(witness.ledger, run, rho=rho, epsilon=epsilon, delta=delta)
        self._witness = witness

    def perform(self, charge: Fraction, event: Event, act: Callable[[], Outcome]) -> Outcome:
        look = Look(event, charge)

        def watched() -> Outcome:
            with self._witness.doing(look):
                return act()

        look.outcome = super().perform(charge, event, watched)
        return look.outcome


class _WatchedVault(Vault):
    def __init__(self, witness: Witness, encoder: Encoder, *, rows_are_public: bool) -> None:
        super().__init__(encoder)
        self._witness, self._rows_are_public = witness, rows_are_public

    @property
    def rows(self) -> int:
        if not self._rows_are_public:
            self._witness.sees("the number of rows")
        return super().rows

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, Counts]:
        self._witness.sees("exact counts")
        return super().counts(marginals)

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> Counts:
        self._witness.sees("exact counts")
        return super().gather(cells, only)

    def flat(self, marginals: tuple[Marginal, ...]) -> Counts:
        self._witness.sees("exact counts")
        return super().flat(marginals)

    def whole_rows(self) -> tuple[Table, Counts]:
        self._witness.sees("whole rows")
        return super().whole_rows()


class _WatchedCurator(Curator):
    __slots__ = ("_witness",)

    def __init__(self, witness: Witness, vault: Vault, unit: Unit) -> None:
        super().__init__(vault, unit=unit, noise=_WatchedNoise(witness), account=witness.account)
        self._witness = witness

    def look_ahead(self) -> None:
        with self._witness.freely():
            super().look_ahead()
