"""The workload error of a release, estimated through the curator for an extra ε: this number may be published.

The released shares q are public by now. The workload error Σ w_τ‖x_τ/n − q_τ‖₁ (weights that sum to 1) is one number,
and one person moves it by 2Δ/n at most, however many marginals there are; the largest error of any cell moves by Δ/n.
So both are had almost for nothing: at ε = 0.01 and 100,000 rows the first is off by about 0.003.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openprior.counting.cells import Cells
from openprior.display import Sheet, Shown
from openprior.evaluation.metrics import released_shares, wanted_workload
from openprior.given import text_of
from openprior.privacy.error_statistics import ScoreValue
from openprior.privacy.ledger import Ledger
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import CellScores, L1Score, SumScore
from openprior.privacy.session import Purpose, open_question
from openprior.questions.workload import WorkloadLike
from openprior.releases.certificate import Certificate, certify
from openprior.releases.folder import seal
from openprior.releases.result import Release, open_release
from openprior.report import render
from openprior.whole import appearing

__all__ = ["ErrorEstimate", "estimate_error", "reach95", "write_estimate"]


@dataclass(frozen=True, repr=False)
class ErrorEstimate(Shown):
    """Errors of a release, measured with noise; what it says is differentially private."""

    workload_error: float
    low: float
    high: float
    """95 % interval of the workload error."""
    max_error: float
    max_low: float
    max_high: float
    """95 % interval of the largest error of a cell."""
    of: str
    certificate: Certificate
    release: Certificate
    """That of the release itself."""

    @property
    def epsilon(self) -> float:
        """ε of this estimate, beside the release's own."""
        return self.certificate.epsilon

    @property
    def delta(self) -> float:
        """δ of this estimate."""
        return self.certificate.delta

    @property
    def is_private(self) -> bool:
        """Whether the noise was secure."""
        return self.certificate.is_private

    @property
    def statement(self) -> str:
        """The guarantee in plain words."""
        return self.certificate.statement

    @property
    def together(self) -> str:
        """What release and estimate promise together: their ε add up, and their δ."""
        epsilon, delta = self.epsilon + self.release.epsilon, self.delta + self.release.delta
        return f"Release and estimate together are differentially private with ε = {epsilon:g} and δ = {delta:g}."

    def sheet(self) -> Sheet:
        """Both errors with their intervals, and what is promised."""
        rows = (
            ("workload error", *(f"{v:.4f}" for v in (self.workload_error, self.low, self.high))),
            (
                "largest error of a cell",
                *(f"{v:.4f}" for v in (self.max_error, self.max_low, self.max_high)),
            ),
        )
        what = "released rows" if self.of == "synthetic" else self.of
        title = f"Errors of the {what}, measured privately for ε = {self.epsilon:g}, δ = {self.delta:g}"
        warnings = () if self.is_private else (self.certificate.noise,)
        return Sheet(title, ("", "estimate", "from", "to"), rows, (self.statement, self.together), warnings)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        names = (
            "workload_error",
            "low",
            "high",
            "max_error",
            "max_low",
            "max_high",
            "of",
            "epsilon",
            "delta",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "statement": self.statement,
            "together": self.together,
        }


def estimate_error(
    release: Any,
    private: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    workload: WorkloadLike | None = None,
    of: str = "synthetic",
    ledger: str | Path | Ledger | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    acknowledge_refusals: bool = False,
) -> ErrorEstimate:
    """The workload error of a release, measured privately for (ε, δ) beside the release's own: it may be published.

    of        "synthetic": the released rows; "answers": the model's own answers
    ledger    file that keeps the dataset's budget; `dataset` is its name there, the release's own if not given
    seed      given: repeatable noise for an experiment, NOT PRIVATE
    acknowledge_refusals   go on after the ledger has counted several refusals of this table for what is in it
    """
    opened = release if isinstance(release, Release) else open_release(release)
    named = None if dataset is None else text_of("dataset", dataset)
    work = wanted_workload(workload, opened.schema, opened)
    shares = released_shares(opened, opened.schema, work, of)
    weights = np.asarray(work.weights, dtype=np.float64) / math.fsum(work.weights)
    with open_question(
        private,
        opened.schema,
        Purpose("evaluation", {"of": of}),
        epsilon=epsilon,
        delta=delta,
        marginals=work.marginals,
        relation=opened.certificate.relation,
        ledger=ledger,
        dataset=named or opened.certificate.dataset,
        seed=seed,
        acknowledge_refusals=acknowledge_refusals,
    ) as session:
        curator = session.curator
        # Where n is private, errors are shares of the released number of rows.
        n = float(curator.n) if curator.unit.n_is_public else float(opened.row_count)
        noise = "laplace" if curator.is_pure else "gaussian"
        total = SumScore(
            tuple(
                L1Score(m, ((1.0, shares[m] * n),), weight=float(w))
                for m, w in zip(work.marginals, weights, strict=True)
                if w > 0
            )
        )
        # References are rounded to 1/1024 row per cell, answers to quarters of one, and scores to steps.
        rough = max(len(shares[m]) for m in work.marginals) / 2048 + 0.01
        cells = Cells(opened.schema.domain, work.marginals)
        answers = np.concatenate([shares[m] * n for m in work.marginals])
        largest = CellScores(cells, np.arange(len(cells)), answers)
        half, rest = curator.shares([1, 1])
        first = curator.measure(ScoreValue.of(total), half, noise=noise)
        second = curator.measure(ScoreValue.of(largest), min(rest, curator.remaining), noise=noise)
        certificate = certify(session)
    # Where n is private, a share of the released rows may be above what a share of the table can be.
    top = 1.0 if curator.unit.n_is_public else math.inf
    return ErrorEstimate(
        *_interval(first, n, rough=rough, most=2 * top),
        *_interval(second, n, rough=0.375, most=top),
        of=of,
        certificate=certificate,
        release=opened.certificate,
    )


def write_estimate(estimate: ErrorEstimate, release: Release, folder: Path) -> None:
    """A folder with the estimate, its own certificate, and the release's report with the estimate in it."""
    with appearing(folder) as draft:
        text = json.dumps(estimate.as_dict(), indent=1, ensure_ascii=False)
        (draft / "estimate.json").write_text(text, encoding="utf-8")
        (draft / "report.html").write_text(render(release, estimate=estimate), encoding="utf-8")
        seal(draft, estimate.certificate)


def reach95(measured: Measurement) -> float:
    """How far the noise reaches in 95 of 100 draws: its exact quantile.

    >>> round(reach95(Measurement.of(("a",), np.zeros(1), 1.0)), 3)
    1.96
    """
    factor = math.log(20) / math.sqrt(2) if measured.noise == "laplace" else 1.959963984540054
    return factor * measured.sigma


def _interval(measured: Measurement, n: float, *, rough: float, most: float) -> tuple[float, float, float]:
    """The estimate and its interval, as shares and within what is possible; `rough` rows for rounding."""
    value, reach = float(measured.values[0]) / n, (reach95(measured) + rough) / n
    low, middle, high = (min(max(v, 0.0), most) for v in (value - reach, value, value + reach))
    return middle, low, high
