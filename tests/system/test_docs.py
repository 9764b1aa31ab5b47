"""The documentation is true: its Python runs, its commands exist, its tables are those of the code.

Python blocks of one page share a namespace of their own and run in an empty folder. TOML blocks that begin with a
comment `# name.toml` are written there first. The commands run as real programs in `test_tutorial.py`.
"""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import csv
from typer.testing import CliRunner

import openprior as op
from openprior.command_line.main import app
from openprior.methods import base
from openprior.schema.bins import Datetime
from openprior.schema.columns import Labelled
from openprior.schema.document import KINDS
from openprior.tables.simulate import demo_surveys
from tests.console import say
from tests.pages import FENCE, fenced

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(2)) + 1, match[2]) for match in fenced(text) if match[1] == language
    ]


def commands(page: Path) -> list[list[str]]:
    """Every `openprior ...` line of the shell blocks, and every inline one, as words."""
    text = page.read_text(encoding="utf-8")
    lines = [line for _, block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`(openprior [^`]+)`", FENCE.sub("", text))
    return [shlex.split(line, comments=True) for line in lines if line.startswith("openprior ")]


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    section = page.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.usefixtures("few_particles")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_the_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(base, "_REGISTRY", op.mechanisms())  # what a page registers is gone after it
    for _, block in blocks(page, "toml"):
        name = re.match(r"# (\S+\.toml)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block, encoding="utf-8")
    lines: list[str] = []
    for first, block in blocks(page, "python"):
        lines += [""] * (first - 1 - len(lines))  # so that errors have the page's line numbers
        lines += block.splitlines()
    exec(compile("\n".join(lines), page.name, "exec"), {"__name__": "__main__"})


def test_every_published_setting_is_a_call_that_works() -> None:
    calls = [row[1].strip("`") for row in rows(ROOT / "docs" / "methods.md", "## As published")]
    made = [eval(call, {"op": op}) for call in calls]
    assert len({type(mechanism) for mechanism in made}) >= 7
    assert all(isinstance(mechanism, base.Mechanism) for mechanism in made)
    assert len({(type(m), repr(m)) for m in made}) == len(made)


def test_the_example_mechanism_passes_the_contract() -> None:
    _, example = blocks(ROOT / "docs/add-a-mechanism.md", "python")[0]
    options = ["tests/contract/test_methods.py", "-k", "columns", "-p", "no:xdist"]
    program = f"exec({example!r})\nimport pytest\nraise SystemExit(pytest.main({options!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d{2} passed", done.stdout), done.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page):
        path = words[1:3] if words[1] in ("schema", "ledger") else words[1:2]
        shown = CliRunner().invoke(
            app, [*path, "--help"], env={"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1"}
        )
        assert shown.exit_code == 0, words
        for word in words[1:]:
            if word.startswith("-"):
                assert re.search(rf"(^|[\s,]){re.escape(word.split('=')[0])}[\s,]", shown.output), (
                    words,
                    word,
                )


@pytest.mark.usefixtures("few_particles")
def test_the_readme_commands_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in zip(("public.csv", "private.csv"), demo_surveys(1_000, 1_000), strict=True):
        csv.write_csv(table, name)
    example = next(b for _, b in blocks(README, "sh") if "openprior release" in b)
    said = ""
    for line in example.splitlines():
        words = shlex.split(line)
        assert words[0] == "openprior"
        ended = say(*words[1:])
        assert ended.code == 0, ended
        said += ended.out
    assert "Differentially private with ε = 1 and δ = 1e-09" in said
    assert "NOT PRIVATE" in said
    assert "private: ε = 2" in said  # the ledger names the dataset after its file
    assert (tmp_path / "release.estimate" / "estimate.json").is_file()
    assert (tmp_path / "release.evaluation" / "report.html").is_file()
    listed = {
        name.rstrip("/") for row in rows(README, "## What a release contains") for name in _code(row[0])
    }
    assert listed == {p.name for p in (tmp_path / "release").iterdir()}


def test_the_table_of_methods_is_that_of_the_code() -> None:
    table = {_code(name)[0]: (public, good_for) for name, public, good_for in rows(README, "## Methods")}
    assert table == {name: (cls.public_table, cls.good_for) for name, cls in op.mechanisms().items()}
    assert len(README.read_text(encoding="utf-8").splitlines()) - len(table) <= 140


@pytest.mark.parametrize("name", op.mechanisms())
def test_the_options_of_each_method_are_those_of_the_code(name: str) -> None:
    fields = dataclasses.fields(op.mechanisms()[name])
    written = [
        (_code(cells[0])[0], _code(cells[1])[0]) for cells in rows(ROOT / "docs/methods.md", f"## `{name}`")
    ]
    assert written == [(f.name, str(f.default)) for f in fields]


def test_the_schema_page_has_every_kind_and_every_key() -> None:
    page = ROOT / "docs/schema.md"
    (_, text), (_, how) = blocks(page, "toml")
    schema = op.Schema.from_toml(text)
    reading = op.Schema.from_toml(f'{how}\n[columns.a]\nkind = "boolean"\n').reading
    assert set(reading.entries()) == {f.name for f in dataclasses.fields(op.Reading)}
    assert {c.kind for c in schema.columns} == set(KINDS)
    assert {c.out_of_domain for c in schema.columns} == {"error", "other", "clip", "open"}
    assert any(c.missing for c in schema.columns)
    assert schema.person_id is not None
    assert schema.max_rows_per_person > 1
    assert any(h.prefix for h in schema.hierarchies)
    assert any(h.map for h in schema.hierarchies)
    table = {
        key: (kinds, default)
        for cells in rows(page, "## What the keys mean")
        for key, kinds, default in _keys(cells)
    }
    known = {f.name for cls in KINDS.values() for f in dataclasses.fields(cls)} - {"name"}
    assert set(table) == known | {"kind"}
    for key in known:
        having = {kind for kind, cls in KINDS.items() if key in {f.name for f in dataclasses.fields(cls)}}
        assert table[key][0] == (
            "all" if having == set(KINDS) else ", ".join(k for k in KINDS if k in having)
        )
    for kind in KINDS.values():
        default = next(f.default for f in dataclasses.fields(kind) if f.name == "dtype")
        assert default in _code(table["dtype"][1])
    assert issubclass(KINDS["boolean"], Labelled)
    assert KINDS["datetime"] is Datetime


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_nothing_of_this_machine_is_in_the_documentation() -> None:
    for page in [*PAGES, *(ROOT / "examples").rglob("*.toml")]:
        text = page.read_text(encoding="utf-8")
        assert os.fspath(ROOT) not in text, page.name
        assert not re.search(r"(^|[\s`\"(])/(work|home|root|tmp|Users)/", text), page.name


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _keys(cells: list[str]) -> list[tuple[str, str, str]]:
    names, kinds, _, default = cells
    return [(name, kinds, default) for name in _code(names)]
