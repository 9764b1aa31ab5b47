"""MWEM (Hardt, Ligett & McSherry 2012): the same rounds over the full domain, and no public data.

The domain is enumerated when it fits; a workload that falls into disjoint groups of attributes is learnt in factored
form, one distribution per group, and so are groups that the user names (queries across groups are then answered
as if the groups were independent). With `support` the weights are on rows drawn at random from the domain, of any size:
MWEM (C) of MWEM+PUB's paper. The draw looks at nothing private.

Privacy: the number of rows, the counts to start from and the rounds are all steps of the curator, which charges each;
their shares are fixed beforehand and add up to the budget at most. The rest is post-processing. ∎
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.errors import MarginalTooLarge
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    known_total,
    leave_uniform,
    one_of,
    option,
    register,
)
from openprior.methods.shared.advanced import advanced_rounds
from openprior.methods.shared.multiplicative import (
    CANDIDATES,
    NOISES,
    OUTPUTS,
    SELECTIONS,
    Rounds,
    rounds_if,
    run_rounds,
    spread,
)
from openprior.methods.shared.random_rows import random_rows
from openprior.methods.shared.schedule import Schedule
from openprior.models.base import Model
from openprior.models.product import ProductModel
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, Workload, canonical, closure
from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for

__all__ = ["Mwem"]

_FROM_UNIFORM = 0.1
"""The error of some query that stays for most of the rounds, as a share of the table."""
_FAR = 0.5
"""The same on rows drawn at random, most of which no private row is like."""


@register("mwem")
class Mwem(Mechanism):
    """Multiplicative weights from the uniform distribution on the whole domain."""

    good_for = "small domains (up to millions of cells) or small groups of columns learnt apart; needs no public table"
    public_table = PublicTable.NOT_USED

    rounds: int | None = option(
        default=None,
        doc="number of rounds T; if not given, cheap ones first and dearer ones as errors sink into noise",
    )
    groups: tuple[tuple[str, ...], ...] | None = option(
        default=None,
        doc="disjoint groups of columns to learn apart, e.g. 'age,sex;income,hours'; by default as the workload needs",
    )
    selection: str = option(
        default="exponential", doc="exponential | permute-and-flip, both at the same cost"
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace, both at the same cost")
    output: str = option(default="last", doc="last | average of all iterates")
    replay: bool = option(default=True, doc="apply earlier measurements again while they are still wrong")
    max_cells: int = option(default=4_000_000, doc="largest domain (of one group) to enumerate")
    support: int | None = option(
        default=None, doc="rows drawn at random from the domain to put the weights on; all of it if not given"
    )
    candidates: str = option(
        default="reachable", doc="reachable | all queries; the weights cannot move the others"
    )
    step: float = option(default=0.5, doc="length of an update; 1 in the paper of mwem-pub")
    clip: bool = option(default=True, doc="bring noisy answers into [0, 1] before they are fitted")
    calibration: str = option(
        default="zcdp", doc="zcdp | advanced: equal rounds of Laplace noise, calibrated as mwem-pub does"
    )
    start_counts: float = option(
        default=0.0,
        doc="share of the budget for a noisy count of every combination, to start from; 0: uniform",
    )

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        one_of("selection", self.selection, SELECTIONS)
        one_of("noise", self.noise, NOISES)
        one_of("output", self.output, OUTPUTS)
        one_of("candidates", self.candidates, CANDIDATES)
        one_of("calibration", self.calibration, ("zcdp", "advanced"))
        check(self.max_cells >= 2, f"max_cells ({self.max_cells}) must be at least 2")
        check(self.support is None or self.support >= 1, f"support ({self.support}) must be at least 1")
        check(self.step > 0, f"step ({self.step}) must be positive; 0.5 is the usual one")
        check(
            0 <= self.start_counts < 1, f"start_counts ({self.start_counts}) must be at least 0 and below 1"
        )
        named = [a for g in self.groups or () for a in g]
        check(len(set(named)) == len(named), "groups must be disjoint; a column is in two of them")
        check(
            self.calibration == "zcdp" or (self.rounds is not None and self.noise == "laplace"),
            "calibration = advanced needs a number of rounds and noise = laplace; give both",
        )
        check(
            self.support is None or not self.start_counts,
            "start_counts counts every combination, and support draws some; give one of them",
        )

    @classmethod
    def published(cls, rounds: int = 20, *, support: int | None = None) -> "Mwem":
        """As MWEM+PUB's paper runs it, on the whole domain or, MWEM (C), on `support` rows drawn from it."""
        return cls(
            rounds=rounds,
            support=support,
            noise="laplace",
            calibration="advanced",
            candidates="all",
            replay=False,
            step=1.0,
            clip=False,
        )

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """Groups that name a key, and too many combinations, are refused."""
        for group in self._groups(domain, workload):
            if self.support is None:
                _check_size(domain.project(group), self.max_cells)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """MWEM on each group's rows; the public table is not looked at."""
        domain = curator.domain
        groups = self._groups(domain, workload)
        if self.start_counts:
            Cells(
                domain, [*groups, *workload.marginals]
            )  # refused here, before a charge, if there are too many
            curator.announce(groups)
        factors = []
        for group in groups:
            rows = self._rows(domain.project(group), rng)
            factors.append(MultiplicativeWeights(rows, np.ones(rows.n), _inside(workload, group)))
        total = known_total(curator)
        self._start(curator, factors, total)
        how = Rounds(
            step=self.step,
            clip=self.clip,
            replay=self.replay,
            output=self.output,
            selection=self.selection,
            noise=self.noise,
            candidates=self.candidates,
        )
        learnt = run_rounds(curator, factors, total, self._schedule(curator), how, rng, progress)
        leave_uniform(curator, groups, "Name them in the workload or in a group, or drop them")
        if self.support is not None:
            curator.remark(_support_in_words(domain, groups, factors))
        models = [SupportModel(f.rows, w, total) for f, w in zip(factors, learnt, strict=True)]
        return models[0] if groups == [domain.attributes] else ProductModel(domain, models, total)

    def _rows(self, domain: Domain, rng: np.random.Generator) -> Table:
        """What the weights are on."""
        if self.support is None:
            return enumerate_domain(domain, self.max_cells)
        return random_rows(domain, self.support, rng)

    def _start(self, curator: Curator, factors: list[MultiplicativeWeights], total: float) -> None:
        """Where the weights start, if not uniform: at noisy counts, for their share of what is left."""
        rho = self.start_counts * curator.remaining / len(factors)
        for factor in factors if rho else ():
            measured = curator.measure(Counts(factor.rows.domain.attributes), rho, noise=self.noise)
            factor.restart(_weights_from(measured, total))

    def _schedule(self, curator: Curator) -> Schedule:
        if self.calibration == "zcdp" or self.rounds is None:
            return spread(curator.remaining, self.rounds)
        share = 1 - self.start_counts
        return advanced_rounds(curator, self.rounds, selection=self.selection, share=share)

    def outlay(self, sizes: Sizes) -> Outlay | None:
        """Every round looks at all enumerated cells; a table is usually far from uniform, where the rounds begin. On
        rows drawn at random a round is that of pmw-pub, and errors stay large."""
        if self.support is not None:
            return self._outlay_of_drawn(sizes, self.support)
        sizes_of_groups = [
            sizes.layout.domain.size(g) for g in self._groups(sizes.layout.domain, sizes.workload)
        ]
        if max(sizes_of_groups) > self.max_cells:
            return None
        cells = sum(sizes_of_groups)
        rounds = self.rounds or rounds_if(_FROM_UNIFORM, sizes, sizes.rho)
        counted = 2.5e-5 * cells if self.start_counts else 0.0
        return Outlay(0.02 + counted + rounds * (0.001 + 2e-8 * cells), 1e-4 * cells)

    def _outlay_of_drawn(self, sizes: Sizes, support: int) -> Outlay:
        looked_at = (2e-8 if self.candidates == "all" else 6e-9) * sizes.cells
        each = 0.001 + looked_at + (1e-5 + 1e-9 * support) * sizes.marginals
        rounds = self.rounds or rounds_if(_FAR, sizes, sizes.rho)
        return Outlay(0.05 + rounds * each, 50e-6 * sizes.cells + 1e-6 * support * (40 + sizes.columns))

    def _groups(self, domain: Domain, workload: Workload) -> list[Marginal]:
        if self.groups:
            return [canonical(g, domain) for g in self.groups]
        if self.support is not None or domain.size() <= self.max_cells:
            return [domain.attributes]
        return [canonical(g, domain) for g in _components(workload.marginals)]


def _components(marginals: Iterable[Marginal]) -> list[set[str]]:
    """Attributes that marginals link, directly or through others."""
    parts: list[set[str]] = []
    for marginal in marginals:
        linked = [p for p in parts if p & set(marginal)]
        parts = [p for p in parts if not p & set(marginal)] + [set(marginal).union(*linked)]
    return parts


def _inside(workload: Workload, group: Marginal) -> list[Marginal]:
    """The workload's marginals inside a group; where it cuts them, their largest parts; its columns at least."""
    parts = {tuple(a for a in m if a in group) for m in workload.marginals} - {()}
    largest = [p for p in parts if not any(set(p) < set(q) for q in parts)]
    return sorted(largest) or list(closure([group]))[: len(group)]


def _check_size(domain: Domain, max_cells: int) -> None:
    """Raise if there are more combinations than may be enumerated."""
    if domain.size() > max_cells:
        raise MarginalTooLarge(
            f"mwem would enumerate {_about(domain.size())} cells of {' × '.join(domain)}, more than max_cells = "
            f"{max_cells:,}; name disjoint groups, give support = 10000 to draw rows, or use another method"
        )


def enumerate_domain(domain: Domain, max_cells: int) -> Table:
    """Every combination of values as a row."""
    _check_size(domain, max_cells)
    columns = []
    for i, size in enumerate(domain.shape):
        values = np.arange(size, dtype=dtype_for(size))
        columns.append(
            np.tile(np.repeat(values, math.prod(domain.shape[i + 1 :])), math.prod(domain.shape[:i]))
        )
    return Table(domain, tuple(columns))


def _weights_from(measured: Measurement, total: float) -> NDArray[np.float64]:
    """Noisy counts of every combination as weights to start from.

    Most combinations of a large domain are empty, and their noise would add up to more than the table. So counts that
    noise alone does not reach stay as they are, and what they leave of all rows, one row at least, is spread evenly
    over the others: no combination is without weight, as no round could give it back.
    """
    counts = measured.values
    chances = math.log(len(counts))
    scales = chances / math.sqrt(2) if measured.noise == "laplace" else math.sqrt(2 * chances)
    sure = counts > scales * measured.sigma
    others = int(np.count_nonzero(~sure))
    spared = max(total - float(counts[sure].sum()), 1.0)
    return np.where(sure, counts, spared / max(others, 1))


def _support_in_words(domain: Domain, groups: list[Marginal], factors: list[MultiplicativeWeights]) -> str:
    """A remark that the certificate should have: what is on no row of the support cannot be learnt."""
    sizes = [
        f"{f.rows.n:,} rows drawn at random of {_about(domain.size(g))}"
        for g, f in zip(groups, factors, strict=True)
    ]
    return f"The weights are on {' and '.join(sizes)} combinations of values."


def _about(size: int) -> str:
    """A number of combinations, which may be beyond what a double holds."""
    return f"{size:.3g}" if size < 10**300 else "more than 1e+300"
