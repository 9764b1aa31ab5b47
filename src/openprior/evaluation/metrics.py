"""Workload errors of a release against the private table. Everything here is NOT PRIVATE.

With p the private shares and q the released ones, each marginal summing to 1: the workload error is the weighted mean
over marginals of ‖p − q‖₁; max, mean and RMSE are over all queries, that is over all cells of all marginals.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OptionError, ReleaseError
from openprior.evaluation.losses import LARGE, Loss, losses_of, warning_of
from openprior.given import choice, path_of
from openprior.questions.workload import Marginal, Workload, WorkloadLike, all_marginals, workload_on
from openprior.releases.result import Release, open_release
from openprior.releases.view import counted, view_of
from openprior.report import render
from openprior.schema.base import Schema, need_schema
from openprior.tables.encode import Table, encode_table
from openprior.tables.source import open_source
from openprior.whole import write_file

__all__ = [
    "Evaluation",
    "asked_of",
    "check_place",
    "errors_of",
    "evaluate",
    "released_shares",
    "report_file",
    "wanted_workload",
    "workload_errors",
    "write_report",
    "write_text",
]

NOTICE = "NOT PRIVATE: computed from the private table; do not publish"


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """Errors against the private table. NOT PRIVATE."""

    workload_error: float
    max_error: float
    mean_error: float
    rmse: float
    of: str
    per_marginal: dict[Marginal, float] = field(repr=False)
    notice: str = NOTICE
    losses: tuple[Loss, ...] = field(default=(), repr=False)
    """What was lost of each column, raw values against raw values; empty where only codes were compared."""
    asked: frozenset[str] | None = field(default=None, repr=False)
    """The columns that the release's own workload has; None for plain rows."""

    @property
    def warning(self) -> str | None:
        """A large loss that the errors do not show; to be read before them."""
        return warning_of(self.losses, self.asked)

    @property
    def first_losses(self) -> tuple[Loss, ...]:
        """Those to show where there is little room: the three largest, and every large one."""
        return tuple(loss for place, loss in enumerate(self.losses) if place < 3 or loss.before >= LARGE)

    @property
    def per_column(self) -> dict[str, float]:
        """The mean L1 error of the marginals that have a column in them."""
        by_column: dict[str, list[float]] = {}
        for marginal, error in self.per_marginal.items():
            for name in marginal:
                by_column.setdefault(name, []).append(error)
        return {name: float(np.mean(errors)) for name, errors in by_column.items()}

    @property
    def worst(self) -> list[tuple[Marginal, float]]:
        """The marginals by L1 error, largest first."""
        return sorted(self.per_marginal.items(), key=lambda item: -item[1])

    def sheet(self) -> Sheet:
        """The errors, and the columns by error. NOT PRIVATE."""
        title = (
            f"Errors of the {'released rows' if self.of == 'synthetic' else self.of} against the private table: "
            f"workload error {self.workload_error:.6g}, "
            f"max {self.max_error:.6g}, mean {self.mean_error:.6g}, rmse {self.rmse:.6g}"
        )
        columns = sorted(self.per_column.items(), key=lambda item: -item[1])
        rows = tuple((name, f"{error:.4f}") for name, error in columns)
        worst, error = self.worst[0]
        notes = (
            f"Worst of {how_many(len(self.per_marginal), 'marginal')}: {' × '.join(worst)} ({error:.4f})",
            "L1 distances of shares: 0 is equal, 2 has nothing in common.",
        )
        lost = () if self.warning is None else (f"{self.warning}.",)
        return Sheet(title, ("column", "mean L1 error"), rows, notes, (*lost, self.notice))


def evaluate(
    release: Any,
    private: Any,
    *,
    workload: WorkloadLike | None = None,
    of: str = "synthetic",
    schema: Schema | str | Path | None = None,
) -> Evaluation:
    """Compare a release, or plain rows, with the private table. NOT PRIVATE: do not publish it.

    The errors are those of the codes, that is of what the schema can say; `losses` compare the values themselves.

    of        "synthetic": the released rows; "answers": the model's own answers
    schema    of plain rows; drafted from them if not given
    """
    release = _opened(release)
    opened = release if isinstance(release, Release) else None
    choice("of =", of, "synthetic", "answers")
    if opened is None and of == "answers":
        raise OptionError("plain rows have no model; use of='synthetic'")
    schema = None if schema is None else need_schema(schema)
    # Opened here, once: a stream can be read only once, unless its source keeps it.
    if opened is None and not isinstance(release, Table):
        release = open_source(release, schema)
    # Plain rows that are to be published may be looked at: without a schema it is drafted from them.
    if schema is None:
        schema = opened.schema if opened else Schema.draft(release)
    private = private if isinstance(private, Table) else open_source(private, schema)
    errors = workload_errors(release, private, schema, workload=workload, of=of)
    rows, read = _rows(release, schema)
    if isinstance(private, Table) or isinstance(rows, Table):
        return errors
    asked = None if opened is None else asked_of(opened)
    return replace(errors, losses=losses_of(rows, private, schema, read), asked=asked)


def asked_of(release: Release) -> frozenset[str]:
    """The columns that its workload has."""
    return frozenset(name for marginal in release.workload.marginals for name in marginal)


def workload_errors(
    release: Any, private: Any, schema: Schema, *, workload: Any = None, of: str = "synthetic"
) -> Evaluation:
    """The errors of the codes alone. NOT PRIVATE."""
    work = wanted_workload(workload, schema, release if isinstance(release, Release) else None)
    truth, _ = counted(private, schema, work.marginals, private=True)
    return errors_of(work, truth, released_shares(release, schema, work, of), of)


def _opened(release: Any) -> Any:
    """A release for the path of one; anything else as it is."""
    if not isinstance(release, str | os.PathLike):
        return release
    folder = path_of("a release", release, error=ReleaseError)
    # os.path says no, and does not raise, where a name is too long for any file.
    return open_release(folder) if os.path.isfile(folder / "certificate.json") else release


def wanted_workload(workload: Any, schema: Schema, release: Release | None) -> Workload:
    """The workload to judge by: the one given, the release's own, or all three-way marginals."""
    default = release.workload if release else all_marginals(3)
    return workload_on(workload, schema.domain, default)


def released_shares(
    release: Any, schema: Schema, work: Workload, of: str
) -> dict[Marginal, NDArray[np.float64]]:
    """What was released about each marginal, summing to 1: by the rows, or by the model's answers."""
    choice("of =", of, "synthetic", "answers")
    if of == "answers":
        answers = {m: np.asarray(v) for m, v in release.model.answers(work.marginals).items()}
    else:
        rows, schema = _rows(release, schema)
        answers = {m: v / 1.0 for m, v in counted(rows, schema, work.marginals, private=False)[0].items()}
    return {m: v / v.sum() for m, v in answers.items()}


def tables_of(release: Any, private: Any, schema: Schema | str | Path | None) -> tuple[Table, Table, Schema]:
    """Released rows and private ones as codes, and the schema of both. NOT PRIVATE."""
    release = _opened(release)
    if schema is None and not isinstance(release, Release):
        raise OptionError("plain rows come without a schema; give schema=")
    schema = release.schema if schema is None else need_schema(schema)
    truth = private if isinstance(private, Table) else encode_table(private, schema, private=True)
    rows, read = _rows(release, schema)
    return rows if isinstance(rows, Table) else encode_table(rows, read), truth, schema


def _rows(release: Any, schema: Schema) -> tuple[Any, Schema]:
    """The released rows, and the schema to read them by: those of a release are spelled as usual."""
    return (release.synthetic, schema.plain) if isinstance(release, Release) else (release, schema)


def errors_of(
    work: Workload,
    truth: dict[Marginal, NDArray[np.int64]],
    guess: dict[Marginal, NDArray[np.float64]],
    of: str,
) -> Evaluation:
    """The errors of guessed counts, each marginal scaled to sum to 1."""
    per_marginal: dict[Marginal, float] = {}
    largest, absolute, squared, cells = 0.0, 0.0, 0.0, 0
    for marginal in work.marginals:
        p, q = truth[marginal], guess[marginal]
        gap = np.abs(p / p.sum() - q / q.sum())
        per_marginal[marginal] = float(gap.sum())
        largest = max(largest, float(gap.max()))
        absolute += float(gap.sum())
        squared += float(np.square(gap).sum())
        cells += gap.size
    return Evaluation(
        workload_error=float(np.average(list(per_marginal.values()), weights=work.weights)),
        max_error=largest,
        mean_error=absolute / cells,
        rmse=float(np.sqrt(squared / cells)),
        of=of,
        per_marginal=per_marginal,
    )


def write_report(
    release: Release,
    evaluation: Evaluation,
    private: Any,
    path: Path,
    *,
    quality: Any = None,
    estimate: Any = None,
) -> None:
    """A report with the private table's own figures beside the released ones. NOT PRIVATE."""
    truth = view_of(private, release.synthetic, release.schema, private=True)
    write_text(path, render(release, evaluation, truth=truth, quality=quality, estimate=estimate))


def report_file(path: Path, name: str = "report.html") -> Path:
    """Where a report goes: a name that does not end in .html, and is no file yet, is the folder to hold it."""
    is_file = path.suffix.lower() in (".html", ".htm") and not os.path.isdir(path)
    return path if is_file or os.path.isfile(path) else path / name


def check_place(path: Path, mark: str = NOTICE, why: str = "an evaluation is NOT PRIVATE") -> None:
    """Refuse a place in a folder that is to be published, one that cannot be, and a file that is not an earlier one.

    mark   what an earlier file of the kind has in it
    """
    for folder in path.absolute().parents:
        if os.path.exists(folder / "certificate.json"):
            raise ReleaseError(
                f"{path} is in a folder that is to be published, and {why}; choose another place"
            )
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not os.path.isdir(above):
        raise ReleaseError(f"{path} cannot be written, as {above.name} is no folder; choose another place")
    if not os.access(above, os.W_OK):
        raise ReleaseError(f"no permission to write {path}; choose another place")
    if os.path.exists(path):
        try:
            known = path.is_file() and mark in path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            known = False
        if not known:
            raise ReleaseError(
                f"the report {path} exists and is not an earlier evaluation; choose another place"
            )


def write_text(path: Path, text: str, mark: str = NOTICE, why: str = "an evaluation is NOT PRIVATE") -> None:
    """Write a file of an evaluation, whole or not at all, with the folder that should hold it. NOT PRIVATE."""
    check_place(path, mark, why)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    except OSError as error:
        raise ReleaseError(
            f"the report {path} cannot be written: {error.strerror}; choose another place"
        ) from None
