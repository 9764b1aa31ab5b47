"""Every noisy number of a run, kept with the release: one file, and the checks that it belongs there.

A Parquet file says itself what was measured. A CSV has room for the numbers only; there the certificate's events say
what they are.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError, ReleaseError, WorkloadError
from openprior.json_text import parse_json
from openprior.privacy.events import Event, Noisy
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import statistic_from_dict
from openprior.privacy.strict import Record
from openprior.privacy.together import Together
from openprior.questions.workload import Marginal
from openprior.releases.table_files import read_csv, write_table
from openprior.schema.base import Schema
from openprior.schema.columns import arrow_type
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Counted", "Measurements"]

_TYPES = {
    "measurement": "int32",
    "marginal": "string",
    "where": "string",
    "cell": "int64",
    "value": "double",
    "standard_deviation": "double",
}
_COLUMNS = tuple(_TYPES)


@dataclass(frozen=True, eq=False)
class Counted:
    """A measurement that counts cells: all those of some columns, where others have given codes."""

    item: Measurement
    free: Marginal
    fixed: Mapping[str, int]


class Measurements:
    """All measurements of a release, in order."""

    def __init__(self, domain: Domain, items: Iterable[Measurement], rows: int | None = None) -> None:
        """`domain` has the columns and the levels above them; `rows` is how many rows there are, if that is public."""
        self.domain, self._items, self.rows = domain, tuple(items), rows

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @cached_property
    def counted(self) -> tuple[Counted, ...]:
        """Those that count cells, also out of many that were measured together."""
        pieces = [piece for item in self._items for piece in item.pieces(self.domain)]
        told = [(piece, piece.cells(self.domain)) for piece in pieces]
        return tuple(Counted(piece, *cells) for piece, cells in told if cells is not None)

    def about(self, marginal: Marginal) -> list[Counted]:
        """Those that tell cells of a marginal of columns, or sums of which its cells are, in order."""
        places = [self._places.get(a, frozenset()) for a in marginal]
        some = sorted(frozenset.intersection(*places)) if places else range(len(self.counted))
        return [self.counted[i] for i in some if self.counted[i].fixed.keys() <= set(marginal)]

    @cached_property
    def _places(self) -> dict[str, frozenset[int]]:
        """Which of `counted` have a column: a wide table has thousands of marginals, each told by few."""
        places: dict[str, list[int]] = {}
        for i, piece in enumerate(self.counted):
            for a in (*piece.free, *piece.fixed):
                places.setdefault(a, []).append(i)
        return {a: frozenset(some) for a, some in places.items()}

    def save(self, path: Path, schema: Schema) -> None:
        """One row per number: what was measured, where, the value and the standard deviation of its noise."""
        write_table(self._table(schema), path)

    def _table(self, schema: Schema) -> "pa.Table":
        import pyarrow as pa

        sizes = [len(i.values) for i in self._items]
        which = pa.array(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
        labels = {name: level.labels for name, level in schema.levels.items()}
        labels |= {c.name: c.labels for c in schema.columns}
        told = [piece for i in self._items for piece in self._words(i, labels)]
        columns, places, lengths = zip(*told, strict=True) if told else ((), (), ())
        piece = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
        table = pa.table(
            {
                "measurement": which,
                "marginal": pa.DictionaryArray.from_arrays(piece, pa.array(columns, pa.string())),
                "where": pa.DictionaryArray.from_arrays(piece, pa.array(places, pa.string())),
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in [*lengths, 0]])),
                "value": pa.array(np.concatenate([*(i.values for i in self._items), np.zeros(0)])),
                "standard_deviation": pa.array(
                    np.repeat([i.sigma for i in self._items], sizes), pa.float64()
                ),
            }
        )
        facts = [
            {**i.statistic.to_dict(), "part": dict(i.part), "sigma": i.sigma, "noise": i.noise}
            for i in self._items
        ]
        return table.replace_schema_metadata({"openprior": json.dumps(facts)})

    def _words(
        self, item: Measurement, labels: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[str, str, int]]:
        """Which columns the numbers count, or which queries; which codes others have, in words; and how many numbers.

        What was measured together is named piece by piece, each with its factor, as the numbers have it in them.
        """
        counted = item.cells(self.domain)
        columns, fixed = (None, item.part) if counted is None else counted
        where = ", ".join(f"{name} = {labels[name][code]}" for name, code in fixed.items())
        if isinstance(item.statistic, Together):
            for times, statistic, length in item.statistic.pieces(self.domain):
                yield f"{times} times {statistic.words}", where, length
            return
        yield item.statistic.words if columns is None else " × ".join(columns), where, len(item.values)

    @staticmethod
    def load(
        path: Path, schema: Schema, events: Sequence[Event] = (), rows: int | None = None
    ) -> "Measurements":
        """From the file, of which every column must be just what the measurements give; `events`: the certificate's."""
        if path.suffix == ".csv":
            table = read_csv(path, {name: arrow_type(kind) for name, kind in _TYPES.items()})
            _check_columns(table)
            items = _of_events(table, _counted(events))
        else:
            from pyarrow import parquet

            table = parquet.ParquetFile(path).read()
            _check_columns(table)
            items = _of_facts(table)
        if not all(_fits(item, schema) for item in items):
            raise ReleaseError("its measurements do not fit its schema")
        made = Measurements(schema.full_domain, items, rows)
        if not _same(table, made._table(schema), facts=path.suffix != ".csv"):
            raise ReleaseError("its measurements are not written as measurements are")
        return made

    def check(self, events: Sequence[Event]) -> None:
        """Raise unless these are the measurements that a certificate's events speak of, one by one."""
        spoken = _counted(events)
        if len(spoken) != len(self._items) or not all(map(_is_of, self._items, spoken)):
            raise ReleaseError("its measurements are not those of its certificate")


def _counted(events: Sequence[Event]) -> list[Noisy]:
    """The events that gave measurements."""
    return [e for e in events if isinstance(e, Noisy) and e.statistic.is_count]


def _check_columns(table: "pa.Table") -> None:
    if table.column_names != list(_COLUMNS) or any(column.null_count for column in table.columns):
        raise ReleaseError("its measurements have other columns than measurements have")
    kinds = (table["measurement"].type, table["value"].type, table["standard_deviation"].type)
    if kinds != ("int32", "double", "double"):
        raise ReleaseError("its measurements are of another type than measurements are")


def _parts(table: "pa.Table", count: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The values of each measurement, and the standard deviations that are written beside them."""
    starts = np.searchsorted(table["measurement"].to_numpy(), np.arange(count + 1))
    values, sigmas = table["value"].to_numpy(), table["standard_deviation"].to_numpy()
    for start, end in itertools.pairwise(starts):
        yield values[start:end], sigmas[start:end]


def _of_facts(table: "pa.Table") -> list[Measurement]:
    """As the file's own metadata say."""
    facts = parse_json((table.schema.metadata or {}).get(b"openprior", b""))
    if type(facts) is not list:
        raise ReleaseError("its measurements are no list")
    parts = _parts(table, len(facts))
    return [
        _read(Record(fact, "a measurement"), values) for fact, (values, _) in zip(facts, parts, strict=True)
    ]


def _of_events(table: "pa.Table", events: Sequence[Noisy]) -> list[Measurement]:
    """As a certificate's events say."""
    items = []
    for event, (values, sigmas) in zip(events, _parts(table, len(events)), strict=True):
        if not len(values):
            raise ReleaseError("its measurements are not those of its certificate")
        part = {} if event.part is None else event.part.fixed
        items.append(Measurement(event.statistic, values, float(sigmas[0]), event.kind, part))
    return items


def _read(record: Record, values: NDArray[np.float64]) -> Measurement:
    sigma, noise = record.number("sigma"), record.text("noise", "gaussian", "laplace")
    part = record.mapping("part")
    return Measurement(statistic_from_dict(record), values, sigma, noise, part)


def _fits(item: Measurement, schema: Schema) -> bool:
    """Whether the schema has what was measured, and the numbers are as many as it gives; whole ones, as counts are."""
    full = schema.full_domain
    try:
        if not all(type(c) is int and 0 <= c < full[a] for a, c in item.part.items()):
            return False
        layout = Layout(schema.domain, schema.levels).without(item.part)
        statistic = item.statistic.fitted(layout)
        if statistic != item.statistic or not statistic.is_count:
            return False
        numbers = statistic.numbers(layout.full_domain)
    except (PrivacyError, WorkloadError):
        return False
    values = item.values
    return len(values) == numbers and bool(np.isfinite(values).all() and (values == np.rint(values)).all())


def _same(table: "pa.Table", expected: "pa.Table", *, facts: bool) -> bool:
    """Equal, however the texts of a column are packed; `facts`: in types and metadata, too, which a CSV has not."""
    if facts and (table.schema != expected.schema or table.schema.metadata != expected.schema.metadata):
        return False
    texts = ("marginal", "where")
    return all(
        (t.cast("string") if name in texts else t).equals(e.cast("string") if name in texts else e)
        for name, t, e in zip(_COLUMNS, table.columns, expected.columns, strict=True)
    )


def _is_of(item: Measurement, event: Noisy) -> bool:
    """Whether an event speaks of this measurement."""
    return (
        item.statistic == event.statistic
        and dict(item.part) == ({} if event.part is None else event.part.fixed)
        and item.noise == event.kind
        and abs(item.sigma - event.standard_deviation) <= 1e-9 * event.standard_deviation
    )
