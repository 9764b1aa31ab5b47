"""mbi (Private-PGM): the package has the models and no mechanism, so AIM is the loop of benchmarks/mbi_loops.py.

The loop is ours and counts with openprior, so this adapter, unlike the others, runs in openprior's own environment.
"""

import numpy as np
from exchange import Task, answer

from benchmarks.mbi_loops import aim
from openprior.privacy.calibrate import rho_from_epsilon_delta
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from openprior.tables.encode import Table


def make(task: Task) -> object:
    """Under replace-one, as the loop is written: the number of rows is public."""
    assert task.method == "aim" and task.relation == "replace-one"
    table = Table(Domain(task.sizes), tuple(task.rows.T))
    rho = rho_from_epsilon_delta(task.epsilon, task.delta)
    model = aim(table, all_marginals(3).on(table.domain), rho, seed=task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 - mbi draws its rows from numpy's global generator
    rows = model.synthetic_data(table.n).to_dict()
    return np.column_stack([rows[name] for name in task.sizes])


if __name__ == "__main__":
    answer(make)
