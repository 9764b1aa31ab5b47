"""The loop of every adaptive mechanism: select what is most wrong, measure it, fit, again."""

from collections.abc import Callable

from openprior.methods.base import Tell
from openprior.methods.shared.schedule import Schedule, Share
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import Scores
from openprior.privacy.statistics import Statistic

__all__ = ["ROUNDS", "Candidate", "select_measure_fit"]

Candidate = Statistic | Measurement
"""What a selection is between: a statistic to measure, or an answer that is known already, which costs nothing more."""
ROUNDS = "rounds: choosing, measuring, fitting"
"""How progress calls them."""


def select_measure_fit(
    curator: Curator,
    schedule: Schedule,
    propose: Callable[[Share], Scores],
    candidate: Callable[[int], Candidate],
    fit: Callable[[Measurement], None],
    progress: Tell,
    *,
    selection: str = "exponential",
    noise: str = "gaussian",
) -> None:
    """Run the rounds.

    schedule    what each may spend, and how many there will be by what is known
    propose     the scores of the candidates by the current model, for a round with this share
    candidate   what the chosen index stands for
    fit         takes in the measurement, or the answer that was known
    """
    progress(0, schedule.expected(0), ROUNDS)
    for done, share in enumerate(schedule, 1):
        chosen = candidate(curator.select(propose(share), share.select, how=selection))
        if isinstance(chosen, Statistic):
            rho = curator.remaining if share.takes_rest else share.measure
            chosen = curator.measure(chosen, rho, noise=noise)
        fit(chosen)
        progress(done, schedule.expected(done), ROUNDS)
