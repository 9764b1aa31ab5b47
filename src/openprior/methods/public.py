"""The public proxy: release the public table itself, rescaled. It costs nothing: the ε = 0 line of every figure."""

import numpy as np

from openprior.methods.base import Mechanism, Outlay, PublicTable, Sizes, Tell, register
from openprior.models.base import Model
from openprior.models.support import SupportModel
from openprior.privacy.curator import Curator
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["PublicProxy"]


@register("public")
class PublicProxy(Mechanism):
    """The public table, scaled to the private number of rows where that is public."""

    good_for = "the baseline: what the public table alone says; spends no budget"
    public_table = PublicTable.NEEDED
    spends = False

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """No round at all."""
        table = self.need_public(public)
        rows, counts = table.unique()
        total = float(curator.n) if curator.unit.n_is_public else float(table.n)
        return SupportModel(rows, counts.astype(np.float64), total)

    def outlay(self, sizes: Sizes) -> Outlay:
        """Sorting the public rows."""
        return Outlay(0.05 + 2e-6 * sizes.public_rows, 0.0)
