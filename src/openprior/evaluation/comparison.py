"""What a comparison of releases has found, and how it is shown. NOT PRIVATE where its notice says so."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OptionError, ReleaseError
from openprior.evaluation.metrics import NOTICE, Evaluation, check_place, write_text
from openprior.given import path_of
from openprior.questions.workload import Workload
from openprior.report.side_by_side import MARK, Distances, comparison_pictures, render_comparison

__all__ = ["ComparedRelease", "Comparison", "check_page"]


@dataclass(frozen=True)
class ComparedRelease:
    """One of the releases."""

    name: str
    mechanism: str
    epsilon: float
    delta: float
    noise: str
    rows: int
    seconds: float | None
    """How long it took, where it was made in this process and a private table is compared with; else None."""
    errors: Evaluation | None = field(repr=False)
    """Its errors, as `evaluate` gives them; None without a private table. NOT PRIVATE."""


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Releases side by side. NOT PRIVATE if `notice` says so."""

    releases: tuple[ComparedRelease, ...]
    """By workload error, the smallest first; without a private table in the order given."""
    distances: Distances = field(repr=False)
    """The mean L1 distance (0 to 2) of the workload's marginals between two releases, by their names."""
    workload: Workload = field(repr=False)
    """What they were compared on."""
    left_out: tuple[str, ...]
    """Columns that not all releases have, or that they declare differently."""
    of: str
    notice: str
    """Why it must not be published; empty if it may be."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were compared."""
        return tuple(a for a in self.workload.domain or () if any(a in m for m in self.workload.marginals))

    @property
    def best(self) -> ComparedRelease:
        """The release with the smallest workload error. NOT PRIVATE, and so is a choice that is made by it."""
        if self.releases[0].errors is None:
            raise OptionError("nothing says which release is best without the private table; give private=")
        return self.releases[0]

    @property
    def per_column(self) -> dict[str, dict[str, float]]:
        """For each release the mean L1 error of the marginals with a column in them; empty without a private table."""
        return {r.name: r.errors.per_column for r in self.releases if r.errors is not None}

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Headings and rows, for printing."""
        facts = [
            (r.name, r.mechanism, f"{r.epsilon:g}", f"{r.delta:g}", f"{r.rows:,}") for r in self.releases
        ]
        headings: tuple[str, ...] = ("release", "mechanism", "ε", "δ", "rows")
        if not self.per_column:
            far = [tuple(self._far(a.name, b.name) for b in self.releases) for a in self.releases]
            names = tuple(f"from {r.name}" for r in self.releases)
            return (*headings, *names), tuple((*a, *b) for a, b in zip(facts, far, strict=True))
        timed = any(r.seconds is not None for r in self.releases)
        errors = [
            (
                f"{r.errors.workload_error:.4f}",
                f"{r.errors.max_error:.4f}",
                *(["–" if r.seconds is None else f"{r.seconds:.1f}"] if timed else []),
            )
            for r in self.releases
            if r.errors is not None
        ]
        headings += ("workload error", "largest error", *(["seconds"] if timed else []))
        return headings, tuple((*a, *b) for a, b in zip(facts, errors, strict=True))

    def column_table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Headings and rows of the errors by column, for printing; no rows without a private table."""
        errors = self.per_column
        rows = tuple(
            (a, *(f"{errors[name][a]:.4f}" for name in errors)) for a in (self.columns if errors else ())
        )
        return ("column", *errors), rows

    def _far(self, one: str, other: str) -> str:
        return "" if one == other else f"{self.distances[one, other]:.4f}"

    def losses(self) -> tuple[str, ...]:
        """The large losses of each release, to be read before the numbers. NOT PRIVATE."""
        lost = [(r.name, r.errors.warning) for r in self.releases if r.errors is not None]
        return tuple(f"{name}: {warning}." for name, warning in lost if warning is not None)

    def notes(self) -> tuple[str, ...]:
        """What to know beside the numbers."""
        notes = [
            f"Compared on {how_many(len(self.workload), 'marginal')} of {how_many(len(self.columns), 'column')}; "
            "errors and distances are L1 (0 is equal, 2 has nothing in common), their mean over these marginals."
        ]
        if self.left_out:
            notes.append(f"Left out, as the releases do not declare them alike: {', '.join(self.left_out)}.")
        seeded = [r.name for r in self.releases if r.noise != "secure"]
        if seeded:
            notes.append(f"Made with seeded noise, NOT PRIVATE: {', '.join(seeded)}.")
        return tuple(notes)

    def sheet(self) -> Sheet:
        """One line per release."""
        headings, rows = self.table()
        warnings = (*self.losses(), *filter(None, (self.notice,)))
        return Sheet(f"{len(rows):,} releases side by side", headings, rows, self.notes(), warnings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        releases = []
        for r in self.releases:
            facts = {k: v for k, v in vars(r).items() if k != "errors"}
            if r.errors is not None:
                names = ("workload_error", "max_error", "mean_error", "rmse", "per_column")
                facts |= {name: getattr(r.errors, name) for name in names}
                facts["warning"] = r.errors.warning
            releases.append(facts)
        return {
            "notice": self.notice,
            "of": self.of,
            "releases": releases,
            "distances": [[a, b, d] for (a, b), d in self.distances.items() if a < b],
            "columns": list(self.columns),
            "left_out": list(self.left_out),
            "marginals": [list(m) for m in self.workload.marginals],
        }

    def html(self) -> str:
        """The comparison as one page with a picture."""
        headings, rows = self.table()
        names = tuple(r.name for r in self.releases)
        return render_comparison(
            names,
            headings,
            rows,
            self.per_column,
            self.distances,
            (*self.losses(), *self.notes()),
            self.notice,
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all; never into a folder that is to be published."""
        file = path_of("the report", path, error=ReleaseError)
        is_private = not self.per_column
        write_text(file, self.html(), _mark(is_private), _why(is_private))
        return file

    def _repr_html_(self) -> str:
        names = [r.name for r in self.releases]
        return "".join([super()._repr_html_(), *comparison_pictures(names, self.per_column, self.distances)])


def check_page(path: Path, *, is_private: bool) -> None:
    """Refuse a place for the page before the work."""
    check_place(path, _mark(is_private), _why(is_private))


def _mark(is_private: bool) -> str:
    """What the page that it may replace has in it: private figures take the place of such alone."""
    return MARK if is_private else NOTICE


def _why(is_private: bool) -> str:
    """Why a page cannot be in a release folder."""
    return (
        "one file more would break its seal"
        if is_private
        else "a comparison with the private table is NOT PRIVATE"
    )
