"""Experiments on public rows: a stand-in for the private table, one run of a setting, and processes that make many.

The stand-in is a random half of the public table, with the other half as its prior, or the newer of two public tables.
Runs are seeded, so they are NOT PRIVATE; they touch public rows only and charge nothing.

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
import time
import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.data.encode import encode_table
from openprior.data.persons import person_names
from openprior.data.schema import Schema
from openprior.data.source import Source
from openprior.errors import DataError, OpenPriorError, OptionError
from openprior.evaluate import evaluate
from openprior.privacy.calibrate import epsilon_from_rho, rho_from_epsilon_delta
from openprior.release import release
from openprior.workload import Workload

__all__ = ["Experiment", "Job", "Run", "available_cores", "public_rows", "run_all", "scaled_epsilon", "serve"]

Job = tuple[Any, int]
"""A mechanism and a seed."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_COMMON = "experiment"
_SERVE = "import sys; from openprior.guidance.rows import serve; serve(sys.argv[1], *map(int, sys.argv[2:]))"


@dataclass(frozen=True)
class Run:
    """What one job came to: its errors, or in words why it failed."""

    workload_error: float = float("nan")
    max_error: float = float("nan")
    seconds: float = float("nan")
    failure: str | None = None


@dataclass(frozen=True)
class Experiment:
    """What all jobs have in common. Every table in it is public."""

    newer: pa.Table
    past: pa.Table | None
    schema: Schema
    workload: Workload
    epsilon: float
    delta: float
    rows: int | None
    of: str

    def tables(self, seed: int) -> tuple[pa.Table, pa.Table]:
        """The stand-in for the private table and its prior; the split depends on the seed and nothing else."""
        if self.past is not None:
            return self._with_ids(self.newer), self.past
        owners = self._owners()
        drawn = np.random.default_rng([seed, 0x5917]).permutation(int(owners.max()) + 1)
        mine = drawn[owners] < len(drawn) // 2
        return self._with_ids(self.newer.filter(pa.array(mine))), self.newer.filter(pa.array(~mine))

    def run(self, mechanism: Any, seed: int) -> Run:
        """One release of the stand-in, and its errors. What goes wrong is part of the answer."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._run(mechanism, seed)
        except OpenPriorError as error:
            return Run(failure=str(error))
        except Exception as error:  # noqa: BLE001  (one setting must not end the comparison of the others)
            return Run(failure=f"{type(error).__name__}: {error}".splitlines()[0])

    def _run(self, mechanism: Any, seed: int) -> Run:
        mine, prior = self.tables(seed)
        held = encode_table(mine, self.schema, private=True).n
        begin = time.perf_counter()
        made = release(
            mine,
            prior,
            schema=self.schema,
            workload=self.workload,
            epsilon=scaled_epsilon(self.epsilon, self.delta, self.rows, held),
            delta=self.delta,
            mechanism=mechanism,
            seed=seed,
        )
        seconds = time.perf_counter() - begin
        found = evaluate(made, mine, workload=self.workload, of=self.of)
        return Run(found.workload_error, found.max_error, seconds)

    def _owners(self) -> Any:
        """Whose each row is, as numbers: rows of one person stay together."""
        person = self.schema.person_id
        if person is None or person not in self.newer.column_names:
            return np.arange(self.newer.num_rows)
        names = pa.chunked_array([person_names(c, person) for c in self.newer[person].chunks])
        return names.combine_chunks().dictionary_encode().indices.to_numpy()

    def _with_ids(self, table: pa.Table) -> pa.Table:
        """With a person id for each row if the schema asks for one that a public table need not have."""
        person = self.schema.person_id
        if person is None or person in table.column_names:
            return table
        return table.append_column(person, pa.array(np.arange(table.num_rows)))


def scaled_epsilon(epsilon: float, delta: float, rows: int | None, held: int) -> float:
    """The ε whose noise is as large beside `held` rows as that of `epsilon` beside `rows`: ρ′ = ρ·(rows/held)².

    >>> scaled_epsilon(1.0, 1e-9, None, 500), scaled_epsilon(0.5, 0.0, 2000, 500)
    (1.0, 2.0)
    """
    if rows is None:
        return epsilon
    ratio = rows / held
    if delta == 0:
        return epsilon * ratio
    return epsilon_from_rho(rho_from_epsilon_delta(epsilon, delta) * ratio**2, delta)


def public_rows(source: Source, schema: Schema, what: str, least: int) -> pa.Table:
    """The columns of a public table that the schema names, in memory, checked against it."""
    try:
        schema.check_columns(source.columns, "it", list_columns=True)
        names = [c for c in (*schema.names, schema.person_id) if c in source.columns]
        batches = list(source.batches(names))
        table = pa.Table.from_batches(batches) if batches else None
        held = 0 if table is None else table.num_rows
        if table is None or held < least:
            raise OptionError(f"the {what} table has {held} rows; give one of at least {least}")
        encode_table(table, schema)
    except DataError as error:
        raise type(error)(f"the {what} table: {error}") from None
    return table


def run_all(
    experiment: Experiment, jobs: Sequence[Job], workers: int
) -> Generator[tuple[int, Run], None, None]:
    """The number of each job and what it came to, as they end; closing it stops the rest.

    One worker is this process.
    """
    if workers == 1:
        for i, job in enumerate(jobs):
            yield i, experiment.run(*job)
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
    experiment: Experiment = pickle.loads(Path(common).read_bytes())
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _send(answers, experiment.run(*_receive(sys.stdin.buffer)))


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]
    )


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
