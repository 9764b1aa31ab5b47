"""Wide and long tables: `python -m benchmarks.width [CASE ...] [METHOD ...]`, written to `results/width.md`.

Whole releases by `op.release`, with rows, answers and report written to a folder, each in a process of its own so
that its largest memory is its own. Tables are made up, with dependent columns; the public table has a tenth of the
rows and is biased: rows whose first code is not 0 are there half as often. Errors are those of the rows.
"""

import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import openprior as op
from benchmarks.data import made_up
from benchmarks.former import in_a_process
from benchmarks.lines import Lines
from openprior.errors import OpenPriorWarning
from openprior.questions.workload import Workload
from openprior.tables.table import Table

METHODS = ("public", "tilt", "mst", "hdmm")
CHOICES = (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
CASES: dict[str, tuple[int, int, str]] = {
    "wide": (100, 100_000, "pairs"),
    "triples": (60, 100_000, "pairs and 1,000 triples"),
    "long": (15, 10_000_000, "pairs"),
    "deep": (15, 1_000_000, "triples"),
}
"""Columns, rows, questions."""
HEADER = """# Wide and long tables

Whole releases with rows, answers and report, from tables in memory to the written folder; ε = 1, δ = 1e-9, seeded; \
the public table has a tenth of the rows, at most 100,000, and differs. Each in a process of its own on two cores; \
*seconds* of the wall clock, in brackets of the processor; *memory*: the largest of the process, with the tables \
that it was given. Error: mean L1 of the rows over the workload, one seed. By `python -m benchmarks.width`.

| table | questions | method | cells | seconds | memory | folder | error |
|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "width.md", HEADER, keys=3)


def tables(columns: int, rows: int) -> tuple[Table, Table]:
    """Private and public."""
    sizes = tuple(int(s) for s in np.random.default_rng(7).choice(CHOICES, columns))
    public_rows = min(rows // 10, 100_000)
    both = made_up(sizes, rows + 2 * public_rows, 3)
    private = both.take(np.arange(rows))
    rest = both.take(np.arange(rows, rows + 2 * public_rows))
    rng = np.random.default_rng(8)
    common = np.asarray(rest.columns[0]) < 1
    kept = np.flatnonzero(common | (rng.random(rest.n) < 0.5))[:public_rows]
    return private, rest.take(kept)


def workload(questions: str, names: tuple[str, ...]) -> Workload:
    """What is asked."""
    if questions == "triples":
        return op.all_marginals(3)
    if questions == "pairs":
        return op.all_marginals(2)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    rng = np.random.default_rng(9)
    triples: set[tuple[str, ...]] = set()
    while len(triples) < 1000:
        triples.add(tuple(names[i] for i in sorted(rng.choice(len(names), 3, replace=False))))
    return Workload([*pairs, *sorted(triples)])


def alone(case: str, method: str) -> dict[str, float]:
    """One release in this process."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    columns, rows, questions = CASES[case]
    mechanism: Any = op.mechanisms()[method]()
    _release(tables(4, 2000), "pairs", mechanism)
    return _release(tables(columns, rows), questions, mechanism)


def _release(both: tuple[Table, Table], questions: str, mechanism: Any) -> dict[str, float]:
    private, public = (pa.table({a: t.column(a) for a in t.domain}) for t in both)
    schema, work = (
        op.Schema.from_sizes(both[0].domain.sizes()),
        workload(questions, both[0].domain.attributes),
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        began, processor = time.perf_counter(), time.process_time()
        released = op.release(
            private, public, schema=schema, workload=work, epsilon=1.0, delta=1e-9, mechanism=mechanism,
            seed=0, out=out,
        )  # fmt: skip
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) / 1e6
        error = op.evaluate(released, private, workload=work).workload_error
    asked = work.on(both[0].domain)
    cells = sum(both[0].domain.size(m) for m in asked.marginals)
    return {
        "seconds": seconds,
        "processor": processor,
        "memory": memory,
        "folder": size,
        "error": error,
        "cells": cells,
    }


def main(words: list[str]) -> None:
    """All cases and methods, or those named."""
    if words[:1] == ["--one"]:
        print(json.dumps(alone(*words[1:])))
        return
    unknown = [w for w in words if w not in CASES and w not in METHODS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join([*CASES, *METHODS])}")
    cases = [c for c in CASES if c in words] or list(CASES)
    methods = [m for m in METHODS if m in words] or list(METHODS)
    order = [(f"{c} × {r:,}", q, m) for c, r, q in CASES.values() for m in METHODS]
    for case in cases:
        columns, rows, questions = CASES[case]
        for method in methods:
            found = in_a_process("benchmarks.width", "--one", case, method)
            cells = [
                f"{found['cells']:,}",
                f"{found['seconds']:.1f} ({found['processor']:.1f})",
                f"{found['memory']:,.0f} MB",
                f"{found['folder']:.0f} MB",
                f"{found['error']:.4f}",
            ]
            TABLE.put((f"{columns} × {rows:,}", questions, method), cells, order)


if __name__ == "__main__":
    main(sys.argv[1:])
