"""A Markdown table of results, one line per key: measured lines replace those of the same key, others stay."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Key = tuple[str, ...]


@dataclass(frozen=True)
class Lines:
    """The file, what stands above its lines, and how many of their first cells are the key."""

    path: Path
    header: str
    keys: int = 3

    def read(self) -> dict[Key, str]:
        """The lines of the table as it is."""
        if not self.path.exists():
            return {}
        lines = [line for line in self.path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        split = {line: [cell.strip() for cell in line.split("|")] for line in lines[1:]}
        return {tuple(cells[1 : 1 + self.keys]): line for line, cells in split.items()}

    def put(self, key: Key, cells: Iterable[str], order: Iterable[Key]) -> None:
        """Set one line and write the table anew, in this order; a key that the order lacks is dropped."""
        line = f"| {' | '.join([*key, *cells])} |"
        print(line, flush=True)
        lines = self.read() | {key: line}
        text = "".join(lines[k] + "\n" for k in order if k in lines)
        self.path.write_text(self.header + text, encoding="utf-8")


def mean_and_error(found: NDArray[np.float64]) -> str:
    """Mean ± standard error over the seeds; the mean alone if there is one seed."""
    if len(found) == 1:
        return f"{found[0]:.4f}"
    return f"{found.mean():.4f} ± {found.std(ddof=1) / np.sqrt(len(found)):.4f}"
