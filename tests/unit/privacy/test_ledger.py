"""The ledger adds exactly, refuses before it records, and says in one line what is wrong with a file."""

import math
import os
import sqlite3
import stat
import threading
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.errors import BudgetExceeded, LedgerError, OptionError
from openprior.privacy.ledger import Ledger
from openprior.privacy.ledger_status import DatasetStatus

EVENT: Mapping[str, object] = {"verb": "measure", "marginal": ["age", "sex"]}


@pytest.fixture(params=["memory", "file"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.sqlite" if request.param == "file" else None)


def start(ledger: Ledger, rho: float, dataset: str = "survey") -> str:
    return ledger.open_run(dataset, rho=rho, epsilon=1.0, delta=1e-9, details={"mechanism": "tilt"})


def status(ledger: Ledger, dataset: str = "survey") -> DatasetStatus:
    (found,) = [d for d in ledger.datasets() if d.name == dataset]
    return found


# Budgets and reservations


def test_the_first_run_sets_the_budget(ledger: Ledger) -> None:
    run = start(ledger, 0.5)
    s = status(ledger)
    assert (s.rho, s.epsilon, s.delta, s.committed, s.remaining) == (0.5, 1.0, 1e-9, Fraction(1, 2), 0.0)
    (r,) = s.runs
    assert (r.id, r.state, r.reserved, r.spent, r.events) == (run, "open", 0.5, Fraction(0), 0)
    assert r.details == {"mechanism": "tilt"}
    assert r.started.endswith("+00:00")


def test_a_run_that_does_not_fit_is_refused_and_leaves_no_trace(ledger: Ledger) -> None:
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    start(ledger, 0.75)
    before = ledger.datasets()
    with pytest.raises(
        BudgetExceeded,
        match=r"'survey' has ε = 4.\d+ left of 10 at δ = 1e-09 \(ρ = 0.25 of 1\), .* \(ρ = 0.26\)",
    ):
        start(ledger, 0.26)
    assert ledger.datasets() == before
    start(ledger, 0.25)
    assert status(ledger).remaining == 0.0


def test_datasets_do_not_share_a_budget(ledger: Ledger) -> None:
    start(ledger, 0.5, "b")
    start(ledger, 0.25, "a")
    assert [(d.name, d.rho) for d in ledger.datasets()] == [("a", 0.25), ("b", 0.5)]


def test_a_budget_grows_and_shrinks_to_what_is_committed_and_not_below(ledger: Ledger) -> None:
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    run = start(ledger, 0.5)
    ledger.charge(run, 0, 0.125, EVENT)
    ledger.set_budget("survey", rho=2.0, epsilon=15.0, delta=1e-8, raise_ok=True)
    ledger.set_budget("survey", rho=0.5, epsilon=7.0, delta=1e-9)
    with pytest.raises(LedgerError, match=r"ρ = 0.5 committed.*0.4"):
        ledger.set_budget("survey", rho=0.4, epsilon=6.0, delta=1e-9)
    assert status(ledger).rho == 0.5
    ledger.close(run)
    ledger.set_budget("survey", rho=0.125, epsilon=4.0, delta=1e-9)
    assert status(ledger).remaining == 0.0


def test_closing_gives_back_what_was_not_spent_and_ends_the_run(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    ledger.charge(run, 0, 0.25, EVENT)
    ledger.close(run)
    ledger.close(run)
    s = status(ledger)
    assert (s.committed, s.remaining, s.runs[0].state) == (Fraction(1, 4), 0.75, "closed")
    assert ledger.remaining(run) == 0.0
    assert ledger.spent(run) == Fraction(1, 4)
    for seq in (0, 1):  # not even the same event again: the caller would look at the data once more
        with pytest.raises(BudgetExceeded, match="was closed"):
            ledger.charge(run, seq, 0.25, EVENT)
    with pytest.raises(LedgerError, match="cannot be resumed"):
        ledger.seals(run)
    start(ledger, 0.75)


def test_unknown_runs(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match="no reservation"):
        ledger.charge("nobody", 0, 0.1, EVENT)
    for call in (ledger.seals, ledger.withdraw, ledger.close, ledger.spent, ledger.remaining, ledger.events):
        with pytest.raises(LedgerError, match="has no run nobody"):
            call("nobody")


# Charges


def test_charges_stay_within_the_reservation(ledger: Ledger) -> None:
    run = start(ledger, 0.5)
    ledger.charge(run, 0, 0.375, EVENT)
    with pytest.raises(
        BudgetExceeded, match=r"has ρ = 0.125 left of 0.5 \(ε = 1, δ = 1e-09\), and event 1 costs 0.25"
    ):
        ledger.charge(run, 1, 0.25, EVENT)
    assert ledger.spent(run) == Fraction(3, 8)
    ledger.charge(run, 1, ledger.remaining(run), EVENT)
    assert ledger.remaining(run) == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.charge(run, 2, 5e-324, EVENT)


def test_the_same_charge_again_is_free_and_a_different_one_is_refused(ledger: Ledger) -> None:
    run = start(ledger, 0.5)
    ledger.charge(run, 0, 0.5, EVENT)
    ledger.charge(run, 0, 0.5, dict(reversed(list(EVENT.items()))))  # the order of keys does not matter
    with pytest.raises(LedgerError, match=r"already charged with ρ = 0.5, not 0.25"):
        ledger.charge(run, 0, 0.25, EVENT)
    with pytest.raises(LedgerError, match="already charged for another event"):
        ledger.charge(run, 0, 0.5, {**EVENT, "marginal": ["income"]})
    assert ledger.spent(run) == Fraction(1, 2)
    assert len(ledger.events(run)) == 1


def test_events_come_in_order_of_their_numbers(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    for seq in (2, 0, 10):
        ledger.charge(run, seq, 0.125, {"n": seq})
    assert [(e.seq, e.rho, e.details) for e in ledger.events(run)] == [
        (seq, 0.125, {"n": seq}) for seq in (0, 2, 10)
    ]


def test_ten_tenths_are_more_than_one(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    for seq in range(9):
        ledger.charge(run, seq, 0.1, EVENT)
    assert ledger.spent(run) == 9 * Fraction(0.1)
    with pytest.raises(BudgetExceeded):  # Fraction(0.1) > 1/10, though sum([0.1] * 10) < 1 in floats
        ledger.charge(run, 9, 0.1, EVENT)
    ledger.charge(run, 9, ledger.remaining(run), EVENT)
    assert ledger.spent(run) <= 1


def test_ten_runs_of_a_tenth_are_more_than_one(ledger: Ledger) -> None:
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    for _ in range(9):
        start(ledger, 0.1)
    with pytest.raises(BudgetExceeded):
        start(ledger, 0.1)
    start(ledger, status(ledger).remaining)
    assert status(ledger).committed <= 1


@pytest.mark.parametrize("rho", [0.0, -0.1, math.nan, math.inf, Fraction(1, 10), 2**53 + 1])
def test_rho_must_be_a_positive_finite_double(ledger: Ledger, rho: float) -> None:
    run = start(ledger, 1.0)
    if rho == 0:  # a part of a partition may owe nothing more
        ledger.charge(run, 0, rho, EVENT)
    else:
        with pytest.raises(OptionError):
            ledger.charge(run, 0, rho, EVENT)
    with pytest.raises(OptionError):
        start(ledger, rho, "other")
    with pytest.raises(OptionError):
        ledger.set_budget("survey", rho=rho, epsilon=1.0, delta=1e-9)
    assert [d.name for d in ledger.datasets()] == ["survey"]


def test_a_first_run_that_spent_nothing_does_not_fix_the_budget(ledger: Ledger) -> None:
    ledger.close(start(ledger, 0.25))
    run = start(ledger, 1.0)
    assert status(ledger).rho == 1.0
    ledger.charge(run, 0, 0.125, EVENT)
    ledger.close(run)
    with pytest.raises(BudgetExceeded):
        start(ledger, 1.0)
    assert status(ledger).rho == 1.0


def test_a_stated_budget_stays_as_it_was_stated(ledger: Ledger) -> None:
    ledger.set_budget("survey", rho=0.5, epsilon=7.0, delta=1e-9)
    with pytest.raises(BudgetExceeded):
        start(ledger, 1.0)
    ledger.close(start(ledger, 0.25))
    assert status(ledger).rho == 0.5


def test_other_arguments_are_checked(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    with pytest.raises(OptionError, match=r"event.s number \(-1\)"):
        ledger.charge(run, -1, 0.1, EVENT)
    for epsilon, delta in ((0.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1), (1.0, math.nan)):
        with pytest.raises(OptionError):
            ledger.set_budget("survey", rho=1.0, epsilon=epsilon, delta=delta)
    with pytest.raises(LedgerError, match="event 0 cannot be written as JSON"):
        ledger.charge(run, 0, 0.1, {"at": object()})
    assert ledger.spent(run) == 0


positive = st.floats(min_value=5e-324, max_value=1e300, allow_subnormal=True)


@settings(max_examples=150, deadline=None)
@given(reserved=positive, parts=st.lists(st.floats(min_value=1e-3, max_value=0.9), max_size=6))
def test_what_remains_can_always_be_charged(reserved: float, parts: list[float]) -> None:
    ledger = Ledger()
    run = start(ledger, reserved)
    seq = 0
    for part in parts:
        amount = ledger.remaining(run) * part
        if amount > 0:
            ledger.charge(run, seq, amount, EVENT)
            seq += 1
    exact = Fraction(reserved) - ledger.spent(run)
    left = ledger.remaining(run)
    assert Fraction(left) <= exact < Fraction(math.nextafter(left, math.inf))
    if left > 0:
        ledger.charge(run, seq, left, EVENT)
    assert ledger.spent(run) <= Fraction(reserved)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_committed_never_passes_the_budget(data: st.DataObject) -> None:
    """Random histories against a model kept with fractions."""
    ledger = Ledger()
    ledger.set_budget("survey", rho=1.0, epsilon=10.0, delta=1e-9)
    runs: dict[str, tuple[bool, Fraction, Fraction]] = {}  # open, reserved, spent
    amounts = st.floats(min_value=1e-17, max_value=0.6)
    for seq in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["open", "charge", "close"]))
        counted = sum((r if is_open else s for is_open, r, s in runs.values()), start=Fraction(0))
        if kind == "open":
            rho = data.draw(amounts)
            fits = counted + Fraction(rho) <= 1
            try:
                runs[start(ledger, rho)] = (True, Fraction(rho), Fraction(0))
                assert fits
            except BudgetExceeded:
                assert not fits
        elif runs:
            run = data.draw(st.sampled_from(list(runs)))
            is_open, reserved, spent = runs[run]
            if kind == "close":
                ledger.close(run)
                runs[run] = (False, reserved, spent)
            else:
                rho = data.draw(amounts)
                fits = is_open and spent + Fraction(rho) <= reserved
                try:
                    ledger.charge(run, seq, rho, EVENT)
                    assert fits
                    runs[run] = (is_open, reserved, spent + Fraction(rho))
                except BudgetExceeded:
                    assert not fits
        committed = sum((r if is_open else s for is_open, r, s in runs.values()), start=Fraction(0))
        assert status(ledger).committed == committed <= 1


# The file


def test_the_file_keeps_everything_and_belongs_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    old = os.umask(0)
    try:
        run = start(Ledger(path), 0.5)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    Ledger(path).charge(run, 0, 0.25, EVENT)
    assert Ledger(str(path)).spent(run) == Fraction(1, 4)
    # In rollback mode the file alone is the whole ledger: a copy of it has every charge.
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(path.read_bytes())
    assert Ledger(copy).spent(run) == Fraction(1, 4)


def test_a_ledger_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    ledger = Ledger(":memory:")  # a file name like any other
    start(ledger, 0.5)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert status(ledger).rho == 0.5
    assert (tmp_path / ":memory:").is_file()


def test_durability_settings(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    with ledger._connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)


def test_events_cannot_be_changed_with_other_tools(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    ledger = Ledger(path)
    run = start(ledger, 1.0)
    ledger.charge(run, 0, 0.5, EVENT)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE event SET rho = 0.1",
        "DELETE FROM event",
        "DELETE FROM run",
        "UPDATE run SET rho = 0.5",
        "UPDATE run SET dataset = 'other', closed = 'now'",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    ledger.close(run)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE run SET closed = NULL")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO event VALUES (?, 1, 0.1, '{}', 'now')", (run,))
    connection.close()


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    refused = []

    def work(first: int) -> None:
        for seq in range(first, first + 10):
            try:
                ledger.charge(run, seq, 1 / 32, EVENT)
            except BudgetExceeded:
                refused.append(seq)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 8
    assert ledger.spent(run) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_uses_the_file_and_refuses_the_memory(ledger: Ledger) -> None:
    run = start(ledger, 1.0)
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(run, 0, 0.25, EVENT)
            os._exit(0)
        except LedgerError:
            os._exit(3)
        finally:
            os._exit(9)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    in_memory = "'" not in repr(ledger)
    assert code == (3 if in_memory else 0)
    assert ledger.spent(run) == (0 if in_memory else Fraction(1, 4))


# What can be wrong with a file: one line that names it and the remedy


def message(ledger: Ledger, path: Path) -> str:
    with pytest.raises(LedgerError) as caught:
        start(ledger, 0.1, "another")
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder; name a file in it" in message(Ledger(tmp_path), tmp_path)


def test_a_pipe_or_a_device_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o644)
    path.chmod(0o644)
    assert "is a pipe or a device; give the path of a file" in message(Ledger(path), path)
    assert path.is_fifo() and stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "budget.sqlite"
    assert "there is no folder" in message(Ledger(path), path)


def test_garbage(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    path.write_bytes(b"age,sex\n" * 1000)
    assert "is not a ledger" in message(Ledger(path), path)
    assert path.read_bytes() == b"age,sex\n" * 1000


def test_another_database(tmp_path: Path) -> None:
    path = tmp_path / "people.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (age)")
    connection.commit()
    before = path.read_bytes()
    assert "not a ledger" in message(Ledger(path), path)
    connection.execute("PRAGMA user_version = 1")
    assert "not a ledger" in message(Ledger(path), path)
    connection.execute("PRAGMA user_version = 0")
    connection.close()
    assert len(path.read_bytes()) == len(before)


def test_a_damaged_ledger(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    start(Ledger(path), 0.5)
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    assert "is damaged; restore a backup" in message(Ledger(path), path)


def test_a_newer_ledger(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    start(Ledger(path), 0.5)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    assert "has version 4 and this openprior knows 3; upgrade" in message(Ledger(path), path)


def test_locked_longer_than_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    run = start(Ledger(path), 0.5)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    text = message(Ledger(path, timeout=0.05), path)
    assert "was locked for 0.05 s: another release is writing" in text
    with pytest.raises(LedgerError, match="locked"):
        Ledger(path, timeout=0.05).charge(run, 0, 0.1, EVENT)
    other.execute("COMMIT")
    # A reader keeps the commit itself from happening: the charge must be undone, not half done.
    other.execute("BEGIN")
    other.execute("SELECT * FROM event").fetchall()
    with pytest.raises(LedgerError, match="locked"):
        Ledger(path, timeout=0.05).charge(run, 0, 0.1, EVENT)
    other.execute("COMMIT")
    other.close()
    assert Ledger(path).spent(run) == 0
    Ledger(path).charge(run, 0, 0.1, EVENT)


class ReadOnly(Ledger):
    """As on a read-only disk (a chmod would not stop root, who runs many a container)."""

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None)


def test_read_only(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    start(Ledger(path), 0.5)
    ledger = ReadOnly(path)
    assert status(ledger).rho == 0.5  # looking is possible
    assert "is read-only" in message(ledger, path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    start(Ledger(path), 0.5)
    path.chmod(0o400)
    assert "is read-only" in message(Ledger(path), path)
    path.chmod(0o000)
    assert "cannot be opened" in message(Ledger(path), path)


class SmallDisk(Ledger):
    """No page more than the file has already."""

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA max_page_count = 1")
        return connection


def test_a_full_disk_charges_nothing(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    run = start(Ledger(path), 1.0)
    ledger = SmallDisk(path)
    charged = 0
    with pytest.raises(LedgerError, match=r"budget.sqlite' cannot grow: the disk is full; free some space"):
        for seq in range(100):
            ledger.charge(run, seq, 1 / 128, {"text": "x" * 500})
            charged += 1
    assert 0 < charged < 100
    assert Ledger(path).spent(run) == Fraction(charged, 128)
    Ledger(path).charge(run, charged, 1 / 128, {"text": "x" * 500})


def test_a_full_disk_at_creation(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    assert "disk is full" in message(SmallDisk(path), path)
    start(Ledger(path), 0.5)
