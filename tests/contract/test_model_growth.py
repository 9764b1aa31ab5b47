"""How far the graphical models of JAM-PGM and AIM may grow, round by round: the size limit, and the limit of time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openprior.errors import OptionError
from openprior.methods.aim import Aim
from openprior.methods.jam import JamPgm
from openprior.methods.shared import fit_time
from openprior.methods.shared.fit_time import LAST_STEPS, FitTime, steps_between
from openprior.methods.shared.growing import GrowingModel
from openprior.models.graphical.junction import megabytes
from openprior.privacy.events import Exponential, Gaussian
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal, all_marginals
from tests.conftest import PRIVATE, PUBLIC, quiet

pytestmark = pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")

DOMAIN = PRIVATE.domain
TRIPLES = all_marginals(3).on(DOMAIN)
WHOLE = megabytes(DOMAIN.size(DOMAIN.attributes))
"""Megabytes of the full table."""


class Watched:
    """What every round asked of the growing model, and what it got."""

    def __init__(self, mechanism: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.asked: list[tuple[float, float]] = []
        self.before: list[float] = []
        self.largest: list[float] = []
        self.sizes: list[float] = []
        candidates, measured = GrowingModel.candidates, GrowingModel.measured

        def watched(growing: GrowingModel, marginals: Any, used: float, rounds: float) -> list[Marginal]:
            allowed = candidates(growing, marginals, used, rounds)
            self.asked.append((used, rounds))
            self.before.append(growing._structure.cells)
            self.largest.append(max(growing._structure.cells_with(m) for m in allowed))
            return allowed

        def fitted(growing: GrowingModel, *given: Any) -> None:
            measured(growing, *given)
            self.sizes.append(growing._structure.cells)

        monkeypatch.setattr(GrowingModel, "candidates", watched)
        monkeypatch.setattr(GrowingModel, "measured", fitted)
        self.curator = FakeCurator(PRIVATE, noise=SeededNoise(2), **options)
        mechanism.run(self.curator, PUBLIC, TRIPLES, np.random.default_rng(5), quiet)
        rounds: list[float] = []
        gone = 0.0
        for event in self.curator.events:
            if isinstance(event, Exponential):
                rounds.append(gone / self.curator.rho)
            gone += event.rho
        self.used_before = rounds


@pytest.mark.parametrize("relation", list(Relation))
def test_jam_grows_by_the_budget_used_before_the_round(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appendix of the paper: s_t = s·(ρ used before)/ρ, and s/T in the first round."""
    run = Watched(JamPgm(rounds=8, size_limit=WHOLE), monkeypatch, epsilon=8.0, unit=Unit(relation))
    shares = [used for used, _ in run.asked]
    assert shares[0] == 1 / 8
    assert shares[1:] == pytest.approx(run.used_before[1:], rel=1e-9)
    assert shares[-1] < 0.9  # the last round's own share is not counted
    if relation is Relation.ADD_REMOVE:
        assert isinstance(run.curator.events[0], Gaussian) and run.curator.events[0].statistic == Total()
    for used, before, largest in zip(shares, run.before, run.largest, strict=True):
        assert megabytes(largest) <= max(used * WHOLE, megabytes(before)) * (1 + 1e-12)


def test_aim_counts_the_round_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As AIM's paper has it, so that the last round has all of the limit."""
    run = Watched(Aim(rounds=30), monkeypatch, epsilon=8.0)
    shares = [used for used, _ in run.asked]
    assert shares[:-1] == pytest.approx(run.used_before[1:], rel=1e-9)
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("mechanism", [JamPgm(rounds=12), Aim(rounds=40)], ids=lambda m: m.name)
def test_fits_never_take_longer_than_allowed(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the passes that the sizes of the model allow, summed up once more."""

    def foretold(run: Watched) -> float:
        passes = sum(steps_between(cells) * cells for cells in run.sizes) + LAST_STEPS * run.sizes[-1]
        return fit_time._CELL * passes

    with monkeypatch.context() as patch:
        free = Watched(replace(mechanism, seconds=None), patch, epsilon=8.0)
    seconds = 0.6 * foretold(free)
    limited = Watched(replace(mechanism, seconds=seconds), monkeypatch, epsilon=8.0)
    assert 0.3 * seconds < foretold(limited) <= seconds * (1 + 1e-9)
    assert limited.sizes[-1] > sum(DOMAIN.shape)  # it has grown by a pair at least
    # Rounds to come are never told too few.
    told = [rounds for _, rounds in limited.asked]
    assert all(rounds >= len(told) - t - 1e-6 for t, rounds in enumerate(told))


def test_what_is_in_a_clique_already_is_always_a_candidate() -> None:
    growing = GrowingModel(DOMAIN, 500.0, np.random.default_rng(0), size_limit=80.0, seconds=1e-9)
    singles = [(a,) for a in DOMAIN]
    assert growing.candidates(TRIPLES.closure(), 1.0, 1.0) == singles


def test_time_adds_up() -> None:
    time = FitTime(10.0)
    cells = 10.0 / (fit_time._CELL * (LAST_STEPS + 2 * 40))  # for two rounds of 40 steps, and the last fit
    assert time.allows(cells * 0.999, 2)
    assert not time.allows(cells * 1.001, 2)
    time.spend(cells)
    assert time.allows(cells * 0.999, 1)
    assert not time.allows(cells * 0.999, 2)
    assert FitTime(None).allows(1e12, 1e6)


@pytest.mark.parametrize("make", [JamPgm, Aim])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), "soon"])
def test_a_limit_of_time_is_positive(make: Any, seconds: Any) -> None:
    with pytest.raises(OptionError, match="seconds"):
        make(seconds=seconds)


def test_counts_of_a_limited_run_are_charged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit changes which marginals can be chosen, not what a round may spend."""
    run = Watched(JamPgm(rounds=5, seconds=1e-9), monkeypatch, epsilon=4.0)
    measured = [e.statistic for e in run.curator.events if isinstance(e, Gaussian)]
    assert all(isinstance(s, Counts) and len(s.marginal) == 1 for s in measured)
    assert sum(e.rho for e in run.curator.events) <= run.curator.rho
