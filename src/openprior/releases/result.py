"""What is handed over: synthetic rows, answers, the model and a certificate, in memory or in a folder.

Everything here is post-processing of what a mechanism measured: it costs nothing, and needs no private data.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openprior.display import Sheet, Shown, how_many, listed
from openprior.error_bars.bars import ErrorBars
from openprior.errors import ReleaseError
from openprior.given import choice, path_of, whole_number
from openprior.models.base import Model
from openprior.questions.workload import Marginal, Workload
from openprior.releases.answers import labelled, numbers_of
from openprior.releases.answers_file import all_answers
from openprior.releases.certificate import Certificate
from openprior.releases.estimates import estimated
from openprior.releases.folder import read, write
from openprior.releases.frames import pandas_frame, polars_frame
from openprior.releases.measurements import Measurements
from openprior.releases.more_rows import draw_rows
from openprior.releases.quantities import Asked
from openprior.releases.replicated_rows import replicate_rows, spread_of
from openprior.releases.row_parts import all_rows, column_values, first_rows, rows_in
from openprior.releases.table_files import FORMATS, check_format
from openprior.releases.view import RowCounts, View
from openprior.releases.which_answers import answers_written
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table
from openprior.tables.table import Table
from openprior.whole import appearing, fresh

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

__all__ = ["Release", "open_release"]

_WIDE = 12
"""Columns of the synthetic rows that a notebook shows."""


class Release(Shown):
    """What is handed over. Everything in it is differentially private; none of it needs the private table."""

    def __init__(
        self,
        *,
        synthetic: "pa.Table | pads.Dataset",
        model: Model,
        certificate: Certificate,
        schema: Schema,
        workload: Workload,
        measurements: Measurements,
        public: View | None = None,
        error_bars: ErrorBars | None = None,
        codes: Table | None = None,
        counts: RowCounts | None = None,
        seconds: float | None = None,
    ) -> None:
        self._codes, self._counts = codes, counts
        self.synthetic = synthetic
        """Synthetic rows with the original labels and types; a dataset over their files where those are in parts."""
        self.model = model
        """The distribution behind them."""
        self.certificate = certificate
        """The proof of what it cost."""
        self.schema = schema
        """What the columns are."""
        self.workload = workload
        """What was asked for."""
        self.measurements = measurements
        """Every noisy number that was measured."""
        self.public = public
        """What the public table says beside them, if there was one."""
        self.error_bars = error_bars
        """How wrong its answers are, where that was measured."""
        self.seconds = seconds
        """How long it took, where it was made in this process; depends on the private rows, so it is never written."""

    @cached_property
    def row_count(self) -> int:
        """How many synthetic rows there are."""
        if self._counts is not None:
            return self._counts.rows
        return rows_in(self.synthetic)

    @property
    def counts(self) -> RowCounts:
        """How often the synthetic rows have each value of each column."""
        if self._counts is None:
            columns: list[Marginal] = [(name,) for name in self.schema.names]
            rows = self.synthetic if self._codes is None else self._codes
            self._counts = RowCounts.of(rows, self.schema, columns)
        return self._counts

    @property
    def codes(self) -> Table:
        """The synthetic rows as codes of the schema, all in memory."""
        if self._codes is None:
            self._codes = encode_table(self.synthetic, self.schema.plain)
        return self._codes

    def answers(self, columns: Iterable[str] | None = None) -> "pa.Table":
        """The estimated counts of any marginal, one row per cell, with labels, and 95 % intervals where they exist.

        `columns` are names in any order, also as one text, `"age,sex"`; a level of a hierarchy may stand for its
        column. Without them, all answers of the release in one table: those to its workload, with one column per
        attribute (null where a marginal lacks it), and those to the queries that were measured.
        """
        if columns is None:
            return all_answers(
                self.model, self.schema, self.measurements, self.workload.marginals, self.error_bars
            )
        return labelled(self.model, self.schema, self.measurements, columns, self.error_bars)

    def estimate(
        self,
        what: str,
        of: str | Sequence[str] | None = None,
        *,
        by: Iterable[str] | str = (),
        where: Mapping[str, Any] | None = None,
        value: Any = None,
        q: float | None = None,
        compare: str | None = None,
        against: Mapping[str, Any] | None = None,
    ) -> "pa.Table":
        """Any quantity, by group, with a 95 % interval: one row per group.

        what     "count"; "share" of `of` having `value` (of each of its values, if none is given); "mean", "sum",
                 "median", or "quantile" `q` of a column of numbers; "ratio" of the sums of two columns
        of       the column, or two for a ratio
        by       groups: columns or levels, also as one text, "sex,region"
        where    conditions, as in `rows`
        compare  "difference" or "ratio": every group beside the one that `against` names, such as {"sex": "F"}, or
                 the first

        Missing and other values count in shares, and are left out of numbers. Inside bins, numbers are those of
        released rows. Intervals rest on the measured errors (`basis` "calibrated"): on average over groups of about
        this size, 95 in 100 hold the private table's own figure. Counts that were measured have the interval of that
        ("measured"); a number of rows that is public is "exact". There is no interval where the columns are no part of
        a marginal of the workload, and no figure where not a row is expected; `openprior.no_interval` in the
        table's metadata says why.
        """
        asked = Asked(
            self.model,
            self.schema,
            self.error_bars,
            self.certificate.rows,
            self._is_exact,
            lambda: self.codes,
            lambda name: column_values(self.synthetic, name),
            lambda marginal: numbers_of(self.model, self.measurements, [marginal], self.error_bars)[0],
        )
        return estimated(
            asked, what, of, by=by, where=where, value=value, q=q, compare=compare, against=against
        )

    @property
    def _is_exact(self) -> bool:
        return self.model.noise_alone(self.workload.marginals[0]) is not None

    def rows(
        self, n: int | None = None, where: Mapping[str, Any] | None = None, seed: int | None = None
    ) -> "pa.Table":
        """More rows, fewer, or rows with given values, with labels and types; the released rows if nothing is asked.

        n       how many; with `where`, as many as the release expects there if not given
        where   labels by column or level, such as {"sex": "F", "age": ["[18, 30)", 45]}: one or several; a number or
                a date stands for the bin it lies in, None for missing
        seed    for the same rows again; fresh ones if not given

        Post-processing of the release: it costs nothing and knows no more than the released model. Rows are drawn from
        the model, restricted to what is asked; a model that cannot be restricted has its released rows filtered. The
        table's metadata say which (`openprior`). Inside a bin, values are those of released rows.
        """
        return draw_rows(
            self.model, self.schema, self.synthetic, lambda: self.codes, n=n, where=where, seed=seed
        )

    def replicates(self, k: int = 20, seed: int | None = None) -> "list[pa.Table]":
        """`k` synthetic tables that differ as the release is uncertain, for analyses of one's own: make the same of
        each, and put the results together with `op.combine`. Needs error bars; `seed`: for the same tables again.
        """
        bars = self.error_bars
        if bars is None or bars.says_nothing:
            if self._is_exact:
                remedy = "release with a method whose answers are not exact"
            else:
                remedy = (
                    "release with error_bars, and epsilon enough for them"
                    if bars is None
                    else "release with a larger epsilon"
                )
            raise ReleaseError(
                f"this release has no error bars, so nobody knows how far replicates should differ; {remedy}"
            )
        k = whole_number("k", k, 2, 1000)
        rng = np.random.default_rng(None if seed is None else whole_number("seed", seed, 0))
        rows, spread = (
            all_rows(self.synthetic),
            spread_of(bars, self.codes, self.workload.marginals, rng),
        )
        return [rows.take(replicate_rows(spread, self.codes, stream)) for stream in rng.spawn(k)]

    def to_pandas(self) -> Any:
        """The synthetic rows as a pandas DataFrame; what may be missing has a nullable type, and dates are dates."""
        return pandas_frame(all_rows(self.synthetic), self.schema)

    def to_polars(self) -> Any:
        """The synthetic rows as a Polars DataFrame."""
        return polars_frame(all_rows(self.synthetic))

    def save(self, path: str | Path, *, format: str = "parquet", answers: str | None = None) -> Path:
        """Write the release folder, whole or not at all; `format` is that of its tables, parquet or csv, and `answers`
        says which of them are written, as in `op.release`."""
        check_format(choice("format", format, *FORMATS), self.schema)
        written = answers_written(answers, self.workload)
        folder = fresh(path)
        with appearing(folder) as draft:
            write(self, draft, format, written)
        return folder

    def sheet(self) -> Sheet:
        """What it is, what it cost, and what is in it."""
        c = self.certificate
        rows = [
            ("rows", f"{self.row_count:,}"),
            ("columns", f"{len(self.schema.names):,}: {listed(self.schema.names, 12)}"),
            ("mechanism", c.mechanism),
            ("ε, δ", f"{c.epsilon:g}, {c.delta:g}"),
            ("asked for", f"the counts of {how_many(len(self.workload), 'marginal')}"),
        ]
        if self.public is not None:
            name = c.description.public
            rows.append(("public table", f"{name + ', ' if name else ''}{self.public.rows:,} rows"))
        rows += [(name, text) for name, text in c.description.to_dict().items() if text and name == "contact"]
        name = c.description.title or ("" if c.dataset == "table" else c.dataset)
        title = f"Release of {name}" if name else "Release"
        warnings = () if c.is_private else (c.noise,)
        return Sheet(title, ("", ""), tuple(rows), (c.statement, *c.remarks), warnings)

    def _repr_html_(self) -> str:
        first = first_rows(self.synthetic, 5).to_pylist()
        names = self.schema.names
        shown = tuple(tuple("" if row[a] is None else str(row[a]) for a in names[:_WIDE]) for row in first)
        more = f"… and {len(names) - _WIDE} more columns" if len(names) > _WIDE else ""
        rows = Sheet("The first synthetic rows", tuple(names[:_WIDE]), shown, (more,) if more else ())
        return super()._repr_html_() + rows.html()


def open_release(path: str | Path) -> Release:
    """Open a release folder, which must be just as it was written; needs no private data."""
    return Release(**read(path_of("a release folder", path, error=ReleaseError)))


# Before the budget is touched.
