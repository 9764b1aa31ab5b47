"""`python -m benchmarks.compiling [mechanism]`: what compiling costs, loop by loop, with nothing kept from before.

Seconds of processor time. Under each loop stand the dearest functions that it draws in: ours, which are compiled with
it, and NumPy's, of which each costs a tenth of a second and more (`x[:] = y` even two, for the message of an error that
cannot happen; a loop over the elements costs nothing). `make loops` writes the list that this goes through.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from openprior.compiling.helper import compile_loops
from openprior.compiling.loop_list import ModuleLoops, loops_of

SHOWN = 5


def compiled(mechanism: str) -> float:
    """Compile the loops of a mechanism and print what each took; returns the sum."""
    from numba.core import event

    class Listener(event.Listener):
        """Time of each function, without what was compiled inside it."""

        def __init__(self) -> None:
            self.open: list[list[float]] = []
            self.own: Counter[str] = Counter()

        def on_start(self, told: Any) -> None:
            self.open.append([time.process_time(), 0.0])

        def on_end(self, told: Any) -> None:
            begin, inside = self.open.pop()
            took = time.process_time() - begin
            function = told.data["dispatcher"].py_func
            self.own[f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"] += took - inside
            if self.open:
                self.open[-1][1] += took

    total = 0.0
    for loops in loops_of(mechanism):
        for function, types in loops.calls:
            listener, begin = Listener(), time.process_time()
            with event.install_listener("numba:compile", listener):
                compile_loops(ModuleLoops(loops.module, ((function, types),)))
            took = time.process_time() - begin
            total += took
            dearest = ", ".join(f"{name} {own:.2f}" for name, own in listener.own.most_common(SHOWN))
            print(f"{took:6.2f} s  {loops.module.removeprefix('openprior.')} {function}\n          {dearest}")
    return total


def main() -> None:
    """In an empty folder for compiled loops."""
    mechanism = sys.argv[1] if len(sys.argv) > 1 else "tilt"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        import numba  # so that its own start is not the first loop's

        numba.njit(lambda x: x + 1)(1)
        print(f"{compiled(mechanism):6.2f} s  in all for {mechanism}")


if __name__ == "__main__":
    main()
