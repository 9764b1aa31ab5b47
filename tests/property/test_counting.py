"""The counter against brute force, on awkward domains and marginals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.counting.cells import MAX_CELLS, Cells
from openprior.counting.local import RowCounter, count_batches, count_table
from openprior.counting.passes import Plan
from openprior.errors import MarginalTooLarge, WorkloadError
from openprior.questions.workload import all_marginals, closure
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for


def brute(table: Table, marginal: tuple[str, ...], weights: np.ndarray | None = None) -> np.ndarray:
    sizes = [table.domain[a] for a in marginal]
    cells = np.ravel_multi_index([table.column(a).astype(np.intp) for a in marginal], sizes)
    return np.bincount(cells, weights=weights, minlength=int(np.prod(sizes)))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[tuple[str, ...]]]:
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 2, 3, 4, 5, 7, 12, 300]), min_size=1, max_size=7))
    rows = draw(st.integers(1, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    domain = Domain({f"c{i}": s for i, s in enumerate(sizes)})
    table = Table(domain, tuple(rng.integers(0, s, rows).astype(dtype_for(s)) for s in sizes))
    subsets = st.lists(st.sampled_from(domain.attributes), min_size=1, max_size=4, unique=True)
    picked = draw(st.lists(subsets, min_size=1, max_size=12))
    order = {a: i for i, a in enumerate(domain)}
    marginals = {tuple(sorted(m, key=order.__getitem__)) for m in picked}
    return table, [m for m in marginals if domain.size(m) <= 50_000] or [domain.attributes[:1]]


@settings(max_examples=150, deadline=None)
@given(tables())
def test_counts_and_weighted_counts_are_brute_force(case: tuple[Table, list[tuple[str, ...]]]) -> None:
    table, marginals = case
    counts = count_table(table, marginals)
    weights = np.random.default_rng(0).random(table.n)
    counter = RowCounter(table, marginals)
    answers = counter.cells.split(counter.answers(weights))
    some = np.flatnonzero(weights < 0.4)
    part = counter.cells.split(counter.answers(weights[some], some))
    for marginal in marginals:
        assert (counts[marginal] == brute(table, marginal)).all()
        np.testing.assert_allclose(answers[marginal], brute(table, marginal, weights), atol=1e-12)
        np.testing.assert_allclose(
            part[marginal], brute(table.take(some), marginal, weights[some]), atol=1e-12
        )


@settings(max_examples=100, deadline=None)
@given(tables(), st.sampled_from([1, 100, 1_000_000]))
def test_moments_of_several_answers_are_those_of_each(
    case: tuple[Table, list[tuple[str, ...]]], planned: int
) -> None:
    table, marginals = case
    rng = np.random.default_rng(table.n)
    rows, weights = rng.integers(0, table.n, (5, 70)), rng.random((5, 70))
    counter = RowCounter(table, Plan(Cells(table.domain, marginals), planned))
    each = np.array([counter.answers(w, r) for w, r in zip(weights, rows, strict=True)])
    sums, squares = counter.moments(weights, rows)
    np.testing.assert_allclose(sums, each.sum(0), atol=1e-12)
    np.testing.assert_allclose(squares, (each**2).sum(0), atol=1e-12)


@pytest.mark.parametrize("rows", [10, 5_000, 200_000])
def test_fused_groups_and_threads_change_nothing(rows: int) -> None:
    rng = np.random.default_rng(rows)
    sizes = [2, 3, 2, 4, 2, 5, 3, 2, 12, 40]
    domain = Domain({f"c{i}": s for i, s in enumerate(sizes)})
    table = Table(domain, tuple(rng.integers(0, s, rows).astype(np.uint8) for s in sizes))
    marginals = closure(all_marginals(3).on(domain).marginals)
    counts = count_table(table, marginals)
    for marginal in marginals:
        assert (counts[marginal] == brute(table, marginal)).all()


def test_batches_stream_in_any_sizes_and_empty_ones_are_fine() -> None:
    rng = np.random.default_rng(3)
    domain = Domain({"a": 3, "b": 4})
    columns = tuple(rng.integers(0, s, 1000).astype(np.uint8) for s in domain.shape)
    cuts = [0, 0, 1, 400, 400, 1000]
    pieces = [tuple(c[i:j] for c in columns) for i, j in itertools.pairwise(cuts)]
    flat, rows = count_batches(pieces, lambda piece: piece, Cells(domain, [("a", "b")]))
    assert rows == 1000
    assert (flat == brute(Table(domain, columns), ("a", "b"))).all()


def test_an_error_in_a_worker_stops_the_count_and_is_raised() -> None:
    def fail(batch: object) -> tuple[np.ndarray, ...]:
        raise WorkloadError("no")

    with pytest.raises(WorkloadError, match="no"):
        count_batches(iter([1, 2, 3]), fail, Cells(Domain({"a": 2}), [("a",)]))


def test_a_marginal_too_large_names_itself_its_cells_and_the_limit() -> None:
    domain = Domain({"zip": 100_000, "day": 1000, "sex": 2})
    with pytest.raises(
        MarginalTooLarge, match=r"zip × day has 100,000,000 cells, more than the limit of"
    ) as error:
        Cells(domain, [("zip", "day")])
    assert f"{MAX_CELLS:,}" in str(error.value)


def test_cells_locate_and_split_agree() -> None:
    cells = Cells(Domain({"a": 2, "b": 3, "c": 2}), [("a",), ("b", "c"), ("a", "c")])
    flat = np.arange(len(cells))
    for number in flat:
        marginal, cell = cells.locate(int(number))
        assert cells.split(flat)[marginal][cell] == number
        assert cells.offset(marginal) + cell == number
