"""Errors by area on the American Community Survey: the hierarchy, flat releases and the public table.

Private: the 2019 files of Massachusetts, Texas and the nation together; public: the same of 2018; 31 areas in 18
states, one year, so that a group is an area. The relation is replace-one, but add-remove for the hierarchy as
published, whose paper has the noise of that. A group's error is the mean L1 distance of all 190 two-way marginals of
the other columns, 2 if its number of rows is off by 250 or more; the table has means over groups, and over seeds.
`python -m benchmarks.groups [METHOD …] [ε …] [seeds=N]` measures only those and keeps the other lines.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.data import data_folder
from openprior.evaluation.groups import GroupErrors, evaluate_groups
from openprior.report.heat import heat_picture
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

RESULTS = Path(__file__).parent / "results" / "groups.md"
PICTURE = RESULTS.with_suffix(".svg")
LEVELS = (("STATE",), ("PUMA",))
METHODS: dict[str, tuple[Any, int]] = {
    "public": (op.PublicProxy(), 1),
    "hierarchy": (op.Hierarchy(levels=LEVELS), 5),
    "hierarchy, one level": (op.Hierarchy(levels=LEVELS[1:]), 5),
    "hierarchy, ide": (op.Hierarchy(levels=LEVELS, update="ide", choose="published"), 5),
    "hierarchy, published": (op.Hierarchy.published(LEVELS), 5),
    "flat tilt": (op.Tilt(), 3),
    "flat ide": (op.Ide(choose="expected"), 3),
    "flat ide, published": (op.Ide(noise="laplace", updates=2), 3),
}
RELATIONS = {"hierarchy, published": "add-remove"}
"""Where it is not replace-one."""
EPSILONS = ("1", "10")
HEADER = """# Errors by area

Written by `python -m benchmarks.groups`; read its head for what is measured. δ = 1e-9; the published methods have
Laplace noise and δ = 0. All are run under replace-one, but *hierarchy, published* under add-remove, as its paper has
it: that is half the noise. *rows*: mean over 31 areas of the error of the synthetic rows, ± standard error over seeds.
*worst*: the area with the largest error. *count off*: the largest error of an area's number of rows. Flat releases have
the area as one column more, and all its three-way marginals with two other columns as workload.

| method | ε | seeds | rows | worst | count off | s |
|---|---|---|---|---|---|---|
"""


def linked(folder: Path, year: int) -> Path:
    """A folder with the three files of a year."""
    made = folder / str(year)
    made.mkdir()
    for name in ("ma", "tx", "national"):
        (made / f"{name}.csv").symlink_to(data_folder() / "nist_acs" / f"{name}{year}.csv")  # type: ignore[operator]
    return made


def main() -> None:
    """Measure, and write the table and the picture."""
    if data_folder() is None:
        sys.exit("no real data: set OPENPRIOR_DATA to the folder that has nist_acs/")
    seeds = next((int(a[6:]) for a in sys.argv[1:] if a.startswith("seeds=")), None)
    words = [a for a in sys.argv[1:] if not a.startswith("seeds=")]
    methods = [m for m in METHODS if m in words] or list(METHODS)
    epsilons = [e for e in EPSILONS if e in words] or list(EPSILONS)
    schema = Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "areas.toml")
    others = [a for a in schema.domain if a != "PUMA"]
    work = op.Workload([("PUMA", a, b) for i, a in enumerate(others) for b in others[i + 1 :]])
    lines, cells = read()
    with tempfile.TemporaryDirectory() as place:
        private, public = (linked(Path(place), year) for year in (2019, 2018))
        truth = encode_table(private, schema)
        for method in methods:
            mechanism, wanted = METHODS[method]
            for epsilon in epsilons if method != "public" else ["0"]:
                found, seconds = [], 0.0
                for seed in range(seeds or wanted):
                    start = time.perf_counter()
                    made = op.release(
                        private, public, schema=schema, workload=work, epsilon=max(float(epsilon), 1e-3),
                        delta=0.0 if "published" in method else 1e-9, mechanism=mechanism, seed=seed,
                        relation=RELATIONS.get(method, "replace-one"),
                    )  # fmt: skip
                    seconds += time.perf_counter() - start
                    found.append(evaluate_groups(made, truth, ["PUMA"], marginals=None))
                lines[method, epsilon] = line(method, epsilon, found, seconds / len(found))
                cells[method, epsilon] = dict(
                    zip(
                        (label[0] for label in found[0].labels),
                        np.mean([f.errors for f in found], axis=0),
                        strict=True,
                    )
                )
                write(lines, cells)
                print(lines[method, epsilon], flush=True)


def line(method: str, epsilon: str, found: list[GroupErrors], seconds: float) -> str:
    """One line of the table."""
    errors = np.array([f.error for f in found])
    spread = f" ± {errors.std(ddof=1) / len(errors) ** 0.5:.4f}" if len(errors) > 1 else ""
    worst = np.mean([f.errors for f in found], axis=0).max()
    off = max(int(np.abs(f.counts_off).max()) for f in found)
    facts = f"{method} | {epsilon} | {len(found)} | {errors.mean():.4f}{spread} | {worst:.4f} | {off} | {seconds:.0f}"
    return f"| {facts} |"


def read() -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], dict[str, float]]]:
    """The lines of the table and the errors by area as they are."""
    lines: dict[tuple[str, str], str] = {}
    cells: dict[tuple[str, str], dict[str, float]] = {}
    if RESULTS.exists():
        top, _, below = RESULTS.read_text(encoding="utf-8").partition("\n## By area\n")
        for text in top.splitlines():
            words = [w.strip() for w in text.split("|")]
            if text.startswith("| ") and words[1] in METHODS:
                lines[words[1], words[2]] = text
        rows = [
            [w.strip() for w in text.split("|")[1:-1]] for text in below.splitlines() if text.startswith("| ")
        ]
        for column, name in enumerate(rows[0][1:], start=1) if rows else ():
            method, _, epsilon = name.rpartition(" ε ")
            cells[method, epsilon] = {r[0]: float(r[column]) for r in rows[1:]}
    return lines, cells


def write(lines: dict[tuple[str, str], str], cells: dict[tuple[str, str], dict[str, float]]) -> None:
    """The table, the errors by area, and the picture of some of them."""
    keys = [(m, e) for m in METHODS for e in ("0", *EPSILONS)]
    known = [k for k in keys if k in cells]
    areas = list(next(iter(cells.values())))
    text = HEADER + "".join(lines[k] + "\n" for k in keys if k in lines)
    text += "\n![errors by area](groups.svg)\n\n## By area\n\n"
    text += (
        "| area | " + " | ".join(f"{m} ε {e}" for m, e in known) + " |\n" + "|---" * (len(known) + 1) + "|\n"
    )
    text += "".join(f"| {a} | " + " | ".join(f"{cells[k][a]:.4f}" for k in known) + " |\n" for a in areas)
    RESULTS.write_text(text, encoding="utf-8")
    shown = [
        k
        for k in [("public", "0"), *((m, e) for e in EPSILONS for m in ("flat tilt", "hierarchy"))]
        if k in cells
    ]
    heads = [f"{m.replace('flat tilt', 'flat')}\n{'' if e == '0' else 'ε = ' + e}" for m, e in shown]
    values = np.array([[cells[k][a] for k in shown] for a in areas])
    title = (
        "Mean L1 error of two-way marginals by area (PUMA), ACS 2018 to 2019; flat: tilt without a hierarchy"
    )
    PICTURE.write_text(heat_picture(areas, heads, values, title), encoding="utf-8")


if __name__ == "__main__":
    main()
