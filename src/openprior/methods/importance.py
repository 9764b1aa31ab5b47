"""Importance weights (after Ji & Elkan 2013): public rows, weighted by how private they look.

A logistic regression tells private rows from public ones; its coefficients are measured once, with the whole budget
(`privacy/regression.py` has the function, and the proof), and a public row x gets the weight e^(β̃·φ(x)). Only the
differences of one-way kind are learnt: one factor per value of each column, on the public table's own dependences.

Published for pure ε-DP, the noise has the density ∝ exp(−ε‖b‖₂/Δ₂), for which there is no exact sampler here; `laplace`
adds independent discrete Laplace noise for Δ₁ ≤ √k·Δ₂ instead, whose error in L2 is about √2 times as large.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from openprior.errors import OpenPriorWarning, PrivacyError
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    one_of,
    option,
    register,
)
from openprior.models.base import Model
from openprior.models.support import SupportModel
from openprior.privacy.calibrate import gaussian_sigma_squared, laplace_scale
from openprior.privacy.curator import Curator
from openprior.privacy.regression import LEAST, MOST, MembershipRegression, check_exactness, iterations
from openprior.privacy.unit import Unit
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["ImportanceWeights"]

GRID = (0.005, 0.01, 0.025, 0.05, 0.1, 0.5)
"""The regularisations of the papers' comparisons."""
_TOLERATED = 0.1
"""Standard deviation that noise may give to the logarithm of a row's weight. On ADULT at ε from 0.1 to 1 the best
of the grid has 0.04 with a public sample of the same population, 0.1 or more with a biased one; 0.1 costs the former
at most 4 %."""
_TOO_MUCH = 0.5
"""Of the same: from here on, the weights are more noise than anything else, and that is said."""


@register("importance")
class ImportanceWeights(Mechanism):
    """Weight public rows by how private they look."""

    good_for = "a baseline: corrects the one-way shares of a good public table in a single step"
    public_table = PublicTable.NEEDED
    needs_public_n: ClassVar[bool] = True
    pure_options: ClassVar[Mapping[str, Any]] = {"noise": "laplace"}

    regularisation: float | None = option(
        default=None,
        doc="λ of the regression: less learns more, with noise in proportion to 1/λ; if not given, the least of the "
        "published ones (0.005 to 0.5) that the noise allows",
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace; laplace for δ = 0")

    def __post_init__(self) -> None:
        check(
            self.regularisation is None or LEAST <= self.regularisation <= MOST,
            f"regularisation ({self.regularisation}) must lie between {LEAST} and {MOST:g}",
        )
        one_of("noise", self.noise, ("gaussian", "laplace"))

    @property
    def is_pure(self) -> bool:
        """With Laplace noise."""
        return self.noise == "laplace"

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """One measurement, and a weight per public row."""
        table = self.need_public(public)
        self.check_unit(curator.unit)
        k, rho = sum(table.domain.shape), curator.remaining
        chosen = self.regularisation or self._least(k, curator.n, rho, curator.unit, curator.is_pure)
        check_exactness(curator.n, table.n, len(table.domain), chosen)
        measured = curator.measure(MembershipRegression.of(table, chosen), rho, noise=self.noise)
        curator.remark(_words(chosen, measured.sigma))
        if measured.sigma > _TOO_MUCH:
            warnings.warn(
                f"Noise alone changes the logarithm of a row's weight by {measured.sigma:.2g} (standard deviation). "
                "Use a larger regularisation, or a larger budget.",
                OpenPriorWarning,
                2,
            )
        rows, counts = table.unique()
        logs = log_ratios(rows, measured.values)
        return SupportModel(rows, counts * np.exp(logs - logs.max()), float(curator.n))

    def _least(self, coefficients: int, n: int, rho: float, unit: Unit, pure: bool) -> float:
        """The least λ of the grid at which noise moves a row's logarithm by no more than it should; sizes alone decide.

        ‖φ‖ = 1, so the noise in β̃·φ(x) has the standard deviation of one coefficient's.
        """
        for regularisation in GRID:
            regression = MembershipRegression(coefficients, regularisation)
            moved = regression.sensitivity(unit)
            steps = (
                math.sqrt(gaussian_sigma_squared(moved.l2_squared, rho))
                if self.noise == "gaussian"
                else math.sqrt(2) * laplace_scale(moved.l1, moved.l1 if pure else moved.largest, rho)
            )
            if regression.in_units(steps, unit, lambda: n) <= _TOLERATED:
                return regularisation
        return GRID[-1]

    def outlay(self, sizes: Sizes) -> Outlay | None:
        """Passes over the distinct rows of both tables: how many there are, the regularisation says."""
        k = sum(sizes.layout.domain.shape)
        chosen = self.regularisation or self._least(k, sizes.rows, sizes.rho, Unit(), sizes.delta == 0)
        try:
            check_exactness(sizes.rows, sizes.public_rows, sizes.columns, chosen)
        except PrivacyError:
            return None
        values = (sizes.rows + sizes.public_rows) * sizes.columns
        passes = iterations(sizes.rows, chosen)
        return Outlay(0.05 + 1.2e-9 * passes * values + 4e-8 * values, 7e-6 * values)


def _words(regularisation: float, sigma: float) -> str:
    """What the weights rest on; sizes and budget alone decide these numbers."""
    return (
        f"Public rows are weighted by one factor per value, from a regression with λ = {regularisation:g}. Noise alone "
        f"changes the logarithm of a row's weight by {sigma:.2g} (standard deviation). How columns hang together is "
        "the public table's."
    )


def log_ratios(rows: Table, beta: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """β·φ(x) of every row: how much more frequent it is in private, as a logarithm."""
    starts = np.cumsum([0, *rows.domain.shape[:-1]])
    sums = np.zeros(rows.n)
    for start, size, column in zip(starts, rows.domain.shape, rows.columns, strict=True):
        sums += beta[start : start + size][column]
    return sums / math.sqrt(len(rows.columns))
