"""Words on the command line: options without values, values without sense, files that are not there."""

import random

from tests.fuzz.calls import Call, command
from tests.fuzz.odd import NUMBERS, WORDS
from tests.fuzz.stock import take

__all__ = ["GENERATORS"]

TEXTS = (
    *(str(n) for n in NUMBERS), *WORDS, "age,zip", "target:age", "target::2", "target:zip:2", "random:2:3:4",
    "random:0:0:0",
    "random:2:3:-1", "random:a:b:c", "0", "3", "99", "１", "²", "--", "-", "-o", "--help", "age,age", "public.csv",
    "private.csv",
    "schema.toml", "release", "none", "budget.sqlite", "mst", "tilt", "spark", "add-remove", "laplace", "rounds=1",
    "rounds=",
    "=1", "rounds=x", "choose=none", "queries=where(", "queries=prefixes(age)", "queries=ranges(age, 0-9)",
    "updates=1e3", "noise=laplace",
    "groups=age;age", "inner=tilt", "inner=mst|ide", "keys=city", "guard=2", "support=domain", "local[2]", "csv",
)  # fmt: skip


def _words(draw: random.Random, right: dict[str, str], more: tuple[str, ...]) -> list[str]:
    """Options with one or two of them odd, left out, given twice or of another name."""
    given = dict(right)
    for _ in range(draw.choice((1, 1, 2))):
        given[draw.choice((*right, *more))] = draw.choice(TEXTS)
    if draw.random() < 0.15:
        del given[draw.choice(sorted(given))]
    words = [word for pair in given.items() for word in pair]
    if draw.random() < 0.1:
        words.append(draw.choice(("--unknown", "--json", "--show-private", "extra", "--resume")))
    return [word.replace("\0", "\\0") for word in words if word != "--show-private"]


def release(draw: random.Random) -> Call:
    """Releases."""
    take("private.csv", "public.csv", "schema.toml")
    right = {"--public": "public.csv", "--epsilon": "1", "--delta": "1e-3", "--schema": "schema.toml", "-m": "public",
             "--workload": "1", "-o": "out", "--insecure-seed": "3"}  # fmt: skip
    more = ("-O", "--ledger", "--ledger-timeout", "--dataset", "--relation", "--format", "--spark-master")
    private = draw.choice(("private.csv",) * 9 + TEXTS).replace("\0", "\\0")
    words = _words(draw, right, more)
    kept = [words[i + 1].partition("/")[0] for i, word in enumerate(words[:-1]) if word in ("-o", "--ledger")]
    if "-m" in words and words[words.index("-m") + 1] == "tilt":
        words[words.index("-m") + 1] = "mst"
    return command("release", private, *words, keeps=kept)


def guidance(draw: random.Random) -> Call:
    """Plans and screenings."""
    take("private.csv", "public.csv", "schema.toml")
    if draw.random() < 0.5:
        right = {"--rows": "100", "--epsilon": "1", "--delta": "1e-3", "--workload": "2"}
        return command(
            "plan",
            draw.choice(("schema.toml", "schema.toml", "none")),
            *_words(draw, right, ("--public-rows", "--relation")),
        )
    right = {"--public": "public.csv", "--epsilon": "1", "--schema": "schema.toml", "--insecure-seed": "1"}
    words = _words(
        draw,
        right,
        ("--delta", "--by", "--marginals", "--relation", "--dataset", "--ledger", "--ledger-timeout"),
    )
    return command("screen", "private.csv", *words)


def evaluation(draw: random.Random) -> Call:
    """Estimates, evaluations and checks of a release."""
    take("private.csv", "release")
    place = draw.choice(("release",) * 4 + TEXTS).replace("\0", "\\0")
    match draw.randrange(3):
        case 0:
            return command("check", place, *draw.choice(((), ("--json",), ("x",))))
        case 1:
            right = {"--private": "private.csv", "--epsilon": "1", "--insecure-seed": "1", "-o": "out"}
            words = _words(draw, right, ("--delta", "--of", "--workload", "--ledger", "--dataset"))
            kept = [words[i + 1].partition("/")[0] for i, word in enumerate(words[:-1]) if word == "-o"]
            return command("estimate", place, *words, keeps=[*kept, f"{place}.estimate"])
        case _:
            right = {"--private": "private.csv", "--of": "synthetic"}
            words = [*_words(draw, right, ("--workload", "--groups")), "--quick"]
            return command("evaluate", place, *words, keeps=["release.evaluation"])


def ledger(draw: random.Random) -> Call:
    """Ledgers."""
    take("budget.sqlite")
    file = draw.choice(("budget.sqlite",) * 4 + TEXTS).replace("\0", "\\0")
    match draw.randrange(3):
        case 0:
            return command(
                "ledger", "show", file, *_words(draw, {"--ledger-timeout": "0"}, ()), keeps=["budget.sqlite"]
            )
        case 1:
            right = {"--epsilon": "3", "--delta": "1e-6", "--ledger-timeout": "0"}
            name = draw.choice(("private", *TEXTS))
            words = _words(draw, right, ())
            return command(
                "ledger", "budget", file, name, *words, keeps=["budget.sqlite", file.partition("/")[0]]
            )
        case _:
            return command("ledger", "close", file, draw.choice(TEXTS), keeps=["budget.sqlite"])


def other(draw: random.Random) -> Call:
    """Words that are no commands, and commands without words."""
    words = draw.choice(
        (
            (draw.choice(TEXTS),), ("schema",), ("ledger",), ("schema", draw.choice(TEXTS)), ("release",),
            ("mechanisms", draw.choice(TEXTS)),
            ("demo", "--rows", draw.choice(("0", "-5", "x", "1e9"))), ("demo", "--tables", "none/x"), ("check",),
        )
    )  # fmt: skip
    return command(*(word.replace("\0", "\\0") for word in words))


GENERATORS = (release, release, guidance, guidance, evaluation, ledger, other)
