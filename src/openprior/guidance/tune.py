"""Tuning: which method, and with which options, decided on PUBLIC data alone.

Trying settings on the private table would cost budget for each, and picking the best by its true error would not be
private at all. So a public stand-in is released instead of it, many times, with seeded noise: NOT PRIVATE experiments
on rows that are no secret. No private table can be given here, and no ledger is opened.

With one public table a random half stands in for the private one and the other half is its prior, split anew for every
seed, so that the standard error covers the luck of the split. With two, the newer stands in and the older is the prior:
then the drift from year to year is in the comparison, but the standard error covers the noise only. All settings of a
seed share split and seed, so differences are paired.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openprior.counting.cells import Cells
from openprior.errors import OptionError
from openprior.given import choice, whole_number
from openprior.guidance.experiment import Experiment, public_rows
from openprior.guidance.grid import checked_grid
from openprior.guidance.verdict import Setting, Tuning, judged
from openprior.guidance.workers import try_all
from openprior.methods.mechanism_text import MechanismLike
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.cautions import caution, large_epsilon
from openprior.progress_shown import ShowProgress, watched
from openprior.questions.workload import WorkloadLike, all_marginals, workload_on
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.same import same
from openprior.tables.source import open_source

__all__ = ["tune"]

_MOST_SEEDS = 10_000
_MOST_ROWS = 10**15


@watched
def tune(
    public: Any,
    past: Any = None,
    *,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    epsilon: float,
    delta: float,
    grid: Iterable[MechanismLike] | Mapping[str, Mapping[str, Any]] | None = None,
    seeds: int = 3,
    rows: int | None = None,
    of: str = "synthetic",
    workers: int | None = None,
    reading: Reading | None = None,
    progress: ShowProgress = None,
) -> Tuning:
    """Compare settings on public tables, before the private one is touched. Costs no budget.

    public     the public table; the newer one if there are two
    past       an older public table, such as 2017's before releasing 2019 with 2018; without it, halves of `public`
    schema     what the columns are; drafted from `public` if not given
    workload   what should be right, as for `release`; all 3-way marginals if not given
    grid       mechanisms (instances, or texts such as "tilt:rounds=12|48"), or choices of options by name (see
               `grid_of`); a few good settings if not given
    seeds      how often each setting is tried
    rows       how many rows the private table will have: the noise is made as large beside the stand-in's rows as it
               will be beside these; not given, the stand-in is released at (ε, δ) as it is. Sampling error is not
               scaled: it stays that of the stand-in's rows.
    of         "synthetic": errors of the synthetic rows; "answers": of the model's answers
    workers    processes; one per core, at most eight, if not given. The results do not depend on it.
    reading    how text is written in the files, where no schema is given; a schema has it in it
    progress   as for `release`; a step is a run that has ended
    """
    budget_rho(epsilon, delta)  # refuses what is no budget
    caution(large_epsilon(epsilon))
    choice("of =", of, "synthetic", "answers")
    seeds = whole_number("seeds", seeds, 1, _MOST_SEEDS)
    rows = None if rows is None else whole_number("rows", rows, 2, _MOST_ROWS)
    workers = None if workers is None else whole_number("workers", workers, 1)
    settings = checked_grid(grid, pure=delta == 0)
    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    newer = open_source(public, schema, reading=reading)
    older = None if past is None else open_source(past, schema, reading=reading)
    if older is not None and (
        past is public or same(newer, older, None if schema is None else schema.names, reading)
    ):
        raise OptionError("public and past are the same table; give an older one as past, or none")
    schema = schema or Schema.draft(newer, reading=reading)
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    Cells(schema.domain, work.marginals)
    experiment = Experiment(
        newer=public_rows(newer, schema, "public", 4 if past is None else 2),
        past=None if older is None else public_rows(older, schema, "past", 2),
        schema=schema,
        workload=work,
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        of=of,
    )
    here = any(type(s).__module__ == "__main__" for s in settings)  # another process could not import it
    runs = try_all(experiment, settings, seeds, workers, here=here)
    tried = [Setting(setting, its) for setting, its in zip(settings, runs, strict=True)]
    return judged(tried, epsilon=epsilon, delta=delta, of=of, caveats=_caveats(experiment))


def _caveats(experiment: Experiment) -> list[str]:
    caveats = []
    if experiment.past is None:
        caveats.append(
            "Halves of one table do not drift as two years do: methods that correct the public table may do better "
            "than here. Give an older public table as well, if there is one."
        )
    else:
        caveats.append("One pair of tables: ± covers the noise, not how the drift differs from year to year.")
    if experiment.rows is None:
        caveats.append(
            "The noise is that of (ε, δ) beside the stand-in's rows; give rows, the private table's number of rows, "
            "to scale it."
        )
    else:
        caveats.append(
            "The noise is scaled to the private table's rows; sampling error is that of the stand-in's."
        )
    return caveats
