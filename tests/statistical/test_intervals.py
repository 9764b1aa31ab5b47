"""95 % intervals hold the true count in 95 of 100 cells, within 3, for every method that measures; calibrated ones too,
on average over cells.

The true counts are fixed and the noise is drawn anew: so many releases of one table, each with another seed.
"""

import numpy as np
import pytest

import openprior as op
from openprior.counting.local import count_table
from openprior.tables.encode import encode_table
from tests.conftest import arrow, random_table

SIZES = {"a": 4, "b": 3, "c": 2, "d": 5, "e": 3}
SCHEMA = op.Schema.from_sizes(SIZES)
PRIVATE, PUBLIC = (
    arrow(table) for table in (random_table(SIZES, 1500, 1, 0.6), random_table(SIZES, 1200, 2, 0.8))
)
WORK = op.all_marginals(2)
MARGINALS = [m for k in (1, 2, 3) for m in op.all_marginals(k).on(SCHEMA.domain).marginals]
TRUTH = count_table(encode_table(PRIVATE, SCHEMA), MARGINALS)

SETTINGS = {
    "hdmm": (op.Hdmm(), 10, 1e-6, "replace-one"),
    "hdmm, add-remove": (op.Hdmm(), 10, 1e-6, "add-remove"),
    "hdmm, pure": (op.Hdmm(noise="laplace"), 10, 0.0, "replace-one"),
    "mst": (op.Mst(), 25, 1e-6, "replace-one"),
    "mst, add-remove": (op.Mst(), 25, 1e-6, "add-remove"),
    "aim": (op.Aim(), 15, 1e-6, "replace-one"),
    "jam-pgm": (op.JamPgm(rounds=8), 15, 1e-6, "replace-one"),
    "pmw-pub": (op.PmwPub(rounds=40), 15, 1e-6, "replace-one"),
    "mwem": (op.Mwem(rounds=40), 15, 1e-6, "replace-one"),
    "mwem-pub": (op.MwemPub(rounds=30), 15, 1e-6, "replace-one"),
    "ide": (op.Ide(choose="workload"), 10, 1e-6, "replace-one"),
    "ide, pure": (op.Ide(choose="workload", noise="laplace"), 10, 0.0, "replace-one"),
    "hierarchy": (op.Hierarchy(levels=(("a",),)), 8, 1e-6, "replace-one"),
    "tilt": (op.Tilt(particles=1000, rounds=12), 12, 1e-6, "replace-one"),
}


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_coverage(name: str) -> None:
    mechanism, seeds, delta, relation = SETTINGS[name]
    inside = cells = 0
    for seed in range(seeds):
        made = op.release(
            PRIVATE,
            PUBLIC,
            schema=SCHEMA,
            workload=WORK,
            epsilon=1.0,
            delta=delta,
            mechanism=mechanism,
            relation=relation,
            error_bars=0,
            seed=seed,
        )
        for marginal, true in TRUTH.items():
            table = made.answers(marginal)
            known = np.array(table["basis"].to_pylist()) == "measured"
            low, high = (table[c].to_numpy(zero_copy_only=False)[known] for c in ("low", "high"))
            inside += int(((low <= true[known]) & (true[known] <= high)).sum())
            cells += int(known.sum())
    assert cells >= 300
    assert 0.92 <= inside / cells <= 0.98, (inside / cells, cells)


CALIBRATED = {name: SETTINGS[name] for name in ("mst, add-remove", "mwem", "ide, pure", "tilt")}
CALIBRATED["importance"] = (op.ImportanceWeights(), 12, 1e-6, "replace-one")


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrated_coverage(name: str) -> None:
    """With half of the budget, so that the bars rest on what was measured; every cell of the workload has an interval.

    Within 5: how heavy the tails of errors are is known from other tables only.
    """
    mechanism, seeds, delta, relation = CALIBRATED[name]
    inside = cells = 0
    for seed in range(seeds):
        made = op.release(
            PRIVATE,
            PUBLIC,
            schema=SCHEMA,
            workload=WORK,
            epsilon=2.0,
            delta=delta,
            mechanism=mechanism,
            relation=relation,
            error_bars=0.5,
            seed=seed,
        )
        for marginal in (m for m in TRUTH if len(m) <= 2):
            table = made.answers(marginal)
            basis = np.array(table["basis"].to_pylist())
            assert set(basis) <= {"measured", "calibrated"}
            known = basis == "calibrated"
            low, high = (table[c].to_numpy(zero_copy_only=False)[known] for c in ("low", "high"))
            inside += int(((low <= TRUTH[marginal][known]) & (TRUTH[marginal][known] <= high)).sum())
            cells += int(known.sum())
    assert cells >= 300
    assert 0.9 <= inside / cells <= 0.98, (inside / cells, cells)


def test_the_public_table_has_no_interval() -> None:
    made = op.release(
        PRIVATE, PUBLIC, schema=SCHEMA, epsilon=1.0, delta=1e-6, mechanism=op.PublicProxy(), seed=1
    )
    answers = made.answers(["a", "b"])
    assert set(answers["basis"].to_pylist()) == {"none"}
    assert answers["low"].null_count == answers["standard_error"].null_count == len(answers)
