"""Types of arguments as words, there and back."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof
from numba.core import types

from openprior.compiling.loop_types import read_types, spell_type


class Pair(NamedTuple):
    """Two arrays with names."""

    first: np.ndarray
    second: float


def frozen(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "int64"),
        (1.0, "float64"),
        (True, "bool"),
        (np.uint64(3), "uint64"),
        (np.zeros((2, 2), np.uint16), "uint16[2]"),
        (np.zeros(3, np.bool_), "bool[1]"),
        (np.zeros((4, 4))[:, 0], "float64[1,A]"),
        (np.zeros((4, 3), order="F"), "float64[2,F]"),
        (frozen(np.zeros(3)), "float64[1,readonly]"),
        (frozen(np.zeros((4, 4)))[:, 0], "float64[1,A,readonly]"),
        ((1, np.zeros(2)), "tuple(int64 float64[1])"),
        (Pair(np.zeros(2, np.int32), 1.0), f"{__name__}:Pair(int32[1] float64)"),
    ],
)
def test_words_spell_the_type_that_numba_sees(value: object, words: str) -> None:
    assert spell_type(typeof(value)) == words
    assert read_types(words) == (typeof(value),)


def test_several_types_are_read_in_order() -> None:
    words = "int64 tuple(float32[1] tuple(int64)) uint8[2]"
    assert [spell_type(kind) for kind in read_types(words)] == [
        "int64",
        "tuple(float32[1] tuple(int64))",
        "uint8[2]",
    ]


def test_what_cannot_be_spelled_is_refused() -> None:
    with pytest.raises(TypeError, match="arrays, numbers and tuples"):
        spell_type(types.unicode_type)
