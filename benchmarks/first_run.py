"""The first run on a new machine: `python -m benchmarks.first_run [compile] [demo]`, written to `results/first_run.md`.

`compile`: the demo's release by Tilt, in a process of its own, with what numba has compiled before and with an empty
cache; the difference is what a first run pays. `demo`: a fresh clone, no environment, an empty compile cache, and `make
demo`, which installs and runs. Both for this version and the former, in turns.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.former import FORMER, ROOT, in_a_process, unpacked
from benchmarks.lines import Lines

HEADER = f"""# The first run on a new machine

Seconds of the wall clock, on two cores with whatever else the machine does, in turns with the former version \
(commit {FORMER}). *compiled*: the demo's release with its public table, where all is compiled; *first*: the same \
with an empty compile cache. *make demo*: from a fresh clone with no environment, installing included; downloads \
come from wherever this machine gets them. By `python -m benchmarks.first_run`.

| figure | former | now |
|---|---|---|
"""
TABLE = Lines(Path(__file__).parent / "results" / "first_run.md", HEADER, keys=1)
FIGURES = ("a release, compiled", "a release, first", "first minus compiled", "make demo, empty machine")


def alone() -> float:
    """Seconds of a release from the import on."""
    began = time.perf_counter()
    import openprior as op
    from openprior.tables.simulate import demo_surveys

    public, private = demo_surveys(rows_public=20_000, rows_private=20_000)
    with tempfile.TemporaryDirectory() as folder:
        op.release(
            private, public, schema=op.Schema.draft(public), workload=op.all_marginals(3), epsilon=1.0,
            delta=1e-9, out=Path(folder) / "release",
        )  # fmt: skip
    return time.perf_counter() - began


def compiled(times: int = 3) -> None:
    """With a full compile cache and with an empty one."""
    for side, source in ("former", unpacked()), ("now", None):
        warm, first = [], []
        with tempfile.TemporaryDirectory() as kept:
            for i in range(times + 1):
                seconds = _release(kept, source)
                warm += [seconds] * bool(i)  # the first one compiles
                with tempfile.TemporaryDirectory() as empty:
                    first += [_release(empty, source)] * bool(i)
        middle = [float(np.median(warm)), float(np.median(first))]
        for figure, value in zip(FIGURES, [*middle, middle[1] - middle[0]], strict=False):
            _put(figure, side, value)


def _release(cache: str, source: Path | None) -> float:
    words = {"NUMBA_CACHE_DIR": cache, "OPENPRIOR_CACHE": "off"}
    return float(in_a_process("benchmarks.first_run", "--one", source=source, environment=words))


def demo() -> None:
    """`make demo` of a fresh clone."""
    for side, commit in ("former", FORMER), ("now", "HEAD"):
        with tempfile.TemporaryDirectory() as folder:
            clone, kept = Path(folder) / "clone", Path(folder) / "kept"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", commit], check=True)
            variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
            variables |= {"NUMBA_CACHE_DIR": str(kept), "XDG_CACHE_HOME": str(kept)}
            began = time.perf_counter()
            subprocess.run(
                ["make", "demo"],
                cwd=clone,
                check=True,
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _put(FIGURES[-1], side, time.perf_counter() - began)
            shutil.rmtree(clone)


def _put(figure: str, side: str, seconds: float) -> None:
    """One cell; the other one of its line stays."""
    line = TABLE.read().get((figure,), "| | | |")
    cells = [c.strip() for c in line.split("|")[2:4]]
    cells[side == "now"] = f"{seconds:.1f}"
    TABLE.put((figure,), cells, [(f,) for f in FIGURES])


def main(words: list[str]) -> None:
    """Both, or the one named."""
    if words[:1] == ["--one"]:
        print(json.dumps(alone()))
        return
    if not words or "compile" in words:
        compiled()
    if not words or "demo" in words:
        demo()


if __name__ == "__main__":
    main(sys.argv[1:])
