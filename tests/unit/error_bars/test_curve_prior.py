"""What is expected of errors beforehand: by the budget, by the public table, by the model's word, by empty cells."""

import numpy as np
import pytest

from openprior.error_bars.bars import ErrorBars
from openprior.error_bars.curve_prior import KNOTS, Beforehand, Own, missed, worlds_before
from openprior.error_bars.strata import STRATA, Sizes
from openprior.privacy.error_strata import ROW_STEPS, ErrorStrata


def sizes(*cells: tuple[float, float]) -> Sizes:
    """So many cells with each estimate."""
    return Sizes.of([(np.array([m]), np.array([float(k)])) for m, k in cells], 1)


FULL = sizes((0.01, 100), (0.7, 50), (5.0, 60), (100.0, 20))
SPARSE = sizes((0.01, 10_000), (0.7, 50), (5.0, 60), (100.0, 20))


def test_what_seems_empty_holds_what_single_rows_foretell() -> None:
    assert missed(SPARSE) == pytest.approx(50 * 0.7 / 10_000)
    assert missed(FULL) == pytest.approx(50 * 0.7 / 100)
    assert missed(sizes((0.01, 10), (1.0, 50), (2.9, 10), (3.1, 1000))) == 0.5, "not above a half"
    assert missed(sizes((0.01, 1000), (2.0, 30), (5.0, 10), (7.0, 1000))) == pytest.approx(0.08)
    assert missed(sizes((5.0, 10), (0.7, 2))) == 0 == missed(sizes((0.01, 10), (0.3, 2)))


def mean(known: Beforehand, cells: Sizes = SPARSE) -> np.ndarray:
    return worlds_before([1], [cells], known)[0][1].mean


@pytest.mark.parametrize("public", [True, False])
def test_the_more_noise_the_larger_errors_of_large_cells_and_never_smaller_ones(public: bool) -> None:
    few, some, much = (mean(Beforehand(public, noise)) for noise in (0.1, 1.0, 10.0))
    large = np.log(20.0) <= KNOTS
    assert (few[large] < some[large]).all() and (some[large] < much[large]).all()
    assert (few <= some + 1e-12).all() and (some <= much + 1e-12).all()


def test_without_a_public_table_errors_are_larger() -> None:
    large = np.log(2.0) <= KNOTS
    assert (mean(Beforehand(False, 3.0)) > mean(Beforehand(True, 3.0)))[large].all()


def test_a_models_word_counts_more_the_larger_the_cells_are() -> None:
    word = (3.0, 30.0, 300.0), (2.0, 6.0, 20.0)
    small, large = (
        mean(Beforehand(True, 1.0, Own(word[0], tuple(times * e for e in word[1])))) for times in (1.0, 2.0)
    )
    more = (large - small)[np.log(0.5) <= KNOTS] / np.log(2.0)
    assert (np.diff(more) >= -1e-12).all() and 0 < more[0] < 0.1 and more[-1] == pytest.approx(0.56, abs=1e-3)


def test_a_models_word_is_believed_less_without_a_public_table() -> None:
    word, large = Own((3.0, 30.0, 300.0), (2.0, 6.0, 20.0)), np.log(20.0) <= KNOTS
    for noise, higher in ((0.1, -0.2), (1.0, 0.1), (10.0, 0.4)):
        beside, alone = (
            worlds_before([1], [SPARSE], Beforehand(p, noise, word))[0][1] for p in (True, False)
        )
        more = (alone.mean - beside.mean)[large]
        assert (more >= higher).all() and (more <= higher + 0.4).all(), "the more noise, the less"
        assert (np.diag(alone.covariance) > 2 * np.diag(beside.covariance))[large].all()


def test_means_within_large_groups_are_known_less_well_than_their_counts() -> None:
    groups = sizes((5.0, 60), (100.0, 20)), SPARSE
    precise = Own((3.0, 30.0, 300.0), (1.0, 2.0, 4.0))
    both = worlds_before([0, 1], groups, Beforehand(True, 0.1, precise))[0][1]
    contrasts, cells = both.mean[: len(KNOTS)], both.mean[len(KNOTS) :]
    large = np.log(100.0) <= KNOTS
    assert (contrasts > cells + 0.3)[large].all() and (contrasts < 0.5 * KNOTS)[large].all()


def test_full_tables_have_larger_errors_where_cells_seem_empty() -> None:
    full, sparse = (mean(Beforehand(True, 1.0), cells) for cells in (FULL, SPARSE))
    assert full[0] > sparse[0] + 1.0 and (np.diff(sparse) > 0).all()
    assert (full - sparse > 0).all() and abs(full - sparse)[-1] < 0.01


def bars(errors: float) -> ErrorBars:
    """With so much error in every stratum of the largest marginals, known precisely."""
    statistic = ErrorStrata(STRATA, (1,), (1,), (ROW_STEPS,))
    values = tuple(int(errors * ROW_STEPS) for _ in range(STRATA))
    return ErrorBars(statistic, 1.0, (1,), (SPARSE,), values, (("a",),), Beforehand(True, 1.0))


def test_a_cell_that_seems_empty_may_hold_a_row_where_many_do() -> None:
    """Markov: of cells with errors of 0.08 on average, 8 in 100 may hold one; of those with 0.03, 3 in 100."""
    nothing = np.zeros(1)
    high = bars(0.08 * 10_000).around(nothing, 1).high, bars(0.02 * 10_000).around(nothing, 1).high
    assert high[0][0] == 1.0 and 0.5 < high[1][0] < 1.0
    assert bars(2.0 * 10_000).around(nothing, 1).high[0] > 3.0
