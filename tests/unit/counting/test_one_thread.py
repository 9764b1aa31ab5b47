"""BLAS runs on one thread where it is called often, and has its threads back afterwards, whoever else was inside."""

import ast
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info

import openprior as op
from openprior.counting.one_thread import blas_on_one_thread
from openprior.methods.mst import Mst
from openprior.schema.base import Schema
from tests.conftest import PRIVATE, SIZES, arrow

SOURCE = Path(op.__file__).parent


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """As on a machine with two cores, whatever this one has."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        assert blas_threads() == {2}
        yield


def test_one_inside_another_and_an_error() -> None:
    with blas_on_one_thread():
        with blas_on_one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(ZeroDivisionError), blas_on_one_thread():
        raise ZeroDivisionError
    assert blas_threads() == {2}


def test_the_limit_lasts_until_the_last_one_leaves() -> None:
    """First in, first out: put back by each on its own, it would end too early and then stay for ever."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with blas_on_one_thread():
            inside.set()
            leave.wait(10)

    with blas_on_one_thread():
        other = threading.Thread(target=stay)
        other.start()
        assert inside.wait(10)
    assert blas_threads() == {1}
    leave.set()
    other.join()
    assert blas_threads() == {2}


def test_a_release_runs_its_mechanism_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    run = Mst.run

    def watched(self: Mst, *args: Any) -> Any:
        seen.append(blas_threads())
        return run(self, *args)

    monkeypatch.setattr(Mst, "run", watched)
    schema = Schema.from_sizes(SIZES)
    op.release(arrow(PRIVATE), schema=schema, epsilon=1.0, delta=1e-9, mechanism=Mst(), seed=1)
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_graphical_models_do_without_blas() -> None:
    """Thousands of small products per fit, each waiting for BLAS's threads, once took most of a run's time."""
    for path in (SOURCE / "models" / "graphical").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.MatMult), path.name
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("dot", "einsum", "tensordot", "linalg", "matmul", "inner", "vdot"), (
                    f"{path.name}: {node.attr}"
                )
