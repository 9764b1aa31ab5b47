"""What JAM-PGM, AIM and MST spend, on what and when; and that all they know of the private table was paid for.

Costs are recomputed from the events, as the certificate has them, with exact fractions.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openprior as op
from openprior.errors import MarginalTooLarge, OptionError, ReleaseError, WorkloadError
from openprior.methods.aim import Aim
from openprior.methods.jam import JamPgm
from openprior.methods.mst import Mst
from openprior.methods.shared.growing import GrowingModel
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.account import Account
from openprior.privacy.curator import Curator
from openprior.privacy.events import Event, Gaussian
from openprior.privacy.fake import FakeCurator, NoNoise
from openprior.privacy.journal import Journal
from openprior.privacy.ledger import Ledger
from openprior.privacy.measurement import Measurement
from openprior.privacy.noise import SeededNoise
from openprior.privacy.scores import L1Score
from openprior.privacy.sealed import SealedJournal, new_token
from openprior.privacy.statistics import Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import Vault
from openprior.questions.workload import Marginal, Workload, all_marginals, canonical
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder, Table
from openprior.tables.source import open_source
from tests.conftest import PRIVATE, PUBLIC, SIZES, arrow, quiet, random_table

pytestmark = pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")

DOMAIN = PRIVATE.domain
PAIRS = all_marginals(2).on(DOMAIN)
SINGLES_ONLY = 5 * 8 / 2**20
"""Megabytes of the largest one-way marginal; every pair is larger."""
UNITS = [Unit(relation, rows) for relation in Relation for rows in (1, 3)]
EACH = [
    *(JamPgm(rounds=3, compress=c) for c in (False, True)),
    *(Aim(rounds=10, compress=c) for c in (False, True)),
    *(Mst(compress=c) for c in (False, True)),
]
units = pytest.mark.parametrize("unit", UNITS, ids="{0.relation}-{0.rows_per_person}".format)
relations = pytest.mark.parametrize("relation", list(Relation))
each = pytest.mark.parametrize(
    "mechanism", EACH, ids=lambda m: f"{m.name}, {'merged' if m.compress else 'as counted'}"
)
Events = list[Event]


class Watched(FakeCurator):
    """A curator that notes what was proposed and which was chosen."""

    __slots__ = ("chosen", "proposed")

    def __init__(self, table: Table = PRIVATE, **options: Any) -> None:
        super().__init__(table, **options)
        self.proposed: list[list[L1Score]] = []
        self.chosen: list[int] = []

    def select(self, scores: Any, rho: float, *, how: str = "exponential") -> int:
        self.proposed.append(list(scores))
        self.chosen.append(super().select(scores, rho, how=how))
        return self.chosen[-1]


def go(
    mechanism: Any, curator: Curator, public: Table = PUBLIC, workload: Workload = PAIRS
) -> GraphicalModel:
    found = mechanism.run(curator, public, workload, np.random.default_rng(5), quiet)
    assert isinstance(found, GraphicalModel)
    return found


def events_of(curator: Curator) -> Events:
    return list(curator.events)


def spent(events: Iterable[Event]) -> Fraction:
    return sum((Fraction(e.rho) for e in events), Fraction(0))


def check_costs(curator: Curator) -> None:
    """Never more than there is, not even by a rounding error; and every event is worth what it was charged."""
    events = events_of(curator)
    assert events
    assert spent(events) <= Fraction(curator.rho)
    for event in events:
        assert event.cost(curator.unit, pure=False) == pytest.approx(event.rho, rel=1e-12)


def selections(events: Iterable[Event]) -> Events:
    return [e for e in events if e.kind == "exponential"]


def measurements(events: Iterable[dict[str, Any]], columns: int | None = None) -> Events:
    found = [e for e in events if e.kind == "gaussian" and e.statistic.marginal]
    return [e for e in found if columns is None or len(e.statistic.marginal) == columns]


def down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


# Never more than the budget.

SETTINGS: dict[str, Any] = {
    **{f"jam-pgm {t}": JamPgm(rounds=t) for t in (1, 2, 30)},
    **{f"aim {t}": Aim(rounds=t) for t in (1, 2, 30)},
    **{f"jam-pgm alpha {a}": JamPgm(rounds=3, alpha=a) for a in (0.01, 0.99)},
    **{f"aim alpha {a}": Aim(rounds=3, alpha=a) for a in (0.01, 0.99)},
    "mst": Mst(),
    "mst as counted": Mst(compress=False),
    "aim merged": Aim(rounds=30, compress=True),
    "jam-pgm merged": JamPgm(rounds=30, compress=True),
}


@units
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("name", SETTINGS)
def test_spends_no_more_than_there_is(name: str, epsilon: float, unit: Unit) -> None:
    curator = FakeCurator(PRIVATE, epsilon=epsilon, unit=unit, noise=SeededNoise(3))
    model = go(SETTINGS[name], curator)
    check_costs(curator)
    if "jam" not in name:  # JAM gives back what a public choice in the last round has saved
        assert curator.remaining <= 1e-12 * curator.rho
    assert np.isfinite(model.answers([("a", "d")])[("a", "d")]).all()
    totals = [e for e in events_of(curator) if isinstance(e, Gaussian) and e.statistic == Total()]
    assert len(totals) == ("jam" in name and not unit.n_is_public)


@units
@each
@pytest.mark.parametrize("epsilon", [1e-6, 1e-9])
def test_a_budget_that_buys_only_noise(mechanism: Any, epsilon: float, unit: Unit) -> None:
    curator = FakeCurator(PRIVATE, epsilon=epsilon, unit=unit, noise=SeededNoise(3))
    model = go(mechanism, curator)
    check_costs(curator)
    answers = model.answers([("a", "d")])[("a", "d")]
    assert np.isfinite(answers).all()
    assert (model.total == PRIVATE.n) == unit.n_is_public


@units
@each
def test_room_for_the_one_way_marginals_only(mechanism: Any, unit: Unit) -> None:
    curator = FakeCurator(PRIVATE, unit=unit, noise=SeededNoise(3))
    model = go(replace(mechanism, size_limit=SINGLES_ONLY), curator)
    check_costs(curator)
    events = events_of(curator)
    assert {len(e.statistic.marginal) for e in measurements(events)} <= {1}
    assert model.tree.treewidth == 0
    if mechanism.name == "mst":
        assert not selections(events)
        assert [e.rho for e in events] == pytest.approx([curator.rho / len(SIZES)] * len(SIZES), rel=1e-12)


@units
@each
@pytest.mark.parametrize("gone", [0.9, 0.999])
def test_a_budget_that_is_nearly_gone_is_enough(mechanism: Any, unit: Unit, gone: float) -> None:
    curator = FakeCurator(PRIVATE, unit=unit, noise=SeededNoise(3))
    curator.measure(Counts(("a",)), gone * curator.rho)
    go(mechanism, curator)
    check_costs(curator)
    assert len(selections(events_of(curator))) >= 1


@relations
@pytest.mark.parametrize("columns", [1, 2])
@each
def test_one_or_two_columns(mechanism: Any, columns: int, relation: Relation) -> None:
    table = random_table(dict(list(SIZES.items())[:columns]), 200, 1)
    curator = FakeCurator(table, unit=Unit(relation), noise=SeededNoise(3))
    go(mechanism, curator, table, all_marginals(2).on(table.domain))
    check_costs(curator)
    if mechanism.name == "mst":
        assert len(selections(events_of(curator))) == columns - 1
        assert curator.remaining <= 1e-12 * curator.rho


# JAM-PGM.


def rounds_of(curator: Watched) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each round's selection, and its measurement if it had one."""
    events = [e for e in events_of(curator) if e.kind != "gaussian" or e.statistic.marginal]
    found: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    for event in events:
        if event.kind == "exponential":
            found.append((event, None))
        else:
            assert found[-1][1] is None
            found[-1] = (found[-1][0], event)
    return found


@pytest.fixture(scope="module")
def mixed() -> Watched:
    """A public table that is right about a and b, and wrong about c and d: choices of both kinds."""
    shifted = [PRIVATE.column(x) if x in "ab" else (PRIVATE.column(x) + 1) % SIZES[x] for x in DOMAIN]
    curator = Watched(epsilon=6.0, noise=SeededNoise(2))
    go(JamPgm(rounds=20), curator, Table(DOMAIN, tuple(shifted)))
    return curator


@units
@pytest.mark.parametrize(("rounds", "alpha"), [(1, 0.8), (7, 0.8), (12, 0.3)])
def test_jam_follows_its_formula_to_the_bit(unit: Unit, rounds: int, alpha: float) -> None:
    """ρ_t = (ρ − used)/(T − t); (1 − α)ρ_t selects, αρ_t measures."""
    curator = Watched(epsilon=4.0, unit=unit, noise=SeededNoise(9))
    go(JamPgm(rounds=rounds, alpha=alpha), curator)
    used = Fraction(0)
    first = events_of(curator)[0]
    if not unit.n_is_public:
        assert first.statistic == Total()
        assert first.rho == 0.02 * curator.rho
        used = Fraction(first.rho)
    found = rounds_of(curator)
    assert len(found) == rounds
    for t, (selected, measured) in enumerate(found):
        left = down(Fraction(curator.rho) - used)
        rho = left / (rounds - t)
        assert selected.rho == (1 - alpha) * rho
        assert selected.epsilon == math.sqrt(8 * (1 - alpha) * rho)
        used += Fraction(selected.rho)
        if measured is not None:
            # The last round's halves may add up to a hair more than is left; the noise is then that hair larger.
            price = min(alpha * rho, down(Fraction(curator.rho) - used))
            assert measured.rho == price
            assert t == rounds - 1 or price == alpha * rho
            assert measured.sigma == math.sqrt(unit.l2_squared / (2 * price))
            used += Fraction(measured.rho)
    assert used == spent(events_of(curator))


def test_jam_noise_is_as_published() -> None:
    """σ² = 1/ρ_measure under replace-one."""
    curator = Watched(epsilon=4.0, noise=SeededNoise(9))
    go(JamPgm(rounds=7), curator)
    found = measurements(events_of(curator))
    assert found
    for event in found:
        assert event.sigma**2 == pytest.approx(1 / event.rho, rel=1e-12)


def test_a_public_choice_measures_nothing_and_gives_its_budget_back(mixed: Watched) -> None:
    found = rounds_of(mixed)
    public = [i >= len(p) // 2 for i, p in zip(mixed.chosen, mixed.proposed, strict=True)]
    assert 3 <= sum(public) <= len(public) - 3
    for (_, measured), index, scores, is_public in zip(
        found, mixed.chosen, mixed.proposed, public, strict=True
    ):
        assert (measured is None) == is_public
        if measured is not None:
            assert measured.statistic.marginal == scores[index].marginal
    for t in range(1, len(found)):
        before, now = found[t - 1][0].rho, found[t][0].rho
        if public[t - 1]:  # the αρ of that round is spread over the T − t that are left
            assert now == pytest.approx(before * (1 + 0.8 / (len(found) - t)), rel=1e-9)
        else:
            assert now == pytest.approx(before, rel=1e-9)
    noise = [m.sigma for _, m in found if m is not None]
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(noise))
    assert noise[-1] < 0.9 * noise[0]


@relations
def test_a_public_table_like_the_private_one_is_mostly_chosen(relation: Relation) -> None:
    twin = PRIVATE.take(np.arange(5, PRIVATE.n))
    picks = {True: 0, False: 0}
    for seed in range(3):
        curator = Watched(epsilon=4.0, unit=Unit(relation), noise=SeededNoise(seed))
        go(JamPgm(rounds=15), curator, twin)
        public = [i >= len(p) // 2 for i, p in zip(curator.chosen, curator.proposed, strict=True)]
        assert len(measurements(events_of(curator))) == 15 - sum(public)
        rho = [e.rho for e in selections(events_of(curator))]
        assert rho[-1] > 1.5 * rho[0]
        for choice in public:
            picks[choice] += 1
    assert picks[True] >= 2 * picks[False]


def test_a_public_table_that_is_the_private_one_costs_selections_only() -> None:
    """Nothing is as good as the truth for nothing: without noise in the choice, no round measures."""
    curator = Watched(epsilon=4.0)
    model = go(JamPgm(rounds=8), curator, PRIVATE)
    events = events_of(curator)
    assert [e.kind for e in events] == ["exponential"] * 8
    # Each round of what is left takes 1/(T − t), and of that only a fifth is spent.
    left = curator.rho
    for t, event in enumerate(events):
        assert event.rho == pytest.approx(0.2 * left / (8 - t), rel=1e-12)
        left -= event.rho
    assert curator.remaining == pytest.approx(left, rel=1e-9)
    exact = FakeCurator(PRIVATE, noise=NoNoise())
    for a in curator.proposed[0][curator.chosen[0]].marginal:
        expected = exact.measure(Counts((a,)), exact.rho / 9).values
        assert np.abs(model.answers([(a,)])[(a,)] - expected).sum() < 0.1 * PRIVATE.n


def test_jam_scores_are_those_of_the_paper(mixed: Watched) -> None:
    for (_, measured), scores in zip(rounds_of(mixed), mixed.proposed, strict=True):
        half = len(scores) // 2
        assert [s.marginal for s in scores[:half]] == [s.marginal for s in scores[half:]]
        for private, public in zip(scores[:half], scores[half:], strict=True):
            assert [c for c, _ in private.terms] == [1.0]
            assert [c for c, _ in public.terms] == [1.0, -1.0]
            assert (private.terms[0][1] == public.terms[0][1]).all()
            assert public.terms[1][1].sum() == pytest.approx(PRIVATE.n)
            assert public.offset == 0
            assert private.weight == public.weight == 1
            if measured is not None:
                expected = math.sqrt(2 / math.pi) * measured.sigma * DOMAIN.size(private.marginal)
                assert private.offset == pytest.approx(-expected, rel=1e-9)


# AIM.

WEIGHTED = Workload([("a", "b", "c"), ("b", "d"), ("a", "d")], [1.0, 0.25, 3.0]).on(DOMAIN)


@units
def test_aim_spends_everything_and_anneals_exactly(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """σ halves, and ε doubles, after a round that moved the model by no more than its noise; and only then."""
    within: list[bool] = []
    take_in = GrowingModel.measured

    def watched(self: GrowingModel, *seen: Measurement) -> None:
        before = self.model
        take_in(self, *seen)
        if len(seen) == 1:
            (one,) = seen
            answers = [model.answers([one.marginal])[one.marginal] for model in (before, self.model)]
            moved = np.abs(answers[1] - answers[0]).sum()
            within.append(moved <= math.sqrt(2 / math.pi) * one.sigma * len(one.values))

    monkeypatch.setattr(GrowingModel, "measured", watched)
    curator = Watched(epsilon=8.0, unit=unit, noise=SeededNoise(6))
    go(Aim(rounds=200), curator, workload=WEIGHTED)
    check_costs(curator)
    assert curator.remaining <= 1e-12 * curator.rho
    events = events_of(curator)
    singles, later = events[: len(SIZES)], events[len(SIZES) :]
    assert [e.statistic.marginal for e in singles] == [(a,) for a in ("a", "b", "c", "d")]
    assert {e.rho for e in singles} == {0.9 * (curator.rho / 200)}
    selected, measured = later[::2], later[1::2]
    assert [e.kind for e in later] == ["exponential", "gaussian"] * len(within)
    sigma, epsilon = singles[0].sigma, math.sqrt(8 * (1 - 0.9) * (curator.rho / 200))
    halvings = 0
    for t in range(len(within) - 1):
        assert measured[t].sigma == sigma
        assert selected[t].epsilon == epsilon
        if within[t]:
            sigma, epsilon, halvings = sigma / 2, epsilon * 2, halvings + 1
    assert halvings >= 1
    assert not all(within)
    # The last round takes the rest, at least as much as was its turn, and less than two such rounds.
    rest = selected[-1].rho + measured[-1].rho
    turn = unit.l2_squared / (2 * sigma**2) / 0.9
    assert rest < 2 * turn * (1 + 1e-12)
    if not within[-2]:
        assert rest >= turn * (1 - 1e-9)


def test_aim_takes_the_rest_when_two_rounds_do_not_fit() -> None:
    for rounds in (1, 2, 5, 6, 7):
        curator = Watched(epsilon=3.0, noise=SeededNoise(1))
        go(Aim(rounds=rounds), curator)
        found = events_of(curator)
        assert len(measurements(found[:4], 1)) == 4
        planned = max(rounds, 5)
        assert found[0].rho == pytest.approx(0.9 * curator.rho / planned, rel=1e-12)
        assert spent(found) >= Fraction(curator.rho) * (1 - Fraction(1, 10**12))


def test_aim_weighs_by_overlap_with_the_workload() -> None:
    curator = Watched(epsilon=3.0, noise=SeededNoise(1))
    go(Aim(rounds=20), curator, workload=WEIGHTED)
    by_hand = {
        ("a",): 1 + 3,
        ("b",): 1 + 0.25,
        ("c",): 1,
        ("d",): 0.25 + 3,
        ("a", "b"): 2 + 0.25 + 3,
        ("a", "c"): 2 + 3,
        ("a", "d"): 1 + 0.25 + 6,
        ("b", "c"): 2 + 0.25,
        ("b", "d"): 1 + 0.5 + 3,
        ("a", "b", "c"): 3 + 0.25 + 3,
    }
    assert curator.proposed
    assert {s.marginal for p in curator.proposed for s in p} == by_hand.keys()
    sigmas = [e.sigma for e in measurements(events_of(curator))[4:]]
    for scores, sigma in zip(curator.proposed, sigmas, strict=True):
        for score in scores:
            assert score.weight == by_hand[score.marginal]
            assert [c for c, _ in score.terms] == [1.0]
            expected = math.sqrt(2 / math.pi) * sigma * DOMAIN.size(score.marginal)
            assert score.offset == pytest.approx(-expected, rel=1e-9)


# MST.


@units
def test_mst_spends_in_thirds(unit: Unit) -> None:
    curator = Watched(epsilon=3.0, unit=unit, noise=SeededNoise(1))
    go(Mst(), curator)
    check_costs(curator)
    events, third = events_of(curator), curator.rho / 3
    d = len(SIZES)
    singles, selected, pairs = events[:d], events[d : 2 * d - 1], events[2 * d - 1 :]
    assert [e.statistic.marginal for e in singles] == [(a,) for a in SIZES]
    assert [e.kind for e in selected] == ["exponential"] * (d - 1)
    assert [len(e.statistic.marginal) for e in pairs] == [2] * (d - 1)
    for group in (singles, selected, pairs):
        assert [e.rho for e in group] == pytest.approx([third / len(group)] * len(group), rel=1e-12)
    # A spanning tree: every pair joins what was apart, and was a candidate of its turn.
    home = {a: a for a in SIZES}
    for event, index, scores in zip(pairs, curator.chosen, curator.proposed, strict=True):
        a, b = event.statistic.marginal
        assert scores[index].marginal == (a, b)
        assert home[a] != home[b]
        assert all(home[s.marginal[0]] != home[s.marginal[1]] for s in scores)
        home = {k: home[a] if v == home[b] else v for k, v in home.items()}
    assert len(set(home.values())) == 1


# Bad inputs cost nothing.


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: JamPgm(rounds=0), lambda: JamPgm(rounds=-3), lambda: Aim(rounds=0)),
        *(lambda: JamPgm(alpha=0.0), lambda: JamPgm(alpha=1.0), lambda: JamPgm(alpha=math.nan)),
        *(lambda: Aim(alpha=0.0), lambda: Aim(alpha=1.0), lambda: Aim(alpha=-0.5)),
        *(lambda: JamPgm(size_limit=0.0), lambda: Aim(size_limit=0.0), lambda: Mst(size_limit=0.0)),
        *(
            lambda: JamPgm(size_limit=-1.0),
            lambda: Aim(size_limit=math.nan),
            lambda: Mst(size_limit=math.nan),
        ),
    ],
)
def test_options_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match="must be"):
        make()


# BUG (jam.py, run): under add/remove `known_total` charges 2 % before GrowingModel has looked at size_limit; `total`
# should be asked for only once the structure and the closure are known to be possible, as MWEM does.
@relations
@each
def test_a_size_limit_below_the_widest_column_costs_nothing(mechanism: Any, relation: Relation) -> None:
    curator = FakeCurator(PRIVATE, unit=Unit(relation), noise=SeededNoise(1))
    with pytest.raises(OptionError, match=r"size_limit .* smaller than the one-way marginal of 'd'"):
        go(replace(mechanism, size_limit=SINGLES_ONLY * 0.99), curator)
    assert curator.events == ()
    assert curator.remaining == curator.rho


# BUG (jam.py, run): the same order of things, under add/remove.
@relations
@pytest.mark.parametrize("mechanism", EACH[:2], ids=lambda m: m.name)
def test_a_workload_of_another_domain_costs_nothing(mechanism: Any, relation: Relation) -> None:
    curator = FakeCurator(PRIVATE, unit=Unit(relation), noise=SeededNoise(1))
    with pytest.raises(WorkloadError, match="there is no column 'age'"):
        go(mechanism, curator, workload=Workload([("a", "b"), ("a", "age")]))
    assert curator.events == ()


# BUG (vault.py, announce; mst.py): that all announced tables together are too many is found out when they are counted,
# after the first charge. MST announces every pair, whatever the workload; AIM and JAM-PGM its closure. The run then
# breaks, cannot be resumed, and its whole reservation stands. (120 columns of 200 values do it without a patch.)
@relations
@each
def test_too_many_cells_to_count_cost_nothing(
    mechanism: Any, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = Workload([tuple(SIZES)]).on(DOMAIN)  # 120 cells; its subsets have 359
    monkeypatch.setattr("openprior.counting.cells.MAX_TOTAL_CELLS", 60 if mechanism.name == "mst" else 200)
    curator = FakeCurator(PRIVATE, unit=Unit(relation), noise=SeededNoise(1))
    with pytest.raises(MarginalTooLarge, match="together"):
        go(mechanism, curator, workload=everything)
    assert curator.events == ()


def released(mechanism: Any, relation: str, ledger: Path, **more: Any) -> op.Release:
    options = {"schema": Schema.from_sizes(SIZES), "workload": op.all_marginals(2), "epsilon": 1.0, **more}
    private = arrow(PRIVATE, who=np.arange(PRIVATE.n) // 3)
    return op.release(
        private, arrow(PUBLIC), delta=1e-6, relation=relation, mechanism=mechanism, ledger=ledger, **options
    )


@relations
@each
@pytest.mark.parametrize("wrong", ["column", "size"])
def test_a_refused_release_leaves_the_ledger_unspent(
    mechanism: Any, relation: str, wrong: str, tmp_path: Path
) -> None:
    # BUG (jam.py, run): spent under add/remove, see above.
    ledger = tmp_path / "budget.sqlite"
    with pytest.raises((WorkloadError, OptionError), match="'age'" if wrong == "column" else "'d'"):
        if wrong == "column":
            released(mechanism, relation, ledger, workload=Workload([("a", "age")]))
        else:
            released(replace(mechanism, size_limit=1e-6), relation, ledger)
    for status in Ledger(ledger).datasets():
        assert status.committed == 0
        assert [run.events for run in status.runs] in ([], [0])


# Certificates.


@pytest.mark.parametrize(("relation", "rows"), [("replace-one", 3), ("add-remove", 1)])
@each
def test_the_certificate_can_be_rechecked_and_can_fail(
    mechanism: Any, rows: int, relation: str, tmp_path: Path
) -> None:
    schema = replace(Schema.from_sizes(SIZES), person_id="who", max_rows_per_person=rows)
    certificate = released(mechanism, relation, tmp_path / "budget.sqlite", schema=schema).certificate
    certificate.recheck()
    assert certificate.is_private
    assert certificate.rows_per_person == rows
    for number, event in enumerate(certificate.events):
        name, factor = ("sigma", 0.9) if isinstance(event, Gaussian) else ("epsilon", 1.1)
        forged = list(certificate.events)
        forged[number] = replace(event, **{name: getattr(event, name) * factor})
        with pytest.raises(ReleaseError, match=f"event {number} costs"):
            replace(certificate, events=tuple(forged)).recheck()
    other = "add-remove" if relation == "replace-one" else "replace-one"
    for changed in ({"relation": other}, {"rows_per_person": rows + 1}):
        if measurements(certificate.events):
            with pytest.raises(ReleaseError):
                replace(certificate, **changed).recheck()


# Everything a mechanism does and says follows from what was paid for.


class Shut(Vault):
    """A vault that nobody may look into."""

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.int64]]:
        raise AssertionError("the private table was looked at")

    @property
    def rows(self) -> int:
        assert self.declared is not None, "the number of rows was looked at"
        return self.declared

    declared: int | None = None


class Lines:
    """What a run shows: its progress, its warnings, its remarks, its events and its model."""

    def __init__(self, mechanism: Any, curator: Curator, remarks: list[str]) -> None:
        words: list[tuple[int, int, str]] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # A column outside the workload, so that there is something to remark.
            model = mechanism.run(
                curator,
                PUBLIC,
                Workload([("a", "b"), ("b", "c")]).on(DOMAIN),
                np.random.default_rng(5),
                lambda *facts: words.append(facts),
            )
        self.said = words, [str(w.message) for w in caught], list(remarks)
        self.events = events_of(curator)
        self.answers = model.answers(PAIRS.marginals)
        self.total = model.total


def journalled(
    vault: Vault, unit: Unit, ledger: Ledger, run: str, journal: SealedJournal
) -> tuple[Curator, Account]:
    account = Account(ledger, run, rho=0.05, epsilon=2.0, delta=1e-9, journal=journal)
    return Curator(vault, unit=unit, noise=SeededNoise(8), account=account), account


def begun(ledger: Ledger, path: Path) -> tuple[str, SealedJournal]:
    token = new_token()
    run = ledger.open_run(path.name, rho=0.05, epsilon=2.0, delta=1e-9, details={}, token=token)
    return run, SealedJournal.begin(Journal.create(path, {"token": token}), ledger, run)


def encoder(table: Table) -> Encoder:
    return Encoder(Schema.from_sizes(SIZES), open_source(arrow(table)), private=True)


@units
@each
def test_replayed_from_the_journal_it_needs_no_private_table(
    mechanism: Any, unit: Unit, tmp_path: Path
) -> None:
    """The same requests, the same words and the same model to the bit, with the vault shut: nothing that a mechanism
    does, shows or decides comes from the private table, but for outcomes that were paid for (and n, where public)."""
    ledger, path = Ledger(), tmp_path / "journal"
    run, journal = begun(ledger, path)
    curator, account = journalled(Vault(encoder(PRIVATE)), unit, ledger, run, journal)
    first = Lines(mechanism, curator, account.remarks)
    journal.close()
    paid = ledger.spent(run)
    assert len(first.events) == len(ledger.events(run))

    shut = Shut(encoder(PUBLIC))
    shut.declared = PRIVATE.n if unit.n_is_public else None
    journal = SealedJournal.resume(Journal.open(path), ledger, run)
    curator, account = journalled(shut, unit, ledger, run, journal)
    again = Lines(mechanism, curator, account.remarks)
    journal.close()
    assert again.events == first.events
    assert again.said == first.said
    assert again.total == first.total
    for marginal, counts in first.answers.items():
        assert (again.answers[marginal] == counts).all()
    assert ledger.spent(run) == paid
    if mechanism.name != "mst":
        assert any("d" in remark for remark in first.said[2])


@relations
@each
def test_resumed_in_the_middle_it_pays_once(mechanism: Any, relation: Relation, tmp_path: Path) -> None:
    """Broken in the middle: the first half is repeated, the second paid for."""
    unit = Unit(relation)
    ledger = StoppingLedger()
    run, journal = begun(ledger, tmp_path / "whole")
    curator, account = journalled(Vault(encoder(PRIVATE)), unit, ledger, run, journal)
    first = Lines(mechanism, curator, account.remarks)
    journal.close()

    path, kept = tmp_path / "broken", len(first.events) // 2
    ledger.stop_at = kept
    run, journal = begun(ledger, path)
    curator, account = journalled(Vault(encoder(PRIVATE)), unit, ledger, run, journal)
    with pytest.raises(KeyboardInterrupt):
        Lines(mechanism, curator, account.remarks)
    journal.close()
    paid = ledger.events(run)
    assert len(paid) == kept

    ledger.stop_at = None
    journal = SealedJournal.resume(Journal.open(path), ledger, run)
    curator, account = journalled(Vault(encoder(PRIVATE)), unit, ledger, run, journal)
    again = Lines(mechanism, curator, account.remarks)
    journal.close()
    assert again.events[:kept] == first.events[:kept]
    assert ledger.events(run)[:kept] == paid
    assert spent(again.events) == ledger.spent(run) <= Fraction(0.05)
    assert len(again.events) > kept


class StoppingLedger(Ledger):
    """Breaks the run before a charge."""

    stop_at: int | None = None

    def charge(self, run: str, seq: int, rho: float, event: Any) -> None:
        if seq == self.stop_at:
            raise KeyboardInterrupt
        super().charge(run, seq, rho, event)


def test_without_noise_the_sealed_vault_is_noticed() -> None:
    """So that the two tests above can fail."""
    ledger = Ledger()
    run = ledger.open_run("test", rho=0.05, epsilon=2.0, delta=1e-9, details={})
    account = Account(ledger, run, rho=0.05, epsilon=2.0, delta=1e-9)
    curator = Curator(
        Shut(encoder(PRIVATE)), unit=Unit(Relation.ADD_REMOVE), noise=NoNoise(), account=account
    )
    with pytest.raises(AssertionError, match="looked at"):
        curator.measure(Counts(canonical("a", DOMAIN)), 0.01)
    with pytest.raises(AssertionError, match="looked at"):
        curator.measure(Total(), 0.01)
