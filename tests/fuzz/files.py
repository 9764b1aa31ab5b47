"""CSV and Parquet files, folders of them, and paths."""

import dataclasses
import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import openprior as op
from openprior.schema.base import Schema
from tests.fuzz.calls import Call, command, released
from tests.fuzz.odd import WORDS, broken_bytes
from tests.fuzz.stock import release_options, rows, take, text

__all__ = ["GENERATORS", "odd_array"]

CELLS = (
    "", "nan", "inf", "-inf", "1e400", "-0", "٣", "1_000", "0x10", " 5 ", "5.", "5,0", "1e1", "9" * 30, "\U0001f600",
    "NA",
    "True", "2020-01-01", "a", "A", "ü", "u\u0308", "\u00a0a", "5.000000000001", "1e-400", "zqxsecret", "7731977",
)  # fmt: skip


def _names(private: bool) -> tuple[str, str]:
    """The name of the file that is broken and the one that is good."""
    return ("private", "public.csv") if private else ("public", "private.csv")


def _call(draw: random.Random, path: str, *, private: bool) -> Call:
    """Something that reads this path as its private or its public table."""
    return dataclasses.replace(_read(draw, path, private=private), public=not private)


def _read(draw: random.Random, path: str, *, private: bool) -> Call:
    take("private.csv" if not private else "public.csv", "schema.toml")
    tables = (
        {"private": path, "public": "public.csv"} if private else {"private": "private.csv", "public": path}
    )
    options = release_options(draw)
    choice = draw.randrange(7)
    what = f"{'private' if private else 'public'} table {path!r}"
    if choice <= 2:
        out = "out" if choice == 0 else None
        return Call(
            f"release, {what}",
            lambda: op.release(**tables, **options, out=out),
            released(2.0, out),
            frozenset({"out"} if out else ()),
        )
    if choice == 3 or "\0" in path or "\ud800" in path:
        return Call(
            f"screen, {what}",
            lambda: op.screen(
                tables["private"], [tables["public"]], epsilon=1.0, schema=options["schema"], seed=1
            ),
            lambda s: s.certificate.recheck(),
        )
    if choice == 4:
        words = (
            "--epsilon",
            "1",
            "--delta",
            "1e-3",
            "--schema",
            "schema.toml",
            "-m",
            "public",
            "--workload",
            "1",
        )
        return command(
            "release", tables["private"], "--public", tables["public"], *words, "-o", "out", writes=["out"]
        )
    if choice == 5 and not private:
        return command("schema", "draft", path, "-o", "new.toml", writes=["new.toml"])
    if choice == 6 and not private:
        return Call(f"draft, {what}", lambda: op.Schema.draft(path), _round_trip)
    return Call(
        f"best mixture error, {what}",
        lambda: op.best_mixture_error(**tables, schema=options["schema"], epsilon=1.0, delta=1e-3, seed=1),
    )


def _round_trip(schema: Schema) -> None:
    assert Schema.from_toml(schema.to_toml()) == schema


def _write(draw: random.Random, content: bytes, suffixes: tuple[str, ...]) -> Call:
    private = draw.random() < 0.7
    path = _names(private)[0] + draw.choice(suffixes)
    Path(path).write_bytes(content)
    return _call(draw, path, private=private)


def broken_csv(draw: random.Random) -> Call:
    """Bad bytes, marks of other encodings, NULs, other separators, line ends and quotes."""
    content = text(rows(draw, draw.choice((1, 2, 20)), private=True))
    changes: tuple[Callable[[str], bytes], ...] = (
        lambda t: broken_bytes(draw, t.encode()),
        lambda t: b"\xef\xbb\xbf" + t.encode(),
        lambda t: t.encode("utf-16"),
        lambda t: t.encode("utf-16-le"),
        lambda t: t.encode("latin-1"),
        lambda t: t.replace(",", draw.choice(";\t|: ")).encode(),
        lambda t: t.replace("\n", draw.choice(("\r", "\r\n", "\n\n", "\n\r", ",\n", "\n,"))).encode(),
        lambda t: t.replace("a", draw.choice(('"', '""', '"a', 'a"', "'", "\\", "\0"))).encode(),
        lambda t: t.rstrip("\n").encode(),
        lambda t: draw.choice(
            (b"", b"\n", b"\n\n\n", b"\xef\xbb\xbf", b" ", b"\0", b",", b'"', t.split("\n")[0].encode())
        ),
        lambda t: t.partition("\n")[2].encode(),
        lambda t: t.replace("city", draw.choice(("", "age", " city ", "CITY", '"city"', "ci\tty"))).encode(),
        lambda t: t.replace("zqxsecret", "zqxsecret" * draw.choice((10, 1000, 30_000))).encode(),
    )
    return _write(
        draw, draw.choice(changes)(content), (".csv", ".csv", ".txt", ".tsv", "", ".parquet", ".data", ".CSV")
    )


def odd_cells(draw: random.Random) -> Call:
    """Values that a column does not expect, and rows that are too short or too long."""
    private = draw.random() < 0.7
    table = rows(draw, 20, private=private)
    allowed = CELLS if private else tuple(c for c in CELLS if not c.startswith(("zqx", "7731")))
    for _ in range(draw.choice((1, 3))):
        column = draw.choice(("city", "age", "pay"))
        table[column][draw.randrange(20)] = draw.choice(allowed)
    lines = text(table).splitlines(keepends=True)
    if draw.random() < 0.2:
        at = draw.randrange(1, len(lines))
        lines[at] = draw.choice(
            (lines[at].rstrip() + ",1\n", lines[at].partition(",")[2], "\n", "#" + lines[at])
        )
    path = _names(private)[0] + ".csv"
    Path(path).write_text("".join(lines))
    return _call(draw, path, private=private)


def zipped(draw: random.Random) -> Call:
    """Compressed, cut, doubled, or not compressed at all."""
    content = gzip.compress(text(rows(draw, 20, private=True)).encode(), mtime=0)
    match draw.randrange(5):
        case 0:
            content = content[: draw.randrange(1, len(content))]
        case 1:
            content = broken_bytes(draw, content)
        case 2:
            content = gzip.compress(content, mtime=0)
        case 3:
            content += content
        case _:
            content = b"\x1f\x8b" + draw.randbytes(40)
    return _write(draw, content, (".csv.gz", ".gz", ".csv"))


def odd_array(draw: random.Random, count: int) -> pa.Array:
    """A column of a type that tables seldom have."""
    small = [draw.randrange(3) for _ in range(count)]
    makers: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([[x] for x in small]),
        lambda: pa.array([{"zqxsecret": x} for x in small]),
        lambda: pa.array([[("k", x)] for x in small], pa.map_(pa.string(), pa.int64())),
        lambda: pa.nulls(count),
        lambda: pa.array([b"zqxsecret\xff"] * count, pa.binary()),
        lambda: pa.array([b"abcd"] * count, pa.binary(4)),
        lambda: pa.array(small, pa.decimal128(38, 10)),
        lambda: pa.array(small, pa.decimal256(76, 0)),
        lambda: pa.array(small, pa.duration("ns")),
        lambda: pa.array(small, pa.time32("s")),
        lambda: pa.array(small, pa.time64("ns")),
        lambda: pa.array([-(2**40)] * count, pa.timestamp("s")),
        lambda: pa.array(small, pa.timestamp("ns", "Europe/Berlin")),
        lambda: pa.array([2**63 + x for x in small], pa.uint64()),
        lambda: pa.array(np.array(small, np.float16)),
        lambda: pa.array([float("nan")] * count),
        lambda: pa.array(["a"] * count, pa.large_string()),
        lambda: pa.array(["a"] * count, pa.string_view()),
        lambda: pa.array(["a", None] * (count // 2) + ["b"] * (count % 2)).dictionary_encode(),
        lambda: pa.array([bool(x) for x in small]),
        lambda: pa.array(small, pa.date64()),
        lambda: pa.array([2**31 - 1] * count, pa.date32()),
    )
    return draw.choice(makers)()


def parquet(draw: random.Random) -> Call:
    """Cut, altered, nested, of odd types, without rows or columns."""
    table = pa.table(rows(draw, draw.choice((0, 1, 20)), private=True))
    match draw.randrange(6):
        case 0 | 1:
            column = draw.choice(("city", "age", "pay"))
            table = table.set_column(
                table.column_names.index(column), column, odd_array(draw, table.num_rows)
            )
        case 2:
            table = table.rename_columns(draw.sample(table.column_names, len(table.column_names)))
        case 3:
            table = table.select([])
        case _:
            pass
    private = draw.random() < 0.7
    path = _names(private)[0] + draw.choice((".parquet", ".parquet", ".csv", ".gz"))
    pq.write_table(table, path)
    if draw.random() < 0.5:
        Path(path).write_bytes(broken_bytes(draw, Path(path).read_bytes()))
    return _call(draw, path, private=private)


def folder(draw: random.Random) -> Call:
    """Files that disagree, of two kinds, empty ones, folders in folders."""
    private = draw.random() < 0.7
    place = Path(_names(private)[0])
    place.mkdir()
    for number in range(draw.choice((0, 1, 2, 3))):
        table = rows(draw, draw.choice((1, 10)), private=private)
        for _ in range(draw.choice((0, 0, 1))):
            table.pop(draw.choice(sorted(table)), None)
        if draw.random() < 0.3:
            table = {name: table[name] for name in draw.sample(sorted(table), len(table))}
        if draw.random() < 0.2 and table:
            name = draw.choice(sorted(table))
            table[name] = [str(value) + draw.choice(("", "x")) for value in table[name]]
        name = draw.choice(
            (f"{number}.csv", f"{number}.csv", f"{number}.parquet", f".{number}.csv", f"{number}", "_x")
        )
        if name.endswith(".parquet"):
            pq.write_table(pa.table(table), place / name)
        else:
            (place / name).write_text(text(table) if table else "")
    if draw.random() < 0.3:
        (place / draw.choice(("empty.csv", "x.parquet", "README", "_SUCCESS"))).write_bytes(b"")
    if draw.random() < 0.2:
        (place / draw.choice(("inner", "inner.csv"))).mkdir()
    return _call(draw, draw.choice((str(place), f"{place}/", f"./{place}/.")), private=private)


def path(draw: random.Random) -> Call:
    """What is no file, or no name of one."""
    os.mkfifo("pipe")
    os.symlink("nowhere", "broken")
    os.symlink("loop", "loop")
    name = draw.choice(
        (
            *WORDS,
            "none.csv",
            "pipe",
            "broken",
            "loop",
            "/dev/null",
            "/dev/zero",
            "/dev/full",
            ".",
            "x/y/z",
            "x.csv/",
        )
    )
    # A private table that is not there is told by its name, so the name is no secret.
    return _call(draw, name, private=draw.random() < 0.5)


GENERATORS = (broken_csv, broken_csv, odd_cells, odd_cells, zipped, parquet, parquet, folder, path)
