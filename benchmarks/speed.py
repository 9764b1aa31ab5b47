"""`make bench`: every speed figure, with the peer in the same run. Ratios, because machines differ and are noisy."""

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.data import ADULT_SIZES, jam_pair, made_up
from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.local import count_batches, count_table
from openprior.questions.workload import all_marginals
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder, Table, encode_table
from openprior.tables.source import open_source

LINES: list[str] = []


def say(text: str) -> None:
    """Print, and keep for the results file."""
    print(text, flush=True)
    LINES.append(text)


def best(work: Callable[[], object], times: int = 5) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def numpy_counts(table: Table, marginals: tuple[tuple[str, ...], ...]) -> list[np.ndarray]:
    """The peer of counting: one bincount per marginal."""
    wide = {a: table.column(a).astype(np.intp) for a in table.domain}
    return [
        np.bincount(
            np.ravel_multi_index([wide[a] for a in m], [table.domain[a] for a in m]),
            minlength=table.domain.size(m),
        )
        for m in marginals
    ]


def adult() -> None:
    """All 3-way marginals of the ADULT private table."""
    pair = jam_pair("adult_pub025_01")
    if pair is None:
        table, name = made_up(ADULT_SIZES, 32_384, 0), "a made-up table of ADULT's shape"
    else:
        table, name = encode_table(pair[0], pair[2]), "ADULT"
    marginals = all_marginals(3).on(table.domain).marginals
    count_table(table, marginals)
    mine = best(lambda: count_table(table, marginals))
    peer = best(lambda: numpy_counts(table, marginals), 3)
    say(
        f"counting  {name}, {table.n:,} rows, all {len(marginals)} 3-way marginals: {mine:.3f} s (goal: < 0.15)"
    )
    say(f"          numpy bincount: {peer:.3f} s, {peer / mine:.1f} times as long")


def stream() -> None:
    """Ten million rows from Parquet, all 2-way marginals."""
    rows = 10_000_000
    table = made_up(ADULT_SIZES, 1_000_000, 0)
    schema = Schema.from_sizes(table.domain.sizes())
    piece = pa.table({a: table.column(a) for a in table.domain})
    marginals = all_marginals(2).on(table.domain).marginals
    with tempfile.TemporaryDirectory() as place:
        for i in range(rows // table.n):
            parquet.write_table(piece, Path(place) / f"part{i:02}.parquet")
        source = open_source(place)
        encoder = Encoder(schema, source, private=True)
        cells = Cells(table.domain, marginals)

        def run() -> None:
            batches = source.batches(encoder.columns_read)
            assert count_batches(batches, encoder.one_pass(), cells)[1] == rows

        run()
        mine = best(run, 3)
        peer = best(lambda: numpy_counts(encode_table(Path(place) / "part00.parquet", schema), marginals), 2)
    speed, slow = rows / mine / 1e6, table.n / peer / 1e6
    say(
        f"streaming {rows:,} rows x 15 columns of Parquet, all 105 2-way marginals: {speed:.1f} M rows/s (goal: >= 5)"
    )
    say(f"          pyarrow + numpy bincount: {slow:.2f} M rows/s; ratio {speed / slow:.1f}")


def pmw() -> None:
    """A round of PMW^Pub, and its memory."""
    found = {}
    for side in ("ours", "numpy"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.pmw", side], capture_output=True, check=True, text=True
        )
        found[side] = json.loads(done.stdout)
    mine, peer = found["ours"], found["numpy"]
    say(
        "pmw-pub   4,096 3-way marginals, 100,000 public rows, 32 attributes: "
        f"{mine['seconds'] * 1e3:.0f} ms per round, {mine['megabytes']:.0f} MB of its own, "
        f"{mine['in_all']:.0f} MB in all"
    )
    say(
        f"          numpy: {peer['seconds'] * 1e3:.0f} ms, {peer['megabytes']:.0f} MB, {peer['in_all']:.0f} MB; "
        f"{peer['seconds'] / mine['seconds']:.1f} times the time (goal: >= 8), "
        f"{peer['megabytes'] / mine['megabytes']:.1f} times the memory (goal: >= 10)"
    )


def start() -> None:
    """How long one waits for nothing."""

    def command(*words: str) -> float:
        return best(lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True))

    bare, light = command("-c", "pass"), command("-c", "import openprior")
    say(f"start     import openprior: {light:.2f} s (goal: < 0.4); python alone {bare:.2f} s")
    say(
        f"          openprior --help: {command('-m', 'openprior.command_line.main', '--help'):.2f} s (goal: < 0.6)"
    )


def main() -> None:
    """All of them."""
    say(f"openprior speed on {workers()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    for part in (start, adult, stream, pmw):
        part()
    results = Path(__file__).parent / "results" / "speed.txt"
    results.write_text("\n".join(LINES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
