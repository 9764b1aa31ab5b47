"""An agency's size: `python -m benchmarks.agency [--rows N] [PART ...]`, written to `results/agency.md`.

55 million rows × 60 columns of Parquet: one part of 500,000 rows is made up, and links give it as many names as are
needed, so that all bytes are read and nothing is stored. Parts: `count` (all 1,770 pairs, by the local engine and
by Spark as a cluster on this machine, on one core and on two), `mst` and `tilt` (whole releases from that folder
with all rows written in shards). Every figure comes from a process of its own that may use only so many cores.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import openprior as op
from benchmarks.data import made_up
from benchmarks.former import in_a_process
from benchmarks.lines import Lines
from benchmarks.spark import largest_worker
from openprior.counting.cells import Cells
from openprior.counting.engine import engine_of
from openprior.errors import OpenPriorWarning
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source

COLUMNS, PART, PUBLIC = 60, 500_000, 100_000
CHOICES = (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
SIZES = tuple(int(s) for s in np.random.default_rng(11).choice(CHOICES, COLUMNS))
SCHEMA = op.Schema.from_sizes({f"c{i:02}": size for i, size in enumerate(SIZES)})
JAVA_MEMORY = 1024
WORKS = {
    "count local 1": "counting all pairs, local engine, 1 core",
    "count local 2": "counting all pairs, local engine, 2 cores",
    "count spark 1": "counting all pairs, Spark, 1 worker of one core",
    "count spark 2": "counting all pairs, Spark, 2 workers of one core",
    "mst local 2": "release by mst, local engine, 2 cores",
    "tilt local 2": "release by tilt, local engine, 2 cores",
    "tilt spark 2": "release by tilt, Spark, 2 workers of one core",
}
HEADER = f"""# An agency's size

{COLUMNS} columns of 2 to 24 values from a folder of Parquet files of {PART:,} rows; all pairs; releases at ε = 1, δ \
= 1e-9 with {PUBLIC:,} public rows, answers and report, and as many synthetic rows as private ones in shards. Spark \
is `local-cluster`: a driver and workers of one core each, all on this machine. *Driver*: the largest memory of the \
Python process that holds the ledger; *worker*: of a Python worker of Spark. By `python -m benchmarks.agency`.

| work | rows | seconds | M rows/s | M rows/s per core | driver | worker | folder |
|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "agency.md", HEADER, keys=1)


def parts(folder: Path, rows: int) -> Path:
    """So many rows in a folder of Parquet files, all of them the same one."""
    table = made_up(SIZES, PART, 3)
    first = folder / "part-0000.parquet"
    parquet.write_table(pa.table({a: table.column(a) for a in table.domain}), first, row_group_size=125_000)
    for i in range(1, -(-rows // PART)):
        os.link(first, folder / f"part-{i:04}.parquet")
    return folder


def source(folder: Path, engine: str, cores: int) -> Any:
    """The folder, or a table of Spark's on it."""
    if engine == "local":
        return folder
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {JAVA_MEMORY}m pyspark-shell"
    from openprior.spark.cluster import open_session

    session = open_session(f"local-cluster[{cores},1,{JAVA_MEMORY}]")
    return session.read.parquet(str(folder))


def count(data: Any) -> int:
    """Count all pairs; how many rows there were."""
    encoder = Encoder(SCHEMA, open_source(data), private=True)
    pairs = op.all_marginals(2).on(SCHEMA.domain).marginals
    _, rows = engine_of(encoder.source).count(encoder, Cells(SCHEMA.domain, pairs))
    return rows


def alone(work: str, rows: int, folder: Path) -> dict[str, float]:
    """One figure in this process."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    what, engine, cores = work.split()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    data = source(folder, engine, int(cores))
    small = made_up(SIZES, 2000, 5)
    count(pa.table({a: small.column(a) for a in small.domain}) if engine == "local" else data.limit(2000))
    size = 0.0
    began = time.perf_counter()
    if what == "count":
        assert count(data) == rows
    else:
        size = _release(data, what)
    seconds = time.perf_counter() - began
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worker = largest_worker() / 1024 if engine == "spark" else 0.0
    return {"seconds": seconds, "driver": driver, "worker": worker, "folder": size}


def _release(data: Any, method: str) -> float:
    """A whole release; the megabytes of its folder."""
    mechanism: Any = op.mechanisms()[method]()
    table = made_up(SIZES, PUBLIC, 4)
    public = pa.table({a: table.column(a) for a in table.domain})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        op.release(
            data, public, schema=SCHEMA, workload=op.all_marginals(2), epsilon=1.0, delta=1e-9,
            mechanism=mechanism, seed=0, out=out, dataset="agency",
        )  # fmt: skip
        return sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) / 1e6


def main() -> None:
    """All works, or those named by their first words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=55_000_000)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help="such as `count`, or `tilt local`")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(alone(args.one[0], args.rows, Path(args.one[1]))))
        return
    wanted = [w for w in WORKS if all(word in w for word in args.words)]
    if not wanted:
        sys.exit(f"unknown: {' '.join(args.words)}; there are {', '.join(WORKS)}")
    with tempfile.TemporaryDirectory() as folder:
        parts(Path(folder), args.rows)
        for work in wanted:
            words = ("--rows", str(args.rows), "--one", work, folder)
            found = in_a_process("benchmarks.agency", *words)
            rate = args.rows / found["seconds"] / 1e6
            cells = [
                f"{args.rows:,}",
                f"{found['seconds']:.0f}",
                f"{rate:.2f}",
                f"{rate / int(work.split()[2]):.2f}",
                f"{found['driver']:,.0f} MB",
                f"{found['worker']:,.0f} MB" if found["worker"] else "",
                f"{found['folder']:,.0f} MB" if found["folder"] else "",
            ]
            TABLE.put((WORKS[work],), cells, [(w,) for w in WORKS.values()])


if __name__ == "__main__":
    main()
