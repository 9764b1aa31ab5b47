"""`make results`: the papers' baselines beside the public table and PMW^Pub, on the papers' pairs.

ADULT with thirteen columns as PMW^Pub's authors coded it (0.9 N private and 0.1 N public rows, drawn with replacement;
δ = 1/n²), and two splits of JAM-PGM (δ = 1e-9); all 3-way marginals, replace-one.
`python -m benchmarks.baselines METHOD ... PAIR ... ε ... [seeds=N]` measures only those and keeps the other lines.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.accuracy import measure
from benchmarks.data import adult_as_coded, jam_pair
from benchmarks.lines import Lines, mean_and_error
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

SEEDS = 5
METHODS: dict[str, Any] = {
    "public": op.PublicProxy(),
    "pmw-pub": op.PmwPub(),
    "tilt": op.Tilt(),
    "hdmm": op.Hdmm(),
    "dual-query": op.DualQuery(),
    "importance": op.ImportanceWeights(),
    "gem": op.Gem(),
    "gem-pub": op.GemPub(),
}
ALL = tuple(METHODS)
PAIRS = {
    "adult13": ((0.1, 0.5, 1.0), ALL),
    "titanic": ((0.1, 1.0, 10.0), ("public", "pmw-pub", "tilt", "gem", "gem-pub")),
    "adult_pub025_01": ((0.1, 1.0, 10.0), ("public", "pmw-pub", "tilt", "gem", "gem-pub")),
}
"""Each pair's ε, and the methods that are run on it."""
HEADER = f"""# The papers' baselines

Mean L1 error per marginal ± standard error over {SEEDS} seeds; all 3-way marginals; replace-one; every method with \
its defaults. *adult13*: thirteen columns as PMW^Pub's authors coded them, n = 43,931, δ = 1/n²; the others are \
splits of JAM-PGM, δ = 1e-9. *Model*: the model's answers; *rows*: the synthetic rows; *max*: largest error of a \
query. By `python -m benchmarks.baselines`. What the papers say of these methods, and whether it holds here, stands in \
[docs/methods.md](../../docs/methods.md#what-the-papers-say). Seconds are of whatever else the machine was doing, too.

| pair | method | ε | model | rows | max | seconds per run | seeds |
|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "baselines.md", HEADER)


def pairs(wanted: list[str]) -> Iterator[tuple[str, Any, Any, Schema, float]]:
    """Name, private, public, schema, δ."""
    for name in wanted:
        found = adult_as_coded() if name == "adult13" else jam_pair(name)
        if found is None:
            sys.exit("no real data: set OPENPRIOR_DATA to the folder that has adult/ and jam/")
        yield name, *found, 1 / found[0].num_rows ** 2 if name == "adult13" else 1e-9


def order() -> list[tuple[str, ...]]:
    """As the lines stand in the table."""
    return [
        (p.removesuffix("_01"), m, f"{e:g}")
        for p, (eps, ms) in PAIRS.items()
        for m in ms
        for e in (0.0, *eps)
    ]


def main(wanted: list[str]) -> None:
    """Every wanted pair, method and ε."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    seeds = next((int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")), SEEDS)
    names = [w for w in wanted if not w.startswith("seeds=")]
    budgets = {f"{e:g}" for epsilons, _ in PAIRS.values() for e in epsilons}
    unknown = [w for w in names if w not in METHODS and w not in PAIRS and w not in budgets]
    if unknown:
        sys.exit(
            f"unknown: {', '.join(unknown)}; there are {', '.join([*METHODS, *PAIRS, *sorted(budgets)])}"
        )
    for name, private, public, schema, delta in pairs([p for p in PAIRS if p in names] or list(PAIRS)):
        work = op.all_marginals(3).on(schema.domain)
        truth = count_table(encode_table(private, schema), work.marginals)
        epsilons, methods = PAIRS[name]
        for method in [m for m in methods if m in names] or methods:
            free = method == "public"
            for epsilon in [0.0] if free else [e for e in epsilons if f"{e:g}" in names] or epsilons:
                found = np.array(
                    [
                        measure(
                            private, public, schema, work, truth, METHODS[method], epsilon or 1.0, seed, delta
                        )
                        for seed in range(1 if free else seeds)
                    ]
                )
                cells = [mean_and_error(found[:, i]) for i in range(3)]
                rest = [f"{found[:, 3].mean():.1f}", str(len(found))]
                TABLE.put((name.removesuffix("_01"), method, f"{epsilon:g}"), [*cells, *rest], order())


if __name__ == "__main__":
    main(sys.argv[1:])
