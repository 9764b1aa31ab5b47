"""Every noisy number of a run, kept with the release: one Parquet file, and the checks that it belongs there."""

import json
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError, ReleaseError
from openprior.privacy.events import Event, Noisy
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import statistic_from_dict
from openprior.privacy.strict import Record
from openprior.schema.base import Schema
from openprior.schema.domain import Domain

__all__ = ["Measurements"]


class Measurements:
    """All measurements of a release, in order."""

    def __init__(self, domain: Domain, items: Iterable[Measurement]) -> None:
        """`domain` has the columns and the levels above them."""
        self.domain, self._items = domain, tuple(items)

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def save(self, path: Path, schema: Schema) -> None:
        """One row per number: what was measured, where, the value and the standard deviation of its noise."""
        import pyarrow as pa
        from pyarrow import parquet

        sizes = [len(i.values) for i in self._items]
        which = pa.array(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
        columns, places = (
            zip(*(self._words(i, schema) for i in self._items), strict=True) if sizes else ((), ())
        )
        table = pa.table(
            {
                "measurement": which,
                "marginal": pa.DictionaryArray.from_arrays(which, pa.array(columns, pa.string())),
                "where": pa.DictionaryArray.from_arrays(which, pa.array(places, pa.string())),
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in [*sizes, 0]])),
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
        parquet.write_table(table.replace_schema_metadata({"openprior": json.dumps(facts)}), path)

    def _words(self, item: Measurement, schema: Schema) -> tuple[str, str]:
        """Which columns the numbers count, or which queries; and which codes others have, in words."""
        counted = item.cells(self.domain)
        columns, fixed = (None, item.part) if counted is None else counted
        labels = {name: level.labels for name, level in schema.levels.items()}
        labels |= {c.name: c.labels for c in schema.columns if c.name in fixed}
        where = ", ".join(f"{name} = {labels[name][code]}" for name, code in fixed.items())
        return item.statistic.words if columns is None else " × ".join(columns), where

    @staticmethod
    def load(path: Path, domain: Domain) -> "Measurements":
        """From the file; strict."""
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["measurement", "value"])
        facts = json.loads(table.schema.metadata[b"openprior"])
        values = table["value"].to_numpy()
        starts = np.searchsorted(table["measurement"].to_numpy(), np.arange(len(facts) + 1))
        items = []
        for fact, start, end in zip(facts, starts[:-1], starts[1:], strict=True):
            item = _read(Record(fact, "a measurement"), values[start:end])
            if not _fits(item, domain):
                raise ReleaseError("its measurements do not fit its schema")
            items.append(item)
        return Measurements(domain, items)

    def check(self, events: Sequence[Event]) -> None:
        """Raise unless these are the measurements that a certificate's events speak of, one by one."""
        spoken = [e for e in events if isinstance(e, Noisy) and e.statistic.is_count]
        if len(spoken) != len(self._items) or not all(map(_is_of, self._items, spoken)):
            raise ReleaseError("its measurements are not those of its certificate")


def _read(record: Record, values: NDArray[np.float64]) -> Measurement:
    sigma, noise = record.number("sigma"), record.text("noise", "gaussian", "laplace")
    part = record.mapping("part")
    return Measurement(statistic_from_dict(record), values, sigma, noise, part)


def _fits(item: Measurement, domain: Domain) -> bool:
    try:
        counted = item.cells(domain)
        free, fixed = ((), item.part) if counted is None else counted
        codes_fit = all(type(c) is int and 0 <= c < domain[a] for a, c in fixed.items())
        sizes_fit = counted is None or len(item.values) == prod(domain[a] for a in free)
    except (PrivacyError, ValueError):
        return False
    return codes_fit and sizes_fit and bool(np.isfinite(item.values).all())


def _is_of(item: Measurement, event: Noisy) -> bool:
    """Whether an event speaks of this measurement."""
    return (
        item.statistic == event.statistic
        and dict(item.part) == ({} if event.part is None else event.part.fixed)
        and item.noise == event.kind
        and abs(item.sigma - event.standard_deviation) <= 1e-9 * event.standard_deviation
    )
