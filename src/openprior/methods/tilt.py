"""Tilt: start from everything public, and let private evidence overrule it, each marginal by what it shows.

1. The public table becomes a prior (models/prior/prior.py); that costs nothing. 2. Every one-way marginal is measured
with a few per cent of the budget, and one private choice by the workload's error decides whether to go on from the
public prior or from none. 3. Rounds select a marginal by the exponential mechanism, measure it, and tilt the model
(models/tilted/tilting.py). A round that finds nothing above its noise doubles the budget of the next, so a good prior
or a small budget makes few rounds and a bad prior many.

Privacy: the private table is read by `curator.measure` and `curator.select` alone, which charge for it. The prior, the
trust λ in it, the number of particles and of rounds, what a round spends and when to stop are functions of public rows
and of outcomes already paid for: post-processing, and fully adaptive composition of what the curator adds up. ∎
"""

import copy
import math
from collections.abc import Sequence
from itertools import cycle
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    counted_rows,
    leave_uniform,
    measured_one_by_one,
    option,
    register,
)
from openprior.methods.shared.growing import expected_noise, noise_of
from openprior.methods.shared.guard import keep_better
from openprior.methods.shared.large_workloads import in_turns, some_of
from openprior.methods.shared.loop import select_measure_fit
from openprior.methods.shared.schedule import Annealed, Share
from openprior.models.base import Model
from openprior.models.graphical.loss import estimate_total
from openprior.models.prior.prior import Prior, uniform_prior
from openprior.models.prior.prior_cache import kept_or_learnt
from openprior.models.prior.prior_learning import check_sizes, learn
from openprior.models.tilted.column_reading import read_column
from openprior.models.tilted.exact_tilting import ExactTilting
from openprior.models.tilted.telling_apart import agreement
from openprior.models.tilted.tilting import Tilting
from openprior.privacy.calibrate import exponential_epsilon, exponential_rho
from openprior.privacy.curator import Curator
from openprior.privacy.flat_scores import MarginalScores
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import Counts
from openprior.progress import phase
from openprior.questions.workload import Marginal, Workload
from openprior.tables.table import Table

__all__ = ["Tilt"]

_LARGEST = 1 << 20
"""Cells of the largest marginal that is measured; larger ones are answered all the same."""
_SINGLES = 0.03
"""Share of the budget for one-way marginals at the start, with a public table."""
_SINGLES_ALONE, _MOST_SINGLES, _CLEAR = 0.1, 0.4, 0.03
"""Without one: at least, at most, and as much as brings the mean L1 error of their noise down to so much."""
_SHARP, _BLUNT = 0.02, 5.0
"""A choice should tell apart mean L1 errors that differ by so much; it is not made if it would be so much blunter."""
_SURE = 0.003
"""Share of the budget that the choice for or against the public table may cost in any case."""
_ALIKE, _CONTRADICTED = 0.8, 0.4
"""Agreement of the columns with the public table from which on they tell no difference, one step of λ less than all of
it; and below which they contradict it, as two samples of the same people do not."""
_FEWEST_ROUNDS, _ROUNDS, _MORE_ROUNDS = 48, 50, 100
"""Equal rounds that the first share is meant for; more beside a public table that the columns do not contradict, where
there is less to find in each; and the fewest, where a choice would be blunt."""
_CHOOSING = 0.1, 0.2
"""Least and largest share of a round's budget that pays for choosing; between them, what makes it as sharp as that."""
_SURPRISING = 2.0
"""Standard deviations of the noise above which a measurement found something."""
_FIRST_PARTICLES, _FEW_PARTICLES, _MOST_PARTICLES = 30_000, 60_000, 400_000
"""Between rounds: fewer where the prior is close to what was measured first; more when the noise becomes small."""
_MANY_ROUNDS = 8
"""From which candidates may take turns."""
_CLOSE = 0.9
"""Effective share of the particles above which the prior is close."""
_CLIQUES = 1 << 17
"""Cells of the cliques, all together, up to which learning without a public table is exact."""


@register("tilt")
class Tilt(Mechanism):
    """A public prior, tilted by private measurements."""

    good_for = "nearly everything: any public table, good, biased, wrong or none"
    public_table = PublicTable.USED_IF_GIVEN
    takes_prior = True
    _prior: ClassVar[Prior | None] = None
    """Of one that is prepared; no option, as it says nothing that the public table does not."""

    rounds: int | None = option(
        default=None,
        doc="equal rounds that the first share is meant for; fewer are made if little is found; if not given 50, or up "
        "to 100 beside a public table that the columns do not contradict",
    )
    alpha: float | None = option(
        default=None,
        doc="share of a round's budget that pays for measuring; if not given 0.9, or down to 0.8 where choices beside "
        "a public table would be blunt",
    )
    screen: float = option(
        default=0.08,
        doc="most that the choice for or against the public table may cost, as a share of the budget",
    )
    particles: int | None = option(
        default=None,
        doc="particles of the finished model; if not given 16 per row, but 100,000 to 300,000, or as many as the "
        "rounds needed",
    )

    def __post_init__(self) -> None:
        check(self.rounds is None or self.rounds >= 1, f"rounds ({self.rounds}) must be at least 1")
        check(self.alpha is None or 0 < self.alpha < 1, f"alpha ({self.alpha}) must be between 0 and 1")
        check(0 < self.screen < 1, f"screen ({self.screen}) must be between 0 and 1")
        check(
            self.particles is None or self.particles >= 1000,
            f"particles ({self.particles}) must be at least 1000",
        )

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """The three steps."""
        domain = curator.domain
        check_sizes(domain)
        closure = [m for m in workload.closure() if domain.size(m) <= _LARGEST]
        curator.announce(closure)
        prior = uniform_prior(domain)
        if self._prior is not None:
            prior = self._prior
            check(tuple(prior.arrays.sizes) == domain.shape, "the prior was learnt from other columns")
        elif public is not None and public.n:
            prior = learn(public, workload.marginals)
        rows = counted_rows(curator)
        singles = [m for m in closure if len(m) == 1]
        first: list[Measurement] = []
        tilting: Tilting | ExactTilting | None = None
        agreed = 0.0
        spent = _SINGLES * curator.remaining / len(singles) if prior.rows else 0.0
        if prior.rows:
            first = measured_one_by_one(curator, singles, spent)
            total = _total(curator, rows, first)
            agreed = agreement(prior, domain, total, first)
            start = prior.as_public() if agreed >= _ALIKE else prior
            tilting = self._from_public(curator, start, total, first, workload, rng)
        if tilting is None:
            shares = _for_columns(curator, singles, _total(curator, rows, first))
            later = [m for m in singles if shares[m] > spent]
            first += measured_one_by_one(curator, later, [shares[m] - spent for m in later])
            tilting = ExactTilting(domain, _total(curator, rows, first), _CLIQUES, rng)
            _take_in(tilting, first)
            leave_uniform(curator, closure, "Name them in the workload, or drop them")
        schedule = self._schedule(curator, tilting, contradicted=agreed < _CONTRADICTED)
        tilting = self._rounds(curator, tilting, schedule, closure, workload, progress)
        with phase("estimating"):
            enough = max(self._particles(tilting.total), len(tilting.particles))
            return tilting.finish(workload.marginals, self.particles or enough)

    def _particles(self, total: float) -> int:
        """Of the finished model, at least."""
        return self.particles or int(np.clip(16 * total, 100_000, 300_000))

    def _from_public(
        self,
        curator: Curator,
        prior: Prior,
        total: float,
        first: list[Measurement],
        workload: Workload,
        rng: np.random.Generator,
    ) -> Tilting | None:
        """The public prior, tilted by the one-way marginals; None if it is better not used."""
        fewer, more = (
            int(min(np.clip(16 * total, 20_000, most), self._particles(total)))
            for most in (_FIRST_PARTICLES, _FEW_PARTICLES)
        )
        for few in (fewer, more) if fewer < more else (more,):
            tilting = Tilting(prior, curator.domain, total, few, rng)
            _take_in(tilting, first)
            if tilting.moved == 0 and tilting.particles.effective > _CLOSE:
                break
        if self._public_is_better(curator, tilting, first, workload):
            return tilting
        curator.remark("The public table was not used: independent columns came closer.")
        return None

    def prepared(self, public: Table | None, workload: Workload, prior: Prior | None = None) -> Self:
        """Itself with its prior: the one that is given, or that of the public table, from the cache if it is there."""
        if prior is None and public is not None and public.n:
            prior = kept_or_learnt(public, workload.marginals)
        mine = copy.copy(self)
        object.__setattr__(mine, "_prior", prior)
        return mine

    def outlay(self, sizes: Sizes) -> Outlay:
        """Networks for every pair of columns of the prior, and their conditionals from all rows; rounds that answer all
        marginals from the particles; the last fit; rows chosen among the particles; every answer's standard error."""
        particles = self.particles or float(np.clip(16 * sizes.rows, 100_000, 300_000))
        prior = (
            0.3
            + 3e-8 * sizes.columns**2 * min(sizes.public_rows, 16_384)
            + 1e-7 * sizes.columns * sizes.public_rows
        )
        rounds = min(5 * (sizes.rows * sizes.epsilon / 1000) ** (1 / 3) + 2, self.rounds or _MORE_ROUNDS)
        each = 0.02 + 1e-5 * sizes.closure + 1e-8 * sizes.cells
        fit = 9e-8 * particles * (sizes.columns + rounds)
        rows = min(5e-8 * max(sizes.rows, particles / 4) * sizes.marginals, 1.5)
        saving = 1.5e-6 * particles + 2.7e-7 * sizes.cells
        return Outlay(prior * bool(sizes.public_rows) + (4 + rounds) * each + fit + rows + saving, 150.0)

    def _public_is_better(
        self, curator: Curator, tilting: Tilting, first: list[Measurement], workload: Workload
    ) -> bool:
        """Whether to go on with the public prior; not if independent columns come closer to the workload, or will.

        The choice costs what tells apart two models whose errors differ by a few hundredths, or a few thousandths of
        the budget, which nobody misses; where that much cannot be bought, the noise would decide, and the public prior
        is kept unasked. Both answer from as many particles; where the workload is large, some of its marginals speak
        for all.
        """
        sharp = _sharp(curator, tilting.total)
        rho = max(exponential_rho(sharp), _SURE * curator.remaining)
        rho = min(rho, self.screen * curator.remaining)
        if exponential_epsilon(rho) < sharp / _BLUNT:
            return True
        some = some_of(workload, curator.domain)
        cells = Cells(curator.domain, some.marginals)
        with phase("comparing with no public table"):
            answers = [cells.split(a) for a in (tilting.flat(cells), tilting.without_prior(first, cells))]
        # Foretold, and less surely where the choice is blunt: there the rounds to come help the public prior, too.
        # (With all of it, 4 of 24 runs threw a better public table away: ADULT, women only, ε = 0.03.)
        sure = min(exponential_epsilon(rho) / sharp, 1.0)
        gain = sure * _gain_of_columns(curator, first, some, tilting.total)
        # The public prior alone knows columns outside the workload.
        favour = 2.0 if len(first) < len(curator.domain) else 0.0
        return keep_better(curator, answers, some, rho, favour=favour, others_gain=gain) == 0

    def _rounds(
        self,
        curator: Curator,
        tilting: Tilting | ExactTilting,
        schedule: Annealed,
        closure: list[Marginal],
        workload: Workload,
        progress: Tell,
    ) -> Tilting:
        """Select, measure, tilt; exactly while cliques are small, if there is no public prior, then by particles."""
        overlaps = workload.overlaps(closure)
        turns = cycle(
            (Cells(curator.domain, some), np.array([overlaps[m] for m in some]))
            for some in (
                in_turns(curator.domain, closure)
                if (self.rounds or _FEWEST_ROUNDS) >= _MANY_ROUNDS
                else [closure]
            )
        )
        offered: list[Marginal] = []
        few = int(min(np.clip(16 * tilting.total, 20_000, _FEW_PARTICLES), self._particles(tilting.total)))

        def propose(share: Share) -> MarginalScores:
            sigma = noise_of(curator.unit, share.measure)
            if isinstance(tilting, Tilting):
                self._enough_particles(tilting, sigma)
            cells, weights = next(turns)
            offered[:] = cells.marginals
            model = tilting.flat(cells)
            left = tilting.left_after(model, cells.offsets, sigma)
            return MarginalScores(cells, model, weights, -left)

        def candidate(index: int) -> Counts:
            nonlocal tilting
            if isinstance(tilting, ExactTilting) and not tilting.has_room(offered[index]):
                tilting = tilting.over(few)
            return Counts(offered[index])

        def fit(measured: Measurement) -> None:
            found = _surprise(measured, tilting.mass(measured.marginal)) >= _SURPRISING
            _take_in(tilting, [measured])
            schedule.heard(found)

        select_measure_fit(curator, schedule, propose, candidate, fit, progress)
        return tilting.over(few) if isinstance(tilting, ExactTilting) else tilting

    def _schedule(self, curator: Curator, tilting: Tilting | ExactTilting, *, contradicted: bool) -> Annealed:
        """What rounds spend. With a public table there is less to find, and a blunt choice finds less: where choices
        would be, rounds are fewer and choosing has a larger share of each."""
        sharp, rounds = 0.0, float(_ROUNDS)
        if isinstance(tilting, Tilting):
            sharp = exponential_rho(_sharp(curator, tilting.total))
            enough = max(_CHOOSING) * curator.remaining / sharp
            rounds = float(np.clip(enough, _FEWEST_ROUNDS, _ROUNDS if contradicted else _MORE_ROUNDS))
        return Annealed(
            lambda: curator.remaining,
            curator.remaining / (self.rounds or rounds),
            growth=2.0,
            alpha=self.alpha or (lambda rho: 1 - float(np.clip(sharp / rho, *_CHOOSING))),
            last_takes_rest=True,
        )

    def _enough_particles(self, tilting: Tilting, sigma: float) -> None:
        """A particle must weigh less than the noise, and there must be several for every cell that asks for some."""
        enough = int(min(max(8 * tilting.total / sigma, 4 * tilting.demands), _MOST_PARTICLES))
        if enough > 1.5 * len(tilting.particles):
            tilting.renew(enough)
            tilting.fit()


def _total(curator: Curator, rows: Measurement | None, columns: Sequence[Measurement]) -> float:
    """The number of rows; if it is not public, by its own measurement and by those of columns, which add up to it."""
    return float(curator.n) if rows is None else estimate_total([rows, *columns])


def _sharp(curator: Curator, total: float) -> float:
    """ε of a choice that tells apart what it should."""
    return 2 * curator.unit.l1 / (_SHARP * total)


def _for_columns(curator: Curator, singles: Sequence[Marginal], total: float) -> dict[Marginal, float]:
    """What each one-way marginal may cost in all where nothing else is known of the columns: more, the further its
    noise reaches.

    Shares are in proportion to √n of a column with n values. The noise of all columns together would be smallest with
    n^⅔; but what is left of it where values are many is smoothed (column_reading.py), and where they are few is not.
    """
    parts = np.sqrt([float(curator.domain.size(m)) for m in singles])
    least = _SINGLES_ALONE * curator.remaining * parts / parts.sum()
    noise = sum(
        expected_noise(noise_of(curator.unit, rho), curator.domain.size(m))
        for m, rho in zip(singles, least, strict=True)
    ) / (len(singles) * total)
    more = float(np.clip((noise / _CLEAR) ** 2, 1.0, _MOST_SINGLES / _SINGLES_ALONE))
    return dict(zip(singles, (more * least).tolist(), strict=True))


def _gain_of_columns(
    curator: Curator, first: Sequence[Measurement], workload: Workload, total: float
) -> float:
    """How much closer independent columns are to come, in rows, once columns are measured as they are without a public
    table: noise makes up one part of their error, and what they are not, independent, the other. Errors of two sources
    add up about like squares; if both are alike, two fifths of what one loses shows."""
    later = _for_columns(curator, [m.marginal for m in first], total)
    lost = {}
    for m in first:
        left = min(noise_of(curator.unit, later[m.marginal]) / m.sigma, 1.0)  # of the noise
        lost[m.marginal] = (1 - left) * read_column(m.values, m.sigma, total).error
    shares = np.array(workload.weights) / sum(workload.weights)
    return 0.4 * float(
        sum(w * math.hypot(*(lost[a,] for a in m)) for w, m in zip(shares, workload.marginals, strict=True))
    )


def _take_in(tilting: Tilting | ExactTilting, measurements: list[Measurement]) -> None:
    for m in measurements:
        tilting.measured(m)
    tilting.fit()


def _surprise(measured: Measurement, expected: NDArray[np.float64]) -> float:
    """How far the innovation is above its noise, in standard deviations."""
    cells, variance = len(expected), measured.sigma**2
    excess = float(((measured.values - expected) ** 2).sum()) / variance - cells
    return excess / math.sqrt(2 * cells)
