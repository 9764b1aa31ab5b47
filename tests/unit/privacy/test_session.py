"""One way in: the unit is the encoder's, refusals come before charges, and nothing is made by mistake."""

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.counting.local import count_table
from openprior.errors import LedgerError, OptionError
from openprior.privacy.fake import FakeCurator
from openprior.privacy.ledger import Ledger
from openprior.privacy.session import Purpose, open_question
from openprior.privacy.statistics import QueryAnswers
from openprior.privacy.unit import Relation, Unit
from openprior.questions.queries import Queries
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

SIZES = {"a": 3, "b": 2}
SOURCE = Path(op.__file__).parent


def table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, size, rows) for name, size in SIZES.items()})


def with_persons(name: str, rows: int = 400) -> pa.Table:
    return table(rows, 1).append_column(name, pa.array(np.arange(rows) // 5))


@pytest.mark.parametrize("name", ["", "who", "0", " "])
@pytest.mark.parametrize("relation", list(Relation))
def test_a_person_id_of_any_name_has_its_rows_paid_for(name: str, relation: Relation) -> None:
    """pandas writes an index without a name: a column called "". The noise must know that a person has five rows."""
    columns = Schema.from_sizes(SIZES).columns
    schema = Schema(columns, person_id=name, max_rows_per_person=5)
    assert Unit.of(schema, relation) == Unit(relation, 5)
    private = with_persons(name)
    made = op.release(
        private, table(100, 2), schema=schema, epsilon=1.0, delta=1e-6, mechanism=op.Mst(), relation=relation,
        error_bars=0, seed=1,
    )  # fmt: skip
    assert made.certificate.rows_per_person == 5
    narrow = op.release(
        table(400, 1), table(100, 2), schema=Schema(columns), epsilon=1.0, delta=1e-6, mechanism=op.Mst(),
        relation=relation, error_bars=0, seed=1,
    )  # fmt: skip
    wide, one = (next(iter(r.measurements)).sigma for r in (made, narrow))
    assert wide == pytest.approx(5 * one)
    assert encode_table(private, schema, private=True).n == 400  # the encoder keeps five rows of everybody


def test_noise_covers_what_a_person_of_any_id_moves() -> None:
    """The sensitivity that is charged for is attained by replacing one person's five rows."""
    schema = Schema(Schema.from_sizes(SIZES).columns, person_id="", max_rows_per_person=5)
    before = with_persons("")
    column = before["a"].to_numpy().copy()
    column[:5] = 0
    low = before.set_column(0, "a", pa.array(column.tolist()))
    column[:5] = 2
    high = before.set_column(0, "a", pa.array(column.tolist()))
    counts = [count_table(encode_table(t, schema, private=True), [("a",)])[("a",)] for t in (low, high)]
    moved = np.abs(counts[0] - counts[1]).sum()
    assert moved == Unit.of(schema, "replace-one").l1 == 10


def test_a_unit_is_decided_in_one_place() -> None:
    """Nobody else puts a relation and a number of rows together, but for a certificate that says what was."""
    makers = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Unit"
                and node.args
            ):
                makers.add(file.name)
    assert makers == {"unit.py", "certificate.py"}


def test_the_mixture_is_refused_under_add_remove_before_anything_is_charged(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.sqlite")
    book.set_budget("people", rho=1.0, epsilon=10.0, delta=1e-9)
    with pytest.raises(OptionError, match="by='distance'"):
        op.screen(
            table(300, 1), {"old": table(200, 2)}, schema=Schema.from_sizes(SIZES), epsilon=0.5, by="mixture",
            relation="add-remove", ledger=book, dataset="people",
        )  # fmt: skip
    (dataset,) = book.datasets()
    assert dataset.committed == 0
    assert dataset.runs == ()


@pytest.mark.parametrize("as_path", [True, False])
def test_a_question_makes_no_ledger(tmp_path: Path, as_path: bool) -> None:
    """A mistyped name is refused, and leaves no empty ledger, in which the next release would find nothing spent."""
    path = tmp_path / "bugdet.sqlite"
    ledger = path if as_path else Ledger(path)
    schema = Schema.from_sizes(SIZES)
    made = op.release(table(300, 1), schema=schema, epsilon=1.0, delta=1e-6, mechanism=op.Mst(), seed=1)
    asks = (
        lambda: op.screen(table(300, 1), {"old": table(9, 2)}, schema=schema, epsilon=0.5, ledger=ledger),
        lambda: op.estimate_error(made, table(300, 1), epsilon=0.5, ledger=ledger),
        lambda: op.best_mixture_error(
            table(300, 1), table(9, 2), schema=schema, epsilon=0.5, delta=1e-6, ledger=ledger
        ),
    )
    for ask in asks:
        with pytest.raises(LedgerError, match=r"there is no ledger bugdet\.sqlite"):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_a_question_does_not_set_the_budget_that_a_failed_release_left(tmp_path: Path) -> None:
    schema = Schema.from_sizes(SIZES)
    book = Ledger(tmp_path / "budget.sqlite")
    wrong = table(20, 1).set_column(0, "a", pa.array([99] * 20))
    with pytest.raises(op.OpenPriorError):
        op.release(
            wrong, schema=schema, epsilon=3.0, delta=1e-6, mechanism=op.Mst(), ledger=book, dataset="people"
        )
    with pytest.raises(LedgerError, match="no budget"):
        op.screen(
            table(300, 1), {"old": table(9, 2)}, schema=schema, epsilon=0.01, ledger=book, dataset="people"
        )
    assert [d.epsilon for d in book.datasets()] == [3.0]


def test_an_empty_file_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "budget.sqlite"
    path.touch()
    with pytest.raises(LedgerError, match="there is no ledger"):
        op.screen(
            table(300, 1), {"old": table(9, 2)}, schema=Schema.from_sizes(SIZES), epsilon=0.5, ledger=path
        )
    assert path.read_bytes() == b""


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int])
def test_any_kind_of_number_is_a_budget(kind: type, tmp_path: Path) -> None:
    made = op.release(
        table(300, 1), schema=Schema.from_sizes(SIZES), epsilon=kind(1), delta=1e-6, mechanism=op.Mst(), seed=1,
        out=tmp_path / "out",
    )  # fmt: skip
    assert op.open_release(tmp_path / "out").certificate == made.certificate


@pytest.mark.parametrize("wrong", [True, "1", None, [1.0]])
def test_what_is_no_number_is_no_budget(wrong: object) -> None:
    with pytest.raises(OptionError):
        op.release(
            table(300, 1), schema=Schema.from_sizes(SIZES), epsilon=wrong, delta=1e-6, mechanism=op.Mst()
        )  # type: ignore[arg-type]


def test_marginals_are_refused_before_anything_is_reserved(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "budget.sqlite")
    book.set_budget("people", rho=1.0, epsilon=10.0, delta=1e-9)
    schema = Schema.from_sizes(SIZES)
    with (
        pytest.raises(op.OpenPriorError, match="zebra"),
        open_question(
            table(300, 1), schema, Purpose("test", {}), epsilon=0.5, delta=0.0, marginals=[("zebra",)], ledger=book,
            dataset="people",
        ),
    ):  # fmt: skip
        pass
    assert book.datasets()[0].runs == ()


def test_queries_that_are_not_their_text_are_refused_before_they_are_charged() -> None:
    curator = FakeCurator(encode_table(table(300, 1), Schema.from_sizes(SIZES)))
    for text in ("odd ones", "ranges(a, 0-1, 2-2)"):
        queries = Queries(text, ("a",), np.array([[True, False, True], [False, True, False]]))
        with pytest.raises(op.OpenPriorError, match=r"not understood|not what their text says"):
            curator.measure(QueryAnswers.of(queries), 0.001)
    assert curator.events == ()
