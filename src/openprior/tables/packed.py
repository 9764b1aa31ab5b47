"""Files as streams of bytes, unpacked on the way: gzip, bzip2, Zstandard and zip archives of one file.

What a file is shows in its first bytes, not in its name.
"""

import contextlib
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from openprior.errors import SourceError
from openprior.tables.naming import told

__all__ = ["BROKEN", "is_packed", "unpacked"]

_CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_ZIP = b"PK\x03\x04"
BROKEN = (pa.ArrowException, OSError, EOFError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
"""What a stream of a damaged file may raise: an archive's password and methods that nobody has are among it."""


def is_packed(start: bytes) -> bool:
    """Whether a file with these first bytes is compressed in a way that is undone here."""
    return start.startswith((*_CODECS, _ZIP))


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Any]:
    """The bytes of a file, unpacked, as an Arrow stream that is closed in the end."""
    with path.open("rb") as file:
        start = file.read(4)
    if start == _ZIP:
        with zipfile.ZipFile(path) as archive, archive.open(_only_member(path, archive)) as member:
            yield pa.input_stream(member)
        return
    codec = next((name for sign, name in _CODECS.items() if start.startswith(sign)), None)
    with pa.input_stream(str(path), compression=codec) as stream:
        yield stream


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not re.search(r"(^|/)(\.|__MACOSX/)", member.filename)
    ]
    if len(members) != 1:
        raise SourceError(
            f"{told(path)} is an archive of {len(members)} files; unpack it, and name the one with the table"
        )
    return members[0]
