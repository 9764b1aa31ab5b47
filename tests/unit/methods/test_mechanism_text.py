"""Mechanisms as text, in Python as on the command line."""

import shlex

import pytest

import openprior as op
from openprior.command_line import arguments
from openprior.errors import OptionError
from openprior.guidance.grid import grid_of, options_text
from openprior.methods.mechanism_text import mechanism_from, need_mechanism, settings_from


def test_a_name_with_its_options() -> None:
    assert need_mechanism("aim") == op.Aim() and need_mechanism(op.Mst()) == op.Mst()
    assert mechanism_from("jam-pgm:rounds=12, alpha=0.7") == op.JamPgm(rounds=12, alpha=0.7)
    assert mechanism_from("PMW_Pub:rounds=3") == mechanism_from("PmwPub: rounds=3") == op.PmwPub(rounds=3)
    assert settings_from("pmw-pub:rounds=2|3") == [op.PmwPub(rounds=2), op.PmwPub(rounds=3)]
    assert arguments.mechanism("pmw-pub:rounds=2", []) == arguments.mechanism("pmw-pub", ["rounds=2"])


def test_names_of_columns_with_signs_in_them() -> None:
    levels = (("STATE, old",), ("PUMA;x", "YEAR|y"))
    text = 'levels="STATE, old";"PUMA;x","YEAR|y"'
    assert arguments.mechanism("hierarchy", [text]) == op.Hierarchy(levels=levels)
    assert mechanism_from(f"hierarchy:{text.replace('=', '=(')})") == op.Hierarchy(levels=levels)
    for groups in ((("a, b", "c"), ("d",)), (('say "hi"', "x=1"), ("(", "e"))):
        made = op.Mwem(groups=groups)
        words = options_text(made)  # as `tune` prints it
        assert arguments.mechanism("mwem", shlex.split(words)[3::2]) == made
        (grouped,) = grid_of({"hierarchy": {"inner": made}})
        assert arguments.mechanism("hierarchy", shlex.split(options_text(grouped))[3::2]) == grouped


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "mechanism '' is unknown; there are aim"),
        ("tlit", "mechanism 'tlit' is unknown; there are aim"),
        ("tilt:round=3", "option 'round' is unknown for tilt; it has"),
        ("tilt:rounds", "option 'rounds' has no value; write rounds=VALUE"),
        ("tilt:rounds=3,rounds=4", "given twice; give it once"),
        ("tilt:rounds=many", "rounds = 'many' is not understood; it must be a whole number"),
        ("tilt:rounds=3|4", "names 2 settings; give one"),
        ('mwem:groups="a', "opens a double quote and does not close it; close it"),
        ("hierarchy:inner=" * 2000 + "mst", "too many mechanisms in each other; name one"),
    ],
)
def test_what_is_no_mechanism_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        mechanism_from(text)


def test_a_class_and_options_in_two_places_are_refused() -> None:
    with pytest.raises(OptionError, match=r"mechanism is the class Aim; give an instance, such as Aim\(\)"):
        need_mechanism(op.Aim)
    with pytest.raises(OptionError, match="has options, and so has -O; write them in one place"):
        arguments.mechanism("tilt:rounds=3", ["rounds=4"])
    with pytest.raises(OptionError, match="names 2 settings; give one"):
        op.Hierarchy(inner="pmw-pub:rounds=2|3")
    assert op.Hierarchy(inner="pmw-pub:rounds=2") == op.Hierarchy(inner=op.PmwPub(rounds=2))
