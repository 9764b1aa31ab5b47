"""`make results`: workload errors on the real pairs, with seeds, means and standard errors.

All 3-way marginals (all 2-way for the 21 columns of ACS), δ = 1e-9, errors of the model's answers and of the synthetic
rows. MWEM is not in the table: none of these domains can be enumerated.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.data import data_folder, jam_pair
from openprior.counting.local import count_table
from openprior.data.encode import encode_table
from openprior.data.schema import Schema
from openprior.evaluate.metrics import errors_of

EPSILONS, SEEDS, DELTA = (0.1, 1.0, 10.0), range(5), 1e-9
METHODS = {
    "pmw-pub": op.PmwPub(),
    "pmw-pub, average": op.PmwPub(output="average"),
    "pmw-pub, T = 50, no guard": op.PmwPub(guard=0.0, candidates="all", rounds=50),
    "mwem-pub": op.MwemPub(),
}
PAIRS = (
    "adult_pub025_01",
    "adult_pub050_01",
    "adult_pub075_01",
    "adult_pub100_01",
    "titanic",
    "salary",
    "fire",
)


def pairs() -> Iterator[tuple[str, Any, Any, Schema, Any]]:
    """Name, private, public, schema, workload."""
    for name in PAIRS:
        found = jam_pair(name)
        assert found is not None
        yield name.removesuffix("_01"), *found, op.all_marginals(3)
    acs = data_folder() / "nist_acs"  # type: ignore[operator]
    schema = Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "national.toml")
    yield "ACS 2018 to 2019", acs / "national2019.csv", acs / "national2018.csv", schema, op.all_marginals(2)


def main() -> None:
    """Every pair, method and ε; writes a Markdown table."""
    if data_folder() is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has jam/ and nist_acs/")
    lines = [
        "# Workload error on real pairs",
        "",
        f"Mean L1 error a marginal ± standard error over {len(SEEDS)} seeds; δ = {DELTA:g}; replace-one. *Model*: the "
        "model's answers; *rows*: the synthetic rows; *max*: largest error of one query (model). By `make results`."
        " Seconds are of whatever else the machine was doing, too.",
        "",
        "| pair | method | ε | model | rows | max | seconds a run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, private, public, schema, plan in pairs():
        work = plan.on(schema.domain)
        rows = encode_table(private, schema)
        truth = count_table(rows, work.marginals)

        def measure(mechanism: Any, epsilon: float, seed: int) -> tuple[float, float, float, float]:
            begin = time.perf_counter()
            made = op.release(
                private,  # noqa: B023
                public,  # noqa: B023
                schema=schema,  # noqa: B023
                workload=work,  # noqa: B023
                epsilon=epsilon,
                delta=DELTA,
                mechanism=mechanism,
                seed=seed,
            )
            seconds = time.perf_counter() - begin
            model = errors_of(work, truth, made.model.answers(work.marginals), "answers")  # noqa: B023
            counts = count_table(encode_table(made.synthetic, schema), work.marginals)  # noqa: B023
            synthetic = errors_of(work, truth, {m: c.astype(float) for m, c in counts.items()}, "synthetic")  # noqa: B023
            return model.workload_error, synthetic.workload_error, model.max_error, seconds

        cases = [("public", op.PublicProxy(), 0.0, 1)]
        cases += [(m, mechanism, e, len(SEEDS)) for m, mechanism in METHODS.items() for e in EPSILONS]
        for method, mechanism, epsilon, seeds in cases:
            found = np.array([measure(mechanism, epsilon or 1.0, s) for s in range(seeds)])
            mean = found.mean(axis=0)
            error = found.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(4)
            cells = [f"{mean[i]:.4f} ± {error[i]:.4f}" if seeds > 1 else f"{mean[i]:.4f}" for i in range(3)]
            shown = f"{epsilon:g}" if epsilon else "0"
            lines.append(f"| {name} | {method} | {shown} | {' | '.join(cells)} | {mean[3]:.1f} |")
            print(lines[-1], flush=True)
    results = Path(__file__).parent / "results" / "accuracy.md"
    results.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
