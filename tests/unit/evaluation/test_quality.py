"""Detailed quality measures on examples worked out by hand, on tables known to be alike or not, and on odd ones."""

import importlib
import json
from collections.abc import Sequence

import numpy as np
import pytest

import openprior as op
from openprior.errors import OptionError
from openprior.evaluation.associations import associations_of
from openprior.evaluation.classifier import Task
from openprior.evaluation.copies import copies_of
from openprior.evaluation.nist import nist_score, total_variation
from openprior.evaluation.propensity import auc, propensity_of
from openprior.evaluation.quality import quality_of
from openprior.evaluation.usefulness import usefulness_of
from openprior.schema.bins import Integer
from openprior.schema.columns import Categorical, Ordered
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import random_table

SIZES = {"a": 2, "b": 3, "c": 4, "d": 6, "e": 12}


def table(sizes: dict[str, int], rows: list[tuple[int, ...]]) -> Table:
    return Table(Domain(sizes), tuple(np.array(c) for c in zip(*rows, strict=True)))


def halves(sizes: dict[str, int], rows: int, seed: int) -> tuple[Table, Table]:
    both = random_table(sizes, 2 * rows, seed)
    return both.take(np.arange(rows)), both.take(np.arange(rows, 2 * rows))


def test_nist_score_by_hand() -> None:
    # Private (0,0) (0,0) (0,1) (1,1), released (0,0) (1,1). Column a: 3/4 and 1/4 against 1/2 each: d = 1/2.
    # Column b: halves against halves: d = 0. Both: |1/2 − 1/2| + |1/4 − 0| + 0 + |1/4 − 1/2| = 1/2.
    private = table({"a": 2, "b": 2}, [(0, 0), (0, 0), (0, 1), (1, 1)])
    released = table({"a": 2, "b": 2}, [(0, 0), (1, 1)])
    assert nist_score(released, private, k=1) == pytest.approx(1000 * (1 - 0.25 / 2))
    assert nist_score(released, private, k=2) == pytest.approx(750)
    assert nist_score(released, private, k=3) == pytest.approx(750)  # two columns are all there are
    found = total_variation(released, private)
    assert set(found) == {1, 2}
    assert (found[1].mean, found[1].largest, found[1].worst) == (0.125, 0.25, ("a",))
    assert (found[2].mean, found[2].marginals, found[2].possible) == (0.25, 1, 1)


def test_nist_score_ends_and_random_marginals() -> None:
    private, released = halves(SIZES, 500, 1)
    for k in (1, 2, 3, 4):
        assert nist_score(private, private, k=k) == 1000
    apart = table({"a": 2, "b": 2}, [(0, 0)]), table({"a": 2, "b": 2}, [(1, 1)] * 3)
    assert nist_score(*apart, k=2) == 0
    every = nist_score(released, private, k=3)
    assert nist_score(released, private, k=3, marginals=99) == every
    some = [nist_score(released, private, k=3, marginals=4, seed=s) for s in (1, 1, 2)]
    assert some[0] == some[1] != some[2]
    for wrong in ({"k": 0}, {"k": 5}, {"marginals": 0}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            nist_score(released, private, **wrong)


def test_a_sample_of_the_marginals_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    private, released = halves(SIZES, 300, 1)
    assert not total_variation(released, private)[3].sampled
    nist = importlib.import_module("openprior.evaluation.nist")
    monkeypatch.setattr(nist, "_MANY_CELLS", 10)
    found = total_variation(released, private, sample=4, seed=3)
    assert (found[3].marginals, found[3].possible, found[3].sampled) == (4, 10, True)
    assert not found[2].sampled
    same = 1000 * (1 - found[3].mean)
    assert nist_score(released, private, k=3, marginals=4, seed=3) == pytest.approx(same)


def test_associations_leave_out_missing_values_and_unordered_columns() -> None:
    schema = op.Schema(
        (
            Integer(name="x", low=0, high=2, missing=True),
            Ordered(name="y", values=("low", "mid", "high"), other=True, out_of_domain="other"),
            Categorical(name="z", values=("p", "q")),
        )
    )
    sizes = {"x": 4, "y": 4, "z": 2}
    # x and y agree where both are known; the codes 3 are missing and other.
    private = table(sizes, [(0, 0, 0), (1, 1, 1), (2, 2, 0), (3, 0, 1), (3, 0, 1), (0, 3, 0), (0, 3, 0)] * 20)
    released = table(sizes, [(0, 2, 0), (1, 1, 1), (2, 0, 0), (3, 0, 1)] * 30)
    found = associations_of(released, private, schema)
    assert found.correlation.names == ("x", "y")
    assert found.correlation.private[0, 1] == pytest.approx(1)
    assert found.correlation.released[0, 1] == pytest.approx(-1)
    assert found.correlation.largest == found.correlation.mean == pytest.approx(2)
    assert found.correlation.worst == ("x", "y")
    assert found.cramers_v.names == ("x", "y", "z")
    assert found.cramers_v.released[0, 1] > 0.8
    assert (np.diag(found.cramers_v.difference) == 0).all()


def test_cramers_v_is_one_for_a_copy_and_none_by_chance() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 30, 300), rng.integers(0, 30, 300)
    v = Table(Domain({"a": 30, "same": 30, "b": 30}), (a, (a * 7) % 30, b))
    found = associations_of(v, v, op.Schema.from_sizes({"a": 30, "same": 30, "b": 30})).cramers_v.private
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] < 0.12  # uncorrected it is about 0.31


def test_alike_rows_are_not_told_apart_and_different_ones_are() -> None:
    private, released = halves(SIZES, 3000, 2)
    found = propensity_of(released, private)
    assert found.auc == pytest.approx(0.5, abs=0.03)
    assert found.chance_auc == pytest.approx(0.5, abs=0.03)
    assert found.score < 0.02
    assert found.score < found.chance_score < 0.05  # halves have half the rows to learn from
    shifted = Table(private.domain, (1 - private.columns[0], *private.columns[1:]))
    assert propensity_of(shifted, private).auc > 0.52
    apart = Table(private.domain, (*(np.zeros(3000, int) for _ in range(4)), np.full(3000, 11)))
    far = propensity_of(apart, private)
    assert far.auc > 0.98
    assert far.score > 0.9
    assert far.pmse == pytest.approx(far.score / 4)
    assert far.chance_auc == pytest.approx(0.5, abs=0.03)


def test_columns_that_went_independent_are_noticed() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 4000)
    private = Table(Domain({"a": 2, "b": 2}), (a, a ^ (rng.random(4000) < 0.1)))
    released = Table(private.domain, (a, rng.integers(0, 2, 4000)))
    found = propensity_of(released, private)
    # Equal: 90 % of private and half of released rows, so the best AUC is 0.5 + (0.9 − 0.5)/2 = 0.7.
    assert found.auc == pytest.approx(0.7, abs=0.02)


def parrot(tasks: Sequence[Task]) -> list[np.ndarray]:
    """A model that knows the rows it has seen and nothing else."""
    answers = []
    for task in tasks:
        known = dict(zip(task.columns[0].tolist(), task.target.tolist(), strict=True))
        p = np.array([known.get(code, 0.5) for code in task.judged[0].tolist()])
        answers.append(np.stack([1 - p, p], axis=1))
    return answers


@pytest.mark.parametrize("folds", [2, 3])
def test_rows_are_judged_by_models_that_never_saw_them(monkeypatch: pytest.MonkeyPatch, folds: int) -> None:
    monkeypatch.setattr(
        importlib.import_module("openprior.evaluation.propensity"), "class_probabilities", parrot
    )
    domain = Domain({"a": 300})
    private, released = (Table(domain, (np.arange(i, 300, 3),)) for i in (0, 1))
    found = propensity_of(released, private, folds=folds)
    assert (found.auc, found.score, found.chance_auc, found.chance_score) == (0.5, 0, 0.5, 0)


def test_samples_and_seeds() -> None:
    private, released = halves(SIZES, 400, 2)
    assert propensity_of(released, private, rows=100).rows == (100, 100)
    first, again = (propensity_of(released, private, rows=300, seed=4) for _ in range(2))
    assert first == again
    for wrong in ({"rows": 0}, {"folds": 1}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            propensity_of(released, private, **wrong)


def test_auc_by_hand() -> None:
    # Positives 0.9 and 0.4 against 0.4 and 0.1: 1, 1, ½, 1 of four pairs.
    assert auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False])) == 0.875
    assert np.isnan(auc(np.array([0.1]), np.array([True])))


def test_usefulness_of_good_and_of_shuffled_rows() -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 3, 9000) for _ in range(3)]
    target = np.where(rng.random(9000) < 0.15, rng.integers(0, 3, 9000), (columns[0] + columns[1]) % 3)
    both = Table(Domain({"a": 3, "b": 3, "c": 3, "y": 3}), (*columns, target))
    private, good = both.take(np.arange(6000)), both.take(np.arange(6000, 9000))
    found = usefulness_of(good, private, "y")
    # The best is right in 85 % + 5 % of the rows; that model's log loss is −0.9 ln 0.9 − 0.1 ln 0.05.
    for fit in (found.released, found.private):
        assert fit.accuracy == pytest.approx(0.9, abs=0.02)
        assert fit.log_loss == pytest.approx(0.394, abs=0.05)
        assert fit.auc == pytest.approx(0.925, abs=0.02)
    assert found.majority == pytest.approx(1 / 3, abs=0.03)
    assert found.rows == (3000, 3000, 3000)
    bad = Table(good.domain, (*good.columns[:3], rng.permutation(good.columns[3])))
    found = usefulness_of(bad, private, "y")
    assert found.released.accuracy < 0.45
    assert found.private.accuracy > 0.85


def test_classes_that_are_absent_here_or_there() -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, 4, 2000)
    private = Table(Domain({"a": 4, "y": 5}), (a, a))  # class 4 occurs nowhere
    released = private.take(np.flatnonzero(a != 3))
    found = usefulness_of(released, private, "y")
    assert found.private.accuracy == 1
    assert found.released.accuracy == pytest.approx(0.75, abs=0.06)
    assert np.isfinite(found.released.log_loss)
    assert found.released.log_loss > 1
    single = table({"a": 2, "y": 2}, [(0, 1), (1, 1)] * 10)
    found = usefulness_of(single, single, "y")
    assert (found.majority, found.released.accuracy) == (1, 1)
    assert np.isnan(found.released.auc)


def test_copies_by_hand() -> None:
    # Unique private rows: (0,0) and (2,1); (1,1) occurs twice. Released: (0,0) twice, (1,1), (2,2).
    private = table({"a": 3, "b": 3}, [(0, 0), (1, 1), (1, 1), (2, 1)])
    released = table({"a": 3, "b": 3}, [(0, 0), (0, 0), (1, 1), (2, 2)])
    found = copies_of(released, private)
    assert (found.unique, found.matched, found.rate) == (2, 1, 0.5)
    nobody = copies_of(released, table({"a": 3, "b": 3}, [(1, 1), (1, 1)]))
    assert (nobody.unique, nobody.matched, nobody.rate) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_a_copier_is_caught_and_another_sample_is_not(seed: int) -> None:
    private, other = halves({f"c{i}": 4 for i in range(7)}, 2000, seed)
    chance = copies_of(other, private, seed=seed)
    assert chance.chance_rate > 0.05  # there are matches by chance to tell from
    assert chance.released_rate == pytest.approx(chance.chance_rate, abs=3 * chance.error)
    assert not chance.beyond_chance
    copied = copies_of(private, private, seed=seed)
    assert copied.rate == 1
    assert copied.beyond_chance
    few = Table(
        private.domain,
        tuple(
            np.concatenate([a[:1700], b[:300]]) for a, b in zip(other.columns, private.columns, strict=True)
        ),
    )
    assert copies_of(few, private, seed=seed).beyond_chance


def test_rows_too_wide_for_one_number_are_still_told_apart() -> None:
    sizes = {f"c{i}": 1000 for i in range(25)}
    rng = np.random.default_rng(0)
    private = Table(Domain(sizes), tuple(rng.integers(0, 1000, 500) for _ in sizes))
    near = Table(private.domain, (*private.columns[:-1], (private.columns[-1].astype(int) + 1) % 1000))
    assert copies_of(private, private).matched == 500
    assert copies_of(near, private).matched == 0


CASES = {
    "one row each": (table({"a": 2, "b": 3}, [(1, 2)]), table({"a": 2, "b": 3}, [(0, 1)])),
    "one column": (table({"a": 2}, [(0,), (1,)] * 9), table({"a": 2}, [(0,)] * 5)),
    "constant columns": (table({"a": 1, "b": 3}, [(0, 1)] * 12), table({"a": 1, "b": 3}, [(0, 1)] * 10)),
    "few against many": (random_table(SIZES, 3, 1), random_table(SIZES, 800, 2)),
    "many against few": (random_table(SIZES, 800, 1), random_table(SIZES, 3, 2)),
    "a huge column": (
        random_table({"a": 2, "b": 5_000_000}, 90, 1),
        random_table({"a": 2, "b": 5_000_000}, 60, 2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_odd_tables(name: str) -> None:
    released, private = CASES[name]
    schema = op.Schema.from_sizes(private.domain.sizes())
    found = quality_of(released, private, schema, target="a")
    plain = found.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert 0 <= found.nist <= 1000
    assert 0 <= found.propensity.auc <= 1
    assert 0 <= found.propensity.score <= 1
    assert all(len(line) == 3 and all(line) and "nan" not in line[1] for line in found.summary())


def test_all_of_it() -> None:
    private, released = halves(SIZES, 1000, 1)
    schema = op.Schema.from_sizes(SIZES)
    found = quality_of(released, private, schema, target="b", seed=5)
    assert found.as_dict() == quality_of(released, private, schema, target="b", seed=5).as_dict()
    assert found.nist == pytest.approx(nist_score(released, private, k=3))
    assert found.propensity == propensity_of(released, private, seed=5)
    assert found.usefulness == usefulness_of(released, private, "b", seed=5)
    assert found.copies == copies_of(released, private, seed=5)
    assert "NOT PRIVATE" in found.notice
    assert "NOT PRIVATE" in found.as_dict()["notice"]
    names = [name for name, _, _ in found.summary()]
    assert len(set(names)) == len(names) == 13
    assert any("predicting b" in name for name in names)
    without = quality_of(released, private, schema, seed=5)
    assert without.usefulness is None
    assert without.as_dict()["usefulness"] is None
    assert len(without.summary()) == 10


def test_a_perfect_release_has_perfect_figures() -> None:
    private = random_table(SIZES, 500, 1)
    found = quality_of(private, private, op.Schema.from_sizes(SIZES))
    assert found.nist == 1000
    assert all(v.largest == 0 for v in found.total_variation.values())
    assert found.associations.cramers_v.largest == found.associations.correlation.largest == 0
    assert found.copies.rate == 1


def test_clumsy_users_are_told() -> None:
    private, released = halves(SIZES, 20, 1)
    schema = op.Schema.from_sizes(SIZES)
    with pytest.raises(OptionError, match=r"'nowhere' is no column .* choose one of a, b, c, d, e"):
        quality_of(released, private, schema, target="nowhere")
    wide = random_table({"a": 2, "b": 65}, 9, 1)
    with pytest.raises(OptionError, match="'b' has 65 values"):
        quality_of(wide, wide, op.Schema.from_sizes({"a": 2, "b": 65}), target="b")
    with pytest.raises(OptionError, match="one schema"):
        quality_of(wide, private, schema)
    with pytest.raises(OptionError, match="this schema"):
        quality_of(wide, wide, schema)
    with pytest.raises(OptionError, match="at least one row"):
        copies_of(released.take(np.zeros(0, int)), private)
    with pytest.raises(OptionError, match="splits"):
        copies_of(released, private, splits=0)
    with pytest.raises(OptionError, match="rows"):
        usefulness_of(released, private, "a", rows=0)
