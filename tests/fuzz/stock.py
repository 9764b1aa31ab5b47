"""The good tables, schema, release, ledger and broken run that cases start from; made once, copied for each case."""

import contextlib
import functools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openprior as op
from openprior.privacy.ledger import Ledger
from openprior.schema.base import Schema
from tests.conftest import stopping

__all__ = ["SCHEMA", "SECRETS", "UNIT", "fast", "good_release", "release_options", "rows", "take", "text"]

SECRETS = ("zqxsecret", "7731977", "1937-11-23", "zqxperson")
"""Begin every value that is in private tables only."""
SCHEMA = """
[columns.city]
kind = "categorical"
values = ["a", "b", "ü"]

[columns.age]
kind = "integer"
low = 0
high = 99
bins = [0, 18, 65, 99]

[columns.pay]
kind = "real"
bins = [0.0, 10.0, 100.0]
missing = true
"""
UNIT = {"unit": {"person": None, "rows_per_person": 1, "relation": "replace-one"}}
"""What the runs of the ledger protect; runs that say anything else are refused there."""
BUDGET = {"rho": 2.0, "epsilon": 13.0, "delta": 1e-6}


def rows(draw: random.Random, count: int, *, private: bool) -> dict[str, list[Any]]:
    """A table that fits the schema, by column; a private one has columns of secrets beside them."""
    table: dict[str, list[Any]] = {
        "city": [draw.choice("abü") for _ in range(count)],
        "age": [draw.randrange(100) for _ in range(count)],
        "pay": [round(draw.random() * 100, 2) for _ in range(count)],
    }
    if private:
        table["note"] = [f"zqxsecret {i}" for i in range(count)]
        table["code"] = [int(f"7731977{i % 10}") for i in range(count)]
        table["born"] = ["1937-11-23"] * count
        table["person"] = [f"zqxperson{i // 2}" for i in range(count)]
    return table


def text(table: dict[str, list[Any]]) -> str:
    """As CSV."""
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    return "\n".join(lines) + "\n"


def fast() -> Any:
    """A mechanism that takes milliseconds."""
    return op.Ide(choose="workload", updates=2)


def release_options(draw: random.Random) -> dict[str, Any]:
    """Options of a release that would be right."""
    return {
        "schema": Schema.from_toml(SCHEMA),
        "workload": op.all_marginals(draw.choice((1, 2))),
        "epsilon": 2.0,
        "delta": 1e-3,
        "mechanism": draw.choice((fast(), op.PublicProxy(), op.MwemPub(rounds=1))),
        "seed": draw.randrange(1000),
    }


@functools.cache
def _store() -> Path:
    """Everything that cases copy; gone when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="fuzz-stock-")
    _OPEN.append(folder)
    place = Path(folder.name)
    with contextlib.chdir(place):
        draw = random.Random(7)
        public, private = rows(draw, 30, private=False), rows(draw, 40, private=True)
        Path("public.csv").write_text(text(public))
        Path("private.csv").write_text(text(private))
        Path("schema.toml").write_text(SCHEMA)
        options = {"schema": Schema.load("schema.toml"), "epsilon": 2.0, "delta": 1e-3, "seed": 5}
        work = op.all_marginals(2)
        for folder_name, made_by in (("release", op.PmwPub(rounds=3)), ("other", fast())):
            op.release(
                "private.csv", "public.csv", mechanism=made_by, workload=work, out=folder_name, **options
            )
        Ledger("budget.sqlite").set_budget("private", **BUDGET)
        with stopping("measuring", 2, KeyboardInterrupt) as stop, contextlib.suppress(KeyboardInterrupt):
            op.release(
                "private.csv",
                "public.csv",
                mechanism=fast(),
                workload=work,
                ledger="budget.sqlite",
                out="out",
                progress=stop,
                **options,
            )
        assert Path("out.journal").exists() and not Path("out").exists()
    return place


_OPEN: list[tempfile.TemporaryDirectory[str]] = []


def resume_options() -> dict[str, Any]:
    """The options of the broken run."""
    return {
        "private": "private.csv",
        "public": "public.csv",
        "schema": Schema.from_toml(SCHEMA),
        "mechanism": fast(),
        "workload": op.all_marginals(2),
        "ledger": "budget.sqlite",
        "out": "out",
        "epsilon": 2.0,
        "delta": 1e-3,
        "seed": 5,
        "resume": True,
    }


def take(*names: str) -> None:
    """Copy things of the store into the working folder."""
    for name in names:
        source = _store() / name
        if source.is_dir():
            shutil.copytree(source, name)
        else:
            shutil.copyfile(source, name)


@functools.cache
def good_release() -> Any:
    """An opened release."""
    return op.open_release(_store() / "release")


@contextlib.contextmanager
def working_folder() -> Iterator[tuple[Path, Path]]:
    """An empty folder to work in, and one for temporary files; both are gone afterwards."""
    _store()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        work, temporary = Path(name, "work"), Path(name, "tmp")
        work.mkdir()
        temporary.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(temporary)
        variable = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = str(temporary)
        try:
            with contextlib.chdir(work):
                yield work, temporary
        finally:
            tempfile.tempdir = before
            if variable is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = variable
