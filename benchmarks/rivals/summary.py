"""benchmarks/results/rivals_summary.md: `tilt` beside the best of our other methods and the best of the other tools,
cell by cell, from the table of all runs (results.py). Nothing is measured here."""

import math
from dataclasses import dataclass

from benchmarks.accuracy import EPSILONS
from benchmarks.rivals.results import RESULTS, TABLE
from benchmarks.rivals.tables import TABLES
from benchmarks.rivals.tools import ADD_REMOVE, REPLACE_ONE

SUMMARY = RESULTS.with_name("rivals_summary.md")
HEADER = """# `tilt` beside the best of the others, without a public table

By [all runs](rivals.md): the mean L1 error of the rows over all 3-way marginals, δ = 1e-9. *Best of ours*: the better \
of `aim` and `mst`. *Best other tool*: of its methods that were measured in that cell; the number of its seeds stands \
behind. *Ratio*: of `tilt` to each; below 1, `tilt` is ahead. The best of several single runs is a lucky one, so on a \
small table a ratio to it is too large rather than too small. *Time*: of `tilt` in that of our `aim`, in seconds of \
the processor.

"""
COLUMNS = (
    "| table | ε | `tilt` | best of ours | ratio | best other tool | ratio | time |\n" + "|---" * 8 + "|\n"
)


@dataclass(frozen=True)
class Line:
    """One line of the table of runs that has numbers."""

    tool: str
    method: str
    error: float
    shown: str
    seconds: float
    seeds: str

    @property
    def name(self) -> str:
        """The tool and its method, for people."""
        return f"{self.tool} {self.method}"


Cell = list[Line]


def read() -> dict[tuple[str, str, str], Cell]:
    """Relation, table, ε: what was measured there."""
    found: dict[tuple[str, str, str], Cell] = {}
    for (table, tool, method, epsilon), line in TABLE.read().items():
        relation, _, three, seconds, _, seeds = (cell.strip() for cell in line.split("|")[5:11])
        if not seconds:
            continue
        error = float(three.split("±")[0])
        found.setdefault((relation, table, epsilon), []).append(
            Line(tool, method.split(",")[0], error, three, float(seconds), seeds)
        )
    return found


def best(lines: list[Line]) -> Line | None:
    """Of the smallest error; None of none."""
    return min(lines, key=lambda line: line.error, default=None)


def row(table: str, epsilon: str, cell: Cell) -> tuple[str, float | None, float | None]:
    """One line of the summary, and the ratios to ours and to the other tools."""
    tilt = next(line for line in cell if (line.tool, line.method) == ("ours", "tilt"))
    ours = best([line for line in cell if line.tool == "ours" and line is not tilt])
    other = best([line for line in cell if line.tool != "ours"])
    aim = next((line for line in cell if (line.tool, line.method) == ("ours", "aim")), None)
    to_ours, to_other = (tilt.error / rival.error if rival else None for rival in (ours, other))
    words = [
        *(table, epsilon, tilt.shown),
        *((f"{ours.error:.4f} ({ours.method})", f"{to_ours:.3f}") if ours else ("", "")),
        *((f"{other.error:.4f} ({other.name}, {other.seeds})", f"{to_other:.3f}") if other else ("", "")),
        f"{tilt.seconds / aim.seconds:.1f}" if aim else "",
    ]
    return f"| {' | '.join(words)} |\n", to_ours, to_other


def mean(ratios: list[float]) -> str:
    """Geometric, with how many cells and the worst of them."""
    if not ratios:
        return "no cells"
    middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
    ahead = sum(r <= 1.01 for r in ratios)
    worst = max(ratios)
    return f"geometric mean {middle:.3f} over {len(ratios)} cells, at most 1.01 in {ahead}, worst {worst:.3f}"


def write() -> None:
    """Anew, from the table as it is."""
    cells = read()
    text = HEADER
    for relation in (ADD_REMOVE, REPLACE_ONE):
        rows, ours, others = [], [], []
        for table in TABLES:
            for epsilon in (f"{e:g}" for e in EPSILONS):
                cell = cells.get((relation, table, epsilon), [])
                if not any((line.tool, line.method) == ("ours", "tilt") for line in cell):
                    continue
                line, to_ours, to_others = row(table, epsilon, cell)
                rows.append(line)
                ours += [to_ours] if to_ours else []
                others += [to_others] if to_others else []
        if rows:
            text += f"## {relation.capitalize()}\n\nTo the best of ours: {mean(ours)}.\n"
            text += f"To the best other tool: {mean(others)}.\n\n{COLUMNS}{''.join(rows)}\n"
    SUMMARY.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
