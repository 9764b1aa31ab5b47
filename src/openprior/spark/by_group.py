"""Work by group on a cluster: a pure function of every item, worked out by the executors."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from openprior.errors import SourceError
from openprior.spark.cluster import explain, items_frame, map_arrow, most_tasks, spark_errors

__all__ = ["SparkExecutor"]

A = TypeVar("A")
B = TypeVar("B")


class SparkExecutor:
    """The executors of a session; holds no rows."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The function's value for each item, in order, worked out by the executors."""
        from pyspark import cloudpickle

        packed = [cloudpickle.dumps(item) for item in items]
        if not packed:
            return []
        problem = ""
        try:
            frame = items_frame(self._session, packed, most_tasks(self._session))
            step = partial(_apply, cloudpickle.dumps(function))
            found = map_arrow(frame, step, "index long, value binary").collect()
        except spark_errors() as error:
            problem = explain(error)
        if problem:
            raise SourceError(problem)
        values = []
        for _, value in sorted(found):
            is_error, result = cloudpickle.loads(bytes(value))
            if is_error:
                raise result
            values.append(result)
        return values


def _apply(function: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the function's values, or what it raised."""
    from pyspark import cloudpickle

    work = cloudpickle.loads(function)
    for batch in batches:
        for index, item in zip(batch.column("index"), batch.column("item"), strict=True):
            try:
                value = cloudpickle.dumps((False, work(cloudpickle.loads(item.as_py()))))
            except Exception as error:  # noqa: BLE001  (raised again on the driver)
                value = cloudpickle.dumps((True, error))
            yield pa.RecordBatch.from_arrays(
                [pa.array([index.as_py()]), pa.array([value])], names=["index", "value"]
            )
