"""Seeded runs come out as they did: a change of the code's shape must not change a release.

Where a change *means* to change outcomes, write them anew with `make golden` and say so in the changelog.
"""

import json
import math
import re
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
    assert agreed(run(), PINNED["runs"][name]) == PINNED["runs"][name]


def agreed(found: dict[str, str], pinned: dict[str, str]) -> dict[str, str]:
    """What was found, with a number as it was pinned if it is that but for its last bits: they differ between code that
    was just compiled and the same code from the cache."""
    return {
        what: pinned[what] if _close(said, pinned.get(what, "")) else said for what, said in found.items()
    }


def _close(found: str, pinned: str) -> bool:
    """Whether both are numbers in hexadecimal, and near. Digests and sums of costs are no such numbers."""
    if not all(re.fullmatch(r"-?0x[0-9a-f.]+p[-+]\d+", text) for text in (found, pinned)):
        return False
    return math.isclose(float.fromhex(found), float.fromhex(pinned), rel_tol=1e-9)


def test_every_run_is_pinned() -> None:
    assert set(RUNS) == set(PINNED["runs"])
