"""The cache of priors: the same prior with, without and after it; nothing private in it; whole and bounded; never in
the way of a release."""

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openprior.errors import OpenPriorWarning
from openprior.models.prior import prior_cache
from openprior.models.prior.cache_folder import VARIABLE, cache_folder
from openprior.models.prior.prior import Prior
from openprior.models.prior.prior_cache import clear_cache, kept_files, kept_or_learnt, key_of
from openprior.models.prior.prior_learning import learn
from openprior.questions.workload import Marginal, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import SIZES, random_table

TABLE = random_table(SIZES, 9, 2)
"""So few rows that learning takes no time."""
PAIRS = all_marginals(2).on(TABLE.domain).marginals


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path / "priors"


class Learnt:
    """Learning that is counted."""

    def __init__(self) -> None:
        self.times, self.seconds = 0, 0.0

    def __call__(self, public: Table, marginals: tuple[Marginal, ...]) -> Prior:
        self.times += 1
        time.sleep(self.seconds)
        return learn(public, marginals)


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> Learnt:
    counted = Learnt()
    monkeypatch.setattr(prior_cache, "learn", counted)
    return counted


def same(one: Prior, other: Prior) -> bool:
    return (one.rows, one.shares) == (other.rows, other.shares) and all(
        np.array_equal(a, b) for a, b in zip(one.arrays, other.arrays, strict=True)
    )


def test_a_prior_is_the_same_learnt_kept_and_taken_from_the_cache(folder: Path, learnt: Learnt) -> None:
    first, again = kept_or_learnt(TABLE, PAIRS), kept_or_learnt(TABLE, PAIRS)
    assert learnt.times == 1
    assert same(first, again)
    assert same(first, learn(TABLE, PAIRS))
    assert [f.name for f in kept_files(folder)] == [f"{key_of(TABLE, PAIRS)}.prior"]


def test_it_is_for_its_owner_only_and_leaves_nothing_else(folder: Path) -> None:
    kept_or_learnt(TABLE, PAIRS)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [f.stat().st_mode & 0o777 for f in folder.iterdir()] == [0o600]


def test_the_key_is_of_rows_columns_marginals_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = Table(Domain(dict(zip("wxyz", SIZES.values(), strict=True))), TABLE.columns)
    wider = Table(Domain({**SIZES, "d": 6}), TABLE.columns)
    keys = [
        key_of(TABLE, PAIRS),
        key_of(TABLE.take(np.arange(8)), PAIRS),
        key_of(TABLE.take(np.arange(9)[::-1]), PAIRS),
        key_of(renamed, PAIRS),
        key_of(wider, PAIRS),
        key_of(TABLE, PAIRS[1:]),
        key_of(TABLE, PAIRS[::-1]),
    ]
    assert key_of(TABLE.take(np.arange(9)), PAIRS) == keys[0]
    monkeypatch.setattr(prior_cache, "_code", lambda: "changed")
    keys.append(key_of(TABLE, PAIRS))
    monkeypatch.setattr(prior_cache, "version", lambda package: "99")
    keys.append(key_of(TABLE, PAIRS))
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in keys)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other rows"])
def test_a_damaged_file_is_dropped_and_learnt_anew(folder: Path, learnt: Learnt, damage: str) -> None:
    prior = kept_or_learnt(TABLE, PAIRS)
    (file,) = kept_files(folder)
    good = file.read_bytes()
    if damage == "other rows":
        other = TABLE.take(np.arange(9)[::-1])
        kept_or_learnt(other, PAIRS)
        (folder / f"{key_of(other, PAIRS)}.prior").replace(file)
    else:
        place = len(good) // 2
        flipped = good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :]
        file.write_bytes({"cut": good[:-9], "flipped": flipped, "empty": b""}[damage])
    times = learnt.times
    with pytest.warns(
        OpenPriorWarning, match="a prior in the cache was damaged .*; it is dropped and learnt anew"
    ):
        assert same(kept_or_learnt(TABLE, PAIRS), prior)
    assert learnt.times == times + 1
    assert file.read_bytes() == good
    assert same(kept_or_learnt(TABLE, PAIRS), prior)


def test_off_means_that_nothing_is_read_or_written(
    folder: Path, learnt: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "OFF")
    for _ in range(2):
        kept_or_learnt(TABLE, PAIRS)
    assert learnt.times == 2
    assert not folder.exists()


def test_where_nothing_can_be_kept_it_is_learnt_and_said(
    folder: Path, learnt: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.parent / "file"
    file.write_text("")
    monkeypatch.setenv(VARIABLE, str(file))
    with pytest.warns(
        OpenPriorWarning, match=f"cannot be kept in .*; set {VARIABLE} to a folder .*, or to off"
    ):
        assert same(kept_or_learnt(TABLE, PAIRS), learn(TABLE, PAIRS))
    monkeypatch.setenv(VARIABLE, str(folder.parent))
    monkeypatch.setattr(os, "replace", _no_space)
    with pytest.warns(OpenPriorWarning, match="No space left"):
        assert same(kept_or_learnt(TABLE, PAIRS), learn(TABLE, PAIRS))
    assert not list(folder.iterdir())
    assert learnt.times == 2


def test_a_folder_that_may_not_be_read_is_said_and_not_raised(
    folder: Path, learnt: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch, pytest.warns(OpenPriorWarning, match="Permission denied"):
        patch.setattr(Path, "is_file", forbidden)  # as of a folder that another user made
        kept_or_learnt(TABLE, PAIRS)
    assert learnt.times == 1


def _no_space(*paths: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [TABLE.take(np.roll(np.arange(9), shift)) for shift in range(4)]
    paths = [folder / f"{key_of(table, PAIRS)}.prior" for table in tables]
    for i, table in enumerate(tables[:3]):
        kept_or_learnt(table, PAIRS)
        os.utime(paths[i], (i, i))
    strays = [folder / name for name in ("notes.txt", "draft-of-a-letter", "uv.lock")]
    for stray in strays:
        stray.write_text("not ours")
        os.utime(stray, (1, 1))
    stale = [folder / "killed.prior-draft", folder / f"{'0' * 64}.lock"]
    for left in stale:
        left.write_text("")
        os.utime(left, (1, 1))
    kept_or_learnt(tables[0], PAIRS)  # used just now, so it stays
    monkeypatch.setattr(prior_cache, "LIMIT", int(3.5 * paths[0].stat().st_size))
    kept_or_learnt(tables[3], PAIRS)
    assert [path.exists() for path in paths] == [True, False, True, True]
    assert not any(left.exists() for left in stale)
    draft = folder / "just now.prior-draft"
    draft.write_text("rows of a run that was killed")
    assert clear_cache(folder) == 3
    assert sorted(folder.iterdir()) == sorted(strays)


def test_two_at_once_learn_once(folder: Path, learnt: Learnt) -> None:
    learnt.seconds = 0.2
    priors: list[Prior] = []
    threads = [threading.Thread(target=lambda: priors.append(kept_or_learnt(TABLE, PAIRS))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learnt.times == 1
    assert same(priors[0], priors[1])
    assert same(priors[0], priors[2])


def test_nobody_waits_forever_for_another(
    folder: Path, learnt: Learnt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prior_cache, "_PATIENCE", 0.1)
    monkeypatch.setattr(prior_cache, "_locked", lambda descriptor: False)
    kept_or_learnt(TABLE, PAIRS)
    assert learnt.times == 1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in (VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    yield tmp_path


def test_the_folder_is_the_platforms_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == home / ".cache" / "openprior" / "priors"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == home / ".cache" / "openprior" / "priors"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert cache_folder() == home / "xdg" / "openprior" / "priors"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(home / "local"))
    assert cache_folder() == home / "local" / "openprior" / "priors"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == home / "Library" / "Caches" / "openprior" / "priors"


def test_without_a_home_there_is_no_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    assert cache_folder() is None
