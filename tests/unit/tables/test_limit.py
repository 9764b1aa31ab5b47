"""At most Δ rows of each person: the same rows in every order, in every type of id, however often they are read."""

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openprior.errors import EncodeError, SourceError
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.tables.encode import Encoder, encode_table
from openprior.tables.identity import owners
from openprior.tables.source import BATCH_ROWS, open_source

PERSONS: dict[str, Callable[[np.ndarray], pa.Array]] = {
    "integers": pa.array,
    "texts": lambda ids: pa.array([str(i) for i in ids]),
    "names": lambda ids: pa.array([f"p{i}" for i in ids]),
    "coded": lambda ids: pa.array([f"{i}.0" for i in ids]).dictionary_encode(),
    "floats": lambda ids: pa.array(ids, pa.float64()),
    "unsigned": lambda ids: pa.array(ids, pa.uint64()),
    "decimals": lambda ids: pa.array([Decimal(int(i)) for i in ids], pa.decimal128(12, 2)),
    "bytes": lambda ids: pa.array([str(i).encode() for i in ids]),
}


def _schema(rows: int) -> Schema:
    return Schema((Integer(name="a", low=0, high=9),), person_id="pid", max_rows_per_person=rows)


def _kept(table: object, rows: int) -> Counter[int]:
    return Counter(encode_table(table, _schema(rows), private=True).column("a").tolist())


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_same_rows_stay_in_every_type_and_order(limit: int) -> None:
    rng = np.random.default_rng(limit)
    ids, values = rng.geometric(0.01, size=2_000), rng.integers(10, size=2_000)
    order = rng.permutation(2_000)
    kept = _kept(pa.table({"pid": ids, "a": values}), limit)
    for kind, stored in PERSONS.items():
        for some in (np.arange(2_000), order):
            table = pa.table({"pid": stored(ids[some]), "a": values[some]})
            pieces = pa.Table.from_batches(table.to_batches(max_chunksize=777))
            assert kind == "names" or _kept(pieces, limit) == kept
    rows = Counter(ids.tolist())
    assert sum(kept.values()) == sum(min(count, limit) for count in rows.values())


@pytest.mark.parametrize("limit", [1, 3])
def test_a_person_moves_at_most_so_many_rows(limit: int) -> None:
    rng = np.random.default_rng(7)
    ids, values = rng.integers(12, size=200), rng.integers(10, size=200)
    before = _kept(pa.table({"pid": ids, "a": values}), limit)
    for person in range(12):
        others = ids != person
        new = rng.integers(10, size=5)
        table = pa.table({"pid": [*ids[others], *[person] * 5], "a": [*values[others], *new]})
        after = _kept(table, limit)
        assert (before - after).total() <= limit and (after - before).total() <= limit


def test_who_stays_is_chosen_at_random_by_person() -> None:
    """Not by the codes alone: that would favour some codes over others in everybody."""
    ids = np.repeat(np.arange(20_000), 2)
    kept = _kept(pa.table({"pid": ids, "a": np.tile([3, 8], 20_000)}), 1)
    assert abs(kept[3] - 10_000) < 400  # nearly six standard deviations


def test_files_that_disagree_about_the_id(tmp_path: Path) -> None:
    """One person in files of integers, doubles, decimals and texts, whatever the files are called."""
    kinds = [
        pa.array([7, 8]),
        pa.array([7.0, -0.0]),
        pa.array(["7", "0"]),
        pa.array([Decimal("7.00"), Decimal(0)]),
    ]
    for turn in range(4):
        folder = tmp_path / str(turn)
        folder.mkdir()
        for number, ids in enumerate(kinds[turn:] + kinds[:turn]):
            pq.write_table(pa.table({"pid": ids, "a": pa.array([1, 1])}), folder / f"{number}.parquet")
        assert _kept(folder, 1) == {1: 3}  # 7, 8 and 0


def test_one_person_in_a_frame_of_objects() -> None:
    ids = pd.Series(
        [7, "7", 7.0, Decimal("7"), b"7", " 7 ", np.uint64(7), "7e+0", -0.0, "0", "007"], dtype=object
    )
    assert _kept(pd.DataFrame({"pid": ids, "a": 1}), 1) == {1: 3}  # 7, 0 and 007


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (pa.array([2**63 - 1]), pa.array(["9223372036854775807"]), True),
        (pa.array([2**64 - 1], pa.uint64()), pa.array(["18446744073709551615"]), True),
        (pa.array([-(2**63)]), pa.array([Decimal(-(2**63))]), True),
        (pa.array([123456789012.0]), pa.array([123456789012]), True),
        (pa.array([0.1]), pa.array([np.float32(0.1)]), True),
        (pa.array([0.1]), pa.array([Decimal("0.10")]), True),
        (pa.array([1e-7]), pa.array(["1e-07"]), True),
        (pa.array(["1e3"]), pa.array([1000]), False),
        (pa.array(["+7"]), pa.array([7]), False),
        (pa.array([b"\xff"]), pa.array([b"\xfe"]), False),
        (
            pa.array([b"\x00" * 15 + b"\x07"], pa.binary(16)),
            pa.array(["00000000-0000-0000-0000-000000000007"]),
            True,
        ),
    ],
    ids=str,
)
def test_one_spelling(left: pa.Array, right: pa.Array, same: bool) -> None:
    assert (owners(left, "pid").names() == owners(right, "pid").names()) == same
    for ids in (left, right):
        assert owners(ids.dictionary_encode(), "pid").names() == owners(ids, "pid").names()


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["x", None]),
        pa.array(["x", ""]),
        pa.array([1.0, float("nan")]),
        pa.nulls(2),
        pa.array([b"x", b" "]),
    ],
    ids=str,
)
def test_rows_without_an_id_are_refused(ids: pa.Array) -> None:
    with pytest.raises(EncodeError, match="person id 'pid' is missing"):
        owners(ids, "pid")


@pytest.mark.parametrize("large", [2.0**53, -(2.0**60), float("inf")])
def test_ids_that_a_double_cannot_tell_apart_are_refused(large: float) -> None:
    with pytest.raises(EncodeError, match=r"2\^53.*store ids as integers or text"):
        owners(pa.array([1.0, large]), "pid")


def test_many_persons_with_awkward_ids() -> None:
    ids = np.arange(-50_000, 50_000) * (2**42)  # multiples of a power of two: bad for a careless hash
    table = pa.table({"pid": np.concatenate([ids, ids]), "a": np.zeros(200_000, np.int64)})
    assert _kept(table, 1) == {0: 100_000}


def test_equal_rows_of_a_person_count_up_to_the_limit_in_threads() -> None:
    from openprior.counting.cells import Cells
    from openprior.counting.engine import engine_of

    rows = 3 * BATCH_ROWS
    table = pa.table({"pid": np.arange(rows) % 5, "a": np.ones(rows, np.int64)})
    encoder = Encoder(_schema(4), open_source(table), private=True)
    for _ in range(3):
        counts, n = engine_of(encoder.source).count(encoder, Cells(encoder.domain, [("a",)]))
        assert n == 20 and counts.tolist() == [0, 20, *[0] * 8]


@pytest.mark.parametrize(
    "passes",
    [
        [[1, 1, 1], [2, 2, 2]],
        [[1, 2, 3], [1, 1, 2]],
        [[1, 1, 2], [1, 1, 2], [1, 2, 2]],
        [[1, 1, 2], [1, 2, 3]],
    ],
    ids=["other persons", "more rows of one", "more rows of another", "one person more"],
)
def test_a_table_that_changes_between_passes_is_refused(passes: list[list[int]]) -> None:
    """A query with a random sample, say, that gives other rows whenever it is run."""

    class Restless:
        name, columns, is_text = "table", ("a", "pid"), False

        def __init__(self) -> None:
            self.passes = iter(passes)

        def batches(self, columns: object = None) -> object:
            ids = next(self.passes)
            yield pa.record_batch({"a": [1] * len(ids), "pid": ids}).select(list(columns))  # type: ignore[call-overload]

    with pytest.raises(SourceError, match="other rows than when it was first read"):
        list(Encoder(_schema(1), Restless(), private=True).batches())


def test_brute_force() -> None:
    """Whoever has more rows than Δ keeps Δ of them; the others keep all."""
    rng = np.random.default_rng(3)
    ids, values = rng.integers(30, size=400), rng.integers(10, size=400)
    for limit in (1, 4, 40):
        mine: dict[int, Counter[int]] = defaultdict(Counter)
        for person, value in zip(ids.tolist(), values.tolist(), strict=True):
            mine[person][value] += 1
        for person, held in mine.items():
            table = pa.table({"pid": ids[ids == person], "a": values[ids == person]})
            kept = _kept(table, limit)
            assert kept.total() == min(limit, held.total()) and not kept - held
