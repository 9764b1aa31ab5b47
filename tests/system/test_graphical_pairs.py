"""The graphical-model methods on real pairs, by the error of their synthetic rows."""

from pathlib import Path

import numpy as np
import pytest

import openprior as op
from benchmarks.data import jam_pair


def errors(pair: str, mechanism: object, seeds: range) -> list[float]:
    found = jam_pair(pair)
    assert found is not None
    private, public, schema = found
    work = op.all_marginals(3)
    made = [
        op.release(
            private,
            public,
            schema=schema,
            workload=work,
            epsilon=1.0,
            delta=1e-9,
            mechanism=mechanism,
            seed=s,
        )
        for s in seeds
    ]
    return [op.evaluate(m, private, workload=work, of="synthetic").workload_error for m in made]


@pytest.mark.slow
def test_aim_beats_mst(data_folder: Path) -> None:
    aim, mst = (np.mean(errors("adult_pub025_01", m, range(1))) for m in (op.Aim(), op.Mst()))
    assert aim < mst < 0.25
    assert aim < 0.18


def test_jam_pgm_is_better_than_its_small_public_table(data_folder: Path) -> None:
    (public,) = errors("titanic", op.PublicProxy(), range(1))
    assert np.mean(errors("titanic", op.JamPgm(size_limit=5.0, rounds=20), range(3))) < 0.985 * public


@pytest.mark.slow
def test_jam_pgm_on_adult(data_folder: Path) -> None:
    assert np.mean(errors("adult_pub025_01", op.JamPgm(), range(3))) <= 0.155


@pytest.mark.slow
def test_jam_pgm_on_titanic(data_folder: Path) -> None:
    assert np.mean(errors("titanic", op.JamPgm(), range(3))) <= 0.47
