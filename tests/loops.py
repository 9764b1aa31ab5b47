"""Which compiled loops releases call: `python -m tests.loops` writes `loops.txt` of `openprior.compiling` anew.

What is recorded is every call from Python that numba finds no compiled code for, in a process of its own: whether the
code is then compiled or loaded makes no difference.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import openprior as op
from openprior.compiling.loop_list import LOOPS
from openprior.compiling.loop_types import spell_type
from openprior.tables.simulate import demo_surveys

HEAD = "# The compiled loops that releases call, and the types of their arguments; written by `make loops`.\n"
ROWS = 500
SHORTER = {"tilt": "tilt:rounds=3"}
COLUMNS = ["region", "age", "sex", "education", "employment", "income"]


@contextmanager
def recorded() -> Iterator[set[str]]:
    """The loops that are called in here for the first time, as lines."""
    from numba.core.dispatcher import Dispatcher

    lines: set[str] = set()
    compile_for = Dispatcher._compile_for_args

    def record(self: Dispatcher, *values: object, **named: object) -> object:
        module = self.py_func.__module__
        if module.startswith("openprior."):
            types = " ".join(spell_type(self.typeof_pyval(value)) for value in values)
            lines.add(f"{module} {self.py_func.__qualname__} {types}")
        return compile_for(self, *values, **named)

    Dispatcher._compile_for_args = record
    try:
        yield lines
    finally:
        Dispatcher._compile_for_args = compile_for


def release(mechanism: str) -> None:
    """Release the demo's survey with and without the other, and look at it."""
    public, private = demo_surveys(rows_public=ROWS, rows_private=ROWS)
    public, private = public.select(COLUMNS), private.select(COLUMNS)
    schema = op.Schema.draft(public)
    for prior in (public, None):
        try:
            released = op.release(
                private,
                prior,
                schema=schema,
                workload=op.all_marginals(2),
                epsilon=1,
                delta=1e-9,
                mechanism=SHORTER.get(mechanism, mechanism),
                seed=1,
            )
        except op.OpenPriorError:  # needs a public table, or an extra
            continue
        released.answers(["sex", "employment"])
        op.evaluate(released, private)


def main() -> None:
    """With a mechanism's name: its lines. Without: all of them into the file, each from a process of its own."""
    warnings.simplefilter("ignore")
    os.environ["OPENPRIOR_CACHE"] = "off"  # a prior that was kept would be learnt by no loop
    if len(sys.argv) > 1:
        with recorded() as lines:
            release(sys.argv[1])
        print("\n".join(sorted(lines)))
        return
    text = HEAD
    for mechanism in op.mechanisms():
        words = [sys.executable, "-m", "tests.loops", mechanism]
        for _ in range(2):  # a loop that is compiled inside another is not seen to be called the first time
            done = subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE)
        if done.stdout.strip():
            text += f"\n[{mechanism}]\n{done.stdout}"
    LOOPS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
