"""A file as an office in Germany has it, from the draft to the evaluation: said once, kept in the schema."""

import datetime as dt
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.command_line.reading_options import as_words
from openprior.privacy.auditing.neighbours import raw
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source
from tests.console import say

OPTIONS = (
    *("--encoding", "cp1252", "--decimal", ",", "--thousands", ".", "--delimiter", ";"),
    *("--date-format", "%d.%m.%Y", "--null-values", "k.A.", "--null-values", "-9"),
)
PYTHON: dict[str, Any] = {
    "encoding": "cp1252",
    "decimal": ",",
    "thousands": ".",
    "delimiter": ";",
    "date_format": "%d.%m.%Y",
    "null_values": ("k.A.", "-9"),
}
BUDGET = ("--epsilon", "50", "--delta", "1e-6", "--workload", "1", "-m", "public", "--insecure-seed", "1")


def write(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = ["Größe;Lohn;Tag;Ort"]
    for _ in range(300):
        pay = f"{rng.gamma(2.0, 1500.0):,.2f}".translate(str.maketrans(",.", ".,"))
        day = f"{rng.integers(1, 29):02}.{rng.integers(1, 13):02}.2018"
        height = rng.choice(["k.A.", "-9", *map(str, range(155, 185))])
        lines.append(f"{height};{pay};{day};{rng.choice(['Köln', 'Jülich'])}")
    path.write_bytes("\n".join(lines).encode("cp1252"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "public.csv", 1)
    write(tmp_path / "private.csv", 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_said_once_and_kept_in_the_schema(folder: Path) -> None:
    refused = say("schema", "draft", "public.csv", "-o", "plain.toml")
    assert refused.code == 1 and "--encoding" in refused.err and refused.err.count("\n") == 1
    drafted = say("schema", "draft", "public.csv", "-o", "schema.toml", *OPTIONS)
    assert drafted.code == 0, drafted.err
    schema = op.Schema.load("schema.toml")
    assert schema.reading == op.Reading(**PYTHON)
    assert [column.kind for column in schema.columns] == ["integer", "real", "datetime", "categorical"]
    made = say(
        "release", "private.csv", "--public", "public.csv", "--schema", "schema.toml", *BUDGET, "-o", "out"
    )
    assert made.code == 0, made.err
    judged = say("evaluate", "out", "--private", "private.csv", "--quick", "--json")
    assert judged.code == 0 and 0.01 < json.loads(judged.out)["workload_error"] < 0.4
    # Where every number was lost, in both tables alike, there would be no error: so look at the rows.
    synthetic = op.open_release("out").synthetic
    assert set(synthetic["Ort"].to_pylist()) == {"Köln", "Jülich"}
    assert len(set(synthetic["Lohn"].to_pylist())) > 50 and synthetic["Lohn"].null_count == 0
    assert 0 < synthetic["Größe"].null_count < 60
    screened = say(
        "screen", "private.csv", "--public", "public.csv", "--schema", "schema.toml", "--epsilon", "1"
    )
    assert screened.code == 0, screened.err


def test_said_to_commands_that_draft_by_themselves(folder: Path) -> None:
    made = say("release", "private.csv", "--public", "public.csv", *OPTIONS, *BUDGET, "-o", "out")
    assert made.code == 0, made.err
    assert op.open_release("out").schema.reading.thousands == "."
    screened = say("screen", "private.csv", "--public", "public.csv", *OPTIONS, "--epsilon", "1", "--json")
    assert screened.code == 0, screened.err
    say("schema", "draft", "public.csv", "-o", "schema.toml", *OPTIONS)
    both = say(
        *("release", "private.csv", "--public", "public.csv", "--schema", "schema.toml", "--decimal", "."),
        *BUDGET, "-o", "other",
    )  # fmt: skip
    assert both.code == 1 and "write it under [reading] there" in both.err and not Path("other").exists()


def test_the_command_that_tune_proposes_says_it_too(folder: Path) -> None:
    said = as_words(op.Reading(**PYTHON))
    assert shlex.split(said)[:4] == ["--encoding=cp1252", "--decimal=,", "--thousands=.", "--delimiter=;"]
    assert shlex.split(said)[4:] == ["--date-format=%d.%m.%Y", "--null-values=k.A.", "--null-values=-9"]
    assert as_words(None) == ""
    rest = (
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--workload",
        "1",
        "--try",
        "public",
        "--seeds",
        "1",
        "--workers",
        "1",
    )
    tuned = say("tune", "public.csv", *OPTIONS, *rest)
    assert tuned.code == 0 and f"{said} --workload 1" in tuned.out, tuned


def test_an_audit_has_the_same_rows_in_the_usual_spelling(folder: Path) -> None:
    schema = op.Schema.draft("public.csv", **PYTHON)
    rows = raw("private.csv", schema)
    assert rows["Lohn"][0].as_py().count(",") == 0
    written, usual = encode_table("private.csv", schema), encode_table(rows, schema.plain)
    assert [c.tolist() for c in written.columns] == [c.tolist() for c in usual.columns]


def test_the_private_table_is_refused_as_public_in_another_spelling(folder: Path) -> None:
    """The same rows, once as an office writes them and once as a library does."""
    schema = op.Schema.draft("public.csv", **PYTHON)
    words = pa.Table.from_batches(open_source("private.csv", schema).batches()).to_pylist()
    plain = [
        {
            "Größe": None if row["Größe"] in ("k.A.", "-9") else int(row["Größe"]),
            "Lohn": float(row["Lohn"].replace(".", "").replace(",", ".")),
            "Tag": dt.datetime.strptime(row["Tag"], "%d.%m.%Y").date(),
            "Ort": row["Ort"],
        }
        for row in words
    ]
    same = pa.Table.from_pylist(plain)
    with pytest.raises(op.OpenPriorError, match="has the same rows"):
        op.release("private.csv", same, schema=schema, epsilon=1, delta=1e-6, mechanism=op.PmwPub(), seed=1)
