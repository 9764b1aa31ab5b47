"""The public proxy: release the public table itself, rescaled. It costs nothing: the ε = 0 line of every figure."""

from typing import ClassVar

import numpy as np

from openprior.methods.base import Progress, need_public, register
from openprior.models.base import Model
from openprior.models.support import SupportModel
from openprior.privacy.curator import Curator
from openprior.questions.workload import Workload
from openprior.tables.encode import Table

__all__ = ["PublicProxy"]


@register("public")
class PublicProxy:
    """The public table, scaled to the private number of rows where that is public."""

    name: ClassVar[str]
    good_for: ClassVar[str] = "the baseline: what the public table alone says; spends no budget"
    needs_public: ClassVar[bool] = True

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Model:
        """No round at all."""
        table = need_public(public, "public")
        rows, counts = table.unique()
        total = float(curator.n) if curator.unit.n_is_public else float(table.n)
        return SupportModel(rows, counts.astype(np.float64), total)
