"""`python -m benchmarks.compression [METHOD ...] [PAIR ...] [ε ...] [seeds=N]`: what merging rare values is worth.

`mst`, `aim` and `jam-pgm` on the real pairs with and without the option `compress`: all 3-way marginals, δ = 1e-9,
replace-one, the error of as many rows as the private table has. Lines that are measured replace those of the same key
in `results/compression.md`, which is written anew after every line; the means below the table are those of all its
lines. The pairs' columns are coded from 0 on and have no labels, so all of them count as ordered.
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import data_folder
from benchmarks.graphical import run, tables
from benchmarks.lines import Lines, mean_and_error
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.evaluation.metrics import errors_of
from openprior.methods.base import mechanisms
from openprior.questions.workload import all_marginals

METHODS = ("mst", "aim", "jam-pgm")
PAIRS = ("titanic", "adult_pub025_01", "salary", "fire")
EPSILONS = ("0.1", "1", "10")
RESULTS = Path(__file__).parent / "results" / "compression.md"
HEADER = """# Merging rare values

Mean L1 error per marginal of the rows ± standard error over the seeds, all 3-way marginals, δ = 1e-9, replace-one; \
processor seconds per run. *Ratio*: of the errors with and without. All columns of these pairs count as ordered. By \
`python -m benchmarks.compression`.

| method | pair | ε | `compress=False` | `compress=True` | ratio | seconds without | with | seeds |
|---|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(RESULTS, HEADER)


def measure(pair: str, mechanism: Any, epsilon: float, seeds: int) -> tuple[NDArray[np.float64], float]:
    """The error of the rows for every seed, and the seconds of a run."""
    private, public = tables(pair)
    work = all_marginals(3).on(private.domain)
    truth = count_table(private, work.marginals)
    errors, seconds = [], 0.0
    for seed in range(seeds):
        begin = time.process_time()
        model, _, _ = run(mechanism, private, public, epsilon, seed)
        seconds += time.process_time() - begin
        rows = count_table(model.sample(private.n, np.random.default_rng(seed)), work.marginals)
        guess = {m: counts.astype(float) for m, counts in rows.items()}
        errors.append(errors_of(work, truth, guess, "synthetic").workload_error)
    return np.array(errors), seconds / seeds


def add_means() -> None:
    """The geometric mean of every method's ratios, below the table."""
    ratios: dict[str, list[float]] = {}
    for (method, *_), line in TABLE.read().items():
        ratios.setdefault(method, []).append(float(line.split("|")[6]))
    said = [
        f"`{method}` {np.exp(np.log(found).mean()):.3f} over {len(found)} lines"
        for method, found in ratios.items()
    ]
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\nGeometric means of the ratios: {', '.join(said)}.\n")


def main(wanted: list[str]) -> None:
    """Every wanted method, pair and ε; writes a Markdown table."""
    seeds = [int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")] or [5]
    known = (*METHODS, *PAIRS, *EPSILONS)
    unknown = [w for w in wanted if w not in known and not w.startswith("seeds=")]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if data_folder() is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has jam/")
    warnings.simplefilter("ignore", OpenPriorWarning)  # columns that JAM-PGM never chose
    chosen = [[w for w in all_of if w in wanted] or all_of for all_of in (METHODS, PAIRS, EPSILONS)]
    order = [(m, p, e) for m in METHODS for p in PAIRS for e in EPSILONS]
    for key in order:
        if all(word in words for word, words in zip(key, chosen, strict=True)):
            method, pair, epsilon = key
            without, merged = (
                measure(pair, mechanisms()[method](compress=compress), float(epsilon), seeds[0])
                for compress in (False, True)
            )
            cells = [mean_and_error(without[0]), mean_and_error(merged[0])]
            cells += [f"{merged[0].mean() / without[0].mean():.3f}", f"{without[1]:.1f}", f"{merged[1]:.1f}"]
            TABLE.put(key, [*cells, str(seeds[0])], order)
            add_means()


if __name__ == "__main__":
    main(sys.argv[1:])
