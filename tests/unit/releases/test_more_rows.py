"""What one can ask of a release: more rows, rows with given values, frames, and answers for levels."""

import datetime as dt
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import openprior as op
from openprior.errors import MarginalTooLarge, OpenPriorWarning, OptionError, WorkloadError
from openprior.models.base import Model
from openprior.models.support import SupportModel
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import CellCount, Counts
from openprior.questions.workload import Workload
from openprior.releases.answers import labelled
from openprior.releases.intervals import known_about
from openprior.releases.measurements import Measurements
from openprior.releases.more_rows import MODEL, RELEASED, origin_of
from openprior.releases.result import Release
from openprior.tables.conditions import allowed_codes
from openprior.tables.encode import encode_table

SCHEMA = op.Schema.from_toml(
    """
[columns.age]
kind = "integer"
dtype = "int16"
bins = [0, 18, 30, 60, 99]
missing = true
[columns.sex]
kind = "categorical"
values = ["F", "M"]
other = true
out_of_domain = "other"
[columns.day]
kind = "datetime"
dtype = "date32"
bins = [2020-01-01, 2020-07-01, 2021-01-01]
[columns.area]
kind = "categorical"
values = ["TX1", "TX2", "NY1", "NY2", "CA1"]
missing = true
[columns.member]
kind = "boolean"
dtype = "bool"
values = [false, true]
missing = true
[hierarchies.state]
column = "area"
prefix = 2
[hierarchies.coast]
column = "state"
map = {TX = "south", NY = "east", CA = "west"}
"""
)
ROWS = 500


def people(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = rng.choice([7, 17, 25, 29, 40, 61, 98], ROWS)
    areas = np.array(["TX1", "TX2", "NY1", "NY2", "CA1"])
    return pa.table(
        {
            "age": pa.array(ages, pa.int16(), mask=rng.random(ROWS) < 0.1),
            "sex": rng.choice(["F", "M", "x"], ROWS, p=[0.5, 0.45, 0.05]),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 366, ROWS)]),
            "area": pa.array(areas[rng.integers(0, 5, ROWS)], mask=rng.random(ROWS) < 0.1),
            "member": pa.array(rng.random(ROWS) < 0.3, mask=rng.random(ROWS) < 0.1),
        }
    )


class Stubborn(SupportModel):
    """A model that cannot be restricted."""

    kind = "stubborn, for tests"
    can_restrict = False

    def restricted(self, allowed: Mapping[str, Any]) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("asked") / "r"
    op.release(
        people(1),
        schema=SCHEMA,
        workload=op.all_marginals(2),
        epsilon=10,
        delta=1e-6,
        mechanism=op.Mst(),
        out=place,
        seed=1,
    )
    return place


@pytest.fixture(scope="module")
def release(folder: Path) -> Release:
    return op.open_release(folder)


def with_model(release: Release, kind: type[Model]) -> Release:
    model = kind(release.codes, np.ones(release.codes.n), float(release.codes.n))  # type: ignore[call-arg]
    parts = ("synthetic", "certificate", "schema", "workload", "measurements")
    return Release(model=model, **{name: getattr(release, name) for name in parts})


# Rows.


def test_rows_without_anything_are_the_released_ones(release: Release) -> None:
    assert release.rows().equals(release.synthetic)
    assert origin_of(release.rows()) == RELEASED


@pytest.mark.parametrize("n", [1, 37, 3 * ROWS])
def test_as_many_rows_as_asked(release: Release, n: int) -> None:
    rows = release.rows(n, seed=3)
    assert rows.num_rows == n
    assert rows.schema.equals(release.synthetic.schema)
    assert origin_of(rows) == MODEL
    assert rows.equals(release.rows(n, seed=3))
    encode_table(rows, SCHEMA)  # every value lies in the domain
    if n > ROWS:
        assert not rows.equals(release.rows(n))
        released = set(release.synthetic["age"].to_pylist())
        assert set(rows["age"].to_pylist()) <= released  # inside a bin, only what released rows have there
        share = [pc.mean(pc.equal(t["sex"], "F")).as_py() for t in (rows, release.synthetic)]
        assert share[0] == pytest.approx(share[1], abs=0.01)


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({"sex": "F"}, lambda r: r["sex"] == "F"),
        ({"sex": ["F", "other"]}, lambda r: r["sex"] != "M"),
        ({"age": "[18, 30)"}, lambda r: r["age"] is not None and 18 <= r["age"] < 30),
        ({"age": 25, "sex": "M"}, lambda r: r["age"] is not None and 18 <= r["age"] < 30 and r["sex"] == "M"),
        ({"age": (None, "99")}, lambda r: r["age"] is None or r["age"] >= 60),
        ({"day": dt.date(2020, 12, 24)}, lambda r: r["day"] >= dt.date(2020, 7, 1)),
        ({"day": "2020-03-01"}, lambda r: r["day"] < dt.date(2020, 7, 1)),
        ({"member": True}, lambda r: r["member"] is True),
        ({"state": ["TX", "missing"]}, lambda r: r["area"] is None or r["area"].startswith("TX")),
        ({"coast": "east", "area": ["NY2", "TX1"]}, lambda r: r["area"] == "NY2"),
        (
            {"age": np.int64(7), "member": [False, None]},
            lambda r: r["age"] is not None and r["age"] < 18 and not r["member"],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)  # fmt: skip
@pytest.mark.parametrize("kind", ["graphical", "support", "stubborn"])
def test_rows_with_given_values(release: Release, kind: str, where: dict[str, Any], fits: Any) -> None:
    if kind != "graphical":
        release = with_model(release, SupportModel if kind == "support" else Stubborn)
    rows = release.rows(200, where=where)
    assert rows.num_rows == 200
    assert all(map(fits, rows.to_pylist()))
    assert origin_of(rows) == (RELEASED if kind == "stubborn" else MODEL)
    matching = sum(map(fits, release.synthetic.to_pylist()))
    expected = release.rows(where=where).num_rows
    assert expected == pytest.approx(matching, abs=0.5 if kind != "graphical" else 3 + 3 * matching**0.5)


def test_filtered_rows_come_equally_often(release: Release) -> None:
    stubborn = with_model(release, Stubborn)
    here = stubborn.rows(where={"sex": "F", "age": 7})
    twice = stubborn.rows(2 * here.num_rows + 1, where={"sex": "F", "age": 7}, seed=1)
    assert twice.num_rows == 2 * here.num_rows + 1
    names = ["area", "day", "member", "age"]
    counted = {tuple(r.values()): 0 for r in here.select(names).to_pylist()}
    for row in twice.select(names).to_pylist():
        counted[tuple(row.values())] += 1
    once = {}
    for row in here.select(names).to_pylist():
        once[tuple(row.values())] = once.get(tuple(row.values()), 0) + 1
    assert all(2 * once[key] <= times <= 2 * once[key] + 1 for key, times in counted.items())


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"n": 0}, "n (0) must be a whole number of at least 1"),
        ({"n": -5}, "n (-5)"),
        ({"n": 2.5}, "n (2.5)"),
        ({"n": True}, "n (True)"),
        ({"n": 10**12}, "too many to draw at once"),
        ({"n": 5, "seed": -1}, "seed (-1)"),
        ({"n": 5, "seed": "x"}, "seed ('x')"),
        ({"where": {}}, "no conditions"),
        ({"where": ["sex"]}, "conditions cannot be a list; give a mapping"),
        ({"where": {"gender": "F"}}, "there is no column 'gender'; there are age, sex, day"),
        ({"where": {"sexx": "F"}}, "did you mean 'sex'"),
        ({"where": {7: "F"}}, "there is no column 7"),
        ({"where": {"sex": "W"}}, "column 'sex' has no value 'W'; it has 'F', 'M', 'other'"),
        ({"where": {"sex": []}}, "allows nothing"),
        ({"where": {"sex": None}}, "column 'sex' has no missing values"),
        ({"where": {"sex": {"F": 1}}}, "has no value a dict"),
        ({"where": {"age": 130}}, "column 'age' has no value 130"),
        ({"where": {"age": 25.5}}, "no value 25.5"),
        ({"where": {"age": float("nan")}}, "no value nan"),
        ({"where": {"age": "[18, 60)"}}, "it has '[0, 18)', '[18, 30)', '[30, 60)', '[60, 99]', 'missing'"),
        ({"where": {"day": "2024-01-01"}}, "no value '2024-01-01'"),
        ({"where": {"state": "WA"}}, "level 'state' has no value 'WA'"),
        ({"where": {"state": "TX", "area": "NY1"}}, "contradict"),
    ],
    ids=str,
)  # fmt: skip
def test_clumsy_questions_get_one_line(release: Release, question: dict[str, Any], said: str) -> None:
    with pytest.raises((OptionError, WorkloadError)) as caught:
        release.rows(**question)
    assert said in str(caught.value)


def test_nothing_matches_and_hardly_anything_matches(release: Release) -> None:
    rows, weights = release.codes, np.ones(release.codes.n)
    rare = rows.inside(allowed_codes({"sex": "F"}, SCHEMA))
    for kind in (SupportModel, Stubborn):
        asked = with_model(release, SupportModel)
        asked.model = kind(rows.take(~rare), weights[~rare], 400.0)
        if kind is Stubborn:
            asked.synthetic, asked._codes = release.synthetic.filter(pa.array(~rare)), rows.take(~rare)
        with pytest.raises(WorkloadError, match="nothing in the release has sex = F; allow more labels"):
            asked.rows(10, where={"sex": "F"})
    asked.model = SupportModel(rows, np.where(rare, 1e-6, weights), 400.0)
    with pytest.warns(OpenPriorWarning, match="fewer than one row with sex = F"):
        assert asked.rows(where={"sex": "F"}).num_rows == 1


def test_released_texts_are_read_plainly_however_the_private_file_was_spelled() -> None:
    schema = op.Schema.from_toml(
        'reading = {decimal = ",", thousands = "."}\n'
        '[columns.x]\nkind = "real"\ndtype = "string"\nbins = [0.0, 10.0, 10000.0]\n'
    )
    values = [f"{whole},{tenth}" for whole in range(8) for tenth in range(10)] + ["1.234,5"] * 40
    made = op.release(
        pa.table({"x": values}), schema=schema, epsilon=10, delta=1e-6, mechanism=op.Mst(), seed=1
    )
    below = {v for v in made.synthetic["x"].to_pylist() if float(v) < 10}
    rows = made.rows(60, where={"x": 5.5}, seed=1)["x"].to_pylist()
    assert set(rows) <= below
    assert made.rows(300, seed=1).num_rows == 300


def test_labels_come_before_values() -> None:
    """A label that looks like something else is that label."""
    schema = op.Schema.from_toml(
        '[columns.x]\nkind = "categorical"\nvalues = ["missing", "07", "7", "true"]\n'
        'missing = true\nmissing_values = [""]'
    )
    for value, code in (("missing", 0), ("07", 1), ("7", 2), (7, 2), (True, 3), ("(missing)", 4), (None, 4)):
        assert np.flatnonzero(allowed_codes({"x": value}, schema)["x"]).tolist() == [code]
    for value in ("", "8", 7.5, "TRUE", b"7", [["7"]]):
        with pytest.raises(WorkloadError, match="has no value"):
            allowed_codes({"x": value}, schema)
    open_ended = op.Schema.from_toml(
        'columns.x = {kind = "integer", bins = [0, 18, 65], out_of_domain = "open"}'
    )
    for value, code in ((120, 1), (-5, 0), ("18 or more", 1), ("below 18", 0)):
        assert np.flatnonzero(allowed_codes({"x": value}, open_ended)["x"]).tolist() == [code]
    for value, code in (("[18,65]", None), ("18or more", 1), ("18", 1)):
        if code is None:
            with pytest.raises(WorkloadError, match="has no value"):
                allowed_codes({"x": value}, open_ended)
        else:
            assert np.flatnonzero(allowed_codes({"x": value}, open_ended)["x"]).tolist() == [code]
    spaced = op.Schema.from_toml('[columns.x]\nkind = "categorical"\nvalues = ["a b", "ab", "c d"]\n')
    for value, code in (("a b", 0), ("ab", 1), ("cd", 2)):
        assert np.flatnonzero(allowed_codes({"x": value}, spaced)["x"]).tolist() == [code]
    with pytest.raises(WorkloadError, match="has no value"):
        allowed_codes({"x": "a  b"}, spaced)
    clipped = op.Schema.from_toml('columns.x = {kind = "integer", low = 3, high = 9, out_of_domain = "clip"}')
    with pytest.raises(WorkloadError, match="no value 10"):
        allowed_codes({"x": 10}, clipped)


# Answers.


def test_levels_against_sums_by_hand(release: Release) -> None:
    fine = release.answers(["area", "sex"]).to_pylist()
    table = release.answers(["sex", "state"])
    assert table.column_names[:2] == ["sex", "state"]
    assert table.num_rows == 3 * 4
    for row in table.to_pylist():
        state = row["state"]
        inside = [
            r for r in fine if r["sex"] == row["sex"] and r["area"][:2].replace("mi", "missing") == state
        ]
        assert row["estimate"] == pytest.approx(sum(r["estimate"] for r in inside))
    coasts = {r["coast"]: r["estimate"] for r in release.answers("coast").to_pylist()}
    areas = {r["area"]: r["estimate"] for r in release.answers("area").to_pylist()}
    assert coasts == pytest.approx(
        {
            "south": areas["TX1"] + areas["TX2"],
            "east": areas["NY1"] + areas["NY2"],
            "west": areas["CA1"],
            "missing": areas["missing"],
        }
    )
    assert set(release.answers("coast")["basis"].to_pylist()) == {
        "measured"
    }  # every column is, and so are its sums


def test_intervals_of_levels_against_sums_by_hand() -> None:
    rng = np.random.default_rng(0)
    domain = SCHEMA.full_domain
    counts = rng.integers(0, 50, 18).astype(float)
    states = rng.integers(0, 50, 4).astype(float)
    items = [
        Measurement(Counts(("sex", "area")), counts, 2.0),
        Measurement(Counts(("state",)), states, 3.0, "laplace"),
        Measurement(CellCount(("area",), 1), np.array([5.0]), 1.0),
        Measurement(Counts(("sex",)), counts[:3], 1.5, "gaussian", {"state": 2}),
    ]
    level = SCHEMA.levels["coast"].codes
    sums, cells = np.zeros(4), np.zeros(4)
    np.add.at(sums, level, counts.reshape(3, 6).sum(axis=0))
    np.add.at(cells, level, np.full(6, 3.0))
    up = np.zeros(4, int)
    up[SCHEMA.levels["state"].codes] = level
    above = np.zeros(4)
    np.add.at(above, up, states)
    precision = 1 / (cells * 4.0) + 1 / 9.0
    known = known_about(Measurements(domain, items[:3]), ("coast",), SCHEMA.levels)
    assert known is not None
    np.testing.assert_allclose(known.value, (sums / (cells * 4.0) + above / 9.0) / precision)
    np.testing.assert_allclose(known.standard_error, precision**-0.5)
    both = known_about(Measurements(domain, items[:1]), ("sex", "state"), SCHEMA.levels)
    assert both is not None
    np.testing.assert_allclose(both.standard_error.reshape(3, 4), 2.0 * np.sqrt([[2, 2, 1, 1]] * 3))
    # A part of the rows tells nothing about a level that it cuts through, and all about one that it is.
    assert known_about(Measurements(domain, items[2:3]), ("state",), SCHEMA.levels) is None
    part = known_about(Measurements(domain, items[3:]), ("state",), SCHEMA.levels)
    assert part is not None
    assert np.isfinite(part.value).tolist() == [False, False, True, False]
    assert part.value[2] == pytest.approx(counts[:3].sum())


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["area", "state"], "names a column together with a level above it"),
        (["state", "coast"], "names a column together"),
        (["height"], "there is no column 'height'; there are age, sex"),
        ([], "name at least one column"),
        (["age", "age"], "twice"),
        ("stat", "did you mean 'state'"),
        ([3], "there is no column 3"),
        (7, "cannot be 7"),
    ],
    ids=str,
)
def test_marginals_that_cannot_be(release: Release, columns: Any, said: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        release.answers(columns)
    assert said in str(caught.value)


def test_a_marginal_that_is_too_large_is_refused() -> None:
    sizes = dict.fromkeys("abcdef", 100)
    schema = op.Schema.from_sizes(sizes)
    model = SupportModel(encode_table(pa.table({a: [0, 1] for a in sizes}), schema), np.ones(2), 2.0)
    with pytest.raises(MarginalTooLarge, match="limit"):
        labelled(model, schema, Measurements(schema.full_domain, []), list(sizes))


def test_names_that_clash_with_each_other_are_all_there() -> None:
    schema = op.Schema.from_sizes({"low": 2, "low (column)": 2, "query": 2})
    codes = encode_table(pa.table({"low": [0, 1, 1], "low (column)": [0, 0, 1], "query": [1, 1, 0]}), schema)
    model = SupportModel(codes, np.ones(3), 3.0)
    table = labelled(model, schema, Measurements(schema.full_domain, []), list(schema.names))
    assert table.column_names[:3] == ["low (column) (column)", "low (column)", "query"]
    parts = {"synthetic": None, "certificate": None, "measurements": Measurements(schema.full_domain, [])}
    work = Workload([("low", "query")]).on(schema.domain)
    whole = Release(model=model, schema=schema, workload=work, **parts).answers()
    assert whole.column_names[:4] == ["marginal", "low (column)", "query (column)", "query"]
    assert whole.num_rows == 4


# Frames.


def test_pandas_has_the_types_of_the_schema(release: Release) -> None:
    pandas = pytest.importorskip("pandas")
    frame = release.to_pandas()
    assert list(frame.columns) == list(SCHEMA.names)
    assert str(frame["age"].dtype) == "Int16"
    assert str(frame["member"].dtype) == "boolean"
    assert frame["age"].isna().sum() == release.synthetic["age"].null_count > 0
    assert frame["day"].dt.year.between(2020, 2021).all()
    assert type(frame["day"].iloc[0]) is dt.date
    assert frame["area"].isna().sum() == release.synthetic["area"].null_count
    back = pa.Table.from_pandas(frame, preserve_index=False).cast(release.synthetic.schema)
    assert back.equals(release.synthetic)
    assert (encode_table(frame, SCHEMA).columns[0] == release.codes.columns[0]).all()
    whole = op.Schema.from_sizes({"a": 2})
    plain = Release(
        synthetic=pa.table({"a": [0, 1]}), model=None, certificate=None, schema=whole, workload=None, measurements=None
    )  # fmt: skip
    assert str(plain.to_pandas()["a"].dtype) == "int64"
    assert pandas.__name__ == "pandas"


def test_polars_has_the_types_of_the_schema(release: Release) -> None:
    polars = pytest.importorskip("polars")
    frame = release.to_polars()
    assert frame.schema["age"] == polars.Int16
    assert frame.schema["day"] == polars.Date
    assert frame.schema["member"] == polars.Boolean
    assert frame["age"].to_list() == release.synthetic["age"].to_pylist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_named(
    release: Release, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(OptionError, match=f"{library} is not installed.*release.synthetic"):
        getattr(release, f"to_{library}")()


def test_nothing_is_warned_of_in_passing(release: Release) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release.rows(5)
        release.to_pandas()
        release.answers()


def test_a_value_that_stands_for_its_whole_bin_is_said() -> None:
    schema = op.Schema.from_toml(
        '[columns.age]\nkind = "integer"\nbins = [0, 30, 60]\n[columns.children]\nkind = "integer"\nlow = 0\nhigh = 3\n'
    )
    private = pa.table({"age": [7, 25, 44, 59] * 50, "children": [0, 1, 2, 3] * 50})
    made = op.release(private, schema=schema, workload=1, epsilon=5.0, delta=1e-6, mechanism="mst", seed=1)
    with pytest.warns(OpenPriorWarning, match=r"rows have other values, too: 20 of age by '\[0, 30\)'"):
        made.rows(9, where={"age": [20, "[30, 60]"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.rows(9, where={"age": ["[0, 30)", "[0,30)", "0 to 29"], "children": [1, 2]})
