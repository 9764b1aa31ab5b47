"""What a forger does who can write files: change a release and make its certificate fit the change."""

import contextlib
import copy
import dataclasses
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import openprior as op
from openprior.errors import OpenPriorError
from openprior.privacy.events import event_from_dict
from openprior.releases.certificate import Certificate
from openprior.releases.folder import seal
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.levels import Hierarchy as Above
from tests.formulas import epsilon_by_hand, rho_by_hand

__all__ = ["FLAT", "NESTED", "is_true", "made", "mutations", "seal_anew", "written"]

FLAT = op.Schema.from_sizes({"a": 3, "b": 2, "c": 4})
_AREAS = ("1a", "1b", "2a")
NESTED = Schema(
    (
        Categorical(name="area", values=_AREAS),
        Integer(name="x", low=0, high=2),
        Integer(name="y", low=0, high=1),
    ),
    hierarchies=(Above(name="state", column="area", prefix=1),),
)
_RUNS: dict[str, dict[str, Any]] = {
    "mst": {"schema": FLAT, "mechanism": op.Mst(), "delta": 1e-6},
    "together": {
        "schema": FLAT,
        "mechanism": op.Hdmm(queries=("prefixes(c)",)),
        "delta": 1e-6,
        "relation": "add-remove",
    },
    "replaced": {
        "schema": FLAT,
        "mechanism": op.DualQuery(samples=5, rounds=3, eta=0.5, solver="search"),
        "delta": 1e-6,
        "relation": "add-remove",
    },
    "regression": {"schema": FLAT, "mechanism": op.ImportanceWeights(), "delta": 1e-6},
    "parts": {
        "schema": NESTED,
        "mechanism": op.Hierarchy(levels=(("state",), ("area",)), inner=op.Mst()),
        "delta": 1e-6,
        "relation": "add-remove",
        "format": "csv",
    },
    "pure": {
        "schema": FLAT,
        "mechanism": op.Ide(queries=("prefixes(c)", "marginal(a, b)"), noise="laplace"),
        "delta": 0.0,
    },
}
"""Small releases that together have every kind of statistic, parts, selections with and without replacement,
both noises and both formats."""


def made(kind: str, out: Path, **more: Any) -> op.Release:
    """One of the small releases, written to a folder; its noise is secure unless a seed is given."""
    how = {"epsilon": 1.0, **_RUNS[kind], **more}
    private, public = (_rows(how["schema"], rows, seed) for rows, seed in ((300, 1), (100, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op.release(private, public, workload=op.all_marginals(2), out=out, **how)


def _rows(schema: Schema, rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    codes = {c.name: rng.integers(0, c.size, rows) for c in schema.columns}
    return pa.table({n: np.array(_AREAS)[c] if n == "area" else c for n, c in codes.items()})


ODD: tuple[Any, ...] = (
    *(None, True, False, "", "1", "secure", 0, 1, -1, 2, 0.0, -0.0, 0.5, 1e-300, 1e308),
    *(10**18, 10**200, [], {}, [0], ["a"], math.nan, math.inf, -math.inf),
)
"""What no field expects, or what one that is not looked at would take."""


def seal_anew(folder: Path) -> None:
    """The certificate lists the files as they are now."""
    path = folder / "certificate.json"
    certificate = Certificate.from_json(path.read_bytes())
    path.unlink()
    seal(folder, certificate)


def written(values: Any) -> bytes:
    """A certificate with these values just as certificates are written, with the statement that they give."""
    values = copy.deepcopy(values)
    if isinstance(values, dict):
        with contextlib.suppress(OpenPriorError, KeyError, TypeError, ValueError, AttributeError):
            names = {f.name for f in dataclasses.fields(Certificate)} - {"events", "files", "rows"}
            facts = {name: values[name] for name in names}
            events = tuple(map(event_from_dict, values["events"]))
            values["statement"] = Certificate(**facts, events=events).statement
    return json.dumps(values, indent=1, ensure_ascii=False).encode()


def mutations(values: Any) -> Iterator[tuple[str, Any]]:
    """Every field changed by itself: another value of another type, a number scaled, gone, twice, or swapped."""
    for path in _paths(values):
        name = ".".join(map(str, path))
        old = _at(values, path)
        for odd in ODD:
            if type(odd) is not type(old) or repr(odd) != repr(old):
                yield f"{name} = {str(odd)[:20]!r}", _with(values, path, odd)
        if type(old) in (int, float):
            for factor in (0.5, 0.999, 1.001, 2):
                yield f"{name} × {factor}", _with(values, path, type(old)(old * factor))
        if type(old) is str:
            for other in (old + " ", old.upper(), old[:-1], old.replace("-", "_")):
                if other != old:
                    yield f"{name} = {other[:30]!r}", _with(values, path, other)
        if isinstance(old, list) and old:
            yield f"{name} shortened", _with(values, path, old[:-1])
            yield f"{name} doubled", _with(values, path, [*old, old[-1]])
            for i in range(len(old) - 1):
                swapped = [*old[:i], old[i + 1], old[i], *old[i + 2 :]]
                if swapped != old:
                    yield f"{name} swapped at {i}", _with(values, path, swapped)
        if isinstance(old, dict):
            yield f"{name} with more", _with(values, path, {**old, "more": 1})
            for key in old:
                left = {k: v for k, v in old.items() if k != key}
                yield f"{name} without {key}", _with(values, path, left)
            for first, second in zip(old, list(old)[1:], strict=False):
                if old[first] != old[second]:
                    crossed = {**old, first: old[second], second: old[first]}
                    yield f"{name}: {first} and {second} swapped", _with(values, path, crossed)


def is_true(values: dict[str, Any]) -> bool:
    """Whether what a certificate promises follows from its events, by the formulas that were written by hand."""
    pure = values["delta"] == 0
    cost_of = epsilon_by_hand if pure else rho_by_hand
    alone, partitions = 0.0, {}
    for event in values["events"]:
        cost = cost_of(event, values["relation"], values["rows_per_person"])
        if "part" not in event:
            alone += cost
            continue
        part = event["part"]
        keys = tuple(part["keys"])
        costs = partitions.setdefault(part["number"], (keys, {}))
        if not keys or costs[0] != keys or len(set(keys)) < len(keys):
            return False
        codes = tuple(part["codes"])
        costs[1][codes] = costs[1].get(codes, 0.0) + cost
    spent = alone + sum(max(costs.values()) for _, costs in partitions.values())
    limit = values["epsilon"] if pure else values["rho"]
    said = values["epsilon_spent"] if pure else values["rho_spent"]
    return spent <= limit * (1 + 1e-9) and abs(spent - said) <= 1e-9 * limit


def _paths(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, value in inside:
        yield from _paths(value, (*path, key))


def _at(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _with(values: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy in which one thing is another."""
    if not path:
        return new
    made = list(values) if isinstance(values, list) else dict(values)
    made[path[0]] = _with(values[path[0]], path[1:], new)
    return made
