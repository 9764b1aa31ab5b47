"""Four processes on one ledger, kill -9 at random instants: recorded ≥ true spend, committed ≤ budget.

The true spend is what the workers (`ledger_worker.py`) wrote down *after* `charge` returned, each in its own log; all
sums are exact.
"""

import itertools
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import openprior
from openprior.privacy.ledger import Ledger

WORKERS = 4
PROGRAM = str(Path(__file__).with_name("ledger_worker.py"))


def environment() -> dict[str, str]:
    source = str(Path(openprior.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}


def check(path: Path, logs: list[Path]) -> Counter[str]:
    """The invariants, with the logs read before the ledger: what is recorded later can only be more."""
    kinds: Counter[str] = Counter()
    true: dict[str, Fraction] = {}
    looks: set[tuple[str, str]] = set()
    for log in logs:
        for line in log.read_text().splitlines():
            kind, *fields = line.split()
            kinds[kind] += 1
            if kind == "spent":
                run, seq, amount, _ = fields
                assert (run, seq) not in looks, "the same event was paid for once and looked at twice"
                looks.add((run, seq))
                true[run] = true.get(run, Fraction(0)) + Fraction(float.fromhex(amount))
    known = set()
    for dataset in Ledger(path).datasets():
        assert dataset.committed <= Fraction(dataset.rho)
        assert Fraction(dataset.remaining) <= Fraction(dataset.rho) - dataset.committed
        counted = Fraction(0)
        for run_status in dataset.runs:
            assert true.get(run_status.id, Fraction(0)) <= run_status.spent <= Fraction(run_status.reserved)
            counted += run_status.spent if run_status.state == "closed" else Fraction(run_status.reserved)
            known.add(run_status.id)
        assert dataset.committed == counted >= sum(true.get(r.id, Fraction(0)) for r in dataset.runs)
    assert set(true) <= known
    return kinds


@pytest.mark.parametrize("kills", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_nothing_spent_is_ever_forgotten(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "budget.sqlite"
    logs = [tmp_path / f"worker{i}.log" for i in range(WORKERS)]
    errors = tmp_path / "errors"
    rng = random.Random(20240229)
    # Every third dataset has no budget of its own: the first run on it sets it.
    for number in range(400):
        if number % 3:
            Ledger(path).set_budget(f"survey {number}", rho=1.0, epsilon=10.0, delta=1e-9)

    def begin(worker: int, number: int) -> subprocess.Popen[bytes]:
        logs[worker].touch()
        command = [sys.executable, PROGRAM, "spend", str(path), str(logs[worker]), str(number)]
        with errors.open("ab") as stderr:
            return subprocess.Popen(command, env=environment(), stderr=stderr)

    def has_teeth(kinds: Counter[str]) -> bool:
        often = min(kinds["refused"], kinds["resumed"], kinds["stopped"]) > kills // 10
        return often and kinds["spent"] > 2 * kills

    processes = [begin(i, 0) for i in range(WORKERS)]
    try:
        for kill in range(4 * kills):
            # On a machine that happens to be fast or slow, something may have been rare: then it goes on.
            if kill >= kills and kill % 10 == 0 and has_teeth(check(path, logs)):
                break
            time.sleep(rng.uniform(0.03, 0.13))
            victim = rng.randrange(WORKERS)
            assert processes[victim].poll() is None, errors.read_text()
            processes[victim].kill()
            assert processes[victim].wait() == -9
            processes[victim] = begin(victim, kill // 4)
            if kill % 10 == 0:
                check(path, logs)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    kinds = check(path, logs)
    assert errors.read_text() == ""
    # The test has teeth only if all of this happened.
    assert has_teeth(kinds), kinds
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_the_last_budget_has_one_winner(tmp_path: Path) -> None:
    command = [sys.executable, PROGRAM, "race"]
    racers = [
        subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for round_ in range(50):
            # In turn: room for one of two, a dataset nobody knows, a file that does not exist yet.
            path = tmp_path / (f"budget{round_}.sqlite" if round_ % 3 == 2 else "budget.sqlite")
            dataset = f"survey {round_}"
            if round_ % 3 == 0:
                Ledger(path).set_budget(dataset, rho=1.0, epsilon=10.0, delta=1e-9)
            instant = time.time() + 0.02
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(f"{path}\t{dataset}\t{instant!r}\n")
                racer.stdin.flush()
            results = sorted(racer.stdout.readline() for racer in racers if racer.stdout is not None)
            assert results == ["lost\n", "won\n"]
            (status,) = [d for d in Ledger(path).datasets() if d.name == dataset]
            assert len(status.runs) == 1
            assert status.committed == Fraction(0.6)
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_budget_and_its_history_are_changed_together(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "budget.sqlite"
    rng = random.Random(3)
    for _ in range(kills):
        with subprocess.Popen([sys.executable, PROGRAM, "budgets", str(path)], env=environment()) as process:
            end = time.monotonic() + 20
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.1, 0.3))
            process.kill()
        (dataset,) = Ledger(path).datasets()
        last = dataset.changes[-1]
        assert (last.rho, last.epsilon, last.delta) == (dataset.rho, dataset.epsilon, dataset.delta)
        for before, after in itertools.pairwise(dataset.changes):
            assert after.before == (before.rho, before.epsilon, before.delta)
    assert len(dataset.changes) > kills


@pytest.mark.parametrize("kills", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_however_often_it_is_killed_and_copied_each_outcome_is_one(tmp_path: Path, kills: int) -> None:
    """kill -9 at random instants; between them copies of the journal are put back, which must not show another draw."""
    ledger, journal, log = tmp_path / "budget.sqlite", tmp_path / "out.journal", tmp_path / "log"
    events = 10 * kills
    command = [sys.executable, PROGRAM, "draw", str(ledger), str(journal), str(log), str(events)]
    rng = random.Random(7)
    copies: list[bytes] = []
    log.touch()
    for _ in range(kills):
        seen = log.read_text().count("\n")
        with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
            end = time.monotonic() + 30
            while log.read_text().count("\n") <= seen and process.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.15))
            copies.append(journal.read_bytes())
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
            assert process.stderr is not None
            assert process.stderr.read() == b""
        # An earlier state is put back: the next process resumes from it only if it is the last one still.
        real = journal.read_bytes()
        older = [copy for copy in copies if copy != real]
        if older and rng.random() < 0.5:
            journal.write_bytes(rng.choice(older))
            if subprocess.run(command, env=environment(), timeout=60, check=False).returncode == 3:
                journal.write_bytes(real)
    ended = subprocess.run(command, env=environment(), timeout=120, check=False)
    assert ended.returncode == 0
    values: dict[str, set[str]] = {}
    lines = log.read_text().splitlines()
    for kind, *fields in map(str.split, lines):
        if kind == "seen":
            values.setdefault(fields[0], set()).add(fields[1])
    assert len(values) == events
    assert {len(v) for v in values.values()} == {1}
    assert kills < 100 or lines.count("refused") > kills // 10
    (dataset,) = Ledger(ledger).datasets()
    assert dataset.runs[0].events == events and dataset.runs[0].resumed > kills // 2
