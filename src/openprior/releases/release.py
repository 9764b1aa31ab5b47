"""From a private table to a release: the way of the data, from end to end.

`release` opens the tables, reserves the budget, runs the mechanism through the curator, and hands over a `Release`:
synthetic rows, answers, the model and a certificate. Nothing is half-written: a release folder appears whole or
not at all. Reopening it needs no private data.
"""

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openprior.errors import OpenPriorWarning, OptionError, SourceError
from openprior.releases.folder import write
from openprior.whole import appearing, fresh, sweep

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.methods.base import Mechanism, Progress
    from openprior.models.base import Model
    from openprior.privacy.ledger import Ledger
    from openprior.privacy.unit import Relation, Unit
    from openprior.questions.workload import Workload, WorkloadPlan
    from openprior.releases.certificate import Certificate
    from openprior.releases.measurements import Measurements
    from openprior.releases.view import View
    from openprior.schema.base import Schema
    from openprior.tables.encode import Table

__all__ = ["Release", "open_release", "release"]


class Release:
    """What is handed over. Everything in it is differentially private; none of it needs the private table."""

    def __init__(
        self,
        *,
        synthetic: "pa.Table",
        model: "Model",
        certificate: "Certificate",
        schema: "Schema",
        workload: "Workload",
        measurements: "Measurements",
        public: "View | None" = None,
    ) -> None:
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

    def answers(self, columns: Iterable[str]) -> "pa.Table":
        """The estimated counts of a marginal, a row a cell, with labels, and 95 % intervals where they can be had."""
        from openprior.releases.answers import labelled

        return labelled(self.model, self.schema, self.measurements, columns)

    def save(self, path: str | Path, *, format: str = "parquet") -> Path:
        """Write the release folder, whole or not at all."""
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
    schema: "Schema | None" = None,
    workload: "WorkloadPlan | Workload | None" = None,
    epsilon: float,
    delta: float,
    mechanism: "Mechanism | None" = None,
    ledger: "str | Path | Ledger | None" = None,
    out: str | Path | None = None,
    seed: int | None = None,
    relation: str = "replace-one",
    dataset: str | None = None,
    format: str = "parquet",
    resume: bool = False,
    show_private: bool = False,
    progress: "Progress | None" = None,
) -> Release:
    """Release statistics and synthetic rows about `private` under (ε, δ)-differential privacy.

    private, public   anything that streams Arrow, a path (CSV, Parquet, a folder of them), or a DuckDB relation
    schema            what the columns are; drafted from the public table if not given
    workload          what should be right; all 3-way marginals if not given
    mechanism         how; `Tilt()` if not given; see `mechanisms()`
    ledger            file that keeps the dataset's budget across releases and processes; in memory if not given
    out               folder to write; with a ledger too, a broken run can be resumed without paying twice (`resume`)
    seed              given: an experiment with repeatable noise, NOT PRIVATE; not given: secure noise
    relation          "replace-one" (the number of rows is public) or "add-remove"
    dataset           the private table's name in the ledger; its file's name if not given
    show_private      let error messages quote values of the private table
    """
    from openprior.methods.tilt import Tilt
    from openprior.privacy.curator import Curator
    from openprior.privacy.run import Budget, budget_rho, open_run
    from openprior.privacy.unit import Unit
    from openprior.privacy.vault import Vault
    from openprior.releases.certificate import certify
    from openprior.releases.measurements import Measurements
    from openprior.releases.view import view_of
    from openprior.tables.encode import Encoder, encode_table
    from openprior.tables.source import open_source

    rho = budget_rho(epsilon, delta)
    if format not in ("parquet", "csv"):
        raise OptionError(f"format '{format}' is unknown; use 'parquet' or 'csv'")
    chosen: Mechanism = mechanism or Tilt()
    if not hasattr(chosen, "run") or isinstance(chosen, type):
        raise OptionError(f"mechanism {chosen!r} is not one; give an instance such as openprior.Tilt()")
    if delta == 0 and not getattr(chosen, "is_pure", False):
        raise OptionError(
            f"delta = 0 asks for pure ε-DP, which mechanism '{chosen.name}' does not give as set here; use 'ide' or "
            "'hierarchy' with noise = laplace, or a delta well below 1/n"
        )
    if resume and (out is None or ledger is None):
        raise OptionError("only a run with an output folder and a ledger can be resumed; give both")
    target = None if out is None else fresh(out)

    public_source = None if public is None else open_source(public)
    schema = _schema(schema, public_source)
    # Unit turns the text into a Relation, or refuses it.
    unit = Unit(cast("Relation", relation), schema.max_rows_per_person if schema.person_id else 1)
    source = open_source(private)
    encoder = Encoder(schema, source, private=True, show_private=show_private, levels=True)
    public_table = None if public_source is None else encode_table(public_source, schema)
    _check_public(chosen, public_table)
    work = _workload(workload, schema)

    budget = Budget(
        name=dataset or source.name,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        details=_details(chosen, schema, work, unit, seed),
    )
    # A ledger in memory forgets its runs with the process, so without a file there is nothing to resume.
    resumable = None if ledger is None else target
    with open_run(ledger, budget, out=resumable, seed=seed, resume=resume) as (account, public_seed, noise):
        if resumable is not None:
            sweep(resumable)
        vault = Vault(encoder, on_rows=partial(_check_rows, delta=delta) if unit.n_is_public else None)
        curator = Curator(vault, unit=unit, noise=noise, account=account)
        curator.announce(work.marginals)
        if not unit.n_is_public:
            # Where n is public, a mechanism asks for it first, which reads the table before anything is charged.
            curator.look_ahead()
        made = _make(curator, chosen, public_table, public_source, schema, work, public_seed, progress)
        result = Release(
            synthetic=made[1],
            model=made[0],
            certificate=certify(
                account, unit, budget, schema.hash, chosen.name, _options(chosen), is_private=noise.is_private
            ),
            schema=schema,
            workload=work,
            measurements=Measurements.of(schema.full_domain, account.measurements),
            public=None if public_table is None else view_of(public_table, made[1], schema),
        )
        if target is not None:
            with appearing(target) as draft:
                write(result, draft, format)
    return result


def open_release(path: str | Path) -> Release:
    """Open a release folder; needs no private data."""
    from openprior.releases.folder import read

    return Release(**read(Path(path)))


# Before the budget is touched.


def _schema(schema: "Schema | None", public: Any) -> "Schema":
    from openprior.schema.base import Schema

    if schema is not None:
        return schema
    if public is None:
        raise OptionError("there is no schema, and no public table to draft one from; give one of them")
    return Schema.draft(public)


def _workload(workload: Any, schema: "Schema") -> "Workload":
    from openprior.counting.cells import Cells
    from openprior.questions.workload import Workload, all_marginals

    plan: Any = all_marginals(3) if workload is None else workload
    work: Workload = (plan if hasattr(plan, "on") else Workload(plan)).on(schema.domain)
    Cells(schema.domain, work.marginals)
    return work


def _check_public(mechanism: Any, public: "Table | None") -> None:
    if mechanism.needs_public and public is None:
        raise OptionError(f"mechanism '{mechanism.name}' needs a public table; give one, or use 'mwem'")
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


def _options(mechanism: Any) -> dict[str, Any]:
    return dataclasses.asdict(mechanism)


def _details(
    mechanism: Any, schema: "Schema", work: "Workload", unit: "Unit", seed: int | None
) -> dict[str, object]:
    """What a run is, beside its budget. To be resumed it must be the same again: above all, a run that drew seeded
    noise must not end as a private one."""
    wanted = json.dumps([work.marginals, work.weights]).encode()
    return {
        "mechanism": mechanism.name,
        "options": _options(mechanism),
        "schema": schema.hash,
        "workload": hashlib.sha256(wanted).hexdigest(),
        "relation": str(unit.relation),
        "seed": seed,
    }


# Through the curator, and after it.


def _make(
    curator: Any,
    mechanism: Any,
    public: "Table | None",
    public_source: Any,
    schema: "Schema",
    work: "Workload",
    public_seed: int,
    progress: "Progress | None",
) -> tuple["Model", "pa.Table"]:
    import numpy as np

    from openprior.tables.decode import Decoder

    streams = np.random.SeedSequence([public_seed, 2]).spawn(2)
    fit, draw = (np.random.default_rng(s) for s in streams)
    model = mechanism.run(curator, public, work, fit, progress or _quiet)
    rows = model.sample(max(1, round(model.total)), draw)
    return model, Decoder.fit(schema, public_source, rng=draw).decode(rows, draw)


def _quiet(done: int, of: int, what: str) -> None:
    return None
