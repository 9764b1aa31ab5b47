"""How good a release is, measured against the private table: NOT PRIVATE, and says so."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openprior.data.schema import Schema
    from openprior.evaluate.groups import GroupErrors
    from openprior.evaluate.metrics import Evaluation
    from openprior.workload import Workload, WorkloadPlan

__all__ = ["evaluate", "evaluate_groups"]


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
