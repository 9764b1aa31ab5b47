"""What a run would take: seconds and megabytes of each mechanism, from sizes alone. Rough, and says so.

Each mechanism knows its own outlay; reading the tables, measuring the errors, writing the release and its report come
on top of it. All numbers are fitted to runs of 1,000 to 300,000 rows, 9 to 21 columns and 20,000 to 14 million cells on
one machine with two cores, and scaled by how fast this one is (speed.py). `python -m benchmarks.plan_times` compares
them with runs.
"""

from dataclasses import dataclass

from openprior.guidance.speed import machine_speed
from openprior.methods.base import Mechanism, PublicTable, Sizes, mechanisms

__all__ = ["COMPILING", "Cost", "cost_of", "costs_of"]

COMPILING = 10.0
"""Seconds, on the reference machine, that the first run after installing takes longer: its loops are compiled then."""

_LOOKED_AT = 4_000_000
"""Cells of which errors are measured, about, where there are more."""


@dataclass(frozen=True)
class Cost:
    """A run of a mechanism with its defaults; rough, for two cores of this kind of machine."""

    mechanism: str
    seconds: float
    """From opening the tables to the written folder; the first run also compiles."""
    megabytes: float
    at_most: float | None = None
    """Seconds if the public table is far from the private one, for a mechanism that then works much longer."""


def costs_of(sizes: Sizes, *, pure: bool, n_is_public: bool = True) -> tuple[Cost, ...]:
    """Of every mechanism that would run; with `pure`, of those that can promise δ = 0, as they are set for that."""
    costs = []
    for mechanism in mechanisms().values():
        options = mechanism.pure_options if pure else {}
        if options is not None and (n_is_public or not mechanism.needs_public_n):
            costs.append(cost_of(mechanism(**options), sizes))
    return tuple(cost for cost in costs if cost is not None)


def cost_of(mechanism: Mechanism, sizes: Sizes) -> Cost | None:
    """Of one mechanism as it is set; None if it would be refused."""
    if mechanism.public_table is PublicTable.NEEDED and not sizes.public_rows:
        return None
    outlay = mechanism.outlay(sizes)
    if outlay is None:
        return None
    reading = 3e-8 * sizes.rows * sizes.columns + 1e-9 * sizes.rows * sizes.marginals + 5e-9 * sizes.cells
    writing = 0.13 + 2.7e-7 * sizes.cells
    memory = 260 + 20e-6 * sizes.cells + 28e-6 * sizes.columns * (sizes.rows + sizes.public_rows)
    if mechanism.spends and not mechanism.has_exact_bars:
        writing += 0.03 + 4e-4 * sizes.marginals + 1.5e-7 * min(sizes.cells, _LOOKED_AT)
    speed, other = machine_speed(), reading + writing
    return Cost(
        mechanism.name,
        (outlay.seconds + other) / speed,
        outlay.megabytes + memory,
        None if outlay.at_most is None else (outlay.at_most + other) / speed,
    )
