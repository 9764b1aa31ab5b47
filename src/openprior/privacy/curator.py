"""The curator: the only way to the private table.

A mechanism gets a curator and nothing else. Each verb computes its cost, charges the ledger, and only *then*
touches data and draws noise; what it returns is differentially private at that cost, and is in the journal
before anyone sees it. There is no accessor for rows or counts. This is a guard against mistakes, not against
hostile Python.

Costs add up by fully adaptive composition of zCDP (Whitehouse et al. 2023): budgets may depend on earlier
outcomes as long as the running sum never passes ρ, and the ledger refuses whatever would pass it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import fsum, sqrt
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.account import Account, Event, PartPurse, Purse
from openprior.privacy.best_mixture import MIXTURE_GRID, best_mixture, mixture_steps
from openprior.privacy.calibrate import (
    epsilon_from_rho,
    exponential_epsilon,
    gaussian_sigma_squared,
    pure_epsilon,
)
from openprior.privacy.journal import Outcome
from openprior.privacy.measurement import Measurement
from openprior.privacy.noise import Noise
from openprior.privacy.scores import CellScores, L1Score, Scores, SumScore, levels, score_steps
from openprior.privacy.selection import exponential, permute_and_flip
from openprior.privacy.unit import Unit
from openprior.privacy.vault import PartVault, Vault
from openprior.questions.queries import Queries
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.levels import Level
from openprior.tables.encode import Table

__all__ = ["Curator", "Event", "Measurement"]

A = TypeVar("A")
B = TypeVar("B")


class Curator:
    """Owns the private counts; `select`, `measure` and their kin are the only verbs."""

    __slots__ = ("__noise", "__purse", "__unit", "__vault")

    def __init__(self, vault: Vault | PartVault, *, unit: Unit, noise: Noise, account: Account) -> None:
        self.__vault = vault
        self.__unit = unit
        self.__noise = noise
        self.__purse = Purse(account)

    # What anyone may know.

    @property
    def domain(self) -> Domain:
        """The private table's domain, which is the schema's and so public."""
        return self.__vault.domain

    @property
    def levels(self) -> Mapping[str, Level]:
        """The levels of the schema's hierarchies; `measure` and `partition` take their names like columns'."""
        return self.__vault.levels

    @property
    def full_domain(self) -> Domain:
        """The domain with the levels after the columns."""
        return self.__vault.full_domain

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
    def remaining(self) -> float:
        """What is left of the budget; charging exactly this much always fits."""
        return self.__purse.remaining

    @property
    def n(self) -> int:
        """The number of rows, where it is public (replace-one)."""
        if not self.__unit.n_is_public:
            raise PrivacyError("the number of rows is private here; use measure_total")
        return self.__vault.rows

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event so far, as the certificate lists them."""
        return tuple(dict(e) for e in self.__purse.account.events)

    @property
    def is_pure(self) -> bool:
        """Whether the run promises δ = 0: then only Laplace noise and selection are allowed, and ε adds up."""
        return self.__purse.account.pure

    def shares(self, weights: Sequence[float]) -> list[float]:
        """What is left, split for steps that take these shares of it: of ρ, or of ε where the run is pure."""
        left, whole = self.remaining, fsum(weights)
        return [left * (w / whole) ** (2 if self.is_pure else 1) for w in weights]

    def announce(self, marginals: Iterable[Marginal]) -> None:
        """Marginals that will be wanted, so that one pass counts them all; reads nothing, costs nothing."""
        self.__vault.announce(marginals)

    def look_ahead(self) -> None:
        """Read the table once and say nothing: one that does not fit its schema is found out before any charge."""
        _ = self.__vault.rows

    def remark(self, text: str) -> None:
        """Something about the outcome that whoever reads the certificate should know; from released things only."""
        self.__purse.account.remarks.append(text)

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Run pure post-processing on every item, in order, where there is room: other threads, or a cluster's workers.

        The function and the items must hold only what was released or is public. This curator is neither: it cannot be
        pickled, so a cluster never gets it.
        """
        return self.__vault.engine.each(function, items)

    # The verbs.

    def measure(self, marginal: Iterable[str], rho: float, *, noise: str = "gaussian") -> Measurement:
        """All cells of a marginal, with noise.

        Proof: one person moves the count vector by at most √l2_squared in L2 and l1 in L1 (units.py), so Gaussian
        noise of σ² = l2_squared/(2ρ) costs ρ, and Laplace noise of scale l1/ε is ε-DP, ρ = ε²/2. ∎
        """
        unit = self.__unit
        key = canonical(marginal, self.full_domain)
        return self.__measure(
            key, None, rho, noise, l1=unit.l1, l2_squared=unit.l2_squared, read=lambda: self.__counts(key)
        )

    def measure_cell(
        self, marginal: Iterable[str], cell: int, rho: float, *, noise: str = "gaussian"
    ) -> Measurement:
        """One cell of a marginal, with noise.

        Proof: one person moves one count by at most Δ (units.py); as a vector of length one, L1 = L2 = Δ, times the
        parts that a move can touch. ∎
        """
        unit = self.__unit
        key = canonical(marginal, self.full_domain)
        if not 0 <= cell < self.full_domain.size(key):
            raise PrivacyError(f"cell {cell} is outside marginal {key}")
        return self.__measure(
            key,
            cell,
            rho,
            noise,
            l1=unit.cell * unit.parts_touched,
            l2_squared=unit.cell**2 * unit.parts_touched,
            read=lambda: self.__counts(key)[cell : cell + 1],
        )

    def measure_total(self, rho: float, *, noise: str = "gaussian") -> Measurement:
        """The number of rows, with noise; needed where it is private (add/remove, or a part of a partition).

        Proof: one person's rows are Δ at most, and the total is their sum. ∎
        """
        unit = self.__unit
        if unit.n_is_public:
            raise PrivacyError("the number of rows is public under replace-one; use n")
        return self.__measure(
            (),
            None,
            rho,
            noise,
            l1=unit.rows_per_person * unit.parts_touched,
            l2_squared=unit.rows_per_person**2 * unit.parts_touched,
            read=lambda: np.array([self.__vault.rows], dtype=np.int64),
        )

    def measure_queries(self, queries: Queries, rho: float, *, noise: str = "gaussian") -> Measurement:
        """0/1 linear queries over a marginal, with noise; `values` has one number a query.

        Proof: the change of the counts is u − v with u, v ≥ 0 and ‖u‖₁, ‖v‖₁ ≤ Δ. One row is in at most k queries
        (`overlap`), so ‖W(u − v)‖₁ ≤ k‖u − v‖₁; W, u and v being ≥ 0, ‖W(u − v)‖₂² ≤ ‖Wu‖₂² + ‖Wv‖₂², and ‖Wu‖₂ ≤
        ‖u‖₁·√k: so k times a marginal's L1 and squared L2, also within parts. ∎
        """
        unit, k = self.__unit, queries.overlap
        key = canonical(queries.marginal, self.full_domain)
        if queries.marginal != key or queries.members.shape[1:] != (self.full_domain.size(key),):
            raise PrivacyError(
                f"queries '{queries.text}' do not fit the domain: its columns in order, a column of the matrix a cell"
            )
        return self.__measure(
            key,
            None,
            rho,
            noise,
            l1=k * unit.l1,
            l2_squared=k * unit.l2_squared,
            read=lambda: queries.answer(self.__counts(key)),
            details={"queries": queries.text, "overlap": k},
        )

    def select(self, scores: Scores, rho: float, *, how: str = "exponential") -> int:
        """The index of a candidate with a high score.

        Proof: the levels have the derived sensitivity S exactly (scores.py). The exponential mechanism at ε costs
        ε²/8, permute-and-flip at ε costs ε²/2 (selection.py). ∎
        """
        return self.select_many(scores, 1, rho, how=how)[0]

    def select_many(self, scores: Scores, k: int, rho: float, *, how: str = "exponential") -> tuple[int, ...]:
        """k different candidates with high scores, best first, for ρ in all.

        Proof: k draws without replacement, each at ρ/k, compose (peeling). Given the earlier draws, the next is the
        same mechanism on the candidates that are left. ∎
        """
        if not 1 <= k <= _count(scores):
            raise PrivacyError(f"cannot draw {k} of {_count(scores)} candidates")
        for score in [scores] if isinstance(scores, CellScores) else scores:
            score.check(self.domain if isinstance(score, CellScores) else self.full_domain)
        rho = self.__purse.fit(rho)
        touched = self.__unit.parts_touched if isinstance(scores, CellScores) else 1
        if how not in ("exponential", "permute-and-flip"):
            raise PrivacyError(f"selection '{how}' is unknown; use 'exponential' or 'permute-and-flip'")
        draw = exponential if how == "exponential" else permute_and_flip
        if self.is_pure:
            # Either is ε-DP at this ε, which adds up over draws and parts.
            epsilon = pure_epsilon(rho) / (k * touched)
        else:
            epsilon = (exponential_epsilon if how == "exponential" else pure_epsilon)(rho / (k * touched))
        event: Event = {
            "kind": how,
            "candidates": _count(scores),
            "epsilon": epsilon,
            "draws": k,
            "scores": "cells" if isinstance(scores, CellScores) else "l1",
            "parts_touched": touched,
        }

        def act() -> Outcome:
            found = levels(scores, self.__vault, self.__unit)
            values, left = found.values, np.arange(len(found.values))
            drawn: list[int] = []
            for _ in range(k):
                i = draw(values, found.sensitivity, epsilon, self.__noise)
                drawn.append(int(left[i]))
                if k > 1:
                    values, left = np.delete(values, i), np.delete(left, i)
            return {"indices": drawn}

        outcome = self.__purse.perform(rho, event, f"select {how} {k} of {_count(scores)}", act)
        indices = outcome["indices"]
        assert isinstance(indices, list)
        return tuple(indices)

    def measure_best_mixture(
        self, rows: Table, marginals: Iterable[Marginal], rho: float, *, noise: str = "gaussian"
    ) -> Measurement:
        """The best mixture error of these public rows on the private table, as a share of n, with noise.

        Proof: f is Δ/n-sensitive (mixture.py), the solver's value lies in [f, f + 1/(64n)] by its own certificate, and
        rounding to the grid of 1/64 row adds one step on either side; so in steps of 1/64 row it moves by at most
        64Δ + 2. ∎
        """
        unit, grid = self.__unit, MIXTURE_GRID
        rho = self.__purse.fit(rho)
        keys = [canonical(m, self.domain) for m in marginals]
        position = {a: i for i, a in enumerate(self.domain.attributes)}
        steps = mixture_steps(unit)

        if not unit.n_is_public:
            raise PrivacyError(
                "the best mixture error is a share of n, which is private here; use replace-one"
            )

        def read() -> NDArray[np.int64]:
            n = self.n
            counts = self.__vault.counts(keys)
            found = best_mixture(
                rows.columns,
                self.domain.shape,
                [tuple(position[a] for a in m) for m in keys],
                [counts[m] / n for m in keys],
                tolerance=1 / (grid * n),
                max_seconds=None,
            )
            if not found.exact:
                raise PrivacyError(
                    "the best mixture could not be certified; use fewer public rows or a smaller workload"
                )
            return np.array([round(found.error * n * grid)], dtype=np.int64)

        raw = self.__measure(
            (), None, rho, noise, l1=steps, l2_squared=steps**2, read=read, kind="best mixture "
        )
        scale = grid * self.n
        return Measurement((), raw.values / scale, raw.sigma / scale, raw.rho, raw.noise)

    def measure_score(
        self, scores: L1Score | SumScore | CellScores, rho: float, *, noise: str = "laplace"
    ) -> Measurement:
        """A score itself, in rows, with noise: a distance from references; the largest of them for single cells.

        Proof: the level has the derived sensitivity exactly, in whole steps (scores.py). The largest of several levels
        moves by no more than the one that moves most. ∎
        """
        if self.__unit.partitioned:
            raise PrivacyError("a score is measured on the whole table; use the curator that was partitioned")
        scores.check(self.domain if isinstance(scores, CellScores) else self.full_domain)
        over_cells = isinstance(scores, CellScores)
        if isinstance(scores, CellScores) and not len(scores.only):
            raise PrivacyError("there is no cell whose score could be measured; give at least one")
        steps = score_steps(self.__unit, over_cells=over_cells)
        candidates: Scores = scores if isinstance(scores, CellScores) else [scores]
        rows_a_step = float(scores.sensitivity(self.__unit)) / steps
        if not rows_a_step > 0:
            raise PrivacyError("a score of weight 0 measures nothing; give it a positive weight")
        raw = self.__measure(
            (),
            None,
            rho,
            noise,
            l1=steps,
            l2_squared=steps**2,
            read=lambda: levels(candidates, self.__vault, self.__unit).values.max(keepdims=True),
            kind="score ",
            details={"scores": "cells" if over_cells else "l1"},
        )
        return Measurement((), raw.values * rows_a_step, raw.sigma * rows_a_step, raw.rho, raw.noise)

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
        columns = canonical(keys, self.full_domain)
        if not set(self.domain) - set(columns):
            raise PrivacyError("a partition must leave at least one column that is not a key")
        shape = [self.full_domain[a] for a in columns]
        account, siblings = self.__purse.account, [Fraction(0)]
        most = None if rho is None else self.__purse.fit(rho)
        number = account.number_partition()
        parts: dict[tuple[int, ...], Curator] = {}
        for codes in np.ndindex(*shape):
            part = object.__new__(Curator)
            part.__vault = PartVault(self.__vault, columns, codes)
            part.__unit = self.__unit.part()
            part.__noise = self.__noise
            part.__purse = PartPurse(
                account, {"keys": list(columns), "number": number, "codes": list(codes)}, siblings, most
            )
            parts[codes] = part
        return parts

    # Inside.

    def __counts(self, marginal: Marginal) -> NDArray[np.int64]:
        return self.__vault.counts([marginal])[marginal]

    def __measure(
        self,
        marginal: Marginal,
        cell: int | None,
        rho: float,
        noise: str,
        *,
        l1: int,
        l2_squared: int,
        read: Callable[[], NDArray[np.int64]],
        kind: str = "",
        details: Event | None = None,
    ) -> Measurement:
        rho = self.__purse.fit(rho)
        if noise == "gaussian" and self.is_pure:
            raise PrivacyError(
                "Gaussian noise is never pure ε-DP; use Laplace noise, or give a delta above 0"
            )
        if noise == "gaussian":
            scale = sigma = sqrt(gaussian_sigma_squared(l2_squared, rho))
            sensitivity: Event = {"sigma": sigma, "l2_squared": l2_squared}
            add: Callable[[NDArray[np.int64], float], NDArray[np.int64]] = self.__noise.gaussian
        elif noise == "laplace":
            epsilon = pure_epsilon(rho)
            scale = l1 / epsilon
            sigma = scale * sqrt(2)
            sensitivity = {"scale": scale, "l1": l1, "epsilon": epsilon}
            add = self.__noise.laplace
        else:
            raise PrivacyError(f"noise '{noise}' is unknown; use 'gaussian' or 'laplace'")
        details = details or {}
        event: Event = {
            "kind": kind + noise,
            "marginal": list(marginal),
            "cell": cell,
            **details,
            **sensitivity,
        }
        outcome = self.__purse.perform(
            rho,
            event,
            f"measure {kind}{noise} {'×'.join(marginal)} {details.get('queries', cell)}",
            lambda: {"values": add(np.ascontiguousarray(read(), dtype=np.int64), scale)},
        )
        values = outcome["values"]
        assert isinstance(values, np.ndarray)
        made = Measurement(
            marginal,
            values.astype(np.float64),
            sigma,
            rho,
            noise,
            cell,
            self.__vault.codes,
            str(details.get("queries", "")),
        )
        if not kind:
            self.__purse.account.measurements.append(made)
        return made

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


def _count(scores: Scores) -> int:
    return len(scores.only) if isinstance(scores, CellScores) else len(scores)
