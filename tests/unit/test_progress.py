"""Progress: phases in order, honest times, plain lines in logs, silence where it was asked for, nothing private."""

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import openprior as op
from openprior import progress_shown
from openprior.counting.engine import Threads
from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.shared.loop import ROUNDS
from openprior.methods.shared.schedule import Annealed, AnnealedPart
from openprior.privacy.ledger import Ledger
from openprior.progress import COMPILING, Progress, here, hushed, is_listened_to, listening, phase, telling
from openprior.progress_shown import _Lines, watching
from openprior.schema.base import Schema
from openprior.schema.columns import Categorical
from tests.conftest import PRIVATE, PUBLIC, SIZES, arrow, stopping
from tests.console import say

READING = "reading and counting the private table"


class Heard:
    """All that is told, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Progress]] = []

    def begin(self, told: Progress) -> None:
        self.said.append(("begin", told))

    def step(self, told: Progress) -> None:
        self.said.append(("step", told))

    def end(self, told: Progress) -> None:
        self.said.append(("end", told))

    @property
    def words(self) -> list[str]:
        return [f"{what} {told.phase} {told.done}/{told.total}" for what, told in self.said]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def heard(every: float = 0.0) -> Iterator[tuple[Heard, Clock]]:
    said, clock = Heard(), Clock()
    with listening(said, every=every, clock=clock):
        yield said, clock


# Phases.


def test_phases_within_phases_are_told_in_order() -> None:
    with heard() as (said, _):
        with phase("outer", 2) as outer:
            outer.advance()
            with phase("inner"):
                assert here().name == "inner"
            outer.advance()
        assert here().name == ""
    assert said.words == [
        "begin outer 0/2", "step outer 1/2", "begin inner 0/None", "end inner 0/None", "step outer 2/2",
        "end outer 2/2",
    ]  # fmt: skip


def test_without_a_total_no_number_is_told_however_many_steps_there_are() -> None:
    with heard() as (said, clock), phase("reading") as work:
        for _ in range(50):
            clock.now += 1
            work.advance(1234)
    assert said.words == ["begin reading 0/None", "end reading 0/None"]
    assert all(told.remaining is None for _, told in said.said)


def test_an_error_ends_a_phase_that_is_not_whole() -> None:
    with heard() as (said, _), contextlib.suppress(KeyError), phase("outer", 5) as work:
        work.advance(2)
        raise KeyError
    assert said.words[-1] == "end outer 2/5"


def test_a_mechanism_tells_its_steps_by_name() -> None:
    with heard() as (said, _), telling() as tell:
        tell(0, 3, "rounds")
        tell(1, 3, "rounds")
        with phase("inside"):
            pass
        tell(3, 3, "rounds")
        with phase("after"):
            pass
        tell(1, 2, "more")
    assert said.words == [
        "begin rounds 0/3", "step rounds 1/3", "begin inside 0/None", "end inside 0/None", "step rounds 3/3",
        "end rounds 3/3", "begin after 0/None", "end after 0/None", "begin more 0/2", "step more 1/2", "end more 2/2",
    ]  # fmt: skip


def test_nothing_is_told_where_nobody_listens_or_it_is_hushed() -> None:
    with phase("alone", 3) as work, telling() as tell:
        work.advance()
        tell(1, 2, "x")
    assert not is_listened_to()
    with heard() as (said, _), hushed(), phase("inner") as work, telling() as tell:
        work.advance()
        tell(1, 2, "x")
        assert not is_listened_to()
    assert said.words == []


def test_items_of_an_executor_are_steps_of_the_phase_and_threads_know_no_other() -> None:
    def work(item: int) -> int:
        with phase("in a thread"):
            return item * item

    with heard() as (said, _), phase("groups", 4):
        assert Threads().each(work, range(4)) == [0, 1, 4, 9]
    assert said.words == ["begin groups 0/4", *(f"step groups {i}/4" for i in range(1, 5)), "end groups 4/4"]


# Times.


def test_the_time_left_converges_and_leaves_out_what_is_inside() -> None:
    """Steps of one second each, after a first one that takes ten, with a long phase in between."""
    with heard() as (said, clock), phase("work", 40) as work:
        for step in range(40):
            clock.now += 10 if step == 0 else 1
            if step == 20:
                with phase("inside"):
                    clock.now += 500
            work.advance()
    left = {told.done: told.remaining for what, told in said.said if told.phase == "work" and what == "step"}
    assert left[1] is None  # one step has no pace
    for done in range(2, 41):
        assert left[done] == pytest.approx(40 - done)
    assert next(told for what, told in said.said if what == "begin").remaining is None


def test_steps_that_become_slower_are_followed() -> None:
    with heard() as (said, clock), phase("work", 100) as work:
        for step in range(100):
            clock.now += 1 + step / 10
            work.advance()
    truth = np.cumsum([1 + step / 10 for step in range(100)])
    for _, told in said.said[50:-2]:
        left = truth[-1] - truth[told.done - 1]
        assert told.remaining is not None
        assert 0.5 * left <= told.remaining <= 2 * left


def test_at_most_ten_updates_per_second_but_every_beginning_and_end() -> None:
    with heard(every=0.1) as (said, clock):
        for name in ("one", "two"):
            with phase(name, 1000) as work:
                for _ in range(1000):
                    clock.now += 0.001
                    work.advance()
    assert [told.phase for what, told in said.said if what != "step"] == ["one", "one", "two", "two"]
    assert 10 <= sum(what == "step" for what, _ in said.said) <= 20


def test_progress_costs_next_to_nothing() -> None:
    begin = time.thread_time()
    with heard(every=0.1), phase("work", 20_000) as work:
        for _ in range(20_000):
            work.advance()
    assert time.thread_time() - begin < 1.0  # 50 µs each, at the very most


def test_the_number_of_rounds_to_come_is_known_in_the_end() -> None:
    for found in (True, False):
        schedule = AnnealedPart(1.0, first=1 / 50)
        expected = [schedule.expected(0)]
        for done, _ in enumerate(schedule, 1):
            schedule.heard(found)
            expected.append(schedule.expected(done))
        rounds = len(expected) - 1
        assert expected[-1] == rounds
        assert all(e >= 1 for e in expected)
        for done in range(rounds // 2, rounds + 1):
            assert abs(expected[done] - rounds) <= 0.35 * rounds + 1
    assert rounds < 8  # nothing found: the shares double


def test_the_number_of_rounds_of_a_schedule_that_never_grows() -> None:
    left = 1.0
    schedule = Annealed(lambda: left, 0.1, growth=1.0, alpha=0.5)
    assert schedule.expected(0) == 10
    left = 0.0
    assert schedule.expected(10) == 10


# Compiling.


def test_compiling_is_told_when_numba_compiles_and_only_then() -> None:
    @numba.njit  # type: ignore[untyped-decorator]
    def double(x: int) -> int:
        return 2 * x

    with heard() as (said, _), phase("work"):
        assert double(2) == 4
        assert double(3) == 6
    assert said.words == [
        "begin work 0/None", f"begin {COMPILING} 0/None", f"end {COMPILING} 0/None", "end work 0/None",
    ]  # fmt: skip
    with heard() as (said, _):
        double(4)
    assert said.words == []


# The argument.


def release(**more: Any) -> op.Release:
    options: dict[str, Any] = {
        "public": arrow(PUBLIC),
        "schema": Schema.from_sizes(SIZES),
        "workload": op.all_marginals(2),
        "epsilon": 1.0,
        "delta": 1e-9,
        "mechanism": op.Mst(),
        "seed": 1,
    }
    return op.release(arrow(PRIVATE), **{**options, **more})


def phases_of(told: list[Progress]) -> list[str]:
    """Each once, in the order in which they begin."""
    return list(dict.fromkeys(p.phase for p in told if p.phase != COMPILING))


def test_a_function_is_called_with_the_phases_of_a_release_in_order(tmp_path: Any) -> None:
    told: list[Progress] = []
    release(progress=told.append, out=tmp_path / "out")
    assert phases_of(told) == [
        "reading the public table",
        "comparing the private table with the public one",
        READING,
        "measuring each column",
        "fitting",
        "choosing pairs of columns",
        "measuring pairs of columns",
        "estimating",
        "measuring the error",
        "drawing rows",
        "writing the release",
        "writing the answers",
        "making the report",
    ]
    assert all(isinstance(p, Progress) for p in told)
    assert all(p.total is None or 0 <= p.done <= p.total for p in told)


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (op.PmwPub(rounds=2), [ROUNDS]),
        (op.Tilt(particles=1000, rounds=2), ["learning from the public table", "measuring each column", ROUNDS]),
        (op.Ide(choose="workload", updates=1), ["choosing marginals by the public table", "measuring", "estimating"]),
        (op.Hierarchy(levels=(("a",),)), ["learning from the public table", "measuring, level 1 of 1"]),
        (op.Hierarchy(levels=(("a",),), inner=op.Mst()), ["mst in every group", "drawing rows, group by group"]),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)  # fmt: skip
def test_mechanisms_tell_what_they_do(mechanism: Any, words: list[str]) -> None:
    told: list[Progress] = []
    release(mechanism=mechanism, progress=told.append)
    phases = phases_of(told)
    assert [p for p in phases if p in words] == words
    assert len(phases) < 20  # a mechanism inside every group is one phase
    rounds = [p for p in told if p.phase == ROUNDS]
    assert not rounds or rounds[-1].done == rounds[-1].total


@pytest.mark.usefixtures("no_syncs")
def test_a_function_that_fails_does_not_break_a_run_that_was_charged(tmp_path: Any) -> None:
    calls = 0

    def fail(told: Progress) -> None:
        nonlocal calls
        calls += 1
        if told.phase == "choosing pairs of columns":
            raise ValueError(f"secret {told.phase}")

    whole = release(out=tmp_path / "whole")
    with pytest.warns(OpenPriorWarning, match=r"failed \(ValueError\) and is not called again") as warned:
        made = release(progress=fail, out=tmp_path / "out", ledger=tmp_path / "budget.sqlite", dataset="d")
    (said,) = [str(w.message) for w in warned if "progress" in str(w.message)]
    assert "secret" not in said
    assert made.synthetic.equals(whole.synthetic)
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert float(run.spent) == pytest.approx(made.certificate.rho_spent)
    before = calls
    release(progress=False)
    assert calls == before


@pytest.mark.usefixtures("no_syncs")
def test_stopping_from_the_function_leaves_a_run_that_can_be_resumed(tmp_path: Any) -> None:
    ledger = {"ledger": tmp_path / "budget.sqlite", "dataset": "d", "out": tmp_path / "out", "seed": None}
    with (
        stopping("choosing pairs of columns", 2, KeyboardInterrupt) as stop,
        pytest.raises(KeyboardInterrupt),
    ):
        release(progress=stop, **ledger)
    made = release(resume=True, **ledger)
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert float(run.spent) == pytest.approx(made.certificate.rho_spent)


@pytest.mark.parametrize("wrong", [1, "yes", 0.5, {}])
def test_what_is_no_progress_is_refused_before_anything_is_read(wrong: Any) -> None:
    for call in (
        lambda: op.release("nowhere.csv", epsilon=1.0, delta=1e-9, progress=wrong),
        lambda: op.tune("nowhere.csv", epsilon=1.0, delta=1e-9, progress=wrong),
        lambda: op.audit(op.Mst(), progress=wrong),
    ):
        with pytest.raises(OptionError, match=r"progress .* give True, False or such a function"):
            call()


def test_tune_and_audit_tell_their_steps() -> None:
    told: list[Progress] = []
    op.audit(op.PublicProxy(), runs=1, neighbours=1, relation="replace-one", progress=told.append)
    assert phases_of(told) == ["auditing public"]
    assert told[-1] == Progress("auditing public", 3, 3, told[-1].remaining)
    told.clear()
    op.tune(
        arrow(PUBLIC), schema=Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-9, grid={"public": {}}, seeds=2,
        workload=op.all_marginals(1), workers=1, progress=told.append,
    )  # fmt: skip
    assert phases_of(told) == ["trying settings"]
    assert told[-1].done == told[-1].total == 2


# Nothing private.


def rows_told(relation: str, schema: Schema, rows: int) -> list[str]:
    table = arrow(PRIVATE).slice(0, rows).append_column("who", [list(range(rows))])
    told: list[Progress] = []
    op.release(
        table, arrow(PUBLIC), schema=schema, workload=op.all_marginals(1), epsilon=1.0, delta=1e-9,
        mechanism=op.PmwPub(rounds=2), relation=relation, seed=1, progress=told.append,
    )  # fmt: skip
    return [f"{p.phase} {p.done} of {p.total}" for p in told if p.phase == READING]


def test_the_number_of_rows_is_told_only_where_it_is_public() -> None:
    plain = Schema.from_sizes(SIZES)
    persons = Schema(plain.columns, person_id="who", max_rows_per_person=1)
    assert f"{READING} 0 of 700" in rows_told("replace-one", plain, 700)
    for relation, schema in (("add-remove", plain), ("add-remove", persons), ("replace-one", persons)):
        assert rows_told(relation, schema, 700) == rows_told(relation, schema, 699)
        assert rows_told(relation, schema, 700) == [f"{READING} 0 of None"]


def test_progress_does_not_tell_where_a_folder_ends(tmp_path: Path) -> None:
    """How many rows `illness=flu` has is a count of the private table."""
    schema = Schema(
        (Categorical(name="illness", values=("cold", "flu")), Categorical(name="sex", values=("f", "m")))
    )
    told = []
    for number, flu in enumerate((30_000, 30_001)):
        for illness, rows in (("cold", 60_000 - flu), ("flu", flu)):
            folder = tmp_path / str(number) / f"illness={illness}"
            folder.mkdir(parents=True)
            pq.write_table(
                pa.table({"sex": pa.array(["f", "m"]).take(pa.array(np.arange(rows) % 2))}),
                folder / "p.parquet",
            )
        heard = Heard()
        with listening(heard, every=0.0, compiling=False):
            op.release(
                tmp_path / str(number), schema=schema, workload=op.all_marginals(1), epsilon=1.0, delta=1e-9, seed=1,
                mechanism=op.Mst(), progress=None,
            )  # fmt: skip
        told.append([words for words in heard.words if READING in words])
    assert told[0] == told[1] and f"step {READING} 16384/60000" in told[0]


def test_the_audit_sees_what_progress_tells() -> None:
    class Tells(op.Mst):
        """Says in a phase how many rows there are."""

        def run(self, curator: Any, public: Any, workload: Any, rng: Any, progress: Any) -> Any:
            rows = curator._Curator__vault.rows
            with phase("telling too much", 1000 + rows):
                return super().run(curator, public, workload, rng, progress)

    found = op.audit(Tells(), runs=1, neighbours=1, relation="add-remove")
    assert any("progress, remarks or warnings have other words" in fault for fault in found.faults)
    assert op.audit(op.Mst(), runs=1, neighbours=1, relation="add-remove").ok


# What people see.


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines for a log come when a phase begins."""
    monkeypatch.setattr(progress_shown, "PATIENCE", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_log_gets_one_plain_line_per_phase() -> None:
    stream = io.StringIO()
    with listening(_Lines(stream), every=0.0):
        for name in ("one", "two", "one"):
            with phase(name, 500) as work:
                for _ in range(500):
                    work.advance()
    assert stream.getvalue() == "one ...\ntwo ...\n"


def test_a_log_gets_no_line_for_what_is_quick_and_none_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_shown, "PATIENCE", 0.05)
    stream = io.StringIO()
    with contextlib.closing(_Lines(stream)) as lines, listening(lines):
        with phase("quick"):
            pass
        with phase("slow"):
            for _ in range(200):
                time.sleep(0.01)
                if stream.getvalue():
                    break
    assert stream.getvalue() == "slow ...\n"
    before = threading.active_count()
    lines.begin(Progress("late", 0, None, None))
    lines.close()
    time.sleep(0.08)
    assert stream.getvalue() == "slow ...\n"
    assert threading.active_count() <= before


@pytest.mark.usefixtures("at_once")
def test_a_closed_log_does_not_matter() -> None:
    stream = io.StringIO()
    stream.close()
    with listening(_Lines(stream)), phase("work"):
        pass


def test_nothing_is_shown_in_silence_or_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (None, False):
        release(progress=progress)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("at_once")
def test_true_shows_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    release(progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert f"{READING} ..." in lines and len(lines) == len(set(lines)) < 15
    assert not any(character.isdigit() for line in lines for character in line)


def test_none_leaves_it_to_who_watches_already() -> None:
    told: list[Progress] = []
    with watching(told.append):
        release()
        seen = len(told)
        release(progress=False)
    assert seen > 0
    assert len(told) == seen


def test_a_notebook_gets_lines_that_are_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Shown:
        def update(self, page: str) -> None:
            pages.append(page)

    def display(page: str, display_id: bool) -> Shown:
        assert display_id
        pages.append(page)
        return Shown()

    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display, Pretty=str))
    with watching(None), phase("work", 4) as work:
        work.advance(2)
    assert pages[0] == "work ..."
    assert pages[-1] == "work: done"


TERMINAL = """
import time
from openprior.progress import phase
from openprior.progress_shown import watching
with watching(None), phase("learning", 20) as work:
    for _ in range(20):
        time.sleep(0.05)
        work.advance()
print("end")
"""


def test_a_terminal_gets_a_bar_with_the_time_left() -> None:
    main, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", TERMINAL], stderr=other, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        os.close(other)
        shown = b""
        with contextlib.suppress(OSError):  # that is how a terminal ends
            while piece := os.read(main, 4096):
                shown += piece
        assert process.stdout is not None
        assert process.stdout.read() == "end\n"
    os.close(main)
    assert b"learning" in shown and b"about 1 s left" in shown


@pytest.mark.usefixtures("at_once")
def test_quiet_on_the_command_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--runs", "1", "--neighbours", "1", "--relation", "replace-one"]
    loud, silent = say("audit", "public", *arguments), say("audit", "public", "--quiet", *arguments)
    assert loud.err == "auditing public ...\n"
    assert silent.err == ""
    assert (loud.code, silent.code) == (0, 0)
