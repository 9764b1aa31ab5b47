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
    """One marginal: a label column each, then estimate, standard_error, low and high, a row a cell."""
    import pyarrow as pa

    marginal = canonical(columns, model.domain)
    sizes = [model.domain[a] for a in marginal]
    estimate = model.answers([marginal])[marginal]
    codes = np.unravel_index(np.arange(len(estimate)), sizes)
    table = {
        a: pa.DictionaryArray.from_arrays(pa.array(c.astype(np.int32)), pa.array(schema[a].labels)).cast(
            pa.string()
        )
        for a, c in zip(marginal, codes, strict=True)
    }
    errors = _errors(model, [marginal])
    return pa.table({**table, **_columns(estimate, None if errors is None else errors[marginal])})


def write_answers(model: Model, workload: Workload, path: Path) -> None:
    """All marginals of the workload in one file: marginal, cell (its number in C order), estimate and interval."""
    import pyarrow as pa
    from pyarrow import parquet

    fields = [
        pa.field("marginal", pa.dictionary(pa.int32(), pa.string())),
        pa.field("cell", pa.int64()),
        *(pa.field(name, pa.float64()) for name in ("estimate", "standard_error", "low", "high")),
    ]
    names = pa.array([" × ".join(m) for m in workload.marginals])
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
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in sizes])),
                **_columns(estimate, error),
            }
            writer.write_table(pa.table(table, schema=pa.schema(fields)))


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
