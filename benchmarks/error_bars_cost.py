"""What error bars cost: the error of releases with them and without, from the same seeds.

`python -m benchmarks.error_bars_cost [PAIR …] [seeds=N]` writes benchmarks/results/error_bars_cost.md.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import openprior as op
from benchmarks.accuracy import DELTA
from benchmarks.intervals import EPSILONS, PAIRS, opened
from benchmarks.lines import Lines, mean_and_error
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.tables.encode import encode_table

SEEDS = 10
HEADER = f"""# What error bars cost

The workload error of `tilt`'s answers (mean over marginals of Σ|count − estimate|, as a share of the rows) without \
error bars (`error_bars=0`) and with the share of the budget that a release takes by itself; mean ± standard error \
over the seeds. *More*: by how many percent the mean is larger with them, ± the standard error of that (the same seeds \
with and without). All 3-way marginals, of ACS all pairs; \
δ = {DELTA:g}; replace-one. By `python -m benchmarks.error_bars_cost`.

| pair | ε | seeds | share of ρ | without | with | more |
|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "error_bars_cost.md", HEADER, keys=2)


class Pair:
    """Two tables, and what is true of the private one."""

    def __init__(self, pair: str) -> None:
        self.private, self.public, self.schema, self.work = opened(pair)
        self.marginals = list(self.work.on(self.schema.domain).marginals)
        self.codes = encode_table(self.private, self.schema)
        self.truth = count_table(self.codes, self.marginals)

    def error(self, epsilon: float, seed: int, error_bars: float | None) -> tuple[float, float]:
        """Of a release, and what share of ρ its error bars took."""
        made = op.release(
            self.private,
            self.public,
            schema=self.schema,
            workload=self.work,
            epsilon=epsilon,
            delta=DELTA,
            seed=seed,
            error_bars=error_bars,
        )
        answers = made.model.answers(self.marginals)
        off = float(np.mean([np.abs(self.truth[m] - answers[m]).sum() for m in self.marginals]))
        c = made.certificate
        share = sum(e.rho for e in c.events if e.to_dict().get("statistic") == "errors") / c.rho
        return off / self.codes.n, share


def main(wanted: list[str]) -> None:
    """Every pair and ε."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    seeds = next((int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")), SEEDS)
    order = [(p, f"{e:g}") for p in PAIRS for e in EPSILONS]
    for pair in [p for p in PAIRS if p in wanted] or PAIRS:
        pair_of = Pair(pair)
        for epsilon in EPSILONS:
            found = np.array(
                [(pair_of.error(epsilon, s, 0)[0], *pair_of.error(epsilon, s, None)) for s in range(seeds)]
            )
            without, with_, share = found.T
            ratio = with_.mean() / without.mean()
            spread = (with_ - ratio * without).std(ddof=1) / np.sqrt(seeds) / without.mean()
            told = f"{100 * (ratio - 1):+.1f} ± {100 * spread:.1f} %"
            cells = [str(seeds), f"{share.mean():.3f}", mean_and_error(without), mean_and_error(with_), told]
            TABLE.put((pair, f"{epsilon:g}"), cells, order)


if __name__ == "__main__":
    main(sys.argv[1:])
