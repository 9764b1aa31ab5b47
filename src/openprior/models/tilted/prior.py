"""The prior p₀: classes, anchors and networks of the public table, in the shares that predict held-out rows best.

Shares are judged by what will be asked: on public rows that were left out, the squared error of the marginals, each
cell divided by its mass. The likelihood of whole rows, which would be the other choice, is decided by the rarest of
them and takes the networks alone even where an equal mixture answers marginals better (measured: ADULT 0.157 → 0.144).
Public rows only, so all of this is free. Without a public table the prior is uniform.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.models.tilted.classes import Classes, fit_classes
from openprior.models.tilted.moves import PriorArrays, draw
from openprior.models.tilted.network import Networks, fit_networks
from openprior.progress import Phase, phase
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Prior", "fit_prior", "smooth_draws", "uniform_prior"]

Codes = NDArray[np.uint16]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_REDRAWS = (0.1, 0.2, 0.35)
"""h, the probability with which an anchor's attribute is redrawn."""
_FOLDS, _USED_FOLDS = 5, 3
_LAST, _JUDGING = 8, 2
"""Steps of progress that fitting classes is worth, and judging one kind, where trying an order of a network is one."""
_JUDGES = 200
"""Marginals that shares are judged by."""
_DRAWS = 50_000
_ROWS = 30_000
"""Public rows that classes and shares are learnt from; anchors and conditionals use all."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior ready to be drawn from."""

    arrays: PriorArrays
    rows: int
    """The public rows behind it; 0 for the uniform prior."""
    shares: tuple[float, float, float]
    """Classes, anchors, networks."""


def fit_prior(public: Table, marginals: Sequence[Marginal], rng: np.random.Generator) -> Prior:
    """The prior of a public table, for questions such as these marginals."""
    sizes = np.array(public.domain.shape, np.int64)
    codes = np.stack(public.columns, axis=1).astype(np.uint16)
    small = len(codes) < 2 * _FOLDS
    steps = _steps(len(codes)) + (0 if small else _USED_FOLDS * (_steps(0) + (2 + len(_REDRAWS)) * _JUDGING))
    with phase("learning from the public table", steps) as work:
        if small:
            shares, redraw = (0.0, 0.5, 0.5), 0.35
        else:
            shares, redraw = _choose_shares(public.domain, codes, sizes, marginals, rng, work)
        parts = _Parts(codes, sizes, rng, work)
    return Prior(parts.arrays(shares, redraw), len(codes), shares)


def smooth_draws(table: Table, count: int, rng: np.random.Generator) -> Table:
    """So many draws from Bayesian networks fitted to a table: like its rows, but not only they."""
    sizes = np.array(table.domain.shape, np.int64)
    codes = np.stack(table.columns, axis=1).astype(np.uint16)
    networks = fit_networks(codes, sizes, 4, rng)
    arrays = _assemble(sizes, codes, fit_classes(codes, sizes, 1, rng), networks, (0.0, 0.0, 1.0), 1.0)
    return Table(table.domain, tuple(_drawn(arrays, rng, count).T))


def uniform_prior(domain: Domain) -> Prior:
    """Every row alike."""
    sizes = np.array(domain.shape, np.int64)
    nothing = np.zeros((1, len(sizes)), np.int64)
    networks = Networks(
        order=np.arange(len(sizes))[None],
        parents=nothing[:, :, None] - 1,
        strides=nothing[:, :, None],
        index_start=np.arange(len(sizes))[None],
        table_start=np.concatenate([[0], np.cumsum(sizes)[:-1]])[None],
        index=np.zeros(len(sizes), np.int32),
        table=np.repeat(1 / sizes, sizes).astype(np.float32),
        children=nothing[:, :, None] - 1,
    )
    starts = np.concatenate([[0], np.cumsum(sizes)])
    classes = Classes(np.ones(1), networks.table[None].copy(), starts, np.zeros(1, np.int32), 0.0)
    parts = _assemble(sizes, np.zeros((1, len(sizes)), np.uint16), classes, networks, (0.0, 0.0, 1.0), 1.0)
    return Prior(parts, 0, (0.0, 0.0, 1.0))


def _networks(rows: int) -> int:
    """How many networks are averaged."""
    return 8 if rows <= _ROWS else 4


def _steps(rows: int) -> int:
    """Steps of progress while all three kinds are fitted to so many rows."""
    return _LAST


class _Parts:
    """All three kinds, fitted to the same rows."""

    def __init__(self, codes: Codes, sizes: Ints, rng: np.random.Generator, work: Phase) -> None:
        rows = len(codes)
        self._codes, self._sizes = codes, sizes
        self._networks = fit_networks(codes, sizes, _networks(rows), rng)
        some = codes if rows <= _ROWS else codes[rng.choice(rows, _ROWS, replace=False)]
        self._classes = fit_classes(some, sizes, int(np.clip(rows // 20, 1, 80)), rng)
        if rows > _ROWS:
            self._classes = self._classes.assign(codes)
        work.advance(_LAST)

    def arrays(self, shares: tuple[float, float, float], redraw: float) -> PriorArrays:
        """As the compiled loops read them."""
        return _assemble(self._sizes, self._codes, self._classes, self._networks, shares, redraw)


def _assemble(
    sizes: Ints,
    anchors: Codes,
    classes: Classes,
    networks: Networks,
    shares: tuple[float, float, float],
    redraw: float,
) -> PriorArrays:
    n = networks
    return PriorArrays(
        sizes=sizes,
        kinds=np.cumsum(shares) / sum(shares),
        redraw=redraw,
        class_ends=np.cumsum(classes.shares),
        values=classes.values,
        starts=classes.starts,
        anchors=anchors,
        member=classes.member,
        order=n.order,
        parents=n.parents,
        strides=n.strides,
        index_start=n.index_start,
        table_start=n.table_start,
        row_of=n.index,
        table=n.table,
        children=n.children,
    )


def _choose_shares(
    domain: Domain,
    codes: Codes,
    sizes: Ints,
    marginals: Sequence[Marginal],
    rng: np.random.Generator,
    work: Phase,
) -> tuple[tuple[float, float, float], float]:
    """Cross-validation: shares of classes, anchors and networks, and h."""
    some = codes if len(codes) <= _ROWS else codes[rng.choice(len(codes), _ROWS, replace=False)]
    picked = rng.choice(len(marginals), min(_JUDGES, len(marginals)), replace=False)
    judges = [marginals[i] for i in picked]
    order = rng.permutation(len(some))
    kinds = [((1.0, 0.0, 0.0), 1.0), *(((0.0, 1.0, 0.0), h) for h in _REDRAWS), ((0.0, 0.0, 1.0), 1.0)]
    products, agreement = np.zeros((len(kinds), len(kinds))), np.zeros(len(kinds))
    for fold in range(_USED_FOLDS):
        out = order[fold::_FOLDS]
        kept = np.setdiff1d(order, out)
        parts = _Parts(some[kept], sizes, rng, work)
        answers = []
        for s, h in kinds:
            answers.append(_shares_of(domain, _drawn(parts.arrays(s, h), rng), judges))
            work.advance(_JUDGING)
        truth = _shares_of(domain, some[out], judges)
        for m in judges:
            each = np.stack([a[m] for a in answers])
            scaled = each / (each.mean(axis=0) + 1 / len(some))
            products += scaled @ each.T
            agreement += scaled @ truth[m]
    shares = _on_simplex(products, agreement)
    anchored = float(shares[1:-1].sum())
    redraw = float(shares[1:-1] @ np.array(_REDRAWS) / anchored) if anchored > 1e-6 else _REDRAWS[-1]
    return (float(shares[0]), anchored, float(shares[-1])), redraw


def _drawn(arrays: PriorArrays, rng: np.random.Generator, count: int = _DRAWS) -> Codes:
    codes = np.empty((count, len(arrays.sizes)), np.uint16)
    seed = rng.integers(0, 1 << 63, dtype=np.uint64)
    draw(arrays, seed, codes, np.empty(count, np.int8), np.empty(count, np.int32))
    return codes


def _shares_of(domain: Domain, codes: Codes, marginals: Sequence[Marginal]) -> dict[Marginal, Floats]:
    counts = count_table(Table(domain, tuple(codes.T)), marginals)
    return {m: c / len(codes) for m, c in counts.items()}


def _on_simplex(products: Floats, agreement: Floats) -> Floats:
    """Shares w ≥ 0 that sum to 1 and minimise w·P·w/2 − a·w, by exponentiated gradients.

    >>> _on_simplex(np.eye(2), np.array([0.75, 0.25])).round(3).tolist()
    [0.75, 0.25]
    """
    shares = np.full(len(agreement), 1 / len(agreement))
    rate = 1 / max(np.abs(products).max(), 1e-300)
    for _ in range(20_000):
        shares = shares * np.exp(-rate * (products @ shares - agreement))
        shares /= shares.sum()
    return shares
