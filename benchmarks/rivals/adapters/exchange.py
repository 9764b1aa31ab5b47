"""What all adapters share: reading the task, and leaving the rows with their seconds and memory.

An adapter is a script that runs inside a tool's own environment, which need not have more than numpy. The seconds
are those of the processor, which hold on a machine that does other things too, from the rows in memory to the
synthetic rows in memory: imports, reading and writing are not among them.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MEMORY_GB = 16
"""What a run may have; a histogram of all columns would take more than any machine has."""


@dataclass(frozen=True)
class Task:
    """The private rows as codes 0..size-1, the sizes, which are public, and what is asked for."""

    rows: Any
    sizes: dict[str, int]
    method: str
    relation: str
    epsilon: float
    delta: float
    seed: int


def peak_mb() -> float:
    """The most memory that this process has had, in megabytes."""
    # Linux counts what the parent had before the new program was loaded in ru_maxrss, but not in VmHWM.
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(make: Callable[[Task], Any], before: Callable[[Task], Any] | None = None) -> None:
    """Read the task that the command line names, make rows, and leave them and what they took in the out folder.

    before   what is not to be timed
    """
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    method, relation = sys.argv[3:5]
    epsilon, delta, seed = float(sys.argv[5]), float(sys.argv[6]), int(sys.argv[7])
    rows = np.loadtxt(folder / "rows.csv", delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    sizes = json.loads((folder / "domain.json").read_text())
    task = Task(rows, sizes, method, relation, epsilon, delta, seed)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GB * 2**30, resource.RLIM_INFINITY))
    if before is not None:
        before(task)
    begin = time.process_time()
    made = np.asarray(make(task))
    seconds = time.process_time() - begin
    memory = peak_mb()
    np.savetxt(out / "rows.csv", made, fmt="%d", delimiter=",", header=",".join(sizes), comments="")
    (out / "facts.json").write_text(json.dumps({"seconds": seconds, "mb": memory}))
