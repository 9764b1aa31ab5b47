"""The judge sees what it is there to see, or a thousand good verdicts would mean nothing."""

import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openprior.errors import OptionError
from tests.console import Said
from tests.fuzz.calls import Call
from tests.fuzz.judge import judge
from tests.fuzz.stock import UNIT, take, working_folder


def refuse(text: str = "x is wrong; use y") -> None:
    raise OptionError(text)


def after(*steps: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step()
        refuse()

    return run


def hidden_cause() -> None:
    try:
        raise ValueError("zqxsecret")
    except ValueError as error:
        raise OptionError("x is wrong; use y") from error


def reserve() -> None:
    from openprior.privacy.ledger import Ledger

    Ledger("budget.sqlite").open_run("private", rho=0.01, epsilon=1.0, delta=1e-6, details=UNIT)


ONE_LINE = "error: x is wrong; use y\n"
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "another exception": (lambda: {}["x"], "KeyError"),
    "a secret": (lambda: refuse("zqxsecret is wrong; use y"), "tells 'zqxsecret'"),
    "a secret in the cause": (hidden_cause, "tells 'zqxsecret'"),
    "no remedy": (lambda: refuse("x is wrong"), "no remedy"),
    "printed": (after(lambda: print("x")), "printed 'x"),
    "logged": (after(lambda: logging.warning("7731977")), "tells '7731977'"),
    "another's warning": (after(lambda: warnings.warn("x", RuntimeWarning, 2)), "RuntimeWarning"),
    "a file is left": (after(lambda: Path("new").write_text("x")), "left new"),
    "a temporary file is left": (
        after(lambda: Path(tempfile.gettempdir(), "x").write_text("x")),
        "left tmp/x",
    ),
    "an input is changed": (after(lambda: Path("private.csv").write_text("x")), "changed private.csv"),
    "an input is gone": (after(lambda: Path("private.csv").unlink()), "removed private.csv"),
    "a journal without a note": (after(lambda: Path("out.journal").write_text("x")), "left out.journal"),
    "a reservation": (after(reserve), "keeps its reservation"),
    "a bug of a command": (lambda: Said(1, "", "  File x\nerror: a bug in openprior (KeyError)"), "a bug"),
    "two lines of a command": (lambda: Said(1, "", ONE_LINE * 2), "more than an error"),
    "output beside an error": (lambda: Said(1, "x", ONE_LINE), "more than an error"),
    "another verdict beside an error": (
        lambda: Said(1, '{"right": false, "reason": "x"}', ONE_LINE),
        "more than an error",
    ),
    "a code without words": (lambda: Said(3, "", ""), "not one line"),
    "a secret of a command": (lambda: Said(0, "zqxperson5", ""), "tells 'zqxperson'"),
    "not what was to be written": (lambda: None, "did not write out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_endings_are_seen(name: str) -> None:
    run, words = BAD[name]
    with working_folder():
        take("private.csv", "budget.sqlite")
        problem = judge(Call(name, run, writes=frozenset({"out"}), keeps=frozenset({"budget.sqlite"})))
    assert problem is not None and words in problem, problem


def test_good_endings_pass() -> None:
    def write() -> None:
        Path("out").write_text("x")

    def wrong(result: Any) -> None:
        raise AssertionError("zqx")

    with working_folder():
        take("private.csv")
        assert judge(Call("", refuse)) is None
        assert (
            judge(Call("", lambda: Said(1, "", f"warning: x\n{ONE_LINE}  repeat it with --resume\n"))) is None
        )
        verdict = '{"right": false, "reason": "x is wrong; use y"}'
        assert judge(Call("", lambda: Said(1, verdict, ONE_LINE))) is None
        assert judge(Call("", lambda: refuse("zqxsecret is wrong; use y"), public=True)) is None
        assert judge(Call("", write, writes=frozenset({"out"}))) is None
        assert "not right" in str(judge(Call("", lambda: 1, wrong)))
