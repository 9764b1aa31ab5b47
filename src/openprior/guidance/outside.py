"""What falls outside the schema, asked of the private table for a share of a screening's budget.

Codes cannot tell what the schema did to make them: a column that the schema clips to one value is close to any table.
So of all columns and reasons (below or above its bounds, not listed, unreadable) the one with the most rows is
selected, and these rows are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from openprior.counting.cells import Cells
from openprior.evaluation.error_estimate import reach95
from openprior.privacy.curator import Curator
from openprior.privacy.scores import CellScores
from openprior.privacy.statistics import CellCount
from openprior.schema.fates import FATES, Fate, effect, hidden

__all__ = ["Outside", "ask_outside"]

_OUTSIDE = 0.2
"""Share of the budget that asks what falls outside the schema: half selects a column, half counts it."""
_LOSS = 0.05
"""The share of rows outside the schema from which no table may be called close."""


@dataclass(frozen=True)
class Outside:
    """What falls outside the schema, in the column where that seems to be most; measured with noise."""

    column: str
    why: str
    """below, above, not listed or unreadable."""
    effect: str
    """What the schema makes of such values."""
    share: float
    """Of the private rows, with noise."""
    low: float
    high: float
    """95 % interval of the true one."""

    @property
    def is_large(self) -> bool:
        """Whether it is beyond what noise may say, and beyond what does not matter."""
        return self.low > 0.01 and self.share >= _LOSS

    @property
    def words(self) -> str:
        """What was found."""
        between = f"95 %: {self.low:.1%} to {self.high:.1%}"
        if self.is_large:
            return (
                f"the schema cannot hold {max(self.share, 0):.1%} ({between}) of column '{self.column}': "
                f"{self.why}, {self.effect}; correct the schema first, then screen again"
            )
        if self.high - self.low > 0.4:
            return "the noise at this ε hides how much falls outside the schema; raise ε"
        return f"little seems to fall outside the schema: {between} in column '{self.column}' ({self.why})"


def ask_outside(curator: Curator, fates: Mapping[str, Fate], n: float, noise: str) -> Outside | None:
    """The column of which most rows fall outside the schema for one reason, and how many; None if none can.

    Proof: one cell of a column's fates is a count of rows, so selection and count have the sensitivities that
    `CellScores` and `CellCount` derive; both are charged. ∎
    """
    cells = Cells(curator.domain, [(fate.name,) for fate in fates.values()])
    only = np.array(
        [i * len(FATES) + why for i, fate in enumerate(fates.values()) for why in hidden(fate.of)]
    )
    if not len(only):
        return None
    choosing, counting, _ = curator.shares([_OUTSIDE / 2, _OUTSIDE / 2, 1 - _OUTSIDE])
    chosen = int(only[curator.select(CellScores(cells, only, np.zeros(len(only))), choosing)])
    fate, why = fates[list(fates)[chosen // len(FATES)]], chosen % len(FATES)
    measured = curator.measure(CellCount((fate.name,), why), counting, noise=noise)
    share, reach = float(measured.values[0]) / n, reach95(measured) / n
    low, high = (min(max(v, 0.0), 1.0) for v in (share - reach, share + reach))
    return Outside(fate.reads, FATES[why], effect(fate.of, why), share, low, high)
