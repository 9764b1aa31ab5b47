"""One side of the PMW^Pub race in a process of its own, so that its memory can be read off.

`python -m benchmarks.pmw ours|numpy` prints seconds per round, the method's own megabytes and those of the process.
Both run the same rounds on the same data: select by the exponential mechanism, measure, update with replay. The peer is
the straightforward version: stored cell indices, one weighted bincount per marginal.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.data import made_up
from openprior.questions.workload import random_marginals
from openprior.tables.encode import Table

ATTRIBUTES, ROWS, MARGINALS, ROUNDS, N = 32, 100_000, 4096, 12, 100_000


BASE: list[float] = []
"""Memory of the interpreter, the libraries and the tables, before the method's own."""


def tables() -> tuple[Table, Table]:
    """Public and private: two samples whose classes differ a little."""
    rng = np.random.default_rng(0)
    sizes = tuple(int(s) for s in rng.choice([2, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 10, 12], ATTRIBUTES))
    public = made_up(sizes, ROWS, 1)
    keep = rng.random(ROWS) < np.where(public.columns[3] == 0, 1.0, 0.6)
    private = public.take(rng.choice(np.flatnonzero(keep), N))
    return public, private


def megabytes(which: str = "VmHWM") -> float:
    """Most memory (VmHWM) or present memory (VmRSS) of this process; Linux tells."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(which)) / 1024


def begin() -> None:
    """From here on it is the method's own memory: remember what there is, and forget the peak so far."""
    BASE.append(megabytes("VmRSS"))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def ours() -> list[float]:
    """The mechanism as it is, through a curator; seeded noise."""
    from openprior.methods.pmw_pub import PmwPub
    from openprior.privacy.fake import FakeCurator
    from openprior.privacy.noise import SeededNoise

    public, private = tables()
    work = random_marginals(3, MARGINALS, 0).on(public.domain)
    marks: list[float] = []

    def progress(done: int, of: int, what: str) -> None:
        marks.append(time.perf_counter())

    # Compile (or load from the cache) on a few rows, and count the private table once, outside the rounds.
    few = public.take(np.arange(50))
    PmwPub(rounds=1).run(FakeCurator(few), few, work, np.random.default_rng(0), progress)
    begin()
    curator = FakeCurator(private, noise=SeededNoise(1))
    curator.announce(work.marginals)
    assert curator.n == N
    marks.clear()
    PmwPub(rounds=ROUNDS, guard=0.0).run(curator, public, work, np.random.default_rng(0), progress)
    return list(np.diff(marks))


def straightforward() -> list[float]:
    """Indices stored once, one weighted bincount per marginal and round."""
    public, private = tables()
    work = random_marginals(3, MARGINALS, 0).on(public.domain)
    sizes = [public.domain.size(m) for m in work]

    def index(table: Table, marginal: tuple[str, ...]) -> np.ndarray:
        shape = [table.domain[a] for a in marginal]
        return np.ravel_multi_index([table.column(a).astype(np.intp) for a in marginal], shape)

    begin()
    support, counts = public.unique()
    indices = [index(support, m) for m in work]
    truth = np.concatenate(
        [np.bincount(index(private, m), minlength=s) / N for m, s in zip(work, sizes, strict=True)]
    )
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rng = np.random.default_rng(1)
    weights = counts / counts.sum()
    epsilon0 = np.sqrt(0.015 / ROUNDS)
    seen: list[tuple[int, int, float]] = []
    marks = []
    for _ in range(ROUNDS):
        answers = np.concatenate(
            [np.bincount(i, weights=weights, minlength=s) for i, s in zip(indices, sizes, strict=True)]
        )
        score = np.abs(answers - truth) * (epsilon0 * N) + rng.gumbel(size=len(truth))
        chosen = int(np.argmax(score))
        marginal = int(np.searchsorted(starts, chosen, side="right")) - 1
        measured = float(np.clip(truth[chosen] + rng.normal() / (N * epsilon0), 0, 1))
        seen.append((marginal, chosen, measured))
        errors = [abs(answers[c] - a) for _, c, a in seen]
        again = [s for s, e in zip(seen, errors, strict=True) if e >= errors[-1] / 2]
        for i in rng.permutation(len(again)):
            m, c, a = again[i]
            inside = indices[m] == c - starts[m]
            weights = weights * np.where(inside, np.exp((a - weights[inside].sum()) / 2), 1.0)
            weights /= weights.sum()
        marks.append(time.perf_counter())
    return list(np.diff(marks))


if __name__ == "__main__":
    seconds = ours() if sys.argv[1] == "ours" else straightforward()
    facts = {"seconds": float(np.median(seconds)), "megabytes": megabytes() - BASE[0], "in_all": megabytes()}
    json.dump(facts, sys.stdout)
