"""Dates and times in bins: edges at days or minutes, open ends, and the unit that all are whole multiples of."""

import numpy as np
import pyarrow as pa

from openprior.schema.binned import edge_text
from openprior.schema.bins import DAY, Datetime
from openprior.schema.columns import arrow_type
from openprior.schema.drafting.categories import Drafted, prevalence
from openprior.schema.drafting.distinct import Counts, Options
from openprior.schema.drafting.remarks import Notes
from openprior.schema.drafting.resolution import moment_step
from openprior.schema.edges import FIRST_MOMENT, LAST_MOMENT, moment_of, quantile_edges, tallied
from openprior.schema.precision import MOMENTS
from openprior.tables.convert import moments

__all__ = ["date_or_time"]


def date_or_time(found: Counts, meant: str, options: Options, dtype: str | None = None) -> Drafted:
    """A column of moments of the Arrow type `meant`; `dtype` is how it is stored, if otherwise."""
    arrow = arrow_type(meant)
    is_time, is_date = bool(pa.types.is_time(arrow)), bool(pa.types.is_date(arrow))
    values = moments(found.values, time_of_day=is_time).values
    values = np.clip(values, FIRST_MOMENT, LAST_MOMENT)
    precision = moment_step(values, coarsest="hour" if is_time else "day")
    days = is_date or precision == "day" or int(values.max()) - int(values.min()) >= options.bins * DAY
    grid = DAY if days else MOMENTS["minute"]
    # All edges on the grid of days or minutes, the outer ones outside the values.
    limit, last = LAST_MOMENT // grid, -(-values.max() // grid)
    ticks, counts = tallied(np.append(values // grid, last), np.append(found.counts, 0))
    if len(ticks) == 1:
        ticks, counts = np.append(ticks, last + (1 if last < limit else -1)), np.append(counts, 0)
    edges = quantile_edges(ticks, counts, options.bins, whole=True, nice=False, limit=limit)
    column = Datetime(
        name=found.name,
        missing=True,
        out_of_domain="open",
        high=moment_of(int(ticks.max()) * grid, arrow),
        bins=tuple(moment_of(int(edge) * grid, arrow) for edge in edges),
        step=None if is_date else precision,
        dtype=dtype or str(arrow),
    )
    lost = "it has one bin, so all others are the same to it: give bins, or leave the column out"
    remarks = prevalence(found, options, lost=lost, is_word=False)
    if not is_time and len(found.values) > 1:
        remarks = (Notes(found.name).last_date(edge_text(column.bins[-2]), edge_text(column.high)), *remarks)
    return Drafted(column, remarks)
