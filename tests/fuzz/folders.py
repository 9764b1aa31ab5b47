"""Release folders and certificates: altered, cut, mixed with another release's."""

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import openprior as op
from tests.fuzz.calls import Call, command, sound
from tests.fuzz.odd import broken_bytes
from tests.fuzz.stock import good_release, take

__all__ = ["GENERATORS"]

FILES = (
    "certificate.json", "certificate.json", "schema.toml", "workload.json", "public.json", "synthetic.parquet",
    "answers.parquet",
    "measurements.parquet", "model/model.json", "model/arrays.npz", "report.html",
)  # fmt: skip
ENTRIES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 10**30, 0.5, 1.9, float("nan"), float("inf"), -1e308, 1e-300, "", "x", "1",
    "NaN", "secure",
    "NOT PRIVATE (seeded noise)", "add-remove", "replace-one", "gaussian", "laplace", "exponential", "marginal",
    "cell", [], [1],
    ["age"], ["age", "age"], [["age"]], {}, {"a": 1}, "x" * 3000,
)  # fmt: skip


def _use(draw: random.Random, what: str) -> Call:
    match draw.randrange(6):
        case 0:
            return command("check", "release")
        case 1:
            take("private.csv")
            words = ("--private", "private.csv", "--epsilon", "1", "--insecure-seed", "1")
            return command("estimate", "release", *words, writes=["release.estimate"])
        case 2:
            take("private.csv")
            return Call(f"evaluate {what}", lambda: op.evaluate("release", "private.csv"))
        case _:
            return Call(f"open {what}", lambda: op.open_release("release"), sound)


def _values(document: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON document, as its container and its key."""
    keys = (
        document.keys()
        if isinstance(document, dict)
        else range(len(document))
        if isinstance(document, list)
        else ()
    )
    return [place for key in keys for place in [(document, key), *_values(document[key])]]


def altered_json(draw: random.Random) -> Call:
    """A value replaced, removed, repeated or moved."""
    take("release")
    file = Path("release", draw.choice([name for name in FILES if name.endswith(".json")]))
    document = json.loads(file.read_text())
    for _ in range(draw.choice((1, 1, 3))):
        container, key = draw.choice(_values(document) or [({"x": 1}, "x")])
        match draw.randrange(7):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[draw.choice(("x", "rho", "epsilon", "", "part"))] = draw.choice(ENTRIES)
            case 2 if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case 3:
                other, at = draw.choice(_values(document))
                container[key] = copy.deepcopy(other[at])
            case 4 if isinstance(container[key], int | float) and not isinstance(container[key], bool):
                container[key] *= draw.choice((0.5, 2, -1, 1 + 1e-6, 1e6))
            case _:
                container[key] = draw.choice(ENTRIES)
    file.write_text(json.dumps(document))
    return _use(draw, f"with altered {file.name}")


def broken_file(draw: random.Random) -> Call:
    """A file with broken bytes, without any, gone, or a folder in its place."""
    take("release")
    file = Path("release", draw.choice(FILES))
    match draw.randrange(6):
        case 0:
            file.unlink()
        case 1:
            file.write_bytes(b"")
        case 2:
            file.unlink()
            file.mkdir()
        case _:
            file.write_bytes(broken_bytes(draw, file.read_bytes()))
    return _use(draw, f"with broken {file.name}")


def mixed(draw: random.Random) -> Call:
    """Files of another release among its own."""
    take("release", "other")
    names = sorted(set(FILES))
    for name in draw.sample(names, draw.choice((1, 2, 5))):
        if Path("other", name).exists():
            shutil.copyfile(Path("other", name), Path("release", name))
    return _use(draw, "with files of another")


def swapped(draw: random.Random) -> Call:
    """Two of its files in each other's place."""
    take("release")
    one, two = (Path("release", name) for name in draw.sample(sorted(set(FILES)), 2))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    return _use(draw, f"with {one.name} and {two.name} swapped")


def certificate(draw: random.Random) -> Call:
    """The text of a certificate alone."""
    content = good_release().certificate.to_json().encode()
    broken = broken_bytes(draw, content).decode("utf-8", "replace")

    def run() -> Any:
        read = op.Certificate.from_json(broken)
        read.recheck()
        return read

    return Call("a broken certificate", run, lambda c: c.recheck())


GENERATORS = (altered_json, altered_json, altered_json, broken_file, broken_file, mixed, swapped, certificate)
