"""The errors of an evaluation, each number with its meaning. NOT PRIVATE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openprior.questions.workload import Marginal
from openprior.report.words import percent

__all__ = ["Errors", "Estimated", "Evaluated", "errors_of"]

_WORST = 15


class Evaluated(Protocol):
    """Errors against the private table, as `openprior.evaluate` gives them. NOT PRIVATE."""

    @property
    def workload_error(self) -> float: ...
    @property
    def max_error(self) -> float: ...
    @property
    def mean_error(self) -> float: ...
    @property
    def rmse(self) -> float: ...
    @property
    def of(self) -> str: ...
    @property
    def notice(self) -> str: ...
    @property
    def per_column(self) -> Mapping[str, float]: ...
    @property
    def worst(self) -> Sequence[tuple[Marginal, float]]: ...


class Estimated(Protocol):
    """A private estimate of the errors, as `openprior.estimate_error` gives it."""

    @property
    def workload_error(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def max_error(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def is_private(self) -> bool: ...
    @property
    def statement(self) -> str: ...
    @property
    def together(self) -> str: ...


@dataclass(frozen=True)
class Errors:
    """Errors against the private table."""

    of: str
    cards: tuple[tuple[str, float, str], ...]
    """Name, value, what it says."""
    worst: tuple[tuple[Marginal, float], ...]
    per_column: tuple[tuple[str, float], ...]
    """The mean error of the marginals that have the column, largest first."""


def errors_of(evaluation: Evaluated) -> Errors:
    """The numbers as cards, the worst marginals and the columns by error."""
    mean, most = evaluation.workload_error, evaluation.max_error
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
            evaluation.mean_error,
            "On average over all counts, as a share of all rows. Most counts are small, so this number is, too.",
        ),
        (
            "Root mean square error",
            evaluation.rmse,
            "As the mean error of a cell, but large errors weigh more.",
        ),
    )
    return Errors(
        of=evaluation.of,
        cards=cards,
        worst=tuple(evaluation.worst[:_WORST]),
        per_column=tuple(sorted(evaluation.per_column.items(), key=lambda item: -item[1])),
    )
