"""Accidents at the command line: refused or warned of in one line, before anything is spent."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv as pacsv
import pytest

from openprior import Schema
from openprior.privacy.ledger import Ledger
from tests.conftest import SIZES, arrow, random_table
from tests.console import say

BUDGET = ("--epsilon", "1", "--delta", "1e-9")
FAST = ("--workload", "1", "-m", "mwem", "-O", "rounds=2", "-o", "out")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a private table, a public one, a schema and a ledger."""
    monkeypatch.chdir(tmp_path)
    for name, rows, seed in (("private", 200, 1), ("public", 300, 2)):
        ids = [1000 + 3 * i for i in range(rows)]
        pacsv.write_csv(arrow(random_table(SIZES, rows, seed), patient_id=ids), f"{name}.csv")
    Schema.from_sizes(SIZES).save("schema.toml")
    Ledger("budget.sqlite").set_budget("private", rho=1.0, epsilon=10.0, delta=1e-9)
    yield


def committed() -> float:
    return float(Ledger("budget.sqlite").datasets()[0].committed)


@pytest.mark.parametrize("schema", [(), ("--schema", "schema.toml")])
def test_the_private_table_as_the_public_one(schema: tuple[str, ...]) -> None:
    shutil.copy("private.csv", "copy.csv")
    for command in (("release", *FAST), ("screen",)):
        for public in ("private.csv", "copy.csv"):
            said = say(
                command[0], "private.csv", "--public", public, *BUDGET, *command[1:], *schema,
                "--ledger", "budget.sqlite",
            )  # fmt: skip
            assert said.code == 1 and said.out == ""
            assert said.err.startswith("error: the public table ") and "as the private one" in said.err
            assert len(said.err.splitlines()) == 1
            assert committed() == 0 and not Path("out").exists()


def test_an_option_given_twice() -> None:
    said = say("release", "private.csv", "--public", "public.csv", "--public", "private.csv", *BUDGET, *FAST)
    assert said.code == 2 and "--public is given 2 times" in said.err and "screen' tells which" in said.err
    said = say("release", "private.csv", *BUDGET, *BUDGET, *FAST)
    assert said.code == 2 and "--epsilon is given 2 times; give it once" in said.err
    said = say("ledger", "budget", "budget.sqlite", "private", *BUDGET, "--epsilon", "3")
    assert said.code == 2 and "--epsilon is given 2 times" in said.err
    said = say("release", "private.csv", "--public", "public.csv", *BUDGET, *FAST, "-O", "rounds=3")
    assert said.code == 1 and "option 'rounds' is given twice; give it once" in said.err
    assert not Path("out").exists()


def test_what_may_be_repeated_still_may() -> None:
    shutil.copy("public.csv", "other.csv")
    said = say(
        "screen", "private.csv", "--public", "public.csv", "--public", "other.csv", *BUDGET,
        "--schema", "schema.toml", "--json", "--json",
    )  # fmt: skip
    assert said.code == 0 and len(json.loads(said.out)["ranked"]) == 2


def test_identifiers_are_warned_of() -> None:
    said = say("schema", "draft", "public.csv", "-o", "draft.toml")
    warning = "warning: 'patient_id' looks like an identifier"
    assert said.code == 0 and said.err.startswith(warning) and said.err.count("looks like an identifier") == 1
    assert "patient_id" not in said.out
    assert "patient_id" not in Schema.load("draft.toml").names
    assert Path("draft.toml").read_text().startswith("# 'patient_id' looks like an identifier")
    taken = say("schema", "draft", "public.csv", "-o", "taken.toml", "--include", "patient_id", "--json")
    assert taken.err == "" and "patient_id" in json.loads(taken.out)["sizes"]
    said = say("release", "private.csv", "--public", "public.csv", *BUDGET, *FAST, "--json")
    assert said.code == 0 and said.err.startswith(warning) and said.err.count("looks like an identifier") == 1
    assert json.loads(said.out)["rows"] == 200


def test_a_large_epsilon_is_warned_of() -> None:
    said = say(
        "release", "private.csv", "--epsilon", "25", "--delta", "1e-9", "--schema", "schema.toml", *FAST
    )
    assert said.code == 0 and "Epsilon = 25 is above 20" in said.out
    assert said.err.startswith("warning: epsilon = 25 is above 20") and len(said.err.splitlines()) == 1
