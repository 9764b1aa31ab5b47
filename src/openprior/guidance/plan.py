"""The plan: what a budget can buy, from the schema, the number of rows, the workload, ε and δ alone.

No table is touched, so a plan costs nothing and may be made as often as one likes before the budget is spent. It says
how large the noise would be, not how good a release will be: a method that has a public table, or that finds few
marginals to correct, does better than the noise of measuring everything.

Two ways to spend the budget are laid beside each other. *All*: every marginal of the workload measured, with equal
shares. *Some*: a method that selects, and measures only T marginals, each with an equal share of four fifths of the
budget (the rest pays for selecting, as in tilt and jam-pgm). T is the largest number for which the noise of a marginal
of median size stays below a tenth of the table in L1 (on the scale from 0 to 2).

How far off answers will be in the end is a guess, from runs on other tables (`error_bars/expected_bars.py`).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from openprior.display import Sheet, Shown, how_many
from openprior.error_bars.error_question import default_share
from openprior.error_bars.expected_bars import ExpectedReach, expected_reaches
from openprior.given import whole_number
from openprior.guidance.bounds import (
    pmw_pub_error_bound,
    pmw_pub_rounds,
    private_sample_size,
    public_sample_size,
)
from openprior.guidance.costs import Cost, costs_of
from openprior.guidance.plan_words import PlanTable, advice_of, tables_of
from openprior.guidance.shares import LEVEL, Noise, PlannedBudget, largest_cell
from openprior.methods.base import Sizes
from openprior.privacy.calibrate import plain_number
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, WorkloadLike, all_marginals, workload_on
from openprior.schema.base import Schema, need_schema
from openprior.schema.layout import Layout

__all__ = ["Bought", "Cost", "MarginalPlan", "Order", "Plan", "PlanTable", "Theory", "plan"]

_STEPS = (0.1, 1 / 3, 1.0, 3.0, 10.0)
"""Multiples of ε to compare."""
_MOST_ROWS = 10**15
_SAMPLED = 20_000
"""Where there are more marginals than this, their median size is taken from a sample of so many."""


@dataclass(frozen=True)
class MarginalPlan:
    """One marginal of the workload."""

    marginal: Marginal
    cells: int
    every: Noise
    """If the whole workload is measured."""
    some: Noise
    """If it is one of the T that are."""


@dataclass(frozen=True)
class Order:
    """All marginals of so many columns, measured with the whole budget."""

    columns: int
    marginals: int
    cells: float
    """Median."""
    seen: float
    """The smallest count that can be seen, 2σ, if all are measured."""
    affordable: int
    """How many can be measured before the noise of a median one is above a tenth of the table in L1."""
    seen_if_affordable: float
    """The smallest count that can be seen if only so many are."""


@dataclass(frozen=True)
class Bought:
    """What another ε would buy for the workload."""

    epsilon: float
    rho: float
    l1: float
    """Expected L1 noise of the median marginal if the whole workload is measured."""
    seen: float
    affordable: int
    seen_if_affordable: float
    reaches: tuple[ExpectedReach, ...]
    """How far off answers would be, by the size of the cell: a guess; none where δ = 0."""


@dataclass(frozen=True)
class Theory:
    """Proven bounds of pmw-pub, with their constants: worst cases, usually several times what happens."""

    rounds: int | None
    """The number of rounds at which the bound is least."""
    bound: float | None
    """The largest query error, in 19 of 20 cases, if some weights on the public rows are right; vacuous from 1 on."""
    public_rows: dict[float, int]
    """For a best mixture error of so much: how many public rows of the same population are enough."""
    private_rows: dict[float, int]
    """And how many private ones."""


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What the budget can buy. Made without any table."""

    n: int
    epsilon: float
    delta: float
    rho: float
    relation: str
    rows_per_person: int
    noise: str
    """gaussian, or laplace where δ = 0."""
    cells: int
    """Of the whole workload."""
    affordable: int
    """T: how many marginals a method that selects can measure; 0 if even one is noisier than the level."""
    level: float
    """The L1 noise, as a share of the table, that T is reckoned with."""
    marginals: tuple[MarginalPlan, ...]
    orders: tuple[Order, ...]
    bought: tuple[Bought, ...]
    error_share: float
    """The share of the budget that error bars would take: a guess of what `release` takes by default."""
    theory: Theory
    costs: tuple[Cost, ...]
    advice: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts = asdict(self)
        for key in ("public_rows", "private_rows"):
            facts["theory"][key] = {str(alpha): rows for alpha, rows in facts["theory"][key].items()}
        facts["marginals"] = [{**m, "marginal": list(m["marginal"])} for m in facts["marginals"]]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}

    def tables(self, most: int = 10) -> list[PlanTable]:
        """For printing; of the marginals the noisiest, at most so many."""
        return tables_of(self, whole_number("most", most, 0))

    def sheet(self) -> Sheet:
        """What other ε would buy, and the advice; `tables` has the rest."""
        tables = self.tables()
        table = next((t for t in tables if t.headings[0] == "ε"), tables[0])
        title = (
            f"Plan for {self.n:,} rows, ε = {self.epsilon:g}, δ = {self.delta:g}: "
            f"{how_many(len(self.marginals), 'marginal')} with {how_many(self.cells, 'cell')}, of which "
            f"{self.affordable:,} can be measured well"
        )
        return Sheet(title, table.headings, table.rows, (*self.advice, "More: .tables(), .as_dict()"))


def plan(
    schema: Schema | str | Path,
    *,
    n: int,
    workload: WorkloadLike | None = None,
    epsilon: float,
    delta: float,
    relation: str = "replace-one",
    public_rows: int | None = None,
) -> Plan:
    """What (ε, δ) can buy for a table of n rows; touches no data and costs nothing.

    schema         what the columns are, or the path of its file
    workload       what should be right, as for `release`; all 3-way marginals if not given
    relation       "replace-one" (n is public) or "add-remove" (n is your guess)
    public_rows    how many rows the public table has; for the bounds and the time that methods with a prior take
    """
    schema = need_schema(schema)
    n = whole_number("n", n, 2, _MOST_ROWS)
    public_rows = None if public_rows is None else whole_number("public_rows", public_rows, 2, _MOST_ROWS)
    epsilon, delta = plain_number("epsilon", epsilon), plain_number("delta", delta)
    unit = Unit.of(schema, relation)
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    budget = PlannedBudget(unit, n, epsilon, delta)
    budgets = [budget if step == 1 else PlannedBudget(unit, n, epsilon * step, delta) for step in _STEPS]
    sizes = {m: schema.domain.size(m) for m in work.marginals}
    middle, count = math.ceil(median(sizes.values())), len(sizes)
    chosen = budget.affordable(count, middle)
    used = [a for a in schema.domain if any(a in m for m in work.marginals)]
    orders = tuple(_order(budget, [schema.domain[a] for a in used], k) for k in (1, 2, 3) if k <= len(used))
    without_advice = Plan(
        n=n,
        epsilon=epsilon,
        delta=delta,
        rho=budget.rho,
        relation=str(unit.relation),
        rows_per_person=unit.rows_per_person,
        noise="laplace" if budget.pure else "gaussian",
        cells=sum(sizes.values()),
        affordable=chosen,
        level=LEVEL,
        marginals=_marginal_plans(budget, sizes, chosen),
        orders=orders,
        bought=tuple(_bought(b, count, middle, has_public=bool(public_rows)) for b in budgets),
        error_share=default_share(
            work,
            None,
            n if unit.n_is_public or public_rows else None,
            unit,
            epsilon=epsilon,
            delta=delta,
            rng=np.random.default_rng(0),
        ),
        theory=_theory(budget, sum(sizes.values()), public_rows),
        costs=costs_of(
            Sizes(Layout(schema.domain, schema.levels), work, n, public_rows or 0, epsilon, delta),
            pure=budget.pure,
            n_is_public=unit.n_is_public,
        ),
        advice=(),
    )
    return replace(without_advice, advice=advice_of(without_advice, schema, public_rows))


def _marginal_plans(
    budget: PlannedBudget, sizes: Mapping[Marginal, int], chosen: int
) -> tuple[MarginalPlan, ...]:
    """The noise of each marginal, if all of them are measured and if `chosen` are."""
    largest = largest_cell(set(sizes.values()), budget.pure)
    all_share, some_share = 1 / len(sizes), budget.share(chosen, len(sizes))
    return tuple(
        MarginalPlan(
            marginal,
            cells,
            budget.noise(all_share, cells, largest(cells)),
            budget.noise(some_share, cells, largest(cells)),
        )
        for marginal, cells in sizes.items()
    )


def _order(budget: PlannedBudget, sizes: Sequence[int], k: int) -> Order:
    count = math.comb(len(sizes), k)
    if count <= _SAMPLED:
        cells = [math.prod(c) for c in itertools.combinations(sizes, k)]
    else:
        picked = np.random.default_rng(0).random((_SAMPLED, len(sizes))).argpartition(k, axis=1)[:, :k]
        cells = np.asarray(sizes)[picked].prod(axis=1).tolist()
    middle = math.ceil(median(cells))
    some = budget.affordable(count, middle)
    return Order(k, count, middle, budget.seen(1 / count), some, budget.seen(budget.share(some, count)))


def _bought(budget: PlannedBudget, count: int, middle: int, *, has_public: bool) -> Bought:
    some = budget.affordable(count, middle)
    return Bought(
        budget.epsilon,
        budget.rho,
        budget.l1(1 / count, middle),
        budget.seen(1 / count),
        some,
        budget.seen(budget.share(some, count)),
        () if budget.pure else expected_reaches(budget.rho, budget.unit, budget.n, has_public=has_public),
    )


def _theory(budget: PlannedBudget, queries: int, public_rows: int | None) -> Theory:
    """One person with Δ rows moves a query by Δ/n: as if there were n/Δ rows."""
    alphas = (0.05, 0.1)
    public = {a: public_sample_size(queries=queries, alpha=a) for a in alphas}
    private = {a: private_sample_size(queries=queries, alpha=a) for a in alphas}
    n = budget.n // budget.unit.rows_per_person
    if public_rows is None or budget.pure or not budget.unit.n_is_public or n < 2:
        return Theory(None, None, public, private)
    sizes: dict[str, Any] = {"n": n, "m": public_rows, "queries": queries, "rho": budget.rho}
    rounds = pmw_pub_rounds(**sizes)
    return Theory(rounds, pmw_pub_error_bound(rounds=rounds, **sizes), public, private)
