"""Texts of a public column that look like numbers or dates in another spelling: what to say to have them read so.

A column of amounts with decimal commas is drafted as text, of which most values differ, and left out as an identifier;
whoever drafts should learn of it. Only public values come here.
"""

import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.convert import moments, numbers

__all__ = ["hint_on"]

_MOST = 0.9  # of the different values, which may have words for missing among them
_SAMPLE = 2000
_NUMBERS = (
    Reading(decimal=","),
    Reading(thousands=","),
    Reading(decimal=",", thousands="."),
    Reading(decimal=",", thousands=" "),
    Reading(thousands=" "),
    Reading(thousands="'"),
)
_DATES = tuple(
    Reading(date_format=date + time)
    for date in (
        "%d.%m.%Y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%d-%m-%Y",
        "%Y/%m/%d",
        "%d.%m.%y",
        "%m/%d/%y",
        "%d %b %Y",
    )
    for time in ("", " %H:%M", " %H:%M:%S")
)


def hint_on(name: str, words: pa.Array) -> str | None:
    """What a person should know of a column of different texts that was not read as numbers or dates."""
    words = words[:_SAMPLE]
    if not len(words) or not pc.any(pc.match_substring_regex(words, r"\d")).as_py():
        return None
    for what, readings in (("numbers", _NUMBERS), ("dates", _DATES)):
        shares = {reading: _share(words, reading) for reading in readings}
        best = max(shares.values())
        # Codes such as 01301 are numbers in every spelling, and left alone for that.
        if best >= _MOST and best > _share(words, PLAIN):
            ways = " or ".join(map(_said, _simplest([r for r, share in shares.items() if share == best])))
            return f"'{name}' looks like {what} that are written in another way; if so, draft with {ways}"
    return None


def _simplest(readings: list[Reading]) -> list[Reading]:
    """Those that say no more than another one does."""
    entries = [set(reading.entries().items()) for reading in readings]
    return [
        r for r, mine in zip(readings, entries, strict=True) if not any(other < mine for other in entries)
    ]


def _share(words: pa.Array, reading: Reading) -> float:
    """The share of the texts that this reading understands."""
    is_date = reading.date_format is not None
    found = moments(words, reading, time_of_day=False) if is_date else numbers(words, reading)
    return 1.0 if found.unparsed is None else 1.0 - float(found.unparsed.mean())


def _said(reading: Reading) -> str:
    """The reading as options of the command line; in Python they have the same names."""
    return " ".join(f'--{key.replace("_", "-")} "{value}"' for key, value in reading.entries().items())
