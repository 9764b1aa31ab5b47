"""Dates and times in bins: edges at days or minutes, open ends, and the unit that all are whole multiples of."""

import numpy as np
import pyarrow as pa

from openprior.schema.bins import DAY, Datetime
from openprior.schema.columns import arrow_type
from openprior.schema.drafting.categories import Drafted, prevalence
from openprior.schema.drafting.distinct import Counts, Options
from openprior.schema.drafting.resolution import moment_step
from openprior.schema.edges import FIRST_MOMENT, LAST_MOMENT, moment_of, quantile_edges
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
    ticks = np.append(np.floor_divide(values, grid), [values.min() // grid, -(-values.max() // grid)])
    counts = np.append(found.counts, [0, 0])
    if ticks.min() == ticks.max():
        room = (ticks.max() + 1) * grid <= LAST_MOMENT
        ticks, counts = np.append(ticks, ticks.max() + (1 if room else -1)), np.append(counts, 0)
    edges = quantile_edges(ticks, counts, options.bins, whole=True, nice=False)
    column = Datetime(
        name=found.name,
        missing=True,
        out_of_domain="open",
        bins=tuple(moment_of(int(edge) * grid, arrow) for edge in edges),
        step=None if is_date else precision,
        dtype=dtype or str(arrow),
    )
    lost = "it has one bin, so all others are the same to it: give bins, or leave the column out"
    return Drafted(column, prevalence(found, options, lost=lost, is_word=False))
