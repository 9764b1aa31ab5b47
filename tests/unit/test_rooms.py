"""The map of the package: names say one thing each, rooms list their files, and every door opens by itself."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import openprior as op

SOURCE = Path(__file__).parents[2] / "src" / "openprior"
ROOMS = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
LISTED = {
    "schema",
    "tables",
    "questions",
    "counting",
    "spark",
    "privacy",
    "releases",
    "guidance",
    "command_line",
}


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


def test_no_two_files_share_a_name() -> None:
    names = Counter(path.name for path in SOURCE.rglob("*.py"))
    assert {name for name, times in names.items() if times > 1} == {"__init__.py", "base.py"}


def test_no_public_name_is_that_of_a_package_or_module() -> None:
    beside = {path.stem for path in SOURCE.iterdir()}
    assert not beside & set(op.__all__)


EACH_ALONE = """
import gc, importlib, sys
import hypothesis, jinja2, numba, numpy, opendp.prelude, pyarrow.dataset, rich.progress, scipy.optimize, typer
gc.disable()
broken = []
for name in sys.argv[1:]:
    for ours in [module for module in sys.modules if module.partition(".")[0] == "openprior"]:
        del sys.modules[ours]
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(name, repr(error), file=sys.stderr)
        broken.append(name)
sys.exit(", ".join(broken) or 0)
"""


@pytest.mark.slow
def test_every_module_can_be_imported_by_its_own_path() -> None:
    """Each where no other module of ours is imported; other libraries are there already, to save time."""
    files = (path.relative_to(SOURCE.parent).with_suffix("") for path in SOURCE.rglob("*.py"))
    modules = sorted(".".join(f.parts).removesuffix(".__init__") for f in files)
    done = subprocess.run(
        [sys.executable, "-c", EACH_ALONE, *modules],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert len(modules) > 150
