"""One value moves one row: the vectorised coder against the rule for a single value, on random columns of all kinds."""

import numpy as np
import pytest

from openprior.tables.lookup import Coder
from tests import raw_columns, value_rule


def _disagreements(seed: int, columns: int) -> list[str]:
    rng = np.random.default_rng(seed)
    wrong = []
    for number in range(columns):
        column = raw_columns.column(rng)
        reading = raw_columns.READINGS[number % len(raw_columns.READINGS)]
        coder = Coder(column, reading)
        array, reads = raw_columns.raw(rng, int(rng.integers(1, 9)))
        marks = {
            coder.outside: "outside",
            coder.above: "outside",
            coder.unparsed: "unparsed",
            coder.refused_null: "null",
        }
        for i, (code, read) in enumerate(zip(coder(array).tolist(), reads, strict=True)):
            expected = value_rule.code_of(column, read, reading)
            if marks.get(code, code) != expected:
                wrong.append(
                    f"{seed}.{number}: {column} of {array.type}: {array[i]!r} read as {read} is "
                    f"under {reading} {marks.get(code, code)}, not {expected}"
                )
    return wrong


def test_a_code_is_that_of_its_value_alone() -> None:
    assert _disagreements(1, 4_000) == []


@pytest.mark.slow
def test_a_code_is_that_of_its_value_alone_on_many_columns() -> None:
    assert _disagreements(2, 60_000) == []
