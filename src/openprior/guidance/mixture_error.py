"""Best mixture error: how well the public rows, reweighted at best, could answer the workload on the private table.

f(S) = min over weights on the public support S of the largest query error: a floor under PMW^Pub's error, whatever the
budget. Small means the public table is fit for use. The private form costs little, and should be asked before the
real budget is spent; the exact form is NOT PRIVATE.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openprior.counting.local import count_table
from openprior.errors import OptionError
from openprior.given import finite_number
from openprior.privacy.best_mixture import best_mixture
from openprior.privacy.error_statistics import BestMixtureError
from openprior.privacy.ledger import Ledger
from openprior.privacy.session import Purpose, open_question
from openprior.questions.workload import Workload, WorkloadLike, all_marginals, workload_on
from openprior.releases.certificate import certify
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.encode import encode_table
from openprior.tables.same import check_rows, open_apart

__all__ = ["MixtureError", "best_mixture_error"]


@dataclass(frozen=True)
class MixtureError:
    """The best mixture error, as a share of n."""

    error: float
    lower: float | None
    """A certified lower bound (exact form only)."""
    sigma: float
    """Standard deviation of the noise; 0 means exact."""

    is_private: bool
    """Whether secure noise was added."""


def best_mixture_error(
    private: Any,
    public: Any,
    *,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise: str = "gaussian",
    ledger: str | Path | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    acknowledge_refusals: bool = False,
    max_seconds: float = 60.0,
    reading: Reading | None = None,
) -> MixtureError:
    """The best mixture error: with (ε, δ) through the curator, without them exact and NOT PRIVATE.

    schema        what the columns are; drafted from the public table if not given
    workload      the queries; all two-way marginals if not given
    noise         "gaussian" or "laplace"
    ledger        file that keeps the dataset's budget; `dataset` is the private table's name in it
    seed          given: repeatable noise for an experiment, NOT PRIVATE
    acknowledge_refusals   go on after the ledger has counted several refusals of this table for what is in it
    max_seconds   of the exact form; the private one always solves to the end
    reading       how text is written in the files, where no schema is given; a schema has it in it
    """
    max_seconds = finite_number("max_seconds", max_seconds)
    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    source, (public_source,) = open_apart(private, [public], schema, reading=reading)
    schema = schema or Schema.draft(public_source, reading=reading)
    work = workload_on(workload, schema.domain, default=all_marginals(2))
    rows, _ = encode_table(public_source, schema).unique()
    if epsilon is None and delta is None:
        check_rows(source, [public_source], schema.names, reading)
        return _exact(encode_table(source, schema, private=True), rows, work, max_seconds)
    if epsilon is None or delta is None:
        raise OptionError(
            "the private best mixture error needs epsilon and delta; give both, or neither for the exact one"
        )
    with open_question(
        source,
        schema,
        Purpose("best mixture", {"noise": noise}),
        epsilon=epsilon,
        delta=delta,
        marginals=work.marginals,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
        acknowledge_refusals=acknowledge_refusals,
        publics=[public_source],
    ) as session:
        curator = session.curator
        measured = curator.measure(BestMixtureError(rows, work.marginals), curator.remaining, noise=noise)
        is_private = certify(session).is_private
    return MixtureError(float(measured.values[0]), None, measured.sigma, is_private)


def _exact(truth: Any, rows: Any, work: Workload, max_seconds: float) -> MixtureError:
    position = {a: i for i, a in enumerate(truth.domain.attributes)}
    counts = count_table(truth, work.marginals)
    best = best_mixture(
        rows.columns,
        truth.domain.shape,
        [tuple(position[a] for a in m) for m in work.marginals],
        [np.asarray(counts[m] / truth.n) for m in work.marginals],
        tolerance=1e-6,
        max_seconds=max_seconds,
    )
    return MixtureError(best.error, best.lower, 0.0, False)
