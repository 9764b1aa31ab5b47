"""Tables and queries of databases: addresses, names, what is refused and in which words, and no password anywhere."""

import datetime as dt
import pickle
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OpenPriorError, OpenPriorWarning, SourceError, without_passwords
from openprior.tables import office
from openprior.tables.address import address_of, is_address
from openprior.tables.postgres import _array
from openprior.tables.query import caution_about
from openprior.tables.source import open_source

SECRET = "hush-hush"


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """Two files, survey.duckdb and survey.sqlite, with the same tables."""
    with duckdb.connect(str(tmp_path / "survey.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i AS id, 'w' || (i % 3) AS word FROM range(10) AS t(i)"
        )
        connection.execute('CREATE TABLE "odd ""na.me" AS SELECT 1 AS "a b", 2 AS "select"')
    connection = sqlite3.connect(tmp_path / "survey.sqlite")
    connection.execute("CREATE TABLE people (id, word TEXT)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", [(i, f"w{i % 3}") for i in range(10)])
    connection.execute('CREATE TABLE "odd ""na.me" AS SELECT 1 AS "a b", 2 AS "select"')
    connection.commit()
    connection.close()
    return tmp_path


KINDS = ["duckdb", "sqlite"]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_and_queries(kind: str, survey: Path) -> None:
    base = f"{kind}:{survey / 'survey'}.{kind}"
    for part in ("people", '"people"', "main.people", "SELECT id, word FROM people", "with p as (select * from people)"
                 " select * from p ; ", "SELECT id, word FROM people -- and a comment"):  # fmt: skip
        source = open_source(f"{base}#{part}")
        assert source.columns == ("id", "word") and not source.is_text
        assert source.name == ("query" if " " in part else "people")
        for _ in range(2):
            (batch,) = source.batches(["word", "id"])
            assert batch.schema.names == ["word", "id"]
            assert sorted(batch.column("id").to_pylist()) == list(range(10))
        assert list(source.batches([])) == []
    for part in ('"odd ""na.me"', 'main."odd ""na.me"', 'SELECT * FROM "odd ""na.me"'):
        source = open_source(f"{base}#{part}")
        assert source.columns == ("a b", "select")
        assert [batch.to_pylist() for batch in source.batches()] == [[{"a b": 1, "select": 2}]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("#peoples", "has no table 'peoples'; it has odd \"na.me, people"),
        ("", 'names no table; write #TABLE behind it: odd "na.me, people'),
        ("#DROP TABLE people", "has no table 'DROP TABLE people'.*begins with SELECT or WITH"),
        ("#SELECT nonesuch FROM people", "there is no such column"),
        ("#SELECT * FROM nobody", "there is no such table"),
        ("#SELECT * FRM people", "it is not one query"),
        ("#SELECT 1; DROP TABLE people", "it is not one query"),
        ("#WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone", "it is not one query"),
    ],
)
def test_what_is_no_table_of_the_database(kind: str, part: str, told: str, survey: Path) -> None:
    base = f"{kind}:{survey / 'survey'}.{kind}"
    with pytest.raises(SourceError, match=told) as caught:
        open_source(base + part)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert len(list(open_source(f"{base}#people").batches())) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_no_database(kind: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("a,b\n1,2\n" * 1000)
    with pytest.raises(SourceError, match="the file is no"):
        open_source(f"{kind}:{tmp_path / 'text.db'}#people")
    with pytest.raises(SourceError, match="there is no file"):
        open_source(f"{kind}:{tmp_path / 'none.db'}#people")
    with pytest.raises(SourceError, match="is a folder"):
        open_source(f"{kind}:{tmp_path}#people")
    with pytest.raises(SourceError, match="names no file"):
        open_source(f"{kind}:#people")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_without_a_table(kind: str, survey: Path) -> None:
    path = survey / f"survey.{kind}"
    with pytest.raises(SourceError, match=f"is a database; name a table in it: {kind}:.*survey.{kind}#TABLE"):
        open_source(path)
    (survey / "text.db").write_text("a,b\n1,2\n")
    assert open_source(survey / "text.db").columns == ("a", "b")


def test_values_that_break_a_query_are_not_told(survey: Path) -> None:
    query = f"SELECT (word || '{SECRET}')::INTEGER AS n FROM people"
    source = open_source(f"duckdb:{survey / 'survey.duckdb'}#{query}")
    with pytest.raises(SourceError, match="can run it to its end") as caught:
        list(source.batches())
    assert SECRET not in str(caught.value) and caught.value.__context__ is None


def test_one_value_of_sqlite_does_not_decide_what_the_others_are(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "odd.db")
    connection.execute("CREATE TABLE t (v)")
    values = [7, 7.5, "7", "seven", None, b"\xff\x00", 2**62]
    connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    connection.execute("INSERT INTO t VALUES (CAST(X'FF41' AS TEXT))")  # a text that is not UTF-8
    connection.commit()
    connection.close()
    (batch,) = open_source(f"sqlite:{tmp_path / 'odd.db'}#t").batches()
    assert batch.column(0).to_pylist() == [*values, b"\xffA"]


def test_a_database_that_is_open_for_writing(survey: Path) -> None:
    with (
        duckdb.connect(str(survey / "survey.duckdb")) as connection,
        pytest.raises(
            SourceError, match="open in this program for writing; close that, or give its relation"
        ),
    ):
        connection.execute("SELECT 1")
        open_source(f"duckdb:{survey / 'survey.duckdb'}#people")


def test_addresses() -> None:
    assert address_of("sqlite:///survey.db#people") == address_of("sqlite:survey.db#people")
    assert address_of("sqlite:////data/survey.db#people").place == "/data/survey.db"
    assert address_of('POSTGRESQL://ada@host/db#"Odd".people').table == ("Odd", "people")
    assert address_of("postgres://host/db#select").table == ("select",)
    assert address_of("duckdb:a.db#selection.people").table == ("selection", "people")
    assert address_of("duckdb:a.db#SELECT(1)").query == "SELECT(1)"
    assert not is_address("survey.csv") and not is_address("C:\\survey.csv") and not is_address(Path("a"))


@pytest.mark.parametrize(
    "text",
    [
        f"mysql://ada:{SECRET}@host/db#people",
        f"postgresql+psycopg2://ada:{SECRET}@host/db#people",
        f"postgresql://ada:x#{SECRET}@host/db#people",
        f"postgresql:ada:{SECRET}@host/db#people",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/db#people",
        f"postgresql://127.0.0.1:1/db?user=ada&password={SECRET}#people",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/db\0#people",
    ],
)
def test_no_message_repeats_a_password(text: str) -> None:
    for call in (open_source, op.Schema.draft, op.Schema.load, op.open_release):
        with pytest.raises(OpenPriorError) as caught:
            call(text)
        assert SECRET not in str(caught.value) and "hush" not in repr(caught.value.__context__)
    if text.startswith("postgresql://ada:hush"):
        address = address_of(text.replace("\0", ""))
        assert SECRET not in repr(address) and address.name == "people"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"'postgresql://ada:{SECRET} and more@host/db' is wrong", "'postgresql://ada:… is wrong"),
        (f"postgresql://someone:{SECRET[:5]}…", "postgresql://someone:…"),
        ("hdfs://host:8020/data/a@b.parquet", "hdfs://host:8020/data/a@b.parquet"),
        ("12:30 and http://a.b/c:d", "12:30 and http://a.b/c:d"),
    ],
)
def test_passwords_are_cut_out_of_texts(text: str, left: str) -> None:
    assert without_passwords(text) == left


def test_without_the_driver_the_message_says_what_to_install(
    survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(office.importlib, "import_module", refuse)
    for address, package in (
        (f"duckdb:{survey / 'survey.duckdb'}#people", "duckdb"),
        ("postgresql://host/db#people", "adbc-driver-postgresql"),
    ):
        with pytest.raises(SourceError, match=rf"needs {package}; install openprior\[files\]"):
            open_source(address)
    assert open_source(f"sqlite:{survey / 'survey.sqlite'}#people").columns == ("id", "word")


def test_a_query_that_may_mix_persons_is_a_caution_on_the_private_side_alone(survey: Path) -> None:
    base = f"duckdb:{survey / 'survey.duckdb'}#"
    schema = op.Schema.draft(f"{base}SELECT word FROM people LIMIT 9")  # public: nothing to say
    with pytest.warns(OpenPriorWarning, match="the query on the private table has LIMIT"):
        certificate = op.release(
            f"{base}SELECT word FROM people LIMIT 8", f"{base}people", schema=schema, workload=op.all_marginals(1),
            epsilon=1.0, delta=1e-9, mechanism=op.PublicProxy(),
        ).certificate  # fmt: skip
    assert any("has LIMIT" in remark for remark in certificate.remarks)
    assert caution_about("SELECT \"limit\", 'group by' FROM t /* distinct */ WHERE a > 1 -- over") is None
    told = caution_about("select distinct max(a) over (order by b) from t group\n by c")
    assert told is not None and "has DISTINCT, GROUP BY, MAX, OVER:" in told
    told = caution_about("SELECT * FROM (PIVOT people ON city)")  # whose columns are named by values
    assert told is not None and "has PIVOT:" in told


def test_decimals_of_postgresql_are_numbers() -> None:
    def read(*words: str | None) -> pa.Array:
        kind = pa.opaque(pa.string(), "numeric", "PostgreSQL")
        return _array(pa.ExtensionArray.from_storage(kind, pa.array(words, pa.string())))

    assert read("7", None, "-12").to_pylist() == [7, None, -12]
    assert read("7.00", "nan", "0.5").to_pylist() == [7.0, None, 0.5]
    mixed = read("9007199254740993", "0.5", None, "1")
    assert mixed.to_pylist() == [2**53 + 1, 0.5, None, 1]
    assert read("12345678901234567890.5", "inf").to_pylist() == [12345678901234567890.5, np.inf]
    assert read("0.1", "2").type == pa.float64() and read("3").type == pa.int64()


def test_dates_of_a_table_are_dates(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.db")) as connection:
        connection.execute("CREATE TABLE t AS SELECT DATE '2020-01-02' AS d, 1.50::DECIMAL(9, 2) AS e")
    (batch,) = open_source(f"duckdb:{tmp_path / 'd.db'}").batches()  # the only table
    assert batch.to_pylist()[0]["d"] == dt.date(2020, 1, 2) and float(batch.to_pylist()[0]["e"]) == 1.5


def test_a_source_of_a_database_tells_no_password_when_it_is_looked_at(survey: Path) -> None:
    source = open_source(f"duckdb:{survey / 'survey.duckdb'}#people")
    assert "survey" not in repr(source)
    again = pickle.loads(pickle.dumps(source))
    assert again.columns == source.columns
