"""Rare values: which are merged, what is measured then, and that all values come back with the same sums."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openprior as op
from openprior.counting.local import count_table
from openprior.methods.shared.compression import Compression
from openprior.methods.shared.growing import GrowingModel
from openprior.methods.shared.rare_values import group_rare, shares_within
from openprior.models.graphical.junction import JunctionTree
from openprior.models.graphical.loss import by_precision, estimate_total
from openprior.models.graphical.marginalisation import layout as axes_of
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.fake import FakeCurator
from openprior.privacy.measurement import Measurement, Sums
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from openprior.tables.table import Table
from tests.conftest import arrow, quiet

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
GROUPS = {"a": (0, 1, 1), "b": (0, 1, 0, 2)}


def measured(column: str, counts: Any, sigma: float = 1.0) -> Measurement:
    return Measurement.of((column,), np.array(counts, dtype=np.float64), sigma)


# Which values are merged.


def test_nothing_rare_nothing_merged() -> None:
    assert group_rare(np.array([3.0, 9.0, 3.1]), 1.0) == (0, 1, 2)
    assert group_rare(np.array([3.0, 9.0, 3.1]), 1.0, ordered=3) == (0, 1, 2)
    # One rare value alone has nobody to be merged with.
    assert group_rare(np.array([30.0, 1.0, 30.0]), 1.0) == (0, 1, 2)


def test_without_an_order_all_rare_values_are_one() -> None:
    assert group_rare(np.array([1.0, 50.0, -4.0, 2.9, 3.0]), 1.0) == (0, 1, 0, 0, 2)
    assert group_rare(np.zeros(4), 1.0) == (0, 0, 0, 0)
    # Fewer standard deviations, fewer rare values.
    assert group_rare(np.array([1.5, 50.0, 0.2, 2.9, 0.0]), 1.0, least=1.0) == (0, 1, 2, 3, 2)


@given(
    st.lists(st.floats(-5, 10), min_size=2, max_size=40),
    st.integers(0, 2),
)
def test_in_an_order_every_range_stands_out(values: list[float], more: int) -> None:
    counts = np.array([*values, *[0.0] * more])
    groups = np.array(group_rare(counts, 1.0, ordered=len(values)))
    Merging((tuple(groups.tolist()),))  # numbered as a merging wants them
    rare = counts < 3
    tail = groups[len(values) :]
    assert len(set(tail)) == more and not set(tail) & set(groups[: len(values)])  # other and missing stay
    ranges = [np.flatnonzero(groups == g) for g in range(groups.max() + 1)]
    merged = [r for r in ranges if rare[r].all() and r.max() < len(values)]
    for members in ranges:
        assert len(members) == 1 or rare[members].all()
        # No rare value of the column between two of a range belongs to another.
        between = [c for c in range(members.min(), members.max()) if rare[c] and c not in members]
        assert not between
    for members in merged[:-1]:
        assert counts[members].sum() >= 3 * math.sqrt(len(members)) - 1e-9
        # As short as can be: without its last value it would not stand out.
        assert len(members) == 1 or counts[members[:-1]].sum() < 3 * math.sqrt(len(members) - 1) + 1e-9


def test_an_age_keeps_ranges() -> None:
    rng = np.random.default_rng(0)
    true = 2000 * np.exp(-(((np.arange(90) - 35) / 20) ** 2) / 2) / 50
    noisy = true + rng.normal(0, 20, 90)
    with_order, without = (max(group_rare(noisy, 20.0, ordered=n)) + 1 for n in (90, 0))
    assert with_order >= 2 * without


# How the values of a group share it.


def test_shares_follow_the_counts_as_far_as_they_stand_out() -> None:
    counts, groups = np.array([90.0, 8.0, 2.0, 5.0, 5.0]), (0, 1, 1, 1, 1)
    sharp, rough, none = (shares_within(counts, groups, sigma) for sigma in (1e-6, 2.0, 50.0))
    np.testing.assert_allclose(sharp, [1, 0.4, 0.1, 0.25, 0.25], atol=1e-9)
    np.testing.assert_allclose(none, [1, 0.25, 0.25, 0.25, 0.25])
    assert 0.25 < rough[1] < 0.4 and 0.1 < rough[2] < 0.25
    # Nothing there by the counts: evenly.
    np.testing.assert_allclose(shares_within(np.array([-5.0, -5.0, -9.0]), (0, 0, 0), 0.1), 1 / 3)
    for some in (sharp, rough, none):
        np.testing.assert_allclose(np.bincount(groups, some), 1.0)


# Merging tables.


def test_a_merged_table_is_that_of_merged_rows() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, size, 500) for size in DOMAIN.shape]
    table = Table(DOMAIN, tuple(r.astype(np.uint8) for r in rows))
    compression = Compression(DOMAIN, GROUPS)
    coarse = [np.array(GROUPS.get(a, range(DOMAIN[a])))[r] for a, r in zip(DOMAIN, rows, strict=True)]
    merged = Table(compression.domain, tuple(c.astype(np.uint8) for c in coarse))
    assert compression.domain == Domain({"a": 2, "b": 3, "c": 2})
    for marginal in [("a", "b"), ("b", "c"), ("a", "b", "c")]:
        expected = count_table(merged, [marginal])[marginal]
        found = compression.merge(marginal, count_table(table, [marginal])[marginal])
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.int64
        statistic = compression.statistic(marginal)
        assert isinstance(statistic, MergedCounts)
        np.testing.assert_array_equal(FakeCurator(table).measure(statistic, 0.01).values, expected)
    # Single columns are always counted value by value, and what has no merged value as it is.
    assert compression.statistic(("a",)) == Counts(("a",))
    assert Compression(DOMAIN).statistic(("a", "b")) == Counts(("a", "b"))
    assert Compression(DOMAIN, {"a": GROUPS["a"]}).statistic(("b", "c")) == Counts(("b", "c"))


def test_sums_of_a_measurement_say_how_noisy_they_are() -> None:
    compression = Compression(DOMAIN, GROUPS)
    sums = compression.sums(measured("b", [5, 1, 7, 2], sigma=2.0))
    assert isinstance(sums, Sums)
    assert sums.values.tolist() == [12, 1, 2]
    assert sums.variance.tolist() == [8, 4, 4]
    assert by_precision(sums).tolist() == [1 / 8, 1 / 4, 1 / 4]  # type: ignore[union-attr]
    plain = measured("c", [1, 2])
    assert compression.sums(plain) is plain
    # The number of rows is told as well by sums as by the values themselves.
    assert estimate_total([sums, plain]) == pytest.approx(
        estimate_total([measured("b", [5, 1, 7, 2], sigma=2.0), plain])
    )


def test_a_fit_weighs_each_sum_by_its_own_noise() -> None:
    """One column, whose counts must add up to 100: the least weighted squares by hand."""
    domain = Domain({"a": 5})
    compression = Compression(domain, {"a": (0, 1, 1, 1, 1)})
    growing = GrowingModel(domain, 100.0, np.random.default_rng(0), size_limit=1.0, compression=compression)
    growing.measured(measured("a", [70, 8, 4, 6, 2], sigma=1.0))
    found = growing.model.answers([("a",)])[("a",)]
    # 10 rows too few, of which the sum of four values takes four fifths.
    np.testing.assert_allclose(found, [70 + 10 / 5, 20 + 40 / 5], rtol=2e-3)


def test_all_counts_of_a_column_tell_how_values_share_a_group() -> None:
    compression = Compression(Domain({"a": 3}), {"a": (0, 1, 1)})
    np.testing.assert_allclose(compression.shares("a"), [1, 0.5, 0.5])
    rough = compression.learnt(measured("a", [100, 30, 10], sigma=10.0))
    assert 0.5 < rough.shares("a")[1] < 0.75
    sharp = rough.learnt(measured("a", [100, 10, 30], sigma=1e-3))
    np.testing.assert_allclose(sharp.shares("a"), [1, 0.25, 0.75], atol=1e-6)
    assert sharp.learnt(Measurement.of(("a", "b"), np.zeros(4), 1.0)) is sharp


# Back to all values.


@st.composite
def trees(draw: st.DrawFn) -> tuple[Compression, GraphicalModel]:
    """A compression with shares, and a model on the merged domain whose tables agree where they overlap."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=3, max_size=3))
    domain = Domain(dict(zip("abc", sizes, strict=True)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    groups = {}
    for a in domain:
        home = rng.integers(0, domain[a], domain[a]).tolist()
        number = {g: i for i, g in enumerate(dict.fromkeys(home))}
        if len(number) < domain[a]:
            groups[a] = tuple(number[g] for g in home)
    compression = Compression(domain, groups)
    for a in groups:
        compression = compression.learnt(measured(a, rng.normal(5, 10, domain[a]), sigma=3.0))
    joint = rng.gamma(0.5, size=compression.domain.shape) + 1e-9
    joint /= joint.sum()
    tree = JunctionTree(compression.domain, [("a", "b"), ("b", "c")])
    tables = []
    for clique, separator in zip(tree.cliques, tree.separators, strict=True):
        axes = axes_of(clique, separator)
        left = tuple(a for a in domain if a in axes)
        table = joint.sum(axis=tuple(i for i, a in enumerate(domain) if a not in axes))
        tables.append(np.ascontiguousarray(table.transpose([left.index(a) for a in axes])))
    return compression, GraphicalModel(tree, tables, 1234.0)


@given(trees())
def test_merged_answers_of_the_expanded_model_are_those_of_the_merged_one(
    made: tuple[Compression, GraphicalModel],
) -> None:
    compression, model = made
    full = compression.expand(model)
    assert full.domain == compression.full
    assert full.total == model.total
    for marginal in [("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]:
        merging = Merging(
            tuple(compression.groups.get(a, tuple(range(compression.full[a]))) for a in marginal)
        )
        wide = full.answers([marginal])[marginal]
        assert (wide >= 0).all()
        np.testing.assert_allclose(merging(wide), model.answers([marginal])[marginal], atol=1e-8)
    for a in compression.full:
        spread = compression.spread((a,), model.answers([(a,)])[(a,)])
        np.testing.assert_allclose(full.answers([(a,)])[(a,)], spread, atol=1e-8)
    for table in full.tables:
        assert table.sum() == pytest.approx(1.0)


def test_nothing_merged_is_the_same_model() -> None:
    tree = JunctionTree(DOMAIN, [("a",), ("b",), ("c",)])
    sizes = [DOMAIN.size(c) for c in tree.cliques]
    model = GraphicalModel(tree, [np.full(s, 1 / s) for s in sizes], 10.0)
    assert Compression(DOMAIN).expand(model) is model


# Methods.


def wide(rows: int = 2000, seed: int = 0) -> Table:
    """Two columns with many rare values, which hang together, and a small one."""
    rng = np.random.default_rng(seed)
    first = np.minimum(rng.geometric(0.4, rows) - 1, 29)
    second = np.where(rng.random(rows) < 0.8, first, rng.integers(0, 30, rows))
    third = (first > 0).astype(int)
    domain = Domain({"x": 30, "y": 30, "z": 2})
    return Table(domain, tuple(v.astype(np.uint8) for v in (first, second, third)))


METHODS = [op.Mst, op.Aim, op.JamPgm]


@pytest.mark.parametrize("unit", [Unit(), Unit(Relation.ADD_REMOVE, 2)], ids=str)
@pytest.mark.parametrize("cls", METHODS)
def test_methods_merge_and_say_so(cls: Any, unit: Unit) -> None:
    table = wide()
    workload = all_marginals(2).on(table.domain)

    def measured_by(compress: bool) -> tuple[list[Any], Any]:
        curator = FakeCurator(table, epsilon=2.0, delta=1e-6, unit=unit, noise=SeededNoise(4))
        model = cls(compress=compress).run(curator, wide(500, 9), workload, np.random.default_rng(1), quiet)
        return [e.statistic for e in curator.events if hasattr(e, "statistic")], model

    statistics, model = measured_by(True)
    assert model.domain == table.domain
    pairs = [s for s in statistics if len(s.marginal) > 1 and {"x", "y"} & set(s.marginal)]
    assert pairs or cls is op.JamPgm
    assert all(isinstance(s, MergedCounts) for s in pairs)
    assert all(isinstance(s, Counts) for s in statistics if len(s.marginal) == 1)
    plain, _ = measured_by(False)
    assert not any(isinstance(s, MergedCounts) for s in plain)


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.parametrize("cls", METHODS)
def test_a_release_with_merged_values_is_written_and_read_again(cls: Any, tmp_path: Any) -> None:
    table = wide()
    release = op.release(
        arrow(table),
        arrow(wide(500, 9)),
        schema=op.Schema.from_sizes(table.domain.sizes()),
        workload=2,
        epsilon=2.0,
        delta=1e-6,
        mechanism=cls(compress=True),
        seed=3,
    )
    release.certificate.recheck()
    assert any("30 values of x to " in remark for remark in release.certificate.remarks)
    release.save(tmp_path / "release")
    again = op.open_release(tmp_path / "release")
    assert [m.statistic for m in again.measurements] == [m.statistic for m in release.measurements]
    for marginal in [("x", "y"), ("x", "z")]:
        np.testing.assert_allclose(
            again.model.answers([marginal])[marginal], release.model.answers([marginal])[marginal]
        )


def test_the_size_limit_is_that_of_all_values() -> None:
    compression = Compression(Domain({"x": 30, "y": 30}), {"x": (0, *[1] * 29), "y": (0, *[1] * 29)})
    cells = 30 * 30
    for limit, allowed in ((cells * 8 / 2**20, True), ((cells - 1) * 8 / 2**20, False)):
        growing = GrowingModel(
            compression.full, 10.0, np.random.default_rng(0), size_limit=limit, compression=compression
        )
        assert (("x", "y") in growing.candidates([("x", "y")], 1.0, 1.0)) is allowed


def test_an_order_is_the_schemas() -> None:
    schema = op.Schema.from_toml(
        """
        [columns.age]
        kind = "integer"
        low = 0
        high = 9
        missing = true
        [columns.grade]
        kind = "ordered"
        values = ["low", "middle", "high"]
        other = true
        [columns.town]
        kind = "categorical"
        values = ["a", "b", "c"]
        [columns.yes]
        kind = "boolean"
        """
    )
    assert schema.ordered == {"age": 10, "grade": 3}
    layout = Layout(schema.domain, schema.levels, schema.ordered)
    assert layout.without(["age"]).ordered == {"grade": 3}
    noisy = [
        measured("age", [*[2.0] * 10, 0.0]),
        measured("grade", [2.5, 2.5, 50.0, 1.0]),
        measured("town", [0.0, 50.0, 1.0]),
        measured("yes", [0.0, 50.0]),
    ]
    groups = Compression.of(layout, noisy).groups
    assert groups == {"age": (0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3), "grade": (0, 0, 1, 2), "town": (0, 1, 0)}
