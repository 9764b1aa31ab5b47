"""From a private table to a release: the way of the data, from end to end.

`release` opens the tables, reserves the budget, runs the mechanism through the curator, and hands over a `Release`:
synthetic rows, answers, the model and a certificate. Nothing is half-written: a release folder appears whole or
not at all. Reopening it needs no private data.
"""

import hashlib
import json
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from openprior.compiling.ahead import compile_ahead
from openprior.counting.cells import Cells
from openprior.counting.one_thread import blas_on_one_thread
from openprior.errors import OpenPriorWarning, OptionError, ReleaseError, SourceError
from openprior.given import choice, flag, path_of, text_of, whole_number
from openprior.methods.base import Mechanism, PublicTable, pure_choices
from openprior.methods.mechanism_text import MechanismLike, need_mechanism
from openprior.methods.tilt import Tilt
from openprior.privacy.calibrate import budget_rho, plain_number
from openprior.privacy.cautions import as_remark, caution, few_rows
from openprior.privacy.ledger import Ledger
from openprior.privacy.run import finish_run, journal_of
from openprior.privacy.session import Purpose, Session, open_session, request_of
from openprior.privacy.unit import Unit
from openprior.progress import phase, telling
from openprior.progress_shown import ShowProgress, watched
from openprior.questions.workload import Workload, WorkloadLike, all_marginals, need_workload, workload_on
from openprior.releases.certificate import certify
from openprior.releases.description import Description, described_as
from openprior.releases.drawn_rows import drawn_rows, parts_of
from openprior.releases.error_step import LEAST_SHARE, MOST_SHARE, bars_of, share_held_back
from openprior.releases.folder import write
from openprior.releases.measurements import Measurements
from openprior.releases.noticed import noticed
from openprior.releases.public_prior import PriorLike, PublicPrior, need_prior
from openprior.releases.result import Release, open_release
from openprior.releases.table_files import FORMATS, check_format
from openprior.releases.view import RowCounts, View, view_of
from openprior.releases.which_answers import ANSWERS, answers_written
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.decode import Decoder
from openprior.tables.encode import encode_table
from openprior.tables.same import open_apart
from openprior.tables.table import Table, content_of
from openprior.whole import appearing, fresh, sweep

__all__ = ["release"]


@watched
def release(
    private: Any,
    public: Any = None,
    *,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    epsilon: float,
    delta: float,
    mechanism: MechanismLike | None = None,
    ledger: str | Path | Ledger | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
    relation: str = "replace-one",
    dataset: str | None = None,
    format: str = "parquet",
    answers: str | None = None,
    title: str | None = None,
    about: str | None = None,
    contact: str | None = None,
    resume: bool = False,
    show_private: bool = False,
    acknowledge_refusals: bool = False,
    prior: PriorLike | None = None,
    reading: Reading | None = None,
    error_bars: float | None = None,
    progress: ShowProgress = None,
) -> Release:
    """Release statistics and synthetic rows about `private` under (ε, δ)-differential privacy.

    private, public   anything that streams Arrow (pandas, Polars, …), a DuckDB relation, a dict of columns, a list of
                      dicts, a structured array, a path (CSV, Parquet, a folder of them, Excel, SPSS, SAS, Stata), or
                      the address of a table in a database
    schema            what the columns are, or the path of its file; drafted from the public table if not given
    workload          what should be right: `all_marginals(2)` or 2, a list of marginals, or a text as on the command
                      line ("target:income:3", "age,sex;age,income"); all 3-way marginals if not given
    mechanism         how: an instance, or a text such as "aim" or "tilt:rounds=12"; `Tilt()` if not given
    ledger            file that keeps the dataset's budget across releases and processes; in memory if not given
    out               folder to write; with a ledger too, a broken run can be resumed without paying twice (`resume`)
    seed              given: an experiment with repeatable noise, NOT PRIVATE; not given: secure noise
    relation          "replace-one" (the number of rows is public) or "add-remove"
    dataset           the private table's name in the ledger; its file's name if not given
    format            of the tables in the folder: "parquet" or "csv"
    answers           which of them the folder has as a file: "workload", "measured" (what the measurements tell), or
                      "none"; if not given, those of the workload up to ten million cells, beyond what was measured. The
                      release answers everything in any case
    title, about, contact   what the report opens with: a name, what it is about, and whom to ask; published with it
    show_private      let error messages quote values of the private table
    acknowledge_refusals   go on after the ledger has counted several refusals of this table for what is in it
    prior             what `fit_prior` learnt from the public table, or the path of its file: the public table need not
                      be given then, nor the schema. If they are, they must be those that it was learnt from.
    reading           how text is written in the files, where no schema is given; a schema has it in it
    error_bars        share of the budget with which the errors of the finished model are measured, so that every answer
                      has an honest interval; 0: none. If not given, what makes the sum of errors known to 1 %, from
                      1 to 3 % of the budget; none where a mechanism's answers have exact intervals of their own, and
                      for `public`, which spends nothing
    progress          True: bars, or plain lines where nobody watches; False: nothing; or a function of a `Progress`;
                      not given: bars in a terminal or a notebook
    """
    epsilon, delta = plain_number("epsilon", epsilon), plain_number("delta", delta)
    budget_rho(epsilon, delta)  # refuses what is none, before any table is opened
    choice("format", format, *FORMATS)
    if answers is not None:
        choice("answers", answers, *ANSWERS)
    resume, error_bars = flag("resume", resume), _share("error_bars", error_bars)
    description = described_as(title, about, contact)
    chosen = _chosen(mechanism)
    workload = None if workload is None else need_workload(workload)
    if delta == 0 and not chosen.is_pure:
        raise OptionError(
            f"delta = 0 asks for pure ε-DP, which mechanism '{chosen.name}' does not give as set here; use "
            f"{pure_choices()}, or a delta well below 1/n"
        )
    kept, schema = _kept(prior, chosen, schema)
    if resume and (out is None or ledger is None):
        raise OptionError("only a run with an output folder and a ledger can be resumed; give both")
    if resume and out is not None and ledger is not None:
        folder = path_of("the output folder", out, error=ReleaseError)
        if _is_written(folder):
            asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
            asked["seed"] = None if seed is None else whole_number("seed", seed, 0)
            if dataset is not None:
                asked["dataset"] = text_of("dataset", dataset)
            finished = _finished(
                folder, ledger, asked, chosen, schema, workload, public, relation, kept, error_bars
            )
            _same_description(finished, description)
            return finished
    target = None if out is None else fresh(out)
    started = time.perf_counter()

    reading = reading_of(schema, reading)
    private, others = open_apart(private, [] if public is None else [public], schema, reading=reading)
    public_source = others[0] if others else None
    schema = _schema(schema, public_source, reading)
    check_format(format if target is not None else "parquet", schema)
    public_table = _public_table(public_source, schema, kept)
    _check_public(chosen, public_table)
    work = _workload(workload, schema)
    written = "none" if target is None else answers_written(answers, work)
    fitted = _fitted(chosen, schema, relation)
    with open_session(
        private,
        schema,
        _purpose(chosen, work, public_table, kept, error_bars),
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
        public_codes=None if kept is None else kept.table,
    ) as session:
        if target is not None and ledger is not None:
            sweep(target)
        place = _Place(target, format, written)
        named = replace(description, public=_public_name(public_source, kept))
        result, said = _released(
            session, fitted, public_table, public_source, work, kept, place, named, error_bars
        )
    result.seconds = time.perf_counter() - started
    for words in said:
        caution(words, stacklevel=4)
    return result


def _share(name: str, value: float | None) -> float | None:
    """A share of the budget, if one is given."""
    if value is None:
        return None
    share = plain_number(name, value)
    if share != 0 and not LEAST_SHARE <= share <= MOST_SHARE:
        raise OptionError(
            f"{name} ({share!r}) is the share of the budget for error bars; use 0, or a share from {LEAST_SHARE:g} "
            f"to {MOST_SHARE}"
        )
    return share


@dataclass(frozen=True)
class _Place:
    """Where a release is written, and how; nowhere if there is no folder."""

    folder: Path | None
    format: str
    answers: str


def _chosen(mechanism: MechanismLike | None) -> Mechanism:
    """The mechanism; its loops are compiled from here on, where they have not been."""
    chosen = Tilt() if mechanism is None else need_mechanism(mechanism)
    compile_ahead(chosen.name)
    return chosen


def _schema(schema: Schema | None, public: Any, reading: Reading) -> Schema:
    if schema is not None:
        return schema
    if public is None:
        raise OptionError("there is no schema, and no public table to draft one from; give one of them")
    with phase("drafting the schema"):
        return Schema.draft(public, reading=reading)


def _kept(
    prior: PriorLike | None, mechanism: Mechanism, schema: Schema | str | Path | None
) -> tuple[PublicPrior | None, Schema | None]:
    """The prior to begin with, if one is given, and the schema, which is the prior's then."""
    if prior is None:
        return None, None if schema is None else need_schema(schema)
    kept = need_prior(prior, mechanism)
    return kept, kept.with_schema(schema)


def _public_table(public: Any, schema: Schema, kept: PublicPrior | None) -> Table | None:
    """The public rows as codes: those of the table, or of the prior, or both if they are the same."""
    table = None
    if public is not None:
        with phase("reading the public table"):
            table = encode_table(public, schema)
    return table if kept is None else kept.with_rows(table)


def _workload(workload: Any, schema: Schema) -> Workload:
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    Cells(schema.domain, work.marginals)
    return work


def _fitted(mechanism: Mechanism, schema: Schema, relation: str) -> Mechanism:
    """With options in codes of the schema; raises where it cannot run under this relation."""
    mechanism.check_unit(Unit.of(schema, relation))
    return mechanism.fitted(schema)


def _public_name(source: Any, kept: PublicPrior | None) -> str:
    """What a reader may know the public table by; a frame has no name."""
    if source is None:
        return "" if kept is None else kept.public_name
    return "" if source.name == "table" else str(source.name)


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


def _is_written(out: Path) -> bool:
    return out.is_dir() and journal_of(out.absolute()).exists()


def _finished(
    out: Path,
    ledger: str | Path | Ledger,
    asked: dict[str, Any],
    mechanism: Mechanism,
    schema: Any,
    workload: Any,
    public: Any,
    relation: str,
    kept: PublicPrior | None,
    error_bars: float | None,
) -> Release:
    """The release of a run that was stopped between writing its folder and closing, if it is what is asked for now;
    reads no private row."""
    opened = open_release(out)
    schema = opened.schema if schema is None else need_schema(schema)
    table = _public_table(public, schema, kept)
    purpose = _purpose(mechanism, _workload(workload, schema), table, kept, error_bars)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    unit = Unit.of(schema, relation)
    finish_run(book, out.absolute(), opened.certificate.run, {**request_of(purpose, schema, unit), **asked})
    return opened


def _same_description(finished: Release, description: Description) -> None:
    """Say so where a finished release has other words than those that are asked for now."""
    if description not in (Description(), replace(finished.certificate.description, public="")):
        warnings.warn(
            "the release was written before its run was stopped: its title, about and contact stay as they were",
            OpenPriorWarning,
            stacklevel=3,
        )


def _purpose(
    mechanism: Mechanism,
    work: Workload,
    public: Table | None,
    kept: PublicPrior | None,
    error_bars: float | None,
) -> Purpose:
    more: dict[str, object] = {
        "workload": _digest(work),
        "public": None if public is None else content_of(public),
        "error_bars": error_bars,
    }
    if kept is not None:
        more["prior"] = kept.sha256
    return Purpose(mechanism.name, mechanism.options, more)


# Through the curator, and after it.


def _released(
    session: Session,
    mechanism: Mechanism,
    public: Table | None,
    public_source: Any,
    work: Workload,
    kept: PublicPrior | None,
    place: _Place,
    description: Description,
    error_bars: float | None,
) -> tuple[Release, list[str]]:
    """The release, written where it should be; and what is to be said of it when all is done."""
    streams = np.random.SeedSequence([session.public_seed, 2]).spawn(3)
    fit, draw, ask = (np.random.default_rng(s) for s in streams)
    if kept is not None and kept.marginals != work.marginals:
        session.curator.remark("The prior was learnt for other marginals than those of the workload.")
    compile_ahead(mechanism.name).wait(rows=False)
    share = share_held_back(session, mechanism, public, work, error_bars, ask)
    with telling() as progress, blas_on_one_thread():
        mechanism = mechanism.prepared(public, work, None if kept is None else kept.prior)
        with session.curator.holding_back(share) as held:
            model = mechanism.run(session.curator, public, work, fit, progress)
        has_public = public is not None and mechanism.public_table is not PublicTable.NOT_USED
        bars = bars_of(session.curator, session.account, model, work, held, ask, has_public=has_public)

    def decoding(rng: np.random.Generator) -> Decoder:
        if kept is not None and public_source is None:
            return kept.decoder()
        return Decoder.fit(session.schema, public_source, rng=rng)

    compile_ahead(mechanism.name).wait()
    with nullcontext() if place.folder is None else appearing(place.folder) as draft:
        with phase("drawing rows"):
            rows = drawn_rows(
                model, session.schema, decoding, draw, draft, place.format, viewed=public is not None
            )
        view = None if public is None else view_of(public, rows.compared, session.schema)
        said = _remarks(session, work, rows.counts, view)
        n = session.curator.n if session.unit.n_is_public else None
        result = Release(
            synthetic=rows.synthetic,
            model=model,
            certificate=replace(
                certify(session, values_inside=rows.values_inside),
                description=description,
                prior={} if kept is None else kept.recorded,
                rows=n,
            ),
            schema=session.schema,
            workload=work,
            measurements=Measurements(session.schema.full_domain, session.account.measurements, n),
            public=view,
            error_bars=bars,
            codes=rows.codes,
            counts=rows.counts,
        )
        if draft is not None:
            with phase("writing the release"):
                write(result, draft, place.format, place.answers)
    if place.folder is not None and rows.codes is None:
        result.synthetic = parts_of(place.folder, session.schema)  # they were in the draft
    return result, said


def _remarks(session: Session, work: Workload, released: RowCounts, public: View | None) -> list[str]:
    """Put into the certificate what shows of few rows and of losses; returns what was not said before any charge."""
    small = few_rows(session.curator.n if session.unit.n_is_public else released.rows)
    account = session.account
    if small is not None:
        session.curator.remark(as_remark(small))
    lost = noticed(session.schema, released, public, work.marginals, account.measurements, account.remarks)
    for words in lost:
        session.curator.remark(as_remark(words))
    return lost if small is None or session.unit.n_is_public else [small, *lost]
