"""The embedded demo surveys: two of an invented country, a year apart.

The people are drawn in population.py; here they answer, or do not. Last year's survey is a good but not a perfect guide
to this year's, which is what the demo is about. Values go missing for reasons: high earners and the self-employed hide
their income, and more of them every year; the frail skip the health question; and those without a job have no
occupation and no hours.

>>> survey = simulate(2023, rows=1000, seed=1)
>>> survey.num_rows, survey.schema.field("income").type, survey["income"].null_count > 0
(1000, DataType(double), True)
"""

import numpy as np
import pyarrow as pa

from openprior.errors import OptionError
from openprior.tables.population import (
    DISTRICTS,
    FIRST_YEAR,
    Bools,
    Floats,
    Ints,
    People,
    draw_people,
    logistic,
)

__all__ = ["demo_surveys", "simulate"]

_REGIONS = ("N", "E", "S", "W", "C")  # C is the capital region
_EDUCATION = ("primary", "lower secondary", "upper secondary", "vocational", "bachelor", "master or more")
_MARITAL = ("single", "married", "divorced", "widowed")
_EMPLOYMENT = ("employed", "self-employed", "unemployed", "student", "retired", "at home")
_OCCUPATIONS = (
    "agriculture",
    "industry",
    "construction",
    "trade",
    "transport",
    "care",
    "teaching",
    "office",
    "technology",
    "management",
)
_TENURE = ("owned", "mortgaged", "rented", "social housing")


def demo_surveys(
    rows_public: int = 20_000, rows_private: int = 20_000, seed: int = 7
) -> tuple[pa.Table, pa.Table]:
    """Last year's survey as the public table and this year's as the private one."""
    return simulate(FIRST_YEAR, rows_public, seed), simulate(FIRST_YEAR + 1, rows_private, seed)


def simulate(year: int, rows: int, seed: int) -> pa.Table:
    """A survey of `rows` adults in a year; the same arguments give the same table.

    Surveys of different years share no draws, even with one seed.
    """
    if rows < 1:
        raise OptionError(f"rows ({rows}) must be at least 1")
    if not abs(year - FIRST_YEAR) <= 10:
        raise OptionError(
            f"year ({year}) must be within 10 years of {FIRST_YEAR}; the drift is not meant for more"
        )
    rng = np.random.default_rng([seed, year])
    return _answers(rng, draw_people(rng, year, rows), drift=float(year - FIRST_YEAR))


def _answers(rng: np.random.Generator, people: People, drift: float) -> pa.Table:
    """What they say, with labels and types; some of it goes missing."""
    age, no_job = people.age, people.employment > 1
    hidden = _missing(
        rng, -2.9 + 0.35 * drift + 0.8 * (np.log(people.income) - 10) + 1.1 * (people.employment == 1)
    )
    no_health = _missing(rng, -4.2 + 0.035 * (age - 40) + 0.02 * (60 - people.health))
    no_chronic = _missing(rng, -3.6 + 0.9 * people.chronic + 0.3 * (people.education == 0))
    no_education = _missing(rng, -4.4 + 0.03 * (age - 40))
    no_move = _missing(rng, -3.3 + 0.02 * (age - 40) + 0.6 * (people.tenure == 3))
    districts = np.array(
        [f"{r}-{d + 1:02d}" for r, k in zip(_REGIONS, DISTRICTS, strict=True) for d in range(k)]
    )
    return pa.table(
        {
            "region": _text(_REGIONS, people.region),
            "district": pa.array(districts[people.district], type=pa.string()),
            "age": pa.array(age, type=pa.int64()),
            "sex": _text(("male", "female"), people.female.astype(np.int64)),
            "education": _text(_EDUCATION, people.education, no_education),
            "marital_status": _text(_MARITAL, people.marital),
            "household_size": pa.array(people.household, type=pa.int64()),
            "children": pa.array(people.children, type=pa.int64()),
            "employment": _text(_EMPLOYMENT, people.employment),
            "occupation": _text(_OCCUPATIONS, people.occupation, no_job),
            "hours": pa.array(people.hours, type=pa.int64(), mask=no_job),
            "income": pa.array(people.income, type=pa.float64(), mask=hidden),
            "tenure": _text(_TENURE, people.tenure),
            "moved_in": pa.array(people.moved_in.astype("datetime64[D]"), type=pa.date32(), mask=no_move),
            "health": pa.array(people.health, type=pa.int64(), mask=no_health),
            "chronic": pa.array(people.chronic, type=pa.bool_(), mask=no_chronic),
        }
    )


def _missing(rng: np.random.Generator, score: Floats) -> Bools:
    return np.asarray(rng.random(len(score)) < logistic(score), dtype=np.bool_)


def _text(labels: tuple[str, ...], codes: Ints, missing: Bools | None = None) -> pa.Array:
    return pa.array(np.array(labels, dtype=object)[codes], type=pa.string(), mask=missing)
