"""What a file's name says: its table's name, and its ending without that of a compression.

>>> stem(Path("survey.csv.gz")), ending(Path("survey.CSV.gz")), ending(Path("v1.2"))
('survey', '.csv', '.2')
"""

import re
from pathlib import Path

__all__ = ["ending", "gone", "stem"]

_PACKED = r"(\.(gz|bz2|zst|zip))?$"
_SUFFIXES = r"(\.(csv|tsv|txt|parquet|pq|data|jsonl|ndjson|json))?" + _PACKED


def stem(path: Path) -> str:
    """The name of the table in a file."""
    return re.sub(_SUFFIXES, "", path.name, count=1, flags=re.IGNORECASE) or path.name


def ending(path: Path) -> str:
    """The ending that tells the format, in small letters, with its dot."""
    return Path(re.sub(_PACKED, "", path.name, flags=re.IGNORECASE)).suffix.lower()


def gone(path: Path) -> str:
    """What to say of a file that was there when it was opened."""
    return f"there is no file {path} when it is read; put it where every machine that reads it sees it"
