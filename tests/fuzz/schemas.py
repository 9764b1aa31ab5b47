"""Schema documents that are broken or odd, and drafts with odd options."""

import copy
import os
import random
import tomllib
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import openprior as op
from openprior.schema import toml
from openprior.schema.base import Schema
from tests.fuzz.calls import Call, command, sound
from tests.fuzz.odd import broken_bytes, odd_value
from tests.fuzz.stock import SCHEMA, fast, rows, take, text

__all__ = ["GENERATORS"]

LARGE = """
person_id = "person"
max_rows_per_person = 2

[columns.city]
kind = "categorical"
values = ["a", "b", "ü"]
other = true
out_of_domain = "other"

[columns.age]
kind = "integer"
low = 0
high = 99
out_of_domain = "clip"

[columns.pay]
kind = "real"
bins = [0.0, 10.0, 100.0]
missing = true
missing_values = ["", "NA"]

[columns.born]
kind = "datetime"
dtype = "date32[day]"
bins = [1900-01-01, 1950-01-01, 2000-01-01]

[hierarchies.first]
column = "city"
map = {a = "x", b = "x", "ü" = "y"}

[hierarchies.top]
column = "first"
prefix = 1
"""
ENTRIES: tuple[Any, ...] = (
    True, False, 0, 1, -1, 2**31, 2**63 - 1, 10**30, 0.5, -0.0, float("nan"), float("inf"), -1e308, 5e-324, "", " ",
    "x", "a",
    "categorical", "ordered", "boolean", "integer", "real", "datetime", "int8", "uint64", "double", "bool", "string",
    "half",
    "date32[day]", "timestamp[us]", "timestamp[ns, tz=UTC]", "timestamp[s, tz=Nowhere/Land]", "timestamp[ms, tz=]",
    "time64[us]",
    "list<item: int64>", "null", "binary", "decimal128(3, 1)", "duration[s]", "clip", "open", "other", "error",
    "missing", "uniform", "day", "age", "city", [],
    [1], [1, 2, 3], [3, 2, 1], [1, 1], [0, 1e400], [float("nan"), 1.0], [0.0, float("inf")], ["a"], ["a", "a"],
    ["a", "A"],
    ["a ", "b"], ["a", 1], [True, False], [False, True], [[1, 2]], ["no", "yes"], [1, 2.5], [1, True],
    ["\U0001f600", "\u202e"],
    date(2020, 1, 1), datetime(2020, 1, 1), time(1, 2), [date(2020, 1, 1), date(1999, 1, 1)], [time(1), time(2)],
    [date(2020, 1, 1), datetime(2020, 1, 2)], {}, {"a": 1}, {"x": {"y": 2}}, "x" * 500, list(range(3000)),
)  # fmt: skip
KEYS = (
    "kind", "dtype", "values", "bins", "low", "high", "missing", "missing_values", "other", "out_of_domain",
    "step", "values_inside", "column", "prefix",
    "map", "name", "", "unknown", "ü", "a.b", "person_id", "max_rows_per_person", "columns", "hierarchies", "notes",
)  # fmt: skip


def _mutated(draw: random.Random, document: dict[str, Any]) -> None:
    """One entry removed, added, renamed or replaced, somewhere."""
    place = document
    while True:
        inner = [value for value in place.values() if isinstance(value, dict) and value]
        if not inner or draw.random() < 0.15:
            break
        place = draw.choice(inner)
    key = draw.choice(sorted(place))
    match draw.randrange(6):
        case 0:
            del place[key]
        case 1:
            place[draw.choice(KEYS)] = draw.choice(ENTRIES)
        case 2:
            place[draw.choice((*KEYS, "city", "age", "\U0001f600", "a" * 300, "x\ny"))] = place.pop(key)
        case _:
            place[key] = draw.choice(ENTRIES)


def _written(document: dict[str, Any]) -> str:
    """As TOML, inline: whatever is in it."""
    return "".join(f"{toml.key(k)} = {_value(v)}\n" for k, v in document.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml.key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return toml.value(value)


def _document(draw: random.Random) -> str:
    document = copy.deepcopy(tomllib.loads(draw.choice((SCHEMA, LARGE))))
    for _ in range(draw.choice((1, 1, 2, 4))):
        _mutated(draw, document)
        if not document:
            break
    return _written(document)


def _same(schema: Schema) -> None:
    again = Schema.from_toml(schema.to_toml())
    assert again == schema and again.hash == schema.hash
    assert len(schema.domain) == len(schema.columns)
    if schema.domain.size() < 1e6:
        assert all(len(column.labels) == column.size == len(set(column.labels)) for column in schema.columns)
        assert all(len(level.codes) == schema[level.column].size for level in schema.levels.values())


def load(draw: random.Random) -> Call:
    """A document with wrong entries."""
    Path("schema.toml").write_text(_document(draw))
    return Call(Path("schema.toml").read_text()[:300], lambda: Schema.load("schema.toml"), _same)


def broken(draw: random.Random) -> Call:
    """A document with broken bytes."""
    content = broken_bytes(draw, LARGE.encode())
    Path("schema.toml").write_bytes(content)
    if draw.random() < 0.5:
        return Call(repr(content[:300]), lambda: Schema.load("schema.toml"), _same)
    words = ("--rows", "100", "--epsilon", "1", "--delta", "1e-3", "--workload", "1")
    return command("plan", "schema.toml", *words)


def from_python(draw: random.Random) -> Call:
    """Arguments that are none."""
    value = odd_value(draw)
    sizes = draw.choice((value, {"a": value}, {value: 2} if value.__hash__ else {}, {"a": 2, "b": value}))
    known = Schema.from_toml(LARGE)
    calls = (
        lambda: Schema.from_sizes(sizes),
        lambda: Schema.from_toml(value),
        lambda: Schema.load(value),
        lambda: Schema(value),
        lambda: Schema((value,)),
        lambda: Schema(known.columns, value),
        lambda: Schema(known.columns, "person", value),
        lambda: Schema(known.columns, hierarchies=value),
    )
    return Call(f"schema of {value!r:.200}", draw.choice(calls), _same)


def saved(draw: random.Random) -> Call:
    """A place that cannot be written."""
    Path("folder").mkdir()
    os.mkfifo("pipe")  # and no device of this machine: what replaced it would stay when the tests are over
    place = draw.choice((odd_value(draw), "folder", "none/x.toml", "pipe", "x" * 300))
    name = place if isinstance(place, str) and "/" not in place else ""
    return Call(
        f"save to {place!r:.200}",
        lambda: Schema.from_toml(LARGE).save(place),
        writes=frozenset({name} - {""}),
    )


def draft(draw: random.Random) -> Call:
    """Odd options of a draft, from Python and from the command line."""
    take("public.csv")
    option = draw.choice(("bins", "max_values", "person_id", "max_rows_per_person", "exclude"))
    value = odd_value(draw)
    if draw.random() < 0.7:
        return Call(
            f"draft {option} = {value!r:.200}", lambda: Schema.draft("public.csv", **{option: value}), _same
        )
    flags = {
        "bins": "--bins",
        "person_id": "--person-id",
        "max_rows_per_person": "--max-rows",
        "exclude": "--exclude",
    }
    word = str(value).replace("\0", "")
    return command(
        "schema",
        "draft",
        "public.csv",
        "-o",
        "new.toml",
        flags.get(option, "--bins"),
        word,
        writes=["new.toml"],
    )


def used(draw: random.Random) -> Call:
    """A document that may be odd but right, used for a release."""
    for _ in range(20):
        try:
            schema = Schema.from_toml(_document(draw))
        except op.OpenPriorError:
            continue
        if schema.domain.size() < 1e5:
            break
    else:
        schema = Schema.from_toml(LARGE)
    private, public = rows(draw, 20, private=True), rows(draw, 20, private=False)
    public["born"] = ["1960-01-01"] * 20
    Path("private.csv").write_text(text(private))
    Path("public.csv").write_text(text(public))
    relation = draw.choice(("replace-one", "add-remove"))

    def run() -> Any:
        return op.release(
            "private.csv", "public.csv", schema=schema, workload=op.all_marginals(1), epsilon=1.0, delta=1e-3,
            mechanism=draw.choice((fast(), op.PublicProxy())), seed=1, relation=relation, out="out",
        )  # fmt: skip

    return Call(schema.to_toml()[:400], run, sound, frozenset({"out"}))


GENERATORS = (load, load, load, broken, from_python, saved, draft, used)
