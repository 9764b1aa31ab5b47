"""Dates as statistics programs store them: numbers of days, seconds or months, and a format that says so.

The format stands in the file's header, so it is known without a row. SPSS counts seconds from 14 October 1582, SAS days
or seconds and Stata days, milliseconds or months from 1 January 1960. Formats that show a length of time, or a year
alone, are no dates and leave the number as it is. What a number becomes depends on the number and the format alone.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.schema.bins import DAY

__all__ = ["Clock", "clock_of"]

_SECOND = 1_000_000
_SPSS_START, _START = -141_428 * DAY, -3_653 * DAY
"""14 October 1582 and 1 January 1960, in microseconds from 1970."""
_FAR = 2.0**62
_FIRST_MONTH = np.datetime64("1960-01", "M")
_MOST_MONTHS = 1e7  # or quarters: further from 1960 than any moment that is kept

_NAME = re.compile(r"([A-Z]|[A-Z][A-Z0-9]*[A-Z])\d*(\.\d*)?")
_SPSS_DATES = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "QYR", "MOYR", "WKYR"}
_SPSS_MOMENTS, _SPSS_TIMES = {"DATETIME", "YMDHMS"}, {"TIME", "MTIME"}
_ISO = ("B8601", "E8601", "IS8601")
_SAS_DATES = (
    {"DATE", "WEEKDATE", "WEEKDATX", "WORDDATE", "WORDDATX", "JULIAN", "MONYY", "YYMON", "NLDATE"}
    | {f"{iso}DA" for iso in _ISO}
    | {
        order + mark
        for order in ("DDMMYY", "MMDDYY", "YYMMDD", "YYMM", "MMYY", "YYQ")
        for mark in ("", "B", "C", "D", "N", "P", "S")
    }
)
_SAS_MOMENTS = {"DATETIME", "DATEAMPM", "MDYAMPM", "DTDATE", "DTMONYY", "DTWKDATX", "DTYYQC", "NLDATM"} | {
    iso + what for iso in _ISO for what in ("DT", "DN")
}
_SAS_TIMES = {"TIME", "HHMM", "TOD", "TIMEAMPM", "NLTIME"} | {f"{iso}TM" for iso in _ISO}
_STATA_DAYS, _STATA_MOMENTS = re.compile(r"%-?(td|d).*"), re.compile(r"%-?t[cC].*")
_STATA_TIMES = re.compile(r"%-?t[cC]([hH]{1,2}|MM|SS|\.s+|[:_ ]|[aA]\.?[mM]\.?)+")
_STATA_MONTHS = re.compile(r"%-?t([mqh]).*")


@dataclass(frozen=True)
class Clock:
    """How a column's numbers count time: what they are, the microseconds or months of one, and where zero is."""

    kind: str
    unit: int
    start: int = 0

    def read(self, numbers: pa.Array) -> pa.Array:
        """The numbers, doubles, as dates, moments or times of day; null stays null."""
        values = numbers.to_numpy(zero_copy_only=False)
        null = np.isnan(values)
        values = np.where(null, 0.0, values)
        if self.kind == "months":
            months = np.floor(np.clip(values, -_MOST_MONTHS, _MOST_MONTHS)).astype(np.int64) * self.unit
            first = (_FIRST_MONTH + months).astype("datetime64[D]")
            return pa.array(first.astype(np.int64).astype(np.int32), mask=null).view(pa.date32())
        far = _FAR / self.unit
        ticks = np.round(np.clip(values, -far, far) * self.unit).astype(np.int64) + self.start
        if self.kind == "date":
            return pa.array((ticks // DAY).astype(np.int32), mask=null).view(pa.date32())
        if self.kind == "moment":
            return pa.array(ticks, mask=null).view(pa.timestamp("us"))
        return _times(values, ticks, null)


def clock_of(program: str, form: str | None) -> Clock | None:
    """The clock of a column by its format ("spss", "sas" or "stata"); None if the format is none of time.

    >>> clock_of("stata", "%td").read(pa.array([21915.0, None])).to_pylist()
    [datetime.date(2020, 1, 1), None]
    >>> clock_of("spss", "DATE11").read(pa.array([13797216000.0])).to_pylist()
    [datetime.date(2020, 1, 1)]
    >>> clock_of("sas", "BEST12.") is None
    True
    """
    if form is None:
        return None
    if program == "stata":
        return _stata(form)
    match = _NAME.fullmatch(form.upper())
    if match is None:
        return None
    name = match[1]
    if program == "spss":
        for kind, names in (("date", _SPSS_DATES), ("moment", _SPSS_MOMENTS), ("time", _SPSS_TIMES)):
            if name in names:
                return Clock(kind, _SECOND, 0 if kind == "time" else _SPSS_START)
        return None
    if name in _SAS_DATES:
        return Clock("date", DAY, _START)
    if name in _SAS_MOMENTS:
        return Clock("moment", _SECOND, _START)
    return Clock("time", _SECOND) if name in _SAS_TIMES else None


def _stata(form: str) -> Clock | None:
    if _STATA_DAYS.fullmatch(form):
        return Clock("date", DAY, _START)
    if _STATA_TIMES.fullmatch(form):
        return Clock("time", 1000)
    if _STATA_MOMENTS.fullmatch(form):
        return Clock("moment", 1000, _START)
    match = _STATA_MONTHS.fullmatch(form)
    return None if match is None else Clock("months", {"m": 1, "q": 3, "h": 6}[match[1]])


def _times(
    values: npt.NDArray[np.float64], ticks: npt.NDArray[np.int64], null: npt.NDArray[np.bool_]
) -> pa.Array:
    """Times of day; a number that is none, as 25 hours or a moment, stays a number."""
    beyond = (ticks < 0) | (ticks >= DAY)
    times = pa.array(np.where(beyond, 0, ticks), mask=null).view(pa.time64("us"))
    if not beyond.any():
        return times
    places = pa.array(np.arange(len(values), dtype=np.int32))
    return pa.UnionArray.from_dense(pa.array(beyond.astype(np.int8)), places, [times, pa.array(values)])
