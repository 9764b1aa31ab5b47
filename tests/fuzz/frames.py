"""Tables in memory: odd types, odd names, odd shapes."""

import random
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads

import openprior as op
from tests.fuzz.calls import Call, sound
from tests.fuzz.odd import odd_value
from tests.fuzz.stock import release_options, rows

__all__ = ["GENERATORS"]

COUNTS = (0, 1, 2, 20, 20, 20)


def _call(draw: random.Random, data: Any, what: str) -> Call:
    """Something that takes the table, mostly as the private one."""
    options = release_options(draw)
    good = pa.table(rows(random.Random(1), 20, private=False))
    match draw.randrange(6):
        case 0:
            return Call(f"draft from {what}", lambda: op.Schema.draft(data), public=True)
        case 1:
            return Call(
                f"release beside {what}", lambda: op.release(good, data, **options), sound, public=True
            )
        case 2:
            return Call(
                f"screen {what}",
                lambda: op.screen(data, [good], epsilon=1.0, schema=options["schema"], seed=1),
                lambda s: s.certificate.recheck(),
            )
        case _:
            relation = draw.choice(("replace-one", "add-remove"))
            return Call(
                f"release {what}", lambda: op.release(data, good, **options, relation=relation), sound
            )


def _odd_column(draw: random.Random, count: int) -> list[Any]:
    """Values of one odd kind, or of several."""
    makers: tuple[Callable[[int], Any], ...] = (
        lambda i: f"zqxsecret{i}", lambda i: 7731977, lambda i: date(1937, 11, 23), lambda i: None,
        lambda i: float("nan"),
        lambda i: Decimal("7731977.5"), lambda i: b"zqxsecret\xff", lambda i: [i], lambda i: {"a": i},
        lambda i: datetime(1937, 11, 23, tzinfo=UTC),
        lambda i: timedelta(days=i), lambda i: "zqxsecret" * 5000, lambda i: True, lambda i: 2**70,
        lambda i: object(), lambda i: 1 + 2j,
        lambda i: np.float32(1.5), lambda i: pd.NaT, lambda i: pd.Period("2020"), lambda i: "a", lambda i: 5,
        lambda i: "\ud800", lambda i: (),
        lambda i: np.array([1, 2]), lambda i: "a\0b", lambda i: float("inf"), lambda i: -0.0,
    )  # fmt: skip
    chosen = draw.sample(makers, draw.choice((1, 1, 2, 3)))
    return [draw.choice(chosen)(i) for i in range(count)]


def pandas_objects(draw: random.Random) -> Call:
    """Columns of Python objects."""
    count = draw.choice(COUNTS)
    table = rows(draw, count, private=True)
    frame = pd.DataFrame(table)
    column = draw.choice(("city", "age", "pay", "note"))
    frame[column] = pd.Series(_odd_column(draw, count), dtype=object)
    return _call(draw, frame, f"pandas with objects in {column}, {count} rows")


def pandas_types(draw: random.Random) -> Call:
    """Types of columns that pandas has and Arrow may not."""
    count = draw.choice(COUNTS)
    frame = pd.DataFrame(rows(draw, count, private=True))
    kinds: tuple[Any, ...] = (
        "category", "string", "Int8", "Float32", "boolean", "object", "complex128", "float16", "uint64",
        "timedelta64[ns]",
        "datetime64[ns]", "datetime64[ns, Europe/Berlin]", "period[D]", "Sparse[int64]", "interval",
        "string[pyarrow]", "double[pyarrow]",
        "bytes", "category[age]",
    )  # fmt: skip
    column, kind = draw.choice(("city", "age", "pay")), draw.choice(kinds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "category[age]":
                frame[column] = pd.cut(frame["age"], 3)
            else:
                frame[column] = frame[column].astype(kind)
    except (TypeError, ValueError, KeyError):
        frame[column] = frame[column].astype("category")
    return _call(draw, frame, f"pandas with {column} as {kind}, {count} rows")


def pandas_shapes(draw: random.Random) -> Call:
    """Names and indexes: doubled, of several levels, no texts."""
    frame = pd.DataFrame(rows(draw, draw.choice(COUNTS), private=True))
    match draw.randrange(8):
        case 0:
            frame = frame.set_index(draw.choice((["city"], ["city", "age"], ["note"])))
        case 1:
            frame.index.name = draw.choice(("city", "age", "", 5))
        case 2:
            frame.columns = pd.MultiIndex.from_product([["x"], frame.columns])
        case 3:
            frame = pd.concat([frame, frame[["age"]]], axis=1)
        case 4:
            frame = frame.rename(
                columns={"city": odd_value(draw) if draw.random() < 0.5 else 5}, errors="ignore"
            )
        case 5:
            frame = frame.T
        case 6:
            frame = frame.iloc[::-1].sample(frac=0.5, random_state=1)
        case _:
            frame = frame[[]]
    return _call(draw, frame, "pandas of an odd shape")


def arrow(draw: random.Random) -> Call:
    """Arrow tables, batches, readers, datasets."""
    from tests.fuzz.files import odd_array

    count = draw.choice(COUNTS)
    table = pa.table(rows(draw, count, private=True))
    column = draw.choice(("city", "age", "pay"))
    if draw.random() < 0.7:
        table = table.set_column(table.column_names.index(column), column, odd_array(draw, count))
    if draw.random() < 0.1:
        table = table.append_column("age", table["city"])
    shapes: tuple[Callable[[], Any], ...] = (
        lambda: table,
        lambda: pads.dataset(table),
        table.to_reader,
        lambda: pa.Table.from_batches(table.to_batches(max_chunksize=3), table.schema),
        lambda: table.slice(1),
        lambda: table.to_struct_array() if draw.random() < 0.5 else table.to_batches(),
        lambda: table.schema,
        lambda: table.column(0),
    )
    return _call(draw, draw.choice(shapes)(), f"arrow with {', '.join(map(str, table.schema.types))}")


def polars(draw: random.Random) -> Call:
    """Polars frames, also lazy ones that break when they are read."""
    count = draw.choice(COUNTS)
    frame = pl.DataFrame(rows(draw, count, private=True))
    steps: tuple[Callable[[], Any], ...] = (
        lambda: frame.with_columns(pl.col("city").cast(pl.Categorical)),
        lambda: frame.with_columns(pl.col("age").cast(pl.Decimal(10, 2))),
        lambda: frame.with_columns(pl.col("age").cast(pl.Duration)),
        lambda: frame.with_columns(pl.col("age").cast(pl.Date)),
        lambda: frame.with_columns(pl.col("age").cast(pl.Int128)),
        lambda: frame.with_columns(pl.col("age").cast(pl.Utf8).cast(pl.Binary)),
        lambda: frame.with_columns(pl.concat_list("age", "code").alias("age")),
        lambda: frame.with_columns(pl.struct("age", "note").alias("city")),
        lambda: frame.with_columns(pl.lit(None).alias("city")),
        lambda: frame.with_columns(pl.col("pay").fill_null(float("nan"))),
        frame.lazy,
        lambda: frame.lazy().with_columns(pl.col("note").cast(pl.Int64).alias("age")),
        lambda: frame.lazy().select("none"),
        lambda: frame.select("city"),
        lambda: frame["city"],
        lambda: frame.with_columns(pl.Series("city", [object()] * count, dtype=pl.Object)),
    )
    step = draw.randrange(len(steps))
    return _call(draw, steps[step](), f"polars, step {step}")


def relation(draw: random.Random) -> Call:
    """DuckDB relations, also those that break when they are read."""
    table = pa.table(rows(draw, draw.choice(COUNTS), private=True))
    query = draw.choice(
        (
            "SELECT * FROM t", "SELECT *, note::INT AS bad FROM t", "SELECT city, note::INT AS age, pay FROM t",
            "SELECT city, age, pay FROM t WHERE false",
            "SELECT city, age, pay, [age] AS l FROM t", "SELECT city, age::HUGEINT AS age, pay FROM t",
            "SELECT city, INTERVAL 1 DAY AS age, pay FROM t",
            "SELECT city, uuid() AS age, pay FROM t", "SELECT city, age::DECIMAL(9,2) AS age, pay FROM t",
            "SELECT city, note::ENUM('a') AS age, pay FROM t",
            "SELECT {'a': city} AS city, age, pay FROM t", "SELECT city, age, pay, age FROM t",
            "SELECT city, now() AS age, pay FROM t", "SELECT city, age FROM t",
            "SELECT note::BLOB AS city, age, pay FROM t", "SELECT city, MAP {'a': age} AS age, pay FROM t",
            "SELECT city, error(note) AS age, pay FROM t",
        )
    )  # fmt: skip
    connection = duckdb.connect()
    connection.register("t", table)
    return _call(draw, connection.sql(query), f"duckdb, {query}")


class _Broken:
    """A stream of Arrow that breaks in some way."""

    def __init__(self, how: int) -> None:
        self.how = how

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if self.how == 0:
            raise RuntimeError("zqxsecret")
        if self.how == 1:
            return None
        schema = pa.schema([("city", pa.string()), ("age", pa.int64()), ("pay", pa.float64())])

        def batches() -> Any:
            yield pa.record_batch([["a"], [5], [1.0]], schema=schema)
            raise ValueError("zqxsecret 7731977")

        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()


def no_table(draw: random.Random) -> Call:
    """What is no table, and streams that break."""
    value = draw.choice(
        (odd_value(draw), _Broken(draw.randrange(3)), {"city": ["zqxsecret"]}, [("a", 5)], np.zeros((3, 3)))
    )
    if isinstance(value, str):
        value = [value]
    return _call(draw, value, f"{type(value).__name__}")


GENERATORS = (pandas_objects, pandas_objects, pandas_types, pandas_shapes, arrow, polars, relation, no_table)
