"""The private tables as codes with public sizes, and the errors of synthetic rows against them.

An error is the mean over all 2-way, or all 3-way, marginals of the L1 distance between the shares of the private and
those of the synthetic rows, as in benchmarks/accuracy.py; how many rows there are makes no difference.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import openprior as op
from benchmarks.data import data_folder, jam_pair
from benchmarks.rivals.tools import ROOT
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.questions.workload import Marginal, Workload
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, encode_table

PAIRS = {"titanic": "titanic", "adult": "adult_pub025_01", "salary": "salary", "fire": "fire"}
"""Tables of the JAM-PGM pairs; of ADULT's pairs the private side is the same."""
ACS = {"acs-national": "national", "acs-ma": "ma", "acs-tx": "tx"}
"""Tables of the American Community Survey, 2019; those of the states have the schema of all areas."""
TABLES = (*PAIRS, *ACS)


def load(name: str) -> Table:
    """The private table by its name. Columns have numbers for names, so that no tool stumbles over one."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("no real data: set OPENPRIOR_DATA to the folder that has jam/ and nist_acs/")
    if name in PAIRS:
        pair = jam_pair(PAIRS[name])
        assert pair is not None
        coded = encode_table(pair[0], pair[2])
    else:
        areas = "national" if name == "acs-national" else "areas"
        schema = Schema.load(ROOT / "examples" / "acs" / f"{areas}.toml")
        coded = encode_table(folder / "nist_acs" / f"{ACS[name]}2019.csv", schema)
    sizes = {f"c{i:02}": int(size) for i, size in enumerate(coded.domain.shape)}
    return Table(Domain(sizes), coded.columns)


def hand_out(table: Table, folder: Path) -> None:
    """Write what an adapter reads: the rows and the sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    header = ",".join(table.domain)
    rows = np.column_stack(table.columns)
    np.savetxt(folder / "rows.csv", rows, fmt="%d", delimiter=",", header=header, comments="")
    sizes = dict(zip(table.domain.attributes, map(int, table.domain.shape), strict=True))
    (folder / "domain.json").write_text(json.dumps(sizes))


def take_back(folder: Path, domain: Domain) -> Table:
    """The rows that an adapter has left; raises where a code is outside of the domain."""
    rows = np.loadtxt(folder / "rows.csv", delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    return Table(domain, tuple(rows.T))


@dataclass(frozen=True)
class Truth:
    """The private table's counts in all 2-way and all 3-way marginals."""

    table: Table
    work: tuple[Workload, ...]
    counts: tuple[dict[Marginal, NDArray[np.int64]], ...]

    @classmethod
    def of(cls, table: Table) -> "Truth":
        """Counted once per table."""
        work = tuple(op.all_marginals(k).on(table.domain) for k in (2, 3))
        return cls(table, work, tuple(count_table(table, w.marginals) for w in work))

    def errors(self, rows: Table) -> tuple[float, float]:
        """2-way, 3-way."""
        two, three = (
            errors_of(
                work,
                counts,
                {m: c.astype(float) for m, c in count_table(rows, work.marginals).items()},
                "synthetic",
            ).workload_error
            for work, counts in zip(self.work, self.counts, strict=True)
        )
        return two, three
