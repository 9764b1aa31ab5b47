"""Queries: how tables and columns are named in SQL, and what in a query breaks the tie of its rows to single persons.

The promise is about the rows that a query gives. It protects people only if each row, and whether it is there, depends
on one person's data alone, which nobody can see from outside; words that often break it are named, so that somebody
looks.
"""

import re
from collections.abc import Sequence

__all__ = ["caution_about", "column_of", "quoted", "selected"]

_ROWS = '"rows"'

_ASIDE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_MIXING = re.compile(
    r"\b(group\s+by|having|distinct|limit|offset|fetch|over|qualify|join|union|intersect|except|tablesample|"
    r"using\s+sample|pivot|unpivot|unnest|lateral|exists|count|sum|avg|min|max|random)\b",
    re.IGNORECASE,
)


def quoted(name: str) -> str:
    """A name that SQL takes as it is.

    >>> print(quoted('an "odd" name'))
    "an ""odd"" name"
    """
    return '"' + name.replace('"', '""') + '"'


def column_of(name: str) -> str:
    """A column of a query's rows. SQLite would take a bare name that it does not find for a text."""
    return f"{_ROWS}.{quoted(name)}"


def selected(columns: Sequence[str], query: str) -> str:
    """These columns, each an expression, of a query's rows. The line break ends a comment at the end of the query."""
    return f"SELECT {', '.join(columns)} FROM ({query}\n) AS {_ROWS}"


def caution_about(query: str) -> str | None:
    """What to say of a query on a private table, if anything.

    >>> caution_about("SELECT age, 'limit' AS word FROM people") is None
    True
    """
    found = {" ".join(match.upper().split()) for match in _MIXING.findall(_ASIDE.sub(" ", query))}
    if not found:
        return None
    return (
        f"the query on the private table has {', '.join(sorted(found))}: what is promised is about the rows that it "
        "gives, and protects people only if each row, and whether it is there, depends on one person's data alone"
    )
