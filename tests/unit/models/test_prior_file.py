"""A prior as a file: what was written comes back, and nothing that was forged or damaged gets to a compiled loop."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openprior.models.prior.draws import PriorArrays, draw
from openprior.models.prior.prior import Mix
from openprior.models.prior.prior_checks import KINDS, checked_arrays
from openprior.models.prior.prior_file import Damaged, OtherPrior, Stored, packed, unpacked
from openprior.models.prior.prior_learning import learn
from openprior.questions.workload import all_marginals
from tests.conftest import SIZES, random_table

TABLE = random_table({**SIZES, "e": 1}, 120, 2)
SHAPE = TABLE.domain.shape


@pytest.fixture(scope="module")
def stored() -> Stored:
    learnt = learn(TABLE, all_marginals(2).on(TABLE.domain).marginals)
    prior = replace(learnt, faithful=Mix((0.0, 0.9, 0.1), 0.01))
    return Stored(prior, TABLE.domain, {"name": "ü"}, {"more": np.arange(3)})


@pytest.fixture(scope="module")
def file(stored: Stored) -> bytes:
    return packed(stored)


def test_a_prior_comes_back_as_it_was_and_can_be_drawn_from(stored: Stored, file: bytes) -> None:
    again = unpacked(file)
    for name, before in stored.prior.arrays._asdict().items():
        after = getattr(again.prior.arrays, name)
        assert np.asarray(before).dtype == np.asarray(after).dtype
        assert np.array_equal(before, after)
    assert (again.prior.rows, again.prior.shares) == (stored.prior.rows, stored.prior.shares)
    assert again.prior.faithful == stored.prior.faithful is not None
    assert (again.domain, again.facts) == (TABLE.domain, {"name": "ü"})
    assert again.arrays["more"].tolist() == [0, 1, 2]
    assert all(map(np.array_equal, again.rows.columns, TABLE.columns))
    drawn = [np.empty((50, len(SHAPE)), np.uint16) for _ in range(2)]
    for prior, codes in zip((stored.prior, again.prior), drawn, strict=True):
        draw(prior.arrays, np.uint64(7), codes, np.empty(50, np.int8), np.empty(50, np.int32))
    assert np.array_equal(*drawn)
    # Arrays that may not be written to would have every loop compiled anew.
    assert all(a.flags.writeable for a in again.prior.arrays if isinstance(a, np.ndarray))


def test_the_same_prior_is_the_same_file_and_numpy_reads_it(stored: Stored, file: bytes) -> None:
    assert packed(stored) == packed(unpacked(file)) == file
    with np.load(io.BytesIO(file), allow_pickle=False) as archive:
        assert archive["prior.anchors"].shape == (120, len(SHAPE))


def test_every_array_of_a_prior_is_checked() -> None:
    assert set(KINDS) == set(PriorArrays._fields)


Change = Callable[[dict[str, Any]], Any]


def put(name: str, *place: int, value: float) -> Change:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name][place or ...] = value

    return change


def first_with_parent(arrays: dict[str, Any]) -> tuple[int, int]:
    k, a, _ = np.argwhere(arrays["parents"] >= 0)[0]
    return int(k), int(a)


def parent_after_child(arrays: dict[str, Any]) -> None:
    k, a = first_with_parent(arrays)
    order = arrays["order"][k]
    i, j = (int(np.flatnonzero(order == c)[0]) for c in (a, arrays["parents"][k, a, 0]))
    order[i], order[j] = order[j], order[i]


def long_stride(arrays: dict[str, Any]) -> None:
    k, a = first_with_parent(arrays)
    arrays["strides"][k, a, 0] = len(arrays["row_of"])


def huge_stride(arrays: dict[str, Any]) -> None:
    k, a = first_with_parent(arrays)
    arrays["strides"][k, a, 0] = np.iinfo(np.int64).max


def childless(arrays: dict[str, Any]) -> None:
    arrays["children"][:] = -1


def gap_in_parents(arrays: dict[str, Any]) -> None:
    k, a = first_with_parent(arrays)
    arrays["parents"][k, a] = np.roll(arrays["parents"][k, a], 1)
    arrays["parents"][k, a, 0] = -1


def shifted(name: str) -> Change:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name][..., :-1].copy()

    return change


def retyped(name: str, kind: type[np.generic]) -> Change:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].astype(kind)

    return change


def dropped(name: str) -> Change:
    return lambda arrays: arrays.pop(name)


FORGED: dict[str, Change] = {
    "size": put("sizes", 0, value=9),
    "shares fall": put("kinds", 0, value=2.0),
    "shares are nan": put("kinds", 1, value=np.nan),
    "redraw": put("redraw", value=1.5),
    "redraw is nan": put("redraw", value=np.nan),
    "class ends": put("class_ends", -1, value=0.5),
    "no classes": lambda arrays: arrays.update(class_ends=np.zeros(0), values=arrays["values"][:0]),
    "class value is negative": put("values", 0, 0, value=-0.1),
    "class value is nan": put("values", 0, 0, value=np.nan),
    "class sums to 2": put("values", 0, 0, value=1.9),
    "starts": put("starts", 1, value=10**9),
    "anchor outside": put("anchors", 0, 0, value=SHAPE[0]),
    "no anchors": lambda arrays: arrays.update(anchors=arrays["anchors"][:0], member=arrays["member"][:0]),
    "member outside": put("member", 0, value=10**6),
    "member negative": put("member", 0, value=-1),
    "order twice": put("order", 0, value=0),
    "order outside": put("order", 0, 0, value=99),
    "no networks": lambda arrays: arrays.update({n: arrays[n][:0] for n in ("order", "parents", "strides")}),
    "parent outside": put("parents", 0, 0, 0, value=len(SHAPE)),
    "parent far below": put("parents", 0, 0, 0, value=-7),
    "parent after child": parent_after_child,
    "gap in parents": gap_in_parents,
    "stride": long_stride,
    "stride overflows": huge_stride,
    "stride negative": put("strides", 0, 0, 0, value=-1),
    "index starts outside": put("index_start", 0, 0, value=10**9),
    "index starts below": put("index_start", 0, 0, value=-1),
    "index ends outside": put("index_start", value=10**5),
    "table starts outside": put("table_start", 0, 0, value=10**9),
    "table starts below": put("table_start", 0, 0, value=-4),
    "table shifted": put("table_start", 0, 0, value=1),
    "row outside": put("row_of", 0, value=10**6),
    "row below": put("row_of", -1, value=-1),
    "probability is nan": put("table", 0, value=np.nan),
    "probability is infinite": put("table", -1, value=np.inf),
    "probability is negative": put("table", 0, value=-1.0),
    "probability is 3": put("table", 0, value=3.0),
    "childless": childless,
    "child outside": put("children", 0, 0, 0, value=99),
    **{f"{name} is shorter": shifted(name) for name in KINDS if KINDS[name][1] and name != "children"},
    **{f"{name} is text of bytes": retyped(name, np.uint8) for name in KINDS},
    **{f"{name} is missing": dropped(name) for name in KINDS},
    "one more": lambda arrays: arrays.update(other=np.zeros(1)),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_array_is_refused_and_never_read_by_a_loop(stored: Stored, change: Change) -> None:
    arrays = {name: np.array(array) for name, array in stored.prior.arrays._asdict().items()}
    checked_arrays({name: array.copy() for name, array in arrays.items()}, SHAPE)
    change(arrays)
    with pytest.raises(ValueError, match=r"\w"):
        checked_arrays(arrays, SHAPE)


def test_a_damaged_file_is_refused_or_still_the_same_prior(file: bytes) -> None:
    """Every cut, and flipped bits all over it: what is damaged is found, and nothing else is raised."""
    rng = np.random.default_rng(0)
    for end in [0, 1, 21, len(file) // 2, len(file) - 1, *rng.integers(0, len(file), 20)]:
        with pytest.raises(Damaged):
            unpacked(file[:end])
    head = len(file) - 4000  # the archive's own list of entries stands at the end
    for place in [*rng.integers(0, len(file), 60), *rng.integers(head, len(file), 60)]:
        changed = bytearray(file)
        changed[place] ^= 1 << int(rng.integers(8))
        try:
            again = unpacked(bytes(changed))
        except Damaged:
            continue
        assert packed(again) == file  # a byte that says nothing: a time, a version


def rewritten(file: bytes, how: Callable[[str, bytes], bytes | None], **options: Any) -> bytes:
    """The archive with entries changed or left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w", **options) as new:
        for name in old.namelist():
            entry = how(name, old.read(name))
            if entry is not None:
                new.writestr(name, entry)
    return out.getvalue()


def test_other_archives_are_refused(file: bytes) -> None:
    def facts(**changed: Any) -> bytes:
        def how(name: str, data: bytes) -> bytes:
            return data if name != "facts.json" else json.dumps({**json.loads(data), **changed}).encode()

        return rewritten(file, how)

    def without(fact: str) -> Callable[[str, bytes], bytes]:
        def how(name: str, data: bytes) -> bytes:
            if name != "facts.json":
                return data
            return json.dumps({k: v for k, v in json.loads(data).items() if k != fact}).encode()

        return how

    assert unpacked(facts()).prior.rows == 120
    assert unpacked(facts(faithful=None)).prior.faithful is None
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    long = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        long, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 1 << 60)}
    )
    twice = io.BytesIO(file)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("facts.json", "{}")
    cut = rewritten(file, lambda n, data: data.replace(b"}", b" ", 1) if n == "prior.table.npy" else data)
    others = {
        "a header that does not end": cut,
        "a header of Python 2": rewritten(
            file, lambda n, data: data.replace(b"(3,)", b"(3L)", 1) if n == "more.npy" else data
        ),
        "packed": rewritten(file, lambda _, data: data, compression=zipfile.ZIP_DEFLATED),
        "pickle": rewritten(file, lambda n, data: pickled.getvalue() if n == "more.npy" else data),
        "too long": rewritten(file, lambda n, data: long.getvalue() if n == "more.npy" else data),
        "no facts": rewritten(file, lambda n, data: None if n == "facts.json" else data),
        "no archive": b"PK and no more",
        "twice": twice.getvalue(),
        "text": rewritten(file, lambda n, data: b"1,2" if n == "more.npy" else data),
        "rows": facts(rows=119),
        "rows are true": facts(rows=True),
        "shares": facts(shares=[1.0, 0.0, 0.0]),
        "no faithful mix": rewritten(file, without("faithful")),
        "faithful is a list": facts(faithful=[0.0, 1.0, 0.0, 0.01]),
        "faithful without shares": facts(faithful={"redraw": 0.01}),
        "faithful shares of nothing": facts(faithful={"shares": [0.0, 0.0, 0.0], "redraw": 0.01}),
        "a negative faithful share": facts(faithful={"shares": [-0.5, 1.0, 0.5], "redraw": 0.01}),
        "faithful anchors": facts(faithful={"shares": [0.0, 1.0, 0.0], "redraw": 1.5}),
        "faithful anchors are text": facts(faithful={"shares": [0.0, 1.0, 0.0], "redraw": "0"}),
        "domain": facts(domain={"a": 3}),
        "names of columns": facts(domain=list(SHAPE)),
        "a size is text": facts(domain=dict.fromkeys("abcde", "3")),
        "unknown": facts(other=1),
        "more": facts(more=[]),
        "format": facts(format=True),
    }
    for what, data in others.items():
        with pytest.raises(Damaged):
            unpacked(data)
            pytest.fail(what)
    with pytest.raises(OtherPrior, match="format 3, and this version reads format 2"):
        unpacked(facts(format=3))
