"""Numbers and dates as offices write them, each in the usual spelling; what is written in another way is neither."""

import pyarrow as pa
import pytest

from openprior import Reading
from openprior.tables.convert import moments, numbers
from openprior.tables.spelling import plain_moments, plain_numbers


@pytest.mark.parametrize(
    ("reading", "word", "number"),
    [
        (Reading(decimal=","), "1,5", 1.5),
        (Reading(decimal=","), "1.5", None),
        (Reading(decimal=",", thousands="."), "-1.234.567,25", -1234567.25),
        (Reading(decimal=",", thousands="."), "1234567", 1234567),
        (Reading(decimal=",", thousands="."), "1234.567", None),
        (Reading(decimal=",", thousands="."), "12.34", None),
        (Reading(decimal=",", thousands="."), "1.234,567.8", None),
        (Reading(thousands=","), "1,234.5", 1234.5),
        (Reading(thousands=","), ",234", None),
        (Reading(thousands=" "), "12 345", 12345),
        (Reading(thousands=" "), "12\N{NO-BREAK SPACE}345\N{NARROW NO-BREAK SPACE}678", 12345678),
        (Reading(thousands="'"), "1'000", 1000),
        (Reading(decimal=","), "1,5e3", 1500.0),
        (Reading(decimal=","), "-", None),
        (Reading(decimal=","), str(2**63 - 1), 2**63 - 1),
    ],
)
def test_numbers(reading: Reading, word: str, number: float | None) -> None:
    found = numbers(pa.array([word, None]), reading)
    assert found.null is not None and found.null.tolist() == [False, True]
    assert (found.unparsed is not None and bool(found.unparsed[0])) == (number is None)
    if number is not None:
        assert found.merged()[0] == number


@pytest.mark.parametrize(
    ("date_format", "word", "iso"),
    [
        ("%d.%m.%Y", "30.6.2018", "2018-06-30"),
        ("%d.%m.%Y", "2018-06-30", None),
        ("%d.%m.%Y", "30.06.18", None),
        ("%d.%m.%y", "30.06.68", "2068-06-30"),
        ("%d.%m.%y", "30.06.69", "1969-06-30"),
        ("%d %b %Y", "3 mar 2018", "2018-03-03"),
        ("%d %b %Y", "3 mär 2018", None),
        ("%B %d, %Y", "September 3, 2018", "2018-09-03"),
        ("%Y%m%d", "20180630", "2018-06-30"),
        ("%Y%m%d", "2018630", None),
        ("%m/%d/%Y %I:%M %p", "06/30/2018 12:05 AM", "2018-06-30 00:05"),
        ("%m/%d/%Y %I:%M %p", "06/30/2018 12:05 PM", "2018-06-30 12:05"),
        ("%m/%d/%Y %I:%M %p", "06/30/2018 13:05 PM", None),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2018-06-30T07:30:05.5+0200", "2018-06-30 07:30:05.5+0200"),
        ("100%% %d.%m.%Y", "100% 30.06.2018", "2018-06-30"),
    ],
)
def test_dates(date_format: str, word: str, iso: str | None) -> None:
    reading = Reading(date_format=date_format)
    found = plain_moments(pa.array([word, None]), reading, time_of_day=False)
    assert found.to_pylist() == [iso or "-", None]
    assert (moments(found, time_of_day=False).unparsed is None) == (iso is not None)
    assert plain_moments(pa.array([word]), reading, time_of_day=True).to_pylist() == [word]


def test_a_format_of_times_is_for_times_of_day() -> None:
    reading, words = Reading(date_format="%H.%M"), pa.array(["7.30", "07:30"])
    assert plain_moments(words, reading, time_of_day=True).to_pylist() == ["07:30", "-"]
    assert plain_moments(words, reading, time_of_day=False) is words


def test_what_is_as_usual_is_left_alone() -> None:
    words = pa.array(["1,5"])
    assert plain_numbers(words, Reading(null_values=("x",))) is words
    assert plain_moments(words, Reading(decimal=","), time_of_day=False) is words
