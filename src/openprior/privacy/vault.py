"""Where the private counts are. Only the curator holds a vault.

A vault reads the private source in passes, and only when it is asked: all marginals announced so far are counted
in one pass, in batches, and kept as tables; no row is kept. Levels of a hierarchy are counted like columns. A part of a
vault (one value of some key columns or levels) is cut out of the tables that include the keys.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.engine import Engine, GivesRows, engine_of
from openprior.errors import PrivacyError, SourceError
from openprior.privacy.refusal import counted
from openprior.progress import phase
from openprior.questions.workload import Marginal, canonical
from openprior.schema.layout import Layout
from openprior.tables.encode import Encoder
from openprior.tables.table import Table

__all__ = ["PartVault", "Vault", "no_rows"]

Counts = NDArray[np.int64]

_KEPT, _KEPT_CELLS = 4, 1 << 25
"""Vectors of counts, each of all marginals that a step asked for, that are kept for the next step, and their cells."""


class Vault:
    """The private table as counts."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.engine: Engine = engine_of(encoder.source)
        """Who counts."""
        self.on_first_pass: Callable[[int, list[Marginal], Counts], None] | None = None
        """Called after the first pass with the number of rows, the marginals and their counts; may refuse the table by
        raising."""
        self.on_refusal: Callable[[], None] | None = None
        """Told that a pass failed, before anybody learns of it."""
        self.tells_rows = False
        """Whether progress may say how many rows were read: only where their number is public."""
        self._announced: dict[Marginal, None] = {}
        self._counts: dict[Marginal, Counts] = {}
        self._rows: int | None = None
        self._gathered, self._flat = _Gathered(), _Flat()
        self.codes: Mapping[str, int] = {}
        """The keys' codes that all rows have: none, as this is the whole table."""
        self.layout: Layout = Layout(encoder.schema.domain, encoder.levels, encoder.schema.ordered)

    def announce(self, marginals: Iterable[Marginal]) -> None:
        """These will be wanted: the next pass counts them too. Reads nothing; refuses more cells than can be counted,
        while nothing has been charged for them yet."""
        new = [m for m in marginals if not self._has(m)]
        both = self._announced | dict.fromkeys(canonical(m, self.layout.full_domain) for m in new)
        todo = [m for m in both if m not in self._counts]
        if todo:
            Cells(self.layout.full_domain, todo)
        self._announced = both

    @property
    def rows(self) -> int:
        """How many rows there are (after the limit of rows per person)."""
        if self._rows is None:
            self._pass()
        assert self._rows is not None
        return self._rows

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, Counts]:
        """Exact counts; a pass over the data if any is not there yet."""
        ordered = [canonical(m, self.layout.full_domain) for m in marginals]
        if any(m not in self._counts for m in ordered):
            self.announce(ordered)
            self._pass()
        return {m: self._counts[m] for m in ordered}

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> Counts:
        """Exact counts of some cells; the last ones asked for are kept, as rounds ask for the same again."""
        return self._gathered.get(self, cells, only)

    def flat(self, marginals: tuple[Marginal, ...]) -> Counts:
        """Exact counts of whole marginals, one after the other; the last ones asked for are kept."""
        return self._flat.get(self, marginals)

    @property
    def gives_rows(self) -> bool:
        """Whether whole rows can be had where the table lies."""
        return isinstance(self.engine, GivesRows)

    def whole_rows(self) -> tuple[Table, Counts]:
        """The distinct rows and how often each occurs: a pass of its own, kept by nobody."""
        engine = self.engine
        if not isinstance(engine, GivesRows):
            raise no_rows()

        def read() -> tuple[Table, Counts]:
            with phase("reading the private rows"):
                rows, times = engine.whole_rows(self._encoder)
            if int(times.sum()) != self.rows:
                raise SourceError("the private table has changed since it was first read; begin anew")
            return rows, times

        return counted(read, self.on_refusal)

    def _has(self, marginal: Marginal) -> bool:
        """Whether it is counted already; what cannot even be looked up is for `canonical` to refuse."""
        try:
            return marginal in self._counts
        except TypeError:
            return False

    def _pass(self) -> None:
        todo = [m for m in self._announced if m not in self._counts] or [(self.layout.domain.attributes[0],)]
        cells = Cells(self.layout.full_domain, todo)

        known = getattr(self._encoder.source, "known_rows", None) if self.tells_rows else None

        def read() -> tuple[Counts, int]:
            with phase("reading and counting the private table", known):
                flat, rows = self.engine.count(self._encoder, cells)
            if self._rows is None and self.on_first_pass is not None:
                self.on_first_pass(rows, todo, flat)
            return flat, rows

        flat, rows = counted(read, self.on_refusal)
        self._counts.update(cells.split(flat))
        self._flat.keep(cells.marginals, flat)
        self._rows = rows


class PartVault:
    """The rows with given codes in the key columns."""

    def __init__(self, whole: "Vault | PartVault", keys: Marginal, codes: tuple[int, ...]) -> None:
        self._whole, self._keys = whole, keys
        self.codes: Mapping[str, int] = dict(zip(keys, codes, strict=True))
        """The keys' codes that all rows have."""
        self._gathered, self._flat = _Gathered(), _Flat()
        self.layout: Layout = whole.layout.without(keys)
        self.engine: Engine = whole.engine

    def announce(self, marginals: Iterable[Marginal]) -> None:
        """Announce to the whole, with the keys."""
        self._whole.announce([self._with_keys(m) for m in marginals])

    @property
    def rows(self) -> int:
        """How many rows this part has."""
        return int(self._slice(self._whole.counts([self._keys])[self._keys], self._keys)[0])

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, Counts]:
        """Exact counts of this part."""
        ordered = [canonical(m, self.layout.full_domain) for m in marginals]
        whole = self._whole.counts([self._with_keys(m) for m in ordered])
        return {m: self._slice(whole[self._with_keys(m)], self._with_keys(m)) for m in ordered}

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> Counts:
        """Exact counts of some cells of this part."""
        return self._gathered.get(self, cells, only)

    def flat(self, marginals: tuple[Marginal, ...]) -> Counts:
        """Exact counts of whole marginals of this part, one after the other."""
        return self._flat.get(self, marginals)

    @property
    def gives_rows(self) -> bool:
        """No: a part is cut out of tables of counts."""
        return False

    def whole_rows(self) -> tuple[Table, Counts]:
        """Refused."""
        raise no_rows()

    def _with_keys(self, marginal: Marginal) -> Marginal:
        return canonical((*marginal, *self._keys), self._whole.layout.full_domain)

    def _slice(self, counts: Counts, marginal: Marginal) -> Counts:
        shape = [self._whole.layout.full_domain[a] for a in marginal]
        index = tuple(self.codes.get(a, slice(None)) for a in marginal)
        part = counts.reshape(shape)[index]
        return np.ascontiguousarray(part).reshape(math.prod(part.shape))


def no_rows() -> PrivacyError:
    """What to raise where whole rows are asked for and cannot be had."""
    return PrivacyError(
        "this looks at whole private rows, and a table on a cluster, or a group of one, gives counts only; use another "
        "mechanism, or a file that this machine reads itself"
    )


class _Gathered:
    """The counts of the cells that were asked for last."""

    def __init__(self) -> None:
        self._key: tuple[Cells, NDArray[np.intp]] | None = None
        self._value: Counts | None = None

    def get(self, vault: "Vault | PartVault", cells: Cells, only: NDArray[np.intp]) -> Counts:
        if self._key is None or self._key[0] is not cells or self._key[1] is not only or self._value is None:
            counts = vault.counts(cells.marginals)
            self._value = np.concatenate([counts[m] for m in cells.marginals])[only]
            self._key = (cells, only)
        return self._value


class _Flat:
    """The counts of the marginals that were asked for last, in one vector each: that of the pass itself if it counted
    these. So rounds that ask for all of them again, or for parts in turns, make no copy."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Marginal, ...], Counts] = {}

    def keep(self, marginals: tuple[Marginal, ...], value: Counts) -> Counts:
        others = list(self._kept.items())[1 - _KEPT :]
        while others and sum(len(counts) for _, counts in others) + len(value) > _KEPT_CELLS:
            others.pop(0)
        self._kept = {**dict(others), marginals: value}  # in one step: another thread may ask meanwhile
        return value

    def get(self, vault: "Vault | PartVault", marginals: tuple[Marginal, ...]) -> Counts:
        kept = self._kept.get(marginals)
        if kept is None:
            counts = vault.counts(marginals)
            kept = self.keep(marginals, np.concatenate([counts[m] for m in marginals]))
        return kept
