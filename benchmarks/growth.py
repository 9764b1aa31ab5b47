"""`python -m benchmarks.growth [METHOD ...]`: processor seconds and memory of each method, and how they grow.

Made-up tables with more and more columns (all pairs) or rows; each run in a process of its own, so that its largest
memory is its own. Compiling, which only a first run does, is paid by a small run before, and taken off. Processor time
of all threads, so other work on the machine does not count, but two cores do not halve it.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa

import openprior as op
from benchmarks.data import made_up
from benchmarks.lines import Lines
from openprior.errors import OpenPriorWarning
from openprior.schema.base import Schema

METHODS = ("hdmm", "dual-query", "importance", "gem", "gem-pub", "pmw-pub", "tilt")
CASES = {
    "10 columns, 10,000 rows": (10, 10_000),
    "20 columns, 10,000 rows": (20, 10_000),
    "40 columns, 10,000 rows": (40, 10_000),
    "10 columns, 100,000 rows": (10, 100_000),
    "10 columns, 1,000,000 rows": (10, 1_000_000),
}
SIZES = (2, 4, 8, 16)
HEADER = """# Seconds and memory, and how they grow

Made-up tables of columns with 2, 4, 8 and 16 values in turn; a public table of a tenth of the rows; all pairs of \
columns; ε = 1, δ = 1e-9, seed 0; every method with its defaults. Seconds of processor time over all threads, without \
compiling, from `op.release` to the rows; megabytes: the largest memory of the process, of which about 250 are \
libraries (500 with JAX) and the rest grows with the table. By `python -m benchmarks.growth`.

| method | table | seconds | megabytes |
|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "growth.md", HEADER, keys=2)


def tables(columns: int, rows: int) -> tuple[pa.Table, pa.Table, Schema]:
    """Private, public, schema."""
    sizes = tuple(SIZES[i % len(SIZES)] for i in range(columns))
    private, public = made_up(sizes, rows, 1), made_up(sizes, rows // 10, 2)
    both = [pa.table({a: t.column(a) for a in t.domain}) for t in (private, public)]
    return both[0], both[1], Schema.from_sizes(private.domain.sizes())


def release(method: str, columns: int, rows: int) -> float:
    """Processor seconds of one release."""
    private, public, schema = tables(columns, rows)
    mechanism: Any = op.mechanisms()[method]()
    began = time.process_time()
    op.release(
        private, public, schema=schema, workload=op.all_marginals(2), epsilon=1.0, delta=1e-9,
        mechanism=mechanism, seed=0,
    )  # fmt: skip
    return time.process_time() - began


def main(wanted: list[str]) -> None:
    """All methods, or those named."""
    if wanted[:1] == ["--one"]:
        warnings.simplefilter("ignore", OpenPriorWarning)
        method, columns, rows = wanted[1], int(wanted[2]), int(wanted[3])
        release(method, 4, 1000)
        seconds = release(method, columns, rows)
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([seconds, kilobytes / 1024]))
        return
    unknown = [w for w in wanted if w not in METHODS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(METHODS)}")
    order = [(m, case) for m in METHODS for case in CASES]
    for method, case in order:
        if wanted and method not in wanted:
            continue
        command = [sys.executable, "-m", "benchmarks.growth", "--one", method, *map(str, CASES[case])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
        TABLE.put((method, case), [f"{seconds:.1f}", f"{megabytes:.0f}"], order)


if __name__ == "__main__":
    main(sys.argv[1:])
