"""0/1 linear queries over one marginal: ranges, prefixes, predicates; each query is a set of the marginal's cells.

They are written as text, so that the command line, a certificate and Python say them alike; values are codes, counted
from 0 in the schema's order (labels become codes in `query_labels.py`, by the schema):

>>> domain = Domain({"age": 4, "sex": 2})
>>> Queries.parse("prefixes(age)", domain).members.astype(int).tolist()
[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
>>> queries = Queries.parse("ranges(age, 0-1, 1-3)", domain)
>>> queries.members.astype(int).tolist(), queries.overlap
([[1, 1, 0, 0], [0, 1, 1, 1]], 2)
>>> where = Queries.parse("where(age=2-3, sex=1)", domain)
>>> where.marginal, where.members.astype(int).tolist()
(('age', 'sex'), [[0, 0, 0, 0, 0, 1, 0, 1]])
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.questions.frozen import frozen
from openprior.questions.query_text import is_quoted, query_parts, split_words, unclear, unquoted
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain

__all__ = ["Queries"]

_MOST = 1 << 26
"""Entries of a query matrix; as booleans that is 64 MB."""


@dataclass(frozen=True, eq=False)
class Queries:
    """A 0/1 matrix over the cells of a marginal, one row per query."""

    text: str
    marginal: Marginal
    members: NDArray[np.bool_]
    """[queries, cells]"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozen(self.members))
        # Numbers would be taken for positions or weights, and one row would count more than it is charged for.
        if self.members.dtype != np.bool_ or self.members.ndim != 2 or not self.members.any():
            raise WorkloadError(
                f"queries '{self.text}' need a table of true and false, one row per query, some true"
            )

    @property
    def overlap(self) -> int:
        """‖W‖₁: the most queries that one cell, and so one row of the table, is part of."""
        return int(self.members.sum(axis=0).max())

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answers for exact counts of the marginal."""
        return np.array([counts[inside].sum() for inside in self.members], dtype=np.int64)

    def disjoint(self) -> Iterator[NDArray[np.intp]]:
        """The queries in groups of disjoint ones (‖Ws‖₁ = 1), each greedily as large as it gets."""
        left = list(range(len(self.members)))
        while left:
            taken = np.zeros(self.members.shape[1], np.bool_)
            group = []
            for q in left:
                if not (taken & self.members[q]).any():
                    group.append(q)
                    taken |= self.members[q]
            left = [q for q in left if q not in group]
            yield np.array(group, dtype=np.intp)

    @staticmethod
    def parse(text: str, domain: Domain) -> "Queries":
        """From text: marginal(a, b), prefixes(a), ranges(a, 0-4, 5-9) or where(a=0-4, b=1)."""
        kind, words = query_parts(text)
        first = unquoted(words[0])
        if kind == "marginal":
            key = canonical([unquoted(word) for word in words], domain)
            _room(text, domain.size(key), domain.size(key))
            return Queries(text, key, np.eye(domain.size(key), dtype=np.bool_))
        if kind == "prefixes" and len(words) == 1:
            size = domain[first]
            _room(text, size, size)
            # The prefix of all values is the number of rows, which is known or measured otherwise.
            inside = np.tri(size, dtype=np.bool_)[: max(size - 1, 1)]
            return Queries(text, (first,), inside)
        if kind == "ranges" and len(words) > 1:
            size = domain[first]
            _room(text, len(words) - 1, size)
            return Queries(text, (first,), np.stack([_codes(text, w, size) for w in words[1:]]))
        if kind == "where":
            return _where(text, words, domain)
        raise unclear(text)


def _where(text: str, words: list[str], domain: Domain) -> Queries:
    conditions: dict[str, NDArray[np.bool_]] = {}
    for word in words:
        written, *codes = split_words(word, "=")
        name = unquoted(written)
        if len(codes) != 1 or name in conditions:
            raise unclear(text)
        inside = np.zeros(domain[name], np.bool_)
        for piece in split_words(codes[0], "|"):
            inside |= _codes(text, piece, domain[name])
        conditions[name] = inside
    key = canonical(conditions, domain)
    _room(text, 1, domain.size(key))
    cells = np.ones(1, np.bool_)
    for name in key:
        cells = np.logical_and.outer(cells, conditions[name]).ravel()
    return Queries(text, key, cells[None])


def _codes(text: str, word: str, size: int) -> NDArray[np.bool_]:
    if any(map(is_quoted, split_words(word, "-"))):
        raise WorkloadError(
            f"queries '{text}' have the label {word}, and only a schema knows labels; give codes from 0 to {size - 1}"
        )
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", word.strip())
    if not match:
        raise unclear(text)
    low = int(match[1])
    high = low if match[2] is None else int(match[2])
    if not low <= high < size:
        raise WorkloadError(f"queries '{text}': {word} is outside the codes 0-{size - 1}")
    inside = np.zeros(size, np.bool_)
    inside[low : high + 1] = True
    return inside


def _room(text: str, queries: int, cells: int) -> None:
    if queries * cells > _MOST:
        raise WorkloadError(
            f"queries '{text}' are {queries:,} over {cells:,} cells, too many; use coarser bins"
        )
