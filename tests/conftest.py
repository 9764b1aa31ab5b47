"""What many tests share: small random tables, progress that nobody looks at, and where the real data are."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from openprior import progress_shown
from openprior.methods.tilt import Tilt
from openprior.privacy.ledger_file import LedgerFile
from openprior.progress import Progress
from openprior.schema.domain import Domain
from openprior.tables.encode import Table, dtype_for

_CACHE = tempfile.TemporaryDirectory(prefix="openprior-cache-")
# At once, and for all processes that tests start: none may read or write the priors that a user has kept.
os.environ["OPENPRIOR_CACHE"] = _CACHE.name

LONGEST = (
    "contract/test_methods.py",  # compiles most of what the others need
    "system/test_spark.py",
    "contract/test_hierarchy.py",
    "contract/test_audit.py",
    "contract/test_audit_twins.py",
    "system/test_tutorial.py",  # starts many processes, which would each compile
    "system/test_cli.py",
    "unit/models/test_tilted.py",
    "system/test_docs.py",
    "statistical/test_samplers.py",
    "reference/models/test_tilt.py",
    "fuzz/test_fuzz.py",
    "system/test_canaries.py",
    "system/test_bad_input.py",
    "statistical/test_intervals.py",
    "statistical/test_never_hurts.py",
    "reference/privacy/test_sensitivity.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: `make test` hands out whole files to two workers, which are then done together."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        is_test = item.path.is_relative_to(here)
        return rank.get(item.path.relative_to(here).as_posix(), len(rank)) if is_test else len(rank)

    items.sort(key=place)


@pytest.fixture
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: for tests in which no power is cut, and which write often."""
    prepare = LedgerFile._prepare

    def quick(self: LedgerFile, connection: sqlite3.Connection) -> None:
        prepare(self, connection)
        connection.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(LedgerFile, "_prepare", quick)


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


SIZES = {"a": 3, "b": 2, "c": 4, "d": 5}
PRIVATE, PUBLIC = random_table(SIZES, 800, 1), random_table(SIZES, 300, 2, skew=1.4)
"""Two small tables of much the same population."""


def arrow(table: Table, **more: Any) -> pa.Table:
    """A coded table as a user would have it, with further columns."""
    return pa.table({**{a: table.column(a) for a in table.domain}, **more})


def quiet(done: int, of: int, what: str) -> None:
    """Progress that nobody looks at, but that has to be said properly."""
    assert 0 <= done <= of
    assert what


@pytest.fixture(scope="session", autouse=True)
def no_lines() -> Iterator[None]:
    """No phase lasts long enough for a line in a log, however busy the machine is: what commands print is known."""
    with mock.patch.object(progress_shown, "PATIENCE", 3600.0):
        yield


@contextlib.contextmanager
def stopping(phase: str, done: int, error: type[BaseException]) -> Iterator[Callable[[Progress], None]]:
    """A progress function that breaks the run off when a phase has come so far; every step is told to it."""

    def stop(told: Progress) -> None:
        if told.phase == phase and told.done == done:
            raise error

    with mock.patch("openprior.progress.EVERY", 0.0):
        yield stop


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
