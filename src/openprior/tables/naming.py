"""What a file's name says: its table's name, and its ending without that of a compression.

>>> stem(Path("survey.csv.gz")), ending(Path("survey.CSV.gz")), ending(Path("v1.2"))
('survey', '.csv', '.2')
>>> told(Path("clinic/illness=flu/part.csv"))
'clinic/illness=…/part.csv'
"""

import re
from pathlib import Path

__all__ = ["ending", "gone", "stem", "told"]

_PACKED = r"(\.(gz|bz2|zst|zip))?$"
_SUFFIXES = r"(\.(csv|tsv|txt|parquet|pq|data|jsonl|ndjson|json))?" + _PACKED


def stem(path: Path) -> str:
    """The name of the table in a file."""
    return re.sub(_SUFFIXES, "", path.name, count=1, flags=re.IGNORECASE) or path.name


def ending(path: Path) -> str:
    """The ending that tells the format, in small letters, with its dot."""
    return Path(re.sub(_PACKED, "", path.name, flags=re.IGNORECASE)).suffix.lower()


def told(path: Path) -> str:
    """A path as messages name it: without values in the names of folders, which are as private as the rows."""
    return str(Path(*(re.sub("=.*", "=…", part, flags=re.DOTALL) for part in path.parts[:-1]), path.name))


def gone(path: Path) -> str:
    """What to say of a file that was there when it was opened."""
    return f"there is no file {told(path)} when it is read; put it where every machine that reads it sees it"
