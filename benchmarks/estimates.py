"""How often intervals of means, shares, differences and regressions hold: `python -m benchmarks.estimates [seeds=N]`.

Writes benchmarks/results/estimates.md. Quantities are drawn at random, the same for every run of a pair; what they are
compared with is the private table's own figure, reckoned from the same codes (inside a bin, values are the release's).
The regression is a logistic one of high income on eight columns: the private fit against the fit of one synthetic
table with the standard errors that such a fit states (naive), and against 20 replicates put together by `op.combine`.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import openprior as op
from benchmarks.accuracy import DELTA
from benchmarks.intervals import ALONE, opened
from benchmarks.lines import Lines
from openprior.errors import OpenPriorWarning
from openprior.releases.group_tables import numbers_of_codes
from openprior.tables.encode import encode_table
from openprior.tables.table import Table

PAIRS = ("ADULT, 25 % women", "ACS 2018 to 2019")
MECHANISMS = {"tilt": op.Tilt(), "tilt, no public table": op.Tilt(), "mst": op.Mst()}
EPSILONS = (0.1, 1.0, 10.0)
EACH, FEWEST, LARGE, SEEDS = 200, 50, 2000, 5
KINDS = ("mean", "share", "difference")
RESULTS = Path(__file__).parent / "results" / "estimates.md"
HEADER = f"""# Coverage of intervals of estimates

{EACH} random means, shares, and differences of means between two groups, of groups of at least {FEWEST} private rows; \
every group is made by one or two columns (of ACS one, as its workload has pairs). Percent of the 95 % intervals with \
the private table's own figure in them, mean over the seeds (worst seed); ×: the median half-length over the median \
error that was made. *Large groups*: the same of all of these whose groups have {LARGE:,} rows or more. The last \
three are of a regression: percent of the coefficients of a logistic regression on ADULT whose private value is \
inside, for the interval that the fit of one synthetic table states (naive), and for 20 replicates; *wider*: \
how many times as long these are. δ = {DELTA:g}, replace-one; `mst` has no public table. By \
`python -m benchmarks.estimates`.

| pair | method | ε | seeds | mean | share | difference | large groups | naive | replicates | wider |
|---|---|---|---|---|---|---|---|---|---|---|
"""
TABLE = Lines(RESULTS, HEADER)
Floats = NDArray[np.float64]


def order() -> list[tuple[str, str, str]]:
    """As they stand in the table."""
    return [(p, m, f"{e:g}") for p in PAIRS for m in MECHANISMS for e in EPSILONS]


class Questions:
    """Random quantities of a pair, and what the private table says."""

    def __init__(self, pair: str) -> None:
        self.pair = pair
        self.private, self.public, self.schema, work = opened(pair)
        self.work = work.on(self.schema.domain)
        self.codes = encode_table(self.private, self.schema)
        self.deep = 2 if len(self.work.marginals[0]) > 2 else 1
        rng = np.random.default_rng(0)
        names = list(self.schema.names)
        self.numeric = [a for a in names if self.schema.ordered.get(a, 0) > 2]
        self.asked: dict[str, list[tuple[str, tuple[str, ...], int, int, int]]] = {k: [] for k in KINDS}
        while any(len(some) < EACH for some in self.asked.values()):
            kind = KINDS[int(rng.integers(3))]
            of = str(rng.choice(self.numeric if kind != "share" else names))
            by = tuple(
                map(
                    str, rng.choice([a for a in names if a != of], int(rng.integers(1, self.deep + 1)), False)
                )
            )
            cell = self._cells(self.codes, by)
            rows = np.bincount(cell, minlength=self.schema.domain.size(by))
            groups = np.flatnonzero(rows >= FEWEST)
            if len(groups) < 2 or len(self.asked[kind]) >= EACH:
                continue
            first, second = map(int, rng.choice(groups, 2, replace=False))
            self.asked[kind].append((of, by, first, second, int(rng.integers(self.schema[of].size))))

    def _cells(self, codes: Table, by: tuple[str, ...]) -> NDArray[np.int64]:
        cell = np.zeros(codes.n, np.int64)
        for a in by:
            cell = cell * self.schema.domain[a] + codes.column(a)
        return cell

    def truth(self, of: str, by: tuple[str, ...], group: int, numbers: Floats) -> float:
        """The private mean of numbers (by code) in a group."""
        own = numbers[self.codes.column(of)[self._cells(self.codes, by) == group]]
        own = own[np.isfinite(own)]
        return float(own.mean()) if len(own) else float("nan")

    def rows(self, by: tuple[str, ...], group: int) -> int:
        """The private rows of a group."""
        return int((self._cells(self.codes, by) == group).sum())

    def held(self, made: op.Release, kind: str, large: list[bool]) -> tuple[float, float]:
        """The share of intervals that hold, and the median half-length over the median error; `large` gets which hold
        of large groups."""
        inside, halves, errors = [], [], []
        for of, by, first, second, code in self.asked[kind]:
            label = self.schema[of].labels[code]
            what, more = ("share", {"value": label}) if kind == "share" else ("mean", {})
            numbers = np.zeros(self.schema[of].size)
            if kind == "share":
                numbers[code] = 1.0
            else:
                numbers = numbers_of_codes(of, self.schema, lambda: made.codes, lambda a=of: values(made, a))  # type: ignore[misc]
            if kind == "difference":
                labels = np.unravel_index(second, [self.schema.domain[a] for a in by])
                against = {a: self.schema[a].labels[i] for a, i in zip(by, labels, strict=True)}
                more = {"compare": "difference", "against": against}
            table = made.estimate(what, of, by=by, **more)  # type: ignore[arg-type]
            low, high, found = (table[name][first].as_py() for name in ("low", "high", "estimate"))
            true = self.truth(of, by, first, numbers)
            if kind == "difference":
                true -= self.truth(of, by, second, numbers)
            if not np.isfinite(true):
                continue  # nobody in the group has a value
            if low is None:
                inside.append(False)
                continue
            inside.append(low <= true <= high)
            if min(self.rows(by, first), self.rows(by, second if kind == "difference" else first)) >= LARGE:
                large.append(inside[-1])
            halves.append((high - low) / 2)
            errors.append(abs(true - found))
        return float(np.mean(inside)), float(np.median(halves) / max(np.median(errors), 1e-12))


def values(made: op.Release, name: str) -> Floats:
    """The released values of a column."""
    from openprior.releases.row_parts import column_values

    return column_values(made.synthetic, name)


# A regression.

Y, X = (
    "income>50K",
    ("age", "education-num", "hours-per-week", "sex", "marital-status", "race", "relationship", "workclass"),
)


def design(codes: Table, private: Table) -> Floats:
    """Ordered columns standardised as in the private table, others as ones and zeros; codes with 200 rows at least."""
    columns = [np.ones(codes.n)]
    for a in X:
        own, theirs = codes.column(a).astype(np.float64), private.column(a)
        if a in X[:3]:
            columns.append((own - theirs.mean()) / theirs.std())
        else:
            counts = np.bincount(theirs, minlength=private.domain[a])
            kept = [v for v in np.flatnonzero(counts >= 200) if v != counts.argmax()]
            columns += [(own == v).astype(np.float64) for v in kept]
    return np.stack(columns, axis=1)


def fitted(codes: Table, private: Table) -> tuple[Floats, Floats]:
    """Coefficients of the logistic regression, a hair of a ridge, and their variances."""
    x, y = design(codes, private), codes.column(Y).astype(np.float64)
    b, ridge = np.zeros(x.shape[1]), 1e-3 * np.eye(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ b))
        inverse = np.linalg.inv((x.T * (p * (1 - p))) @ x + ridge)
        b = b + inverse @ (x.T @ (y - p) - ridge @ b)
    return b, inverse.diagonal()


def regression(made: op.Release, private: Table, seed: int) -> tuple[float, float, float]:
    """Coverage of the naive intervals, of replicates, and how many times as long these are."""
    truth, _ = fitted(private, private)
    one, variance = fitted(made.codes, private)
    naive = np.abs(one - truth) <= 1.959964 * np.sqrt(variance)
    tables = [encode_table(t, made.schema.plain) for t in made.replicates(20, seed=seed)]
    both = op.combine([fitted(t, private)[0] for t in tables])
    inside = (both.low <= truth) & (truth <= both.high)
    return (
        float(naive.mean()),
        float(inside.mean()),
        float(np.median(both.standard_error / np.sqrt(variance))),
    )


def main(wanted: list[str]) -> None:
    """Every pair, mechanism and ε."""
    warnings.simplefilter("ignore", OpenPriorWarning)
    seeds = next((int(w.removeprefix("seeds=")) for w in wanted if w.startswith("seeds=")), SEEDS)
    for pair in [p for p in PAIRS if p in wanted] or PAIRS:
        questions = Questions(pair)
        for name in [m for m in MECHANISMS if m in wanted] or MECHANISMS:
            for epsilon in EPSILONS:
                found, fits, large = [], [], list[bool]()
                for seed in range(seeds):
                    made = op.release(
                        questions.private,
                        None if name in ALONE else questions.public,
                        schema=questions.schema,
                        workload=questions.work,
                        epsilon=epsilon,
                        delta=DELTA,
                        mechanism=MECHANISMS[name],
                        seed=seed,
                    )
                    found.append([questions.held(made, kind, large) for kind in KINDS])
                    if Y in questions.schema.names:
                        fits.append(regression(made, questions.codes, seed))
                told = np.array(found)
                cells = [
                    f"{100 * told[:, k, 0].mean():.1f} ({100 * told[:, k, 0].min():.1f}) ×{told[:, k, 1].mean():.1f}"
                    for k in range(len(KINDS))
                ]
                cells.append(f"{100 * np.mean(large):.1f}")
                means = np.mean(fits, axis=0) if fits else None
                cells += (
                    ["–"] * 3
                    if means is None
                    else [f"{100 * m:.0f}" for m in means[:2]] + [f"×{means[2]:.1f}"]
                )
                TABLE.put((pair, name, f"{epsilon:g}"), [str(seeds), *cells], order())


if __name__ == "__main__":
    main(sys.argv[1:])
