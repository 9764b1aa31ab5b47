"""Broken twins: mechanisms and primitives with one fault each, and what catches it.

A back door of Python's (`_Curator__vault`) stands for any way past the curator: a mechanism has no other. Where a fault
can be hidden from one check, the twin hides it, so that the check named in `caught` is the one that finds it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.counting.cells import Cells
from openprior.methods.base import known_total
from openprior.models.support import SupportModel
from openprior.privacy import selection
from openprior.privacy.account import Account, PartPurse
from openprior.privacy.auditing.findings import Audit
from openprior.privacy.auditing.witness import _WatchedNoise
from openprior.privacy.calibrate import exponential_epsilon
from openprior.privacy.curator import Curator
from openprior.privacy.error_strata import ROW_STEPS, CellsApart, ErrorStrata
from openprior.privacy.events import Event, Gaussian, PermuteAndFlip, Selection
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.privacy.noise import SecureNoise
from openprior.privacy.regression import MembershipRegression
from openprior.privacy.scores import L1Score, WorstCellScores
from openprior.privacy.signed_scores import SignedCellScores
from openprior.privacy.statistics import CellCount, Counts, Sensitivity
from openprior.privacy.together import Together
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.vault import PartVault
from openprior.privacy.weighted_sums import WeightedSums
from openprior.tables.encode import Table
from openprior.tables.limit import RowLimit

AREA, SIDE, ALL = ("area",), ("area", "b"), ("area", "b", "c")
Steps = Callable[[Curator], Any]


@dataclass(frozen=True)
class Probe:
    """A mechanism that does what it is told, and makes a model of what comes out: weights of the areas."""

    steps: Steps = field(compare=False, repr=False)
    name: str = "probe"
    public_table: str = "not used"
    pure_options: None = None
    is_pure: bool = False
    has_exact_bars: bool = True  # no step beyond its own

    def run(self, curator: Curator, public: Any, workload: Any, rng: Any, progress: Any) -> SupportModel:
        weights = np.maximum(np.asarray(self.steps(curator), dtype=np.float64), 0.5)
        rows = np.arange(4)
        table = Table(curator.domain, (rows, np.zeros(4, int), np.zeros(4, int)))
        return SupportModel(table, weights, float(max(1, round(weights.sum()))))


def audited(mechanism: Any, relation: str | None = None) -> Audit:
    return op.audit(mechanism, relation=relation, runs=1, neighbours=2)


def caught(audit: Audit, words: str) -> None:
    assert not audit.ok
    assert any(words in fault for fault in audit.faults), str(audit.faults[:5])


def area(curator: Curator, share: float = 0.5) -> Any:
    return curator.measure(Counts(AREA), share * curator.remaining).values


def secret(curator: Curator) -> Any:
    """The vault, past the curator."""
    return vars(Curator)["_Curator__vault"].__get__(curator)


def hidden(curator: Curator, marginal: tuple[str, ...] = AREA) -> Any:
    """Counts that a pass has left in the vault, read where nobody watches."""
    return secret(curator)._counts[marginal]


# Mechanisms that look past the outcomes.


def test_the_probe_itself_is_honest() -> None:
    def steps(curator: Curator) -> Any:
        known_total(curator)
        first = area(curator)
        scores = [
            L1Score(AREA, ((1.0, np.maximum(first, 0.0)),)),
            L1Score(("b",), ((1.0, np.full(2, first.sum() / 2)),)),
        ]
        chosen = curator.select_many(scores, 2, 0.1 * curator.remaining, how="permute-and-flip")
        return area(curator) + chosen[0]

    assert audited(Probe(steps)).ok


def test_a_best_iterate_by_true_scores() -> None:
    def steps(curator: Curator) -> Any:
        iterates = [area(curator), area(curator)]
        return min(iterates, key=lambda values: np.abs(values - hidden(curator)).sum())

    caught(audited(Probe(steps)), "the same outcomes give another model")


def test_rounds_that_depend_on_the_data() -> None:
    def steps(curator: Curator) -> Any:
        values = area(curator, 0.1)
        for _ in range(int(hidden(curator)[0]) + 1):
            values = area(curator, 0.1)
        return values

    caught(audited(Probe(steps)), "draws more often than on the neighbour")


def test_a_budget_that_depends_on_the_data() -> None:
    def steps(curator: Curator) -> Any:
        area(curator, 0.1)
        return area(curator, 0.5 / (1 + float(hidden(curator)[0])))

    caught(audited(Probe(steps)), "has another sigma, rho on a neighbour")


def test_an_uncharged_clique() -> None:
    """Measured with noise of one's own, and without a charge."""

    def steps(curator: Curator) -> Any:
        counts = secret(curator).counts([SIDE])[SIDE]
        return (counts + np.random.default_rng(1).normal(0, 5, counts.size)).reshape(4, 2).sum(axis=1)

    caught(audited(Probe(steps)), "looked at exact counts outside any charged event")
    caught(audited(Probe(steps)), "the same outcomes give another model")


def test_counts_that_are_kept_in_one_vector_are_watched_too() -> None:
    def steps(curator: Curator) -> Any:
        curator.announce([AREA])
        curator.look_ahead()  # after this pass they are there, and nothing need be counted for them
        return area(curator) * 0 + secret(curator).flat((AREA,))

    caught(audited(Probe(steps)), "looked at exact counts outside any charged event")


def test_a_total_that_nobody_paid_for() -> None:
    def steps(curator: Curator) -> Any:
        return area(curator) * 0 + secret(curator).rows

    caught(audited(Probe(steps), "add-remove"), "looked at the number of rows outside any charged event")
    caught(audited(Probe(steps), "add-remove"), "the same outcomes give another model")
    assert audited(Probe(steps), "replace-one").ok  # there it is public


def test_cells_that_exist_only_if_the_data_have_them() -> None:
    def steps(curator: Curator) -> Any:
        values = curator.measure(Counts(ALL), 0.1 * curator.remaining).values
        for cell in np.flatnonzero(hidden(curator, ALL)):
            values[cell] = curator.measure(CellCount(ALL, int(cell)), 0.02 * curator.remaining).values[0]
        return values.reshape(4, 6).sum(axis=1)

    caught(audited(Probe(steps)), "has another cell")


def test_a_private_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counts.read
    monkeypatch.setattr(Counts, "read", lambda self, vault, unit: (c := read(self, vault, unit))[c > 0])
    monkeypatch.setattr("openprior.privacy.curator.Measurement", lambda *facts: np.resize(facts[1], 4))

    def steps(curator: Curator) -> Any:
        return curator.measure(Counts(ALL), 0.1 * curator.remaining)

    caught(audited(Probe(steps)), "numbers, and gaussian of")


def test_words_that_quote_a_count() -> None:
    def steps(curator: Curator) -> Any:
        values = area(curator)
        curator.remark(f"{hidden(curator)[0]} rows of the first area")
        return values

    caught(audited(Probe(steps)), "remarks or warnings have other words")


def test_a_refusal_that_depends_on_the_data() -> None:
    def steps(curator: Curator) -> Any:
        values = area(curator)
        if hidden(curator)[0] == 1:
            raise ValueError("a small cell")
        return values

    caught(audited(Probe(steps)), "a small cell")


def test_scores_about_the_data() -> None:
    """References taken from the private counts: the score moves twice."""

    def steps(curator: Curator) -> Any:
        area(curator, 0.1)
        scores = [L1Score(("b",), ((1.0, np.zeros(2)),), offset=-5.0 * float(hidden(curator)[0]))]
        scores.append(L1Score(AREA, ((1.0, np.zeros(4)),)))
        return area(curator) + curator.select(scores, 0.1 * curator.remaining)

    caught(audited(Probe(steps)), "(exponential) moved 2.5 times its own")


def _merged_by(counts: Any) -> Merging:
    """Areas with fewer rows than others are one."""
    few = [bool(c < np.mean(counts)) for c in counts]
    first = few.index(True)
    codes = [first if rare else code for code, rare in enumerate(few)]
    number = {code: i for i, code in enumerate(dict.fromkeys(codes))}
    return Merging((tuple(number[code] for code in codes),))


def test_values_that_are_merged_by_their_true_counts() -> None:
    """By noisy counts it is right; by true ones the neighbour is asked something else."""

    def steps(curator: Curator, *, by_truth: bool) -> Any:
        values = area(curator)
        merging = _merged_by(np.arange(4) + 50.0 * hidden(curator) if by_truth else values)
        curator.measure(MergedCounts(AREA, merging), 0.1 * curator.remaining)
        return values

    assert audited(Probe(lambda c: steps(c, by_truth=False))).ok
    caught(audited(Probe(lambda c: steps(c, by_truth=True))), "has another")


def test_merged_counts_that_move_by_more_than_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a row that moves within a group were all that can happen."""
    monkeypatch.setattr(
        MergedCounts, "sensitivity", lambda self, unit: Sensitivity(unit.l1 // 2, unit.l2_squared // 2)
    )

    def steps(curator: Curator) -> Any:
        values = area(curator)
        curator.measure(MergedCounts(AREA, Merging(((0, 0, 1, 1),))), 0.1 * curator.remaining)
        return values

    caught(audited(Probe(steps), "replace-one"), "moved 1.41 times its own")


def test_a_generator_of_ones_own() -> None:
    """No leak, but nothing that could be replayed; it is said as what it is."""

    def steps(curator: Curator) -> Any:
        return area(curator) + np.random.default_rng().integers(0, 1000, 4)

    caught(audited(Probe(steps), "replace-one"), "cannot be audited, nor resumed")


# Primitives with a fault.


def test_a_marginal_that_moves_by_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """√2·Δ under replace-one, because two cells move; Δ would be add/remove's."""
    monkeypatch.setattr(Unit, "l2_squared", property(lambda unit: unit.rows_per_person**2))
    found = audited(op.Mst(), "replace-one")
    caught(found, "moved 1.41 times its own")
    caught(found, "costs 2 times its charge")
    assert audited(op.Mst(), "add-remove").ok  # there it is right


def test_a_regression_that_moves_by_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of its sensitivity, as if σ(−β·φ) were at most 1/4, which is its slope."""
    real = MembershipRegression.sensitivity

    def wrong(statistic: MembershipRegression, unit: Unit) -> Sensitivity:
        right = real(statistic, unit)
        return Sensitivity(right.l1 // 4, right.l2_squared // 16)

    monkeypatch.setattr(MembershipRegression, "sensitivity", wrong)
    found = audited(op.ImportanceWeights(noise="laplace"))
    caught(found, "times its own")
    caught(found, "times its charge")


def test_weights_that_are_charged_by_the_lightest_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell 3 has 5 and 1 of the sums; who pays for cell 0 alone pays for 3."""

    def steps(curator: Curator) -> Any:
        known_total(curator)
        sums = WeightedSums("prefixes(area)", AREA, ((0, 3), (1, 4), (2, 4), (3, 5), (2, 1, 1)))
        return curator.measure(sums, 0.5 * curator.remaining).values[:4] / 4

    assert audited(Probe(steps), "replace-one").ok
    monkeypatch.setattr(WeightedSums, "column_norms", (3, 9))
    caught(audited(Probe(steps), "replace-one"), "moved 1.53 times its own")


def test_errors_that_are_charged_as_if_of_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is in each of three tables, and far from all references: an error moves three times as far."""

    def steps(curator: Curator) -> Any:
        curator._Curator__purse.account.model_is_learnt = False  # or it would be refused, whatever it says
        known_total(curator)
        sizes = {m: curator.domain.size(m) for m in (AREA, SIDE, ALL)}
        asked = tuple(CellsApart(m, 0, np.zeros(s, np.int64), np.zeros(s, np.int8)) for m, s in sizes.items())
        errors = curator.measure(ErrorStrata.of(4, (1,), asked), 0.5 * curator.remaining)
        return errors.values / (3 * ROW_STEPS)

    assert audited(Probe(steps), "add-remove").ok
    real = ErrorStrata.sensitivity
    monkeypatch.setattr(
        ErrorStrata, "sensitivity", lambda self, unit: real(replace(self, tables=(1,), asked=()), unit)
    )
    caught(audited(Probe(steps), "add-remove"), "moved 3 times its own")


@dataclass(frozen=True)
class Barred(Probe):
    """One whose releases have error bars; its model's sizes are told by a look at the data, if it is given one."""

    has_exact_bars: bool = False
    look: Callable[[Curator], Any] | None = field(default=None, compare=False, repr=False)

    def run(self, curator: Curator, public: Any, workload: Any, rng: Any, progress: Any) -> SupportModel:
        model = super().run(curator, public, workload, rng, progress)
        if self.look is not None:
            told = float(np.asarray(self.look(curator)).sum())
            vars(model)["sizes"] = lambda answers: {m: a + told for m, a in answers.items()}
        return model


def steps_of_bars(curator: Curator) -> Any:
    known_total(curator)
    return area(curator)


def test_error_bars_are_a_step_of_the_run_and_honest() -> None:
    audit = audited(Barred(steps_of_bars))
    assert audit.ok, str(audit)
    assert audit.rows[0].events > audited(Probe(steps_of_bars)).rows[0].events


def test_sizes_of_cells_that_are_told_by_the_data() -> None:
    def look(curator: Curator) -> Any:
        area(curator, 0.01)
        return hidden(curator)[:2]

    caught(audited(Barred(steps_of_bars, look=look)), "other error bars on a neighbour")


def test_references_that_are_told_by_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors against the private counts themselves do not move at all, and so cost nothing by what is seen; but a
    mechanism that has them is found by the answers of its model."""

    class Knowing(SupportModel):
        def answers(self, marginals: Any) -> Any:
            return {m: a + 0.25 * told[0] for m, a in super().answers(marginals).items()}

    told = [0.0]

    @dataclass(frozen=True)
    class Peeking(Barred):
        def run(self, curator: Curator, public: Any, workload: Any, rng: Any, progress: Any) -> SupportModel:
            model = super().run(curator, public, workload, rng, progress)
            told[0] = float(hidden(curator)[0])
            model.__class__ = Knowing
            return model

    caught(audited(Peeking(steps_of_bars)), "another model on a neighbour")


def test_residuals_that_move_by_more_than_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under add/remove a vector of many counts with its factors forgotten; every neighbour shows it."""

    def forgotten(self: Together, unit: Unit) -> Sensitivity:
        each = [part.sensitivity(unit) for part in self.parts]
        return Sensitivity(sum(s.l1 for s in each), sum(s.l2_squared for s in each))

    residuals = op.Hdmm(strategy="residuals")
    assert audited(residuals, "add-remove").ok
    monkeypatch.setattr(Together, "sensitivity", forgotten)
    caught(audited(residuals, "add-remove"), "times its own")


def test_a_public_candidate_of_sensitivity_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAM's score is a difference of two distances, which moves by 4 under replace-one."""

    def wrong(weight: float, coefficients: tuple[float, ...]) -> Fraction:
        return abs(Fraction(float(weight))) * max(abs(Fraction(float(c))) for c in coefficients)

    monkeypatch.setattr("openprior.privacy.scores._lipschitz", wrong)

    def steps(curator: Curator) -> Any:
        empty, full = np.array([0.0, 90.0, 90.0, 90.0]), np.array([90.0, 0.0, 0.0, 0.0])
        jam = L1Score(AREA, ((1.0, empty), (-1.0, full)))
        return np.full(4, curator.select([jam, L1Score(("b",), ((1.0, np.zeros(2)),))], curator.remaining))

    caught(audited(Probe(steps), "replace-one"), "(exponential) moved 2 times its own")


def test_one_sided_selection_under_replace_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights exp(ε·score/Δ) are right where all scores move one way; AIM's move both ways."""
    right = selection._exp_negative
    monkeypatch.setattr(selection, "_exp_negative", lambda x: right(2 * x))
    caught(audited(op.Aim(), "replace-one"), "(exponential) costs")


def test_permute_and_flip_at_the_price_of_the_exponential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PermuteAndFlip, "_epsilon_at", staticmethod(exponential_epsilon))

    def steps(curator: Curator) -> Any:
        """Two candidates that are about equal, of which one goes up and the other down."""
        first, second = curator.measure(Counts(("b",)), 0.5 * curator.remaining).values
        scores = [L1Score(("b",), ((1.0, np.array([99.0, 0.0])),), offset=2 * (first - second))]
        scores += [L1Score(("b",), ((1.0, np.array([0.0, 99.0])),))]
        return np.full(4, curator.select(scores, curator.remaining, how="permute-and-flip"))

    caught(op.audit(Probe(steps), relation="replace-one", runs=4), "(permute-and-flip) costs")


def test_laplace_noise_for_numbers_that_move_by_less_than_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if one person moved no cell by more than half a row: L1 and L2 are right, and the cost is not."""

    def steps(curator: Curator) -> Any:
        curator.measure(Counts(("b",)), 0.5 * curator.remaining, noise="laplace")
        return area(curator)

    assert audited(Probe(steps), "replace-one").ok
    monkeypatch.setattr(Sensitivity, "largest", property(lambda self: self.l1 / 4))
    caught(audited(Probe(steps), "replace-one"), "(laplace, b) costs")


@pytest.mark.parametrize("replace_drawn", [False, True])
def test_many_draws_at_the_price_of_one(monkeypatch: pytest.MonkeyPatch, replace_drawn: bool) -> None:
    at = Selection.at.__func__  # type: ignore[attr-defined]

    def cheap(cls: Any, candidates: Any, rho: float, unit: Unit, *, draws: int, pure: bool) -> Any:
        return replace(at(cls, candidates, rho * draws, unit, draws=draws, pure=pure), rho=rho)

    monkeypatch.setattr(Selection, "at", classmethod(cheap))

    def steps(curator: Curator) -> Any:
        scores = [
            L1Score(("b",), ((1.0, np.array(r)),)) for r in ([30.0, 0.0], [0.0, 30.0]) for _ in range(4)
        ]
        return np.full(4, sum(curator.select_many(scores, 6, 0.3 * curator.remaining, replace=replace_drawn)))

    caught(audited(Probe(steps), "replace-one"), "(exponential) costs")


def signed(curator: Curator) -> SignedCellScores:
    """Scores of the areas and of their negations, with answers that were paid for."""
    cells = Cells(curator.domain, [AREA])
    return SignedCellScores(cells, np.arange(len(cells)), np.maximum(area(curator, 0.2), 0.0))


def test_signed_scores_and_replacement_are_honest() -> None:
    def steps(curator: Curator) -> Any:
        return np.bincount(curator.select_many(signed(curator), 30, curator.remaining, replace=True))[:4]

    assert audited(Probe(steps)).ok


def test_signed_scores_that_are_told_half_their_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = SignedCellScores.evaluate
    monkeypatch.setattr(SignedCellScores, "evaluate", lambda self, counts: 2 * evaluate(self, counts))

    def steps(curator: Curator) -> Any:
        return np.bincount(curator.select_many(signed(curator), 30, curator.remaining, replace=True))[:4]

    caught(audited(Probe(steps)), "(exponential) moved 2 times its own")


def test_worst_cells_that_are_told_half_their_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marginal's worst cell, as GEM selects by, at twice the level; honest as it is."""

    def steps(curator: Curator) -> Any:
        known = np.maximum(area(curator, 0.2), 0.0)
        cells = Cells(curator.domain, [AREA, ("b",)])
        answers = np.concatenate([known, np.full(2, known.sum() / 2)])
        return known + curator.select(WorstCellScores(cells, answers), curator.remaining)

    assert audited(Probe(steps), "replace-one").ok
    evaluate = WorstCellScores.evaluate
    monkeypatch.setattr(WorstCellScores, "evaluate", lambda self, counts: 2 * evaluate(self, counts))
    caught(audited(Probe(steps), "replace-one"), "(exponential) moved 2 times its own")


def test_more_draws_than_the_event_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With replacement all draws come in one call, so their number is looked at by itself."""
    many = _WatchedNoise.exponential_many
    monkeypatch.setattr(
        _WatchedNoise, "exponential_many", lambda self, *given: many(self, *given[:-1], given[-1] + 5)[:-5]
    )

    def steps(curator: Curator) -> Any:
        return np.full(4, sum(curator.select_many(signed(curator), 6, curator.remaining, replace=True)))

    caught(audited(Probe(steps)), "drew 11 times, not 6")


def test_noise_that_is_calibrated_to_seven_tenths(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Gaussian.at

    def small(statistic: Any, rho: float, unit: Unit) -> Gaussian:
        event = at(statistic, rho, unit)
        return Gaussian(statistic=statistic, sigma=0.7 * event.sigma, rho=rho)

    monkeypatch.setattr(Gaussian, "at", staticmethod(small))
    caught(audited(op.Mst()), "costs 2.04 times its charge")


@pytest.mark.parametrize("verb", ["gaussian", "laplace"])
def test_samplers_that_draw_seven_tenths(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no replay can see: the law itself. `test_samplers.py` rejects it as well."""
    draw = getattr(SecureNoise, verb)
    monkeypatch.setattr(SecureNoise, verb, lambda self, counts, scale: draw(self, counts, 0.7 * scale))
    caught(audited(op.PublicProxy()), "noise: samplers draw 0.")


def test_a_charge_after_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = Account.perform

    def late(self: Account, charge: Fraction, event: Event, act: Any) -> Any:
        outcome = act()
        return perform(self, charge, event, lambda: outcome)

    monkeypatch.setattr(Account, "perform", late)
    caught(audited(op.Mst()), "looked before the ledger was charged")


def test_values_that_get_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is drawn, and the exact values are handed out."""
    perform = Account.perform

    def leaky(self: Account, charge: Fraction, event: Event, act: Any) -> Any:
        outcome = perform(self, charge, event, act)
        exact = self._witness.drawn[-1].exact  # type: ignore[attr-defined]
        return {"values": exact} if isinstance(event, Gaussian) else outcome

    monkeypatch.setattr(Account, "perform", leaky)
    caught(audited(op.Mst()), "gives out more than its draws")


def test_parts_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part sees the rows of all: a person is in each of them, and one charge does not pay for that."""
    cut = PartVault._slice

    def all_rows(self: PartVault, counts: Any, marginal: Any) -> Any:
        codes = self.codes
        whole: Any = 0
        for code in np.ndindex(*(self._whole.layout.full_domain[a] for a in codes)):
            self.codes = dict(zip(codes, code, strict=True))
            whole = whole + cut(self, counts, marginal)
        self.codes = codes
        return whole

    monkeypatch.setattr(PartVault, "_slice", all_rows)
    caught(audited(op.Hierarchy(inner=op.Mst())), "cost: partition 1 costs")


def test_cells_of_parts_at_the_price_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who moves from one part to another changes a cell in both."""
    monkeypatch.setattr(Unit, "parts_touched", property(lambda unit: 1))

    def steps(curator: Curator) -> Any:
        rho = 0.2 * curator.remaining
        parts = curator.partition(["area"]).values()
        return [part.measure(CellCount(("b",), 0), rho).values[0] for part in parts]

    def within_one_side(curator: Curator) -> Any:
        rho = 0.2 * curator.remaining
        parts = curator.partition(["area"]).values()
        return [part.measure(Counts(("b",)), rho).values[0] for part in parts]

    assert audited(Probe(within_one_side), "replace-one").ok
    found = op.audit(Probe(steps), relation="replace-one", runs=3, neighbours=4)
    caught(found, "cost: partition 1 costs 2 times its charge")


def test_parts_that_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = PartPurse.perform

    def free(self: PartPurse, event: Event, act: Any) -> Any:
        self._siblings[0] += Fraction(1)
        return perform(self, event, act)

    monkeypatch.setattr(PartPurse, "perform", free)
    caught(audited(op.Hierarchy(inner=op.Mst())), "cost: partition 1 costs inf times its charge")


def test_one_row_too_many_per_person(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RowLimit.__init__
    monkeypatch.setattr(RowLimit, "__init__", lambda self, who, rows, *more: made(self, who, rows + 1, *more))
    found = audited(op.Mst(), "add-remove")
    caught(found, "Δ = 2: sensitivity")
    caught(found, "moved 1.5 times its own")


def test_an_event_that_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = Account.perform

    def forgetful(self: Account, charge: Fraction, event: Event, act: Any) -> Any:
        outcome = perform(self, charge, event, act)
        if len(self.events) == 3:
            self.events.pop(0)
        return outcome

    monkeypatch.setattr(Account, "perform", forgetful)
    caught(audited(op.Mst(), Relation.REPLACE_ONE), "the account's events are not what was done")
