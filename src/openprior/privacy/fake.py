"""A curator for tests of mechanisms: the real verbs and the real accounting on a made-up table, without noise.

`FakeCurator(table)` answers exactly and selects the best candidate, so a mechanism's arithmetic can be checked by hand.
It is for tests only: what it gives is NOT PRIVATE.
"""

import pyarrow as pa

from openprior.privacy.account import Account
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import Counts, Noise
from openprior.privacy.selection import Chooser
from openprior.privacy.unit import Unit
from openprior.privacy.vault import Vault
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder, Table
from openprior.tables.source import open_source

__all__ = ["FakeCurator", "NoNoise"]


class NoNoise(Chooser):
    """Every draw comes out as if there were no noise."""

    is_private = False

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """The counts."""
        return counts.copy()

    def laplace(self, counts: Counts, scale: float) -> Counts:
        """The counts."""
        return counts.copy()

    def below(self, bound: int) -> int:
        """Zero, which selects the best candidate."""
        return 0

    def heads(self, coins: int) -> int:
        """As many as there are coins, which leaves only the best candidate of permute-and-flip."""
        return coins


class FakeCurator(Curator):
    """A curator over a table of codes, with no noise unless some is given. NOT PRIVATE."""

    __slots__ = ()

    def __init__(
        self,
        table: Table,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        unit: Unit | None = None,
        noise: Noise | None = None,
    ) -> None:
        schema = Schema.from_sizes(table.domain.sizes())
        rows = pa.table({a: table.column(a) for a in table.domain})
        rho = budget_rho(epsilon, delta)
        ledger = Ledger()
        run = ledger.open_run("test", rho=rho, epsilon=epsilon, delta=delta, details={})
        super().__init__(
            Vault(Encoder(schema, open_source(rows, schema), private=True, levels=True)),
            unit=unit or Unit(),
            noise=noise or NoNoise(),
            account=Account(ledger, run, rho=rho, epsilon=epsilon, delta=delta),
        )
