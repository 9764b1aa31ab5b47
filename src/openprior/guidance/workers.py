"""Processes that run many experiments side by side.

Workers are fresh interpreters that are handed their jobs through a pipe. They do not import the caller's script again,
as those of `multiprocessing` do: a script that has made a release must not make another one in every worker.
"""

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, Protocol

from openprior.counting.cores import available_cores
from openprior.guidance.experiment import Run
from openprior.progress import hushed, phase

__all__ = ["Job", "Runs", "run_all", "serve", "try_all"]

Job = tuple[Any, int]
"""What to try (a mechanism, say) and a seed."""
_MOST_WORKERS = 8
"""Each holds its own tables and model: half a gigabyte is usual."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_COMMON = "experiment"
_SERVE = (
    "import sys; from openprior.guidance.workers import serve; serve(sys.argv[1], *map(int, sys.argv[2:]))"
)


class Runs(Protocol):
    """An experiment: all that its jobs have in common."""

    def run(self, what: Any, seed: int, /) -> Run:
        """What a job comes to."""
        ...


def try_all(
    experiment: Runs, trials: Sequence[Any], seeds: int, workers: int | None, *, here: bool
) -> list[tuple[Run, ...]]:
    """Every trial with every seed: its runs, seed by seed. `here`: in this process, because no other could do it."""
    jobs = [(trial, seed) for seed in range(seeds) for trial in trials]
    crew = 1 if here else min(workers or min(len(available_cores()), _MOST_WORKERS), len(jobs))
    runs: dict[int, Run] = {}
    with phase("trying settings", len(jobs)) as work, closing(run_all(experiment, jobs, crew)) as ended:
        for i, run in ended:
            runs[i] = run
            work.advance()
    return [tuple(runs[seed * len(trials) + i] for seed in range(seeds)) for i in range(len(trials))]


def run_all(experiment: Runs, jobs: Sequence[Job], workers: int) -> Generator[tuple[int, Run], None, None]:
    """The number of each job and what it came to, as they end; closing it stops the rest.

    One worker is this process.
    """
    if workers == 1:
        for i, job in enumerate(jobs):
            with hushed():
                run = experiment.run(*job)
            yield i, run
        return
    with tempfile.TemporaryDirectory(prefix="openprior-tune-") as folder:
        (Path(folder) / _COMMON).write_bytes(pickle.dumps(experiment))
        crew = [_Worker(Path(folder), number, workers) for number in range(workers)]
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in crew:
            idle.put(worker)

        def work(job: Job) -> Run:
            worker = idle.get()
            try:
                return worker.run(job)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(workers)
        try:
            futures = {pool.submit(work, job): i for i, job in enumerate(jobs)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in crew:
                worker.end()
            pool.shutdown()


class _Worker:
    """A process that does one job at a time; started when it is first needed, and anew if it died."""

    def __init__(self, folder: Path, number: int, of: int) -> None:
        self._folder, self._number, self._of = folder, number, of
        self._lock, self._ended = Lock(), False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: Job) -> Run:
        """Hand the job over and wait for its answer."""
        process = self._started()
        if process is None:
            return Run(failure="stopped")
        try:
            _send(process.stdin, job)
            answer: Run = _receive(process.stdout)
        except (OSError, EOFError, ValueError):
            self._stop()
            return Run(
                failure=f"its process ended with code {process.returncode}; is there too little memory?"
            )
        return answer

    def end(self) -> None:
        """Stop for good, whatever it is doing."""
        with self._lock:
            self._ended = True
        self._stop()

    def _started(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._process is None and not self._ended:
                threads = str(max(1, len(available_cores()) // self._of))
                paths = os.pathsep.join(p for p in sys.path if p)
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-c",
                        _SERVE,
                        str(self._folder / _COMMON),
                        str(self._number),
                        str(self._of),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **dict.fromkeys(_THREADS, threads), "PYTHONPATH": paths},
                    start_new_session=True,  # Ctrl-C is for the process that waits; it ends this one
                )
            return self._process

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, AttributeError):
                    pipe.close()  # type: ignore[union-attr]


def serve(common: str, number: int, of: int) -> None:
    """The other side of `_Worker`: answer jobs until the pipe is closed, on this worker's share of the cores."""
    cores = available_cores()
    if hasattr(os, "sched_setaffinity"):
        mine = cores[number * len(cores) // of : (number + 1) * len(cores) // of]
        os.sched_setaffinity(0, mine or [cores[number % len(cores)]])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed must not get between the answers
    experiment: Runs = pickle.loads(Path(common).read_bytes())
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _send(answers, experiment.run(*_receive(sys.stdin.buffer)))


def _send(pipe: Any, what: Any) -> None:
    message = pickle.dumps(what)
    pipe.write(struct.pack("<Q", len(message)) + message)
    pipe.flush()


def _receive(pipe: Any) -> Any:
    head = pipe.read(8)
    message = pipe.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
    if not message:
        raise EOFError
    return pickle.loads(message)
