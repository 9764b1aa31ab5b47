"""A public table that is the private one is refused, whatever it is given as; another table is not."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import openprior as op
from openprior.errors import OptionError, PrivacyError
from openprior.privacy.ledger import Ledger
from openprior.schema.base import Schema
from openprior.schema.identifiers import is_named_like_identifier
from openprior.tables.same import check_rows, open_apart, same
from openprior.tables.source import open_source
from tests.diary import DiarySource


def people(seed: int = 1, rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(seed)
    day = np.datetime64("2020-01-01") + rng.integers(0, 40, rows)
    income = [None if i % 11 == 0 else round(v, 2) for i, v in enumerate(rng.lognormal(10, 1, rows))]
    return pa.table(
        {
            "region": pa.array(np.array(["north", "south", "01301"])[rng.integers(0, 3, rows)]),
            "age": pa.array(rng.integers(0, 90, rows)),
            "employed": pa.array(rng.random(rows) < 0.5),
            "income": pa.array(income, pa.float64()),
            "day": pa.array(day),
        }
    )


def shuffled(table: pa.Table, seed: int = 0) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


PRIVATE = people()


def written(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pacsv.write_csv(table, path)
    return path


Ways = dict[str, Callable[[Path, Path], Any]]


def linked(place: Path, private: Path) -> Path:
    (place / "link.csv").symlink_to(private)
    return place / "link.csv"


def hard_linked(place: Path, private: Path) -> Path:
    os.link(private, place / "hard.csv")
    return place / "hard.csv"


def zipped(place: Path, private: Path) -> Path:
    (place / "z.csv.gz").write_bytes(gzip.compress(private.read_bytes()))
    return place / "z.csv.gz"


def in_folder(place: Path, private: Path) -> Path:
    """One file of several."""
    (place / "parts").mkdir()
    shutil.copy(private, place / "parts" / "b.csv")
    written(people(seed=7, rows=50), place / "parts" / "a.csv")
    return place / "parts"


def semicolons(place: Path, private: Path) -> Path:
    shuffled(PRIVATE).to_pandas().to_csv(place / "s.csv", sep=";", index=False, na_rep="NA")
    return place / "s.csv"


def read_back(place: Path, private: Path) -> Path:
    """What pandas makes of the CSV: other types, an index, and another order of columns."""
    frame = pd.read_csv(private).sample(frac=1, random_state=3)
    frame[list(reversed(frame.columns))].to_parquet(place / "back.parquet")
    return place / "back.parquet"


def numbered(place: Path, private: Path) -> pa.Table:
    """With new numbers for the rows."""
    return shuffled(PRIVATE).append_column("row_id", pa.array(np.arange(300)))


SAME: Ways = {
    "path": lambda place, private: private,
    "other spelling": lambda place, private: place / ".." / place.name / private.name,
    "symbolic link": linked,
    "hard link": hard_linked,
    "same bytes": lambda place, private: shutil.copy(private, place / "copy.csv"),
    "compressed": zipped,
    "part of a folder": in_folder,
    "other order": lambda place, private: written(shuffled(PRIVATE), place / "order.csv"),
    "other separator": semicolons,
    "Parquet": lambda place, private: written(shuffled(PRIVATE), place / "order.parquet"),
    "Parquet by pandas": read_back,
    "Arrow": lambda place, private: PRIVATE,
    "a stream": lambda place, private: PRIVATE.to_reader(),
    "pandas": lambda place, private: PRIVATE.to_pandas().sample(frac=1),
    "categories": lambda place, private: shuffled(PRIVATE).to_pandas().astype({"region": "category"}),
    "Polars": lambda place, private: pl.from_arrow(shuffled(PRIVATE)),
    "DuckDB": lambda place, private: duckdb.from_arrow(shuffled(PRIVATE)),
    "narrow floats": lambda place, private: PRIVATE.set_column(
        3, "income", PRIVATE["income"].cast(pa.float32())
    ),
    "fewer columns": lambda place, private: shuffled(PRIVATE).drop_columns(["income"]),
    "new numbers": numbered,
}


def apart(private: object, *publics: object) -> None:
    source, others = open_apart(private, publics)
    check_rows(source, others, [name for name in source.columns if not is_named_like_identifier(name)])


@pytest.mark.parametrize("way", SAME)
def test_the_private_table_is_refused_as_public(way: str, tmp_path: Path) -> None:
    private = written(PRIVATE, tmp_path / "private.csv")
    with pytest.raises(PrivacyError, match=r"as the private one: .*; give another public table, or none"):
        apart(private, SAME[way](tmp_path, private))


def edited(column: str, value: object) -> pa.Table:
    """One value of one row changed."""
    return pa.Table.from_pylist([{**PRIVATE.slice(0, 1).to_pylist()[0], column: value}]).cast(PRIVATE.schema)


OTHER: dict[str, pa.Table] = {
    "another sample": people(seed=2),
    "one value": pa.concat_tables([edited("age", 91), PRIVATE.slice(1)]),
    "one word": pa.concat_tables([edited("region", "west"), PRIVATE.slice(1)]),
    "one missing": pa.concat_tables([edited("age", None), PRIVATE.slice(1)]),
    "one row less": PRIVATE.slice(1),
    "one row twice": pa.concat_tables([PRIVATE.slice(1), PRIVATE.slice(1, 1)]),
    "a column shuffled": PRIVATE.set_column(1, "age", shuffled(PRIVATE)["age"]),
    "no rows": PRIVATE.slice(0, 0),
    "no common column": PRIVATE.rename_columns(list("abcde")),
}


@pytest.mark.parametrize("kind", OTHER)
def test_another_table_is_not(kind: str, tmp_path: Path) -> None:
    private = open_source(written(PRIVATE, tmp_path / "private.csv"))
    assert same(private, open_source(OTHER[kind])) is None
    assert same(private, open_source(written(OTHER[kind], tmp_path / "public.csv"))) is None


def test_a_schema_says_which_columns_count() -> None:
    changed = PRIVATE.set_column(3, "income", people(seed=9)["income"])
    one, other = open_source(PRIVATE), open_source(changed)
    assert same(one, other) is None
    assert same(one, other, ["region", "age", "day"]) == "has the same rows"


def test_few_values_that_are_the_same_by_chance_tell_nothing() -> None:
    """Fifty of each: another sample has that too, and a refusal would tell the counts."""
    halves = pa.table({"sex": np.repeat([0, 1], 50)})
    assert same(open_source(halves), open_source(shuffled(halves))) is None
    assert same(open_source(halves), open_source(pa.table({"sex": np.repeat([0, 1], 50)}))) is None
    mixed = shuffled(halves)
    assert same(open_source(mixed), open_source(pa.table(mixed))) == "has the same rows"
    assert same(open_source(shuffled(halves, 1)), open_source(mixed)) is None


def test_folders_may_share_a_part_without_rows(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        written(people(seed), tmp_path / name / "a.csv")
        written(PRIVATE.slice(0, 0), tmp_path / name / "b.csv")
    assert same(open_source(tmp_path / "one"), open_source(tmp_path / "two")) is None
    shutil.copy(tmp_path / "one" / "a.csv", tmp_path / "two" / "c.csv")
    assert (
        same(open_source(tmp_path / "one"), open_source(tmp_path / "two"))
        == "has a file that has the same bytes"
    )


def test_the_private_table_is_read_only_where_it_could_be_the_same() -> None:
    diary: list[str] = []
    private = DiarySource(PRIVATE, diary)
    private.known_rows = 300  # type: ignore[attr-defined]
    apart(private, people(2, 299), people(3, 301), people(4, 0))
    assert diary == []
    apart(private, people(2, 300))
    assert diary == ["read"] * 4  # one column, in four batches


QUESTIONS: dict[str, Callable[..., object]] = {
    "release": lambda private, public, **more: op.release(private, public, delta=1e-9, **more),
    "screen": lambda private, public, **more: op.screen(private, {"a": people(3), "b": public}, **more),
    "mixture": lambda private, public, **more: op.best_mixture_error(private, public, delta=1e-9, **more),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_is_kept_of_it(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same object is refused before anything is drafted; the same rows before anything is charged, and counted."""

    def forbidden(*args: object, **more: object) -> None:
        raise AssertionError

    ledger = Ledger()
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    frame = PRIVATE.to_pandas()
    with monkeypatch.context() as patch:
        patch.setattr(Schema, "draft", forbidden)
        patch.setattr(Ledger, "open_run", forbidden)
        with pytest.raises(PrivacyError, match="as the private one"):
            QUESTIONS[question](frame, frame, epsilon=1.0, ledger=ledger, dataset="survey")
    monkeypatch.setattr(Ledger, "charge", forbidden)
    schema = Schema.draft(people(3), exclude=["id"] if "id" in PRIVATE.column_names else [])
    for refusals, public in enumerate((frame.copy(), shuffled(PRIVATE)), start=1):
        with pytest.raises(PrivacyError, match="as the private one"):
            QUESTIONS[question](frame, public, schema=schema, epsilon=1.0, ledger=ledger, dataset="survey")
        (survey,) = ledger.datasets()
        assert (survey.committed, survey.runs, survey.refusals) == (0, (), refusals)


def test_the_exact_mixture_error_and_tuning_refuse_it_too() -> None:
    with pytest.raises(PrivacyError, match="very same object"):
        op.best_mixture_error(PRIVATE, PRIVATE)
    with pytest.raises(OptionError, match="public and past are the same table"):
        op.tune(PRIVATE, shuffled(PRIVATE), epsilon=1.0, delta=1e-9)
