"""What callers hand over is taken or refused in one line that quotes nothing but numbers and short texts."""

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import openprior as op
from openprior.errors import OpenPriorError, OptionError, ReleaseError, SchemaError
from openprior.given import choice, finite_number, flag, path_of, several, shown, text_of, whole_number
from tests.conftest import PRIVATE as ROWS
from tests.conftest import PUBLIC, SIZES, arrow

PRIVATE = pd.DataFrame({"zqxname": ["zqxsecret"]})


def test_only_numbers_and_short_texts_are_quoted() -> None:
    assert (
        shown(PRIVATE) == "a DataFrame"
        and shown([1]) == "a list"
        and shown(ValueError) == "the class ValueError"
    )
    assert shown(Fraction(1, 3)) == "Fraction(1, 3)" and shown(Decimal("0.5")) == "Decimal('0.5')"
    assert shown(10**5000) == "a huge number"
    assert len(shown("x" * 1000)) == 60


def test_numbers() -> None:
    assert whole_number("n", np.int64(3), 2) == 3 and type(whole_number("n", np.uint8(3))) is int
    assert finite_number("x", Fraction(1, 2)) == finite_number("x", Decimal("0.5")) == 0.5
    for value in (True, 2.0, "2", None, [2], np.array([2, 3]), 1, math.nan):
        with pytest.raises(OptionError, match="must be a whole number of at least 2"):
            whole_number("n", value, 2)
    for value in (False, "1", None, math.nan, math.inf, 10**400, Decimal("NaN"), 1j, np.array([1.0, 2.0])):
        with pytest.raises(OptionError, match="must be a finite number"):
            finite_number("x", value)


def test_texts_paths_and_lists() -> None:
    assert choice("by", "a", "a", "b") == "a" and path_of("it", Path("x")) == Path("x")
    assert several("it", (x for x in "ab")) == ("a", "b") == several("it", np.array(["a", "b"]))
    for value in ("c", None, 1, ["a"], PRIVATE):
        with pytest.raises(OptionError, match="is unknown; use 'a' or 'b'"):
            choice("by", value, "a", "b")
    for value in ("", "a\0b", "\ud800", "x" * 256, "x/" * 4000, None, 5, b"x", PRIVATE):
        with pytest.raises(OptionError, match="give"):
            path_of("it", value)
    assert text_of("it", "é") == "é" and flag("it", False) is False
    for value in (None, 5, b"x", "\ud800", ["a"], PRIVATE):
        with pytest.raises(OptionError, match=r"^it .*; give .*text$"):
            text_of("it", value)
    for value in (None, 0, 1, "no", PRIVATE):
        with pytest.raises(OptionError, match="must be True or False"):
            flag("it", value)
    for value in (b"ab", 5, None, np.array("x"), PRIVATE):
        with pytest.raises(OptionError, match="give a list"):
            several("it", value)
    with pytest.raises(OptionError, match=r'^it="ab" is one text; write it=\["ab"\]$'):
        several("it", "ab")
    with pytest.raises(
        OptionError, match=r'the names cannot be the one text "ab"; give a list, such as \["ab"\]'
    ):
        several("the names", "ab")


def test_an_error_is_one_line_of_bearable_length_that_ends_with_the_remedy() -> None:
    error = OptionError(f"the name a\n b\t{'x' * 5000} is long; choose another")
    assert str(error).startswith("the name a b x") and str(error).endswith("x is long; choose another")
    assert len(str(error)) <= 400 and str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(OpenPriorError("short; and kept")) == "short; and kept"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": "many"}, r"rounds \('many'\) must be a whole number"),
        ({"rounds": True}, "rounds"),
        ({"rounds": 2.0}, "rounds"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": PRIVATE}, r"alpha \(a DataFrame\)"),
        ({"size_limit": "1"}, "size_limit"),
    ],
)
def test_options_are_what_they_are_declared_to_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        op.JamPgm(**options)


def test_options_become_what_a_certificate_can_hold() -> None:
    made = op.JamPgm(rounds=np.int64(3), alpha=np.float32(0.5), size_limit=80)
    assert (type(made.rounds), type(made.alpha), type(made.size_limit)) == (int, float, float)
    assert op.Ide(queries=["prefixes(a)"]).queries == ("prefixes(a)",)
    assert op.Hierarchy(inner=op.Mst()).inner == op.Mst()
    assert op.Hierarchy(levels=["ab", ["ab", "c"]]).levels == (("ab",), ("ab", "c"))
    for options in ({"inner": 5}, {"levels": [5]}, {"split": [None]}):
        with pytest.raises(OptionError):
            op.Hierarchy(**options)


def test_what_is_no_schema_no_format_and_no_workload_is_refused(tmp_path: Path) -> None:
    table, other, schema = arrow(PUBLIC), arrow(ROWS), op.Schema.from_sizes(SIZES)
    options: dict[str, Any] = {
        "schema": schema,
        "epsilon": 1.0,
        "delta": 1e-3,
        "mechanism": op.PublicProxy(),
        "seed": 1,
    }
    made = op.release(other, table, workload=op.all_marginals(1), **options)
    with pytest.raises(OptionError, match="format 'xml' is unknown"):
        made.save(tmp_path / "out", format="xml")
    with pytest.raises(ReleaseError, match="give a path"):
        op.open_release(PRIVATE)
    with pytest.raises(OpenPriorError, match="empty workload"):
        op.evaluate(made, table, workload=[])
    for function, given in ((op.release, (other, table)), (op.screen, (other, [table]))):
        with pytest.raises(SchemaError, match="the schema is a DataFrame; give one"):
            function(*given, schema=PRIVATE, epsilon=1.0, delta=1e-3)
    assert not list(tmp_path.iterdir())
