"""MST (McKenna, Miklau & Sheldon 2021): the pairs of a maximum spanning tree; no public data, no workload.

A third of the budget measures every one-way marginal; a third chooses the edges of a tree by Kruskal's rule, each with
the exponential mechanism, by how far a pair is from the model of the one-way marginals; a third measures them. Values
that the one-way marginals show to be rare are merged in pairs (compression.py).
"""

import itertools

import numpy as np

from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    measured_one_by_one,
    option,
    register,
)
from openprior.methods.shared.compression import Compression
from openprior.methods.shared.growing import GrowingModel, check_size, within_reach
from openprior.models.base import Model
from openprior.privacy.curator import Curator
from openprior.privacy.scores import L1Score
from openprior.progress import phase
from openprior.questions.workload import Marginal, Workload
from openprior.tables.table import Table

__all__ = ["Mst"]


@register("mst")
class Mst(Mechanism):
    """A tree of the most dependent pairs of columns."""

    good_for = "many columns and little budget, without a public table; pairs matter most"
    public_table = PublicTable.NOT_USED

    size_limit: float = option(
        default=80.0, doc="largest table of a pair, in megabytes; larger pairs are left out"
    )
    compress: bool = option(
        default=True,
        doc="merge values that are too rare to be told from noise before pairs are chosen and measured",
    )

    def __post_init__(self) -> None:
        check(self.size_limit > 0, f"size_limit ({self.size_limit}) must be positive")

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """The one-way marginals, the tree, its pairs; neither the public table nor the workload is looked at."""
        domain = curator.domain
        total = float(curator.n) if curator.unit.n_is_public else None
        check_size(domain, self.size_limit)
        singles: list[Marginal] = [(a,) for a in domain]
        pairs = within_reach(domain, itertools.combinations(domain, 2), self.size_limit)
        curator.announce([*singles, *pairs])
        edges = _most_edges(domain.attributes, pairs)
        share = curator.remaining / (3 if edges else 1)
        first = measured_one_by_one(curator, singles, share / len(singles))
        values = Compression.told(curator, first) if self.compress and edges else Compression(domain)
        growing = GrowingModel(domain, total, rng, size_limit=self.size_limit, compression=values)
        with phase("fitting"):
            growing.measured(*first)
        if not edges:
            return growing.finish()
        model = growing.answers(pairs)
        tree: list[Marginal] = []
        for done in range(edges):
            progress(done, edges, "choosing pairs of columns")
            open_pairs = [p for p in pairs if _most_edges(domain.attributes, [*tree, p]) > len(tree)]
            scores = [L1Score(p, ((1.0, model[p]),), merging=values.merging(p)) for p in open_pairs]
            tree.append(open_pairs[curator.select(scores, share / edges)])
        progress(edges, edges, "choosing pairs of columns")
        each = curator.remaining / edges
        second = measured_one_by_one(
            curator, [values.statistic(p) for p in tree], each, "measuring pairs of columns"
        )
        with phase("fitting"):
            growing.measured(*second)
        return growing.finish()

    def outlay(self, sizes: Sizes) -> Outlay:
        """Every pair is scored for every edge; then a few are fitted, whatever the workload, and rows drawn."""
        domain = sizes.layout.domain
        cells = sum(domain[a] * domain[b] for a, b in itertools.combinations(domain, 2))
        scoring, fitting = (
            1e-4 * sizes.columns * sizes.pairs,
            4e-5 * sizes.columns * cells / max(sizes.pairs, 1),
        )
        return Outlay(0.05 + scoring + fitting + 8e-7 * sizes.rows, 30.0)


def _most_edges(attributes: tuple[str, ...], pairs: list[Marginal]) -> int:
    """How many of the pairs a spanning forest can have.

    >>> _most_edges(("a", "b", "c"), [("a", "b"), ("b", "c"), ("a", "c")])
    2
    """
    home = {a: a for a in attributes}
    edges = 0
    for a, b in pairs:
        if home[a] != home[b]:
            edges += 1
            old, new = home[b], home[a]
            home = {k: new if v == old else v for k, v in home.items()}
    return edges
