"""What a column is, and the kinds that list their values: categorical, ordered, boolean.

A column splits its values into codes 0..size-1: values (or bins, in `bins.py`) first, then `other` if
declared, then missing if declared. Everything here is declared by a person or drafted from public data; a
private table never decides it.

>>> sex = Categorical(name="sex", values=("F", "M"), other=True, out_of_domain="other", missing=True)
>>> sex.size, sex.labels
(4, ('F', 'M', 'other', 'missing'))
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from openprior.errors import SchemaError
from openprior.given import several, shown, text_of

__all__ = [
    "BLANKS",
    "INFINITE_TOKENS",
    "INT64",
    "MISSING_TOKENS",
    "Boolean",
    "Categorical",
    "Column",
    "Label",
    "Labelled",
    "Ordered",
    "arrow_type",
    "canonical_number",
    "free_label",
    "is_string",
    "numbers_among",
]

Label = str | int | float | bool

# Text that means "missing" unless the column says otherwise.
MISSING_TOKENS = ("", "NA", "N/A", "nan", "NaN", "null", "NULL", "None", "?")
INFINITE_TOKENS = ("inf", "-inf")
BLANKS = " \t\n\r\v\f"  # what Arrow's ascii_trim_whitespace removes
INT64 = range(-(2**63), 2**63)


def arrow_type(dtype: str) -> pa.DataType:
    """The Arrow type of a name such as `int64` or `timestamp[us, tz=UTC]`; ValueError if there is none."""
    zoned = re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]", dtype)
    return pa.timestamp(zoned[1], zoned[2]) if zoned else pa.type_for_alias(dtype)


def is_string(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of the three text layouts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def free_label(word: str, taken: tuple[str, ...]) -> str:
    """The word, in as many parentheses as it needs to differ from the labels that are taken."""
    while word in taken:
        word = f"({word})"
    return word


def canonical_number(label: str) -> int | float | None:
    """The number that is written exactly so: "7" and "7.0" are 7, but "07" is only text."""
    try:
        number = float(label)
        if label == str(int(number)):
            return int(number)
    except (ValueError, OverflowError):
        return None
    if label != repr(number) or not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def numbers_among(tokens: Iterable[str]) -> tuple[int | float, ...]:
    """The numbers among texts that mean missing: "999" is 999, and "inf" infinity, which is the label of no value."""
    found = (float(token) if token in INFINITE_TOKENS else canonical_number(token) for token in tokens)
    return tuple(number for number in found if number is not None)


@dataclass(frozen=True, kw_only=True)
class Column:
    """What every kind has: a name, an Arrow type to decode to, and what happens to odd values."""

    kind: ClassVar[str] = ""
    name: str
    dtype: str = "string"
    """The Arrow type that decoding gives back."""
    missing: bool = False
    """Missing is a value of its own, with its own code."""
    missing_values: tuple[str, ...] = MISSING_TOKENS
    """Text that means missing; "999" is also the number."""
    other: bool = False
    """There is a code for values outside the domain."""
    out_of_domain: Literal["other", "clip", "open", "error"] = "error"
    """What a value outside the domain becomes."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SchemaError(f"a column's name is {shown(self.name)}, which is not text; use a text")
        for flag in ("missing", "other"):
            if not isinstance(getattr(self, flag), bool):
                raise self.refuse(f"{flag} = {shown(getattr(self, flag))}", "use true or false")
        fate = self.out_of_domain
        if not isinstance(fate, str) or fate not in ("other", "clip", "open", "error"):
            said = f'"{fate}"' if isinstance(fate, str) else shown(fate)
            raise self.refuse(f"out_of_domain = {said}", 'use "other", "clip", "open" or "error"')
        if self.out_of_domain == "other" and not self.other:
            raise self.refuse('out_of_domain = "other" but other = false', "set other = true")
        self._list("missing_values")
        for token in self.missing_values:
            if not isinstance(token, str):
                raise self.refuse(f"{shown(token)} among its missing_values", "list texts only")
        try:
            arrow_type(text_of("dtype", self.dtype, error=SchemaError))
        except (ValueError, TypeError, AttributeError, pa.ArrowException, SchemaError):
            raise self.refuse(
                f"dtype = {shown(self.dtype)}", "use an Arrow type such as int64, double, string"
            ) from None

    def _list(self, name: str) -> None:
        """Make what a field lists a tuple."""
        listed = several(f"{name} of column '{self.name}'", getattr(self, name), error=SchemaError)
        object.__setattr__(self, name, listed)

    def refuse(self, what: str, remedy: str) -> SchemaError:
        """The error that this column cannot be."""
        return SchemaError(f"column '{self.name}' has {what}; {remedy}")

    @property
    def reads(self) -> str:
        """The name of the table's column that it is read from."""
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that decoding gives back."""
        return arrow_type(self.dtype)

    @property
    def missing_numbers(self) -> tuple[int | float, ...]:
        """The numbers among the texts that mean missing."""
        return numbers_among(self.missing_values)

    @property
    def is_clipped(self) -> bool:
        """Whether what is outside counts as the nearest inside; with "open" the labels at the ends say so."""
        return self.out_of_domain in ("clip", "open")

    @property
    def value_labels(self) -> tuple[str, ...]:
        """One readable label per value or bin."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """How many codes are values or bins."""
        raise NotImplementedError

    @property
    def other_code(self) -> int | None:
        """The code of values outside the domain, if there is one."""
        return self.count if self.other else None

    @property
    def missing_code(self) -> int | None:
        """The code of missing values, if there is one."""
        return self.count + self.other if self.missing else None

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.count + self.other + self.missing

    @property
    def labels(self) -> tuple[str, ...]:
        """One readable label per code, all different."""
        labels = self.value_labels
        if self.other:
            labels += (free_label("other", labels),)
        if self.missing:
            labels += (free_label("missing", labels),)
        return labels


@dataclass(frozen=True, kw_only=True)
class Labelled(Column):
    """A column whose values are listed; all labels have one type (integers and reals may mix)."""

    values: tuple[Label, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._list("values")
        if self.out_of_domain == "open":
            raise self.refuse('out_of_domain = "open" without numbers or dates', 'use "other" or "error"')
        if not self.values and not self.size:
            raise self.refuse("no values", "list at least one, or set missing = true or other = true")
        types = {float if type(v) is int else type(v) for v in self.values}
        if len(types) > 1 or not types <= {str, float, bool}:
            raise self.refuse("values of several types", "use only texts, only numbers or only true/false")
        seen: set[Label] = set()
        absent = self.missing_numbers
        for value in self.values:
            self._check(value)
            if value in absent and not isinstance(value, str | bool):
                raise self._also_missing(value)
            if value in seen:
                raise self.refuse(f"the value {value!r} twice", "list each value once")
            seen.add(value)
        if types and not self._fits(next(iter(types)), self.arrow):
            raise self.refuse(
                f"dtype {self.dtype}, which cannot hold its values", "use their own type, or string"
            )
        try:
            pa.array(self.values, None if is_string(self.arrow) else self.arrow)
        except (pa.ArrowException, ValueError, OverflowError):
            raise self.refuse(f"a value that {self.dtype} cannot hold", "use a wider dtype") from None

    def _check(self, value: Label) -> None:
        if isinstance(value, str):
            if value != value.strip(BLANKS):
                raise self.refuse(
                    f"the value {value!r} with blanks around it", "remove them; data is stripped too"
                )
            if value in self.missing_values:
                raise self._also_missing(value)
        elif isinstance(value, int) and value not in INT64:
            raise self.refuse(f"the value {value}, beyond 64 bits", "write it as text")
        elif isinstance(value, float) and not math.isfinite(value):
            raise self.refuse(f"the value {value}", "list finite numbers; NaN counts as missing")

    def _also_missing(self, value: Label) -> SchemaError:
        return self.refuse(
            f"the value {value!r}, which also means missing", "remove it from values or from missing_values"
        )

    def _fits(self, label: type, arrow: pa.DataType) -> bool:
        if is_string(arrow):
            return True
        if label is bool:
            return bool(pa.types.is_boolean(arrow))
        if label is str:
            return False
        whole = all(isinstance(v, int) or float(v).is_integer() for v in self.values)
        return bool(pa.types.is_floating(arrow) or (pa.types.is_integer(arrow) and whole))

    @property
    def is_numeric(self) -> bool:
        """Whether the labels are numbers."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values) and bool(
            self.values
        )

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def value_labels(self) -> tuple[str, ...]:
        return tuple(str(v).lower() if isinstance(v, bool) else str(v) for v in self.values)


@dataclass(frozen=True, kw_only=True)
class Categorical(Labelled):
    """Values without an order."""

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out_of_domain == "clip":
            raise self.refuse(
                'out_of_domain = "clip" without an order', 'use "other" or "error", or kind = "ordered"'
            )


@dataclass(frozen=True, kw_only=True)
class Ordered(Labelled):
    """Values in the order listed; numbers outside the list may be clipped to the nearest one."""

    kind: ClassVar[str] = "ordered"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out_of_domain == "clip" and not self.is_numeric:
            raise self.refuse('out_of_domain = "clip" but no numbers to be near to', 'use "other" or "error"')


@dataclass(frozen=True, kw_only=True)
class Boolean(Labelled):
    """Two values, the false one first; texts such as no/yes keep their spelling, and case does not matter."""

    kind: ClassVar[str] = "boolean"
    dtype: str = "bool"
    values: tuple[Label, ...] = (False, True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({label.lower() for label in self.value_labels}) != 2 or self.is_numeric:
            raise self.refuse(
                f"values = {list(self.values)!r}", "use [false, true] or two texts, the false one first"
            )
        if isinstance(self.values[0], bool) and self.values != (False, True):
            raise self.refuse("values = [true, false]", "put false first")
        if self.out_of_domain == "clip":
            raise self.refuse('out_of_domain = "clip" without an order', 'use "other" or "error"')
