"""The lines of benchmarks/results/rivals.md, one per table, tool, method and ε, from the runs that are kept."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.accuracy import DELTA, EPSILONS
from benchmarks.lines import Key, Lines, mean_and_error
from benchmarks.rivals.adapters.exchange import MEMORY_GB
from benchmarks.rivals.kept import Run
from benchmarks.rivals.tables import TABLES
from benchmarks.rivals.tools import TOOLS, Tool

RESULTS = Path(__file__).parents[1] / "results" / "rivals.md"
HEADER = f"""# Other tools for private synthetic tables

Every tool gets the same rows as codes, the sizes of the columns as public knowledge, the same ε, δ = {DELTA:g}, and \
no public table; those that take a workload get all 3-way marginals. *Relation*: which tables are neighbours in the \
tool's promise; ours is run under the same. *2-way*, *3-way*: mean L1 error of the synthetic rows per marginal ± \
standard error over the seeds, over all marginals of that many columns; noise that cannot be seeded is drawn as \
often. *Seconds*: of the processor, one core, from rows to synthetic rows, mean over the seeds, without imports; ours \
after a small release that loads its compiled loops, those on JAX with what it compiles for each model. *MB*: the most \
memory of the process, imports included; it may have {MEMORY_GB} GB. A method that does not finish a table in time, \
by the clock on the wall and imports included, is not tried there at larger ε. By `make rivals`.

What is not as the tool comes: `smartnoise` is told the categories, and its `aim` gets the 3-way workload (`aim-2way` \
is its default). `dpmm` runs without its preprocessing, and its `aim` gets the 3-way workload and the published size \
limit. `opendp` gets the codes as bins; its `mst` stops on a rounding of its own shares of the budget, so they are \
made smaller by a trillionth. `mbi` has models and no mechanism: AIM on it is [our loop](../mbi_loops.py), to be read \
beside ours under replace-one. `dpsynth` is not in the registry of packages: its lines are of its repository at \
cf8075f with mbi at 361705d, in an environment made by hand; it merges no rare values unless told to, and it is not \
seeded throughout.

Both `smartnoise` and `opendp` are bound to mbi 1.1.0, whose drawing of rows is broken (mended in 2.0, pull request \
145 of ryan112358/mbi): columns that share a parent come out sorted alike, which makes the 3-way error of `mst` on \
adult at ε = 1 about 0.54 and 0.61 as they come. Here rows are drawn from the model that the tool has fitted without \
that fault, so a user of these versions gets worse rows than the table says. `smartnoise` also fits the count of all \
rare values of a column to a number that it has scaled down, where the published MST scales both; that is left so.

What a promise leaves out: `smartnoise` takes the exact number of rows in `mst` and `mwem`, and `mwem` the range of \
each column; `dpmm` takes the exact number of rows in `privbayes`. `mwem` is pure DP and needs no δ; \
it keeps one histogram of all columns, which is too large for the memory even on titanic, the smallest of them.

| table | tool | method | ε | relation | 2-way | 3-way | seconds | MB | seeds | version |
|---|---|---|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(RESULTS, HEADER, keys=4)
ALL = "all"


def order() -> list[Key]:
    """As they stand in the table; first what cannot be measured anywhere."""
    methods = [(tool.name, m) for tool in TOOLS.values() for m in tool.methods]
    nowhere = [(ALL, tool.name, m, ALL) for tool in TOOLS.values() for m in (ALL, *tool.lacks)]
    return [*nowhere, *((t, *m, f"{e:g}") for t in TABLES for m in methods for e in EPSILONS)]


def cells(runs: Iterable[Run], relation: str) -> list[str]:
    """The cells after the key: of the runs that left rows, or the words of one that did not."""
    runs = list(runs)
    done, others = [r for r in runs if r.is_done], [r for r in runs if not r.is_done]
    version = runs[-1].asked.version
    if not done:
        return [relation, others[-1].words, "", "", "", str(len(runs)), version]
    two, three = (mean_and_error(np.array([getattr(r, what) for r in done])) for what in ("two", "three"))
    seconds, mb = (np.mean([getattr(r, what) for r in done]) for what in ("seconds", "mb"))
    seeds = f"{len(done)}; 1 more {others[-1].words}" if others else str(len(done))
    return [
        relation,
        two,
        three,
        f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}",
        f"{mb:.0f}",
        seeds,
        version,
    ]


def put(tool: Tool, runs: list[Run]) -> None:
    """The line of these runs, which differ in their seeds only."""
    asked = runs[-1].asked
    key = (asked.table, tool.name, asked.method, f"{asked.epsilon:g}")
    # A tool that has runs can be installed, whatever was so before.
    TABLE.put(
        key, cells(runs, tool.methods[asked.method]), [k for k in order() if k[1:3] != (tool.name, ALL)]
    )


def put_missing(tool: Tool, method: str, words: str) -> None:
    """A tool, or a method of it, that cannot be measured on any table."""
    TABLE.put((ALL, tool.name, method, ALL), ["", words, "", "", "", "", ""], order())
