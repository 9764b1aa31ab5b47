"""A regression that may be measured: what tells private rows from public ones, as one coefficient per value.

Importance weights (after Ji & Elkan 2013) ask which public rows look private. With φ(x) the one-hot code of a row over
√d, so that ‖φ‖ = 1, n private rows D and m public rows E, a logistic regression minimises

    F(β) = 1/n·Σ_D log(1 + e^(−β·φ)) + 1/m·Σ_E log(1 + e^(β·φ)) + λ/2·‖β‖²,

and e^(β·φ(x)) says how much more frequent a row is in private. What is measured is not the minimum itself but the
iterate β_K of β ← (β − 4g(β))/(1 + 4λ) from 0, with g the gradient without its λβ. K depends on n and λ alone, so
nothing about the private rows decides when to stop, and nothing has to converge for the proof to hold.

**Sensitivity.** (1) g is the gradient of a convex function whose Hessian has eigenvalues in [0, 1/2] (1/4 for each sum,
as σ′ ≤ 1/4 and ‖φ‖ = 1), so β − 4g(β) brings no two points further apart. (2) At one β a person's Δ rows change n·g by
u − v, where u and v are sums of Δ vectors σ(−β·φ)·φ: all ≥ 0 and at most 1 long. So ‖u − v‖² ≤ ‖u‖² + ‖v‖² ≤ 2Δ².
(3) The iterates on neighbours, s apart, are at most (s + 4√2Δ/n)/(1 + 4λ) apart one step later. From s = 0 on that is
never above its fixed point √2Δ/(λn), for every K. ∎ The minimum, which they converge to, has the same bound.

**Rounding.** Doubles make the gradient wrong by at most `gradient_error` in norm, whatever the rows are; each of two
neighbours then moves by 4·error a step more, which adds 2·error/λ to the fixed point. Tables so large that this is more
than 1/128 of a row's worth, which is 1/(λn), are refused. Coefficients are told in steps of 1/65536 of it: rounding
to a step moves each of k numbers by at most half a step, and so two neighbours apart by √k steps more. ∎
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from openprior.errors import PrivacyError
from openprior.privacy.statistics import Floats, Ints, Sensitivity, Statistic, Vaulted, present
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal
from openprior.schema.layout import Layout
from openprior.tables.table import Table

__all__ = ["MembershipRegression", "check_exactness", "gradient_error", "iterations"]

_STEPS = 1 << 16
"""Of a row's worth: how finely coefficients are told."""
_ALLOWED = 2.0**-8
"""Of a row's worth: the error of a gradient that the sensitivity covers; two neighbours have it twice."""
_MOST_PUBLIC = 2**40
"""Public rows: sums stay far below what 64 bits hold; `check_exactness` refuses long before."""
LEAST, MOST = 1e-3, 100.0
"""λ: below, thousands of iterations; above, nothing is learnt."""


def iterations(rows: int, regularisation: float) -> int:
    """K: so many that what is left to go, at most n/(√2·(1 + 4λ)^K) rows' worth, is a fifth of one or less.

    >>> iterations(40_000, 0.1), iterations(40_000, 0.005)
    (36, 606)
    """
    return math.ceil(math.log(4 * rows) / math.log1p(4 * regularisation))


def gradient_error(rows: int, public_rows: int, columns: int, regularisation: float) -> float:
    """How wrong, in norm, doubles can make the gradient.

    Each sum is a mean of vectors pull × φ with ‖φ‖ = 1, so it is as wrong as a pull is at most: by rounding to 2^−bits;
    by β·φ, a sum of d numbers whose sizes add up to √d·‖β‖ ≤ 2√d/λ, of which rounding takes (d + 3) times 2^−53 and σ a
    quarter; and by exp and a division, for which 2^−46 is a hundred times what they err. The rest is a few operations
    on vectors no longer than 2/λ + 8. (‖g‖ ≤ √2, so ‖β‖ ≤ √2/λ, and 2/λ with errors.)
    """
    from openprior.privacy.regression_steps import bits_for

    rounded = 2.0 ** -(bits_for(rows) + 1) + 2.0 ** -(bits_for(public_rows) + 1)
    sums = 2 * ((columns + 3) * 2.0**-54 / regularisation + 2.0**-46)
    return rounded + sums + 2.0**-49 * (1 / regularisation + 4)


def check_exactness(rows: int, public_rows: int, columns: int, regularisation: float) -> None:
    """Raise where rounding errors could be more than the sensitivity covers; from public sizes alone."""
    if not gradient_error(rows, public_rows, columns, regularisation) * rows <= _ALLOWED:
        raise PrivacyError(
            f"a regression on {rows:,} private and {public_rows:,} public rows is not exact enough for its proof; "
            "take a sample below 60 million rows of either, or a larger regularisation"
        )


@dataclass(frozen=True)
class MembershipRegression(Statistic):
    """The coefficients of a regression that tells private rows from public ones."""

    kind: ClassVar[str] = "regression"
    is_count: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = True
    fits_without_data: ClassVar[bool] = True
    coefficients: int
    """How many there are: one per value of each column."""
    regularisation: float
    """λ."""
    rows: Table | None = field(default=None, repr=False, compare=False)
    """The distinct public rows."""
    counts: Ints | None = field(default=None, repr=False, compare=False)
    """How often each occurs."""

    @staticmethod
    def of(public: Table, regularisation: float) -> "MembershipRegression":
        """Against these public rows."""
        rows, counts = public.unique()
        return MembershipRegression(sum(public.domain.shape), regularisation, rows, counts)

    def __post_init__(self) -> None:
        if not LEAST <= self.regularisation <= MOST:
            raise PrivacyError(
                f"regularisation ({self.regularisation:g}) must lie between {LEAST:g} and {MOST:g}"
            )

    @property
    def reads(self) -> tuple[Marginal, ...]:
        """No marginal: it reads whole rows, beside public ones."""
        present(self.rows, self.words)
        return ()

    @property
    def words(self) -> str:
        """What it is."""
        return f"regression of private against public rows, {self.coefficients} coefficients"

    def fitted(self, layout: Layout) -> "MembershipRegression":
        """Checked: as many coefficients as the columns have values, and public rows of these columns."""
        if self.coefficients != sum(layout.domain.shape):
            raise PrivacyError(
                f"a regression of {self.coefficients} coefficients does not fit the columns, which have "
                f"{sum(layout.domain.shape)} values; give public rows of the same columns"
            )
        if self.rows is None or self.counts is None:
            return self
        if (
            self.rows.domain != layout.domain
            or not self.rows.n
            or self.counts.shape != (self.rows.n,)
            or self.counts.dtype != np.int64
            or self.counts.min() < 1
            or self.counts.sum(dtype=np.float64) > _MOST_PUBLIC
        ):
            raise PrivacyError(
                "a regression needs public rows with the private table's columns, and a count of each"
            )
        kept = Table(self.rows.domain, tuple(frozen(column) for column in self.rows.columns))
        return replace(self, rows=kept, counts=frozen(self.counts))

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """√2·Δ rows' worth, what rounding errors add, and what rounding to steps adds; L1 is at most √k times L2.

        Proof: above; one more step covers the product that brings coefficients to steps. ∎
        """
        if not unit.n_is_public:
            raise PrivacyError(
                "importance weights divide by the number of rows, which is private here; use replace-one, not in groups"
            )
        moved = math.isqrt(2 * (_STEPS * unit.rows_per_person) ** 2) + 1
        rounded = math.isqrt(self.coefficients) + 1
        squared = (moved + 2 * int(_STEPS * _ALLOWED) + rounded + 1) ** 2
        return Sensitivity(math.isqrt(self.coefficients * squared), squared)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The iterate, in steps."""
        from openprior.privacy.regression_steps import Pull

        rows, counts = present(self.rows, self.words), present(self.counts, self.words)
        private, times = vault.whole_rows()
        n = int(times.sum())
        check_exactness(n, int(counts.sum()), len(rows.domain), self.regularisation)
        private_pull, public_pull = Pull(private, times, upwards=True), Pull(rows, counts, upwards=False)
        beta: Floats = np.zeros(self.coefficients)
        for _ in range(iterations(n, self.regularisation)):
            gradient = public_pull.mean(beta) - private_pull.mean(beta)
            beta = (beta - 4 * gradient) / (1 + 4 * self.regularisation)
        return np.rint(beta * (self.regularisation * n * _STEPS)).astype(np.int64)

    def in_units(self, numbers: Any, unit: Unit, rows: Callable[[], int]) -> Any:
        """As coefficients."""
        return numbers / (self.regularisation * rows() * _STEPS)

    def _facts(self) -> dict[str, object]:
        return {"coefficients": self.coefficients, "regularisation": self.regularisation}

    @classmethod
    def _from_facts(cls, record: Record) -> "MembershipRegression":
        return cls(record.whole("coefficients", least=1), record.number("regularisation"))
