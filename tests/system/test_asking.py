"""`openprior answers` and `openprior rows`: what a release says, as tables, JSON and files; and clumsy questions."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import openprior as op
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
            "area, code": rng.choice(["TX|1", "TX=2", "NY1"], 400),
        }
    )
    place = tmp_path_factory.mktemp("asking") / "release"
    op.release(
        private, schema=SCHEMA, workload=op.all_marginals(3), epsilon=5, delta=1e-6, mechanism=op.Mst(), out=place,
        seed=1,
    )  # fmt: skip
    return place


@pytest.fixture
def place(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "release").symlink_to(folder)
    return tmp_path


def done(*args: str) -> Said:
    said = say(*args)
    assert said.code == 0, said.err
    return said


def test_answers_are_printed_and_written(place: Path) -> None:
    made = op.open_release("release")
    said = done("answers", "release", "sex,state")
    assert "NOT PRIVATE (seeded noise)" in said.err
    for word in ("Estimated counts of sex,state", "estimate", "TX"):
        assert word in said.out
    assert "measured" in done("answers", "release", "age,state").out
    assert "calibrated" in done("answers", "release", 'age,sex,"area, code"').out
    facts = json.loads(done("answers", "release", "sex,state", "--json").out)
    assert facts["columns"] == ["sex", "state"]
    assert facts["noise"] == "NOT PRIVATE (seeded noise)"
    assert facts["answers"] == made.answers(["sex", "state"]).to_pylist()
    assert json.loads(done("answers", "release", "area, code", "--json").out)["columns"] == ["area, code"]
    assert json.loads(done("answers", "release", '"area, code",age', "--json").out)["columns"] == [
        "area, code",
        "age",
    ]
    assert len(json.loads(done("answers", "release", "--json").out)["answers"]) == made.answers().num_rows
    assert "wrote all.parquet: " in done("answers", "release", "-o", "all.parquet").out
    written = parquet.read_table("all.parquet")["estimate"].to_numpy()
    np.testing.assert_allclose(written, made.answers()["estimate"].to_numpy(), rtol=1 / 256)
    done("answers", "release", "age", "-o", "age.CSV")
    assert csv.read_csv("age.CSV")["estimate"].to_pylist() == made.answers("age")["estimate"].to_pylist()


def test_negative_estimates_are_explained(place: Path) -> None:
    assert "below 0" not in done("answers", "release", "sex").out
    private = op.open_release("release").synthetic
    options = {"schema": SCHEMA, "workload": 2, "epsilon": 0.05, "delta": 1e-6, "seed": 1}
    linear = op.release(private, mechanism="hdmm", out="linear", **options)
    assert min(linear.answers(["sex", "age"])["estimate"].to_pylist()) < 0
    assert "below 0 is noise" in done("answers", "linear", "sex,age").out


def test_queries_are_asked_by_labels_and_answered(place: Path) -> None:
    rows = op.open_release("release").synthetic
    csv.write_csv(rows, "private.csv")
    csv.write_csv(op.open_release("release").rows(300, seed=1), "public.csv")
    Path("q.toml").write_text('queries = [{sex = "F", age = 25}, {state = "TX"}]')
    SCHEMA.save("schema.toml")
    words = (
        "--public",
        "public.csv",
        "--schema",
        "schema.toml",
        "--workload",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    )
    asked = ("-m", "ide", "-O", "choose=none", "-O", "queries=@q.toml", "-o", "asked", "--format", "csv")
    done("release", "private.csv", *words, *asked)
    assert say("check", "asked").code == 0
    said = json.loads(done("answers", "asked", "--queries", "--json").out)["answers"]
    assert [row["query"] for row in said] == [
        'where(age="[18, 30)", sex="F")',
        'where("area, code"="TX|1"|"TX=2")',
    ]
    assert all(row["basis"] == "measured" and row["low"] < row["high"] for row in said)
    printed = done("answers", "asked", "--queries").out
    assert "where(age=" in printed
    assert "…" not in printed  # a label that is cut is lost
    clumsy = say("release", "private.csv", *words, "-m", "ide", "-O", 'queries=where(sex="W")', "-o", "no")
    assert clumsy.code == 1
    assert "column 'sex' has no value 'W'; it has 'F', 'M'" in clumsy.err
    assert not Path("no").exists()


def test_rows_are_written_with_what_was_asked(place: Path) -> None:
    said = done(
        "rows", "release", "-n", "70", "--where", "sex=F", "--where", "age=[18, 30)|77|missing", "-o", "m.csv"
    )
    assert said.out == "wrote m.csv: 70 rows drawn from the model\n"
    rows = csv.read_csv("m.csv").to_pylist()
    assert {row["sex"] for row in rows} == {"F"}
    assert all(row["age"] is None or 18 <= row["age"] < 30 or row["age"] >= 60 for row in rows)
    for where, areas in (
        ("area, code=TX|1", {"TX|1"}),
        ('"area, code"=TX=2', {"TX=2"}),
        ('area, code="TX|1"|NY1', {"TX|1", "NY1"}),
        ("state=TX", {"TX|1", "TX=2"}),
    ):
        out = f"{len(list(place.iterdir()))}.parquet"
        facts = json.loads(
            done("rows", "release", "-n", "99", "--where", where, "--seed", "1", "-o", out, "--json").out
        )
        assert (facts["rows"], facts["origin"], facts["out"]) == (99, "drawn from the model", out)
        assert set(parquet.read_table(out)["area, code"].to_pylist()) == areas
    assert "400 rows taken from the released rows" in done("rows", "release", "-o", "all.csv").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rows", "release", "-n", "0", "-o", "x.csv"], "n (0) must be a whole number of at least 1"),
        (["rows", "release", "-n", "-3", "-o", "x.csv"], "n (-3)"),
        (["rows", "release", "-n", "99999999999", "-o", "x.csv"], "too many"),
        (["rows", "release", "--where", "sex=W", "-o", "x.csv"], "has no value 'W'; it has 'F', 'M'"),
        (["rows", "release", "--where", "sexx=F", "-o", "x.csv"], "did you mean 'sex'"),
        (["rows", "release", "--where", "sex", "-o", "x.csv"], "write COLUMN=LABEL"),
        (["rows", "release", "--where", "=F", "-o", "x.csv"], "write COLUMN=LABEL"),
        (["rows", "release", "--where", "sex=F", "--where", "sex=M", "-o", "x.csv"], "'sex' twice"),
        (["rows", "release", "--where", 'sex="F', "-o", "x.csv"], "does not close it"),
        (["rows", "release", "-o", "x.xlsx"], "end it in .csv or .parquet"),
        (["rows", "release", "-o", "release"], "end it in .csv or .parquet"),
        (["rows", "release", "-o", "no/x.csv"], "does not exist; create it first"),
        (["rows", "nothing", "-o", "x.csv"], "not a release folder"),
        (["answers", "release"], "name columns"),
        (["answers", "release", "agee"], "did you mean 'age'"),
        (["answers", "release", "age,,sex"], "there is no column ''"),
        (["answers", "release", "age,age"], "twice"),
        (["answers", "release", "state,area, code"], "there is no column 'area'"),
        (["answers", "release", "age", "-o", "x"], "end it in .csv"),
        (["answers", "release", "age", "--queries"], "one after the other"),
        (["answers", "release", "--queries"], "the release has no queries: 'mst' measured none"),
    ],
    ids=str,
)
def test_clumsy_questions_end_in_one_line_and_write_nothing(place: Path, words: list[str], said: str) -> None:
    ended = say(*words)
    assert ended.code == 1
    assert said in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("error: ")]) == 1
    assert [p.name for p in place.iterdir()] == ["release"]


def test_a_file_that_is_there_stays(place: Path) -> None:
    Path("x.csv").write_text("mine")
    assert "exists" in say("rows", "release", "-o", "x.csv").err
    assert Path("x.csv").read_text() == "mine"


def test_a_file_that_cannot_be_written_is_no_half_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ended = say("rows", "release", "-o", "x.csv")
    assert ended.code == 1
    assert "cannot write x.csv: No space left on device" in ended.err
    assert [p.name for p in place.iterdir()] == ["release"]
