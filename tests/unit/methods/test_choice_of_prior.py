"""What Tilt puts into the choice for or against a public table."""

from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.methods import tilt
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.questions.workload import all_marginals
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import quiet

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


def rows(count: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table(DOMAIN, tuple(rng.integers(0, size, count) for size in DOMAIN.shape))


def gain_counted(monkeypatch: pytest.MonkeyPatch, epsilon: float) -> float:
    """How many of the thousand rows that columns are foretold to gain are counted in."""
    seen: list[float] = []

    def keep(*_: Any, others_gain: float, **__: Any) -> int:
        seen.append(others_gain)
        return 0

    monkeypatch.setattr(tilt, "_gain_of_columns", lambda *_: 1000.0)
    monkeypatch.setattr(tilt, "keep_better", keep)
    work = all_marginals(2).on(DOMAIN)
    curator = FakeCurator(rows(4_000, 0), epsilon=epsilon, noise=SeededNoise(0))
    method = op.Tilt(particles=20_000).prepared(rows(2_000, 1), work)
    method.run(curator, rows(2_000, 1), work, np.random.default_rng(0), quiet)
    return seen[0]


def test_what_columns_gain_counts_as_far_as_the_choice_is_sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gain_counted(monkeypatch, 5.0) == 1000.0
    blunt = gain_counted(monkeypatch, 0.2)
    assert 200.0 <= blunt < 900.0  # below a fifth there is no choice at all
    assert gain_counted(monkeypatch, 0.3) == pytest.approx(1.5 * blunt, rel=0.1)
