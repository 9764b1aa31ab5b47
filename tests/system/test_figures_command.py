"""`openprior figures` and `replicates`: any quantity, tables for analyses of one's own, what a basis means; and clumsy
questions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import openprior as op
from openprior.releases import table_files
from tests.console import Said, say

SCHEMA = op.Schema.from_toml(
    """
[columns.age]
kind = "integer"
bins = [0, 18, 30, 60, 99]
missing = true
[columns.sex]
kind = "categorical"
values = ["F", "M"]
[columns.hours]
kind = "integer"
bins = [0, 10, 20, 40, 80]
[columns."area, code"]
kind = "categorical"
values = ["TX|1", "TX=2", "NY1"]
[hierarchies.state]
column = "area, code"
prefix = 2
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 99, 400)
    private = pa.table(
        {
            "age": pa.array(ages, mask=ages < 9),
            "sex": rng.choice(["F", "M"], 400),
            "hours": rng.integers(0, 80, 400),
            "area, code": rng.choice(["TX|1", "TX=2", "NY1"], 400),
        }
    )
    place = tmp_path_factory.mktemp("figures")
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "workload": 2,
        "epsilon": 5,
        "delta": 1e-6,
        "mechanism": op.Mst(),
    }
    op.release(private, out=place / "release", **given)
    op.release(private, out=place / "bare", error_bars=0, seed=1, **given)
    return place


@pytest.fixture
def place(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("release", "bare"):
        (tmp_path / name).symlink_to(folder / name)
    return tmp_path


def done(*args: str) -> Said:
    said = say(*args)
    assert said.code == 0, said.err
    return said


# Figures.


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["count"], {}),
        (["count", "--by", 'sex,"area, code"'], {"by": ["sex", "area, code"]}),
        (["mean", "--of", "age", "--by", "sex,state"], {"of": "age", "by": "sex,state"}),
        (["sum", "--of", "hours", "--where", "age=25|77"], {"of": "hours", "where": {"age": ["25", "77"]}}),
        (["share", "--of", "sex"], {"of": "sex"}),
        (
            ["share", "--of", "area, code", "--value", "TX|1", "--value", "NY1"],
            {"of": ["area, code"], "value": ["TX|1", "NY1"]},
        ),
        (["quantile", "--of", "age", "--q", "0.9", "--by", "sex"], {"of": "age", "q": 0.9, "by": "sex"}),
        (["median", "--of", "hours"], {"of": "hours"}),
        (["ratio", "--of", "hours,age", "--by", "sex"], {"of": ["hours", "age"], "by": "sex"}),
        (
            ["mean", "--of", "age", "--by", "sex", "--compare", "difference", "--against", "sex=M"],
            {"of": "age", "by": "sex", "compare": "difference", "against": {"sex": "M"}},
        ),
        (
            ["count", "--by", "area, code", "--compare", "ratio", "--against", '"area, code"=TX=2'],
            {"by": ["area, code"], "compare": "ratio", "against": {"area, code": "TX=2"}},
        ),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_figures_are_those_of_the_release(place: Path, words: list[str], asked: dict[str, Any]) -> None:
    expected = op.open_release("release").estimate(words[0], **asked).to_pylist()
    facts = json.loads(done("figures", "release", *words, "--json").out)
    assert facts["figures"] == expected
    assert (facts["what"], facts["noise"]) == (words[0], "secure")
    printed = done("figures", "release", *words).out
    assert f"Estimated {words[0]}" in printed
    for basis in {row["basis"] for row in expected}:
        assert f"\n{basis}: " in printed
    assert "wrote f.csv: " in done("figures", "release", *words, "-o", "f.csv").out
    assert csv.read_csv("f.csv")["estimate"].to_pylist() == pytest.approx([r["estimate"] for r in expected])


def test_shares_and_sums_are_printed_with_digits_enough(place: Path) -> None:
    (row,) = json.loads(done("figures", "release", "share", "--of", "sex", "--value", "F", "--json").out)[
        "figures"
    ]
    assert f"{row['estimate']:.4g}" in done("figures", "release", "share", "--of", "sex", "--value", "F").out
    (row,) = json.loads(done("figures", "release", "sum", "--of", "hours", "--json").out)["figures"]
    assert f"{row['estimate']:,.0f}" in done("figures", "release", "sum", "--of", "hours").out


def test_without_error_bars_there_is_an_estimate_and_no_interval(place: Path) -> None:
    said = done("figures", "bare", "mean", "--of", "age", "--by", "sex")
    assert "NOT PRIVATE (seeded noise)" in said.err
    assert "none: this release has no error bars" in said.out and "calibrated" not in said.out
    assert "missing and other values are left out" in said.out


def test_answers_explain_what_they_rest_on(place: Path) -> None:
    for release in ("release", "bare"):
        bases = set(op.open_release(release).answers(["sex", "age"])["basis"].to_pylist())
        printed = done("answers", release, "sex,age").out
        for basis in ("measured", "calibrated", "model", "none"):
            assert (f"\n{basis}: " in printed) == (basis in bases)
    assert "'calibrated'" in done("answers", "--help").out
    assert "'calibrated'" in done("figures", "--help").out


# Replicates.


def test_replicates_are_written_all_together(place: Path) -> None:
    said = done("replicates", "release", "-k", "10", "-o", "r", "--seed", "3")
    assert said.out == "wrote r: 10 replicates of 400 rows\n"
    assert sorted(p.name for p in Path("r").iterdir()) == [f"replicate-{i:02}.parquet" for i in range(1, 11)]
    expected = op.open_release("release").replicates(10, 3)
    for i, table in enumerate(expected, 1):
        assert parquet.read_table(f"r/replicate-{i:02}.parquet").to_pylist() == table.to_pylist()
    facts = json.loads(done("replicates", "release", "-k", "2", "-o", "c", "--format", "csv", "--json").out)
    assert facts == {
        "noise": "secure",
        "rows": 400,
        "files": ["replicate-1.csv", "replicate-2.csv"],
        "out": "c",
    }
    assert csv.read_csv("c/replicate-2.csv").num_rows == 400


def test_replicates_that_cannot_be_written_leave_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = table_files.write_table, []

    def full(table: pa.Table, path: Path, format: str | None = None) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path)
        write(table, path, format)

    monkeypatch.setattr(table_files, "write_table", full)
    ended = say("replicates", "release", "-k", "3", "-o", "r")
    assert ended.code == 1 and "No space left on device" in ended.err
    assert len(written) == 1
    assert sorted(p.name for p in place.iterdir()) == ["bare", "release"]


# Clumsy.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figures", "release", "meen", "--of", "age"], "'mean'"),
        (["figures", "release", "mean"], "a mean is of one column"),
        (["figures", "release", "mean", "--of", "sex"], "'sex' has no numbers"),
        (["figures", "release", "mean", "--of", "agee"], "did you mean 'age'"),
        (["figures", "release", "mean", "--of", "age,hours"], "one column"),
        (["figures", "release", "ratio", "--of", "age"], "two columns"),
        (["figures", "release", "count", "--of", "age"], "no column"),
        (["figures", "release", "quantile", "--of", "age"], "--q says which quantile"),
        (["figures", "release", "mean", "--of", "age", "--q", "0.5"], "only there"),
        (["figures", "release", "quantile", "--of", "age", "--q", "2"], "above 0 and below 1"),
        (["figures", "release", "share", "--of", "sex", "--value", "W"], "has no value 'W'"),
        (["figures", "release", "mean", "--of", "age", "--value", "3"], "value says"),
        (["figures", "release", "mean", "--of", "age", "--by", "age"], "twice"),
        (["figures", "release", "mean", "--of", "age", "--by", "sex,sexx"], "did you mean 'sex'"),
        (["figures", "release", "mean", "--of", "age", "--where", "sex"], "write COLUMN=LABEL"),
        (["figures", "release", "mean", "--of", "age", "--where", "sex=W"], "has no value 'W'"),
        (["figures", "release", "mean", "--of", "age", "--compare", "ratio"], "no groups to compare"),
        (["figures", "release", "mean", "--of", "age", "--by", "sex", "--compare", "both"], "'difference'"),
        (["figures", "release", "mean", "--of", "age", "--by", "sex", "--against", "sex=F"], "difference"),
        (
            ["figures", "release", "count", "--by", "sex", "--compare", "ratio", "--against", "sex"],
            "--against 'sex'",
        ),
        (
            ["figures", "release", "count", "--by", "sex", "--compare", "ratio", "--against", "age=25"],
            "one for each of sex",
        ),
        (
            [
                *("figures", "release", "count", "--by", "sex", "--compare", "ratio"),
                *("--against", "sex=F", "--against", "sex=M"),
            ],
            "'sex' twice",
        ),
        (["figures", "release", "count", "-o", "x.xlsx"], "end it in .csv or .parquet"),
        (["figures", "release", "count", "-o", "no/x.csv"], "create it first"),
        (["figures", "nothing", "count"], "not a release folder"),
        (["replicates", "bare", "-o", "r"], "no error bars"),
        (["replicates", "release", "-k", "1", "-o", "r"], "k (1)"),
        (["replicates", "release", "-k", "5000", "-o", "r"], "too many"),
        (["replicates", "release", "--seed", "-1", "-o", "r"], "seed (-1)"),
        (["replicates", "release", "--format", "xls", "-o", "r"], "format 'xls'"),
        (["replicates", "release", "-o", "bare"], "exists"),
        (["replicates", "release", "-o", "no/r"], "create it first"),
        (["replicates", "nothing", "-o", "r"], "not a release folder"),
    ],
    ids=str,
)
def test_clumsy_questions_end_in_one_line_and_write_nothing(place: Path, words: list[str], said: str) -> None:
    ended = say(*words)
    assert ended.code == 1, ended.out
    assert said in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("error: ")]) == 1
    assert sorted(p.name for p in place.iterdir()) == ["bare", "release"]


def test_a_release_says_how_sure_it_is(place: Path) -> None:
    rows = op.open_release("release").synthetic
    csv.write_csv(rows, "private.csv")
    SCHEMA.save("s.toml")
    words = (
        "release",
        "private.csv",
        "--schema",
        "s.toml",
        "--workload",
        "2",
        "-m",
        "mst",
        "--delta",
        "1e-6",
    )
    told = done(*words, "--epsilon", "5", "-o", "sure").out
    bars = op.open_release("sure").error_bars
    assert bars is not None
    within = int(np.ceil(bars.around(np.array([100.0]), 2).high[0] - 100))
    assert (
        f"Of answers of about 100 rows in tables of 2 columns, 95 in 100 are within ±{within} of the true"
        in told
    )
    assert "within ±" not in done(*words, "--epsilon", "5", "-o", "bare-2", "--error-bars", "0").out
