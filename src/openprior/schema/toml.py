"""A small TOML writer, enough for a schema, whose output `tomllib` reads back exactly.

Python reads TOML but does not write it. Tables are written one key per line, long lists wrapped, so that a
person can edit the file.

>>> table(("columns", "age"), {"kind": "integer", "bins": [0, 18, 99]})
'[columns.age]\\nkind = "integer"\\nbins = [0, 18, 99]\\n'
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from datetime import date, time

__all__ = ["comment", "key", "table", "value"]

_WIDTH = 100
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def key(name: str) -> str:
    """A key, bare where TOML allows it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def value(item: object) -> str:
    """A string, boolean, number, date, time or list of them."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return _string(item)
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, date | time):
        return item.isoformat()
    if isinstance(item, list | tuple):
        return _list([value(i) for i in item])
    raise TypeError(f"TOML has no {type(item).__name__}")


def table(path: Iterable[str], entries: Mapping[str, object]) -> str:
    """The table at a path, `("a", "b")` for [a.b], with one key per line."""
    header = ".".join(key(name) for name in path)
    return "\n".join([f"[{header}]", *(f"{key(k)} = {value(v)}" for k, v in entries.items()), ""])


def comment(text: str) -> str:
    """A comment, in lines that can be read; control characters, which TOML forbids there, become blanks."""
    clean = re.sub(r"[\x00-\x1f\x7f]", " ", text)
    lines = textwrap.wrap(clean, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def _string(text: str) -> str:
    escaped = "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04X}" if c < " " or c == "\x7f" else c) for c in text)
    return f'"{escaped}"'


def _list(items: Iterable[str]) -> str:
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) > _WIDTH:
            lines.append(line)
            line = ""
        line += f"{item}, "
    lines.append(line)
    if len(lines) == 1:
        return f"[{lines[0].removesuffix(', ')}]"
    return "\n".join(["[", *(f"  {line.rstrip()}" for line in lines), "]"])
