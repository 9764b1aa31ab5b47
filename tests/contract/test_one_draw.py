"""A charge buys one draw: killed at every step, resumed from every copy, two at once, forged; each event is seen once.

What can be seen of a run: what was handed out, and whatever any copy of the journal says with the keys that are in the
ledger. The outcomes here are large random numbers, so that two draws never agree by chance.
"""

import json
import os
import random
import secrets
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from openprior.errors import JournalError, LedgerError, OpenPriorError, PrivacyError
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.events import Gaussian
from openprior.privacy.journal import Journal
from openprior.privacy.ledger import Ledger, new_run
from openprior.privacy.ledger_seals import Seal
from openprior.privacy.sealed import SealedJournal, _open, new_token
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Unit

pytestmark = pytest.mark.usefixtures("no_syncs")

EVENTS = 3
RHO = budget_rho(1.0, 1e-6)


class Killed(BaseException):
    """The process is gone: nothing tidies up."""


class Steps:
    """Counts the steps of everything that writes, and kills at one of them."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.taken, self.kill_at = 0, kill_at

    def __call__(self) -> None:
        self.taken += 1
        if self.taken == self.kill_at:
            raise Killed


class World:
    """One ledger, one journal, all copies of it that were ever made, and what has been seen."""

    def __init__(self, folder: Path, ledger: Ledger | None = None) -> None:
        # A ledger in memory outlives the deaths that are played here, and needs no disk that is slow.
        self.ledger = ledger or Ledger()
        self.journal: Journal | None = None
        self.path = folder / "out.journal"
        self.run, self.token = new_run(), new_token()
        self.seen: dict[int, set[int]] = {seq: set() for seq in range(EVENTS)}
        self.copies: dict[bytes, None] = {}
        self.draws = 0

    def begin(self) -> None:
        Journal.create(self.path, {"run": self.run, "token": self.token}).close()
        self.ledger.open_run(
            "people", rho=RHO, epsilon=1.0, delta=1e-6, details={}, run=self.run, token=self.token
        )

    def account(self, path: Path | None = None) -> Account:
        """Resume from a journal."""
        self.journal = journal = Journal.open(path or self.path)
        try:
            sealed = SealedJournal.resume(journal, self.ledger, self.run)
        except OpenPriorError:
            journal.close()
            raise
        return Account(self.ledger, self.run, rho=RHO, epsilon=1.0, delta=1e-6, journal=sealed)

    def ask(self, account: Account) -> None:
        """The next event; whoever gets its outcome has seen it."""
        seq = len(account.events)

        def act() -> dict[str, Any]:
            self.draws += 1
            return {"value": secrets.randbelow(2**60)}

        event = Gaussian.at(Counts(("a",)), RHO / 8 * (1 + seq), Unit())
        charge = account.cost(event.rho)
        outcome = account.perform(charge, event, act)
        self.seen[seq].add(outcome["value"])  # type: ignore[arg-type]

    def play(self, path: Path | None = None) -> None:
        account = self.account(path)
        for _ in range(EVENTS):
            self.ask(account)
        account._journal.close()

    def copy(self) -> None:
        self.copies[self.path.read_bytes()] = None

    def spy(self) -> None:
        """Read every copy with the keys that the ledger has."""
        self.copy()
        seals = self.ledger.seals(self.run).outcomes
        for copy in self.copies:
            for line in copy.split(b"\n")[1:]:
                try:
                    record = json.loads(line)["record"]
                except json.JSONDecodeError:
                    continue  # cut
                if "seq" not in record or record["seq"] not in seals:
                    continue
                for seal in seals.values():
                    read = _open(record["outcome"]["sealed"], seal.key)
                    if read is not None:  # else it is the key of another outcome
                        self.seen[record["seq"]].add(read["value"])  # type: ignore[arg-type]

    def check(self, *, whole: bool) -> None:
        self.spy()
        for seq, values in self.seen.items():
            assert len(values) <= 1, f"event {seq} was seen with {len(values)} outcomes"
            assert not whole or values


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.begin()
    return made


def watched(monkeypatch: pytest.MonkeyPatch, steps: Steps, world: World) -> None:
    """Steps before and after everything that is written, also in the middle of a line."""

    def around(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def method(self: Any, *args: Any, **named: Any) -> Any:
            steps()
            value = real(self, *args, **named)
            steps()
            return value

        monkeypatch.setattr(owner, name, method)

    for name in ("charge", "seal", "resume_run"):
        around(Ledger, name)
    around(Journal, "drop")
    real = Journal._append

    def append(self: Journal, record: Any) -> None:
        steps()
        before = world.path.read_bytes()
        real(self, record)
        after = world.path.read_bytes()
        world.copy()
        try:
            steps()  # after the write
        except Killed:
            if len(after) > len(before) and steps.kill_at is not None and steps.kill_at % 2:
                world.path.write_bytes(after[: (len(before) + len(after)) // 2])  # or in the middle of it
            raise

    monkeypatch.setattr(Journal, "_append", append)


def killed(world: World, steps: Steps) -> bool:
    """Play until killed; a dead process holds no lock."""
    try:
        world.play()
        return False
    except Killed:
        assert world.journal is not None
        world.journal.close()
        return True


def steps_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    with monkeypatch.context() as patch:
        (tmp_path / "count").mkdir()
        world = World(tmp_path / "count")
        world.begin()
        steps = Steps()
        watched(patch, steps, world)
        world.play()
        return steps.taken


def test_killed_at_every_step_it_resumes_and_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice in a row: at step i, and at step j of the resumption."""
    count = steps_of_a_run(tmp_path, monkeypatch)
    assert count >= 6 * EVENTS
    rng = random.Random(1)
    tried = 0
    for first in range(1, count + 1):
        for second in sorted(rng.sample(range(1, count + 1), 3)):
            (tmp_path / f"{first}-{second}").mkdir()
            world = World(tmp_path / f"{first}-{second}")
            world.begin()
            for kill_at in (first, second):
                with monkeypatch.context() as patch:
                    steps = Steps(kill_at)
                    watched(patch, steps, world)
                    if not killed(world, steps):
                        break
                world.check(whole=False)
            world.play()
            world.check(whole=True)
            assert len(world.ledger.events(world.run)) == EVENTS
            tried += 1
    assert tried >= 3 * count


def test_every_copy_of_the_journal_is_refused_once_the_run_has_gone_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()
    with monkeypatch.context() as patch:
        watched(patch, steps, world)
        world.play()
    final = world.path.read_bytes()
    world.copies.pop(final, None)
    assert len(world.copies) >= EVENTS
    draws = world.draws
    for number, copy in enumerate(world.copies):
        path = tmp_path / f"copy{number}"
        path.write_bytes(copy)
        with pytest.raises(JournalError, match=r"older copy|from before"):
            world.account(path)
    world.check(whole=True)
    assert world.draws == draws == EVENTS
    world.play()  # the real one still goes on, without drawing
    assert world.draws == draws


def test_a_copy_of_a_state_can_go_on_once_and_the_original_no_more(world: World, tmp_path: Path) -> None:
    original = world.account()
    world.ask(original)
    twins = [tmp_path / "twin1", tmp_path / "twin2"]
    for twin in twins:
        twin.write_bytes(world.path.read_bytes())
    stolen = world.account(twins[0])
    with pytest.raises(JournalError, match="from before its run was last resumed"):
        world.account(twins[1])
    world.ask(stolen)
    # The original still runs: it repeats nothing, and what it draws now is shown to nobody.
    world.copy()
    with pytest.raises(LedgerError, match="resumed in another process"):
        world.ask(original)
    world.copy()
    with pytest.raises(JournalError, match="closed"):
        world.ask(original)
    with pytest.raises(JournalError, match="from before"):
        world.account(world.path)
    for _ in range(EVENTS - 1):
        world.ask(stolen)
    world.check(whole=True)


def test_two_that_resume_the_same_state_at_once(world: World, tmp_path: Path) -> None:
    """Both have read what the ledger knows; it takes the first token."""
    twin = tmp_path / "twin"
    twin.write_bytes(world.path.read_bytes())
    seals = world.ledger.seals(world.run)
    world.ledger.resume_run(world.run, seals, new_token())
    with pytest.raises(LedgerError, match="goes on in another process"):
        world.ledger.resume_run(world.run, seals, new_token())


def test_an_outcome_that_was_sealed_meanwhile_stops_a_resumption(world: World) -> None:
    account = world.account()
    seals = world.ledger.seals(world.run)
    world.ask(account)
    with pytest.raises(LedgerError, match="goes on in another process"):
        world.ledger.resume_run(world.run, seals, new_token())


# Forged


def rewritten(lines: list[dict[str, Any]]) -> bytes:
    """Records as a journal with right checksums."""
    crc, written = 0, b""
    for record in lines:
        body = json.dumps(record, separators=(",", ":")).encode()
        crc = zlib.crc32(body, crc)
        written += b'{"crc32":"%08x","record":%b}\n' % (crc, body)
    return written


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["record"] for line in path.read_bytes().splitlines()]


def outcomes(lines: list[dict[str, Any]]) -> list[int]:
    return [i for i, record in enumerate(lines) if "seq" in record]


def test_a_forged_journal_with_right_checksums_is_refused(world: World) -> None:
    world.play()
    lines = records(world.path)
    first, second, *_ = outcomes(lines)
    forged = []
    for change in ("altered", "swapped", "dropped", "request", "all dropped", "no token"):
        copy = json.loads(json.dumps(lines))
        if change == "altered":
            text = copy[first]["outcome"]["sealed"]
            copy[first]["outcome"]["sealed"] = ("B" if text[0] == "A" else "A") + text[1:]
        elif change == "swapped":
            a, b = copy[first]["outcome"], copy[second]["outcome"]
            copy[first]["outcome"], copy[second]["outcome"] = b, a
        elif change == "dropped":
            del copy[outcomes(copy)[-1]]
        elif change == "request":
            copy[first]["request"] += " "
        elif change == "all dropped":
            copy = [record for record in copy if "seq" not in record]
        else:
            copy = [record for record in copy if record.get("note") != "token"]
        forged.append(rewritten(copy))
    for journal in forged:
        world.path.write_bytes(journal)
        with pytest.raises(JournalError, match=r"older copy|from before"):
            world.account()
    world.path.write_bytes(rewritten(lines))
    world.play()
    assert world.draws == EVENTS
    world.check(whole=True)


def test_an_outcome_that_the_ledger_never_sealed_is_not_believed(world: World) -> None:
    """Nor can it be put into the middle, to be taken for one that is lost."""
    account = world.account()
    world.ask(account)
    account._journal.close()
    lines = records(world.path)
    extra = {**lines[outcomes(lines)[0]], "seq": 1}
    world.path.write_bytes(rewritten([*lines, extra]))
    world.play()
    world.check(whole=True)
    assert world.draws == EVENTS
    world.path.write_bytes(rewritten([lines[0], {**extra, "seq": 7}, *records(world.path)[1:]]))
    with pytest.raises(JournalError, match="damaged"):
        world.account()


def test_a_run_without_a_journal_cannot_be_given_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    run = world.ledger.open_run("people", rho=RHO, epsilon=1.0, delta=1e-6, details={})
    world.ledger.charge(run, 0, RHO / 8, {})
    journal = Journal.create(world.path, {"run": run, "token": new_token()})
    with pytest.raises(LedgerError, match="has no journal that this ledger knows"):
        SealedJournal.resume(journal, world.ledger, run)
    journal.close()


def test_seals_cannot_be_changed_or_given_twice(tmp_path: Path) -> None:
    world = World(tmp_path, Ledger(tmp_path / "budget.sqlite"))
    world.begin()
    world.play()
    token = world.ledger.seals(world.run).token
    with pytest.raises(LedgerError, match="has an outcome already"):
        world.ledger.seal(world.run, 0, Seal("0" * 64, "1" * 64), token)
    with pytest.raises(LedgerError, match="resumed in another process"):
        world.ledger.seal(world.run, EVENTS, Seal("0" * 64, "1" * 64), new_token())
    connection = sqlite3.connect(tmp_path / "budget.sqlite", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    for statement in (
        "UPDATE outcome SET key = digest",
        "DELETE FROM outcome",
        "UPDATE token SET token = 'x'",
        "DELETE FROM token",
        "UPDATE secret SET secret = 'x'",
        "DELETE FROM secret",
        "DELETE FROM run",
        f"INSERT INTO outcome VALUES ('{world.run}', 99, 'x', 'y')",  # an event that was never charged
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    world.ledger.close(world.run)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"INSERT INTO token VALUES ('{world.run}', 9, 'x', 'now')")
    connection.close()
    with pytest.raises(LedgerError, match="was closed"):
        world.account()


@pytest.mark.parametrize("walks", [80, pytest.param(5000, marks=pytest.mark.slow)])
def test_no_walk_of_kills_and_copies_shows_a_second_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walks: int
) -> None:
    """A patient attacker: kills at random steps, puts back random copies, and reads all of them at the end."""
    count = steps_of_a_run(tmp_path, monkeypatch)
    rng = random.Random(20240229)
    refused = redrawn = 0
    for walk in range(walks):
        (tmp_path / f"walk{walk}").mkdir()
        world = World(tmp_path / f"walk{walk}")
        world.begin()
        for _ in range(rng.randint(2, 6)):
            current = world.path.read_bytes()
            world.copies[current] = None
            if rng.random() < 0.5:
                world.path.write_bytes(rng.choice(list(world.copies)))
            with monkeypatch.context() as patch:
                steps = Steps(rng.randint(1, count + 6))
                watched(patch, steps, world)
                try:
                    killed(world, steps)
                except (JournalError, LedgerError):
                    refused += 1
                    world.copy()
                    world.path.write_bytes(current)
            world.check(whole=False)
        redrawn += world.draws > EVENTS
    # The test has teeth only if both happened: copies were refused, and events were drawn again that nobody had seen.
    assert refused > walks // 4
    assert redrawn > walks // 10


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_draw_for_its_parents_charge(tmp_path: Path) -> None:
    """Without a journal too: the child's first event is the parent's, so the ledger would take it as paid."""
    ledger = Ledger(tmp_path / "budget.sqlite")
    run = ledger.open_run("people", rho=RHO, epsilon=1.0, delta=1e-6, details={})
    account = Account(ledger, run, rho=RHO, epsilon=1.0, delta=1e-6)
    event = Gaussian.at(Counts(("a",)), RHO / 8, Unit())
    child = os.fork()
    if child == 0:
        try:
            account.perform(account.cost(event.rho), event, lambda: {"value": 1})
        except PrivacyError as error:
            os._exit(0 if "forked child" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert account.perform(account.cost(event.rho), event, lambda: {"value": 2}) == {"value": 2}
