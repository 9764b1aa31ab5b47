"""The command line from end to end on small simulated surveys: what it writes, what it prints, what it survives."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import openprior as op
from openprior import Schema, open_release
from openprior.command_line import main as cli
from openprior.privacy.ledger import Ledger
from openprior.tables.simulate import demo_surveys
from tests.console import PROGRAM, say
from tests.forgery import written

ROWS = 300
COLUMNS = ("region", "age", "sex", "children", "income", "moved_in", "chronic")
FILES = {
    "synthetic.parquet", "answers.parquet", "measurements.parquet", "model", "certificate.json", "report.html",
    "schema.toml", "workload.json", "public.json", "error_bars.json",
}  # fmt: skip
NOT_PRIVATE = "NOT PRIVATE (seeded noise)"


def done(*args: str) -> str:
    said = say(*args)
    assert said.code == 0 and said.err == "", said
    return said.out


def release(
    *args: str, private: str = "private.csv", public: str = "public.csv", mechanism: str | None = "pmw-pub"
) -> list[str]:
    rest = ["--epsilon", "1", "--delta", "1e-9", "--workload", "2"]
    rest += [] if "-o" in args else ["-o", "out"]
    rest += [] if mechanism is None else ["-m", mechanism]
    return ["release", private, "--public", public, "--schema", "schema.toml", *rest, *args]


def set_budget() -> None:
    """A ledger with room for one release."""
    done("ledger", "budget", "budget.sqlite", "private", "--epsilon", "1", "--delta", "1e-9")


@pytest.fixture(scope="module")
def surveys() -> tuple[pa.Table, pa.Table]:
    public, private = demo_surveys(ROWS, ROWS)
    return public.select(COLUMNS), private.select(COLUMNS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surveys: tuple[pa.Table, pa.Table]) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in zip(("public", "private"), surveys, strict=True):
        pacsv.write_csv(rows, f"{name}.csv")
        pq.write_table(rows, f"{name}.parquet")
        with gzip.open(f"{name}.csv.gz", "wb") as file:
            file.write(Path(f"{name}.csv").read_bytes())
        Path(name).mkdir()
        pacsv.write_csv(rows.slice(0, 100), f"{name}/1.csv")
        pacsv.write_csv(rows.slice(100), f"{name}/2.csv")
    # A draft from 300 rows may have seen no missing value where the other survey has one.
    drafted = Schema.draft("public.csv")
    Schema(tuple(replace(c, missing=True) for c in drafted.columns)).save("schema.toml")
    return tmp_path


@pytest.mark.usefixtures("few_particles")
def test_from_draft_to_ledger(place: Path) -> None:
    out = done("schema", "draft", "public.csv", "-o", "draft.toml", "--bins", "8")
    assert "wrote draft.toml: 7 columns" in out and "region" in out
    assert Schema.load("draft.toml").names == COLUMNS
    set_budget()
    out = done(*release("--ledger", "budget.sqlite", mechanism=None))
    assert f"wrote out: {ROWS} synthetic rows by tilt" in out
    assert "Differentially private with ε = 1 and δ = 1e-09" in out and "NOT PRIVATE" not in out
    assert "No ledger" not in out
    assert {p.name for p in Path("out").iterdir()} == FILES
    assert not Path("out.journal").exists()

    out = done("evaluate", "out", "--private", "private.csv")
    assert (
        out.startswith(("NOT PRIVATE", "LARGE LOSS"))
        and "NOT PRIVATE: comp" in out
        and "workload error" in out
    )
    assert {p.name for p in Path("out").iterdir()} == FILES, "an evaluation must not lie in what is published"
    assert "NOT PRIVATE" in Path("out.evaluation/report.html").read_text()
    assert "NOT PRIVATE" not in Path("out/report.html").read_text()

    out = done("ledger", "show", "budget.sqlite")
    assert out.startswith("private: ε = 1, δ = 1e-09") and "closed" in out and "100.0%" in out
    assert "protects   a row, replace-one" in out and "left       ε = 0 for a next run at δ = 1e-09" in out
    assert "tilt into out" in out and "reserved ε = 1, δ = 1e-09" in out and "spent ε = " in out
    assert max(len(line) for line in out.splitlines()) <= 100


def test_the_release_opens_without_the_private_table(place: Path, surveys: tuple[pa.Table, pa.Table]) -> None:
    done(*release(private="private.parquet", public="public.parquet"))
    Path("private.parquet").unlink()
    made = open_release("out")
    assert made.synthetic.num_rows == ROWS and tuple(made.synthetic.column_names) == COLUMNS
    types = {c.name: c.arrow for c in Schema.load("schema.toml").columns}
    assert {f.name: f.type for f in made.synthetic.schema} == types
    for name in ("age", "children", "income", "moved_in"):
        assert made.synthetic.schema.field(name).type == surveys[1].schema.field(name).type
    labels = set(made.synthetic["region"].to_pylist())
    assert labels <= {*surveys[0]["region"].to_pylist(), "other", None}
    made.certificate.recheck()
    answers = made.answers(["age", "sex"])
    assert answers.column_names == ["age", "sex", "estimate", "standard_error", "low", "high", "basis"]
    assert sum(answers["estimate"].to_pylist()) == pytest.approx(ROWS)
    wanted = pq.read_table("out/answers.parquet")
    assert wanted.column_names == [
        *("marginal", "query", "value_1", "value_2", "cell"),
        *("estimate", "standard_error", "low", "high", "basis"),
    ]
    assert len(set(wanted["marginal"].to_pylist())) == 21  # all pairs of seven columns
    first = json.loads(Path("out/certificate.json").read_text())
    assert first["noise"] == "secure" and first["epsilon"] == 1 and first["events"]
    copy = made.save("copy", format="csv")
    assert open_release(copy).certificate == made.certificate


@pytest.mark.parametrize("kind", ["parquet", "csv.gz", "folder"])
def test_every_kind_of_file_gives_the_same_release(place: Path, kind: str) -> None:
    ending = "" if kind == "folder" else f".{kind}"
    seed = ["--insecure-seed", "5", "--dataset", "survey"]
    done(*release(*seed))
    done(*release(*seed, "-o", "other", private=f"private{ending}", public=f"public{ending}"))
    first, second = open_release("out"), open_release("other")
    assert first.certificate.events == second.certificate.events
    # Inside a bin, values are drawn from the public ones batch by batch, and a folder has other batches.
    names = ["region", "sex", "children", "chronic"] if kind == "folder" else list(COLUMNS)
    assert first.synthetic.select(names).equals(second.synthetic.select(names))


def test_csv_output(place: Path) -> None:
    done(*release("--format", "csv"))
    assert {p.name for p in Path("out").iterdir()} == {n.replace(".parquet", ".csv") for n in FILES}
    with Path("out/synthetic.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == COLUMNS and len(rows) == ROWS + 1
    made = open_release("out")
    assert made.synthetic.num_rows == ROWS and tuple(made.synthetic.column_names) == COLUMNS
    assert {f.name: f.type for f in made.synthetic.schema} == {c.name: c.arrow for c in made.schema.columns}


def test_error_bars_have_the_share_that_is_said(place: Path) -> None:
    for share, files in (("0", FILES - {"error_bars.json"}), ("0.3", FILES)):
        folder = f"out-{share}"
        done(*release("--error-bars", share, "-o", folder))
        assert {p.name for p in Path(folder).iterdir()} == files
        done("check", folder)
        done("answers", folder, "-o", f"{folder}.csv")
        bases = set(pacsv.read_csv(f"{folder}.csv")["basis"].to_pylist())
        assert ("calibrated" in bases, "none" in bases) == ((False, True) if share == "0" else (True, False))
        certificate = open_release(folder).certificate
        errors = [e.rho for e in certificate.events if "errors" in e.to_dict().values()]
        assert sum(errors) == pytest.approx(float(share) * certificate.rho)
    for odd in ("-1", "0.6", "nan", "all"):
        said = say(*release("--error-bars", odd, "-o", "odd"))
        assert said.code != 0 and "error" in said.err and not Path("odd").exists()


def test_seeded_noise_is_marked_everywhere_and_repeats(place: Path) -> None:
    out = done(*release("--insecure-seed", "7"))
    assert NOT_PRIVATE in out and "Differentially private" not in out
    assert json.loads(Path("out/certificate.json").read_text())["noise"] == NOT_PRIVATE
    assert NOT_PRIVATE in Path("out/report.html").read_text()
    assert not open_release("out").certificate.is_private
    done(*release("--insecure-seed", "7", "-o", "again"))
    done(*release("--insecure-seed", "8", "-o", "other"))
    tables = [open_release(name).synthetic for name in ("out", "again", "other")]
    assert tables[0].equals(tables[1]) and not tables[0].equals(tables[2])
    facts = json.loads(done(*release("--insecure-seed", "7", "-o", "json", "--json")))
    assert facts["noise"] == NOT_PRIVATE and facts["statement"].startswith(NOT_PRIVATE)


def test_json(place: Path) -> None:
    def parsed(*args: str) -> Any:
        return json.loads(done(*args, "--json"))

    drafted = parsed("schema", "draft", "public.csv", "-o", "draft.toml")
    assert set(drafted) == {"out", "sizes", "hash", "notes"} and tuple(drafted["sizes"]) == COLUMNS
    set_budget()
    made = parsed(*release("--ledger", "budget.sqlite"))
    assert set(made) == {
        *("out", "ledger", "rows", "epsilon", "delta", "rho", "rho_spent", "epsilon_spent"),
        *("mechanism", "run", "noise", "prior", "statement", "remarks", "error_bars"),
    }
    assert made["error_bars"]["rows"] == 100 and made["error_bars"]["within"] > 0
    assert (made["out"], made["rows"], made["epsilon"], made["noise"]) == ("out", ROWS, 1.0, "secure")
    assert 0 < made["rho_spent"] <= made["rho"]
    scores = parsed("evaluate", "out", "--private", "private.csv", "--of", "answers", "--report", "r.html")
    assert {"notice", "of", "workload_error", "max_error", "mean_error", "rmse", "report"} <= set(scores)
    assert scores["notice"].startswith("NOT PRIVATE") and 0 < scores["workload_error"] < 2
    assert Path("r.html").is_file() and not Path("out.evaluation").exists()
    (dataset,) = parsed("ledger", "show", "budget.sqlite")
    assert {"dataset", "epsilon", "delta", "rho", "committed", "remaining", "runs"} <= set(dataset)
    assert dataset["epsilon_left"] == 0 and 0.99 < dataset["epsilon_committed"] <= 1
    assert dataset["refusals"] == 0 and dataset["protects"] == "a row, replace-one"
    assert [(c["before"], c["epsilon"], c["stated"]) for c in dataset["changes"]] == [(None, 1.0, True)]
    (run,) = dataset["runs"]
    assert {"id", "state", "reserved", "spent", "started"} <= set(run) and run["state"] == "closed"
    assert (run["mechanism"], run["out"], run["resumed"], run["epsilon"]) == ("pmw-pub", "out", 0, 1.0)
    assert run["unit"] == {"person": None, "rows_per_person": 1, "relation": "replace-one"}
    listed = parsed("mechanisms")
    assert {"pmw-pub", "mwem", "mwem-pub", "public"} <= set(listed)
    assert {"good_for", "needs_public", "options"} <= set(listed["pmw-pub"])


COMMANDS = (
    ("release",), ("check",), ("evaluate",), ("compare",), ("mechanisms",), ("demo",), ("schema", "draft"),
    ("ledger", "show"), ("ledger", "budget"), ("ledger", "close"), ("plan",), ("screen",), ("tune",),
    ("choose-public",), ("divergences",), ("prior",), ("cache",),
    ("estimate",), ("audit",), ("answers",), ("rows",), ("figures",), ("replicates",), ("schema", "check"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: tuple[str, ...]) -> None:
    out = done(*command, "--help")
    assert "Example: openprior " + " ".join(command) in " ".join(out.split())


def test_every_command_is_in_that_list() -> None:
    from typer.main import get_command

    found = set()
    for name, command in get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        found |= {(name, sub) for sub in getattr(command, "commands", {})} or {(name,)}
    assert set(COMMANDS) == found


@pytest.mark.parametrize(
    "args",
    [
        ("release",),
        ("release", "private.csv", "-o", "out", "--epsilon", "much", "--delta", "1e-9"),
        ("release", "private.csv", "-o", "out", "--delta", "1e-9"),
        ("release", "private.csv", "-o", "out", "--epsilon", "1", "--delta", "1e-9", "--magic"),
        ("magic",),
        ("ledger", "magic"),
        ("ledger", "show"),
        ("ledger", "show", "x", "--ledger-timeout", "-1"),
    ],
)
def test_wrong_usage_is_2(place: Path, args: tuple[str, ...]) -> None:
    said = say(*args)
    assert said.code == 2 and said.out == "" and "Usage:" in said.err and "Traceback" not in said.err
    assert not Path("out").exists()


def test_ledger_budget_and_close(place: Path) -> None:
    out = done("ledger", "budget", "budget.sqlite", "survey", "--epsilon", "3", "--delta", "1e-9")
    assert out.startswith("survey: ε = 3")
    ledgered = ["--ledger", "budget.sqlite", "--dataset", "survey"]
    done(*release(*ledgered))
    done(*release(*ledgered, "-o", "second"))  # ε = 3 has room for two of ε = 1: ρ grows like ε²
    ledger = Ledger("budget.sqlite")
    details = ledger.datasets()[0].runs[0].details
    run = ledger.open_run("survey", rho=0.001, epsilon=0.1, delta=1e-9, details=details)
    ledger.charge(run, 0, 0.0004, {})
    assert f"{run}" in done("ledger", "show", "budget.sqlite")
    assert done("ledger", "close", "budget.sqlite", run) == f"closed {run}\n"
    (dataset,) = ledger.datasets()
    assert dataset.runs[-1].state == "closed" and float(dataset.runs[-1].spent) == 0.0004
    said = say("ledger", "budget", "budget.sqlite", "survey", "--epsilon", "0.5", "--delta", "1e-9")
    assert said.code == 1 and "committed" in said.err
    assert "is empty" in _shown_empty()


def test_raising_a_budget_needs_a_yes(place: Path) -> None:
    def budget(epsilon: str, *more: str) -> tuple[str, ...]:
        return ("ledger", "budget", "b.sqlite", "survey", "--epsilon", epsilon, "--delta", "1e-9", *more)

    done(*budget("2"))
    said = say(*budget("4"))
    assert said.code == 1 and "promises everybody in the table less" in said.err and "--yes" in said.err
    assert "survey: ε = 2" in done("ledger", "show", "b.sqlite")
    done(*budget("4", "--yes"))
    done(*budget("3"))
    shown = done("ledger", "show", "b.sqlite")
    assert "survey: ε = 3" in shown
    assert shown.count("  budget     ") == 3 and "from ε = 2, δ = 1e-09 to ε = 4, δ = 1e-09 (ρ" in shown
    assert max(len(line) for line in shown.splitlines()) <= 100


def test_a_ledger_is_not_begun_by_a_slip(place: Path) -> None:
    said = say(*release("--ledger", "bugdet.sqlite"))
    assert said.code == 1 and "there is no ledger bugdet.sqlite" in said.err
    assert "openprior ledger budget" in said.err and "--new-ledger" in said.err
    assert not Path("bugdet.sqlite").exists() and not Path("out.journal").exists()
    said = say(*release("--ledger", "new.sqlite", "--new-ledger"))
    assert said.code == 0 and said.err.startswith("warning: ledger new.sqlite is new")
    said = say(*release("--ledger", "new.sqlite", "--dataset", "privat", "-o", "second"))
    assert said.code == 0 and "dataset 'privat' is new in ledger new.sqlite (it has 'private')" in said.err
    assert "No ledger:" in done(*release("-o", "third"))
    assert "No ledger:" in done(
        "screen", "private.csv", "--schema", "schema.toml", "--public", "public.csv", "--epsilon", "1"
    )


def test_after_a_few_refusals_one_must_say_so(place: Path) -> None:
    set_budget()
    strict = [
        replace(c, other=False, out_of_domain="error") if c.name == "sex" else c
        for c in Schema.load("schema.toml").columns
    ]
    Schema(tuple(strict)).save("schema.toml")
    good = Path("private.csv").read_text()
    Path("private.csv").write_text(good.replace("female", "unheard of", 1))
    command = release("--ledger", "budget.sqlite")
    for count in (1, 2, 3):
        said = say(*command)
        assert said.code == 1 and "'sex'" in said.err
        assert f"refusals   {count} in all, {count} since" in done("ledger", "show", "budget.sqlite")
    Path("private.csv").write_text(good)
    screen = [
        "screen",
        "private.csv",
        "--public",
        "public.csv",
        "--schema",
        "schema.toml",
        "--epsilon",
        "0.01",
    ]
    for asked in (command, [*screen, "--ledger", "budget.sqlite"]):
        said = say(*asked)
        assert said.code == 1 and "--acknowledge-refusals" in said.err
    done(*command, "--acknowledge-refusals")
    assert "refusals   3 in all, 0 since" in done("ledger", "show", "budget.sqlite")


def _shown_empty() -> str:
    Ledger("new.sqlite").datasets()
    return done("ledger", "show", "new.sqlite")


@pytest.mark.usefixtures("few_particles")
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = done("demo", "--rows", "600", "-o", "demo")
    for name in ("public", "tilt"):
        assert name in out
    assert "NOT PRIVATE" in out and "wrote demo" in out
    assert {p.name for p in Path("demo").iterdir()} == FILES
    assert open_release("demo").synthetic.num_rows == 600
    assert os.listdir(".") == ["demo"]


# Interrupted


def start(*args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop(process: "subprocess.Popen[str]", how: signal.Signals, records: int) -> tuple[int, str]:
    """Send the signal once the journal has so many outcomes."""
    journal, end = Path("out.journal"), time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b'{"seq":') >= records):
        assert process.poll() is None, f"it ended before it could be stopped: {process.communicate()}"
        assert time.monotonic() < end, "the journal does not grow"
        time.sleep(0.002)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def recorded() -> list[dict[str, Any]]:
    """The outcomes in the journal that anybody can read: those whose key the ledger has."""
    ledger = Ledger("budget.sqlite")
    known = ledger.seals(ledger.datasets()[0].runs[0].id).outcomes
    lines = Path("out.journal").read_bytes().split(b"\n")[1:-1]
    return [r for line in lines if (r := json.loads(line)["record"]).get("seq") in known]


def test_stopped_and_killed_and_resumed(place: Path) -> None:
    set_budget()
    command = release("--ledger", "budget.sqlite", "-O", "rounds=60")
    code, err = stop(start(*command), signal.SIGINT, 20)
    assert code == 130 and err.splitlines()[-1].startswith("stopped; continue it") and "--resume" in err
    assert "Traceback" not in err and not Path("out").exists()
    first = recorded()

    code, _ = stop(start(*command, "--resume"), signal.SIGKILL, len(first) + 60)
    assert code == -signal.SIGKILL and not Path("out").exists()
    journal = recorded()
    assert journal[: len(first)] == first and len(journal) >= 60
    ledger = Ledger("budget.sqlite")
    (dataset,) = ledger.datasets()
    (run,) = dataset.runs
    charged = ledger.events(run.id)
    # Charged before it is drawn, drawn before it is recorded: at most one charge has no record yet.
    assert run.state == "open" and 0 <= len(charged) - len(journal) <= 1

    done(*command, "--resume")
    made = open_release("out")
    events = made.certificate.events
    (dataset,) = ledger.datasets()
    (run,) = dataset.runs
    final = ledger.events(run.id)
    assert run.state == "closed" and run.spent <= run.reserved and not Path("out.journal").exists()
    assert [e.seq for e in final] == list(range(len(events)))
    assert [e.rho for e in final] == [e.rho for e in events]
    assert final[: len(charged)] == charged
    # What had been drawn was used again: the secure noise would not have chosen the same cells twice.
    for record, event in zip(journal, events, strict=False):
        assert json.loads(record["request"]) == event.to_dict()


def test_tilt_resumes_where_it_was_killed(place: Path) -> None:
    """Its particles and threads must not decide anything: the same outcomes lead to the same questions."""
    set_budget()
    command = release("--ledger", "budget.sqlite", "-O", "particles=2000", mechanism="tilt")
    code, _ = stop(start(*command), signal.SIGKILL, 10)
    assert code == -signal.SIGKILL and not Path("out").exists()
    journal = recorded()
    done(*command, "--resume")
    events = open_release("out").certificate.events
    assert len(events) > len(journal) >= 9  # the last one may not have been sealed yet
    for record, event in zip(journal, events, strict=False):
        assert json.loads(record["request"]) == event.to_dict()
    (dataset,) = Ledger("budget.sqlite").datasets()
    assert dataset.runs[0].state == "closed" and dataset.runs[0].spent <= dataset.runs[0].reserved


def test_it_speaks_to_any_terminal(place: Path) -> None:
    """Latin-1 has no ε; that must not turn a release that is written into a traceback."""
    ended = subprocess.run(
        [*PROGRAM, "ledger", "budget", "b.sqlite", "survey", "--epsilon", "1", "--delta", "1e-9"],
        check=False, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert ended.returncode == 0 and "survey: \\u03b5 = 1" in ended.stdout, ended.stderr


def test_check_rechecks_and_sees_tampering(place: Path) -> None:
    done(*release())
    out = done("check", "out")
    assert (
        out.startswith("right: ") and "Differentially private with ε = 1" in out and "The guard kept" in out
    )
    assert json.loads(done("check", "out", "--json"))["right"] is True
    path = Path("out/certificate.json")
    certificate = json.loads(path.read_text(encoding="utf-8"))
    del certificate["events"][0]
    path.write_bytes(written(certificate))
    said = say("check", "out")
    assert said.code == 1 and "the events add up" in said.err and len(said.err.splitlines()) == 1


def test_draft_options(place: Path) -> None:
    args = ("schema", "draft", "public.csv", "-o", "ids.toml")
    done(*args, "--person-id", "age", "--max-rows", "3", "--exclude", "sex", "--exclude", "income")
    drafted = Schema.load("ids.toml")
    assert (drafted.person_id, drafted.max_rows_per_person) == ("age", 3)
    assert set(drafted.names) == set(COLUMNS) - {"age", "sex", "income"}
    said = say("schema", "draft", "public.csv", "-o", "no.toml", "--exclude", "nothing")
    assert said.code == 1 and "no column 'nothing' to leave out" in said.err and not Path("no.toml").exists()


def test_the_notes_of_a_draft_are_all_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 2},{i % 3},0,{i % 30 / 8:.3f},{i % 5:02d}" for i in range(300)]
    Path("public.csv").write_text("\n".join(["sex,group,const,pay,zip", *rows]) + "\n")
    said = say("schema", "draft", "public.csv", "-o", "a.toml")
    assert said.code == 0 and said.err.splitlines() == [
        "warning: 'const' is 0 in every public row; any other value will be 'other': list in values what else may "
        "occur, or leave the column out"
    ]
    notes = [line for line in said.out.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2 and notes[0].startswith("note: 'sex', 'group': few whole numbers, taken as codes")
    assert notes[1] == "note: 'zip' has leading zeros (such as 00), so it is kept as text"
    said = say("schema", "draft", "public.csv", "-o", "b.toml", "--no-other", "--json")
    told = json.loads(said.out)
    assert set(told["notes"]) == {"sex", "group", "const", "zip"} and "is refused" in told["notes"]["sex"]
    assert said.err.count("\n") == 1 and not any(c.other for c in Schema.load("b.toml").columns)


def test_an_option_may_be_none(place: Path) -> None:
    done(*release("-O", "rounds=None"))


# Before a release, and after it.


def test_the_surveys_as_files(place: Path) -> None:
    assert "surveys/survey-2023.csv and surveys/survey-2024.csv" in done(
        "demo", "--tables", "surveys", "--rows", "600"
    )
    assert {p.name for p in Path("surveys").iterdir()} == {"survey-2023.csv", "survey-2024.csv"}
    assert "exists" in say("demo", "--tables", "surveys").err
    assert "at least 500" in say("demo", "--tables", "more", "--rows", "10").err


def test_plan_needs_no_table(place: Path) -> None:
    Path("private.csv").unlink()
    Path("public.csv").unlink()
    sizes = ("--rows", "5000", "--workload", "2", "--epsilon", "1", "--delta", "1e-9")
    assert "What ε buys" in done("plan", "schema.toml", *sizes)
    found = json.loads(done("plan", "schema.toml", *sizes, "--json"))
    assert found["epsilon"] == 1 and found["n"] == 5000


def test_screen_says_which_table_and_charges_for_it(place: Path) -> None:
    table = pacsv.read_csv("public.csv")
    pacsv.write_csv(table.filter(pc.equal(table["sex"], "female")), "women.csv")
    asked = ("--public", "women.csv", "--public", "public.csv", "--epsilon", "3", "--ledger", "b.sqlite")
    assert "there is no ledger" in say("screen", "private.csv", "--schema", "schema.toml", *asked).err
    assert not Path("b.sqlite").exists()
    done("ledger", "budget", "b.sqlite", "private", "--epsilon", "3", "--delta", "0")
    said = done("screen", "private.csv", "--schema", "schema.toml", *asked)
    assert said.index("public ") < said.index("women ")
    assert "Take public" in said and "ε = 3 and δ = 0 (pure)" in said
    assert "private: ε = 3, δ = 0" in done("ledger", "show", "b.sqlite")
    found = json.loads(
        done(
            "screen", "private.csv", "--schema", "schema.toml", *asked[:-2], "--insecure-seed", "1", "--json"
        )
    )
    assert found["noise"] == NOT_PRIVATE and [r["name"] for r in found["ranked"]] == ["public", "women"]


def test_tune_compares_on_the_public_table_alone(place: Path) -> None:
    Path("private.csv").unlink()
    budget = ("--workload", "1", "--epsilon", "1", "--delta", "1e-9", "--seeds", "1")
    said = done(
        "tune",
        "public.csv",
        "--schema",
        "schema.toml",
        *budget,
        "--try",
        "mst",
        "--try",
        "pmw-pub:rounds=4|8",
    )
    assert "pmw-pub, rounds = 4" in said and "pmw-pub, rounds = 8" in said and "openprior release" in said
    found = json.loads(
        done("tune", "public.csv", "--schema", "schema.toml", *budget, "--try", "mst", "--json")
    )
    assert found["best"]["mechanism"] == "mst"
    assert "unknown" in say("tune", "public.csv", *budget, "--try", "mts").err
    assert "unknown for mst" in say("tune", "public.csv", *budget, "--try", "mst:rounds=3").err


def test_estimate_may_be_published_and_evaluate_may_not(place: Path) -> None:
    done(*release())
    said = done("estimate", "out", "--private", "private.csv", "--epsilon", "0.5")
    assert "workload error" in said and "δ = 0 (pure)" in said and "NOT PRIVATE" not in said
    written = {p.name for p in Path("out.estimate").iterdir()}
    assert written == {"certificate.json", "estimate.json", "report.html"}
    assert "NOT PRIVATE" not in Path("out.estimate/report.html").read_text(encoding="utf-8")
    assert "exists" in say("estimate", "out", "--private", "private.csv", "--epsilon", "0.5").err
    said = done("evaluate", "out", "--private", "private.csv", "--target", "sex")
    assert "NOT PRIVATE" in said and "Accuracy of predicting sex" in said and "NIST" in said
    assert "Accuracy" not in done("evaluate", "out", "--private", "private.csv", "--quick")
    assert "NOT PRIVATE" in Path("out.evaluation/report.html").read_text(encoding="utf-8")
    inside = say("evaluate", "out", "--private", "private.csv", "--quick", "--report", "out/report.html")
    assert "to be published" in inside.err and inside.code == 1
    over = say("evaluate", "out", "--private", "private.csv", "--quick", "--report", "private.csv")
    assert "not an earlier evaluation" in over.err and Path("private.csv").read_text(encoding="utf-8")
    assert "'size' is no column" in say("evaluate", "out", "--private", "private.csv", "--target", "size").err


def test_python_runs_it_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "openprior", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"openprior {op.__version__}\n"


def test_a_name_that_is_not_there_is_guessed() -> None:
    with pytest.raises(AttributeError, match="did you mean 'estimate_error'"):
        op.estimate
