"""One session with a private table: from the source to the curator.

Everything that looks at a private table goes through here, a release as well as a small question: the source is
opened, the unit derived, the schema checked, and the budget reserved (run.py) before a private row is read. What can
be refused is refused before that. The table is read once before the first charge, so that one that does not fit costs
no ρ; that it was refused is counted in the ledger before anybody is told (ledger_refusals.py).
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import LedgerError, SourceError
from openprior.given import flag, text_of, whole_number
from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho, plain_number
from openprior.privacy.cautions import as_remark, caution, few_rows, large_epsilon
from openprior.privacy.curator import Curator
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import Noise, SecureNoise, SeededNoise
from openprior.privacy.refusal import Refusal, counted
from openprior.privacy.run import Budget, open_run
from openprior.privacy.unit import Unit
from openprior.privacy.vault import Vault
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder
from openprior.tables.same import check_codes, check_rows
from openprior.tables.source import Source, open_source
from openprior.tables.table import Table

__all__ = ["Purpose", "Session", "open_question", "open_session", "request_of"]

RowCheck = Callable[[int], None]
"""Told the number of rows, where it is public, before anything is charged; may refuse the table by raising."""


@dataclass(frozen=True)
class Purpose:
    """What a session is for: a mechanism or a question by name, its options, and what else tells two runs apart."""

    name: str
    options: Mapping[str, Any]
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Session:
    """An open session: the curator to ask, and all that a certificate has to say."""

    curator: Curator
    unit: Unit
    schema: Schema
    purpose: Purpose
    budget: Budget
    account: Account
    is_private: bool
    """Whether the noise is secure."""
    public_seed: int
    """Of all randomness that touches no private data."""


@contextlib.contextmanager
def open_session(
    private: Any,
    schema: Schema,
    purpose: Purpose,
    *,
    epsilon: float,
    delta: float,
    relation: str = "replace-one",
    marginals: Iterable[Marginal] = (),
    on_rows: RowCheck | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    out: Path | None = None,
    resume: bool = False,
    seed: int | None = None,
    show_private: bool = False,
    acknowledge_refusals: bool = False,
    publics: Sequence[Source] = (),
    public_codes: Table | None = None,
) -> Iterator[Session]:
    """Reserve (ε, δ) for the table and open a curator on it; give back what was not spent.

    If one of the `publics` has the rows of the private table, that is refused, and so if the `public_codes` have, where
    only the codes of public rows are left. `marginals` are counted in the first
    pass. With `out`, a broken run keeps its journal beside that folder and can be resumed; a ledger in memory forgets
    its runs with the process, so there is nothing to resume then.
    """
    epsilon, delta = plain_number("epsilon", epsilon), plain_number("delta", delta)
    rho = budget_rho(epsilon, delta)
    for option, value in (("show_private", show_private), ("acknowledge_refusals", acknowledge_refusals)):
        flag(option, value)
    caution(large_epsilon(epsilon))
    unit = Unit.of(schema, relation)
    source = open_source(private, schema)
    caution(mixing := getattr(source, "caution", None))
    encoder = Encoder(schema, source, private=True, show_private=show_private, levels=True)
    if seed is not None:
        seed = whole_number("seed", seed, 0)
    noise: Noise = SecureNoise() if seed is None else SeededNoise(np.random.SeedSequence([seed, 1]))
    # To be resumed a run must be the same again: above all, one that drew seeded noise must not end as a private one.
    details = {**request_of(purpose, schema, unit), "seed": seed}
    budget = Budget(_name(dataset, source), epsilon, delta, rho, details)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    vault = Vault(encoder)
    # With a person id, rows above the limit are read and not counted: how many there are is nobody's business.
    vault.tells_rows = unit.n_is_public and schema.person_id is None
    vault.announce(marginals)
    with open_run(
        book,
        budget,
        out=out if ledger is not None else None,
        seed=seed,
        resume=resume,
        acknowledge_refusals=acknowledge_refusals,
    ) as (account, public_seed):

        def check_table(rows: int, marginals: list[Marginal], counts: NDArray[np.int64]) -> None:
            if on_rows is not None and unit.n_is_public:
                on_rows(rows)
            account.confirm_table(lambda: _facts(source, rows, marginals, counts))

        vault.on_first_pass = check_table
        refusal = vault.on_refusal = account.on_refusal = Refusal(book, budget.dataset)
        if publics or public_codes is not None:
            with phase("comparing the private table with the public one"):
                counted(lambda: check_rows(source, publics, schema.reads, schema.reading), refusal)
                if public_codes is not None:
                    counted(lambda: check_codes(encoder, public_codes), refusal)
        curator = Curator(vault, unit=unit, noise=noise, account=account)
        for words in (large_epsilon(epsilon), mixing):
            if words is not None:
                curator.remark(as_remark(words))
        account.before_first = curator.look_ahead
        yield Session(curator, unit, schema, purpose, budget, account, noise.is_private, public_seed)


def request_of(purpose: Purpose, schema: Schema, unit: Unit) -> dict[str, object]:
    """What is asked, as ledger and journal write it down; beside it stand the dataset, ε, δ and the seed."""
    return {
        "mechanism": purpose.name,
        "options": dict(purpose.options),
        "schema": schema.hash,
        **purpose.more,
        "unit": {
            "person": schema.person_id,  # None: every row is one
            "rows_per_person": unit.rows_per_person,
            "relation": str(unit.relation),
        },
    }


def _facts(
    source: Source, rows: int, marginals: list[Marginal], counts: NDArray[np.int64]
) -> Iterator[bytes | memoryview]:
    """What tells a private table from another: its columns, its number of rows, and all that the first pass counted."""
    yield json.dumps([list(source.columns), rows, marginals]).encode()
    yield np.ascontiguousarray(counts).data


@contextlib.contextmanager
def open_question(
    private: Any,
    schema: Schema,
    purpose: Purpose,
    *,
    epsilon: float,
    delta: float,
    marginals: Iterable[Marginal],
    relation: str = "replace-one",
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    acknowledge_refusals: bool = False,
    publics: Sequence[Source] = (),
) -> Iterator[Session]:
    """A session for a small question, apart from a release.

    With a ledger, the dataset must have a budget there: that of a small question must not become the budget of the
    release to come.
    """
    source = open_source(private, schema)
    book = _book_with(ledger, _name(dataset, source))
    with open_session(
        source,
        schema,
        purpose,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        marginals=marginals,
        on_rows=_check_rows,
        ledger=book,
        dataset=dataset,
        seed=seed,
        acknowledge_refusals=acknowledge_refusals,
        publics=publics,
    ) as session:
        yield session


def _name(dataset: str | None, source: Source) -> str:
    """The private table's name in the ledger: as it was given, or that of its file."""
    return source.name if dataset is None else text_of("dataset", dataset) or source.name


def _book_with(ledger: Ledger | str | Path | None, dataset: str) -> Ledger | None:
    """The ledger, which must be there and know the dataset; a path that is mistyped must not become a new ledger."""
    if ledger is None:
        return None
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if not book.exists:
        raise LedgerError(
            f"there is no ledger {book.name}; check the name, or make one with 'openprior ledger budget'"
        )
    # A budget that nobody stated, and that a release which spent nothing has left, is none.
    if dataset not in {d.name for d in book.datasets() if d.stated or d.committed > 0}:
        raise LedgerError(
            f"dataset '{dataset}' has no budget in this ledger yet; set one for all that is to come with "
            f"'openprior ledger budget FILE {dataset} --epsilon … --delta …', or name another with --dataset"
        )
    return book


def _check_rows(n: int) -> None:
    if n == 0:
        raise SourceError("the private table is empty; there is nothing to ask of it")
    caution(few_rows(n))
