"""The curator: the only way to the private table.

A mechanism gets a curator and nothing else. It has two verbs, `measure` and `select`, and can be cut into parts. Each
verb derives its cost, charges the ledger, and only *then* touches data and draws noise; what it returns is
differentially private at that cost, and is in the journal before anyone sees it. There is no accessor for rows or
counts. This is a guard against mistakes, not against hostile Python.

Costs add up by fully adaptive composition of zCDP (Whitehouse et al. 2023): budgets may depend on earlier
outcomes as long as the running sum never passes ρ, and the ledger refuses whatever would pass it.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import fsum
from typing import Any, NoReturn, TypeVar

import numpy as np

from openprior.counting.engine import Executor
from openprior.errors import JournalError, PrivacyError
from openprior.given import shown
from openprior.privacy.account import Account, PartPurse, Purse
from openprior.privacy.calibrate import epsilon_from_rho
from openprior.privacy.error_strata import ErrorStrata
from openprior.privacy.events import Candidates, Event, Exponential, Gaussian, Laplace, Part, PermuteAndFlip
from openprior.privacy.flat_scores import MarginalScores
from openprior.privacy.journal import Outcome
from openprior.privacy.measurement import Measurement
from openprior.privacy.noise import Noise
from openprior.privacy.pure_cost import pure_epsilon, pure_rho
from openprior.privacy.scores import CellScores, Scores, WorstCellScores, check_scores, levels
from openprior.privacy.statistics import Statistic
from openprior.privacy.unit import Unit
from openprior.privacy.vault import PartVault, Vault, no_rows
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["Curator"]

_T = TypeVar("_T", np.ndarray[Any, Any], list[Any])


class Curator:
    """Owns the private counts; `measure` and `select` are the only verbs."""

    __slots__ = ("__noise", "__purse", "__unit", "__vault")

    def __init__(self, vault: Vault | PartVault, *, unit: Unit, noise: Noise, account: Account) -> None:
        self.__vault = vault
        self.__unit = unit
        self.__noise = noise
        self.__purse = Purse(account)

    # What anyone may know.

    @property
    def layout(self) -> Layout:
        """The columns and the levels above them, which are the schema's and so public."""
        return self.__vault.layout

    @property
    def domain(self) -> Domain:
        """The columns' domain."""
        return self.layout.domain

    @property
    def executor(self) -> Executor:
        """Who runs post-processing side by side: other threads, or a cluster's workers. It holds nothing private."""
        return self.__vault.engine.executor

    @property
    def unit(self) -> Unit:
        """The unit of privacy."""
        return self.__unit

    @property
    def rho(self) -> float:
        """The whole budget of this run, or of this part of it."""
        return self.__purse.rho

    @property
    def epsilon(self) -> float:
        """The run's target ε; that of the part's own budget within one."""
        account, rho = self.__purse.account, self.__purse.rho
        if rho >= account.rho:
            return account.epsilon
        return pure_epsilon(rho) if account.pure else epsilon_from_rho(rho, account.delta)

    @property
    def delta(self) -> float:
        """The run's target δ."""
        return self.__purse.account.delta

    @property
    def is_pure(self) -> bool:
        """Whether the run promises δ = 0: then only Laplace noise and selection are allowed, and ε adds up."""
        return self.__purse.account.pure

    @property
    def remaining(self) -> float:
        """What is left of the budget; charging exactly this much always fits."""
        return self.__purse.remaining

    @property
    def n(self) -> int:
        """The number of rows, where it is public (replace-one)."""
        if not self.__unit.n_is_public:
            raise PrivacyError("the number of rows is private here; measure the Total")
        return self.__vault.rows

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event so far, as the certificate lists them."""
        return tuple(self.__purse.account.events)

    def shares(self, weights: Sequence[float]) -> list[float]:
        """What is left, split for steps that take these shares of it: of ρ, or of ε where the run is pure."""
        left, whole = self.remaining, fsum(weights)
        if self.is_pure:
            return [pure_rho(pure_epsilon(left) * (w / whole)) for w in weights]
        return [left * (w / whole) for w in weights]

    @contextmanager
    def holding_back(self, share: float) -> Iterator[float]:
        """Keep this share of the budget (of ρ, or of ε where the run is pure) for a step that comes later, when a model
        was learnt: within, the curator has, and says that it has, only the rest. Gives what is kept, in ρ."""
        account = self.__purse.account
        if not 0 <= share < 1:
            raise PrivacyError(
                f"a share of the budget to hold back ({shown(share)}) must be from 0 to below 1"
            )
        with account.lock:
            if account.held_back or account.model_is_learnt:
                raise PrivacyError("a share of the budget is held back already")
            account.held_back = account.limit * Fraction(share)
            account.model_is_learnt = True
        try:
            yield account.rho_of(account.held_back)
        finally:
            account.held_back = Fraction(0)
            account.model_is_learnt = False

    def announce(self, marginals: Iterable[Marginal]) -> None:
        """Marginals that will be wanted, so that one pass counts them all; reads nothing, costs nothing."""
        self.__vault.announce(marginals)

    def look_ahead(self) -> None:
        """Read the table once and say nothing: one that does not fit its schema is refused before any charge."""
        _ = self.__vault.rows

    def remark(self, text: str) -> None:
        """Something about the outcome that whoever reads the certificate should know; from released things only."""
        self.__purse.account.remarks.append(text)

    # The verbs.

    def measure(self, statistic: Statistic, rho: float, *, noise: str = "gaussian") -> Measurement:
        """A statistic with noise that costs ρ.

        Proof: one person moves the statistic's whole numbers by its sensitivity at most (proved beside each), noise is
        calibrated to that (events.py), and discrete noise costs what noise.py proves. ∎
        """
        if not isinstance(statistic, Statistic):
            raise PrivacyError(f"{shown(statistic)} is no statistic; give one such as Counts(('age', 'sex'))")
        if noise not in (Gaussian.kind, Laplace.kind):
            raise PrivacyError(f"noise '{noise}' is unknown; use 'gaussian' or 'laplace'")
        if noise == Gaussian.kind and self.is_pure:
            raise PrivacyError(
                "Gaussian noise is never pure ε-DP; use Laplace noise, or give a delta above 0"
            )
        unit = self.__unit
        if isinstance(statistic, ErrorStrata) and self.__purse.account.model_is_learnt:
            raise PrivacyError(f"{statistic.words} is asked when the model is finished, by the release")
        statistic = statistic.fitted(self.layout)
        statistic.sensitivity(unit)  # refuses what may not be measured here
        self.announce(statistic.reads)
        if statistic.reads_rows and not self.__vault.gives_rows:
            raise no_rows()
        rho = self.__purse.fit(rho)
        event: Gaussian | Laplace
        if noise == Gaussian.kind:
            event = Gaussian.at(statistic, rho, unit)
        else:
            event = Laplace.at(statistic, rho, unit, pure=self.is_pure)

        def act() -> Outcome:
            exact = np.ascontiguousarray(statistic.read(self.__vault, unit), dtype=np.int64)
            if isinstance(event, Gaussian):
                return {"values": self.__noise.gaussian(exact, event.sigma)}
            return {"values": self.__noise.laplace(exact, event.scale)}

        with self.__purse.account.lock:  # measurements are kept in the order of their events
            values = _recorded(self.__purse.perform(event, act), "values", np.ndarray)
            known = statistic.numbers(self.layout.full_domain)
            if values.ndim != 1 or known not in (None, len(values)):
                raise _foreign_journal()
            noisy, sigma = (
                statistic.in_units(numbers, unit, lambda: self.n)
                for numbers in (values.astype(np.float64), event.standard_deviation)
            )
            measurement = Measurement(statistic, noisy, sigma, noise, self.__vault.codes)
            if statistic.is_count:
                self.__purse.account.measurements.append(measurement)
        return measurement

    def select(self, scores: Scores, rho: float, *, how: str = "exponential") -> int:
        """The index of a candidate with a high score.

        Proof: the levels have the derived sensitivity S exactly (scores.py). The exponential mechanism at ε costs
        ε²/8, permute-and-flip at ε costs ε·tanh(ε/2) (selection.py). ∎
        """
        return self.select_many(scores, 1, rho, how=how)[0]

    def select_many(
        self, scores: Scores, k: int, rho: float, *, how: str = "exponential", replace: bool = False
    ) -> tuple[int, ...]:
        """k candidates with high scores, for ρ in all: different ones, best first; or, where they are replaced after
        every draw, k independent draws from all candidates, in which the same one may come again.

        Proof: k draws compose, with replacement and without (events.py). ∎
        """
        if not isinstance(scores, CellScores | WorstCellScores | MarginalScores):
            scores = tuple(scores)  # a list may grow until it is read
        candidates = Candidates.of(scores)
        if type(replace) is not bool:
            raise PrivacyError(f"replace ({shown(replace)}) must be True or False")
        if type(k) is not int or k < 1 or candidates.count < (1 if replace else k):
            raise PrivacyError(f"cannot draw {k} of {candidates.count} candidates")
        if how not in (Exponential.kind, PermuteAndFlip.kind):
            raise PrivacyError(f"selection '{how}' is unknown; use 'exponential' or 'permute-and-flip'")
        if replace and how != Exponential.kind:
            raise PrivacyError(f"selection '{how}' does not draw with replacement; use 'exponential'")
        self.announce(check_scores(scores, self.layout))
        kind = Exponential if how == Exponential.kind else PermuteAndFlip
        event = kind.at(candidates, self.__purse.fit(rho), self.__unit, draws=k, pure=self.is_pure)
        if isinstance(event, Exponential):
            event = dataclasses.replace(event, with_replacement=replace)
        noise = self.__noise
        draw = noise.exponential if how == Exponential.kind else noise.permute_and_flip

        def act() -> Outcome:
            ranked = levels(scores, self.__vault, self.__unit)
            if replace:
                return {
                    "indices": noise.exponential_many(ranked.values, ranked.sensitivity, event.epsilon, k)
                }
            values, left = ranked.values, np.arange(len(ranked.values))
            drawn: list[int] = []
            for _ in range(k):
                i = draw(values, ranked.sensitivity, event.epsilon)
                drawn.append(int(left[i]))
                if k > 1:
                    values, left = np.delete(values, i), np.delete(left, i)
            return {"indices": drawn}

        indices = _recorded(self.__purse.perform(event, act), "indices", list)
        if len(indices) != k or not all(type(i) is int and 0 <= i < candidates.count for i in indices):
            raise _foreign_journal()
        return tuple(indices)

    def partition(
        self, keys: Iterable[str], *, rho: float | None = None
    ) -> Mapping[tuple[int, ...], "Curator"]:
        """A curator for every combination of the keys' values in the schema, over disjoint rows.

        Their charges compose in parallel: the run pays what the most expensive part has cost (proof at
        `Unit.parts_touched`), which `rho` limits. Every combination is there, whether or not a private row has it. Keys
        are columns or levels; a part does not see them.
        """
        if self.__unit.partitioned:
            raise PrivacyError("a part cannot be partitioned again; partition by all keys at once")
        columns = canonical(keys, self.layout.full_domain)
        if not set(self.domain) - set(columns):
            raise PrivacyError("a partition must leave at least one column that is not a key")
        self.announce([columns])
        account, siblings = self.__purse.account, [Fraction(0)]
        most = None if rho is None else self.__purse.fit(rho)
        number = account.number_partition()
        parts: dict[tuple[int, ...], Curator] = {}
        for codes in np.ndindex(*(self.layout.full_domain[a] for a in columns)):
            part = object.__new__(Curator)
            part.__vault = PartVault(self.__vault, columns, codes)
            part.__unit = self.__unit.part()
            part.__noise = self.__noise
            part.__purse = PartPurse(account, Part(number, columns, codes), siblings, most)
            parts[codes] = part
        return parts

    # It stays where it is.

    def __repr__(self) -> str:
        return f"<Curator of {len(self.domain)} columns; its data are private>"

    def __refuse(self) -> NoReturn:
        raise TypeError("a curator cannot be copied or pickled: it holds private data")

    def __reduce__(self) -> NoReturn:
        self.__refuse()

    def __copy__(self) -> NoReturn:
        self.__refuse()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__refuse()


def _recorded(outcome: object, name: str, kind: type[_T]) -> _T:
    """What an outcome holds under a name; a journal that others wrote to may hold anything."""
    value = outcome.get(name) if isinstance(outcome, Mapping) else None
    if not isinstance(value, kind):
        raise _foreign_journal()
    return value


def _foreign_journal() -> JournalError:
    return JournalError(
        "the journal holds an outcome that no step of this run can have; restore the file, or start a new run"
    )
