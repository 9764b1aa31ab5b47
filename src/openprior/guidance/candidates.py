"""Public tables to choose from, in whatever way they are given: a list, a mapping of names, or a single one."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from openprior.errors import OptionError
from openprior.given import several
from openprior.tables.source import Source

__all__ = ["by_name", "candidate_tables"]


def candidate_tables(candidates: Any) -> list[Any]:
    """The tables, one by one."""
    if _is_table(candidates):
        return [candidates]
    tables = list(
        candidates.values() if isinstance(candidates, Mapping) else several("candidates", candidates)
    )
    if not tables:
        raise OptionError("there is no public table to choose from; give at least one")
    return tables


def by_name(candidates: Any, sources: Sequence[Source]) -> dict[str, Source]:
    """The opened tables by the names they were given, or by their own."""
    if isinstance(candidates, Mapping) and not _is_table(candidates):
        return dict(zip(map(str, candidates), sources, strict=True))
    names = [s.name for s in sources]
    return {
        name if names.count(name) == 1 else f"{name} {i + 1}": source
        for i, (name, source) in enumerate(zip(names, sources, strict=True))
    }


def _is_column(values: object) -> bool:
    """Whether these are the values of one column, and no table: the rows of a table have names."""
    if isinstance(values, list | tuple):
        return not (values and isinstance(values[0], Mapping))
    if isinstance(values, np.ndarray):
        return values.dtype.names is None
    return type(values).__name__ == "Series"


def _is_table(candidates: object) -> bool:
    """Whether it is one table and no list of them: a frame, a path that is no text, a dict of columns."""
    if isinstance(candidates, Mapping):
        return bool(candidates) and all(_is_column(values) for values in candidates.values())
    listed = isinstance(candidates, str | bytes | Mapping | Sequence | Set | Iterator)
    return not listed and candidates is not None and not isinstance(candidates, np.ndarray)
