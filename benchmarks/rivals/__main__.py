"""`python -m benchmarks.rivals TABLE ... TOOL ... METHOD ... ε ... [seeds=N] [limit=SECONDS]`

Measures those, or all that are not named, and keeps the other lines of the table, which is written anew after every
line. Runs that are kept from before are not done again. Environments are made when they are first needed.
"""

import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy import DELTA, EPSILONS
from benchmarks.rivals import picture, results, summary
from benchmarks.rivals.environments import Environment, NotInstalled, cache_folder, environment_of
from benchmarks.rivals.kept import Asked, Kept, Run
from benchmarks.rivals.one_run import one_core, run
from benchmarks.rivals.tables import TABLES, Truth, hand_out, load, take_back
from benchmarks.rivals.tools import TOOLS, Tool
from openprior.errors import OpenPriorError

METHODS = tuple(dict.fromkeys(m for tool in TOOLS.values() for m in tool.methods))
BUDGETS = tuple(f"{e:g}" for e in EPSILONS)


@dataclass(frozen=True)
class Plan:
    """What is to be measured, as the arguments say."""

    tables: tuple[str, ...]
    tools: tuple[str, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: int = 2
    limit: float = 600.0

    @classmethod
    def of(cls, words: list[str]) -> "Plan":
        """Names in any order; what is not named is not narrowed."""
        numbers = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        known = (*TABLES, *TOOLS, *METHODS, *BUDGETS)
        unknown = [
            *(w for w in names if w not in known),
            *(n for n in numbers if n not in ("seeds", "limit")),
        ]
        if unknown:
            sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}, seeds=N, limit=SECONDS")

        def chosen(among: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(w for w in among if w in names) or among

        epsilons = tuple(float(e) for e in chosen(BUDGETS))
        return cls(
            chosen(TABLES),
            chosen(tuple(TOOLS)),
            chosen(METHODS),
            epsilons,
            int(numbers.get("seeds", 2)),
            float(numbers.get("limit", 600)),
        )


def ready(tools: tuple[str, ...]) -> dict[str, Environment]:
    """The environments that can be had; the table says which cannot."""
    environments = {}
    for tool in (TOOLS[name] for name in tools):
        for method, words in tool.lacks.items():
            results.put_missing(tool, method, words)
        try:
            environments[tool.name] = environment_of(tool)
        except NotInstalled as error:
            results.put_missing(tool, results.ALL, f"could not be installed: {error}")
            continue
        if not tool.methods:
            results.put_missing(tool, results.ALL, "can be installed, and has no adapter yet")
    return environments


@dataclass(frozen=True)
class Place:
    """A private table, and the folder where it is handed out."""

    name: str
    truth: Truth
    folder: Path

    def measured(self, asked: Asked, tool: Tool, python: str, limit: float) -> Run:
        """One run, with the errors of what it made."""
        relation, method = tool.methods[asked.method], asked.method.split(",")[0]
        with tempfile.TemporaryDirectory() as place:
            out = Path(place)
            budget = [repr(asked.epsilon), repr(asked.delta), str(asked.seed)]
            words = [str(self.folder), str(out), method, relation, *budget]
            outcome = run(python, tool.adapter, words, out, limit)
            if outcome.words:
                return Run(asked, limit, words=outcome.words, timed_out=outcome.timed_out)
            try:
                rows = take_back(out, self.truth.table.domain)
            except (OpenPriorError, ValueError) as error:
                return Run(asked, limit, words=f"failed: {error}")
        return Run(asked, limit, *self.truth.errors(rows), outcome.seconds, outcome.mb)


def seeds_of(
    plan: Plan, kept: Kept, place: Place, tool: Tool, environment: Environment, method: str, epsilon: float
) -> list[Run]:
    """The runs of one line, those that are kept from before among them."""
    runs: list[Run] = []
    version, fingerprint = environment.version, tool.fingerprint()
    for seed in range(plan.seeds):
        asked = Asked(tool.name, version, fingerprint, method, place.name, epsilon, DELTA, seed)
        known = kept.find(asked, plan.limit)
        if known is None:
            known = place.measured(asked, tool, environment.python, plan.limit)
            kept.add(known)
        runs.append(known)
        if not known.is_done:  # another seed would go the same way
            break
    return runs


def main(words: list[str]) -> None:
    """Table by table, tool by tool; ε from small to large, until a run does not finish."""
    plan, kept = Plan.of(words), Kept(cache_folder() / "runs.jsonl")
    environments = ready(plan.tools)
    with tempfile.TemporaryDirectory() as folder:
        for name in plan.tables:
            place = Place(name, Truth.of(load(name)), Path(folder) / name)
            hand_out(place.truth.table, place.folder)
            for tool in (TOOLS[t] for t in environments):
                for method in (m for m in tool.methods if m in plan.methods):
                    for epsilon in plan.epsilons:
                        runs = seeds_of(plan, kept, place, tool, environments[tool.name], method, epsilon)
                        results.put(tool, runs)
                        picture.write()
                        summary.write()
                        if runs[-1].timed_out:
                            break


if __name__ == "__main__":
    one_core()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an interrupt does, it ends the run under way
    main(sys.argv[1:])
