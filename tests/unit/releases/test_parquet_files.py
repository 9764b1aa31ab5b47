"""Parquet files hold what is in the table: no page has room that is filled with what memory held before."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import openprior as op
from openprior.releases.parquet_files import parquet_writer, write_parquet
from tests.parquet_slack import slack

WORDS = ["other", "yes", "other", "a much longer word", "missing", "a much longer word", "other"]
FLAT = pa.DictionaryArray.from_arrays(
    pa.array([2, 0, None, 6, 5, 1, 3, 4], pa.int32()), pa.array(WORDS, pa.string())
)
LISTS = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 8], pa.int32()), FLAT)
TABLES = {
    "flat": pa.table({"x": FLAT, "n": pa.array(range(8))}),
    "lists": pa.table({"x": LISTS}),
    "a slice": pa.table({"x": LISTS.slice(1)}),
    "chunks": pa.table({"x": pa.chunked_array([FLAT, FLAT.slice(3)])}),
    "bytes": pa.table({"x": FLAT.cast(pa.dictionary(pa.int8(), pa.string()))}),
    "nothing": pa.table({"x": LISTS.slice(0, 0)}),
}


@pytest.mark.parametrize("name", TABLES)
def test_dictionaries_that_name_a_value_twice_leave_no_room(tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    write_parquet(table, tmp_path / "whole.parquet")
    with parquet_writer(table.schema, tmp_path / "parts.parquet") as write:
        write(table)
        write(table)
    for file, wanted in (("whole", table), ("parts", pa.concat_tables([table, table]))):
        path = tmp_path / f"{file}.parquet"
        assert not any(slack(path).values())
        read = parquet.read_table(path)
        assert read.to_pydict() == wanted.to_pydict() and read.schema.equals(wanted.schema)


def test_room_would_be_seen(tmp_path: Path) -> None:
    """What Arrow writes by itself; if this fails, it has been mended there, and `_distinct` can go."""
    for name in ("flat", "lists"):
        parquet.write_table(TABLES[name], tmp_path / "x.parquet")
        (room,) = slack(tmp_path / "x.parquet").values()
        assert len(room) == sum(4 + len(w) for w in WORDS) - sum(4 + len(w) for w in set(WORDS))


@pytest.mark.parametrize("mechanism", [op.Mst(), op.Mwem(rounds=3), op.Ide(queries=("prefixes(a)",))])
def test_no_file_of_a_release_has_any(tmp_path: Path, mechanism: Any) -> None:
    rng = np.random.default_rng(0)
    schema = op.Schema.from_sizes({"a": 3, "b": 3, "c": 2})  # the labels 0, 1 and 2 again and again
    private, public = (
        pa.table({name: rng.integers(0, schema[name].size, 200) for name in "abc"}) for _ in range(2)
    )
    made = op.release(
        private, public, schema=schema, workload=2, epsilon=1.0, delta=1e-6, mechanism=mechanism, seed=1,
        out=tmp_path / "out",
    )  # fmt: skip
    files = list((tmp_path / "out").rglob("*.parquet"))
    assert {f.name for f in files} == {"synthetic.parquet", "answers.parquet", "measurements.parquet"}
    found = [slack(file) for file in files]
    assert any(found) and not any(room for columns in found for room in columns.values())
    assert op.open_release(tmp_path / "out").answers().equals(made.answers())


WRITES = """
import hashlib, sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import openprior as op
from openprior.models.support import SupportModel
from openprior.releases import answers_file, row_parts
from openprior.releases.measurements import Measurements
from openprior.tables.decode import Decoder
from tests.conftest import random_table

place = Path(sys.argv[1])
place.mkdir()
sizes = {"a": 3, "b": 7, "c": 70}
schema = op.Schema.from_sizes(sizes)
model = SupportModel(random_table(sizes, 90, 1), np.arange(1.0, 91.0), 1000.0)
answers_file._CELLS = 777
nothing = Measurements(schema.full_domain, [])
marginals = [("a", "b", "c"), ("a",), ("b", "c")]
answers_file.write_answers(model, schema, nothing, marginals, place / "answers.parquet")
row_parts._PART, row_parts._BLOCK = 900, 400
row_parts.draw_parts(model, Decoder(schema), 1000, marginals, np.random.default_rng(1), place, "parquet")
twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["x", "y" * 99, "y" * 99]))
parquet.write_table(pa.table({"x": twice}), place / "control.parquet", compression="none")
for file in sorted(place.rglob("*.parquet")):
    print(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc fills memory on request")
def test_what_memory_held_before_is_in_no_file(tmp_path: Path) -> None:
    """Fresh memory is filled with one byte or another; the files are the same, but for one that leaves room."""
    said = []
    for fill in ("85", "170"):
        environment = {**os.environ, "MALLOC_PERTURB_": fill, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        command = [sys.executable, "-c", WRITES, str(tmp_path / fill)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.append(dict(line.split() for line in done.stdout.splitlines()))
    assert said[0].pop("control.parquet") != said[1].pop("control.parquet")
    assert len(said[0]) > 3 and said[0] == said[1]
