"""Which compiled loops a mechanism calls, and with what types of arguments.

`loops.txt` has a section per mechanism, and in it a line per loop and types: module, function, types. `make loops`
writes it from what releases really call, so that nobody keeps it by hand; a test compares the two.
"""

import hashlib
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["LOOPS", "ModuleLoops", "loops_of", "read_sections"]

LOOPS = Path(__file__).with_name("loops.txt")
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class ModuleLoops:
    """The loops of one module that are called, each with its types: one piece of work."""

    module: str
    calls: tuple[tuple[str, str], ...]

    @property
    def source(self) -> bytes:
        """Of the module."""
        return _PACKAGE.joinpath(*self.module.split(".")[1:]).with_suffix(".py").read_bytes()

    @property
    def dear(self) -> int:
        """Larger where compiling takes longer, about: what is dear is begun first, so that all end together."""
        return len(self.source) * len(self.calls)

    def mark(self, folder: str) -> Path:
        """The file that says that these were compiled: by this Python and numba, from this source."""
        from importlib.metadata import version

        told = hashlib.sha256(repr((self, sys.version, version("numba"))).encode())
        told.update(self.source)
        return Path(folder, f"loops-{told.hexdigest()[:24]}")


def read_sections(text: str) -> dict[str, list[str]]:
    """The lines of every mechanism."""
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            sections[list(sections)[-1]].append(line)
    return sections


@cache
def loops_of(mechanism: str) -> tuple[ModuleLoops, ...]:
    """What this mechanism calls, by module; nothing where it is not listed."""
    calls: dict[str, list[tuple[str, str]]] = {}
    for line in read_sections(LOOPS.read_text(encoding="utf-8")).get(mechanism, []):
        module, function, types = line.split(" ", 2)
        calls.setdefault(module, []).append((function, types))
    return tuple(ModuleLoops(module, tuple(found)) for module, found in calls.items())
