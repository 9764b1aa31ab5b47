"""What whole releases give away, against what they claim: `python -m benchmarks.blackbox`.

Writes benchmarks/results/blackbox.md. Every mechanism releases two neighbouring tables thousands of times, with the
secure noise of real releases. An attacker who knows both tables, all but which of them was released, makes numbers of
each release: the likelihood ratio of its measurements, the model's answers, what was measured how often. On one half
of the releases a test is chosen (the likelihood ratio, or a logistic regression on all numbers, and a threshold); on
the other half its two error rates are counted. Clopper and Pearson's limits for both (each at 97.5 %) give an ε at
the claimed δ that is shown at 95 % confidence: a mechanism whose ε is lower than that has broken its promise. A twin
with too little noise must pass its claim, so that the attack can succeed.

The tables are tiny (six rows, all alike but for the person who changes), because one row then moves everything. What
is shown can never reach what is claimed: the zCDP accounting is not tight at one δ, and runs are few. "A Gaussian" is
the ε at this δ of one Gaussian measurement that costs the whole budget: no attack can show more than that of honest
Gaussian noise, however many runs there are.
"""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import optimize, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import openprior as op
from openprior.errors import OpenPriorWarning
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.noise import SecureNoise

RESULTS = Path(__file__).parent / "results" / "blackbox.md"
EPSILON, DELTA = 2.0, 0.01
SCHEMA = op.Schema.from_toml("""
[columns.area]
kind = "categorical"
values = ["n1", "s1"]
[columns.b]
kind = "integer"
low = 0
high = 1
[columns.c]
kind = "integer"
low = 0
high = 1
[hierarchies.region]
column = "area"
prefix = 1
""")
WORK = op.all_marginals(2)
MARGINALS = [("area", "b"), ("area", "c"), ("b", "c"), ("area",), ("b",), ("c",), ("area", "b", "c")]
Codes = np.ndarray[Any, Any]
PUBLIC: Codes = np.random.default_rng(0).integers(0, 2, (30, 3))
ALIKE = np.zeros((6, 3), int)
CHANGED = np.concatenate([ALIKE[:5], np.ones((1, 3), int)])


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    mechanism: Any
    releases: int
    """Of each table."""
    delta: float = DELTA
    relation: str = "replace-one"
    noise: float = 1.0
    """Times the noise that it should be: a broken twin below 1."""


CASES = {
    "ide": Case(op.Ide(), 1000),
    "ide, δ = 0": Case(op.Ide(noise="laplace"), 1500, delta=0.0),
    "ide, add-remove": Case(op.Ide(), 700, relation="add-remove"),
    "mst": Case(op.Mst(), 1000),
    "aim": Case(op.Aim(), 700),
    "jam-pgm, 3 rounds": Case(op.JamPgm(rounds=3), 1000),
    "mwem, 4 rounds": Case(op.Mwem(rounds=4), 1000),
    "mwem-pub, 4 rounds": Case(op.MwemPub(rounds=4), 1000),
    "pmw-pub, 4 rounds": Case(op.PmwPub(rounds=4), 1000),
    "hierarchy": Case(op.Hierarchy(), 700),
    "hierarchy, mst inside": Case(op.Hierarchy(inner=op.Mst()), 400),
    "tilt, 3 rounds, 1000 particles": Case(op.Tilt(rounds=3, particles=1000), 60),
    "public": Case(op.PublicProxy(), 300),
    "BROKEN: mst, noise × 0.25": Case(op.Mst(), 600, noise=0.25),
}


def arrow(codes: Codes) -> pa.Table:
    """As a user would have it."""
    return pa.table({"area": np.array(["n1", "s1"])[codes[:, 0]], "b": codes[:, 1], "c": codes[:, 2]})


def tables(relation: str) -> tuple[Codes, Codes]:
    """Two neighbours: one person's row is changed in every column, or gone."""
    return ALIKE, CHANGED if relation == "replace-one" else ALIKE[:5]


def counts(codes: Codes, columns: tuple[str, ...], fixed: Any) -> Codes:
    """Exact counts of the cells of some columns, where others have given codes; the region is the area."""
    place = {"area": 0, "region": 0, "b": 1, "c": 2}
    for name, code in fixed.items():
        codes = codes[codes[:, place[name]] == code]
    number = np.zeros(len(codes), int)
    for name in columns:
        number = 2 * number + codes[:, place[name]]
    return np.bincount(number, minlength=2 ** len(columns))


def numbers(made: op.Release, first: Codes, second: Codes) -> list[float]:
    """What the attacker makes of a release."""
    ratio = 0.0
    times: dict[tuple[Any, ...], int] = dict.fromkeys(MARGINALS, 0)
    times |= {(*m, *cell): 0 for m in MARGINALS[:3] for cell in np.ndindex(2, 2)}
    for item in made.measurements:
        cells = item.cells(made.measurements.domain)
        if cells is None:
            continue
        near, far = (np.abs(item.values - counts(t, *cells)) for t in (first, second))
        if item.noise == "gaussian":
            ratio += float((near**2 - far**2).sum()) / (2 * item.sigma**2)
        else:
            ratio += float((near - far).sum()) * math.sqrt(2) / item.sigma
        columns, fixed = cells
        seen = tuple(a for a in ("area", "b", "c") if a in {*columns, *fixed})
        for what in (seen, () if columns else (*seen, *(fixed[a] for a in seen))):
            if what in times:
                times[what] += 1
    answers = made.model.answers(MARGINALS)
    return [ratio, *times.values(), made.model.total, *(float(v) for m in MARGINALS for v in answers[m])]


@contextmanager
def with_noise(factor: float) -> Iterator[None]:
    """Samplers that draw so many times what they are asked for; selections at as much more ε."""
    names = ("gaussian", "laplace", "exponential", "permute_and_flip")
    right: dict[str, Callable[..., Any]] = {name: getattr(SecureNoise, name) for name in names}

    def wrong(name: str) -> Callable[..., Any]:
        by = factor if name in ("gaussian", "laplace") else 1 / factor
        return lambda self, *given: right[name](self, *given[:-1], given[-1] * by)

    try:
        for name in names:
            if factor != 1:
                setattr(SecureNoise, name, wrong(name))
        yield
    finally:
        for name in names:
            if name in vars(SecureNoise):
                setattr(SecureNoise, name, right[name])


def attack(case: Case, releases: int | None = None) -> tuple[float, float]:
    """The ε that is shown, and seconds per release."""
    first, second = tables(case.relation)
    public, began = arrow(PUBLIC), time.perf_counter()
    found = []
    with with_noise(case.noise):
        for table in (first, second):
            private = arrow(table)
            rows = []
            for _ in range(releases or case.releases):
                made = op.release(
                    private, public, schema=SCHEMA, workload=WORK, epsilon=EPSILON, delta=case.delta,
                    mechanism=case.mechanism, relation=case.relation,
                )  # fmt: skip
                rows.append(numbers(made, first, second))
            found.append(np.array(rows))
    seconds = (time.perf_counter() - began) / (2 * len(found[0]))
    return shown(found[0], found[1], case.delta), seconds


def shown(first: Codes, second: Codes, delta: float) -> float:
    """A lower bound on ε at 95 % confidence: a test is chosen on the even releases, and counted on the odd ones.

    Of the even ones, half weigh the numbers, and half choose between that and the likelihood ratio alone, a threshold,
    and which table the test speaks for: by the bound that they give themselves, and the one of normal scores with their
    means and spreads, which chance moves less.
    """
    pair = (first, second)
    judge = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
    judge.fit(np.concatenate([t[::4] for t in pair]), np.repeat([0, 1], [len(t[::4]) for t in pair]))
    judges: list[Callable[[Codes], Codes]] = [judge.decision_function, lambda t: t[:, 0]]
    best, test = -math.inf, (0, 0.0, 1)
    for which, judged in enumerate(judges):
        choose = [judged(t[2::4]) for t in pair]
        grid = stats.norm.ppf((np.arange(len(first[1::2])) + 0.5) / len(first[1::2]))
        normal = [s.mean() + s.std() * grid for s in choose]
        for side in (1, -1):
            for threshold in np.quantile(np.concatenate(choose), np.linspace(0.005, 0.995, 199)):
                cut = float(threshold)
                bound = sum(max(_bound(s, cut, side, delta), -1.0) for s in (choose, normal))
                if bound > best:
                    best, test = bound, (which, cut, side)
    which, cut, side = test
    return max(0.0, _bound([judges[which](t[1::2]) for t in pair], cut, side, delta))


def _bound(scores: list[Codes], threshold: float, side: int, delta: float) -> float:
    """log((hits − δ)/false alarms), with the unlucky limits of both."""
    no, yes = scores if side == 1 else scores[::-1]
    hits, alarms = (int((side * s > side * threshold).sum()) for s in (yes, no))
    low = stats.beta.ppf(0.025, hits, len(yes) - hits + 1) if hits else 0.0
    high = stats.beta.ppf(0.975, alarms + 1, len(no) - alarms) if alarms < len(no) else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def gaussian_epsilon(rho: float, delta: float) -> float:
    """ε at δ of one Gaussian measurement that costs ρ (Balle & Wang 2018, Theorem 5)."""
    mu = math.sqrt(2 * rho)

    def over(epsilon: float) -> float:
        above = stats.norm.cdf(mu / 2 - epsilon / mu)
        return float(above - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(optimize.brentq(over, 0.0, 50.0))


HEADER = """# What whole releases give away

ε that an attack *shows* at 95 % confidence, against the ε that is *claimed*, at the same δ. Tables of six rows,
replace-one unless said otherwise, secure noise (so no seeds), *releases* of each of the two neighbours; half of
them choose the test, half count its errors. *A Gaussian*: what endless runs could show of one honest Gaussian
measurement for the whole budget. A mechanism is within its claim if *shown* is not above *claimed*; the BROKEN
twins, with noise that is too small, have to pass theirs. Fewer rounds or releases than usual are named. Written by
`python -m benchmarks.blackbox`; its head says more.

| mechanism | δ | claimed ε | a Gaussian | shown ε | verdict | releases | ms per release | date |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Run all, or the lines named; other lines of the table are kept."""
    asked = sys.argv[1:] or list(CASES)
    kept = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    known = {cells[0]: line for line in kept if len(cells := line.strip("| ").split(" | ")) == 9}
    warnings.simplefilter("ignore", OpenPriorWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in asked:
        case = CASES[name]
        epsilon, seconds = attack(case)
        verdict = "within" if epsilon <= EPSILON else "PASSES ITS CLAIM"
        most = f"{gaussian_epsilon(budget_rho(EPSILON, case.delta), case.delta):.2f}" if case.delta else "–"
        cells = [name, f"{case.delta:g}", f"{EPSILON:g}", most, f"{epsilon:.2f}", verdict]
        cells += [f"{case.releases:,}", f"{1000 * seconds:.0f}", f"{datetime.now(UTC):%Y-%m-%d}"]
        known[name] = "| " + " | ".join(cells) + " |"
        print(known[name], flush=True)
        lines = [known[n] for n in CASES if n in known]
        RESULTS.write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
