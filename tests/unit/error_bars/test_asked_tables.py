"""Which tables errors are asked of follows from the workload, so a certificate that says otherwise is refused."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.error_bars.asked_tables import (
    CONTRASTS,
    MOST_GROUPS,
    factors_of,
    is_as_asked,
    tables_by_columns,
)
from openprior.error_bars.contrasts import contrasts_of
from openprior.error_bars.error_question import default_share
from openprior.error_bars.model_answers import answers_of
from openprior.errors import PrivacyError
from openprior.privacy.error_strata import MOST_FACTOR, ROW_STEPS, ErrorStrata
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, Workload, all_marginals, canonical, closure
from openprior.schema.domain import Domain
from tests.answering import Answering

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
WORK = all_marginals(3).on(DOMAIN)


def asked_of(tables: tuple[int, ...]) -> ErrorStrata:
    return ErrorStrata(12, factors_of(tables, contrasts=True), tables, (ROW_STEPS,) * len(tables))


def test_all_that_the_workload_implies_is_looked_at() -> None:
    found = tables_by_columns(WORK.marginals, DOMAIN, np.random.default_rng(0))
    assert list(found) == [1, 2, 3]
    assert [own for pairs in found.values() for own, _ in pairs] == list(closure(WORK.marginals))
    assert all(set(own) <= set(within) for pairs in found.values() for own, within in pairs)


def test_a_statistic_that_says_what_was_asked_is_right_and_no_other() -> None:
    contrasts = 4 * 1 + 6 * 2 + 4 * 3
    right, columns = asked_of((contrasts, 4, 6, 4)), (CONTRASTS, 1, 2, 3)
    assert is_as_asked(right, columns, WORK.marginals, DOMAIN)
    without = ErrorStrata(12, factors_of((4, 6, 4), contrasts=False), (4, 6, 4), (ROW_STEPS,) * 3)
    assert not is_as_asked(without, (1, 2, 3), WORK.marginals, DOMAIN)
    for cells in ((1, 6, 4), (4, 5, 4), (4, 7, 4), (4, 6, 1 << 62)):
        assert not is_as_asked(asked_of((contrasts, *cells)), columns, WORK.marginals, DOMAIN), cells
    for number in (1, contrasts - 1, contrasts + 1, 600, 601):
        tables = (number, 4, 6, 4)
        assert not is_as_asked(asked_of(tables), columns, WORK.marginals, DOMAIN), tables
    assert not is_as_asked(replace(right, steps=(64, 64, 64, 1)), columns, WORK.marginals, DOMAIN)
    assert not is_as_asked(replace(right, factors=(1, 1, 1, 1)), columns, WORK.marginals, DOMAIN)
    for others in ((CONTRASTS, 1, 2, 4), (CONTRASTS, 1, 2), (CONTRASTS, 2, 1, 3), (1, 2, 3, 4)):
        assert not is_as_asked(right, others, WORK.marginals, DOMAIN), others


def test_columns_that_have_one_value_have_no_contrasts() -> None:
    """What is asked of a model is what a certificate is held against, with many contrasts and with none."""
    for domain, work in (
        (Domain({"a": 1, "b": 1}), 2),
        (Domain({"a": 1, "b": 3}), 2),
        (Domain({f"c{i}": 2 for i in range(24)}), 3),
        (Domain({"a": 700, "b": 900, "c": 2}), 2),
    ):
        asked = all_marginals(work).on(domain)
        pairs = tables_by_columns(asked.marginals, domain, np.random.default_rng(0))
        model, flat = _Flat(domain), [pair for some in pairs.values() for pair in some]
        made, _ = contrasts_of(model, flat, domain, {}, 0, np.random.default_rng(1))
        tables = [*([len(made)] if made else []), *map(len, pairs.values())]
        factors = factors_of(tables, contrasts=bool(made))
        statistic = ErrorStrata(12, factors, tuple(tables), (ROW_STEPS,) * len(tables))
        columns = (*([CONTRASTS] if made else []), *pairs)
        assert is_as_asked(statistic, columns, asked.marginals, domain)


class _Flat(Answering):
    """Every combination as often as any other; or answers that are no numbers."""

    def __init__(self, domain: Domain, total: float = 100.0) -> None:
        super().__init__(domain, total)

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, NDArray[np.float64]]:
        asked = [canonical(m, self.domain) for m in marginals]
        return {m: np.full(size := self.domain.size(m), self.total / size) for m in asked}


def test_answers_that_no_table_has_are_cut_and_those_that_are_no_numbers_refused() -> None:
    for total in (1e300, np.inf):
        assert answers_of(_Flat(DOMAIN, total), [("a",)])[("a",)].sum() == 2.0**50
        assert answers_of(_Flat(DOMAIN, -total), [("a",)])[("a",)].sum() == -(2.0**50)
    with pytest.raises(PrivacyError, match="no numbers"):
        answers_of(_Flat(DOMAIN, np.nan), [("a",)])


def test_groups_of_very_different_sizes_have_factors_that_fit() -> None:
    factors = factors_of((600, 75, 2775, 67_525, 1), contrasts=True)
    assert max(factors) == MOST_FACTOR >= 1
    tables = (600, 75, 2775, 67_525, 1)
    ErrorStrata(12, factors, tables, (ROW_STEPS,) * 5)


@pytest.mark.parametrize("columns", [20, 40])
def test_a_wide_marginal_has_no_more_tables_than_can_be_counted(columns: int) -> None:
    domain = Domain({f"c{i}": 2 if i < 8 else 1 for i in range(columns)})
    work = Workload([tuple(domain)]).on(domain)
    found = tables_by_columns(work.marginals, domain, np.random.default_rng(0))
    assert list(found) == [*range(1, MOST_GROUPS + 1), columns]
    assert sum(map(len, found.values())) <= 6_000
    assert all(len(set(own)) == k for k, pairs in found.items() for own, _ in pairs)
    share = default_share(work, None, 1000, Unit(), epsilon=1.0, delta=1e-9, rng=np.random.default_rng(0))
    assert 0 < share <= 0.03


def test_even_thousands_of_columns_in_one_marginal_are_no_burden() -> None:
    domain = Domain({f"c{i}": 1 for i in range(3000)})
    found = tables_by_columns([tuple(domain)], domain, np.random.default_rng(0))
    assert list(found) == [*range(1, MOST_GROUPS + 1), 3000]
    assert all(found.values())
