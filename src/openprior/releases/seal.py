"""The seal of a folder: the size and the SHA-256 of every file, so that what is opened is what was written, whole.

A folder is *closed*: it holds just what its certificate lists. A file that was changed, cut, lost, renamed or added, a
link, or a folder that nobody listed breaks the seal. That guards against accidents and mix-ups. Against forgery it
guards whoever has the certificate, or its own SHA-256, from somewhere else: who can write files can write a new list.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from openprior.errors import ReleaseError
from openprior.privacy.strict import Record

__all__ = ["CERTIFICATE", "FileSeal", "check_seal", "read_certificate", "seal_of", "seals_from", "state_of"]

CERTIFICATE = "certificate.json"
"""It lists all other files, so it cannot list itself."""

_LARGEST = 1 << 30
"""Bytes of a certificate that are read at most: three million steps."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){0,8}")

State = Mapping[str, tuple[int, ...]]
"""What the file system says of every file: two equal states mean that nobody wrote in between."""


@dataclass(frozen=True)
class FileSeal:
    """What a file must be: so many bytes, with this SHA-256 in hex."""

    size: int
    sha256: str

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {"bytes": self.size, "sha256": self.sha256}


def seal_of(folder: Path) -> dict[str, FileSeal]:
    """The seals of all files of a folder but its certificate, by name."""
    return {
        name: FileSeal(found[_SIZE], _sha256(folder / name))
        for name, found in sorted(state_of(folder).items())
        if name != CERTIFICATE
    }


def seals_from(record: Record) -> dict[str, FileSeal]:
    """As a certificate lists them; strict."""
    seals = {}
    for name in list(record.names):
        if not _NAME.fullmatch(name) or name == CERTIFICATE:
            raise ReleaseError("its list of files has a name that no release writes")
        facts = record.record(name)
        seals[name] = FileSeal(facts.whole("bytes"), facts.text("sha256"))
        facts.end()
        if not re.fullmatch("[0-9a-f]{64}", seals[name].sha256):
            raise ReleaseError(f"the SHA-256 of {name} in its certificate is none")
    if len({name.casefold() for name in seals}) < len(seals):
        raise ReleaseError("its list of files has two names that differ in capitals only")
    return seals


def read_certificate(folder: Path) -> bytes:
    """The bytes of a folder's certificate."""
    path = folder / CERTIFICATE
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no path can hold a zero byte
        raise ReleaseError(
            f"{_shown(str(folder))} is not a release folder: it has no {CERTIFICATE}; check the path"
        ) from None
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be read ({error.strerror}); check its permissions") from None
    if not stat.S_ISREG(found.st_mode):
        raise ReleaseError(
            f"{folder} is not a release folder: its {CERTIFICATE} is no plain file; copy it again"
        )
    if found.st_size > _LARGEST:
        raise ReleaseError(
            f"{folder} is not a release folder: its {CERTIFICATE} is far too large; check the path"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read ({error.strerror}); check its permissions") from None


def check_seal(folder: Path, seals: Mapping[str, FileSeal]) -> State:
    """Raise unless the folder has just the files that are listed, each as it was written; returns its state."""
    state = state_of(folder)
    extra = sorted(state.keys() - seals.keys() - {CERTIFICATE})
    if extra:
        raise ReleaseError(
            f"the folder {folder} holds {_list(extra)}, which the certificate does not list; a release is closed, so "
            "remove what was added or copy the release again"
        )
    missing = sorted(seals.keys() - state.keys())
    if missing:
        raise ReleaseError(f"the release in {folder} is damaged: {_list(missing)} is missing; copy it again")
    for name, seal in seals.items():  # sizes first: they cost nothing
        if state[name][_SIZE] != seal.size:
            raise ReleaseError(
                f"the release in {folder} is damaged: {name} has {state[name][_SIZE]:,} bytes and not the "
                f"{seal.size:,} that its certificate lists; copy it again, or wait until it is copied"
            )
    for name, seal in seals.items():
        if _sha256(folder / name) != seal.sha256:
            raise ReleaseError(
                f"the release in {folder} is damaged: {name} is not the file that its certificate lists (another "
                "SHA-256); copy it again"
            )
    return state


_SIZE = 0
"""Its place in a state."""


def state_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Size, times and number of every plain file, by name; whatever is no plain file or folder is refused."""
    return {
        name: (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
        for name, found in _walk(folder, "")
    }


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder / inside) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        if inside and not listed:
            raise ReleaseError(
                f"the folder {folder} holds the empty folder {_shown(inside)}, which no release writes; remove it"
            )
        for entry in listed:
            name = f"{inside}/{entry.name}" if inside else entry.name
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and name.count("/") < 8:
                yield from _walk(folder, name)
            elif stat.S_ISREG(found.st_mode):
                yield name, found
            else:
                raise ReleaseError(
                    f"the folder {folder} holds {_shown(name)}, which is a link or no plain file; copy the release "
                    "again, with files instead of links"
                )
    except OSError as error:
        raise ReleaseError(
            f"the release in {folder} cannot be read ({os.strerror(error.errno or 5)}); check that it is all there "
            "and may be read"
        ) from None


def _sha256(path: Path) -> str:
    """Piece by piece: a file may be larger than the memory."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReleaseError(
            f"{path} cannot be read ({os.strerror(error.errno or 5)}); copy it again"
        ) from None


def _list(names: list[str]) -> str:
    shown = ", ".join(map(_shown, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _shown(name: str) -> str:
    """A name that a file system has may be anything."""
    return "".join(c if c.isprintable() else "?" for c in name[:200])
