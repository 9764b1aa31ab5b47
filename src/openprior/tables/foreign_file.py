"""Files of other programs, by their endings and first bytes: a file that is not what its name says is told so."""

from pathlib import Path

from openprior.errors import SourceError
from openprior.tables.naming import ending, told

__all__ = ["refuse_foreign"]

_ZIP = (b"PK\x03\x04",)
_FOREIGN: dict[str, tuple[str, tuple[bytes, ...]]] = {
    ".orc": ("an ORC file", (b"ORC",)),
    ".avro": ("an Avro file", (b"Obj\x01",)),
    ".feather": ("a Feather file", (b"ARRO", b"FEA1")),
    ".arrow": ("an Arrow file", (b"ARRO", b"\xff\xff\xff\xff")),
    ".rds": ("an R file", (b"\x1f\x8b", b"BZh", b"\xfd7zX")),
    ".rdata": ("an R file", (b"\x1f\x8b", b"BZh", b"\xfd7zX")),
    ".pdf": ("a PDF file", (b"%PDF",)),
    ".docx": ("a Word file", _ZIP),
}


def refuse_foreign(path: Path, start: bytes) -> None:
    """Refuse a file whose ending is that of another program, given its first four bytes."""
    what, signs = _FOREIGN.get(ending(path), ("", ()))
    if not what:
        return
    if start.startswith(signs):
        raise SourceError(f"{told(path)} is {what}, which is not read here; save the table as CSV or Parquet")
    raise SourceError(f"{told(path)} is not {what}; write it again or rename it")
