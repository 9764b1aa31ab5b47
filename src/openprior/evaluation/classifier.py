"""The classifier that the quality measures share: scikit-learn's histogram gradient boosting on integer codes.

Settings were chosen on ADULT and on the American Community Survey, for tables of a thousand to a hundred thousand rows.
Columns of up to twelve codes are categories, and wider ones are taken in the order of their codes. As categories they
cost AUC and time, because the best of very many sets of codes is mostly luck; in exchange, a column of hundreds of
codes in no order is learnt less well. The ridge keeps the scores of rare classes from running away (without it the 15
occupations of ADULT have a log loss of 8 instead of 1.8), and predictions of noise closer to even.

Nothing here is random: the same rows give the same probabilities.

>>> a, b = np.arange(600) % 2, np.arange(600) % 3
>>> task = Task((a, b), (2, 3), (a + b) % 2, 2, (np.array([0, 1]), np.array([0, 0])))
>>> class_probabilities([task])[0].argmax(axis=1).tolist()
[0, 1]
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import workers
from openprior.counting.one_thread import openmp_limit

__all__ = ["Task", "class_probabilities"]

Floats = NDArray[np.float64]
Columns = Sequence[NDArray[Any]]

_CATEGORIES = 12
"""Codes of a column that is taken as categories, at most."""
_ROUNDS, _RATE = 80, 0.1
_FEWEST_ROUNDS, _FASTEST = 12, 0.3
_TREES = 600
"""Trees of a model, about, as a round has one tree per class if there are more than two; with fewer rounds the
learning rate grows."""


@dataclass(frozen=True)
class Task:
    """Learn classes 0..classes-1 from some rows, and judge others."""

    columns: Columns
    """Codes 0..size-1 of the rows to learn from, column by column."""
    sizes: Sequence[int]
    target: NDArray[Any]
    """The class of each row to learn from; not all classes need occur."""
    classes: int
    judged: Columns
    """Codes of the rows to judge."""


def class_probabilities(tasks: Sequence[Task]) -> list[Floats]:
    """The probability of each class for the judged rows of each task, rows × classes; tasks run side by side.

    A model counts as much as its n rows, and half a row is added to every class. So a class that no row had keeps a
    small probability, and log losses stay finite. Without rows all classes are alike.
    """
    # Loaded here and not in the threads: see `openmp_limit`.
    from sklearn.ensemble import HistGradientBoostingClassifier

    limit = openmp_limit()

    def solve(task: Task) -> Floats:
        # One thread per model. OpenMP's threads spin while they wait: beside another busy process, models fitted in
        # turn with a thread per core took 10 to 30 times as long as these.
        with limit():
            return _solve(task, HistGradientBoostingClassifier)

    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(solve, tasks))


def _solve(task: Task, classifier: Any) -> Floats:
    n, k = len(task.target), task.classes
    rows = np.zeros((len(task.judged[0]), k))
    present = np.unique(task.target).astype(np.int64)
    if len(present) == 1:
        rows[:, present] = n
    elif len(present) > 1 and len(rows):
        rounds = _ROUNDS if k <= 2 else min(max(_TREES // k, _FEWEST_ROUNDS), _ROUNDS)
        model = classifier(
            max_iter=rounds,
            learning_rate=min(_RATE * _ROUNDS / rounds, _FASTEST),
            max_leaf_nodes=15,
            l2_regularization=40.0,
            categorical_features=[2 < size <= _CATEGORIES for size in task.sizes],
            early_stopping=False,
            random_state=0,  # draws the rows that tell the bins apart, from 200,000 rows on
        )
        model.fit(np.column_stack(task.columns), task.target.astype(np.int64))
        rows[:, present] = n * model.predict_proba(np.column_stack(task.judged))
    return (rows + 0.5) / (n + 0.5 * k)
