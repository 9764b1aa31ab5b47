"""Canaries: values that only the private table has are looked for in everything that leaves the process.

They stand in columns that are released (in bins, clipped, or as `other`), in columns that are not, in the names of such
columns, in person ids, in values that are refused and in rows that cannot be read. Exact counts of private rows, of
persons and of refused rows are canaries, too. `tests/leaks.py` says what is collected.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import openprior as op
from openprior.errors import OpenPriorError
from openprior.privacy.ledger import Ledger
from openprior.schema.base import Schema
from tests.conftest import stopping
from tests.console import say
from tests.leaks import Watch, watching

TEXT, NUMBER, REAL, MOMENT, PERSON, NAME = (
    "zqxcanary", 773197719, 73.19771977, "1937-11-23T07:31:19.771977", "zqxperson", "zqxcolumn",
)  # fmt: skip
# The ends of the real and of the moment, however what stands before them is written; long enough that the digits of
# some thousand noisy numbers do not have them by chance, as they have six.
ENDS = ("19771977", "19.771977")
CANARIES = (TEXT, str(NUMBER), str(REAL), MOMENT, MOMENT.replace("T", " "), PERSON, NAME, *ENDS)
SCHEMA = """
person_id = "who"
max_rows_per_person = 3

[columns.city]
kind = "categorical"
values = ["a", "b"]
other = true
out_of_domain = "other"

[columns.age]
kind = "integer"
low = 0
high = 2000000000
bins = [0, 30, 60, 2000000000]

[columns.pay]
kind = "real"
bins = [0.0, 50.0, 100.0]
missing = true

[columns.born]
kind = "datetime"
dtype = "timestamp[us]"
bins = [1900-01-01T00:00:00, 1950-01-01T00:00:00, 2000-01-01T00:00:00]
"""
MECHANISMS: dict[str, Callable[[], Any]] = {
    "public": op.PublicProxy,
    "ide": lambda: op.Ide(choose="workload", queries=("prefixes(age)",), updates=5),
    "hdmm": op.Hdmm,
    "importance": op.ImportanceWeights,
    "mst": op.Mst,
    "mwem": lambda: op.Mwem(rounds=2),
    "mwem-pub": lambda: op.MwemPub(rounds=2),
    "pmw-pub": lambda: op.PmwPub(rounds=2),
    "dual-query": lambda: op.DualQuery(rounds=3, samples=5),
    "jam-pgm": lambda: op.JamPgm(rounds=2),
    "aim": lambda: op.Aim(rounds=2),
    "tilt": lambda: op.Tilt(rounds=2, particles=1000),
    "gem-pub": lambda: op.GemPub(rounds=2, batch=16, steps=5),
    "hierarchy": lambda: op.Hierarchy(levels=(("city",),)),
}


def public_table(rows: int = 60) -> pa.Table:
    rng = np.random.default_rng(1)
    moments = rng.integers(-2_000_000_000, 900_000_000, rows).astype("datetime64[s]").astype("datetime64[us]")
    return pa.table(
        {
            "city": rng.choice(["a", "b"], rows),
            "age": rng.integers(0, 90, rows),
            "pay": rng.random(rows).round(2) * 100,
            "born": moments,
        }
    )


def private_table(rows: int = 90) -> pa.Table:
    """Every fifth row is of canaries."""
    table = public_table(rows).to_pydict()
    for i in range(0, rows, 5):
        table["city"][i], table["age"][i], table["pay"][i] = TEXT, NUMBER, REAL
        table["born"][i] = np.datetime64(MOMENT).item()
    return pa.table(
        {
            **table,
            "who": [f"{PERSON}{i // 3}" for i in range(rows)],
            NAME: [f"{TEXT} {NUMBER} {REAL}" for _ in range(rows)],
        }
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    csv.write_csv(private_table(), tmp_path / "private.csv")
    parquet.write_table(private_table(), tmp_path / "private.parquet")
    csv.write_csv(public_table(), tmp_path / "public.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    Ledger(tmp_path / "budget.sqlite").set_budget("private", rho=5.0, epsilon=21.0, delta=1e-6)
    return tmp_path


OPTIONS: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4, "dataset": "private", "ledger": "budget.sqlite"}


def release(watch: Watch, private: Any = "private.csv", **more: Any) -> op.Release:
    options: dict[str, Any] = {
        "public": "public.csv", "schema": Schema.from_toml(SCHEMA), "workload": op.all_marginals(2), "out": "out",
        "progress": watch.progress, "mechanism": op.PmwPub(rounds=2), "seed": 3,
    }  # fmt: skip
    made: op.Release = op.release(private, **{**options, **OPTIONS, **more})
    return made


def test_the_watch_sees_what_it_should(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Or the other tests show nothing."""
    with watching(place, capfd) as watch:
        print(f"said {TEXT}")
        parquet.write_table(pa.table({"x": [NUMBER] * 3}), "x.parquet", compression="zstd")
        np.savez_compressed("x.npz", x=np.array([REAL, 1.0]))
        Path("gone").write_text(PERSON)
        Path("gone").unlink()
        Ledger("new.sqlite").set_budget(NAME, epsilon=1.0, delta=0.1)
        with watch.catching(KeyError):
            try:
                raise ValueError(MOMENT)
            except ValueError:
                raise KeyError("other") from None
    assert {("stdout", TEXT), ("x.parquet, decoded", str(NUMBER)), ("x.npz, decoded", str(REAL)), ("gone", PERSON),
            ("new.sqlite, decoded", NAME), ("error", MOMENT)} <= watch.leaks(CANARIES)  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_releases(place: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    relation = "add-remove" if name in ("ide", "mst", "tilt", "hierarchy") else "replace-one"
    with watching(place, capfd) as watch:
        made = release(
            watch, "private.parquet", mechanism=MECHANISMS[name](), relation=relation, seed=None,
            format="csv" if name == "ide" else "parquet",
        )  # fmt: skip
        watch.show(
            made, made.certificate, made.model, made.measurements, made.schema, made.workload, made.synthetic
        )
        watch.show(made.answers(["city", "age"]).to_pydict(), Ledger("budget.sqlite").datasets(), made.public)
        assert made.certificate.is_private and op.open_release("out").synthetic.equals(made.synthetic)
    assert watch.leaks(CANARIES) == set()


def test_questions_and_commands(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with watching(place, capfd) as watch:
        made = release(watch)
        asked = {"epsilon": 0.1, "ledger": "budget.sqlite", "dataset": "private"}
        candidates = {"public": "public.csv"}
        watch.show(op.screen("private.csv", candidates, schema=made.schema, **asked))
        watch.show(op.screen("private.csv", candidates, schema=made.schema, by="mixture", **asked).as_dict())
        watch.show(op.estimate_error(made, "private.csv", **asked))
        watch.show(
            op.best_mixture_error("private.csv", "public.csv", schema=made.schema, delta=1e-6, **asked)
        )
        watch.show(op.plan(made.schema, n=90, epsilon=1.0, delta=1e-6))
        with_schema = ["--public", "public.csv", "--schema", "schema.toml", "--ledger", "budget.sqlite"]
        words = [*with_schema, "--epsilon", "1", "--delta", "1e-6", "-m", "mst", "--workload", "1"]
        commands = [
            ["release", "private.csv", *words, "-o", "out2", "--json"],
            ["screen", "private.csv", *with_schema, "--epsilon", "0.1"],
            ["estimate", "out2", "--private", "private.csv", "--epsilon", "0.1", "--ledger", "budget.sqlite"],
            ["check", "out2"],
            ["ledger", "show", "budget.sqlite", "--json"],
        ]
        for command in commands:
            said = say(*command)
            assert said.code == 0, said.err
            watch.tell(" ".join(command[:1]), said.out + said.err)
    assert watch.leaks(CANARIES) == set()


def test_a_run_that_breaks_and_is_resumed(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with watching(place, capfd) as watch:
        with (
            stopping("choosing pairs of columns", 1, KeyboardInterrupt) as stop,
            watch.catching(KeyboardInterrupt),
        ):
            release(watch, mechanism=op.Mst(), progress=stop)
        assert Path("out.journal").exists()
        watch.read()
        shutil.copyfile("private.csv", "kept.csv")
        Path("private.csv").write_text(f"city,age\n{TEXT},{NUMBER}\n")
        with watch.catching(OpenPriorError):
            release(watch, mechanism=op.Mst(), resume=True)
        shutil.move("kept.csv", "private.csv")
        watch.show(release(watch, mechanism=op.Mst(), resume=True))
        assert not Path("out.journal").exists()
    assert watch.leaks(CANARIES) == set()


HEAD = "city,age,pay,born,who\n"
GOOD = "a,20,1.5,1960-01-01,p\nb,30,2.5,1970-01-01,q\n" * 5
REFUSED: dict[str, bytes] = {
    "text for a number": f"{HEAD}{GOOD}a,{TEXT},1,1960-01-01,x\n".encode(),
    "outside the bins": f"{HEAD}{GOOD}a,9{NUMBER}99,1,1960-01-01,x\n".encode(),
    "outside the bins, real": f"{HEAD}{GOOD}a,1,1{REAL},1960-01-01,x\n".encode(),
    "no moment": f"{HEAD}{GOOD}a,1,1,{MOMENT}{TEXT},x\n".encode(),
    "outside the moments": f"{HEAD}{GOOD}a,1,1,2{MOMENT},x\n".encode(),
    "no person": f"{HEAD}{GOOD}{TEXT},{NUMBER},{REAL},1960-01-01,\n".encode(),
    "missing": f"{HEAD}{GOOD}{TEXT},,{REAL},{MOMENT},x\n".encode(),
    "ragged": f"{HEAD}{GOOD}{TEXT},{NUMBER}\n".encode(),
    "ragged, long": f"{HEAD}{GOOD}{TEXT},{NUMBER},{REAL},1960-01-01,{PERSON},{TEXT}\n".encode(),
    "quote": f'{HEAD}{GOOD}"{TEXT},{NUMBER}\n'.encode(),
    "bad bytes": HEAD.encode()
    + GOOD.encode()
    + f"{TEXT}\xff,{NUMBER},{REAL},1960-01-01,{PERSON}\n".encode("latin-1"),
    "no header": f"{TEXT},{NUMBER},{REAL},{MOMENT},{PERSON}\n{GOOD}".encode(),
    "no header, twice the same": f"{TEXT},{TEXT},{REAL},{MOMENT},{PERSON}\n{GOOD}".encode(),
    "bad header": f"{TEXT}\xff,{NUMBER}\n{GOOD}".encode("latin-1"),
    "one row": f"{HEAD}{TEXT},5,{REAL},1960-01-01,{PERSON}\n".encode(),
    "one column": f"{TEXT}\n{NUMBER}\n".encode(),
}
WAYS: dict[str, Callable[[Watch, Any], object]] = {
    "release": release,
    "release, add-remove": lambda watch, data: release(
        watch, data, relation="add-remove", mechanism=op.Mst()
    ),
    "screen": lambda watch, data: op.screen(
        data, ["public.csv"], schema=Schema.from_toml(SCHEMA), epsilon=0.1
    ),
    "best mixture": lambda watch, data: op.best_mixture_error(
        data, "public.csv", schema=Schema.from_toml(SCHEMA), epsilon=0.1, delta=1e-6
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_refusals(place: Path, capfd: pytest.CaptureFixture[str], way: str) -> None:
    with watching(place, capfd) as watch:
        for name, content in REFUSED.items():
            if name == "one row" and way != "release":
                continue  # a question may be asked of one row, and where n is private nobody knows
            Path("private.csv").write_bytes(content)
            with watch.catching(OpenPriorError):
                WAYS[way](watch, "private.csv")
            assert not Path("out").exists() and not Path("out.journal").exists(), name
        watch.show(Ledger("budget.sqlite").datasets())
    assert watch.leaks(CANARIES) == set()


def test_refusals_of_commands(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with watching(place, capfd) as watch:
        for name, content in REFUSED.items():
            Path("private.csv").write_bytes(content)
            words = [
                "--public",
                "public.csv",
                "--schema",
                "schema.toml",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "-m",
                "mst",
            ]
            said = say("release", "private.csv", *words, "-o", "out")
            assert said.code == 1 and not Path("out").exists(), name
            watch.tell("release", said.out + said.err)
    assert watch.leaks(CANARIES) == set()


def test_the_private_table_in_the_wrong_place(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Given as the schema, the ledger, the release or an option, it is refused and not quoted."""
    frame = private_table().to_pandas()
    schema = Schema.from_toml(SCHEMA)
    with watching(place, capfd) as watch:
        for name in (
            "schema",
            "workload",
            "mechanism",
            "epsilon",
            "delta",
            "relation",
            "out",
            "format",
            "progress",
        ):
            with watch.catching(OpenPriorError):
                release(watch, frame, **{name: frame})
        for call in (
            lambda: op.plan(frame, n=90, epsilon=1.0, delta=1e-6),
            lambda: op.plan(schema, n=frame, epsilon=1.0, delta=1e-6),
            lambda: Schema.load("private.csv"),
            lambda: Schema.from_toml(Path("private.csv").read_text()),
            lambda: Schema(frame),
            lambda: op.Mst(size_limit=frame),
            lambda: op.Ide(queries=frame),
            lambda: op.open_release("private.csv"),
            lambda: op.open_release(frame),
            lambda: op.estimate_error("private.csv", "private.csv", epsilon=1.0),
            lambda: op.Workload(frame).on(schema.domain),
            lambda: Ledger("private.csv").datasets(),
        ):
            with watch.catching(OpenPriorError):
                call()
        for command in (
            ["plan", "private.csv", "--rows", "90", "--epsilon", "1", "--delta", "1e-6"],
            ["ledger", "show", "private.csv"],
            ["check", "private.csv"],
        ):
            said = say(*command)
            assert said.code == 1
            watch.tell(" ".join(command[:2]), said.out + said.err)
    assert watch.leaks(CANARIES) == set()


ROWS, PERSONS, BAD = 7919, 4021, 613
"""Primes: nothing else should be just so many."""


def counted(
    place: Path,
    capfd: pytest.CaptureFixture[str],
    counts: tuple[int, ...],
    work: Callable[[Watch, int], object],
) -> None:
    """Do the work with two seeds. Noise may hit a count once, but a place that has it both times tells it."""
    patterns = [re.compile(rf"(?<![\w.])({n}|{n:,})(?![\w]|\.\d*[1-9])") for n in counts]
    places = []
    for seed in (1, 2):
        with watching(place, capfd) as watch:
            work(watch, seed)
        hits = {(n, where) for n, p in enumerate(patterns) for where, text in watch.told if p.search(text)}
        places.append({(counts[n], where.replace(str(seed), "N")) for n, where in hits})
    assert places[0] & places[1] == set()


def test_a_count_would_be_found(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for said in (f"{ROWS} rows", f"{ROWS:,} rows", f"[{ROWS}.0]"):
        with pytest.raises(AssertionError, match=str(ROWS)):
            counted(place, capfd, (BAD, ROWS), lambda watch, seed: watch.tell("log", said))
    for said in (f"1{ROWS}", f"{ROWS}.5", f"0.{ROWS}", f"a{ROWS}f"):
        counted(place, capfd, (BAD, ROWS), lambda watch, seed: watch.tell("log", said))


def coded(rows: int, persons: int | None = None) -> pa.Table:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {
        name: rng.integers(0, size, rows) for name, size in {"a": 3, "b": 4, "c": 2}.items()
    }
    if persons is not None:
        columns["who"] = np.arange(rows) % persons
    return pa.table(columns)


@pytest.mark.parametrize(
    "name", [n for n in MECHANISMS if n != "public" and not op.mechanisms()[n].needs_public_n]
)
def test_the_number_of_rows(place: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    mechanism = op.Hierarchy(levels=(("a",),)) if name == "hierarchy" else MECHANISMS[name]()
    if name == "ide":
        mechanism = op.Ide(choose="workload")
    private, public = coded(ROWS), coded(300)

    def work(watch: Watch, seed: int) -> None:
        made = op.release(
            private, public, schema=Schema.from_sizes({"a": 3, "b": 4, "c": 2}), workload=op.all_marginals(2),
            epsilon=1.0, delta=1e-6, mechanism=mechanism, relation="add-remove", seed=seed, out=f"out{seed}",
            ledger=f"budget{seed}.sqlite", progress=watch.progress,
        )  # fmt: skip
        watch.show(made, made.certificate, made.model, made.measurements)

    counted(place, capfd, (ROWS,), work)


def test_the_number_of_rows_that_a_person_brings(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """How many persons there are, and how many rows the limit dropped, is private under add-remove."""
    schema = Schema(
        Schema.from_sizes({"a": 3, "b": 4, "c": 2}).columns, person_id="who", max_rows_per_person=1
    )
    private, public = coded(ROWS, PERSONS), coded(300)

    def work(watch: Watch, seed: int) -> None:
        made = op.release(
            private, public, schema=schema, workload=op.all_marginals(2), epsilon=1.0, delta=1e-6, mechanism=op.Mst(),
            relation="add-remove", seed=seed, out=f"out{seed}", ledger=f"budget{seed}.sqlite",
        )  # fmt: skip
        watch.show(made, made.certificate)

    counted(place, capfd, (PERSONS, ROWS, ROWS - PERSONS), work)


def test_the_number_of_refused_rows(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schema = Schema.from_sizes({"a": 3, "b": 4, "c": 2})
    table = coded(ROWS).to_pandas()
    table.loc[: BAD - 1, "a"] = 99

    def work(watch: Watch, seed: int) -> None:
        for relation in ("add-remove", "replace-one"):
            with watch.catching(OpenPriorError):
                op.release(
                    table,
                    coded(300),
                    schema=schema,
                    epsilon=1.0,
                    delta=1e-6,
                    relation=relation,
                    seed=seed,
                    out="out",
                )
            with watch.catching(OpenPriorError):
                op.screen(table, [coded(300)], schema=schema, epsilon=1.0, relation=relation, seed=seed)

    counted(place, capfd, (BAD, ROWS - BAD, ROWS), work)
