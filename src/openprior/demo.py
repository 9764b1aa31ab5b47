"""The demo: release a simulated survey with last year's as prior knowledge, and compare methods on it.

The population is invented and needs no download, so here the truth may be looked at: the comparison is what a
steward could not see of a real table.
"""

import time
from pathlib import Path
from typing import Any

from openprior.data.schema import Schema
from openprior.data.simulate import demo_surveys
from openprior.errors import OptionError
from openprior.evaluate import evaluate
from openprior.mechanisms.base import Mechanism, Progress
from openprior.mechanisms.public import PublicProxy
from openprior.mechanisms.tilt import Tilt
from openprior.release import release
from openprior.workload import all_marginals

__all__ = ["run_demo"]

_DELTA = 1e-9


def run_demo(
    out: str | Path, *, epsilon: float, rows: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Release the second survey into `out` with Tilt; returns its errors beside those of either survey alone."""
    if rows < 500:
        raise OptionError(f"rows ({rows}) must be at least 500, or the two surveys have too little in common")
    public, private = demo_surveys(rows_public=rows, rows_private=rows)
    schema = Schema.draft(public)
    methods: list[tuple[str, Mechanism, Any, Path | None]] = [
        ("last year's survey", PublicProxy(), public, None),
        ("this year's, privately", Tilt(), None, None),
        ("both", Tilt(), public, Path(out)),
    ]
    compared = []
    for uses, mechanism, prior, folder in methods:
        begin = time.perf_counter()
        made = release(
            private,
            prior,
            schema=schema,
            workload=all_marginals(3),
            epsilon=epsilon,
            delta=_DELTA,
            mechanism=mechanism,
            out=folder,
            dataset="demo survey 2024",
            progress=progress,
        )
        seconds = time.perf_counter() - begin
        found = evaluate(made, private)
        compared.append(
            {
                "name": mechanism.name,
                "uses": uses,
                "workload_error": found.workload_error,
                "max_error": found.max_error,
                "seconds": seconds,
            }
        )
    return {"out": str(out), "epsilon": epsilon, "delta": _DELTA, "rows": rows, "methods": compared}
