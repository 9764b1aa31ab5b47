"""The speed of Tilt against its former version: `python -m benchmarks.tilt [WORK ...] [times=3]`.

Both versions run in the same race, in turns, each in a process of its own; a small run before pays for loading and
compiling. Seconds are of the wall clock, of the mechanism and its rows without reading the tables (the demo: whole
releases, one of them written to a folder with its report); processor seconds of all threads stand beside. It writes
`results/tilt.md`. The wide table is made up: its public side has the same number of rows, three constant columns,
and two columns that lack a value altogether.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.data import jam_pair, made_up
from benchmarks.former import FORMER, in_a_process, unpacked
from benchmarks.lines import Lines
from openprior.counting.cores import workers
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals
from openprior.schema.base import Schema
from openprior.tables.encode import Table, encode_table
from openprior.tables.simulate import demo_surveys

CHOICES = (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
Found = dict[str, float]


def adult() -> tuple[Table, Table]:
    """The unbiased pair."""
    found = jam_pair("adult_pub025_01")
    if found is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has jam/")
    private, public, schema = found
    return encode_table(private, schema), encode_table(public, schema)


def wide(columns: int = 33, rows: int = 150_000, public_rows: int = 150_000) -> tuple[Table, Table]:
    """A wide pair whose public side has constant columns and lacks values."""
    sizes = tuple(int(s) for s in np.random.default_rng(5).choice(CHOICES, columns))
    both = made_up(sizes, rows + public_rows, 1)
    private, public = both.take(np.arange(rows)), both.take(np.arange(rows, rows + public_rows))
    changed = list(public.columns)
    for j in (0, 7, 14):
        changed[j] = np.zeros_like(changed[j])
    for j in (3, 9):
        changed[j] = np.minimum(changed[j], max(0, sizes[j] - 2))
    return private, Table(public.domain, tuple(changed))


def run(mechanism: Any, private: Table, public: Table | None, epsilon: float = 1.0, ways: int = 3) -> Found:
    """One run on tables of codes."""
    work = all_marginals(ways).on(private.domain)
    curator = FakeCurator(private, epsilon=epsilon, noise=SeededNoise(0))
    curator.announce(work.marginals)
    curator.look_ahead()
    rng = np.random.default_rng(0)
    began, processor = time.perf_counter(), time.process_time()
    if hasattr(mechanism, "prepared"):  # where a release looks into the cache; the former version has none
        mechanism = mechanism.prepared(public, work)
    model = mechanism.run(curator, public, work, rng, lambda done, of, what: None)
    fitted = time.perf_counter() - began
    rows = model.sample(private.n, rng)
    seconds = time.perf_counter() - began
    processor = time.process_time() - processor
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    truth = count_table(private, work.marginals)
    counts = {m: c.astype(np.float64) for m, c in count_table(rows, work.marginals).items()}
    return {
        "seconds": seconds,
        "processor": processor,
        "model_seconds": fitted,
        "megabytes": memory,
        "error": errors_of(work, truth, counts, "synthetic").workload_error,
    }


def demo() -> Found:
    """The demo's two releases by Tilt, without a public table and with one."""
    public, private = demo_surveys(rows_public=20_000, rows_private=20_000)
    schema, errors = Schema.draft(public), []
    began, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for prior, out in ((None, None), (public, Path(folder) / "demo")):
            released = op.release(
                private, prior, schema=schema, workload=op.all_marginals(3), epsilon=1.0, delta=1e-9,
                mechanism=op.Tilt(), out=out,
            )  # fmt: skip
            errors.append(released)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        error = op.evaluate(errors[-1], private).workload_error
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "processor": processor, "megabytes": memory, "error": error}


def _warm() -> None:
    run(op.Tilt(), *wide(15, 2000, 1000))


WORKS: dict[str, tuple[str, float, Callable[[], Found]]] = {
    "adult": ("ADULT, 455 triples, with rows", 4, lambda: run(op.Tilt(), *adult())),
    "kept": ("the same, prior from the cache", 8, lambda: run(op.Tilt(), *adult())),
    "adult10": ("ADULT at ε = 10", 4, lambda: run(op.Tilt(), *adult(), epsilon=10.0)),
    "demo": ("the demo's two releases", 5, demo),
    "wide": ("33 columns × 150,000 rows, 5,456 triples", 4, lambda: run(op.Tilt(), *wide())),
}
"""What, the ratio hoped for, and how."""
HEADER = f"""# Tilt beside its former version

Both in the same race, in turns, each in a process of its own, on {workers()} cores with whatever else the machine \
does; medians. Seconds of the wall clock, in brackets of the processor; ε = 1 unless said; with the synthetic rows; \
loaded and compiled. *Former* is commit {FORMER}. Error: mean L1 of the rows, one seed. By `python -m \
benchmarks.tilt`.

| work | former | now | ratio | hoped for | of the processor | former error | error | memory | runs |
|---|---|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "tilt.md", HEADER, keys=1)


def alone(work: str) -> Found:
    """One work in this process."""
    _warm()
    if work == "demo":
        demo()
    if work == "kept":
        WORKS[work][2]()
    return WORKS[work][2]()


def race(work: str, times: int) -> None:
    """Both versions in turns; a line of the table."""
    title, hoped, _ = WORKS[work]
    with tempfile.TemporaryDirectory() as folder:
        kept = {"OPENPRIOR_CACHE": folder if work == "kept" else "off"}
        found: dict[str, list[Found]] = {"former": [], "now": []}
        for _ in range(times):
            found["former"].append(in_a_process("benchmarks.tilt", "--one", work, source=unpacked()))
            found["now"].append(in_a_process("benchmarks.tilt", "--one", work, environment=kept))
    middle = {
        side: {k: float(np.median([f[k] for f in runs])) for k in runs[0]} for side, runs in found.items()
    }
    former, now = middle["former"], middle["now"]
    cells = [
        f"{former['seconds']:.2f} ({former['processor']:.1f})",
        f"{now['seconds']:.2f} ({now['processor']:.1f})",
        f"{former['seconds'] / now['seconds']:.1f}",
        f"{hoped:g}",
        f"{former['processor'] / now['processor']:.1f}",
        f"{former['error']:.4f}",
        f"{now['error']:.4f}",
        f"{former['megabytes']:.0f} → {now['megabytes']:.0f} MB",
        str(times),
    ]
    TABLE.put((title,), cells, [(t,) for t, _, _ in WORKS.values()])


def main(words: list[str]) -> None:
    """All works, or those named."""
    if words[:1] == ["--one"]:
        os.environ.setdefault("OPENPRIOR_CACHE", "off")
        print(json.dumps(alone(words[1])))
        return
    times = next((int(w.removeprefix("times=")) for w in words if w.startswith("times=")), 3)
    wanted = [w for w in words if not w.startswith("times=")] or list(WORKS)
    unknown = [w for w in wanted if w not in WORKS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(WORKS)}")
    for work in wanted:
        race(work, times)


if __name__ == "__main__":
    main(sys.argv[1:])
