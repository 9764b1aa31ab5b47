"""Is a model learnt from released rows as good as one learnt from private rows? Everything here is NOT PRIVATE.

The private rows are split at random into a test half and a training half. Boosted trees learn a target column from
all others, once from released rows (as many as the training half, if there are so many) and once from the training
half, and both predict the test half.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.evaluation.classifier import Task, class_probabilities
from openprior.evaluation.copies import check_tables
from openprior.evaluation.propensity import auc
from openprior.given import shown
from openprior.tables.encode import Table

__all__ = ["Fit", "Usefulness", "check_target", "usefulness_of"]

_MOST_CLASSES = 64


@dataclass(frozen=True)
class Fit:
    """How well a model predicts the test rows. NOT PRIVATE."""

    accuracy: float
    log_loss: float
    """Mean of −log of the probability given to the true class; smaller is better."""
    auc: float
    """Mean over classes of the AUC of one class against the rest; classes that all or no test rows have are left
    out; nan if that leaves none."""


@dataclass(frozen=True)
class Usefulness:
    """A prediction task learnt from released and from private rows. NOT PRIVATE."""

    target: str
    released: Fit
    """Learnt from released rows."""
    private: Fit
    """Learnt from private rows."""
    majority: float
    """Accuracy of always saying the commonest class of the test rows."""
    rows: tuple[int, int, int]
    """Released and private training rows, and test rows."""


def check_target(table: Table, target: str) -> None:
    """Refuse a target column that cannot be predicted."""
    if not isinstance(target, str) or target not in table.domain:
        known = ", ".join(table.domain)
        raise OptionError(f"the target {shown(target)} is no column of the table; choose one of {known}")
    if table.domain[target] > _MOST_CLASSES:
        raise OptionError(
            f"the target '{target}' has {table.domain[target]} values; "
            f"choose a column with at most {_MOST_CLASSES}, or give it fewer bins"
        )


def usefulness_of(
    released: Table, private: Table, target: str, *, seed: int = 0, rows: int = 50_000
) -> Usefulness:
    """Learn the target from released and from private rows, at most `rows` each. NOT PRIVATE."""
    check_tables(released, private)
    check_target(private, target)
    if rows < 1:
        raise OptionError(f"rows = {rows}; use at least 1")
    rng = np.random.default_rng(seed)
    order = rng.permutation(private.n)
    middle = (private.n + 1) // 2
    test, own = private.take(order[:middle][:rows]), private.take(order[middle:][:rows])
    theirs = released.take(rng.permutation(released.n)[: max(own.n, 1)])
    by_released, by_private = (
        _fit(p, test, target)
        for p in class_probabilities([_task(train, test, target) for train in (theirs, own)])
    )
    most = int(np.bincount(test.column(target)).max())
    return Usefulness(target, by_released, by_private, most / test.n, (theirs.n, own.n, test.n))


def _task(train: Table, test: Table, target: str) -> Task:
    where = train.domain.position(target)
    return Task(
        columns=_others(train, where),
        sizes=[s for i, s in enumerate(train.domain.shape) if i != where] or [1],
        target=train.columns[where],
        classes=train.domain[target],
        judged=_others(test, where),
    )


def _others(table: Table, where: int) -> list[NDArray[np.unsignedinteger]]:
    """The columns to learn from; a constant one if the target is the only column."""
    return [c for i, c in enumerate(table.columns) if i != where] or [np.zeros(table.n, np.uint8)]


def _fit(probabilities: NDArray[np.float64], test: Table, target: str) -> Fit:
    truth = test.column(target).astype(np.int64)
    of_truth = np.maximum(probabilities[np.arange(test.n), truth], 1e-12)
    aucs = [auc(probabilities[:, c], truth == c) for c in np.unique(truth)]
    defined = [a for a in aucs if not np.isnan(a)]
    return Fit(
        accuracy=float(np.mean(probabilities.argmax(axis=1) == truth)),
        log_loss=float(-np.log(of_truth).mean()),
        auc=float(np.mean(defined)) if defined else float("nan"),
    )
