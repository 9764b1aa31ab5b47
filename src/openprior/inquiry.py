"""Small questions to a private table, apart from a release: one run in the ledger, one curator, one certificate."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from openprior.certificate import Certificate, certify
from openprior.data.encode import Encoder
from openprior.data.schema import Schema
from openprior.data.source import open_source
from openprior.errors import SourceError
from openprior.privacy.curator import Curator
from openprior.privacy.ledger import Ledger
from openprior.privacy.run import Budget, budget_rho, open_run
from openprior.privacy.units import Relation, Unit
from openprior.privacy.vault import Vault

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
    relation: str = "replace-one",
    ledger: str | Path | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
) -> Iterator[Inquiry]:
    """Reserve (ε, δ) for the table and open a curator; certify at the end. What is not spent goes back."""
    rho = budget_rho(epsilon, delta)
    source = open_source(private)
    unit = Unit(cast("Relation", relation), schema.max_rows_per_person if schema.person_id else 1)
    encoder = Encoder(schema, source, private=True, levels=True)
    details = {"mechanism": what, "options": dict(options), "schema": schema.hash, "seed": seed}
    budget = Budget(name=dataset or source.name, epsilon=epsilon, delta=delta, rho=rho, details=details)
    with open_run(ledger, budget, seed=seed) as (account, _, noise):
        vault = Vault(encoder, on_rows=_refuse_empty if unit.n_is_public else None)
        asked = Inquiry(Curator(vault, unit=unit, noise=noise, account=account))
        yield asked
        asked.certificate = certify(
            account, unit, budget, schema.hash, what, options, is_private=noise.is_private
        )


def _refuse_empty(n: int) -> None:
    if n == 0:
        raise SourceError("the private table is empty; there is nothing to ask of it")
