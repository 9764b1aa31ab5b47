"""Tables for the benchmarks: made up at full size, or the real pairs where they are."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for

ADULT_SIZES = (16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)


def data_folder() -> Path | None:
    """The folder of real data, if it is there."""
    folder = Path(os.environ.get("OPENPRIOR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    return folder if folder.is_dir() else None


def made_up(sizes: tuple[int, ...], rows: int, seed: int) -> Table:
    """Skewed, dependent columns: twelve hidden classes, each with its own distribution of every column."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 12, rows)
    columns = []
    for size in sizes:
        p = (np.arange(size) + 1.0) ** -1.2
        shares = np.array([rng.permutation(p) for _ in range(12)])
        ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
        u = rng.random(rows)
        codes = np.zeros(rows, np.int64)
        for k in range(12):
            mine = classes == k
            codes[mine] = np.minimum(np.searchsorted(ends[k], u[mine]), size - 1)
        columns.append(codes.astype(dtype_for(size)))
    return Table(Domain({f"c{i:02}": s for i, s in enumerate(sizes)}), tuple(columns))


def jam_pair(name: str) -> tuple[pa.Table, pa.Table, Schema] | None:
    """One of the JAM-PGM pairs: private, public, schema; None where the data are not."""
    root = data_folder()
    if root is None:
        return None
    folder = root / "jam" / name
    schema = Schema.from_sizes(json.loads((folder / f"{name}-domain.json").read_text()))
    return csv.read_csv(folder / "priv.csv"), csv.read_csv(folder / "pub.csv"), schema


ADULT_AS_CODED = {
    "sex": 2, "income>50K": 2, "race": 5, "relationship": 6, "marital-status": 7, "workclass": 9,
    "occupation": 15, "education-num": 16, "native-country": 42, "capital-gain": 16, "capital-loss": 6,
    "hours-per-week": 10, "age_10": 10,
}  # fmt: skip
"""The thirteen columns of ADULT as PMW^Pub's authors coded them, and their sizes."""


def adult_as_coded(seed: int = 0) -> tuple[pa.Table, pa.Table, Schema] | None:
    """Private, public, schema: 0.9 N and 0.1 N rows, drawn with replacement as in the paper; None without the data."""
    root = data_folder()
    if root is None:
        return None
    table = csv.read_csv(root / "adult" / "adult_pmwpub.csv").select(list(ADULT_AS_CODED))
    rng = np.random.default_rng(seed)
    private, public = (rng.integers(0, table.num_rows, int(s * table.num_rows)) for s in (0.9, 0.1))
    return table.take(private), table.take(public), Schema.from_sizes(ADULT_AS_CODED)
