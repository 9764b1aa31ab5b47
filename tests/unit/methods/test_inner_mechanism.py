"""A mechanism inside a hierarchy: how it is named on the command line, kept in a certificate, and what it promises."""

import shlex
from pathlib import Path

import pytest

import openprior as op
from openprior.command_line import arguments
from openprior.errors import OptionError
from openprior.guidance.grid import changed_options, described, options_text
from openprior.methods.base import Mechanism
from tests.golden.runs import AREAS, areas

SCHEMA = op.Schema.from_toml(AREAS)
LEVELS = (("region",), ("area",))


def released(mechanism: Mechanism, delta: float = 1e-6, **more: object) -> op.Release:
    return op.release(
        areas(600, 3), areas(300, 4), schema=SCHEMA, workload=op.all_marginals(2), epsilon=2.0, delta=delta,
        mechanism=mechanism, seed=1, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("mst", op.Mst()),
        ("jam-pgm:rounds=10,alpha=0.7", op.JamPgm(rounds=10, alpha=0.7)),
        ("mwem:groups=(b;c),rounds=3", op.Mwem(groups=(("b",), ("c",)), rounds=3)),
        ("mwem:groups=(b,c)", op.Mwem(groups=(("b", "c"),))),
        ("ide:queries=where(b=0, c=1-2)", op.Ide(queries=("where(b=0, c=1-2)",))),
        ("none", None),
    ],
)
def test_it_is_named_on_the_command_line(text: str, inner: Mechanism | None) -> None:
    assert arguments.mechanism("hierarchy", [f"inner={text}"]) == op.Hierarchy(inner=inner)


@pytest.mark.parametrize(
    "inner",
    [op.Mst(), op.JamPgm(rounds=10, alpha=0.7), op.Mwem(groups=(("a", "b"), ("c",)), replay=False)],
    ids=described,
)
def test_what_is_shown_is_understood_again(inner: Mechanism) -> None:
    mechanism = op.Hierarchy(levels=LEVELS, inner=inner)
    dash, name, *options = shlex.split(options_text(mechanism))
    assert dash == "-m"
    assert set(options[::2]) == {"-O"}
    assert arguments.mechanism(name, options[1::2]) == mechanism
    assert inner.name in described(mechanism)
    assert changed_options(mechanism)["inner"]["mechanism"] == inner.name


def test_a_grid_takes_several() -> None:
    settings = arguments.grid(
        ["hierarchy:inner=none|mst|(jam-pgm:rounds=10,alpha=0.7),noise=gaussian|laplace"]
    )
    inners = [None, op.Mst(), op.JamPgm(rounds=10, alpha=0.7)]
    noises = ["gaussian", "laplace"]
    assert settings == [op.Hierarchy(inner=i, noise=n) for i in inners for n in noises]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("nonsense", "mechanism 'nonsense' is unknown"),
        ("mst:magic=1", "option 'magic' is unknown for mst"),
        ("jam-pgm:rounds=0", "rounds \\(0\\) must be at least 1"),
        ("jam-pgm:rounds=1|2", "names 2 settings; give one"),
        ("hierarchy", "cannot be inside a hierarchy"),
    ],
)
def test_what_is_wrong_is_refused(text: str, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        arguments.mechanism("hierarchy", [f"inner={text}"])


def test_the_certificate_has_its_name_and_its_options(tmp_path: Path) -> None:
    inner = op.JamPgm(rounds=2)
    released(op.Hierarchy(levels=LEVELS, inner=inner), out=tmp_path / "out", error_bars=0)
    certificate = op.open_release(tmp_path / "out").certificate
    certificate.recheck()
    assert certificate.options["inner"] == {"mechanism": "jam-pgm", **inner.options}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_pure_one_inside_keeps_the_promise(relation: str) -> None:
    mechanism = op.Hierarchy(levels=LEVELS, noise="laplace", inner=op.Ide(noise="laplace"))
    made = released(mechanism, delta=0.0, relation=relation)
    made.certificate.recheck()
    assert made.certificate.is_pure
    assert made.certificate.epsilon_spent <= 2.0
    with pytest.raises(OptionError, match="asks for pure ε-DP"):
        released(op.Hierarchy(levels=LEVELS, noise="laplace", inner=op.Ide()), delta=0.0)
