"""A run is resumed with what it began with, from whatever instant it was stopped at; else it says what differs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import JournalError, LedgerError, OptionError, ReleaseError, SourceError
from openprior.methods.shared.loop import ROUNDS
from openprior.privacy.journal import Journal
from openprior.privacy.ledger import Ledger
from openprior.schema.base import Schema
from tests.conftest import stopping

pytestmark = pytest.mark.usefixtures("no_syncs")

SIZES = {"a": 3, "b": 2, "c": 2}


def table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, size, rows) for name, size in SIZES.items()})


PRIVATE, PUBLIC = table(300, 1), table(80, 2)


class Dead(BaseException):
    """The process is gone."""


def release(folder: Path, private: Any = PRIVATE, public: Any = PUBLIC, **more: Any) -> op.Release:
    options: dict[str, Any] = {
        "schema": Schema.from_sizes(SIZES),
        "workload": op.all_marginals(2),
        "epsilon": 1.0,
        "delta": 1e-6,
        "mechanism": op.PmwPub(rounds=3),
        "ledger": folder / "budget.sqlite",
        "dataset": "people",
        "out": folder / "out",
    }
    return op.release(private, public, **{**options, **more})


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if "budget.sqlite" not in p.name)


def die(*args: Any, **named: Any) -> None:
    raise Dead


def broken(folder: Path, **more: Any) -> Path:
    """Stopped in the second round."""
    with stopping(ROUNDS, 2, Dead) as stop, pytest.raises(Dead):
        release(folder, progress=stop, **more)
    return folder / "out.journal"


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "public rows": ({"public": table(80, 3)}, "another public table"),
    "fewer public rows": ({"public": PUBLIC.slice(0, 79)}, "another public table"),
    "public rows in another order": ({"public": PUBLIC.take(np.arange(80)[::-1])}, "another public table"),
    "epsilon": ({"epsilon": 0.9}, "another epsilon"),
    "delta": ({"delta": 1e-7}, "another delta"),
    "workload": ({"workload": op.all_marginals(1)}, "another workload"),
    "mechanism": ({"mechanism": op.Mwem(rounds=3)}, "another mechanism"),
    "rounds": ({"mechanism": op.PmwPub(rounds=4)}, "another setting of the mechanism"),
    "relation": ({"relation": "add-remove"}, "another unit of privacy"),
    "seed": ({"seed": 3}, "another seed"),
    "dataset": ({"dataset": "others"}, "another dataset"),
}


def test_whatever_differs_is_named(tmp_path: Path) -> None:
    journal = broken(tmp_path)
    for name, (change, words) in OTHERS.items():
        with pytest.raises(OptionError, match=words) as caught:
            release(tmp_path, resume=True, **change)
        # Another mechanism has other settings, too; all else differs in one thing.
        assert str(caught.value).count("another") == 1 + (name == "mechanism") * (
            "setting" in str(caught.value)
        )
    schema = Schema.from_sizes({**SIZES, "c": 3})
    with pytest.raises(OptionError, match="another schema"):
        release(tmp_path, resume=True, schema=schema)
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert (run.state, run.resumed) == ("open", 0) and journal.exists()
    assert release(tmp_path, resume=True).certificate.run == run.id
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert (run.state, run.resumed, run.out) == ("closed", 1, "out")


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_another_private_table_is_refused(relation: str, tmp_path: Path) -> None:
    journal = broken(tmp_path, relation=relation)
    changed = PRIVATE.set_column(0, "a", pa.array([*PRIVATE["a"].to_pylist()[:-1], 0]))
    changed = changed if changed != PRIVATE else PRIVATE.set_column(0, "a", pa.array([1] * 300))
    for other in (PRIVATE.slice(0, 299), changed, table(300, 9)):
        with pytest.raises(SourceError, match="private table is not the one that this run began with"):
            release(tmp_path, other, relation=relation, resume=True, acknowledge_refusals=True)
    assert (
        Ledger(tmp_path / "budget.sqlite").datasets()[0].refusals == 1
    )  # it tells something about the table
    shuffled = PRIVATE.take(np.random.default_rng(1).permutation(300))  # the same people
    release(tmp_path, shuffled, relation=relation, resume=True)
    assert not journal.exists()


def test_the_fingerprint_needs_a_key_that_is_not_beside_it(tmp_path: Path) -> None:
    """The journal alone, or the ledger alone, does not let anybody try out tables."""
    path = broken(tmp_path)
    journal = Journal.open(path)
    (fingerprint,) = journal.notes["fingerprint"]
    journal.close()
    ledger = Ledger(tmp_path / "budget.sqlite")
    (run,) = ledger.datasets()[0].runs
    secret = ledger.seals(run.id).secret
    assert secret not in path.read_text() and len(secret) == len(fingerprint) == 64
    assert fingerprint.encode() not in (tmp_path / "budget.sqlite").read_bytes()
    release(tmp_path, resume=True)
    second = tmp_path / "second"
    second.mkdir()
    with pytest.raises(AssertionError):  # the same table has another fingerprint in another run
        assert Journal.open(broken(second)).notes["fingerprint"] == [fingerprint]


# Stopped at the edges


def test_stopped_between_its_folder_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "close", die)
        with pytest.raises(Dead):
            release(tmp_path)
    written = (tmp_path / "out" / "certificate.json").read_bytes()
    with pytest.raises(ReleaseError, match="exists"):
        release(tmp_path)
    others = [*OTHERS.values(), ({"schema": Schema.from_sizes({**SIZES, "c": 3})}, "another schema")]
    for change, words in others:
        with pytest.raises(OptionError, match=f"{words}.*; repeat what it began with"):
            release(tmp_path, resume=True, **change)
    assert [r.state for r in Ledger(tmp_path / "budget.sqlite").datasets()[0].runs] == ["open"]
    made = release(tmp_path, private="no such table", resume=True)  # it is not looked at any more
    ledger = Ledger(tmp_path / "budget.sqlite")
    (run,) = ledger.datasets()[0].runs
    assert (run.state, run.id) == ("closed", made.certificate.run)
    assert (tmp_path / "out" / "certificate.json").read_bytes() == written
    assert left(tmp_path) == ["out"]


def test_stopped_between_its_end_and_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", die)
        with pytest.raises(Dead):
            release(tmp_path)
    release(tmp_path, resume=True)
    assert left(tmp_path) == ["out"]


def test_a_folder_of_another_run_is_not_taken_for_this_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_budget("people", rho=1.0, epsilon=10.0, delta=1e-9)
    broken(tmp_path)
    release(tmp_path, out=tmp_path / "other")
    (tmp_path / "other").rename(tmp_path / "out")
    with pytest.raises(ReleaseError, match="is of another run"):
        release(tmp_path, resume=True)
    assert [r.state for r in ledger.datasets()[0].runs] == ["open", "closed"]


def test_stopped_before_the_ledger_knew_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "open_run", die)
        with pytest.raises(Dead):
            release(tmp_path)
    assert release(tmp_path, resume=True).certificate.is_private
    (run,) = Ledger(tmp_path / "budget.sqlite").datasets()[0].runs
    assert run.state == "closed" and left(tmp_path) == ["out"]


def test_a_ledger_that_does_not_know_the_run_does_not_resume_it(tmp_path: Path) -> None:
    broken(tmp_path)
    with pytest.raises(LedgerError, match=r"there is no ledger other\.sqlite"):
        release(tmp_path, resume=True, ledger=tmp_path / "other.sqlite")
    assert not (tmp_path / "other.sqlite").exists()
    other = Ledger(tmp_path / "other.sqlite")
    other.set_budget("people", rho=1.0, epsilon=10.0, delta=1e-9)
    with pytest.raises(LedgerError, match="has no run"):
        release(tmp_path, resume=True, ledger=other)
    assert other.datasets()[0].runs == ()


def test_an_older_state_of_the_journal_is_refused(tmp_path: Path) -> None:
    path = broken(tmp_path)
    ledger = Ledger(tmp_path / "budget.sqlite")
    (run,) = ledger.datasets()[0].runs
    now = path.read_bytes()
    lines = now.splitlines(keepends=True)
    for kept in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        with pytest.raises(JournalError, match="older copy"):
            release(tmp_path, resume=True)
    path.write_bytes(now)
    release(tmp_path, resume=True)
    assert len(ledger.events(run.id)) == ledger.datasets()[0].runs[0].events
