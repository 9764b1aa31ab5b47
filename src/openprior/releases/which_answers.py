"""Which answers are written beside a release's rows: all of the workload, those that were measured, or none.

Whoever has openprior asks the model of a release for any answer, so the file is for those who have not. It grows with
the cells of the workload: all triples of a wide table are tens of millions, most of them far smaller than their errors.
So all are written while they are few enough to be read at once, and beyond only what was measured, which is said.
"""

import warnings
from collections.abc import Iterator
from itertools import chain

from openprior.errors import OpenPriorWarning
from openprior.given import choice
from openprior.models.base import Model
from openprior.questions.workload import Marginal, Workload, canonical
from openprior.releases.measurements import Measurements

__all__ = ["ANSWERS", "answered_marginals", "answers_written"]

ANSWERS = ("measured", "workload", "none")

_MANY = 10_000_000
"""Cells of a workload of which not all are written unless they are asked for: some 30 MB of Parquet."""


def answers_written(asked: str | None, workload: Workload) -> str:
    """What is asked for; if nothing is, the workload, or what was measured where it has too many cells."""
    if asked is not None:
        return choice("answers", asked, *ANSWERS)
    if workload.cells <= _MANY:
        return "workload"
    warnings.warn(
        f"the workload has {workload.cells:,} cells, so the answers are written only for what was measured; the model "
        'answers the rest, and answers="workload" writes all',
        OpenPriorWarning,
        stacklevel=3,
    )
    return "measured"


def answered_marginals(
    which: str, model: Model, measurements: Measurements, workload: Workload
) -> tuple[Marginal, ...]:
    """The marginals that are written: of the workload, and where it is `measured`, also others that were counted.

    A marginal was measured if measurements alone tell a cell of it: of the marginal, of one that it is a sum of, or all
    of them, where a model's answers are sums of measurements and nothing else.
    """
    if which == "workload":
        return workload.marginals
    asked = (m for m in workload.marginals if measurements.about(m) or model.noise_alone(m) is not None)
    return tuple(dict.fromkeys(chain(asked, _counted(model, measurements))))


def _counted(model: Model, measurements: Measurements) -> Iterator[Marginal]:
    """Every marginal of columns that was counted, or of which a cell was."""
    for piece in measurements.counted:
        names = {*piece.free, *piece.fixed}
        if names and names <= set(model.domain):
            yield canonical(names, model.domain)
