"""How good a release is, measured against the private table: NOT PRIVATE, and says so."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openprior.data.schema import Schema
    from openprior.evaluate.metrics import Evaluation
    from openprior.workload import Workload, WorkloadPlan

__all__ = ["evaluate"]


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
