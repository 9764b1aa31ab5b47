"""How far one table's distribution is from another's, in the two divergences that bounds on public rows ask for.

Proposition 4.3 of the PMW^Pub paper says how many public rows make the best mixture error small, from D₂(μ‖ν) and
D∞(μ‖ν): with g = μ/ν the ratio of private to public frequencies, e^D₂ = E_ν[g²] and e^D∞ = max g. On whole rows neither
can be read off two samples, as most rows of one do not occur in the other, where g would be infinite. So there are two
figures, each of which says what it is:

- *on marginals*, exact for the two tables as they stand. Adding rows up into cells brings no two distributions further
  apart (data processing), so the largest over all marginals is a lower bound on that of whole rows. A marginal with a
  cell that only the first table has is infinite, and counted apart.
- *on whole rows*, an estimate: boosted trees learn which table a row is from, and judge rows that they were not fitted
  to; the odds are g, scaled to a mean of 1 on the second table's rows. It is smooth, so always finite, and says nothing
  of rows that neither table has. Read it beside what two halves of the first table get, whose true value is 0.

Everything here is computed without noise: NOT PRIVATE, unless both tables are public.
"""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.display import Sheet, Shown
from openprior.errors import OptionError
from openprior.evaluation.propensity import judged_by_others
from openprior.given import finite_number, whole_number
from openprior.guidance.bounds import public_sample_size
from openprior.questions.workload import Marginal, WorkloadLike, all_marginals, workload_on
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.encode import Table, encode_table
from openprior.tables.same import same
from openprior.tables.source import open_source

__all__ = ["Divergence", "Divergences", "divergences"]

_MOST_ROWS = 50_000
"""Of each table that the trees see; drawn at random from larger ones."""
_FOLDS = 2


@dataclass(frozen=True)
class Divergence:
    """D₂ and D∞ of the first table from the second, in natural logarithms."""

    d2: float
    """log E_ν[g²]; infinite where the second table lacks what the first has."""
    d_inf: float
    """log max g."""

    def public_rows(self, queries: int, alpha: float, beta: float) -> int | None:
        """How many public rows Proposition 4.3 asks for at this distance; None if none are enough."""
        if not self.d_inf < 700:  # e^700 is about what a double holds
            return None
        largest = max(math.exp(self.d_inf), 1.0)
        square = min(max(math.exp(self.d2), 1.0), largest)
        return public_sample_size(
            queries=queries, alpha=alpha, beta=beta, largest_ratio=largest, mean_square_ratio=square
        )


@dataclass(frozen=True, repr=False)
class Divergences(Shown):
    """How far a first table, taken for private, is from a second, public one. NOT PRIVATE."""

    on_marginals: Divergence
    """Exact: the largest over the marginals that are finite. A lower bound for whole rows."""
    by_marginal: dict[Marginal, Divergence]
    """Of each marginal."""
    lacking: dict[Marginal, float]
    """Share of the first table's rows in cells that the second lacks, of the marginals that are infinite."""
    on_rows: Divergence
    """Estimated, through a classifier."""
    by_chance: Divergence
    """The same estimate between two halves of the first table, which are alike."""
    rows: tuple[int, int]
    """Of the first and the second table."""
    queries: int
    alpha: float
    beta: float

    def sheet(self) -> Sheet:
        """Both figures, and what they ask for."""
        shown = (
            ("on marginals, exact: a lower bound", self.on_marginals),
            ("on whole rows, estimated", self.on_rows),
            ("two halves of the first, estimated", self.by_chance),
        )
        rows = tuple((what, f"{d.d2:.3f}", f"{d.d_inf:.3f}", self._asked(d)) for what, d in shown)
        notes = [
            f"public rows: what makes the best mixture error at most {self.alpha:g} for {self.queries:,} queries, with "
            f"probability {1 - self.beta:g} (Proposition 4.3, worst case); the second table has {self.rows[1]:,}."
        ]
        notes.append(
            "On marginals they are those of the tables as they stand; sampling adds to what their populations have."
        )
        if self.lacking:
            worst = max(self.lacking, key=lambda m: self.lacking[m])
            notes.append(
                f"{len(self.lacking):,} of {len(self.by_marginal):,} marginals are infinite, as the second table lacks "
                f"cells of the first: with {100 * self.lacking[worst]:.2g} % of its rows in {' × '.join(worst)}."
            )
        return Sheet(
            "Divergence of the first table from the second",
            ("", "D₂", "D∞", "public rows"),
            rows,
            tuple(notes),
            ("NOT PRIVATE: computed without noise; publish it only if both tables are public.",),
        )

    def _asked(self, divergence: Divergence) -> str:
        asked = divergence.public_rows(self.queries, self.alpha, self.beta)
        return "none enough" if asked is None else f"{asked:,}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; infinite is null."""
        return {
            "private": False,
            "on_marginals": self._plain(self.on_marginals),
            "on_rows": self._plain(self.on_rows),
            "by_chance": self._plain(self.by_chance),
            "infinite_marginals": len(self.lacking),
            "marginals": [
                {"marginal": list(m), **self._plain(d), "lacking": self.lacking.get(m, 0.0)}
                for m, d in self.by_marginal.items()
            ],
            "rows": list(self.rows),
            "queries": self.queries,
            "alpha": self.alpha,
            "beta": self.beta,
        }

    def _plain(self, d: Divergence) -> dict[str, Any]:
        return {
            "d2": d.d2 if math.isfinite(d.d2) else None,
            "d_inf": d.d_inf if math.isfinite(d.d_inf) else None,
            "public_rows": d.public_rows(self.queries, self.alpha, self.beta),
        }


def divergences(
    first: Any,
    second: Any,
    *,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    alpha: float = 0.1,
    beta: float = 0.05,
    seed: int = 0,
    reading: Reading | None = None,
) -> Divergences:
    """D₂ and D∞ of a table from a public one: exact on marginals, estimated on whole rows. NOT PRIVATE.

    first      the table in the place of the private one, such as an earlier year of it; a public one, or what comes out
               must not leave your hands
    second     the public table
    schema     what the columns are; drafted from the second if not given
    workload   the marginals to compare; all 2-way marginals if not given
    alpha      the best mixture error that public rows should reach, for the number of them that is asked for
    beta       the probability of missing it
    seed       of the rows that the trees see
    reading    how text is written in the files, where no schema is given; a schema has it in it
    """
    alpha, beta = finite_number("alpha", alpha), finite_number("beta", beta)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value < 1:
            raise OptionError(f"{name} ({value:g}) must lie between 0 and 1")
    seed = whole_number("seed", seed, 0)
    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    one, other = (open_source(t, schema, reading=reading) for t in (first, second))
    if first is second or same(one, other, None if schema is None else schema.names, reading):
        raise OptionError("both tables are the same one, so every divergence is 0; give two")
    schema = schema or Schema.draft(other, reading=reading)
    work = workload_on(workload, schema.domain, default=all_marginals(2))
    ours, theirs = _first_table(one, schema), encode_table(other, schema)
    by_marginal, lacking = _on_marginals(ours, theirs, work.marginals)
    finite = [d for m, d in by_marginal.items() if m not in lacking]
    most = Divergence(
        max((d.d2 for d in finite), default=math.inf), max((d.d_inf for d in finite), default=math.inf)
    )
    on_rows, by_chance = _on_rows(ours, theirs, seed)
    return Divergences(
        on_marginals=most,
        by_marginal=by_marginal,
        lacking=lacking,
        on_rows=on_rows,
        by_chance=by_chance,
        rows=(ours.n, theirs.n),
        queries=sum(schema.domain.size(m) for m in work.marginals),
        alpha=alpha,
        beta=beta,
    )


def _first_table(source: Any, schema: Schema) -> Table:
    """All rows of the table in the place of the private one: if it is that, no refusal may quote a value of it."""
    return encode_table(
        source, dataclasses.replace(schema, person_id=None, max_rows_per_person=1), private=True
    )


def _on_marginals(
    ours: Table, theirs: Table, marginals: tuple[Marginal, ...]
) -> tuple[dict[Marginal, Divergence], dict[Marginal, float]]:
    """Each marginal's divergence, and where it is infinite the share of rows that make it so."""
    found, lacking = {}, {}
    counts = count_table(ours, marginals), count_table(theirs, marginals)
    for marginal in marginals:
        p, q = counts[0][marginal] / ours.n, counts[1][marginal] / theirs.n
        outside = float(p[q == 0].sum())
        if outside > 0:
            found[marginal], lacking[marginal] = Divergence(math.inf, math.inf), outside
            continue
        p, q = p[p > 0], q[p > 0]
        found[marginal] = Divergence(math.log(float((p * p / q).sum())), math.log(float((p / q).max())))
    return found, lacking


def _on_rows(ours: Table, theirs: Table, seed: int) -> tuple[Divergence, Divergence]:
    """The estimate, and that between two halves of the first table."""
    rng = np.random.default_rng(seed)
    first, second = (t.take(rng.permutation(t.n)[:_MOST_ROWS]) for t in (ours, theirs))
    half = first.n // 2
    if not half or second.n < _FOLDS:
        raise OptionError("a table has fewer than two rows; give larger ones")
    halves = first.take(np.arange(half)), first.take(np.arange(half, first.n))
    judged = judged_by_others([(first, second), halves], _FOLDS, rng)
    own, chance = (_of_odds(label == 1, p) for label, _, p in judged)
    return own, chance


def _of_odds(is_first: NDArray[np.bool_], probability: NDArray[np.float64]) -> Divergence:
    """From the probability that a row is of the first table: its odds are in proportion to g, and E_ν[g] = 1."""
    odds = probability / (1 - probability)
    ratio = odds / odds[~is_first].mean()
    return Divergence(math.log(float((ratio[~is_first] ** 2).mean())), math.log(float(ratio.max())))
