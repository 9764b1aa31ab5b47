"""GEM^Pub (Liu, Vietri & Wu 2021, §4.2): GEM from a generator that was pretrained on the public table.

Pretraining costs nothing. As published, each epoch adds the worst public query and fits all those added so far. Where
the mixture itself is learnt, it starts as a latent-class mixture of the public rows, which takes a second instead of
minutes.
"""

import numpy as np

from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    one_of,
    option,
    register,
)
from openprior.methods.gem import check_training, training_outlay
from openprior.methods.shared.generative import WORST, Training, finished, rounds_for, run_generator
from openprior.methods.shared.guard import keep_better
from openprior.methods.shared.known_answers import KnownAnswers, all_answers
from openprior.models.base import Model
from openprior.models.neural import Network, need_neural
from openprior.models.prior.classes import fit_classes
from openprior.privacy.curator import Curator
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.workload import Workload
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["GemPub"]

PRETRAININGS = ("automatic", "classes", "queries")
_PATIENCE, _CLOSE = 100, 0.001
"""Epochs without gain after which the learning rate is halved, and the largest error at which pretraining ends."""
_ROWS = 20_000
"""Public rows that classes are fitted to, at most."""
_VERDICTS = (
    "The guard kept what was learnt from the private table.",
    "The guard kept the pretrained generator: learning did not seem to bring it closer to the private table.",
)


@register("gem-pub")
class GemPub(Mechanism):
    """Train a generator on the public table, then on the worst answers about the private one."""

    good_for = "a public table that lacks some of the private rows; comparison with the published curves"
    public_table = PublicTable.NEEDED

    rounds: int | None = option(default=None, doc="number of rounds T; if not given, 1 to 150, by the budget")
    variant: str = option(
        default="marginals", doc="marginals | queries: whether a round measures a whole marginal or one cell"
    )
    alpha: float = option(default=0.4, doc="share of ε₀ that selects; 0.67 as published")
    batch: int = option(default=256, doc="product distributions in the mixture; 1000 as published")
    hidden: tuple[int, ...] = option(
        default=(),
        doc="sizes of hidden layers, 512,1024,1024 as published; without any the mixture itself is learnt",
    )
    steps: int = option(default=100, doc="most steps of Adam in a round, or an epoch of pretraining")
    rate: float = option(default=0.003, doc="learning rate at the first step of a round; 0.0001 as published")
    pretraining: str = option(
        default="automatic",
        doc="automatic | classes | queries: public classes where there are no hidden layers, else query by query",
    )
    epochs: int = option(default=500, doc="most epochs of pretraining query by query")
    guard: float = option(
        default=0.05, doc="share of the budget for a last check that learning helped; 0 as published"
    )

    def __post_init__(self) -> None:
        check_training(self.rounds, self._how, self.batch, self.hidden)
        one_of("pretraining", self.pretraining, PRETRAININGS)
        check(
            self.pretraining != "classes" or not self.hidden,
            "pretraining 'classes' has no hidden layers; leave out hidden, or use 'queries'",
        )
        check(self.epochs >= 1, f"epochs ({self.epochs}) must be at least 1")
        check(0 <= self.guard < 1, f"guard ({self.guard}) must be at least 0 and below 1")

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """The extra must be there, and classes have a limit of values."""
        need_neural(self.name)
        if self._classes:
            _check_classes(domain)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Pretraining, the rounds of GEM, and the guard."""
        rows = self.need_public(public)
        need_neural(self.name)
        cells = Cells(curator.domain, workload.marginals)
        network = Network(curator.domain, self.batch, self.hidden, rng)
        if self._classes:
            _fit_classes(network, rows, self.batch, rng)
        else:
            self._pretrain(network, cells, rows)
        total = known_total(curator)
        kept = self.guard * curator.remaining
        rho, start = curator.remaining - kept, finished(network, total, workload)
        rounds = self.rounds or rounds_for(_noise(total), rho, self._how)
        run_generator(curator, network, cells, total, rho, rounds, self._how, progress)
        learnt = finished(network, total, workload)
        if not kept:
            return learnt
        answers = [model.answers(workload.marginals) for model in (learnt, start)]
        chosen = keep_better(curator, answers, workload, curator.remaining)
        curator.remark(_VERDICTS[chosen])
        return (learnt, start)[chosen]

    def outlay(self, sizes: Sizes) -> Outlay:
        """By the number of rounds, and of epochs where there are any."""
        rounds = self.rounds or rounds_for(_noise(sizes.rows), (1 - self.guard) * sizes.rho, self._how)
        epochs = 0 if self._classes else self.epochs
        return training_outlay(sizes, self._how, rounds + epochs, self.batch, self.hidden)

    @property
    def _how(self) -> Training:
        return Training(self.variant, self.alpha, self.steps, self.rate)

    @property
    def _classes(self) -> bool:
        return self.pretraining == "classes" or (self.pretraining == "automatic" and not self.hidden)

    def _pretrain(self, network: Network, cells: Cells, rows: Table) -> None:
        """Query by query: each epoch adds the worst, and fits those that are off by half of that or more."""
        counts = count_table(rows, cells.marginals)
        truth = np.concatenate([counts[m] for m in cells.marginals]).astype(np.float32) / rows.n
        known, added = KnownAnswers(cells), np.zeros(len(cells), np.bool_)
        rate, best, since = self.rate, np.inf, 0
        with phase("pretraining on the public table", self.epochs) as work:
            for _ in range(min(self.epochs, len(cells))):
                errors = np.abs(all_answers(network, cells) - truth)
                largest = float(errors.max())
                if largest < _CLOSE:
                    return
                best, since = (largest, 0) if largest < best else (best, since + 1)
                if since == _PATIENCE:
                    rate, since = rate / 2, 0
                worst = int(np.argmax(np.where(added, -1.0, errors)))
                added[worst] = True
                marginal, cell = cells.locate(worst)
                known.add(marginal, np.array([cell]), truth[worst : worst + 1])
                errors = known.errors(network)
                known.fit(network, errors, least=largest / 2, rate=rate, steps=self.steps, most=WORST)
                work.advance()


def _noise(total: float) -> float:
    """In rows, that the cells of a measured marginal may have."""
    return float(0.04 * total ** (2 / 3))


def _check_classes(domain: Domain) -> None:
    values = max(domain.shape)
    check(values <= 1 << 16, "a column has more than 65536 values; leave it out, or give it fewer bins")


def _fit_classes(network: Network, rows: Table, count: int, rng: np.random.Generator) -> None:
    """Start the mixture as the classes of the public rows, or of some of them."""
    sizes = rows.domain.shape
    _check_classes(rows.domain)
    some = rows if rows.n <= _ROWS else rows.take(np.sort(rng.choice(rows.n, _ROWS, replace=False)))
    codes = np.stack(some.columns, axis=1).astype(np.uint16)
    with phase("fitting classes to the public table"):
        classes = fit_classes(codes, np.array(sizes, np.int64), count, rng)
    network.start_from(classes.shares.astype(np.float32), classes.values)
