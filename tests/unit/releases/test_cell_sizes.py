"""By what size of its cells a model's errors go: what noise above a cell may hide is counted in."""

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

import openprior as op
from openprior.counting.local import count_table
from openprior.error_bars.widening import MEAN_TO_SD
from openprior.models.base import Model
from openprior.models.support import SupportModel
from openprior.privacy.measurement import Measurement
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.statistics import CellCount
from openprior.questions.workload import Marginal, canonical
from openprior.releases.cell_sizes import CellSizes
from openprior.releases.measurements import Measurements
from openprior.schema.domain import Domain
from openprior.tables.encode import encode_table
from openprior.tables.table import Table
from tests.answering import Answering
from tests.conftest import arrow, random_table

Floats = NDArray[np.float64]
DOMAIN = Domain({"a": 4, "b": 2, "c": 2})
C = np.array([0.25, 0.75])


class Dense(Answering):
    """The whole table."""

    def __init__(self, counts: Floats) -> None:
        super().__init__(DOMAIN, counts.sum())
        self.counts = counts

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        asked = [canonical(m, self.domain) for m in marginals]
        away = [tuple(i for i, a in enumerate(self.domain) if a not in m) for m in asked]
        return {m: self.counts.sum(axis=axes).reshape(-1) for m, axes in zip(asked, away, strict=True)}


AB = np.array([[400.0, 100.0], [0.0, 300.0], [60.0, 40.0], [60.0, 40.0]])
"""Half of the second value of a was lost."""
MODEL = Dense(np.multiply.outer(AB, C))


def noisy(marginal: Marginal, noise: float) -> Measurement:
    """Counts of which the noise hides so many rows on average."""
    return Measurement.of(marginal, np.zeros(DOMAIN.size(marginal)), noise * MEAN_TO_SD)


def sizes(marginal: Marginal, *measured: Measurement, model: Model = MODEL) -> Floats:
    return CellSizes(model, Measurements(DOMAIN, measured)).of(model.answers([marginal]))[marginal]


def test_nothing_measured_hides_nothing() -> None:
    assert sizes(("a", "b")) == pytest.approx(AB.reshape(-1))


def test_a_lost_value_has_what_the_noise_of_its_count_hides() -> None:
    """Spread over the other column as that is; values that stand out have nothing more."""
    counts = AB.copy()
    counts[3] = 0.0
    model = Dense(np.multiply.outer(counts, C))
    told = sizes(("a", "b"), noisy(("a",), 40.0), model=model).reshape(4, 2)
    assert told[:3] == pytest.approx(counts[:3])
    assert told[3] == pytest.approx(40 * counts.sum(axis=0) / 900)


@pytest.mark.parametrize(("noise", "hidden"), [(10.0, 10.0), (150.0, 100.0)])
def test_a_lost_cell_has_what_noise_hides_but_no_more_than_a_tenth_of_all(
    noise: float, hidden: float
) -> None:
    expected = AB.copy()
    expected[1, 0] = hidden
    assert sizes(("a", "b"), noisy(("a", "b"), noise)).reshape(4, 2) == pytest.approx(expected)


def test_a_lost_cell_has_no_more_than_unrelated_columns_would_give_it() -> None:
    counts = np.array([[500.0, 300.0], [140.0, 0.0], [40.0, 0.0], [19.0, 1.0]])
    told = sizes(("a", "b"), noisy(("a", "b"), 30.0), model=Dense(np.multiply.outer(counts, C))).reshape(4, 2)
    more = told - counts
    assert more[1:3, 1] == pytest.approx([30, 40 * 301 / 1000])  # the first would have 42 rows, the second 12


def test_what_is_hidden_goes_on_into_larger_marginals_and_into_no_others() -> None:
    told = sizes(("a", "b", "c"), noisy(("a", "b"), 10.0))
    assert told.reshape(4, 2, 2)[1, 0] == pytest.approx(10 * C)
    assert sizes(("a", "c"), noisy(("a", "b"), 10.0)) == pytest.approx(MODEL.answers([("a", "c")])["a", "c"])


def test_twice_measured_hides_less() -> None:
    once = sizes(("a", "b"), noisy(("a", "b"), 10.0))[2]
    twice = sizes(("a", "b"), noisy(("a", "b"), 10.0), noisy(("a", "b"), 10.0))[2]
    assert twice == pytest.approx(once / np.sqrt(2))


def test_merged_values_share_what_their_count_hides() -> None:
    """Of the second and the last value together, 0 of one half was found."""
    counts = AB.copy()
    counts[3] = [0.0, 100.0]
    model = Dense(np.multiply.outer(counts, C))
    merged = MergedCounts(("a", "b"), Merging(((0, 1, 2, 1), (0, 1))))
    told = sizes(("a", "b"), Measurement(merged, np.zeros(6), 20 * MEAN_TO_SD), model=model).reshape(4, 2)
    expected = counts.copy()
    expected[[1, 3], 0] = 15, 5  # there are three times as many rows of the one
    assert told == pytest.approx(expected)


def test_cells_and_parts_of_tables_are_no_tables() -> None:
    one = Measurement(CellCount(("a", "b"), 2), np.zeros(1), 10.0)
    part = Measurement(noisy(("a", "b"), 10.0).statistic, np.zeros(8), 10.0, part={"c": 0})
    for item in (one, part):
        assert sizes(("a", "b"), item) == pytest.approx(AB.reshape(-1))


def test_models_with_an_opinion_of_their_own_are_believed() -> None:
    class Knows(Dense):
        knows_errors = True

    assert sizes(("a", "b"), noisy(("a", "b"), 150.0), model=Knows(MODEL.counts)) == pytest.approx(
        AB.reshape(-1)
    )
    rows = Table(DOMAIN, tuple(np.array(c, np.uint8) for c in ([0, 0, 2, 2], [0, 1, 0, 1], [0, 1, 0, 1])))
    support = SupportModel(rows, np.array([0.0, 0.5, 0.25, 0.25]), 1000)
    told = sizes(("a", "b"), noisy(("a", "b"), 150.0), model=support).reshape(4, 2)
    assert told[0] == pytest.approx([250, 500])  # as if no row had been weighed down
    assert told[[1, 3]] == pytest.approx(0)


SIZES = {"a": 25, "b": 20, "c": 4}
SCHEMA = op.Schema.from_sizes(SIZES)


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
def test_cells_that_may_hide_rows_do() -> None:
    """Of cells of a blunt release that seem empty, those whose size says more are off by many times as much."""
    private = arrow(random_table(SIZES, 20_000, 1, 2.5))
    work = op.Workload([("a", "b"), ("b", "c")])
    truth = count_table(encode_table(private, SCHEMA), [("a", "b")])["a", "b"]
    off: dict[bool, list[Floats]] = {True: [], False: []}
    for seed in range(4):
        made = op.release(
            private,
            schema=SCHEMA,
            workload=work,
            epsilon=0.5,
            delta=1e-6,
            mechanism=op.Mst(compress=False),
            seed=seed,
        )
        answers = made.model.answers([("a", "b")])
        size = CellSizes(made.model, made.measurements).of(answers)["a", "b"]
        empty = answers["a", "b"] < 0.5
        for hides in (True, False):
            off[hides].append(np.abs(truth - answers["a", "b"])[empty & ((size >= 5) == hides)])
    hiding, seeming = (np.concatenate(off[hides]) for hides in (True, False))
    assert len(hiding) > 30 and len(seeming) > 30
    assert hiding.mean() > 4 * seeming.mean()
