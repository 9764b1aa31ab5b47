"""Whether 95 % intervals hold alike in all areas, and in tables with and without the area: on the American Community
Survey, 20 areas, 2018 public and 2019 private.

`python -m benchmarks.intervals_by_area [seeds=N]` writes benchmarks/results/intervals_by_area.md. Bars know the size of
an answer and the number of columns, not the area: this shows what that costs.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import openprior as op
from benchmarks.accuracy import DELTA
from benchmarks.intervals import EPSILONS, METHODS, opened
from benchmarks.lines import Lines
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.releases.answers import numbers_of
from openprior.tables.encode import encode_table

PAIR, AREA, FROM = "ACS 2018 to 2019", "PUMA", 2.0
NAMES = ("hierarchy", "tilt", "jam-pgm")
HEADER = f"""# Coverage of 95 % intervals, by area

All pairs of columns of the American Community Survey, 2018 to 2019, 20 areas; cells whose estimate is {FROM:g} \
rows or more; δ = {DELTA:g}; replace-one. Percent of the intervals that hold the private count, mean over the seeds: \
in pairs with the area and without it; of the areas' own cells, in the area where fewest do and in that where most do. \
By `python -m benchmarks.intervals_by_area`.

| method | ε | seeds | with the area | without | the worst area | the best |
|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "intervals_by_area.md", HEADER, keys=2)


def held(made: op.Release, truth: dict[tuple[str, ...], NDArray[np.int64]]) -> list[float]:
    """With the area, without it, and in each area, the share of intervals that hold."""
    size, inside = made.schema.domain[AREA], {}
    for m, counts in truth.items():
        ((estimate, _, low, high, _),) = numbers_of(made.model, made.measurements, [m], made.error_bars)
        shape = [made.schema.domain[a] for a in m]
        marks = np.where(estimate >= FROM, (low <= counts) & (counts <= high), np.nan).reshape(shape)
        inside[m] = (
            np.moveaxis(marks, m.index(AREA), 0).reshape(size, -1) if AREA in m else marks.reshape(1, -1)
        )
    with_ = np.concatenate([marks for m, marks in inside.items() if AREA in m], axis=1)
    without = np.concatenate([marks for m, marks in inside.items() if AREA not in m], axis=1)
    return [float(np.nanmean(with_)), float(np.nanmean(without)), *np.nanmean(with_, axis=1).tolist()]


def main(wanted: list[str]) -> None:
    """Every method and ε."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    seeds = next((int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")), 5)
    private, public, schema, work = opened(PAIR)
    truth = dict(count_table(encode_table(private, schema), list(work.on(schema.domain).marginals)))
    order = [(name, f"{e:g}") for name in NAMES for e in EPSILONS]
    for name in NAMES:
        for epsilon in EPSILONS:
            found = []
            for seed in range(seeds):
                made = op.release(
                    private, public, schema=schema, workload=work, epsilon=epsilon, delta=DELTA,
                    mechanism=METHODS[name][0], seed=seed,
                )  # fmt: skip
                found.append(held(made, truth))
            mean = 100 * np.mean(found, axis=0)
            cells = [str(seeds), *(f"{m:.1f}" for m in (mean[0], mean[1], mean[2:].min(), mean[2:].max()))]
            TABLE.put((name, f"{epsilon:g}"), cells, order)


if __name__ == "__main__":
    main(sys.argv[1:])
