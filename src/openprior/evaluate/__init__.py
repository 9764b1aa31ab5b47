"""How good a release is, measured against the private table: NOT PRIVATE, and says so; or privately, for an extra ε."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from openprior.data.schema import Schema
    from openprior.evaluate.groups import GroupErrors
    from openprior.evaluate.metrics import Evaluation
    from openprior.evaluate.private import ErrorEstimate
    from openprior.evaluate.quality import Quality
    from openprior.privacy.ledger import Ledger
    from openprior.workload import Workload, WorkloadPlan

__all__ = ["estimate_error", "evaluate", "evaluate_groups", "evaluate_quality"]


def evaluate(
    release: Any,
    private: Any,
    *,
    workload: "WorkloadPlan | Workload | None" = None,
    of: str = "synthetic",
    schema: "Schema | None" = None,
) -> "Evaluation":
    """Compare a release, or plain rows, with the private table. NOT PRIVATE: do not publish it.

    of        "synthetic": the released rows; "answers": the model's own answers
    schema    of plain rows; drafted from them if not given
    """
    from openprior.evaluate.metrics import compare

    return compare(release, private, workload=workload, of=of, schema=schema)


def evaluate_groups(
    release: Any,
    private: Any,
    keys: "Sequence[str]",
    *,
    schema: "Schema | None" = None,
    marginals: int | None = 50,
    seed: int = 0,
    penalty: int = 250,
) -> "GroupErrors":
    """Compare a release, or plain rows, with the private table group by group. NOT PRIVATE: do not publish it.

    keys        columns whose combinations are the groups, such as ["PUMA", "YEAR"]
    marginals   random two-way marginals a group, drawn with `seed`; all of them if None
    penalty     a group whose number of rows is off by this much or more has the worst error, 2
    """
    from openprior.evaluate.groups import compare_groups

    return compare_groups(
        release, private, keys, schema=schema, marginals=marginals, seed=seed, penalty=penalty
    )


def evaluate_quality(
    release: Any,
    private: Any,
    *,
    target: str | None = None,
    schema: "Schema | None" = None,
    seed: int = 0,
) -> "Quality":
    """Many measures of released rows against the private table. NOT PRIVATE: do not publish it.

    NIST's k-marginal score, total variation, associations, a classifier that tells released rows from private ones,
    copies of unique private rows, and with `target` how well a model trained on released rows predicts that column of
    private ones.
    """
    from openprior.evaluate.metrics import tables_of
    from openprior.evaluate.quality import quality_of

    released, truth, schema = tables_of(release, private, schema)
    return quality_of(released, truth, schema, target=target, seed=seed)


def estimate_error(
    release: Any,
    private: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    workload: "WorkloadPlan | Workload | None" = None,
    of: str = "synthetic",
    ledger: "str | Path | Ledger | None" = None,
    dataset: str | None = None,
    seed: int | None = None,
) -> "ErrorEstimate":
    """The workload error of a release, measured privately for (ε, δ) beside the release's own: it may be published.

    of        "synthetic": the released rows; "answers": the model's own answers
    ledger    file that keeps the dataset's budget; `dataset` is its name there, the release's own if not given
    seed      given: repeatable noise for an experiment, NOT PRIVATE
    """
    from openprior.evaluate.private import estimate_error

    return estimate_error(
        release,
        private,
        epsilon=epsilon,
        delta=delta,
        workload=workload,
        of=of,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
    )
