"""What a compiling process does: `python -m openprior.compiling.helper MECHANISM` reads names of modules, a line each.

It compiles the loops that the mechanism calls in each module, leaves the mark that says so, and answers with a line. It
ends with its input, so that none outlives who started it by more than a module. It sees no table and no option.
"""

import importlib
import sys

from openprior.compiling.cache_place import cache_folder
from openprior.compiling.loop_list import ModuleLoops, loops_of
from openprior.compiling.loop_types import read_types

__all__ = ["compile_loops"]


def compile_loops(loops: ModuleLoops) -> None:
    """Compile them, or load them where they are kept."""
    module = importlib.import_module(loops.module)
    for function, types in loops.calls:
        getattr(module, function).compile(read_types(types))


def main() -> None:
    """Compile until there is nothing more to read."""
    by_name = {loops.module: loops for loops in loops_of(sys.argv[1])}
    folder = cache_folder()
    for line in sys.stdin:
        loops = by_name[line.strip()]
        compile_loops(loops)
        if folder is not None:
            mark = loops.mark(folder)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
