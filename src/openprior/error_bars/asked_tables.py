"""Which tables errors are asked of, and how precisely: the workload's marginals and all that they imply, by columns.

It follows from the workload and the domain alone, so that anyone can see from a certificate that what was asked is what
is always asked. Of very many, some are drawn: which ones has nothing to do with data, so they stand for all.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from openprior.privacy.error_strata import MOST_FACTOR, ROW_STEPS, ErrorStrata
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = [
    "CONTRASTS",
    "MOST_CONTRASTS",
    "MOST_CONTRAST_CELLS",
    "MOST_GROUPS",
    "Pair",
    "contrasts_within",
    "factors_of",
    "implied_by_columns",
    "is_as_asked",
    "numbers_of_columns",
    "shares_of",
    "tables_by_columns",
]

Pair = tuple[Marginal, Marginal]
"""A marginal, and one with these columns and more whose counts are added up; twice the same if it is counted itself."""

CONTRASTS = 0
"""In place of a number of columns: contrasts, in standard deviations."""
MOST_CONTRASTS, MOST_CONTRAST_CELLS, _MOST_CONTRASTED = 600, 1_000_000, 3
"""So many tables of contrasts are looked at, with so many cells together, of so many columns each."""
MOST_GROUPS = 8
"""Of more columns, only the largest marginals are looked at."""
_SHARES, _OF_CONTRASTS = (1.0, 0.5, 0.35), 0.7
"""How precisely the largest marginals' errors are asked for, those of the next smaller ones, and of all others; and
those of contrasts."""
_FINE = 16
"""Whole factors are this fine."""
_MOST_CELLS, _MOST_TABLES, _FEWEST_TABLES = 4_000_000, 6_000, 200
"""Of one group at most; of all groups together; of one group, if there are very many groups."""
_MOST_LISTED = 500_000
"""Of more subsets of marginals, some are drawn without a list of all."""
_MOST_SUMMED = 100_000
"""Cells of a marginal whose counts are added up for each smaller one; those of a larger one are counted anew."""


def numbers_of_columns(marginals: Sequence[Marginal]) -> list[int]:
    """Of how many columns tables are looked at: 1, 2, … up to `MOST_GROUPS`, and the most that a marginal has."""
    widest = max(map(len, marginals))
    return sorted({*range(1, min(widest, MOST_GROUPS) + 1), widest})


def tables_by_columns(
    marginals: Sequence[Marginal], domain: Domain, rng: np.random.Generator
) -> dict[int, list[Pair]]:
    """By number of columns, smallest first: the marginals to look at, at least one of each."""
    groups = numbers_of_columns(marginals)
    most = _most(len(groups))
    return {k: _some(_implied(marginals, k, domain, most, rng), domain, most, rng) for k in groups}


def _most(groups: int) -> int:
    return max(_FEWEST_TABLES, _MOST_TABLES // groups)


def _listed(marginals: Sequence[Marginal], k: int) -> int:
    """How many subsets with k columns the marginals have, those that they share counted for each."""
    return sum(math.comb(len(m), k) for m in marginals)


def implied_by_columns(marginals: Sequence[Marginal]) -> dict[int, list[Marginal]]:
    """By number of columns, smallest first: all that the marginals imply; without the numbers of columns of which there
    are too many to list."""
    groups = numbers_of_columns(marginals)
    return {k: list(_subsets(marginals, k)) for k in groups if _listed(marginals, k) <= _MOST_LISTED}


def _subsets(marginals: Sequence[Marginal], k: int) -> dict[Marginal, Marginal]:
    """Every subset with k columns, with the first marginal that has it."""
    inside: dict[Marginal, Marginal] = {}
    for marginal in marginals:
        for subset in itertools.combinations(marginal, k):
            inside.setdefault(subset, marginal)
    return inside


def _implied(
    marginals: Sequence[Marginal], k: int, domain: Domain, most: int, rng: np.random.Generator
) -> list[Pair]:
    """With k columns: all that the marginals imply, or of very many so many, drawn at random, or a few fewer."""
    if _listed(marginals, k) <= _MOST_LISTED:
        inside = _subsets(marginals, k)
    else:
        inside = {}
        weights = np.array([float(Fraction(math.comb(len(m), k), _listed(marginals, k))) for m in marginals])
        for i in rng.choice(len(marginals), most, p=weights / weights.sum()):
            marginal = marginals[int(i)]
            places = np.sort(rng.choice(len(marginal), k, replace=False))
            inside.setdefault(tuple(marginal[int(p)] for p in places), marginal)
    return [(own, within if domain.size(within) <= _MOST_SUMMED else own) for own, within in inside.items()]


def _some(pairs: list[Pair], domain: Domain, most: int, rng: np.random.Generator) -> list[Pair]:
    """All, or as many as have not too many cells, drawn at random; at least one."""
    sizes = [domain.size(own) for own, _ in pairs]
    if sum(sizes) <= _MOST_CELLS and len(pairs) <= most:
        return pairs
    kept: list[int] = []
    left = _MOST_CELLS
    for i in rng.permutation(len(pairs))[:most]:
        if kept and sizes[i] > left:
            break
        kept.append(int(i))
        left -= sizes[i]
    return [pairs[i] for i in sorted(kept)]


def contrasts_within(marginals: Iterable[Marginal], domain: Domain) -> list[tuple[Marginal, int]]:
    """Every column within the groups that the others of its marginal make: the marginal, and which of its columns."""
    few = [own for own in marginals if len(own) <= _MOST_CONTRASTED]
    return [(own, axis) for own in few for axis, a in enumerate(own) if domain[a] > 1]


def shares_of(groups: int, *, contrasts: bool) -> list[float]:
    """Of the contrasts, if there are any, and of every group of marginals, the last being that of the largest."""
    shares = [_SHARES[min(back, len(_SHARES) - 1)] for back in range(groups)][::-1]
    return [_OF_CONTRASTS, *shares] if contrasts else shares


def factors_of(tables: Sequence[int], *, contrasts: bool) -> tuple[int, ...]:
    """What a group's errors are multiplied by, so that their means have noise in inverse proportion to the shares."""
    most, shares = max(tables), shares_of(len(tables) - contrasts, contrasts=contrasts)
    wanted = (round(_FINE * s * most / t) for s, t in zip(shares, tables, strict=True))
    return tuple(min(max(1, each), MOST_FACTOR) for each in wanted)


def is_as_asked(
    statistic: ErrorStrata, columns: Sequence[int], marginals: Sequence[Marginal], domain: Domain
) -> bool:
    """Whether a certificate's statistic is what is asked of this workload."""
    contrasts = columns[:1] == (CONTRASTS,)
    groups = numbers_of_columns(marginals)
    if list(columns[contrasts:]) != groups or len(statistic.tables) != len(columns):
        return False
    if statistic.steps != (ROW_STEPS,) * len(columns):
        return False
    whole, implied = True, list[Marginal]()
    for k, tables in zip(groups, statistic.tables[contrasts:], strict=True):
        least, most = 1, _most(len(groups))
        if _listed(marginals, k) <= _MOST_LISTED:
            own = _subsets(marginals, k)
            implied += own
            if len(own) <= most:
                most = len(own)
                least = most if sum(domain.size(m) for m in own) <= _MOST_CELLS else 1
        if not least <= tables <= most:
            return False
        whole = whole and (least == most or k > _MOST_CONTRASTED)
    if not _are_contrasts(statistic.tables[0] if contrasts else 0, implied, domain, whole=whole):
        return False
    return statistic.factors == factors_of(statistic.tables, contrasts=contrasts)


def _are_contrasts(tables: int, implied: Sequence[Marginal], domain: Domain, *, whole: bool) -> bool:
    """Whether so many tables of contrasts are asked of these marginals, or of some of them that were drawn."""
    if not whole:
        return tables <= MOST_CONTRASTS
    each = contrasts_within(implied, domain)
    if len(each) <= MOST_CONTRASTS and sum(domain.size(own) for own, _ in each) <= MOST_CONTRAST_CELLS:
        return tables == len(each)
    return 1 <= tables <= min(len(each), MOST_CONTRASTS)
