"""What to count, and how to count it with fewer passes.

`Plan` decides which tables are really counted. Small attributes are fused into groups (a group's
code is the mixed-radix number of its attributes' codes); one table over three groups then holds every marginal
that lies inside them, and is summed down to those afterwards. With many small attributes this replaces ten
passes over the rows by one; when tables would outgrow the rows, the plan counts the marginals as they are.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells

__all__ = ["Bundle", "Plan"]


Ints = NDArray[np.int64]
Groups = list[tuple[int, ...]]

_FUSED_CELLS = 1 << 22
"""Fused tables may not take more than 32 MB together (every thread has its own)."""
_BUNDLE_CELLS = 1 << 18
"""Tables counted together keep to two megabytes, about what a core's caches hold."""


@dataclass(frozen=True)
class Bundle:
    """Tables that are counted together because they share their leading columns, and how they are summed down.

    The first five are the arguments of `tally.tally`, the next three those of `tally.distribute`; the
    tables and then the intermediate sums lie one after the other in a scratch vector.
    """

    prefix: Ints
    strides: Ints
    lasts: Ints
    sizes: Ints
    starts: Ints
    steps: Ints
    shapes: Ints
    sum_strides: Ints
    table_cells: int
    scratch_cells: int

    @property
    def copies(self) -> NDArray[np.bool_]:
        """Which steps copy a counted table as it is to the answers."""
        source, cells, to_out, _, target_cells, first, axes = self.steps.T
        whole = (source < self.table_cells) & (to_out == 1) & (cells == target_cells) & (axes == 1)
        copied: NDArray[np.bool_] = whole & ((self.sum_strides[first] == 1) | (cells == 1))
        return copied


class Plan:
    """Which tables to count for these marginals over about so many rows."""

    def __init__(self, cells: Cells, rows: int) -> None:
        self.cells = cells
        positions = {a: i for i, a in enumerate(cells.domain.attributes)}
        self._sizes = cells.domain.shape
        marginals = tuple(tuple(positions[a] for a in m) for m in cells.marginals)
        laid_out = _laid_out(self._sizes, marginals, 1 << max(rows, 1).bit_length() - 1)
        self.groups = laid_out.groups
        """The fused columns: attribute positions, in C order of the group's code."""
        self.bundles = laid_out.bundles
        largest = max(math.prod(self._sizes[i] for i in g) for g in self.groups)
        self.dtype = np.dtype(np.uint8 if largest <= 256 else np.uint16 if largest <= 65536 else np.uint32)

    def fuse(
        self, columns: Sequence[NDArray[np.unsignedinteger]], start: int, stop: int
    ) -> NDArray[np.unsignedinteger]:
        """The block of group codes for some rows."""
        block = np.empty((len(self.groups), stop - start), self.dtype)
        for row, group in zip(block, self.groups, strict=True):
            row[:] = columns[group[0]][start:stop]
            for i in group[1:]:
                np.multiply(row, self.dtype.type(self._sizes[i]), out=row)
                np.add(row, columns[i][start:stop], out=row, casting="unsafe")
        return block


@lru_cache(maxsize=64)
def _laid_out(sizes: tuple[int, ...], marginals: tuple[tuple[int, ...], ...], rows: int) -> "_Layout":
    """Kept, because a run counts the same marginals several times."""
    return _Layout(sizes, marginals, rows)


class _Layout:
    """Groups and bundles for marginals, as positions, of columns of these sizes."""

    def __init__(self, sizes: tuple[int, ...], marginals: tuple[tuple[int, ...], ...], rows: int) -> None:
        self._sizes, self._marginals = sizes, marginals
        self._ends = [0, *itertools.accumulate(self._product(m) for m in marginals)]
        used = sorted({i for m in marginals for i in m})
        self.groups = self._cheapest(used, rows)
        self.bundles = self._bundles()

    def _cheapest(self, used: list[int], rows: int) -> Groups:
        """Groups of ever more attributes are tried until they clearly cost more than the best so far."""
        best = found = _pack(used, self._sizes, 1)
        least = self._cost(best, rows)
        for most in (6, 12, 16, 24, 32, 48, 64):
            groups = _pack(used, self._sizes, most)
            if groups == found:
                continue
            found, cost = groups, self._cost(groups, rows)
            if cost > 1.5 * least:
                break
            if cost < least:
                best, least = groups, cost
        return best

    def _product(self, attributes: Iterable[int]) -> int:
        return math.prod(self._sizes[i] for i in attributes)

    def _tables(self, groups: Groups) -> dict[tuple[int, ...], list[int]]:
        """The tables to count, as tuples of groups, each with the marginals that are summed out of it.

        A marginal whose groups lie inside a larger table already there is summed out of that one.
        """
        home = {i: g for g, group in enumerate(groups) for i in group}
        sets = [frozenset(home[i] for i in m) for m in self._marginals]
        tables: dict[frozenset[int], list[int]] = {}
        containing: dict[int, list[frozenset[int]]] = {}
        parent: dict[frozenset[int], frozenset[int]] = {}
        for s in sorted(set(sets), key=len, reverse=True):
            rarest = min((containing.get(g, []) for g in s), key=len)
            parent[s] = next((t for t in rarest if s <= t), s)
            if parent[s] is s:
                tables[s] = []
                for g in s:
                    containing.setdefault(g, []).append(s)
        for marginal, s in enumerate(sets):
            tables[parent[s]].append(marginal)
        return {tuple(sorted(t)): members for t, members in tables.items()}

    def _cost(self, groups: Groups, rows: int) -> float:
        """Seconds, roughly: 1 ns per row and table, 2 ns per cell and sum of the first level (measured)."""
        tables = self._tables(groups)
        size = [self._product(g) for g in groups]
        cells = {t: math.prod(size[g] for g in t) for t in tables}
        fused = any(len(g) > 1 for g in groups)
        if fused and (max(cells.values()) > max(rows, 1 << 12) or sum(cells.values()) > _FUSED_CELLS):
            return math.inf
        first_sums = {t: min(len(groups[g]) for g in t) if len(m) > 1 else 1 for t, m in tables.items()}
        return sum(1.0 * rows + 2.0 * cells[t] * (1 + first_sums[t]) for t in tables)

    def _bundles(self) -> tuple[Bundle, ...]:
        families: dict[tuple[int, ...], list[tuple[tuple[int, ...], list[int]]]] = {}
        for table, members in self._tables(self.groups).items():
            families.setdefault(table[:-1], []).append((table, members))
        bundles = []
        for family in families.values():
            cells = 0
            batch: list[tuple[tuple[int, ...], list[int]]] = []
            for table, members in family:
                size = math.prod(self._product(self.groups[g]) for g in table)
                if batch and (cells + size > _BUNDLE_CELLS or len(batch) == 16):
                    bundles.append(self._bundle(batch))
                    cells, batch = 0, []
                cells += size
                batch.append((table, members))
            bundles.append(self._bundle(batch))
        return tuple(bundles)

    def _bundle(self, tables: list[tuple[tuple[int, ...], list[int]]]) -> Bundle:
        size = [self._product(g) for g in self.groups]
        prefix = tables[0][0][:-1]
        cells = [math.prod(size[g] for g in t) for t, _ in tables]
        starts = [0, *itertools.accumulate(cells)]
        sums = _Sums(starts[-1])
        for (table, members), start in zip(tables, starts, strict=False):
            self._sum_down(sums, start, [self.groups[g] for g in table], (), members)
        return Bundle(
            prefix=_ints(prefix),
            strides=_ints(_strides([size[g] for g in prefix])),
            lasts=_ints([t[-1] for t, _ in tables]),
            sizes=_ints([size[t[-1]] for t, _ in tables]),
            starts=_ints(starts[:-1]),
            steps=_ints(sums.steps).reshape(-1, 7),
            shapes=_ints(sums.shapes),
            sum_strides=_ints(sums.strides),
            table_cells=starts[-1],
            scratch_cells=sums.end,
        )

    def _sum_down(
        self,
        sums: "_Sums",
        source: int,
        groups: list[tuple[int, ...]],
        settled: tuple[int, ...],
        members: list[int],
    ) -> None:
        """Sum a table down to its marginals, one group at a time, so that the work shrinks on the way."""
        if not groups or len(members) == 1:
            attributes = (*settled, *itertools.chain(*groups))
            for marginal in members:
                offset, end = self._ends[marginal : marginal + 2]
                kept = self._marginals[marginal]
                sums.add(self._sizes, source, attributes, kept, 1, offset, end - offset)
            return
        kept_in = [{tuple(i for i in g if i in self._marginals[m]) for m in members} for g in groups]
        pick = min(range(len(groups)), key=lambda g: len(kept_in[g]))
        group, rest = groups[pick], groups[:pick] + groups[pick + 1 :]
        before = (*settled, *itertools.chain(*groups))
        for kept in kept_in[pick]:
            inside = [m for m in members if tuple(i for i in group if i in self._marginals[m]) == kept]
            after = (*settled, *kept, *itertools.chain(*rest))
            if before == after:
                self._sum_down(sums, source, rest, (*settled, *kept), inside)
                continue
            target = sums.add(self._sizes, source, before, after, 0, sums.end, self._product(after))
            self._sum_down(sums, target, rest, (*settled, *kept), inside)


class _Sums:
    """Collects the steps of `tally.distribute`."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.steps: list[list[int]] = []
        self.shapes: list[int] = []
        self.strides: list[int] = []

    def add(
        self,
        sizes: Sequence[int],
        source: int,
        attributes: Sequence[int],
        kept: Sequence[int],
        to_out: int,
        target: int,
        target_cells: int,
    ) -> int:
        """One step: sum the table over `attributes` down to `kept`; returns where its result lies."""
        stride_of = dict(zip(kept, _strides([sizes[i] for i in kept]), strict=True))
        axes: list[tuple[int, int]] = []
        for i in attributes:
            size, stride = sizes[i], stride_of.get(i, 0)
            if size == 1:
                continue
            if axes and axes[-1][1] == stride * size:
                axes[-1] = (axes[-1][0] * size, stride)
            else:
                axes.append((size, stride))
        axes = axes or [(1, 0)]
        cells = math.prod(sizes[i] for i in attributes)
        self.steps.append([source, cells, to_out, target, target_cells, len(self.shapes), len(axes)])
        self.shapes += [size for size, _ in axes]
        self.strides += [stride for _, stride in axes]
        if not to_out:
            self.end += target_cells
        return target


def _ints(values: Sequence[int] | list[list[int]]) -> Ints:
    return np.array(values, dtype=np.int64)


def _strides(sizes: Sequence[int]) -> list[int]:
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        strides[i] = strides[i + 1] * sizes[i + 1]
    return strides


def _pack(used: list[int], sizes: Sequence[int], most: int) -> Groups:
    """Groups of attributes whose sizes multiply to at most so many: first fit, largest first."""
    groups: list[list[int]] = []
    product: list[int] = []
    for i in sorted(used, key=lambda i: -sizes[i]):
        fit = next((g for g, p in enumerate(product) if p * sizes[i] <= most), None)
        if fit is None:
            groups.append([i])
            product.append(sizes[i])
        else:
            groups[fit].append(i)
            product[fit] *= sizes[i]
    return sorted(tuple(sorted(g)) for g in groups)
