"""The loop of every adaptive mechanism: select what is most wrong, measure it, fit, again."""

from collections.abc import Callable, Iterable

from openprior.methods.base import Progress
from openprior.methods.shared.schedule import Share
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import Scores
from openprior.privacy.statistics import Statistic

__all__ = ["Candidate", "select_measure_fit"]

Candidate = Statistic | Measurement
"""What a selection is between: a statistic to measure, or an answer that is known already, which costs nothing more."""


def select_measure_fit(
    curator: Curator,
    shares: Iterable[Share],
    propose: Callable[[Share], Scores],
    candidate: Callable[[int], Candidate],
    fit: Callable[[Measurement], None],
    progress: Progress,
    *,
    selection: str = "exponential",
    noise: str = "gaussian",
) -> None:
    """Run the rounds.

    propose     the scores of the candidates by the current model, for a round with this share
    candidate   what the chosen index stands for
    fit         takes in the measurement, or the answer that was known
    """
    for share in shares:
        chosen = candidate(curator.select(propose(share), share.select, how=selection))
        if isinstance(chosen, Statistic):
            rho = curator.remaining if share.takes_rest else share.measure
            chosen = curator.measure(chosen, rho, noise=noise)
        fit(chosen)
        progress(round(100 * (1 - curator.remaining / curator.rho)), 100, "budget spent")
