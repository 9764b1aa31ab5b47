"""Matrix products and models on one thread, whatever the machine would start.

Threads of BLAS and OpenMP wait by spinning. Beside other work a step that lasts microseconds then takes milliseconds,
and sums come out differently with every number of threads. So whatever calls them often, on small arrays, does it on
one thread. Our own threads work side by side above that (cores.py).

BLAS has one number of threads for the whole process. A limit that each caller sets and puts back would, where callers
overlap in time, be put back too early by one and to the other's limit by the next, and stay for ever. So entries are
counted here: the first sets it, the last puts back what was there before the first.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any

__all__ = ["blas_on_one_thread", "openmp_limit"]


class _Limit:
    """How many are inside, and what to put back when the last one leaves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []
        self._libraries: list[Any] = []
        self._modules = -1

    def enter(self) -> None:
        with self._lock:
            self._look()
            self._inside += 1
            limited = {id(library) for library, _ in self._before}
            for library in self._libraries:  # also those that were loaded since the first one entered
                if id(library) not in limited:
                    self._before.append((library, library.get_num_threads()))
                    _set_threads(library, 1)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, threads in self._before:
                    _set_threads(library, threads)
                self._before = []

    def _look(self) -> None:
        """Find the libraries, if modules were imported since the last look.

        Not every time: a look walks the list of loaded libraries, and one that another thread loads at that moment can
        make both wait for ever.
        """
        if len(sys.modules) == self._modules:
            return
        from threadpoolctl import ThreadpoolController

        self._modules = len(sys.modules)
        known = {library.filepath: library for library in self._libraries}
        loaded = ThreadpoolController().select(user_api="blas").lib_controllers
        self._libraries = [known.get(library.filepath, library) for library in loaded]


def _set_threads(library: Any, threads: int) -> None:
    """From whichever thread: later versions of threadpoolctl let only the first thread that ever set a limit change it,
    and say nothing to others, so that callers do not undo each other's; that is what is counted here."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_BLAS = _Limit()


@contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """Inside, BLAS starts no threads, in the whole process; any number may be inside, one in another or side by side.

    Entering takes a millisecond the first time and microseconds later; so once around all of a computation.
    """
    _BLAS.enter()
    try:
        yield
    finally:
        _BLAS.leave()


def openmp_limit() -> Callable[[], AbstractContextManager[Any]]:
    """A limit to one thread of OpenMP, which belongs to the thread that enters it; get it before threads are started.

    Not in the threads: this, too, walks the list of loaded libraries.
    """
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return lambda: controller.limit(limits=1, user_api="openmp")
