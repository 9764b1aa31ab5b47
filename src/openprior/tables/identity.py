"""Whose row is it: a person is the same person however the id is stored.

Every id has one spelling. Numbers that are equal are one person: 7, 7.0, −0.0 and 0, the decimal 7.00, and the texts
that write them so ("7", "7.0", "7e+0"); "007" and "+7" are other texts, and other persons. Text is stripped of
blanks; bytes are their text, 16 bytes of fixed size a UUID, and what is not UTF-8 is spelled in hexadecimal digits.
Ids are compared exactly: a hash that confused two persons would let one person's rows push out another's.

Refused are rows without an id, because their owner's rows could not be limited, and floating-point numbers from 2⁵³ on
(2²⁴ of 32 bits, 2¹¹ of 16): there two ids may have become one, or one person may have another id in a file of integers.
"""

import contextlib
import hashlib
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import EncodeError
from openprior.schema.columns import MISSING_TOKENS
from openprior.tables.convert import UNREADABLE, is_text, text
from openprior.tables.unwrap import members, plain

__all__ = ["LONG", "Owners", "owners"]

LONG = 10**18
"""Whole numbers below it are kept as integers, from there on as text, as they may not fit 64 bits elsewhere."""

_NUMERIC = r"^-?\d"
_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
_POINT = r"^(-?(?:0|[1-9]\d*))\.0+$"
_OTHER_SPELLING = r"^(-0|-?(0|[1-9]\d*)\.\d+|-?\d(\.\d+)?[eE][+-]\d{1,3})$"


class Owners:
    """The different owners of some rows, whole numbers first, and each row's place among them."""

    def __init__(self, integers: npt.NDArray[np.int64], texts: list[str], owner: npt.NDArray[Any]) -> None:
        self.integers, self.texts, self.owner = integers, texts, owner

    def __len__(self) -> int:
        return len(self.integers) + len(self.texts)

    def names(self) -> pa.Array:
        """Each row's owner as text: equal texts are one person."""
        distinct = pa.array([*map(str, self.integers.tolist()), *self.texts], pa.string())
        return distinct.take(pa.array(self.owner))

    def hashes(self, which: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.uint64]:
        """One number per owner (or each of some) that looks random and is the same everywhere; not for telling owners
        apart."""
        integers, texts = self.integers, self.texts
        if which is not None:
            integers, chosen = integers[which[: len(integers)]], which[len(integers) :]
            texts = [text for text, is_chosen in zip(texts, chosen, strict=True) if is_chosen]
        words = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest()) for t in texts]
        return np.concatenate([integers.astype(np.uint64), np.array(words, np.uint64)])


def owners(ids: Any, person_id: str, gaps: Sequence[str] = ()) -> Owners:
    """Who owns the rows with these ids; `person_id` is the column's name, for what is refused. An id among `gaps`, the
    texts that mean missing in every column, is none."""
    # Refused outside the handler, because Arrow's words may quote an id.
    with contextlib.suppress(pa.ArrowException):
        return _present(_owners(ids, person_id), gaps, person_id)
    raise EncodeError(
        f"person id '{person_id}' is stored in a way that cannot be read ({ids.type}); store ids as integers or text"
    )


def _present(found: Owners, gaps: Sequence[str], person_id: str) -> Owners:
    words = [gap for gap in gaps if gap not in MISSING_TOKENS]
    if words:
        nobody = _from_words(pa.array(words, pa.string()), person_id)
        if np.isin(found.integers, nobody.integers).any() or set(found.texts) & set(nobody.texts):
            raise _missing(person_id)
    return found


def _owners(ids: Any, person_id: str) -> Owners:
    ids = plain(ids)
    kind = ids.type
    if pa.types.is_union(kind):
        return _joined([(rows, _owners(part, person_id)) for rows, part in members(ids)], len(ids))
    if ids.null_count or (pa.types.is_null(kind) and len(ids)):
        raise _missing(person_id)
    if pa.types.is_dictionary(kind):
        used, places = np.unique(ids.indices.to_numpy(), return_inverse=True)
        distinct = _owners(plain(ids.dictionary).take(pa.array(used)), person_id)
        return Owners(distinct.integers, distinct.texts, distinct.owner[places])
    if pa.types.is_boolean(kind):
        ids = pc.cast(ids, pa.uint8())
    elif pa.types.is_floating(kind):
        return _from_floats(ids.to_numpy(zero_copy_only=False), person_id)
    elif pa.types.is_nested(kind):
        raise EncodeError(f"person id '{person_id}' holds several values per row; give one id per row")
    elif not pa.types.is_integer(kind):
        return _from_words(_words(ids), person_id)
    return _from_integers(ids.to_numpy(zero_copy_only=False))


def _from_integers(values: npt.NDArray[Any]) -> Owners:
    distinct, owner = np.unique(values, return_inverse=True)
    short = distinct < LONG
    if distinct.dtype.kind == "i":
        short &= distinct > -LONG
    return _sorted(distinct[short].astype(np.int64), [str(k) for k in distinct[~short]], short, owner)


def _from_floats(values: npt.NDArray[Any], person_id: str) -> Owners:
    distinct, owner = np.unique(values, return_inverse=True)  # -0.0 and 0.0 are one
    if np.isnan(distinct).any():
        raise _missing(person_id)
    bits = np.finfo(distinct.dtype).nmant + 1
    if (np.abs(distinct.astype(np.float64)) >= 2.0**bits).any():
        raise EncodeError(
            f"person id '{person_id}' has floating-point numbers of 2^{bits} and more, where different ids become one; "
            "store ids as integers or text"
        )
    whole = distinct == np.floor(distinct)
    # The shortest digits that give back the number in its own precision: 0.1, whether of 32 bits or 64.
    texts = [np.format_float_positional(value, trim="-") for value in distinct[~whole]]
    return _sorted(distinct[whole].astype(np.int64), texts, whole, owner)


def _words(ids: pa.Array) -> pa.Array:
    """Ids as stripped text, bytes that are none in hexadecimal digits."""
    kind = ids.type
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        spelled = [
            f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
            for h in (value.as_py().hex() for value in ids)
        ]
        return pa.array(spelled, pa.string())
    try:
        # By way of bytes, which checks that it is UTF-8.
        return text(ids) if not is_text(kind) else pc.cast(pc.cast(ids, pa.large_binary()), pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([_spelled(value) for value in pc.cast(ids, pa.large_binary())], pa.large_string())


def _spelled(value: pa.Scalar) -> str:
    raw: bytes = value.as_py()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"


def _from_words(words: pa.Array, person_id: str) -> Owners:
    coded = pc.ascii_trim_whitespace(words).dictionary_encode()
    names, owner = coded.dictionary, coded.indices.to_numpy()
    if pc.any(pc.is_in(names, pa.array([*MISSING_TOKENS, UNREADABLE], names.type))).as_py():
        raise _missing(person_id)
    if not pc.any(pc.match_substring_regex(names, _NUMERIC)).as_py():
        return Owners(np.zeros(0, np.int64), names.to_pylist(), owner)
    # Two texts may be one person ("7" and "7.0"): make them distinct once more.
    again = _one_spelling(names).dictionary_encode()
    names, owner = again.dictionary, again.indices.to_numpy()[owner]
    whole = pc.match_substring_regex(names, _WHOLE)
    integers = pc.cast(names.filter(whole), pa.int64()).to_numpy()
    rest = names.filter(pc.invert(whole)).to_pylist()
    return _sorted(integers, rest, whole.to_numpy(zero_copy_only=False), owner)


def _one_spelling(names: pa.Array) -> pa.Array:
    names = pc.replace_substring_regex(names, _POINT, r"\1")
    odd = pc.match_substring_regex(names, _OTHER_SPELLING)
    if not pc.any(odd).as_py():
        return names
    spelled = [_plain_digits(name) for name in names.filter(odd).to_pylist()]
    return pc.replace_with_mask(names, odd, pa.array(spelled, names.type))


def _plain_digits(name: str) -> str:
    """A number in plain digits, without zeros at its end.

    >>> [_plain_digits(name) for name in ("-0", "7.50", "1e+3", "-2.5E-1")]
    ['0', '7.5', '1000', '-0.25']
    """
    digits = format(Decimal(name), "f")
    digits = re.sub(r"\.?0+$", "", digits) if "." in digits else digits
    return "0" if digits in ("-0", "") else digits


def _sorted(
    integers: npt.NDArray[np.int64], texts: list[str], is_integer: npt.NDArray[Any], owner: npt.NDArray[Any]
) -> Owners:
    """Owners with the integers first; `is_integer` says it of the owners in their former order."""
    place = np.where(is_integer, np.cumsum(is_integer) - 1, len(integers) + np.cumsum(~is_integer) - 1)
    return Owners(integers, texts, place[owner])


def _joined(parts: list[tuple[npt.NDArray[np.intp], Owners]], rows: int) -> Owners:
    """The owners of several members of a union, each person once."""
    texts: dict[str, int] = {}
    numbers = [np.zeros(0, np.int64), *(part.integers for _, part in parts)]
    integers, whose = np.unique(np.concatenate(numbers), return_inverse=True)
    for _, part in parts:
        for name in part.texts:
            texts.setdefault(name, len(integers) + len(texts))
    owner = np.zeros(rows, np.int64)
    start = 0
    for places, part in parts:
        end = start + len(part.integers)
        number = np.concatenate([whose[start:end], np.array([texts[t] for t in part.texts], np.int64)])
        owner[places] = number[part.owner]
        start = end
    return Owners(integers, list(texts), owner)


def _missing(person_id: str) -> EncodeError:
    return EncodeError(
        f"person id '{person_id}' is missing in some rows, so that their owners' rows "
        "cannot be limited; give every row an id or remove those rows"
    )
