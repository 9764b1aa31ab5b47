"""The errors of an evaluation, each number with its meaning. NOT PRIVATE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openprior.questions.workload import Marginal
from openprior.report.words import percent

__all__ = ["Errors", "Estimated", "Evaluated", "LossRow", "errors_of"]

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
    @property
    def losses(self) -> "Sequence[Lost]": ...
    @property
    def warning(self) -> str | None: ...


class Lost(Protocol):
    """What the schema lost of a column. NOT PRIVATE."""

    @property
    def column(self) -> str: ...
    @property
    def before(self) -> float: ...
    @property
    def after(self) -> float: ...
    @property
    def shares(self) -> Mapping[str, float]: ...
    @property
    def effects(self) -> Mapping[str, str]: ...
    @property
    def outside(self) -> float: ...


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
    losses: tuple["LossRow", ...]
    """What the schema lost of every column, largest first."""


@dataclass(frozen=True)
class LossRow:
    """One column: what became of its private values."""

    column: str
    before: float
    after: float
    outside: float
    became: tuple[str, ...]
    """Shares that are not 0, in words: clipped, other, missing."""


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
        losses=tuple(_loss_row(loss) for loss in evaluation.losses),
    )


def _loss_row(loss: Lost) -> LossRow:
    became = [
        f"{percent(share)} {fate} → {loss.effects[fate]}"
        for fate, share in loss.shares.items()
        if fate in loss.effects and share > 0
    ]
    if loss.shares["missing"] > 0:
        became.append(f"{percent(loss.shares['missing'])} missing")
    return LossRow(loss.column, loss.before, loss.after, loss.outside, tuple(became))
