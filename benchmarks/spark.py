"""`python -m benchmarks.spark`: rows counted per second on Spark, beside the local engine, on one and on two cores.

All 2-way marginals of 15 columns over rows that are made up on the way, so that no disk is measured: by Spark SQL for
Spark, by NumPy for the local engine. "made" is the time of making the rows alone. Every figure comes from a process of
its own that may use only so many cores. In local mode Spark's Java process is driver and executor in one, and the
workers in Python are its children: their memory is given apart from the driver's own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import ADULT_SIZES
from openprior.counting.cells import Cells
from openprior.counting.engine import engine_of
from openprior.questions.workload import all_marginals
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source

RESULTS = Path(__file__).parent / "results" / "spark.txt"
SCHEMA = Schema.from_sizes({f"c{i:02}": size for i, size in enumerate(ADULT_SIZES)})
JAVA_MEMORY = "1g"
BATCH = 1 << 17


class MadeUp:
    """Rows from NumPy: the square of a random number, so that low codes are common."""

    name, is_text = "table", False
    columns = SCHEMA.names

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(0)
        for start in range(0, self._rows, BATCH):
            n = min(BATCH, self._rows - start)
            drawn = rng.integers(0, 1 << 16, (len(ADULT_SIZES), n), dtype=np.uint16).astype(np.uint32)
            codes = [
                (((d * d) >> 16) * np.uint32(s) >> 16).astype(np.int8)
                for d, s in zip(drawn, ADULT_SIZES, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in codes], names=list(self.columns))


def made_by_spark(session: Any, rows: int) -> Any:
    """The same from Spark SQL: four columns out of each hash of the row's number."""
    hashes = [f"xxhash64(id, {k}) AS h{k}" for k in range(4)]
    columns = []
    for i, (name, size) in enumerate(zip(SCHEMA.names, ADULT_SIZES, strict=True)):
        drawn = f"(shiftright(h{i // 4}, {16 * (i % 4)}) & 65535)"
        square = f"shiftright({drawn} * {drawn}, 16)"
        columns.append(f"CAST(shiftright({square} * {size}, 16) AS TINYINT) AS {name}")
    return session.range(rows).selectExpr(*hashes).selectExpr(*columns)


def measure(engine: str, rows: int, cores: int) -> dict[str, float]:
    """In a process of its own: seconds of making the rows, of counting them, and peak memory in MB."""
    if engine == "spark":
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {JAVA_MEMORY} pyspark-shell"
        from openprior.spark.cluster import open_session

        session = open_session(f"local[{cores},4]")
        data: Any = made_by_spark(session, rows)
        work(made_by_spark(session, 200_000))
        begin = time.perf_counter()
        data.write.format("noop").mode("overwrite").save()
    else:
        data = MadeUp(rows)
        work(MadeUp(200_000))
        begin = time.perf_counter()
        for _ in data.batches():
            pass
    made = time.perf_counter() - begin
    begin = time.perf_counter()
    counted = work(data)
    seconds = time.perf_counter() - begin
    assert counted == rows
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"made": made, "seconds": seconds, "driver": driver, "children": largest_worker() / 1024}


def work(data: Any) -> int:
    """Count all pairs; how many rows there were."""
    encoder = Encoder(SCHEMA, open_source(data), private=True)
    _, rows = engine_of(encoder.source).count(
        encoder, Cells(SCHEMA.domain, all_marginals(2).on(SCHEMA.domain).marginals)
    )
    return rows


def largest_worker() -> int:
    """The largest peak memory of a Python worker of this process's Java process, in kB."""
    family, peaks = {os.getpid()}, [0]
    for _ in range(4):
        for entry in Path("/proc").iterdir():
            try:
                status = dict(
                    line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line
                )
            except OSError:
                continue
            if int(status.get("PPid", "0")) in family and entry.name.isdigit():
                family.add(int(entry.name))
                if "python" in status["Name"] and "VmHWM" in status:
                    peaks.append(int(status["VmHWM"].split()[0]))
    return max(peaks)


def apart(engine: str, rows: int, cores: int) -> dict[str, float]:
    """Measure in a fresh process that may use only so many cores."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.spark",
        "--alone",
        engine,
        "--rows",
        str(rows),
        "--cores",
        str(cores),
    ]
    mine = sorted(os.sched_getaffinity(0))[:cores]
    done = subprocess.run(
        words,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, mine),
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--alone", choices=["spark", "local"], help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.alone:
        print(json.dumps(measure(args.alone, args.rows, args.cores)))
        return
    lines = [f"{args.rows:,} rows x {len(ADULT_SIZES)} columns, made up on the way; all 2-way marginals"]
    for cores in (1, 2):
        for engine in ("local", "spark"):
            found = apart(engine, args.rows, cores)
            rate = args.rows / found["seconds"] / 1e6
            line = f"{engine:<6} {cores} core{'s' if cores > 1 else ' '}  {rate:6.2f} M rows/s"
            line += f" ({found['seconds']:.0f} s, of which made {found['made']:.0f} s)"
            line += f"; driver {found['driver']:.0f} MB"
            if engine == "spark":
                line += f", a worker {found['children']:.0f} MB, Java heap {JAVA_MEMORY} at most"
            lines.append(line)
            print(line, flush=True)
    lines.append(
        "In local mode Spark's Java process is driver and executor in one; noise and ledger are not part of this."
    )
    args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
