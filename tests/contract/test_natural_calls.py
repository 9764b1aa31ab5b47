"""Calls as people type them: those with one meaning work and mean the same, and the others say what to write."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import openprior as op
from openprior.errors import OpenPriorError
from openprior.privacy.ledger import Ledger

SIZES = {"a": 3, "b": 2, "c": 4}
RNG = np.random.default_rng(5)
PRIVATE, PUBLIC = (pd.DataFrame({name: RNG.integers(0, s, n) for name, s in SIZES.items()}) for n in (60, 40))
SCHEMA = op.Schema.from_sizes(SIZES)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PUBLIC.to_csv("public.csv", index=False)
    SCHEMA.save("schema.toml")


def release(private: Any = PRIVATE, public: Any = PUBLIC, **change: Any) -> op.Release:
    options: dict[str, Any] = {
        "schema": SCHEMA, "workload": 1, "epsilon": 1.0, "delta": 1e-3, "mechanism": "public", "seed": 1,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op.release(private, public, **{**options, **change})


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


TABLES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "Polars": pl.from_pandas,
    "lazy Polars": lambda frame: pl.from_pandas(frame).lazy(),
    "Arrow": arrow,
    "an Arrow reader": lambda frame: arrow(frame).to_reader(),
    "an Arrow dataset": lambda frame: pads.dataset(arrow(frame)),
    "an Arrow scanner": lambda frame: pads.dataset(arrow(frame)).scanner(),
    "a dict of lists": lambda frame: frame.to_dict("list"),
    "a dict of Series": dict,
    "a list of dicts": lambda frame: frame.to_dict("records"),
    "a structured array": lambda frame: frame.to_records(index=False),
    "columns in another order": lambda frame: frame[["c", "b", "a"]],
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_same_rows_in_any_form_give_the_same_release(kind: str) -> None:
    made = release(TABLES[kind](PRIVATE), TABLES[kind](PUBLIC))
    assert made.synthetic == release().synthetic
    assert op.evaluate(made, TABLES[kind](PRIVATE)) == op.evaluate(made, PRIVATE)


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"schema": "schema.toml"}, {}),
    ({"schema": Path("schema.toml")}, {}),
    ({"workload": 2}, {"workload": op.all_marginals(2)}),
    ({"workload": np.int64(2)}, {"workload": op.all_marginals(2)}),
    ({"workload": "2"}, {"workload": op.all_marginals(2)}),
    ({"workload": "target:a:2"}, {"workload": op.target_marginals("a", 2)}),
    ({"workload": "random:2:2:7"}, {"workload": op.random_marginals(2, 2, 7)}),
    ({"workload": "a,b; c"}, {"workload": op.Workload([("a", "b"), ("c",)])}),
    ({"workload": [["a", "b"], ["c"]]}, {"workload": op.Workload([("a", "b"), ("c",)])}),
    ({"workload": [{"a", "b"}, "c"]}, {"workload": op.Workload([("a", "b"), ("c",)])}),
    ({"workload": {("a", "b"): 2.0, "c": 1}}, {"workload": op.Workload([("a", "b"), ("c",)], [2, 1])}),
    ({"workload": PUBLIC.columns}, {"workload": op.all_marginals(1)}),
    ({"mechanism": "Public"}, {"mechanism": op.PublicProxy()}),
    ({"mechanism": "pmw-pub:rounds=2"}, {"mechanism": op.PmwPub(rounds=2)}),
    ({"epsilon": 1, "seed": np.int64(1)}, {}),
    ({"public": "public.csv"}, {}),
    ({"public": Path("public.csv")}, {}),
]


@pytest.mark.parametrize(
    ("typed", "meant"), SAME, ids=[f"{i} {min(typed)}" for i, (typed, _) in enumerate(SAME)]
)
def test_what_is_typed_is_what_is_meant(typed: dict[str, Any], meant: dict[str, Any]) -> None:
    one, other = release(**typed), release(**meant)
    assert one.workload == other.workload and one.schema == other.schema
    assert one.certificate.mechanism == other.certificate.mechanism and one.synthetic == other.synthetic


def test_the_other_functions_take_the_same() -> None:
    made = release()
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3}
    assert op.plan("schema.toml", n=60, workload="a,b", **options) == op.plan(
        SCHEMA, n=60, workload=[("a", "b")], **options
    )
    assert op.evaluate(made, PRIVATE, workload=2) == op.evaluate(made, PRIVATE, workload=op.all_marginals(2))
    errors = op.evaluate(made.synthetic.to_pylist(), PRIVATE, schema="schema.toml", workload=1)
    assert errors.per_marginal == op.evaluate(made, PRIVATE).per_marginal
    assert op.best_mixture_error(PRIVATE, PUBLIC, schema="schema.toml", workload="1").error >= 0
    tuned = op.tune(
        PUBLIC, schema="schema.toml", workload="1", grid=["public"], seeds=1, workers=1, **options
    )
    assert tuned.best.mechanism == op.PublicProxy()
    screened = [
        op.screen(PRIVATE, public, schema=SCHEMA, epsilon=1.0, seed=1).best.error
        for public in ([PUBLIC], PUBLIC, PUBLIC.to_dict("list"), {"x": PUBLIC}, Path("public.csv"))
    ]
    assert len(set(screened)) == 1


def test_a_ledger_as_text_path_or_object(tmp_path: Path) -> None:
    for ledger in ("b.sqlite", Path("b.sqlite"), Ledger("b.sqlite")):
        release(ledger=ledger, dataset="survey", mechanism="public", epsilon=0.1)
    assert len(Ledger("b.sqlite").datasets()[0].runs) == 3


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "exclude": (lambda: op.Schema.draft(PUBLIC, exclude="a"), 'exclude="a" is one text; write exclude=["a"]'),
    "include": (lambda: op.Schema.draft(PUBLIC, include="a"), 'include="a" is one text; write include=["a"]'),
    "levels": (lambda: op.Hierarchy(levels="ZIP"), 'levels="ZIP" is one text; write levels=["ZIP"]'),
    "groups": (lambda: op.Mwem(groups="abc"), 'groups="abc" is one text; write groups=["abc"]'),
    "published": (lambda: op.Hierarchy.published("ZIP"), 'levels="ZIP" is one text'),
    "candidates": (
        lambda: op.screen(PRIVATE, "a.csv", epsilon=1.0),
        'candidates="a.csv" is one text; write candidates=["a.csv"]',
    ),
    "grid": (
        lambda: op.tune(PUBLIC, epsilon=1.0, delta=1e-3, grid="aim"),
        'grid="aim" is one text; write grid=["aim"]',
    ),
    "keys": (lambda: op.evaluate_groups(PUBLIC, PRIVATE, "a", schema=SCHEMA), 'keys="a" is one text'),
    "weights": (lambda: op.Workload(["a"], "1"), 'weights="1" is one text'),
    "Workload": (lambda: op.Workload("a,b"), "a workload cannot be one text, 'a,b'; give marginals"),
    "an array": (lambda: release(PRIVATE.to_numpy()), "the array has no names for its columns; give a frame"),
    "a list of tables": (
        lambda: release(public=[PUBLIC]),
        "the list holds tables, and one is asked for; give",
    ),
    "TOML": (
        lambda: release(schema=SCHEMA.to_toml()),
        "give the path of its file, or openprior.Schema.from_toml",
    ),
    "Schema(path)": (lambda: op.Schema("schema.toml"), "write openprior.Schema.load(path)"),  # type: ignore[arg-type]
    "a class": (
        lambda: release(mechanism=op.Aim),
        "mechanism is the class Aim; give an instance, such as Aim()",
    ),
    "a function": (
        lambda: release(workload=op.all_marginals),
        "the workload cannot be a function; write '3'",
    ),
    "True": (lambda: release(workload=True), "the workload cannot be True; write '3'"),
    "2.0": (lambda: release(workload=2.0), "the workload cannot be 2.0; write '3'"),
    "a text for ε": (lambda: release(epsilon="1"), "epsilon ('1') must be a number, such as 1.0"),
    "a wrong column": (lambda: release(workload="a,z"), "there is no column 'z'; there are a, b, c"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_has_two_meanings_or_none_says_what_to_write(call: str) -> None:
    typed, words = REFUSED[call]
    with pytest.raises(OpenPriorError, match=re.escape(words)):
        typed()


def test_progress_is_looked_at_before_anything_is_charged() -> None:
    for wrong in (5, "x", lambda: None, lambda done, of, what: None, int):
        with pytest.raises(OpenPriorError, match=r"progress .* cannot be called with one Progress; give"):
            release(progress=wrong)
    told: list[Any] = []
    release(mechanism="pmw-pub:rounds=2", progress=told.append)
    assert told


def test_a_boolean_column_with_a_third_value() -> None:
    schema = op.Schema.from_toml('[columns.s]\nkind = "boolean"\ndtype = "string"\nvalues = ["no", "yes"]\n')
    right, wrong = {"s": ["no", "yes", "no"]}, {"s": ["no", "yes", "maybe", "no"]}
    words = re.escape("column 's' is boolean and has values other than 'no' and 'yes'")
    with pytest.raises(
        OpenPriorError, match=words + re.escape(" (for example 'maybe'); make it kind = \"cat")
    ):
        release(right, wrong, schema=schema)
    with pytest.raises(OpenPriorError, match=words + re.escape('; make it kind = "categorical"')) as caught:
        release(wrong, right, schema=schema)
    assert "maybe" not in str(caught.value)
