"""Does the time of a release depend on private values? `python -m benchmarks.timing` prints a table.

It may, and nothing prevents it: this says how much. Pairs of private tables of the same size: two neighbours, and
rows that are all alike against rows that are spread over the domain. Releases of the two take turns, so that whatever
else the machine does falls on both.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

import openprior as op
from openprior.errors import OpenPriorWarning

ROWS, TIMES = 20_000, 20
SIZES = {"a": 8, "b": 6, "c": 12, "d": 4, "e": 10}
MECHANISMS: dict[str, Any] = {
    "mst": op.Mst(),
    "aim": op.Aim(rounds=5),
    "pmw-pub": op.PmwPub(rounds=20),
    "tilt": op.Tilt(rounds=6, particles=4000),
}


def spread(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Rows all over the domain."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, ROWS)
    return {a: (rng.geometric(0.4, ROWS) + hidden) % size for a, size in SIZES.items()}


def tables() -> dict[str, tuple[pa.Table, pa.Table]]:
    """The pairs."""
    rows = spread(1)
    near = {a: np.concatenate([(v[:1] + 1) % SIZES[a], v[1:]]) for a, v in rows.items()}
    alike = {a: np.zeros(ROWS, np.int64) for a in SIZES}
    return {
        "a table and its neighbour": (pa.table(rows), pa.table(near)),
        "spread rows and rows all alike": (pa.table(rows), pa.table(alike)),
    }


def seconds(mechanism: Any, private: pa.Table, public: pa.Table) -> float:
    """Of one release, with secure noise."""
    began = time.perf_counter()
    op.release(
        private, public, schema=op.Schema.from_sizes(SIZES), workload=op.all_marginals(2), epsilon=1.0,
        delta=1e-9, mechanism=mechanism,
    )  # fmt: skip
    return time.perf_counter() - began


def main() -> None:
    """All pairs and mechanisms, or the mechanisms named."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    public = pa.table(spread(2))
    print("| mechanism | tables | first, ms | second, ms | difference, ms |\n|---|---|---|---|---|")
    for name in sys.argv[1:] or MECHANISMS:
        for what, pair in tables().items():
            for private in pair:
                seconds(MECHANISMS[name], private, public)  # compiles
            taken = np.array([[seconds(MECHANISMS[name], p, public) for p in pair] for _ in range(TIMES)])
            shown = [_mean(1000 * taken[:, 0]), _mean(1000 * taken[:, 1])]
            shown.append(_mean(1000 * (taken[:, 1] - taken[:, 0])))
            print(f"| {name} | {what} | {' | '.join(shown)} |", flush=True)


def _mean(values: np.ndarray[Any, Any]) -> str:
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


if __name__ == "__main__":
    main()
