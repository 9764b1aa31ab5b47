"""What a schema does to a table, column by column: how much is clipped, becomes other or missing, or lies at the edge.

Three ways to ask. Of a *public* table: exact shares, and a few of the values that do not fit. Of a private one without
noise: NOT PRIVATE, shares and counts, no values. Of a private one for an ε that is charged like any other: the same
shares with noise, which may be kept. For that every row has one fate per column (`schema/fates.py`), which depends on
that row's value alone; each column's fates are a one-way marginal, and the columns share the budget in equal parts. No
table can fail to fit: what the schema would refuse is counted, too. Fates that a column's kind rules out are 0 without
looking, so their noise is left out of every sum.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.display import Sheet, Shown
from openprior.errors import OptionError
from openprior.evaluation.error_estimate import reach95
from openprior.given import finite_number, flag, shown
from openprior.privacy.ledger import Ledger
from openprior.privacy.session import Purpose, open_question
from openprior.privacy.statistics import Counts
from openprior.releases.certificate import Certificate, certify
from openprior.releases.view import counted
from openprior.schema.base import Schema, need_schema
from openprior.schema.fates import (
    FATES,
    FIRST,
    INSIDE,
    LAST,
    MISSING,
    OUTSIDE,
    Fate,
    effect,
    fates_only,
    outside_of,
)
from openprior.schema.reading_rules import Reading
from openprior.tables.convert import text
from openprior.tables.fate_codes import FateCoder
from openprior.tables.source import Source, open_source
from openprior.tables.unwrap import plain

__all__ = ["ColumnCheck", "SchemaCheck", "check_schema", "percent"]

NOTICE = (
    "NOT PRIVATE: exact shares of a private table, without noise; for your eyes only, do not publish or keep"
)
_EXAMPLES = 3
_NOTABLE = 0.01


@dataclass(frozen=True)
class ColumnCheck:
    """One column: the share of rows by what becomes of them."""

    name: str
    kind: str
    shares: Mapping[str, float]
    """By fate: inside, first and last (bin), below, above, not listed, unreadable, missing. They sum to 1, and may be
    below 0 with noise."""
    effects: Mapping[str, str]
    """What the schema makes of those that do not fit, and of missing values: clipped, other, missing, refused."""
    reach: float | None = None
    """With noise: each share is within this distance of the true one in 95 of 100 cases."""
    examples: tuple[str, ...] = ()
    """Values of a public table that do not fit."""

    @property
    def outside(self) -> float:
        """The share of rows whose value the column cannot hold as it is."""
        return sum(self.shares[FATES[fate]] for fate in OUTSIDE)

    @property
    def has_bins(self) -> bool:
        """Whether it has a first and a last bin."""
        return self.kind in ("integer", "real", "datetime")

    @property
    def outside_reach(self) -> float | None:
        """With noise: `outside` is within this distance of the truth in at least 95 of 100 cases.

        It adds k independent draws of one σ, whose sum has √k σ. The quantile of a sum of Laplace draws, in its own
        standard deviations, is below that of a single one (2.06 of two, 2.12 of one): √k times the reach covers it.
        """
        k = sum(FATES[fate] in self.effects for fate in OUTSIDE)
        return None if self.reach is None else math.sqrt(k) * self.reach

    @property
    def outside_words(self) -> str:
        """The share outside, with its noise where it has any."""
        reach = self.outside_reach
        return percent(self.outside) if reach is None else f"{percent(self.outside)[:-2]} ± {percent(reach)}"

    @property
    def at_the_ends(self) -> float:
        """The share of rows in the first or last bin, beside those outside."""
        return self.shares[FATES[FIRST]] + self.shares[FATES[LAST]]

    @property
    def words(self) -> str:
        """What becomes of the values that do not fit, and of missing ones."""
        told = [
            f"{percent(share)} {fate}: {self.effects[fate]}"
            for fate, share in self.shares.items()
            if self.effects.get(fate, fate) != fate and share > (self.reach or 0.0)
        ]
        seen = f" (such as {', '.join(map(repr, self.examples))})" if self.examples else ""
        return "; ".join(told) + seen

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "shares": dict(self.shares),
            "outside": self.outside,
            "effects": dict(self.effects),
            "reach": self.reach,
            "outside_reach": self.outside_reach,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, repr=False)
class SchemaCheck(Shown):
    """What a schema does to a table."""

    columns: tuple[ColumnCheck, ...]
    rows: float
    """How many rows; with noise where that is private."""
    notice: str | None
    """NOT PRIVATE, where it is."""
    certificate: Certificate | None = field(default=None, repr=False)
    """Of shares with noise."""

    def __getitem__(self, name: str) -> ColumnCheck:
        for column in self.columns:
            if isinstance(name, str) and column.name == name:
                return column
        raise OptionError(
            f"column {shown(name)} is not in the schema; it has {', '.join(c.name for c in self.columns)}"
        )

    @property
    def worst(self) -> tuple[ColumnCheck, ...]:
        """Those of which over one in a hundred rows does not fit, noise aside; the largest share first."""
        lost = [c for c in self.columns if c.outside - 2 * (c.outside_reach or 0.0) > _NOTABLE]
        return tuple(sorted(lost, key=lambda c: -c.outside))

    @property
    def verdict(self) -> str:
        """In a sentence."""
        if not self.worst:
            sure = "" if self.certificate is None else ", as far as the noise lets see"
            return f"every column holds at least {100 * (1 - _NOTABLE):g} % of its values as they are{sure}"
        named = ", ".join(f"{c.name} {c.outside_words}" for c in self.worst[:5])
        more = f" and {len(self.worst) - 5} more" if len(self.worst) > 5 else ""
        return f"not held as they are: {named}{more}; widen bounds or list values before you release"

    def sheet(self) -> Sheet:
        """One line per column."""
        rows = tuple(
            (
                c.name,
                c.kind,
                *(percent(c.shares[fate]) if c.has_bins else "" for fate in ("first", "last")),
                percent(c.shares["missing"]),
                c.outside_words,
                c.words,
            )
            for c in self.columns
        )
        headings = ("column", "kind", "first bin", "last bin", "missing", "outside", "what becomes of them")
        title = f"What the schema does to {self.rows:,.0f} rows"
        reach = max((c.reach or 0.0 for c in self.columns), default=0.0)
        noise = () if not reach else (f"Noise: each share is within {percent(reach)} in 95 of 100 cases.",)
        said = () if self.certificate is None else (self.certificate.statement,)
        warnings = () if self.notice is None else (self.notice,)
        return Sheet(title, headings, rows, (f"{self.verdict}.", *noise, *said), warnings)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        c = self.certificate
        return {
            "notice": self.notice,
            "rows": self.rows,
            "verdict": self.verdict,
            "columns": {column.name: column.as_dict() for column in self.columns},
            **({} if c is None else {"certificate": json.loads(c.to_json()), "statement": c.statement}),
        }


def check_schema(
    schema: Schema | str | Path,
    table: Any,
    *,
    private: bool = False,
    epsilon: float | None = None,
    delta: float = 0.0,
    relation: str = "replace-one",
    ledger: str | Path | os.PathLike[str] | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    acknowledge_refusals: bool = False,
) -> SchemaCheck:
    """What a schema does to a table.

    private      the table is private: exact shares and no values, NOT PRIVATE
    epsilon      the table is private and the shares come with noise, for (ε, δ) in all; they may be kept
    relation, ledger, dataset, seed, acknowledge_refusals   as for a release; with `epsilon` only
    """
    schema = need_schema(schema)
    flag("private", private)
    delta = finite_number("delta", delta)
    if epsilon is None:
        given = {"delta": delta != 0.0, "ledger": ledger is not None, "seed": seed is not None}
        for option, is_given in given.items():
            if is_given:
                raise OptionError(f"{option} without epsilon has no use here; give epsilon, or leave it out")
        return _exact(schema, open_source(table, schema), private)
    return _noisy(
        schema,
        table,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
        acknowledge_refusals=acknowledge_refusals,
    )


def _exact(schema: Schema, source: Source, private: bool) -> SchemaCheck:
    probing, fates = fates_only(schema)
    counts, rows = counted(source, probing, [(name,) for name in probing.names], private=private)
    shares = {name: counts[(fate.name,)] / rows for name, fate in fates.items()}
    examples = (
        {}
        if private
        else _examples(source, [fates[n] for n in fates if _outside(shares[n]) > 0], schema.reading)
    )
    columns = tuple(_checked(fates[name], shares[name], None, examples.get(name, ())) for name in fates)
    return SchemaCheck(columns, rows, NOTICE if private else None)


def _noisy(schema: Schema, table: Any, *, epsilon: float, **options: Any) -> SchemaCheck:
    probing, fates = fates_only(schema)
    marginals = [(name,) for name in probing.names]
    with open_question(
        table, probing, Purpose("schema check", {}), epsilon=epsilon, marginals=marginals, **options
    ) as session:
        curator = session.curator
        noise = "laplace" if curator.is_pure else "gaussian"
        shares = curator.shares([1.0] * len(fates))
        measured = {
            name: curator.measure(Counts((fate.name,)), min(share, curator.remaining), noise=noise)
            for (name, fate), share in zip(fates.items(), shares, strict=True)
        }
        counts = {name: np.where(_possible(fates[name]), m.values, 0.0) for name, m in measured.items()}
        # Under add-remove the number of rows is private: every column's fates sum to it.
        n = (
            float(curator.n)
            if curator.unit.n_is_public
            else max(1.0, float(np.mean([c.sum() for c in counts.values()])))
        )
        certificate = certify(session)
    columns = tuple(_checked(fates[name], counts[name] / n, reach95(m) / n) for name, m in measured.items())
    notice = None if certificate.is_private else certificate.noise
    return SchemaCheck(columns, n, notice, certificate)


def _checked(fate: Fate, shares: Any, reach: float | None, examples: tuple[str, ...] = ()) -> ColumnCheck:
    column = fate.of
    effects = {FATES[i]: effect(column, i) for i in (*outside_of(column), MISSING)}
    told = {name: float(share) for name, share in zip(FATES, shares, strict=True)}
    return ColumnCheck(column.name, column.kind, told, effects, reach, examples)


def _possible(fate: Fate) -> list[bool]:
    """Which fates values of this column can have at all, by its kind."""
    ends = (FIRST, LAST) if fate.has_bins else ()
    return [i in (INSIDE, *ends, *outside_of(fate.of), MISSING) for i in range(len(FATES))]


def _outside(shares: Any) -> float:
    return float(shares[list(OUTSIDE)].sum())


def _examples(source: Source, fates: list[Fate], reading: Reading) -> dict[str, tuple[str, ...]]:
    """A few values that do not fit, of a public table."""
    found: dict[str, list[str]] = {fate.reads: [] for fate in fates}
    coders = {fate.reads: FateCoder(fate, reading) for fate in fates}
    for batch in source.batches(list(found)) if found else ():
        for name, coder in coders.items():
            seen = found[name]
            if len(seen) < _EXAMPLES:
                array = batch.column(name)
                odd = np.isin(coder(array), OUTSIDE)
                words = text(plain(pc.filter(array, pa.array(odd)))).drop_null().unique()
                seen += [w for w in words.slice(0, _EXAMPLES).to_pylist() if w not in seen]
        if all(len(seen) >= _EXAMPLES for seen in found.values()):
            break
    return {name: tuple(seen[:_EXAMPLES]) for name, seen in found.items()}


def percent(share: float) -> str:
    """A share, which noise may have moved below 0."""
    return f"{100 * max(share, 0.0):.1f} %"
