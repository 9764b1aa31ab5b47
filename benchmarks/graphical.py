"""The race of graphical models: jam-pgm and aim on ADULT against the same loops on `mbi` (see `benchmarks.mbi_loops`).

`python -m benchmarks.graphical race` runs both sides, each in a process of its own so that its memory can be read off,
and writes `results/graphical.txt`; the peer takes ten minutes and more for each. Nothing is pinned or limited: threads
are what each side starts by itself. `--former FOLDER` runs another checkout of ours beside it. `jam` and `aim` run our
side alone, through a curator with seeded noise, and print one line of JSON: seconds of the loop without loading, by the
clock and of the processor, peak memory, the model's size. `growth` shows how the seconds grow and where they go.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import jam_pair
from openprior.counting.cores import workers
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.methods.aim import Aim
from openprior.methods.jam import JamPgm
from openprior.models.graphical.junction import megabytes
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.events import Exponential
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals
from openprior.tables.encode import Table, encode_table

STAGES = {
    "fit": ("estimation.py", "fit"),
    "answers": ("growing.py", "answers"),
    "sizes": ("growing.py", "candidates"),
    "select": ("curator.py", "select"),
    "measure": ("curator.py", "measure"),
}
"""Where a round's time goes, by the function that does it."""


def tables(pair: str, columns: int | None = None) -> tuple[Table, Table]:
    """Private and public, of the first so many columns."""
    found = jam_pair(pair)
    if found is None:
        raise SystemExit("no real data: set OPENPRIOR_DATA to the folder that has jam/")
    private, public, schema = found
    both = encode_table(private, schema), encode_table(public, schema)
    if columns is None:
        return both
    domain = schema.domain.project(schema.domain.attributes[:columns])
    return tuple(Table(domain, tuple(t.column(a) for a in domain)) for t in both)  # type: ignore[return-value]


def run(
    mechanism: Any, private: Table, public: Table, epsilon: float, seed: int, delta: float = 1e-9
) -> tuple[GraphicalModel, float, int]:
    """The model, the seconds and the rounds."""
    curator = FakeCurator(private, epsilon=epsilon, delta=delta, noise=SeededNoise(seed))
    work = all_marginals(3).on(private.domain)
    begin = time.perf_counter()
    model = mechanism.run(curator, public, work, np.random.default_rng(seed), lambda done, of, what: None)
    seconds = time.perf_counter() - begin
    return model, seconds, sum(isinstance(e, Exponential) for e in curator.events)


def warm_up() -> None:
    """Load the compiled loops, which is not what is measured; numba keeps them on disk from the first run on."""
    rng = np.random.default_rng(0)
    private, public = tables("titanic", 5)
    run(JamPgm(rounds=6), private.take(rng.integers(0, private.n, 200)), public, 1.0, 0)


def report(kind: str, epsilon: float, seed: int, pair: str, rounds: int, size_limit: float) -> dict[str, Any]:
    """One run, as a row of facts."""
    warm_up()
    private, public = tables(pair)
    limit: dict[str, Any] = {"size_limit": size_limit, "seconds": None}  # as published, as the peer
    mechanism = JamPgm(rounds=rounds, **limit) if kind == "jam" else Aim(**limit)
    busy = time.process_time()
    model, seconds, done = run(mechanism, private, public, epsilon, seed)
    busy = time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    work = all_marginals(3).on(private.domain)
    rows = count_table(model.sample(private.n, np.random.default_rng(seed)), work.marginals)
    guess = {m: c.astype(float) for m, c in rows.items()}
    error = errors_of(work, count_table(private, work.marginals), guess, "synthetic").workload_error
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(busy, 2),
        "rounds": done,
        "peak_mb": round(peak),
        "cliques": len(model.tree.cliques),
        "model_mb": round(megabytes(model.tree.cells), 2),
        "workload_error": round(error, 4),
    }


def profile(mechanism: Any, private: Table, public: Table, epsilon: float, seed: int) -> dict[str, float]:
    """Seconds by stage; the profiler itself slows small steps down, so only the shares mean something."""
    profiler = cProfile.Profile()
    profiler.enable()
    run(mechanism, private, public, epsilon, seed)
    profiler.disable()
    entries = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    found = {}
    for stage, (file, function) in STAGES.items():
        found[stage] = sum(v[3] for (path, _, name), v in entries if path.endswith(file) and name == function)
    return found


def growth() -> None:
    """How the processor time of jam-pgm on ADULT grows with rounds, columns, the size limit and the budget."""
    warm_up()
    cases = [{"rounds": r} for r in (10, 30, 60)]
    cases += [{"columns": c} for c in (6, 9, 12)]
    cases += [{"size_limit": s} for s in (0.5, 2.0, 10.0)]
    cases += [{"epsilon": e} for e in (0.1, 10.0)]
    for case in cases:
        options = {"rounds": 30, "columns": 15, "size_limit": 80.0, "epsilon": 1.0} | case
        private, public = tables("adult_pub025_01", int(options["columns"]))
        mechanism = JamPgm(rounds=int(options["rounds"]), size_limit=options["size_limit"], seconds=None)
        begin = time.process_time()
        model, _, _ = run(mechanism, private, public, options["epsilon"], 0)
        seconds = time.process_time() - begin
        (name, value), *_ = case.items()
        print(f"{name} = {value:g}: {seconds:.1f} s, model {megabytes(model.tree.cells):.1f} MB", flush=True)
    shares = profile(JamPgm(seconds=None), *tables("adult_pub025_01"), 1.0, 0)
    total = sum(shares.values())
    print(", ".join(f"{stage} {seconds / total:.0%}" for stage, seconds in shares.items()))


def side(module: str, *words: str, folder: str | None = None) -> dict[str, Any]:
    """One run in a process of its own, by this checkout or by another of ours."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *words]
    settings = dict(os.environ)
    if folder is not None:
        command = [sys.executable, "-W", "ignore", str(Path(__file__)), *words]
        settings["PYTHONPATH"] = os.pathsep.join([str(Path(folder) / "src"), folder])
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=settings)
    return json.loads(done.stdout.splitlines()[-1])


def race(kinds: list[str], former: str | None) -> None:
    """Both sides of both mechanisms; ours with three seeds, as the size of the model depends on chance.

    What is ready is written at once: the peer takes long.
    """
    lines: list[str] = []

    def keep(line: str) -> None:
        lines.append(line)
        print(line, flush=True)
        results = Path(__file__).parent / "results" / "graphical.txt"
        results.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def runs(who: str, *words: str, folder: str | None = None, module: str = "graphical") -> dict[str, Any]:
        r = side(module, *words, folder=folder)
        keep(
            f"  {who}: {r['cpu_seconds']:.1f} s of the processor, {r['seconds']:.1f} s by the clock, "
            f"{r['peak_mb']:.0f} MB, model {r['model_mb']:.2f} MB, error of the rows {r['workload_error']:.4f}"
        )
        return r

    for kind in kinds:
        name = {"jam": "jam-pgm, 30 rounds", "aim": "aim"}[kind]
        keep(f"{name}, ADULT, epsilon = 1, all 3-way marginals, size limit 80 MB, {workers()} cores")
        words = [(kind, "--seed", str(seed)) for seed in range(3)]
        ours = [runs("ours", *w) for w in words]
        before = [runs("former version", *w, folder=former) for w in words] if former else []
        peer = runs("mbi loop", kind, "--steps", "200", module="mbi_loops")
        for who, others in [("former version", before), ("mbi loop", [peer])]:
            if others:
                cpu, clock = (_median(others, key) / _median(ours, key) for key in ("cpu_seconds", "seconds"))
                keep(
                    f"  the {who} takes {cpu:.1f} times as long of the processor, {clock:.1f} by the clock (medians)"
                )


def _median(runs: list[dict[str, Any]], key: str) -> float:
    return float(np.median([r[key] for r in runs]))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("jam", "aim", "race", "growth"))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pair", default="adult_pub025_01")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size-limit", type=float, default=80.0)
    parser.add_argument("--kinds", default="jam,aim")
    parser.add_argument("--former", help="the folder of another checkout of ours")
    asked = parser.parse_args()
    if asked.what in ("race", "growth"):
        if asked.what == "race":
            race(asked.kinds.split(","), asked.former)
        else:
            growth()
        return
    print(
        json.dumps(report(asked.what, asked.epsilon, asked.seed, asked.pair, asked.rounds, asked.size_limit))
    )


if __name__ == "__main__":
    main()
