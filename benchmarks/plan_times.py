"""`python -m benchmarks.plan_times [METHOD ...] [PAIR ...] [cpu]`: the time that plan foretells, and the time it takes.

Every mechanism with its defaults on the real pairs of benchmarks/accuracy.py, at ε = 1 and δ = 1e-9, with secure
noise, from `op.release` to the written folder. Compiling, which only a first run does, is taken off and stands apart;
what takes less than three seconds is run twice, and the second counts. With `cpu`, processor time is taken instead of
the clock's, as if all that other threads do were spread over the cores: for machines that have other work. Takes about
seven minutes.

A ratio is measured over planned; where plan gives a range, because the work depends on how far the public table is from
the private one, it is that to the nearer end, and 1 inside.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openprior as op
from benchmarks.accuracy import DELTA, pairs
from benchmarks.data import data_folder
from openprior.counting.cores import available_cores
from openprior.guidance.costs import Cost
from openprior.guidance.plan import plan
from openprior.progress import COMPILING, Progress, listening
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

EPSILON = 1.0
NAMES = ("titanic", "adult_pub025", "salary", "fire", "ACS 2018 to 2019")
"""The other pairs of ADULT have the same sizes, so plan says the same of them."""
FAR = ("adult_pub100", ("pmw-pub",))
"""The public table far from the private one, for the mechanisms to which that makes a difference in time."""
AREAS = ("ACS areas", ("hierarchy", "ide"))
"""The schema of the hierarchy example, for the mechanisms to which groups make a difference."""
QUICK = 3.0
RESULTS = Path(__file__).parent / "results" / "plan_times.md"
HEADER = f"""# Times that plan foretells

Seconds from `op.release` to the written folder: what `plan` says from the sizes and a glance at the machine's speed, \
and what a run takes (ε = {EPSILON:g}, δ = {DELTA:g}, secure noise; compiling taken off). Ratio: measured over \
planned; where plan gives a range, to its nearer end. By `python -m benchmarks.plan_times`.

| pair | mechanism | planned | measured | ratio |
|---|---|---|---|---|
"""


def processor_time() -> float:
    """What the clock would show if other threads had all cores and nobody else had any."""
    mine = time.thread_time()
    return mine + (time.process_time() - mine) / len(available_cores())


class Compiling:
    """Adds up the time that was spent on compiling."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._since = clock, 0.0
        self.seconds = 0.0

    def begin(self, told: Progress) -> None:
        """A phase begins."""
        if told.phase == COMPILING:
            self._since = self._clock()

    def step(self, told: Progress) -> None:
        """Nothing to add."""

    def end(self, told: Progress) -> None:
        """A phase has ended."""
        if told.phase == COMPILING:
            self.seconds += self._clock() - self._since


def cases() -> Iterator[tuple[str, tuple[str, ...] | None, Any, Any, Schema, Any]]:
    """Name, mechanisms (None: all), private, public, schema, workload."""
    for name, *pair in pairs():
        if name in NAMES:
            yield name, None, *pair
        elif name == FAR[0]:
            yield *FAR, *pair
    folder = data_folder()
    assert folder is not None
    acs = folder / "nist_acs"
    schema = Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "areas.toml")
    yield *AREAS, acs / "national2019.csv", acs / "national2018.csv", schema, op.all_marginals(2)


def measure(
    private: Any, public: Any, schema: Schema, work: Any, mechanism: Any, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds of a release without compiling, and of compiling."""
    compiling = Compiling(clock)
    with tempfile.TemporaryDirectory() as folder, listening(compiling):
        begin = clock()
        op.release(
            private, public, schema=schema, workload=work, epsilon=EPSILON, delta=DELTA, mechanism=mechanism,
            ledger=Path(folder) / "ledger.sqlite", out=Path(folder) / "release",
        )  # fmt: skip
        seconds = clock() - begin
    return seconds - compiling.seconds, compiling.seconds


def ratio(cost: Cost, seconds: float) -> float:
    """Measured over planned, to the nearer end of a range."""
    nearest = min(max(seconds, cost.seconds), max(cost.at_most or 0.0, cost.seconds))
    return seconds / nearest


def main(wanted: list[str]) -> None:
    """Every wanted mechanism on every wanted pair; all of them are written to the results."""
    if data_folder() is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has jam/ and nist_acs/")
    clock = processor_time if "cpu" in wanted else time.perf_counter
    chosen = [w for w in wanted if w != "cpu"]
    names = [*NAMES, FAR[0], AREAS[0]]
    unknown = [w for w in chosen if w not in op.mechanisms() and w not in names]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join([*op.mechanisms(), *names])}, cpu")
    warnings.simplefilter("ignore")
    methods, places = [w for w in chosen if w not in names], [w for w in chosen if w in names]
    lines, ratios, compiled = [], [], 0.0
    for name, only, private, public, schema, work in cases():
        if places and name not in places:
            continue
        rows, public_rows = (encode_table(table, schema).n for table in (private, public))
        planned = plan(
            schema, n=rows, workload=work, epsilon=EPSILON, delta=DELTA, public_rows=public_rows
        ).costs
        for cost in planned:
            if cost.mechanism not in (only or op.mechanisms()) or (methods and cost.mechanism not in methods):
                continue
            given = private, public, schema, work, op.mechanisms()[cost.mechanism](), clock
            seconds, compiling = measure(*given)
            compiled += compiling
            if seconds < QUICK:
                seconds, _ = measure(*given)
            ratios.append(ratio(cost, seconds))
            said = f"{cost.seconds:.1f}" + ("" if cost.at_most is None else f" to {cost.at_most:.1f}")
            lines.append(f"| {name} | {cost.mechanism} | {said} | {seconds:.1f} | {ratios[-1]:.2f} |")
            print(lines[-1], flush=True)
    within = sum(0.5 <= r <= 2 for r in ratios)
    print(f"{within} of {len(ratios)} within a factor of 2; compiling took {compiled:.0f} s beside it")
    if not chosen:
        summary = f"\n{within} of {len(ratios)} are within a factor of 2.\n"
        RESULTS.write_text(HEADER + "\n".join(lines) + "\n" + summary, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
