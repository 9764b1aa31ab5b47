"""`make results`: workload errors on the real pairs, with seeds, means and standard errors.

All 3-way marginals (all 2-way for the 21 columns of ACS), δ = 1e-9, errors of the model's answers and of the synthetic
rows. `python -m benchmarks.accuracy METHOD ... PAIR ... ε ... [seeds=N]` measures only those and keeps the other lines
of the table, which is written anew after every line. The private side of the four ADULT pairs is the same table, so
methods without public data stand there once. MWEM is not in the table: none of these domains can be enumerated.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.data import data_folder, jam_pair
from benchmarks.lines import Lines, mean_and_error
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

EPSILONS, DELTA = (0.03, 0.1, 0.31, 1.0, 3.16, 10.0), 1e-9
METHODS = {
    "tilt": (op.Tilt(), 5),
    "public": (op.PublicProxy(), 1),
    "pmw-pub": (op.PmwPub(), 5),
    "pmw-pub, average": (op.PmwPub(output="average"), 5),
    "pmw-pub, T = 50, no guard": (op.PmwPub(guard=0.0, candidates="all", rounds=50), 5),
    "mwem-pub": (op.MwemPub(), 5),
    "jam-pgm": (op.JamPgm(), 3),
    "aim": (op.Aim(), 3),
    "mst": (op.Mst(), 3),
}
"""The mechanism, and how many seeds."""
PAIRS = (
    "adult_pub025_01",
    "adult_pub050_01",
    "adult_pub075_01",
    "adult_pub100_01",
    "titanic",
    "salary",
    "fire",
)
RESULTS = Path(__file__).parent / "results" / "accuracy.md"
HEADER = f"""# Workload error on real pairs

Mean L1 error per marginal ± standard error over the seeds; δ = {DELTA:g}; replace-one. *Model*: the model's answers; \
*rows*: the synthetic rows; *max*: largest error of one query (model). By `make results`. Seconds are of whatever \
else the machine was doing, too. The lines of `jam-pgm` and `aim` are older than the limit of the time of their fits \
and JAM-PGM's published size limit; [what changed](graphical_time.md). Those of `aim` and `mst` are older than \
[merging rare values](compression.md). The prior of `tilt` is a function of the public table and the workload: all \
seeds of a pair share it, so their standard errors do not tell of its own luck.

| pair | method | ε | model | rows | max | seconds per run | seeds |
|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(RESULTS, HEADER)


def pairs() -> Iterator[tuple[str, Any, Any, Schema, Any]]:
    """Name, private, public, schema, workload."""
    for name in PAIRS:
        found = jam_pair(name)
        assert found is not None
        yield name.removesuffix("_01"), *found, op.all_marginals(3)
    acs = data_folder() / "nist_acs"  # type: ignore[operator]
    schema = Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "national.toml")
    yield "ACS 2018 to 2019", acs / "national2019.csv", acs / "national2018.csv", schema, op.all_marginals(2)


def order() -> list[tuple[str, str, str]]:
    """Pairs, methods and ε, as they stand in the table."""
    names = [*(p.removesuffix("_01") for p in PAIRS), "ACS 2018 to 2019"]
    epsilons = ["0", *(f"{e:g}" for e in EPSILONS)]
    return [(p, m, e) for p in names for m in METHODS for e in epsilons]


def measure(
    private: Any,
    public: Any,
    schema: Schema,
    work: Any,
    truth: Any,
    mechanism: Any,
    epsilon: float,
    seed: int,
    delta: float = DELTA,
) -> tuple[float, float, float, float]:
    """Error of the model, of the rows, largest error, seconds."""
    begin = time.perf_counter()
    made = op.release(
        private,
        public,
        schema=schema,
        workload=work,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        seed=seed,
    )
    seconds = time.perf_counter() - begin
    model = errors_of(work, truth, made.model.answers(work.marginals), "answers")
    counts = count_table(encode_table(made.synthetic, schema), work.marginals)
    synthetic = errors_of(work, truth, {m: c.astype(float) for m, c in counts.items()}, "synthetic")
    return model.workload_error, synthetic.workload_error, model.max_error, seconds


def main(wanted: list[str]) -> None:
    """Every wanted pair, wanted method and ε; writes a Markdown table."""
    budgets = [f"{e:g}" for e in EPSILONS]
    seeded = [int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")]
    unknown = [
        w for w in wanted if w not in METHODS and w not in PAIRS and w not in budgets and "seeds=" not in w
    ]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join([*METHODS, *PAIRS, *budgets])}")
    methods = [m for m in wanted if m in METHODS] or list(METHODS)
    epsilons = [float(w) for w in wanted if w in budgets] or list(EPSILONS)
    places = {p.removesuffix("_01") for p in wanted if p in PAIRS}
    if data_folder() is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has jam/ and nist_acs/")
    for name, private, public, schema, plan in pairs():
        if places and name not in places:
            continue
        work = plan.on(schema.domain)
        truth = count_table(encode_table(private, schema), work.marginals)
        for method in methods:
            mechanism, seeds = METHODS[method]
            seeds = seeded[0] if seeded else seeds
            for epsilon in epsilons if method != "public" else [0.0]:
                found = np.array(
                    [
                        measure(private, public, schema, work, truth, mechanism, epsilon or 1.0, s)
                        for s in range(seeds)
                    ]
                )
                cells = [mean_and_error(found[:, i]) for i in range(3)]
                seconds = f"{found[:, 3].mean():.1f}"
                TABLE.put((name, method, f"{epsilon:g}"), [*cells, seconds, str(seeds)], order())


if __name__ == "__main__":
    main(sys.argv[1:])
