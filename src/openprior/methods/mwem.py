"""MWEM (Hardt, Ligett & McSherry 2012): the same rounds over the full domain, and no public data.

The domain is enumerated when it fits; a workload that falls into disjoint groups of attributes is learnt in factored
form, one distribution per group, and so are groups that the user names (queries across groups are then answered
as if the groups were independent).
"""

import math
from collections.abc import Iterable

import numpy as np

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
from openprior.methods.shared.multiplicative import (
    NOISES,
    OUTPUTS,
    SELECTIONS,
    Rounds,
    rounds_if,
    run_rounds,
    spread,
)
from openprior.models.base import Model
from openprior.models.product import ProductModel
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.privacy.curator import Curator
from openprior.questions.workload import Marginal, Workload, canonical, closure
from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for

__all__ = ["Mwem"]

_FROM_UNIFORM = 0.1
"""The error of some query that stays for most of the rounds, as a share of the table."""


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

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        one_of("selection", self.selection, SELECTIONS)
        one_of("noise", self.noise, NOISES)
        one_of("output", self.output, OUTPUTS)
        check(self.max_cells >= 2, f"max_cells ({self.max_cells}) must be at least 2")
        named = [a for g in self.groups or () for a in g]
        check(len(set(named)) == len(named), "groups must be disjoint; a column is in two of them")

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """MWEM on each group's enumerated domain; the public table is not looked at."""
        domain = curator.domain
        groups = self._groups(domain, workload)
        factors = []
        for group in groups:
            rows = enumerate_domain(domain.project(group), self.max_cells)
            factors.append(MultiplicativeWeights(rows, np.ones(rows.n), _inside(workload, group)))
        total = known_total(curator)
        how = Rounds(0.5, self.replay, self.output, self.selection, self.noise, "all")
        learnt = run_rounds(
            curator, factors, total, spread(curator.remaining, self.rounds), how, rng, progress
        )
        leave_uniform(curator, groups, "Name them in the workload or in a group, or drop them")
        models = [SupportModel(f.rows, w, total) for f, w in zip(factors, learnt, strict=True)]
        return models[0] if groups == [domain.attributes] else ProductModel(domain, models, total)

    def outlay(self, sizes: Sizes) -> Outlay | None:
        """Every round looks at all enumerated cells; a table is usually far from uniform, where the rounds begin."""
        sizes_of_groups = [
            sizes.layout.domain.size(g) for g in self._groups(sizes.layout.domain, sizes.workload)
        ]
        if max(sizes_of_groups) > self.max_cells:
            return None
        cells = sum(sizes_of_groups)
        rounds = self.rounds or rounds_if(_FROM_UNIFORM, sizes, sizes.rho)
        return Outlay(0.02 + rounds * (0.001 + 2e-8 * cells), 1e-4 * cells)

    def _groups(self, domain: Domain, workload: Workload) -> list[Marginal]:
        if self.groups:
            return [canonical(g, domain) for g in self.groups]
        if domain.size() <= self.max_cells:
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


def enumerate_domain(domain: Domain, max_cells: int) -> Table:
    """Every combination of values as a row."""
    if domain.size() > max_cells:
        raise MarginalTooLarge(
            f"mwem would enumerate {domain.size():.3g} cells of {' × '.join(domain)}, more than max_cells = "
            f"{max_cells:,}; name disjoint groups, use fewer columns, or a method with a public table"
        )
    columns = []
    for i, size in enumerate(domain.shape):
        values = np.arange(size, dtype=dtype_for(size))
        columns.append(
            np.tile(np.repeat(values, math.prod(domain.shape[i + 1 :])), math.prod(domain.shape[:i]))
        )
    return Table(domain, tuple(columns))
