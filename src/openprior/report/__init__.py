"""The report of a release: one HTML file that opens from disk, needs no network, prints, and has two themes.

Without an evaluation it shows only what the release itself says, so it may be published with it. With one, it also
shows the private table's own figures and is marked NOT PRIVATE.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from openprior.releases.view import RowCounts, View

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.error_bars.bars import ErrorBars
    from openprior.models.base import Model
    from openprior.releases.certificate import Certificate
    from openprior.report.error_cards import Estimated, Evaluated

__all__ = ["Reported", "render"]


class Reported(Protocol):
    """What a report is about: a release."""

    @property
    def certificate(self) -> "Certificate": ...
    @property
    def model(self) -> "Model": ...
    @property
    def schema(self) -> Any: ...
    @property
    def workload(self) -> Any: ...
    @property
    def synthetic(self) -> Any: ...
    @property
    def row_count(self) -> int: ...
    @property
    def counts(self) -> RowCounts: ...
    @property
    def measurements(self) -> Any: ...
    @property
    def public(self) -> View | None: ...
    @property
    def error_bars(self) -> "ErrorBars | None": ...

    def answers(self, columns: Iterable[str]) -> "pa.Table":
        """Estimated counts with labels and intervals."""
        ...


def render(
    release: Reported,
    evaluation: "Evaluated | None" = None,
    truth: View | None = None,
    quality: Any = None,
    estimate: "Estimated | None" = None,
    answers: str | None = None,
) -> str:
    """The report as HTML.

    evaluation   errors against the private table; like `truth` and `quality`, it makes the report NOT PRIVATE
    truth        the view of the private table
    quality      further measures, by `summary()`: name, value, explanation
    estimate     a differentially private estimate of the error, which may be published
    answers      which answers lie beside the report as a file, as `release.save` takes it; not given: nothing is said
    """
    from openprior.report import charts
    from openprior.report.facts import gather
    from openprior.report.grades import CLASSES
    from openprior.report.template import page_of

    facts = gather(release, evaluation, truth, quality, estimate)
    return page_of("page.html.j2", f=facts, charts=charts, grade_classes=CLASSES, beside=answers)
