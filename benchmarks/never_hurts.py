"""`python -m benchmarks.never_hurts [ε ...] [seeds=N]`: what a public table costs where it is wrong.

A made-up population and public tables from a sample of it over unrelated ones to one whose labels are all renamed. The
error of `tilt` with each, in its answers and in its rows, is divided by the better of two: its own without a public
table, and that of the public table alone. Measures the ε that are named, or all, and keeps the other lines.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import openprior as op
from benchmarks.accuracy import measure
from benchmarks.data import made_up
from benchmarks.lines import Lines, mean_and_error
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.questions.workload import all_marginals
from openprior.schema.base import Schema
from openprior.tables.encode import Table

SIZES = (8, 5, 2, 12, 4, 3, 6, 10)
N, M = 20_000, 5_000
POPULATION = made_up(SIZES, N + M, 1)
PRIVATE, SAME = POPULATION.take(np.arange(N)), POPULATION.take(np.arange(N, N + M))
UNRELATED = made_up(SIZES, M, 2)
WORK = all_marginals(3).on(PRIVATE.domain)
TRUTH = count_table(PRIVATE, WORK.marginals)
EPSILONS = (0.1, 1.0, 10.0)
RESULTS = Path(__file__).parent / "results" / "never_hurts.md"
HEADER = f"""# What a wrong public table costs

A made-up population ({N:,} private rows, {len(SIZES)} columns), {M:,} public rows; all 3-way marginals, replace-one, \
δ = 1e-9. *Model* and *rows*: mean L1 error ± standard error over the seeds. *Ratio*: to the better of `tilt` without \
a public table and of the public table alone, ± its standard error; where `tilt` without one is the better, the \
quotients are those of the same seeds. At most 1 means that the public table did not hurt. \
By `python -m benchmarks.never_hurts`.

| public table | ε | model | ratio | rows | ratio | public alone | without | seeds |
|---|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(RESULTS, HEADER, keys=2)


def renamed() -> Table:
    """The same rows with every column's labels permuted: as confidently wrong as a table can be."""
    rng = np.random.default_rng(3)
    return Table(SAME.domain, tuple(rng.permutation(s)[c] for s, c in zip(SIZES, SAME.columns, strict=True)))


def mixed(other: Table, share: float) -> Table:
    """Rows of another population in place of some."""
    theirs = np.random.default_rng(4).random(M) < share
    return Table(
        SAME.domain,
        tuple(np.where(theirs, y, x) for x, y in zip(SAME.columns, other.columns, strict=True)),
    )


DIAL = {
    "same population": SAME,
    "20 % unrelated": mixed(UNRELATED, 0.2),
    "50 % unrelated": mixed(UNRELATED, 0.5),
    "80 % unrelated": mixed(UNRELATED, 0.8),
    "unrelated": UNRELATED,
    "half renamed": mixed(renamed(), 0.5),
    "renamed": renamed(),
}


def alone(public: Table) -> float:
    """The error of the public table itself."""
    counts = count_table(public, WORK.marginals)
    return errors_of(WORK, TRUTH, {m: c * (N / M) for m, c in counts.items()}, "answers").workload_error


def errors(public: Table | None, epsilon: float, seeds: int) -> NDArray[np.float64]:
    """[seed, model or rows]"""
    schema = Schema.from_sizes(dict(PRIVATE.domain.sizes()))

    def rows(table: Table) -> pa.Table:
        return pa.table(dict(zip(table.domain, table.columns, strict=True)))

    other = None if public is None else rows(public)
    found = [
        measure(rows(PRIVATE), other, schema, WORK, TRUTH, op.Tilt(), epsilon, seed) for seed in range(seeds)
    ]
    return np.array(found)[:, :2]


def ratio(ours: NDArray[np.float64], without: NDArray[np.float64], public: float) -> str:
    """To the better of the two, with its standard error."""
    each = ours / (without if without.mean() < public else public)
    mean = ours.mean() / min(without.mean(), public)
    return f"{mean:.3f} ± {each.std(ddof=1) / np.sqrt(len(each)):.3f}"


def main(words: list[str]) -> None:
    """Every ε, every public table."""
    seeds = next((int(w.removeprefix("seeds=")) for w in words if w.startswith("seeds=")), 5)
    epsilons = [float(w) for w in words if "=" not in w] or list(EPSILONS)
    order = [(name, f"{e:g}") for name in DIAL for e in EPSILONS]
    for epsilon in epsilons:
        without = errors(None, epsilon, seeds)
        for name, public in DIAL.items():
            ours, itself = errors(public, epsilon, seeds), alone(public)
            cells = [
                cell
                for i in range(2)
                for cell in (mean_and_error(ours[:, i]), ratio(ours[:, i], without[:, i], itself))
            ]
            cells += [f"{itself:.4f}", f"{without[:, 0].mean():.4f}", str(seeds)]
            TABLE.put((name, f"{epsilon:g}"), cells, order)


if __name__ == "__main__":
    main(sys.argv[1:])
