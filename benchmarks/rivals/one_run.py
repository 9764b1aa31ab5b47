"""One method on one table: an adapter in a process of its own, on one core, within a limit of time.

The process begins a group of its own, and at the limit the whole group is ended, with whatever the tool has started.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rivals.environments import last_line
from benchmarks.rivals.tools import ROOT

ONE_THREAD = {
    **{
        f"{library}_NUM_THREADS": "1"
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR", "VECLIB_MAXIMUM")
    },
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class Outcome:
    """What became of a run: facts if it left rows, or else words."""

    seconds: float = 0.0
    mb: float = 0.0
    words: str = ""
    timed_out: bool = False


def run(python: str, adapter: Path, words: list[str], out: Path, limit: float) -> Outcome:
    """Start the adapter with these words, wait for as long as the limit says, and read what it has left."""
    variables = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [python, "-W", "ignore", str(adapter), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=variables,
            cwd=out,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return Outcome(words=f"did not finish in {limit:g} s", timed_out=True)
        finally:
            _end(process)
        errors.seek(0)
        said = errors.read()
    if status:
        reason = f"ended by signal {-status}" if status < 0 else last_line(said)
        return Outcome(words=f"failed: {reason}")
    facts = json.loads((out / "facts.json").read_text())
    return Outcome(facts["seconds"], facts["mb"])


def one_core() -> None:
    """Keep this process, and all that it starts, on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and all of its group, also what outlived it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
