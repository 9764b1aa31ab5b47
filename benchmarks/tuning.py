"""`python -m benchmarks.tuning`: does tuning on public data choose what is good for the private table?

The whole grid is tried on halves of the national ACS sample of 2018, with the noise scaled to the rows of 2019, and a
setting is chosen. Then the whole grid is run on the true pair, 2018 public and 2019 private, which nobody could look at
in earnest: the chosen setting must come within 5 % of the best of the grid. All 2-way marginals, ε = 1, δ = 1e-9.
`seeds=N` and `workers=N` change how many; a quarter of an hour with three seeds on two cores.
"""

import sys
import time
from pathlib import Path
from typing import Any

import openprior as op
from benchmarks.data import data_folder
from openprior.guidance.grid import described
from openprior.guidance.tune import tune
from openprior.guidance.verdict import Setting, Tuning
from openprior.tables.encode import encode_table

EPSILON, DELTA, WITHIN = 1.0, 1e-9, 0.05
GRID = (
    op.Tilt(),
    op.Tilt(rounds=12),
    op.Tilt(rounds=96),
    op.PmwPub(),
    op.PmwPub(rounds=50, guard=0.0),
    op.Ide(),
    op.JamPgm(),
    op.PublicProxy(),
)
RESULTS = Path(__file__).parent / "results" / "tuning.md"


def compare(
    schema: op.Schema,
    older: Path,
    newer: Path,
    *,
    grid: Any,
    seeds: int,
    workers: int | None,
    progress: Any = None,
) -> tuple[Tuning, Tuning]:
    """The grid tuned on halves of the older table, and the grid on the true pair."""
    at: dict[str, Any] = {
        "schema": schema,
        "workload": op.all_marginals(2),
        "epsilon": EPSILON,
        "delta": DELTA,
        "grid": grid,
        "seeds": seeds,
        "workers": workers,
        "progress": progress,
    }
    rows = encode_table(newer, schema).n  # the number of rows is public under replace-one
    return tune(older, rows=rows, **at), tune(newer, past=older, **at)


def regret(tuned: Tuning, true: Tuning) -> tuple[Setting, Setting, float]:
    """The chosen setting and the best of the grid on the true pair, and how much more error the chosen one has."""
    chosen = next(s for s in true.results if s.mechanism == tuned.best.mechanism)
    best = true.results[0]
    return chosen, best, chosen.workload_error / best.workload_error - 1


def report(tuned: Tuning, true: Tuning, seconds: float) -> str:
    """The Markdown page."""
    chosen, best, more = regret(tuned, true)
    there = {described(s.mechanism): s for s in true.results}
    lines = []
    for s in tuned.results:
        t = there[described(s.mechanism)]
        mark = " (chosen)" if s is tuned.best else ""
        errors = [
            f"{x.workload_error:.4f} ± {x.standard_error:.4f}" if x.standard_error is not None else "failed"
            for x in (s, t)
        ]
        lines.append(
            f"| {s.name}{mark} | {errors[0]} | {errors[1]} | {t.max_error:.4f} | {s.seconds:.0f} | {t.seconds:.0f} |"
        )
    verdict = "within" if more <= WITHIN else "NOT within"
    return f"""# Tuning on public data

National ACS excerpt, 21 columns, all 2-way marginals, ε = {EPSILON:g}, δ = {DELTA:g}, {tuned.seeds} seeds. *Tuned*: \
random halves of 2018, one in place of the private table, noise scaled to the rows of 2019. *True*: 2018 public, 2019 \
private. Mean L1 error of a marginal of the synthetic rows ± standard error; *max*: largest error of one query on the \
true pair. By `python -m benchmarks.tuning`, {seconds / 60:.0f} minutes; seconds are of whatever else the machine was \
doing, too.

| setting | tuned | true | max | seconds, tuned | seconds, true |
|---|---|---|---|---|---|
{chr(10).join(lines)}

Tuning says: {tuned.verdict}

On the true pair the chosen setting, {chosen.name}, has {chosen.workload_error:.4f}; the best of the grid, \
{best.name}, has {best.workload_error:.4f}. That is {100 * more:.1f} % more, {verdict} {100 * WITHIN:g} %.
"""


def main(wanted: list[str]) -> None:
    """Both comparisons; writes a Markdown page."""
    given = dict(w.split("=") for w in wanted)
    folder = data_folder()
    if folder is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has nist_acs/")
    older, newer = (folder / "nist_acs" / f"national{year}.csv" for year in (2018, 2019))
    schema = op.Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "national.toml")
    begin = time.perf_counter()
    tuned, true = compare(
        schema,
        older,
        newer,
        grid=GRID,
        seeds=int(given.get("seeds", 3)),
        workers=int(given["workers"]) if "workers" in given else None,
        progress=lambda done, of, what: print(f"{done} of {of}: {what}", flush=True),
    )
    text = report(tuned, true, time.perf_counter() - begin)
    RESULTS.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(regret(tuned, true)[2] > WITHIN)


if __name__ == "__main__":
    main(sys.argv[1:])
