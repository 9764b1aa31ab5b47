"""What a model is: a distribution over the domain that answers marginals and gives rows.

A new kind of model is one file in this folder: a class with a `kind` of its own that answers, gives rows, saves itself
and is loaded. `load_model` finds it by looking through the folder, so nothing else has to name it.

Models are saved as a folder: `model.json` says the kind and the domain, `arrays.npz` has the numbers. No pickle, so
opening a release runs nobody's code.
"""

import importlib
import json
import math
import pkgutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.errors import ReleaseError
from openprior.json_text import parse_json
from openprior.models.arrays_file import write_arrays
from openprior.models.parts import DrawPart, part_sizes, part_streams
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Flags", "Model", "NoiseAlone", "Saved", "load_model"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_KINDS: dict[str, "type[Model]"] = {}


@dataclass(frozen=True, eq=False)
class Saved:
    """What a model wrote into its folder."""

    folder: Path
    kind: str
    domain: Domain
    facts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    @staticmethod
    def read(folder: Path) -> "Saved":
        """From the folder's files."""
        try:
            facts = parse_json((folder / "model.json").read_bytes())
            if type(facts["kind"]) is not str or any(type(s) is not int for s in facts["domain"].values()):
                raise TypeError
            with np.load(folder / "arrays.npz", allow_pickle=False) as archive:
                return Saved(folder, facts["kind"], Domain(facts["domain"]), facts, dict(archive))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            raise ReleaseError(
                f"the model in {folder} cannot be read ({type(error).__name__}); it is damaged"
            ) from None


@dataclass(frozen=True, eq=False)
class NoiseAlone:
    """How noisy answers are that are sums of measurements and nothing else: unbiased, and off by their noise alone."""

    standard_error: Floats
    """Exact, one per answer; nan where something that was not measured is part of it."""
    kurtosis: float
    """Excess kurtosis of the noise at most: 0 of Gaussian noise."""


class Model(ABC):
    """A distribution over the domain, scaled to `total` rows."""

    kind: ClassVar[str]
    """Its name in `model.json`."""
    domain: Domain
    """The attributes it speaks of."""
    total: float
    """How many rows the answers sum to."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            known = _KINDS.get(cls.kind, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(
                    f"{cls.__qualname__} cannot load models of kind '{cls.kind}': "
                    f"{known.__module__}.{known.__qualname__} does; give it a kind of its own"
                )
            _KINDS[cls.kind] = cls

    def __init__(self, domain: Domain, total: float) -> None:
        self.domain, self.total = domain, float(total)

    @abstractmethod
    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Estimated counts of each marginal, flat in C order of its columns in the domain's order.

        Not negative, unless they are sums of measurements and nothing else (`noise_alone`).
        """

    knows_errors: ClassVar[bool] = False
    """Whether it has standard errors of its own."""

    def standard_errors(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats] | None:
        """How far each answer may be off, as far as the model itself can tell; None if it cannot."""
        return None

    def estimates(
        self, marginals: Iterable[Iterable[str]]
    ) -> tuple[dict[Marginal, Floats], dict[Marginal, Floats] | None]:
        """The answers and their standard errors, for models to which both together are less work."""
        asked = [tuple(m) for m in marginals]
        return self.answers(asked), self.standard_errors(asked)

    def sizes(self, answers: Mapping[Marginal, Floats]) -> Mapping[Marginal, Floats]:
        """By what size of its cells its errors go, in rows: by these answers of its own, unless the model knows that a
        cell may well hold more than it says."""
        return answers

    def noise_alone(
        self, marginal: Marginal, members: Mapping[str, Floats] | None = None
    ) -> NoiseAlone | None:
        """The noise of a marginal's answers, where they are sums of measurements and nothing else; None if not.

        Only then may intervals rest on it: a model that shrinks, smooths or learns has a bias that nobody knows.
        `members` has, for columns whose codes are added up, how many codes are in each sum. In C order of the columns
        as they are given.
        """
        return None

    @abstractmethod
    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """So many rows, rounded rather than drawn where that is possible."""

    def sample_parts(self, rows: int, parts: int, rng: np.random.Generator) -> Sequence[DrawPart]:
        """So many rows in so many parts, of which each is drawn when it is asked for.

        Here every part is a sample of its own. Where samples are rounded, each part is, so that a count of all rows is
        off by about √parts of a row; a model that can rounds once and splits.
        """
        streams = part_streams(rng, parts)
        sizes = part_sizes(rows, parts)
        return [partial(self._sampled, n, stream) for n, stream in zip(sizes, streams, strict=True)]

    def _sampled(self, rows: int, stream: np.random.SeedSequence) -> Table:
        return self.sample(rows, np.random.default_rng(stream))

    can_restrict: ClassVar[bool] = False
    """Whether `restricted` is there."""

    def restricted(self, allowed: Mapping[str, Flags]) -> "Model | None":
        """Itself where these columns have only the codes that are marked; `total` is the rows that it expects there.

        None if it expects none at all. A model that has no such thing does without: then released rows are filtered.
        """
        raise NotImplementedError

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into this folder, which exists and is empty."""

    @classmethod
    @abstractmethod
    def load(cls, saved: Saved) -> "Model":
        """The model that `save` wrote."""

    def _write(self, folder: Path, facts: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write what `Saved.read` reads."""
        header = {"kind": self.kind, "domain": self.domain.sizes(), **facts}
        (folder / "model.json").write_text(json.dumps(header, indent=1), encoding="utf-8")
        write_arrays(folder / "arrays.npz", arrays)


def load_model(folder: Path) -> Model:
    """Open a saved model of any kind."""
    saved = Saved.read(folder)
    model = _kinds().get(saved.kind)
    if model is None:
        raise ReleaseError(f"the model in {folder} is of unknown kind '{saved.kind}'; update openprior")
    loaded = model.load(saved)
    if not (math.isfinite(loaded.total) and loaded.total >= 0):
        raise ReleaseError(f"the model in {folder} has a total that is no number of rows; it is damaged")
    return loaded


@cache
def _kinds() -> Mapping[str, type[Model]]:
    """Every kind of model, each file of this folder having been imported."""
    import openprior.models as room

    for file in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(file.name)
    return _KINDS
