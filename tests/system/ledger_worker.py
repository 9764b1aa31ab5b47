"""The programs of the processes that are killed in `test_ledger_kill.py`.

They import nothing heavy, as they start hundreds of times.
"""

import os
import random
import sys
import time
from pathlib import Path

from openprior.errors import BudgetExceeded, LedgerError, PrivacyError
from openprior.privacy.ledger import Ledger


def amount_of(run: str, seq: int, reserved: float) -> float:
    """A resumed run asks for the same amounts again, as a real one does."""
    return random.Random(f"{run} {seq}").uniform(0.05, 0.5) * reserved


def spend(path: str, log: str, number: int) -> None:
    """Open runs, charge, write down what was charged, close some of the runs; for ever."""
    ledger = Ledger(path)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    rng = random.Random()

    def charge(run: str, seq: int, reserved: float) -> None:
        amount = amount_of(run, seq, reserved)
        ledger.charge(run, seq, amount, {"seq": seq})
        os.write(descriptor, f"spent {run} {seq} {amount.hex()} {reserved.hex()}\n".encode())

    spent = [line.split() for line in Path(log).read_text().splitlines() if line.startswith("spent")]
    if spent:
        _, run, last, amount, reserved = spent[-1]
        try:
            ledger.charge(run, int(last), float.fromhex(amount), {"seq": int(last)})
            os.write(descriptor, f"resumed {run}\n".encode())
            for seq in (int(last) + 1, int(last) + 2):
                charge(run, seq, float.fromhex(reserved))
        except (BudgetExceeded, LedgerError):
            os.write(descriptor, b"over\n")
    while True:
        dataset = f"survey {number}"
        reserved_now = rng.uniform(0.05, 0.3)
        try:
            run = ledger.open_run(dataset, rho=reserved_now, epsilon=1.0, delta=1e-9, details={})
        except BudgetExceeded:
            os.write(descriptor, f"refused {dataset}\n".encode())
            number += rng.random() < 0.3
            continue
        try:
            for seq in range(rng.randint(1, 6)):
                charge(run, seq, reserved_now)
        except BudgetExceeded:
            os.write(descriptor, b"stopped\n")
        if rng.random() < 0.7:
            ledger.close(run)


def race() -> None:
    """For each line `ledger dataset instant`: reserve at that instant and say who won."""
    for line in sys.stdin:
        path, dataset, instant = line.rstrip("\n").split("\t")
        ledger = Ledger(path)
        while time.time() < float(instant):
            pass
        try:
            ledger.open_run(dataset, rho=0.6, epsilon=1.0, delta=1e-9, details={})
            sys.stdout.write("won\n")
        except BudgetExceeded:
            sys.stdout.write("lost\n")
        sys.stdout.flush()


def change_budgets(path: str) -> None:
    """Raise and lower one budget; for ever."""
    ledger, rng = Ledger(path), random.Random()
    while True:
        rho = rng.uniform(0.5, 2.0)
        ledger.set_budget("survey", rho=rho, epsilon=20.0, delta=1e-9, raise_ok=True)


def draw(ledger_path: str, journal_path: str, log: str, events: int) -> None:
    """Resume a run, or begin one; write down every outcome that it is given; say at the end that it is done."""
    import secrets

    from openprior.privacy.account import Account
    from openprior.privacy.calibrate import budget_rho
    from openprior.privacy.events import Gaussian
    from openprior.privacy.journal import Journal
    from openprior.privacy.ledger import new_run
    from openprior.privacy.sealed import SealedJournal, new_token
    from openprior.privacy.statistics import Counts
    from openprior.privacy.unit import Unit

    ledger, path, rho = Ledger(ledger_path), Path(journal_path), budget_rho(1.0, 1e-6)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    header = {"run": new_run(), "token": new_token()}
    journal = Journal.open(path) if path.exists() else Journal.create(path, header)
    run, token = str(journal.header["run"]), str(journal.header["token"])
    if not ledger.knows(run):
        ledger.open_run("people", rho=rho, epsilon=1.0, delta=1e-6, details={}, run=run, token=token)
    try:
        sealed = SealedJournal.resume(journal, ledger, run)
    except PrivacyError:
        os.write(descriptor, b"refused\n")
        sys.exit(3)
    account = Account(ledger, run, rho=rho, epsilon=1.0, delta=1e-6, journal=sealed)
    for seq in range(events):
        event = Gaussian.at(Counts(("a",)), rho / (2 * events), Unit())
        outcome = account.perform(account.cost(event.rho), event, lambda: {"value": secrets.randbelow(2**60)})
        os.write(descriptor, f"seen {seq} {outcome['value']}\n".encode())
    os.write(descriptor, b"done\n")


if __name__ == "__main__":
    if sys.argv[1] == "spend":
        spend(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1] == "budgets":
        change_budgets(sys.argv[2])
    elif sys.argv[1] == "draw":
        draw(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        race()
