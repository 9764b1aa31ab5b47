"""The list of compiled loops is what releases call, so that all of them are compiled ahead and nothing else is."""

import subprocess
import sys

import pytest

from openprior.compiling.helper import compile_loops
from openprior.compiling.loop_list import LOOPS, loops_of, read_sections
from openprior.methods.base import mechanisms
from tests.system.test_tutorial import ROOT

LISTED = read_sections(LOOPS.read_text(encoding="utf-8"))


def called(mechanism: str) -> list[str]:
    """The lines of a mechanism, as `make loops` would write them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.loops", mechanism],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        timeout=300,
    )
    return done.stdout.splitlines()


def check(mechanism: str) -> None:
    lines = called(mechanism)
    if lines != LISTED[mechanism]:
        lines = called(mechanism)  # a loop that was compiled inside another was not seen to be called
    assert lines == LISTED[mechanism], "say `make loops` to list what is called now"


def test_tilt_calls_what_is_listed() -> None:
    check("tilt")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(set(LISTED) - {"tilt"}))
def test_others_call_what_is_listed(mechanism: str) -> None:
    check(mechanism)


def test_what_is_listed_can_be_compiled() -> None:
    assert set(LISTED) <= set(mechanisms())
    for loops in loops_of("tilt"):
        compile_loops(loops)
