"""The prior p₀: classes, anchors and networks of the public table, in the shares that predict held-out rows best.

Shares are judged by what will be asked: on public rows that were left out, the squared error of the marginals, each
cell divided by its mass. The likelihood of whole rows, which would be the other choice, is decided by the rarest of
them and takes the networks alone even where an equal mixture answers marginals better (measured: ADULT 0.157 → 0.144).
Public rows only, so all of this is free. Without a public table the prior is uniform.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import workers
from openprior.models.prior.classes import Classes, fit_classes
from openprior.models.prior.draws import PriorArrays, draw
from openprior.models.prior.held_out import agree, on_simplex
from openprior.models.prior.network import Networks, Structure, fit_networks, learn_structures, networks_of
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Mix", "Prior", "fit_prior", "of_networks", "smooth_draws", "uniform_prior"]

Codes = NDArray[np.uint16]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Judgement = tuple[Floats, Floats]
"""What `agree` says of some kinds."""

_REDRAWS, _HARDLY = (0.1, 0.2, 0.35), 0.01
"""h, the probability with which an anchor's attribute is redrawn: of anchors that can follow private evidence away from
the public table, and of those that hardly change."""
_FOLDS = 5
_FEW = 2_000
"""A table of fewer rows is judged by all folds and by more marginals: cheap then, and else the shares are chance."""
_JUDGES, _MORE_JUDGES, _DRAWS = 60, 200, 10_000
"""Marginals that shares are judged by, and draws that answer them."""
_ROWS = 30_000
"""Public rows that classes and shares are learnt from; anchors and conditionals use all."""
_STEPS = 10
"""Steps of expectation maximisation. More fit new rows worse (measured: ADULT, SALARY) or little better (FIRE)."""


@dataclass(frozen=True)
class Mix:
    """What a prior is mixed of."""

    shares: tuple[float, float, float]
    """Classes, anchors, networks."""
    redraw: float
    """h of the anchors."""

    @property
    def is_mostly_public(self) -> bool:
        """Whether most draws are public rows, nearly as they are."""
        return self.shares[1] > 0.5 and self.redraw < min(_REDRAWS)

    @property
    def ends(self) -> Floats:
        """The shares added up, as the loops read them."""
        return np.cumsum(self.shares) / sum(self.shares)


_NETWORKS = Mix((0.0, 0.0, 1.0), 1.0)
_LOOSE = [Mix((1.0, 0.0, 0.0), 1.0), *(Mix((0.0, 1.0, 0.0), h) for h in _REDRAWS), _NETWORKS]
"""What is mixed: classes, anchors that are redrawn more and more, networks."""
_KINDS = [*_LOOSE, Mix((0.0, 1.0, 0.0), _HARDLY)]
"""And for a faithful mix, anchors that hardly change, too."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior ready to be drawn from."""

    arrays: PriorArrays
    rows: int
    """The public rows behind it; 0 for the uniform prior."""
    shares: tuple[float, float, float]
    """Classes, anchors, networks."""
    faithful: Mix | None = None
    """What predicts the public table best where that is mostly its own rows, nearly as they are; else None."""

    def worth(self, total: float) -> float:
        """λ of an honest sample of its rows beside so many private ones."""
        return min(1.0, self.rows / max(total, 1.0))

    def as_public(self) -> "Prior":
        """The faithful mix of the same parts, for private tables that cannot be told from the public one."""
        if self.faithful is None:
            return self
        arrays = self.arrays._replace(kinds=self.faithful.ends, redraw=self.faithful.redraw)
        return Prior(arrays, self.rows, self.faithful.shares, self.faithful)


def fit_prior(public: Table, marginals: Sequence[Marginal], rng: np.random.Generator) -> Prior:
    """The prior of a public table, for questions such as these marginals."""
    sizes = np.array(public.domain.shape, np.int64)
    codes = np.stack(public.columns, axis=1).astype(np.uint16)
    rows, attributes = codes.shape
    small = rows < 2 * _FOLDS
    folds, most = (0, 0) if small else (_FOLDS, _MORE_JUDGES) if rows <= _FEW else (2, _JUDGES)
    with phase("learning from the public table", attributes * (2 + 2 * folds)) as work:
        structures = learn_structures(codes, sizes, 8 if rows <= _ROWS else 4, rng, work)
        with ThreadPoolExecutor(workers()) as pool:
            parts = pool.submit(_Parts, codes, sizes, structures, _another(rng))
            if small:
                loose, faithful = Mix((0.0, 0.5, 0.5), 0.35), None
            else:
                picked = rng.choice(
                    len(marginals),
                    min(most, len(marginals)),
                    replace=False,
                )
                judges = [[public.domain.position(a) for a in marginals[i]] for i in picked]
                some = codes if rows <= _ROWS else codes[rng.choice(rows, _ROWS, replace=False)]
                order = rng.permutation(len(some))
                seen = [
                    pool.submit(_judge, some, order[fold::_FOLDS], sizes, structures, judges, _another(rng))
                    for fold in range(folds)
                ]
                found = []
                for one in seen:
                    found.append(one.result())
                    work.advance(2 * attributes)
                loose, closest = map(_best_mix, (_LOOSE, _KINDS), zip(*found, strict=True))
                faithful = closest if closest.is_mostly_public else None
            arrays = parts.result().arrays(loose)
            work.advance(attributes)
    return Prior(arrays, rows, loose.shares, faithful)


def smooth_draws(table: Table, count: int, rng: np.random.Generator) -> Table:
    """So many draws from Bayesian networks fitted to a table: like its rows, but not only they."""
    sizes = np.array(table.domain.shape, np.int64)
    codes = np.stack(table.columns, axis=1).astype(np.uint16)
    networks = fit_networks(codes, sizes, 4, rng)
    arrays = _assemble(sizes, codes, fit_classes(codes, sizes, 1, rng), networks, _NETWORKS)
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
    return of_networks(sizes, networks)


def of_networks(sizes: Ints, networks: Networks) -> Prior:
    """Networks alone, with no public row behind them."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    even = np.repeat(1 / sizes, sizes).astype(np.float32)
    classes = Classes(np.ones(1), even[None], starts, np.zeros(1, np.int32), 0.0)
    parts = _assemble(sizes, np.zeros((1, len(sizes)), np.uint16), classes, networks, _NETWORKS)
    return Prior(parts, 0, _NETWORKS.shares)


def _another(rng: np.random.Generator) -> np.random.Generator:
    """A generator of its own for work in a thread."""
    return np.random.default_rng(rng.integers(0, 1 << 63))


class _Parts:
    """All three kinds, fitted to the same rows."""

    def __init__(
        self, codes: Codes, sizes: Ints, structures: Sequence[Structure], rng: np.random.Generator
    ) -> None:
        rows = len(codes)
        self._codes, self._sizes = codes, sizes
        self._networks = networks_of(codes, sizes, structures)
        some = codes if rows <= _ROWS else codes[rng.choice(rows, _ROWS, replace=False)]
        self._classes = fit_classes(some, sizes, int(np.clip(rows // 20, 1, 80)), rng, steps=_STEPS)
        if rows > _ROWS:
            self._classes = self._classes.assign(codes)

    def arrays(self, mix: Mix) -> PriorArrays:
        """As the compiled loops read them."""
        return _assemble(self._sizes, self._codes, self._classes, self._networks, mix)


def _assemble(
    sizes: Ints,
    anchors: Codes,
    classes: Classes,
    networks: Networks,
    mix: Mix,
) -> PriorArrays:
    n = networks
    return PriorArrays(
        sizes=sizes,
        kinds=mix.ends,
        redraw=mix.redraw,
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


def _judge(
    codes: Codes,
    out: Ints,
    sizes: Ints,
    structures: Sequence[Structure],
    judges: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> tuple[Judgement, Judgement]:
    """Fit every kind without these rows, and see what it says about them: those of a loose mix, and all.

    The structures are those of all rows. Chosen by leave-one-out likelihood, they know little of single rows (measured:
    the networks' share is 0.02 larger than with structures of each fold's own, and errors are the same).
    """
    kept = np.ones(len(codes), bool)
    kept[out] = False
    parts = _Parts(codes[kept], sizes, structures, rng)
    drawn = [_drawn(parts.arrays(kind), rng, _DRAWS) for kind in _KINDS]
    loose, faithful = (
        agree(drawn[: len(kinds)], codes[out], sizes, judges, 1 / len(codes)) for kinds in (_LOOSE, _KINDS)
    )
    return loose, faithful


def _best_mix(kinds: Sequence[Mix], found: Sequence[Judgement]) -> Mix:
    """Shares of classes, anchors and networks, and h, by what was found of these kinds in each fold."""
    products, agreement = (np.sum(each, axis=0) for each in zip(*found, strict=True))
    weights = on_simplex(products, agreement)
    shares = weights @ np.array([kind.shares for kind in kinds])
    anchors = [(w, kind.redraw) for w, kind in zip(weights, kinds, strict=True) if kind.shares[1]]
    redraw = sum(w * h for w, h in anchors) / shares[1] if shares[1] > 1e-6 else max(_REDRAWS)
    return Mix((float(shares[0]), float(shares[1]), float(shares[2])), float(redraw))


def _drawn(arrays: PriorArrays, rng: np.random.Generator, count: int) -> Codes:
    codes = np.empty((count, len(arrays.sizes)), np.uint16)
    seed = rng.integers(0, 1 << 63, dtype=np.uint64)
    draw(arrays, seed, codes, np.empty(count, np.int8), np.empty(count, np.int32))
    return codes
