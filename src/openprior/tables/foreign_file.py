"""Files of other programs, by their endings and first bytes: a file that is not what its name says is told so."""

from pathlib import Path

from openprior.errors import SourceError
from openprior.tables.naming import ending, told

__all__ = ["refuse_foreign"]

_ZIP = (b"PK\x03\x04",)
_OLE = (b"\xd0\xcf\x11\xe0",)
_FOREIGN: dict[str, tuple[str, tuple[bytes, ...]]] = {
    ".xlsx": ("an Excel file", _ZIP),
    ".xlsm": ("an Excel file", _ZIP),
    ".xlsb": ("an Excel file", _ZIP),
    ".xls": ("an Excel file", _OLE),
    ".ods": ("an OpenDocument file", _ZIP),
    ".sav": ("an SPSS file", (b"$FL2", b"$FL3")),
    ".zsav": ("an SPSS file", (b"$FL3",)),
    ".dta": ("a Stata file", (b"<sta", b"\x71", b"\x72", b"\x73")),
    ".sas7bdat": ("a SAS file", (b"\0\0\0\0",)),
    ".xpt": ("a SAS file", (b"HEAD",)),
    ".orc": ("an ORC file", (b"ORC",)),
    ".avro": ("an Avro file", (b"Obj\x01",)),
    ".feather": ("a Feather file", (b"ARRO", b"FEA1")),
    ".arrow": ("an Arrow file", (b"ARRO", b"\xff\xff\xff\xff")),
    ".rds": ("an R file", (b"\x1f\x8b", b"BZh", b"\xfd7zX")),
    ".rdata": ("an R file", (b"\x1f\x8b", b"BZh", b"\xfd7zX")),
    ".sqlite": ("an SQLite file", (b"SQLi",)),
    ".db": ("an SQLite file", (b"SQLi",)),
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
