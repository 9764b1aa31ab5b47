"""The example with real data: last year's survey is a useful prior for this year's, and a plain draft works too."""

from pathlib import Path

import numpy as np
import pytest

import openprior as op
from openprior.evaluation.groups import GroupErrors
from openprior.tables.encode import encode_table

ROOT = Path(__file__).parents[2]
DELTA = 1e-9


@pytest.fixture
def years(data_folder: Path) -> tuple[Path, Path]:
    """The public and the private file, or a skip."""
    public, private = (data_folder / "nist_acs" / f"national{year}.csv" for year in (2018, 2019))
    if not (public.is_file() and private.is_file()):
        pytest.skip("no ACS excerpts: OPENPRIOR_DATA has no nist_acs/national2018.csv and national2019.csv")
    return public, private


@pytest.fixture
def schema() -> op.Schema:
    return op.Schema.load(ROOT / "examples" / "acs" / "national.toml")


def test_the_schema_is_as_its_comments_say(schema: op.Schema) -> None:
    assert not {"PWGTP", "WGTP", "INDP"} & set(schema.names)
    name, states, _ = schema.parents("PUMA")
    assert name == "STATE"
    assert len(states) == 16
    assert {c.name for c in schema.columns if c.kind == "ordered"} == {"DENSITY", "EDU", "PINCP_DECILE"}
    assert {c.name for c in schema.columns if c.kind in ("integer", "real")} == {
        "AGEP", "NOC", "NPF", "PINCP", "POVPIP",
    }  # fmt: skip
    assert all(c.missing_values == ("N",) for c in schema.columns if c.missing)


@pytest.mark.slow
def test_areas_of_massachusetts_are_better_than_last_year_alone(data_folder: Path) -> None:
    public, private = (data_folder / "nist_acs" / f"ma{year}.csv" for year in (2018, 2019))
    if not (public.is_file() and private.is_file()):
        pytest.skip("no ACS excerpts: OPENPRIOR_DATA has no nist_acs/ma2018.csv and ma2019.csv")
    schema = op.Schema.load(ROOT / "examples" / "acs" / "areas.toml")

    def errors(mechanism: object) -> GroupErrors:
        made = op.release(
            private,
            public,
            schema=schema,
            workload=op.target_marginals("PUMA", 3),
            epsilon=10.0,
            delta=DELTA,
            mechanism=mechanism,
            seed=1,
        )
        return op.evaluate_groups(made, private, ["PUMA"], marginals=None)

    last_year, hierarchy = errors(op.PublicProxy()), errors(op.Hierarchy())
    assert len(hierarchy.errors) == 5
    assert hierarchy.error < 0.75 * last_year.error
    assert np.abs(hierarchy.counts_off).max() < 250
    # The other 26 areas are empty here: what the noise puts there is little.
    assert hierarchy.stray < 150


def test_the_public_file_fits_the_schema_and_uses_all_of_it(
    years: tuple[Path, Path], schema: op.Schema
) -> None:
    public = encode_table(years[0], schema)
    for column in schema.columns:
        used = np.bincount(public.column(column.name), minlength=column.size)
        empty = [label for label, count in zip(column.labels, used, strict=True) if count == 0]
        assert not empty, f"{column.name} has values that the public file never shows: {empty}"


def test_the_release_is_better_than_last_year_alone(years: tuple[Path, Path], schema: op.Schema) -> None:
    public, private = years

    def error(mechanism: object, seed: int) -> float:
        made = op.release(
            private,
            public,
            schema=schema,
            workload=op.all_marginals(2),
            epsilon=1.0,
            delta=DELTA,
            mechanism=mechanism,
            seed=seed,
        )
        assert made.synthetic.column_names == list(schema.names)
        made.certificate.recheck()
        return op.evaluate(made, private).workload_error

    baseline = error(op.PublicProxy(), 0)
    assert np.mean([error(op.PmwPub(), seed) for seed in range(3)]) < 0.97 * baseline


def test_a_draft_without_edits_works_too(years: tuple[Path, Path], tmp_path: Path) -> None:
    public, private = years
    drafted = op.Schema.draft(public)
    drafted.save(tmp_path / "drafted.toml")
    assert op.Schema.load(tmp_path / "drafted.toml") == drafted
    made = op.release(
        private,
        public,
        workload=op.all_marginals(1),
        epsilon=1.0,
        delta=DELTA,
        mechanism=op.PmwPub(),
        seed=0,
        out=tmp_path / "release",
    )
    assert made.schema == drafted
    opened = op.open_release(tmp_path / "release")
    assert opened.synthetic.equals(made.synthetic)
    assert op.evaluate(opened, private).workload_error < 0.1
