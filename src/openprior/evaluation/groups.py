"""Errors group by group, as the NIST challenge measured them, and their picture. Everything here is NOT PRIVATE.

A group's error is the mean L1 distance (0 to 2) of random two-way marginals of the other columns between released and
private rows; it is set to 2 where the group's number of rows is off by 250 or more. The error of the release is the
mean over the groups that the private table has. A group with private rows and no released ones has distance 1 in every
marginal by this formula, as its released shares are all 0; that is what is counted here.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.display import Sheet, Shown
from openprior.errors import OptionError, WorkloadError
from openprior.evaluation.metrics import NOTICE, tables_of
from openprior.given import several, whole_number
from openprior.questions.workload import Marginal, canonical
from openprior.report.heat import heat_picture
from openprior.schema.base import Schema
from openprior.tables.encode import Table

__all__ = ["GroupErrors", "evaluate_groups"]

_WORST = 2.0


@dataclass(frozen=True, repr=False)
class GroupErrors(Shown):
    """Errors by group against the private table. NOT PRIVATE."""

    error: float
    """Mean over the private table's groups."""
    keys: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """The key values of each group."""
    errors: NDArray[np.float64] = field(repr=False)
    counts_off: NDArray[np.int64] = field(repr=False)
    """Released minus private rows of each group."""
    stray: int
    """Released rows in groups that the private table does not have."""
    penalised: int
    """Groups whose number of rows is off by the penalty or more."""
    notice: str = NOTICE

    @property
    def worst(self) -> list[tuple[tuple[str, ...], float]]:
        """The groups by error, largest first."""
        order = np.argsort(-self.errors, kind="stable")
        return [(self.labels[i], float(self.errors[i])) for i in order]

    def sheet(self) -> Sheet:
        """The groups by error, largest first. NOT PRIVATE."""
        rows = tuple((*label, f"{error:.4f}") for label, error in self.worst)
        title = f"Mean L1 error by {' and '.join(self.keys)}: {self.error:.4f} over {len(rows):,} groups"
        notes = (
            f"{self.penalised:,} groups have a number of rows that is far off; {self.stray:,} stray rows.",
        )
        return Sheet(title, (*self.keys, "error"), rows, notes, (self.notice,))

    def picture(self) -> str:
        """A heat map as SVG: the last key across (years, say), the others down."""
        places = [
            (" ".join(label[:-1]), label[-1]) if len(label) > 1 else (label[0], "error")
            for label in self.labels
        ]
        down, across = (list(dict.fromkeys(names)) for names in zip(*places, strict=True))
        values = np.full((len(down), len(across)), math.nan)
        for (row, column), error in zip(places, self.errors, strict=True):
            values[down.index(row), across.index(column)] = error
        title = f"Mean L1 error by {' and '.join(self.keys)}: {self.error:.3f}. {self.notice}"
        return heat_picture(down, across, values, title)


def evaluate_groups(
    release: Any,
    private: Any,
    keys: Sequence[str],
    *,
    schema: Schema | str | Path | None = None,
    marginals: int | None = 50,
    seed: int = 0,
    penalty: int = 250,
) -> GroupErrors:
    """Compare a release, or plain rows, with the private table group by group. NOT PRIVATE: do not publish it.

    keys        columns whose combinations are the groups, such as ["PUMA", "YEAR"]
    marginals   random two-way marginals per group, drawn with `seed`; all of them if None
    penalty     a group whose number of rows is off by this much or more has the worst error, 2
    """
    marginals = None if marginals is None else whole_number("marginals", marginals, 1)
    seed, penalty = whole_number("seed", seed, 0), whole_number("penalty", penalty, 1)
    guess, truth, schema = tables_of(release, private, schema)
    names = canonical(several("keys", keys, error=WorkloadError), schema.domain)
    others = [a for a in schema.domain if a not in names]
    if not others:
        raise OptionError("the keys are all columns there are; leave some to compare")
    pairs: list[Marginal] = list(itertools.combinations(others, min(2, len(others))))
    true_groups, guessed_groups = _groups(truth, names), _groups(guess, names)
    rng = np.random.default_rng(seed)
    errors, off, labels = [], [], []
    for number, own in true_groups.items():
        guessed = guessed_groups.get(number)
        some = (
            pairs
            if marginals is None or marginals >= len(pairs)
            else [pairs[i] for i in sorted(rng.choice(len(pairs), marginals, replace=False))]
        )
        difference = (0 if guessed is None else len(guessed)) - len(own)
        error = _distance(truth.take(own), None if guessed is None else guess.take(guessed), some)
        errors.append(_WORST if abs(difference) >= penalty else error)
        off.append(difference)
        codes = np.unravel_index(number, [schema.domain[a] for a in names])
        labels.append(tuple(_label(schema, a, int(c)) for a, c in zip(names, codes, strict=True)))
    counts = np.array(off, np.int64)
    return GroupErrors(
        error=float(np.mean(errors)),
        keys=names,
        labels=tuple(labels),
        errors=np.array(errors),
        counts_off=counts,
        stray=sum(len(r) for number, r in guessed_groups.items() if number not in true_groups),
        penalised=int(np.count_nonzero(np.abs(counts) >= penalty)),
    )


def _groups(table: Table, keys: Marginal) -> dict[int, NDArray[np.intp]]:
    """The rows of each group that has some, by the number of its combination of keys."""
    number = np.ravel_multi_index(
        [table.column(a).astype(np.int64) for a in keys], [table.domain[a] for a in keys]
    )
    order = np.argsort(number, kind="stable")
    groups, starts = np.unique(number[order], return_index=True)
    return {int(k): order[s:e] for k, s, e in zip(groups, starts, [*starts[1:], len(order)], strict=True)}


def _distance(truth: Table, guess: Table | None, marginals: Sequence[Marginal]) -> float:
    """Mean L1 distance of the marginals."""
    p = count_table(truth, marginals)
    q = None if guess is None else count_table(guess, marginals)
    return float(
        np.mean(
            [
                np.abs(p[m] / truth.n - (0.0 if q is None or guess is None else q[m] / guess.n)).sum()
                for m in marginals
            ]
        )
    )


def _label(schema: Schema, name: str, code: int) -> str:
    return str(schema[name].labels[code])
