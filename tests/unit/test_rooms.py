"""A package's docstring is its table of contents: it names files that exist, and where it lists them, all of them."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "openprior"
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
LISTED = {"schema", "tables", "questions", "counting", "spark", "guidance"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_docstring_of_a_package_names_files_that_exist(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert text, f"{room.name} has no docstring"
    for name in re.findall(r"\b(\w+\.py)\b", text):
        assert (room / name).is_file(), f"{room.name} has no {name}"
    listed = re.findall(r"^(\w+\.py) ", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    if listed or room.name in LISTED:
        assert set(listed) == {path.name for path in room.glob("*.py")} - {"__init__.py"}
