"""Can released rows be told from private rows? A classifier's two-sample test. Everything here is NOT PRIVATE.

Boosted trees learn which rows are released, and judge rows that they were not fitted to (the rows are parted into
folds, each judged by a model of the others). The AUC is the chance that a released row looks more released than a
private one does: 0.5 is guessing. The pMSE is the mean of (p̂ − c)² with p̂ the predicted probability that a row is
released and c the share of released rows; over its largest value c(1 − c) it runs from 0 to 1. What two samples of one
population would get is measured, not assumed: the same test between two random halves of the private rows.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import workers
from openprior.errors import OptionError
from openprior.evaluation.boosting import Booster
from openprior.evaluation.copies import check_tables
from openprior.tables.encode import Table
from openprior.tables.table import join

__all__ = ["Propensity", "auc", "propensity_of"]

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
    found, found_chance = _tell_apart([(theirs, ours), (halves[0], halves[1])], folds, rng)
    share = theirs.n / (theirs.n + ours.n)
    return Propensity(
        found[0],
        found[1],
        _scaled(found[1], share),
        found_chance[0],
        _scaled(found_chance[1], half / ours.n),
        (theirs.n, ours.n),
    )


def _scaled(pmse: float, share: float) -> float:
    most = share * (1.0 - share)
    return float(np.clip(pmse / most, 0.0, 1.0)) if most > 0.0 else float("nan")


def _tell_apart(
    pairs: Sequence[tuple[Table, Table]], folds: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """AUC and pMSE of each pair of tables, all models fitted side by side."""
    jobs, kept = [], []
    for first, second in pairs:
        both = join([first, second])
        label = np.repeat([1, 0], [first.n, second.n])
        fold = np.concatenate([rng.permutation(np.arange(t.n) % folds) for t in (first, second)])
        kept.append((label, fold))
        jobs += [(both, label, fold == k, child) for k, child in enumerate(rng.spawn(folds))]
    with ThreadPoolExecutor(workers()) as pool:
        chances = list(pool.map(_judge, jobs))
    found = []
    for i, (label, fold) in enumerate(kept):
        own = chances[i * folds : (i + 1) * folds]
        scores = [auc(p, label[fold == k] == 1) for k, p in enumerate(own)]
        defined = [s for s in scores if not np.isnan(s)]
        error = np.concatenate(own) - label.mean()
        found.append((float(np.mean(defined)) if defined else float("nan"), float(np.mean(error**2))))
    return found


def _judge(job: tuple[Table, NDArray[Any], NDArray[np.bool_], np.random.Generator]) -> Floats:
    """The probability of label 1 for the marked rows, by a model of the others."""
    table, label, marked, rng = job
    fitted, judged = np.flatnonzero(~marked), np.flatnonzero(marked)
    model = Booster().fit([c[fitted] for c in table.columns], table.domain.shape, label[fitted], 2, rng)
    return model.predict_proba([c[judged] for c in table.columns])[:, 1]


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The chance that a positive row scores above a negative one, ties counting half; nan without both."""
    found = int(np.count_nonzero(positive))
    others = len(positive) - found
    if not found or not others:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    return float((ranks[place[positive]].sum() - found * (found + 1) / 2.0) / (found * others))
