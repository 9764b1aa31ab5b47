"""The verdict of a tuning: settings that were tried, the best of them, and by how much."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openprior.display import Sheet, Shown
from openprior.errors import OptionError
from openprior.guidance.experiment import Run
from openprior.guidance.grid import changed_options, described, options_text
from openprior.guidance.plan_words import PlanTable

__all__ = ["Margin", "Setting", "Tuning", "judged", "margin_of", "paired", "standard_error"]

_CLOSE = 0.02
"""A setting that cannot be told from the best, and has at most this much more error, is taken if it is far faster."""
_FASTER = 2.0


@dataclass(frozen=True, repr=False)
class Setting:
    """How a mechanism with its options did."""

    mechanism: Any
    runs: tuple[Run, ...]
    """One per seed."""

    @property
    def name(self) -> str:
        """The mechanism, and the options that differ from its defaults."""
        return described(self.mechanism)

    @property
    def errors(self) -> tuple[float, ...]:
        """The workload error of every seed; not a number where it failed."""
        return tuple(r.workload_error for r in self.runs)

    @property
    def failures(self) -> tuple[str, ...]:
        """In words, why which seed failed."""
        return tuple(f"seed {i}: {r.failure}" for i, r in enumerate(self.runs) if r.failure is not None)

    @property
    def workload_error(self) -> float:
        """The mean over the seeds that did not fail."""
        return self._mean("workload_error")

    @property
    def standard_error(self) -> float | None:
        """Of that mean; None with fewer than two seeds."""
        return standard_error([e for e in self.errors if not math.isnan(e)])

    @property
    def max_error(self) -> float:
        """The largest error of one query, mean over the seeds."""
        return self._mean("max_error")

    @property
    def seconds(self) -> float:
        """A run's, mean over the seeds, on one worker's share of this machine."""
        return self._mean("seconds")

    def __repr__(self) -> str:
        return f"<Setting {self.name}: workload error {self.workload_error:.4f}, {self.seconds:.1f} seconds>"

    def _mean(self, what: str) -> float:
        values = [getattr(r, what) for r in self.runs if r.failure is None]
        return float(np.mean(values)) if values else math.nan

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "mechanism": self.mechanism.name,
            "options": changed_options(self.mechanism),
            "command_options": options_text(self.mechanism),
            "workload_error": _number(self.workload_error),
            "standard_error": self.standard_error,
            "max_error": _number(self.max_error),
            "seconds": _number(self.seconds),
            "errors": [_number(e) for e in self.errors],
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Margin:
    """How much larger a rival's workload error is, seed by seed."""

    difference: float
    standard_error: float | None
    """None with one seed."""
    share: float
    """The difference as a share of the rival's error."""
    is_clear: bool
    """Whether the difference is beyond what 95 of 100 repetitions would show by chance (Student's t, paired)."""


@dataclass(frozen=True, repr=False)
class Tuning(Shown):
    """Settings compared on public data. Nothing in it has seen a private row."""

    results: tuple[Setting, ...]
    """Best first by mean workload error; those that failed last."""
    best: Setting
    """The one to take: the least error, or one that cannot be told from it and is far faster."""
    runner_up: Setting | None
    """The least error among the others."""
    margin: Margin | None
    """The runner-up's error less the best's; None if there is no other."""
    verdict: str
    caveats: tuple[str, ...]
    """What these experiments do not imitate."""
    epsilon: float
    delta: float
    seeds: int
    of: str

    @property
    def options_text(self) -> str:
        """The best setting for the command line: -m NAME -O key=value."""
        return options_text(self.best.mechanism)

    def command(
        self, private: str = "PRIVATE", public: str = "PUBLIC", out: str = "release", more: str = ""
    ) -> str:
        """The release that this tuning was for; `more` has options of it that tuning does not know."""
        budget = f"--epsilon {self.epsilon:g} --delta {self.delta:g}"
        return f"openprior release {private} --public {public} {budget} {self.options_text}{more} -o {out}"

    def table(self) -> PlanTable:
        """The comparison, for printing."""
        rows = []
        for s in self.results:
            if math.isnan(s.workload_error):
                rows.append((s.name, "failed", "", "", s.failures[0]))
                continue
            error = f"{s.workload_error:.4f}"
            error += "" if s.standard_error is None else f" ± {s.standard_error:.4f}"
            note = "take this" if s is self.best else s.failures[0] if s.failures else ""
            rows.append((s.name, error, f"{s.max_error:.4f}", f"{s.seconds:.1f}", note))
        headings = ("setting", "workload error", "largest error", "seconds", "")
        return PlanTable(f"Tuned on public data, {self.seeds} seeds", headings, tuple(rows))

    def sheet(self) -> Sheet:
        """The comparison, its verdict, and what it does not imitate."""
        table = self.table()
        return Sheet(table.title, table.headings, table.rows, (self.verdict, *self.caveats))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        margin = self.margin
        return {
            "best": self.best.as_dict(),
            "margin": None
            if margin is None
            else {
                "difference": margin.difference,
                "standard_error": margin.standard_error,
                "share": margin.share,
                "is_clear": margin.is_clear,
            },
            "verdict": self.verdict,
            "caveats": list(self.caveats),
            "command": self.command(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seeds": self.seeds,
            "of": self.of,
            "results": [s.as_dict() for s in self.results],
        }


def judged(
    settings: Sequence[Setting], *, epsilon: float, delta: float, of: str, caveats: Sequence[str] = ()
) -> Tuning:
    """The verdict on settings that have been tried."""
    whole = sorted((s for s in settings if not s.failures), key=lambda s: s.workload_error)
    broken = [s for s in settings if s.failures]
    if not whole:
        raise OptionError(f"every setting failed; {broken[0].name}, {broken[0].failures[0]}")
    leader = whole[0]
    near = [s for s in whole[1:] if _is_near(leader, s)]
    best = min([leader, *near], key=lambda s: s.seconds if _FASTER * s.seconds < leader.seconds else math.inf)
    rivals = [s for s in whole if s is not best]
    rival = rivals[0] if rivals else None
    margin = None if rival is None else margin_of(best, rival)
    return Tuning(
        results=(*whole, *broken),
        best=best,
        runner_up=rival,
        margin=margin,
        verdict=_verdict(best, rival, margin),
        caveats=tuple(caveats),
        epsilon=epsilon,
        delta=delta,
        seeds=len(leader.runs),
        of=of,
    )


def margin_of(best: Setting, rival: Setting) -> Margin:
    """The paired difference of the rival's errors and the best's."""
    return paired(best.errors, rival.errors)


def paired(best: Sequence[float], rival: Sequence[float]) -> Margin:
    """The same of two lists of errors, one per seed."""
    gaps = np.subtract(rival, best)
    mean, error, worse = float(gaps.mean()), standard_error(gaps), float(np.mean(rival))
    clear = error is not None and abs(mean) > _student(len(gaps) - 1) * error
    return Margin(mean, error, mean / worse if worse else 0.0, clear)


def _is_near(leader: Setting, other: Setting) -> bool:
    margin = margin_of(leader, other)
    return not margin.is_clear and margin.difference <= _CLOSE * leader.workload_error


def _verdict(best: Setting, rival: Setting | None, margin: Margin | None) -> str:
    if rival is None or margin is None:
        return f"{best.name} is the only setting that ran: nothing to compare it with."
    seeds = len(best.runs)
    if margin.standard_error is None:
        ahead = f"{100 * margin.share:.1f} % less error than {rival.name}"
        return f"{best.name} has {ahead} with one seed, which may be luck: use seeds=3 or more."
    if margin.is_clear and margin.difference > 0:
        spread = margin.standard_error / rival.workload_error
        return (
            f"{best.name} wins by {100 * margin.share:.1f} % ± {100 * spread:.1f} % over {rival.name} "
            f"({seeds} seeds)."
        )
    apart = f"{best.name} and {rival.name} cannot be told apart with {seeds} seeds"
    if _FASTER * best.seconds < rival.seconds:
        return f"{apart}; {best.name} is faster: take {best.name}."
    return f"{apart}; {best.name} has the smaller mean: take {best.name}, or try more seeds."


def standard_error(values: Sequence[float] | Any) -> float | None:
    """Of the mean; None for fewer than two values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _student(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
