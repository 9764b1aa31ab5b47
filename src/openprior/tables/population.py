"""The people of the demo population: how their columns depend on each other, and how the country drifts.

Every adult has a hidden *standing* (family luck, mixed with how urban the district is), and most columns
lean on it: standing and cohort give schooling; age, sex and schooling give a job; the job gives hours and
income; income and place give the home; age, standing and work give health. So the columns depend on each
other the way a real survey's do, through several steps and with much noise.

Between two years the country drifts: it ages, the capital region grows, technology and care hire while
industry sheds, unemployment rises, prices carry incomes along, and fewer can buy a home or move.

The date is that of the last move, not of the interview: interviews of two years share no day, so a column of
them would say nothing about the other year.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DISTRICTS", "FIRST_YEAR", "Bools", "Floats", "Ints", "People", "draw_people", "logistic"]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIRST_YEAR = 2023
"""Drift is counted from here."""
DISTRICTS = (5, 4, 5, 3, 4)
"""Per region, the capital region last; the first of each is its town."""
_REGION_SHARES = (0.24, 0.18, 0.23, 0.16, 0.19)


@dataclass(frozen=True, eq=False)
class People:
    """One array per column, as codes or plain numbers, with nothing missing."""

    region: Ints
    district: Ints
    """Numbered through the country."""
    age: Ints
    female: Bools
    education: Ints
    marital: Ints
    household: Ints
    children: Ints
    employment: Ints
    """Below 2: has a job."""
    occupation: Ints
    """Drawn for everybody, with or without a job; so are the hours."""
    hours: Ints
    income: Floats
    tenure: Ints
    moved_in: Ints
    """Days since 1970."""
    health: Ints
    chronic: Bools


def draw_people(rng: np.random.Generator, year: int, rows: int) -> People:
    """The adults that a year's survey meets."""
    drift = float(year - FIRST_YEAR)
    region, district, urban = _place(rng, rows, drift)
    standing = 0.95 * rng.standard_normal(rows) + 0.45 * (urban - 0.5)
    age, female = _person(rng, urban, drift)
    education = _schooling(rng, age, female, standing, urban)
    marital, children, household = _household(rng, age, female, standing, drift)
    employment = _employment(
        rng, age=age, female=female, education=education, children=children, standing=standing, drift=drift
    )
    occupation = _occupation(
        rng, region=region, female=female, education=education, standing=standing, drift=drift
    )
    hours = _hours(
        rng, female=female, children=children, occupation=occupation, employment=employment, drift=drift
    )
    income = _income(
        rng,
        age=age,
        female=female,
        education=education,
        standing=standing,
        employment=employment,
        occupation=occupation,
        hours=hours,
        urban=urban,
        drift=drift,
    )
    tenure = _tenure(rng, age=age, income=income, marital=marital, urban=urban, drift=drift)
    moved_in = _moved_in(rng, age, tenure, year)
    health, chronic = _health(
        rng,
        age=age,
        female=female,
        education=education,
        standing=standing,
        income=income,
        employment=employment,
    )
    return People(
        region=region,
        district=district,
        age=age,
        female=female,
        education=education,
        marital=marital,
        household=household,
        children=children,
        employment=employment,
        occupation=occupation,
        hours=hours,
        income=income,
        tenure=tenure,
        moved_in=moved_in,
        health=health,
        chronic=chronic,
    )


def _place(rng: np.random.Generator, rows: int, drift: float) -> tuple[Ints, Ints, Floats]:
    """Region, district (numbered through the country) and how urban it is, from 0 to 1."""
    shares = np.log(_REGION_SHARES) + drift * np.array([-0.10, -0.02, -0.04, -0.06, 0.20])
    region = _choose(rng, np.broadcast_to(shares, (rows, 5)))
    counts = np.array(DISTRICTS)
    within = np.arange(counts.max())
    # Towns are the largest districts, and more so in the capital region; absent districts weigh nothing.
    sizes = np.where(within < counts[:, None], -0.35 * within, -np.inf)
    sizes[4] += np.where(within == 0, 0.5 + 0.15 * drift, 0.0)
    number = _choose(rng, sizes[region])
    urban = np.clip(0.35 + 0.25 * (region == 4) + 0.45 * (number == 0) - 0.07 * number, 0.0, 1.0)
    first = np.cumsum(counts) - counts
    return region, np.asarray(first[region] + number), urban


def _person(rng: np.random.Generator, urban: Floats, drift: float) -> tuple[Ints, Bools]:
    rows = len(urban)
    older = rng.random(rows) < np.clip(0.30 - 0.14 * (urban - 0.5) + 0.035 * drift, 0.05, 0.95)
    spread = rng.beta(np.where(older, 3.0, 1.5), np.where(older, 3.2, 1.9))
    age = np.where(older, 52 + 46 * spread, 18 + 47 * spread + 0.6 * drift).astype(np.int64)
    return age, rng.random(rows) < 0.485 + 0.0022 * np.maximum(age - 50, 0)


def _schooling(rng: np.random.Generator, age: Ints, female: Bools, standing: Floats, urban: Floats) -> Ints:
    level = 1.1 * standing + 0.5 * urban - 0.028 * (age - 45) + 0.2 * (female & (age < 45))
    level = level - 0.9 * (age < 22) + 0.8 * rng.logistic(size=len(age))
    grade = np.searchsorted([-1.7, -0.75, 0.35, 1.0, 1.95], level).astype(np.int64)
    # Nobody has a degree before its age.
    return np.asarray(np.minimum(grade, np.where(age < 21, 2, np.where(age < 24, 4, 5))), dtype=np.int64)


def _household(
    rng: np.random.Generator, age: Ints, female: Bools, standing: Floats, drift: float
) -> tuple[Ints, Ints, Ints]:
    """Marital status, children at home, household size."""
    rows = len(age)
    old = np.maximum(age - 60, 0)
    scores = np.zeros((rows, 4))
    scores[:, 0] = 2.6 - 0.13 * (age - 22) + 0.0009 * (age - 22) ** 2 + 0.12 * drift
    scores[:, 1] = 0.25 * standing
    scores[:, 2] = -1.75 + 0.02 * np.minimum(age - 30, 25) - 0.15 * standing
    scores[:, 3] = -5.2 + 0.115 * old + 0.05 * np.maximum(age - 35, 0) + 0.9 * female
    marital = _choose(rng, scores)
    fertile = np.exp(-(((age - 39) / 10.5) ** 2))
    rate = fertile * np.array([0.45, 2.2, 1.0, 0.8])[marital] * (1.0 - 0.05 * drift)
    children = np.minimum(rng.poisson(rate), 6).astype(np.int64)
    young_at_home = (marital == 0) & (age < 28) & (rng.random(rows) < 0.6)
    others = (rng.random(rows) < 0.12).astype(np.int64) + np.where(
        young_at_home, 1 + rng.integers(0, 3, rows), 0
    )
    return marital, children, np.minimum(1 + (marital == 1) + children + others, 9)


def _employment(
    rng: np.random.Generator,
    *,
    age: Ints,
    female: Bools,
    education: Ints,
    children: Ints,
    standing: Floats,
    drift: float,
) -> Ints:
    scores = np.zeros((len(age), 6))
    scores[:, 0] = 1.6 + 0.18 * education - 0.10 * drift
    scores[:, 1] = -1.1 + 0.02 * (age - 40) + 0.2 * standing - 0.4 * female
    scores[:, 2] = 0.0 - 0.22 * education - 0.5 * standing + 0.35 * drift + 0.5 * (age < 26)
    scores[:, 3] = 3.2 - 0.55 * (age - 18) + 0.5 * standing
    scores[:, 4] = np.where(age < 50, -6.0, 0.62 * (age - 64) + 0.8 - 0.15 * education)
    scores[:, 5] = -0.7 + female * (0.7 + 0.45 * np.minimum(children, 3)) - 0.15 * education
    return _choose(rng, scores)


def _occupation(
    rng: np.random.Generator, *, region: Ints, female: Bools, education: Ints, standing: Floats, drift: float
) -> Ints:
    """Drawn for everybody; those without a job lose it later."""
    #                 agri  indu  cons  trade trans care  teach offic tech  manag
    base = np.array([0.1, 0.9, 0.8, 0.8, 0.6, -0.1, -2.1, -0.2, -1.6, -2.2])
    by_school = np.array([-0.35, -0.25, -0.3, -0.1, -0.25, 0.1, 0.65, 0.3, 0.55, 0.55])
    by_woman = np.array([-0.5, -0.9, -2.2, 0.3, -1.5, 1.5, 0.9, 0.6, -0.9, -0.4])
    by_year = np.array([-0.08, -0.2, 0.0, -0.05, 0.0, 0.14, 0.0, -0.08, 0.38, 0.0])
    by_region = np.zeros((5, 10))
    by_region[0, [0, 1]] = (0.3, 1.0)  # the north makes things,
    by_region[1, [0, 8]] = (1.3, -0.8)  # the east and the south grow them,
    by_region[2, [0, 3]] = (0.9, 0.6)
    by_region[3, [4, 2]] = (1.1, 0.5)  # the west ships them,
    by_region[4, [0, 7, 8, 9]] = (-2.0, 0.6, 0.9, 0.6)  # the capital sits in offices
    scores = base + by_school * education[:, None] + by_woman * female[:, None] + by_year * drift
    scores = scores + by_region[region]
    scores[:, 9] += 0.5 * standing
    return _choose(rng, scores)


def _hours(
    rng: np.random.Generator,
    *,
    female: Bools,
    children: Ints,
    occupation: Ints,
    employment: Ints,
    drift: float,
) -> Ints:
    rows = len(female)
    part = (
        -1.7
        + female * (0.8 + 0.5 * np.minimum(children, 2))
        + 0.6 * np.isin(occupation, (3, 5))
        + 0.15 * drift
    )
    short = rng.random(rows) < logistic(part)
    usual = np.where(rng.random(rows) < 0.55, 40.0, 38 + 5 * rng.standard_normal(rows))
    long = rng.gamma(2.0, 4.0, rows) * ((employment == 1) | (occupation == 9) | (occupation == 0))
    reduced = np.where(rng.random(rows) < 0.4, 20.0, 23 + 6 * rng.standard_normal(rows))
    return np.clip(np.where(short, reduced, usual + long), 4, 80).astype(np.int64)


def _income(
    rng: np.random.Generator,
    *,
    age: Ints,
    female: Bools,
    education: Ints,
    standing: Floats,
    employment: Ints,
    occupation: Ints,
    hours: Ints,
    urban: Floats,
    drift: float,
) -> Floats:
    """Yearly income: lognormal within jobs, with a Pareto tail for the few; benefits otherwise."""
    rows = len(age)
    pay = np.array([-0.25, 0.05, 0.0, -0.2, -0.05, -0.1, 0.05, 0.05, 0.35, 0.5])[occupation]
    log_wage = 9.75 + 0.12 * education + pay + 0.1 * standing + 0.12 * urban - 0.09 * female
    log_wage = log_wage + 0.022 * np.minimum(age - 18, 27) + 0.85 * np.log(hours / 38)
    log_wage = log_wage + np.where(employment == 1, 0.55, 0.26) * rng.standard_normal(rows)
    tail = rng.random(rows) < 0.025 + 0.05 * (employment == 1)
    log_wage = log_wage + np.where(tail, rng.exponential(0.55, rows), 0.0)
    benefit = np.array([0.0, 0.0, 9.15, 8.6, 9.55, 8.7])[employment]
    log_benefit = benefit + np.where(employment == 4, 0.09 * education + 0.1 * standing, 0.0)
    log_benefit = log_benefit + 0.3 * rng.standard_normal(rows)
    income = np.exp(np.where(employment <= 1, log_wage, log_benefit) + 0.055 * drift)
    return np.round(income, 2)


def _tenure(
    rng: np.random.Generator, *, age: Ints, income: Floats, marital: Ints, urban: Floats, drift: float
) -> Ints:
    rich = np.log(income) - 10 - 0.055 * drift
    married = marital == 1
    scores = np.zeros((len(age), 4))
    scores[:, 0] = -0.3 + 0.045 * (age - 45) - 1.0 * urban + 0.4 * rich
    scores[:, 1] = 0.2 - 0.0022 * (age - 44) ** 2 + 0.7 * married + 0.8 * rich - 0.16 * drift
    scores[:, 2] = 0.1 + 0.9 * urban - 0.02 * (age - 45) + 0.10 * drift
    scores[:, 3] = -1.3 - 0.8 * rich + 0.5 * urban
    return _choose(rng, scores)


def _moved_in(rng: np.random.Generator, age: Ints, tenure: Ints, year: int) -> NDArray[np.int64]:
    """The day of the last move, in days since 1970: tenants' is more recent, and most are in summer."""
    mean = np.array([24.0, 12.0, 8.0, 11.0])[tenure] * np.clip((age - 15) / 35, 0.2, 1.5)
    mean = mean * (1 + 0.05 * (year - FIRST_YEAR))
    years_ago = np.minimum(rng.gamma(2.0, mean / 2.0), np.maximum(age - 1.0, 1.0))
    new_year = (year - 1971 - years_ago.astype(np.int64)).astype("datetime64[Y]").astype("datetime64[D]")
    day = np.clip(365 * rng.beta(2.2, 1.8, len(age)), 0, 364)
    return np.asarray(new_year.astype(np.int64) + day.astype(np.int64))


def _health(
    rng: np.random.Generator,
    *,
    age: Ints,
    female: Bools,
    education: Ints,
    standing: Floats,
    income: Floats,
    employment: Ints,
) -> tuple[Ints, Bools]:
    """A score from 0 to 100, and whether there is a chronic condition."""
    rows = len(age)
    burden = 0.42 * (age - 18) + 0.002 * np.maximum(age - 60, 0) ** 2 - 3.5 * standing - 1.2 * education
    burden = (
        burden - 2.0 * np.clip(np.log(income) - 10, -2, 2) + 7.0 * (employment == 2) + 5.0 * (employment == 5)
    )
    score = np.clip(96 - burden + 9 * rng.standard_normal(rows), 0, 100).astype(np.int64)
    chronic = rng.random(rows) < logistic(-1.3 + 0.09 * (72 - score) + 0.01 * (age - 50) + 0.25 * female)
    return score, chronic


def _choose(rng: np.random.Generator, scores: Floats) -> Ints:
    """One column per row with probability proportional to exp(score): the largest after Gumbel noise."""
    return np.asarray(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1), dtype=np.int64)


def logistic(score: Floats) -> Floats:
    """The probability with these log odds."""
    return 1 / (1 + np.exp(-score))
