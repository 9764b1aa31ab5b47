"""Loops that are compiled while tables are read, by other processes, into the folder where they are kept.

numba compiles in Python, one loop after the other, and holds up every thread meanwhile; other processes do it side by
side. Which loops are compiled depends on the mechanism's name alone. Nothing rests on it: what a process did not
compile, because it could not be started or failed, is compiled by whoever calls it, as it would have been anyway.
"""

import contextlib
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
_ROWS = frozenset({"openprior.models.exchanges"})
"""Modules that only the drawing of rows calls, when the mechanism has run: they come last."""
_PATIENCE = 120.0
"""Seconds after which a process is not waited for any more."""


class Ahead:
    """Processes at work on the loops of a mechanism."""

    def __init__(self, mechanism: str, missing: list[ModuleLoops], processes: int) -> None:
        self._todo: queue.SimpleQueue[ModuleLoops] = queue.SimpleQueue()
        for loops in missing:
            self._todo.put(loops)
        self._left = {loops.module for loops in missing}
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._feed, args=(mechanism,), daemon=True) for _ in range(processes)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, *, rows: bool = True) -> None:
        """Until all is compiled, or all but what draws rows; told as a phase if there is anything to wait for."""
        with self._changed:
            total = len(self._awaited(rows))
            if not total:
                return
            with phase(COMPILING, total) as work:
                done = 0
                while left := len(self._awaited(rows)):
                    if total - left > done:
                        done = total - left
                        work.at(done, total)
                    self._changed.wait(0.1)
        if rows:
            for thread in self._threads:
                thread.join(_PATIENCE)

    def _awaited(self, rows: bool) -> set[str]:
        """The modules that somebody is still at work on."""
        at_work = any(thread.is_alive() for thread in self._threads)
        return (self._left if rows else self._left - _ROWS) if at_work else set()

    def _feed(self, mechanism: str) -> None:
        """Give one process a module after the other, until none is left or it fails."""
        try:
            process = _start(mechanism)
        except OSError:
            return
        watch = threading.Timer(_PATIENCE, process.kill)
        watch.daemon = True
        watch.start()
        with contextlib.suppress(OSError), process:  # closing its input may fail, too
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
                with self._changed:
                    self._left.discard(loops.module)
                    self._changed.notify_all()
        watch.cancel()


@cache
def compile_ahead(mechanism: str) -> Ahead:
    """Begin to compile what this mechanism calls, if it has not been; `wait` before it runs, and before it draws."""
    folder = cache_folder() if _can_start() else None
    missing = [] if folder is None else [m for m in loops_of(mechanism) if not m.mark(folder).exists()]
    missing.sort(key=lambda m: (m.module in _ROWS, -m.dear))
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
