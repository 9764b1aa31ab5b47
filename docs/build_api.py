"""Write docs/api.md from the docstrings: every public name of openprior, and every command; and the table of methods
into the README and docs/methods.md. Run by `make docs`.

Signatures, docstrings and the notes below attributes are read from the source, so that nothing has to be said twice.
`tests/unit/test_api_docs.py` compares the pages with what this script makes of the source now.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import typing
from functools import lru_cache
from pathlib import Path
from typing import Any

import openprior as op

PAGE = Path(__file__).with_name("api.md")
TABLES = (PAGE.parents[1] / "README.md", PAGE.with_name("methods.md"))
"""Pages with the table of methods, between two comments."""
BEGIN, END = "<!-- methods, written by make docs -->", "<!-- end of methods -->"
GROUPS = {
    "Releasing": ("release", "open_release", "Release", "Certificate", "Progress"),
    "A prior that is kept": ("fit_prior", "open_prior", "PublicPrior"),
    "What the columns are": ("Schema", "Reading"),
    "What should be right": ("Workload", "all_marginals", "random_marginals", "target_marginals"),
    "Analyses of replicates": ("combine", "Combined"),
    "Before the budget is spent": (
        "plan",
        "screen",
        "tune",
        "choose_public",
        "divergences",
        "best_mixture_error",
    ),
    "How good a release is": ("evaluate", "evaluate_quality", "evaluate_groups", "compare", "estimate_error"),
    "Whether a mechanism keeps its promise": ("audit",),
    "Errors": ("OpenPriorError",),
}
HEAD = """# API reference

Made from the docstrings by `make docs`; edit those, not this page. In Python every name below is an attribute of
`openprior`, here imported as `op`. [The tutorial](tutorial.md) shows how they go together, [the schema](schema.md) and
[the methods](methods.md) have pages of their own.

A `WorkloadLike` is a workload or a plan of one, a number (2: all 2-way marginals), a list of marginals, a mapping of
these to weights, or a text as on the command line. A `MechanismLike` is a mechanism, or a text such as
`"tilt:rounds=12"`.
"""


# Source.


@lru_cache
def module_of(name: str) -> ast.Module:
    """A module's source as a tree."""
    return ast.parse(inspect.getsource(importlib.import_module(name)))


@lru_cache
def imports_of(name: str) -> dict[str, tuple[str, str]]:
    """What a module imports from this package, those for type checking only included: name to module and name."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(module_of(name))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openprior")
        for alias in node.names
    }


def node_of(thing: Any) -> Any:
    """The definition of a class or function."""
    for node in module_of(thing.__module__).body:
        if getattr(node, "name", None) == thing.__name__:
            return node
    raise LookupError(thing)


class _Unquoted(ast.NodeTransformer):
    """Annotations in quotes, without the quotes."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def written(annotation: ast.expr | None) -> str:
    """An annotation as text."""
    if annotation is None:
        return ""
    copy = ast.parse(ast.unparse(annotation), mode="eval").body
    return ast.unparse(_Unquoted().visit(copy))


def signature(name: str, node: ast.FunctionDef, *, method: bool = False) -> str:
    """A call as one would write it, on several lines if it is long."""
    args = node.args
    shown = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*([None] * (len(shown) - len(args.defaults))), *args.defaults]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    if method and not static:
        shown, defaults = shown[1:], defaults[1:]
    parts = [_parameter(a, d) for a, d in zip(shown, defaults, strict=True)]
    if args.vararg:
        parts.append("*" + _parameter(args.vararg, None))
    elif args.kwonlyargs:
        parts.append("*")
    parts += [_parameter(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        parts.append("**" + _parameter(args.kwarg, None))
    back = f" -> {written(node.returns)}" if node.returns is not None else ""
    line = f"{name}({', '.join(parts)}){back}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {p},\n" for p in parts) + f"){back}"


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    kind = written(arg.annotation)
    text = f"{arg.arg}: {kind}" if kind else arg.arg
    return text if default is None else f"{text}{' = ' if kind else '='}{ast.unparse(default)}"


def attributes(cls: type[Any]) -> list[tuple[str, str, str]]:
    """Public attributes with annotation and the note below them, from the class body or from `__init__`."""
    body: list[ast.stmt] = node_of(cls).body
    found = _noted(body, lambda n: n.target.id if isinstance(n.target, ast.Name) else "")
    for node in [] if found else _named(node_of(cls), "__init__"):
        kinds = {a.arg: written(a.annotation) for a in [*node.args.args, *node.args.kwonlyargs]}
        found = [(name, kinds.get(name, ""), note) for name, _, note in _assigned(node.body)]
    return [row for row in found if not row[0].startswith("_")]


def _noted(body: list[ast.stmt], name_of: Any) -> list[tuple[str, str, str]]:
    found = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in written(node.annotation):
            found.append((name_of(node), written(node.annotation), _note(after)))
    return found


def _assigned(body: list[ast.stmt]) -> list[tuple[str, str, str]]:
    found = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            found.append((target.attr, "", _note(after)))
    return found


def _note(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return " ".join(str(node.value.value).split()) if is_text else ""  # type: ignore[union-attr]


def reached(thing: Any) -> list[type[Any]]:
    """Classes of this package in what a function returns, or in a class's attributes and what its methods return."""
    node = node_of(thing)
    if isinstance(node, ast.FunctionDef):
        texts = [written(node.returns)]
    else:
        texts = [kind for _, kind, _ in attributes(thing)]
        texts += [written(n.returns) for n in [*methods(node), *_named(node, "__iter__")]]
    names = [name for text in texts for name in re.findall(r"[A-Z]\w+", text)]
    return [cls for name in names if (cls := _class(thing.__module__, name)) is not None]


def _class(module: str, name: str) -> type[Any] | None:
    home, original = imports_of(module).get(name, (module, name))
    found = getattr(importlib.import_module(home), original, None)
    is_ours = inspect.isclass(found) and found.__module__.startswith("openprior")
    return found if is_ours and not issubclass(found, Exception) else None


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Public methods and properties."""
    return [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]


def _named(node: ast.ClassDef, name: str) -> list[ast.FunctionDef]:
    return [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == name]


# Markdown.


def prose(text: str) -> str:
    """A docstring: paragraphs as they are, aligned lists and examples as they were typed."""
    made = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        typed = re.search(r"^\s*(>>>|[├└│])|\S {3,}\S", paragraph, re.MULTILINE)
        made.append(f"```text\n{paragraph}\n```" if typed else _escaped(paragraph))
    return "\n\n".join(made)


def _escaped(text: str) -> str:
    """What Markdown would take for its own, outside code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<])", r"\\\1", p) for p in parts)


def table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table; empty if it has no rows."""
    if not rows:
        return ""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


def code(text: Any) -> str:
    """As code, unless there is nothing."""
    return f"`{text}`" if str(text) else ""


def of_function(name: str) -> str:
    """A function of the package."""
    thing = getattr(op, name)
    call = f"```text\n{signature(f'op.{name}', node_of(thing))}\n```"
    return "\n\n".join([f"### `op.{name}`", call, prose(thing.__doc__)])


def of_class(cls: type[Any], title: str) -> str:
    """A class: its docstring, attributes, properties and methods."""
    node = node_of(cls)
    parts = [f"### `{title}`", prose(cls.__doc__ or "")]
    if not title.startswith("op."):
        parts.insert(1, f"`{cls.__module__}.{cls.__name__}`")
    for made in _named(node, "__init__") if dataclasses.is_dataclass(cls) else []:
        parts.append(f"```text\n{signature(title, made, method=True).removesuffix(' -> None')}\n```")
    rows = [(code(name), code(kind), _escaped(note)) for name, kind, note in attributes(cls)]
    rows += [(code(n.name), code(written(n.returns)), _first(n)) for n in methods(node) if _is_property(n)]
    parts.append(table(("attribute", "type", "meaning"), rows))
    calls = [
        (code(_one_line(signature(n.name, n, method=True))), _first(n))
        for n in methods(node)
        if not _is_property(n)
    ]
    parts.append(table(("method", "meaning"), calls))
    return "\n\n".join(p for p in parts if p)


def _is_property(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in node.decorator_list
    )


def _one_line(call: str) -> str:
    return " ".join(call.split()).replace("( ", "(").replace(", )", ")")


def _first(node: ast.FunctionDef) -> str:
    return " ".join(_escaped(ast.get_docstring(node) or "").split("\n\n")[0].split())


def of_mechanism(name: str, cls: type[Any]) -> str:
    """A mechanism: its options."""
    rows = [
        (code(f.name), code(inspect.formatannotation(f.type)), code(f.default), _escaped(f.metadata["doc"]))
        for f in dataclasses.fields(cls)
    ]
    title = f"op.{cls.__name__}" if cls.__name__ in op.__all__ else f"{cls.__module__}.{cls.__name__}"
    parts = [f"### `{title}`", f"`-m {name}`: {_escaped(cls.good_for)}.", prose(cls.__doc__ or "")]
    parts.append(table(("option", "type", "default", "meaning"), rows) or "It has no options.")
    return "\n\n".join(parts)


def of_command(path: str, command: Any) -> str:
    """A command: its arguments and options."""
    kinds = typing.get_type_hints(command.callback)
    signed = inspect.signature(command.callback).parameters
    rows = []
    for p in command.params:
        default = signed[p.name].default
        is_argument = p.opts == [p.name]
        shown = p.name.upper() if is_argument else ", ".join(sorted(p.opts, key=len))
        has_default = not any(default is nothing for nothing in (inspect.Parameter.empty, None, False))
        rows.append(
            (code(shown), _kind(kinds[p.name]), "required" if p.required else code(default) if has_default else "",
             _escaped(p.help or ""))
        )  # fmt: skip
    example = (command.epilog or "").removeprefix("Example: ")
    parts = [f"### `{path}`", _escaped(command.help or "")]
    parts += [
        f"```sh\n{example}\n```" if example else "",
        table(("option", "value", "default", "meaning"), rows),
    ]
    return "\n\n".join(p for p in parts if p)


def _kind(annotation: Any) -> str:
    """What a value on the command line is, in words."""
    names = {bool: "", int: "whole number", float: "number", str: "text", Path: "path"}
    if annotation in names:
        return names[annotation]
    inner = [a for a in typing.get_args(annotation) if a is not type(None)]
    return _kind(inner[0]) if inner else str(annotation)


def commands() -> list[tuple[str, Any]]:
    """Every command with its path, groups opened."""
    from typer.main import get_command

    from openprior.command_line.main import app

    def walk(path: str, command: Any) -> list[tuple[str, Any]]:
        inside = getattr(command, "commands", None)
        if inside is None:
            return [(path, command)]
        return [found for name in sorted(inside) for found in walk(f"{path} {name}", inside[name])]

    return walk("openprior", get_command(app))


def returned() -> list[type[Any]]:
    """Classes that are reached from the public names and are none of them, by name."""
    known = [getattr(op, name) for name in op.__all__]
    kinds = set(op.mechanisms().values())
    waiting = [t for t in known if t not in kinds and t is not op.OpenPriorError]
    found: dict[str, type[Any]] = {}
    while waiting:
        for cls in reached(waiting.pop(0)):
            if cls not in known and cls.__name__ not in found:
                found[cls.__name__] = cls
                waiting.append(cls)
    return [found[name] for name in sorted(found)]


def page() -> str:
    """The whole page."""
    kinds = {cls.__name__: (name, cls) for name, cls in op.mechanisms().items()}
    listed = {name for names in GROUPS.values() for name in names} | set(kinds) | {"mechanisms"}
    missing = sorted(set(op.__all__) - listed)
    if missing:
        raise SystemExit(f"docs/build_api.py has no group for {', '.join(missing)}; add them to GROUPS")
    sections = [HEAD.rstrip()]
    for title, names in GROUPS.items():
        sections.append(f"## {title}")
        for name in names:
            thing = getattr(op, name)
            sections.append(of_class(thing, f"op.{name}") if inspect.isclass(thing) else of_function(name))
        if title == "Errors":
            sections.append(prose(_tree()))
    sections += ["## Mechanisms", of_function("mechanisms")]
    sections += [of_mechanism(*kinds[name]) for name in sorted(kinds)]
    sections.append("## What the functions return")
    sections += [of_class(cls, cls.__name__) for cls in returned()]
    sections += [
        "## Commands",
        "Every command has `--help`. Exit codes: 0 done, 1 an error in one line, 2 wrong usage.",
    ]
    sections += [of_command(path, command) for path, command in commands()]
    return "\n\n".join(sections) + "\n"


def with_table(text: str) -> str:
    """A page with today's table of methods between its comments."""
    rows = [(code(name), str(m.public_table), m.good_for) for name, m in op.mechanisms().items()]
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(('name', 'public table', 'good for'), rows)}\n\n{END}{after}"


def pages() -> dict[Path, str]:
    """Every page that is written here, with its text."""
    return {PAGE: page(), **{path: with_table(path.read_text(encoding="utf-8")) for path in TABLES}}


def _tree() -> str:
    """The exceptions, as drawn in their module's docstring."""
    from openprior import errors

    lines = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    return textwrap.dedent(lines[1])


if __name__ == "__main__":
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.name}: {text.count(chr(10))} lines\n")
