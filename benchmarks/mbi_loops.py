"""The peer of the graphical-model mechanisms: the JAM-PGM and AIM loops on the public library `mbi` (2.0, on JAX).

`python -m benchmarks.mbi_loops jam|aim` prints one line of JSON; progress goes to stderr. The library does what it is
there for: model sizes, mirror descent (started warm), clique marginals, synthetic rows. For marginals that no clique
holds there are two ways, both exact. `--answers library` is its own `bulk_variable_elimination`: it compiles one XLA
program per marginal and round, a second each, and there are hundreds. `--answers tree`, the default, because the peer
shall be as fast as it can be, joins the library's clique marginals along its junction tree in numpy: milliseconds.
Noise is numpy's: this is a benchmark, not a release.
"""

import argparse
import itertools
import json
import math
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # as mbi advises

import jax
import mbi
import networkx as nx
import numpy as np
from mbi import junction_tree, marginal_oracles
from numpy.typing import NDArray

from benchmarks.data import jam_pair
from openprior.counting.local import count_table
from openprior.privacy.calibrate import rho_from_epsilon_delta
from openprior.questions.workload import Marginal, Workload, all_marginals
from openprior.tables.encode import Table, encode_table

Array = NDArray[np.floating]

SPENT: Counter[str] = Counter()
"""Rounds, and where their seconds went; `xla` (compiling) is part of the others."""


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Add to SPENT."""
    begin = time.perf_counter()
    yield
    SPENT[what] += time.perf_counter() - begin


def _product(x: Array, xs: Marginal, y: Array, ys: Marginal, keep: set[str]) -> tuple[Array, Marginal]:
    """The product of two tables, summed over what they share and need not keep: a batch of matrix products."""
    sizes = dict(zip(xs + ys, x.shape + y.shape, strict=True))
    batch = tuple(a for a in xs if a in ys and a in keep)
    inner = tuple(a for a in xs if a in ys and a not in keep)
    left, right = tuple(a for a in xs if a not in ys), tuple(a for a in ys if a not in xs)
    b, i, n, m = (math.prod(sizes[a] for a in part) for part in (batch, inner, left, right))
    x = x.transpose([xs.index(a) for a in batch + left + inner]).reshape(b, n, i)
    y = y.transpose([ys.index(a) for a in batch + inner + right]).reshape(b, i, m)
    names = batch + left + right
    return (x @ y if inner else x * y).reshape([sizes[a] for a in names]), names


class CliqueTree:
    """Marginals of a model outside its cliques: mbi's clique marginals, joined along mbi's junction tree."""

    def __init__(self, model: mbi.MarkovRandomField) -> None:
        tree = junction_tree.make_junction_tree(model.domain, model.cliques)[0]
        cliques = list(tree.nodes)
        oracle = marginal_oracles.default_oracle(cliques, model.domain, has_constraints=False)
        beliefs = oracle(model.potentials.expand(cliques), 1.0)
        self.domain, self.total = model.domain, float(model.total)
        self.tables = {c: np.asarray(beliefs[c].values) for c in cliques}
        # Independent parts meet in an empty separator.
        tree.add_edges_from(itertools.pairwise([next(iter(part)) for part in nx.connected_components(tree)]))
        self.beyond: dict[Marginal, dict[str, Marginal]] = {}  # which neighbour leads to an attribute
        for c in cliques:
            rest = nx.restricted_view(tree, [c], [])
            far = {k: itertools.chain(*nx.node_connected_component(rest, k)) for k in tree[c]}
            self.beyond[c] = {a: k for k, attributes in far.items() for a in attributes}
        self.known: dict[tuple[Marginal, Marginal, Marginal], Array] = {}

    def counts(self, want: Marginal) -> Array:
        """The marginal, flat; joined where the branches of its attributes part, so that messages stay small."""

        def load(clique: Marginal) -> tuple[int, int]:
            ways = [self.beyond[clique][a] for a in want if a not in clique]
            joined = {a for k in ways for a in k if a in clique} | {*want}
            return max((ways.count(k) for k in ways), default=0), self.domain.size(tuple(joined))

        return self.total * self._joint(min(self.tables, key=load), want).ravel()

    def _joint(self, here: Marginal, want: Marginal) -> Array:
        """P(want), seen from a clique: its own table, then one branch after the other."""
        branches: dict[Marginal, Marginal] = {}
        for a in want:
            if a not in here:
                way = self.beyond[here][a]
                branches[way] = (*branches.get(way, ()), a)
        shared = {k: tuple(a for a in k if a in here) for k in branches}
        needed = {*want}.union(*shared.values())
        names = tuple(a for a in here if a in needed)
        table = self.tables[here].sum(axis=tuple(i for i, a in enumerate(here) if a not in needed))
        while branches:
            kept = {k: {*want}.union(*(shared[o] for o in branches if o != k)) for k in branches}
            k = min(kept, key=lambda k: self.domain.size([a for a in names + branches[k] if a in kept[k]]))
            far = branches.pop(k)
            table, names = _product(table, names, self._given(k, shared[k], far), shared[k] + far, kept[k])
        return table.transpose([names.index(a) for a in want])

    def _given(self, clique: Marginal, shared: Marginal, want: Marginal) -> Array:
        """P(want | shared), seen from a clique that has `shared`; kept, because many marginals need it."""
        key = clique, shared, want
        if key not in self.known:
            joint = self._joint(clique, shared + want)
            below = joint.sum(axis=tuple(range(len(shared), joint.ndim)), keepdims=True)
            self.known[key] = joint / np.where(below > 0, below, 1)
        return self.known[key]


class Loop:
    """What both mechanisms share: the candidates, the measurements so far, and the model fitted to them."""

    def __init__(self, private: Table, workload: Workload, steps: int, seed: int, answers: str) -> None:
        SPENT.clear()
        self.domain = mbi.Domain(private.domain.attributes, private.domain.shape)
        self.n, self.steps, self.answers = float(private.n), steps, answers
        self.rng = np.random.default_rng(seed)
        self.candidates = workload.closure()
        self.exact = count_table(private, self.candidates)
        self.found: dict[Marginal, Array] = {}
        self.measurements: list[mbi.LinearMeasurement] = []
        self.model: mbi.MarkovRandomField | None = None
        self.fit()

    def allowed(self, limit_mb: float) -> list[Marginal]:
        """The candidates with which the model stays this small; at first, those of the size of a one-way marginal."""
        limit = max(limit_mb, (sum(self.domain.shape) + max(self.domain.shape)) * 8 / 2**20)
        held = list(self.model.cliques)

        def fits(c: Marginal) -> bool:
            inside = self.model.marginals.supports(c)
            return inside or junction_tree.hypothetical_model_size(self.domain, [*held, c]) <= limit

        with timed("sizes"):
            return [c for c in self.candidates if fits(c)]

    def errors(self, marginals: Sequence[Marginal]) -> Array:
        """‖exact − model‖₁ of these marginals."""
        SPENT["rounds"] += 1
        with timed("answers"):
            if self.answers == "tree":
                tree = CliqueTree(self.model)
                self.found = {m: tree.counts(m) for m in marginals}
            else:
                far = [m for m in marginals if not self.model.marginals.supports(m)]
                bulk = marginal_oracles.bulk_variable_elimination(self.model.potentials, far, self.n)
                sources = {m: bulk if m in bulk.tables else self.model for m in marginals}
                self.found = {m: np.asarray(source.project(m).datavector()) for m, source in sources.items()}
            return np.array([np.abs(self.exact[m] - self.found[m]).sum() for m in marginals])

    def expected(self, marginals: Sequence[Marginal], sigma: float) -> Array:
        """The expected L1 norm of noise on these marginals."""
        return math.sqrt(2 / math.pi) * sigma * np.array([self.domain.size(m) for m in marginals])

    def draw(self, scores: Array, epsilon: float, sensitivity: float) -> int:
        """The exponential mechanism."""
        return int(np.argmax(epsilon * scores / (2 * sensitivity) + self.rng.gumbel(size=len(scores))))

    def noisy(self, marginal: Marginal, sigma: float) -> Array:
        """The exact counts with Gaussian noise."""
        return self.exact[marginal] + self.rng.normal(0.0, sigma, len(self.exact[marginal]))

    def fit(self, *new: mbi.LinearMeasurement) -> None:
        """Mirror descent on all measurements, from where the last round ended."""
        self.measurements += new
        with timed("estimate"):
            self.model = mbi.estimation.MirrorDescent().estimate(
                self.domain, self.measurements, self.n, iters=self.steps, warm_start=self.model
            )
            jax.block_until_ready(self.model.marginals)
        size = junction_tree.hypothetical_model_size(self.domain, self.model.cliques)
        spent = {k: round(v) for k, v in SPENT.items()}
        print(f"{[m.clique for m in new]}, {size:.2f} MB, {spent}", file=sys.stderr)


def jam(
    private: Table,
    public: Table,
    workload: Workload,
    rho: float,
    *,
    rounds: int = 30,
    alpha: float = 0.8,
    size_limit_mb: float = 80.0,
    steps: int = 200,
    seed: int = 0,
    answers: str = "tree",
) -> mbi.MarkovRandomField:
    """JAM-PGM, Algorithm 2, replace-one."""
    loop = Loop(private, workload, steps, seed, answers)
    proxy = {m: x * (private.n / public.n) for m, x in count_table(public, loop.candidates).items()}
    used = 0.0
    for t in range(rounds):
        share = (rho - used) / (rounds - t)
        sigma = 1 / math.sqrt(alpha * share)
        allowed = loop.allowed(size_limit_mb * used / rho)
        errors = loop.errors(allowed)
        misfit = np.array([np.abs(loop.exact[m] - proxy[m]).sum() for m in allowed])
        scores = np.concatenate([errors - loop.expected(allowed, sigma), errors - misfit])
        chosen = loop.draw(scores, math.sqrt(8 * (1 - alpha) * share), 4.0)
        marginal, costs = allowed[chosen % len(allowed)], chosen < len(allowed)
        used += (1 - alpha * (not costs)) * share
        loop.fit(mbi.LinearMeasurement(loop.noisy(marginal, sigma) if costs else proxy[marginal], marginal))
    return loop.model


def aim(
    private: Table,
    workload: Workload,
    rho: float,
    *,
    size_limit_mb: float = 80.0,
    steps: int = 1000,
    seed: int = 0,
    answers: str = "tree",
) -> mbi.MarkovRandomField:
    """AIM, replace-one: a measurement costs 1/σ², a selection ε²/8."""
    loop = Loop(private, workload, steps, seed, answers)
    wanted = list(zip(workload.marginals, workload.weights, strict=True))
    weights = {m: sum(w * len({*m} & {*other}) for other, w in wanted) for m in loop.candidates}
    most = 16 * len(private.domain)
    sigma, epsilon = math.sqrt(most / (0.9 * rho)), math.sqrt(8 * 0.1 * rho / most)
    one_way = [m for m in loop.candidates if len(m) == 1]
    loop.fit(*(mbi.LinearMeasurement(loop.noisy(m, sigma), m, sigma) for m in one_way))
    used, last = len(one_way) / sigma**2, False
    while not last:
        rest = rho - used
        last = rest < 2 * (1 / sigma**2 + epsilon**2 / 8)
        if last:
            sigma, epsilon = 1 / math.sqrt(0.9 * rest), math.sqrt(8 * 0.1 * rest)
        allowed = loop.allowed(size_limit_mb * used / rho)
        gains = loop.errors(allowed) - loop.expected(allowed, sigma)
        scores = np.array([weights[m] for m in allowed]) * gains
        marginal = allowed[loop.draw(scores, epsilon, 2 * max(weights.values()))]
        before = loop.found[marginal]
        used += 1 / sigma**2 + epsilon**2 / 8
        loop.fit(mbi.LinearMeasurement(loop.noisy(marginal, sigma), marginal, sigma))
        moved = np.abs(np.asarray(loop.model.project(marginal).datavector()) - before).sum()
        if moved <= loop.expected([marginal], sigma)[0]:
            sigma, epsilon = sigma / 2, epsilon * 2
    return loop.model


def main() -> None:
    """One loop on a real pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("loop", choices=["jam", "aim"])
    options = {"epsilon": 1.0, "delta": 1e-9, "rounds": 30, "steps": 0, "seed": 0, "pair": "adult_pub025_01"}
    for name, value in options.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--answers", choices=["tree", "library"], default="tree")
    args = parser.parse_args()
    pair = jam_pair(args.pair)
    if pair is None:
        sys.exit("the real pairs are not here; set OPENPRIOR_DATA")
    private, public = encode_table(pair[0], pair[2]), encode_table(pair[1], pair[2])
    workload = all_marginals(3).on(private.domain)
    exact = count_table(private, workload.marginals)
    rho = rho_from_epsilon_delta(args.epsilon, args.delta)

    def listen(event: str, seconds: float, **_: object) -> None:
        SPENT["xla"] += seconds if event == "/jax/core/compile/backend_compile_duration" else 0.0

    jax.monitoring.register_event_duration_secs_listener(listen)
    begin, busy = time.perf_counter(), time.process_time()
    if args.loop == "jam":
        how = {"rounds": args.rounds, "steps": args.steps or 200, "seed": args.seed, "answers": args.answers}
        model = jam(private, public, workload, rho, **how)
    else:
        model = aim(private, workload, rho, steps=args.steps or 1000, seed=args.seed, answers=args.answers)
    facts: dict[str, object] = {"seconds": time.perf_counter() - begin, "rounds": SPENT.pop("rounds")}
    facts["cpu_seconds"] = (
        time.process_time() - busy
    )  # of all threads; to be read where the machine is shared
    facts["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts["cliques"] = len(model.cliques)
    facts["model_mb"] = junction_tree.hypothetical_model_size(model.domain, model.cliques)
    facts["spent"] = {what: round(seconds, 1) for what, seconds in SPENT.items()}
    np.random.seed(args.seed)  # noqa: NPY002 - mbi draws its rows from numpy's global generator
    rows = model.synthetic_data(private.n).to_dict()
    made = count_table(Table(private.domain, tuple(rows[a] for a in private.domain)), workload.marginals)
    facts["workload_error"] = float(np.mean([np.abs(made[m] - exact[m]).sum() / private.n for m in exact]))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
