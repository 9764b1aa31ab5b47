"""What a run would take: seconds and megabytes of each mechanism, from sizes alone. Rough, and says so.

Each mechanism knows its own outlay; reading the tables and the package itself come on top of it. All numbers are fitted
by eye to runs of 5,000 to 150,000 rows, 15 to 33 columns and 20,000 to 3 million cells.
"""

from dataclasses import dataclass

from openprior.methods.base import PublicTable, Sizes, mechanisms

__all__ = ["Cost", "costs_of"]


@dataclass(frozen=True)
class Cost:
    """A run of a mechanism with its defaults; rough, for two cores of this kind of machine."""

    mechanism: str
    seconds: float
    megabytes: float


def costs_of(sizes: Sizes, *, pure: bool) -> tuple[Cost, ...]:
    """Of every mechanism that would run; with `pure`, of those that can promise δ = 0, as they are set for that."""
    reading = 5e-9 * sizes.rows * sizes.columns + 1e-9 * sizes.rows * len(sizes.workload.marginals)
    memory = 260 + 20e-6 * sizes.cells + 28e-6 * sizes.columns * (sizes.rows + sizes.public_rows)
    costs = []
    for name, mechanism in mechanisms().items():
        options = mechanism.pure_options if pure else {}
        if options is None or (mechanism.public_table is PublicTable.NEEDED and not sizes.public_rows):
            continue
        outlay = mechanism(**options).outlay(sizes)
        if outlay is not None:
            costs.append(Cost(name, outlay.seconds + reading, outlay.megabytes + memory))
    return tuple(costs)
