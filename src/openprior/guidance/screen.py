"""Which of several public tables is closest to the private one, for a small ε that is charged like any other.

Two ways to tell. By *distance*: the mean L1 distance (0 to 2) between the shares of a public table and the private
one's over all one-way (or k-way) marginals; one person moves it by 2Δ/n. It says how wrong the table is as it stands.
By *mixture*: the best mixture error, the largest error that is left when the public rows are reweighted as well as
can be; one person moves it by Δ/n. It says what reweighting can still repair, so a table with the right rows in the
wrong proportions does well. The candidates share ε in equal parts.

Codes cannot tell what the schema did to make them: a column that the schema clips to one value is close to any table.
So a fifth of the budget first asks what falls outside the schema: the column and the reason with the most rows are
selected and these rows counted (`schema/fates.py` has the reasons), and the verdict says it.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from openprior.counting.local import count_table
from openprior.display import Sheet, Shown, how_many
from openprior.errors import OptionError
from openprior.evaluation.error_estimate import reach95
from openprior.given import choice
from openprior.guidance.candidates import by_name, candidate_tables
from openprior.guidance.outside import Outside, ask_outside
from openprior.privacy.curator import Curator
from openprior.privacy.error_statistics import BestMixtureError, ScoreValue
from openprior.privacy.ledger import Ledger
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import L1Score, SumScore
from openprior.privacy.session import Purpose, open_question
from openprior.privacy.statistics import Total
from openprior.privacy.unit import Relation
from openprior.questions.workload import Workload, all_marginals
from openprior.releases.certificate import Certificate, certify
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.fates import with_fates
from openprior.schema.reading_rules import Reading
from openprior.tables.encode import Table, encode_table
from openprior.tables.same import open_apart
from openprior.tables.source import Source

__all__ = ["Screened", "Screening", "screen"]

BY = ("distance", "mixture")
_TOTAL = 0.1
"""Share of the budget that measures the number of rows, where it is private."""


@dataclass(frozen=True)
class Screened:
    """One public table."""

    name: str
    rows: int
    error: float
    """With noise: its distance, or its best mixture error."""
    low: float
    high: float
    """95 % interval of the true one."""
    by_chance: float | None
    """The distance that a sample of so many rows from the very same population would have; None for mixtures."""
    verdict: str


@dataclass(frozen=True, repr=False)
class Screening(Shown):
    """All candidates, the best first."""

    ranked: tuple[Screened, ...]
    by: str
    certificate: Certificate
    outside: Outside | None
    """What the schema cannot hold of the private table; None where it refuses all of that anyway."""

    @property
    def best(self) -> Screened:
        """The first."""
        return self.ranked[0]

    @property
    def loss(self) -> str | None:
        """What the schema cannot hold, if that is much: to be read before anything else."""
        if self.outside is not None and self.outside.is_large:
            return f"Before any table is taken: {self.outside.words}."
        return None

    @property
    def verdict(self) -> str:
        """In words: which one, and how sure that is; a loss of the schema's comes before it."""
        return self.choice if self.loss is None else f"{self.loss} {self.choice}"

    @property
    def choice(self) -> str:
        """Which one, and how sure that is."""
        if len(self.ranked) == 1:
            return f"{self.best.name}: {self.best.verdict}"
        close = [s.name for s in self.ranked[1:] if s.low <= self.best.high]
        if not close:
            return f"Take {self.best.name}: {self.best.verdict}"
        return (
            f"{self.best.name} comes out best, but at this ε it cannot be told apart from {', '.join(close)}; "
            f"prefer the larger or newer of them. {self.best.name}: {self.best.verdict}"
        )

    def sheet(self) -> Sheet:
        """The candidates, the best first."""
        c = self.certificate
        rows = tuple(
            (s.name, f"{s.rows:,}", f"{s.error:.4f}", f"{s.low:.4f}", f"{s.high:.4f}", s.verdict)
            for s in self.ranked
        )
        headings = ("public table", "rows", self.by, "from", "to", "verdict")
        warnings = tuple(filter(None, ("" if c.is_private else c.noise, self.loss)))
        title = f"Screening of {how_many(len(rows), 'public table')} by {self.by}, ε = {c.epsilon:g}, δ = {c.delta:g}"
        return Sheet(title, headings, rows, (self.choice,), warnings)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        c = self.certificate
        return {
            "by": self.by,
            "ranked": [vars(s) for s in self.ranked],
            "verdict": self.verdict,
            "outside": None if self.outside is None else {**vars(self.outside), "words": self.outside.words},
            "epsilon": c.epsilon,
            "delta": c.delta,
            "noise": c.noise,
            "statement": c.statement,
        }


def screen(
    private: Any,
    candidates: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    schema: Schema | str | Path | None = None,
    by: str = "distance",
    marginals: int = 1,
    relation: str = "replace-one",
    ledger: str | Path | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    acknowledge_refusals: bool = False,
    reading: Reading | None = None,
) -> Screening:
    """Rank public tables by how close they are to the private one, for (ε, δ) in all.

    candidates   a list of public tables, these by name in a mapping, or one table; paths as well
    schema       what the columns are; drafted from the first candidate if not given
    by           "distance" of the table as it stands, or "mixture": what reweighting its rows cannot repair
    marginals    compare all marginals of so many columns
    relation     "replace-one" (the number of rows is public), or "add-remove": a tenth of ε measures it first
    ledger       file that keeps the dataset's budget; `dataset` is the table's name in it
    seed         given: repeatable noise for an experiment, NOT PRIVATE
    acknowledge_refusals   go on after the ledger has counted several refusals of this table for what is in it
    reading      how text is written in the files, where no schema is given; a schema has it in it
    """
    choice("by", by, *BY)
    if by == "mixture" and relation != Relation.REPLACE_ONE:
        raise OptionError(
            "the best mixture error is a share of n, which is private under add-remove; use by='distance'"
        )
    private, publics, tables = _encoded(private, candidates, schema, reading)
    schema = tables.schema
    work = all_marginals(marginals).on(schema.domain)
    wider, fates = with_fates(schema)
    with open_question(
        private,
        wider,
        Purpose("screening", {"by": by, "marginals": marginals, "candidates": len(tables.rows)}),
        epsilon=epsilon,
        delta=delta,
        marginals=(*work.marginals, *((fate.name,) for fate in fates.values())),
        relation=relation,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
        acknowledge_refusals=acknowledge_refusals,
        publics=publics,
    ) as session:
        curator = session.curator
        n = float(curator.n) if curator.unit.n_is_public else _noisy_total(curator)
        outside = ask_outside(curator, fates, n, _noise(curator))
        screened = []
        for (name, table), share in zip(
            tables.rows.items(), curator.shares([1.0] * len(tables.rows)), strict=True
        ):
            measured = _ask(curator, table, work, by, min(share, curator.remaining), n)
            judged = _judged(name, table, measured, n if by == "distance" else 1.0, by, work, n)
            screened.append(_lossy(judged, outside) if outside is not None and outside.is_large else judged)
        certificate = certify(session)
    return Screening(tuple(sorted(screened, key=lambda s: s.error)), by, certificate, outside)


@dataclass(frozen=True)
class _Candidates:
    schema: Schema
    rows: dict[str, Table]


def _encoded(
    private: Any,
    candidates: Any,
    schema: Schema | str | Path | None,
    reading: Reading | None,
) -> tuple[Source, list[Source], _Candidates]:
    """The private table and the public ones, opened, and these as codes, by name."""
    schema = None if schema is None else need_schema(schema)
    tables = candidate_tables(candidates)
    reading = reading_of(schema, reading)
    source, publics = open_apart(private, tables, schema, reading=reading)
    sources = by_name(candidates, publics)
    schema = schema or Schema.draft(publics[0], reading=reading)
    rows = {name: encode_table(public, schema) for name, public in sources.items()}
    return source, publics, _Candidates(schema, rows)


def _noise(curator: Curator) -> str:
    return "laplace" if curator.is_pure else "gaussian"


def _noisy_total(curator: Curator) -> float:
    share, _ = curator.shares([_TOTAL, 1 - _TOTAL])
    return max(1.0, float(curator.measure(Total(), share, noise=_noise(curator)).values[0]))


def _lossy(screened: Screened, outside: Outside) -> Screened:
    """A table cannot be called close where the schema hides how far it is."""
    return replace(
        screened,
        verdict=f"cannot be judged yet: its distance leaves out what the schema loses of '{outside.column}'",
    )


def _ask(curator: Curator, table: Table, work: Workload, by: str, rho: float, n: float) -> Measurement:
    """Its error, in rows for a distance and as a share for a mixture."""
    noise = _noise(curator)
    if by == "mixture":
        return curator.measure(BestMixtureError(table.unique()[0], work.marginals), rho, noise=noise)
    counts, weight = count_table(table, work.marginals), 1 / len(work)
    scale = n / table.n
    scaled = {m: np.asarray(c * scale, dtype=np.float64) for m, c in counts.items()}
    parts = tuple(L1Score(m, ((1.0, scaled[m]),), weight=weight) for m in work.marginals)
    return curator.measure(ScoreValue.of(SumScore(parts)), rho, noise=noise)


def _judged(
    name: str, table: Table, measured: Measurement, scale: float, by: str, work: Workload, n: float
) -> Screened:
    error, reach = float(measured.values[0]) / scale, reach95(measured) / scale
    most = 2.0 if by == "distance" else 1.0
    low, high = (min(max(v, 0.0), most) for v in (error - reach, error + reach))
    chance = _by_chance(table, work, n) if by == "distance" else None
    return Screened(name, table.n, error, low, high, chance, _words(by, error, reach, chance))


def _by_chance(table: Table, work: Workload, n: float) -> float:
    """The expected distance of two samples of n and m rows from one population with the public table's shares.

    A share's difference is about normal with variance p(1 − p)(1/n + 1/m), so its mean size is √(2/π) of the root.
    """
    spread = math.sqrt(2 / math.pi * (1 / n + 1 / table.n))
    shares = (c / table.n for c in count_table(table, work.marginals).values())
    return float(np.mean([np.sqrt(p * (1 - p)).sum() for p in shares])) * spread


def _words(by: str, error: float, reach: float, chance: float | None) -> str:
    """What the number means for a release."""
    if reach > 0.2:
        return "the noise at this ε hides the answer; raise ε"
    if chance is not None and error <= 1.5 * chance + reach:
        return "as close as another sample of the same population: use it, with any method"
    near, related = (0.05, 0.25) if by == "distance" else (0.01, 0.05)
    if error <= near:
        return "close: use it"
    if error <= related:
        return "related but shifted: use it with tilt, which overrules it where it is wrong"
    return "far: only tilt or jam-pgm should see it, and it may not help"
