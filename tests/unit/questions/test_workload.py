"""Workloads: plans, weights, closure, errors."""

import pytest

from openprior.errors import WorkloadError
from openprior.questions.workload import Workload, all_marginals, closure, random_marginals, target_marginals
from openprior.schema.domain import Domain

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 5})


def test_all_marginals_are_all_and_few_columns_are_no_error() -> None:
    assert len(all_marginals(2).on(DOMAIN)) == 6
    assert all_marginals(9).on(DOMAIN).marginals == (("a", "b", "c", "d"),)


def test_random_marginals_are_different_repeatable_and_capped() -> None:
    drawn = random_marginals(2, 4, seed=1).on(DOMAIN)
    assert drawn.marginals == random_marginals(2, 4, seed=1).on(DOMAIN).marginals
    assert len(set(drawn.marginals)) == 4
    assert drawn.marginals != random_marginals(2, 4, seed=2).on(DOMAIN).marginals
    assert len(random_marginals(2, 100, seed=1).on(DOMAIN)) == 6


def test_target_marginals_have_the_target() -> None:
    work = target_marginals("c", 3).on(DOMAIN)
    assert len(work) == 3
    assert all("c" in m for m in work)


def test_columns_are_put_in_order_and_repeats_add_their_weights() -> None:
    work = Workload([("b", "a"), ("a", "b"), "d"], [1.0, 2.0, 5.0]).on(DOMAIN)
    assert work.marginals == (("a", "b"), ("d",))
    assert work.weights == (3.0, 5.0)
    assert work.cells == 11


def test_closure_has_every_subset_once() -> None:
    assert closure([("a", "b"), ("b", "c")]) == (("a",), ("b",), ("c",), ("a", "b"), ("b", "c"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workload([]), "empty workload"),
        (lambda: Workload([("a",)], [0.0]), "positive"),
        (lambda: Workload([("a",)], [1.0, 2.0]), "one each"),
        (lambda: Workload([("a", "a")]).on(DOMAIN), "twice"),
        (lambda: Workload([("a", "nope")]).on(DOMAIN), "there is no column 'nope'; there are a, b, c, d"),
        (lambda: Workload([()]).on(DOMAIN), "empty marginal"),
        (lambda: all_marginals(0), "at least one column"),
        (lambda: random_marginals(2, 0, 1), "at least one marginal"),
        (lambda: target_marginals("nope", 2).on(DOMAIN), "'nope'"),
    ],
)
def test_impossible_workloads_say_why(make: object, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        make()  # type: ignore[operator]
