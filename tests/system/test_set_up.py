"""The Makefile sets up what a target needs, and adds to what is there: seen from what it would do (`make -n`)."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVERYTHING = ".[dev,spark,files,neural]"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what the set-up reads, and no .venv."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def planned(target: str, clone: Path) -> str:
    """The commands that make would run."""
    done = subprocess.run(
        ["make", "-n", target], cwd=clone, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


def made(clone: Path, *stamps: str) -> None:
    """A .venv in which these were installed, one after the other."""
    (clone / ".venv").mkdir(exist_ok=True)
    for stamp in stamps:
        (clone / ".venv" / stamp).touch()


def test_the_demo_installs_what_running_needs_and_nothing_else(clone: Path) -> None:
    plan = planned("demo", clone)
    assert "venv --clear" in plan
    assert " -e .\n" in plan
    assert EVERYTHING not in plan


def test_the_tests_set_up_everything_at_once(clone: Path) -> None:
    plan = planned("test", clone)
    assert plan.count("pip install") == 1
    assert EVERYTHING in plan


def test_the_tests_after_the_demo_add_and_rebuild_nothing(clone: Path) -> None:
    made(clone, ".made", ".runs")
    assert "pip install" not in planned("demo", clone)
    plan = planned("test", clone)
    assert "venv --clear" not in plan
    assert EVERYTHING in plan


def test_the_demo_after_the_tests_installs_nothing(clone: Path) -> None:
    made(clone, ".made", ".runs", ".installed")
    assert "pip install" not in planned("demo", clone)
    assert "pip install" not in planned("check", clone)
