"""Conditions on columns in a user's words: which codes `{"sex": "F", "age": ["[18, 30)", 45]}` allows.

A condition names a column, or a level of a hierarchy above one, and gives a label or several. Beside labels there may
be values: a number or a date stands for the bin or the value that it lies in, None for missing. Nothing is guessed: a
value outside the domain is refused, also where the schema would clip it or call it `other`.
"""

import datetime
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.errors import WorkloadError
from openprior.given import shown
from openprior.schema.base import Schema
from openprior.schema.bins import Binned, Integer
from openprior.schema.columns import Column
from openprior.schema.summary import reader_labels
from openprior.tables.lookup import Coder

__all__ = ["allowed_codes", "code_of", "known_name", "marked_codes", "wider_bins"]

Flags = npt.NDArray[np.bool_]

_FEW = 8
"""Labels that a message lists."""


def allowed_codes(where: object, schema: Schema) -> dict[str, Flags]:
    """For each column that conditions speak of, which of its codes they allow.

    >>> schema = Schema.from_sizes({"age": 4, "sex": 2})
    >>> {name: marked.tolist() for name, marked in allowed_codes({"age": [1, "3"]}, schema).items()}
    {'age': [False, True, False, True]}
    """
    if not isinstance(where, Mapping):
        raise WorkloadError(
            f"conditions cannot be {shown(where)}; give a mapping of columns to labels, such as "
            f"{{'{schema.names[0]}': '{_example(schema)}'}}"
        )
    if not where:
        raise WorkloadError("there are no conditions; name a column and the labels that it may have")
    allowed: dict[str, Flags] = {}
    for name, values in where.items():
        column, marked = marked_codes(name, values, schema)
        allowed[column] = allowed[column] & marked if column in allowed else marked
        if not allowed[column].any():
            raise WorkloadError(
                f"the conditions on '{column}' and the levels above it contradict each other; drop one"
            )
    return allowed


def marked_codes(name: object, values: object, schema: Schema) -> tuple[str, Flags]:
    """The column that one condition speaks of, and which of its codes it allows."""
    name = known_name(name, schema)
    chosen = _several(values)
    if not chosen:
        raise WorkloadError(f"the condition on '{name}' allows nothing; give at least one label")
    level = schema.levels.get(name)
    if level is None:
        column = schema[name]
        marked = np.zeros(column.size, np.bool_)
        marked[[code_of(column, value) for value in chosen]] = True
        return name, marked
    above = np.zeros(len(level.labels), np.bool_)
    for value in chosen:
        if str(value) not in level.labels:
            raise _unknown(f"level '{name}'", value, level.labels)
        above[level.labels.index(str(value))] = True
    return level.column, above[level.codes]


def wider_bins(where: Mapping[str, object], schema: Schema) -> list[str]:
    """In words, each bin that stands for a value in it and holds other values as well: rows of it have those, too.

    >>> schema = Schema.from_toml('[columns.age]\\nkind = "integer"\\nbins = [0, 18, 30]\\n')
    >>> wider_bins({"age": [20, "[0, 18)"]}, schema)
    ["20 of age by '[18, 30]'"]
    """
    said = []
    for name, values in where.items():
        column = None if name in schema.levels else schema[name]
        if isinstance(column, Binned):
            for value in _several(values):
                label = column.labels[code_of(column, value)]
                if value is not None and _code_of_label(column, str(value)) is None:
                    said.append(f"{value} of {name} by '{label}'")
    return said


def known_name(name: object, schema: Schema) -> str:
    """The name, if it is one of a column or of a level above one."""
    known = schema.full_domain.attributes
    if not isinstance(name, str) or name not in known:
        close = get_close_matches(name, known, 1) if isinstance(name, str) else []
        meant = f"did you mean '{close[0]}'? " if close else ""
        raise WorkloadError(
            f"there is no column {shown(name)}; {meant}there are {_listed(known, quote=False)}"
        )
    return name


def code_of(column: Column, value: Any) -> int:
    """The code of a label, or the one that a value lies in."""
    labels = column.labels
    spelled = _code_of_label(column, value) if isinstance(value, str) else None
    if spelled is not None:
        return spelled
    if value is None:
        if column.missing_code is None:
            raise WorkloadError(
                f"column '{column.name}' has no missing values; give one of {_listed(column.labels)}"
            )
        return column.missing_code
    code = _code_of_value(column, value)
    if code is None:
        raise _unknown(f"column '{column.name}'", value, labels)
    return code


def _code_of_label(column: Column, text: str) -> int | None:
    """The code whose label this is: as it stands, as a reader is shown it ("18 to 29"), or with other spaces."""
    bare = [label.replace(" ", "") for label in column.labels]
    for labels, own in ((column.labels, text), (reader_labels(column), text), (bare, text.replace(" ", ""))):
        if labels.count(own) == 1:
            return labels.index(own)
    return None


def _code_of_value(column: Column, value: Any) -> int | None:
    """Where a value lies among the declared ones; None if in none of them."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | numbers.Real | datetime.date | datetime.time) or not column.count:
        return None
    if isinstance(column, Integer) and isinstance(value, float) and not value.is_integer():
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    beyond = (
        column.out_of_domain if column.out_of_domain == "open" else "error"
    )  # an open end has such values
    strict = replace(column, missing=False, other=False, out_of_domain=beyond)
    try:
        code = int(Coder(strict)(pa.array([value]))[0])
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return code if code < strict.count else None


def _several(values: object) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | set | frozenset | range) else [values]


def _unknown(what: str, value: object, labels: Sequence[str]) -> WorkloadError:
    close = get_close_matches(str(value), labels, 1) if isinstance(value, str) else []
    meant = f"did you mean '{close[0]}'? " if close else ""
    return WorkloadError(f"{what} has no value {shown(value)}; {meant}it has {_listed(labels)}")


def _listed(words: Sequence[str], *, quote: bool = True) -> str:
    some = ", ".join(f"'{word}'" if quote else word for word in words[:_FEW])
    return some if len(words) <= _FEW else f"{some} and {len(words) - _FEW} more"


def _example(schema: Schema) -> str:
    return schema.columns[0].labels[0]
