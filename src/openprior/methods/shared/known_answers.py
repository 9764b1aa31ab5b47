"""What is known of the table while a generator is fitted: answers with noise, or those of a public table.

Answers are shares of the table. Which of them a generator has most wrong is found here, with matrix products; only
these few reach its training, whose shapes then never change.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.one_thread import blas_on_one_thread
from openprior.models.generator import mixture_table
from openprior.models.neural import Network
from openprior.questions.workload import Marginal

__all__ = ["KnownAnswers", "all_answers"]

Floats = NDArray[np.float32]

_TOGETHER = 10
"""Steps between two looks at which queries are the worst."""


def all_answers(network: Network, cells: Cells) -> Floats:
    """The generator's answers to all cells."""
    shares, values = network.mixture()
    ends = np.cumsum(cells.domain.shape)[:-1]
    parts: Mapping[str, Floats] = dict(zip(cells.domain, np.split(values, ends, axis=1), strict=True))
    answers = np.empty(len(cells), np.float32)
    with blas_on_one_thread():  # the products are small: measured, ten times as fast as with two threads
        for marginal, part in cells.split(answers).items():
            part[:] = mixture_table([parts[a] for a in marginal], shares)
    return answers


class KnownAnswers:
    """Answers to whole marginals, or to single cells of them."""

    def __init__(self, cells: Cells) -> None:
        """`cells` has all marginals that may become known."""
        self._cells = cells
        self._starts = np.concatenate([[0], np.cumsum(cells.domain.shape)])
        self._depth = max(len(m) for m in cells.marginals)
        self._known = np.empty(0, np.int64)  # by their number in `cells`
        self._answers = np.empty(0, np.float32)
        self._marginals: list[Marginal] = []
        self._looked_at = cells  # the cells of those marginals only, and where in them the known ones are
        self._place = np.empty(0, np.int64)

    def add(
        self, marginal: Marginal, which: NDArray[np.integer[Any]], answers: NDArray[np.floating[Any]]
    ) -> None:
        """The answers to some cells of a marginal."""
        if marginal not in self._marginals:
            self._marginals.append(marginal)
        self._known = np.concatenate([self._known, self._cells.offset(marginal) + which])
        self._answers = np.concatenate([self._answers, answers.astype(np.float32)])
        self._looked_at = Cells(self._cells.domain, self._marginals)
        self._place = np.concatenate([self._place, self._looked_at.offset(marginal) + which])

    @property
    def marginals(self) -> set[Marginal]:
        """Those of which something is known."""
        return set(self._marginals)

    def errors(self, network: Network) -> Floats:
        """How far the generator is off, in the order in which answers became known."""
        off: Floats = all_answers(network, self._looked_at)[self._place] - self._answers
        return np.abs(off)

    def queries(self, which: NDArray[np.intp]) -> tuple[NDArray[np.int32], Floats]:
        """Some of the queries: the columns that they ask for, −1 where there are no more, and the answers."""
        columns = np.full((len(which), self._depth), -1, np.int32)
        for row, cell in enumerate(self._known[which]):
            marginal, number = self._cells.locate(int(cell))
            codes = np.unravel_index(number, [self._cells.domain[a] for a in marginal])
            for i, (a, code) in enumerate(zip(marginal, codes, strict=True)):
                columns[row, i] = self._starts[self._cells.domain.position(a)] + code
        return columns, self._answers[which]

    def fit(
        self, network: Network, errors: Floats, *, least: float, rate: float, steps: int, most: int
    ) -> None:
        """Up to so many steps on the worst queries that are off by at least `least`; ends when there are none."""
        work = network.fitting(rate, steps)
        while work.done < steps:
            wrong = np.flatnonzero(errors >= least)
            if not len(wrong):
                return
            if len(wrong) > most:
                wrong = wrong[np.argpartition(-errors[wrong], most)[:most]]
            work.go(*self.queries(wrong), least, min(_TOGETHER, steps - work.done), most)
            errors = self.errors(network)
