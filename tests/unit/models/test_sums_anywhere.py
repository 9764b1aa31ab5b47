"""Compiled sums come out the same wherever their arrays lie in memory: else the same outcomes give other models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.models.graphical.loss_loops import dot, move, residuals
from openprior.models.graphical.products import log_products, products, products_across
from openprior.models.graphical.table_sums import product_over
from openprior.models.prior.classes import _members

Floats = NDArray[Any]
LENGTHS = (3, 8, 9, 17, 40)
_MAP = np.concatenate([[0], np.arange(40)]).astype(np.int32)


def placed(arrays: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
    """Copies in one stretch of memory, in any order, side by side or a little apart."""
    room = np.zeros(sum(a.size for a in arrays) + 16 * len(arrays), arrays[0].dtype)
    found: dict[int, Floats] = {}
    at = int(rng.integers(8))
    for i in rng.permutation(len(arrays)).tolist():
        found[i] = room[at : at + arrays[i].size].reshape(arrays[i].shape)
        found[i][...] = arrays[i]
        at += arrays[i].size + int(rng.choice([0, 0, 1, 2, 3, 8]))
    return [found[i] for i in range(len(arrays))]


def _written(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call's result together with all that it has written."""
    return lambda *arrays: (call(*arrays), *(a.tobytes() for a in arrays))


LOOPS: dict[str, tuple[Callable[..., Any], Callable[[int], list[tuple[int, ...]]], type]] = {
    "residuals": (residuals, lambda n: [(n,)] * 5, np.float64),
    "dot": (dot, lambda n: [(n,)] * 2, np.float64),
    "move": (move, lambda n: [(n,)] * 5, np.float64),
    "products": (products, lambda n: [(2, 3, 5), (2, 5, n), (2, 3, n)], np.float64),
    "products across": (products_across, lambda n: [(2, 3, n), (2, 5, n), (2, 3, 5)], np.float64),
    "products of logarithms": (log_products, lambda n: [(2, 3, 5), (2, 5, n), (2, 3, n)], np.float64),
    "a product over a table": (
        lambda table, *parts: product_over(table, len(table), *parts, *[_MAP[: len(table) + 1]] * 3),
        lambda n: [(n,)] * 4,
        np.float64,
    ),
    "memberships": (
        lambda member, logs, shares: _members(np.zeros((1, 2), np.int32), member, logs, shares),
        lambda n: [(1, n), (1, n), (n,)],
        np.float32,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_sum_is_the_same_wherever_its_arrays_lie(name: str) -> None:
    call, shapes, kind = LOOPS[name]
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        for _ in range(10):
            arrays = [rng.uniform(0.1, 1, shape).astype(kind) for shape in shapes(n)]
            found = {_written(call)(*placed(arrays, rng)) for _ in range(12)}
            assert len(found) == 1, n
