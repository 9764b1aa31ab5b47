"""What becomes of the values of one column, value by value: the fates of `schema/fates.py` as codes.

The column's own coder says it, with the column's policy taken away: what it then refuses, and why, is the fate. So a
fate depends on the row's value alone, as its code does, and the two can never disagree about what fits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.errors import EncodeError
from openprior.schema.bins import Binned
from openprior.schema.columns import Column
from openprior.schema.fates import (
    ABOVE,
    BELOW,
    FIRST,
    INSIDE,
    LAST,
    MISSING,
    UNLISTED,
    UNREADABLE,
    Fate,
)
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.lookup import Coder
from openprior.tables.table import dtype_for

__all__ = ["FateCoder", "coder_of"]


class FateCoder:
    """The fates of one column. Pure: it may be called from several threads."""

    def __init__(self, column: Fate, reading: Reading = PLAIN) -> None:
        self.column = column
        self.probe = Coder(column.probe, reading)
        probed = self.probe.column
        by_code = np.full(self.probe.refused_null + 1, INSIDE, dtype_for(column.size))
        if column.has_bins:
            by_code[0], by_code[probed.count - 1] = FIRST, LAST
        binned = isinstance(probed, Binned)
        by_code[probed.missing_code] = by_code[self.probe.refused_null] = MISSING
        by_code[self.probe.outside] = BELOW if binned else UNLISTED
        by_code[self.probe.above], by_code[self.probe.unparsed] = ABOVE, UNREADABLE
        self._by_code = by_code

    def __call__(self, array: pa.Array) -> npt.NDArray[Any]:
        """One fate per value."""
        return self.of_codes(self.codes(array))

    def codes(self, array: pa.Array) -> npt.NDArray[Any]:
        """The probe's codes: the column's own values, then missing, then why a value does not fit."""
        try:
            return self.probe(array)
        except (pa.ArrowException, IndexError):
            pass
        # Outside the handler, because Arrow's words may quote a value.
        raise EncodeError(
            f"column '{self.column.reads}' is stored in a way that cannot be read ({array.type}); "
            "store it as text, numbers or dates"
        )

    def of_codes(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The fates of the probe's codes."""
        fates: npt.NDArray[Any] = self._by_code[codes]
        return fates


def coder_of(column: Column, reading: Reading) -> Coder | FateCoder:
    """Who turns a column's values into codes."""
    return FateCoder(column, reading) if isinstance(column, Fate) else Coder(column, reading)
