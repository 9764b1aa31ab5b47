"""A distribution for each of many disjoint groups: weighted rows, a number of rows, and the group's key values.

Together they are one model of the whole table: keys are columns like any other. Rows are drawn group by group, just as
many as the group has, and chosen so that the group's own marginals come close to its distribution.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter, workers
from openprior.models.base import Flags, Model, Saved
from openprior.models.parts import DrawPart, split_rows
from openprior.models.rounded_rows import rounded_rows
from openprior.models.rounding import round_to_counts
from openprior.models.rows import choose_rows
from openprior.progress import phase
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Group", "GroupedModel"]

Floats = NDArray[np.float64]


T = TypeVar("T")


def _effort(rows: int) -> float:
    """Cells looked up while so many rows of a group are chosen."""
    return 2e4 * rows + 1e7


@dataclass(frozen=True, eq=False)
class Group:
    """One group: the codes of its keys, its rows without them, weights that sum to 1, and how many rows it has."""

    codes: tuple[int, ...]
    rows: Table
    weights: Floats
    total: float


class GroupedModel(Model):
    """The groups as one model."""

    kind: ClassVar[str] = "grouped"

    def __init__(
        self, domain: Domain, keys: Marginal, groups: Sequence[Group], marginals: Sequence[Marginal]
    ) -> None:
        """`marginals` (without keys) are those that the rows of every group should meet."""
        self.groups = [g for g in groups if g.total > 0]
        if not self.groups:
            raise ValueError("a grouped model needs a group with rows")
        super().__init__(domain, sum(g.total for g in self.groups))
        self.keys, self.marginals = keys, tuple(marginals)

    @cached_property
    def _joined(self) -> tuple[Table, Floats]:
        """All groups' rows with their keys, and their weights in rows."""
        rows = self._beside(self._with_keys(g, g.rows) for g in self.groups)
        return rows, np.concatenate([g.weights * (g.total / g.weights.sum()) for g in self.groups])

    def _with_keys(self, group: Group, rows: Table) -> list[NDArray[Any]]:
        codes = dict(zip(self.keys, group.codes, strict=True))
        return [np.full(rows.n, codes[a]) if a in codes else rows.column(a) for a in self.domain]

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Weighted counts of all groups' rows."""
        rows, weights = self._joined
        counter = RowCounter(rows, [canonical(m, self.domain) for m in marginals])
        return counter.cells.split(counter.answers(weights))

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """Every group's own number of rows (scaled if another number is asked for), with its keys; shuffled."""

        def draw(group: Group, count: int, stream: np.random.Generator) -> list[NDArray[Any]]:
            answers = RowCounter(group.rows, self.marginals)
            targets = answers.cells.split(answers.answers(group.weights))
            effort = _effort(count)
            chosen = choose_rows(group.rows, group.weights, count, targets, stream, effort=effort)
            return self._with_keys(group, chosen)

        table = self._beside(self._by_group(rows, rng, draw))
        return table.take(rng.permutation(table.n))

    def sample_parts(self, rows: int, parts: int, rng: np.random.Generator) -> Sequence[DrawPart]:
        """Rounded once, group by group, then split: every part has rows of all groups."""

        def draw(
            group: Group, count: int, stream: np.random.Generator
        ) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
            effort = _effort(min(count, group.rows.n))
            table, counts = rounded_rows(
                group.rows, group.weights, count, self.marginals, stream, effort=effort
            )
            return self._with_keys(group, table), counts

        tables, counts = zip(*self._by_group(rows, rng, draw), strict=True)
        return split_rows(self._beside(tables), np.concatenate(counts), parts, rng)

    def _by_group(
        self, rows: int, rng: np.random.Generator, draw: Callable[[Group, int, np.random.Generator], T]
    ) -> list[T]:
        """What is drawn of each group that has rows, on all cores."""
        counts = round_to_counts(np.array([g.total for g in self.groups]), rows, rng)
        streams = rng.spawn(len(self.groups))
        filled = [i for i in range(len(self.groups)) if counts[i] > 0]
        with (
            phase("drawing rows, group by group", len(filled)) as work,
            ThreadPoolExecutor(workers()) as pool,
        ):

            def one(i: int) -> T:
                drawn = draw(self.groups[i], int(counts[i]), streams[i])
                work.advance()
                return drawn

            return list(pool.map(one, filled))

    def _beside(self, parts: Iterable[list[NDArray[Any]]]) -> Table:
        """The columns of all groups, one below the other."""
        return Table(self.domain, tuple(np.concatenate(c) for c in zip(*parts, strict=True)))

    can_restrict: ClassVar[bool] = True

    def restricted(self, allowed: Mapping[str, Flags]) -> "GroupedModel | None":
        """The groups whose keys are allowed, and in each the rows that are."""
        inside = {a: marked for a, marked in allowed.items() if a not in self.keys}
        groups = []
        for group in self.groups:
            keys = zip(self.keys, group.codes, strict=True)
            if all(allowed[key][code] for key, code in keys if key in allowed):
                kept = np.where(group.rows.inside(inside), group.weights, 0.0)
                total = group.total * float(kept.sum() / group.weights.sum())
                groups.append(Group(group.codes, group.rows, kept, total))
        if not any(g.total > 0 for g in groups):
            return None
        return GroupedModel(self.domain, self.keys, groups, self.marginals)

    def save(self, folder: Path) -> None:
        """Rows, weights, keys and totals."""
        first = self.groups[0].rows.domain
        columns = {
            f"column{i}": np.concatenate([g.rows.columns[i] for g in self.groups]) for i in range(len(first))
        }
        arrays: dict[str, NDArray[Any]] = {
            "weights": np.concatenate([g.weights for g in self.groups]),
            "sizes": np.array([g.rows.n for g in self.groups]),
            "codes": np.array([g.codes for g in self.groups], dtype=np.int64).reshape(
                len(self.groups), len(self.keys)
            ),
            "totals": np.array([g.total for g in self.groups]),
            **columns,
        }
        facts = {"keys": list(self.keys), "marginals": [list(m) for m in self.marginals]}
        self._write(folder, facts, arrays)

    @classmethod
    def load(cls, saved: Saved) -> "GroupedModel":
        """Group after group."""
        domain, arrays, keys = saved.domain, saved.arrays, tuple(saved.facts["keys"])
        inside = domain.project([a for a in domain if a not in keys])
        groups = []
        for i, end in enumerate(np.cumsum(arrays["sizes"])):
            part = slice(int(end - arrays["sizes"][i]), int(end))
            rows = Table(inside, tuple(arrays[f"column{c}"][part] for c in range(len(inside))))
            codes = tuple(int(c) for c in arrays["codes"][i])
            groups.append(Group(codes, rows, arrays["weights"][part], float(arrays["totals"][i])))
        return cls(domain, keys, groups, [tuple(m) for m in saved.facts["marginals"]])
