"""The demo: release a simulated survey with last year's as prior knowledge, and compare methods on it.

The population is invented and needs no download, so here the truth may be looked at: the comparison is what a
steward could not see of a real table.
"""

import time
from pathlib import Path
from typing import Any

from openprior.errors import OptionError
from openprior.evaluation.metrics import evaluate
from openprior.methods.base import Mechanism
from openprior.methods.public import PublicProxy
from openprior.methods.tilt import Tilt
from openprior.questions.workload import all_marginals
from openprior.releases.release import release
from openprior.schema.base import Schema
from openprior.tables.simulate import demo_surveys
from openprior.whole import appearing

__all__ = ["run_demo", "write_tables"]

_DELTA = 1e-9


def write_tables(folder: Path, *, rows: int) -> list[str]:
    """Write last year's survey (public) and this year's (private) as CSV files; returns their names."""
    from pyarrow import csv

    _check_rows(rows)
    tables = dict(zip(("survey-2023.csv", "survey-2024.csv"), _surveys(rows), strict=True))
    with appearing(folder.absolute()) as draft:
        for name, table in tables.items():
            csv.write_csv(table, draft / name)
    return list(tables)


def _surveys(rows: int) -> tuple[Any, Any]:
    return demo_surveys(rows_public=rows, rows_private=rows)


def _check_rows(rows: int) -> None:
    if rows < 500:
        raise OptionError(f"rows ({rows}) must be at least 500, or the two surveys have too little in common")


def run_demo(out: str | Path, *, epsilon: float, rows: int) -> dict[str, Any]:
    """Release the second survey into `out` with Tilt; returns its errors beside those of either survey alone."""
    _check_rows(rows)
    public, private = _surveys(rows)
    schema = Schema.draft(public)
    methods: list[tuple[str, Mechanism, Any, Path | None]] = [
        ("last year's survey", PublicProxy(), public, None),
        ("this year's, privately", Tilt(), None, None),
        ("both", Tilt(), public, Path(out)),
    ]
    compared = []
    for uses, mechanism, prior, folder in methods:
        begin = time.perf_counter()
        released = release(
            private,
            prior,
            schema=schema,
            workload=all_marginals(3),
            epsilon=epsilon,
            delta=_DELTA,
            mechanism=mechanism,
            out=folder,
            dataset="demo survey 2024",
            about="An invented population: this year's survey as the private table, last year's as the public one.",
        )
        seconds = time.perf_counter() - begin
        errors = evaluate(released, private)
        compared.append(
            {
                "name": mechanism.name,
                "uses": uses,
                "workload_error": errors.workload_error,
                "max_error": errors.max_error,
                "seconds": seconds,
            }
        )
    return {"out": str(out), "epsilon": epsilon, "delta": _DELTA, "rows": rows, "methods": compared}
