"""At most Δ rows of each person, and the same rows wherever they lie and however often they are read.

The limit is a privacy primitive: which rows of a person are kept depends on that person's rows only, and there are at
most Δ of them, so that one person changes at most Δ rows, which is what every sensitivity assumes. A person who has
more keeps the rows with the smallest *mix*, a hash of the person and the row's codes: it looks random, but is the same
for every order of rows and files, on this machine and on a cluster. Rows with the same mix are equal, so it does not
matter which of them stay.

One pass over the ids finds who has too many rows; if anybody has, one more over all columns finds which of theirs stay.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.errors import SourceError
from openprior.tables.identity import Owners, owners
from openprior.tables.scramble import scrambled

__all__ = ["RowLimit", "mixes"]

Codes = tuple[npt.NDArray[Any], ...]
Words = npt.NDArray[np.uint64]
Batches = Callable[[], Iterable[pa.RecordBatch]]


def mixes(people: Words, codes: Sequence[npt.NDArray[Any]]) -> Words:
    """One number per row, of its owner's hash and its codes."""
    mix = scrambled(people)
    for column in codes:
        mix = scrambled(mix ^ column.astype(np.uint64))
    return mix


class RowLimit:
    """Who has more than Δ rows in a table, and which of theirs are kept."""

    def __init__(
        self,
        person_id: str,
        rows: int,
        batches: Batches,
        ids: Batches,
        encode: Callable[[pa.RecordBatch], Codes],
        gaps: Sequence[str] = (),
    ) -> None:
        """Reads `ids`, batches with the person id alone, and then, if need be, the batches themselves. `encode` gives
        the codes by which rows differ; an id among `gaps` is none."""
        self._gaps = gaps
        self._person_id, self._rows, self._encode = person_id, rows, encode
        self._people = _People()
        self._held = np.zeros(0, np.int64)
        for batch in ids():
            if batch.num_rows:
                self._count(owners(batch.column(person_id), person_id, gaps))
        self._crowded = self._held > rows
        self._hashes = np.zeros(len(self._held), np.uint64)  # of those who have too many
        self._bounds = self._find_bounds(batches) if self._crowded.any() else None

    def _count(self, found: Owners) -> None:
        people = self._people.add(found)
        if len(self._people) > len(self._held):
            room = np.zeros(2 * len(self._people), np.int64)
            room[: len(self._held)] = self._held
            self._held = room
        self._held[people] += np.bincount(found.owner, minlength=len(found))

    def _find_bounds(self, batches: Batches) -> tuple[Words, npt.NDArray[np.int64]]:
        """Of everyone who has too many rows: the largest mix that stays, and how many rows with just that mix do."""
        lowest = _Lowest(self._rows)
        is_hashed = ~self._crowded
        for batch in batches():
            if batch.num_rows:
                found = owners(batch.column(self._person_id), self._person_id, self._gaps)
                people = self._find(found)
                new = ~is_hashed[people]
                self._hashes[people[new]] = found.hashes(new)
                is_hashed[people] = True
                person = people[found.owner]
                crowded = self._crowded[person]
                if crowded.any():
                    mix = mixes(self._hashes[person], self._encode(batch))
                    lowest.add(person[crowded], mix[crowded])
        person, mix = lowest.sorted()
        last = np.zeros(len(self._held), np.uint64)
        last[person] = mix  # sorted by mix, so that the largest is written last
        at_last = np.bincount(person[mix == last[person]], minlength=len(self._held))
        return last, at_last

    def _find(self, found: Owners) -> npt.NDArray[np.int64]:
        people = self._people.find(found)
        if (people < 0).any():
            raise _changed()
        return people

    def one_pass(self) -> Callable[[pa.RecordBatch, Codes], npt.NDArray[np.bool_] | None]:
        """A fresh filter for one pass, which says which rows of a batch stay (None: all); threads may share it. What
        stays is counted, because a query that is run anew may give a person other rows than when they were chosen."""
        left = None if self._bounds is None else self._bounds[1].copy()
        kept, lock = np.zeros(len(self._held), np.int64), threading.Lock()

        def keep(batch: pa.RecordBatch, codes: Codes) -> npt.NDArray[np.bool_] | None:
            found = owners(batch.column(self._person_id), self._person_id, self._gaps)
            people = self._find(found)
            stay = None if left is None else self._chosen(people[found.owner], codes, left, lock)
            mine = found.owner if stay is None else found.owner[stay]
            with lock:
                kept[people] += np.bincount(mine, minlength=len(found))
                is_more = (kept[people] > self._rows).any()
            if is_more:
                raise _changed()
            return stay

        return keep

    def _chosen(
        self, person: npt.NDArray[Any], codes: Codes, left: npt.NDArray[Any], lock: Any
    ) -> npt.NDArray[np.bool_] | None:
        """Which rows of a batch stay; `left` is how many more with the largest mix."""
        crowded = self._crowded[person]
        if self._bounds is None or not crowded.any():
            return None
        mix, last = mixes(self._hashes[person], codes), self._bounds[0][person]
        stay: npt.NDArray[np.bool_] = ~crowded | (mix < last)
        equal = np.flatnonzero(crowded & (mix == last))
        with lock:
            rank = _ranks(person[equal])
            stay[equal] = rank < left[person[equal]]
            np.subtract.at(left, person[equal[stay[equal]]], 1)
        return stay


def _changed() -> SourceError:
    return SourceError("the table has other rows than when it was first read; keep it still meanwhile")


def _ranks(groups: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Each element's number among those of its group: its place in a stable sort minus the group's start."""
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    new = np.ones(len(groups), np.bool_)
    new[1:] = in_order[1:] != in_order[:-1]
    starts = np.flatnonzero(new)
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    return rank


class _Lowest:
    """The smallest few mixes of every person, of a stream of them."""

    def __init__(self, few: int) -> None:
        self._few = few
        self._person, self._mix = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        self._waiting: list[tuple[npt.NDArray[np.int64], Words]] = []
        self._rows = 0

    def add(self, person: npt.NDArray[np.int64], mix: Words) -> None:
        self._waiting.append((person, mix))
        self._rows += len(person)
        if self._rows > max(len(self._person), 1 << 16):
            self._merge()

    def sorted(self) -> tuple[npt.NDArray[np.int64], Words]:
        """By person, and then by mix."""
        self._merge()
        return self._person, self._mix

    def _merge(self) -> None:
        person = np.concatenate([self._person, *(p for p, _ in self._waiting)])
        mix = np.concatenate([self._mix, *(m for _, m in self._waiting)])
        order = np.lexsort((mix, person))
        person, mix = person[order], mix[order]
        stay = _ranks(person) < self._few
        self._person, self._mix = person[stay], mix[stay]
        self._waiting, self._rows = [], 0


class _People:
    """A number for every person, in the order in which they come."""

    def __init__(self) -> None:
        self._integers = _Integers()
        self._texts: dict[str, int] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, found: Owners) -> npt.NDArray[np.int64]:
        """The numbers of these different owners; those who are new get one."""
        whole = self._integers.numbers(found.integers, self._size)
        self._size = max(self._size, int(whole.max(initial=-1)) + 1)
        others = np.zeros(len(found.texts), np.int64)
        for i, name in enumerate(found.texts):
            others[i] = self._texts.setdefault(name, self._size)
            self._size = max(self._size, int(others[i]) + 1)
        return np.concatenate([whole, others])

    def find(self, found: Owners) -> npt.NDArray[np.int64]:
        """The numbers of these owners, −1 where there is none; threads may share it."""
        whole = self._integers.numbers(found.integers, None)
        others = np.array([self._texts.get(name, -1) for name in found.texts], np.int64)
        return np.concatenate([whole, others])


class _Integers:
    """Numbers by integer id: an open-addressing hash table in NumPy, probed for a whole batch at once."""

    def __init__(self) -> None:
        self._size = 0
        self._empty(12)

    def _empty(self, bits: int) -> None:
        self._bits = bits
        self._keys = np.zeros(1 << bits, np.int64)
        self._number = np.full(1 << bits, -1, np.int64)
        self._taken = np.zeros(1 << bits, np.bool_)

    def numbers(self, keys: npt.NDArray[np.int64], next_number: int | None) -> npt.NDArray[np.int64]:
        """The numbers of these different ids; new ones count on from `next_number`, or have −1 if that is None."""
        if next_number is None:
            known: npt.NDArray[np.int64] = self._number[self._slots(keys, take=False)]
            return known
        needed = 2 * (self._size + len(keys))
        if needed > len(self._keys):
            self._grow(needed.bit_length())
        slots = self._slots(keys, take=True)
        new = self._number[slots] < 0
        self._number[slots[new]] = np.arange(next_number, next_number + np.count_nonzero(new))
        self._size += int(np.count_nonzero(new))
        numbers: npt.NDArray[np.int64] = self._number[slots]
        return numbers

    def _slots(self, keys: npt.NDArray[np.int64], *, take: bool) -> npt.NDArray[Any]:
        """Where the ids are; those that are not there take a free slot, or are given one to look at."""
        mask = len(self._keys) - 1
        # Scrambled, or ids at some equal distances (Fibonacci numbers, after one multiplication) would fall together.
        spread = scrambled(keys.astype(np.uint64))
        slots = (spread >> np.uint64(64 - self._bits)).astype(np.int64)
        pending = np.arange(len(keys))
        while pending.size:
            at = slots[pending]
            free = ~self._taken[at]
            if take:
                # Several ids may claim one free slot: the last one gets it, the others see that and move on.
                self._keys[at[free]] = keys[pending[free]]
                self._taken[at[free]] = True
                settled = self._keys[at] == keys[pending]
            else:
                settled = free | (self._keys[at] == keys[pending])
            pending = pending[~settled]
            slots[pending] = (slots[pending] + 1) & mask
        return slots

    def _grow(self, bits: int) -> None:
        keys, number = self._keys[self._taken], self._number[self._taken]
        self._empty(bits)
        self._number[self._slots(keys, take=True)] = number
