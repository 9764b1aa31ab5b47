"""Settings of a Spark session, changed while rows are counted and put back afterwards."""

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from openprior.spark.cluster import large_batches

METHOD = "spark.sql.codegen.hugeMethodLimit"
RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Session:
    """A session with one setting of its own, which may refuse others."""

    def __init__(self, refused: str = "") -> None:
        self.conf: Any = self
        self.kept, self.refused = {RECORDS: "7"}, refused

    def get(self, key: str, default: str | None) -> str | None:
        return self.kept.get(key, default)

    def set(self, key: str, value: str) -> None:
        if key == self.refused:
            raise PySparkException("no")
        self.kept[key] = value

    def unset(self, key: str) -> None:
        self.kept.pop(key, None)


@pytest.mark.parametrize("refused", ["", METHOD])
def test_settings_are_put_back(refused: str) -> None:
    session = Session(refused)
    with pytest.raises(KeyError), large_batches(session, bounded=True):
        assert session.kept[RECORDS] != "7"
        assert (METHOD in session.kept) == (not refused)
        raise KeyError
    assert session.kept == {RECORDS: "7"}


def test_only_what_makes_it_faster_alone_may_be_refused() -> None:
    with pytest.raises(PySparkException), large_batches(Session(RECORDS), bounded=True):
        pass
