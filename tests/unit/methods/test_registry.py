"""The list of mechanisms: a file dropped into `methods/` is on it everywhere; what it may import is a short list."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

import openprior as op
from openprior.methods.base import Mechanism, PublicTable, Sizes, mechanisms, register
from openprior.models.base import Model
from openprior.schema.layout import Layout
from openprior.tables.simulate import demo_surveys

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "openprior"

# A file dropped into the package.


def example() -> str:
    """The mechanism of the page about adding one."""
    page = (ROOT / "docs/add-a-mechanism.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert '@register("columns")' in block[1]
    return block[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its documentation with one more file."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE, root / "src" / "openprior")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", root)
    (root / "src" / "openprior" / "methods" / "columns.py").write_text(example(), encoding="utf-8")
    return root


def run(copy: Path, *words: str, folder: Path | None = None) -> str:
    """What a program says that sees the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder or copy, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(copy: Path, *words: str, folder: Path | None = None) -> str:
    return run(copy, "-m", "openprior.command_line.main", *words, folder=folder)


def test_it_is_a_mechanism(copy: Path) -> None:
    said = run(copy, "-c", "import openprior as op; print(op.__file__, *op.mechanisms())").split()
    assert Path(said[0]).is_relative_to(copy)
    assert set(said[1:]) == {*op.mechanisms(), "columns"}


def test_the_command_line_lists_and_runs_it(copy: Path, tmp_path: Path) -> None:
    listed = json.loads(command(copy, "mechanisms", "--json"))["columns"]
    assert listed["public_table"] == "needed"
    assert listed["needs_public"] is True
    assert set(listed["options"]) == {"measured", "choosing"}
    for name, table in zip(("public", "private"), demo_surveys(500, 500), strict=True):
        csv.write_csv(table, tmp_path / f"{name}.csv")
    release = ["release", "private.csv", "--public", "public.csv", "--epsilon", "1", "--delta", "1e-9"]
    more = ["--workload", "1", "-m", "columns", "-O", "measured=2", "--insecure-seed", "1", "-o", "out"]
    assert "by columns" in command(copy, *release, *more, folder=tmp_path)


def test_the_plan_has_it(copy: Path, tmp_path: Path) -> None:
    op.Schema.from_sizes({"a": 2, "b": 3}).save(tmp_path / "s.toml")
    words = [
        "plan",
        "s.toml",
        "--rows",
        "1000",
        "--workload",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
        "--json",
    ]
    for more, there in (([], False), (["--public-rows", "500"], True)):
        costs = json.loads(command(copy, *words, *more, folder=tmp_path))["costs"]
        assert ("columns" in {c["mechanism"] for c in costs}) == there


def test_the_documentation_has_it(copy: Path) -> None:
    assert "wrote README.md" in run(copy, "docs/build_api.py")
    row = "| `columns` | needed | a first look at single columns; says nothing about how they go together |"
    for page in ("README.md", "docs/methods.md"):
        assert row in (copy / page).read_text(encoding="utf-8").splitlines(), page
    assert "`-m columns`" in (copy / "docs/api.md").read_text(encoding="utf-8")


def test_the_contract_tests_are_its_tests_too(copy: Path) -> None:
    words = ["-m", "pytest", "tests/contract/test_methods.py", "--collect-only", "-k", "columns"]
    collected = run(copy, *words, "-p", "no:xdist", folder=ROOT)
    assert len(re.findall(r"^tests/contract/.*columns-Columns", collected, re.MULTILINE)) > 15


# What is refused.


@pytest.fixture
def registry() -> Iterator[dict[str, type[Mechanism]]]:
    """The list, as it was again after the test."""
    from openprior.methods.base import _REGISTRY

    before = dict(mechanisms())
    yield _REGISTRY
    _REGISTRY.clear()
    _REGISTRY.update(before)


def named(name: str) -> type[Mechanism]:
    class Other(Mechanism):
        """Another."""

        good_for = "nothing"
        public_table = PublicTable.NOT_USED

        def run(self, curator, public, workload, rng, progress) -> Model:  # type: ignore[no-untyped-def]
            raise NotImplementedError

    Other.__qualname__ = f"Other_{name}"
    return Other


def test_two_mechanisms_of_one_name_are_refused(registry: dict[str, type[Mechanism]]) -> None:
    first, second = named("first"), named("second")
    register("other")(first)
    with pytest.raises(
        TypeError, match=r"mechanism 'other' exists twice, as .*Other_first and as .*Other_second"
    ):
        register("other")(second)
    assert registry["other"] is first
    assert register("other")(named("first")) is registry["other"]  # the same file, loaded again
    with pytest.raises(
        TypeError, match=r"mechanism 'tilt' exists twice, as openprior\.methods\.tilt\.Tilt and as"
    ):
        register("tilt")(second)


def test_what_is_no_mechanism_is_refused(registry: dict[str, type[Mechanism]]) -> None:
    class Runs:
        """It has `run`, and nothing else."""

        name = "runs"

        def run(self, *args: object) -> None: ...

    with pytest.raises(TypeError, match="Runs is no mechanism"):
        register("runs")(Runs)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="is no mechanism"):
        register("abstract")(type("Abstract", (Mechanism,), {}))
    assert not {"runs", "abstract"} & set(registry)
    schema, table = op.Schema.from_sizes({"a": 2}), pa.table({"a": [0, 1, 1]})
    for wrong in (Runs(), op.Tilt):
        with pytest.raises(op.OpenPriorError, match="give an instance"):
            op.release(table, schema=schema, epsilon=1.0, delta=1e-9, mechanism=wrong)  # type: ignore[arg-type]
        with pytest.raises(op.OpenPriorError, match="is no mechanism; give an instance"):
            op.tune(table, schema=schema, epsilon=1.0, delta=1e-9, grid=[wrong])  # type: ignore[list-item]


def test_one_that_says_nothing_of_itself_is_refused(registry: dict[str, type[Mechanism]]) -> None:
    class Silent(Mechanism):
        """It does not say what it is good for."""

        public_table = PublicTable.NOT_USED

        def run(self, curator, public, workload, rng, progress) -> Model:  # type: ignore[no-untyped-def]
            raise NotImplementedError

    with pytest.raises(TypeError, match=r"mechanism 'silent' .*Silent\) does not say good_for"):
        register("silent")(Silent)
    assert "silent" not in registry


def test_one_without_an_outlay_of_its_own_gets_a_guess(registry: dict[str, type[Mechanism]]) -> None:
    schema = op.Schema.from_sizes({"a": 20, "b": 30})
    workload = op.all_marginals(2).on(schema.domain)
    few, many = (
        register("other")(named("first"))().outlay(Sizes(Layout(schema.domain), workload, 100, rows, 1.0))
        for rows in (0, 10**6)
    )
    assert few is not None and many is not None
    assert few.seconds == pytest.approx(1 + 600e-6)
    assert many.seconds == pytest.approx(2 + 600e-6)
    assert few.megabytes == many.megabytes == pytest.approx(0.03)


# What a mechanism may import.

ALLOWED = {
    "privacy": {
        "calibrate",
        "curator",
        "flat_scores",
        "measurement",
        "merged_counts",
        "merging",
        "regression",
        "residual_statistics",
        "scores",
        "signed_scores",
        "statistics",
        "together",
        "unit",
        "weighted_sums",
    },
    "tables": {"table"},
    "counting": {"cells", "cores", "engine", "local", "one_thread", "passes", "tally"},
}
"""Modules of these rooms that mechanisms and models may import; none of them opens a table, draws noise or pays."""


def imports(path: Path) -> Iterator[str]:
    """Modules of this package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            module = node.module or ""
            inside = SOURCE.parent.joinpath(*module.split("."))
            # `from openprior.privacy import noise` imports a module as well.
            yield from (f"{module}.{a.name}" for a in node.names) if inside.is_dir() else [module]
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ["methods", "models"])
def test_mechanisms_and_models_import_what_they_may(room: str) -> None:
    for path in sorted((SOURCE / room).rglob("*.py")):
        for module in imports(path):
            package, *inside = module.split(".")
            if package == "openprior" and inside and inside[0] in ALLOWED:
                assert ".".join(inside[1:]) in ALLOWED[inside[0]], (
                    f"{path.relative_to(SOURCE)} imports {module}"
                )
            assert module.split(".")[:2] not in (["openprior", "releases"], ["openprior", "spark"]), path


def test_the_import_linter_allows_no_more() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "forbidden"]
    assert {m for c in contracts for m in c["source_modules"]} == {"openprior.methods", "openprior.models"}
    for contract in contracts:
        assert contract["forbidden_modules"] == ["openprior.privacy", "openprior.tables"]
        for allowed in contract["ignore_imports"]:
            room, module = allowed.split(" -> ")[1].removeprefix("openprior.").split(".")
            assert module in ALLOWED[room]
