"""How often 95 % intervals hold the true count, on real pairs: `python -m benchmarks.intervals`.

Writes benchmarks/results/intervals.md. "Measured" cells have intervals, which should hold 95 % of the true counts. For
the others tilt gives a standard error by its own account; the last column says how often the true count of a non-empty
cell lies within 1.96 of them, which shows why no interval is made of it.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.data import jam_pair
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.tables.encode import encode_table

RESULTS = Path(__file__).parent / "results" / "intervals.md"
PAIRS = {
    "TITANIC": "titanic",
    "ADULT, 25 % women": "adult_pub025_01",
    "ADULT, 100 % women": "adult_pub100_01",
}
METHODS: dict[str, tuple[Any, int]] = {
    "tilt": (op.Tilt(), 3),
    "mst": (op.Mst(), 3),
    "aim": (op.Aim(), 3),
    "pmw-pub": (op.PmwPub(), 20),  # it measures single cells, few per run
}
DELTA = 1e-9
HEADER = """# Coverage of 95 % intervals

All 1-, 2- and 3-way cells, workload all 3-way marginals, δ = 1e-9. *Cells*: how many have an interval, on average.
*Inside*: how many of those hold the true count, in percent, mean ± standard error over seeds. *Own*: of other cells
whose true count is not 0, how many are within 1.96 of tilt's own standard errors. Made by
`python -m benchmarks.intervals`.

| pair | method | ε | seeds | cells | inside | own |
|---|---|---|---|---|---|---|"""


def coverage(pair: str, mechanism: Any, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Cells with an interval, their coverage, and that of the model's standard errors elsewhere (nan if none)."""
    private, public, schema = jam_pair(pair)  # type: ignore[misc]
    plan = op.all_marginals(3)
    marginals = [m for k in (1, 2, 3) for m in op.all_marginals(k).on(schema.domain).marginals]
    truth = count_table(encode_table(private, schema), marginals)
    made = op.release(
        private,
        public,
        schema=schema,
        workload=plan,
        epsilon=epsilon,
        delta=DELTA,
        mechanism=mechanism,
        seed=seed,
    )
    told = held = 0
    near, others = 0, 0
    for marginal, true in truth.items():
        table = made.answers(marginal)
        columns = {
            c: table[c].to_numpy(zero_copy_only=False) for c in ("estimate", "standard_error", "low", "high")
        }
        basis = np.array(table["basis"].to_pylist())
        known = basis == "measured"
        told += int(known.sum())
        held += int(((columns["low"] <= true) & (true <= columns["high"]))[known].sum())
        own = (basis == "model") & (true > 0)
        gap = np.abs(true - columns["estimate"])[own]
        near, others = (
            near + int((gap <= 1.96 * columns["standard_error"][own]).sum()),
            others + int(own.sum()),
        )
    return float(told), held / told if told else np.nan, near / others if others else np.nan


def main() -> None:
    """Run all, or the methods named; other lines of the table are kept."""
    asked = sys.argv[1:] or list(METHODS)
    warnings.simplefilter("ignore", OpenPriorWarning)
    kept = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    known = {tuple(cells[:3]): line for line in kept if len(cells := line.strip("| ").split(" | ")) == 7}
    for pair, folder in PAIRS.items():
        for name, (mechanism, seeds) in METHODS.items():
            if name not in asked or (folder == "adult_pub100_01" and name in ("mst", "aim")):
                continue  # those two do not look at the public table
            for epsilon in (1.0, 10.0):
                found = np.array([coverage(folder, mechanism, epsilon, seed) for seed in range(seeds)])
                shown = " | ".join([f"{found[:, 0].mean():,.0f}", *(_percent(c) for c in found[:, 1:].T)])
                known[pair, name, f"{epsilon:g}"] = f"| {pair} | {name} | {epsilon:g} | {seeds} | {shown} |"
                print(known[pair, name, f"{epsilon:g}"], flush=True)
    order = [(p, m, e) for p in PAIRS for m in METHODS for e in ("1", "10")]
    lines = [known[key] for key in order if key in known]
    RESULTS.write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")


def _percent(values: np.ndarray) -> str:
    good = values[np.isfinite(values)]
    if not len(good):
        return "–"
    error = good.std(ddof=1) / np.sqrt(len(good)) if len(good) > 1 else np.nan
    return f"{100 * good.mean():.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    main()
