"""Tables of a real PostgreSQL server: types, names, neighbours, a release, and no password in anything that is left."""

import datetime as dt
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pytest

import openprior as op
from openprior.errors import PrivacyError, SourceError
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source
from tests.console import say
from tests.leaks import watching
from tests.postgres import BINARIES, PASSWORD, Server, server

pytestmark = pytest.mark.skipif(
    BINARIES is None, reason="no PostgreSQL server under /usr/lib/postgresql; 'make postgres' installs one"
)

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'fine');
CREATE TABLE types (i int, n numeric(10, 2), big numeric, t text, c char(5), d date, m timestamp, z timestamptz,
                    c1 time, b boolean, u uuid, j jsonb, e mood, f real, pay money, span interval);
INSERT INTO types VALUES
  (1, 12.50, 9007199254740993, 'x', 'ab', '2020-01-02', '2020-01-02 03:04:05', '2020-01-02 03:04:05+02', '07:30', true,
   'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', 'fine', 0.1, 12.34, '1 day'),
  (NULL, 'NaN', 0.5, NULL, NULL, 'infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE SCHEMA "Odd";
CREATE TABLE "Odd"."the ""table" AS SELECT 1 AS "a b";
CREATE TABLE people (region text, age int, born date);
INSERT INTO people SELECT 'r' || i % 4, 18 + i * 7 % 60, date '1990-01-01' + i FROM generate_series(1, 300) AS g(i);
CREATE TABLE before AS SELECT 'r' || i % 3 AS region, 20 + i % 50 AS age, date '1990-05-01' + i AS born
  FROM generate_series(1, 200) AS g(i);
CREATE SEQUENCE numbers;
CREATE FUNCTION talk(word text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN RAISE WARNING 'somebody of %', word; RETURN word; END $$;
CREATE ROLE ada LOGIN PASSWORD 'hush-hush';
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with server() as running:
        with adbc.connect(running.address(), autocommit=True) as connection, connection.cursor() as cursor:
            for statement in TYPES.split(";\n"):
                if statement.strip():
                    cursor.execute(statement)
        yield running


def _rows(address: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in open_source(address).batches(columns) for row in batch.to_pylist()]


def test_every_type_becomes_what_it_means(database: Server) -> None:
    names = ["i", "n", "big", "t", "c", "m", "z", "c1", "b", "u", "j", "e", "f", "pay", "span"]
    first, second = _rows(f"{database.address()}#types", names)
    assert first == {
        "i": 1,
        "n": 12.5,
        "big": 2**53 + 1,
        "t": "x",
        "c": "ab   ",
        "m": dt.datetime(2020, 1, 2, 3, 4, 5),
        "z": dt.datetime(2020, 1, 2, 1, 4, 5, tzinfo=dt.UTC),
        "c1": dt.time(7, 30),
        "b": True,
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": 1}',
        "e": "fine",
        "f": np.float32(0.1),
        "pay": 12.34,
        "span": "1 day",
    }
    assert second == dict.fromkeys(names) | {"big": 0.5}
    assert op.Schema.draft(f"{database.address()}#types", include=["u", "big"])["d"].kind == "datetime"


def test_names_are_quoted_and_queries_run_anew(database: Server) -> None:
    base = database.address()
    for part in ('"Odd"."the ""table"', 'Odd."the ""table"', 'SELECT * FROM "Odd"."the ""table" -- all'):
        source = open_source(f"{base}#{part}")
        assert source.name == ("query" if "SELECT" in part else 'the "table')
        assert _rows(f"{base}#{part}") == _rows(f"{base}#{part}", ["a b"]) == [{"a b": 1}]
    source = open_source(f"{base}#people")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = source.batches()
        next(rows)
        rows.close()  # a pass that is left early leaves nothing open
    assert sum(batch.num_rows for batch in source.batches(["age"])) == 300


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("#peoples", "has no table 'peoples'; it has .*people"),
        ("#People", "has no table 'People'; it has .*people"),
        ("", "names no table; write #TABLE behind it: Odd.the"),
        ("#SELECT nonesuch FROM people", "there is no such column"),
        ("#SELECT * FROM nobody", "there is no such table"),
        ("#SELECT * FRM people", "it is not one query"),
        ("#SELECT 1 AS a; DROP TABLE people", "it is not one query"),
        (
            "#WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
            "changes the database is refused",
        ),
        ("#SELECT age, age FROM people", "has column 'age' twice"),
    ],
)
def test_what_is_no_table_of_the_server(part: str, told: str, database: Server) -> None:
    with pytest.raises(SourceError, match=told) as caught:
        open_source(database.address() + part)
    assert PASSWORD not in str(caught.value) and caught.value.__context__ is None
    assert len(_rows(f"{database.address()}#people", ["age"])) == 300


def test_a_query_cannot_write_and_a_broken_one_quotes_nothing(
    database: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    base = database.address()
    assert len(_rows(f"{base}#SELECT talk(region) AS said FROM people")) == 300
    assert "somebody" not in "".join(capfd.readouterr())
    source = open_source(f"{base}#SELECT nextval('numbers') AS made")
    with pytest.raises(SourceError, match="must only read"):
        list(source.batches())
    source = open_source(f"{base}#SELECT (region || ' of somebody')::int AS n FROM people")
    with pytest.raises(SourceError, match="can run it to its end") as caught:
        list(source.batches())
    assert "somebody" not in str(caught.value) and caught.value.__context__ is None


def test_wrong_passwords_users_databases_and_rights(database: Server) -> None:
    base = database.address()
    for address, told in (
        (database.address("wrong-word"), "refuses the user or the password"),
        (base.replace("postgres:hush", "nobody:hush"), "refuses the user or the password"),
        (f"{base}x", "has no such database"),
        (base.replace("//postgres:", "//ada:"), "may not read it"),
    ):
        with pytest.raises(SourceError, match=told) as caught:
            list(open_source(f"{address}#people").batches())
        assert PASSWORD not in str(caught.value) and "wrong-word" not in str(caught.value)
        assert caught.value.__context__ is None


def test_one_changed_value_moves_one_row(database: Server) -> None:
    base = f"{database.address()}#SELECT region, {{}} AS age, born FROM people ORDER BY born"
    schema = op.Schema.draft(f"{database.address()}#people")
    before = encode_table(base.format("age"), schema)
    for value in ("NULL", "age + 1000000", "0.5"):
        changed = f"CASE WHEN born = date '1990-01-09' THEN {value} ELSE age END"
        after = encode_table(base.format(changed), schema)
        moved = [np.flatnonzero(a != b).tolist() for a, b in zip(before.columns, after.columns, strict=True)]
        assert moved == [[], [7], []], value


def test_a_release_by_command_leaves_no_password(
    database: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    base = database.address()
    toml, out, ledger = (str(tmp_path / name) for name in ("s.toml", "out", "ledger.sqlite"))
    with watching(tmp_path, capfd) as watch:
        said = [
            say("schema", "draft", f"{base}#before", "-o", toml),
            say("release", f"{base}#people", "--public", f"{base}#before", "--schema", toml, "--workload", "1",
                "--epsilon", "1", "--delta", "1e-9", "-m", "public", "-o", out, "--ledger", ledger, "--new-ledger"),
            say("check", out),
            say("ledger", "show", ledger),
            say("evaluate", out, "--private", f"{base}#people", "--quick"),
            say("tune", f"{base}#before", "--epsilon", "1", "--delta", "1e-9", "--try", "public", "--workload", "1",
                "--workers", "1"),
            say("screen", f"{base}#people", "--public", f"{base}#before", "--schema", toml, "--epsilon", "0.5"),
            say("estimate", out, "--private", f"{base}#people", "--epsilon", "0.5"),
        ]  # fmt: skip
    assert [one.code for one in said] == [0] * 8, said
    for one in said:
        watch.tell("command", one.out + one.err)
    assert watch.leaks(["people"]) and watch.leaks(["127.0.0.1", PASSWORD]) == set()
    with pytest.raises(PrivacyError, match="the very same table"):
        op.release(f"{base}#people", f"{base}#people", schema=op.Schema.load(toml), workload=op.all_marginals(1),
                   epsilon=1.0, delta=1e-9)  # fmt: skip
