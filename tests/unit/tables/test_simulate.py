"""The demo population: deterministic, typed, dependent, incomplete, and drifting by the right amount."""

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from openprior.errors import OptionError
from openprior.tables.simulate import demo_surveys, simulate

Surveys = tuple[pa.Table, pa.Table, pa.Table]


@pytest.fixture(scope="module")
def surveys() -> Surveys:
    """Public, private, and a second sample of the public year."""
    return (*demo_surveys(), simulate(2023, 20_000, 8))


def coded(table: pa.Table, reference: pa.Table) -> dict[str, tuple[np.ndarray, int]]:
    """Codes and sizes per column: labels as they are, numbers by deciles of the reference; missing is last."""
    found = {}
    for name in reference.column_names:
        known, column = reference[name].combine_chunks(), table[name].combine_chunks()
        if pa.types.is_date32(known.type):
            known, column = known.cast(pa.int32()), column.cast(pa.int32())
        if pa.types.is_string(known.type) or pa.types.is_boolean(known.type):
            labels = known.drop_null().unique().sort()
            codes = pc.fill_null(pc.index_in(column, labels), len(labels)).to_numpy()
            found[name] = codes, len(labels) + 1
        else:
            edges = np.unique(np.quantile(known.drop_null().to_numpy(), np.arange(1, 10) / 10))
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            codes = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="right"))
            found[name] = codes, len(edges) + 2
    return found


def frequencies(codes: dict[str, tuple[np.ndarray, int]], names: tuple[str, ...]) -> np.ndarray:
    shape = [codes[name][1] for name in names]
    flat = np.ravel_multi_index([codes[name][0] for name in names], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))) / len(flat)


def distance(one, other, names: tuple[str, ...]) -> float:
    return float(np.abs(frequencies(one, names) - frequencies(other, names)).sum())


def information(codes, a: str, b: str) -> float:
    """Mutual information in nats."""
    joint = frequencies(codes, (a, b)).reshape(codes[a][1], codes[b][1])
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / product[seen])).sum())


def test_one_seed_one_table() -> None:
    assert simulate(2023, 500, 3).equals(simulate(2023, 500, 3))
    assert not simulate(2023, 500, 3).equals(simulate(2023, 500, 4))
    # Two years share no draws: rows of the two surveys are not the same people.
    first, second = simulate(2023, 500, 3)["age"].to_numpy(), simulate(2024, 500, 3)["age"].to_numpy()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2


def test_types() -> None:
    table = simulate(2024, 300, 1)
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "region": "string",
        "district": "string",
        "age": "int64",
        "sex": "string",
        "education": "string",
        "marital_status": "string",
        "household_size": "int64",
        "children": "int64",
        "employment": "string",
        "occupation": "string",
        "hours": "int64",
        "income": "double",
        "tenure": "string",
        "moved_in": "date32[day]",
        "health": "int64",
        "chronic": "bool",
    }
    assert table.num_rows == 300


def test_districts_are_nested_in_regions(surveys: Surveys) -> None:
    for table in surveys:
        prefix = pc.utf8_slice_codeunits(table["district"], 0, 1)
        assert pc.all(pc.equal(prefix, table["region"])).as_py()
        assert pc.count_distinct(table["district"]).as_py() == 21
        assert pc.all(pc.match_substring_regex(table["district"], r"^[NESWC]-\d\d$")).as_py()


def test_values_make_sense(surveys: Surveys) -> None:
    for table, year in zip(surveys, (2023, 2024, 2023), strict=True):
        low, high = pc.min_max(table["age"]).as_py().values()
        assert low >= 18
        assert high <= 98
        assert pc.min(table["income"]).as_py() > 0
        assert pc.max(table["moved_in"]).as_py() < datetime.date(year, 1, 1)
        assert pc.all(pc.greater(table["household_size"], table["children"])).as_py()
        assert pc.min_max(table["health"]).as_py()["max"] <= 100
        works = pc.is_in(table["employment"], pa.array(["employed", "self-employed"]))
        assert works.equals(pc.is_valid(table["occupation"]))
        assert works.equals(pc.is_valid(table["hours"]))


def test_incomes_have_a_heavy_tail(surveys: Surveys) -> None:
    income = surveys[0]["income"].combine_chunks().drop_null().to_numpy()
    assert income.mean() > 1.15 * np.median(income)
    assert np.quantile(income, 0.999) > 8 * np.median(income)


def test_missing_values_depend_on_other_values(surveys: Surveys) -> None:
    table = surveys[0]
    for name in ("education", "income", "moved_in", "health", "chronic"):
        assert 0.005 < table[name].null_count / table.num_rows < 0.15
    hidden = pc.is_null(table["income"]).to_numpy()
    self_employed = pc.equal(table["employment"], "self-employed").to_numpy()
    assert hidden[self_employed].mean() > 2 * hidden[~self_employed].mean()
    degree = pc.fill_null(pc.equal(table["education"], "master or more"), False).to_numpy()
    assert hidden[degree].mean() > 1.3 * hidden[~degree].mean()


@pytest.mark.parametrize(
    ("a", "b", "at_least"),
    [
        ("age", "employment", 0.3),
        ("employment", "income", 0.3),
        ("age", "marital_status", 0.15),
        ("marital_status", "household_size", 0.2),
        ("age", "health", 0.15),
        ("education", "income", 0.08),
        ("tenure", "moved_in", 0.05),
        ("sex", "occupation", 0.04),
        ("region", "occupation", 0.02),
        ("health", "chronic", 0.05),
    ],
)
def test_columns_depend_on_each_other(surveys: Surveys, a: str, b: str, at_least: float) -> None:
    assert information(coded(surveys[0], surveys[0]), a, b) > at_least


def test_the_year_between_shows_but_does_not_spoil_the_public_table(surveys: Surveys) -> None:
    public, private, again = (coded(table, surveys[0]) for table in surveys)
    triples = list(itertools.combinations(public, 3))
    drift = np.mean([distance(public, private, names) for names in triples])
    sampling = np.mean([distance(public, again, names) for names in triples])
    assert 1.3 < drift / sampling < 2.0
    shifts = {
        name: np.abs(frequencies(public, (name,)) - frequencies(private, (name,))).max() for name in public
    }
    assert sum(0.02 <= shift <= 0.06 for shift in shifts.values()) >= 5
    assert max(shifts.values()) < 0.08


def test_the_drift_is_the_one_told(surveys: Surveys) -> None:
    public, private, _ = surveys

    def share(table: pa.Table, column: str, label: str) -> float:
        return pc.mean(pc.fill_null(pc.equal(table[column], label), False).cast(pa.float64())).as_py()

    assert pc.mean(private["age"]).as_py() - pc.mean(public["age"]).as_py() > 0.8
    assert share(private, "region", "C") - share(public, "region", "C") > 0.02
    assert share(private, "occupation", "technology") > 1.15 * share(public, "occupation", "technology")
    assert share(private, "employment", "unemployed") - share(public, "employment", "unemployed") > 0.01
    workers = [table.filter(pc.equal(table["employment"], "employed")) for table in (public, private)]
    before, after = (pc.approximate_median(table["income"]).as_py() for table in workers)
    assert 1.03 < after / before < 1.09


def test_sizes_and_refusals() -> None:
    public, private = demo_surveys(rows_public=12, rows_private=34, seed=1)
    assert (public.num_rows, private.num_rows) == (12, 34)
    with pytest.raises(OptionError, match="rows"):
        simulate(2023, 0, 1)
    with pytest.raises(OptionError, match="year"):
        simulate(1900, 10, 1)
