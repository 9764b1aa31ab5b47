"""Rows of a release as frames of pandas and Polars, in the types that the schema declares.

pandas has no missing whole numbers and no dates of its own. Columns that may be missing get its nullable types, also
where none is missing in this release, and dates and times stay what they are as Arrow types.
"""

import importlib
from typing import TYPE_CHECKING, Any

from openprior.errors import OptionError
from openprior.schema.base import Schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["pandas_frame", "polars_frame"]


def pandas_frame(rows: "pa.Table", schema: Schema) -> Any:
    """A pandas DataFrame."""
    import pyarrow as pa

    pandas = _library("pandas")
    nullable = {
        **{
            getattr(pa, f"{sign}int{bits}")(): f"{sign.upper()}Int{bits}"
            for sign in ("", "u")
            for bits in (8, 16, 32, 64)
        },
        pa.bool_(): "boolean",
    }
    columns = {}
    for column in schema.columns:
        array, kind = rows[column.name], column.arrow
        may_miss = column.size > column.count
        if pa.types.is_date(kind) or pa.types.is_time(kind):
            series = array.to_pandas(types_mapper=pandas.ArrowDtype)
        elif may_miss and kind in nullable:
            dtype = pandas.api.types.pandas_dtype(nullable[kind])
            series = array.to_pandas(types_mapper={kind: dtype}.get)
        else:
            series = array.to_pandas()
        columns[column.name] = series
    return pandas.DataFrame(columns)


def polars_frame(rows: "pa.Table") -> Any:
    """A Polars DataFrame; its types are Arrow's own."""
    return _library("polars").from_arrow(rows)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(
            f"{name} is not installed; install it, or use release.synthetic, which is an Arrow table"
        ) from None
