"""Which public table, and with which options, decided on a validation table that is public as well.

The PMW^Pub paper (appendix, Table 3) takes for every ε the public table and the number of rounds with the smallest max
error on a validation set: an earlier year, say, that is treated as private. That costs no privacy, because the private
table has no part in it; `screen` asks the private table itself, for a small ε.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openprior.counting.cells import Cells
from openprior.errors import OptionError
from openprior.given import choice, finite_number, several, whole_number
from openprior.guidance.candidates import by_name, candidate_tables
from openprior.guidance.experiment import public_rows
from openprior.guidance.grid import checked_grid
from openprior.guidance.validation import ERRORS, PublicChoice, Trial, Tried, Validation, chosen
from openprior.guidance.workers import try_all
from openprior.methods.mechanism_text import MechanismLike
from openprior.methods.tilt import Tilt
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.cautions import caution, large_epsilon
from openprior.progress_shown import ShowProgress, watched
from openprior.questions.workload import WorkloadLike, all_marginals, workload_on
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.same import open_apart, same
from openprior.tables.source import open_source

__all__ = ["choose_public"]

_MOST_SEEDS = 10_000
_MOST_ROWS = 10**15
_CAVEATS = (
    "One validation table: ± covers the noise, not how the private table differs from it.",
    "The validation table must be public: it is released here without any privacy.",
)


@watched
def choose_public(
    candidates: Any,
    validation: Any,
    *,
    epsilon: float | Iterable[float],
    delta: float,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    grid: Iterable[MechanismLike] | Mapping[str, Mapping[str, Any]] | None = None,
    by: str = "max",
    seeds: int = 3,
    rows: int | None = None,
    of: str = "synthetic",
    private: Any = None,
    workers: int | None = None,
    reading: Reading | None = None,
    progress: ShowProgress = None,
) -> PublicChoice:
    """Choose public table and setting for each ε by their error on a validation table. Costs no budget.

    candidates   public tables by name in a mapping, a list of them, or one table
    validation   another public table, such as an earlier year of the private one, released as if it were private
    epsilon      ε of the release to come, or several
    schema       what the columns are; drafted from the first candidate if not given
    workload     what should be right, as for `release`; all 3-way marginals if not given
    grid         settings, as for `tune`: "pmw-pub:rounds=25|50|100"; tilt as it comes if not given, or ide with δ = 0
    by           "max": the largest error of a query, as published; "workload": the mean error of the marginals
    seeds        how often each is tried
    rows         how many rows the private table will have: scales the noise, as for `tune`
    of           "synthetic": errors of the synthetic rows; "answers": of the model's answers
    private      the private table, if you like: refused if one of the others is it, by object, file or bytes; not
                 one row of it is looked at
    workers      processes; one per core, at most eight, if not given. The results do not depend on it.
    reading      how text is written in the files, where no schema is given; a schema has it in it
    progress     as for `release`; a step is a run that has ended
    """
    epsilons = _epsilons(epsilon, delta)
    choice("by", by, *ERRORS)
    choice("of =", of, "synthetic", "answers")
    seeds = whole_number("seeds", seeds, 1, _MOST_SEEDS)
    rows = None if rows is None else whole_number("rows", rows, 2, _MOST_ROWS)
    workers = None if workers is None else whole_number("workers", workers, 1)
    settings = checked_grid([Tilt()] if grid is None and delta != 0 else grid, pure=delta == 0)
    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    tables = candidate_tables(candidates)
    if private is not None:
        open_apart(private, [validation, *tables], schema, reading=reading)
    stand_in, *others = (open_source(t, schema, reading=reading) for t in (validation, *tables))
    publics = by_name(candidates, others)
    columns = None if schema is None else schema.names
    for name, public in publics.items():
        if same(stand_in, public, columns, reading):
            raise OptionError(
                f"public table '{name}' is the validation table itself, so it would win; give another"
            )
    schema = schema or Schema.draft(others[0], reading=reading)
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    Cells(schema.domain, work.marginals)
    common = Validation(
        table=public_rows(stand_in, schema, "validation", 2),
        candidates={name: public_rows(t, schema, f"public '{name}'", 2) for name, t in publics.items()},
        schema=schema,
        workload=work,
        delta=delta,
        rows=rows,
        of=of,
    )
    trials = [Trial(name, e, setting) for e in epsilons for name in publics for setting in settings]
    here = any(type(s).__module__ == "__main__" for s in settings)  # another process could not import it
    runs = try_all(common, trials, seeds, workers, here=here)
    tried = [Tried(t.public, t.epsilon, t.mechanism, by, its) for t, its in zip(trials, runs, strict=True)]
    return chosen(tried, by=by, delta=delta, seeds=seeds, caveats=_CAVEATS)


def _epsilons(given: Any, delta: float) -> list[float]:
    """Each once, and each a budget."""
    is_one = isinstance(given, int | float | str) or given is None or hasattr(given, "__float__")
    values = [finite_number("epsilon", e) for e in ([given] if is_one else several("epsilon", given))]
    if not values:
        raise OptionError("there is no epsilon; give at least one")
    for value in values:
        budget_rho(value, delta)  # refuses what is no budget
        caution(large_epsilon(value))
    return list(dict.fromkeys(values))
