"""How Tilt's cost grows: `python -m benchmarks.tilt_growth [AXIS ...]`, written to `results/tilt_growth.md`.

One thing grows and the others stay: 20 columns of 8 values, 100,000 private and 20,000 public rows, all pairs, ε = 1.
Processor seconds of the mechanism and its rows over all threads, so that other work on the machine does not count, and
the largest memory of the process. `python -m benchmarks.plots` draws it.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

import openprior as op
from benchmarks.data import made_up
from benchmarks.former import in_a_process
from benchmarks.lines import Lines
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals

STAYS = {"rows": 100_000, "columns": 20, "values": 8, "particles": 300_000, "ε": 1.0}
AXES: dict[str, tuple[float, ...]] = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (10, 20, 40, 80),
    "values": (4, 8, 16, 32, 64),
    "particles": (100_000, 300_000, 1_000_000),
    "ε": (0.1, 1.0, 10.0),
}
HEADER = """# How Tilt's cost grows

20 columns of 8 values, 100,000 private and 20,000 public rows, all pairs, 300,000 particles, ε = 1; one of them \
grows and the others stay. Processor seconds of all threads of the mechanism and its rows, loaded and compiled, \
prior learnt anew; *memory*: the largest of the process. By `python -m benchmarks.tilt_growth`.

| what | how much | seconds | memory | cells of the workload |
|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "tilt_growth.md", HEADER, keys=2)


def alone(sizes: dict[str, float]) -> dict[str, float]:
    """One run."""
    columns, values = int(sizes["columns"]), int(sizes["values"])
    both = made_up((values,) * columns, int(sizes["rows"]) + 20_000, 1)
    private, public = both.take(np.arange(20_000, both.n)), both.take(np.arange(20_000))
    work = all_marginals(2).on(private.domain)
    curator = FakeCurator(private, epsilon=sizes["ε"], noise=SeededNoise(0))
    curator.announce(work.marginals)
    curator.look_ahead()
    rng = np.random.default_rng(0)
    began = time.process_time()
    mechanism = op.Tilt(particles=int(sizes["particles"]))
    model = mechanism.run(curator, public, work, rng, lambda done, of, what: None)
    model.sample(private.n, rng)
    seconds = time.process_time() - began
    cells = sum(private.domain.size(m) for m in work.marginals)
    return {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cells": cells,
    }


def main(words: list[str]) -> None:
    """All axes, or those named."""
    if words[:1] == ["--one"]:
        alone(STAYS | {"rows": 2000, "columns": 5, "particles": 10_000})
        print(json.dumps(alone(json.loads(words[1]))))
        return
    order = [(axis, f"{v:,g}" if v < 1e6 else f"{v:,.0f}") for axis, values in AXES.items() for v in values]
    for axis in words or AXES:
        for value in AXES[axis]:
            sizes = json.dumps(STAYS | {axis: value})
            found = in_a_process(
                "benchmarks.tilt_growth", "--one", sizes, environment={"OPENPRIOR_CACHE": "off"}
            )
            cells = [f"{found['seconds']:.1f}", f"{found['megabytes']:,.0f} MB", f"{found['cells']:,}"]
            TABLE.put((axis, f"{value:,g}" if value < 1e6 else f"{value:,.0f}"), cells, order)


if __name__ == "__main__":
    main(sys.argv[1:])
