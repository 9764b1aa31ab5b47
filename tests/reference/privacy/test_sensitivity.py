"""Every derived sensitivity against all neighbours of small tables: never passed, and reached somewhere.

A table is its histogram over the joint domain, as nothing looks at the order of rows. What a verb reads is taken from
the real curator with the noise left out; what it was charged for is taken from its events.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.errors import PrivacyError
from openprior.privacy.account import Account
from openprior.privacy.calibrate import exponential_epsilon
from openprior.privacy.curator import Curator
from openprior.privacy.fake import NoNoise
from openprior.privacy.ledger import Ledger
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.scores import CellScores, L1Score, Scores, SumScore, WorstCellScores, levels
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.statistics import CellCount, Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Marginal
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from tests.formulas import largest_by_hand, pure_rho_by_hand, sensitivity_by_hand

SIZES = {"k": 2, "a": 2, "b": 2}
DOMAIN = Domain(SIZES)
SHAPE = DOMAIN.shape
CELLS = DOMAIN.size()
ROWS = 3
Histogram = tuple[int, ...]
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 2)]
ids = functools.partial("{0.relation}-{0.rows_per_person}".format)


def histograms(n: int, cells: int = CELLS) -> Iterator[Histogram]:
    for chosen in itertools.combinations_with_replacement(range(cells), n):
        yield tuple(chosen.count(c) for c in range(cells))


@functools.cache
def tables(relation: Relation) -> tuple[Histogram, ...]:
    """All tables: of ROWS rows under replace-one, of 1 to ROWS rows under add/remove (an empty one is refused)."""
    sizes = (ROWS,) if relation is Relation.REPLACE_ONE else range(1, ROWS + 1)
    return tuple(h for n in sizes for h in histograms(n))


@functools.cache
def neighbours(unit: Unit) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of different neighbours, as positions in `tables`: a person with up to Δ rows changes or goes."""
    known = {h: i for i, h in enumerate(tables(unit.relation))}
    first, second = [], []
    for h, i in known.items():
        near = set()
        for rows in range(1, unit.rows_per_person + 1):
            for gone in histograms(rows):
                left = tuple(x - g for x, g in zip(h, gone, strict=True))
                if min(left) < 0:
                    continue
                if unit.relation is Relation.ADD_REMOVE:
                    near.add(left)
                else:
                    near.update(
                        tuple(x + c for x, c in zip(left, come, strict=True)) for come in histograms(rows)
                    )
        for j in sorted(known[other] for other in near & known.keys()):
            if j < i:
                first.append(i)
                second.append(j)
    return np.array(first), np.array(second)


def counts_of(h: Histogram, marginal: Marginal) -> NDArray[np.int64]:
    axes = tuple(i for i, a in enumerate(DOMAIN.attributes) if a not in marginal)
    return np.array(h, dtype=np.int64).reshape(SHAPE).sum(axis=axes).reshape(-1)


class Histograms:
    """The vault of one histogram."""

    def __init__(self, h: Histogram) -> None:
        self.h = h

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.int64]]:
        return {m: counts_of(self.h, m) for m in marginals}

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> NDArray[np.int64]:
        return self.flat(cells.marginals)[only]

    def flat(self, marginals: tuple[Marginal, ...]) -> NDArray[np.int64]:
        return np.concatenate([counts_of(self.h, m) for m in marginals])


def curator(h: Histogram, unit: Unit) -> Curator:
    columns = np.unravel_index(np.repeat(np.arange(CELLS), h), SHAPE)
    rows = pa.table(dict(zip(DOMAIN.attributes, columns, strict=True)))
    ledger = Ledger()
    run = ledger.open_run("test", rho=1.0, epsilon=9.0, delta=1e-9, details={})
    return Curator(
        Vault(Encoder(Schema.from_sizes(SIZES), open_source(rows), private=True)),
        unit=unit,
        noise=NoNoise(),
        account=Account(ledger, run, rho=1.0, epsilon=9.0, delta=1e-9),
    )


# Selection.

FAR, NEAR = 9.0, 0.0
"""A reference above every count, and one below: distances to them move by one with each row."""


def reference(size: int, first: float, rest: float) -> NDArray[np.float64]:
    made = np.full(size, rest)
    made[0] = first
    return made


def one_term(marginal: Marginal, **more: float) -> L1Score:
    return L1Score(marginal, ((1.0, reference(DOMAIN.size(marginal), FAR, NEAR)),), **more)


def jam(marginal: Marginal, **more: float) -> L1Score:
    """JAM's public candidate: the model's error less the public table's."""
    size = DOMAIN.size(marginal)
    terms = ((1.0, reference(size, FAR, NEAR)), (-1.0, reference(size, NEAR, FAR)))
    return L1Score(marginal, terms, **more)


SCORES: dict[str, tuple[list[L1Score | SumScore], Callable[[int], Fraction]]] = {
    # The candidates, and the sensitivity of the first by hand, from the L1 sensitivity of a marginal.
    "one term": ([one_term(("a", "b"))], Fraction),
    "a reference between the counts": ([L1Score(("a",), ((1.0, np.array([1.37, -0.21])),))], Fraction),
    "jam": ([jam(("a",)), one_term(("a", "b"))], lambda l1: Fraction(2 * l1)),
    "jam on all columns": ([jam(("k", "a", "b"))], lambda l1: Fraction(2 * l1)),
    "weight and offset": (
        [one_term(("a",), weight=0.3, offset=-1.7), one_term(("k", "b"), weight=-0.1, offset=40.0)],
        lambda l1: Fraction(0.3) * l1,
    ),
    "coefficients": (
        [L1Score(("a",), ((0.7, np.array([FAR, NEAR])), (-0.2, np.array([NEAR, FAR]))), weight=-2.0)],
        lambda l1: 2 * (Fraction(0.7) + Fraction(0.2)) * l1,
    ),
    "merged": (
        [
            L1Score(
                ("k", "b"),
                ((1.0, np.array([FAR, NEAR])), (-1.0, np.array([NEAR, FAR]))),
                merging=Merging(((0, 1), (0, 0))),
            ),
            one_term(("a", "b")),
        ],
        lambda l1: Fraction(2 * l1),
    ),
    "sum": (
        [
            SumScore((one_term(("a",), weight=-0.5), one_term(("b",), weight=-0.25))),
            one_term(("k",), weight=0.1),
        ],
        lambda l1: Fraction(0.75) * l1,
    ),
}


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str, unit: Unit) -> None:
    scores, by_hand = SCORES[name]
    first, second = neighbours(unit)
    for position, score in enumerate(scores):
        found = [score.evaluate(Histograms(h).counts(score.marginals)) for h in tables(unit.relation)]
        distinct = sorted(set(found))
        which = np.array([distinct.index(f) for f in found])
        pairs = np.unique(np.stack([which[first], which[second]]), axis=1).T.tolist()
        largest = max(abs(distinct[i] - distinct[j]) for i, j in pairs)
        assert largest <= score.sensitivity(unit)
        if position == 0 and name != "a reference between the counts":
            assert largest == score.sensitivity(unit) == by_hand(unit.l1)
    check_levels(scores, unit, reached=name != "a reference between the counts")


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("answer", [0.0, 0.37, 1.5, 9.0, -2.2])
def test_cell_scores(answer: float, unit: Unit) -> None:
    cells = Cells(DOMAIN, [("a",), ("k", "b"), ("k", "a", "b")])
    only = np.array([1, 2, 4, 7])
    scores = CellScores(cells, only, np.full(len(only), answer))
    assert scores.sensitivity(unit) == unit.rows_per_person
    check_levels(scores, unit, reached=answer in (0.0, 9.0, -2.2))


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("answer", [0.0, 0.37, 1.5, -2.2])
def test_signed_cell_scores(answer: float, unit: Unit) -> None:
    """A sign takes no kink out of the way of a count: whatever the answer, the bound is reached."""
    cells = Cells(DOMAIN, [("a",), ("k", "b"), ("k", "a", "b")])
    only = np.array([1, 2, 4, 7])
    scores = SignedCellScores(cells, only, np.full(len(only), answer))
    assert scores.sensitivity(unit) == unit.rows_per_person
    check_levels(scores, unit, reached=True)
    for h in tables(unit.relation)[::9]:
        counts = Histograms(h).gather(cells, only)
        beyond = 4 * counts - round(4 * answer)
        np.testing.assert_array_equal(
            levels(scores, Histograms(h), unit).values, [*beyond, *(-b for b in beyond)]
        )


def worst_cells(
    domain: Domain, marginals: Iterable[Marginal], answer: float | None = None
) -> WorstCellScores:
    """Scores by the worst cell, which is always the first if no answer is given."""
    cells = Cells(domain, marginals)
    first = np.concatenate([reference(domain.size(m), FAR, NEAR) for m in cells.marginals])
    return WorstCellScores(cells, first if answer is None else np.full(len(cells), answer))


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("answer", [None, 0.0, 0.37, 1.5, 9.0, -2.2])
def test_scores_of_worst_cells(answer: float | None, unit: Unit) -> None:
    scores = worst_cells(DOMAIN, [("a",), ("k", "b"), ("k", "a", "b")], answer)
    assert scores.sensitivity(unit) == unit.rows_per_person
    check_levels(scores, unit, reached=answer in (None, 0.0, -2.2))
    for h in tables(unit.relation)[::9]:
        found = levels(scores, Histograms(h), unit).values
        parts = scores.cells.split(scores.answers)
        by_hand = [np.abs(counts_of(h, m) - np.rint(4 * part) / 4).max() * 4 for m, part in parts.items()]
        assert found.tolist() == by_hand


def test_answers_of_another_number_or_not_finite_are_refused() -> None:
    cells = Cells(DOMAIN, [("a",), ("k", "b")])
    with pytest.raises(PrivacyError, match="one answer per cell"):
        WorstCellScores(cells, np.zeros(2))
    for wrong in (np.nan, np.inf, 2.0**41):
        with pytest.raises(PrivacyError, match="finite"):
            WorstCellScores(cells, np.full(6, wrong)).check(DOMAIN)
    with pytest.raises(PrivacyError, match="does not have"):
        WorstCellScores(cells, np.zeros(6)).check(Domain({"a": 2, "k": 2}))


def check_levels(scores: Scores, unit: Unit, *, reached: bool) -> None:
    first, second = neighbours(unit)
    found = [levels(scores, Histograms(h), unit) for h in tables(unit.relation)]
    assert len({f.sensitivity for f in found}) == 1
    values = np.stack([f.values for f in found])
    change = np.abs(values[first] - values[second]).max()
    assert change <= found[0].sensitivity
    assert change == found[0].sensitivity or not reached


def test_jam_is_four_under_replace_one() -> None:
    assert jam(("a",)).sensitivity(Unit()) == 4
    assert jam(("a",)).sensitivity(Unit(Relation.ADD_REMOVE)) == 2


def test_a_rounded_score_keeps_its_order_and_its_size() -> None:
    """Levels are a thousandth of a sensitivity fine: they must say what the score says."""
    scores = [one_term(("a",)), one_term(("a", "b"), weight=0.4), jam(("b",), weight=0.2)]
    for h in tables(Relation.REPLACE_ONE)[::7]:
        found = levels(scores, Histograms(h), Unit())
        for score, level in zip(scores, found.values, strict=True):
            exact = score.evaluate(Histograms(h).counts(score.marginals))
            assert 0 <= exact * found.sensitivity / 2 - int(level) < 1


def test_a_merged_score_must_fit_its_marginal() -> None:
    merging = Merging(((0, 0), (0, 1)))
    L1Score(("a", "b"), ((1.0, np.zeros(2)),), merging=merging).check(DOMAIN)
    for marginal, cells in ((("a", "b"), 4), (("a",), 2), (("k", "a", "b"), 4)):
        with pytest.raises(PrivacyError, match=r"one number per cell|one group per code"):
            L1Score(marginal, ((1.0, np.zeros(cells)),), merging=merging).check(DOMAIN)
    with pytest.raises(PrivacyError, match="give a Merging"):
        L1Score(("a",), ((1.0, np.zeros(2)),), merging=((0, 1),))  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="cannot be merged"):
        merging(np.zeros(3))


def test_a_reference_of_another_shape_is_refused() -> None:
    Unit(Relation.ADD_REMOVE)
    with pytest.raises(PrivacyError):
        L1Score(("a",), ((1.0, np.zeros((2, 1))),)).check(DOMAIN)


# Measurement.

VERBS: dict[str, Callable[[Curator, float, str], object]] = {
    "marginal": lambda c, rho, noise: c.measure(Counts(("a", "b")), rho, noise=noise),
    "marginal of one": lambda c, rho, noise: c.measure(Counts(("b",)), rho, noise=noise),
    "marginal, merged": lambda c, rho, noise: c.measure(
        MergedCounts(("a", "b"), Merging(((0, 1), (0, 0)))), rho, noise=noise
    ),
    "cell": lambda c, rho, noise: c.measure(CellCount(("a", "b"), 2), rho, noise=noise),
    "cell of one": lambda c, rho, noise: c.measure(CellCount(("b",), 0), rho, noise=noise),
    "total": lambda c, rho, noise: c.measure(Total(), rho, noise=noise),
}
RHO = 1e-3


@functools.cache
def readings(relation: Relation, verb: str, parts: bool) -> NDArray[np.float64]:
    """What the verb reads of every table: [table, part, value]."""
    found = []
    for h in tables(relation):
        whole = curator(h, Unit(relation))
        asked = list(whole.partition(["k"]).values()) if parts else [whole]
        found.append([VERBS[verb](c, RHO, "gaussian").values for c in asked])  # type: ignore[attr-defined]
    return np.array(found)


def event_of(unit: Unit, verb: str, noise: str, *, part: bool) -> dict[str, Any]:
    whole = curator(tables(unit.relation)[0], unit)
    asked = whole.partition(["k"])[(0,)] if part else whole
    VERBS[verb](asked, RHO, noise)
    (event,) = whole.events
    return event.to_dict()


def total_is_private(unit: Unit, verb: str) -> None:
    if verb == "total" and unit.n_is_public:
        pytest.skip("n is public")


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("verb", VERBS)
def test_measurements(verb: str, unit: Unit) -> None:
    total_is_private(unit, verb)
    first, second = neighbours(unit)
    read = readings(unit.relation, verb, parts=False)[:, 0]
    change = read[first] - read[second]
    l1, l2_squared = np.abs(change).sum(axis=1).max(), (change**2).sum(axis=1).max()
    gaussian, laplace = (event_of(unit, verb, noise, part=False) for noise in ("gaussian", "laplace"))
    assert sensitivity_by_hand(gaussian, unit.relation, unit.rows_per_person) == (l1, l2_squared)
    # The scales are right for these: the cost of the worst neighbour is what was charged.
    assert l2_squared / (2 * gaussian["sigma"] ** 2) == pytest.approx(RHO, rel=1e-12)
    costs = pure_rho_by_hand(np.abs(change) / laplace["scale"]).sum(axis=1)
    assert costs.max() == pytest.approx(RHO, rel=1e-12)
    assert np.abs(change).max() == largest_by_hand(laplace, unit.relation, unit.rows_per_person)


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_units_by_hand(unit: Unit) -> None:
    rows, replaced = unit.rows_per_person, unit.relation is Relation.REPLACE_ONE
    assert (unit.l1, unit.l2_squared, unit.cell) == (
        (2 * rows, 2 * rows**2, rows) if replaced else (rows, rows**2, rows)
    )
    assert unit.l2**2 == pytest.approx(unit.l2_squared)
    assert unit.part().parts_touched == (2 if replaced else 1)
    assert unit.parts_touched == 1


# Partitions: the same event in every part, for one charge.


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("verb", VERBS)
def test_one_charge_pays_for_all_parts(verb: str, noise: str, unit: Unit) -> None:
    first, second = neighbours(unit)
    read = readings(unit.relation, verb, parts=True)
    change = np.abs(read[first] - read[second])  # [pair, part, value]
    event = event_of(unit, verb, noise, part=True)
    if noise == "gaussian":
        costs = (change**2).sum(axis=2) / (2 * event["sigma"] ** 2)
    else:
        costs = pure_rho_by_hand(change / event["scale"]).sum(axis=2)
    worst = costs.sum(axis=1).max()
    assert worst == pytest.approx(RHO, rel=1e-12)
    if unit.relation is Relation.REPLACE_ONE and not verb.startswith("marginal"):
        # Calibrated to one part's own sensitivity, the parts together would cost twice the charge.
        assert worst * unit.part().parts_touched == pytest.approx(2 * RHO, rel=1e-12)
        assert costs.max() == pytest.approx(RHO / 2, rel=1e-12)


@pytest.mark.parametrize("unit", UNITS, ids=ids)
@pytest.mark.parametrize("kind", ["cells", "signed cells", "worst cells", "L1", "jam"])
@pytest.mark.parametrize("how", ["exponential", "with replacement", "permute-and-flip"])
def test_one_charge_pays_for_selections_in_all_parts(how: str, kind: str, unit: Unit) -> None:
    """A selection whose levels move by s of S costs what one at ε·s/S does (range ε·s/S, or ε·s/S-DP)."""
    inside = Domain({"a": 2, "b": 2})
    cells = Cells(inside, [("a", "b"), ("a",)])
    scores: Scores
    if kind in ("cells", "signed cells"):
        scored = CellScores if kind == "cells" else SignedCellScores
        scores = scored(cells, np.arange(len(cells)), np.full(len(cells), FAR))
    elif kind == "worst cells":
        scores = worst_cells(inside, [("a", "b"), ("a",)])
    else:
        scores = [one_term(("a",))] if kind == "L1" else [jam(("a", "b")), one_term(("a",), weight=0.5)]
    part = unit.part()
    found = np.stack(
        [
            np.stack([levels(scores, Part(h, code), part).values for code in (0, 1)])
            for h in tables(unit.relation)
        ]
    )
    sensitivity = levels(scores, Part(tables(unit.relation)[0], 0), part).sensitivity
    first, second = neighbours(unit)
    moved = np.abs(found[first] - found[second]).max(axis=2) / sensitivity  # [pair, part]

    whole = curator(tables(unit.relation)[0], unit)
    part_of_whole = whole.partition(["k"])[(1,)]
    if how == "with replacement":
        part_of_whole.select_many(scores, 20, RHO, replace=True)
    else:
        part_of_whole.select(scores, RHO, how=how)
    (event,) = whole.events
    own = event.epsilon * moved
    costs = pure_rho_by_hand(own) if how == "permute-and-flip" else own**2 / 8
    worst = event.draws * costs.sum(axis=1).max()
    assert worst == pytest.approx(RHO, rel=1e-12)
    if "cells" in kind and unit.relation is Relation.REPLACE_ONE:
        undivided = exponential_epsilon(RHO) ** 2 / 8
        assert (moved**2).sum(axis=1).max() * undivided == pytest.approx(2 * RHO, rel=1e-12)


class Part(Histograms):
    """The vault of one part of a histogram, cut by hand."""

    def __init__(self, h: Histogram, code: int) -> None:
        cut = np.array(h).reshape(SHAPE)
        cut[1 - code] = 0
        super().__init__(tuple(cut.reshape(-1).tolist()))


def test_parts_read_their_own_rows() -> None:
    for h in tables(Relation.REPLACE_ONE)[::5]:
        parts = curator(h, Unit()).partition(["k"])
        for (code,), part in parts.items():
            assert (
                part.measure(Counts(("a", "b")), RHO).values == counts_of(Part(h, code).h, ("a", "b"))
            ).all()
            assert part.measure(Total(), RHO).values == sum(Part(h, code).h)
