"""The measures against plain loops over rows, on small random tables of every awkward shape."""

import importlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openprior as op
from openprior.counting.local import count_table
from openprior.evaluation.associations import associations_of
from openprior.evaluation.copies import copies_of, number_rows
from openprior.evaluation.metrics import errors_of
from openprior.evaluation.nist import nist_score, total_variation
from openprior.evaluation.propensity import auc
from openprior.questions.workload import Workload
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

Pair = tuple[Table, Table]
Rows = list[tuple[int, ...]]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 7, 300]), min_size=1, max_size=5))
    domain = Domain({f"c{i}": s for i, s in enumerate(sizes)})
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = []
    for _ in range(2):
        n = draw(st.integers(1, 40))
        skewed = draw(st.booleans())
        tables.append(
            Table(domain, tuple(rng.integers(0, max(1, s // 3) if skewed else s, n) for s in sizes))
        )
    return tables[0], tables[1]


def rows_of(table: Table, names: tuple[str, ...] | None = None) -> Rows:
    columns = [table.column(a).tolist() for a in names or table.domain.attributes]
    return list(zip(*columns, strict=True))


def l1(released: Table, private: Table, marginal: tuple[str, ...]) -> float:
    p, q = Counter(rows_of(private, marginal)), Counter(rows_of(released, marginal))
    return sum(abs(p[cell] / private.n - q[cell] / released.n) for cell in {*p, *q})


@pytest.mark.parametrize(
    ("dense", "at_once"), [(1 << 20, 1 << 22), (10, 30), (0, 1)], ids=["cells", "both ways", "rows"]
)
def test_total_variation_and_nist_score(dense: int, at_once: int) -> None:
    nist = importlib.import_module("openprior.evaluation.nist")

    @settings(max_examples=50, deadline=None)
    @given(pairs())
    def check(pair: Pair) -> None:
        released, private = pair
        found = total_variation(released, private)
        for k in range(1, 5):
            order = min(k, len(private.domain))
            marginals = list(itertools.combinations(private.domain.attributes, order))
            naive = [l1(released, private, m) for m in marginals]
            score = 1000 * (1 - sum(naive) / len(naive) / 2)
            assert nist_score(released, private, k=k) == pytest.approx(score, abs=1e-9)
            if k in found:
                assert found[k].mean == pytest.approx(sum(naive) / len(naive) / 2)
                assert found[k].largest == pytest.approx(max(naive) / 2)
                assert l1(released, private, found[k].worst) == pytest.approx(max(naive))
                assert found[k].marginals == found[k].possible == len(marginals)
            else:
                assert k > min(3, len(private.domain))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nist, "_DENSE", dense)
        patch.setattr(nist, "_AT_ONCE", at_once)
        check()


def naive_v(rows: Rows) -> float:
    n, cells = len(rows), Counter(rows)
    left, right = Counter(a for a, _ in rows), Counter(b for _, b in rows)
    r, c = len(left), len(right)
    if n < 3 or r < 2 or c < 2:
        return 0.0
    chi = sum(
        (cells[a, b] - left[a] * right[b] / n) ** 2 / (left[a] * right[b] / n) for a in left for b in right
    )
    phi = max(0.0, chi / n - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return min(1.0, math.sqrt(phi / room)) if room > 1e-9 else 0.0


def naive_r(rows: Rows, first: int, second: int) -> float:
    kept = np.array([(a, b) for a, b in rows if a < first and b < second], float).reshape(-1, 2)
    if len(kept) < 2 or (np.ptp(kept, axis=0) == 0).any():
        return 0.0
    return float(np.corrcoef(kept.T)[0, 1])


@pytest.mark.parametrize("dense", [1 << 20, 0], ids=["cells", "rows"])
def test_associations(dense: int) -> None:
    module = importlib.import_module("openprior.evaluation.associations")

    @settings(max_examples=50, deadline=None)
    @given(pairs(), st.lists(st.sampled_from(["integer", "missing", "categorical"]), min_size=5, max_size=5))
    def check(pair: Pair, kinds: list[str]) -> None:
        released, private = pair
        columns, counts = [], {}
        for (name, size), kind in zip(private.domain.sizes().items(), kinds, strict=False):
            missing = kind == "missing" and size > 1
            if kind == "categorical":
                columns.append(Categorical(name=name, values=tuple(map(str, range(size)))))
            else:
                columns.append(Integer(name=name, low=0, high=size - 1 - missing, missing=missing))
                counts[name] = size - missing
        found = associations_of(released, private, op.Schema(tuple(columns)))
        names = private.domain.attributes
        assert found.correlation.names == tuple(counts)
        for table, v, r in (
            (private, found.cramers_v.private, found.correlation.private),
            (released, found.cramers_v.released, found.correlation.released),
        ):
            for i, j in itertools.combinations(range(len(names)), 2):
                rows = rows_of(table, (names[i], names[j]))
                assert v[i, j] == v[j, i] == pytest.approx(naive_v(rows), abs=1e-6)
            for (i, a), (j, b) in itertools.combinations(enumerate(counts), 2):
                rows = rows_of(table, (a, b))
                assert r[i, j] == r[j, i] == pytest.approx(naive_r(rows, counts[a], counts[b]), abs=1e-9)
        gaps = [
            abs(found.cramers_v.difference[i, j]) for i, j in itertools.combinations(range(len(names)), 2)
        ]
        if gaps:
            assert found.cramers_v.mean == pytest.approx(sum(gaps) / len(gaps))
            assert found.cramers_v.largest == max(gaps)
        else:
            assert math.isnan(found.cramers_v.mean)
            assert found.cramers_v.worst is None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_DENSE", dense)
        check()


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_copies_and_row_numbers(pair: Pair) -> None:
    released, private = pair
    ours, theirs = rows_of(private), rows_of(released)
    numbers = np.concatenate(number_rows([private, released])).tolist()
    assert len(set(zip(numbers, ours + theirs, strict=True))) == len(set(numbers)) == len({*ours, *theirs})
    unique = [row for row, count in Counter(ours).items() if count == 1]
    found = copies_of(released, private)
    assert found.unique == len(unique)
    assert found.matched == sum(row in set(theirs) for row in unique)
    assert 0 <= found.chance_rate <= 1
    assert 0 <= found.released_rate <= 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_auc(rows: list[tuple[int, bool]]) -> None:
    high, low = [s for s, positive in rows if positive], [s for s, positive in rows if not positive]
    found = auc(np.array([s for s, _ in rows], float), np.array([p for _, p in rows]))
    if high and low:
        wins = sum((a > b) + (a == b) / 2 for a in high for b in low)
        assert found == pytest.approx(wins / (len(high) * len(low)))
    else:
        assert math.isnan(found)


@settings(max_examples=80, deadline=None)
@given(pairs(), st.data())
def test_workload_errors(pair: Pair, data: st.DataObject) -> None:
    released, private = pair
    names = private.domain.attributes
    every = [
        m for k in range(1, 4) for m in itertools.combinations(names, k) if private.domain.size(m) < 5000
    ]
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
    weights = data.draw(st.lists(st.floats(0.1, 9), min_size=len(chosen), max_size=len(chosen)))
    work = Workload(chosen, weights).on(private.domain)
    guess = {m: 3.0 * v for m, v in count_table(released, chosen).items()}  # on any scale
    found = errors_of(work, count_table(private, chosen), guess, "synthetic")
    gaps: list[float] = []
    for marginal in chosen:
        p, q = Counter(rows_of(private, marginal)), Counter(rows_of(released, marginal))
        cells = itertools.product(*(range(private.domain[a]) for a in marginal))
        own = [abs(p[cell] / private.n - q[cell] / released.n) for cell in cells]
        assert found.per_marginal[marginal] == pytest.approx(sum(own))
        gaps += own
    weighted = sum(w * l1(released, private, m) for m, w in zip(chosen, weights, strict=True)) / sum(weights)
    assert found.workload_error == pytest.approx(weighted)
    assert found.max_error == pytest.approx(max(gaps))
    assert found.mean_error == pytest.approx(sum(gaps) / len(gaps))
    assert found.rmse == pytest.approx(math.sqrt(sum(g * g for g in gaps) / len(gaps)))
    assert found.worst[0][1] == max(found.per_marginal.values())
