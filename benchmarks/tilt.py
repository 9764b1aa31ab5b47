"""The speed of Tilt: ADULT beside jam-pgm, 33 columns × 150,000 rows, and how the seconds grow.

`python -m benchmarks.tilt` writes `results/tilt.txt`. The wide table is made up: its public side has the same number of
rows, three constant columns, and two columns that lack a value altogether. Each run is a process of its own, so
that its memory can be read off; seconds are of the mechanism and its rows, without reading the tables.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import jam_pair, made_up
from openprior.counting.cores import workers
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.methods.jam import JamPgm
from openprior.methods.tilt import Tilt
from openprior.models.tilted.prior import fit_prior
from openprior.models.tilted.tilting import Tilting
from openprior.privacy.fake import FakeCurator
from openprior.privacy.measurement import Measurement
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals
from openprior.tables.encode import Table, encode_table

RESULTS = Path(__file__).parent / "results" / "tilt.txt"
CHOICES = (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)


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


def run(mechanism: Any, private: Table, public: Table) -> dict[str, Any]:
    """One run at ε = 1."""
    work = all_marginals(3).on(private.domain)
    curator = FakeCurator(private, noise=SeededNoise(0))
    curator.announce(work.marginals)
    curator.look_ahead()
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    model = mechanism.run(curator, public, work, rng, lambda done, of, what: None)
    fitted = time.perf_counter() - begin
    rows = model.sample(private.n, rng)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    truth = count_table(private, work.marginals)
    counts = {m: c.astype(np.float64) for m, c in count_table(rows, work.marginals).items()}
    error = errors_of(work, truth, counts, "synthetic").workload_error
    return {
        "seconds": seconds,
        "model_seconds": fitted,
        "megabytes": memory,
        "error": error,
        "marginals": len(work),
    }


def growth() -> list[str]:
    """Seconds for twice as much of one thing and the same of the others."""
    private, public = adult()
    work = all_marginals(3).on(private.domain)
    counts = count_table(private, work.marginals)
    rng = np.random.default_rng(0)
    prior = fit_prior(public, work.marginals, rng)
    chosen = [work.marginals[i] for i in rng.choice(len(work), 40, replace=False)]

    def tilted(blocks: int, particles: int) -> float:
        tilting = Tilting(prior, private.domain, private.n, particles, np.random.default_rng(0))
        for m in chosen[:blocks]:
            tilting.measured(Measurement.of(m, counts[m] + rng.normal(0, 30, len(counts[m])), 30.0))
        begin = time.perf_counter()
        tilting.fit(epochs=1)
        tilting.renew(particles)
        return time.perf_counter() - begin

    tilted(2, 10_000)
    lines = ["a fit and a renewal on ADULT, seconds:"]
    for particles in (50_000, 100_000, 200_000, 400_000):
        lines.append(f"  {particles:>7} particles, 20 marginals  {tilted(20, particles):7.2f}")
    for blocks in (5, 10, 20, 40):
        cells = sum(len(counts[m]) for m in chosen[:blocks])
        lines.append(
            f"   100000 particles, {blocks:>2} marginals ({cells:>6} cells) {tilted(blocks, 100_000):7.2f}"
        )
    lines.append("learning the prior of a made-up table of 33 columns, seconds:")
    for rows in (5_000, 20_000, 80_000, 160_000):
        _, other = wide(33, 1_000, rows)
        begin = time.perf_counter()
        fit_prior(other, all_marginals(3).on(other.domain).marginals, np.random.default_rng(0))
        lines.append(f"  {rows:>7} public rows {time.perf_counter() - begin:7.1f}")
    return lines


def in_a_process(what: str) -> dict[str, Any]:
    """Run one of ours in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.tilt", what],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """All figures."""
    if len(sys.argv) > 1:
        mechanism: Any = JamPgm() if sys.argv[1] == "jam" else Tilt()
        pair = wide() if sys.argv[1] == "wide" else adult()
        print(json.dumps(run(mechanism, *pair)))
        return
    lines = [
        f"{workers()} cores; ε = 1, δ = 1e-9, all 3-way marginals, one seed; seconds with rows (of the model)"
    ]
    for what, title in (
        ("adult", "tilt, ADULT"),
        ("jam", "jam-pgm, ADULT"),
        ("wide", "tilt, 33 × 150,000"),
    ):
        found = in_a_process(what)
        lines.append(
            f"{title:<20} {found['seconds']:6.1f} s ({found['model_seconds']:.1f} s)  {found['megabytes']:6.0f} MB  "
            f"error {found['error']:.4f}  {found['marginals']} marginals"
        )
        print(lines[-1], flush=True)
    lines += growth()
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
