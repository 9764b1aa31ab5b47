"""The program of the processes that share a ledger in `test_ledger_kill.py`.

It imports nothing heavy, as it starts hundreds of times.
"""

import os
import random
import sys
import time
from pathlib import Path

from openprior.errors import BudgetExceeded, LedgerError
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


if __name__ == "__main__":
    if sys.argv[1] == "spend":
        spend(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        race()
