"""What many tests share: small random tables, progress that nobody looks at, and where the real data are."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from openprior.methods.tilt import Tilt
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for


def random_table(sizes: dict[str, int], rows: int, seed: int, skew: float = 1.0) -> Table:
    """Dependent columns: a hidden class shifts every column."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, rows)
    columns = []
    for size in sizes.values():
        p = (np.arange(size) + 1.0) ** -skew
        drawn = rng.choice(size, size=rows, p=p / p.sum())
        columns.append(((drawn + hidden * (rng.random(rows) < 0.5)) % size).astype(dtype_for(size)))
    return Table(Domain(sizes), tuple(columns))


def arrow(table: Table, **more: Any) -> pa.Table:
    """A coded table as a user would have it, with further columns."""
    return pa.table({**{a: table.column(a) for a in table.domain}, **more})


def quiet(done: int, of: int, what: str) -> None:
    """Progress that nobody looks at, but that has to be said properly."""
    assert 0 <= done <= of
    assert what


@pytest.fixture
def few_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tilt has few particles where nothing else is said: for tests of the ways to it, not of its accuracy."""
    monkeypatch.setitem(Tilt.__init__.__kwdefaults__, "particles", 2000)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data, or a skip."""
    folder = Path(os.environ.get("OPENPRIOR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set OPENPRIOR_DATA to the folder that has jam/ and nist_acs/")
    return folder
