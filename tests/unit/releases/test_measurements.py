"""What measurements say about a marginal, against sums by brute force; and the file of a release."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import openprior as op
from openprior.errors import ReleaseError
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import CellCount, Counts, QueryAnswers
from openprior.questions.queries import Queries
from openprior.releases.intervals import known_about
from openprior.releases.measurements import Measurements
from tests.forgery import seal_anew

SIZES = {"a": 2, "b": 3, "c": 4}
SCHEMA = op.Schema.from_sizes(SIZES)
DOMAIN = SCHEMA.full_domain


PREFIXES = QueryAnswers.of(Queries.parse("prefixes(b)", DOMAIN))


def some(rng: np.random.Generator) -> list[Measurement]:
    """Whole marginals, slices of them and single cells, with Gaussian and Laplace noise."""

    def values(*names: str) -> np.ndarray:
        return rng.integers(-5, 50, math.prod(SIZES[a] for a in names)).astype(float)

    return [
        Measurement(Counts(("a", "b")), values("a", "b"), 3.0),
        Measurement(Counts(("a", "b", "c")), values("a", "b", "c"), 7.0, "laplace"),
        Measurement(Counts(("b",)), values("b"), 2.0, "gaussian", {"a": 1}),
        Measurement(CellCount(("b",), 2), values(), 1.5, "laplace", {"a": 0}),
        Measurement(CellCount(("c",), 3), values(), 2.5),
        Measurement(PREFIXES, rng.normal(size=2), 1.0),
    ]


def by_hand(
    items: list[Measurement], marginal: tuple[str, ...], codes: tuple[int, ...]
) -> tuple[float, float]:
    """Value and variance of one cell: the sum over all joint cells of each measurement that lie in it."""
    at = dict(zip(marginal, codes, strict=True))
    weights, sums = 0.0, 0.0
    for item in items:
        if isinstance(item.statistic, QueryAnswers):
            continue
        free, fixed = (item.marginal, dict(item.part))
        if item.cell is not None:
            free, fixed = (), {**fixed, item.marginal[0]: item.cell}
        if not set(fixed) <= set(marginal) or not set(marginal) <= set(fixed) | set(free):
            continue
        if any(at[a] != code for a, code in fixed.items()):
            continue
        inside = [
            i
            for i, joint in enumerate(itertools.product(*(range(SIZES[a]) for a in free)))
            if all(at.get(a, code) == code for a, code in zip(free, joint, strict=True))
        ]
        variance = len(inside) * item.sigma**2
        weights += 1 / variance
        sums += item.values[inside].sum() / variance
    return (math.nan, math.nan) if weights == 0 else (sums / weights, 1 / weights)


@pytest.mark.parametrize("marginal", [m for k in (1, 2, 3) for m in itertools.combinations(SIZES, k)])
def test_every_marginal_against_sums_by_hand(marginal: tuple[str, ...]) -> None:
    for seed, take in ((0, 6), (1, 6), (2, 1), (3, 4)):
        items = some(np.random.default_rng(seed))[:take]
        known = known_about(Measurements(DOMAIN, items), marginal)
        shape = [SIZES[a] for a in marginal]
        expected = [by_hand(items, marginal, codes) for codes in np.ndindex(*shape)]
        if all(math.isnan(v) for v, _ in expected):
            assert known is None
            continue
        assert known is not None
        np.testing.assert_allclose(known.value, [v for v, _ in expected])
        np.testing.assert_allclose(known.standard_error, [math.sqrt(v) for _, v in expected])
        told = np.isfinite(known.standard_error)
        assert (np.isfinite(known.low) == told).all()
        assert (known.low[told] >= 0).all()
        assert (known.high[told] >= known.low[told]).all()


def test_laplace_tails_are_longer_and_sums_of_them_are_nearly_gaussian() -> None:
    def reach(cells: int, noise: str) -> float:
        domain = op.Schema.from_sizes({"x": 2, "y": cells}).domain
        items = [Measurement(Counts(("x", "y")), np.full(2 * cells, 1000.0), 1.0, noise)]
        known = known_about(Measurements(domain, items), ("x",))
        assert known is not None
        return float((known.high[0] - known.value[0] - 0.5) / known.standard_error[0])

    assert reach(7, "gaussian") == pytest.approx(1.959964)
    rng = np.random.default_rng(0)
    for cells in (1, 3, 30):
        draws = np.abs(rng.laplace(0, 1 / math.sqrt(2), (200_000, cells)).sum(axis=1)) / math.sqrt(cells)
        inside = np.mean(draws <= reach(cells, "laplace"))
        assert 0.948 < inside < 0.956, cells


def test_of_a_run_and_back_from_the_file(tmp_path: Path) -> None:
    run = [
        Measurement(Counts(("a", "c")), np.arange(8.0), 2.0),
        Measurement(CellCount(("b", "c"), 7), np.array([9.0]), 1.0, "laplace"),
        Measurement(Counts(("b",)), np.arange(3.0), 4.0, "gaussian", {"a": 1}),
        Measurement(PREFIXES, np.arange(2.0), 4.0),
    ]
    made = Measurements(DOMAIN, run)
    assert [i.cells(DOMAIN) for i in made] == [
        (("a", "c"), {}),
        ((), {"b": 1, "c": 3}),
        (("b",), {"a": 1}),
        None,
    ]
    made.save(tmp_path / "m.parquet", SCHEMA)
    table = parquet.read_table(tmp_path / "m.parquet")
    assert table.num_rows == 8 + 1 + 3 + 2
    assert table["where"].to_pylist()[8] == "b = 1, c = 3"
    again = Measurements.load(tmp_path / "m.parquet", SCHEMA)
    for first, second in zip(made, again, strict=True):
        assert (first.values == second.values).all()
        assert (first.statistic, first.part, first.sigma, first.noise) == (
            second.statistic, second.part, second.sigma, second.noise,
        )  # fmt: skip
    with pytest.raises(ReleaseError, match="do not fit"):
        Measurements.load(tmp_path / "m.parquet", op.Schema.from_sizes({"a": 2, "b": 3, "c": 5}))
    Measurements(DOMAIN, []).save(tmp_path / "none.parquet", SCHEMA)
    assert len(Measurements.load(tmp_path / "none.parquet", SCHEMA)) == 0


def test_a_release_keeps_what_was_measured_and_reopens_with_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    private = {a: rng.integers(0, s, 400) for a, s in SIZES.items()}
    import pyarrow as pa

    made = op.release(
        pa.table(private),
        schema=SCHEMA,
        epsilon=1.0,
        delta=1e-6,
        mechanism=op.Mst(),
        out=tmp_path / "r",
        seed=1,
    )
    *events, errors = [e for e in made.certificate.events if e.kind == "gaussian"]
    assert errors.statistic.kind == "errors"  # of no cell in particular, so it is kept elsewhere
    assert [(m.statistic, m.sigma) for m in made.measurements] == [(e.statistic, e.sigma) for e in events]
    again = op.open_release(tmp_path / "r")
    for name in ("estimate", "standard_error", "low", "high"):
        np.testing.assert_allclose(again.answers(["a"])[name], made.answers(["a"])[name], rtol=1e-12)
    assert set(again.answers(["a"])["basis"].to_pylist()) == {"measured"}
    file = tmp_path / "r" / "measurements.parquet"
    whole = file.read_bytes()
    for change in (
        lambda items: items[1:],
        lambda items: [replace(items[0], sigma=items[0].sigma / 2), *items[1:]],
        lambda items: [replace(items[0], sigma=0.0), *items[1:]],
        lambda items: [replace(items[0], statistic=Counts(("b",)), values=np.zeros(3)), *items[1:]],
        lambda items: [replace(items[0], values=items[0].values * np.nan), *items[1:]],
        lambda items: [replace(items[0], noise="laplace"), *items[1:]],
    ):
        Measurements(DOMAIN, change(list(made.measurements))).save(file, SCHEMA)
        with pytest.raises(ReleaseError, match=r"damaged: measurements\.parquet"):
            op.open_release(tmp_path / "r")
        seal_anew(tmp_path / "r")
        with pytest.raises(ReleaseError, match=r"damaged: (its measurements|a measurement)"):
            op.open_release(tmp_path / "r")
    file.write_bytes(whole)
    seal_anew(tmp_path / "r")
    assert op.open_release(tmp_path / "r")
    file.unlink()
    with pytest.raises(ReleaseError, match="damaged"):
        op.open_release(tmp_path / "r")
