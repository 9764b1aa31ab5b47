"""Queries in labels, and back: what people write, and the codes that are counted and certified.

A query says codes where it is charged for, because codes are all that a certificate and the curator know. Labels become
codes before a run begins, by the schema alone, and codes become labels where answers are shown.

>>> schema = Schema.from_toml('columns.sex = {kind = "categorical", values = ["F", "M"]}')
>>> in_codes('where(sex="M")', schema), conditions_text({"sex": ["F", "M"]})
('where(sex=1)', 'where(sex="F"|"M")')
"""

import datetime
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.given import several, shown
from openprior.questions.queries import Queries
from openprior.questions.query_text import is_quoted, query_parts, quoted, split_words, unclear, unquoted
from openprior.questions.quotes import in_quotes
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.columns import Labelled
from openprior.tables.conditions import code_of, marked_codes

__all__ = ["codes_for_values", "conditions_text", "in_codes", "in_labels", "query_texts"]

Flags = NDArray[np.bool_]

_CODES = r"\d{1,18}(-\d{1,18})?"


def query_texts(given: Any) -> Any:
    """Queries as a caller gives them (texts, or mappings of columns to labels, one or several) as texts."""
    if isinstance(given, str | Mapping):
        given = [given]
    return tuple(
        conditions_text(query) if isinstance(query, Mapping) else query for query in several("queries", given)
    )


def conditions_text(conditions: Mapping[Any, Any]) -> str:
    """One query that is a mapping of columns to a label or several, as text."""
    if not conditions:
        raise WorkloadError("a query without conditions counts all rows; name a column and its labels")
    words = []
    for name, values in conditions.items():
        if not isinstance(name, str):
            raise WorkloadError(f"a query with {shown(name)} for a column; name columns by their texts")
        chosen = values if isinstance(values, list | tuple | set | frozenset) else [values]
        if not chosen:
            raise WorkloadError(f"a query's condition on '{name}' allows nothing; give at least one label")
        words.append(f"{quoted(name)}={'|'.join(_label_text(name, value) for value in chosen)}")
    return f"where({', '.join(words)})"


def _label_text(name: str, value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    if not isinstance(value, str | numbers.Real):
        raise WorkloadError(
            f"a query's condition on '{name}' has {shown(value)}; give a label, such as 'missing', or a number"
        )
    return in_quotes(str(value))


def in_codes(text: str, schema: Schema) -> str:
    """The queries with codes for labels; as they are if they have none. Raises where the schema has no such label."""
    kind, words = query_parts(text)
    if kind == "where":
        return _where_in_codes(text, words, schema)
    if kind == "ranges" and any('"' in word for word in words[1:]):
        column = schema[unquoted(words[0])]
        ends = [[_end(text, end, column) for end in split_words(word, "-")] for word in words[1:]]
        if any(len(pair) > 2 for pair in ends):
            raise unclear(text)
        spans = ["-".join(map(str, pair)) for pair in ends]
        return f"ranges({', '.join([words[0], *spans])})"
    return text


def codes_for_values(text: str, schema: Schema) -> str | None:
    """A sentence about the first code that reads like a value of its column and is another; None if there is none.

    >>> schema = Schema.from_toml('columns.age = {kind = "integer", bins = [0, 18, 99]}')
    >>> print(codes_for_values("where(age=1)", schema))
    queries 'where(age=1)': 1 is the code of '[18, 99]' in column 'age'; if you mean the value, quote it: "1"
    """
    kind, words = query_parts(text)
    pairs = [tuple(split_words(word, "=")) for word in words] if kind == "where" else []
    if kind == "ranges":
        pairs = [(words[0], word) for word in words[1:]]
    for name, *values in pairs:
        column = schema[unquoted(name)] if unquoted(name) in schema.names else None
        is_number = isinstance(column, Binned) or (isinstance(column, Labelled) and column.is_numeric)
        if column is None or not is_number or not values:
            continue
        for piece in split_words(values[0], "|"):
            for code in piece.split("-") if re.fullmatch(_CODES, piece) else ():
                if int(code) < column.size and column.labels[int(code)] != code:
                    label = column.labels[int(code)]
                    return (
                        f"queries '{text}': {code} is the code of '{label}' in column '{column.name}'; if you mean the "
                        f'value, quote it: "{code}"'
                    )
    return None


def _where_in_codes(text: str, words: Sequence[str], schema: Schema) -> str:
    """Only what is no code changes, so that a text of codes stays what it was."""
    marked: dict[str, Flags] = {}
    spoken: dict[str, str] = {}
    for word in words:
        name, *values = split_words(word, "=")
        if len(values) != 1:
            raise unclear(text)
        pieces = split_words(values[0], "|")
        if all(re.fullmatch(_CODES, piece) for piece in pieces):
            column = unquoted(name)
            if column in spoken or column in marked:
                raise unclear(text)
            spoken[column] = word
            continue
        column, inside = _marked(text, unquoted(name), pieces, schema)
        if column in spoken:
            raise unclear(text)
        marked[column] = marked[column] & inside if column in marked else inside
    for column, inside in marked.items():
        if not inside.any():
            raise WorkloadError(f"queries '{text}': the conditions on '{column}' contradict each other")
        spoken[column] = f"{quoted(column)}={_runs(inside)}"
    return text if not marked else f"where({', '.join(spoken.values())})"


def _marked(text: str, name: str, pieces: Sequence[str], schema: Schema) -> tuple[str, Flags]:
    """The column, and the codes of its labels; codes and ranges may stand among them, but not for a level."""
    if name in schema.levels:
        return marked_codes(name, [unquoted(piece) for piece in pieces], schema)
    column = schema[name] if name in schema.names else None
    if column is None:
        return marked_codes(name, pieces, schema)  # which says what there is
    inside = np.zeros(column.size, np.bool_)
    for piece in pieces:
        ends = split_words(piece, "-")
        if re.fullmatch(_CODES, piece) or (len(ends) == 2 and all(map(is_quoted, ends))):
            low, high = (_end(text, end, column) for end in (ends[0], ends[-1]))
            if not low <= high < column.size:
                raise WorkloadError(
                    f"queries '{text}': {piece} is no range of '{name}'; put the first label first"
                )
            inside[low : high + 1] = True
        else:
            inside[code_of(column, unquoted(piece))] = True
    return name, inside


def _end(text: str, word: str, column: Any) -> int:
    """The code that one end of a range says."""
    if not word:
        raise unclear(text)
    return int(word) if re.fullmatch(r"\d{1,18}", word) else code_of(column, unquoted(word))


def _runs(inside: Flags) -> str:
    """Marked codes as text: 0-4|7."""
    return "|".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _spans(np.flatnonzero(inside))
    )


def _spans(codes: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Runs of neighbours among sorted numbers, by their ends."""
    cuts = np.flatnonzero(np.diff(codes) > 1)
    firsts, lasts = codes[[0, *(cuts + 1)]], codes[[*cuts, len(codes) - 1]]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def in_labels(queries: Queries, labels: Mapping[str, Sequence[str]], fixed: Mapping[str, int]) -> list[str]:
    """Every single query in labels, as `where(…)`; `fixed` has the codes of a part that they were asked in.

    Each of them is a set of codes per column, whatever it was written as.
    """
    sizes = [len(labels[a]) for a in queries.marginal]
    part = [f"{quoted(name)}={in_quotes(labels[name][code])}" for name, code in fixed.items()]
    texts = []
    for members in queries.members.reshape(-1, *sizes):
        words = list(part)
        for axis, name in enumerate(queries.marginal):
            others = tuple(i for i in range(len(sizes)) if i != axis)
            words.append(f"{quoted(name)}={_label_runs(members.any(axis=others), labels[name])}")
        texts.append(f"where({', '.join(words)})")
    return texts


def _label_runs(inside: Flags, labels: Sequence[str]) -> str:
    """Marked codes in labels; three neighbours or more by the first and the last."""
    words = []
    for first, last in _spans(np.flatnonzero(inside)):
        ends = [in_quotes(labels[code]) for code in (first, last)]
        words += ends[: last - first + 1] if last - first < 2 else ["-".join(ends)]
    return "|".join(words)
