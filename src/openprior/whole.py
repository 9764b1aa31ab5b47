"""Files and folders that appear whole or not at all.

Both are written as a draft beside their place, brought to the disk and then renamed, which a file system does in one
step. Whoever looks sees the old thing or the new one, also after a crash or a power cut, and never half of it.
"""

import contextlib
import errno
import glob
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from openprior.errors import ReleaseError
from openprior.given import path_of

__all__ = ["appearing", "filling", "fresh", "outside_releases", "sweep", "write_file"]

_LONGEST_NAME = 200
"""Leaves room for the endings of the draft and the journal in the 255 bytes of a file name."""


def write_file(path: Path, text: str) -> None:
    """Write a text file as UTF-8, over an earlier one if there is one.

    An OSError, after which nothing has changed, is the caller's to explain: only the caller knows what the file is.
    """
    with filling(path) as draft:
        draft.write_bytes(text.encode())


@contextlib.contextmanager
def filling(path: Path) -> Iterator[Path]:
    """A draft of a file, which takes its place when it is written and is gone if anything fails; as `write_file`."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        # Who may would put a file in the place of a device, such as /dev/null, and break whatever uses it.
        raise OSError(errno.EINVAL, "it is there and is no file")
    draft = _draft(path)
    try:
        yield draft
        _sync(draft)
        draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def fresh(path: str | Path) -> Path:
    """Where a folder will appear: a name that is free, in a place that can be written."""
    folder = path_of("the output folder", path, error=ReleaseError).absolute()
    if os.path.lexists(folder):
        raise ReleaseError(f"output folder {path} exists; choose another name or remove it")
    if len(os.fsencode(folder.name)) > _LONGEST_NAME:
        raise ReleaseError(f"the name of output folder {path} is too long; use at most {_LONGEST_NAME} bytes")
    if not os.path.isdir(folder.parent):  # which says no, and does not raise, where a name is too long
        raise ReleaseError(
            f"the folder {folder.parent.name} that should hold {path} does not exist; create it first"
        )
    if not os.access(folder.parent, os.W_OK):
        raise ReleaseError(f"no permission to write {path}; choose another place")
    outside_releases(folder)
    return folder


def outside_releases(path: Path) -> None:
    """Refuse a place in a release folder, or in one of an estimate: what is published is closed, so that one file more
    breaks its seal; and what is NOT PRIVATE would be published with it."""
    for folder in path.absolute().parents:
        if all(os.path.exists(folder / name) for name in ("certificate.json", "report.html")):
            raise ReleaseError(
                f"{path.name} would be in the release folder {folder.name}, which is closed; choose another place"
            )


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """A draft folder that becomes `folder` when all is written, and is gone if anything fails."""
    draft = _draft(folder)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        yield draft
        for file in [*draft.rglob("*"), draft]:
            _sync(file)
        if os.path.lexists(folder):
            raise ReleaseError(f"output folder {folder.name} appeared meanwhile; move it away")
        draft.rename(folder)
        _sync(folder.parent)
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else type(error).__name__
        raise ReleaseError(f"the release could not be written to {folder.name}: {what}; free space") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the drafts of runs that were killed while writing; the journal's lock says that no other run writes."""
    for draft in folder.parent.glob(f".{glob.escape(folder.name)}.draft-*"):
        shutil.rmtree(draft, ignore_errors=True)


def _draft(path: Path) -> Path:
    return path.parent / f".{path.name}.draft-{os.getpid()}"


def _sync(path: Path) -> None:
    """To the disk: the journal of a run is removed once its folder is there, and a power cut must not take both."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
