"""Texts as a schema's `Reading` says that they are written, in the spelling that `convert` parses: 1.234,50 is 1234.50.

Each text by itself. What is not written in just that way becomes a sign that is neither number nor moment, so that a
point in the wrong place is never taken for another number: with decimal commas, 1.5 is no number.
"""

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.reading_rules import Reading, date_parts

__all__ = ["plain_moments", "plain_numbers"]

_NEITHER = "-"
_BLANK = "[ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}]"
_MONTHS = ["january", "february", "march", "april", "may", "june"]
_MONTHS += ["july", "august", "september", "october", "november", "december"]
_PARTS = {
    "Y": r"\d{4}",
    "y": r"\d{2}",
    "b": "[a-z]{3}",
    "B": "[a-z]{3,9}",
    "p": "[ap]m",
    "f": r"\d{1,6}",
    "z": r"(?-i:Z)|[+-]\d\d:?\d\d",
}


def plain_numbers(words: pa.Array, reading: Reading) -> pa.Array:
    """Stripped texts with numbers in them as usual: a decimal point, nothing between thousands."""
    if reading.has_plain_numbers:
        return words
    point, group = re.escape(reading.decimal), _group(reading)
    whole = r"\d+" if group is None else rf"(\d+|\d{{1,3}}({group}\d{{3}})+)"
    number = rf"^[+-]?(({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d{{1,4}})?|(?i:inf|infinity))$"
    written = pc.match_substring_regex(words, number)
    if group is not None:
        words = pc.replace_substring_regex(words, group, "")
    words = pc.replace_substring(words, reading.decimal, ".")
    return pc.if_else(written, words, pa.scalar(_NEITHER, words.type))


def plain_moments(words: pa.Array, reading: Reading, *, time_of_day: bool) -> pa.Array:
    """Stripped texts with dates in them (or times of day) as ISO writes them."""
    if reading.date_format is None or date_parts(reading.date_format)[0] == time_of_day:
        return words
    found = pc.extract_regex(words, _pattern(reading.date_format))
    parts = {name: pc.struct_field(found, name) for name in _letters(reading.date_format)}
    spelled = _joined(([] if time_of_day else _date(parts)) + _time(parts), words.type)
    return pc.if_else(words.is_null(), words, pc.fill_null(spelled, _NEITHER))


def _group(reading: Reading) -> str | None:
    """The pattern of what stands between thousands."""
    if reading.thousands is None:
        return None
    return _BLANK if re.fullmatch(_BLANK, reading.thousands) else re.escape(reading.thousands)


def _letters(date_format: str) -> list[str]:
    return re.findall(r"%([A-Za-z])", date_format.replace("%%", ""))


@lru_cache(maxsize=16)
def _pattern(date_format: str) -> str:
    """The regular expression of a format, with a group by the name of each part."""
    pattern = ""
    # Where parts touch each other, a zero that is left out would make 1122018 two dates.
    digits = r"\d{2}" if re.search("%[YymdHIMSf]%[YymdHIMSf]", date_format.replace("%%", " ")) else r"\d{1,2}"
    for piece in re.findall(r"%.|\s+|[^%\s]+", date_format):
        if piece[0] == "%" and piece != "%%":
            pattern += f"(?P<{piece[1]}>{_PARTS.get(piece[1], digits)})"
        else:
            pattern += r"\s+" if piece.isspace() else re.escape("%" if piece == "%%" else piece)
    return f"(?i)^{pattern}$"


def _date(parts: dict[str, pa.Array]) -> list[pa.Array | str]:
    if "Y" in parts:
        year: list[pa.Array | str] = [parts["Y"]]
    else:
        # As everywhere: 69 to 99 are of the last century.
        year = [pc.if_else(pc.greater_equal(parts["y"], "69"), "19", "20"), parts["y"]]
    if "m" in parts:
        month = _padded(parts["m"])
    else:
        names = [name[:3] for name in _MONTHS] if "b" in parts else _MONTHS
        word = pc.utf8_lower(parts["b" if "b" in parts else "B"])
        month = _padded(pc.add(pc.index_in(word, pa.array(names, word.type)), 1).cast(word.type))
    return [*year, "-", month, "-", _padded(parts["d"])]


def _time(parts: dict[str, pa.Array]) -> list[pa.Array | str]:
    if "M" not in parts:
        return []
    if "H" in parts:
        hour = parts["H"]
    else:
        half = parts["I"].cast(pa.int32())
        half = pc.if_else(pc.and_(pc.greater_equal(half, 1), pc.less_equal(half, 12)), half, None)
        noon = pc.if_else(pc.equal(half, 12), 0, half)
        hour = pc.add(noon, pc.if_else(pc.equal(pc.utf8_lower(parts["p"]), "pm"), 12, 0)).cast(
            parts["I"].type
        )
    spelled: list[pa.Array | str] = [" "] if "d" in parts else []
    spelled += [_padded(hour), ":", _padded(parts["M"])]
    if "S" in parts:
        spelled += [":", _padded(parts["S"])]
    if "f" in parts:
        spelled += [".", parts["f"]]
    if "z" in parts:
        spelled.append(parts["z"])
    return spelled


def _padded(digits: pa.Array) -> pa.Array:
    return pc.utf8_lpad(digits, 2, "0")


def _joined(parts: list[pa.Array | str], kind: pa.DataType) -> pa.Array:
    """The parts one after another; null where one of them is."""
    words = [pa.scalar(part, kind) if isinstance(part, str) else part.cast(kind) for part in parts]
    return pc.binary_join_element_wise(*words, pa.scalar("", kind))
