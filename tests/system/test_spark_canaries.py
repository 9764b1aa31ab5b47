"""The canaries once more with Spark: neither the driver nor the workers tell them.

What the Java process prints goes nowhere (`spark/cluster.py`); its files lie in the folder that is watched.
"""

import os
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet

from openprior.spark.cluster import open_session
from tests.console import say
from tests.leaks import watching
from tests.system.test_canaries import CANARIES, REFUSED, place, private_table

__all__ = ["place"]

ROOT = Path(__file__).parents[2]
MASTER = "local[2,2]"
WORDS = (
    "--public", "public.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6", "-m", "mst",
    "--engine", "spark", "--spark-master", MASTER,
)  # fmt: skip

pytest.importorskip("pyspark", reason="Spark needs pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore:.*does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # Spark's sockets
]


def test_releases_and_refusals(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    for part in range(3):
        parquet.write_table(private_table(), place / f"part{part}.parquet")
    (place / "parts").mkdir()
    for file in place.glob("part?.parquet"):
        file.rename(place / "parts" / file.name)
    with watching(place, capfd) as watch:
        session = open_session(MASTER)
        try:
            for relation in ("replace-one", "add-remove"):
                words = ("--relation", relation, "--ledger", f"{relation}.sqlite", "--new-ledger")
                said = say("release", "parts", *WORDS, *words, "-o", f"out-{relation}")
                assert said.code == 0, said.err
                watch.tell("release", said.out + said.err)
            for name, content in REFUSED.items():
                Path("private.csv").write_bytes(content)
                said = say("release", "private.csv", *WORDS, "-o", "out")
                assert said.code == 1 and not Path("out").exists(), (name, said)
                watch.tell("release", said.out + said.err)
        finally:
            session.stop()
    assert watch.leaks(CANARIES) == set()
