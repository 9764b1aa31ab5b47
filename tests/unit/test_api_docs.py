"""The API reference is what the docstrings say now, and there is a docstring for every public name."""

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import openprior as op

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_api", DOCS / "build_api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_not_stale(build: ModuleType) -> None:
    pages = build.pages()
    assert {path.name for path in pages} == {"api.md", "README.md", "methods.md"}
    for path, text in pages.items():
        assert text == path.read_text(encoding="utf-8"), "run `make docs`"
    assert pages == build.pages()


def test_every_public_name_and_command_is_there(build: ModuleType) -> None:
    headings = re.findall(r"^### `(.+)`$", build.page(), re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert {f"op.{name}" for name in op.__all__} <= set(headings)
    assert {path for path, _ in build.commands()} <= set(headings)
    returned = {"Evaluation", "ErrorEstimate", "Quality", "GroupErrors", "Plan", "Screening", "Tuning"}
    assert returned | {"View", "Measurements", "Model", "Setting", "Screened"} <= set(headings)


@pytest.mark.parametrize("name", op.__all__)
def test_every_public_name_has_a_docstring(name: str, build: ModuleType) -> None:
    thing = getattr(op, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        for method in build.methods(build.node_of(thing)):
            assert inspect.getdoc(getattr(thing, method.name)), f"{name}.{method.name}"


def test_what_is_returned_has_docstrings(build: ModuleType) -> None:
    for cls in build.returned():
        assert cls.__doc__, cls
        for method in build.methods(build.node_of(cls)):
            assert inspect.getdoc(getattr(cls, method.name)), f"{cls.__name__}.{method.name}"


def test_every_option_of_every_command_has_help(build: ModuleType) -> None:
    for path, command in build.commands():
        assert command.help, path
        assert (command.epilog or "").startswith(f"Example: {path}"), path
        for parameter in command.params:
            assert parameter.help, f"{path} {parameter.name}"


def test_links_to_headings_lead_somewhere() -> None:
    for page in [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]:
        for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            assert heading in _slugs(text), f"{page.name}: {target}#{heading}"


def _slugs(text: str) -> set[str]:
    """The names that Markdown gives to headings."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", outside, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(
            slug if slug not in found else next(s for i in range(1, 99) if (s := f"{slug}-{i}") not in found)
        )
    return found
