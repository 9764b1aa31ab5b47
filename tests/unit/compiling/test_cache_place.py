"""Where compiled loops are kept, and that a machine without such a place still works."""

import os
import stat
from pathlib import Path

import numba
import pytest

from openprior.compiling import cache_place
from openprior.compiling.cache_place import cache_folder, need_cache
from openprior.errors import OpenPriorWarning


def only(place: str) -> object:
    """Says that nothing can be written but in one folder."""
    return lambda folder: folder == place


def test_the_first_folder_that_can_be_written_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, own = str(tmp_path / "asked"), str(tmp_path / "home" / "numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", asked)
    monkeypatch.setattr(cache_place, "_user_folder", lambda: own)
    assert cache_folder() == asked
    monkeypatch.setattr(cache_place, "_can_write", only(own))
    assert cache_folder() == own
    monkeypatch.setattr(cache_place, "_can_write", only(""))
    assert cache_folder() is None


def test_the_users_folder_is_the_one_that_numba_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.misc.appdirs import AppDirs

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_place._user_folder() == AppDirs(appname="numba", appauthor=False).user_cache_dir


def test_a_folder_can_be_made_in_one_that_can_be_written_and_not_in_a_file(tmp_path: Path) -> None:
    assert cache_place._can_write(str(tmp_path / "new" / "newer"))
    (tmp_path / "file").touch()
    assert not cache_place._can_write(str(tmp_path / "file" / "new"))


def test_without_a_place_a_process_gets_one_of_its_own_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    with monkeypatch.context() as nowhere:
        nowhere.setattr(cache_place, "_can_write", only(""))
        with pytest.warns(OpenPriorWarning, match="set NUMBA_CACHE_DIR"):
            need_cache()
    made = Path(os.environ["NUMBA_CACHE_DIR"])
    assert made.is_dir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert str(made) == numba.config.CACHE_DIR
    need_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(made)
