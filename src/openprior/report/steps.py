"""The steps of a certificate in words: what each did, how noisy it was, what it cost and which columns it touched."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openprior.privacy.calibrate import pure_epsilon
from openprior.releases.certificate import Certificate
from openprior.report.words import count, names, plain
from openprior.schema.base import Schema

__all__ = ["GROUPS", "Step", "steps_of", "whole"]

GROUPS = {
    "one": "Counting the values of one column",
    "two": "Counting two columns together",
    "more": "Counting three or more columns together",
    "cells": "Counting single cells",
    "sums": "Counting sums of cells",
    "total": "Counting all rows",
    "choice": "Choosing what to count",
    "score": "Measuring an error",
}
"""What a step can be; the keys also name its colour."""


@dataclass(frozen=True)
class Part:
    """Which part of a partition a step saw."""

    keys: tuple[str, ...]
    codes: tuple[int, ...]
    of: int
    """How many parts there are."""


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    number: int
    group: str
    kind: str
    what: str
    sigma: float | None
    """Standard deviation of the noise in rows, where rows were counted."""
    noise: str
    cost: float
    """What the run paid for it: ρ, or ε if the run is pure."""
    share: float
    """Of the whole budget."""
    columns: frozenset[str]
    """The columns it counted, levels of hierarchies as the column below them."""
    cells: frozenset[str] | None
    """The columns of which it counted all combinations; None if it counted something else."""
    part: Part | None


def steps_of(certificate: Certificate, schema: Schema) -> tuple[Step, ...]:
    """All steps in order."""
    limit = certificate.epsilon if certificate.is_pure else certificate.rho
    return tuple(
        _step(number, event, schema, certificate.is_pure, limit)
        for number, event in enumerate(certificate.events, 1)
    )


def _step(number: int, event: Mapping[str, Any], schema: Schema, pure: bool, limit: float) -> Step:
    kind, rho = str(event["kind"]), float(event["rho"])
    cost = float(event.get("charged", pure_epsilon(rho) if pure else rho))
    marginal = tuple(str(a) for a in event.get("marginal") or ())
    part = event.get("part")
    keys = tuple(str(k) for k in part["keys"]) if part else ()
    group = _group(kind, event, marginal)
    counted = group in ("one", "two", "more", "cells", "sums")
    everything = event.get("cell") is None and str(event.get("queries") or "marginal(").startswith(
        ("marginal(", "prefixes(")
    )
    involved = {*marginal, *keys} if counted else set()
    sigma = _sigma(event) if counted or group == "total" else None
    return Step(
        number=number,
        group=group,
        kind=kind,
        what=_what(group, event, marginal) + _where(part, schema),
        sigma=sigma,
        noise=_noise(event, sigma),
        cost=cost,
        share=cost / limit if limit else 0.0,
        columns=frozenset(schema.levels[a].column if a in schema.levels else a for a in involved),
        cells=frozenset(a for a in involved if a not in schema.levels) if counted and everything else None,
        part=_part(part, schema),
    )


def _group(kind: str, event: Mapping[str, Any], marginal: tuple[str, ...]) -> str:
    if kind in ("exponential", "permute-and-flip"):
        return "choice"
    if kind not in ("gaussian", "laplace"):
        return "score"
    if not marginal:
        return "total"
    if event.get("cell") is not None:
        return "cells"
    if event.get("queries"):
        return "sums"
    return {1: "one", 2: "two"}.get(len(marginal), "more")


def _sigma(event: Mapping[str, Any]) -> float | None:
    if "sigma" in event:
        return float(event["sigma"])
    return float(event["scale"]) * math.sqrt(2) if "scale" in event else None


def _what(group: str, event: Mapping[str, Any], marginal: tuple[str, ...]) -> str:
    if group == "choice":
        draws, of = int(event.get("draws", 1)), count(int(event.get("candidates", 0)))
        return f"{draws} of {of} candidates"
    if group == "score":
        return str(event["kind"]).rpartition(" ")[0]
    if group == "total":
        return "all rows"
    if group == "cells":
        return f"{names(marginal)}, cell {event['cell']}"
    return str(event["queries"]) if group == "sums" else names(marginal)


def _part(part: Any, schema: Schema) -> Part | None:
    if not part:
        return None
    keys = tuple(str(k) for k in part["keys"])
    of = math.prod(schema.full_domain[k] for k in keys)
    return Part(keys, tuple(int(c) for c in part["codes"]), of)


def _where(part: Any, schema: Schema) -> str:
    """Which part of a partition, by its labels."""
    if not part:
        return ""
    told = []
    for key, code in zip(part["keys"], part["codes"], strict=True):
        labels = schema.levels[key].labels if key in schema.levels else schema[key].labels
        told.append(f"{key} = {labels[int(code)]}")
    return f" where {', '.join(told)}"


def _noise(event: Mapping[str, Any], sigma: float | None) -> str:
    if sigma is not None:
        return f"σ = {count(sigma)} rows"
    return f"ε = {plain(float(event['epsilon']))}" if "epsilon" in event else "noise"


def whole(steps: Iterable[Step]) -> set[frozenset[str]]:
    """The sets of columns whose combinations were all counted, by one step or by all parts of a partition."""
    found: set[frozenset[str]] = set()
    parts: dict[tuple[frozenset[str], frozenset[str], tuple[str, ...]], set[tuple[int, ...]]] = {}
    for step in steps:
        if not step.cells:
            continue
        if step.part is None:
            found.add(step.cells)
            continue
        seen = parts.setdefault((step.cells, step.columns, step.part.keys), set())
        seen.add(step.part.codes)
        if len(seen) == step.part.of:
            found.add(step.cells)
    return found
