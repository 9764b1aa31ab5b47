"""Names in a text: parted by signs, kept together by double quotes, and written so that they can be read back."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openprior.errors import OpenPriorError, OptionError, without_passwords
from openprior.questions.quotes import names, quoted, split, unquoted
from openprior.questions.workload import (
    Workload,
    all_marginals,
    random_marginals,
    target_marginals,
    workload_from,
)
from openprior.schema.domain import Domain

ODD = [
    "age, years",
    "a;b",
    "a:b",
    'say "hi"',
    '"quoted"',
    " blanks ",
    "",
    "a|b",
    "x=1",
    "(a",
    "3",
    "random:1",
]


def test_signs_in_quotes_part_nothing() -> None:
    assert names('"age, years",sex') == ["age, years", "sex"]
    assert names(' "a;b" , c ') == ["a;b", "c"]
    assert names('"say ""hi""",x') == ['say "hi"', "x"]
    assert split('"a;b",c;d', ";") == ['"a;b",c', "d"]
    assert names('5" pipe,6" pipe') == ['5" pipe', '6" pipe']  # a quote inside a name is a letter
    assert names("a (b,c)") == ["a (b", "c)"]  # parentheses mean nothing among columns
    assert split("a=(b,c),d", ",", parentheses=True) == ["a=(b,c)", "d"]


@pytest.mark.parametrize("text", ['"a', 'a,"b', '"a"b', '"a" "b"', '"'])
def test_quotes_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"close it, or write two|put the whole name in double quotes"):
        names(text)


@given(st.lists(st.text(max_size=8) | st.sampled_from(ODD), min_size=1, max_size=4))
def test_names_come_back_as_they_were(columns: list[str]) -> None:
    for sign in ",;":
        assert names(sign.join(map(quoted, columns)), sign) == columns
    assert [unquoted(quoted(name)) for name in columns] == columns


def test_a_workload_of_any_names_can_be_written() -> None:
    columns = [name for name in ODD if name]
    text = ";".join(f"{quoted(a)},{quoted(b)}" for a, b in itertools.pairwise(columns))
    assert workload_from(text) == Workload(list(itertools.pairwise(columns)))
    domain = Domain(dict.fromkeys(columns, 2))
    assert workload_from('target:"age, years":2').on(domain) == target_marginals("age, years", 2).on(domain)
    assert workload_from("target:a:b:2") == target_marginals("a:b", 2)
    assert workload_from(" 3 ") == all_marginals(3) and workload_from("random:2:5:7") == random_marginals(
        2, 5, 7
    )
    assert workload_from('"3"') == Workload(["3"]) == workload_from('"3";')


@pytest.mark.parametrize(
    "text", ["random:2", "random:a:b:c", "target:age", "target:age:many", "²", "random:1:2:3:4"]
)
def test_what_is_not_understood_is_told_with_the_ways_to_write_it(text: str) -> None:
    with pytest.raises(OptionError, match=f"{text}' is not understood; write '3' for all 3-way marginals"):
        workload_from(text)


@example(
    ":/:"
)  # an address with a password, as far as anyone can tell: what follows it is hidden, the "; " too
@given(st.text(max_size=30) | st.text('",;:|=()ab3 ', max_size=30))
def test_any_text_is_a_workload_or_refused(text: str) -> None:
    try:
        workload_from(text).on(Domain({"a": 2, "b": 3}))
    except OpenPriorError as error:
        hidden = without_passwords(text) != text and "…" in str(error)
        assert hidden or "; " in str(error) or "must be" in str(error)
