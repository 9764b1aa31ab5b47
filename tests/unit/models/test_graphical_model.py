"""Graphical models: rows, files, rough answers, and what the estimator refuses."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from openprior.counting.local import count_table
from openprior.errors import OptionError, WorkloadError
from openprior.models.base import load_model
from openprior.models.graphical.estimation import Estimator, alike, estimate
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.models.graphical.model import GraphicalModel
from openprior.models.graphical.propagation import Propagation
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import all_marginals, closure
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}
SHAPES = {
    "chain": (SIZES, ["ab", "bc", "cd"]),
    "cycle": (SIZES, ["ab", "bc", "cd", "ad"]),
    "apart": (SIZES, ["ab", "cd"]),
    "one clique": (SIZES, ["abcd"]),
    "no factor": (SIZES, []),
    "equal sizes": (dict.fromkeys("abcd", 3), ["ab", "bc", "cd"]),
    "equal star": (dict.fromkeys("abcde", 2), ["ae", "be", "ce", "de"]),
    "size 1": ({"a": 1, "b": 3, "c": 1}, ["ab", "bc"]),
    "single": ({"a": 300}, ["a"]),
}


def make_model(name: str, seed: int = 0, *, zeros: float = 0.0, total: float = 100.0) -> GraphicalModel:
    """Random potentials; a share of each factor's cells impossible, never those of row (0, 0, …)."""
    sizes, letters = SHAPES[name]
    domain, factors = Domain(sizes), [tuple(m) for m in letters]
    rng = np.random.default_rng(seed)
    passes = Propagation(JunctionTree(domain, Structure(domain, factors).cliques), factors)
    potentials = rng.normal(0, 1, passes.length)
    gone = rng.random(passes.length) < zeros
    gone[[passes.starts[m] for m in factors]] = False
    passes.marginals(np.where(gone, -np.inf, potentials), total)
    return GraphicalModel(passes.tree, passes.clique_tables(), total)


def probabilities(model: GraphicalModel) -> np.ndarray:
    """The whole joint, flat; `answers` is checked against brute force elsewhere."""
    return model.answers([model.domain.attributes])[model.domain.attributes] / model.total


def counts(rows: Table, marginal: Iterable[str] | None = None) -> np.ndarray:
    names = tuple(rows.domain if marginal is None else marginal)
    shape = [rows.domain[a] for a in names]
    cells = np.ravel_multi_index([rows.column(a).astype(np.intp) for a in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape)))


def runs(model: GraphicalModel, rows: int, times: int, *, rounded: bool) -> np.ndarray:
    """The joint's counts in many samples."""
    return np.array(
        [counts(model.sample(rows, np.random.default_rng([i, 9]), rounded=rounded)) for i in range(times)]
    )


def pooled(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The last axis with all cells that are expected less than ten times in one: rare cells are no normal variables."""
    rare = expected < 10
    return np.concatenate([values[..., ~rare], values[..., rare].sum(axis=-1, keepdims=True)], axis=-1)


def surprise(seen: np.ndarray, p: np.ndarray) -> float:
    """How improbable counts this far off are, by Pearson's test."""
    assert (seen[p == 0] == 0).all()
    expected = seen.sum() * p
    found, expected = pooled(seen, expected), pooled(expected, expected)
    found, expected = found[expected > 0], expected[expected > 0]
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), max(1, len(expected) - 1)))


# Rows.


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_rows_are_as_many_as_asked_and_in_the_domain(name: str, rounded: bool) -> None:
    model = make_model(name)
    for n in (0, 1, 2, 77, 1000):
        rows = model.sample(n, np.random.default_rng(n), rounded=rounded)
        assert rows.n == n
        assert rows.domain == model.domain
        for a, column in zip(rows.domain, rows.columns, strict=True):
            assert column.dtype == dtype_for(rows.domain[a])
            assert not n or column.max() < rows.domain[a]
    again = [model.sample(50, np.random.default_rng(4), rounded=rounded) for _ in range(2)]
    assert all((x == y).all() for x, y in zip(again[0].columns, again[1].columns, strict=True))


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("name", ["chain", "cycle", "apart", "equal star"])
def test_counts_have_no_bias(name: str, rounded: bool) -> None:
    """The mean of every cell of the joint lies within 4 standard errors; a model tilted by a fifth does not."""
    model = make_model(name, 3)
    n, times = 40, 1500
    p = probabilities(model)
    seen = pooled(runs(model, n, times, rounded=rounded), n * times * p)
    errors = np.maximum(seen.std(axis=0, ddof=1), 1e-3) / np.sqrt(times)
    assert (np.abs(seen.mean(axis=0) - pooled(n * p, n * times * p)) <= 4 * errors).all()
    tilted = p * np.where(np.arange(len(p)) % 2, 1.2, 0.8)
    wrong = pooled(n * tilted / tilted.sum(), n * times * p)
    assert (np.abs(seen.mean(axis=0) - wrong) > 4 * errors).any()


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("rows", [1, 30])
def test_one_row_alone_follows_the_model(rows: int, rounded: bool) -> None:
    """The first of each sample: no place in the table is special, and what is rounded is still drawn."""
    model = make_model("chain", 5)
    p = probabilities(model)
    seen = np.zeros(len(p), np.int64)
    for i in range(2000):
        sample = model.sample(rows, np.random.default_rng([i, 10]), rounded=rounded)
        seen += counts(sample.take(np.array([0])))
    assert surprise(seen, p) > 1e-4
    assert surprise(seen, np.roll(p, 1)) < 1e-9


@pytest.mark.parametrize("name", ["chain", "cycle", "apart", "equal star", "one clique"])
def test_rounded_cells_are_off_by_less_than_one_row_for_each_value_of_the_separator(name: str) -> None:
    """Independent draws of that many rows are off by far more."""
    worst = {True: 0.0, False: 0.0}
    for seed in range(20):
        model = make_model(name, seed, zeros=0.1)
        for rounded in (True, False):
            rows = model.sample(900, np.random.default_rng(seed), rounded=rounded)
            for axes, separator, table in zip(model.axes, model.tree.separators, model.tables, strict=True):
                width = model.domain.size(separator)
                found = counts(rows, axes).reshape(width, -1)
                given = table.reshape(width, -1)
                share = given / np.maximum(given.sum(axis=1, keepdims=True), 1e-300)
                off = np.abs(found - found.sum(axis=1, keepdims=True) * share).max()
                worst[rounded] = max(worst[rounded], float(off))
    assert worst[True] < 1 + 1e-6
    assert worst[False] > 10


@pytest.mark.parametrize("name", ["chain", "cycle", "equal star"])
def test_rounded_rows_are_much_closer_to_the_cliques_than_independent_ones(name: str) -> None:
    model = make_model(name, 1)
    n = 2000
    off = {}
    for rounded in (True, False):
        samples = [model.sample(n, np.random.default_rng([i, 11]), rounded=rounded) for i in range(40)]
        off[rounded] = np.mean(
            [
                np.abs(counts(rows, clique) - n * model.answers([clique])[clique] / model.total).sum()
                for rows in samples
                for clique in model.tree.cliques
            ]
        )
    assert off[True] < 0.15 * off[False]


@pytest.mark.parametrize("name", ["chain", "cycle", "equal star"])
def test_independent_rows_spread_as_the_multinomial_does(name: str) -> None:
    """Pearson's statistic averages to its degrees of freedom; for rounded rows it is far below."""
    model = make_model(name, 2)
    n, times, p = 400, 300, probabilities(model)
    free = len(p) - 1
    statistics = {
        rounded: ((runs(model, n, times, rounded=rounded) - n * p) ** 2 / (n * p)).sum(axis=1).mean()
        for rounded in (True, False)
    }
    # Rare cells make the statistic's variance a little larger than 2·free.
    spread = np.sqrt((2 * free + (1 / p).sum() / n) / times)
    assert abs(statistics[False] - free) < 4 * spread
    assert statistics[True] < free - 8 * spread


def test_many_independent_rows_pass_a_chi_square_test_and_wrong_ones_do_not() -> None:
    for seed in range(5):
        model = make_model("cycle", seed)
        p = probabilities(model)
        seen = counts(model.sample(50_000, np.random.default_rng(seed), rounded=False))
        assert surprise(seen, p) > 1e-4
        wrong = p * np.where(np.arange(len(p)) % 2, 1.1, 0.9)
        assert surprise(seen, wrong / wrong.sum()) < 1e-6


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_impossible_cells_never_come(name: str, rounded: bool) -> None:
    for seed in range(12):
        model = make_model(name, seed, zeros=0.5)
        p = probabilities(model)
        for n in (1, 7, 3000):
            seen = counts(model.sample(n, np.random.default_rng([seed, n]), rounded=rounded))
            assert seen.sum() == n
            assert (seen[p == 0] == 0).all()


@pytest.mark.parametrize("rounded", [True, False])
def test_structural_zeros_are_respected_in_rows(rounded: bool) -> None:
    """Even where all measurements say otherwise."""
    domain = Domain({"a": 3, "b": 3, "c": 2})
    forbidden = ~np.tri(3, dtype=bool)
    seen = [noisy("ab", np.full(9, 100.0)), noisy("bc", np.full(6, 150.0))]
    model = estimate(domain, seen, zeros={("a", "b"): forbidden})
    rows = model.sample(5000, np.random.default_rng(0), rounded=rounded)
    found = counts(rows, "ab").reshape(3, 3)
    assert (found[forbidden] == 0).all()
    assert (found[~forbidden] > 0).all()


# Files and summaries.


def test_a_fitted_model_answers_the_same_after_it_was_saved(tmp_path: Path) -> None:
    """To the last bit: a sum of a clique's table is not always 1 in it."""
    rng = np.random.default_rng(0)
    domain = Domain({"a": 3, "b": 3, "c": 2})
    for number in range(12):
        measured = [
            Measurement.of(m, rng.uniform(5, 50, domain.size(m)), 1.0) for m in (("a", "b"), ("b", "c"))
        ]
        model = Estimator(domain, 100.0).fit(measured)
        folder = tmp_path / str(number)
        folder.mkdir()
        model.save(folder)
        again = load_model(folder)
        for marginal, answer in model.answers([("a", "b"), ("a", "c")]).items():
            assert answer.tobytes() == again.answers([marginal])[marginal].tobytes()


@pytest.mark.parametrize("name", SHAPES)
def test_a_saved_model_is_the_same_model(name: str, tmp_path: Path) -> None:
    model = make_model(name, 7, zeros=0.2, total=1234.5)
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert (again.domain, again.total) == (model.domain, model.total)
    wanted = closure(all_marginals(len(model.domain)).on(model.domain).marginals)
    before, after = model.answers(wanted), again.answers(wanted)
    for m in wanted:
        np.testing.assert_allclose(after[m], before[m], rtol=1e-12, atol=1e-12)
    rows = [m.sample(500, np.random.default_rng(1)) for m in (model, again)]
    for x, y in zip(rows[0].columns, rows[1].columns, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_model_can_be_opened_by_a_process_that_has_imported_nothing_else(tmp_path: Path) -> None:
    make_model("chain").save(tmp_path)
    code = (
        "import sys, pathlib; from openprior.models.base import load_model; "
        "print(type(load_model(pathlib.Path(sys.argv[1]))).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "GraphicalModel", done.stderr


def test_a_summary_names_the_cliques_the_treewidth_and_the_size() -> None:
    model = make_model("cycle", total=5000.0)  # two triangles: abd and bcd
    first, *rest = model.summary().splitlines()
    assert "2 cliques" in first
    assert "4 attributes" in first
    assert "treewidth 2" in first
    assert f"{model.tree.cells:,} cells" in first
    assert "MB" in first
    assert "5,000 rows" in first
    assert len(rest) == 2
    for clique in model.tree.cliques:
        assert any(
            all(a in line for a in clique) and f"{model.domain.size(clique)} cells" in line for line in rest
        )


def test_tables_that_are_no_distribution_are_refused() -> None:
    model = make_model("chain")
    good = model.tables
    for bad in (-good[0], np.zeros_like(good[0]), np.full_like(good[0], np.nan), good[0][:1]):
        with pytest.raises(ValueError, match="clique"):
            GraphicalModel(model.tree, [bad, *good[1:]], 1.0)
    with pytest.raises(ValueError, match="shorter"):
        GraphicalModel(model.tree, good[:-1], 1.0)


def test_the_scale_of_the_tables_does_not_matter() -> None:
    model = make_model("cycle", 4)
    scaled = GraphicalModel(
        model.tree, [table * (i + 3) for i, table in enumerate(model.tables)], model.total
    )
    np.testing.assert_allclose(probabilities(scaled), probabilities(model), rtol=1e-12)


# Rough answers.


def every(model: GraphicalModel) -> tuple[tuple[str, ...], ...]:
    return closure(all_marginals(3).on(model.domain).marginals)


@pytest.mark.parametrize("name", SHAPES)
def test_unlimited_effort_gives_the_exact_answers(name: str) -> None:
    model = make_model(name, 6, zeros=0.2)
    exact = model.answers(every(model))
    rough = model.approximate_answers(every(model), np.random.default_rng(0), effort=np.inf, rows=5)
    assert list(rough) == list(exact)
    for m in exact:
        np.testing.assert_allclose(rough[m], exact[m], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["chain", "equal sizes", "equal star"])
def test_no_effort_counts_rows_where_no_clique_helps(name: str) -> None:
    """Inside cliques nothing is lost; across, no more than independent rows would lose on average (×1.5)."""
    model, n = make_model(name, 8), 20_000
    exact = model.answers(every(model))
    rough = model.approximate_answers(every(model), np.random.default_rng(1), effort=0.0, rows=n)
    assert list(rough) == list(exact)
    sampled = 0
    for m, values in exact.items():
        assert rough[m].sum() == pytest.approx(model.total)
        if model.tree.host(m) is not None:
            np.testing.assert_allclose(rough[m], values, rtol=1e-12)
            continue
        p = values / model.total
        bound = 1.5 * np.sqrt(2 / np.pi * p * (1 - p) / n).sum()
        assert np.abs(rough[m] / model.total - p).sum() < bound
        sampled += not np.array_equal(rough[m], values)
    assert sampled > 0


def test_rough_answers_count_the_rows_that_a_sample_has() -> None:
    model = make_model("chain", 9)
    rough = model.approximate_answers([("a", "d")], np.random.default_rng(2), effort=0.0, rows=300)
    rows = model.sample(300, np.random.default_rng(2))
    np.testing.assert_allclose(
        rough["a", "d"], count_table(rows, [("a", "d")])["a", "d"] * (model.total / 300)
    )


# What the estimator refuses.

PAIR = Domain({"a": 2, "b": 3, "c": 2})


def noisy(columns: str, values: np.ndarray, sigma: float = 1.0) -> Measurement:
    return Measurement.of(tuple(columns), values, sigma)


def nothing(cells: int) -> np.ndarray:
    return np.zeros(cells, bool)


@pytest.mark.parametrize(
    ("seen", "kind", "message"),
    [
        (Measurement.of(("a", "zip"), np.ones(4), 1.0), WorkloadError, "there is no column 'zip'"),
        (noisy("", np.ones(1)), WorkloadError, "empty marginal"),
        (noisy("aa", np.ones(4)), WorkloadError, "twice"),
        (noisy("ab", np.ones(5)), WorkloadError, r"\('a', 'b'\) needs 6"),
        (noisy("ab", np.ones((2, 3))), WorkloadError, r"\('a', 'b'\) needs 6"),
        (noisy("b", np.zeros(0)), WorkloadError, r"\('b',\) needs 3"),
        (noisy("b", np.array([1.0, np.nan, 2.0])), WorkloadError, r"\('b',\) needs 3 finite"),
        (noisy("b", np.array([1.0, np.inf, 2.0])), WorkloadError, r"\('b',\) needs 3 finite"),
        (noisy("b", np.ones(3), 0.0), OptionError, r"sigma of \('b',\) \(0.0\) must be positive"),
        (noisy("b", np.ones(3), -1.0), OptionError, r"sigma of \('b',\) \(-1.0\)"),
        (noisy("b", np.ones(3), np.nan), OptionError, r"sigma of \('b',\) \(nan\)"),
        (noisy("b", np.ones(3), np.inf), OptionError, r"sigma of \('b',\) \(inf\)"),
    ],
)
def test_measurements_that_cannot_be_are_refused(
    seen: Measurement, kind: type[Exception], message: str
) -> None:
    good = noisy("a", np.ones(2))
    for measurements in ([seen], [good, seen], [seen, good]):
        with pytest.raises(kind, match=message):
            estimate(PAIR, measurements, 10.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "newton"}, "'newton' must be one of accelerated, mirror"),
        ({"max_steps": 0}, r"max_steps \(0\)"),
        ({"max_steps": -5}, r"max_steps \(-5\)"),
        ({"tolerance": 0.0}, r"tolerance \(0.0\)"),
        ({"tolerance": -1.0}, r"tolerance \(-1.0\)"),
        ({"tolerance": float("nan")}, r"tolerance \(nan\)"),
        ({"total": 0.0}, r"total \(0.0\) must be positive"),
        ({"total": -3.0}, r"total \(-3.0\)"),
        ({"total": float("nan")}, r"total \(nan\)"),
        ({"total": float("inf")}, r"total \(inf\)"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_fitted(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Estimator(PAIR, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zeros", "message"),
    [
        ({("a", "b"): nothing(5)}, r"\('a', 'b'\) need"),
        ({("a", "b"): nothing(6).reshape(3, 2)}, r"\('a', 'b'\) need"),
        ({("b", "a"): nothing(6).reshape(2, 3)}, r"\('a', 'b'\) need"),
        ({("a", "b"): nothing(6).astype(np.int64)}, r"\('a', 'b'\) need"),
        ({("a", "b"): np.zeros(6)}, r"\('a', 'b'\) need"),
        ({("a", "zip"): nothing(6)}, "there is no column 'zip'"),
        ({("a",): ~nothing(2)}, r"\('a',\) leave no possible row"),
        ({("a", "b"): ~nothing(6)}, r"\('a', 'b'\) leave no possible row"),
    ],
)
def test_masks_that_cannot_be_are_refused(zeros: dict[tuple[str, ...], np.ndarray], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Estimator(PAIR, 10.0, zeros=zeros)


SAME = ~np.eye(2, dtype=bool)
CONTRADICTIONS = {
    "one says a = 0, the other a = 1": {
        ("a", "b"): np.array([[False] * 3, [True] * 3]),
        ("a", "c"): np.array([[True] * 2, [False] * 2]),
    },
    "a value that nobody can have, one attribute further": {
        ("a",): np.array([False, True]),
        ("a", "b"): np.array([[False, True, True], [False, False, False]]),
        ("b", "c"): np.array([[True, True], [False, False], [False, False]]),
    },
    "a = c, a ≠ d, c = d": {("a", "c"): SAME, ("a", "d"): ~SAME, ("c", "d"): SAME},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_masks_that_together_leave_nothing_are_refused(name: str) -> None:
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
    for measurements in ([], [noisy("b", np.ones(3))]):
        with pytest.raises(WorkloadError, match="structural zeros leave no possible row"):
            estimate(domain, measurements, 10.0, zeros=CONTRADICTIONS[name])


def test_masks_of_almost_everything_leave_the_one_row() -> None:
    zeros = {("a", "b"): np.arange(6) != 4, ("b", "c"): np.arange(6) != 3}
    model = estimate(PAIR, [noisy("a", np.array([50.0, -20.0]))], 8.0, zeros=zeros)
    assert probabilities(model).reshape(PAIR.shape)[1, 1, 1] == pytest.approx(1.0)
    rows = model.sample(3, np.random.default_rng(0))
    assert [c.tolist() for c in rows.columns] == [[1] * 3] * 3


def test_an_estimator_that_refused_still_works() -> None:
    fitter = Estimator(PAIR, 10.0)
    good = noisy("a", np.array([4.0, 6.0]))
    with pytest.raises(WorkloadError):
        fitter.fit([good, noisy("b", np.ones(2))])
    np.testing.assert_allclose(fitter.fit([good]).answers([("a",)])["a",], [4.0, 6.0], atol=0.05)


def test_counts_without_noise_can_be_weighed_alike() -> None:
    model = estimate(PAIR, [noisy("a", np.array([4.0, 6.0]), 0.0)], 10.0, weigh=alike)
    np.testing.assert_allclose(model.answers([("a",)])["a",], [4.0, 6.0], atol=0.05)


def test_measurements_are_left_as_they_were() -> None:
    values = np.array([4.0, 6.0, -1.0])
    fitter = Estimator(PAIR, 10.0)
    for _ in range(2):
        fitter.fit([noisy("b", values), noisy("b", values)])
    np.testing.assert_array_equal(values, [4.0, 6.0, -1.0])


def test_a_later_fit_does_not_change_an_earlier_model() -> None:
    fitter = Estimator(PAIR, 10.0)
    first = fitter.fit([noisy("ab", np.arange(6.0))])
    before = probabilities(first)
    fitter.fit([noisy("ab", np.arange(6.0)[::-1].copy())])
    again = GraphicalModel(first.tree, first.tables, first.total)
    np.testing.assert_allclose(probabilities(again), before, rtol=1e-12, atol=1e-15)
