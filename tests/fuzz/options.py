"""Arguments of the public functions: of other types, out of range, or not what they seem."""

import dataclasses
import inspect
import random
from typing import Any

import openprior as op
from openprior.schema.base import Schema
from tests.fuzz.calls import Call, released, sound
from tests.fuzz.odd import NUMBERS, odd_value
from tests.fuzz.stock import SCHEMA, good_release, release_options, take

__all__ = ["GENERATORS"]

TABLES = ("private.csv", "public.csv")
_TUNE = {
    "epsilon": 1.0,
    "delta": 1e-3,
    "grid": [op.PublicProxy()],
    "seeds": 1,
    "workers": 1,
    "of": "synthetic",
}


def release(draw: random.Random) -> Call:
    """One or two arguments of a release are odd."""
    take(*TABLES)
    options = {**release_options(draw), "private": "private.csv", "public": "public.csv"}
    names = sorted(set(inspect.signature(op.release).parameters))
    chosen = draw.sample(names, draw.choice((1, 1, 2)))
    for name in chosen:
        options[name] = odd_value(draw)
    if "seed" in chosen and options["seed"] is None:
        options["seed"] = -1
    out, ledger = (
        frozenset({name} if isinstance(name, str) and "/" not in name else ())
        for name in (options.get("out"), options.get("ledger"))
    )
    what = ", ".join(f"{name} = {options[name]!r:.100}" for name in chosen)
    return Call(
        f"release with {what}",
        lambda: op.release(**options),
        sound,
        out - {""},
        ledger,
        "show_private" in chosen,
    )


def budget(draw: random.Random) -> Call:
    """Numbers for ε and δ, all of them possible in Python."""
    take(*TABLES)
    options = {**release_options(draw), "epsilon": draw.choice(NUMBERS), "delta": draw.choice(NUMBERS)}
    if draw.random() < 0.5:
        options["delta"] = 1e-3

    def right(made: Any) -> None:
        released(float(options["epsilon"]))(made)
        assert 0 < made.certificate.epsilon < float("inf") and 0 < made.certificate.delta < 1

    what = f"ε = {options['epsilon']!r:.60}, δ = {options['delta']!r:.60}"
    return Call(what, lambda: op.release(*TABLES, **options), right)


def workload(draw: random.Random) -> Call:
    """Workloads and weights."""
    value, other = odd_value(draw), odd_value(draw)
    schema = Schema.from_toml(SCHEMA)
    calls = (
        lambda: op.all_marginals(value).on(schema.domain),
        lambda: op.random_marginals(value, other, 1).on(schema.domain),
        lambda: op.random_marginals(2, value, other).on(schema.domain),
        lambda: op.target_marginals(value, other).on(schema.domain),
        lambda: op.target_marginals("age", value).on(schema.domain),
        lambda: op.Workload(value).on(schema.domain),
        lambda: op.Workload([value]).on(schema.domain),
        lambda: op.Workload([("age", value)]).on(schema.domain),
        lambda: op.Workload(["age", "pay"], value).on(schema.domain),
        lambda: op.Workload(["age", "pay"], [1, value]).on(schema.domain),
        lambda: op.plan(schema, n=100, workload=value, epsilon=1.0, delta=1e-3).as_dict(),
    )
    return Call(f"workload of {value!r:.100} and {other!r:.100}", draw.choice(calls))


def mechanism(draw: random.Random) -> Call:
    """Options of a mechanism; one that can be is run if that is cheap."""
    take(*TABLES)
    cls = draw.choice(list(op.mechanisms().values()))
    fields = [f.name for f in dataclasses.fields(cls)]
    values = {name: odd_value(draw) for name in draw.sample(fields, min(len(fields), draw.choice((1, 1, 2))))}
    cheap = cls in (op.Ide, op.PublicProxy, op.MwemPub, op.PmwPub)
    options = release_options(draw)

    def run() -> Any:
        made = cls(**values)
        small = all(not isinstance(v, int) or abs(v) < 100 for v in values.values())
        return op.release(*TABLES, **{**options, "mechanism": made}) if cheap and small else None

    def right(made: Any) -> None:
        if made is not None:
            sound(made)

    return Call(f"{cls.name} with {values!r:.200}", run, right)


def plan(draw: random.Random) -> Call:
    """Sizes of a plan."""
    options: dict[str, Any] = {"schema": Schema.from_toml(SCHEMA), "n": 100, "epsilon": 1.0, "delta": 1e-3}
    for name in draw.sample(("schema", "n", "workload", "epsilon", "delta", "relation", "public_rows"), 2):
        options[name] = draw.choice((odd_value(draw), draw.choice(NUMBERS)))

    def right(planned: Any) -> None:
        assert planned.as_dict() and planned.tables() and planned.rho > 0

    return Call(f"plan with {options!r:.300}", lambda: op.plan(**options), right)


def question(draw: random.Random) -> Call:
    """Screening, estimate, best mixture error and evaluation with odd arguments."""
    take(*TABLES)
    private, public = TABLES
    asked = {"private": private, "epsilon": 1.0, "dataset": "x", "seed": 1}
    schema = Schema.from_toml(SCHEMA)
    known = {"release": good_release(), "workload": None, "of": "synthetic"}
    functions: tuple[tuple[Any, dict[str, Any]], ...] = (
        (
            op.screen,
            {
                **asked,
                "candidates": [public],
                "schema": schema,
                "by": "distance",
                "marginals": 1,
                "delta": 0.0,
            },
        ),
        (op.estimate_error, {**asked, **known, "delta": 0.0}),
        (
            op.best_mixture_error,
            {**asked, "public": public, "schema": schema, "delta": 1e-3, "noise": "laplace"},
        ),
        (op.evaluate, {**known, "private": private, "schema": None}),
        (op.compare, {"releases": [good_release()] * 2, "private": private, "of": "answers"}),
        (op.evaluate_groups, {"release": good_release(), "private": private, "keys": ["city"]}),
        (op.tune, {**_TUNE, "public": public, "past": None, "schema": schema}),
    )
    function, options = draw.choice(functions)
    name, value = (
        draw.choice((*sorted(options.keys() - {"seeds", "workers"}), "workload", "relation")),
        odd_value(draw),
    )
    if name in inspect.signature(function).parameters:
        options[name] = -1 if name == "seed" and value is None else value
    return Call(f"{function.__name__} with {name} = {value!r:.200}", lambda: function(**options))


def opened(draw: random.Random) -> Call:
    """What is asked of a release that is there."""
    value = odd_value(draw)
    made = good_release()
    calls = (
        lambda: made.answers(value),
        lambda: made.answers([value]),
        lambda: made.answers(["age", value]),
        lambda: made.save("out", format=value),
        lambda: op.open_release(value),
        lambda: op.Certificate.from_json(value),
    )
    return Call(
        f"an opened release and {value!r:.200}",
        draw.choice(calls),
    )


GENERATORS = (
    release,
    release,
    release,
    budget,
    workload,
    mechanism,
    mechanism,
    plan,
    question,
    question,
    opened,
)
