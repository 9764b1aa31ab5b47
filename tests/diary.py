"""A source and a ledger that note what happens to them, to see that a charge comes before a read."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from openprior.privacy.ledger import Ledger

__all__ = ["DiaryLedger", "DiarySource"]


class DiarySource:
    """A source that notes every batch it hands out."""

    name, is_text = "secret", False

    def __init__(self, rows: pa.Table, diary: list[str]) -> None:
        self._rows, self._diary = rows, diary
        self.columns = tuple(rows.column_names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        size = max(10, self._rows.num_rows // 4)  # several batches, but not hundreds, which take long
        for batch in self._rows.select(list(columns or self.columns)).to_batches(max_chunksize=size):
            self._diary.append("read")
            yield batch


class DiaryLedger(Ledger):
    """A ledger that notes every charge once it is made."""

    def __init__(self, diary: list[str]) -> None:
        super().__init__()
        self._diary = diary

    def charge(self, run: str, seq: int, rho: float, event: Mapping[str, object]) -> None:
        super().charge(run, seq, rho, event)
        self._diary.append("charge")
