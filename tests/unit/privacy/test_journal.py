"""What is recorded comes back exactly, a cut line is dropped, any other damage is an error."""

import json
import multiprocessing
import os
import stat
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openprior.errors import JournalError
from openprior.privacy import journal as module
from openprior.privacy.journal import Journal, NoJournal, Outcome

HEADER = {"run": "0123abcd", "seed": 7, "mechanism": "tilt", "options": {"rounds": 3, "prior": None}}


def outcome(seq: int) -> Outcome:
    return {"counts": np.arange(seq, seq + 5), "sigma": 0.1 * seq}


def written(path: Path, records: int = 3) -> Path:
    journal = Journal.create(path, HEADER)
    for seq in range(records):
        journal.record(seq, f"measure {seq}", outcome(seq))
    journal.close()
    return path


def same(a: object, b: object) -> bool:
    """Equal in type, dtype, shape and every bit."""
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (repr(a) == repr(b))


arrays = st.one_of(
    hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)),
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)),
)
names = st.text(max_size=8).filter(lambda s: not s.startswith("$"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | arrays,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(names, values, max_size=4), request=st.text(max_size=20))
def test_outcomes_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object], request: str
) -> None:
    path = tmp_path_factory.mktemp("journal") / "run.journal"
    journal = Journal.create(path, {"header": value})
    assert same(journal.header, {"header": value})
    journal.record(5, request, value)
    assert same(journal.find(5, request), value)
    journal.close()
    again = Journal.open(path)
    assert same(again.header, {"header": value})
    assert same(again.find(5, request), value)
    again.close()


def test_awkward_arrays(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "run.journal", {})
    big = np.array([[1.5, -0.0], [np.nan, np.inf]], dtype=">f8")
    journal.record(
        0, "r", {"big endian": big, "strided": np.arange(12).reshape(3, 4).T[::2], "n": np.int64(3)}
    )
    found = journal.find(0, "r")
    assert found is not None
    assert same(found["big endian"], big.astype("<f8"))
    assert same(found["strided"], np.ascontiguousarray(np.arange(12).reshape(3, 4).T[::2]))
    assert same(found["n"], 3)
    array = found["strided"]
    assert isinstance(array, np.ndarray)
    array[:] = 0  # the caller's copy, to do with as it likes
    assert same(journal.find(0, "r")["strided"], np.ascontiguousarray(np.arange(12).reshape(3, 4).T[::2]))  # type: ignore[index]
    journal.close()


@pytest.mark.parametrize(
    "value", [np.zeros(2, dtype=np.int32), np.array(["a"]), {1, 2}, b"x", object(), {"$array": 1}, {1: 2}, 1j]
)
def test_what_cannot_be_held_is_refused_and_not_written(tmp_path: Path, value: object) -> None:
    journal = Journal.create(tmp_path / "run.journal", {})
    with pytest.raises(JournalError, match="cannot hold"):
        journal.record(0, "r", {"x": value})
    journal.record(0, "r", {"x": 1})
    journal.close()


def test_find(tmp_path: Path) -> None:
    path = written(tmp_path / "run.journal")
    journal = Journal.open(path)
    assert journal.header == HEADER
    assert len(journal) == 3
    assert same(journal.find(2, "measure 2"), outcome(2))
    assert journal.find(3, "measure 3") is None
    with pytest.raises(
        JournalError, match=r"cannot be resumed: event 1 was 'measure 1' and is now 'select 1'"
    ):
        journal.find(1, "select 1")
    with pytest.raises(JournalError, match="has an outcome for event 1 already"):
        journal.record(1, "measure 1", outcome(1))
    journal.close()


def test_the_file_belongs_to_its_owner_and_is_never_overwritten(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = written(tmp_path / "run.journal")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"run.journal' exists already; resume its run, or delete it"):
        Journal.create(path, HEADER)
    assert path.read_bytes() == before


def test_cut_anywhere_the_whole_records_survive(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.journal").read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path = tmp_path / "cut.journal"
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        if complete == 0:
            with pytest.raises(JournalError, match="no complete header"):
                Journal.open(path)
            continue
        journal = Journal.open(path)
        assert len(journal) == complete - 1
        assert path.read_bytes() == whole[: ends[complete - 1]]
        if cut % 7 == 0:  # and the run goes on as if nothing had happened
            for seq in range(complete - 1, 3):
                journal.record(seq, f"measure {seq}", outcome(seq))
            assert path.read_bytes() == whole
        journal.close()


def test_blocks_that_never_reached_the_disk_are_a_cut(tmp_path: Path) -> None:
    path = written(tmp_path / "run.journal")
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for tail in (bytes(300), whole[last : last + 20] + bytes(40) + whole[last + 60 :]):
        path.write_bytes(whole[:last] + tail)
        journal = Journal.open(path)
        assert len(journal) == 2
        journal.close()
        assert path.read_bytes() == whole[:last]


def test_every_altered_byte_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "run.journal")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.choice(len(whole) - 1, 150, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(0, 7))
        if damaged[at] == 0:
            continue
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match=r"run.journal' is damaged in line [1-4]"):
            Journal.open(path)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("order", [[0, 2, 3], [0, 2, 1, 3], [0, 1, 1, 2, 3], [1, 2, 3]])
def test_removed_swapped_and_repeated_lines_are_seen(tmp_path: Path, order: list[int]) -> None:
    path = written(tmp_path / "run.journal")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in order))
    with pytest.raises(JournalError, match="is damaged"):
        Journal.open(path)


def test_zeros_in_the_middle_are_damage(tmp_path: Path) -> None:
    path = written(tmp_path / "run.journal")
    data = bytearray(path.read_bytes())
    second = data.index(b"\n") + 1
    data[second + 40 : second + 60] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged in line 2"):
        Journal.open(path)


ARRAY = {"$array": ["<f8", [3], ""]}
FORGED: tuple[tuple[int, object], ...] = (
    (0, []),
    (0, {"format": "openprior journal", "version": 2}),
    (0, {"format": "openprior journal", "version": 2, "header": [1]}),
    (0, {"format": "openprior journal", "version": 2, "header": ARRAY}),
    (0, {"format": "openprior journal", "version": 2, "header": {"run": {"$float": "x"}}}),
    (1, 5),
    (1, {}),
    (1, {"note": ["token"], "text": "x"}),
    (1, {"note": "token"}),
    (1, {"note": "token", "text": {}}),
    (1, {"seq": 0, "request": "measure 0"}),
    (1, {"seq": True, "request": "measure 0", "outcome": {}}),
    (1, {"seq": 0, "request": None, "outcome": {}}),
    (2, {"seq": 0, "request": "measure 0", "outcome": {}}),
    (1, {"seq": 0, "request": "measure 0", "outcome": {"counts": ARRAY}}),
    (1, {"seq": 0, "request": "measure 0", "outcome": {"counts": {"$array": []}}}),
    (1, {"seq": 0, "request": "measure 0", "outcome": [1]}),
)


@pytest.mark.parametrize(("line", "record"), FORGED)
def test_records_that_nobody_writes_are_refused(tmp_path: Path, line: int, record: object) -> None:
    """Even if their checksums are right."""
    path = written(tmp_path / "run.journal")
    records = [json.loads(text)["record"] for text in path.read_text().splitlines()]
    records[line] = record
    content, crc = b"", 0
    for each in records:
        body = json.dumps(each).encode()
        crc = zlib.crc32(body, crc)
        content += b'{"crc32":"%08x","record":%b}\n' % (crc, body)
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"restore the file|has version None"):
        Journal.open(path).find(0, "measure 0")


def test_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "run.journal")
    monkeypatch.setattr(module, "_VERSION", 3)
    with pytest.raises(JournalError, match="has version 2 and this openprior knows 3"):
        Journal.open(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.journal")
    with pytest.raises(JournalError, match="is no file"):
        Journal.open(tmp_path / "run.journal")


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first = Journal.create(path, HEADER)
    with pytest.raises(JournalError, match=r"run.journal' is in use by another run"):
        Journal.open(path)
    first.close()
    first.close()
    second = Journal.open(path)
    with pytest.raises(JournalError, match="is closed"):
        first.record(0, "r", {})
    with pytest.raises(JournalError, match="is closed"):
        first.find(0, "r")
    second.close()


def _try_to_open(path: Path, queue: "multiprocessing.Queue[str]") -> None:
    try:
        Journal.open(path)
        queue.put("opened")
    except JournalError as error:
        queue.put(str(error))


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_try_to_open, args=(path, queue))
    process.start()
    assert "in use by another run" in queue.get(timeout=60)
    process.join()
    journal.close()


def test_a_lost_journal_does_not_stay_locked(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    del journal
    Journal.open(path).close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_neither_writes_nor_unlocks(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    child = os.fork()
    if child == 0:
        code = 9
        try:
            journal.record(0, "r", {"x": 1})
        except JournalError:
            code = 3
        finally:
            journal.close()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    with pytest.raises(JournalError, match="in use"):
        Journal.open(path)
    journal.record(0, "r", {"x": 2})
    journal.close()


def test_every_record_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size if stat.S_ISREG(os.fstat(descriptor).st_mode) else -1)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    assert synced == [path.stat().st_size, -1]  # the file, then its folder
    journal.record(0, "r", {"x": 1})
    assert synced[2:] == [path.stat().st_size]
    journal.close()


def test_after_a_failed_write_only_a_fresh_open_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    journal.record(0, "r", outcome(0))
    real = os.write
    room = iter([30, 0])

    def full(descriptor: int, data: memoryview) -> int:
        if (space := next(room)) == 0:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:space])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(JournalError, match=r"run.journal' cannot be written \(No space left on device\)"):
            journal.record(1, "r", outcome(1))
    with pytest.raises(JournalError, match="could not be written before"):
        journal.record(1, "r", outcome(1))
    with pytest.raises(JournalError, match="could not be written before"):
        journal.find(1, "r")
    journal.close()
    again = Journal.open(path)
    assert len(again) == 1
    again.record(1, "r", outcome(1))
    assert same(again.find(1, "r"), outcome(1))
    again.close()


def test_remove(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    journal.remove()
    assert not path.exists()
    Journal.create(path, HEADER).remove()
    with pytest.raises(JournalError, match=r"run.journal' cannot be opened \(No such file"):
        Journal.open(path)
    with pytest.raises(JournalError, match=r"cannot be created \(No such file"):
        Journal.create(tmp_path / "nowhere" / "run.journal", HEADER)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(tmp_path)


def test_a_journal_removed_while_it_is_opened_is_not_resumed(tmp_path: Path) -> None:
    path = written(tmp_path / "run.journal")
    orphan = Journal(path, os.open(path, os.O_RDWR | os.O_APPEND))
    path.unlink()
    with pytest.raises(JournalError, match="was just removed"):
        orphan._take_lock()
    orphan.close()


def test_no_journal_remembers_nothing() -> None:
    journal = NoJournal({"run": "x"})
    assert journal.header == {"run": "x"}
    journal.record(0, "r", {"x": 1})
    assert journal.find(0, "r") is None
    assert len(journal) == 0
    journal.remove()
    journal.close()
