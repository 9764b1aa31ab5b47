"""Seeded runs whose outcome is pinned: `python -m tests.golden.runs` writes `outcomes.json` anew.

Every mechanism under both relations on small tables, its variants that take another way through the code, groups in a
hierarchy, persons with several rows, and the small questions (screen, estimate, best mixture). What is pinned is a
digest of each kind of outcome, so that a difference says where it is. Only public names are used here.
"""

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import openprior as op

OUTCOMES = Path(__file__).with_name("outcomes.json")
RELATIONS = ("replace-one", "add-remove")
SIZES = {"a": 3, "b": 2, "c": 4, "d": 5}
AREAS = """
[columns.area]
kind = "categorical"
values = ["n1", "n2", "s1", "s2"]
[columns.b]
kind = "categorical"
values = ["0", "1"]
[columns.c]
kind = "integer"
low = 0
high = 3
[hierarchies.region]
column = "area"
prefix = 1
"""


def coded(rows: int, seed: int, sizes: dict[str, int]) -> pa.Table:
    """Dependent integer columns."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, rows)
    columns = {}
    for name, size in sizes.items():
        p = 1.0 / (np.arange(size) + 1.0)
        drawn = rng.choice(size, size=rows, p=p / p.sum())
        columns[name] = (drawn + hidden * (rng.random(rows) < 0.5)) % size
    return pa.table(columns)


def areas(rows: int, seed: int) -> pa.Table:
    """The same with a named area."""
    table = coded(rows, seed, {"area": 4, "b": 2, "c": 4})
    names = np.array(["n1", "n2", "s1", "s2"])[table["area"].to_numpy()]
    texts = table["b"].to_numpy().astype(str)
    return pa.table({"area": names, "b": texts, "c": table["c"]})


def release(mechanism: Any, relation: str, **options: Any) -> op.Release:
    """One release of the small tables."""
    given = {
        "private": coded(600, 1, SIZES),
        "public": coded(300, 2, SIZES),
        "schema": op.Schema.from_sizes(SIZES),
        "workload": op.all_marginals(2),
        "epsilon": 1.0,
        "delta": 1e-6,
        "seed": 7,
        **options,
    }
    private, public = given.pop("private"), given.pop("public")
    return op.release(private, public, mechanism=mechanism, relation=relation, **given)


def grouped(mechanism: Any, relation: str, **options: Any) -> op.Release:
    """One release by area."""
    schema = op.Schema.from_toml(AREAS)
    return release(mechanism, relation, private=areas(900, 3), public=areas(500, 4), schema=schema, **options)


def persons(relation: str) -> op.Release:
    """Several rows per person, labels, bins and dates, as a drafted schema has them."""
    rng = np.random.default_rng(5)
    public, private = (
        pa.table(
            {
                "who": rng.integers(0, rows // 2, rows),
                "sex": rng.choice(["f", "m", "x"], rows, p=[0.5, 0.45, 0.05]),
                "income": np.round(rng.gamma(2.0, 1500.0, rows), 2),
                "age": rng.integers(0, 100, rows),
            }
        )
        for rows in (400, 500)
    )
    text = op.Schema.draft(public.drop_columns(["who"])).to_toml()
    schema = op.Schema.from_toml('person_id = "who"\nmax_rows_per_person = 2\n' + text)
    return op.release(
        private, public, schema=schema, workload=op.all_marginals(2), epsilon=2.0, delta=1e-6, seed=3,
        mechanism=op.Mst(), relation=relation,
    )  # fmt: skip


def runs() -> dict[str, Callable[[], dict[str, str]]]:
    """All runs by name."""
    found: dict[str, Callable[[], dict[str, str]]] = {}
    for relation in RELATIONS:
        for name, cls in op.mechanisms().items():
            if name in _TRAINED or (cls.needs_public_n and relation == "add-remove"):
                continue
            found[f"{name}, {relation}"] = lambda c=cls, r=relation: digests(release(c(), r))
        found[f"tilt without a public table, {relation}"] = lambda r=relation: digests(
            release(op.Tilt(), r, public=None)
        )
        found[f"persons, {relation}"] = lambda r=relation: digests(persons(r))
        for name, kind, more in _VARIANTS:
            make = {"flat": release, "grouped": grouped}[kind]
            found[f"{name}, {relation}"] = lambda m=make, n=name, r=relation, o=more: digests(
                m(_mechanism(n), r, **o)
            )
    found["screen by distance"] = lambda: _values(_screen("distance"))
    found["screen by mixture"] = lambda: _values(_screen("mixture"))
    found["screen under add-remove"] = lambda: _values(_screen("distance", relation="add-remove"))
    found["estimate"] = _estimate
    found["best mixture"] = _best_mixture
    return found


_TRAINED = ("gem", "gem-pub")
"""Not pinned: JAX spreads sums over the cores that there are, and so the last bits differ between machines."""
_PURE = {"delta": 0.0}
_RARE = {"a": 12, "b": 2, "c": 15}
_MERGED = {
    "private": coded(600, 1, _RARE),
    "public": coded(300, 2, _RARE),
    "schema": op.Schema.from_sizes(_RARE),
    "epsilon": 4.0,
}
"""Columns with rare values, which methods merge."""
_VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("pmw-pub as published", "flat", {}),
    ("pmw-pub by permute-and-flip", "flat", {}),
    ("mwem in groups", "flat", {}),
    ("dual-query with a public start", "flat", {}),
    ("mwem as published", "flat", {}),
    ("mwem on random rows, as published", "flat", {}),
    ("mwem from counts", "flat", {}),
    ("mst as counted", "flat", {}),
    ("aim with merged values", "flat", _MERGED),
    ("jam-pgm with merged values", "flat", _MERGED),
    ("hdmm, pure", "flat", _PURE),
    ("ide, pure", "flat", _PURE),
    ("ide by expected error", "flat", {}),
    ("hierarchy by area", "grouped", {}),
    ("hierarchy by area, mst inside", "grouped", {}),
    ("hierarchy as published", "grouped", _PURE),
)


def _mechanism(name: str) -> Any:
    levels = (("region",), ("area",))
    if name == "pmw-pub as published":
        return op.PmwPub.published(6, selection="exponential")
    if name == "pmw-pub by permute-and-flip":
        return op.PmwPub(rounds=5, selection="permute-and-flip", start="uniform")
    if name == "mwem in groups":
        return op.Mwem(groups=(("a", "b"), ("c", "d")), rounds=6)
    if name == "dual-query with a public start":
        return op.DualQuery(start="public", public_rounds=4, samples=30, eta=3.0)
    if name == "mwem as published":
        return op.Mwem.published(6)
    if name == "mwem on random rows, as published":
        return op.Mwem.published(6, support=40)
    if name == "mwem from counts":
        return op.Mwem(rounds=6, start_counts=0.3)
    if name == "mst as counted":
        return op.Mst(compress=False)
    if name == "aim with merged values":
        return op.Aim(compress=True)
    if name == "jam-pgm with merged values":
        return op.JamPgm(compress=True)
    if name == "hdmm, pure":
        return op.Hdmm(noise="laplace")
    if name == "ide, pure":
        return op.Ide(noise="laplace", queries=("prefixes(d)", "ranges(c, 0-1, 2-3)"))
    if name == "ide by expected error":
        return op.Ide(choose="expected", support="public")
    if name == "hierarchy by area":
        return op.Hierarchy(levels=levels)
    if name == "hierarchy by area, mst inside":
        return _inside(levels)
    return op.Hierarchy.published(levels)


def _inside(levels: tuple[tuple[str, ...], ...]) -> Any:
    return op.Hierarchy(levels=levels, inner=op.Mst())


def _screen(by: str, **options: Any) -> Any:
    tables = {"good": coded(300, 2, SIZES), "bad": coded(200, 9, SIZES).slice(0, 40)}
    return op.screen(
        coded(600, 1, SIZES), tables, schema=op.Schema.from_sizes(SIZES), epsilon=0.5, by=by, seed=4, **options
    ).as_dict()  # fmt: skip


def _estimate() -> dict[str, str]:
    made = release(op.Mst(), "replace-one")
    return _values(op.estimate_error(made, coded(600, 1, SIZES), epsilon=0.5, seed=2).as_dict())


def _best_mixture() -> dict[str, str]:
    found = op.best_mixture_error(
        coded(600, 1, SIZES), coded(300, 2, SIZES), schema=op.Schema.from_sizes(SIZES), epsilon=0.5, delta=1e-6, seed=2
    )  # fmt: skip
    return _values({"error": found.error, "sigma": found.sigma})


def digests(made: op.Release) -> dict[str, str]:
    """A release as digests of its rows, answers and costs."""
    answers = [made.model.answers([m])[m] for m in made.workload.marginals]
    events = json.loads(made.certificate.to_json())["events"]
    return {
        "rows": _digest(*(repr(c.to_pylist()).encode() for c in made.synthetic.columns)),
        "answers": _digest(*(_rounded(a) for a in answers)),
        "measurements": _digest(*(np.asarray(m.values, np.float64).tobytes() for m in made.measurements)),
        "costs": _digest(*(float(e["rho"]).hex().encode() for e in events)),
        "spent": f"{float(made.certificate.rho_spent).hex()} in {len(events)} events",
    }


def _values(values: Any) -> dict[str, str]:
    """Numbers by name, exactly."""
    if isinstance(values, dict):
        return {k: str(v) for name, item in values.items() for k, v in _flat(name, item)}
    raise TypeError(values)


def _flat(name: str, item: Any) -> list[tuple[str, str]]:
    if isinstance(item, float):
        return [(name, item.hex())]
    if isinstance(item, list):
        return [pair for i, one in enumerate(item) for pair in _flat(f"{name} {i}", one)]
    if isinstance(item, dict):
        return [pair for k, one in item.items() for pair in _flat(f"{name} {k}", one)]
    return []


def _rounded(values: NDArray[np.float64]) -> bytes:
    """To 1e-5 of a row: the last bits differ between code that was just compiled and the same code from the cache."""
    return "".join(f"{v:.5f} " for v in values.tolist()).encode()


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()[:16]


def arithmetic() -> str:
    """A digest of this processor's elementary functions and sums, which differ in last bits between processors."""
    x = np.random.default_rng(0).random((96, 96))
    return _digest(
        np.exp(-30 * x).tobytes(), np.log(x + 1e-3).tobytes(), (x @ x).tobytes(), np.sqrt(x).tobytes()
    )


def main() -> None:
    """Write the outcomes of today's code."""
    warnings.simplefilter("ignore")
    outcomes = {name: run() for name, run in runs().items()}
    OUTCOMES.write_text(json.dumps({"arithmetic": arithmetic(), "runs": outcomes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
