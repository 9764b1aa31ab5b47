"""JSON is read in one way or refused with a ValueError, whatever the text."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.json_text import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
@settings(max_examples=60)
def test_what_json_writes_is_read(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1).encode()):
        assert parse_json(text) == value


@given(st.text('{}[]":,0123456789.eE+-nulltrefasNIiy \\ud8\n', max_size=30) | st.binary(max_size=20))
@settings(max_examples=200)
def test_anything_else_is_a_value_error(text: str | bytes) -> None:
    try:
        value = parse_json(text)
    except ValueError as error:
        assert "\n" not in str(error)
        str(error).encode()
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' stands there twice"),
        ('{"\\ud800": 1, "\\ud800": 1}', "twice"),
        ("[NaN]", "NaN is no number"),
        ("-Infinity", "no number"),
        ("[1e309]", "too large a number"),
        ("1" * 5000, "too many digits"),
        ("[" * 100_000, "too deeply"),
        ("[" * 200 + "]" * 200, "too deeply"),
        ('{"a":' * 100_000, "too deeply"),
        ('"\\udfff"', "not UTF-8"),
        (b"\xff", "not UTF-8"),
        ("\ufeff{}", "not JSON"),
        ("{} {}", "not JSON, at line 1"),
        ("", "not JSON"),
    ],
)
def test_what_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_json(text)


def test_numbers_keep_their_kind() -> None:
    one, real, large, tiny = parse_json("[1, 1.0, 123456789012345678901, 1e-400]")
    assert [type(v) for v in (one, real, large, tiny)] == [int, float, int, float]
    assert tiny == 0.0
    assert math.copysign(1, parse_json("-0.0")) == -1
