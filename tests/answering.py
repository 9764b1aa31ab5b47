"""A model for tests that answers, and does nothing else."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from openprior.models.base import Model
from openprior.tables.table import Table


class Answering(Model):
    """Its answers are those of a class of its own."""

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, saved: Any) -> Self:
        raise NotImplementedError
