"""A table that is refused for what is in it: nothing is charged, no run is left, and the ledger has counted it."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import EncodeError, LedgerError, OpenPriorError, PrivacyError
from openprior.privacy.best_mixture import BestMixture
from openprior.privacy.ledger import Ledger
from openprior.privacy.ledger_refusals import REFUSALS
from openprior.privacy.statistics import Counts
from openprior.schema.base import Schema
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical

pytestmark = pytest.mark.usefixtures("no_syncs")

SCHEMA = Schema(
    (Integer(name="income", low=0, high=99, bins=(0, 50, 99)), Categorical(name="city", values=("a", "b")))
)
LENIENT = Schema(
    (
        Integer(name="income", low=0, high=99, bins=(0, 50, 99), missing=True, out_of_domain="clip"),
        Categorical(name="city", values=("a", "b"), missing=True, other=True, out_of_domain="other"),
    )
)


def table(rows: int = 60, largest: int | None = None, city: str = "a") -> pa.Table:
    rng = np.random.default_rng(rows)
    income = rng.integers(0, 99, rows)
    income[0] = income[0] if largest is None else largest
    return pa.table({"income": income, "city": [city, *rng.choice(["a", "b"], rows - 1)]})


PUBLIC, GOOD, BAD = table(40), table(60), table(60, largest=1000)


class Watched:
    """A table that notes when it is read."""

    name, is_text = "people", False

    def __init__(self, rows: pa.Table) -> None:
        self.rows, self.columns, self.reads = rows, tuple(rows.column_names), 0

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield from self.rows.select(list(columns or self.columns)).to_batches()


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_budget("people", rho=1.0, epsilon=10.0, delta=1e-9)
    return ledger


class MeasuresFirst(op.Mwem):
    """A mechanism that measures before it asks how many rows there are."""

    def run(self, curator, public, workload, rng, progress):  # type: ignore[no-untyped-def]
        curator.measure(Counts(("income",)), curator.remaining / 2)
        return super().run(curator, public, workload, rng, progress)


def release(private: Any, schema: Schema = SCHEMA, **more: Any) -> op.Release:
    options: dict[str, Any] = {"mechanism": op.Mst(), "workload": op.all_marginals(1), "dataset": "people"}
    return op.release(private, schema=schema, epsilon=0.5, delta=1e-6, **{**options, **more})


MADE = release(GOOD, seed=1)

ASK: dict[str, Callable[..., object]] = {
    "release": release,
    "release, add-remove": lambda private, **more: release(private, relation="add-remove", **more),
    "release that measures first": lambda private, **more: release(
        private, mechanism=MeasuresFirst(rounds=1), **more
    ),
    "screen": lambda private, **more: op.screen(
        private, {"old": PUBLIC}, schema=SCHEMA, epsilon=0.1, dataset="people", **more
    ),
    "estimate": lambda private, **more: op.estimate_error(MADE, private, epsilon=0.1, **more),
    "best mixture": lambda private, **more: op.best_mixture_error(
        private, PUBLIC, schema=SCHEMA, epsilon=0.1, delta=1e-9, dataset="people", **more
    ),
}


@pytest.mark.parametrize("ask", ASK)
def test_a_refused_table_is_counted_and_costs_nothing(ask: str, book: Ledger) -> None:
    for count in range(1, REFUSALS + 1):
        with pytest.raises(EncodeError, match="outside its bins"):
            ASK[ask](BAD, ledger=book)
        (dataset,) = book.datasets()
        assert (dataset.refusals, dataset.committed, dataset.runs) == (count, 0, ())
    watched = Watched(GOOD)
    with pytest.raises(LedgerError, match="--acknowledge-refusals"):
        ASK[ask](watched, ledger=book)
    assert watched.reads == 0
    ASK[ask](watched, ledger=book, acknowledge_refusals=True)
    (dataset,) = book.datasets()
    assert dataset.refusals == 0 and len(dataset.runs) == 1 and dataset.runs[0].events > 0


def test_the_count_is_on_the_disk_before_anybody_is_told(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Ledger, dataset: str) -> None:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "count_refusal", fail)
    for public in (None, BAD.select(["city", "income"])):
        with pytest.raises(LedgerError, match="the disk is full") as caught:
            release(BAD, schema=SCHEMA if public is None else LENIENT, public=public, ledger=book)
        told = "".join(traceback.format_exception(caught.value))  # what was being handled is shown there, too
        assert "outside its bins" not in told and "as the private one" not in told


def test_an_interrupt_while_reading_is_no_refusal(book: Ledger) -> None:
    class Interrupting(Watched):
        def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
            yield from super().batches(columns)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(Interrupting(GOOD), ledger=book)
    (dataset,) = book.datasets()
    assert (dataset.refusals, dataset.runs) == (0, ())


def test_a_table_that_breaks_while_it_is_compared_is_counted(book: Ledger) -> None:
    """Whatever a source of one's own raises: here while the rows are compared with the public ones."""

    class Broken(Watched):
        def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
            raise ZeroDivisionError
            yield

    with pytest.raises(ZeroDivisionError):
        release(Broken(GOOD), public=PUBLIC, ledger=book)
    (people,) = book.datasets()
    assert (people.refusals, people.runs) == (1, ())


def test_a_lenient_schema_refuses_nothing(book: Ledger) -> None:
    """What is outside is clipped or other, so there is nothing to count."""
    for largest in (10, 1000):
        for city in ("a", "z"):
            release(table(60, largest, city), LENIENT, ledger=book)
            assert book.datasets()[0].refusals == 0


def test_a_mixture_that_cannot_be_certified_is_counted(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it can depends on the private table, and is known only after the charge: it is paid for, and counted."""
    monkeypatch.setattr(
        "openprior.privacy.error_statistics.best_mixture",
        lambda *args, **options: BestMixture(0.5, 0.1, np.ones(1), exact=False),
    )
    with pytest.raises(PrivacyError, match="could not be certified"):
        ASK["best mixture"](GOOD, ledger=book)
    (dataset,) = book.datasets()
    assert dataset.refusals == 1 and dataset.committed > 0 and dataset.runs[0].state == "closed"


# One unit, in whatever is asked


PERSONS = Schema(SCHEMA.columns, person_id="id", max_rows_per_person=2)


def with_ids(rows: pa.Table) -> pa.Table:
    return rows.append_column("id", pa.array(np.arange(rows.num_rows) // 2))


@pytest.mark.parametrize("ask", ["screen", "estimate", "best mixture"])
def test_questions_are_about_the_unit_of_the_release(ask: str, book: Ledger) -> None:
    release(with_ids(GOOD), PERSONS, ledger=book)
    watched = Watched(GOOD)
    with pytest.raises(LedgerError, match=r"a person by 'id' with at most 2 rows.*a row, replace-one"):
        ASK[ask](watched, ledger=book)
    (dataset,) = book.datasets()
    assert watched.reads == 0 and len(dataset.runs) == 1
    of_persons = release(with_ids(GOOD), PERSONS, seed=1)
    op.estimate_error(of_persons, with_ids(GOOD), epsilon=0.1, ledger=book)
    three = Schema(SCHEMA.columns, person_id="id", max_rows_per_person=3)
    with pytest.raises(LedgerError, match="do not add up"):
        op.screen(with_ids(GOOD), {"old": PUBLIC}, schema=three, epsilon=0.1, ledger=book, dataset="people")
    units = [run.details["unit"] for run in book.datasets()[0].runs]
    assert units == [{"person": "id", "rows_per_person": 2, "relation": "replace-one"}] * 2


# A ledger or a name that nobody has used


def test_a_new_ledger_and_a_new_name_are_said(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    with pytest.warns(op.errors.OpenPriorWarning, match=r"ledger budget.sqlite is new"):
        release(GOOD, ledger=path)
    with pytest.warns(op.errors.OpenPriorWarning, match=r"dataset 'poeple' is new .*it has 'people'"):
        release(GOOD, ledger=path, dataset="poeple")


@pytest.mark.filterwarnings("error")
def test_a_known_name_or_no_ledger_is_not_worth_a_word(tmp_path: Path, book: Ledger) -> None:
    good = table(160)  # fewer than a hundred rows would be worth one
    release(good, ledger=book)
    release(good)
    release(good, ledger=Ledger())
    with pytest.raises(OpenPriorError):
        release(good, ledger=tmp_path / "nowhere" / "budget.sqlite")
