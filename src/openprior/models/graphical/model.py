"""The graphical model of Private-PGM: marginals of cliques that agree where they overlap, and nothing else assumed.

Among all distributions with these clique marginals it is the one of largest entropy. Answers are exact whatever the
marginal: read off inside a clique, by variable elimination across. `estimation.py` fits one to noisy measurements.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.models.base import Flags, Model, Saved
from openprior.models.graphical.elimination import Elimination
from openprior.models.graphical.evidence import restrict_tables
from openprior.models.graphical.junction import JunctionTree, megabytes
from openprior.models.graphical.marginalisation import layout
from openprior.questions.workload import Marginal
from openprior.tables.table import Table, dtype_for

__all__ = ["GraphicalModel"]

Floats = NDArray[np.float64]

_NEAR = 1e-12
"""How far from 1 a sum of a clique's table may be by rounding."""


class GraphicalModel(Model):
    """Clique marginals on a junction tree, scaled to `total` rows."""

    kind: ClassVar[str] = "graphical"

    def __init__(self, tree: JunctionTree, tables: Sequence[Floats], total: float) -> None:
        """`tables` has one array per clique, any scale, axes in the order of `layout(clique, separator)`."""
        super().__init__(tree.domain, total)
        self.tree = tree
        self.axes = [layout(c, s) for c, s in zip(tree.cliques, tree.separators, strict=True)]
        for axes, table in zip(self.axes, tables, strict=True):
            shape = tuple(tree.domain[a] for a in axes)
            if table.shape != shape or not np.isfinite(table).all() or table.min() < 0 or table.sum() <= 0:
                raise ValueError(f"clique {axes} needs a table of {shape} finite numbers ≥ 0, not all 0")
        self.tables = [table / table.sum() for table in tables]
        self._elimination: Elimination | None = None

    @classmethod
    def calibrated(cls, tree: JunctionTree, tables: Sequence[Floats], total: float) -> "GraphicalModel":
        """Of tables that already are clique marginals, each of which sums to 1: they are taken as they are."""
        model = cls.__new__(cls)
        Model.__init__(model, tree.domain, total)
        model.tree, model.tables, model._elimination = tree, list(tables), None
        model.axes = [layout(c, s) for c, s in zip(tree.cliques, tree.separators, strict=True)]
        return model

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Exact marginals of the model, inside cliques or across."""
        engine = self._engine()
        return {m: engine.marginal(m) * self.total for m in Cells(self.domain, marginals).marginals}

    def approximate_answers(
        self, marginals: Iterable[Iterable[str]], rng: np.random.Generator, *, effort: float, rows: int
    ) -> dict[Marginal, Floats]:
        """Exact where that takes at most `effort` multiplications; else counted from so many low-discrepancy rows.

        For scores, which may be rough at no cost in privacy; never for what is released.
        """
        asked = Cells(self.domain, marginals).marginals
        engine = self._engine()
        exact = [m for m in asked if engine.cost(m) <= effort]
        answers = {m: engine.marginal(m) * self.total for m in exact}
        rest = [m for m in asked if m not in answers]
        if rest:
            for m, counts in count_table(self.sample(rows, rng), rest).items():
                answers[m] = counts.astype(np.float64) * (self.total / rows)
        return {m: answers[m] for m in asked}

    def _engine(self) -> Elimination:
        if self._elimination is None:
            self._elimination = Elimination(self.tree, self.axes, self.tables)
        return self._elimination

    def sample(self, rows: int, rng: np.random.Generator, *, rounded: bool = True) -> Table:
        """So many rows. Rounded: every clique's cells come as often as they should, up to less than one row for each
        value of the separator; otherwise independent draws. Either way they come in random order, and one row alone
        follows the model."""
        from openprior.models.graphical.row_cells import draw_cells, round_cells

        cells_of = round_cells if rounded else draw_cells
        columns: dict[str, NDArray[Any]] = {}
        for c in range(len(self.tree.cliques) - 1, -1, -1):
            separator = self.tree.separators[c]
            width = self.domain.size(separator)
            table = self.tables[c].reshape(width, -1)
            groups = np.zeros(rows, np.int64)
            for a in separator:
                groups = groups * self.domain[a] + columns[a]
            cells = cells_of(groups, table, rng)
            fresh = self.axes[c][len(separator) :]
            for a, codes in zip(fresh, np.unravel_index(cells, [self.domain[a] for a in fresh]), strict=True):
                columns[a] = codes.astype(dtype_for(self.domain[a]))
        return Table(self.domain, tuple(columns[a] for a in self.domain))

    can_restrict: ClassVar[bool] = True

    def restricted(self, allowed: Mapping[str, Flags]) -> "GraphicalModel | None":
        """Exactly, by two passes over the tree."""
        tables, share = restrict_tables(self.tree, self.axes, self.tables, allowed)
        return GraphicalModel(self.tree, tables, self.total * share) if share > 0 else None

    def summary(self) -> str:
        """The model in a few lines: its cliques, treewidth and size."""
        tree = self.tree
        lines = [
            f"{len(tree.cliques)} cliques over {len(self.domain)} attributes, treewidth {tree.treewidth}, "
            f"{tree.cells:,} cells ({megabytes(tree.cells):.2f} MB), {self.total:,.0f} rows"
        ]
        for clique in sorted(tree.cliques, key=self.domain.size, reverse=True):
            lines.append(f"  {' × '.join(clique)}: {self.domain.size(clique):,} cells")
        return "\n".join(lines)

    def save(self, folder: Path) -> None:
        """The cliques and their tables."""
        tree = self.tree
        facts = {"total": self.total, "cliques": [*map(list, tree.cliques)], "parents": list(tree.parents)}
        arrays = {f"clique{i}": t for i, t in enumerate(self.tables)}
        self._write(folder, facts, arrays)

    @classmethod
    def load(cls, saved: Saved) -> "GraphicalModel":
        """The same tree, with the same order and parents."""
        cliques = [tuple(c) for c in saved.facts["cliques"]]
        tree = JunctionTree.restore(saved.domain, cliques, saved.facts["parents"])
        tables = [saved.arrays[f"clique{i}"] for i in range(len(cliques))]
        model = cls(tree, tables, saved.facts["total"])
        # What sums to 1 is taken as it was saved: divided by a sum that is off in its last bit, answers would differ.
        both = zip(tables, model.tables, strict=True)
        model.tables = [as_saved if abs(as_saved.sum() - 1) <= _NEAR else own for as_saved, own in both]
        return model
