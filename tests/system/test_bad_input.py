"""Bad input: one line that names the thing and the remedy, exit code 1, nothing written, nothing spent, nothing told.

The private table carries a word and a number that must not turn up in anything that is printed, except with
--show-private. Most cases call the command line's entry point in this process; some run the real program.
"""

import contextlib
import errno
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from openprior import Schema, open_release
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.ledger import Ledger
from openprior.releases.certificate import FORMAT
from openprior.tables.simulate import demo_surveys
from tests.console import PROGRAM, Said, say

SECRET, NUMBER = "zqxsecret", "7731977"
ROWS = [("a", 5), ("b", 20), ("a", 70), ("b", 5), ("a", 20), ("a", 20), ("b", 99), ("a", 0)] * 15
GOOD = "city,age,note\n" + "".join(f"{c},{a},{SECRET} {NUMBER}\n" for c, a in ROWS)
SCHEMA = """
[columns.city]
kind = "categorical"
values = ["a", "b"]

[columns.age]
kind = "integer"
low = 0
high = 99
bins = [0, 18, 65, 99]
"""
LEDGER = "budget.sqlite"


def run(*args: str, limit: int | None = None) -> Said:
    """The real program, in a process of its own; `limit`: no file may grow beyond so many bytes."""
    first = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    ended = subprocess.run(
        [*PROGRAM, *args], check=False, capture_output=True, text=True, timeout=120, preexec_fn=first
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


DEFAULTS = {
    "--schema": "schema.toml",
    "--epsilon": "1",
    "--delta": "1e-9",
    "--workload": "2",
    "-o": "out",
    "--ledger": LEDGER,
    "-m": "pmw-pub",
}


def release(*args: str, private: str = "private.csv", public: str | None = "public.csv") -> list[str]:
    """A release with these options, and the usual ones where they say nothing."""
    given = [] if public is None else ["--public", public]
    usual = [word for name, value in DEFAULTS.items() if name not in args for word in (name, value)]
    return ["release", private, *given, *usual, *args]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a good private table, a good public one and their schema."""
    monkeypatch.chdir(tmp_path)
    Path("private.csv").write_text(GOOD)
    Path("public.csv").write_text("city,age\n" + "".join(f"{c},{a}\n" for c, a in ROWS[1:]))
    Path("schema.toml").write_text(SCHEMA)
    Ledger(LEDGER).set_budget("private", rho=budget_rho(1.0, 1e-9), epsilon=1.0, delta=1e-9)
    yield tmp_path
    for name in ("folder", "locked"):
        if (tmp_path / name).exists():
            (tmp_path / name).chmod(0o700)


def check_refused(said: Said, *words: str, notes: int = 0, secret: bool = False) -> None:
    lines = said.err.splitlines()
    assert said.code == 1, said
    assert said.out == ""
    assert lines and lines[0].startswith("error: ") and len(lines) == 1 + notes, said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in lines[0], (word, lines[0])
    told = SECRET in said.err or NUMBER in said.err
    assert told == secret, said.err


def check_nothing_left(place: Path) -> None:
    left = [p.name for p in place.iterdir() if ".draft-" in p.name or p.name.endswith(".journal")]
    assert not left and not (place / "out").exists()
    if (place / LEDGER).is_file():
        for dataset in Ledger(place / LEDGER).datasets():
            assert dataset.committed == 0 and dataset.remaining == dataset.rho
            assert dataset.runs == ()


@dataclass(frozen=True)
class Case:
    """What is wrong, and the words that must be in the error."""

    words: tuple[str, ...]
    files: dict[str, str | bytes] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    secret: bool = False
    """Whether --show-private shows it."""
    private: str = "private.csv"
    public: str | None = "public.csv"


def table(text: str, line: str = f"{SECRET},{NUMBER}\n") -> dict[str, str | bytes]:
    return {"private.csv": text + line * 3}


HEAD = "city,age\na,1\nb,2\n"
CASES = {
    "missing column, private": Case(
        ("private table 'private' has no column 'age'", "rename"), {"private.csv": f"city,{SECRET}\na,1\n"}, secret=True
    ),
    "missing column, public": Case(
        ("public table 'public' has no column 'age'", "it has city, years", "rename"), {"public.csv": "city,years\na,1"}
    ),
    "no header in the private table": Case(
        ("no column 'city'", "rename"), {"private.csv": f"{SECRET},{NUMBER},x\na,1,x\n"}, secret=True
    ),
    "unknown type": Case(
        ("schema.toml", "column 'city'", "'colour'", "categorical"),
        {"schema.toml": SCHEMA.replace("categorical", "colour")},
    ),
    "type is no text": Case(
        ("column 'city'", "['x']", "categorical"), {"schema.toml": SCHEMA.replace('"categorical"', '["x"]')}
    ),
    "unknown key": Case(("'city'", "'colour'", "known are"), {"schema.toml": SCHEMA.replace("values", "colour")}),
    "bins do not cover": Case(
        ("column 'age'", "[0, 65]", "[0, 99]", "widen"), {"schema.toml": SCHEMA.replace("65, 99]", "65]")}
    ),
    "hierarchy over a list": Case(
        ("hierarchy 'h'", "['city']"), {"schema.toml": SCHEMA + '[hierarchies.h]\ncolumn = ["city"]\nprefix = 1\n'}
    ),
    "schema is no TOML": Case(("schema.toml", "line 1", "correct"), {"schema.toml": "[columns.\n"}),
    "schema is no UTF-8": Case(("schema.toml", "UTF-8"), {"schema.toml": b"\xff\xfe"}),
    "schema is missing": Case(("none.toml", "check the path"), args=("--schema", "none.toml")),
    "schema is a folder": Case(("folder", "check the path"), args=("--schema", "folder")),
    "header only": Case(("private table is empty",), {"private.csv": "city,age\n"}),
    "header only, public": Case(("public table 'public' is empty", "at least one row"), {"public.csv": "city,age\n"}),
    "zero bytes": Case(("private.csv is empty", "check"), {"private.csv": b""}),
    "zero bytes, public": Case(("public.csv is empty", "check"), {"public.csv": b""}),
    "one row": Case(("private table has only one row",), {"private.csv": "city,age\na,1\n"}),
    "one row, public": Case(("public table has only one row", "two"), {"public.csv": "city,age\na,1\n"}),
    "not UTF-8": Case(
        ("private.csv", "column 'city'", "--encoding"),
        {"private.csv": HEAD.encode() + f"{SECRET}\xff,{NUMBER}\n".encode("latin-1")},
    ),
    "header not UTF-8": Case(("header of private.csv", "--encoding"), {"private.csv": b"city\xff,age\na,1\n"}),
    "ragged": Case(("private.csv", "its 2 columns", "check the separator"), table(HEAD, f"{SECRET},{NUMBER},3\n")),
    "ragged, short": Case(("private.csv", "its 2 columns"), table(HEAD, f"{SECRET}\n")),
    "open quote": Case(("private.csv", "quote"), table(HEAD, f'"{SECRET},{NUMBER}\n')),
    "duplicate column": Case(
        ("columns 2 and 3 of private.csv", "rename one"), {"private.csv": f"city,{SECRET},{SECRET}\na,1,2\n"}
    ),
    "duplicate column, public": Case(("columns 1 and 2 of public.csv", "rename"), {"public.csv": "city,city\na,a\n"}),
    "value outside the list": Case(
        ("private table", "column 'city'", "outside its list", "list them"), table(HEAD, f"{SECRET},1\n"), secret=True
    ),
    "value outside the bins": Case(
        ("private table", "column 'age'", "bins [0, 99]", "widen"), table(HEAD, f"a,{NUMBER}\n"), secret=True
    ),
    "text for numbers": Case(
        ("private table", "column 'age'", "no numbers", "missing_values"), table(HEAD, f"a,{SECRET}\n"), secret=True
    ),
    "missing values": Case(("column 'age'", "missing values", "set missing = true"), table(HEAD, "a,\n")),
    "value outside, rows private": Case(
        ("private table", "column 'city'", "list them"),
        table(HEAD, f"{SECRET},1\n"),
        ("--relation", "add-remove"),
        secret=True,
    ),
    "public and private disagree": Case(
        ("public table 'public'", "column 'age'", "'young'", "missing_values"), {"public.csv": "city,age\na,young\n"}
    ),
    "epsilon is 0": Case(("epsilon (0.0)", "positive"), args=("--epsilon", "0")),
    "epsilon is negative": Case(("epsilon (-1.0)", "positive"), args=("--epsilon", "-1")),
    "epsilon is nan": Case(("epsilon (nan)", "positive"), args=("--epsilon", "nan")),
    "epsilon is tiny": Case(("epsilon (1e-300)", "raise"), args=("--epsilon", "1e-300")),
    "delta is 0": Case(("delta = 0", "pure", "laplace"), args=("--delta", "0")),
    "delta is 1": Case(("delta (1.0)", "between 0 and 1"), args=("--delta", "1")),
    "delta is negative": Case(("delta (-0.1)", "between 0 and 1"), args=("--delta", "-0.1")),
    "delta is tiny": Case(("delta (", "raise"), args=("--delta", "1e-320")),
    "unknown relation": Case(("relation 'equal'", "add-remove"), args=("--relation", "equal")),
    "negative seed": Case(("seed (-3)", "at least 0"), args=("--insecure-seed", "-3")),
    "unknown format": Case(("format 'xml'", "'csv'"), args=("--format", "xml")),
    "unknown mechanism": Case(("mechanism 'magic'", "pmw-pub"), args=("-m", "magic")),
    "unknown option": Case(("option 'magic'", "pmw-pub", "rounds"), args=("-O", "magic=1")),
    "option without value": Case(("option 'rounds'", "rounds=VALUE"), args=("-O", "rounds")),
    "option not a number": Case(("rounds = 'many'", "whole number"), args=("-O", "rounds=many")),
    "option not true or false": Case(("replay = 'maybe'", "true or false"), args=("-O", "replay=maybe")),
    "option out of range": Case(("rounds (0)", "at least 1"), args=("-O", "rounds=0")),
    "option of no such word": Case(("selection 'magic'", "exponential"), args=("-O", "selection=magic")),
    "needs public": Case(("'pmw-pub' needs a public table", "give one"), public=None),
    "unknown workload column": Case(("'zip'", "there are city, age"), args=("--workload", "city,zip")),
    "unknown target column": Case(("'zip'", "there are city, age"), args=("--workload", "target:zip:2")),
    "empty workload": Case(("empty workload", "name"), args=("--workload", "")),
    "workload not understood": Case(("'random:2'", "is not understood; write '3'"), args=("--workload", "random:2")),
    "marginal too large": Case(
        ("marginal city × age has 200,000,000 cells", "the limit of 33,554,432", "fewer bins"),
        {"schema.toml": SCHEMA.replace("high = 99\nbins = [0, 18, 65, 99]", "high = 99999999")},
    ),
    "missing file": Case(("none.csv", "check the path"), private="none.csv"),
    "missing file, public": Case(("none.csv", "check the path"), public="none.csv"),
    "folder of mixed files": Case(("folder mixed", "keep one kind"), private="mixed"),
    "folder of nothing": Case(("folder folder", "no CSV, Parquet or JSON"), private="folder"),
    "damaged Parquet": Case(("broken.parquet", "write it again"), private="broken.parquet"),
    "nested column": Case(("column 'city'", "flatten"), private="nested.parquet", args=("--dataset", "private")),
    "no folder for the output": Case(("folder none", "create it first"), args=("-o", "none/out")),
    "output exists": Case(("folder exists", "choose another name"), args=("-o", "folder")),
    "output name too long": Case(("too long", "200"), args=("-o", "x" * 250)),
    "nothing to resume": Case(("out.journal does not exist",), args=("--resume",)),
    "ledger is a folder": Case(("is a folder", "name a file"), args=("--ledger", "folder")),
    "ledger is garbage": Case(("garbage", "not a ledger"), args=("--ledger", "garbage")),
    "ledger in no folder": Case(("none", "create it first"), args=("--ledger", "none/budget.sqlite", "--new-ledger")),
    "ledger is another database": Case(("other.sqlite", "not a ledger"), args=("--ledger", "other.sqlite")),
}  # fmt: skip


def prepare(case: Case) -> list[str]:
    for name, content in case.files.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("folder").mkdir()
    Path("mixed").mkdir()
    Path("mixed/1.csv").write_text(GOOD)
    pq.write_table(pa.table({"city": [["a"], [SECRET]], "age": [1, 2]}), "nested.parquet")
    Path("mixed/2.parquet").write_bytes(Path("nested.parquet").read_bytes())
    Path("broken.parquet").write_bytes(Path("nested.parquet").read_bytes()[:60])
    Path("garbage").write_bytes(b"no database, " * 500)
    Path("other.sqlite").write_bytes(_other_database())
    return release(*case.args, private=case.private, public=case.public)


def _other_database() -> bytes:
    import sqlite3

    with contextlib.closing(sqlite3.connect("scratch")) as connection:
        connection.execute("CREATE TABLE t (x)")
    return Path("scratch").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_line_and_costs_nothing(place: Path, name: str) -> None:
    case = CASES[name]
    command = prepare(case)
    check_refused(say(*command), *case.words)
    check_nothing_left(place)
    if case.secret:
        check_refused(say(*command, "--show-private"), *case.words, secret=True)
        check_nothing_left(place)


@pytest.mark.parametrize("name", ["value outside the bins", "delta is 1"])
def test_the_real_program(place: Path, name: str) -> None:
    check_refused(run(*prepare(CASES[name])), *CASES[name].words)
    check_nothing_left(place)


def test_after_a_refusal_the_whole_budget_is_there(place: Path) -> None:
    good = Path("private.csv").read_text()
    for relation in ("replace-one", "add-remove"):
        Path("private.csv").write_text(HEAD + f"{SECRET},1\n")
        check_refused(say(*release("--relation", relation)), "'city'")
    Path("private.csv").write_text(good)
    assert say(*release()).code == 0


def test_large_delta_is_a_warning(place: Path) -> None:
    Ledger(LEDGER).set_budget("private", rho=9.0, epsilon=36.0, delta=1e-9, raise_ok=True)
    said = say(*release("--delta", "0.1"))
    assert said.code == 0 and said.err.startswith("warning: delta = 0.1") and "1/n" in said.err
    assert len(said.err.splitlines()) == 1 and Path("out").is_dir()


def test_a_second_release_is_refused(place: Path) -> None:
    assert say(*release()).code == 0
    said = say(*release("-o", "out2"))
    check_refused(said, "dataset 'private'", "left", "raise the budget")
    assert not Path("out2").exists() and not Path("out2.journal").exists()
    check_refused(say(*release()), "out exists", "choose another name")
    assert open_release("out").synthetic.num_rows == len(ROWS)


def test_no_permission(place: Path) -> None:
    """As root nothing is forbidden, so the program then runs as nobody."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for file in ("private.csv", "public.csv", "schema.toml"):
            (home / file).write_bytes((place / file).read_bytes())
        Ledger(home / LEDGER).set_budget("private", epsilon=1.0, delta=1e-9)
        (home / LEDGER).chmod(0o000)
        (home / "closed").mkdir(mode=0o555)
        nobody = 65534 if os.geteuid() == 0 else None
        home.chmod(0o777)

        def as_nobody(*args: str) -> Said:
            ended = subprocess.run(
                [*PROGRAM, *args],
                check=False, capture_output=True, text=True, timeout=120, cwd=home, user=nobody,
                env={**os.environ, "HOME": name, "NUMBA_CACHE_DIR": name},
            )  # fmt: skip
            return Said(ended.returncode, ended.stdout, ended.stderr)

        try:
            runs = nobody is None or as_nobody("mechanisms").code == 0
        except PermissionError:
            runs = False
        if not runs:
            pytest.skip("nobody may not run this interpreter")
        check_refused(as_nobody(*release()), LEDGER, "readable and writable")
        check_refused(
            as_nobody(*release("--ledger", "new.sqlite", "--new-ledger", "-o", "closed/out")),
            "permission",
            "another place",
        )
        assert not (home / "out").exists() and not (home / "new.sqlite").exists()
        assert not list(home.glob("*.journal"))


def test_locked_ledger(place: Path) -> None:
    assert say("ledger", "budget", LEDGER, "private", "--epsilon", "1", "--delta", "1e-9").code == 0
    holder = f"""
import sqlite3, sys
connection = sqlite3.connect({LEDGER!r}, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        for command in (release(), ["ledger", "show", LEDGER], ["ledger", "close", LEDGER, "x"]):
            check_refused(say(*command, "--ledger-timeout", "0.1"), LEDGER, "locked for 0.1 s", "wait")
        process.communicate("")
    check_nothing_left(place)


def _large(place: Path) -> list[str]:
    """A release whose answers are larger than what is left on the disk."""
    for name, rows in zip(("public.csv", "private.csv"), demo_surveys(300, 300), strict=True):
        pacsv.write_csv(rows, place / name)
    drafted = Schema.draft("public.csv")
    Schema(tuple(replace(c, missing=True) for c in drafted.columns)).save("schema.toml")
    return release("-O", "rounds=4", "--workload", "random:3:60:1")


def check_resumes_for_free(command: list[str]) -> None:
    (before,) = Ledger(LEDGER).datasets()
    (broken,) = before.runs
    assert broken.state == "open" and broken.events > 0 and Path("out.journal").exists()
    check_refused(say(*command), "out.journal", "--resume")
    said = say(*command, "--resume")
    assert said.code == 0, said.err
    (after,) = Ledger(LEDGER).datasets()
    (ended,) = after.runs
    assert (ended.id, ended.state, ended.events, ended.spent) == (
        broken.id,
        "closed",
        broken.events,
        broken.spent,
    )
    made = open_release("out")
    assert made.certificate.run == broken.id and len(made.certificate.events) == broken.events
    assert not Path("out.journal").exists() and not list(Path().glob(".out.draft-*"))


def test_disk_full(place: Path) -> None:
    command = _large(place)
    said = run(*command, limit=200_000)
    check_refused(said, "out", os.strerror(errno.EFBIG), "free space", notes=1)
    assert "--resume" in said.err.splitlines()[1]
    assert not Path("out").exists() and not list(Path().glob(".out.draft-*"))
    Path(".out.draft-1").mkdir()  # as a run that was killed while writing would have left it
    check_resumes_for_free(command)


def full(*args: object, **options: object) -> None:
    """In place of what writes a file."""
    raise OSError(errno.ENOSPC, f"{SECRET}: no space")


@pytest.mark.parametrize(
    "what", ["pyarrow.parquet.write_table", "numpy.lib.format.write_array", "pathlib.Path.write_text"]
)
def test_no_space_left(place: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    command = release("-O", "rounds=4")
    with monkeypatch.context() as patch:
        patch.setattr(what, full)
        said = say(*command)
    check_refused(said, "out", os.strerror(errno.ENOSPC), "free space", notes=1)
    assert "--resume" in said.err.splitlines()[1] and not Path("out").exists()
    check_resumes_for_free(command)


def test_no_space_for_the_ledger(place: Path) -> None:
    check_refused(run(*release(), limit=8_000), LEDGER, "disk")
    assert not Path("out").exists() and not list(Path().glob("*.journal"))


def test_a_run_of_other_options_is_not_resumed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all: what was drawn with seeded noise must not be finished as a private release."""

    command = release("--insecure-seed", "3")
    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.write_table", full)
        assert say(*command).code == 1
    check_refused(say(*release("--resume")), "out.journal", "another seed")
    for change, word in (
        (["--relation", "add-remove"], "another unit of privacy"),
        (["--workload", "1"], "another workload"),
        (["--epsilon", "2"], "another epsilon"),
        (["-O", "rounds=5"], "another setting of the mechanism"),
    ):
        changed = release("--insecure-seed", "3", "--resume", *change)
        check_refused(say(*changed), "out.journal", word)
    assert say(*command, "--resume").code == 0
    assert not open_release("out").certificate.is_private


def test_without_a_ledger_nothing_is_left_to_resume(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [a for a in release() if a not in ("--ledger", LEDGER)]
    check_refused(say(*command, "--resume"), "ledger", "give both")
    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    check_refused(say(*command), "out", "free space")
    check_nothing_left(place)


def test_evaluate(place: Path) -> None:
    assert say(*release()).code == 0
    bad = Path("bad.csv")
    bad.write_text(HEAD + f"{SECRET},{NUMBER}\n")
    check_refused(say("evaluate", "folder", "--private", "private.csv"), "folder", "not a release")
    check_refused(say("evaluate", ".", "--private", "private.csv"), "not a release", "certificate.json")
    check_refused(say("evaluate", "out", "--private", "none.csv"), "none.csv", "check the path")
    check_refused(
        say("evaluate", "out", "--private", "bad.csv"), "private table 'bad'", "'city'", "list them"
    )
    check_refused(say("evaluate", "out", "--private", "private.csv", "--of", "x"), "'x'", "synthetic")
    check_refused(
        say("evaluate", "out", "--private", "private.csv", "--workload", "zip"), "'zip'", "there are"
    )
    check_refused(
        say("evaluate", "out", "--private", "private.csv", "--report", "out"), "report", "another place"
    )
    assert not Path("out.evaluation").exists()


DAMAGE = {
    "certificate.json": f'{{"format": {FORMAT}, "epsilon": 1}}'.encode(),
    "schema.toml": SCHEMA.replace('"a", "b"', '"a", "c"').encode(),
    "workload.json": b'{"marginals": [["zip"]], "weights": [1]}',
    "synthetic.parquet": b"PAR1 and no more",
    "model/arrays.npz": b"PK\x03\x04 and no more",
    "model/model.json": b'{"kind": "support"}',
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_release(place: Path, name: str) -> None:
    assert say(*release()).code == 0
    file = Path("out") / name
    whole = file.read_bytes()
    for content in (DAMAGE[name], whole[: len(whole) // 2], b"", None):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        said = say("evaluate", "out", "--private", "private.csv")
        gone = content is None and name == "certificate.json"
        check_refused(said, "out", "not a release" if gone else "damaged")
        assert not Path("out.evaluation").exists()


def test_ledger_and_schema_commands(place: Path) -> None:
    Path(LEDGER).unlink()
    Path("garbage").write_bytes(b"no database, " * 500)
    Path("folder").mkdir()
    check_refused(say("ledger", "show", "none.sqlite"), "none.sqlite", "check the name")
    check_refused(say("ledger", "close", "none.sqlite", "x"), "none.sqlite", "check the name")
    assert not Path("none.sqlite").exists()
    check_refused(say("ledger", "show", "garbage"), "garbage", "not a ledger")
    check_refused(say("ledger", "show", "folder"), "is a folder", "name a file")
    check_refused(say("ledger", "budget", LEDGER, "d", "--epsilon", "0", "--delta", "1e-9"), "epsilon (0.0)")
    assert not Path(LEDGER).exists()
    assert say("ledger", "budget", LEDGER, "d", "--epsilon", "1", "--delta", "1e-9").code == 0
    check_refused(say("ledger", "close", LEDGER, "x"), "no run x", "check")
    check_refused(say("schema", "draft", "none.csv", "-o", "new.toml"), "none.csv", "check the path")
    check_refused(
        say("schema", "draft", "public.csv", "-o", "schema.toml"), "schema.toml exists", "another name"
    )
    check_refused(say("schema", "draft", "public.csv", "-o", "none/new.toml"), "none/new.toml", "create it")
    check_refused(
        say("schema", "draft", "public.csv", "-o", "new.toml", "--bins", "0"), "bins = 0", "at least 1"
    )
    check_refused(say("demo", "-o", "folder"), "folder exists", "another name")
    check_refused(say("demo", "-o", "none/out"), "none/out", "create it")
    check_refused(run("schema", "draft", "public.csv", "-o", "new.toml", limit=50), "new.toml", "free space")
    assert not Path("new.toml").exists() and not list(Path().glob(".new.toml*"))


def test_a_bug_tells_where_but_not_what(place: Path) -> None:
    """The words of an exception that nobody expected may quote a row; the lines of the program do not."""
    program = f"""
import openprior
from openprior.command_line.main import main
def broken(*args, **options):
    raise KeyError({SECRET[:4]!r} + {SECRET[4:]!r})
openprior.release = broken
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, *release()], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1 and SECRET not in ended.stderr
    assert "a bug in openprior (KeyError)" in ended.stderr and "in broken" in ended.stderr


def test_names_with_line_breaks_stay_on_one_line(place: Path) -> None:
    Path("schema.toml").write_text(SCHEMA.replace("[columns.city]", '[columns."ci\\nty"]'))
    check_refused(say(*release()), "no column 'ci ty'")
