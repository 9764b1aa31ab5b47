"""Seeded runs come out bit for bit as they did: a change of the code's shape must not change a release.

Where a change *means* to change outcomes, write them anew with `make golden` and say so in the changelog.
"""

import json
from collections.abc import Callable

import pytest

from tests.golden.runs import OUTCOMES, arithmetic, runs

RUNS = runs()
PINNED = json.loads(OUTCOMES.read_text())


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.skipif(
    PINNED["arithmetic"] != arithmetic(),
    reason="this processor rounds elementary functions otherwise than the one the outcomes were written on",
)
@pytest.mark.parametrize(("name", "run"), RUNS.items(), ids=list(RUNS))
def test_comes_out_as_it_did(name: str, run: Callable[[], dict[str, str]]) -> None:
    assert run() == PINNED["runs"][name]


def test_every_run_is_pinned() -> None:
    assert set(RUNS) == set(PINNED["runs"])
