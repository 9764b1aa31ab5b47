"""Small questions to a private table, apart from a release: one run in the ledger, one curator, one certificate."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from openprior.errors import LedgerError, SourceError
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.ledger import Ledger
from openprior.privacy.run import Budget, open_run
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Marginal
from openprior.releases.certificate import Certificate, certify
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source

__all__ = ["Inquiry", "inquire"]


@dataclass(eq=False)
class Inquiry:
    """The curator to ask, and when all is asked the certificate of what it cost."""

    curator: Curator
    certificate: Certificate | None = None

    @property
    def proof(self) -> Certificate:
        """The certificate, once it is there."""
        assert self.certificate is not None
        return self.certificate


@contextlib.contextmanager
def inquire(
    private: Any,
    schema: Schema,
    *,
    what: str,
    epsilon: float,
    delta: float,
    options: Mapping[str, object],
    marginals: Iterable[Marginal],
    relation: str = "replace-one",
    ledger: str | Path | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
) -> Iterator[Inquiry]:
    """Reserve (ε, δ) for the table and open a curator; certify at the end. What is not spent goes back.

    `marginals` will be looked at: they are counted before anything is charged, so that a table that does not fit its
    schema costs nothing. With a ledger, the dataset must have a budget: that of a small question should not become
    the budget of the release to come.
    """
    rho = budget_rho(epsilon, delta)
    source = open_source(private)
    unit = Unit(cast("Relation", relation), schema.max_rows_per_person if schema.person_id else 1)
    encoder = Encoder(schema, source, private=True, levels=True)
    details = {
        "mechanism": what,
        "options": dict(options),
        "schema": schema.hash,
        "relation": str(unit.relation),
        "seed": seed,
    }
    budget = Budget(name=dataset or source.name, epsilon=epsilon, delta=delta, rho=rho, details=details)
    _check_budget(ledger, budget.name)
    with open_run(ledger, budget, seed=seed) as (account, _, noise):
        vault = Vault(encoder, on_rows=_refuse_empty if unit.n_is_public else None)
        asked = Inquiry(Curator(vault, unit=unit, noise=noise, account=account))
        asked.curator.announce(marginals)
        asked.curator.look_ahead()
        yield asked
        asked.certificate = certify(
            account, unit, budget, schema.hash, what, options, is_private=noise.is_private
        )


def _check_budget(ledger: str | Path | Ledger | None, name: str) -> None:
    if ledger is None:
        return
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if name not in {d.name for d in book.datasets()}:
        raise LedgerError(
            f"dataset '{name}' has no budget in this ledger yet; set one for all that is to come with "
            f"'openprior ledger budget FILE {name} --epsilon … --delta …', or name another with --dataset"
        )


def _refuse_empty(n: int) -> None:
    if n == 0:
        raise SourceError("the private table is empty; there is nothing to ask of it")
