"""One run's account: charge, act, journal, in that order and no other.

A `Purse` is what a curator pays from. The whole run has one; every part of a partition has its own, and all parts
together cost the run what the most expensive of them has cost so far (parallel composition).

Costs are ρ of zCDP. A run with δ = 0 is *pure*: it counts ε, which adds up by itself, and every step is ε-DP with the
ε that costs the ρ it was asked at. Pure ε-DP is ε·tanh(ε/2)-zCDP (pure_cost.py), and that is charged to the ledger,
whose unit is ρ: E·tanh(E/2) for the sum E so far, so that runs of both kinds can share a dataset's budget.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite, nextafter

from openprior.errors import BudgetExceeded, PrivacyError
from openprior.privacy.calibrate import epsilon_spent, epsilon_within
from openprior.privacy.events import Event, Part
from openprior.privacy.exact import down, up
from openprior.privacy.journal import NoJournal, Outcome
from openprior.privacy.ledger import Ledger
from openprior.privacy.measurement import Measurement
from openprior.privacy.pure_cost import pure_epsilon, pure_rho
from openprior.privacy.refusal import counted
from openprior.privacy.sealed import SealedJournal

__all__ = ["Account", "PartPurse", "Purse"]

_SLACK = 1e-9
"""A charge that passes what is left by less than this share of the budget is cut to what is left, noise and all:
T equal parts of ρ may add up to a hair more than ρ in floating point."""


class Account:
    """The budget of one run, its events in order, its ledger and its journal."""

    def __init__(
        self,
        ledger: Ledger,
        run: str,
        *,
        rho: float,
        epsilon: float,
        delta: float,
        journal: SealedJournal | NoJournal | None = None,
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.pure = delta == 0
        self.rho = rho
        self.limit, self.spent = Fraction(epsilon if self.pure else rho), Fraction(0)
        """In ρ; in ε if pure."""
        self.held_back = Fraction(0)
        """Of the limit: what may not be spent now, because a later step needs it."""
        self.model_is_learnt = False
        """Now: what is asked of a finished model has to wait."""
        self._charged = Fraction(0)
        self.events: list[Event] = []
        self.measurements: list[Measurement] = []
        """Every marginal, cell and query that was measured: what was released of the counts themselves."""
        self.remarks: list[str] = []
        self._partitions = 0
        self.lock = threading.RLock()
        self.run = run
        self._pid = os.getpid()
        self.before_first: Callable[[], None] | None = None
        """Called before the first charge, and may refuse the table by raising."""
        self.on_refusal: Callable[[], None] | None = None
        """Told when a step fails that was looking at the table."""
        self._ledger, self._journal = ledger, NoJournal() if journal is None else journal

    def number_partition(self) -> int:
        """A number for one more partition of the run, so that the certificate can tell them apart."""
        self._partitions += 1
        return self._partitions

    def cost(self, rho: float) -> Fraction:
        """What a step asked at ρ costs, in the account's unit."""
        return Fraction(pure_epsilon(rho)) if self.pure else Fraction(rho)

    def rho_of(self, amount: Fraction) -> float:
        """The largest ρ (to a few last bits) whose step costs at most so much."""
        amount = max(amount, Fraction(0))  # what is held back may have been spent before
        if not self.pure:
            return down(amount)
        rho = pure_rho(amount)
        while rho > 0 and self.cost(rho) > amount:
            rho = nextafter(rho, -inf)
        return rho

    @property
    def rho_spent(self) -> float:
        """What was spent, in ρ."""
        return pure_rho(self.spent) if self.pure else float(self.spent)

    def perform(self, charge: Fraction, event: Event, act: Callable[[], Outcome]) -> Outcome:
        """Charge, then act, then journal; or repeat what the journal has for just this event.

        A run that was killed between charge and journal acts again for the same charge: nobody can have seen the
        outcome that was lost (the proof is in sealed.py).
        """
        # Its copy of the count of events would have a charge that the parent made taken for its own.
        if os.getpid() != self._pid:
            raise PrivacyError(
                "a run belongs to the process that began it; measure there, not in a forked child"
            )
        seq, details = len(self.events), event.to_dict()
        request = json.dumps(details, ensure_ascii=False)
        outcome = self._journal.find(seq, request)
        if self.spent + charge > self.limit - self.held_back:
            raise BudgetExceeded(
                f"this step would pass the run's budget of ε = {self.epsilon:g} at δ = {self.delta:g}; raise epsilon "
                "or ask for less"
            )
        if self.before_first is not None and not self.events:
            self.before_first()
        paid = Fraction(pure_rho(self.spent + charge)) - self._charged if self.pure else charge
        due = up(max(paid, Fraction(0)))
        self._ledger.charge(self.run, seq, due, details)
        self.spent += charge
        self._charged += Fraction(due)
        self.events.append(event)
        if outcome is None:
            outcome = counted(act, self.on_refusal)
            self._journal.record(seq, request, outcome)
        return outcome

    def confirm_table(self, facts: Callable[[], Iterable[bytes | memoryview]]) -> None:
        """Compare the private table with the one that the run began with, if it was resumed."""
        self._journal.confirm(facts)


class Purse:
    """The whole run's purse."""

    def __init__(self, account: Account) -> None:
        self.account = account

    @property
    def rho(self) -> float:
        """All that it may spend."""
        account = self.account
        return account.rho_of(account.limit - account.held_back) if account.held_back else account.rho

    @property
    def left(self) -> Fraction:
        """What is left, exactly."""
        return self.account.limit - self.account.held_back - self.account.spent

    @property
    def remaining(self) -> float:
        """What is left in ρ, rounded down: charging exactly this much always fits."""
        return self.account.rho_of(self.left)

    def fit(self, rho: float) -> float:
        """The charge as it will be made, or BudgetExceeded; changes nothing."""
        rho = float(rho)
        if not (isfinite(rho) and rho > 0):
            raise PrivacyError(f"rho ({rho}) must be positive and finite")
        left = self.remaining
        if rho <= left:
            return rho
        if left > 0 and rho - left <= _SLACK * self.account.rho:
            return left
        delta = self.account.delta
        raise BudgetExceeded(
            f"this step needs rho = {rho:.6g} (ε = {epsilon_spent(rho, delta):.4g} at δ = {delta:g}) but {left:.6g} "
            f"(ε = {epsilon_within(left, delta):.4g}) of {self.account.rho:.6g} is left; raise epsilon or ask for less"
        )

    def perform(self, event: Event, act: Callable[[], Outcome]) -> Outcome:
        """Pay for an event, then do it."""
        with self.account.lock:
            return self.account.perform(self.account.cost(event.rho), event, act)


class PartPurse(Purse):
    """The purse of one part; `siblings` (shared by all parts of the partition) holds what the run has paid."""

    def __init__(
        self, account: Account, part: Part, siblings: list[Fraction], rho: float | None = None
    ) -> None:
        super().__init__(account)
        self._part, self._siblings, self._mine = part, siblings, Fraction(0)
        self._most = None if rho is None else account.cost(rho)

    @property
    def rho(self) -> float:
        """All that the part may spend."""
        return super().rho if self._most is None else self.account.rho_of(self._most)

    @property
    def left(self) -> Fraction:
        """What the run has left, and what other parts have made it pay beyond this one; not above the part's limit."""
        left = super().left + self._siblings[0] - self._mine
        return left if self._most is None else min(left, self._most - self._mine)

    @property
    def remaining(self) -> float:
        """A hair below what is left, so that rounding the run's extra charge up still fits."""
        return self.account.rho_of(self.left * (1 - Fraction(1, 2**40)))

    def perform(self, event: Event, act: Callable[[], Outcome]) -> Outcome:
        """Pay only what passes the most expensive part so far, then do it."""
        with self.account.lock:
            cost = self.account.cost(event.rho)
            if self._most is not None and self._mine + cost > self._most:
                raise BudgetExceeded("this step would pass what a part may spend; ask for less")
            charge = up(max(Fraction(0), self._mine + cost - self._siblings[0]))
            outcome = self.account.perform(
                Fraction(charge), replace(event, part=self._part, charged=charge), act
            )
            self._mine += cost
            self._siblings[0] += Fraction(charge)
            return outcome
