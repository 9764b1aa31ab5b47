"""The Spark engine counts exactly what the local one does, wherever the rows lie and whoever dies on the way."""

import datetime as dt
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import csv, parquet

import openprior as op
from openprior.counting.cells import Cells
from openprior.counting.engine import engine_of
from openprior.errors import EncodeError, OptionError, PrivacyError, SourceError
from openprior.privacy.ledger import Ledger
from openprior.schema.fates import with_fates
from openprior.spark import counter as spark_engine
from openprior.spark.cluster import explain, open_session
from openprior.spark.packing import spans
from openprior.spark.reading import Rows, SparkFiles, SparkSource, read_path
from openprior.tables.encode import Encoder
from openprior.tables.same import open_apart
from openprior.tables.source import open_source
from tests import raw_columns
from tests.console import PROGRAM, say
from tests.pages import fenced

pytestmark = [
    pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore:.*does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # Spark's sockets
]
pytest.importorskip("pyspark", reason="Spark needs pyspark")

ROOT = Path(__file__).parents[2]
SIZES = {"a": 3, "b": 5, "c": 4}
SMALL = op.Schema.from_sizes(SIZES)
ALL_KINDS = """
[columns.region]
kind = "categorical"
values = ["N-1", "N-2", "S-1"]
other = true
out_of_domain = "other"
missing = true
missing_values = ["NA", "?"]
[columns.grade]
kind = "ordered"
dtype = "int64"
values = [1, 2, 3]
out_of_domain = "clip"
missing = true
[columns.works]
kind = "boolean"
dtype = "string"
values = ["no", "yes"]
missing = true
[columns.age]
kind = "integer"
low = 0
high = 99
bins = [0, 18, 65, 99]
out_of_domain = "clip"
missing = true
[columns.income]
kind = "real"
bins = [-1.5, 0.0, 0.1, 10.0]
out_of_domain = "clip"
other = true
[columns.day]
kind = "datetime"
dtype = "date32[day]"
bins = [1950-01-01, 2000-01-01, 2025-01-01]
out_of_domain = "clip"
missing = true
[hierarchies.area]
column = "region"
prefix = 1
[hierarchies.side]
column = "area"
[hierarchies.side.map]
N = "up"
S = "down"
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        # The quick compiler only: the tests are over before the thorough one pays.
        java = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings = (
            "spark.sql.shuffle.partitions=3",
            "spark.sql.codegen.wholeStage=false",
            "spark.ui.enabled=false",
            "spark.python.daemon.module=tests.spark_daemon",
        )
        given = " ".join(f"--conf '{setting}'" for setting in (java, *settings))
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-memory 1g {given} pyspark-shell")
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        started = open_session("local[2,2]")
    yield started
    started.stop()


def counts(
    data: Any, schema: op.Schema, k: int = 2, *, private: bool = True
) -> tuple[NDArray[np.int64], int]:
    encoder = Encoder(schema, open_source(data, schema), private=private, levels=True)
    cells = Cells(encoder.domain, itertools.combinations(encoder.domain, k))
    return engine_of(encoder.source).count(encoder, cells)


def same(on_spark: Any, here: Any, schema: op.Schema, k: int = 2) -> None:
    found, expected = counts(on_spark, schema, k), counts(here, schema, k)
    assert found[1] == expected[1]
    np.testing.assert_array_equal(found[0], expected[0])


def codes(rows: int, seed: int = 0, sizes: dict[str, int] = SIZES) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({name: (size * rng.random(rows) ** 2).astype(np.int64) for name, size in sizes.items()})


def odd_values(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)

    def draw(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), rows)], kind)

    return pa.table(
        {
            "day": draw([dt.date(1900, 1, 1), dt.date(1999, 12, 31), dt.date(2000, 1, 1), None], pa.date32()),
            "region": draw(["N-1", " N-2 ", "S-1", "W", "", "NA", "?", None], pa.string()),
            "grade": draw([1, 2, 3, 7, -1, None], pa.int32()),
            "works": draw(["no", "YES", " Yes", None], pa.string()),
            "age": draw([0, 17, 18, 64, 65, 200, None], pa.int16()),
            "income": draw([-1.5, -0.0, 0.1, 9.99, 11.0, float("nan"), None], pa.float64()),
            "free text": draw(["a\nb", "c,d", '"', None], pa.string()),
        }
    )


# Frames.


def test_every_kind_of_column_with_nulls_others_and_levels(session: Any) -> None:
    table, schema = odd_values(2000), op.Schema.from_toml(ALL_KINDS)
    same(session.createDataFrame(table), table, schema, 3)


def test_one_raw_row_moves_one_row(session: Any) -> None:
    """Bytes that are no text, numbers beyond 64 bits, days that are none: each moves its own row, as it does here."""
    rng = np.random.default_rng(4)
    rows = [raw_columns.row_of_bytes(rng) for _ in range(40)]
    neighbour = [raw_columns.row_of_bytes(rng), *rows[1:]]
    tables = [
        pa.table(
            [pa.array(column, pa.binary()) for column in zip(*some, strict=True)],
            names=list(raw_columns.SCHEMA.names),
        )
        for some in (rows, neighbour)
    ]
    before, after = (counts(session.createDataFrame(table), raw_columns.SCHEMA)[0] for table in tables)
    np.testing.assert_array_equal(before, counts(tables[0], raw_columns.SCHEMA)[0])
    assert 0 < np.abs(before - after).max() <= 1


def test_skewed_and_empty_partitions(session: Any) -> None:
    table = codes(5000)
    frame = session.createDataFrame(table)
    same(frame.repartition(11, "a"), table, SMALL)  # three values in eleven partitions
    same(frame.filter("a = 9"), table.slice(0, 0), SMALL)
    assert counts(session.createDataFrame(table.slice(0, 0)), SMALL)[1] == 0


def test_names_that_spark_would_misread(session: Any) -> None:
    sizes = {"a": 3, "A": 5, "x.y": 4, "back`tick": 2}
    table = codes(500, sizes=sizes).append_column("z", [list(range(500))])
    frame = session.createDataFrame(table.rename_columns([f"n{i}" for i in range(5)])).toDF(*sizes, "z")
    same(frame, table, op.Schema.from_sizes(sizes))


def test_a_frame_as_public_table_is_read_in_batches(session: Any) -> None:
    table = codes(3000)
    frame = session.createDataFrame(table).repartitionByRange(4, "a", "b", "c")
    source = open_source(frame)
    assert source.columns == ("a", "b", "c") and source.name == "table" and not source.is_text
    read = pa.Table.from_batches(source.batches(["c", "a"]))
    assert read.column_names == ["c", "a"]
    order = [("c", "ascending"), ("a", "ascending")]
    assert read.sort_by(order).equals(table.select(["c", "a"]).sort_by(order))
    assert op.Schema.draft(frame) == op.Schema.draft(table)
    with pytest.raises(SourceError, match="no column 'd'"):
        list(source.batches(["d"]))


def test_frames_that_cannot_be(session: Any) -> None:
    with pytest.raises(SourceError, match="column 'a' twice"):
        open_source(session.createDataFrame(codes(10)).selectExpr("a", "b AS a"))
    with pytest.raises(SourceError, match="has no end"):
        open_source(session.readStream.format("rate").load())


# Files.


@pytest.mark.parametrize("endings", [("csv", "tsv", "csv.gz"), ("parquet",) * 3], ids=["csv", "parquet"])
def test_files_mean_the_same(session: Any, tmp_path: Path, endings: tuple[str, ...]) -> None:
    table = odd_values(1500)
    parts = [table.slice(0, 0), table.slice(0, 100), table.slice(100)]
    for i, (ending, part) in enumerate(zip(endings, parts, strict=True)):
        path = tmp_path / f"part{i}.{ending}"
        if ending == "parquet":
            parquet.write_table(part, path, row_group_size=300)
        else:
            options = csv.WriteOptions(delimiter="\t" if ending == "tsv" else ",")
            with pa.output_stream(path, compression="gzip" if ending.endswith("gz") else None) as file:
                csv.write_csv(part, file, options)
    source = read_path(str(tmp_path))
    assert isinstance(source, SparkFiles) and source.is_text == (endings[0] == "csv")
    same(source, tmp_path, op.Schema.from_toml(ALL_KINDS))
    assert sum(b.num_rows for b in source.batches(["age"])) == 1500


def test_files_are_read_as_the_schema_says(session: Any, tmp_path: Path) -> None:
    """In another encoding and spelling, as JSON lines, and in folders with keys, also where Spark finds them."""
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "ort": rng.choice(["Köln", "Jülich"], 400),
            "lohn": rng.integers(0, 4000, 400) / 2,
            "m": ["03", "11"] * 200,
        }
    )
    lines = [
        f"{o};{n:,.2f};{m}".replace(",", " ").replace(".", ",")
        for o, n, m in zip(*table.to_pydict().values())
    ]
    (tmp_path / "t.csv").write_bytes("\n".join(["ort;lohn;m", *lines]).encode("latin-1"))
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, table.to_pylist())))
    parquet.write_to_dataset(table, tmp_path / "hive", partition_cols=["m"])
    reading = op.Reading(encoding="latin-1", decimal=",", thousands=" ")
    schema = op.Schema.draft(tmp_path / "t.csv", reading=reading)
    assert schema["lohn"].kind == "real" and schema["m"].value_labels == ("03", "11")
    plain = schema.plain
    same(read_path(str(tmp_path / "t.csv"), reading=reading), table, schema)
    for path in (tmp_path / "t.jsonl", tmp_path / "hive"):
        same(read_path(str(path)), table, plain)
    same(read_path(f"file://{tmp_path}/hive"), table, plain)
    assert session.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"


def test_a_parquet_file_is_shared_out_by_groups_of_rows(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openprior.tables.parquet_file._PART_ROWS", 500)
    parquet.write_table(codes(3000), tmp_path / "t.parquet", row_group_size=200)
    monkeypatch.chdir(tmp_path)
    source = read_path("t.parquet")
    assert source.rows(["a"]).frame.count() == 8  # type: ignore[attr-defined]
    same(source, tmp_path / "t.parquet", SMALL)


def test_the_private_table_is_refused_as_public(session: Any, tmp_path: Path) -> None:
    parquet.write_table(codes(300), tmp_path / "private.parquet")
    parquet.write_table(codes(300, seed=1), tmp_path / "other.parquet")
    private, other = (
        session.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("private", "other")
    )
    for frame in (private, private.select("*"), session.read.parquet(str(tmp_path / "private.parquet"))):
        with pytest.raises(PrivacyError, match="as the private one"):
            open_apart(private, [frame])
    files = read_path(str(tmp_path / "private.parquet"))
    with pytest.raises(PrivacyError, match="is the same file as the private one"):
        open_apart(files, [tmp_path / "private.parquet"])
    open_apart(private, [other, private.filter("a > 0")])
    open_apart(files, [tmp_path / "other.parquet"])


def test_broken_files_are_refused_as_here(session: Any, tmp_path: Path) -> None:
    path = tmp_path / "private.csv"
    path.write_text("a,b,c\n1,2,3\nSECRET,2\n")
    refused_alike(read_path(str(path)), path, SMALL, SourceError)
    source = read_path(str(path))
    path.unlink()
    with pytest.raises(SourceError, match=r"there is no file .*private\.csv when it is read"):
        counts(source, SMALL)
    with pytest.raises(SourceError, match="cannot read file:///none as Parquet"):
        read_path("file:///none")


def test_a_url_is_parquet(session: Any, tmp_path: Path) -> None:
    parquet.write_table(codes(300), tmp_path / "survey.parquet")
    source = read_path(f"file://{tmp_path}/survey.parquet")
    assert source.name == "survey"
    same(source, tmp_path / "survey.parquet", SMALL)


def test_whole_numbers_of_any_size_travel_alike(session: Any) -> None:
    ends = [-(2**63), -(2**31), -7, -6, -5, -1, 0, 1, 2**20 - 7, 2**20 - 6, 2**31, 2**63 - 1, None]
    kinds = {"byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64(), "far": pa.int64()}
    rng = np.random.default_rng(5)
    columns, entries = {}, []
    for i, (name, kind) in enumerate(kinds.items()):
        low, high = (2**40, 2**40 + 9) if name == "far" else (-5, [9, 99, 2**10, 2**19][i])
        near = [low - 1, low, low + 1, high - 1, high, high + 1]
        least, most = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        values = [v for v in [*ends, *near, least, most] if v is None or least <= v <= most]
        columns[name] = pa.array([values[k] for k in rng.integers(0, len(values), 3000)], kind)
        odd = ['out_of_domain = "clip"', 'out_of_domain = "other"\nother = true'][i % 2]
        entries.append(
            f'[columns.{name}]\nkind = "integer"\nlow = {low}\nhigh = {high}\nmissing = true\n{odd}'
        )
    table, schema = pa.table(columns), op.Schema.from_toml("\n".join(entries))
    source = open_source(session.createDataFrame(table))
    assert len(source.rows(schema.names, spans(schema)).frame.columns) < len(kinds)  # type: ignore[attr-defined]
    same(source, table, with_fates(schema)[0], 1)  # what lies below and above is told as here


# The tree.


def test_large_tables_are_added_in_a_tree(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "_FAN", 2)
    monkeypatch.setattr(spark_engine, "_PART_CELLS", 1 << 20)
    monkeypatch.setattr(spark_engine, "most_tasks", lambda _: 12)
    assert spark_engine._widths(12) == [6, 3]
    sizes = {f"c{i}": 40 for i in range(5)}
    table = codes(20_000, sizes=sizes)
    same(session.createDataFrame(table).repartition(13), table, op.Schema.from_sizes(sizes), 3)


def test_the_width_of_the_tree() -> None:
    assert spark_engine._widths(8) == [1]
    assert spark_engine._widths(256) == [32, 4]
    assert spark_engine._widths(4096) == [512, 64, 8, 1]


# Persons.


def persons(rows: int, people: int) -> pa.Table:
    rng = np.random.default_rng(3)
    spelled = [
        f"{i}" + (["", " ", ".0"][k])
        for i, k in zip(rng.integers(0, people, rows), rng.integers(0, 3, rows), strict=True)
    ]
    return codes(rows).append_column("who", [spelled])


def limited(delta: int) -> op.Schema:
    return op.Schema(SMALL.columns, person_id="who", max_rows_per_person=delta)


def test_nobody_has_more_rows_than_the_limit(session: Any) -> None:
    table = persons(3000, 400)
    frame = session.createDataFrame(table)
    mine = np.array([int(float(w)) for w in table["who"].to_pylist()])
    for delta in (1, 3, 100):
        _, rows = counts(frame.repartition(5), limited(delta))
        assert rows == np.minimum(np.bincount(mine), delta).sum() == counts(table, limited(delta))[1]


def test_which_rows_are_kept_does_not_depend_on_where_they_lie(session: Any) -> None:
    table = persons(3000, 400)
    frame = session.createDataFrame(table)
    first, _ = counts(table, limited(2), 3)  # on this machine: the very same rows
    session.conf.set("spark.sql.shuffle.partitions", "5")
    second, _ = counts(frame.orderBy("c", "b").repartition(7, "b"), limited(2), 3)
    session.conf.set("spark.sql.shuffle.partitions", "3")
    np.testing.assert_array_equal(first, second)


def test_equal_rows_of_a_person_are_limited_as_here(session: Any) -> None:
    one = persons(300, 300)
    table = pa.concat_tables([one] * 3).set_column(3, "who", [[f" {i}" for i in range(300)] * 3])
    same(session.createDataFrame(table), table, limited(2))
    numbers = table.set_column(3, "who", [[float(i) for i in range(300)] * 3])
    same(session.createDataFrame(numbers), table, limited(2))


def test_a_person_with_more_rows_than_a_batch(session: Any) -> None:
    table = codes(100_000).append_column("who", [[7] * 99_999 + [8]])
    for delta in (3, 70_000):
        assert counts(session.createDataFrame(table), limited(delta))[1] == delta + 1


def test_missing_ids_are_refused(session: Any) -> None:
    table = codes(100).append_column("who", [["1"] * 99 + ["NA"]])
    refused_alike(session.createDataFrame(table), table, limited(2), EncodeError)
    # A public table needs no limit.
    assert counts(session.createDataFrame(table), limited(2), private=False)[1] == 100


# Refusals and failures.


def refused_alike(on_spark: Any, here: Any, schema: op.Schema, kind: type[Exception]) -> None:
    said = []
    for data in (on_spark, here):
        with pytest.raises(kind) as caught:
            counts(data, schema)
        assert type(caught.value) is kind
        assert caught.value.__cause__ is None and caught.value.__context__ is None
        said.append(str(caught.value))
    assert said[0] == said[1] and "\n" not in said[0] and "SECRET" not in said[0]


def test_values_outside_are_refused_as_here(session: Any) -> None:
    table = pa.table({"a": ["1"] * 50_000 + ["SECRET"], "b": ["1"] * 50_001, "c": ["1"] * 50_001})
    refused_alike(session.createDataFrame(table).repartition(3), table, SMALL, EncodeError)
    refused_alike(session.createDataFrame(table.slice(49_999)), table, SMALL, EncodeError)


def test_values_are_quoted_only_where_it_was_asked_for(session: Any) -> None:
    frame = session.createDataFrame(codes(10)).selectExpr("a + 70 AS a", "b", "c")
    encoder = Encoder(SMALL, open_source(frame), private=True, show_private=True)
    with pytest.raises(EncodeError, match="for example 7"):
        engine_of(encoder.source).count(encoder, Cells(SMALL.domain, [("a",)]))


def test_what_spark_says_is_not_passed_on(session: Any) -> None:
    frame = session.createDataFrame(codes(10)).selectExpr("CAST('SECRET' || a AS INT) AS a", "b", "c")
    for read in (lambda: counts(frame, SMALL), lambda: list(open_source(frame).batches())):
        with pytest.raises(SourceError, match=r"could not read the table to its end \(.*Exception") as caught:
            read()
        assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)
        assert caught.value.__context__ is None


class Broken(SparkSource):
    """A source whose executors do something first, in the first partition."""

    def __init__(self, frame: Any, act: Any) -> None:
        super().__init__(frame)
        self._act = act

    def rows(self, columns: Any = None, spans: Any = None) -> Rows:
        rows, act = super().rows(columns, spans), self._act
        whole = rows.read

        def read(batches: Any) -> Any:
            from pyspark import TaskContext

            for batch in whole(batches):
                yield batch
                if TaskContext.get().partitionId() == 0:
                    act(TaskContext.get())

        return Rows(rows.frame, read, rows.is_bounded)


def killed_once(frame: Any, mark: Path) -> Broken:
    """The first worker reads a batch of its rows, leaves a mark and dies."""

    def die(context: Any) -> None:
        if context.attemptNumber() == 0:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return Broken(frame, die)


@pytest.mark.parametrize("schema", [SMALL, limited(2)], ids=["rows", "persons"])
def test_a_killed_worker_changes_nothing(session: Any, schema: op.Schema, tmp_path: Path) -> None:
    frame = session.createDataFrame(persons(3000, 400)).repartition(3)
    alive, dead = counts(frame, schema), counts(killed_once(frame, tmp_path / "mark"), schema)
    assert (tmp_path / "mark").exists()
    assert alive[1] == dead[1]
    np.testing.assert_array_equal(alive[0], dead[0])


def test_a_bug_on_an_executor_is_named_without_its_words(session: Any) -> None:
    def fail(context: Any) -> None:
        raise KeyError("SECRET")

    with pytest.raises(SourceError, match="could not read the table") as caught:
        counts(Broken(session.createDataFrame(codes(10)), fail), SMALL)
    assert "SECRET" not in str(caught.value)


def test_executors_with_another_openprior(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op, "__version__", "0.0.0-other")
    with pytest.raises(SourceError, match=r"the driver has 0\.0\.0-other; install one version"):
        counts(session.createDataFrame(codes(10)), SMALL)


def test_known_failures_have_a_remedy() -> None:
    said = "SECRET\nModuleNotFoundError: No module named 'openprior'\nSECRET"
    assert explain(RuntimeError(said)).startswith("Spark's executors have no openprior; install openprior")
    assert "set PYSPARK_PYTHON" in explain(RuntimeError("[PYTHON_VERSION_MISMATCH] SECRET"))
    assert "(RuntimeError)" in explain(RuntimeError("SECRET")) and "SECRET" not in explain(
        RuntimeError("SECRET")
    )


# From end to end.


def released(private: Any, public: pa.Table, mechanism: Any, ledger: Path) -> op.Release:
    return op.release(
        private,
        public,
        schema=SMALL,
        workload=op.all_marginals(2),
        epsilon=1.0,
        delta=1e-9,
        mechanism=mechanism,
        ledger=ledger,
        seed=1,
    )


def test_a_release_is_the_same_and_is_charged_once(session: Any, tmp_path: Path) -> None:
    private, public = codes(2000), codes(500, seed=9)
    frame = session.createDataFrame(private).repartition(3)
    made, mark = {}, tmp_path / "mark"
    for name, data in {"here": private, "spark": frame, "killed": killed_once(frame, mark)}.items():
        ledger = tmp_path / f"{name}.sqlite"
        made[name] = released(data, public, op.Mwem(rounds=2), ledger)
        (dataset,) = Ledger(ledger).datasets()
        (run,) = dataset.runs
        assert len(made[name].certificate.events) == run.events
        assert float(run.spent) == pytest.approx(made[name].certificate.rho_spent)
    assert mark.exists()
    for name in ("spark", "killed"):
        assert made[name].synthetic.equals(made["here"].synthetic)
        assert made[name].certificate.rho_spent == made["here"].certificate.rho_spent


def test_groups_of_a_hierarchy_are_worked_out_by_executors(session: Any, tmp_path: Path) -> None:
    """Public work and bending run there, with streams of their own: the release is that of one machine."""
    names = list(SMALL.names)
    private, public = codes(2000), codes(600, seed=9)
    frame = session.createDataFrame(private).repartition(3)
    made = [
        released(data, public, op.Hierarchy(levels=((), (names[0],))), tmp_path / f"{place}.sqlite")
        for place, data in {"here": private, "there": frame}.items()
    ]
    assert made[0].certificate.events == made[1].certificate.events
    assert made[0].synthetic.num_rows == made[1].synthetic.num_rows
    here, there = (m.model.answers(m.workload.marginals) for m in made)
    for marginal, counts in here.items():
        # Not to the bit: the executors compile for themselves.
        np.testing.assert_allclose(there[marginal], counts, rtol=1e-6, atol=1e-6)


def test_the_command_line(session: Any, tmp_path: Path) -> None:
    for name, seed in {"private": 0, "public": 9}.items():
        csv.write_csv(codes(800, seed), tmp_path / f"{name}.csv")
    words = [
        "--public",
        str(tmp_path / "public.csv"),
        "--workload",
        "2",
        "-m",
        "mwem",
        "--insecure-seed",
        "1",
    ]
    words += ["--epsilon", "1", "--delta", "1e-9", "--json"]
    read = []
    for engine in ("spark", "local"):
        out = tmp_path / engine
        said = say("release", str(tmp_path / "private.csv"), *words, "-o", str(out), "--engine", engine)
        assert said.code == 0, said.err
        read.append(parquet.read_table(out / "synthetic.parquet"))
    assert read[0].equals(read[1])
    for wrong in (["--engine", "flink"], ["--spark-master", "local"]):
        said = say("release", "private.csv", *words, "-o", str(tmp_path / "no"), *wrong)
        assert said.code == 1 and said.err.startswith("error: ") and said.err.count("\n") == 1


def test_the_page_runs(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(codes(500), "private.parquet")
    csv.write_csv(codes(300, seed=9), "public.csv")
    SMALL.save("survey.toml")
    page = ROOT / "docs" / "spark.md"
    (program,) = (block[2] for block in fenced(page.read_text(encoding="utf-8")) if block[1] == "py")
    # Java stays in the folder where it was started.
    program = program.replace("private.parquet", str(tmp_path / "private.parquet"))
    found: dict[str, Any] = {}
    exec(compile(program, page.name, "exec"), found)
    assert found["release"].certificate.noise == "secure"


# Each.


def test_each_runs_elsewhere_and_in_order(session: Any) -> None:
    engine = engine_of(open_source(session.createDataFrame(codes(5))))
    found = engine.executor.each(lambda i: (i * i, os.getpid(), np.full(3, i)), range(30))
    assert [f[0] for f in found] == [i * i for i in range(30)]
    assert os.getpid() not in {f[1] for f in found} and len({f[1] for f in found}) > 1
    assert engine.executor.each(str, []) == []


def test_each_raises_what_was_raised(session: Any) -> None:
    engine = engine_of(open_source(session.createDataFrame(codes(5))))

    def refuse(i: int) -> int:
        if i > 3:
            raise OptionError(f"no {i}")
        return i

    with pytest.raises(OptionError, match=r"^no 4$"):
        engine.executor.each(refuse, range(9))
    with pytest.raises(ZeroDivisionError):
        engine.executor.each(lambda i: 1 // i, [1, 0])


# Without Spark.


def test_settings_of_the_session_are_left_as_they_were(session: Any) -> None:
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    session.conf.set(key, "777")
    counts(session.createDataFrame(codes(10)), SMALL)
    assert session.conf.get(key) == "777"
    session.conf.unset(key)


def test_without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv.write_csv(codes(5), tmp_path / "t.csv")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SourceError, match=r"^Spark needs pyspark, .* pip install 'openprior\[spark\]'$"):
        read_path(str(tmp_path / "t.csv"))
    assert counts(tmp_path / "t.csv", SMALL)[1] == 5


@pytest.mark.parametrize("java", [None, "old", "broken"])
def test_without_java(tmp_path: Path, java: str | None) -> None:
    csv.write_csv(codes(5), tmp_path / "t.csv")
    words = "release t.csv --public t.csv --epsilon 1 --delta 1e-9 -o out --ledger b.sqlite --new-ledger --engine spark"
    env = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": "/nowhere"}
    if java:
        fake = tmp_path / "bin" / "java"
        fake.parent.mkdir()
        does = {"old": "echo 'openjdk version \"11.0.2\"' >&2", "broken": "exit 3"}[java]
        fake.write_text(f"#!/bin/sh\n{does}\n")
        fake.chmod(0o755)
        env["JAVA_HOME"] = str(tmp_path)
    done = subprocess.run(
        [*PROGRAM, *words.split()],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    reason = {None: "there is none at the path", "old": "JAVA_HOME has 11", "broken": "does not run"}[java]
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: Spark needs Java") and done.stderr.count("\n") == 1
    assert reason in done.stderr and "install a Java 17 runtime" in done.stderr
    assert not (tmp_path / "b.sqlite").exists() and not (tmp_path / "out").exists()


CLUSTER = """
import itertools, sys
import numpy as np
import openprior as op
from openprior.counting.engine import engine_of
from openprior.counting.cells import Cells
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from openprior.spark.reading import read_path

on_spark = read_path(sys.argv[1], "local-cluster[2,1,1024]")
for delta in (None, 1000):
    columns = op.Schema.from_sizes({"a": 3, "b": 5, "c": 4}).columns
    schema = op.Schema(columns, *(("who", delta) if delta else ()))
    found = []
    for source in (on_spark, open_source(sys.argv[1])):
        encoder = Encoder(schema, source, private=True)
        cells = Cells(encoder.domain, itertools.combinations(encoder.domain, 2))
        found.append(engine_of(source).count(encoder, cells))
    assert found[0][1] == found[1][1] == 20_000
    assert (found[0][0] == found[1][0]).all()
assert engine_of(on_spark).executor.each(abs, [-1, 2]) == [1, 2]
print("done")
"""


@pytest.mark.slow
def test_a_cluster_of_two_workers(tmp_path: Path) -> None:
    for i in range(4):
        parquet.write_table(persons(5000, 100), tmp_path / f"part{i}.parquet")
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, str(tmp_path)], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


@pytest.mark.slow
def test_killed_while_the_cluster_counts_it_resumes(tmp_path: Path) -> None:
    """The driver draws the noise and holds the journal, so a killed Spark run resumes, on any engine."""
    for seed, name in enumerate(("private.csv", "public.csv")):
        csv.write_csv(codes(500, seed), tmp_path / name)
    SMALL.save(tmp_path / "schema.toml")
    Ledger(tmp_path / "b.sqlite").set_budget("private", rho=1.0, epsilon=10.0, delta=1e-9)
    words = (
        "release private.csv --public public.csv --schema schema.toml --workload 2 -m pmw-pub -O rounds=60"
    )
    words += " --epsilon 1 --delta 1e-6 --ledger b.sqlite -o out"
    command = [*PROGRAM, *words.split()]
    journal = tmp_path / "out.journal"
    with subprocess.Popen(
        [*command, "--engine", "spark"], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        end = time.monotonic() + 120
        while not (journal.exists() and journal.read_bytes().count(b'{"seq":') >= 10):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    (run,) = Ledger(tmp_path / "b.sqlite").datasets()[0].runs
    assert run.state == "open"
    resumed = subprocess.run(
        [*command, "--resume"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    (run,) = Ledger(tmp_path / "b.sqlite").datasets()[0].runs
    assert (run.state, run.resumed, run.events) == ("closed", 1, 121)
