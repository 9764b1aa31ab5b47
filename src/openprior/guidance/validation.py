"""Trials of public tables against a validation table, and which did best at each ε.

A trial is a public table, an ε and a mechanism; its runs release the validation table, which is public too and stands
in for the private one. All trials of an ε share their seeds, so differences are paired.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OptionError
from openprior.guidance.experiment import Experiment, Run
from openprior.guidance.grid import changed_options, described, options_text
from openprior.guidance.verdict import paired, standard_error
from openprior.methods.base import Mechanism
from openprior.questions.workload import Workload
from openprior.schema.base import Schema

__all__ = ["ERRORS", "PublicChoice", "Trial", "Tried", "Validation", "chosen"]

ERRORS = {"max": "max_error", "workload": "workload_error"}
"""What is compared, and what a run calls it."""


@dataclass(frozen=True)
class Trial:
    """What is tried."""

    public: str
    epsilon: float
    mechanism: Mechanism


@dataclass(frozen=True)
class Validation:
    """What all trials have in common. Every table in it is public."""

    table: pa.Table
    """It stands in for the private one."""
    candidates: Mapping[str, pa.Table]
    schema: Schema
    workload: Workload
    delta: float
    rows: int | None
    of: str

    def run(self, trial: Trial, seed: int, /) -> Run:
        """One release of the validation table with the trial's public table, and its errors."""
        experiment = Experiment(
            newer=self.table,
            past=self.candidates[trial.public],
            schema=self.schema,
            workload=self.workload,
            epsilon=trial.epsilon,
            delta=self.delta,
            rows=self.rows,
            of=self.of,
        )
        return experiment.run(trial.mechanism, seed)


@dataclass(frozen=True, repr=False)
class Tried:
    """How a public table did with a mechanism at one ε."""

    public: str
    epsilon: float
    mechanism: Mechanism
    by: str
    runs: tuple[Run, ...]
    """One per seed."""

    @property
    def errors(self) -> tuple[float, ...]:
        """Of every seed; not a number where it failed."""
        return tuple(getattr(run, ERRORS[self.by]) for run in self.runs)

    @property
    def error(self) -> float:
        """Their mean; not a number if a seed failed."""
        return float(np.mean(self.errors))

    @property
    def standard_error(self) -> float | None:
        """Of that mean; None with fewer than two seeds."""
        return standard_error(self.errors)

    @property
    def failure(self) -> str | None:
        """Why the first seed that failed did."""
        return next((run.failure for run in self.runs if run.failure is not None), None)

    def __repr__(self) -> str:
        return f"<Tried {self.public} with {described(self.mechanism)}: {self.by} error {self.error:.4f}>"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "public": self.public,
            "epsilon": self.epsilon,
            "mechanism": self.mechanism.name,
            "options": changed_options(self.mechanism),
            "command_options": options_text(self.mechanism),
            "error": None if self.failure is not None else self.error,
            "standard_error": None if self.failure is not None else self.standard_error,
            "errors": [None if math.isnan(e) else e for e in self.errors],
            "seconds": None
            if self.failure is not None
            else float(np.mean([run.seconds for run in self.runs])),
            "failure": self.failure,
        }


@dataclass(frozen=True, repr=False)
class PublicChoice(Shown):
    """Public tables and settings compared on a validation table. Nothing in it has seen a private row."""

    results: tuple[Tried, ...]
    """By ε, best first; those that failed last."""
    by: str
    """"max" or "workload": the error that was compared."""
    delta: float
    seeds: int
    caveats: tuple[str, ...]

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Those that were asked for, in order."""
        return tuple(dict.fromkeys(t.epsilon for t in self.results))

    def at(self, epsilon: float) -> tuple[Tried, ...]:
        """All that were tried at an ε, best first."""
        tried = tuple(t for t in self.results if t.epsilon == epsilon)
        if not tried:
            raise OptionError(f"nothing was tried at ε = {epsilon}; there are {self.epsilons}")
        return tried

    def best(self, epsilon: float | None = None) -> Tried:
        """The public table and setting with the least mean error at an ε; without one, at the only one there is."""
        if epsilon is None and len(self.epsilons) > 1:
            raise OptionError(f"there is a choice for each ε of {self.epsilons}; say which")
        return self.at(self.epsilons[0] if epsilon is None else epsilon)[0]

    def verdict(self, epsilon: float) -> str:
        """The choice in words, and whether the next other table can be told from it."""
        first, *others = self.at(epsilon)
        head = f"ε = {epsilon:g}: take {first.public} with {described(first.mechanism)}"
        rivals = [t for t in others if t.public != first.public and t.failure is None]
        if not rivals:
            return f"{head}; no other table ran."
        margin = paired(first.errors, rivals[0].errors)
        if margin.standard_error is None:
            return f"{head}, ahead of {rivals[0].public} with one seed, which may be luck."
        if margin.is_clear:
            return f"{head}: {100 * margin.share:.1f} % less error than the next table, {rivals[0].public}."
        return f"{head}; {rivals[0].public} cannot be told from it with {how_many(self.seeds, 'seed')}."

    def sheet(self) -> Sheet:
        """The best setting of every table at every ε."""
        rows, seen = [], set()
        for t in self.results:
            if (t.epsilon, t.public) in seen:
                continue
            seen.add((t.epsilon, t.public))
            error = "failed" if t.failure is not None else f"{t.error:.4f}"
            if t.failure is None and t.standard_error is not None:
                error += f" ± {t.standard_error:.4f}"
            note = t.failure if t.failure is not None else "take this" if t is self.best(t.epsilon) else ""
            rows.append((f"{t.epsilon:g}", t.public, described(t.mechanism), error, note))
        headings = ("ε", "public table", "best setting", f"{self.by} error", "")
        title = f"Public tables compared on a validation table, {how_many(self.seeds, 'seed')}"
        notes = tuple(self.verdict(e) for e in self.epsilons)
        return Sheet(title, headings, tuple(rows), (*notes, *self.caveats))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "by": self.by,
            "delta": self.delta,
            "seeds": self.seeds,
            "choices": [{**self.best(e).as_dict(), "verdict": self.verdict(e)} for e in self.epsilons],
            "results": [t.as_dict() for t in self.results],
            "caveats": list(self.caveats),
        }


def chosen(
    tried: Sequence[Tried], *, by: str, delta: float, seeds: int, caveats: Sequence[str]
) -> PublicChoice:
    """All that were tried, in order; raises if nothing ran at some ε."""
    ordered: list[Tried] = []
    for epsilon in dict.fromkeys(t.epsilon for t in tried):
        here = [t for t in tried if t.epsilon == epsilon]
        if all(t.failure is not None for t in here):
            raise OptionError(
                f"every setting failed at ε = {epsilon:g}; {here[0].public}, {described(here[0].mechanism)}: "
                f"{here[0].failure}"
            )
        ordered += sorted(here, key=lambda t: math.inf if t.failure is not None else t.error)
    return PublicChoice(tuple(ordered), by, delta, seeds, tuple(caveats))
