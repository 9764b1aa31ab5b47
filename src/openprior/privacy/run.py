"""One run: a reserved budget, a journal, and what becomes of them when the run ends or breaks.

The whole ρ is reserved in the ledger before a private row is read. When the run ends, what it did not spend goes
back to the dataset. When it breaks, its journal stays beside the output folder and the reservation stands, so that
it can be resumed without paying twice; a run that cannot be resumed, or has not spent anything, is closed.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openprior.errors import LedgerError, OpenPriorError, OptionError, ReleaseError
from openprior.privacy.account import Account
from openprior.privacy.journal import Journal, NoJournal
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import Noise, SecureNoise, SeededNoise

__all__ = ["Budget", "open_run"]


@dataclass(frozen=True)
class Budget:
    """What a run may spend, on which dataset, and what for."""

    name: str
    epsilon: float
    delta: float
    rho: float
    details: Mapping[str, object]


@contextlib.contextmanager
def open_run(
    ledger: Ledger | str | Path | None,
    budget: Budget,
    *,
    out: Path | None = None,
    seed: int | None = None,
    resume: bool = False,
) -> Iterator[tuple[Account, int, Noise]]:
    """Reserve the budget; gives the account, the seed of all public randomness, and the noise."""
    if seed is not None and seed < 0:
        raise OptionError(f"seed ({seed}) must be a whole number of at least 0")
    noise: Noise = SecureNoise() if seed is None else SeededNoise(np.random.SeedSequence([seed, 1]))
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    public_seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
    journal, run, public_seed = _begin(book, budget, out, public_seed, resume)
    account = Account(book, run, rho=budget.rho, epsilon=budget.epsilon, delta=budget.delta, journal=journal)
    try:
        yield account, public_seed, noise
    except BaseException as error:
        if out is not None and (resume or _has_charges(book, run)):
            journal.close()
            if isinstance(error, OpenPriorError):
                error.add_note("the run can be continued without paying again: repeat it with --resume")
            raise
        # What stopped the run matters more than a ledger that cannot be written just now: then the reservation stands.
        with contextlib.suppress(LedgerError):
            book.close(run)
            journal.remove()
        raise
    book.close(run)
    journal.remove()


def _has_charges(book: Ledger, run: str) -> bool:
    """Asks the ledger, not the account: an interrupt may come between the two. Where it cannot tell, yes."""
    try:
        return book.spent(run) > 0
    except LedgerError:
        return True


def _begin(
    book: Ledger, budget: Budget, out: Path | None, public_seed: int, resume: bool
) -> tuple[Journal | NoJournal, str, int]:
    if out is None:
        if resume:
            raise OptionError("only a run with an output folder can be resumed; give out=")
        return NoJournal(), _reserve(book, budget), public_seed
    path = out.with_name(out.name + ".journal")
    if resume:
        return _continue(book, budget, path)
    if path.exists():
        raise ReleaseError(
            f"{path.name} is left from an unfinished run: repeat its command with --resume to continue it without "
            "paying again, or delete that file to start anew"
        )
    run = _reserve(book, budget)
    try:
        header = {**_request(budget), "run": run, "public_seed": public_seed}
        return Journal.create(path, header), run, public_seed
    except BaseException:
        book.close(run)
        raise


def _continue(book: Ledger, budget: Budget, path: Path) -> tuple[Journal, str, int]:
    if not path.exists():
        raise OptionError(f"there is no unfinished run to resume: {path.name} does not exist")
    journal = Journal.open(path)
    known = dict(journal.header)
    run, public_seed = str(known.pop("run")), int(str(known.pop("public_seed")))
    if known != json.loads(json.dumps(_request(budget))):
        journal.close()
        raise OptionError(f"{path.name} belongs to a run with other options; repeat those to resume it")
    try:
        book.resume_run(run)
    except LedgerError:
        journal.close()
        raise
    return journal, run, public_seed


def _reserve(book: Ledger, budget: Budget) -> str:
    return book.open_run(
        budget.name, rho=budget.rho, epsilon=budget.epsilon, delta=budget.delta, details=budget.details
    )


def _request(budget: Budget) -> dict[str, object]:
    return {**budget.details, "dataset": budget.name, "epsilon": budget.epsilon, "delta": budget.delta}
