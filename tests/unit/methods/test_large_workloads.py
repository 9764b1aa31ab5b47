"""Candidates in turns, and the sample that speaks for a workload."""

import numpy as np
import pytest

from openprior.methods.shared.large_workloads import in_turns, some_of
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain

SMALL = Domain({"a": 4, "b": 3, "c": 5})
LARGE = Domain({f"x{i}": 20 + 7 * i for i in range(11)})


def test_few_cells_are_all_offered_in_every_round() -> None:
    marginals = list(all_marginals(2).on(SMALL).closure())
    assert in_turns(SMALL, marginals) == [marginals]


def test_large_candidates_take_turns_and_small_ones_are_always_there() -> None:
    marginals = list(all_marginals(3).on(LARGE).closure())
    turns = in_turns(LARGE, marginals)
    assert len(turns) == 2
    assert set(turns[0]) | set(turns[1]) == set(marginals)
    both = set(turns[0]) & set(turns[1])
    largest_small = max(LARGE.size(m) for m in both)
    assert all(LARGE.size(m) >= largest_small for m in set(marginals) - both)
    cells = [sum(LARGE.size(m) for m in turn) for turn in turns]
    assert max(cells) < 1.1 * min(cells)
    for turn in turns:
        assert turn == [m for m in marginals if m in set(turn)]


def test_one_marginal_beyond_all_bounds_still_has_a_turn() -> None:
    huge = Domain({"a": 5000, "b": 5000})
    turns = in_turns(huge, [("a", "b")])
    assert [("a", "b")] in turns and all(turns)


def test_a_small_workload_speaks_for_itself() -> None:
    workload = all_marginals(2).on(SMALL)
    assert some_of(workload, SMALL) is workload


def test_a_sample_speaks_for_a_large_workload_by_its_weights() -> None:
    marginals = all_marginals(3).on(LARGE).marginals
    weights = [1000.0 if "x0" in m else 1e-3 for m in marginals]
    some = some_of(Workload(marginals, weights).on(LARGE), LARGE)
    assert 64 <= len(some) < len(marginals)
    assert sum("x0" in m for m in some.marginals) >= 40  # of 45
    assert set(some.marginals) <= set(marginals)
    again = some_of(Workload(marginals, weights).on(LARGE), LARGE)
    assert some.marginals == again.marginals
    # What is in the sample for sure keeps its weight beside the others', which speak for those left out.
    sure = [w for m, w in zip(some.marginals, some.weights, strict=True) if "x0" in m]
    others = [w for m, w in zip(some.marginals, some.weights, strict=True) if "x0" not in m]
    assert np.allclose(sure, 1.0, rtol=1e-6)
    assert sum(others) == pytest.approx(1e-6 * (len(marginals) - 45), rel=0.5)


def test_a_large_workload_of_few_marginals_keeps_its_weights() -> None:
    domain = Domain({"a": 1000, "b": 1000, "c": 10})
    workload = Workload({("a", "b"): 1.0, ("a", "c"): 1000.0}).on(domain)
    assert some_of(workload, domain) is workload


def test_the_mean_over_a_sample_is_about_the_mean_over_all() -> None:
    marginals = all_marginals(3).on(LARGE).marginals
    rng = np.random.default_rng(1)
    workload = Workload(marginals, rng.gamma(1.0, size=len(marginals)) + 1e-3).on(LARGE)
    error = dict(zip(marginals, rng.random(len(marginals)), strict=True))
    means = [
        np.average([error[m] for m in w.marginals], weights=w.weights)
        for w in (workload, some_of(workload, LARGE))
    ]
    assert means[0] == pytest.approx(means[1], abs=0.1)
