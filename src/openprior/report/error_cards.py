"""What an evaluation found, each number with its meaning. NOT PRIVATE."""

from dataclasses import dataclass
from typing import Any

from openprior.questions.workload import Marginal
from openprior.report.words import percent

__all__ = ["Errors", "errors_of"]

_WORST = 15


@dataclass(frozen=True)
class Errors:
    """Errors against the private table."""

    of: str
    cards: tuple[tuple[str, float, str], ...]
    """Name, value, what it says."""
    worst: tuple[tuple[Marginal, float], ...]
    per_column: tuple[tuple[str, float], ...]
    """The mean error of the marginals that have the column, largest first; empty if nobody worked it out."""


def errors_of(found: Any) -> Errors:
    """From an `Evaluation`."""
    mean, most = found.workload_error, found.max_error
    cards = (
        (
            "Mean distance of a table",
            mean,
            "The L1 distance between private and released shares (0 is perfect, 2 the worst), on average over tables "
            f"asked for. Half of it is the share of rows that would have to change: {percent(mean / 2)}.",
        ),
        (
            "Largest error of a cell",
            most,
            f"Of all counts asked for, the one that is farthest off is wrong by {percent(most)} of all rows.",
        ),
        (
            "Mean error of a cell",
            found.mean_error,
            "On average over all counts, as a share of all rows. Most counts are small, so this number is, too.",
        ),
        ("Root mean square error", found.rmse, "As the mean error of a cell, but large errors weigh more."),
    )
    per_column = getattr(found, "per_column", None) or {}
    return Errors(
        str(found.of),
        cards,
        tuple(found.worst[:_WORST]),
        tuple(sorted(((str(a), float(e)) for a, e in per_column.items()), key=lambda item: -item[1])),
    )
