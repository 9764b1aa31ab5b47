"""The parts of `make rivals` that need no other tool: lines of outcomes, the time limit, going on after a stop."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lines import Lines
from benchmarks.rivals import __main__ as command
from benchmarks.rivals import environments, picture, results, summary
from benchmarks.rivals.environments import Environment, NotInstalled
from benchmarks.rivals.kept import Asked, Kept, Run
from benchmarks.rivals.one_run import run
from benchmarks.rivals.tables import Truth, hand_out, take_back
from benchmarks.rivals.tools import TOOLS, Tool
from openprior.schema.domain import Domain
from openprior.tables.encode import Table

ASKED = Asked("dpmm", "1.0", "abc", "mst", "titanic", 1.0, 1e-9, 0)
SIZES = {"c00": 3, "c01": 2, "c02": 4}


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(1)
    return Table(Domain(SIZES), tuple(rng.integers(0, size, 60) for size in SIZES.values()))


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """The table of results, somewhere else."""
    there = Lines(tmp_path / "rivals.md", results.HEADER, keys=4)
    for module in (results, picture):
        monkeypatch.setattr(module, "TABLE", there)
        monkeypatch.setattr(module, "RESULTS", there.path)
    monkeypatch.setattr(summary, "TABLE", there)
    monkeypatch.setattr(summary, "SUMMARY", tmp_path / "summary.md")
    return there


def test_a_line_tells_errors_or_what_happened_instead() -> None:
    done = [Run(replace(ASKED, seed=s), 9.0, 0.25 + s / 4, 0.5, 12.0, 300.0) for s in range(2)]
    assert results.cells(done, "add-remove") == [
        "add-remove", "0.3750 ± 0.1250", "0.5000 ± 0.0000", "12", "300", "2", "1.0",
    ]  # fmt: skip
    slow = Run(ASKED, 9.0, words="did not finish in 9 s", timed_out=True)
    assert results.cells([slow], "add-remove")[1:] == ["did not finish in 9 s", "", "", "", "1", "1.0"]
    assert results.cells([done[0], slow], "add-remove")[1:6:4] == [
        "0.2500",
        "1; 1 more did not finish in 9 s",
    ]


def test_the_table_keeps_its_order_and_forgets_that_a_tool_could_not_be_had(lines: Lines) -> None:
    tool = TOOLS["dpmm"]
    results.put_missing(tool, results.ALL, "could not be installed: no such thing")
    assert "could not be installed" in lines.path.read_text()
    results.put(tool, [Run(replace(ASKED, epsilon=10.0), 9.0, 0.1, 0.2, 1.0, 300.0)])
    results.put(tool, [Run(ASKED, 9.0, 0.3, 0.4, 1.0, 300.0)])
    assert list(lines.read()) == [("titanic", "dpmm", "mst", e) for e in ("1", "10")]
    assert picture.read() == {"titanic": {("dpmm", "mst"): [(1.0, 0.4, 0.0), (10.0, 0.2, 0.0)]}}
    picture.write()
    assert "dpmm mst" in lines.path.with_suffix(".svg").read_text()


def test_the_summary_has_the_best_of_each_side_and_leaves_out_what_did_not_finish(lines: Lines) -> None:
    def put(tool: str, method: str, error: float, seconds: float, words: str = "") -> None:
        asked = replace(ASKED, tool=tool, method=method)
        results.put(TOOLS[tool], [Run(asked, 9.0, 0.0, error, seconds, 300.0, words)])

    for tool, method, error, seconds in (
        ("ours", "tilt", 0.3, 1.0),
        ("ours", "aim", 0.5, 4.0),
        ("ours", "mst", 0.4, 0.1),
        ("dpmm", "mst", 0.6, 9.0),
        ("opendp", "mst", 0.25, 8.0),
    ):
        put(tool, method, error, seconds)
    put("dpmm", "aim", 0.0, 0.0, words="did not finish in 9 s")
    summary.write()
    said = summary.SUMMARY.read_text(encoding="utf-8")
    assert "| titanic | 1 | 0.3000 | 0.4000 (mst) | 0.750 | 0.2500 (opendp mst, 1) | 1.200 | 0.2 |" in said
    assert "best of ours: geometric mean 0.750 over 1 cells, at most 1.01 in 1, worst 0.750." in said
    assert "other tool: geometric mean 1.200 over 1 cells, at most 1.01 in 0, worst 1.200." in said


def _is_running(pid: int) -> bool:
    """Neither gone nor waiting for its parent to ask."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_the_limit_ends_an_adapter_and_what_it_has_started(tmp_path: Path) -> None:
    script = tmp_path / "sleeping.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    begin = time.perf_counter()
    outcome = run(sys.executable, script, [], tmp_path, 3.0)
    assert time.perf_counter() - begin < 20
    assert outcome.timed_out and outcome.words == "did not finish in 3 s"
    child = int((tmp_path / "child").read_text())
    while _is_running(child) and time.perf_counter() - begin < 30:
        time.sleep(0.05)
    assert not _is_running(child)


def test_an_adapter_that_fails_is_told_by_its_last_line(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("raise ValueError('too | wide')\n")
    assert run(sys.executable, script, [], tmp_path, 60.0).words == "failed: ValueError: too / wide"


def test_messages_tell_no_places_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENPRIOR_RIVALS", str(tmp_path))
    assert environments.last_line(f"first\nno {tmp_path}/x, nor {Path.home()}/y\n^^^\n") == "no …/x, nor ~/y"
    assert len(environments.last_line("x" * 500)) == 120


def test_runs_are_kept_and_found_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "folder" / "runs.jsonl")
    assert kept.find(ASKED, 9.0) is None
    kept.add(Run(ASKED, 9.0, words="did not finish in 9 s", timed_out=True))
    with kept.path.open("a") as file:
        file.write('{"asked": {"tool"\n')
    assert kept.find(ASKED, 5.0) is not None
    assert kept.find(ASKED, 10.0) is None  # there is more time now
    kept.add(Run(ASKED, 20.0, 0.1, 0.2, 15.0, 300.0))
    found = kept.find(ASKED, 30.0)
    assert found is not None and found.three == 0.2
    assert kept.find(replace(ASKED, fingerprint="other"), 9.0) is None


def test_the_errors_are_those_of_the_rows(table: Table, tmp_path: Path) -> None:
    hand_out(table, tmp_path)
    assert json.loads((tmp_path / "domain.json").read_text()) == SIZES
    back = take_back(tmp_path, table.domain)
    truth = Truth.of(table)
    assert truth.errors(back) == (0.0, 0.0)
    twice = Table(table.domain, tuple(np.tile(column, 2) for column in table.columns))
    assert truth.errors(twice) == pytest.approx((0.0, 0.0))
    cells, other = (np.zeros((3, 2, 4)) for _ in range(2))
    np.add.at(cells, table.columns, 1)
    shuffled = Table(table.domain, (np.roll(table.columns[0], 1), *table.columns[1:]))
    np.add.at(other, shuffled.columns, 1)
    gap = (cells - other) / 60
    two = np.mean([np.abs(gap.sum(axis=axis)).sum() for axis in range(3)])
    assert truth.errors(shuffled) == pytest.approx((two, np.abs(gap).sum()))


ADAPTER = """
import numpy as np
from exchange import Task, answer


def make(task: Task) -> object:
    assert task.method == "copy" and (task.epsilon, task.delta, task.seed) == (1.0, 1e-9, 0)
    return task.rows[::2]


answer(make)
"""


def test_the_command_goes_on_where_it_was(
    table: Table, lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run by an adapter that hands half of the rows back; then the same again, which starts nothing."""
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "exchange.py").write_text((TOOLS["dpmm"].adapter.parent / "exchange.py").read_text())
    (folder / "copying_rows.py").write_text(ADAPTER)
    monkeypatch.setattr("benchmarks.rivals.tools.ADAPTERS", folder)
    monkeypatch.setenv("OPENPRIOR_RIVALS", str(tmp_path))
    tools = Tool("copying", {"copy": "add-remove"}), Tool("absent", {})

    def environment_of(tool: Tool) -> Environment:
        if tool.name == "absent":
            raise NotInstalled("nowhere to be found")
        return Environment(sys.executable, "1.0")

    for module in (command, results):
        monkeypatch.setattr(module, "TOOLS", {tool.name: tool for tool in tools})
    monkeypatch.setattr(command, "METHODS", ("copy",))
    monkeypatch.setattr(command, "environment_of", environment_of)
    monkeypatch.setattr(command, "load", lambda name: table)
    started = []

    def counting(*arguments: object) -> object:
        started.append(arguments)
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "run", counting)
    half = Table(table.domain, tuple(column[::2] for column in table.columns))
    two, three = Truth.of(table).errors(half)
    for _ in range(2):
        command.main(["titanic", "1", "seeds=1", "limit=60"])
        assert len(started) == 1
        (absent, done) = lines.read().values()
        assert "could not be installed: nowhere to be found" in absent
        assert f"| {two:.4f} | {three:.4f} |" in done


def test_rows_of_a_model_keep_its_independence() -> None:
    """Two columns that are independent given a third: rows follow the model, also where the columns meet."""
    mbi = pytest.importorskip("mbi")
    from benchmarks.rivals.adapters.mbi_drawing import synthetic_data

    domain, rng = mbi.Domain(["a", "b", "c"], [3, 4, 5]), np.random.default_rng(0)
    tables = {
        clique: mbi.Factor(domain.project(clique), np.log(rng.dirichlet(np.ones(size), 3)))
        for clique, size in ((("a", "b"), 4), (("a", "c"), 5))
    }
    potentials = mbi.CliqueVector(domain, list(tables), tables)
    marginals = mbi.marginal_oracles.message_passing_stable(potentials)
    model = mbi.MarkovRandomField(potentials=potentials, marginals=marginals, total=1)
    np.random.seed(0)  # mbi draws from the global generator
    rows = synthetic_data(model, 30_000)
    for names, tolerance in ((("a",), 1e-4), (("a", "b"), 1e-3), (("a", "c"), 1e-3), (("b", "c"), 0.03)):
        drawn = np.asarray(rows.project(names).datavector()) / 30_000
        told = np.asarray(model.project(names).datavector())
        assert np.abs(drawn - told / told.sum()).sum() < tolerance


def test_unknown_words_are_told() -> None:
    with pytest.raises(SystemExit, match="unknown: nothing"):
        command.Plan.of(["nothing"])
    plan = command.Plan.of(["adult", "10", "1", "seeds=3", "aim"])
    assert (plan.tables, plan.epsilons, plan.seeds, plan.limit) == (("adult",), (1.0, 10.0), 3, 600.0)
    assert plan.methods == ("aim",) and set(plan.tools) == set(TOOLS)
