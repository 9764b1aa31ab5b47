"""A release says itself what it could not hold and what nothing was measured of, and nothing where all is well."""

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OpenPriorWarning
from openprior.privacy.measurement import Measurement
from openprior.releases.noticed import noticed
from openprior.releases.view import RowCounts
from openprior.tables.table import Table

N = 1000
BENEFITS = [0.24, 0.3, 0.2, 0.1, 0.06, 0.05, 0.03, 0.02]
TEXT = """
[columns.benefits]
kind = "ordered"
dtype = "int64"
values = {values}
other = true
out_of_domain = "other"

[columns.year]
kind = "integer"
bins = [2010, 2015, 2020, {last}]
out_of_domain = "open"

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""
NARROW = op.Schema.from_toml(TEXT.format(values=[0], last=2021))
WIDE = op.Schema.from_toml(TEXT.format(values=list(range(8)), last="2022, 2024, 2030"))


def table(public: bool) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "benefits": np.zeros(N, int) if public else rng.choice(8, N, p=BENEFITS),
            "year": rng.integers(2010, 2020, N) if public else rng.integers(2012, 2025, N),
            "sex": rng.choice(["f", "m"], N),
        }
    )


def released(schema: op.Schema, workload: object, mechanism: str = "mst") -> op.Release:
    asked = {"schema": schema, "workload": workload, "mechanism": mechanism}
    return op.release(table(False), table(True), epsilon=8.0, delta=1e-6, seed=1, **asked)


def test_values_that_the_schema_cannot_hold_are_told_with_their_shares() -> None:
    with pytest.warns(OpenPriorWarning) as heard:
        release = released(NARROW, 1)
    other, ends = [str(w.message) for w in heard if "NOT PRIVATE" not in str(w.message)]
    assert (
        other.startswith("told as 'other' in the released rows")
        and ": 7" in other
        and "% of benefits" in other
    )
    assert "'2020 or more' of year (" in ends and "there 0%" in ends
    assert all(w.filename == __file__ for w in heard)
    # Also where the release is printed, and in the certificate.
    assert {words[1:] for words in (other, ends)} <= {r[1:-1] for r in release.certificate.remarks}
    assert "% of benefits" in repr(release)


def test_why_is_not_claimed_where_only_single_cells_were_measured() -> None:
    with pytest.warns(OpenPriorWarning, match="perhaps because the schema does not list it: 7.% of benefits"):
        released(NARROW, 1, "mwem")
    with pytest.warns(OpenPriorWarning, match="rows, because the schema does not list it: 7.% of benefits"):
        released(NARROW, 1)


def test_nor_where_the_marginal_itself_says_otherwise() -> None:
    """A generator that hardly learns leaves much at 'other', whatever was measured."""
    rows = Table(NARROW.domain, (np.repeat([0, 1], N // 2), np.zeros(N, int), np.zeros(N, int)))
    counts = RowCounts.of(rows, NARROW, [(name,) for name in NARROW.names])
    for told, why in ((500.0, "rows, because"), (3.0, "perhaps because")):
        measured = [Measurement.of(("benefits",), np.array([N - told, told]), 2.0)]
        (said,) = noticed(NARROW, counts, None, [("benefits",), ("year",), ("sex",)], measured, [])
        assert why in said and "50% of benefits" in said


def test_a_schema_that_fits_is_not_spoken_of() -> None:
    (bars,) = released(WIDE, 1).certificate.remarks
    assert "kept for error bars was not spent" in bars


def test_noise_alone_is_not_told() -> None:
    for seed in range(5):
        release = op.release(
            table(True).slice(0, 200),
            schema=NARROW,
            workload=1,
            epsilon=0.2,
            delta=1e-6,
            mechanism="mst",
            seed=seed,
        )
        assert not any("'other'" in remark for remark in release.certificate.remarks)


def test_columns_that_nothing_was_measured_of_are_told() -> None:
    with pytest.warns(OpenPriorWarning, match="nothing was measured of benefits, year"):
        release = released(WIDE, "sex", "pmw-pub")
    found = op.evaluate(release, table(False))
    assert found.workload_error < 0.1
    assert found.warning is not None and "'benefits'" in found.warning
    assert "no marginal of the workload has it; also year" in found.warning
    assert [loss.column for loss in found.first_losses] == ["benefits", "year", "sex"]


def test_a_method_that_cannot_leave_the_public_rows_is_told_as_such() -> None:
    found = op.evaluate(released(WIDE, 1, "public"), table(False))
    assert found.warning is not None and "though the schema holds them" in found.warning
