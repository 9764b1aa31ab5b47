"""The loop of nearly every mechanism: select what is most wrong, measure it, fit, again."""

from collections.abc import Callable, Iterable

from openprior.methods.base import Progress
from openprior.methods.shared.schedule import Share
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import Scores
from openprior.privacy.statistics import CellCount, Counts
from openprior.questions.workload import Marginal

__all__ = ["select_measure_fit"]


def select_measure_fit(
    curator: Curator,
    shares: Iterable[Share],
    propose: Callable[[Share], Scores],
    locate: Callable[[int], tuple[Marginal, int | None]],
    fit: Callable[[Measurement], None],
    progress: Progress,
    *,
    selection: str = "exponential",
    noise: str = "gaussian",
) -> None:
    """Run the rounds. `propose` gives the scores of the current model at a round's budget, `locate` the marginal (and
    the cell, if single cells are measured) behind a candidate's number, `fit` takes the measurement in."""
    for share in shares:
        chosen = curator.select(propose(share), share.select, how=selection)
        marginal, cell = locate(chosen)
        if cell is None:
            fit(curator.measure(Counts(marginal), share.measure, noise=noise))
        else:
            fit(curator.measure(CellCount(marginal, cell), share.measure, noise=noise))
        progress(round(100 * (1 - curator.remaining / curator.rho)), 100, "budget spent")
