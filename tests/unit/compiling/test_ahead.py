"""Loops compiled ahead by another process; and that nothing depends on it."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openprior.compiling import ahead, loop_list
from openprior.compiling.ahead import compile_ahead
from openprior.compiling.loop_list import loops_of
from openprior.progress import COMPILING, Progress, listening

DISTANCE = "openprior.counting.tally distance int64[1] float64[1] int64"


class Words:
    """Remembers the phases that it was told of."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, told: Progress) -> None:
        self.told.append(told.phase)

    def step(self, told: Progress) -> None: ...

    def end(self, told: Progress) -> None: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for compiled loops, and a list with one mechanism and one loop."""
    listed = tmp_path / "loops.txt"
    listed.write_text(f"# a remark\n\n[tilt]\n{DISTANCE}\n")
    monkeypatch.setattr(loop_list, "LOOPS", listed)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(ahead, "_FEWEST", 1)
    monkeypatch.setattr(ahead, "workers", lambda: 2)
    for kept in (loops_of, compile_ahead):
        kept.cache_clear()
    yield tmp_path / "kept"
    for kept in (loops_of, compile_ahead):
        kept.cache_clear()


def waited() -> list[str]:
    """What waiting tells of."""
    words = Words()
    with listening(words, compiling=False):
        compile_ahead("tilt").wait()
    return words.told


def test_what_is_missing_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process of its own would read the package's list, which is longer.
    monkeypatch.setattr(ahead, "_start", lambda mechanism: _helper(loop_list.LOOPS))
    assert waited() == [COMPILING]
    assert list(folder.glob("counting_*/*distance*.nbc"))
    assert [loops.mark(str(folder)).exists() for loops in loops_of("tilt")] == [True]
    compile_ahead.cache_clear()
    assert waited() == []


def _helper(listed: Path) -> subprocess.Popen[str]:
    code = (
        "import sys, pathlib\n"
        "from openprior.compiling import helper, loop_list\n"
        f"loop_list.LOOPS = pathlib.Path({str(listed)!r})\n"
        "sys.argv = ['helper', 'tilt']\n"
        "helper.main()\n"
    )
    return _process(code)


def _process(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.parametrize("code", ["", "input()", "import sys; sys.exit(1)"])
def test_a_process_that_ends_early_is_not_waited_for(
    code: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_start", lambda mechanism: _process(code))
    waited()
    assert not any(thread.is_alive() for thread in compile_ahead("tilt")._threads)
    assert not loops_of("tilt")[0].mark(str(folder)).exists()


def test_a_module_in_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hashlib.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    with ahead._start("no mechanism") as process:
        process.communicate("")
    assert process.returncode == 0


def test_a_process_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_PATIENCE", 0.2)
    monkeypatch.setattr(ahead, "_start", lambda mechanism: _process("import time; time.sleep(60)"))
    before = threading.active_count()
    waited()
    assert threading.active_count() <= before


def test_no_process_can_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mechanism: str) -> subprocess.Popen[str]:
        raise OSError("no more processes")

    monkeypatch.setattr(ahead, "_start", refuse)
    assert waited() in ([], [COMPILING])


@pytest.mark.parametrize("executable", ["", "/opt/program", None])
def test_a_program_that_embeds_python_is_not_started(
    executable: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert compile_ahead("tilt")._threads == []


def test_one_module_alone_or_one_core_is_not_worth_a_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "workers", lambda: 1)
    assert compile_ahead("tilt")._threads == []
    compile_ahead.cache_clear()
    monkeypatch.setattr(ahead, "workers", lambda: 2)
    monkeypatch.setattr(ahead, "_FEWEST", 2)
    assert compile_ahead("tilt")._threads == []


def test_a_mechanism_that_is_not_listed_needs_nothing(folder: Path) -> None:
    assert loops_of("mine") == ()
    assert compile_ahead("mine")._threads == []


def test_another_source_or_other_types_have_another_mark(folder: Path) -> None:
    loops = loops_of("tilt")[0]
    other = loop_list.ModuleLoops(loops.module, (("distance", "int64[1] float64[1,readonly] int64"),))
    elsewhere = loop_list.ModuleLoops("openprior.models.rows", loops.calls)
    assert len({mark.mark("kept") for mark in (loops, other, elsewhere)}) == 3


def test_the_loops_that_draw_rows_come_last_and_are_not_waited_for_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "openprior.models.exchanges exchange int64[2]"
    loop_list.LOOPS.write_text(f"[tilt]\n{rows}\n{DISTANCE}\n")
    monkeypatch.setattr(ahead, "workers", lambda: 2)
    given: list[str] = []
    answers = (
        "import sys, time\n"
        "print(input(), flush=True)\n"  # the first is compiled at once
        "print(input() and time.sleep(1), flush=True)\n"
    )

    def start(mechanism: str) -> subprocess.Popen[str]:
        given.append(mechanism)
        if len(given) > 1:
            raise OSError("one process is enough")
        return _process(answers)

    monkeypatch.setattr(ahead, "_start", start)
    begun = compile_ahead("tilt")
    begun.wait(rows=False)
    assert begun._left == {"openprior.models.exchanges"}
    begun.wait()
    assert begun._left == set()
