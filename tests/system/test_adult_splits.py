"""PMW^Pub on the ADULT splits: never worse than the public table it starts from, in either form of its output."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv

import openprior as op
from openprior.counting.local import count_table
from openprior.evaluation.metrics import errors_of
from openprior.tables.encode import encode_table


@pytest.mark.parametrize(
    ("share", "epsilons", "seeds"),
    [
        ("025", (1.0,), 3),
        *(pytest.param(s, (0.1, 1.0), 3, marks=pytest.mark.slow) for s in ("025", "050", "075", "100")),
    ],
)
def test_not_worse_than_the_public_proxy(
    share: str, epsilons: tuple[float, ...], seeds: int, data_folder: Path
) -> None:
    folder = data_folder / "jam" / f"adult_pub{share}_01"
    schema = op.Schema.from_sizes(json.loads((folder / f"{folder.name}-domain.json").read_text()))
    private, public = csv.read_csv(folder / "priv.csv"), csv.read_csv(folder / "pub.csv")
    work = op.all_marginals(3).on(schema.domain)
    truth = count_table(encode_table(private, schema), work.marginals)

    def error(mechanism: object, epsilon: float, seed: int) -> float:
        made = op.release(
            private,
            public,
            schema=schema,
            workload=work,
            epsilon=epsilon,
            delta=1e-9,
            mechanism=mechanism,
            seed=seed,
        )
        return errors_of(work, truth, made.model.answers(work.marginals), "answers").workload_error

    proxy = error(op.PublicProxy(), 1.0, 0)
    found = {
        (epsilon, output): np.mean([error(op.PmwPub(output=output), epsilon, s) for s in range(seeds)])
        for epsilon in epsilons
        for output in ("last", "average")
    }
    for case, mean in found.items():
        assert mean <= 1.005 * proxy, (case, mean, proxy)
    if share in ("025", "050", "075"):
        assert found[1.0, "last"] < proxy
