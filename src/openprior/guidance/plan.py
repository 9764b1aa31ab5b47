"""The plan: what a budget can buy, from the schema, the number of rows, the workload, ε and δ alone.

No table is touched, so a plan costs nothing and may be made as often as one likes before the budget is spent. It says
how large the noise would be, not how good a release will be: a method that has a public table, or that finds few
marginals to correct, does better than the noise of measuring everything.

Two ways to spend the budget are laid beside each other. *All*: every marginal of the workload measured, with equal
shares. *Some*: a method that selects, and measures only T marginals, each with an equal share of four fifths of the
budget (the rest pays for selecting, as in tilt and jam-pgm). T is the largest number for which the noise of a marginal
of median size stays below a tenth of the table in L1 (on the scale from 0 to 2).
"""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any, cast

import numpy as np

from openprior.counting.plan import MAX_CELLS, MAX_TOTAL_CELLS
from openprior.data.schema import Schema
from openprior.errors import OptionError
from openprior.guidance.bounds import (
    NoiseSize,
    expected_noise,
    pmw_pub_error_bound,
    pmw_pub_rounds,
    private_sample_size,
    public_sample_size,
)
from openprior.privacy.calibrate import gaussian_sigma_squared, pure_rho, rho_from_epsilon_delta
from openprior.privacy.units import Relation, Unit
from openprior.workload import Marginal, Workload, WorkloadPlan, all_marginals

__all__ = ["Bought", "Cost", "MarginalPlan", "Order", "Plan", "PlanTable", "Theory", "plan"]

_LEVEL = 0.1
"""The noise of a measured marginal, in L1 as a share of the table, that still leaves something to see."""
_MEASURING = 0.8
"""Share of the budget that pays for measuring where marginals are selected; tilt's and jam-pgm's alpha."""
_SEEN = 2.0
"""Standard deviations above which a count can be told from nothing."""
_STEPS = (0.1, 1 / 3, 1.0, 3.0, 10.0)
_EXACT_SIZES = 64
_SAMPLED = 20_000


@dataclass(frozen=True)
class PlanTable:
    """A table to print."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Noise:
    """The noise of a measured marginal, unprocessed."""

    rows: float
    """σ of one cell, in rows."""
    share: float
    """σ of one cell, as a share of the table."""
    l1: float
    """Expected L1 error, as a share of the table; 2 is as wrong as can be."""
    largest: float
    """Expected largest error of a cell, as a share of the table."""


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


@dataclass(frozen=True)
class Cost:
    """A run of a mechanism with its defaults; rough, for two cores of this kind of machine."""

    mechanism: str
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Plan:
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
    theory: Theory
    costs: tuple[Cost, ...]
    advice: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        made = asdict(self)
        for key in ("public_rows", "private_rows"):
            made["theory"][key] = {str(alpha): rows for alpha, rows in made["theory"][key].items()}
        made["marginals"] = [{**m, "marginal": list(m["marginal"])} for m in made["marginals"]]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in made.items()}

    def tables(self, most: int = 10) -> list[PlanTable]:
        """For printing; of the marginals the noisiest, at most so many."""
        return _tables(self, most)


def plan(
    schema: Schema,
    *,
    n: int,
    workload: "WorkloadPlan | Workload | None" = None,
    epsilon: float,
    delta: float,
    relation: str = "replace-one",
    public_rows: int | None = None,
) -> Plan:
    """What (ε, δ) can buy for a table of n rows; touches no data and costs nothing.

    workload       what should be right; all 3-way marginals if not given
    relation       "replace-one" (n is public) or "add-remove" (n is your guess)
    public_rows    how many rows the public table has; for the bounds and the time that methods with a prior take
    """
    for name, count in (("n", n), ("public_rows", public_rows)):
        if count is not None and (not isinstance(count, int) or count < 2):
            raise OptionError(f"{name} ({count}) must be a whole number of at least 2")
    unit = Unit(cast("Relation", relation), schema.max_rows_per_person if schema.person_id else 1)
    asked: Any = all_marginals(3) if workload is None else workload
    work: Workload = (asked if hasattr(asked, "on") else Workload(asked)).on(schema.domain)
    budget = _Budget(unit, n, epsilon, delta)
    budgets = [budget if step == 1 else _Budget(unit, n, epsilon * step, delta) for step in _STEPS]
    sizes = {m: schema.domain.size(m) for m in work.marginals}
    middle, count = math.ceil(median(sizes.values())), len(sizes)
    chosen = budget.affordable(count, middle)
    largest = _largest(set(sizes.values()), budget.pure)
    share = budget.share(chosen, count)
    marginals = tuple(
        MarginalPlan(m, c, budget.noise(1 / count, c, largest(c)), budget.noise(share, c, largest(c)))
        for m, c in sizes.items()
    )
    used = [a for a in schema.domain if any(a in m for m in work.marginals)]
    orders = tuple(_order(budget, [schema.domain[a] for a in used], k) for k in (1, 2, 3) if k <= len(used))
    made = Plan(
        n=n,
        epsilon=epsilon,
        delta=delta,
        rho=budget.rho,
        relation=str(unit.relation),
        rows_per_person=unit.rows_per_person,
        noise="laplace" if budget.pure else "gaussian",
        cells=sum(sizes.values()),
        affordable=chosen,
        level=_LEVEL,
        marginals=marginals,
        orders=orders,
        bought=tuple(_bought(b, count, middle) for b in budgets),
        theory=_theory(budget, sum(sizes.values()), public_rows),
        costs=_costs(budget, public_rows, len(schema.domain), sizes.values(), len(work.closure())),
        advice=(),
    )
    return replace(made, advice=_advice(made, schema, public_rows))


class _Budget:
    """The noise that shares of the budget buy: Gaussian, or Laplace where δ = 0."""

    def __init__(self, unit: Unit, n: int, epsilon: float, delta: float) -> None:
        self.unit, self.n, self.epsilon, self.pure = unit, n, epsilon, delta == 0
        self.rho = pure_rho(epsilon) if self.pure else rho_from_epsilon_delta(epsilon, delta)
        self.measuring = 1.0 if self.pure else _MEASURING
        """Share that pays for measuring, where marginals are selected; pure methods select on public data."""

    def sigma(self, share: float) -> float:
        """Standard deviation of a cell, in rows."""
        if self.pure:
            return math.sqrt(2) * self.unit.l1 / (self.epsilon * share)
        return math.sqrt(gaussian_sigma_squared(self.unit.l2_squared, self.rho * share))

    def l1(self, share: float, cells: int) -> float:
        """Expected L1 noise of a marginal, as a share of the table."""
        return cells * _standard(1, self.pure).l1 * self.sigma(share) / self.n

    def noise(self, share: float, cells: int, largest: float) -> Noise:
        """Of a marginal; `largest` is the expected largest of its cells, in standard deviations."""
        sigma = self.sigma(share)
        return Noise(sigma, sigma / self.n, self.l1(share, cells), largest * sigma / self.n)

    def affordable(self, marginals: int, cells: int) -> int:
        """T for marginals of so many cells: σ grows with √T, and with T where ε is what adds up."""
        times = _LEVEL / self.l1(self.measuring, cells)
        return int(min(marginals, times if self.pure else times**2))

    def share(self, chosen: int, of: int) -> float:
        """What each of the chosen marginals gets; where all are, nothing is spent on selecting."""
        return (1.0 if chosen >= of else self.measuring) / max(1, chosen)

    def seen(self, share: float) -> float:
        """The smallest count that can be seen."""
        return _SEEN * self.sigma(share)


@lru_cache(maxsize=1024)
def _standard(cells: int, pure: bool) -> NoiseSize:
    """Noise of standard deviation 1. The largest of k Laplace draws is 1 + 1/2 + … + 1/k scales in expectation."""
    if not pure:
        return expected_noise(rho=0.5, cells=cells, l2=1.0)
    from scipy.special import digamma

    return NoiseSize(1.0, cells / math.sqrt(2), float(digamma(cells + 1) + np.euler_gamma) / math.sqrt(2))


def _largest(sizes: set[int], pure: bool) -> Callable[[int], float]:
    """The expected largest of so many cells, in σ; interpolated where there are very many different sizes."""
    if len(sizes) <= _EXACT_SIZES:
        return lambda cells: _standard(cells, pure).largest
    knots = sorted({round(x) for x in np.geomspace(min(sizes), max(sizes), _EXACT_SIZES)})
    logs, heights = np.log(knots), [_standard(k, pure).largest for k in knots]
    return lambda cells: float(np.interp(math.log(cells), logs, heights))


def _order(budget: _Budget, sizes: Sequence[int], k: int) -> Order:
    count = math.comb(len(sizes), k)
    if count <= _SAMPLED:
        cells = [math.prod(c) for c in itertools.combinations(sizes, k)]
    else:
        picked = np.random.default_rng(0).random((_SAMPLED, len(sizes))).argpartition(k, axis=1)[:, :k]
        cells = np.asarray(sizes)[picked].prod(axis=1).tolist()
    middle = math.ceil(median(cells))
    some = budget.affordable(count, middle)
    return Order(k, count, middle, budget.seen(1 / count), some, budget.seen(budget.share(some, count)))


def _bought(budget: _Budget, count: int, middle: int) -> Bought:
    some = budget.affordable(count, middle)
    return Bought(
        budget.epsilon,
        budget.rho,
        budget.l1(1 / count, middle),
        budget.seen(1 / count),
        some,
        budget.seen(budget.share(some, count)),
    )


def _theory(budget: _Budget, queries: int, public_rows: int | None) -> Theory:
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


def _costs(
    budget: _Budget, public_rows: int | None, columns: int, sizes: Collection[int], closure: int
) -> tuple[Cost, ...]:
    """Fitted by eye to runs of 5,000 to 150,000 rows, 15 to 33 columns and 20,000 to 3 million cells.

    Above ε = 1 there is more to find, so methods that go on while they find something take longer.
    """
    n, m, cells, more = budget.n, public_rows or 0, sum(sizes), max(1.0, budget.epsilon)
    reading = 5e-9 * n * columns + 1e-9 * n * len(sizes)
    memory = 260 + 20e-6 * cells + 28e-6 * columns * (n + m)
    prior = 2e-6 * columns**2 * min(m, 20_000)
    guesses = {
        "tilt": (5 + prior + (10 * (n / 20_000) ** 0.6 + 0.01 * closure) * more**0.5, 150.0),
        "pmw-pub": (1 + (3e-7 * cells + 2e-5 * m) * more**0.5, 50e-6 * cells),
        "mwem-pub": (1 + 4e-7 * cells + 1e-6 * m, 50e-6 * cells),
        "ide": (1 + 5e-6 * m, 10.0),
        "jam-pgm": (4 + 4e-5 * min(n, 100_000) + 2e-5 * cells * more**0.5, min(100 + 2e-4 * cells, 800)),
        "public": (0.7 + 1e-6 * m, 0.0),
        "aim": (1 + (8e-5 * n + 1e-6 * cells) * more, 30.0),
        "mst": (1 + 3e-6 * n, 30.0),
    }
    needs = {"pmw-pub", "mwem-pub", "ide", "jam-pgm", "public"}
    wanted = [
        k for k in guesses if (k == "ide" or not budget.pure) and (public_rows is not None or k not in needs)
    ]
    return tuple(Cost(k, guesses[k][0] + reading, guesses[k][1] + memory) for k in wanted)


def _advice(made: Plan, schema: Schema, public_rows: int | None) -> tuple[str, ...]:
    """What to watch, in words."""
    said: list[str] = []
    n, count = made.n, len(made.marginals)
    if made.delta > 1 / n:
        said.append(f"delta = {made.delta:g} is above 1/n = {1 / n:.2g}: choose it well below, such as 1e-9.")
    if made.noise == "laplace":
        said.append(
            "delta = 0 asks for pure ε-DP: use ide or hierarchy with noise = laplace; the others need δ > 0."
        )
    if made.relation == Relation.ADD_REMOVE:
        said.append(
            "n is private under add-remove: it is taken as a guess here, and measuring it takes some budget."
        )
    if made.rows_per_person > 1:
        said.append(
            f"A person may have {made.rows_per_person} rows, which makes the noise as many times as large."
        )
    too_large = [m for m in made.marginals if m.cells > MAX_CELLS]
    if too_large:
        said.append(
            f"{_several(too_large)} more than {MAX_CELLS:,} cells and will be refused: leave a column out, or give it "
            "fewer bins."
        )
    elif made.cells > MAX_TOTAL_CELLS:
        said.append(
            f"The workload has {made.cells:,} cells, more than {MAX_TOTAL_CELLS:,}, and will be refused: use a smaller "
            "workload or fewer bins."
        )
    sparse = [m for m in made.marginals if m.cells > n]
    if sparse:
        said.append(
            f"{_several(sparse)} more cells than there are rows ({n:,}): most are empty, and noise fills them."
        )
    said += _wide_columns(made, schema)
    said += _too_much(made)
    if made.affordable >= count:
        said.append(
            "The budget is enough to measure the whole workload below the level: selecting gains little."
        )
    bound = made.theory.bound
    if bound is not None and bound >= 1:
        said.append(
            f"The proven bound of pmw-pub, {bound:.2g}, says nothing here (1 or more); practice is far better."
        )
    if public_rows is not None and public_rows < made.theory.public_rows[0.1]:
        said.append(
            f"{public_rows:,} public rows are fewer than the theory asks for in the worst case "
            f"({made.theory.public_rows[0.1]:,} for 0.1); tuning on public data says how far they go."
        )
    return tuple(said)


def _several(marginals: Sequence[MarginalPlan]) -> str:
    worst = " × ".join(max(marginals, key=lambda m: m.cells).marginal)
    if len(marginals) == 1:
        return f"The marginal {worst} has"
    return f"{len(marginals):,} marginals ({worst} first) have"


def _wide_columns(made: Plan, schema: Schema) -> list[str]:
    """Columns whose marginals hold most of the workload's cells: coarser bins help most there."""
    held = {a: sum(m.cells for m in made.marginals if a in m.marginal) / made.cells for a in schema.domain}
    usual = median(schema.domain.shape)
    wide = [a for a in schema.domain if held[a] > 0.4 and schema.domain[a] > max(20, 3 * usual)]
    return [
        f"{a} has {schema.domain[a]:,} values, and its marginals hold {100 * held[a]:.0f} % of the workload's cells: "
        "coarser bins there help most."
        for a in sorted(wide, key=lambda a: -held[a])[:3]
    ]


def _too_much(made: Plan) -> list[str]:
    """A workload too large for the budget, and what would be less."""
    if made.affordable >= len(made.marginals) / 20 and made.affordable >= 3:
        return []
    k = max(len(m.marginal) for m in made.marginals)
    lower = next((o for o in made.orders if o.columns == k - 1), None)
    less = "Use coarser bins or a larger ε"
    if lower is not None and lower.affordable > made.affordable:
        can = f"{lower.affordable:,} of {lower.marginals:,} can be"
        less = f"Use {k - 1}-way marginals ({can}), coarser bins or a larger ε"
    return [
        f"Only {made.affordable:,} of the workload's {len(made.marginals):,} marginals can be measured with less than "
        f"{100 * made.level:g} % noise in L1: the rest has to come from the public table or a model. {less}."
    ]


def _tables(made: Plan, most: int) -> list[PlanTable]:
    """See `Plan.tables`."""
    some = max(1, made.affordable)
    noisiest = sorted(made.marginals, key=lambda m: -m.cells)[:most]
    tables = [
        PlanTable(
            f"What can be seen at ε = {made.epsilon:g}, δ = {made.delta:g} in {made.n:,} rows",
            (
                "columns",
                "marginals",
                "median cells",
                "smallest count if all",
                "affordable",
                "smallest count if those",
            ),
            tuple(
                (
                    str(o.columns),
                    f"{o.marginals:,}",
                    f"{o.cells:,}",
                    _rows(o.seen),
                    f"{o.affordable:,}",
                    _rows(o.seen_if_affordable),
                )
                for o in made.orders
            ),
        ),
        PlanTable(
            f"What ε buys for the workload ({len(made.marginals):,} marginals)",
            ("ε", "ρ", "L1 noise if all", "smallest count if all", "affordable", "smallest count if those"),
            tuple(
                (
                    f"{b.epsilon:.3g}",
                    f"{b.rho:.3g}",
                    _percent(b.l1, 2.0),
                    _rows(b.seen),
                    f"{b.affordable:,}",
                    _rows(b.seen_if_affordable),
                )
                for b in made.bought
            ),
        ),
        PlanTable(
            f"Noise by marginal, if all are measured and if {some:,} are"
            + (", largest first" if most else ""),
            ("marginal", "cells", "σ if all", "L1", "largest", f"σ if {some:,}", "L1", "largest"),
            tuple(
                (" × ".join(m.marginal), f"{m.cells:,}", *_sizes(m.every), *_sizes(m.some)) for m in noisiest
            ),
        ),
        PlanTable(
            "Time and memory, rough, on two cores",
            ("mechanism", "seconds", "megabytes"),
            tuple((c.mechanism, f"{c.seconds:,.0f}", f"{c.megabytes:,.0f}") for c in made.costs),
        ),
    ]
    return [*tables[:3], _theory_table(made.theory), tables[3]]


def _theory_table(theory: Theory) -> PlanTable:
    rows = [
        (f"rows for a best mixture error of {a:g}", f"{m:,} public and {theory.private_rows[a]:,} private")
        for a, m in theory.public_rows.items()
    ]
    if theory.bound is not None:
        vacuous = " (vacuous: 1 or more)" if theory.bound >= 1 else ""
        rows.append(("largest error of pmw-pub, in 19 of 20 cases", f"{theory.bound:.3g}{vacuous}"))
        rows.append(("at so many rounds", f"{theory.rounds:,}"))
    return PlanTable("Proven bounds: worst cases", ("what", "bound"), tuple(rows))


def _sizes(noise: Noise) -> tuple[str, str, str]:
    return (
        f"{noise.rows:,.3g} rows ({_percent(noise.share)})",
        _percent(noise.l1, 2.0),
        _percent(noise.largest),
    )


def _rows(count: float) -> str:
    return f"{math.ceil(count):,}"


def _percent(share: float, most: float = 1.0) -> str:
    return f"over {100 * most:g} %" if share > most else f"{100 * share:.3g} %"
