"""Charge, then look: the private table is not read before the charge is in the ledger, and nothing leaks on the way.

The source and the ledger write into one diary, so that their order can be read off.
"""

import copy
import json
import pickle
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.counting.cells import Cells
from openprior.errors import BudgetExceeded, EncodeError, PrivacyError
from openprior.guidance.mixture_error import best_mixture_error
from openprior.methods.shared.loop import ROUNDS
from openprior.privacy.account import Account
from openprior.privacy.curator import Curator
from openprior.privacy.error_statistics import BestMixtureError
from openprior.privacy.error_strata import CellsApart, ErrorStrata
from openprior.privacy.journal import Journal
from openprior.privacy.ledger import Ledger
from openprior.privacy.noise import SecureNoise, SeededNoise
from openprior.privacy.regression import MembershipRegression
from openprior.privacy.scores import CellScores, L1Score
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.statistics import CellCount, Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.releases.certificate import NOT_PRIVATE
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical
from openprior.schema.domain import Domain
from openprior.tables.encode import Encoder, Table
from openprior.tables.source import Source
from tests.conftest import stopping
from tests.diary import DiaryLedger, DiarySource

SIZES = {"a": 3, "b": 2, "c": 2}
DOMAIN = Domain(SIZES)
RHO = 0.5
Diary = list[str]


def some_rows(n: int = 40, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({a: rng.integers(0, size, n) for a, size in SIZES.items()})


def made(unit: Unit | None = None, rho: float = RHO) -> tuple[Curator, Diary]:
    diary: Diary = []
    source = DiarySource(some_rows(), diary)
    assert isinstance(source, Source)
    ledger = DiaryLedger(diary)
    run = ledger.open_run("secret", rho=rho, epsilon=5.0, delta=1e-9, details={})
    curator = Curator(
        Vault(Encoder(Schema.from_sizes(SIZES), source, private=True)),
        unit=unit or Unit(),
        noise=SeededNoise(1),
        account=Account(ledger, run, rho=rho, epsilon=5.0, delta=1e-9),
    )
    return curator, diary


CELLS = Cells(DOMAIN, [("a", "b"), ("c",)])
CELL_SCORES = CellScores(CELLS, np.arange(len(CELLS)), np.zeros(len(CELLS)))
SIGNED = SignedCellScores(CELLS, np.arange(len(CELLS)), np.zeros(len(CELLS)))
L1_SCORES = [L1Score(("a",), ((1.0, np.zeros(3)),)), L1Score(("b", "c"), ((1.0, np.zeros(4)),))]
PUBLIC = Table(DOMAIN, (np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1, 0, 1])))
ERRORS = CellsApart(("a",), 0, np.zeros(3, np.int64), np.zeros(3, np.int8))
ADD_REMOVE = Unit(Relation.ADD_REMOVE)

VERBS: dict[str, tuple[Unit, Callable[[Curator, float], object]]] = {
    "select cells": (Unit(), lambda c, rho: c.select(CELL_SCORES, rho)),
    "select marginals": (Unit(), lambda c, rho: c.select(L1_SCORES, rho, how="permute-and-flip")),
    "select many": (Unit(), lambda c, rho: c.select_many(CELL_SCORES, 3, rho)),
    "select with replacement": (Unit(), lambda c, rho: c.select_many(SIGNED, 40, rho, replace=True)),
    "measure": (Unit(), lambda c, rho: c.measure(Counts(("a", "b")), rho)),
    "measure cell": (Unit(), lambda c, rho: c.measure(CellCount(("a", "b"), 2), rho, noise="laplace")),
    "measure total": (ADD_REMOVE, lambda c, rho: c.measure(Total(), rho)),
    "measure best mixture": (Unit(), lambda c, rho: c.measure(BestMixtureError(PUBLIC, (("a", "b"),)), rho)),
    "measure errors": (Unit(), lambda c, rho: c.measure(ErrorStrata.of(1, (1,), (ERRORS,)), rho)),
    "measure regression": (Unit(), lambda c, rho: c.measure(MembershipRegression.of(PUBLIC, 0.1), rho)),
    "measure in a part": (Unit(), lambda c, rho: c.partition(["c"])[(1,)].measure(Counts(("a",)), rho)),
    "measure a cell in a part": (
        Unit(),
        lambda c, rho: c.partition(["c"])[(0,)].measure(CellCount(("a",), 1), rho),
    ),
    "measure the total of a part": (Unit(), lambda c, rho: c.partition(["c"])[(0,)].measure(Total(), rho)),
    "select in a part": (ADD_REMOVE, lambda c, rho: c.partition(["c"])[(0,)].select(L1_SCORES[:1], rho)),
}
verbs = pytest.mark.parametrize("verb", VERBS)


@verbs
@pytest.mark.parametrize("rho", [RHO * 1.001, 10.0])
def test_beyond_the_budget_nothing_is_read(verb: str, rho: float) -> None:
    unit, act = VERBS[verb]
    curator, diary = made(unit)
    with pytest.raises(BudgetExceeded):
        act(curator, rho)
    assert diary == []
    assert curator.events == ()
    assert curator.remaining == RHO


@verbs
@pytest.mark.parametrize("rho", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_price_reads_nothing(verb: str, rho: float) -> None:
    unit, act = VERBS[verb]
    curator, diary = made(unit)
    with pytest.raises(PrivacyError):
        act(curator, rho)
    assert diary == []


@verbs
def test_spent_is_spent(verb: str) -> None:
    unit, act = VERBS[verb]
    curator, diary = made(unit)
    act(curator, RHO * 0.75)
    del diary[:]
    with pytest.raises(BudgetExceeded):
        curator.measure(Counts(("a",)), RHO * 0.3)
    assert diary == []
    assert curator.remaining == pytest.approx(RHO / 4)


@pytest.mark.parametrize(
    "verb",
    list(VERBS),
)
def test_the_charge_comes_before_the_first_batch(verb: str) -> None:
    unit, act = VERBS[verb]
    curator, diary = made(unit)
    curator.announce([("a", "b", "c")])
    assert diary == []
    act(curator, RHO / 2)
    assert diary[0] == "charge"
    assert diary.count("charge") == len(curator.events) == 1
    assert "read" in diary


@verbs
def test_a_refusing_ledger_keeps_the_table_shut(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unit, act = VERBS[verb]
    curator, diary = made(unit)
    if verb == "measure best mixture":
        assert curator.n == 40
    del diary[:]

    def refuse(*_: object) -> None:
        raise BudgetExceeded("another process was faster")

    monkeypatch.setattr(Ledger, "charge", refuse)
    with pytest.raises(BudgetExceeded, match="faster"):
        act(curator, RHO / 2)
    assert diary == []
    assert curator.events == ()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.select(CELL_SCORES, 0.1, how="argmax"),
        lambda c: c.select([], 0.1),
        lambda c: c.select_many(L1_SCORES, 3, 0.1),
        lambda c: c.select_many(L1_SCORES, 3, 0.1, how="permute-and-flip", replace=True),
        lambda c: c.measure(Counts(("a",)), 0.1, noise="none"),
        lambda c: c.measure(CellCount(("a",), 3), 0.1),
        lambda c: c.measure(CellCount(("a",), -1), 0.1),
        lambda c: c.measure(Total(), 0.1),
    ],
)
def test_a_mistake_costs_nothing(wrong: Callable[[Curator], object]) -> None:
    curator, diary = made()
    with pytest.raises(PrivacyError):
        wrong(curator)
    assert diary == []
    assert curator.remaining == RHO


# What a curator does not tell.


def test_n_is_private_under_add_remove_and_in_parts() -> None:
    curator, diary = made(ADD_REMOVE)
    with pytest.raises(PrivacyError, match="measure the Total"):
        _ = curator.n
    with pytest.raises(PrivacyError):
        _ = made()[0].partition(["a"])[(0,)].n
    assert diary == []
    assert made()[0].n == 40


@pytest.mark.parametrize("part", [False, True])
def test_no_copy_no_pickle_no_repr(part: bool) -> None:
    curator, _ = made()
    curator.measure(Counts(("a", "b", "c")), 0.01)
    if part:
        curator = curator.partition(["a"])[(1,)]
    for way in (copy.copy, copy.deepcopy, pickle.dumps, lambda c: pickle.dumps(c, protocol=0)):
        with pytest.raises(TypeError, match="private data"):
            way(curator)
    for shown in (repr(curator), str(curator), f"{curator}"):
        assert "private" in shown
        assert not re.search(r"40|array|\[", shown)
    with pytest.raises(TypeError):
        vars(curator)
    with pytest.raises(PrivacyError, match="again"):
        made()[0].partition(["a"])[(1,)].partition(["b"])


# Parts compose in parallel.


def test_a_partition_pays_its_largest_part() -> None:
    curator, _ = made()
    parts = curator.partition(["a"])
    assert set(parts) == {(0,), (1,), (2,)}
    parts[(0,)].measure(Counts(("b",)), 0.1)
    parts[(1,)].measure(Counts(("b",)), 0.2)
    parts[(2,)].measure(Counts(("b",)), 0.05)
    assert curator.remaining == pytest.approx(RHO - 0.2)
    parts[(2,)].measure(Counts(("b",)), 0.1)
    assert curator.remaining == pytest.approx(RHO - 0.2)
    parts[(2,)].measure(Counts(("b",)), 0.1)
    assert curator.remaining == pytest.approx(RHO - 0.25)
    curator.measure(Counts(("a",)), 0.1)
    assert curator.remaining == pytest.approx(RHO - 0.35)
    assert parts[(0,)].remaining == pytest.approx(RHO - 0.2)
    with pytest.raises(BudgetExceeded):
        parts[(0,)].measure(Counts(("b",)), RHO - 0.19)
    parts[(0,)].measure(Counts(("b",)), parts[(0,)].remaining)
    assert curator.remaining == pytest.approx(0.0, abs=1e-9)
    assert sum(e.rho if e.charged is None else e.charged for e in curator.events) <= RHO


def test_two_partitions_add_up() -> None:
    curator, _ = made()
    curator.partition(["a"])[(0,)].measure(Counts(("b",)), 0.2)
    curator.partition(["b"])[(0,)].measure(Counts(("a",)), 0.2)
    assert curator.remaining == pytest.approx(RHO - 0.4)
    with pytest.raises(BudgetExceeded):
        curator.partition(["c"])[(0,)].measure(Counts(("a",)), 0.2)


# Nothing private in what leaves.

ROWS, CELL, VALUE = 104_729, 31_337, "zebra-7f3a"
"""Numbers and a value that nothing else could spell."""
TEXTS = ["x", "y", "z"]


def planted(odd: bool = False) -> pa.Table:
    """So many rows, so many of them 'y', and one value that the schema does not know."""
    words = np.repeat(TEXTS, [ROWS - CELL - 5, CELL, 5]).astype(object)
    if odd:
        words[17] = VALUE
    number = np.random.default_rng(2).integers(0, 3, ROWS)
    return pa.table({"word": pa.array(words, pa.string()), "number": number})


PLANTED_PUBLIC = pa.table({"word": ["x", "y", "z", "x"] * 20, "number": [0, 1, 2, 1] * 20})


SCHEMA = Schema((Categorical(name="word", values=tuple(TEXTS)), Integer(name="number", low=0, high=2)))
"""No place for other values, so that one of them is an error."""


def leaks(text: str) -> list[str]:
    """Where a private count or value is spelt, alone and not within a longer number or a hash."""
    numbers = [ROWS, CELL, ROWS - CELL, ROWS - CELL - 5]
    spelt = [*map(str, numbers), *(f"{n:,}" for n in numbers)]
    found = [n for n in spelt if re.search(rf"(?<![0-9A-Za-z.,]){n}(\.0+)?(?![0-9A-Za-z.])", text)]
    return found + [VALUE] * (VALUE in text)


def planted_release(tmp_path: Path, **more: Any) -> op.Release:
    options: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-9, "seed": 11, "relation": "add-remove"}
    return op.release(
        more.pop("private", planted()),
        PLANTED_PUBLIC,
        schema=SCHEMA,
        workload=op.all_marginals(2),
        mechanism=op.PmwPub(rounds=3),
        ledger=tmp_path / "budget.sqlite",
        **{**options, **more},
    )


def test_the_search_itself_finds() -> None:
    for text in (f"n = {ROWS}", f'{{"n":{ROWS}}}', f"{ROWS:,} rows", f"{float(CELL)}", f"'{VALUE}'"):
        assert leaks(text)
    assert not leaks(f"9{ROWS} {ROWS}9 a{CELL}f 0.{CELL}")


def test_no_count_in_a_release(tmp_path: Path) -> None:
    words: list[str] = []
    made = planted_release(
        tmp_path,
        out=tmp_path / "release",
        progress=lambda told: words.append(f"{told.phase}: {told.done} of {told.total}"),
    )
    for file in ("certificate.json", "report.html", "model/model.json", "workload.json", "schema.toml"):
        assert leaks((tmp_path / "release" / file).read_text(encoding="utf-8")) == []
    assert leaks((tmp_path / "budget.sqlite").read_bytes().decode("latin-1")) == []
    assert leaks(" ".join(words) + repr(made) + repr(made.certificate) + str(list(tmp_path.rglob("*")))) == []
    assert made.synthetic.num_rows != ROWS
    assert made.model.total != ROWS
    events = Ledger(tmp_path / "budget.sqlite").events(made.certificate.run)
    assert len(events) == len(made.certificate.events) > 0
    assert leaks(json.dumps([e.details for e in events])) == []


class Stopped(KeyboardInterrupt):
    """The run breaks."""


def broken(tmp_path: Path, **more: Any) -> Path:
    """Break a run after two rounds; returns its journal."""
    with stopping(ROUNDS, 2, Stopped) as stop, pytest.raises(Stopped):
        planted_release(tmp_path, out=tmp_path / "release", progress=stop, **more)
    return tmp_path / "release.journal"


def test_no_count_in_a_journal(tmp_path: Path) -> None:
    journal = broken(tmp_path)
    assert leaks(journal.read_text(encoding="utf-8")) == []
    assert leaks(str(Journal.open(journal).header)) == []


@pytest.mark.parametrize("relation", list(Relation))
def test_no_value_and_no_count_in_an_error(tmp_path: Path, relation: str) -> None:
    with pytest.raises(EncodeError, match="word") as caught:
        planted_release(tmp_path, private=planted(odd=True), relation=relation)
    assert leaks("".join(traceback.format_exception(caught.value))) == []
    assert caught.value.__cause__ is None
    with pytest.raises(EncodeError) as shown:
        planted_release(tmp_path, private=planted(odd=True), relation=relation, show_private=True)
    assert VALUE in str(shown.value)  # so that the lines above can fail


@pytest.mark.parametrize("verb", ["select cells", "select with replacement", "measure"])
def test_no_count_in_what_a_curator_says(verb: str) -> None:
    curator, _ = made(ADD_REMOVE)
    VERBS[verb][1](curator, RHO / 2)
    exact = some_rows().group_by(["a", "b"]).aggregate([([], "count_all")])["count_all"].to_pylist()
    for event in curator.events:
        written = event.to_dict()
        assert set(written) <= {
            *("event", "statistic", "marginal", "cell", "sigma", "rho"),
            *("candidates", "over", "epsilon", "draws", "with_replacement"),
        }
        assert not {written.get("cell"), written.get("sigma")} & {*exact, 40}
    with pytest.raises(BudgetExceeded) as caught:
        curator.measure(Counts(("a",)), 9.0)
    assert not re.search(r"\b40\b", str(caught.value))


@pytest.mark.parametrize("library", ["duckdb", "polars"])
def test_no_value_in_a_library_error(tmp_path: Path, library: str) -> None:
    module = pytest.importorskip(library)
    if library == "duckdb":
        private = module.sql(
            f"SELECT CAST(w AS INT) AS word, 0 AS number FROM (VALUES ('1'), ('{VALUE}')) t(w)"
        )
    else:
        private = module.LazyFrame({"word": ["1", VALUE], "number": [0, 0]}).with_columns(
            module.col("word").cast(module.Int64)
        )
    with pytest.raises(Exception) as caught:
        planted_release(tmp_path, private=private)
    assert leaks("".join(traceback.format_exception(caught.value))) == []


# Seeded noise is not private, whatever becomes of the run.


def test_a_seeded_release_says_so(tmp_path: Path) -> None:
    made = planted_release(tmp_path, out=tmp_path / "release")
    assert made.certificate.noise == NOT_PRIVATE
    assert not made.certificate.is_private
    assert NOT_PRIVATE in repr(made)
    assert NOT_PRIVATE in (tmp_path / "release" / "report.html").read_text(encoding="utf-8")
    assert not op.open_release(tmp_path / "release").certificate.is_private


def test_outcomes_are_in_the_journal(tmp_path: Path) -> None:
    journal = Journal.open(broken(tmp_path))
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert len(journal) == run.events > 0


def test_a_broken_run_resumes_without_paying_or_drawing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def counted(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
        def one(*args: Any) -> Any:
            drawn.append(name)
            return draw(*args)

        return one

    monkeypatch.setattr(SecureNoise, "gaussian", counted("gaussian", SecureNoise.gaussian))
    monkeypatch.setattr(SecureNoise, "exponential", counted("exponential", SecureNoise.exponential))
    broken(tmp_path, seed=None)
    ledger = Ledger(tmp_path / "budget.sqlite")
    (run,) = ledger.datasets()[0].runs
    before, seals = ledger.events(run.id), dict(ledger.seals(run.id).outcomes)
    assert drawn == [e.details["event"] for e in before]
    assert len(before) == len(seals) > 0

    drawn.clear()
    made = planted_release(tmp_path, out=tmp_path / "release", resume=True, seed=None)
    after = ledger.events(run.id)
    assert after[: len(before)] == before
    assert drawn == [e.details["event"] for e in after[len(before) :]] != []
    assert made.certificate.run == run.id
    assert made.certificate.is_private


def test_a_seeded_run_cannot_be_resumed_as_a_private_one(tmp_path: Path) -> None:
    journal = broken(tmp_path)
    assert len(Journal.open(journal)) > 0
    with pytest.raises(op.errors.OptionError, match="another seed"):
        planted_release(tmp_path, out=tmp_path / "release", resume=True, seed=None)
    assert not planted_release(tmp_path, out=tmp_path / "release", resume=True).certificate.is_private


def test_a_failed_resume_keeps_the_journal(tmp_path: Path) -> None:
    journal = broken(tmp_path)
    with pytest.raises(EncodeError):
        planted_release(tmp_path, private=planted(odd=True), resume=True, out=tmp_path / "release")
    assert journal.exists()


def test_a_seeded_mixture_error_is_not_private() -> None:
    found = best_mixture_error(
        some_rows(), some_rows(seed=2), schema=Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-6, seed=1
    )
    assert not found.is_private


def test_an_empty_table_is_not_told_apart_under_add_remove() -> None:
    empty, other = (
        op.release(
            some_rows(n),
            schema=Schema.from_sizes(SIZES),
            workload=op.all_marginals(1),
            epsilon=1.0,
            delta=1e-6,
            mechanism=op.Mwem(rounds=2),
            relation="add-remove",
            seed=1,
        ).certificate
        for n in (0, 1)
    )
    assert [(e.kind, e.rho) for e in empty.events] == [(e.kind, e.rho) for e in other.events]
    assert empty.rho_spent == other.rho_spent > 0


def test_a_mechanism_that_asks_for_too_much_has_read_nothing() -> None:
    class Greedy(op.PmwPub):
        def run(self, curator, public, workload, rng, progress):  # type: ignore[no-untyped-def]
            curator.measure(Counts(("a",)), 1e6)

    reads: list[str] = []

    class Recorded:
        name, columns, is_text, known_rows = "private", tuple(SIZES), False, 40

        def batches(self, columns=None):  # type: ignore[no-untyped-def]
            reads.append("batches")
            yield from some_rows().select(list(columns or SIZES)).to_batches()

    with pytest.raises(BudgetExceeded):
        op.release(
            Recorded(),
            some_rows(41),  # not as many rows, so they are not compared
            schema=Schema.from_sizes(SIZES),
            epsilon=1.0,
            delta=1e-6,
            mechanism=Greedy(),
            error_bars=0.02,  # how many rows there are, which is public, is looked at to choose a share
        )
    assert reads == []


def test_an_interrupt_right_after_a_charge_can_be_resumed(tmp_path: Path) -> None:
    """The charge is in the ledger but the run does not know it yet: the journal must stay all the same."""

    class Interrupted(Ledger):
        stop = True

        def charge(self, run: str, seq: int, rho: float, event: Any) -> None:
            super().charge(run, seq, rho, event)
            if self.stop:
                raise KeyboardInterrupt

    ledger = Interrupted(tmp_path / "budget.sqlite")
    options = {
        "schema": Schema.from_sizes(SIZES),
        "epsilon": 1.0,
        "delta": 1e-6,
        "ledger": ledger,
        "out": tmp_path / "out",
        "workload": op.all_marginals(2),
        "mechanism": op.PmwPub(rounds=3),
    }
    with pytest.raises(KeyboardInterrupt):
        op.release(some_rows(), some_rows(seed=2), **options)
    assert (tmp_path / "out.journal").exists()
    ledger.stop = False
    made = op.release(some_rows(), some_rows(seed=2), **options, resume=True)
    (status,) = ledger.datasets()
    assert float(status.committed) == pytest.approx(made.certificate.rho)
    assert len(ledger.events(made.certificate.run)) == len(made.certificate.events)
