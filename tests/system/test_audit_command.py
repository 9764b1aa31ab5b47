"""`openprior audit`: what it prints, its JSON, its exit code, and mechanisms from a file."""

import json
import re
from pathlib import Path

import pytest

from openprior.methods import base
from tests.console import say

EXAMPLE = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "add-a-mechanism.md").read_text(encoding="utf-8"),
    re.DOTALL,
)[0]
LEAK = "        total = known_total(curator)\n"
FEW = ("--runs", "1", "--neighbours", "1")


@pytest.fixture(autouse=True)
def own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file registers is forgotten afterwards."""
    base.mechanisms()  # fills the list
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))


def test_a_mechanism_by_name_with_options() -> None:
    said = say("audit", "mwem:rounds=2", "public", "--relation", "replace-one", *FEW)
    assert said.code == 0, said
    assert "mwem" in said.out
    assert "rounds=2" in said.out
    assert "no promise was broken: 12 runs" in said.out
    assert "VIOLATION" not in said.out


def test_json() -> None:
    said = say("audit", "ide", "--json", "--seed", "5", *FEW)
    assert said.code == 0
    found = json.loads(said.out)
    assert found["ok"] is True
    assert {(r["delta"], r["relation"], r["rows_per_person"]) for r in found["rows"]} == {
        (d, r, n) for d in ("0", ">0") for r in ("replace-one", "add-remove") for n in (1, 2, 3)
    }
    assert all(r["movement"] <= 1 + 1e-9 and r["cost"] <= 1 + 1e-9 for r in found["rows"])


def test_a_mechanism_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "audited_columns.py"
    file.write_text(EXAMPLE, encoding="utf-8")
    for named in (str(file), f"{file}:Columns"):
        said = say("audit", named, *FEW)
        assert said.code == 0, said
        assert "columns" in said.out


def test_a_mechanism_that_leaks_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "leaky_columns.py"
    assert LEAK in EXAMPLE
    leaky = EXAMPLE.replace(LEAK, "        total = float(curator._Curator__vault.rows)\n")
    file.write_text(leaky.replace('@register("columns")', '@register("leaky")'), encoding="utf-8")
    said = say("audit", str(file), *FEW)
    assert said.code == 1
    assert "VIOLATION" in said.out
    assert "looked at the number of rows outside any charged event" in said.out
    assert "NOT PRIVATE as promised" in said.out
    said = say("audit", str(file), "--json", *FEW)
    assert said.code == 1
    assert json.loads(said.out)["ok"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing.py", "there is no file nothing.py"),
        ("nonsense", "mechanism 'nonsense' is unknown"),
        ("{empty}", "defines no mechanism"),
        ("{empty}:Aim", "defines no mechanism Aim"),
        ("{broken}", "cannot be run: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_audited_is_said_in_a_line(text: str, words: str, tmp_path: Path) -> None:
    empty, broken = tmp_path / "empty_file.py", tmp_path / "broken_file.py"
    empty.write_text("from openprior import Aim\n", encoding="utf-8")
    broken.write_text("1 / 0\n", encoding="utf-8")
    said = say("audit", text.format(empty=empty, broken=broken))
    assert said.code == 1
    assert words in said.err
    assert said.err.count("\n") == 1
