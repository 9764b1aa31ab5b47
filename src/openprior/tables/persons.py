"""At most Δ rows of each person: a filter over a stream of batches that remembers whom it has seen.

The limit is a privacy primitive: with it one person changes at most Δ rows, which is what every sensitivity
assumes. So identities are compared exactly. A hash that confused two persons would let one person's rows
push out another's, and change up to 2Δ. `person_names` gives the one spelling that a person has, for whoever has
to bring a person's rows together first.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import EncodeError
from openprior.schema.columns import MISSING_TOKENS
from openprior.tables.convert import plain, text

__all__ = ["RowLimit", "person_names"]

_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
_LONG = 10**18


class RowLimit:
    """Called with the batches of one pass, in order; gives each back with the rows over the limit removed."""

    def __init__(self, person_id: str, rows: int) -> None:
        self._person_id, self._rows = person_id, rows
        self._integers = _SeenIntegers()
        self._texts: dict[str, int] = {}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.num_rows:
            return batch
        owner, seen = self._owners(plain(batch.column(self._person_id)))
        # A row's rank among its owner's rows here: its place in a stable sort minus the owner's start.
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=len(seen))
        rank = np.empty(len(owner), np.int64)
        rank[order] = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        keep = rank + seen[owner] < self._rows
        return batch if keep.all() else batch.filter(pa.array(keep))

    def _owners(self, ids: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Each row's owner as a number within the batch, and how many rows each owner had before."""
        if _are_integers(ids):
            _refuse_missing(ids.null_count > 0, self._person_id)
            keys, owner = np.unique(ids.to_numpy().astype(np.int64), return_inverse=True)
            rows, seen = np.bincount(owner), np.zeros(len(keys), np.int64)
            # Whole numbers of 19 digits are texts wherever they come from, as they may not fit 64 bits elsewhere.
            short = (keys > -_LONG) & (keys < _LONG)
            seen[short] = self._integers.add(keys[short], rows[short])
            seen[~short] = self._add_texts([str(k) for k in keys[~short]], rows[~short])
            return owner, seen
        names, owner = _distinct(ids, self._person_id)
        rows = np.bincount(owner, minlength=len(names))
        used = rows > 0
        whole = pc.match_substring_regex(names, _WHOLE).to_numpy(zero_copy_only=False) & used
        seen = np.zeros(len(names), np.int64)
        integers = pc.cast(names.filter(pa.array(whole)), pa.int64()).to_numpy()
        seen[whole] = self._integers.add(integers, rows[whole])
        rest = used & ~whole
        seen[rest] = self._add_texts(names.filter(pa.array(rest)).to_pylist(), rows[rest])
        return owner, seen

    def _add_texts(self, words: list[str], rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        seen = np.array([self._texts.get(word, 0) for word in words], dtype=np.int64)
        self._texts.update(zip(words, (seen + rows).tolist(), strict=True))
        return seen


def person_names(ids: pa.Array, person_id: str) -> pa.Array:
    """Each row's owner as text: equal texts are one person, exactly as `RowLimit` has it. Refuses missing ids."""
    ids = plain(ids)
    if _are_integers(ids):
        _refuse_missing(ids.null_count > 0, person_id)
        return pc.cast(ids, pa.string())
    names, owner = _distinct(ids, person_id)
    return names.take(pa.array(owner))


def _are_integers(ids: pa.Array) -> bool:
    return bool(pa.types.is_integer(ids.type)) and ids.type != pa.uint64()


def _distinct(ids: pa.Array, person_id: str) -> tuple[pa.Array, npt.NDArray[Any]]:
    """The different persons of a batch as text, and each row's place among them."""
    coded = ids if pa.types.is_dictionary(ids.type) else text(ids).dictionary_encode()
    _refuse_missing(coded.null_count > 0 or ids.null_count > 0, person_id)
    # Two entries of a dictionary may be one person ("7" and " 7"): make them distinct once more.
    words = pc.replace_substring_regex(text(coded.dictionary), r"^(-?\d+)\.0$", r"\1").dictionary_encode()
    _refuse_missing(words.null_count > 0, person_id)
    owner = words.indices.to_numpy()[coded.indices.to_numpy()]
    names = words.dictionary
    blank = pc.is_in(names, pa.array([*MISSING_TOKENS], names.type)).to_numpy(zero_copy_only=False)
    _refuse_missing(bool((blank & (np.bincount(owner, minlength=len(names)) > 0)).any()), person_id)
    return names, owner


def _refuse_missing(missing: bool, person_id: str) -> None:
    if missing:
        raise EncodeError(
            f"person id '{person_id}' is missing in some rows, so that their owners' rows "
            "cannot be limited; give every row an id or remove those rows"
        )


class _SeenIntegers:
    """Row counts by integer id: an open-addressing hash table in NumPy, probed for a whole batch at once."""

    def __init__(self) -> None:
        self._size = 0
        self._empty(12)

    def _empty(self, bits: int) -> None:
        self._bits = bits
        self._keys = np.zeros(1 << bits, np.int64)
        self._rows = np.zeros(1 << bits, np.int64)
        self._taken = np.zeros(1 << bits, np.bool_)

    def add(self, keys: npt.NDArray[np.int64], rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """How many rows these different ids had before; then these rows are added."""
        needed = 2 * (self._size + len(keys))
        if needed > len(self._keys):
            self._grow(needed.bit_length())
        slots = self._slots(keys)
        before: npt.NDArray[np.int64] = self._rows[slots]
        self._size += int(np.count_nonzero(before == 0))
        self._rows[slots] += rows
        return before

    def _slots(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        mask = len(self._keys) - 1
        spread = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        slots = (spread >> np.uint64(64 - self._bits)).astype(np.int64)
        pending = np.arange(len(keys))
        while pending.size:
            at = slots[pending]
            free = ~self._taken[at]
            # Several ids may claim one free slot: the last one gets it, the others see that and move on.
            self._keys[at[free]] = keys[pending[free]]
            self._taken[at[free]] = True
            pending = pending[self._keys[at] != keys[pending]]
            slots[pending] = (slots[pending] + 1) & mask
        return slots

    def _grow(self, bits: int) -> None:
        keys, rows = self._keys[self._taken], self._rows[self._taken]
        self._empty(bits)
        self._rows[self._slots(keys)] = rows
