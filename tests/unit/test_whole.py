"""Files and folders appear whole or not at all, and leave nothing behind."""

import errno
import os
from pathlib import Path

import pytest

from openprior.command_line.options import check_new
from openprior.errors import ReleaseError, SchemaError
from openprior.evaluation.metrics import write_text
from openprior.schema.base import Schema
from openprior.whole import appearing, fresh, sweep, write_file


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_a_file_replaces_an_earlier_one(tmp_path: Path) -> None:
    for text in ("first", "zweite Fassung, ε = 1\n"):
        write_file(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_bytes() == text.encode()
    assert names(tmp_path) == {"a.txt"}


@pytest.mark.parametrize("where", ["pathlib.Path.write_bytes", "os.fsync", "pathlib.Path.replace"])
def test_a_file_that_fails_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_file(tmp_path / "a.txt", "first")
    with monkeypatch.context() as patch:
        patch.setattr(where, full)
        with pytest.raises(OSError, match="space"):
            write_file(tmp_path / "a.txt", "second")
        # The schema and the evaluation say what could not be written.
        with pytest.raises(SchemaError, match=r"cannot write the schema to .*a\.txt: .*space"):
            Schema.from_sizes({"a": 2}).save(tmp_path / "a.txt")
        with pytest.raises(ReleaseError, match=r"the report .*b\.html cannot be written: .*space"):
            write_text(tmp_path / "b.html", "second")
    assert (tmp_path / "a.txt").read_text() == "first"
    assert names(tmp_path) == {"a.txt"}


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """Otherwise root would put a schema in the place of /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink("pipe", tmp_path / "link")
    for name in ("pipe", "link"):
        with pytest.raises(SchemaError, match=r"it is there and is no file; .* choose another place"):
            Schema.from_sizes({"a": 2}).save(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"] and (tmp_path / "pipe").is_fifo()


def test_a_folder_appears_when_all_is_written(tmp_path: Path) -> None:
    with appearing(fresh(tmp_path / "out")) as draft:
        (draft / "part").mkdir()
        (draft / "part" / "a.txt").write_text("a")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "part" / "a.txt").read_text() == "a"
    assert names(tmp_path) == {"out"}


def test_a_folder_that_fails_does_not_appear(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), appearing(tmp_path / "out") as draft:
        (draft / "a.txt").write_text("a")
        raise ZeroDivisionError
    with pytest.raises(ReleaseError, match="out: No space left"), appearing(tmp_path / "out"):
        raise OSError(errno.ENOSPC, "")
    with pytest.raises(ReleaseError, match="appeared meanwhile"), appearing(tmp_path / "out"):
        (tmp_path / "out").mkdir()
    assert names(tmp_path) == {"out"}


def test_drafts_of_killed_runs_are_swept(tmp_path: Path) -> None:
    for name in (".out.draft-1", ".other.draft-1", ".out"):
        (tmp_path / name).mkdir()
    sweep(tmp_path / "out")
    assert names(tmp_path) == {".other.draft-1", ".out"}


@pytest.mark.parametrize("place", ["release/x", "release/model/x", "link/x", "release/../release/x"])
def test_nothing_is_put_into_a_release(place: str, tmp_path: Path) -> None:
    (tmp_path / "release" / "model").mkdir(parents=True)
    (tmp_path / "link").symlink_to("release")
    (tmp_path / "release" / "certificate.json").touch()
    # A certificate that somebody keeps apart does not close the folder that it is kept in.
    assert fresh(tmp_path / "release" / "x").name == "x"
    (tmp_path / "release" / "report.html").touch()
    for check in (fresh, check_new):
        with pytest.raises(ReleaseError, match=r"x would be in the release folder .*, which is closed"):
            check(tmp_path / place)
    assert fresh(tmp_path / "x").name == "x"
