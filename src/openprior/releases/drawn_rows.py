"""The synthetic rows of a release that is being made: in memory, or in files of its draft where they are too many.

Which of them it is follows from the model's total and the number of columns, both of which are published.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from openprior.models.base import Model
from openprior.questions.workload import Marginal
from openprior.releases.row_parts import FOLDER, draw_parts, in_parts, open_parts
from openprior.releases.view import RowCounts, compared_marginals
from openprior.schema.base import Schema
from openprior.tables.decode import Decoder
from openprior.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

__all__ = ["DrawnRows", "drawn_rows", "parts_of"]


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows as they were drawn."""

    synthetic: "pa.Table | pads.Dataset"
    codes: Table | None
    """None where they are in files."""
    counts: RowCounts
    """Of every column; of rows in files also of all pairs that a view compares, if there is one."""
    values_inside: dict[str, dict[str, int]]

    @property
    def compared(self) -> Table | RowCounts:
        """What a view needs of them."""
        return self.counts if self.codes is None else self.codes


def drawn_rows(
    model: Model,
    schema: Schema,
    decoding: Callable[[np.random.Generator], Decoder],
    rng: np.random.Generator,
    draft: Path | None,
    format: str,
    *,
    viewed: bool,
) -> DrawnRows:
    """As many rows as the model has, in memory if there is no draft of a folder.

    decoding   how codes become values, ready when the codes are
    viewed     whether a view will compare them with public rows
    """
    rows = max(1, round(model.total))
    columns: list[Marginal] = [(name,) for name in schema.names]
    if draft is None or not in_parts(rows, len(columns)):
        codes = model.sample(rows, rng)
        decoder = decoding(rng)
        counts = RowCounts.of(codes, schema, columns)
        return DrawnRows(decoder.decode(codes, rng), codes, counts, decoder.values_inside)
    decoder = decoding(rng)
    counted = compared_marginals(schema) if viewed else columns
    counts = draw_parts(model, decoder, rows, counted, rng, draft, format)
    return DrawnRows(parts_of(draft, schema), None, counts, decoder.values_inside)


def parts_of(folder: Path, schema: Schema) -> "pads.Dataset":
    """The rows that were drawn into a folder, or into its draft."""
    return open_parts(sorted((folder / FOLDER).iterdir()), schema)
