"""Answers as tables: estimated counts with labels, and 95 % intervals where something honest can be said.

A model that can tell its standard errors has a method `standard_errors(marginals)`; for the others the columns
`standard_error`, `low` and `high` are null, which means: none is known, not that it is zero.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.models.base import Model
from openprior.workload import Marginal, Workload, canonical

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.data.schema import Schema

__all__ = ["labelled", "write_answers"]

_Z95 = 1.959963984540054


def labelled(model: Model, schema: "Schema", columns: Iterable[str]) -> "pa.Table":
    """One marginal: a label column each, as asked, then estimate, standard_error, low and high; a row a cell.

    A column that is itself called `estimate` (or `low`, …) comes back as `estimate (column)`.
    """
    import pyarrow as pa

    asked = (columns,) if isinstance(columns, str) else tuple(columns)
    marginal = canonical(asked, model.domain)
    errors = _errors(model, [marginal])

    def as_asked(flat: NDArray[np.float64]) -> NDArray[np.float64]:
        table = flat.reshape([model.domain[a] for a in marginal])
        return np.ascontiguousarray(table.transpose([marginal.index(a) for a in asked])).reshape(-1)

    sizes = [model.domain[a] for a in asked]
    codes = np.unravel_index(np.arange(model.domain.size(asked)), sizes)
    taken = ("estimate", "standard_error", "low", "high")
    table = {
        f"{a} (column)" if a in taken else a: pa.DictionaryArray.from_arrays(
            pa.array(c.astype(np.int32)), pa.array(schema[a].labels)
        ).cast(pa.string())
        for a, c in zip(asked, codes, strict=True)
    }
    estimate = as_asked(model.answers([marginal])[marginal])
    return pa.table({**table, **_columns(estimate, None if errors is None else as_asked(errors[marginal]))})


def write_answers(model: Model, schema: "Schema", workload: Workload, path: Path) -> None:
    """All marginals of the workload in one file: columns, values (their labels), cell, estimate and interval.

    `cell` numbers a marginal's cells in C order: the last column runs fastest, in the order of the schema's labels.
    """
    import pyarrow as pa
    from pyarrow import parquet

    fields = [
        pa.field("marginal", pa.dictionary(pa.int32(), pa.string())),
        pa.field("values", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.field("cell", pa.int64()),
        *(pa.field(name, pa.float64()) for name in ("estimate", "standard_error", "low", "high")),
    ]
    names = pa.array([" × ".join(m) for m in workload.marginals])
    words = _Words(schema)
    with parquet.ParquetWriter(path, pa.schema(fields)) as writer:
        for start in range(0, len(workload), _CHUNK):
            chunk = workload.marginals[start : start + _CHUNK]
            answers, errors = model.answers(chunk), _errors(model, chunk)
            sizes = [len(answers[m]) for m in chunk]
            which = np.repeat(np.arange(start, start + len(chunk), dtype=np.int32), sizes)
            estimate = np.concatenate([answers[m] for m in chunk])
            error = None if errors is None else np.concatenate([errors[m] for m in chunk])
            table = {
                "marginal": pa.DictionaryArray.from_arrays(pa.array(which), names),
                "values": _values(schema, chunk, words),
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in sizes])),
                **_columns(estimate, error),
            }
            writer.write_table(pa.table(table, schema=pa.schema(fields)))


class _Words:
    """All labels of all columns in one dictionary, and where each column's begin."""

    def __init__(self, schema: "Schema") -> None:
        import pyarrow as pa

        labels: list[str] = []
        self.start: dict[str, int] = {}
        for column in schema.columns:
            self.start[column.name] = len(labels)
            labels += column.labels
        self.dictionary = pa.array(labels, pa.string())


def _values(schema: "Schema", chunk: Iterable[Marginal], words: _Words) -> "pa.Array":
    """The labels of every cell of these marginals."""
    import pyarrow as pa

    indices, lengths = [], []
    for marginal in chunk:
        codes = np.indices([schema[a].size for a in marginal], dtype=np.int32).reshape(len(marginal), -1)
        starts = np.array([words.start[a] for a in marginal], dtype=np.int32)
        indices.append((codes.T + starts).reshape(-1))
        lengths.append(np.full(codes.shape[1], len(marginal), np.int64))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int32)
    flat = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(indices)), words.dictionary)
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


_CHUNK = 512
"""Marginals answered at a time."""


def _errors(model: Model, marginals: Iterable[Marginal]) -> Mapping[Marginal, NDArray[np.float64]] | None:
    method = getattr(model, "standard_errors", None)
    return None if method is None else method(marginals)


def _columns(estimate: NDArray[np.float64], error: NDArray[np.float64] | None) -> dict[str, Any]:
    import pyarrow as pa

    if error is None:
        nothing = pa.nulls(len(estimate), pa.float64())
        return {"estimate": pa.array(estimate), "standard_error": nothing, "low": nothing, "high": nothing}
    low, high = np.maximum(estimate - _Z95 * error, 0.0), estimate + _Z95 * error
    return {
        "estimate": pa.array(estimate),
        "standard_error": pa.array(error),
        "low": pa.array(low),
        "high": pa.array(high),
    }
