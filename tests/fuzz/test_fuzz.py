"""A thousand generated bad calls with every change, ten thousand with the long tests."""

import pytest

from tests.fuzz.runner import KINDS, case, failures

FEW, MANY, PORTION = 500, 10_000, 100


def portions(first: int, last: int) -> pytest.MarkDecorator:
    starts = range(first, last, PORTION)
    return pytest.mark.parametrize("start", starts, ids=[f"{n}-{n + PORTION - 1}" for n in starts])


def check(start: int) -> None:
    found = failures(range(start, start + PORTION))
    again = "repeat one with: python -m tests.fuzz --case NUMBER"
    assert not found, "\n\n".join([f"{len(found)} of {PORTION} cases end badly; {again}", *found])


@portions(0, FEW)
def test_bad_calls(start: int) -> None:
    check(start)


@pytest.mark.slow
@portions(0, MANY)
def test_many_bad_calls(start: int) -> None:
    check(start)


def test_every_generator_has_its_turn() -> None:
    drawn = {case(number)[0] for number in range(FEW)}
    assert drawn == {generator for kind in KINDS for generator in kind.GENERATORS}
