"""Releases with rows in parts: what is written, opened, counted, copied and refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from pyarrow import parquet

import openprior as op
from openprior.counting import cores
from openprior.errors import OptionError, ReleaseError
from openprior.releases import row_parts
from openprior.releases.certificate import FORMAT, Certificate
from openprior.releases.check import check_release
from openprior.releases.seal import CERTIFICATE, seal_of
from tests.parquet_slack import slack

N = 300
SCHEMA = op.Schema.from_toml(
    """
[columns.city]
kind = "categorical"
values = ["New York", "", "NA", "Łódź"]
other = true
missing = true
missing_values = []
out_of_domain = "other"
[columns.age]
kind = "integer"
bins = [0, 20, 40, 60]
missing = true
[columns.day]
kind = "datetime"
bins = [2024-01-01T00:00:00, 2024-02-01T00:00:00, 2024-03-01T00:00:00]
dtype = "timestamp[s]"
"""
)


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    cities = np.array(["New York", "", "NA", "Łódź", "elsewhere", None], object)
    days = np.datetime64("2024-01-01", "s") + rng.integers(0, 60, N).astype("timedelta64[D]")
    return pa.table(
        {
            "city": pa.array(cities[rng.integers(0, 6, N)].tolist(), pa.string()),
            "age": pa.array(rng.integers(0, 60, N), mask=rng.random(N) < 0.1),
            "day": pa.array(days),
        }
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a hundred rows, in blocks of thirty."""
    for name, values in (("_ONE_FILE", 600), ("_PART", 300), ("_BLOCK", 90)):
        monkeypatch.setattr(row_parts, name, values)


def made(out: Path | None, **options: Any) -> Any:
    return op.release(
        rows(1), rows(2), schema=SCHEMA, workload=2, epsilon=1.0, delta=1e-6, mechanism=op.PublicProxy(), seed=1,
        out=out, **options,
    )  # fmt: skip


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore:.*some readers of CSV")
def test_a_release_in_parts_says_what_one_in_memory_says(tmp_path: Path, format: str) -> None:
    memory, release = made(None), made(tmp_path / "r", format=format)
    assert isinstance(memory.synthetic, pa.Table) and isinstance(release.synthetic, pads.Dataset)
    names = [f"synthetic/part-0000{i}.{format}" for i in range(3)]
    opened = op.open_release(tmp_path / "r")
    assert [n for n in opened.certificate.files if n.startswith("synthetic")] == names
    for one in (release, opened):
        assert one.row_count == N and one.rows().num_rows == N and len(one.to_pandas()) == N
        for column, counts in memory.counts.counts.items():  # the public rows, each once
            np.testing.assert_array_equal(one.counts.counts[column], counts)
        found = one.synthetic.to_table()
        assert sorted(found["city"].to_pylist(), key=str) == sorted(
            memory.synthetic["city"].to_pylist(), key=str
        )
        assert found["age"].null_count == memory.synthetic["age"].null_count
        assert found["day"].type == pa.timestamp("s")
        assert one.rows(50, where={"city": "NA"}).num_rows == 50
        assert "city" in one._repr_html_() and f"{N:,}" in repr(one)
    assert release.public.distances == memory.public.distances
    assert op.evaluate(opened, rows(1)).workload_error == op.evaluate(memory, rows(1)).workload_error
    assert sum(f.stat().st_size for f in (tmp_path / "r" / "synthetic").iterdir()) > 0
    other = opened.save(tmp_path / "other", format="csv" if format == "parquet" else "parquet")
    assert op.open_release(other).synthetic.to_table().to_pydict() == opened.synthetic.to_table().to_pydict()
    if format == "parquet":
        assert not any(room for name in names for room in slack(tmp_path / "r" / name).values())
        assert op.open_release(tmp_path / "r").certificate == release.certificate


@pytest.mark.usefixtures("small")
def test_rows_do_not_depend_on_how_many_threads_draw_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(row_parts, "workers", lambda threads=threads: threads)
        found.append(made(tmp_path / str(threads)).synthetic.to_table())
    assert found[0].equals(found[1]) and cores.workers() >= 1


@pytest.mark.usefixtures("small")
def test_parts_that_are_not_what_was_written_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    made(folder)
    first, last = folder / "synthetic/part-00000.parquet", folder / "synthetic/part-00002.parquet"

    def sealed() -> None:
        values = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
        values["files"] = {name: seal.to_dict() for name, seal in seal_of(folder).items()}
        text = json.dumps(values, indent=1, ensure_ascii=False)
        (folder / CERTIFICATE).write_text(text, encoding="utf-8", newline="\n")

    whole = first.read_bytes()
    first.write_bytes(whole[:-1] + b"?")
    with pytest.raises(ReleaseError, match="another SHA-256"):
        op.open_release(folder)
    first.write_bytes(whole)
    table = parquet.read_table(first)
    for changed in (table.rename_columns(["city", "age", "z"]), table.set_column(1, "age", table["city"])):
        parquet.write_table(changed, first)
        sealed()
        with pytest.raises(ReleaseError, match="its synthetic rows have other"):
            op.open_release(folder)
    first.write_bytes(whole)
    last.rename(folder / "synthetic/part-00003.parquet")
    sealed()
    with pytest.raises(ReleaseError, match=r"lists no synthetic/part-00002\.parquet"):
        op.open_release(folder)
    (folder / "synthetic/part-00003.parquet").rename(last)
    (folder / "synthetic.parquet").write_bytes(whole)
    sealed()
    with pytest.raises(ReleaseError, match=r"synthetic\.parquet, which no release has"):
        op.open_release(folder)
    (folder / "synthetic.parquet").unlink()
    sealed()
    assert op.open_release(folder).row_count == N


@pytest.mark.usefixtures("small")
def test_a_part_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = row_parts._write

    def fails(tables: Any, path: Path) -> None:
        if path.name == "part-00001.parquet":
            raise OSError(28, "no space")
        written(tables, path)

    monkeypatch.setattr(row_parts, "_write", fails)
    with pytest.raises(ReleaseError, match="free space"):
        made(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_which_answers_are_written(tmp_path: Path) -> None:
    for answers, marginals in (("none", None), ("workload", 3), ("measured", 0), (None, 3)):
        folder = tmp_path / str(answers)
        made(folder, answers=answers)
        opened = op.open_release(folder)
        file = folder / "answers.parquet"
        assert file.exists() == (marginals is not None)
        if marginals is not None:
            assert len(parquet.read_table(file)["marginal"].unique()) == marginals
        assert opened.answers(["city", "age"]).num_rows == 6 * 4
    with pytest.raises(OptionError, match="answers"):
        made(tmp_path / "wrong", answers="some")
    with pytest.raises(OptionError, match="answers"):
        made(None).save(tmp_path / "wrong", answers="some")
    assert not (tmp_path / "wrong").exists()


def test_folders_of_former_formats_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    made(folder)
    text = (folder / CERTIFICATE).read_text(encoding="utf-8")
    assert f'"format": {FORMAT},' in text
    text = re.sub(r' "rows": \d+,\n', "", text)  # which former ones did not say
    for former in (4, 3):  # folders were the same without error bars
        renamed = text.replace(f'"format": {FORMAT},', f'"format": {former},', 1)
        (folder / CERTIFICATE).write_text(renamed, encoding="utf-8", newline="\n")
        opened = op.open_release(folder)
        assert opened.certificate.format == former
        assert opened.error_bars is None
        copy = opened.save(tmp_path / f"copy-{former}")
        assert op.open_release(copy).certificate.format == former
    renamed = text.replace(f'"format": {FORMAT},', '"format": 2,', 1)
    (folder / CERTIFICATE).write_text(renamed, encoding="utf-8", newline="\n")
    with pytest.raises(ReleaseError, match="prior"):  # a certificate of this version under the other number
        op.open_release(folder)
    older = renamed.replace(' "prior": {},\n', "", 1)  # as the version before wrote it
    assert older != renamed
    (folder / CERTIFICATE).write_text(older, encoding="utf-8", newline="\n")
    opened = op.open_release(folder)
    assert opened.certificate.format == 2
    copy = opened.save(tmp_path / "copy", answers="none")
    # No more than 3: its costs are those of the version that made it.
    assert op.open_release(copy).certificate.format == 3
    with pytest.raises(ReleaseError, match="NOT PRIVATE"):  # and nothing else
        check_release(folder)
    with pytest.raises(ReleaseError, match="unknown field 'prior'"):
        Certificate.from_json(renamed)
    with pytest.raises(ReleaseError, match="prior is missing"):
        Certificate.from_json(older.replace('"format": 2,', '"format": 3,', 1))
    (folder / "answers.parquet").unlink()
    values = json.loads(older)
    del values["files"]["answers.parquet"]
    (folder / CERTIFICATE).write_text(
        json.dumps(values, indent=1, ensure_ascii=False), encoding="utf-8", newline="\n"
    )
    with pytest.raises(ReleaseError, match=r"lists no answers\.parquet"):
        op.open_release(folder)
