"""The compiled loops of the search for rows against brute force."""

import numpy as np
import pytest

import openprior.models.row_search as row_search
from openprior.counting.cells import Cells, cell_numbers
from openprior.counting.local import count_table
from openprior.models.exchanges import exchange, judge, offer, promises
from openprior.questions.workload import all_marginals
from openprior.tables.table import Table
from tests.conftest import random_table

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4}


class Case:
    """Distinct particles, some of them rows, and targets in marginals of one to three columns."""

    def __init__(self, seed: int, rows: int = 60) -> None:
        rng = np.random.default_rng(seed)
        self.table: Table = random_table(SIZES, 150, seed).unique()[0]
        marginals = [m for k in (1, 2, 3) for m in all_marginals(k).on(self.table.domain).marginals]
        self.cells = Cells(self.table.domain, marginals)
        self.nodes = row_search._tree(self.cells, range(len(marginals)))
        self.codes = np.stack(self.table.columns, axis=1).astype(np.uint32)
        self.counts = np.bincount(rng.integers(0, self.table.n, rows), minlength=self.table.n)
        self.goal = rng.gamma(0.5, rows / 10, len(self.cells))

    def excess(self, counts: np.ndarray) -> np.ndarray:
        rows = self.table.take(np.repeat(np.arange(self.table.n), counts))
        return np.concatenate(list(count_table(rows, self.cells.marginals).values())) - self.goal

    def discrepancy(self, *moves: tuple[int, int]) -> float:
        """With a particle so many rows more, for each (particle, more)."""
        counts = self.counts.copy()
        for particle, more in moves:
            counts[particle] += more
        return float(np.abs(self.excess(counts)).sum())


@pytest.mark.parametrize("seed", range(3))
def test_promises_and_judgements_are_what_the_discrepancy_changes_by(seed: int) -> None:
    case = Case(seed)
    excess = case.excess(case.counts).astype(np.float32)
    held = np.flatnonzero(case.counts)[:20]
    join, leave = np.zeros(len(held), np.float32), np.zeros(len(held), np.float32)
    promises(case.nodes, case.codes, held, excess, np.ones_like(excess), join, leave)
    before = case.discrepancy()
    np.testing.assert_allclose(join, [case.discrepancy((p, 1)) - before for p in held], atol=1e-3)
    np.testing.assert_allclose(leave, [case.discrepancy((p, -1)) - before for p in held], atol=1e-3)
    pairs = np.stack([held, np.random.default_rng(seed).integers(0, case.table.n, len(held))], axis=1)
    change = np.zeros(len(pairs), np.float32)
    judge(case.nodes, case.codes, pairs, excess, change)
    np.testing.assert_allclose(
        change, [case.discrepancy((q, -1), (p, 1)) - before for q, p in pairs], atol=1e-3
    )


def test_a_large_cell_weighs_less_in_promises() -> None:
    case = Case(0)
    excess, ease = np.full(len(case.cells), 0.3, np.float32), np.full(len(case.cells), 0.25, np.float32)
    join, leave = np.zeros(1, np.float32), np.zeros(1, np.float32)
    promises(case.nodes, case.codes, np.array([5]), excess, ease, join, leave)
    marginals = len(case.cells.marginals)
    assert join[0] == pytest.approx(0.25 * 1.6 * marginals, rel=1e-5)
    assert leave[0] == pytest.approx(0.25 * 0.4 * marginals, rel=1e-5)


def test_offers_stay_in_the_segment_and_give_no_particle_twice() -> None:
    case = Case(1)
    rng = np.random.default_rng(0)
    rows = rng.permutation(case.table.n)
    ends = np.array([30, 31, 70, len(rows)])
    join, leave = (rng.normal(-1, 1, len(rows)).astype(np.float32) for _ in range(2))
    segment = dict(zip(rows.tolist(), np.searchsorted(ends, np.arange(len(rows)), side="right"), strict=True))
    pairs = np.empty((len(rows), 2), np.int64)
    overlap = row_search._overlap(case.cells)
    found = pairs[: offer(case.codes, rows, ends, overlap, case.counts, join, leave, pairs)]
    assert 10 < len(found) <= np.count_nonzero(case.counts)
    assert (case.counts[found[:, 0]] > 0).all()
    assert len(set(found[:, 1].tolist())) == len(found)
    assert all(segment[q] == segment[p] and q != p for q, p in found.tolist())


def test_no_exchange_raises_the_discrepancy_and_the_excess_stays_current() -> None:
    case = Case(2, rows=200)
    rng = np.random.default_rng(0)
    kept = case.excess(case.counts).astype(np.float32)
    before, total = case.discrepancy(), 0
    for _ in range(20):
        pairs = rng.integers(0, case.table.n, (200, 2))
        made, gained = exchange(case.nodes, case.codes, pairs, case.counts, kept)
        total += made
        after = case.discrepancy()
        assert gained >= 0
        assert before - after == pytest.approx(gained, abs=1e-2)
        assert case.counts.min() >= 0
        assert case.counts.sum() == 200
        np.testing.assert_allclose(kept, case.excess(case.counts), atol=1e-3)
        before = after
    assert total > 50


def test_the_tree_numbers_every_marginal_as_cells_do() -> None:
    case = Case(3)
    for which in (range(len(case.cells.marginals)), [4, 9, 1]):
        nodes = row_search._tree(case.cells, which)
        assert sorted(nodes[nodes[:, 3] >= 0, 3]) == sorted(case.cells.offsets[i] for i in which)
        for i in which:
            excess = np.zeros(len(case.cells), np.float32)
            marginal = case.cells.marginals[i]
            for p in range(10):
                excess[case.cells.offsets[i] + cell_numbers(case.table, marginal)[p]] = -1
                join, leave = np.zeros(1, np.float32), np.zeros(1, np.float32)
                promises(nodes, case.codes, np.array([p]), excess, np.ones_like(excess), join, leave)
                assert join[0] == len(which) - 2
                excess[:] = 0


def test_the_overlap_is_the_share_of_marginals_within_so_many_columns() -> None:
    case = Case(4)
    expected = [0, 1, 3, 7, 14]  # of 4 columns: subsets of one to three among 0 to 4 of them
    np.testing.assert_allclose(row_search._overlap(case.cells), np.array(expected) / 14, rtol=1e-6)
