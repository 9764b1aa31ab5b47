"""How often 95 % intervals hold the true count, on real pairs.

`python -m benchmarks.intervals [METHOD|PAIR|ε …] [seeds=N]` writes benchmarks/results/intervals.md, and keeps the lines
that are not asked for. Every run measures its errors with the share of the budget that a release takes by itself, with
all the noise of that measurement.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import openprior as op
from benchmarks.accuracy import DELTA
from benchmarks.data import data_folder, jam_pair
from benchmarks.lines import Lines
from openprior.counting.local import count_table
from openprior.errors import OpenPriorWarning
from openprior.releases.answers import numbers_of
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table

PAIRS = {
    "TITANIC": "titanic",
    "ADULT, 25 % women": "adult_pub025_01",
    "ADULT, 100 % women": "adult_pub100_01",
    "SALARY": "salary",
    "FIRE": "fire",
    "ACS 2018 to 2019": "acs",
}
SOME = ("TITANIC", "ADULT, 25 % women", "ACS 2018 to 2019")
METHODS: dict[str, tuple[Any, int, tuple[str, ...]]] = {
    "tilt": (op.Tilt(), 5, tuple(PAIRS)),
    "jam-pgm": (op.JamPgm(), 5, SOME),
    "tilt, no public table": (op.Tilt(), 5, SOME),
    "aim": (op.Aim(), 5, SOME),
    "mst": (op.Mst(), 5, SOME),
    "pmw-pub": (op.PmwPub(), 5, SOME),
    "ide": (op.Ide(), 5, SOME),
    "hierarchy": (op.Hierarchy(levels=(("PUMA",),)), 5, SOME[2:]),
}
"""The mechanism, how many seeds, and on which pairs."""
ALONE = ("tilt, no public table", "aim", "mst")
"""Without a public table."""
RAW = "tilt, raw bars"
EPSILONS = (0.1, 1.0, 10.0)
STRATA = (0.0, 0.5, 2.0, 5.0, 20.0, 100.0)
NAMES = ("below 0.5", "0.5 to 2", "2 to 5", "5 to 20", "20 to 100", "100 and more")
HEADER = f"""# Coverage of 95 % intervals

All cells of the workload, by how many rows the release estimates: all 3-way marginals, of ACS all pairs; δ = \
{DELTA:g}; replace-one. *With*: cells that have an interval, in percent. *Share*: what part of ρ measured the errors. \
Then for each stratum: how many percent of the intervals hold the private count, mean over the seeds; (the worst \
seed); ± the mean half-length of the intervals, in rows. "{RAW}" are 1.96 of the standard errors that tilt states by \
itself, and half a row, for comparison: the same cells of the same runs. `aim` and `mst` have no public table. A – \
stands where a stratum has no more than 20 cells. What bars expect beforehand was chosen on these same pairs. By \
`python -m benchmarks.intervals`.

| pair | method | ε | seeds | with | share | {" | ".join(NAMES)} |
|---|---|---|---|---|---|{"---|" * len(NAMES)}
"""
TABLE = Lines(Path(__file__).parent / "results" / "intervals.md", HEADER)


def order() -> list[tuple[str, str, str]]:
    """Pairs, methods and ε, as they stand in the table."""
    methods = [m for name in METHODS for m in ((name, RAW) if name == "tilt" else (name,))]
    return [(p, m, f"{e:g}") for p in PAIRS for m in methods for e in EPSILONS]


def opened(pair: str) -> tuple[Any, Any, Schema, Any]:
    """Private, public, schema, workload."""
    if pair == "ACS 2018 to 2019":
        acs = data_folder() / "nist_acs"  # type: ignore[operator]
        schema = Schema.load(Path(__file__).parents[1] / "examples" / "acs" / "national.toml")
        return acs / "national2019.csv", acs / "national2018.csv", schema, op.all_marginals(2)
    return *jam_pair(PAIRS[pair]), op.all_marginals(3)  # type: ignore[misc, return-value]


class Measured:
    """What one run of a pair gives: for its bars and for the raw ones, by stratum."""

    def __init__(self, pair: str) -> None:
        self.private, self.public, self.schema, work = opened(pair)
        self.work = work.on(self.schema.domain)
        self.marginals = list(self.work.marginals)
        truth = count_table(encode_table(self.private, self.schema), self.marginals)
        self.truth = np.concatenate([truth[m] for m in self.marginals])

    def run(self, name: str, epsilon: float, seed: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Coverage, half-lengths, share of cells with an interval, and share of ρ."""
        made = op.release(
            self.private,
            None if name in ALONE else self.public,
            schema=self.schema,
            workload=self.work,
            epsilon=epsilon,
            delta=DELTA,
            mechanism=METHODS[name][0],
            seed=seed,
        )
        parts = numbers_of(made.model, made.measurements, self.marginals, made.error_bars)
        estimate, _, low, high, _ = (np.concatenate([p[i] for p in parts]) for i in range(5))
        c = made.certificate
        share = sum(e.rho for e in c.events if e.to_dict().get("statistic") == "errors") / c.rho
        own = self._by_stratum(estimate, low, high) | {"share": share}
        errors = made.model.standard_errors(self.marginals)
        if errors is None:
            return own, None
        reach = 1.959964 * np.concatenate([errors[m] for m in self.marginals]) + 0.5
        return own, self._by_stratum(estimate, np.maximum(estimate - reach, 0), estimate + reach)

    def _by_stratum(self, estimate: Any, low: Any, high: Any) -> dict[str, Any]:
        place = np.maximum(np.searchsorted(STRATA, estimate, side="right") - 1, 0)
        cells = np.bincount(place, minlength=len(STRATA))
        has = np.isfinite(low) & np.isfinite(high)
        inside = has & (low <= self.truth) & (self.truth <= high)
        with np.errstate(invalid="ignore", divide="ignore"):
            told = np.bincount(place, has, minlength=len(STRATA))
            held = np.bincount(place, inside, minlength=len(STRATA)) / told
            half = np.bincount(place, np.where(has, high - low, 0) / 2, minlength=len(STRATA)) / told
        few = cells <= 20
        held[few], half[few] = np.nan, np.nan
        return {"held": held, "half": half, "with": float(has.mean())}


def cells_of(found: list[dict[str, Any]], seeds: int) -> list[str]:
    """A line's cells."""
    held, half = (np.array([f[name] for f in found]) for name in ("held", "half"))
    shown = [str(seeds), f"{100 * np.mean([f['with'] for f in found]):.1f}"]
    shares = [f["share"] for f in found if "share" in f]
    shown.append(f"{np.mean(shares):.3f}" if shares else "–")
    for s in range(len(STRATA)):
        own = held[:, s][np.isfinite(held[:, s])]
        text = (
            f"{100 * own.mean():.1f} ({100 * own.min():.1f}) ±{_rows(np.nanmean(half[:, s]))}"
            if len(own)
            else "–"
        )
        shown.append(text)
    return shown


def _rows(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}"


def main(wanted: list[str]) -> None:
    """Every wanted pair, method and ε."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    seeded = [int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")]
    budgets = [e for e in EPSILONS if f"{e:g}" in wanted] or list(EPSILONS)
    pairs = [p for p in PAIRS if p in wanted] or list(PAIRS)
    methods = [m for m in METHODS if m in wanted] or list(METHODS)
    for name in methods:
        _, seeds, where = METHODS[name]
        seeds = seeded[0] if seeded else seeds
        for pair in pairs:
            if pair not in where:
                continue
            measured = Measured(pair)
            for epsilon in budgets:
                found = [measured.run(name, epsilon, seed) for seed in range(seeds)]
                TABLE.put((pair, name, f"{epsilon:g}"), cells_of([own for own, _ in found], seeds), order())
                raw = [r for _, r in found if r is not None]
                if raw and name == "tilt":
                    TABLE.put((pair, RAW, f"{epsilon:g}"), cells_of(raw, seeds), order())


if __name__ == "__main__":
    main(sys.argv[1:])
