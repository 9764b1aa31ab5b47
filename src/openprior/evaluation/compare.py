"""Several releases side by side: their errors against the private table, and how far they are from one another.

With the private table everything here is NOT PRIVATE. Without it, releases are compared among themselves; that is
post-processing of what was published, and may be published as they may.

Releases are compared on the columns that all of them declare alike. A column that one of them cuts into other bins has
other counts, which say nothing beside each other; such columns are left out and named.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError, ReleaseError
from openprior.evaluation.comparison import ComparedRelease, Comparison
from openprior.evaluation.losses import losses_of
from openprior.evaluation.metrics import NOTICE, Evaluation, asked_of, errors_of, released_shares
from openprior.given import choice, path_of, several, shown
from openprior.questions.workload import (
    Marginal,
    Workload,
    WorkloadLike,
    WorkloadPlan,
    all_marginals,
    workload_on,
)
from openprior.releases.result import Release, open_release
from openprior.releases.view import counted
from openprior.report.side_by_side import Distances
from openprior.schema.base import Schema
from openprior.schema.reading_rules import Reading
from openprior.tables.source import open_source
from openprior.tables.table import Table

__all__ = ["compare"]

Shares = dict[Marginal, NDArray[np.float64]]


def compare(
    releases: Mapping[str, Any] | Sequence[Any],
    private: Any = None,
    *,
    workload: WorkloadLike | None = None,
    of: str = "synthetic",
) -> Comparison:
    """Releases side by side against the private table: NOT PRIVATE; without one, against one another.

    releases   by name, or a list: releases, or the paths of their folders
    private    the table that they were made from; not given, nothing private is read
    workload   what to compare; the releases' own if it is the same in all of them, else all 3-way marginals
    of         "synthetic": the released rows; "answers": the models' own answers
    """
    choice("of =", of, "synthetic", "answers")
    opened = _named(releases)
    schemas = [r.schema for r in opened.values()]
    common, left_out = _common(schemas)
    work = workload_on(workload, common.domain, _default(list(opened.values()), common))
    shares = {
        name: _in_order(released_shares(r, r.schema, _on(work, r.schema), of), work, r.schema)
        for name, r in opened.items()
    }
    errors = {} if private is None else _errors(opened, private, shares, work, of)
    compared = [_compared(name, r, errors.get(name)) for name, r in opened.items()]
    if errors:
        compared.sort(key=lambda c: errors[c.name].workload_error)
    seeded = any(not r.certificate.is_private for r in opened.values())
    unless = "NOT PRIVATE: releases with seeded noise are among them; do not publish" if seeded else ""
    return Comparison(
        releases=tuple(compared),
        distances=_distances(shares, work),
        workload=work,
        left_out=left_out,
        of=of,
        notice=unless if private is None else NOTICE,
    )


def _named(releases: Any) -> dict[str, Release]:
    """Opened, by the names given, or those of their folders or methods, numbered where two are alike."""
    if isinstance(releases, Mapping):
        found = {_name(name): _opened(r) for name, r in releases.items()}
    else:
        if isinstance(releases, Release | str | os.PathLike):
            raise OptionError("one release cannot be compared; give several, such as {'tilt': a, 'aim': b}")
        given = several("the releases", releases)
        names = [_own_name(r) for r in given]
        numbered = [
            name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
            for i, name in enumerate(names)
        ]
        found = {name: _opened(r) for name, r in zip(numbered, given, strict=True)}
    if not found:
        raise OptionError("there is no release to compare; give at least two")
    if len(found) == 1:
        raise OptionError("one release cannot be compared; give at least two, or use evaluate")
    return found


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OptionError(f"a release cannot be called {shown(value)}; give a text")
    return value.strip()


def _own_name(release: Any) -> str:
    if isinstance(release, Release):
        return release.certificate.mechanism
    return path_of("a release", release, error=ReleaseError).absolute().name


def _opened(release: Any) -> Release:
    if isinstance(release, Release):
        return release
    if not isinstance(release, str | os.PathLike):
        raise OptionError(
            f"{shown(release)} cannot be compared; give releases or the paths of release folders"
        )
    return open_release(path_of("a release", release, error=ReleaseError))


def _common(schemas: list[Schema]) -> tuple[Schema, tuple[str, ...]]:
    """The columns that all declare alike, as a schema, and the names of the others."""
    first = schemas[0]
    alike = [c for c in first.columns if all(c in s.columns for s in schemas)]
    names = dict.fromkeys(name for s in schemas for name in s.names)
    left_out = tuple(name for name in names if name not in {c.name for c in alike})
    if not alike:
        raise OptionError(
            "the releases have no column that all of them declare alike (same kind, values and bins); release them "
            "with one schema, or evaluate each by itself"
        )
    return Schema(tuple(alike)), left_out


def _default(releases: list[Release], common: Schema) -> WorkloadPlan:
    """The releases' own workload if they were all made for the same one, and it fits; else all 3-way marginals."""
    own = releases[0].workload
    asked = [{frozenset(m): w for m, w in zip(r.workload, r.workload.weights, strict=True)} for r in releases]
    fits = all(set(m) <= set(common.names) for m in own)
    return own if fits and all(a == asked[0] for a in asked) else all_marginals(3)


def _on(work: Workload, schema: Schema) -> Workload:
    """The same workload in a schema's own order of columns."""
    return Workload(work.marginals, work.weights).on(schema.domain)


def _in_order(shares: Mapping[Marginal, Any], work: Workload, schema: Schema) -> dict[Marginal, Any]:
    """What was found in a schema's own order, under the workload's marginals and in their order of cells."""
    found = {}
    for marginal in work.marginals:
        own = tuple(a for a in schema.names if a in marginal)
        cells = np.asarray(shares[own]).reshape([schema.domain[a] for a in own])
        found[marginal] = cells.transpose([own.index(a) for a in marginal]).reshape(-1)
    return found


def _errors(
    releases: Mapping[str, Release], private: Any, shares: Mapping[str, Shares], work: Workload, of: str
) -> dict[str, Evaluation]:
    """As `evaluate` has them. The table is read once per schema: which rows of a person are kept depends on it."""
    truths: dict[str, dict[Marginal, NDArray[np.int64]]] = {}
    sources: dict[Reading, Any] = {}
    errors = {}
    for name, release in releases.items():
        schema = release.schema
        if schema.reading not in sources:
            sources[schema.reading] = private if isinstance(private, Table) else open_source(private, schema)
        source = sources[schema.reading]
        if schema.hash not in truths:
            counts, _ = counted(source, schema, _on(work, schema).marginals, private=True)
            truths[schema.hash] = _in_order(counts, work, schema)
        found = errors_of(work, truths[schema.hash], shares[name], of)
        lost = () if isinstance(source, Table) else losses_of(release.synthetic, source, schema, schema.plain)
        errors[name] = replace(found, losses=lost, asked=asked_of(release))
    return errors


def _compared(name: str, release: Release, errors: Evaluation | None) -> ComparedRelease:
    c = release.certificate
    # How long a release took depends on private rows, so it stands only beside what does anyway.
    seconds = release.seconds if errors is not None else None
    rows = release.row_count
    return ComparedRelease(name, c.mechanism, c.epsilon, c.delta, c.noise, rows, seconds, errors)


def _distances(shares: Mapping[str, Shares], work: Workload) -> Distances:
    """Between every two, both ways round."""
    found = {}
    for one, other in itertools.combinations(shares, 2):
        apart = [float(np.abs(shares[one][m] - shares[other][m]).sum()) for m in work.marginals]
        found[one, other] = found[other, one] = float(np.average(apart, weights=work.weights))
    return found
