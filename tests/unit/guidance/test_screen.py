"""Screening public tables: the ranking, the numbers, the charge, and words for each."""

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import LedgerError, OptionError
from openprior.privacy.ledger import Ledger
from openprior.privacy.statistics import Total
from tests.conftest import arrow, random_table
from tests.formulas import pure_rho_by_hand

SIZES = {"a": 4, "b": 3, "c": 2}
SCHEMA = op.Schema.from_sizes(SIZES)


def table(rows: int, seed: int, skew: float = 1.0) -> pa.Table:
    return arrow(random_table(SIZES, rows, seed, skew))


PRIVATE = table(8000, 1)
GOOD, SHIFTED = table(4000, 2), table(4000, 3, 2.5)
FAR = pa.table({a: np.full(300, s - 1) for a, s in SIZES.items()})
ALL = {"far": FAR, "good": GOOD, "shifted": SHIFTED}


def distance(public: pa.Table, k: int = 1) -> float:
    return op.evaluate(public, PRIVATE, schema=SCHEMA, workload=op.all_marginals(k)).workload_error


@pytest.mark.parametrize("k", [1, 2])
def test_distances_are_the_exact_ones_plus_noise_of_the_stated_size(k: int) -> None:
    exact = {name: distance(public, k) for name, public in ALL.items()}
    found = [op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=0.6, marginals=k, seed=s) for s in range(100)]
    assert all([s.name for s in f.ranked] == ["good", "shifted", "far"] for f in found)
    for name, true in exact.items():
        mine = [next(s for s in f.ranked if s.name == name) for f in found]
        errors = np.array([s.error for s in mine])
        # A third of ε each, and one person moves a distance by 2/n.
        assert errors.std() == pytest.approx(np.sqrt(2) * 2 / (8000 * 0.2), rel=0.25)
        assert errors.mean() == pytest.approx(true, abs=3 * errors.std() / 10)
        assert np.mean([s.low <= true <= s.high for s in mine]) >= 0.89


def test_mixtures_forgive_wrong_proportions_but_not_missing_rows() -> None:
    some = {"shifted": SHIFTED, "far": FAR}
    found = op.screen(PRIVATE, some, schema=SCHEMA, epsilon=1.0, by="mixture", seed=1)
    assert [s.name for s in found.ranked] == ["shifted", "far"]
    assert found.best.error < 0.01
    assert found.best.by_chance is None
    assert "close" in found.best.verdict


def test_by_chance_is_what_samples_of_one_population_differ_by() -> None:
    whole = random_table(SIZES, 40_000, 5)
    rng = np.random.default_rng(0)
    found = []
    for seed in range(30):
        order = rng.permutation(whole.n)
        one, two = arrow(whole.take(order[:2000])), arrow(whole.take(order[2000:2700]))
        found.append(op.screen(one, [two], schema=SCHEMA, epsilon=20.0, seed=seed).best)
    assert np.mean([s.error for s in found]) == pytest.approx(np.mean([s.by_chance for s in found]), rel=0.15)
    assert sum("another sample" in s.verdict for s in found) >= 28


def test_words() -> None:
    found = op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=1.0, seed=1)
    assert "another sample" in found.ranked[0].verdict
    assert "far" in found.ranked[2].verdict
    assert found.verdict.startswith("Take good")
    twins = op.screen(PRIVATE, [GOOD, GOOD], schema=SCHEMA, epsilon=1.0, seed=1)
    assert [s.name for s in sorted(twins.ranked, key=lambda s: s.name)] == ["table 1", "table 2"]
    assert "cannot be told apart" in twins.verdict
    hidden = op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=0.001, seed=1)
    assert "raise ε" in hidden.best.verdict
    assert op.screen(PRIVATE, [GOOD], epsilon=1.0, seed=1).verdict.startswith("table: as close")


def test_it_is_charged_once_for_all_candidates() -> None:
    ledger = Ledger()
    with pytest.raises(LedgerError, match="no budget in this ledger yet"):
        op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=0.3, ledger=ledger, dataset="survey")
    ledger.set_budget("survey", epsilon=0.4, delta=0.0)
    found = op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=0.3, ledger=ledger, dataset="survey")
    (status,) = ledger.datasets()
    assert status.name == "survey"
    assert float(status.committed) == pytest.approx(pure_rho_by_hand(0.3), rel=1e-6)
    assert found.certificate.is_private
    found.certificate.recheck()
    assert len(found.certificate.events) == 3
    with_delta = op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=0.3, delta=1e-6)
    assert with_delta.certificate.epsilon_spent <= 0.3
    assert {(e.kind, e.statistic.kind) for e in with_delta.certificate.events} == {("gaussian", "score")}


def test_clumsy_calls() -> None:
    with pytest.raises(OptionError, match="no public table"):
        op.screen(PRIVATE, [], epsilon=1.0)
    with pytest.raises(OptionError, match="use 'distance' or 'mixture'"):
        op.screen(PRIVATE, [GOOD], epsilon=1.0, by="looks")
    with pytest.raises(op.OpenPriorError, match="b"):
        op.screen(PRIVATE, [GOOD.drop_columns(["b"])], schema=SCHEMA, epsilon=1.0)
    with pytest.raises(op.OpenPriorError, match="empty"):
        op.screen(PRIVATE.slice(0, 0), [GOOD], schema=SCHEMA, epsilon=1.0)


def test_under_add_remove_the_number_of_rows_is_measured_too() -> None:
    found = [
        op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=1.0, relation="add-remove", seed=s) for s in range(20)
    ]
    for one in found:
        assert [s.name for s in one.ranked] == ["good", "shifted", "far"]
        total, *others = one.certificate.events
        assert total.kind == "laplace"
        assert total.statistic == Total()
        assert total.cost(one.certificate.unit, pure=True) == pytest.approx(0.1)
        assert len(others) == 3
        one.certificate.recheck()
    errors = [one.best.error for one in found]
    assert np.mean(errors) == pytest.approx(distance(GOOD), abs=0.01)
    chances = {one.best.by_chance for one in found}
    assert len(chances) > 10  # from the noisy number of rows, not from the true one


def test_runs_about_other_neighbours_are_not_added_up() -> None:
    ledger = Ledger()
    ledger.set_budget("survey", epsilon=1.0, delta=0.0)
    op.screen(
        PRIVATE, [GOOD], schema=SCHEMA, epsilon=0.1, relation="add-remove", ledger=ledger, dataset="survey"
    )
    with pytest.raises(LedgerError, match="do not add up"):
        op.screen(PRIVATE, [GOOD], schema=SCHEMA, epsilon=0.1, ledger=ledger, dataset="survey")


def test_a_table_that_does_not_fit_and_a_bad_seed_cost_nothing() -> None:
    ledger = Ledger()
    ledger.set_budget("survey", epsilon=1.0, delta=0.0)
    bad = PRIVATE.set_column(0, "a", pa.array(np.full(PRIVATE.num_rows, 9)))
    for relation in ("replace-one", "add-remove"):
        with pytest.raises(op.OpenPriorError):
            op.screen(
                bad, [GOOD], schema=SCHEMA, epsilon=0.1, relation=relation, ledger=ledger, dataset="survey"
            )
    with pytest.raises(OptionError, match="seed"):
        op.screen(PRIVATE, [GOOD], schema=SCHEMA, epsilon=0.1, ledger=ledger, dataset="survey", seed=-1)
    (status,) = ledger.datasets()
    assert status.committed == 0


CLIPPED = op.Schema.from_toml("""
[columns.k]
kind = "integer"
low = 0
high = 0
missing = true
out_of_domain = "clip"

[columns.a]
kind = "integer"
low = 0
high = 3
missing = true
out_of_domain = "clip"
""")


def _with_k(top: int, rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"k": rng.integers(0, top + 1, rows), "a": rng.integers(0, 4, rows)})


@pytest.mark.parametrize("by", ["distance", "mixture"])
def test_what_the_schema_loses_comes_before_the_verdict(by: str) -> None:
    public = {"last year": _with_k(0, 3000, 1)}
    found = op.screen(_with_k(3, 4000, 2), public, schema=CLIPPED, epsilon=0.5, by=by, seed=1)
    assert found.outside is not None and found.outside.is_large
    assert (found.outside.column, found.outside.why, found.outside.effect) == ("k", "above", "clipped to 0")
    assert found.outside.low < 0.75 < found.outside.high
    assert found.verdict.startswith("Before any table is taken: the schema cannot hold 7")
    assert found.loss is not None
    assert found.loss in repr(found).splitlines()[1:3]  # before the tables and how far they are
    assert "leaves out what the schema loses of 'k'" in found.best.verdict
    assert found.as_dict()["outside"]["column"] == "k"
    fine = op.screen(_with_k(0, 4000, 2), public, schema=CLIPPED, epsilon=0.5, by=by, seed=1)
    assert fine.outside is not None and not fine.outside.is_large
    assert "little seems to fall outside" in fine.outside.words and "Before" not in fine.verdict
    blurred = op.screen(_with_k(3, 4000, 2), public, schema=CLIPPED, epsilon=0.002, by=by, seed=1)
    assert blurred.outside is not None and "hides how much falls outside" in blurred.outside.words


def test_the_share_outside_has_noise_of_the_stated_size() -> None:
    private, public = _with_k(3, 4000, 2), {"last year": _with_k(0, 3000, 1)}
    true = float((private["k"].to_numpy() > 0).mean())
    found = [op.screen(private, public, schema=CLIPPED, epsilon=1.0, seed=s).outside for s in range(60)]
    errors = np.array([o.share - true for o in found if o is not None])
    # A tenth of ε, and one person moves one count by 1.
    assert errors.std() == pytest.approx(np.sqrt(2) / 0.1 / 4000, rel=0.3)
    assert np.mean([o.low <= true <= o.high for o in found if o is not None]) >= 0.85


def test_a_strict_schema_spends_nothing_on_what_it_would_refuse() -> None:
    found = op.screen(PRIVATE, ALL, schema=SCHEMA, epsilon=1.0, seed=1)
    assert found.outside is None
    assert len(found.certificate.events) == len(ALL)
