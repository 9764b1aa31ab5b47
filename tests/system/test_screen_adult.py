"""Screening on ADULT: the public table with the private one's share of women comes first, at ε = 0.1."""

import json
from pathlib import Path

import pytest
from pyarrow import csv

import openprior as op
from openprior.tables.encode import encode_table

SHARES = ("025", "050", "075", "100")


@pytest.mark.slow
def test_25_before_50_75_and_100_percent_women_in_95_of_100_runs(data_folder: Path) -> None:
    root = data_folder / "jam"
    first = root / "adult_pub025_01"
    schema = op.Schema.from_sizes(json.loads((first / "adult_pub025_01-domain.json").read_text()))
    private = csv.read_csv(first / "priv.csv")
    public = {s: csv.read_csv(root / f"adult_pub{s}_01" / "pub.csv") for s in SHARES}
    assert all(encode_table(t, schema).n == 3238 for t in public.values())
    right = 0
    for seed in range(100):
        found = op.screen(private, public, schema=schema, epsilon=0.1, seed=seed)
        right += [s.name for s in found.ranked] == list(SHARES)
    assert right >= 95
