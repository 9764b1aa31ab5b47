"""A certificate says from where the values inside bins are, and a folder whose schema has other bins is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import ReleaseError
from openprior.releases.certificate import Certificate
from openprior.releases.folder import seal

SCHEMA = op.Schema.from_toml(
    """
[columns.year]
kind = "integer"
bins = [2000, 2010, 2020, 2030]
[columns.pay]
kind = "real"
bins = [0.0, 10.0, 20.0]
step = 0.5
values_inside = "uniform"
[columns.sex]
kind = "integer"
low = 0
high = 1
"""
)


def people(first: int, last: int, rows: int = 120) -> pa.Table:
    rng = np.random.default_rng(last)
    year = np.arange(rows) % (last - first) + first
    return pa.table({"year": year, "pay": rng.integers(0, 40, rows) / 2, "sex": rng.integers(0, 2, rows)})


def test_a_release_says_where_its_values_are_from(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    made = op.release(
        people(2000, 2028), people(2000, 2022), schema=SCHEMA, workload=op.all_marginals(1), epsilon=1.0,
        delta=1e-6, mechanism=op.PublicProxy(), seed=1, out=folder,
    )  # fmt: skip
    said = {"year": {"public": 2, "uniform": 1}, "pay": {"public": 0, "uniform": 2}}
    assert made.certificate.values_inside == said
    assert op.open_release(folder).certificate.values_inside == said
    assert set(np.unique(made.synthetic["pay"].to_numpy() * 2 % 1)) == {0.0}

    path = folder / "certificate.json"
    certificate = Certificate.from_json(path.read_bytes())
    path.unlink()
    seal(folder, replace(certificate, values_inside={**said, "pay": {"public": 0, "uniform": 3}}))
    with pytest.raises(
        ReleaseError, match="its certificate and its schema disagree on which columns have bins"
    ):
        op.open_release(folder)
