"""A plan in words and tables, for people."""

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from openprior.counting.cells import MAX_CELLS, MAX_TOTAL_CELLS
from openprior.display import how_many
from openprior.guidance.costs import COMPILING
from openprior.guidance.speed import machine_speed
from openprior.methods.base import pure_choices
from openprior.privacy.cautions import as_remark, few_rows, large_epsilon
from openprior.privacy.unit import Relation
from openprior.progress_shown import in_words
from openprior.schema.base import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openprior.guidance.costs import Cost
    from openprior.guidance.plan import MarginalPlan, Plan, Theory
    from openprior.guidance.shares import Noise

__all__ = ["PlanTable", "advice_of", "tables_of"]


@dataclass(frozen=True)
class PlanTable:
    """A table to print."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def advice_of(plan: "Plan", schema: Schema, public_rows: int | None) -> tuple[str, ...]:
    """What to watch, in words."""
    cautions = (large_epsilon(plan.epsilon), few_rows(plan.n))
    advice = [as_remark(words) for words in cautions if words is not None]
    n, count = plan.n, len(plan.marginals)
    if plan.delta > 1 / n:
        advice.append(
            f"delta = {plan.delta:g} is above 1/n = {1 / n:.2g}: choose it well below, such as 1e-9."
        )
    if plan.noise == "laplace":
        advice.append(f"delta = 0 asks for pure ε-DP: use {pure_choices()}; the others need δ > 0.")
    if plan.relation == Relation.ADD_REMOVE:
        advice.append(
            "n is private under add-remove: it is taken as a guess here, and measuring it takes some budget."
        )
    if plan.rows_per_person > 1:
        advice.append(
            f"A person may have {plan.rows_per_person} rows, which makes the noise as many times as large."
        )
    too_large = [m for m in plan.marginals if m.cells > MAX_CELLS]
    if too_large:
        advice.append(
            f"{_several(too_large)} more than {MAX_CELLS:,} cells and will be refused: leave a column out, or give it "
            "fewer bins."
        )
    elif plan.cells > MAX_TOTAL_CELLS:
        advice.append(
            f"The workload has {plan.cells:,} cells, more than {MAX_TOTAL_CELLS:,}, and will be refused: use a smaller "
            "workload or fewer bins."
        )
    sparse = [m for m in plan.marginals if m.cells > n]
    if sparse:
        advice.append(
            f"{_several(sparse)} more cells than there are rows ({n:,}): most are empty, and noise fills them."
        )
    advice += _wide_columns(plan, schema)
    advice += _too_much(plan)
    if plan.affordable >= count:
        advice.append(
            "The budget is enough to measure the whole workload below the level: selecting gains little."
        )
    bound = plan.theory.bound
    if bound is not None and bound >= 1:
        advice.append(
            f"The proven bound of pmw-pub, {bound:.2g}, says nothing here (1 or more); practice is far better."
        )
    if public_rows is not None and public_rows < plan.theory.public_rows[0.1]:
        advice.append(
            f"{public_rows:,} public rows are fewer than the theory asks for in the worst case "
            f"({plan.theory.public_rows[0.1]:,} for 0.1); tuning on public data says how far they go."
        )
    return tuple(advice)


def _several(marginals: "Sequence[MarginalPlan]") -> str:
    worst = " × ".join(max(marginals, key=lambda m: m.cells).marginal)
    if len(marginals) == 1:
        return f"The marginal {worst} has"
    return f"{len(marginals):,} marginals ({worst} first) have"


def _wide_columns(plan: "Plan", schema: Schema) -> list[str]:
    """Columns whose marginals hold most of the workload's cells: coarser bins help most there."""
    held = {a: sum(m.cells for m in plan.marginals if a in m.marginal) / plan.cells for a in schema.domain}
    usual = median(schema.domain.shape)
    wide = [a for a in schema.domain if held[a] > 0.4 and schema.domain[a] > max(20, 3 * usual)]
    return [
        f"{a} has {schema.domain[a]:,} values, and its marginals hold {100 * held[a]:.0f} % of the workload's cells: "
        "coarser bins there help most."
        for a in sorted(wide, key=lambda a: -held[a])[:3]
    ]


def _too_much(plan: "Plan") -> list[str]:
    """A workload too large for the budget, and what would be less."""
    if plan.affordable >= len(plan.marginals) / 20 and plan.affordable >= 3:
        return []
    k = max(len(m.marginal) for m in plan.marginals)
    lower = next((o for o in plan.orders if o.columns == k - 1), None)
    less = "Use coarser bins or a larger ε"
    if lower is not None and lower.affordable > plan.affordable:
        can = f"{lower.affordable:,} of {lower.marginals:,} can be"
        less = f"Use {k - 1}-way marginals ({can}), coarser bins or a larger ε"
    few = f"Only {plan.affordable:,}" if plan.affordable else "None"
    return [
        f"{few} of the workload's {len(plan.marginals):,} marginals can be measured with less than "
        f"{100 * plan.level:g} % noise in L1: the rest has to come from the public table or a model. {less}."
    ]


def tables_of(plan: "Plan", most: int) -> list[PlanTable]:
    """See `Plan.tables`."""
    some = max(1, plan.affordable)
    noisiest = sorted(plan.marginals, key=lambda m: -m.cells)[:most]
    reached = _reach_table(plan)
    tables = [
        PlanTable(
            f"What can be seen at ε = {plan.epsilon:g}, δ = {plan.delta:g} in {plan.n:,} rows",
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
                    _rows(o.seen_if_affordable) if o.affordable else "–",
                )
                for o in plan.orders
            ),
        ),
        PlanTable(
            f"What ε buys for the workload ({len(plan.marginals):,} marginals)",
            ("ε", "ρ", "L1 noise if all", "smallest count if all", "affordable", "smallest count if those"),
            tuple(
                (
                    f"{b.epsilon:.3g}",
                    f"{b.rho:.3g}",
                    _percent(b.l1, 2.0),
                    _rows(b.seen),
                    f"{b.affordable:,}",
                    _rows(b.seen_if_affordable) if b.affordable else "–",
                )
                for b in plan.bought
            ),
        ),
        PlanTable(
            f"Noise by marginal, if all are measured and if {some:,} are"
            + (", largest first" if most else ""),
            ("marginal", "cells", "σ if all", "L1", f"σ if {some:,}", "L1"),
            tuple(
                (" × ".join(m.marginal), f"{m.cells:,}", *_sizes(m.every), *_sizes(m.some)) for m in noisiest
            ),
        ),
        PlanTable(
            "Time and memory on this machine, roughly",
            ("mechanism", "time", "megabytes"),
            (
                *((c.mechanism, _time(c), f"{c.megabytes:,.0f}") for c in plan.costs),
                ("compiling, only the first time", f"{in_words(COMPILING / machine_speed())} more", ""),
            ),
        ),
    ]
    return [*tables[:3], *([reached] if reached else []), _theory_table(plan.theory), tables[3]]


def _reach_table(plan: "Plan") -> PlanTable | None:
    """By the size of the cell and by ε; None where nothing can be guessed."""
    if not all(b.reaches for b in plan.bought):
        return None
    return PlanTable(
        "How far off 95 in 100 answers would be at most: a guess",
        ("answer of about", *(f"ε = {b.epsilon:.3g}" for b in plan.bought)),
        tuple(
            (how_many(each[0].rows, "row"), *(f"±{_rows(r.within)}" for r in each))
            for each in zip(*(b.reaches for b in plan.bought), strict=True)
        ),
    )


def _time(cost: "Cost") -> str:
    """A range where the work depends on how far the public table is from the private one."""
    least, most = in_words(cost.seconds), in_words(cost.at_most or cost.seconds)
    return least if least == most else f"{least} to {most}"


def _theory_table(theory: "Theory") -> PlanTable:
    rows = [
        (f"rows for a best mixture error of {a:g}", f"{m:,} public and {theory.private_rows[a]:,} private")
        for a, m in theory.public_rows.items()
    ]
    if theory.bound is not None:
        vacuous = " (vacuous: 1 or more)" if theory.bound >= 1 else ""
        rows.append(("largest error of pmw-pub, in 19 of 20 cases", f"{theory.bound:.3g}{vacuous}"))
        rows.append(("at so many rounds", f"{theory.rounds:,}"))
    return PlanTable("Proven bounds: worst cases", ("what", "bound"), tuple(rows))


def _sizes(noise: "Noise") -> tuple[str, str]:
    return f"{noise.rows:,.3g}", _percent(noise.l1, 2.0)


def _rows(count: float) -> str:
    return f"{math.ceil(count):,}"


def _percent(share: float, most: float = 1.0) -> str:
    return f"over {100 * most:g} %" if share > most else f"{100 * share:.3g} %"
