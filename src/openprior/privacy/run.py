"""One run: a reserved budget, a journal, and what becomes of them when the run ends or breaks.

The whole ρ is reserved in the ledger before a private row is read. When the run ends, what it did not spend goes back
to the dataset. When it breaks, its journal stays beside the output folder and the reservation stands, so that it can
be resumed without paying twice; a run that cannot be resumed is closed, and one that has not charged anything is
withdrawn.
"""

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from openprior.errors import (
    JournalError,
    LedgerError,
    OpenPriorError,
    OpenPriorWarning,
    OptionError,
    ReleaseError,
)
from openprior.privacy.account import Account
from openprior.privacy.journal import Journal, NoJournal
from openprior.privacy.ledger import Ledger, new_run
from openprior.privacy.sealed import SealedJournal, new_token

__all__ = ["Budget", "finish_run", "journal_of", "open_run"]


@dataclass(frozen=True)
class Budget:
    """What a run may spend, on which dataset, and what for."""

    dataset: str
    epsilon: float
    delta: float
    rho: float
    details: Mapping[str, object]


@contextlib.contextmanager
def open_run(
    book: Ledger,
    budget: Budget,
    *,
    out: Path | None,
    seed: int | None,
    resume: bool,
    acknowledge_refusals: bool = False,
) -> Iterator[tuple[Account, int]]:
    """Reserve the budget; gives the account and the seed of all public randomness."""
    public_seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
    journal: SealedJournal | NoJournal
    if resume:
        journal, run, public_seed = _continue(book, budget, out, acknowledge_refusals)
    else:
        journal, run = _begin(book, budget, out, public_seed, acknowledge_refusals)
    account = Account(book, run, rho=budget.rho, epsilon=budget.epsilon, delta=budget.delta, journal=journal)
    try:
        yield account, public_seed
    except BaseException as error:
        if not resume and _withdrawn(book, run):
            journal.remove()
        elif out is not None:
            journal.close()
            if isinstance(error, OpenPriorError):
                error.add_note("the run can be continued without paying again: repeat it with --resume")
        else:
            # What stopped the run matters more than a ledger that cannot be written: then the reservation stands.
            with contextlib.suppress(LedgerError):
                book.close(run)
        raise
    try:
        book.close(run)
        journal.remove()
    finally:
        journal.close()


def journal_of(out: Path) -> Path:
    """The journal of a run that writes this folder: beside it."""
    return out.with_name(out.name + ".journal")


def finish_run(book: Ledger, out: Path, run: str, asked: Mapping[str, object]) -> None:
    """End a run whose folder is there already: it was stopped between the last two steps, and nothing is left to do.

    `asked` is what the caller asks for now, as far as that is known without the private table: who asks for something
    else would take the folder for its answer.
    """
    if not book.exists:
        raise LedgerError(f"there is no ledger {book.name}; give the one that the run began with")
    journal = Journal.open(journal_of(out))
    if journal.header.get("run") != run:
        journal.close()
        raise ReleaseError(
            f"{out.name} exists, and is of another run than {journal_of(out).name}; move it away to resume that run"
        )
    try:
        _check_same(journal_of(out), {key: journal.header.get(key) for key in asked}, asked)
        book.close(run)
    except OpenPriorError:
        journal.close()
        raise
    journal.remove()


def _withdrawn(book: Ledger, run: str) -> bool:
    """Asks the ledger, not the account: an interrupt may come between the two. Where it cannot tell, no."""
    try:
        return book.withdraw(run)
    except LedgerError:
        return False


def _begin(
    book: Ledger, budget: Budget, out: Path | None, public_seed: int, acknowledge_refusals: bool
) -> tuple[SealedJournal | NoJournal, str]:
    if out is not None and journal_of(out).exists():
        raise ReleaseError(
            f"{journal_of(out).name} is left from an unfinished run: repeat its command with --resume to continue it "
            "without paying again, or delete that file to start anew"
        )
    news = _news(book, budget.dataset)
    if out is None:
        run = _reserve(book, budget, None, acknowledge_refusals)
        _warn(news)
        return NoJournal(), run
    # The journal first: a run that the ledger knows has one, so that whenever it is killed it can be resumed.
    run, token = new_run(), new_token()
    header = {**_request(budget), "run": run, "token": token, "public_seed": public_seed}
    journal = Journal.create(journal_of(out), header)
    reserved = False
    try:
        _reserve(book, budget, journal, acknowledge_refusals, out)
        reserved = True
        _warn(news)
        return SealedJournal.begin(journal, book, run), run
    except BaseException as error:
        # Refused, or taken back; after an interrupt in between, the journal stays, and the run can be resumed.
        if (isinstance(error, OpenPriorError) and not reserved) or _withdrawn(book, run):
            journal.remove()
        journal.close()
        raise


def _reserve(
    book: Ledger,
    budget: Budget,
    journal: Journal | None,
    acknowledge_refusals: bool,
    out: Path | None = None,
) -> str:
    header = {} if journal is None else journal.header
    return book.open_run(
        budget.dataset,
        rho=budget.rho,
        epsilon=budget.epsilon,
        delta=budget.delta,
        # The folder's name alone: where it lies is nobody's business who reads the ledger.
        details={**budget.details, "out": None if out is None else out.name},
        run=None if journal is None else str(header["run"]),
        token=None if journal is None else str(header["token"]),
        acknowledge_refusals=acknowledge_refusals,
    )


def _continue(
    book: Ledger, budget: Budget, out: Path | None, acknowledge_refusals: bool
) -> tuple[SealedJournal, str, int]:
    if out is None:
        raise OptionError("only a run with an output folder can be resumed; give out=")
    path = journal_of(out)
    if not path.exists():
        raise OptionError(
            f"there is no unfinished run to resume: {path.name} does not exist; check the folder's name, "
            "or start without --resume (in Python resume=False)"
        )
    journal = Journal.open(path)
    try:
        known = dict(journal.header)
        run, token, public_seed = (known.pop(name, None) for name in ("run", "token", "public_seed"))
        if not (isinstance(run, str) and isinstance(token, str) and _is_seed(public_seed)):
            raise JournalError(f"{path.name} is damaged: it does not name its run; restore it, or start anew")
        _check_same(path, known, _request(budget))
        if len(journal) and not book.exists:
            raise LedgerError(f"there is no ledger {book.name}; give the one that the run began with")
        news = _news(book, budget.dataset)
        if not len(journal) and not book.knows(run):
            # It was killed before the ledger knew of it.
            _reserve(book, budget, journal, acknowledge_refusals, out)
            _warn(news)
        sealed = SealedJournal.resume(journal, book, run, acknowledge_refusals=acknowledge_refusals)
    except BaseException:
        journal.close()
        raise
    return sealed, run, public_seed


def _check_same(path: Path, known: Mapping[str, object], request: Mapping[str, object]) -> None:
    """Refuse to go on with a run that asked for something else."""
    asked = json.loads(json.dumps(request))
    others = [_WORDS.get(k, k) for k in {**known, **asked} if known.get(k) != asked.get(k)]
    if others:
        raise OptionError(
            f"{path.name} belongs to a run with another {' and another '.join(others)}; "
            "repeat what it began with to resume it"
        )


def _is_seed(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


_WORDS = {
    "options": "setting of the mechanism",
    "unit": "unit of privacy (relation, person id or rows per person)",
    "public": "public table",
}
"""What the parts of a request are called, where that is not their name."""


def _request(budget: Budget) -> dict[str, object]:
    return {**budget.details, "dataset": budget.dataset, "epsilon": budget.epsilon, "delta": budget.delta}


def _warn(news: str | None) -> None:
    if news is not None:
        warnings.warn(news, OpenPriorWarning, stacklevel=2)


def _news(book: Ledger, dataset: str) -> str | None:
    """What is likely a mistake: a ledger or a name that nobody has used before."""
    if book.in_memory:
        return None
    if not book.exists:
        return f"ledger {book.name} is new: what was spent on dataset '{dataset}' before is not counted in it"
    known = [d.name for d in book.datasets() if d.stated or d.committed > 0]
    if dataset in known:
        return None
    names = f"it has {', '.join(repr(name) for name in known)}" if known else "it has no other"
    return (
        f"dataset '{dataset}' is new in ledger {book.name} ({names}); what was spent under another name is not "
        "counted in it"
    )
