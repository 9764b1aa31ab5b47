"""`python -m benchmarks.graphical_time [--limits 30,none] [--pairs ...] [--seeds N]`: what a limit of time costs.

`jam-pgm` and `aim` on the real pairs, all 3-way marginals, with limits of the predicted time of their fits: processor
seconds of the loop (other work on the machine does not count), the size of the model and the error of as many rows as
the private table has. `--peer FOLDER` runs another checkout beside it, which need not know the option. Every line is
added to `results/graphical_time.md` as it is ready; lines of the same run are replaced.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphical import run, tables, warm_up
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.methods.base import mechanisms
from openprior.models.graphical.junction import megabytes
from openprior.questions.workload import all_marginals

RESULTS = Path(__file__).parent / "results" / "graphical_time.md"
HEADER = """# Graphical models: time and error

`jam-pgm` and `aim`, all 3-way marginals, δ = 1e-9, replace-one. *Limit*: the option `seconds`, the time of all fits \
as foretold from the model's size; *none* is as published; *before* is the former version, which had no such option \
and took up to 60 steps in every round. Processor seconds of the loop on one core, without reading and writing. Error: \
mean L1 error per marginal of the rows, mean over the seeds. By `python -m benchmarks.graphical_time`. \
Lines of FIRE and TITANIC are of a version whose passes took four to ten times as long.

| pair | mechanism | ε | limit | seconds | model | error of the rows | seeds |
|---|---|---|---|---|---|---|---|
"""


def facts(pair: str, name: str, epsilon: float, seed: int, limit: str) -> dict[str, float]:
    """One run."""
    private, public = tables(pair)
    options: dict[str, Any] = {}
    if limit != "before":
        options = {"seconds": None if limit == "none" else float(limit)}
    begin = time.process_time()
    model, _, _ = run(mechanisms()[name](**options), private, public, epsilon, seed)
    seconds = time.process_time() - begin
    work = all_marginals(3).on(private.domain)
    rows = count_table(model.sample(private.n, np.random.default_rng(seed)), work.marginals)
    guess = {m: c.astype(float) for m, c in rows.items()}
    error = errors_of(work, count_table(private, work.marginals), guess, "synthetic").workload_error
    return {"seconds": seconds, "megabytes": megabytes(model.tree.cells), "error": error}


def of_peer(folder: str, *words: str) -> dict[str, float]:
    """The same by another checkout, in a process of its own."""
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(folder) / "src"), folder])}
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--one", *words]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=os.environ | paths)
    return json.loads(done.stdout.splitlines()[-1])


def line(pair: str, name: str, epsilon: float, limit: str, runs: list[dict[str, float]]) -> str:
    """A row of the table."""
    seconds, size, error = (float(np.mean([r[k] for r in runs])) for k in ("seconds", "megabytes", "error"))
    spread = (
        "" if len(runs) == 1 else f" ± {np.std([r['error'] for r in runs], ddof=1) / len(runs) ** 0.5:.4f}"
    )
    return (
        f"| {pair} | {name} | {epsilon:g} | {limit} | {seconds:.1f} | {size:.1f} MB | {error:.4f}{spread} | "
        f"{len(runs)} |"
    )


def add(row: str) -> None:
    """Put a row in its place in the file."""
    key = row.split("|")[1:5]
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else HEADER
    lines = text.splitlines()[len(HEADER.splitlines()) :]
    kept = [x for x in lines if x.split("|")[1:5] != key]
    RESULTS.write_text(HEADER + "\n".join(sorted([*kept, row])) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", default="titanic,adult_pub025_01,salary,fire")
    parser.add_argument("--mechanisms", default="jam-pgm,aim")
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--limits", default="30,none")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peer", help="the folder of another checkout, for the lines 'before'")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warm_up()
    if asked.one:
        pair, name, epsilon, seed, limit = asked.one
        print(json.dumps(facts(pair, name, float(epsilon), int(seed), limit)))
        return
    limits = [*asked.limits.split(","), *(["before"] if asked.peer else [])]
    for pair in asked.pairs.split(","):
        for name in asked.mechanisms.split(","):
            for epsilon in asked.epsilons.split(","):
                for limit in limits:
                    given = [(pair, name, epsilon, str(seed), limit) for seed in range(asked.seeds)]
                    if limit == "before":
                        runs = [of_peer(asked.peer, *words) for words in given]
                    else:
                        runs = [facts(p, n, float(e), int(s), x) for p, n, e, s, x in given]
                    row = line(pair, name, float(epsilon), limit, runs)
                    print(row, flush=True)
                    add(row)


if __name__ == "__main__":
    main()
