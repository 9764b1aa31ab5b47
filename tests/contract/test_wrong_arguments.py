"""Whatever is handed to a public function, method or class, each argument in turn: it works, or it is refused in words.

Nothing of Python's own (TypeError, AttributeError, KeyError, RecursionError, …) nor of another library may come out of
a wrong value, and the words of a refusal have a remedy and no addresses or types in angle brackets.
"""

import datetime
import inspect
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OpenPriorError
from openprior.guidance.schema_check import check_schema
from openprior.privacy.ledger import Ledger
from openprior.releases.public_prior import need_prior
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Ordered
from openprior.schema.levels import Hierarchy as Level

FRAME = {"zqxname": ["zqxsecret"]}


def endless() -> Iterator[str]:
    yield from ("age", "sex")


WRONG: dict[str, Any] = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "1": 1,
    "0.5": 0.5,
    "NaN": math.nan,
    "infinity": math.inf,
    "far more than a double": 10**400,
    "beyond 64 bits": 10**20,
    "smallest": 5e-324,
    "no letter": "",
    "a blank": " ",
    "a letter": "x",
    "a NUL": "a\0b",
    "half a letter": "\ud800",
    "a long text": "x" * 10_000,
    "an open quote": '"a',
    "signs": "a,b;c:=|()",
    "bytes": b"x",
    "an empty list": [],
    "lists in lists": [[["x"]]],
    "a list of None": [None],
    "an empty dict": {},
    "a dict of None": {None: None},
    "an empty tuple": (),
    "an object": object(),
    "a function": lambda: None,
    "a class": int,
    "a mechanism's class": op.Tilt,
    "a NumPy int": np.int64(3),
    "a NumPy float": np.float32(0.5),
    "a NumPy bool": np.bool_(True),
    "no time": np.datetime64("NaT"),
    "an array": np.arange(3),
    "an array of rows": np.zeros((2, 2)),
    "an array of objects": np.array([None, "x"], object),
    "an array of no dimension": np.array("x"),
    "pandas NA": pd.NA,
    "a frame": pd.DataFrame(FRAME),
    "an Arrow table": pa.table(FRAME),
    "a path to nothing": Path("nothing.csv"),
    "a folder": Path("."),
    "a date": datetime.date(2020, 1, 1),
    "a complex number": 3 + 4j,
    "a set": {1, "x"},
    "a generator": endless,
    "a fraction": Fraction(1, 3),
    "a decimal that is none": Decimal("NaN"),
    "three dots": ...,
    "an error": ValueError("x"),
    "a range": range(3),
}
"""Made anew for every call if it can be used up."""
SCHEMA = """
[columns.age]
kind = "integer"
low = 0
high = 3

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""
PUBLIC = {"age": [0, 1, 2, 3, 0, 1], "sex": ["f", "m", "f", "m", "f", "m"]}
PRIVATE = {"age": [3, 1, 2, 3, 0, 3, 2], "sex": ["f", "f", "f", "m", "m", "m", "f"]}
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3}
LARGE: dict[str, Any] = {**BUDGET, "epsilon": 20.0}
"""Enough to tell errors from noise in a few rows."""
UNIT = {"unit": {"person": None, "rows_per_person": 1, "relation": "replace-one"}}


@cache
def schema() -> op.Schema:
    return op.Schema.from_toml(SCHEMA)


@cache
def made() -> op.Release:
    return op.release(PRIVATE, PUBLIC, schema=schema(), workload=1, mechanism="public", seed=1, **BUDGET)


@cache
def with_bars() -> op.Release:
    few = op.PmwPub(rounds=2)
    return op.release(
        PRIVATE, PUBLIC, schema=schema(), workload=1, mechanism=few, error_bars=0.5, seed=1, **LARGE
    )


@cache
def ledger() -> Ledger:
    book = Ledger()
    book.set_budget("x", epsilon=2.0, delta=1e-3)
    return book


@cache
def run(name: str = "") -> dict[str, Any]:
    return {"run": ledger().open_run("x", rho=1e-6, epsilon=1e-3, delta=1e-3, details=UNIT)}


def right(**more: Any) -> Callable[[], dict[str, Any]]:
    """Arguments that are right: the tables, the schema, and these."""
    return lambda: {"private": PRIVATE, "public": PUBLIC, "schema": schema(), **more}


def judged(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"release": made(), "private": PRIVATE, **more}


def these(**arguments: Any) -> Callable[[], dict[str, Any]]:
    return lambda: dict(arguments)


def save(path: Any, format: Any = "parquet") -> Path:
    return made().save(path, format=format)


def begun_with(prior: Any) -> op.PublicPrior:
    return need_prior(prior, op.Tilt())


Call = tuple[Callable[..., Any], Callable[[], dict[str, Any]]]
CALLS: dict[str, Call] = {
    "release": (op.release, right(workload=1, mechanism=op.PublicProxy(), seed=1, **BUDGET)),
    "open_release": (op.open_release, these(path="none")),
    "fit_prior": (op.fit_prior, lambda: {"public": PUBLIC, "schema": schema(), "workload": 1}),
    "open_prior": (op.open_prior, these(path="none")),
    "a prior of a release": (begun_with, lambda: {"prior": op.fit_prior(PUBLIC, schema=schema())}),
    "plan": (op.plan, lambda: {"schema": schema(), "n": 100, "workload": 1, **BUDGET}),
    "screen": (op.screen, right(candidates=[PUBLIC], epsilon=1.0, seed=1)),
    "tune": (op.tune, right(grid=["public"], seeds=1, workers=1, workload=1, **BUDGET)),
    "choose_public": (
        op.choose_public,
        lambda: {
            "candidates": [PUBLIC],
            "validation": PRIVATE,
            "schema": schema(),
            "grid": ["public"],
            "seeds": 1,
            "workers": 1,
            "workload": 1,
            **BUDGET,
        },
    ),
    "divergences": (
        op.divergences,
        lambda: {"first": PRIVATE, "second": PUBLIC, "schema": schema(), "workload": 1},
    ),
    "best_mixture_error": (op.best_mixture_error, right(seed=1, workload=1, **BUDGET)),
    "evaluate": (op.evaluate, judged()),
    "evaluate_groups": (op.evaluate_groups, judged(keys=["sex"])),
    "evaluate_quality": (op.evaluate_quality, judged()),
    "estimate_error": (op.estimate_error, judged(epsilon=1.0, seed=1)),
    "compare": (op.compare, lambda: {"releases": {"one": made(), "other": made()}, "private": PRIVATE}),
    "audit": (op.audit, these(mechanism=op.PublicProxy(), runs=1, neighbours=1, relation="add-remove")),
    "all_marginals": (op.all_marginals, these(k=2)),
    "random_marginals": (op.random_marginals, these(k=2, count=2, seed=1)),
    "target_marginals": (op.target_marginals, these(target="age", k=2)),
    "mechanisms": (op.mechanisms, these()),
    "Workload": (op.Workload, these(marginals=[["age", "sex"]], weights=[1.0])),
    "Workload.on": (op.Workload([["age"]]).on, lambda: {"domain": schema().domain}),
    "Schema": (op.Schema, lambda: {"columns": schema().columns}),
    "Schema.draft": (op.Schema.draft, these(public=PUBLIC)),
    "Schema.from_sizes": (op.Schema.from_sizes, these(sizes={"a": 2})),
    "Schema.from_toml": (op.Schema.from_toml, these(text=SCHEMA)),
    "Schema.load": (op.Schema.load, these(path="schema.toml")),
    "Schema.save": (schema().save, these(path="other.toml")),
    "Schema.check_columns": (schema().check_columns, these(names=["age", "sex"])),
    "Schema.check": (check_schema, lambda: {"schema": schema(), "table": PUBLIC}),
    "Schema.check, with noise": (
        check_schema,
        lambda: {"schema": schema(), "table": PRIVATE, "epsilon": 1.0, "seed": 1},
    ),
    "Schema.parents": (schema().parents, these(name="age")),
    "Schema[]": (schema().__getitem__, these(name="age")),
    "Release.answers": (lambda columns: made().answers(columns), these(columns=["age"])),
    "Release.estimate": (
        lambda what, of, by, where, value, q, compare, against: with_bars().estimate(
            what, of, by=by, where=where, value=value, q=q, compare=compare, against=against
        ),
        these(what="share", of="age", by=["sex"], where=None, value=None, q=None, compare=None, against=None),
    ),
    "Release.replicates": (lambda k, seed=1: with_bars().replicates(k, seed), these(k=2)),
    "combine": (op.combine, these(estimates=[[1.0], [2.0]], variances=[[1.0], [1.0]])),
    "Release.rows": (lambda n, where=None, seed=1: made().rows(n, where, seed), these(n=3)),
    "Release.save": (save, these(path="saved")),
    "Certificate.from_json": (op.Certificate.from_json, lambda: {"text": made().certificate.to_json()}),
    "Plan.tables": (op.plan(schema(), n=100, workload=1, **BUDGET).tables, these(most=3)),
    "Ledger": (Ledger, these(path=None)),
    "Ledger.set_budget": (Ledger().set_budget, these(dataset="x", **BUDGET)),
    "Ledger.open_run": (
        ledger().open_run,
        these(dataset="x", rho=1e-6, epsilon=1e-3, delta=1e-3, details=UNIT),
    ),
    "Ledger.charge": (ledger().charge, lambda: {**run(), "seq": 0, "rho": 1e-9, "event": {"verb": "x"}}),
    "Ledger.withdraw": (ledger().withdraw, lambda: run("to withdraw")),
    "Ledger.close": (ledger().close, lambda: run("to close")),
    "Ledger.spent": (ledger().spent, run),
    "Ledger.remaining": (ledger().remaining, run),
    "Ledger.events": (ledger().events, run),
    "Ledger.knows": (ledger().knows, run),
    "Hierarchy.published": (op.Hierarchy.published, these()),
    "Mwem.published": (op.Mwem.published, these()),
    "PmwPub.published": (op.PmwPub.published, these()),
    **{cls.__name__: (cls, these()) for cls in op.mechanisms().values()},
    "Categorical": (Categorical, these(name="x", values=("a", "b"))),
    "Ordered": (Ordered, these(name="x", values=("a", "b"))),
    "Boolean": (Boolean, these(name="x")),
    "Integer": (Integer, these(name="x", low=0, high=3, bins=(0, 2, 3))),
    "Real": (Real, these(name="x", bins=(0.0, 1.0))),
    "Datetime": (Datetime, these(name="x", bins=(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)))),
    "Reading": (op.Reading, these()),
    "a level of a hierarchy": (Level, these(name="x", column="y", prefix=1)),
}
MADE_INSIDE = {"Release", "PublicPrior", "Certificate", "Combined", "Progress", "OpenPriorError"}
"""Classes that only the library makes, or that are raised: not called by users."""
RIGHT = ("None", "0", "1", "beyond 64 bits", "far more than a double", "a NumPy int")
SLOW = {
    "audit": (*RIGHT, "True"),
    "tune": ("None",),
    "release": ("None",),
    "screen": ("None",),
    "best_mixture_error": ("None",),
    "estimate_error": ("None",),
    "evaluate_quality": RIGHT,
    "Schema.check, with noise": ("None",),
}
"""Values that are right there for most arguments; such a call takes a while, and other tests make it."""


def cases() -> Iterator[Any]:
    for call, (function, _) in CALLS.items():
        for name in inspect.signature(function).parameters:
            yield pytest.param(call, name, id=f"{call}, {name}")


def of(value: Any) -> Any:
    return value() if value is endless else value


def arguments(call: str, name: str, value: Any) -> dict[str, Any]:
    """What is right for the call, but for one argument."""
    function, sound = CALLS[call]
    known = inspect.signature(function).parameters
    return {**{k: v for k, v in sound().items() if k in known}, name: of(value)}


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("schema.toml").write_text(SCHEMA)
        yield


@pytest.mark.parametrize(("call", "name"), list(cases()))
def test_a_wrong_argument_works_or_is_refused_in_words(call: str, name: str) -> None:
    problems = []
    for what, value in WRONG.items():
        if what in SLOW.get(call, ()):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                CALLS[call][0](**arguments(call, name, value))
            except OpenPriorError as error:
                words = str(error)
                if re.search(r"<\w|0x[0-9a-f]{6}|\n|zqxsecret", words) or not re.search(r"; |must ", words):
                    problems.append(f"{what}: {words}")
            except Exception as error:  # noqa: BLE001 - which is what must not be
                problems.append(f"{what}: {type(error).__name__}: {error!s:.100}")
    assert not problems


def test_the_right_arguments_are_right() -> None:
    """Else everything would be refused for another reason."""
    refused = {"open_release", "open_prior", "Schema.parents"}
    for call, (function, sound) in CALLS.items():
        known = inspect.signature(function).parameters
        given = {k: v for k, v in sound().items() if k in known}
        if call not in refused:
            function(**given)


def test_every_public_name_is_called() -> None:
    called = {name.partition(".")[0] for name in CALLS}
    assert set(op.__all__) - MADE_INSIDE <= called
    for cls in (op.Schema, op.Workload, op.Release):
        methods = {
            n
            for n, m in vars(cls).items()
            if not n.startswith("_") and isinstance(m, classmethod | staticmethod)
        }
        assert {f"{cls.__name__}.{n}" for n in methods} <= set(CALLS)
    assert len(WRONG) > 40


def test_endless_is_a_generator() -> None:
    assert inspect.isgenerator(of(WRONG["a generator"]))
