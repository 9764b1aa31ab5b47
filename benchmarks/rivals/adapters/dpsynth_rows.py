"""dpsynth: its mechanisms for tables of codes, in memory, by the entry point that it recommends for such tables.

Nearly everything is as it comes: its own calibration to the (ε, δ), a tenth of the budget for the columns one by one,
no merging of rare codes, single precision, and, for all but MST, the workload of all 3-way marginals, of which it
leaves out those of more than a million cells. Neighbours differ by one row more or less: its noise is that of counts
that change by one, and the number of rows is that of its noisy counts. It is not in the registry of packages: where
there is no environment with it, made by hand from its repository, it cannot be installed.
"""

import functools

import dp_accounting
import mbi
import numpy as np
from dpsynth import discrete_mechanisms as mechanisms
from exchange import Task, answer

# The search of dp_accounting 0.6 for the budget begins at zero, where the noise of AIM-GDP and SWIFT is infinite and
# they stop: it begins a little above.
dp_accounting.calibrate_dp_mechanism = functools.partial(
    dp_accounting.calibrate_dp_mechanism, bracket_interval=dp_accounting.LowerEndpointAndGuess(1e-9, 1)
)

MECHANISMS = {
    "mst": mechanisms.MSTConfig,
    "aim": mechanisms.AIMConfig,
    "aim-gdp": mechanisms.AIMGDPConfig,
    "swift": mechanisms.SWIFTConfig,
}


def make(task: Task) -> object:
    """As many rows as its model says."""
    np.random.seed(task.seed)  # noqa: NPY002 - its models draw rows from numpy's global generator
    config = mechanisms.DiscreteConfig(mechanism=MECHANISMS[task.method]())
    mechanism = config.calibrate(epsilon=task.epsilon, delta=task.delta)
    columns = dict(zip(task.sizes, task.rows.T, strict=True))
    data = mbi.Dataset(columns, mbi.Domain.fromdict(task.sizes))
    made = mechanism(np.random.default_rng(task.seed), data).synthetic_data.to_dict()
    return np.column_stack([made[name] for name in task.sizes])


if __name__ == "__main__":
    answer(make)
