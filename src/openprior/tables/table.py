"""A table of integer codes, one array per attribute: what every layer above the data works on.

Columns are stored apart and in the smallest unsigned type, because counting reads a few columns at a time
and is bound by memory.

>>> table = Table(Domain({"a": 2, "b": 3}), (np.array([0, 1, 0]), np.array([2, 0, 2])))
>>> distinct, counts = table.unique()
>>> [column.tolist() for column in distinct.columns], counts.tolist()
([[0, 1], [2, 0]], [2, 1])
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openprior.errors import EncodeError
from openprior.schema.domain import Domain

__all__ = ["Table", "content_of", "dtype_for", "join"]


def dtype_for(size: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds the codes 0..size-1."""
    for candidate in (np.uint8, np.uint16, np.uint32):
        if size - 1 <= np.iinfo(candidate).max:
            return np.dtype(candidate)
    return np.dtype(np.uint64)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Codes by column; every code lies in the domain."""

    domain: Domain
    columns: tuple[npt.NDArray[Any], ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain):
            raise EncodeError(f"{len(self.columns)} columns for {len(self.domain)} attributes; give one each")
        fitted = []
        for name, column in zip(self.domain, self.columns, strict=True):
            codes = np.asarray(column)
            if codes.ndim != 1 or codes.shape != np.shape(self.columns[0]) or codes.dtype.kind not in "iu":
                raise EncodeError(f"column '{name}' is not a list of integer codes as long as the others")
            if codes.size and (codes.max() >= self.domain[name] or codes.min() < 0):
                raise EncodeError(
                    f"column '{name}' has codes outside 0..{self.domain[name] - 1}; encode it again"
                )
            fitted.append(np.ascontiguousarray(codes, dtype_for(self.domain[name])))
        object.__setattr__(self, "columns", tuple(fitted))

    def __repr__(self) -> str:
        # No rows and no count: the table may be private, and reprs end up in logs.
        return f"Table({len(self.domain)} columns)"

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> npt.NDArray[Any]:
        """The codes of one attribute."""
        return self.columns[self.domain.position(name)]

    def take(self, rows: npt.NDArray[Any]) -> "Table":
        """The rows at these positions (or under this mask)."""
        return Table(self.domain, tuple(column[rows] for column in self.columns))

    def inside(self, allowed: Mapping[str, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
        """Which rows have, in each of these columns, one of the codes that are marked.

        >>> Table(Domain({"a": 3}), (np.array([0, 1, 2]),)).inside({"a": np.array([True, False, True])}).tolist()
        [True, False, True]
        """
        mask = np.ones(self.n, np.bool_)
        for name, marked in allowed.items():
            mask &= marked[self.column(name)]
        return mask

    def unique(self) -> tuple["Table", npt.NDArray[np.int64]]:
        """The distinct rows, in lexicographic order, and how often each occurs."""
        if not self.n:
            return self, np.zeros(0, np.int64)
        words = self.words()
        order = np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0], kind="stable")
        new = np.zeros(self.n, np.bool_)
        new[0] = True
        for word in words:
            in_order = word[order]
            new[1:] |= in_order[1:] != in_order[:-1]
        starts = np.flatnonzero(new)
        return self.take(order[starts]), np.diff(starts, append=self.n)

    def words(self) -> list[npt.NDArray[np.uint64]]:
        """Rows as mixed-radix numbers in as few 64-bit words as hold them, so that sorting has few keys."""
        words: list[npt.NDArray[np.uint64]] = []
        room = 0
        for size, column in zip(self.domain.shape, self.columns, strict=True):
            if size <= room:
                words[-1] *= np.uint64(size)
                words[-1] += column
                room //= size
            else:
                words.append(column.astype(np.uint64))
                room = 2**64 // size
        return words


def join(tables: Sequence[Table]) -> Table:
    """Tables of one domain, one below the other."""
    if len(tables) == 1:
        return tables[0]
    columns = zip(*(table.columns for table in tables), strict=True)
    return Table(tables[0].domain, tuple(np.concatenate(c) for c in columns))


def content_of(public: Table) -> str:
    """A digest of the rows of a public table as the schema reads them, in their order: the same whatever file they came
    in. It tells tables apart and is written down, so never of private rows."""
    digest = hashlib.sha256(json.dumps([public.domain.sizes(), public.n]).encode())
    for column in public.columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
