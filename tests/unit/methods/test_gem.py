"""gem and gem-pub: the paper's budget and noise, steps that bring answers closer, and one run per seed."""

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openprior as op
from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.gem import Gem
from openprior.methods.gem_pub import GemPub
from openprior.methods.shared.generative import Training, rounds_for
from openprior.methods.shared.known_answers import KnownAnswers, all_answers
from openprior.models.base import Model
from openprior.models.neural import Network
from openprior.privacy.events import Event, Exponential, Gaussian
from openprior.privacy.fake import FakeCurator, NoNoise
from openprior.privacy.noise import SeededNoise
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from tests.conftest import PRIVATE, PUBLIC, quiet

WORK = all_marginals(2).on(PRIVATE.domain)
CELLS = Cells(PRIVATE.domain, WORK.marginals)
SMALL: dict[str, Any] = {"batch": 16, "steps": 20, "rate": 0.05}
HIDDEN = (4,)
"""The same everywhere, as the batch is: compiling takes longest."""
TRUTH = count_table(PRIVATE, WORK.marginals)

pytestmark = pytest.mark.filterwarnings("ignore:Not measured:openprior.errors.OpenPriorWarning")


def fit(mechanism: Any, *, seed: int | None = None, **more: Any) -> tuple[FakeCurator, Model]:
    noise = None if seed is None else SeededNoise(seed)
    curator = FakeCurator(PRIVATE, noise=noise, **more)
    return curator, mechanism.run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)


def error(model: Model) -> float:
    answers = model.answers(WORK.marginals)
    return float(np.mean([np.abs(answers[m] - TRUTH[m]).sum() / PRIVATE.n for m in WORK.marginals]))


@pytest.mark.parametrize("variant", ["queries", "marginals"])
def test_the_budget_and_the_noise_are_the_papers(variant: str) -> None:
    rounds, alpha = 4, 0.67
    curator, _ = fit(Gem(rounds=rounds, variant=variant, alpha=alpha, **SMALL))
    first = np.sqrt(2 * curator.rho / (rounds * (alpha**2 + (1 - alpha) ** 2)))
    chosen = [e for e in curator.events if isinstance(e, Exponential)]
    measured = [e for e in curator.events if isinstance(e, Gaussian)]
    assert len(chosen) == len(measured) == rounds
    # The exponential mechanism at 2αε₀; σ = Δ₂/((1 − α)ε₀) in rows, with Δ₂ = 1 for a cell and √2 for a marginal.
    assert [e.epsilon for e in chosen] == pytest.approx([2 * alpha * first] * rounds)
    size = 1.0 if variant == "queries" else np.sqrt(2)
    assert [e.sigma for e in measured] == pytest.approx([size / ((1 - alpha) * first)] * rounds)
    assert sum(e.cost(Unit(), pure=False) for e in curator.events) == pytest.approx(curator.rho)
    assert sum(e.rho for e in curator.events) <= curator.rho * (1 + 1e-12)


@pytest.mark.parametrize("variant", ["queries", "marginals"])
def test_nothing_is_selected_twice_and_rounds_end_with_the_candidates(variant: str) -> None:
    many = Gem(rounds=100, variant=variant, batch=16, steps=1)
    curator, _ = fit(many, epsilon=5.0, seed=1)
    measured = [str(e.to_dict() | {"sigma": 0, "rho": 0}) for e in curator.events if isinstance(e, Gaussian)]
    candidates = len(CELLS) if variant == "queries" else len(WORK.marginals)
    assert len(set(measured)) == len(measured) == min(candidates, 100)


class Upside(NoNoise):
    """Measurements come out the wrong way round, and selections as they should."""

    def gaussian(self, counts: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return counts[::-1].copy()


def test_the_guard_has_its_share_and_keeps_the_pretrained_where_learning_leads_astray() -> None:
    ends = {}
    for noise in (NoNoise(), Upside()):
        curator = FakeCurator(PRIVATE, noise=noise, epsilon=5.0)
        mechanism = GemPub(rounds=6, guard=0.1, **SMALL)
        ends[type(noise)] = mechanism.run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
        assert curator.events[-1].rho == pytest.approx(0.1 * curator.rho)
        assert len(curator.events) == 13
    start, _ = fit(GemPub(rounds=6, guard=0.0, **SMALL))
    assert len(start.events) == 12
    public = count_table(PUBLIC, WORK.marginals)
    near = [ends[kind].answers(WORK.marginals) for kind in (Upside, NoNoise)]
    kept, learnt = (
        np.mean([np.abs(a[m] / PRIVATE.n - public[m] / PUBLIC.n).sum() for m in WORK.marginals]) for a in near
    )
    assert kept < 0.7 * learnt  # to the public table
    assert error(ends[NoNoise]) < 0.7 * error(ends[Upside])


@pytest.mark.parametrize("variant", ["queries", "marginals"])
def test_learning_brings_the_answers_closer(variant: str) -> None:
    few, many = (fit(Gem(rounds=t, variant=variant, **SMALL), epsilon=50.0)[1] for t in (1, 24))
    assert error(many) < 0.7 * error(few)
    start, learnt = (
        fit(GemPub(rounds=t, variant=variant, guard=0.0, **SMALL), epsilon=50.0)[1] for t in (1, 24)
    )
    assert error(learnt) < 0.7 * error(start)


def test_public_rows_are_a_better_start_than_none() -> None:
    assert error(fit(GemPub(rounds=1, **SMALL))[1]) < 0.7 * error(fit(Gem(rounds=1, **SMALL))[1])


def test_with_hidden_layers_it_is_pretrained_query_by_query() -> None:
    options: dict[str, Any] = SMALL | {"rounds": 1, "hidden": HIDDEN, "guard": 0.0, "rate": 0.005}
    public = count_table(PUBLIC, WORK.marginals)

    def largest(network: Network) -> float:
        answers = CELLS.split(all_answers(network, CELLS))
        return float(max(np.abs(answers[m] - public[m] / PUBLIC.n).max() for m in WORK.marginals))

    network = Network(PRIVATE.domain, 16, HIDDEN, np.random.default_rng(0))
    before = largest(network)
    GemPub(epochs=30, **options)._pretrain(network, CELLS, PUBLIC)
    assert largest(network) < 0.5 * before
    assert fit(GemPub(epochs=2, **options))[1].total == PRIVATE.n


@pytest.mark.parametrize("hidden", [(), HIDDEN])
def test_steps_lower_the_loss_on_what_is_known(hidden: tuple[int, ...]) -> None:
    network, known = Network(PRIVATE.domain, 16, hidden, np.random.default_rng(1)), KnownAnswers(CELLS)
    for marginal in WORK.marginals[:2]:
        known.add(marginal, np.arange(len(TRUTH[marginal])), TRUTH[marginal] / PRIVATE.n)
    before = known.errors(network)
    # The answers of the network are those of its mixture, and those of every cell asked for by its columns.
    columns, answers = known.queries(np.arange(len(before)))
    shares, values = network.mixture()
    asked = np.concatenate([values, np.ones((len(values), 1))], axis=1)[:, columns].prod(axis=2)
    np.testing.assert_allclose(np.abs(shares @ asked - answers), before, atol=1e-6)
    loss = network.fitting(0.05, 1).go(columns, answers, 0.0, 1, 100)
    assert loss == pytest.approx(float(before.mean()), rel=1e-4)
    known.fit(network, known.errors(network), least=0.0, rate=0.05, steps=60, most=100)
    assert known.errors(network).mean() < 0.5 * before.mean()
    same = network.weights
    known.fit(network, known.errors(network), least=1.0, rate=0.05, steps=60, most=100)
    assert network.weights is same  # nothing is off by that much


@pytest.mark.parametrize("mechanism", [Gem(rounds=3, hidden=HIDDEN, **SMALL), GemPub(rounds=3, **SMALL)])
def test_one_seed_is_one_run(mechanism: Any) -> None:
    (first, one), (_, again) = (fit(mechanism, seed=5) for _ in range(2))
    for marginal in WORK.marginals:
        assert (one.answers([marginal])[marginal] == again.answers([marginal])[marginal]).all()
    other, _ = fit(mechanism, seed=6)
    assert kinds(first.events) == kinds(other.events)


def kinds(events: tuple[Event, ...]) -> list[str]:
    return [e.kind for e in events]


def test_the_number_of_rows_is_measured_where_it_is_private() -> None:
    curator, model = fit(GemPub(rounds=2, **SMALL), seed=3, unit=Unit(Relation.ADD_REMOVE, 2))
    assert curator.events[0].to_dict()["statistic"] == "total"
    assert model.total != PRIVATE.n


def test_columns_that_were_not_measured_are_uniform_and_said() -> None:
    curator = FakeCurator(PRIVATE)
    with pytest.warns(OpenPriorWarning, match="Not measured.*: c, d"):
        model = Gem(rounds=1, **SMALL).run(
            curator, None, op.Workload([("a", "b")]).on(PRIVATE.domain), np.random.default_rng(0), quiet
        )
    np.testing.assert_allclose(model.answers([("d",)])[("d",)], PRIVATE.n / 5)


def test_rounds_follow_the_budget() -> None:
    how = Training("marginals", 0.5, 100, 0.01)
    # A cell may have noise of σ = 4 rows, and half of ρ measures: T = σ²ρ.
    assert [rounds_for(4.0, rho, how) for rho in (0.01, 0.4, 6.3)] == [1, 6, 100]
    assert [rounds_for(400.0, 1.0, how), rounds_for(400.0, 1.0, how, 200)] == [150, 200]
    assert rounds_for(0.2, 1e-9, how, 7) == 7


@pytest.mark.parametrize("mechanism", [Gem(), GemPub()])
@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_without_the_extra_it_says_so_before_any_charge(
    mechanism: Any, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    curator = FakeCurator(PRIVATE)
    with pytest.raises(OptionError, match=rf"{missing}.*pip install 'openprior\[neural\]'$"):
        mechanism.run(curator, PUBLIC, WORK, np.random.default_rng(0), quiet)
    assert not curator.events
    assert {"gem", "gem-pub"} <= set(op.mechanisms())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 1.0}, "alpha (1.0) must be between 0 and 1"),
        ({"batch": 0}, "batch (0) must be from 1"),
        ({"hidden": (8, 0)}, "hidden ((8, 0)) must be sizes from 1"),
        ({"steps": 0}, "steps (0) must be at least 1"),
        ({"rate": 0.0}, "rate (0.0) must be above 0"),
        ({"pretraining": "classes", "hidden": (4,)}, "leave out hidden"),
        ({"epochs": 0}, "epochs (0) must be at least 1"),
        ({"guard": 1.0}, "guard (1.0) must be at least 0"),
    ],
)
def test_options_outside_their_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        GemPub(**options)
    assert words in str(refused.value)


def test_hidden_layers_as_text() -> None:
    from openprior.methods.mechanism_text import make_mechanism

    assert make_mechanism("gem", ["hidden=512,1024,1024"]) == Gem(hidden=(512, 1024, 1024))
    with pytest.raises(OptionError, match="write numbers"):
        make_mechanism("gem", ["hidden=wide"])


def test_wide_domains_are_answered_as_narrow_ones() -> None:
    """Columns beyond one padded block, and queries of more attributes than the padding has."""
    domain = Domain({**{f"x{i}": 30 for i in range(3)}, **{f"y{i}": 2 for i in range(4)}})
    cells = Cells(domain, [("x0", "x2"), ("x0", "y0", "y1", "y2", "y3")])
    network, known = Network(domain, 16, (), np.random.default_rng(0)), KnownAnswers(cells)
    answers = all_answers(network, cells)
    deep = cells.split(answers)[cells.marginals[1]]
    known.add(cells.marginals[1], np.arange(480), np.zeros(480))
    columns, zeros = known.queries(np.arange(480))
    loss = network.fitting(0.01, 1).go(columns, zeros, 0.0, 1, 500)
    assert deep.sum() == pytest.approx(1.0, rel=1e-5)
    assert loss == pytest.approx(float(deep.mean()), rel=1e-4)
