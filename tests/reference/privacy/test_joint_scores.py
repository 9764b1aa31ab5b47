"""The scores that JAM-PGM, AIM and MST really propose, against all neighbours of small tables.

`test_sensitivity.py` builds scores by hand; here they are caught on their way from the mechanism to the curator, and
so are the levels, the sensitivity and the ε that the curator draws with. Published code has charged JAM's joint score
as if its sensitivity were 2, and AIM's as if it were monotone: both are shown to be wrong by a pair of tables.
"""

import functools
import itertools
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.counting.tally import distance
from openprior.errors import PrivacyError
from openprior.methods.aim import Aim
from openprior.methods.jam import JamPgm
from openprior.methods.mst import Mst
from openprior.privacy import selection
from openprior.privacy.fake import FakeCurator
from openprior.privacy.scores import L1Score, levels
from openprior.privacy.selection import exponential
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import quiet
from tests.reference.privacy.test_sensitivity import CELLS, DOMAIN, SHAPE, Histogram, Histograms, histograms

pytestmark = pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")

ROWS = 4
"""So many that a model of four rows has whole numbers in its pairs."""
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]
units = pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)


@functools.cache
def tables(relation: Relation) -> tuple[Histogram, ...]:
    """All tables of ROWS rows under replace-one, of up to ROWS rows under add/remove."""
    sizes = (ROWS,) if relation is Relation.REPLACE_ONE else range(ROWS + 1)
    return tuple(h for n in sizes for h in histograms(n))


@functools.cache
def neighbours(unit: Unit) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs that differ in one person of up to Δ rows, by their distance: Σ|h − h'| ≤ 2Δ at equal size under
    replace-one; all that is in one is in the other, and Δ rows more at most, under add/remove."""
    found = np.array(tables(unit.relation))
    first, second = (
        np.array(pair) for pair in zip(*itertools.combinations(range(len(found)), 2), strict=True)
    )
    change = found[first] - found[second]
    if unit.relation is Relation.REPLACE_ONE:
        near = np.abs(change).sum(axis=1) <= 2 * unit.rows_per_person
    else:
        one_way = (change >= 0).all(axis=1) | (change <= 0).all(axis=1)
        near = one_way & (np.abs(change).sum(axis=1) <= unit.rows_per_person)
    return first[near], second[near]


def as_table(h: Histogram) -> Table:
    columns = np.unravel_index(np.repeat(np.arange(CELLS), h), SHAPE)
    return Table(DOMAIN, tuple(c.astype(np.uint8) for c in columns))


class Draw(NamedTuple):
    """What the curator drew with."""

    levels: NDArray[np.int64]
    sensitivity: int
    epsilon: float


class Catching(FakeCurator):
    """A curator without noise that keeps the scores it is given."""

    __slots__ = ("caught",)

    def __init__(self, table: Table, unit: Unit) -> None:
        super().__init__(table, epsilon=2.0, unit=unit)
        self.caught: list[list[L1Score]] = []

    def select(self, scores: Any, rho: float, *, how: str = "exponential") -> int:
        self.caught.append(list(scores))
        return super().select(scores, rho, how=how)


WORKLOADS = {
    "jam-pgm": Workload([("k", "a"), ("a", "b")]).on(DOMAIN),
    "aim": Workload([("k", "a"), ("a", "b")]).on(DOMAIN),
    "aim weighted": Workload([("k", "a"), ("a", "b")], [1.0, 1.5]).on(DOMAIN),
    "mst": Workload([("k",)]).on(DOMAIN),
}
EVEN: Histogram = (1, 0, 0, 1, 0, 1, 1, 0)
"""Every column half and half: its one-way marginals, measured without noise, give the uniform model."""
ONE_SIDED: Histogram = (0, 0, 0, 0, 0, 0, 0, ROWS)
"""A public table whose rows are all the same."""
MECHANISMS = {
    "jam-pgm": JamPgm(rounds=2),
    "aim": Aim(rounds=12, compress=False),
    "aim weighted": Aim(rounds=12, compress=False),
    "mst": Mst(compress=False),
}
"""As published: in tables so small all values would be merged. Scores of merged values are in test_sensitivity.py."""
names = pytest.mark.parametrize("name", MECHANISMS)


@functools.cache
def proposals(
    name: str, unit: Unit, private: Histogram = EVEN
) -> tuple[list[list[L1Score]], list[Draw], Any]:
    """The lists of scores of one run, what was drawn with for each, and the events."""
    drawn: list[Draw] = []

    def watched(values: NDArray[np.int64], sensitivity: int, epsilon: float, bits: Any) -> int:
        drawn.append(Draw(values, sensitivity, epsilon))
        return exponential(values, sensitivity, epsilon, bits)

    curator = Catching(as_table(private), unit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "exponential", watched)
        MECHANISMS[name].run(curator, as_table(ONE_SIDED), WORKLOADS[name], np.random.default_rng(0), quiet)
    return curator.caught, drawn, [e for e in curator.events if e.kind == "exponential"]


def values_of(score: L1Score, unit: Unit) -> tuple[NDArray[np.int64], int]:
    """The exact score of every table but for its offset, which no table moves, as whole numbers over a common one."""
    bare = L1Score(score.marginal, score.terms, score.weight)
    scale = 1024 * Fraction(score.weight).denominator
    seen: dict[bytes, int] = {}
    found = []
    for h in tables(unit.relation):
        counts = Histograms(h).counts(score.marginals)
        key = counts[score.marginal].tobytes()
        if key not in seen:
            value = bare.evaluate(counts) * scale
            assert value.denominator == 1
            seen[key] = int(value)
        found.append(seen[key])
    return np.array(found), scale


def largest_change(score: L1Score, unit: Unit) -> Fraction:
    first, second = neighbours(unit)
    values, scale = values_of(score, unit)
    return Fraction(int(np.abs(values[first] - values[second]).max()), scale)


def score_range(scores: list[L1Score], unit: Unit) -> Fraction:
    """The most by which one neighbour moves two candidates apart: the range of the privacy loss is ε/(2S) of it."""
    first, second = neighbours(unit)
    found = [values_of(score, unit) for score in scores]
    (scale,) = {scale for _, scale in found}
    moved = np.stack([values[first] - values[second] for values, _ in found])
    return Fraction(int((moved.max(axis=0) - moved.min(axis=0)).max()), scale)


# No neighbour moves a score by more than was derived; some move it by as much.


@units
@names
def test_no_neighbour_moves_a_score_by_more(name: str, unit: Unit) -> None:
    caught, drawn, _ = proposals(name, unit)
    assert len(caught) >= 2
    for scores, draw in zip(caught, drawn, strict=True):
        derived = max(s.sensitivity(unit) for s in scores)
        for score in scores:
            assert largest_change(score, unit) <= score.sensitivity(unit) <= derived
        # What the curator drew with is these scores of this table, in steps of 1/1024 (a row of a person) of that.
        again = levels(scores, Histograms(EVEN), unit)
        assert draw.sensitivity == again.sensitivity == 1024 * unit.rows_per_person
        assert (draw.levels == again.values).all()
        for score, level in zip(scores, draw.levels.tolist(), strict=True):
            exact = score.evaluate(Histograms(EVEN).counts(score.marginals)) * draw.sensitivity / derived
            assert level <= exact < level + 1


@units
@names
def test_the_first_choice_reaches_its_sensitivity(name: str, unit: Unit) -> None:
    """By hand: JAM 4 a row under replace-one and 2 under add/remove, AIM twice (once) its largest weight, MST 2 (1)."""
    scores = proposals(name, unit)[0][0]
    pair = 2 if unit.relation is Relation.REPLACE_ONE else 1
    by_hand = {"jam-pgm": 2, "aim": 3, "aim weighted": 4, "mst": 1}[name] * pair * unit.rows_per_person
    assert max(s.sensitivity(unit) for s in scores) == by_hand
    if name != "jam-pgm" and unit.rows_per_person == 2 and unit.relation is Relation.REPLACE_ONE:
        return  # two rows at once would need cells of two in the model, which four rows do not fill
    assert max(largest_change(s, unit) for s in scores) == by_hand


@units
@names
def test_levels_move_by_their_sensitivity_and_no_more(name: str, unit: Unit) -> None:
    first, second = neighbours(unit)
    for scores, draw in zip(*proposals(name, unit)[:2], strict=True):
        found = np.stack([levels(scores, Histograms(h), unit).values for h in tables(unit.relation)])
        change = np.abs(found[first] - found[second]).max()
        assert change <= draw.sensitivity
        if scores is proposals(name, unit)[0][0] and unit.rows_per_person == 1:
            assert change == draw.sensitivity


@units
@names
def test_the_price_of_a_choice_is_that_of_its_epsilon(name: str, unit: Unit) -> None:
    _, drawn, events = proposals(name, unit)
    assert len(drawn) == len(events)
    for draw, event in zip(drawn, events, strict=True):
        assert draw.epsilon == event.epsilon
        assert draw.epsilon**2 / 8 == pytest.approx(event.rho, rel=1e-12)


# The two mistakes of published code.


def test_jam_with_two_would_be_under_charged() -> None:
    """One changed row moves a public candidate's score by 4: the model's error rises by 2, the public one's falls."""
    unit = Unit()
    scores = proposals("jam-pgm", unit)[0][0]
    half = len(scores) // 2
    assert {largest_change(s, unit) for s in scores[:half]} <= {Fraction(0), Fraction(1), Fraction(2)}
    worst = max(scores[half:], key=lambda s: largest_change(s, unit))
    assert largest_change(worst, unit) == 4 == worst.sensitivity(unit)
    # And the pair, by hand: the model has 2 and 2, the public table 0 and 4.
    (at,) = [s for s in scores[half:] if s.marginal == ("a",)]
    assert at.terms[0][1].tolist() == pytest.approx([2, 2])
    assert at.terms[1][1].tolist() == [0, 4]
    before, after = ({("a",): np.array(x)} for x in ([2, 2], [1, 3]))
    assert at.evaluate(after) - at.evaluate(before) == 4
    # Drawn with exp(ε·s/(2S)), one neighbour may move the odds of two candidates by e^ε; with S = 2 it moves them by
    # more, so that the choice costs up to four times its charge.
    assert score_range(scores, unit) / (2 * 2) == 2
    assert score_range(scores, unit) / (2 * 4) == 1


@pytest.mark.parametrize("unit", [Unit(), Unit(Relation.ADD_REMOVE)], ids=str)
def test_aim_is_not_monotone(unit: Unit) -> None:
    """One person makes one candidate's score rise and another's fall, so that the monotone variant of the exponential
    mechanism, exp(ε·s/S), has a range of 2ε: its choices would cost (2ε)²/8, four times what it charges."""
    scores = proposals("aim", unit)[0][0]
    first, second = neighbours(unit)
    values = np.stack([values_of(s, unit)[0] for s in scores])
    change = values[:, first] - values[:, second]
    assert ((change > 0).any(axis=0) & (change < 0).any(axis=0)).any()
    sensitivity = max(s.sensitivity(unit) for s in scores)
    found = score_range(scores, unit)
    assert found / sensitivity == 2  # exp(ε·s/S)
    assert found / (2 * sensitivity) == 1  # exp(ε·s/(2S)), as the curator draws


def test_aim_is_not_monotone_by_hand() -> None:
    """Under add/remove: one more row (0, 0, 1), with a count of k = 0 that is right already and of b = 1 too low."""
    unit = Unit(Relation.ADD_REMOVE)
    scores = {s.marginal: s for s in proposals("aim", unit)[0][0]}
    before: Histogram = (2, 0, 0, 0, 0, 0, 0, 0)
    after: Histogram = (2, 1, 0, 0, 0, 0, 0, 0)
    change = {
        m: s.evaluate(Histograms(after).counts([m])) - s.evaluate(Histograms(before).counts([m]))
        for m, s in scores.items()
    }
    assert change["k",] == scores["k",].weight > 0
    assert change["b",] == -scores["b",].weight < 0


# The distance that scores are made of.


def by_hand(counts: NDArray[np.int64], reference: NDArray[np.float64]) -> int:
    """In Python's whole numbers; `round` takes halves to the even one, as rint does."""
    pairs = zip(counts.tolist(), reference.tolist(), strict=True)
    return sum(abs(c * 1024 - round(Fraction(r) * 1024)) for c, r in pairs)


def test_the_distance_is_exact() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        size = int(rng.integers(1, 50))
        counts = rng.integers(0, 2 ** int(rng.integers(1, 45)), size)
        for reference in (
            rng.random(size) * 2.0 ** int(rng.integers(-60, 40)),
            rng.integers(-9, 9, size) + 0.5 / 1024,
            rng.integers(-(10**7), 10**7, size) / 2048,
            np.full(size, 2.0**40) * rng.choice([-1, 1], size),
        ):
            exact = by_hand(counts, reference)
            assert int(distance(counts, reference, 1024)) == exact
            score = L1Score(("a",), ((1.0, reference), (-0.5, reference[::-1])), weight=0.3, offset=0.1)
            backwards = by_hand(counts, reference[::-1])
            expected = (exact - Fraction(backwards, 2)) / 1024
            assert score.evaluate({("a",): counts}) == Fraction(0.3) * (Fraction(0.1) + expected)


def test_the_largest_references_that_are_let_in_do_not_overflow() -> None:
    largest = np.full(1 << 10, 2.0**40)
    counts = np.full(1 << 10, 1 << 40)
    score = L1Score(("a",), ((1.0, -largest),))
    assert score.evaluate({("a",): counts}) == 2 * (1 << 50)
    for reference in (
        np.append(largest, 1.0),
        np.array([2.0**40 + 1]),
        np.full(1 << 14, 1 << 50),  # a sum of integers would wrap around to 0
        np.array([np.nan]),
        np.array([-np.inf]),
    ):
        with pytest.raises(PrivacyError, match="not finite"):
            L1Score(("a",), ((1.0, reference),)).check(Domain({"a": len(reference)}))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_reference_of_another_length_is_refused_without_check_too(size: int) -> None:
    score = L1Score(("a",), ((1.0, np.zeros(size)),))
    with pytest.raises((PrivacyError, ValueError)):
        score.evaluate({("a",): np.array([1, 2, 3, 4])})


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_curator_refuses_it_before_any_charge(size: int) -> None:
    curator = FakeCurator(as_table(EVEN))
    with pytest.raises(PrivacyError, match="shape"):
        curator.select([L1Score(("k", "a"), ((1.0, np.zeros(size)),))], curator.rho)
    assert curator.events == ()
