"""Loops that are compiled while tables are read, by other processes, into the folder where they are kept.

numba compiles in Python, one loop after the other, and holds up every thread meanwhile; other processes do it side by
side. Which loops are compiled depends on the mechanism's name alone. Nothing rests on it: what a process did not
compile, because it could not be started or failed, is compiled by whoever calls it, as it would have been anyway.
"""

import os
import queue
import subprocess
import sys
import threading
from functools import cache

from openprior.compiling.cache_place import cache_folder
from openprior.compiling.loop_list import ModuleLoops, loops_of
from openprior.counting.cores import workers
from openprior.progress import COMPILING, phase

__all__ = ["Ahead", "compile_ahead"]

_MOST = 4
"""Processes at most: each takes a second to start and 150 MB."""
_FEWEST = 2
"""Modules from which a process is worth its start."""
_PATIENCE = 120.0
"""Seconds after which a process is not waited for any more."""


class Ahead:
    """Processes at work on the loops of a mechanism."""

    def __init__(self, mechanism: str, missing: list[ModuleLoops], processes: int) -> None:
        self._todo: queue.SimpleQueue[ModuleLoops] = queue.SimpleQueue()
        for loops in missing:
            self._todo.put(loops)
        self._total, self._done = len(missing), threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._feed, args=(mechanism,), daemon=True) for _ in range(processes)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Until all is compiled; told as a phase if there is anything to wait for."""
        if not any(thread.is_alive() for thread in self._threads):
            return
        with phase(COMPILING, self._total) as work:
            for done in range(1, self._total + 1):
                while not self._done.acquire(timeout=0.1):
                    if not any(thread.is_alive() for thread in self._threads):
                        return
                work.at(done, self._total)
            for thread in self._threads:
                thread.join(_PATIENCE)

    def _feed(self, mechanism: str) -> None:
        """Give one process a module after the other, until none is left or it fails."""
        try:
            process = _start(mechanism)
        except OSError:
            return
        watch = threading.Timer(_PATIENCE, process.kill)
        watch.daemon = True
        watch.start()
        with process:
            assert process.stdin is not None and process.stdout is not None
            while True:
                try:
                    loops = self._todo.get_nowait()
                    process.stdin.write(f"{loops.module}\n")
                    process.stdin.flush()
                except (queue.Empty, OSError):
                    break
                if not process.stdout.readline():
                    break
                self._done.release()
        watch.cancel()


@cache
def compile_ahead(mechanism: str) -> Ahead:
    """Begin to compile what this mechanism calls, if it has not been; `wait` before it runs."""
    folder = cache_folder() if _can_start() else None
    missing = [] if folder is None else [m for m in loops_of(mechanism) if not m.mark(folder).exists()]
    worth = len(missing) >= _FEWEST and workers() > 1
    return Ahead(mechanism, missing, min(workers(), len(missing), _MOST) if worth else 0)


def _can_start() -> bool:
    """Whether there is a Python to start, and anything to compile with; a program that embeds Python is none."""
    named = os.path.basename(sys.executable or "").lower()
    is_python = named.startswith("python") and not getattr(sys, "frozen", False)
    return is_python and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def _start(mechanism: str) -> subprocess.Popen[str]:
    """A process that imports from where this one does, and from nowhere else: `-m` alone would look into the working
    folder first, where a module that lies beside some data would be run."""
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-m", "openprior.compiling.helper", mechanism],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
    )
