"""From a private table to a release: the way of the data, from end to end.

`release` opens the tables, reserves the budget, runs the mechanism through the curator, and hands over a `Release`:
synthetic rows, answers, the model and a certificate. Nothing is half-written: a release folder appears whole or
not at all. Reopening it needs no private data.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openprior.counting.cells import Cells
from openprior.errors import OpenPriorWarning, OptionError, ReleaseError, SourceError
from openprior.given import choice, flag, path_of, shown
from openprior.methods.base import Mechanism, Progress, PublicTable, pure_choices, quiet
from openprior.methods.tilt import Tilt
from openprior.models.base import Model
from openprior.privacy.calibrate import budget_rho, plain_number
from openprior.privacy.cautions import as_remark, caution, few_rows
from openprior.privacy.ledger import Ledger
from openprior.privacy.run import finish_run, journal_of
from openprior.privacy.session import Purpose, Session, open_session
from openprior.questions.workload import Workload, WorkloadPlan, all_marginals, workload_on
from openprior.releases.answers import labelled
from openprior.releases.certificate import Certificate, certify
from openprior.releases.folder import read, write
from openprior.releases.measurements import Measurements
from openprior.releases.view import View, view_of
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.decode import Decoder
from openprior.tables.encode import encode_table
from openprior.tables.same import open_apart
from openprior.tables.table import Table
from openprior.whole import appearing, fresh, sweep

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Release", "open_release", "release"]

FORMATS = ("parquet", "csv")
"""Of the synthetic rows."""


class Release:
    """What is handed over. Everything in it is differentially private; none of it needs the private table."""

    def __init__(
        self,
        *,
        synthetic: "pa.Table",
        model: Model,
        certificate: Certificate,
        schema: Schema,
        workload: Workload,
        measurements: Measurements,
        public: View | None = None,
        codes: Table | None = None,
    ) -> None:
        self._codes = codes
        self.synthetic = synthetic
        """Synthetic rows with the original labels and types."""
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

    @property
    def codes(self) -> Table:
        """The synthetic rows as codes of the schema."""
        if self._codes is None:
            self._codes = encode_table(self.synthetic, self.schema.plain)
        return self._codes

    def answers(self, columns: Iterable[str]) -> "pa.Table":
        """The estimated counts of a marginal, one row per cell, with labels, and 95 % intervals where they exist."""
        return labelled(self.model, self.schema, self.measurements, columns)

    def save(self, path: str | Path, *, format: str = "parquet") -> Path:
        """Write the release folder, whole or not at all."""
        choice("format", format, *FORMATS)
        folder = fresh(path)
        with appearing(folder) as draft:
            write(self, draft, format)
        return folder

    def __repr__(self) -> str:
        c = self.certificate
        rows = self.synthetic.num_rows
        return f"<Release of {rows} rows by {c.mechanism}; ε = {c.epsilon:g}, δ = {c.delta:g}, {c.noise}>"


def release(
    private: Any,
    public: Any = None,
    *,
    schema: Schema | None = None,
    workload: WorkloadPlan | Workload | None = None,
    epsilon: float,
    delta: float,
    mechanism: Mechanism | None = None,
    ledger: str | Path | Ledger | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
    relation: str = "replace-one",
    dataset: str | None = None,
    format: str = "parquet",
    resume: bool = False,
    show_private: bool = False,
    acknowledge_refusals: bool = False,
    reading: Reading | None = None,
    progress: Progress | None = None,
) -> Release:
    """Release statistics and synthetic rows about `private` under (ε, δ)-differential privacy.

    private, public   anything that streams Arrow, a path (CSV, Parquet, JSON lines, a folder), or a DuckDB relation
    schema            what the columns are; drafted from the public table if not given
    workload          what should be right; all 3-way marginals if not given
    mechanism         how; `Tilt()` if not given; see `mechanisms()`
    ledger            file that keeps the dataset's budget across releases and processes; in memory if not given
    out               folder to write; with a ledger too, a broken run can be resumed without paying twice (`resume`)
    seed              given: an experiment with repeatable noise, NOT PRIVATE; not given: secure noise
    relation          "replace-one" (the number of rows is public) or "add-remove"
    dataset           the private table's name in the ledger; its file's name if not given
    show_private      let error messages quote values of the private table
    acknowledge_refusals   go on after the ledger has counted several refusals of this table for what is in it
    reading           how text is written in the files, where no schema is given; a schema has it in it
    """
    epsilon, delta = plain_number("epsilon", epsilon), plain_number("delta", delta)
    budget_rho(epsilon, delta)  # refuses what is none, before any table is opened
    choice("format", format, *FORMATS)
    resume = flag("resume", resume)
    chosen: Mechanism = Tilt() if mechanism is None else mechanism
    if not isinstance(chosen, Mechanism):
        raise OptionError(f"mechanism {shown(chosen)} is not one; give an instance such as openprior.Tilt()")
    if progress is not None and not callable(progress):
        raise OptionError(f"progress {shown(progress)} cannot be called; give a function (done, of, what)")
    if delta == 0 and not chosen.is_pure:
        raise OptionError(
            f"delta = 0 asks for pure ε-DP, which mechanism '{chosen.name}' does not give as set here; use "
            f"{pure_choices()}, or a delta well below 1/n"
        )
    if resume and (out is None or ledger is None):
        raise OptionError("only a run with an output folder and a ledger can be resumed; give both")
    if resume and out is not None and ledger is not None:
        folder = path_of("the output folder", out, error=ReleaseError)
        if _is_written(folder):
            return _finished(folder, ledger)
    target = None if out is None else fresh(out)

    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    private, others = open_apart(private, [] if public is None else [public], schema, reading=reading)
    public_source = others[0] if others else None
    schema = _schema(schema, public_source, reading)
    public_table = None if public_source is None else encode_table(public_source, schema)
    _check_public(chosen, public_table)
    work = _workload(workload, schema)
    more = {"workload": _digest(work), "public": None if public_table is None else _content(public_table)}
    purpose = Purpose(chosen.name, chosen.options, more)
    with open_session(
        private,
        schema,
        purpose,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        marginals=work.marginals,
        on_rows=partial(_check_rows, delta=delta),
        ledger=ledger,
        dataset=dataset,
        out=target,
        resume=resume,
        seed=seed,
        show_private=show_private,
        acknowledge_refusals=acknowledge_refusals,
        publics=others,
    ) as session:
        if target is not None and ledger is not None:
            sweep(target)
        model, codes, synthetic = _make(session, chosen, public_table, public_source, work, progress)
        small = few_rows(session.curator.n if session.unit.n_is_public else synthetic.num_rows)
        if small is not None:
            session.curator.remark(as_remark(small))
        result = Release(
            synthetic=synthetic,
            model=model,
            certificate=certify(session),
            schema=schema,
            workload=work,
            measurements=Measurements(schema.full_domain, session.account.measurements),
            public=None if public_table is None else view_of(public_table, codes, schema),
            codes=codes,
        )
        if target is not None:
            with appearing(target) as draft:
                write(result, draft, format)
    if not session.unit.n_is_public:  # else it was said before the first charge
        caution(small)
    return result


def open_release(path: str | Path) -> Release:
    """Open a release folder, which must be just as it was written; needs no private data."""
    return Release(**read(path_of("a release folder", path, error=ReleaseError)))


# Before the budget is touched.


def _schema(schema: Schema | None, public: Any, reading: Reading) -> Schema:
    if schema is not None:
        return schema
    if public is None:
        raise OptionError("there is no schema, and no public table to draft one from; give one of them")
    return Schema.draft(public, reading=reading)


def _workload(workload: Any, schema: Schema) -> Workload:
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    Cells(schema.domain, work.marginals)
    return work


def _check_public(mechanism: Mechanism, public: Table | None) -> None:
    if mechanism.public_table is PublicTable.NEEDED:
        mechanism.need_public(public)
    if public is not None and public.n < 2:
        raise OptionError("the public table has only one row; a prior needs at least two")


def _check_rows(n: int, delta: float) -> None:
    if n == 0:
        raise SourceError("the private table is empty; there is nothing to release")
    if n < 2:
        raise OptionError(
            "the private table has only one row; there is nothing that could be released about it"
        )
    if delta > 1 / n:
        warnings.warn(
            f"delta = {delta:g} is above 1/n: some person's row could be published outright at this delta; "
            "choose it well below 1/n",
            OpenPriorWarning,
            stacklevel=3,
        )
    caution(few_rows(n))


def _digest(work: Workload) -> str:
    return hashlib.sha256(json.dumps([work.marginals, work.weights]).encode()).hexdigest()


def _content(public: Table) -> str:
    """A digest of the public rows as the schema reads them, in their order: the same whatever file they came in."""
    digest = hashlib.sha256(json.dumps([public.domain.sizes(), public.n]).encode())
    for column in public.columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _is_written(out: Path) -> bool:
    return out.is_dir() and journal_of(out.absolute()).exists()


def _finished(out: Path, ledger: str | Path | Ledger) -> Release:
    """The release of a run that was stopped between writing its folder and closing; reads no private row."""
    opened = open_release(out)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    finish_run(book, out.absolute(), opened.certificate.run)
    return opened


# Through the curator, and after it.


def _make(
    session: Session,
    mechanism: Mechanism,
    public: Table | None,
    public_source: Any,
    work: Workload,
    progress: Progress | None,
) -> tuple[Model, Table, "pa.Table"]:
    """The model, and its rows as codes and as values."""
    streams = np.random.SeedSequence([session.public_seed, 2]).spawn(2)
    fit, draw = (np.random.default_rng(s) for s in streams)
    model = mechanism.run(session.curator, public, work, fit, progress or quiet)
    codes = model.sample(max(1, round(model.total)), draw)
    return model, codes, Decoder.fit(session.schema, public_source, rng=draw).decode(codes, draw)
