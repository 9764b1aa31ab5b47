"""Domain compression: rare values are merged before marginals are measured, and told apart again in the end.

The noisy one-way counts say which values cannot be told from noise (rare_values.py). Larger marginals are then
measured, and the model fitted, on the merged domain, where cells are fewer and fuller; single columns are always
counted value by value, and their sums fitted. In the end every merged value is spread over the values that it stands
for, by all noisy counts of its column and independently of other columns. All of it is post-processing of measurements:
the groups are part of what is asked next.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from openprior.display import listed
from openprior.methods.shared.rare_values import STANDS_OUT, group_rare, shares_within
from openprior.models.graphical.junction import JunctionTree
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement, Sums
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.statistics import Counts
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["Compression"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Column:
    """All noisy counts of a column's values so far, as one."""

    counts: Floats
    precision: float

    @property
    def sigma(self) -> float:
        return 1 / math.sqrt(self.precision)


@dataclass(frozen=True, eq=False)
class Compression:
    """The groups of the columns that have merged values, and how the values of a group share it."""

    full: Domain
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    known: Mapping[str, _Column] = field(default_factory=dict)
    """What was measured of the columns that have groups."""
    _maps: dict[Marginal, Merging | None] = field(default_factory=dict, repr=False)
    """Those that were asked for, as rounds ask for the same again."""

    @staticmethod
    def of(layout: Layout, measured: Iterable[Measurement], least: float = STANDS_OUT) -> "Compression":
        """By the noisy counts of single columns, which stand out from `least` standard deviations on; a column that
        was not counted keeps its values."""
        groups = {}
        for m in measured:
            (column,) = m.marginal
            found = group_rare(m.values, m.sigma, layout.ordered.get(column, 0), least=least)
            if max(found) + 1 < len(found):
                groups[column] = found
        return Compression(layout.domain, groups)

    @staticmethod
    def told(curator: Curator, measured: Iterable[Measurement], least: float = STANDS_OUT) -> "Compression":
        """The same, with a remark that says what was merged."""
        made = Compression.of(curator.layout, measured, least)
        if made.groups:
            curator.remark(made.words())
        return made

    def words(self) -> str:
        """How many values became how many, for people."""
        each = [f"{len(groups)} values of {a} to {max(groups) + 1}" for a, groups in self.groups.items()]
        return (
            "Values too rare to be told from noise were merged where columns were counted together, and spread again "
            f"by the counts of their column alone: {listed(each, 12)}."
        )

    # What is asked.

    @property
    def domain(self) -> Domain:
        """The merged one."""
        return Domain(self.full.sizes() | {a: max(groups) + 1 for a, groups in self.groups.items()})

    def merging(self, marginal: Marginal) -> Merging | None:
        """How the values of a marginal are merged where it is counted; None if none of them is."""
        return self._map(marginal) if len(marginal) > 1 else None

    def _map(self, marginal: Marginal) -> Merging | None:
        if marginal not in self._maps:
            each = tuple(self.groups.get(a, tuple(range(self.full[a]))) for a in marginal)
            self._maps[marginal] = Merging(each) if any(a in self.groups for a in marginal) else None
        return self._maps[marginal]

    def statistic(self, marginal: Marginal) -> Counts | MergedCounts:
        """What to measure of a marginal."""
        merging = self.merging(marginal)
        return Counts(marginal) if merging is None else MergedCounts(marginal, merging)

    def merge(self, marginal: Marginal, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of all values (public ones), as the marginal is counted."""
        merging = self.merging(marginal)
        return table if merging is None else merging(table)

    # What becomes of a measurement.

    def learnt(self, measured: Measurement) -> "Compression":
        """With what a measurement says of the values of a merged column, if it counts one alone."""
        if len(measured.marginal) != 1 or measured.marginal[0] not in self.groups:
            return self
        (column,), precision = measured.marginal, 1 / measured.sigma**2
        before = self.known.get(column, _Column(np.zeros(self.full[column]), 0.0))
        both = before.precision + precision
        counts = before.counts + (measured.values - before.counts) * (precision / both)
        return replace(self, known={**self.known, column: _Column(counts, both)})

    def sums(self, measured: Measurement) -> Measurement:
        """A measurement of one column as one of its merged values: noisy sums, each as noisy as its terms together."""
        merging = self._map(measured.marginal)
        if merging is None or len(measured.marginal) > 1:
            return measured
        terms = merging(np.ones(len(measured.values)))
        return Sums(
            measured.statistic, merging(measured.values), measured.sigma, measured.noise, measured.part, terms
        )

    # Back to all values.

    def shares(self, column: str) -> Floats:
        """The share of its group that each value of a merged column has."""
        known = self.known.get(column)
        if known is None:
            return shares_within(np.zeros(self.full[column]), self.groups[column], 1.0)
        return shares_within(known.counts, self.groups[column], known.sigma)

    def spread(self, marginal: Marginal, answers: Floats) -> Floats:
        """The merged model's answers as the marginal is counted: of a single column, of all values."""
        if len(marginal) != 1 or marginal[0] not in self.groups:
            return answers
        return answers.take(self.groups[marginal[0]]) * self.shares(marginal[0])

    def expand(self, model: GraphicalModel) -> GraphicalModel:
        """The model of all values: in a clique's table each merged cell is spread over its own cells.

        Two tables that agree on the columns they share still do, as both are spread there by the same shares.
        """
        if not self.groups:
            return model
        tree = JunctionTree.restore(self.full, model.tree.cliques, model.tree.parents)
        shares = {a: self.shares(a) for a in self.groups}
        tables = []
        for axes, table in zip(model.axes, model.tables, strict=True):
            wide = table
            for axis, a in enumerate(axes):
                if a in shares:
                    along = shares[a].reshape([-1 if i == axis else 1 for i in range(len(axes))])
                    wide = wide.take(self.groups[a], axis=axis) * along
            tables.append(np.ascontiguousarray(wide))
        return GraphicalModel.calibrated(tree, tables, model.total)
