"""Estimates by group: against the model's answers by hand, how their intervals follow, and clumsy questions."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import openprior as op
from openprior.errors import OptionError, WorkloadError
from openprior.releases.compared import compared
from openprior.releases.estimates import remarks_on, why_none
from openprior.releases.intervals import known_about
from openprior.releases.quantities import CALIBRATED, MEASURED, Found

SCHEMA = op.Schema.from_toml(
    """
[columns.age]
kind = "integer"
bins = [0, 18, 40, 99]

[columns.sex]
kind = "categorical"
values = ["F", "M"]

[columns.score]
kind = "integer"
low = 0
high = 4
missing = true

[columns.city]
kind = "categorical"
values = ["a1", "a2", "b1"]

[hierarchies.land]
column = "city"
prefix = 1
"""
)
RNG = np.random.default_rng(0)
N = 4000


def table(n: int, rng: np.random.Generator) -> pa.Table:
    sex = rng.choice(["F", "M"], n, p=[0.6, 0.4])
    age = rng.integers(0, 100, n)
    score = np.clip(rng.poisson(1.5 + (sex == "M"), n), 0, 4)
    return pa.table(
        {
            "age": age,
            "sex": sex,
            "score": pa.array(score, mask=rng.random(n) < 0.1),
            "city": rng.choice(["a1", "a2", "b1"], n, p=[0.5, 0.3, 0.2]),
        }
    )


PRIVATE, PUBLIC = table(N, RNG), table(N, RNG)


@pytest.fixture(scope="module")
def made() -> op.Release:
    return op.release(
        PRIVATE,
        PUBLIC,
        schema=SCHEMA,
        workload=3,
        epsilon=3.0,
        delta=1e-6,
        mechanism=op.PmwPub(rounds=5),
        seed=0,
    )


def answer(made: op.Release, *columns: str) -> np.ndarray:
    shape = [SCHEMA.domain[a] for a in columns]
    return made.model.answers([columns])[columns].reshape(shape)


def column(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist()


def test_counts_are_the_model_s_with_its_bars(made: op.Release) -> None:
    found = made.estimate("count", by="sex")
    answers = made.answers("sex")
    for name in ("sex", "estimate"):
        assert column(found, name) == column(answers, name)
    assert column(made.estimate("count"), "estimate") == [N]
    assert column(made.estimate("count"), "standard_error") == [0.0]  # the number of rows is public
    lands = made.estimate("count", by="land", where={"sex": "M"})
    by_hand = answer(made, "sex", "city")[1]
    assert column(lands, "estimate") == pytest.approx([by_hand[:2].sum(), by_hand[2]])


def test_a_mean_is_over_the_rows_that_have_a_value(made: op.Release) -> None:
    found = made.estimate("mean", "score", by="sex")
    counts = answer(made, "sex", "score")[:, :5]
    assert column(found, "estimate") == pytest.approx(list(counts @ np.arange(5) / counts.sum(axis=1)))
    total = made.estimate("sum", "score", by="sex")
    assert column(total, "estimate") == pytest.approx(list(counts @ np.arange(5)))
    assert set(column(found, "basis")) == {"calibrated"}
    low, high, mean = (np.array(column(found, c)) for c in ("low", "high", "estimate"))
    assert (low < mean).all() and (mean < high).all()


def test_inside_bins_numbers_are_those_of_released_rows(made: op.Release) -> None:
    found = made.estimate("mean", "age")
    counts = answer(made, "age")
    ages, codes = made.synthetic["age"].to_numpy(), made.codes.column("age")
    own = np.array([ages[codes == c].mean() for c in range(3)])
    assert column(found, "estimate") == pytest.approx([counts @ own / counts.sum()])


def test_shares_of_every_value_and_of_some_together(made: op.Release) -> None:
    each = made.estimate("share", "city", by="sex")
    counts = answer(made, "sex", "city")
    assert column(each, "estimate") == pytest.approx(
        list((counts / counts.sum(axis=1, keepdims=True)).reshape(-1))
    )
    assert column(each, "city") == ["a1", "a2", "b1"] * 2
    both = made.estimate("share", "city", by="sex", value=["a1", "a2"])
    assert column(both, "estimate") == pytest.approx(list(counts[:, :2].sum(axis=1) / counts.sum(axis=1)))
    assert all(0 <= v <= 1 for c in ("low", "high") for v in column(each, c))


def test_quantiles_lie_where_the_shares_say(made: op.Release) -> None:
    counts = answer(made, "age")
    share = counts / counts.sum()
    median = column(made.estimate("median", "age"), "estimate")[0]
    place = int(np.searchsorted(np.cumsum(share), 0.5))
    first, last = ((0, 17), (18, 39), (40, 99))[place]
    inside = (0.5 - share[:place].sum()) / share[place]
    assert median == pytest.approx(first + inside * (last - first))
    low, high = (column(made.estimate("quantile", "age", q=q), "estimate")[0] for q in (0.1, 0.9))
    assert low < median < high
    found = made.estimate("median", "age")
    assert column(found, "low")[0] <= median <= column(found, "high")[0]


def test_a_ratio_is_of_two_sums(made: op.Release) -> None:
    found = made.estimate("ratio", "score,age", by="sex")
    ages, scores = (
        made.estimate("sum", a, by="sex", where={"score": [0, 1, 2, 3, 4]}) for a in ("age", "score")
    )
    expected = np.array(column(scores, "estimate")) / np.array(column(ages, "estimate"))
    assert column(found, "estimate") == pytest.approx(list(expected))


@pytest.mark.parametrize("how", ["difference", "ratio"])
def test_groups_are_compared_with_one_of_them(made: op.Release, how: str) -> None:
    plain = made.estimate("mean", "score", by="sex")
    f, m = column(plain, "estimate")
    found = made.estimate("mean", "score", by="sex", compare=how, against={"sex": "M"})
    expected = [f - m, 0.0] if how == "difference" else [f / m, 1.0]
    assert column(found, "estimate") == pytest.approx(expected)
    assert column(found, "standard_error")[1] == 0.0
    if how == "difference":
        errors = column(plain, "standard_error")
        assert column(found, "standard_error")[0] == pytest.approx(sum(errors))


def test_shares_are_compared_value_by_value(made: op.Release) -> None:
    plain = column(made.estimate("share", "city", by="sex"), "estimate")
    for how, own in (("difference", lambda a, b: a - b), ("ratio", lambda a, b: a / b)):
        found = made.estimate("share", "city", by="sex", compare=how, against={"sex": "M"})
        assert column(found, "city") == ["a1", "a2", "b1"] * 2
        assert column(found, "estimate") == pytest.approx(
            [own(plain[i], plain[3 + i % 3]) for i in range(6)], abs=1e-12
        )
        assert column(found, "standard_error")[3:] == [0.0] * 3
        assert all(e > 0 for e in column(found, "standard_error")[:3])


def test_a_number_of_rows_that_is_public_is_exact_and_shares_of_all_are_counts_over_it(
    made: op.Release,
) -> None:
    total = made.estimate("count").to_pylist()[0]
    assert total["basis"] == "exact" and total["low"] == total["high"] == N
    shares = made.estimate("share", "city")
    for name in ("estimate", "standard_error", "low", "high"):
        counts = np.array(column(made.answers("city"), name))
        assert np.array(column(shares, name)) * N == pytest.approx(np.minimum(counts, N))
    assert column(shares, "basis") == column(made.answers("city"), "basis")


def test_counts_that_were_measured_have_what_measurements_say() -> None:
    exact = op.release(PRIVATE, schema=SCHEMA, workload=2, epsilon=3.0, delta=1e-6, mechanism="hdmm", seed=0)
    for column_ in ("sex", "city"):
        found, answers = exact.estimate("count", by=column_), exact.answers(column_)
        assert set(column(found, "basis")) == {"measured"}
        for name in ("estimate", "low", "high", "basis"):
            assert column(found, name) == column(answers, name)
    pairs = exact.estimate("count", by="sex", compare="difference")
    assert column(pairs, "basis") == ["exact", "measured"], "a group is just itself"
    (one,) = exact.estimate("count", where={"sex": "M", "city": "a2"}).to_pylist()
    cells = exact.answers(["sex", "city"]).to_pylist()
    (cell,) = [c for c in cells if (c["sex"], c["city"]) == ("M", "a2")]
    assert all(one[name] == cell[name] for name in one)
    by_city = exact.estimate("count", by="city", where={"sex": "M"}).to_pylist()
    of_men = [c for c in cells if c["sex"] == "M"]
    assert [[row[a] for a in ("city", "low", "high")] for row in by_city] == [
        [c[a] for a in ("city", "low", "high")] for c in of_men
    ]
    shares, share = (exact.estimate("share", "city", **more).to_pylist() for more in ({}, {"value": "a2"}))
    assert share[0]["basis"] == "measured" and share[0]["low"] == shares[1]["low"]
    assert "one by one" in why_none(exact.estimate("mean", "score", by="sex"))[0]


def test_nothing_is_above_a_number_of_rows_that_is_public() -> None:
    """Also where noise is far larger than the table, and says more rows than there are."""
    few = PRIVATE.slice(0, 5)
    over = 0
    for seed in range(4):
        made = op.release(
            few, PUBLIC, schema=SCHEMA, workload=1, epsilon=0.1, delta=1e-6, mechanism="mst", seed=seed
        )
        for name in SCHEMA.names:
            cells = made.answers(name).to_pylist()
            shares = made.estimate("share", name).to_pylist()
            over += sum(known.value.max() > 5 for known in [known_about(made.measurements, (name,))] if known)
            for cell, share in zip(cells, shares, strict=True):
                assert 0 <= cell["low"] < cell["high"] <= 5
                assert 0 <= share["low"] <= share["high"] <= 1
    assert over, "some are measured to be more"
    unknown = op.release(
        few,
        PUBLIC,
        schema=SCHEMA,
        workload=1,
        epsilon=0.1,
        delta=1e-6,
        mechanism="mst",
        relation="add-remove",
    )
    assert max(column(unknown.answers("sex"), "high")) > 5


def test_the_number_of_rows_is_the_table_s_also_where_a_model_has_another(tmp_path: Any) -> None:
    """Totals that are rounded group by group lose or gain rows."""
    each = op.Hierarchy(levels=(("land",), ("city",)), rounding="each")
    made = op.release(
        PRIVATE, PUBLIC, schema=SCHEMA, workload=2, epsilon=0.1, delta=1e-6, mechanism=each, seed=0
    )
    assert made.model.total != N, "or this shows nothing"
    for release in (made, op.open_release(made.save(tmp_path / "r"))):
        assert release.certificate.rows == release.measurements.rows == N
        (count,) = release.estimate("count").to_pylist()
        assert (count["estimate"], count["low"], count["basis"]) == (N, N, "exact")
        assert set(column(release.estimate("share", "city"), "basis")) == {"calibrated"}
    unknown = op.release(
        PRIVATE,
        schema=SCHEMA,
        workload=1,
        epsilon=3.0,
        delta=1e-6,
        mechanism="mst",
        relation="add-remove",
        seed=0,
    )
    assert unknown.certificate.rows is None and '"rows":' not in unknown.certificate.to_json()
    assert column(unknown.estimate("count"), "basis") == ["none"]


def test_sums_and_ratios_of_what_is_never_negative_are_not_either(made: op.Release) -> None:
    for question, more in ((("sum", "score"), {}), (("ratio", ["score", "age"]), {})):
        for row in made.estimate(
            *question, by="city,age" if "sum" in question else "city", **more
        ).to_pylist():
            assert 0 <= row["low"] <= row["estimate"] <= row["high"]


def test_groups_that_conditions_leave_out_are_not_listed(made: op.Release) -> None:
    found = made.estimate("count", by="city,sex", where={"land": "a"})
    assert set(column(found, "city")) == {"a1", "a2"} and found.num_rows == 4
    lands = made.estimate("mean", "score", by="land", where={"city": "b1"}, compare="difference").to_pylist()
    assert [(row["land"], row["estimate"]) for row in lands] == [("b", 0.0)]
    assert column(made.estimate("share", "city", where={"city": ["a1", "b1"]}), "city") == ["a1", "b1"]
    with pytest.raises(WorkloadError, match="leave out"):
        made.estimate("count", by="city", where={"land": "a"}, compare="ratio", against={"city": "b1"})


def test_labels_that_are_taken_as_numbers_are_said() -> None:
    schema = op.Schema.from_toml(
        '[columns.code]\nkind = "categorical"\nvalues = [1, 2]\n[columns.x]\nkind = "integer"\nlow = 0\nhigh = 1\n'
    )
    rows = pa.table({"code": [1, 2] * 200, "x": [0, 0, 1, 1] * 100})
    coded = op.release(rows, rows.slice(1), schema=schema, workload=2, epsilon=3.0, delta=1e-6, seed=0)
    assert "'code' is categorical" in remarks_on(coded.estimate("mean", "code"))[0]
    assert remarks_on(coded.estimate("share", "code", by="x")) == []
    assert remarks_on(coded.estimate("mean", "x", by="code")) == []


def test_where_there_is_no_interval_the_table_says_why(made: op.Release) -> None:
    def why(table: pa.Table) -> str:
        return "; ".join(why_none(table))

    bare = op.release(
        PRIVATE, schema=SCHEMA, workload=2, epsilon=3.0, delta=1e-6, mechanism="mst", seed=0, error_bars=0
    )
    assert why(bare.estimate("mean", "score", by="sex")).startswith("this release has no error bars")
    wide = made.estimate("mean", "score", by="age,sex,city")
    assert "no marginal with age and sex and score and city" in why(wide)
    assert why(made.estimate("mean", "score", by="sex")) == ""


def test_a_group_without_a_row_has_no_figure() -> None:
    only = PRIVATE.filter(pa.compute.equal(PRIVATE["sex"], "F"))
    made = op.release(
        only, only.slice(1), schema=SCHEMA, workload=2, epsilon=3.0, delta=1e-6, mechanism="pmw-pub", seed=0
    )
    for what, more in (("mean", {}), ("share", {"value": 1}), ("median", {}), ("quantile", {"q": 0.9})):
        found = made.estimate(what, "score", by="sex", **more).to_pylist()
        assert found[0]["estimate"] is not None and found[0]["basis"] == "calibrated", what
        assert found[1]["estimate"] is found[1]["low"] is None and found[1]["basis"] == "none", what
    assert "fewer than 1 row" in why_none(made.estimate("mean", "score", by="sex"))[0]


def test_means_stay_within_what_a_column_can_hold(made: op.Release) -> None:
    (bin_,) = made.estimate("mean", "age", where={"age": 20}).to_pylist()
    assert 18 <= bin_["low"] <= bin_["estimate"] <= bin_["high"] <= 39
    for row in made.estimate("mean", "score", by="sex,city").to_pylist():
        assert 0 <= row["low"] <= row["estimate"] <= row["high"] <= 4


def test_without_bars_or_beyond_the_workload_there_is_no_interval() -> None:
    for more, by in (({"error_bars": 0}, "sex"), ({"workload": [["age"], ["sex"], ["score"]]}, "sex")):
        made = op.release(
            PRIVATE,
            PUBLIC,
            schema=SCHEMA,
            epsilon=3.0,
            delta=1e-6,
            mechanism=op.PmwPub(rounds=2),
            seed=0,
            **more,
        )
        found = made.estimate("mean", "score", by=by)
        assert set(column(found, "basis")) == {"none"}
        assert found["low"].null_count == 2 and found["estimate"].null_count == 0


def test_a_reopened_release_says_the_same(made: op.Release, tmp_path: Any) -> None:
    opened = op.open_release(made.save(tmp_path / "r"))
    for question in (("mean", "age"), ("share", "city"), ("median", "age"), ("count", None)):
        assert opened.estimate(*question, by="sex").equals(made.estimate(*question, by="sex"))


def test_intervals_hold_on_average(made: op.Release) -> None:
    """Of the private table's own means and shares by two columns."""
    frame = PRIVATE.to_pandas()
    inside = []
    for row in made.estimate("mean", "score", by="sex,city").to_pylist():
        own = frame[(frame.sex == row["sex"]) & (frame.city == row["city"])].score.mean()
        inside.append(row["low"] <= own <= row["high"])
    for row in made.estimate("share", "city", by="sex,age").to_pylist():
        first = int(row["age"][1:].split(",")[0])
        last = {0: 18, 18: 40, 40: 100}[first]
        group = frame[(frame.sex == row["sex"]) & (frame.age >= first) & (frame.age < last)]
        inside.append(row["low"] <= (group.city == row["city"]).mean() <= row["high"])
    assert np.mean(inside) >= 0.85


@pytest.mark.parametrize(
    ("question", "more", "said"),
    [
        (("average", "age"), {}, "what"),
        (("mean",), {}, "one column"),
        (("count", "age"), {}, "takes no column"),
        (("ratio", "age"), {}, "two columns; name both"),
        (("mean", "city"), {}, "no numbers"),
        (("mean", "land"), {}, "is a level"),
        (("mean", "aeg"), {}, "did you mean 'age'"),
        (("mean", "age"), {"by": "age"}, "named twice"),
        (("mean", "age"), {"by": ["city", "land"]}, "named twice"),
        (("mean", "age"), {"value": 3}, "value says"),
        (("share", "city"), {"value": "c9"}, "no value"),
        (("mean", "age"), {"q": 0.5}, "only there"),
        (("quantile", "age"), {}, "only there"),
        (("quantile", "age"), {"q": 1.5}, "above 0 and below 1"),
        (("mean", "age"), {"compare": "difference"}, "no groups"),
        (("mean", "age"), {"by": "sex", "against": {"sex": "F"}}, "against says"),
        (
            ("mean", "age"),
            {"by": "sex", "compare": "difference", "against": {"city": "a1"}},
            "one group by its labels",
        ),
        (("mean", "age"), {"by": "sex", "compare": "difference", "against": {"sex": "X"}}, "no value"),
        (("mean", "age"), {"by": "sex", "compare": "minus"}, "compare"),
        (("mean", "age"), {"where": {"sex": "X"}}, "no value"),
    ],
)
def test_clumsy_questions(made: op.Release, question: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises((WorkloadError, OptionError), match=said):
        made.estimate(*question, **more)


@pytest.mark.parametrize("apart", [True, False])
def test_groups_that_share_a_total_are_off_in_opposite_directions(apart: bool) -> None:
    """What all have together being exact, one group's error is the other's with another sign; of many groups, each is
    hardly that of another. Noisy counts of the groups are off by themselves."""
    basis = MEASURED if apart else CALIBRATED
    for rows, together in (([50.0, 50.0], 2.0), ([1.0] * 1000, np.sqrt(2)), ([80.0, 10.0, 10.0], None)):
        groups = len(rows)
        found = Found(np.arange(groups) + 5.0, *np.ones((3, groups)), np.full(groups, basis))
        wide = compared(found, np.array(rows), 0, 1, "difference").up
        assert wide[0] == 0.0
        if apart:
            assert wide[1:] == pytest.approx(np.sqrt(2))
        elif together is not None:
            assert wide[1:] == pytest.approx(together, rel=1e-3)
        else:
            assert (wide[1:] > np.sqrt(2)).all() and (wide[1:] < 2).all()
