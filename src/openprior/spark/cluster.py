"""A Spark session: started quietly where there is none, and asked without its words reaching the user.

What Spark says when it fails may quote a row, so its messages go no further: `explain` gives ours instead. A session
that is started here prints nothing, has no web page, and in local mode listens to this machine only.
"""

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from openprior.errors import SourceError

__all__ = [
    "Step",
    "explain",
    "items_frame",
    "large_batches",
    "map_arrow",
    "most_tasks",
    "mute",
    "open_session",
    "spark_errors",
]

Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What runs on an executor: from the Arrow batches of one partition to others."""

MASTER = "OPENPRIOR_SPARK_MASTER"
"""The environment variable that names the master."""

_LOCAL = "local[*,4]"
"""Every core of this machine; a task that dies is tried four times, as on a cluster."""
_JAVA = 17
_TASKS_PER_CORE = 4
_TASKS = 256
"""Tasks of a pass on a cluster whose cores come and go."""
_RECORDS = 32_768
_RECORDS_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES_KEY = "spark.sql.execution.arrow.maxBytesPerBatch"
_METHOD, _METHOD_KEY = 8000, "spark.sql.codegen.hugeMethodLimit"
_NEEDED = ("pyspark", "pandas")  # Spark's Arrow functions ask for pandas


def open_session(master: str | None = None) -> Any:
    """The active session, or a new one on this master (else $OPENPRIOR_SPARK_MASTER, else every core here)."""
    if not all(find_spec(name) for name in _NEEDED):
        raise SourceError("Spark needs pyspark, which is not installed; pip install 'openprior[spark]'")
    from pyspark.sql import SparkSession

    where = master or os.environ.get(MASTER) or _LOCAL
    problem = ""
    try:
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        if where.startswith("sc://"):
            return SparkSession.builder.remote(where).getOrCreate()
        _check_java()
        return _start(where)
    except spark_errors() as error:
        problem = f"Spark did not start on {where} ({_kind(error)}); check the master, and that `pyspark` starts there"
    except ImportError:
        problem = "Spark Connect needs more of pyspark; pip install 'pyspark[connect]'"
    raise SourceError(problem)


def _start(master: str) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # Executors must run the Python that has openprior.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAppName("openprior")
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf.setAll(list(settings.items()))
    # All that Java would print, from greetings to stack traces, goes nowhere.
    gateway = launch_gateway(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
    with _quiet():
        return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    where = "JAVA_HOME" if home else "the path"
    remedy = f"install a Java {_JAVA} runtime (and set JAVA_HOME to it)"
    if java is None:
        raise SourceError(f"Spark needs Java, and there is none at {where}; {remedy}")
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        raise SourceError(f"Spark needs Java, and the one at {where} does not run; {remedy}") from None
    version = re.search(r'version "(\d+)', said)
    if version and int(version[1]) < _JAVA:
        raise SourceError(f"Spark needs Java {_JAVA} or newer, and {where} has {version[1]}; {remedy}")


def spark_errors() -> tuple[type[BaseException], ...]:
    """What Spark, its bridge to Java, and a connection that breaks may raise."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    known: list[type[BaseException]] = [PySparkException, Py4JError, OSError, EOFError, pa.ArrowException]
    if "grpc" in sys.modules:
        known.append(sys.modules["grpc"].RpcError)
    return tuple(known)


def explain(error: BaseException) -> str:
    """Our words for a failure of Spark. Its own are searched for known causes and never shown."""
    words = str(error)
    missing = re.search(r"No module named '(openprior|numba|numpy|scipy|pyarrow|pandas)\b", words)
    if missing:
        return (
            f"Spark's executors have no {missing[1]}; install openprior for the Python that they run (PYSPARK_PYTHON), "
            "in the same version as here"
        )
    if "PYTHON_VERSION_MISMATCH" in words:
        return (
            "Spark's executors run another Python than this one; set PYSPARK_PYTHON to one that has openprior"
        )
    return (
        f"Spark could not read the table to its end ({_kind(error)}); "
        "check that the DataFrame can be written as it is, and what Spark's logs say"
    )


def _kind(error: BaseException) -> str:
    """The error's class, and its condition where Spark names one: both from fixed lists, neither has data."""
    condition = getattr(error, "getCondition", lambda: None)()
    name = type(error).__name__
    return (
        f"{name}, {condition}"
        if isinstance(condition, str) and re.fullmatch(r"[A-Z0-9_.]+", condition)
        else name
    )


def map_arrow(frame: Any, step: Step, schema: str) -> Any:
    """The frame whose partitions are what the step makes of this one's."""
    with _quiet():
        return frame.mapInArrow(step, schema)


def items_frame(session: Any, items: Iterable[bytes], tasks: int) -> Any:
    """A frame (index, item) spread evenly over at most so many tasks."""
    payloads = pa.array(list(items), pa.binary())
    table = pa.table({"index": pa.array(range(len(payloads)), pa.int64()), "item": payloads})
    with _quiet():
        frame = session.createDataFrame(table)
    # From one partition they are dealt out in turn, from several they are not.
    return frame.coalesce(1).repartition(max(1, min(tasks, len(payloads))))


def most_tasks(session: Any) -> int:
    """How many tasks a pass may have: several per core, so that a slow one does not hold up the rest; and no more, as
    each makes tables of its own."""
    try:
        context = session.sparkContext
        cores, master = int(context.defaultParallelism), str(context.master)
    except spark_errors():  # Spark Connect does not tell
        return _TASKS
    return _TASKS_PER_CORE * cores if master.startswith("local") else max(_TASKS_PER_CORE * cores, _TASKS)


@contextlib.contextmanager
def large_batches(session: Any, *, bounded: bool) -> Iterator[None]:
    """Larger Arrow batches meanwhile. Where rows are of bounded size their bytes need no counting, which is done row by
    row and takes as long as all the rest. Java compiles no method of more bytes than `_METHOD`, and one that reads
    dozens of columns has more: Spark then writes several small ones if told so (60 columns: five times as fast). A
    cluster that refuses this one setting is slower for it, and that is all."""
    settings = {_RECORDS_KEY: str(_RECORDS), _METHOD_KEY: str(_METHOD)}
    settings |= {_BYTES_KEY: str(2**31 - 1)} if bounded else {}
    before = {key: session.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            _configure(session, key, value)
        yield
    finally:
        for key, value in before.items():
            _configure(session, key, value)


def _configure(session: Any, key: str, value: str | None) -> None:
    """Set a setting, or take it back; `_METHOD_KEY` may be refused."""
    with contextlib.suppress(*(spark_errors() if key == _METHOD_KEY else ())):
        if value is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, value)


def mute() -> None:
    """Spark Connect's client logs errors as they come, with the values that they quote; that log is closed."""
    logging.getLogger("SQLQueryContextLogger").disabled = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Spark warns of every pandas that is newer than itself; nothing here uses pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
