"""`python -m benchmarks.linear`: is hdmm exact, optimal and fast? Writes benchmarks/results/linear.md.

Exactness: answers and standard errors beside least squares on the whole table of a small domain. Optimality: the
expected error of each strategy beside ResidualPlanner's optimum. Coverage: how many of the 95 % intervals hold the true
count. Time: processor seconds and megabytes from `op.release` to the written folder, each case in a process of its own,
after one that has compiled what has to be.
"""

import functools
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import openprior as op
from openprior.counting.local import count_table
from openprior.methods.shared.linear_measuring import measured_by, put_together
from openprior.methods.shared.linear_strategy import plan_linear
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Marginal, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.table import Table

RESULTS = Path(__file__).parent / "results" / "linear.md"
EPSILON, DELTA = 1.0, 1e-9
TIMED = (("10 columns, all pairs", 10, 5, 2), ("30 columns, all pairs", 30, 5, 2),
         ("100 columns, all pairs", 100, 5, 2), ("13 columns, all triples", 13, 5, 3))  # fmt: skip
ROWS = 10_000


def rows_of(domain: Domain, rows: int, seed: int) -> Table:
    """Correlated columns: five hidden numbers, mixed, with noise, in bins of equal width."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, len(domain))) + rng.normal(
        size=(rows, len(domain))
    )
    low, high = mixed.min(axis=0), mixed.max(axis=0)
    columns = []
    for i, a in enumerate(domain):
        share = (mixed[:, i] - low[i]) / (high[i] - low[i])
        columns.append(np.minimum((share * domain[a]).astype(np.int64), domain[a] - 1))
    return Table(domain, tuple(columns))


def matrix(marginal: Marginal, domain: Domain) -> np.ndarray:
    """Sums the domain's cells to a marginal's."""
    each = [np.eye(domain[a]) if a in marginal else np.ones((1, domain[a])) for a in domain]
    return functools.reduce(np.kron, each)


def exactness() -> list[str]:
    """The largest differences from brute force, over strategies, units and noises."""
    domain = Domain({"a": 2, "b": 3, "c": 4, "d": 3})
    table, work = rows_of(domain, 800, 1), all_marginals(2).on(domain)
    answers = errors = 0.0
    for relation, strategy in itertools.product(Relation, ("best", "marginals", "residuals")):
        unit = Unit(relation)
        plan = plan_linear(work, domain, unit, np.random.default_rng(0), strategy=strategy)
        curator = FakeCurator(table, unit=unit, noise=SeededNoise(2))
        measured = measured_by(curator, plan, curator.remaining, "gaussian")
        model = put_together(curator, work, measured, "gaussian")
        size = domain.size()
        known = unit.n_is_public
        start = np.full(size, table.n / size) if known else np.zeros(size)
        free = np.linalg.svd(np.ones((1, size)))[2][1:].T if known else np.eye(size)
        information, told = np.zeros((free.shape[1],) * 2), np.zeros(free.shape[1])
        for item in measured:
            reading = matrix(item.marginal, domain)
            if isinstance(item.statistic, Residuals):
                parts = [n * np.eye(n) - 1 for n in item.statistic.sizes]
                reading = functools.reduce(np.kron, parts) @ reading
            seen = reading @ free
            information += seen.T @ seen / item.sigma**2
            told += seen.T @ (item.values - reading @ start) / item.sigma**2
        inverse = np.linalg.pinv(information, hermitian=True)
        estimate, covariance = start + free @ (inverse @ told), free @ inverse @ free.T
        for marginal in work.marginals:
            counting = matrix(marginal, domain)
            answers = max(
                answers, float(np.abs(model.answers([marginal])[marginal] - counting @ estimate).max())
            )
            spread = np.sqrt(np.diag(counting @ covariance @ counting.T))
            said = model.standard_errors([marginal])[marginal]
            errors = max(errors, float(np.abs(said / spread - 1).max()))
    return [
        "## Exactness",
        "",
        "All pairs of 2 × 3 × 4 × 3 values, three strategies, both relations, beside least squares on the table of all "
        f"72 cells: answers differ by at most {answers:.0e} rows, standard errors by a share of {errors:.0e}.",
        "",
    ]


def optimum(sizes: list[int], k: int) -> float:
    """ResidualPlanner's least total variance at ρ = 1 under add/remove: (Σ√(c·k))², term by term."""
    roots: dict[tuple[int, ...], list[float]] = {}
    for whole in itertools.combinations(range(len(sizes)), k):
        for j in range(k + 1):
            for part in itertools.combinations(whole, j):
                burden = math.prod((sizes[i] - 1) if i in part else 1 / sizes[i] for i in whole)
                roots.setdefault(part, []).append(burden)
    prices = {part: math.prod((sizes[i] - 1) / sizes[i] for i in part) / 2 for part in roots}
    return sum(math.sqrt(math.fsum(c) * prices[part]) for part, c in roots.items()) ** 2


def optimality() -> list[str]:
    """Expected errors of strategies over ResidualPlanner's optimum."""
    lines = [
        "## Expected error",
        "",
        "Total variance of all cells of the workload at the same ρ. *Add/remove*: over ResidualPlanner's optimum, "
        "which *residuals* and *best* are. *Replace-one*: over the smaller of marginals and residuals.",
        "",
        "| workload | marginals, add/remove | residuals | best − 1 | marginals, replace-one | residuals | best |",
        "|---|---|---|---|---|---|---|",
    ]
    rng = np.random.default_rng(0)
    cases = {
        "10 × 2 values, pairs": ([2] * 10, 2),
        "10 × 10 values, pairs": ([10] * 10, 2),
        "13 × 2 to 20 values, triples": (rng.integers(2, 21, 13).tolist(), 3),
        "30 × 2 to 20 values, pairs": (rng.integers(2, 21, 30).tolist(), 2),
        "100 × 5 values, pairs": ([5] * 100, 2),
    }
    for name, (sizes, k) in cases.items():
        domain = Domain({f"c{i}": n for i, n in enumerate(sizes)})
        work = all_marginals(k).on(domain)
        losses = {
            (relation, strategy): plan_linear(
                work, domain, Unit(relation), np.random.default_rng(0), strategy=strategy
            ).loss
            for relation in Relation
            for strategy in ("marginals", "residuals", "best")
        }
        best = optimum(sizes, k)
        add = [losses[Relation.ADD_REMOVE, s] / best for s in ("marginals", "residuals", "best")]
        replaced = [losses[Relation.REPLACE_ONE, s] for s in ("marginals", "residuals", "best")]
        least = min(replaced[:2])
        shown = " | ".join(f"{x / least:.3f}" for x in replaced)
        lines.append(f"| {name} | {add[0]:.3f} | {add[1]:.3f} | {abs(add[2] - 1):.0e} | {shown} |")
    return [*lines, ""]


def coverage(seeds: int = 200) -> list[str]:
    """How many intervals hold the truth."""
    domain = Domain({"a": 4, "b": 3, "c": 2, "d": 5, "e": 3})
    table, work = rows_of(domain, 3000, 3), all_marginals(2).on(domain)
    truth = count_table(table, work.marginals)
    lines = ["## Coverage", "", "All pairs of 5 columns, ε = 1, "
             f"{seeds} draws of noise; Laplace intervals allow for the tails of a single Laplace variable.", "",
             "| relation | noise | δ | inside, % |", "|---|---|---|---|"]  # fmt: skip
    from openprior.releases.intervals import known_by_model

    for relation, (noise, delta) in itertools.product(
        Relation, (("gaussian", DELTA), ("laplace", DELTA), ("laplace", 0.0))
    ):
        unit = Unit(relation)
        plan = plan_linear(work, domain, unit, np.random.default_rng(0), noise=noise, pure=delta == 0)
        inside = cells = 0
        for seed in range(seeds):
            curator = FakeCurator(table, unit=unit, delta=delta, noise=SeededNoise(seed))
            model = put_together(curator, work, measured_by(curator, plan, curator.remaining, noise), noise)
            for marginal, counts in model.answers(work.marginals).items():
                known = known_by_model(model, marginal, counts)
                assert known is not None
                inside += int(((known.low <= truth[marginal]) & (truth[marginal] <= known.high)).sum())
                cells += len(counts)
        lines.append(f"| {relation} | {noise} | {delta:g} | {100 * inside / cells:.2f} |")
    return [*lines, ""]


def timed(columns: int, size: int, k: int, relation: str) -> None:
    """One release; prints processor seconds, megabytes and errors as JSON."""
    warnings.simplefilter("ignore")
    sizes = {f"c{i}": size for i in range(columns)}
    codes = rows_of(Domain(sizes), ROWS, 0)
    private = {a: codes.column(a) for a in codes.domain}
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        made = op.release(
            private,
            schema=op.Schema.from_sizes(sizes),
            workload=k,
            epsilon=EPSILON,
            delta=DELTA,
            mechanism=op.Hdmm(),
            relation=relation,
            out=Path(folder) / "release",
            ledger=Path(folder) / "ledger.sqlite",
        )
        seconds = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    truth = count_table(codes, made.workload.marginals)
    rows, answers = (
        count_table(made.codes, made.workload.marginals),
        made.model.answers(made.workload.marginals),
    )
    error = {
        name: float(np.mean([np.abs(found[m] - truth[m]).sum() / ROWS for m in truth]))
        for name, found in (("answers", answers), ("rows", rows))
    }
    print(json.dumps({"seconds": seconds, "megabytes": memory, **error}))


def times() -> list[str]:
    """Of every case, each in a process of its own."""
    lines = [
        "## Time",
        "",
        f"{ROWS:,} rows of 5 values a column, ε = {EPSILON:g}, δ = {DELTA:g}, secure noise, folder and ledger written. "
        "Processor seconds, imports included, on a machine with other work; *answers*, *rows*: mean L1 error over the "
        "workload, as a share of the rows.",
        "",
        "| workload | relation | seconds | megabytes | answers | rows |",
        "|---|---|---|---|---|---|",
    ]
    for name, columns, size, k in (TIMED[0], *TIMED):
        for relation in Relation:
            call = [sys.executable, "-m", "benchmarks.linear", str(columns), str(size), str(k), relation]
            told = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
            lines.append(
                f"| {name} | {relation} | {told['seconds']:.1f} | {told['megabytes']:.0f} | {told['answers']:.3f} | "
                f"{told['rows']:.3f} |"
            )
    del lines[6:8]  # the first two were for compiling
    return [*lines, ""]


def main() -> None:
    """Everything, or one timed case."""
    if len(sys.argv) > 1:
        timed(*map(int, sys.argv[1:4]), relation=sys.argv[4])
        return
    title = ["# HDMM: exact, optimal, fast", "", "By `python -m benchmarks.linear`.", ""]
    text = "\n".join([*title, *exactness(), *optimality(), *coverage(), *times()])
    RESULTS.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
