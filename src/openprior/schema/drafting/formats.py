"""Texts that would be numbers or dates if they were read otherwise: 1.234,5 and 31.12.2021, $1,200 and 12 %.

A draft does not read them so by itself: 1,234 is a thousand here and a little more than one there. It says which option
reads them, and a person decides.
"""

import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.drafting.remarks import Notes
from openprior.schema.identifiers import Remark

__all__ = ["all_match", "leading_zeros", "read_otherwise", "three_digits"]

_SIGNS = r"([€$£¥%]|EUR|USD|GBP|CHF|kr|zł)"
_SIGNED = rf"^[+-]?({_SIGNS}\s?[+-]?\d[\d.,' ]*|[+-]?\d[\d.,' ]*\s?{_SIGNS})$"
_PLAIN = r"^[+-]?\d[\d.,' ]*$"
_CLOCK = r"( \d{1,2}:\d{2}(:\d{2})?)?"
_DATES = {
    "iso": r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?$",
    ".": rf"^\d{{1,2}}\.\d{{1,2}}\.(\d{{4}}|\d{{2}}){_CLOCK}$",
    "/": rf"^\d{{1,2}}/\d{{1,2}}/(\d{{4}}|\d{{2}}){_CLOCK}$",
    "-": rf"^\d{{1,2}}-\d{{1,2}}-(\d{{4}}|\d{{2}}){_CLOCK}$",
    "year first": rf"^\d{{4}}/\d{{1,2}}/\d{{1,2}}{_CLOCK}$",
}
_PARTS = r"^(?P<a>\d+)[./-](?P<b>\d+)[./-](?P<y>\d+)"
_MONTHS, _DAYS = 12, 31


def all_match(words: pa.Array, pattern: str) -> bool:
    """Whether every text fits."""
    return bool(pc.all(pc.match_substring_regex(words, pattern)).as_py())


def _any(words: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(words, pattern)).as_py())


def _example(words: pa.Array, pattern: str) -> str:
    """A text that fits, the same whatever the order of rows."""
    found: str = pc.min(words.filter(pc.match_substring_regex(words, pattern))).as_py()
    return found


def leading_zeros(name: str, words: pa.Array) -> Remark | None:
    """What to say of digits of which some begin with a zero."""
    is_code = all_match(words, r"^\d+$") and _any(words, r"^0\d")
    return Notes(name).leading_zeros(_example(words, r"^0\d")) if is_code else None


def three_digits(name: str, words: pa.Array) -> Remark | None:
    """What to say of numbers whose point may separate thousands: never a 0 before it, always three digits after."""
    grouped = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
    if not (_any(words, grouped) and all_match(words, rf"{grouped}|^[+-]?\d{{1,3}}$")):
        return None
    return Notes(name).three_digits(_example(words, grouped))


def read_otherwise(name: str, words: pa.Array) -> Remark | None:
    """What to say of texts that all are numbers or dates of another format."""
    return _as_dates(name, words) or _as_numbers(name, words)


# Numbers.


def _grouped(thousands: str, decimal: str) -> str:
    """Numbers with a sign between thousands (not everywhere, perhaps) and a decimal sign."""
    return rf"^[+-]?(\d{{1,3}}({thousands}\d{{3}})+|\d+)({decimal}\d+)?$"


def _as_numbers(name: str, words: pa.Array) -> Remark | None:
    notes = Notes(name)
    if all_match(words, rf"{_SIGNED}|{_PLAIN}") and _any(words, _SIGNED):
        return notes.with_signs(_example(words, _SIGNED))
    has_comma = _any(words, ",")
    thousands = has_comma and all_match(words, _grouped(",", r"\."))
    decimal = has_comma and all_match(words, r"^[+-]?\d+(,\d+)?$")
    if thousands and decimal:
        either = "--thousands , if it separates thousands, with --decimal , if it is a decimal comma"
        python = '(in Python thousands="," or decimal=",")'
        return notes.other_numbers("numbers with a comma", _example(words, ","), f"{either} {python}")
    if thousands:
        return notes.other_numbers(
            "numbers with a comma between thousands", _example(words, ","), _options(thousands=",")
        )
    if decimal:
        return notes.other_numbers(
            "numbers with a decimal comma", _example(words, ","), _options(decimal=",")
        )
    if all_match(words, _grouped(r"\.", ",")) and (has_comma or _any(words, r"\..*\.")):
        example = _example(words, r"\.\d{3}")
        return notes.other_numbers(
            "numbers with a point between thousands", example, _options(decimal=",", thousands=".")
        )
    for sign in (" ", "\u00a0", "\u202f", "'"):
        for point in (".", ","):
            if _any(words, sign) and all_match(words, _grouped(sign, f"[{point}]")):
                used = _options(thousands=sign, **({"decimal": ","} if point == "," and has_comma else {}))
                return notes.other_numbers(
                    "numbers with a sign between thousands", _example(words, sign), used
                )
    return None


def _options(**given: str) -> str:
    """Options as they are typed in a shell, and in Python."""
    shell = " ".join(f"--{name} {value if value in '.,' else repr(value)}" for name, value in given.items())
    python = ", ".join(f'{name}="{value}"' for name, value in given.items())
    return f"{shell} (in Python {python})"


# Dates.


def _as_dates(name: str, words: pa.Array) -> Remark | None:
    fits = {kind: pattern for kind, pattern in _DATES.items() if _any(words, pattern)}
    if not fits or not all_match(words, "|".join(fits.values())):
        return None
    notes = Notes(name)
    clocks = _any(words, ":"), not all_match(words, ":")
    if len(fits) > 1 or all(clocks):
        examples = [_example(words, pattern) for pattern in fits.values()]
        if len(fits) == 1:
            examples = [_example(words, "^[^:]*$"), _example(words, ":")]
        return notes.mixed_dates(examples)
    (kind,) = fits
    if kind == "iso":
        return None  # a day that there is not, such as 2018-02-31
    clock = " %H:%M:%S" if _any(words, r":\d{2}:") else " %H:%M" if clocks[0] else ""
    formats = ["%Y/%m/%d"] if kind == "year first" else _day_and_month(words, kind)
    if not formats:
        return None
    spelled = [f"{each}{clock}" for each in formats]
    shell = " or ".join(f'"{each}"' if " " in each else each for each in spelled)
    python = " or ".join(f'"{each}"' for each in spelled)
    which = ", whichever it is" if len(spelled) > 1 else ""
    return notes.other_dates(
        pc.min(words).as_py(), f"--date-format {shell}{which} (in Python date_format={python})"
    )


def _day_and_month(words: pa.Array, sign: str) -> list[str]:
    """The formats that all dates fit: day first, or month first, or either; none if there is no such day."""
    parts = pc.extract_regex(words, _PARTS)
    first, second = (pc.max(pc.cast(pc.struct_field(parts, name), pa.int32())).as_py() for name in "ab")
    lengths = pc.unique(pc.utf8_length(pc.struct_field(parts, "y"))).to_pylist()
    if len(lengths) > 1:
        return []
    year = "%Y" if lengths == [4] else "%y"
    formats = []
    if first <= _DAYS and second <= _MONTHS:
        formats.append(f"%d{sign}%m{sign}{year}")
    if first <= _MONTHS and second <= _DAYS and sign != ".":
        formats.append(f"%m{sign}%d{sign}{year}")
    return formats
