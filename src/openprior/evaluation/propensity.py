"""Can released rows be told from private rows? A classifier's two-sample test. Everything here is NOT PRIVATE.

Boosted trees learn which rows are released, and judge rows that they were not fitted to (the rows are parted into
folds, each judged by a model of the others). The AUC is the chance that a released row looks more released than a
private one does: 0.5 is guessing. The pMSE is the mean of (p̂ − c)² with p̂ the predicted probability that a row is
released and c the share of released rows; over its largest value c(1 − c) it runs from 0 to 1. What two samples of one
population would get is measured, not assumed: the same test between two random halves of the private rows. Read the
pMSE beside theirs, because no model predicts c exactly: two samples of a few thousand rows score about 0.02.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.evaluation.classifier import Task, class_probabilities
from openprior.evaluation.copies import check_tables
from openprior.tables.encode import Table
from openprior.tables.table import join

__all__ = ["Propensity", "auc", "judged_by_others", "propensity_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Propensity:
    """How well released rows are told from private ones. NOT PRIVATE."""

    auc: float
    """0.5: no better than guessing; 1: always told apart. Mean over folds."""
    pmse: float
    score: float
    """pMSE over its largest value: 0 indistinguishable, 1 told apart with certainty."""
    chance_auc: float
    """The AUC between two halves of the private rows; nan for a single row."""
    chance_score: float
    """Their score; nan for a single row."""
    rows: tuple[int, int]
    """Released and private rows used."""


def propensity_of(
    released: Table, private: Table, *, seed: int = 0, rows: int = 50_000, folds: int = 2
) -> Propensity:
    """Tell released from private rows, at most `rows` of each, drawn with `seed`. NOT PRIVATE."""
    check_tables(released, private)
    if rows < 1:
        raise OptionError(f"rows = {rows}; use at least 1")
    if folds < 2:
        raise OptionError(f"folds = {folds}; use at least 2, so that rows are judged by a model of others")
    rng = np.random.default_rng(seed)
    ours, theirs = (t.take(rng.permutation(t.n)[:rows]) for t in (private, released))
    half = ours.n // 2
    halves = [ours.take(part) for part in (np.arange(half), np.arange(half, ours.n))]
    (own_auc, pmse), (chance_auc, chance_pmse) = _tell_apart(
        [(theirs, ours), (halves[0], halves[1])], folds, rng
    )
    return Propensity(
        auc=own_auc,
        pmse=pmse,
        score=_scaled(pmse, theirs.n / (theirs.n + ours.n)),
        chance_auc=chance_auc,
        chance_score=_scaled(chance_pmse, half / ours.n),
        rows=(theirs.n, ours.n),
    )


def _scaled(pmse: float, share: float) -> float:
    most = share * (1.0 - share)
    return float(np.clip(pmse / most, 0.0, 1.0)) if most > 0.0 else float("nan")


def _tell_apart(
    pairs: Sequence[tuple[Table, Table]], folds: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """AUC and pMSE of each pair of tables, all models fitted side by side."""
    results = []
    for label, fold, judged in judged_by_others(pairs, folds, rng):
        aucs = [auc(judged[fold == k], label[fold == k] == 1) for k in range(folds)]
        defined = [a for a in aucs if not np.isnan(a)]
        error = judged - label.mean()
        results.append((float(np.mean(defined)) if defined else float("nan"), float(np.mean(error**2))))
    return results


def judged_by_others(
    pairs: Sequence[tuple[Table, Table]], folds: int, rng: np.random.Generator
) -> list[tuple[NDArray[Any], NDArray[Any], Floats]]:
    """For the rows of each pair, the first table's and then the second's: whether it is one of the first, its fold, and
    the probability that it is one of the first, by a model of the other folds."""
    tasks: list[Task] = []
    labels_and_folds = []
    for first, second in pairs:
        both = join([first, second])
        label = np.repeat([1, 0], [first.n, second.n])
        fold = np.concatenate([rng.permutation(np.arange(t.n) % folds) for t in (first, second)])
        labels_and_folds.append((label, fold))
        tasks += [_task(both, label, fold == k) for k in range(folds)]
    probabilities = [p[:, 1] for p in class_probabilities(tasks)]
    results = []
    for i, (label, fold) in enumerate(labels_and_folds):
        judged = np.empty(len(label))
        for k in range(folds):
            judged[fold == k] = probabilities[i * folds + k]
        results.append((label, fold, judged))
    return results


def _task(table: Table, label: NDArray[Any], judged: NDArray[np.bool_]) -> Task:
    """Judge the marked rows by a model of the others."""
    return Task(
        columns=[c[~judged] for c in table.columns],
        sizes=table.domain.shape,
        target=label[~judged],
        classes=2,
        judged=[c[judged] for c in table.columns],
    )


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The chance that a positive row scores above a negative one, ties counting half; nan without both."""
    positives = int(np.count_nonzero(positive))
    negatives = len(positive) - positives
    if not positives or not negatives:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    wins = ranks[place[positive]].sum() - positives * (positives + 1) / 2.0
    return float(wins / (positives * negatives))
