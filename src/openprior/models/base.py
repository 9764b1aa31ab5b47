"""What a model is: a distribution over the domain that answers marginals and gives rows.

Models are saved as a folder: `model.json` says the kind and the domain, `arrays.npz` has the numbers. No pickle, so
opening a release runs nobody's code.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.errors import ReleaseError
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Model", "load_model", "read_arrays", "register_model", "round_to_counts", "write_arrays"]

Floats = NDArray[np.float64]


class Model(Protocol):
    """A distribution over the domain, scaled to `total` rows."""

    @property
    def domain(self) -> Domain:
        """The attributes it speaks of."""
        ...

    @property
    def total(self) -> float:
        """How many rows the answers sum to."""
        ...

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Estimated counts of each marginal, flat in C order of its columns in the domain's order."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """So many rows, rounded rather than drawn where that is possible."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model into this folder, which exists and is empty."""
        ...


_LOADERS: dict[str, Callable[[dict[str, Any], dict[str, NDArray[Any]], Path], Model]] = {}


def register_model(
    kind: str,
) -> Callable[
    [Callable[[dict[str, Any], dict[str, NDArray[Any]], Path], Model]],
    Callable[[dict[str, Any], dict[str, NDArray[Any]], Path], Model],
]:
    """Decorator: this function loads models of the kind."""

    def register(
        loader: Callable[[dict[str, Any], dict[str, NDArray[Any]], Path], Model],
    ) -> Callable[[dict[str, Any], dict[str, NDArray[Any]], Path], Model]:
        _LOADERS[kind] = loader
        return loader

    return register


def write_arrays(
    folder: Path, kind: str, domain: Domain, facts: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write one model's files."""
    header = {"kind": kind, "domain": domain.sizes(), **facts}
    (folder / "model.json").write_text(json.dumps(header, indent=1), encoding="utf-8")
    np.savez_compressed(folder / "arrays.npz", allow_pickle=False, **arrays)


def read_arrays(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read one model's files."""
    try:
        header = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        with np.load(folder / "arrays.npz", allow_pickle=False) as archive:
            return header, dict(archive)
    except (OSError, ValueError, KeyError) as error:
        raise ReleaseError(
            f"the model in {folder} cannot be read ({type(error).__name__}); it is damaged"
        ) from None


def load_model(folder: Path) -> Model:
    """Open a saved model of any kind."""
    import openprior.models.graphical.model
    import openprior.models.grouped
    import openprior.models.product
    import openprior.models.support
    import openprior.models.tilted.tilting  # noqa: F401  (they register themselves)

    header, arrays = read_arrays(folder)
    loader = _LOADERS.get(header.get("kind", ""))
    if loader is None:
        raise ReleaseError(
            f"the model in {folder} is of unknown kind '{header.get('kind')}'; update openprior"
        )
    return loader(header, arrays, folder)


def round_to_counts(weights: Floats, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers that sum to `rows` and differ from rows·weights by less than 1 each, without bias.

    Systematic rounding: the whole parts stay, and one random offset decides which fractions are rounded up.
    The order is shuffled first, so that neighbours in the table are not favoured together.
    """
    expected = weights * (rows / weights.sum())
    order = rng.permutation(len(weights))
    ends = np.cumsum(expected[order])
    ends[-1] = rows
    marks = np.floor(ends + rng.random())
    counts = np.empty(len(weights), np.int64)
    counts[order] = np.diff(marks, prepend=0.0).astype(np.int64)
    # The offset moves the first and the last mark alike; the shortfall is at most one row.
    counts[order[-1]] += rows - counts.sum()
    if counts[order[-1]] < 0:
        counts[int(np.argmax(counts))] += counts[order[-1]]
        counts[order[-1]] = 0
    return counts
