"""An experiment on public rows: a stand-in for the private table, and one run of a setting on it.

The stand-in is a random half of the public table, with the other half as its prior, or the newer of two public tables.
Runs are seeded, so they are NOT PRIVATE; they touch public rows only and charge nothing.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.errors import DataError, OpenPriorError, OptionError
from openprior.evaluation.metrics import workload_errors
from openprior.privacy.calibrate import budget_rho, epsilon_from_rho
from openprior.questions.workload import Workload
from openprior.releases.release import release
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table
from openprior.tables.identity import owners
from openprior.tables.source import Source

__all__ = ["Experiment", "Run", "public_rows", "scaled_epsilon"]


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
        released = release(
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
        errors = workload_errors(released, mine, self.schema, workload=self.workload, of=self.of)
        return Run(errors.workload_error, errors.max_error, seconds)

    def _owners(self) -> Any:
        """Whose each row is, as numbers: rows of one person stay together."""
        person = self.schema.person_id
        if person is None or person not in self.newer.column_names:
            return np.arange(self.newer.num_rows)
        names = pa.chunked_array([owners(c, person).names() for c in self.newer[person].chunks])
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
    return epsilon_from_rho(budget_rho(epsilon, delta) * ratio**2, delta)


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
