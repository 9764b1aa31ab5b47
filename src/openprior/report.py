"""The report of a release: one HTML file that opens from disk, needs no network, prints, and has a dark side.

Without an evaluation it shows only what the release itself says, so it may be published with it. With one, it also
shows the private table's own figures and is marked NOT PRIVATE.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.certificate import Certificate
from openprior.models.base import Model

__all__ = ["Reported", "render"]


class Reported(Protocol):
    """What a report is about: a release."""

    @property
    def certificate(self) -> Certificate: ...
    @property
    def model(self) -> Model: ...
    @property
    def schema(self) -> Any: ...
    @property
    def workload(self) -> Any: ...
    @property
    def synthetic(self) -> Any: ...
    @property
    def measurements(self) -> Any: ...
    @property
    def public(self) -> Any: ...


@dataclass(frozen=True)
class _Bar:
    label: str
    released: float
    private: float | None


def render(
    release: Reported, evaluation: Any = None, private_shares: Mapping[str, NDArray[np.float64]] | None = None
) -> str:
    """The report as HTML; `evaluation` and `private_shares` (one-way shares by column) make it NOT PRIVATE."""
    import jinja2

    names = release.model.domain.attributes
    answers = release.model.answers([(a,) for a in names])
    columns = []
    for name in names:
        counts = answers[(name,)]
        truth = None if private_shares is None else private_shares[name]
        bars = [
            _Bar(str(label), float(c) / release.model.total, None if truth is None else float(truth[i]))
            for i, (label, c) in enumerate(zip(release.schema[name].labels, counts, strict=True))
        ]
        scale = max((max(b.released, b.private or 0.0) for b in bars), default=0.0) or 1.0
        columns.append((name, _largest(bars), len(bars), scale))
    kinds = Counter(str(e["kind"]) for e in release.certificate.events)
    spent = {k: sum(float(e["rho"]) for e in release.certificate.events if e["kind"] == k) for k in kinds}
    text = resources.files("openprior").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    return page.render(
        c=release.certificate,
        rows=release.synthetic.num_rows,
        marginals=len(release.workload),
        cells=release.workload.cells,
        columns=columns,
        kinds=[(k, n, spent[k]) for k, n in sorted(kinds.items())],
        evaluation=evaluation,
        worst=[] if evaluation is None else [(" × ".join(m), e) for m, e in evaluation.worst[:15]],
    )


def _largest(bars: list[_Bar], most: int = 24) -> list[_Bar]:
    """All values in order, or the most frequent if there are too many to show."""
    if len(bars) <= most:
        return bars
    kept = sorted(range(len(bars)), key=lambda i: -bars[i].released)[:most]
    return [bars[i] for i in sorted(kept)]
